"""Values to codes, block by block."""

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
    used: set[int] = field(default_factory=set)
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

    def note(self, chunk: np.ndarray) -> None:
        """Take notice of which values the kept rows have; every chunk of them comes by here."""
        if chunk.dtype == np.float64:
            self.narrow = self.narrow and survives_float32(chunk)
            return
        present = np.flatnonzero(np.bincount(chunk))
        self.used.update(present.tolist())

    def finish(self) -> "FinishedColumn":
        """How the column is stored, once all rows have been noted."""
        used = sorted(self.used - {0}, key=lambda code: self.values[code - 1])
        levels = [self.values[code - 1] for code in used]
        if self.coded:
            final = np.zeros(len(self.values) + 1, code_type(len(levels)))
            final[used] = np.arange(1, len(levels) + 1)
        else:
            narrow = self.narrow and survives_float32(np.array(levels, float))
            final = np.array([np.nan, *self.values], np.float32 if narrow else np.float64)
        return FinishedColumn(StoredColumn(self.name, self.kind, final.dtype.name, self.coded), levels, final)


@dataclass(frozen=True)
class FinishedColumn:
    """A column whose values are all known: `levels` are what the codes 1, 2, ... stand for, if it is coded, and `final` what
    each provisional code becomes."""

    stored: StoredColumn
    levels: list
    final: np.ndarray

    def finished(self, chunk: np.ndarray) -> np.ndarray:
        """What `ColumnEncoder.encode` gave, as it is stored."""
        if chunk.dtype == np.float64:
            return chunk.astype(self.final.dtype, copy=False)
        return self.final.take(chunk)


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


class LevelCounts:
    """The rows of `levels.parquet` for one column, counted shard by shard."""

    def __init__(self, column: FinishedColumn) -> None:
        self.column = column
        self.rows: dict[tuple[int, int], np.ndarray] = {}
        self.moments: list[dict] = []

    def add(self, stored: np.ndarray, split: int, patterns: np.ndarray) -> None:
        """Count the rows of a shard of the split with that number. `patterns` are their codes of MISSING, [rows]."""
        present = np.flatnonzero(np.bincount(patterns)).tolist()
        for pattern in present:
            rows = stored if len(present) == 1 else stored[patterns == pattern]
            if self.column.stored.coded:
                self._count(rows, split, pattern)
            else:
                self._describe(rows[~np.isnan(rows)].astype(np.float64), split, pattern)

    def _count(self, codes: np.ndarray, split: int, pattern: int) -> None:
        total = self.rows.setdefault((split, pattern), np.zeros(len(self.column.levels) + 1, np.int64))
        total += np.bincount(codes, minlength=len(total))

    def _describe(self, values: np.ndarray, split: int, pattern: int) -> None:
        """By NumPy, whose sums are the same every time."""
        if len(values):
            moments = {
                "mean": values.mean(),
                "variance": values.var(),
                "minimum": values.min(),
                "maximum": values.max(),
            }
            group = {"code": 0, "split": SPLITS[split], "pattern": pattern, "rows": len(values)}
            self.moments.append(group | {name: float(value) for name, value in moments.items()})

    def merge(self, other: "LevelCounts") -> None:
        """Add what was counted of other rows of the column."""
        for group, rows in other.rows.items():
            self.rows[group] = self.rows.get(group, 0) + rows
        self.moments += other.moments

    def table(self) -> pl.DataFrame:
        """The rows, in the order of LEVELS_SCHEMA."""
        parts = [pl.DataFrame(self.moments, LEVELS_SCHEMA)]
        meaning = "text" if self.column.stored.kind == "text" else "number"
        values = pl.Series(meaning, [None, *self.column.levels], dtype=LEVELS_SCHEMA[meaning], strict=False)
        for (split, pattern), rows in sorted(self.rows.items()):
            codes = np.flatnonzero(rows)
            part = pl.DataFrame({"code": codes, "rows": rows[codes], meaning: values.gather(codes)})
            parts.append(part.with_columns(split=pl.lit(SPLITS[split]), pattern=pl.lit(pattern, dtype=pl.Int64)))
        table = pl.concat(parts, how="diagonal").with_columns(column=pl.lit(self.column.stored.name))
        return table.select(LEVELS_SCHEMA.keys()).sort("code", "split", "pattern", maintain_order=True)
