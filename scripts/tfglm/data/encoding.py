"""Values to codes, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import SPLITS
from tfglm.data import shards
from tfglm.data.distinct import Distinct
from tfglm.data.shards import Kind, StoredColumn
from tfglm.errors import UserError

MOST_LEVELS = 2**22
"""Distinct texts of a column of one file from which on it is refused: it identifies rows, and no term can be made of it."""


def kind_of(values: pa.Array) -> Kind:
    """What the values of a column are; dates become text."""
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return "integer"
    return "number" if pa.types.is_floating(values.type) or pa.types.is_null(values.type) else "text"


@dataclass(frozen=True)
class Group:
    """The rows of a chunk or a shard that are of one split, given by its number, and lack the same values, given by their code
    of the column MISSING."""

    split: int
    pattern: int
    rows: slice | np.ndarray


def groups_of(patterns: np.ndarray, split: int, first: int, last: int) -> list[Group]:
    """The groups among the rows `first` to `last` (excluded), all of one split. `patterns` are the codes of all rows."""
    present = np.flatnonzero(counted(patterns[first:last])).tolist() if last > first else []
    if len(present) == 1:
        return [Group(split, present[0], slice(first, last))]
    return [Group(split, one, first + np.flatnonzero(patterns[first:last] == one)) for one in present]


@dataclass
class ColumnEncoder:
    """One column of a file while it is read.

    As long as `coded`, chunks are provisional codes that count from 1 into `values`, 0 for a missing value; a number column
    that turns out to have MOST_CODES values or more goes on as plain float64, NaN for missing ones. In the end the values
    that occur in a kept row get their codes by rank, so that these depend on the rows alone.
    """

    name: str
    kind: Kind
    coded: bool = True
    values: list = field(default_factory=list)
    codes: dict = field(default_factory=dict)
    narrow: bool = True
    counts: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """Rows by provisional code, for each split and pattern of missing values."""
    tables: dict[int, tuple[pa.Array, np.ndarray]] = field(default_factory=dict)
    """What the values of recent blocks were encoded as, by their identity: the same array often comes again."""

    def encode(self, column: Distinct) -> np.ndarray:
        """The rows as they are kept until the end of the file: small unsigned integers or float64."""
        held, table = self.tables.get(id(column.values), (None, None))
        if held is not column.values:
            table = self._table(column.values)
            self.tables = dict(list(self.tables.items())[-7:]) | {id(column.values): (column.values, table)}
        return table.take(column.indices, mode="wrap")  # -1, a missing value, takes the last entry

    def _table(self, values: pa.Array) -> np.ndarray:
        """What each of some values is encoded as, and behind them a missing one."""
        listed = values.cast(pa.string()).to_pylist() if self.kind == "text" else values.to_numpy(False).tolist()
        if self.coded:
            for value in listed:
                if value not in self.codes and value == value:
                    self.codes[value] = len(self.values) + 1
                    self.values.append(value)
            self._check_number()
        if self.coded:
            # A NaN is a missing value.
            return np.array([*(self.codes.get(value, 0) for value in listed), 0], code_type(len(self.values)))
        return np.array([*listed, np.nan], float)

    def _check_number(self) -> None:
        if self.kind == "text" and len(self.values) > MOST_LEVELS:
            raise UserError(
                f"column `{self.name}`: more than {MOST_LEVELS:,} different texts in one file, so it can be no term of a "
                f"model; take it out of data.columns"
            )
        if self.kind != "text" and len(self.values) >= shards.MOST_CODES:
            self.coded, self.codes, self.tables = False, {}, {}

    def note(self, chunk: np.ndarray, groups: Sequence[Group]) -> None:
        """Count the values of a chunk of kept rows, which has these groups; every one of them comes by here."""
        if chunk.dtype == np.float64:
            self.narrow = self.narrow and survives_float32(chunk)
            return
        for group in groups:
            self._count((group.split, group.pattern), counted(chunk[group.rows]))

    def _count(self, group: tuple[int, int], rows: np.ndarray) -> None:
        before = self.counts.get(group, np.zeros(0, np.int64))
        shorter, longer = sorted((before, rows), key=len)
        self.counts[group] = np.concatenate([shorter + longer[: len(shorter)], longer[len(shorter) :]])

    def finish(self) -> "FinishedColumn":
        """How the column is stored, once all rows have been noted."""
        present = np.zeros(len(self.values) + 1, bool)
        for rows in self.counts.values():
            present[: len(rows)] |= rows > 0
        used = sorted((np.flatnonzero(present[1:]) + 1).tolist(), key=lambda code: self.values[code - 1])
        levels = [self.values[code - 1] for code in used]
        if self.coded:
            final = np.zeros(len(self.values) + 1, code_type(len(levels)))
            final[used] = np.arange(1, len(levels) + 1)
        else:
            narrow = self.narrow and survives_float32(np.array(levels, float))
            final = np.array([np.nan, *self.values], np.float32 if narrow else np.float64)
        rows = {
            group: np.bincount(final[: len(rows)], rows, len(levels) + 1).astype(np.int64)
            for group, rows in (self.counts.items() if self.coded else ())
        }
        return FinishedColumn(StoredColumn(self.name, self.kind, final.dtype.name, self.coded), levels, final, rows)


@dataclass(frozen=True)
class FinishedColumn:
    """A column whose values are all known: `levels` are what the codes 1, 2, ... stand for, if it is coded, `final` what each
    provisional code becomes, and `rows` how many rows have each code, by the number of the split and the provisional code
    of the pattern of missing values."""

    stored: StoredColumn
    levels: list
    final: np.ndarray
    rows: dict[tuple[int, int], np.ndarray]

    def finished(self, chunk: np.ndarray) -> np.ndarray:
        """What `ColumnEncoder.encode` gave, as it is stored."""
        if chunk.dtype == np.float64:
            return chunk.astype(self.final.dtype, copy=False)
        if chunk.dtype == self.final.dtype == np.uint8:
            # Four times as fast as take, which needs indices of 8 bytes.
            table = self.final.tobytes().ljust(256, b"\0")
            return np.frombuffer(chunk.tobytes().translate(table), np.uint8)
        return self.final.take(chunk)


def counted(codes: np.ndarray) -> np.ndarray:
    """How often each code occurs."""
    if codes.dtype != np.uint8 or len(codes) < 2**16:
        return np.bincount(codes)
    # Two at a time takes half as long.
    pairs = np.bincount(codes[: len(codes) // 2 * 2].view(np.uint16), minlength=2**16).reshape(256, 256)
    rows = pairs.sum(0) + pairs.sum(1)
    rows[codes[-1]] += len(codes) % 2
    return np.trim_zeros(rows, "b")


def code_type(values: int) -> np.dtype:
    """The smallest unsigned type for the codes 0 to `values`."""
    return np.min_scalar_type(values)


def survives_float32(values: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(((values.astype(np.float32) == values) | np.isnan(values)).all())


LEVELS_SCHEMA = {
    "column": pl.String,
    "code": pl.Int64,
    "split": pl.String,
    "pattern": pl.Int64,
    "rows": pl.Int64,
    "text": pl.String,
    "number": pl.Float64,
    "mean": pl.Float64,
    "variance": pl.Float64,
    "minimum": pl.Float64,
    "maximum": pl.Float64,
}
"""`levels.parquet`: how many rows of which split have a code of a column, by the pattern of missing values in the row (the
code of MISSING). `text` or `number` is the value that the code stands for. A column that is stored as it is has code 0,
and instead of the value its mean, variance (divisor n), minimum and maximum, for each shard."""


def moments(stored: np.ndarray, groups: Sequence[Group]) -> list[dict]:
    """What `levels.parquet` says of some rows of a column that is stored as it is; by NumPy, whose sums are the same every
    time."""
    described = []
    for group in groups:
        rows = stored[group.rows]
        there = rows[~np.isnan(rows)].astype(np.float64)
        if len(there):
            names = {"code": 0, "split": SPLITS[group.split], "pattern": group.pattern, "rows": len(there)}
            values = {"mean": there.mean(), "variance": there.var(), "minimum": there.min(), "maximum": there.max()}
            described.append(names | {name: float(value) for name, value in values.items()})
    return described


def levels_table(column: FinishedColumn, patterns: FinishedColumn, described: list[dict]) -> pl.DataFrame:
    """The rows of `levels.parquet` for one column; `patterns` is the column MISSING, and `described` the moments of all
    shards, if the column is stored as it is."""
    parts = [pl.DataFrame(described, LEVELS_SCHEMA)]
    meaning = "text" if column.stored.kind == "text" else "number"
    values = pl.Series(meaning, [None, *column.levels], dtype=LEVELS_SCHEMA[meaning], strict=False)
    for (split, pattern), rows in column.rows.items():
        codes = np.flatnonzero(rows)
        part = pl.DataFrame({"code": codes, "rows": rows[codes], meaning: values.gather(codes)})
        group = {"split": pl.lit(SPLITS[split]), "pattern": pl.lit(int(patterns.final[pattern]), dtype=pl.Int64)}
        parts.append(part.with_columns(**group))
    table = pl.concat(parts, how="diagonal").with_columns(column=pl.lit(column.stored.name))
    return table.select(LEVELS_SCHEMA.keys()).sort("code", "split", "pattern", maintain_order=True)
