"""Values to codes, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import SPLITS
from tfglm.data import lookups, shards
from tfglm.data.distinct import Distinct, Recent
from tfglm.data.kinds import EXACT_BELOW, Kind
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.shards import StoredColumn, raw_type
from tfglm.errors import UserError


def kind_of(values: pa.Array) -> Kind:
    """What the values of a column are; dates become text. Raises TypeError for a type that no column comes in."""
    kind = values.type
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_null(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "image"
    raise TypeError(f"a column of values of type {kind}")


@dataclass(frozen=True)
class Group:
    """The rows of a chunk or a shard that are of one split, given by its number, and lack the same values, given by their code
    of the column MISSING. `span` are all rows of the split."""

    split: int
    pattern: int
    span: slice
    rows: slice | np.ndarray

    def __len__(self) -> int:
        return len(self.rows) if isinstance(self.rows, np.ndarray) else self.rows.stop - self.rows.start


def groups_of(patterns: np.ndarray, split: int, first: int, last: int) -> list[Group]:
    """The groups among the rows `first` to `last` (excluded), all of one split. `patterns` are the codes of all rows."""
    span = slice(first, last)
    present = np.flatnonzero(lookups.counted(patterns[span])).tolist()
    if len(present) == 1:
        return [Group(split, present[0], span, span)]
    return [Group(split, code, span, first + np.flatnonzero(patterns[span] == code)) for code in present]


class Texts:
    """Provisional codes of texts: they count from 1 into `values`."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str | None, int] = {None: 0}

    def encode(self, values: pa.Array) -> np.ndarray:
        """The codes of some values, new ones for those that are; 0 for a missing one."""
        texts = values.cast(pa.string()).to_pylist()
        for text in texts:
            if text not in self._codes:
                self._codes[text] = len(self.values) + 1
                self.values.append(text)
        return np.array([self._codes[text] for text in texts], np.uint32)

    def in_order(self, codes: np.ndarray) -> np.ndarray:
        """Codes, those of smaller values first."""
        return np.array(sorted(codes.tolist(), key=lambda code: self.values[code - 1]), np.int64)


class Numbers:
    """The same of integers (int64) or numbers (float64); without a dict, which takes ten times the memory."""

    def __init__(self, dtype: type):
        self.values: np.ndarray = np.zeros(0, dtype)
        self._sorted: np.ndarray = np.zeros(0, dtype)
        self._codes: np.ndarray = np.zeros(0, np.uint32)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """As `Texts.encode`; NaN is missing."""
        known = values == values
        places = self._places(values)
        new = np.unique(values[known & ~self._is_at(places, values)])
        if len(new):
            codes = np.arange(1, len(new) + 1, dtype=np.uint32) + np.uint32(len(self.values))
            where = np.searchsorted(self._sorted, new)
            self._sorted, self._codes = np.insert(self._sorted, where, new), np.insert(self._codes, where, codes)
            self.values = np.concatenate([self.values, new])
            places = self._places(values)
        return (
            np.where(known, self._codes[places], np.uint32(0)) if len(self.values) else np.zeros(len(values), np.uint32)
        )

    def _places(self, values: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(self._sorted, values), max(len(self._sorted) - 1, 0))

    def _is_at(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self._sorted[places] == values if len(self._sorted) else np.zeros(len(values), bool)

    def in_order(self, codes: np.ndarray) -> np.ndarray:
        return codes[np.argsort(self.values[codes - 1], kind="stable")]


@dataclass
class ColumnEncoder:
    """One column of a file while it is read.

    As long as `coded`, chunks are provisional codes that count from 1 into the distinct values, 0 for a missing value. A number
    column that turns out to have `limits.most_codes` values or more goes on as plain float64, NaN for missing ones; an integer
    column after `limits.most_levels`. In the end the values that occur in a kept row get their codes by rank, so that these
    depend on the rows alone.
    """

    name: str
    kind: Kind
    limits: IngestLimits = DEFAULT_LIMITS
    coded: bool = True
    narrow: bool = True
    counts: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """Rows by provisional code, for each split and pattern of missing values."""
    tables: Recent[np.ndarray] = field(default_factory=Recent)
    """What the values of recent blocks were encoded as."""

    def __post_init__(self) -> None:
        self.distinct = Texts() if self.kind == "text" else Numbers(np.int64 if self.kind == "integer" else np.float64)

    def encode(self, column: Distinct) -> np.ndarray:
        """The rows as they are kept until the end of the file: small unsigned integers or float64."""
        table = self.tables.of([column.values], lambda: self._table(column.values))
        return column.through(table)

    def _table(self, values: pa.Array) -> np.ndarray:
        """What each of some values is encoded as, and behind them a missing one."""
        typed = values if self.kind == "text" else self._numbers(values)
        if self.coded:
            # One code more, for the missing value behind them.
            codes = np.append(self.distinct.encode(typed), np.uint32(0)).astype(code_type(len(self.distinct.values)))
            self._check_number()
            if self.coded:
                return codes
        return np.append(self._plain(typed), np.nan)

    def _numbers(self, values: pa.Array) -> np.ndarray:
        """Integers as int64, others as float64, in which no zero is negative."""
        if self.kind == "number":
            return pl.Series(values.cast(pa.float64())).to_numpy() + 0.0
        try:
            return pl.Series(values.cast(pa.int64())).to_numpy()
        except pa.ArrowInvalid as error:
            raise UserError(
                f"column `{self.name}`: {error}; an integer has 64 bits with its sign\n"
                f"  read the column as text, with `type: string` in the layout"
            ) from error

    def _plain(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as float64. Raises UserError for an integer that would be rounded."""
        if self.kind == "integer" and len(numbers) and max(-int(numbers.min()), int(numbers.max())) > EXACT_BELOW:
            raise UserError(
                f"column `{self.name}`: more than {self.limits.most_levels:,} different integers in one file, some "
                "of them beyond 2^53, which a float64 cannot hold exactly; take it out of data.columns, or derive a "
                "coarser one under data.derive"
            )
        return numbers.astype(np.float64)

    def _check_number(self) -> None:
        values = self.distinct.values
        if self.kind == "text" and len(values) > self.limits.most_levels:
            raise UserError(
                f"column `{self.name}`: more than {self.limits.most_levels:,} different texts in one file, too many "
                "for a term of a model; take it out of data.columns"
            )
        if (self.kind == "number" and len(values) >= self.limits.most_codes) or len(values) > self.limits.most_levels:
            self.coded = False
            self.tables.forget()
            self._plain(np.asarray(values))

    def note(self, chunk: np.ndarray, groups: Sequence[Group]) -> None:
        """Count the values of a chunk of kept rows, which has these groups; every one of them comes by here."""
        if chunk.dtype == np.float64:
            self.narrow = self.narrow and survives_float32(chunk)
            return
        for split in {group.split for group in groups}:
            *others, largest = sorted((group for group in groups if group.split == split), key=Group.__len__)
            rows = lookups.counted(chunk[largest.span])  # which is much faster than in places
            for group in others:
                of_group = lookups.counted(chunk[group.rows])
                rows[: len(of_group)] -= of_group
                self._count((split, group.pattern), of_group)
            self._count((split, largest.pattern), rows)

    def _count(self, group: tuple[int, int], rows: np.ndarray) -> None:
        before = self.counts.get(group, np.zeros(0, np.int64))
        shorter, longer = sorted((before, rows), key=len)
        self.counts[group] = np.concatenate([shorter + longer[: len(shorter)], longer[len(shorter) :]])

    def finish(self) -> "list[FinishedColumn]":
        """How the column is stored, once all rows have been noted. An integer with `limits.most_codes` values or more is stored
        twice: as the number that it is, and as codes, for those who use it as an identifier."""
        values = self.distinct.values
        present = np.zeros(len(values) + 1, bool)
        for rows in self.counts.values():
            present[: len(rows)] |= rows > 0
        used = self.distinct.in_order(np.flatnonzero(present[1:]) + 1)
        levels: Sequence = [values[code - 1] for code in used] if isinstance(values, list) else values[used - 1]
        stored = []
        if self.kind != "text" and (not self.coded or len(levels) >= self.limits.most_codes):
            narrow = self.narrow and survives_float32(np.asarray(levels, float))
            final = np.append(np.nan, values).astype(np.float32 if narrow else np.float64)
            stored.append(FinishedColumn(StoredColumn(self.name, self.kind, final.dtype.name, False), [], final, {}))
        if self.coded:
            name = shards.codes_name(self.name) if stored else self.name
            final = np.zeros(len(values) + 1, code_type(len(levels)))
            final[used] = np.arange(1, len(levels) + 1)
            counts = {
                group: np.bincount(final[: len(rows)], rows, len(levels) + 1).astype(np.int64)
                for group, rows in self.counts.items()
            }
            stored.append(FinishedColumn(StoredColumn(name, self.kind, final.dtype.name, True), levels, final, counts))
        return stored


@dataclass
class ImageEncoder:
    """The same of a column of images, which are kept as they are: the bytes of an image in one piece."""

    name: str
    shape: tuple[int, int]
    kind: Kind = "image"

    def encode(self, column: Distinct) -> np.ndarray:
        values = column.values
        raw = np.frombuffer(values.buffers()[1], raw_type(self._dtype))[values.offset : values.offset + len(values)]
        return raw.take(column.indices)

    @property
    def _dtype(self) -> str:
        return f"({self.shape[0]},{self.shape[1]})u1"

    def note(self, chunk: np.ndarray, groups: Sequence[Group]) -> None:
        """There is nothing to count."""

    def finish(self) -> "list[FinishedColumn]":
        return [FinishedColumn(StoredColumn(self.name, self.kind, self._dtype, False), [], np.zeros(0), {})]


Encoder = ColumnEncoder | ImageEncoder


@dataclass(frozen=True)
class FinishedColumn:
    """A stored column whose values are all known: `levels` are what the codes 1, 2, ... stand for, if it is coded, `final` what
    each provisional code becomes, and `rows` how many rows have each code, by the number of the split and the provisional code
    of the pattern of missing values."""

    stored: StoredColumn
    levels: Sequence
    final: np.ndarray
    rows: dict[tuple[int, int], np.ndarray]

    def finished(self, chunk: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """What `ColumnEncoder.encode` gave, as it is stored, in an order of its rows."""
        if chunk.dtype.kind in "Vf":
            return lookups.permuted(chunk.astype(self.final.dtype) if chunk.dtype.kind == "f" else chunk, rows)
        return lookups.looked_up(self.final, chunk, rows)


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
    "integer": pl.Int64,
    "number": pl.Float64,
    "mean": pl.Float64,
    "variance": pl.Float64,
    "minimum": pl.Float64,
    "maximum": pl.Float64,
}
"""`levels.parquet`: how many rows of which split have a code of a column, by the pattern of missing values in the row (the
code of MISSING). `text`, `integer` or `number`, as the kind of the column is, has the value that the code stands for. A column
that is stored as it is has code 0, and instead of the value its mean, variance (divisor n), minimum and maximum, for each
shard; of images they are those of all pixels."""


def moments(stored: np.ndarray, groups: Sequence[Group]) -> list[dict]:
    """What `levels.parquet` says of some rows of a column that is stored as it is; by NumPy, whose sums are the same every
    time."""
    described = []
    for group in groups:
        rows = stored[group.rows]
        if stored.dtype.kind == "V":
            known = rows.view(np.uint8)
        else:
            rows = known = rows[~np.isnan(rows)].astype(np.float64)
        if len(known):
            names = {"code": 0, "split": SPLITS[group.split], "pattern": group.pattern, "rows": len(rows)}
            values = {"mean": known.mean(), "variance": known.var(), "minimum": known.min(), "maximum": known.max()}
            described.append(names | {name: float(value) for name, value in values.items()})
    return described


def levels_table(column: FinishedColumn, patterns: FinishedColumn, described: list[dict]) -> pl.DataFrame:
    """The rows of `levels.parquet` for one column; `patterns` is the column MISSING, and `described` the moments of all
    shards, if the column is stored as it is."""
    parts = [pl.DataFrame(described, LEVELS_SCHEMA)]
    meaning = "number" if column.stored.kind == "image" else column.stored.kind
    values = pl.concat([pl.Series(meaning, part, dtype=LEVELS_SCHEMA[meaning]) for part in ([None], column.levels)])
    for (split, pattern), rows in column.rows.items():
        codes = np.flatnonzero(rows)
        part = pl.DataFrame({"code": codes, "rows": rows[codes], meaning: values.gather(codes)})
        group = {"split": pl.lit(SPLITS[split]), "pattern": pl.lit(int(patterns.final[pattern]), dtype=pl.Int64)}
        parts.append(part.with_columns(**group))
    table = pl.concat(parts, how="diagonal").with_columns(column=pl.lit(column.stored.name))
    return table.select(LEVELS_SCHEMA.keys()).sort("code", "split", "pattern", maintain_order=True)
