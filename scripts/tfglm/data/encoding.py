"""Values to codes, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data import lookups, shards
from tfglm.data.distinct import Distinct, Recent
from tfglm.data.kinds import EXACT_BELOW, Kind
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.numbered import Numbered
from tfglm.data.shards import StoredColumn, raw_type
from tfglm.errors import UserError


@dataclass(frozen=True)
class PatternGroup:
    """The rows of a chunk or a shard that are of one split, given by its number, and lack the same values, given by their code
    of the column MISSING. `span` are all rows of the split."""

    split: int
    pattern: int
    span: slice
    rows: slice | np.ndarray

    def __len__(self) -> int:
        return len(self.rows) if isinstance(self.rows, np.ndarray) else self.rows.stop - self.rows.start


def groups_of(patterns: np.ndarray, split: int, first: int, last: int) -> list[PatternGroup]:
    """The groups among the rows `first` to `last` (excluded), all of one split. `patterns` are the codes of all rows."""
    span = slice(first, last)
    rows = lookups.counted(patterns[span])
    present = np.flatnonzero(rows).tolist()
    if len(present) == 1:
        return [PatternGroup(split, present[0], span, span)]
    in_order = first + np.argsort(patterns[span], kind="stable")
    places = np.split(in_order, np.cumsum(rows[present])[:-1]) if present else []
    return [PatternGroup(split, code, span, of_code) for code, of_code in zip(present, places, strict=True)]


class CodeCounts:
    """Count the rows of a column by split, pattern of missing values and code. Large groups of rows have an array by code.
    Small groups have pairs of a key and a number of rows, because there may be as many patterns as rows."""

    def __init__(self) -> None:
        self._by_code: dict[tuple[int, int], np.ndarray] = {}
        self._keys, self._rows = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._new: list[np.ndarray] = []

    def add(self, codes: np.ndarray, groups: Sequence[PatternGroup]) -> None:
        """Count the codes of some rows, which have these groups."""
        for split in {group.split for group in groups}:
            *others, largest = sorted((group for group in groups if group.split == split), key=PatternGroup.__len__)
            rows = lookups.counted(codes[largest.span])  # which is much faster than in places
            small = [group for group in others if len(group) < max(SMALL_GROUP, len(rows) // 2)]
            for group in others[len(small) :]:
                of_group = lookups.counted(codes[group.rows])
                rows[: len(of_group)] -= of_group
                self._add(split, group.pattern, of_group)
            if small:
                of_small = codes[np.concatenate([group.rows for group in small])]
                subtracted = lookups.counted(of_small)
                rows[: len(subtracted)] -= subtracted
                patterns = np.repeat([group.pattern for group in small], [len(group) for group in small])
                self._new.append(key_of(split, patterns, of_small))
            if len(largest) < len(rows) // 2:
                found = np.flatnonzero(rows)
                self._new.append(np.repeat(key_of(split, np.int64(largest.pattern), found), rows[found]))
            else:
                self._add(split, largest.pattern, rows)
        if sum(map(len, self._new)) > max(len(self._keys), FEWEST_KEYS):
            self._join()

    def _add(self, split: int, pattern: int, rows: np.ndarray) -> None:
        before = self._by_code.get((split, pattern), np.zeros(0, np.int64))
        shorter, longer = sorted((before, rows), key=len)
        joined = np.concatenate([shorter + longer[: len(shorter)], longer[len(shorter) :]])
        self._by_code[split, pattern] = joined

    def _join(self) -> None:
        keys, rows = np.unique(np.concatenate(self._new), return_counts=True)
        self._keys, self._rows = summed(np.concatenate([self._keys, keys]), np.concatenate([self._rows, rows]))
        self._new = []

    def by_key(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys that occur, uint64 [keys], in order, and their rows, int64 [keys]."""
        if self._new:
            self._join()
        keys, rows = [self._keys], [self._rows]
        for (split, pattern), of_codes in self._by_code.items():
            found = np.flatnonzero(of_codes)
            keys.append(key_of(split, np.int64(pattern), found))
            rows.append(of_codes[found])
        return summed(np.concatenate(keys), np.concatenate(rows))


SMALL_GROUP = 2**8
"""Rows of a group that has no array of its own."""

FEWEST_KEYS = 2**12
"""Rows whose keys are kept as they are until they are counted."""

BITS, CODE = 26, np.uint64(2**26 - 1)
"""Of a code in a key, and of a pattern: both are at most MOST_LEVELS."""


def key_of(split: int, patterns: np.ndarray | np.int64, codes: np.ndarray) -> np.ndarray:
    """Split, pattern and code as one number, uint64."""
    return np.uint64(split << 2 * BITS) | (patterns.astype(np.uint64) << np.uint64(BITS)) | codes.astype(np.uint64)


def summed(keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, in order, and the sums of their rows."""
    distinct, places = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(places, rows, len(distinct)).astype(np.int64)


class Texts:
    """Provisional codes of texts: they count from 1 into `values`."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str | None, int] = {None: 0}

    def encode(self, values: pa.Array) -> np.ndarray:
        """Return the codes of some values, with new codes for new values; 0 for a missing value."""
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
    """The codes of integers (int64) or numbers (float64). It uses no dict, which would take ten times the memory."""

    def __init__(self, dtype: type):
        self._table, self._dtype = Numbered(), dtype

    @property
    def values(self) -> np.ndarray:
        return self._table.keys.view(self._dtype)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Encode as `Texts.encode` does; NaN is missing."""
        is_known = values == values
        encoded = np.zeros(len(values), np.uint32)
        encoded[is_known] = self._table.add(values[is_known].view(np.int64)) + 1
        return encoded

    def in_order(self, codes: np.ndarray) -> np.ndarray:
        return codes[np.argsort(self.values[codes - 1], kind="stable")]


@dataclass
class ColumnEncoder:
    """One column of a file during ingest.

    While it is `coded`, chunks are provisional codes: positions, from 1, among the distinct values, and 0 for a missing
    value. A number column with `limits.most_codes` distinct values or more switches to plain float64, with NaN for missing
    values; an integer column switches at `limits.most_levels`. At the end, the values that occur in a kept row get their
    codes by rank, so codes depend on the rows alone.
    """

    name: str
    kind: Kind
    limits: IngestLimits = DEFAULT_LIMITS
    coded: bool = True
    narrow: bool = True
    counts: CodeCounts = field(default_factory=CodeCounts)
    """Rows by provisional code."""
    tables: Recent[np.ndarray] = field(default_factory=Recent)
    """The encoded values of recent blocks."""

    def __post_init__(self) -> None:
        self.distinct = Texts() if self.kind == "text" else Numbers(np.int64 if self.kind == "integer" else np.float64)

    def encode(self, column: Distinct) -> np.ndarray:
        """Return the rows in their form until the end of the file: small unsigned integers or float64."""
        table = self.tables.of([column.values], lambda: self._table(column.values))
        return column.through(table)

    def _table(self, values: pa.Array) -> np.ndarray:
        """Return the codes of some values, followed by the code of a missing value."""
        typed = values if self.kind == "text" else self._numbers(values)
        if self.coded:
            # One code more, for the missing value behind them.
            codes = np.append(self.distinct.encode(typed), np.uint32(0)).astype(code_type(len(self.distinct.values)))
            self._check_number()
            if self.coded:
                return codes
        return np.append(self._plain(typed), np.nan)

    def _numbers(self, values: pa.Array) -> np.ndarray:
        """Return integers as int64, and other numbers as float64 without negative zeros."""
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
                "of them beyond 2^53, which a float64 cannot hold exactly; remove it from data.columns, or derive a "
                "coarser column under data.derive"
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
            self.tables = Recent()
            self._plain(np.asarray(values))

    def note(self, chunk: np.ndarray, groups: Sequence[PatternGroup]) -> None:
        """Count the values of a chunk of kept rows, which has these groups; every one of them comes by here."""
        if chunk.dtype == np.float64:
            self.narrow = self.narrow and survives_float32(chunk)
            return
        self.counts.add(chunk, groups)

    def finish(self) -> "list[FinishedColumn]":
        """How the column is stored, once all rows have been noted; the encoder then holds nothing. An integer with
        `limits.most_codes` values or more is stored twice: as the number that it is, and as codes, for those who use it as
        an identifier."""
        distinct, values = self.distinct, self.distinct.values
        keys, rows = self.counts.by_key()
        self.counts, self.distinct, self.tables = CodeCounts(), Texts(), Recent()
        present = np.zeros(len(values) + 1, bool)
        present[keys & CODE] = True
        used = distinct.in_order(np.flatnonzero(present[1:]) + 1)
        levels: Sequence = [values[code - 1] for code in used] if isinstance(values, list) else values[used - 1]
        stored = []
        if self.kind != "text" and (not self.coded or len(levels) >= self.limits.most_codes):
            narrow = self.narrow and survives_float32(np.asarray(levels, float))
            final = np.append(np.nan, values).astype(np.float32 if narrow else np.float64)
            stored.append(FinishedColumn(StoredColumn(self.name, self.kind, final.dtype.name, False), [], final))
        if self.coded:
            name = shards.codes_name(self.name) if stored else self.name
            final = np.zeros(len(values) + 1, code_type(len(levels)))
            final[used] = np.arange(1, len(levels) + 1)
            stored.append(
                FinishedColumn(StoredColumn(name, self.kind, final.dtype.name, True), levels, final, keys, rows)
            )
        return stored


@dataclass
class ImageEncoder:
    """A column of images, which are stored unchanged: the bytes of each image in one piece."""

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

    def note(self, chunk: np.ndarray, groups: Sequence[PatternGroup]) -> None:
        """There is nothing to count."""

    def finish(self) -> "list[FinishedColumn]":
        return [FinishedColumn(StoredColumn(self.name, self.kind, self._dtype, False), [], np.zeros(0))]


Encoder = ColumnEncoder | ImageEncoder


@dataclass(frozen=True)
class FinishedColumn:
    """A stored column whose values are all known. If it is coded, `levels` are the values of the codes 1, 2, ..., and
    `final` maps each provisional code to its code. `rows` counts the rows of each of the `keys` (`CodeCounts.by_key`)."""

    stored: StoredColumn
    levels: Sequence
    final: np.ndarray
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def finished(self, chunk: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the result of `ColumnEncoder.encode` in its stored form, in a given order of rows."""
        if chunk.dtype.kind in "Vf":
            return lookups.looked_up(chunk.astype(self.final.dtype) if chunk.dtype.kind == "f" else chunk, rows)
        return lookups.looked_up(self.final, chunk, rows)


def code_type(values: int) -> np.dtype:
    """The smallest unsigned type for the codes 0 to `values`."""
    return np.min_scalar_type(values)


def survives_float32(values: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(((values.astype(np.float32) == values) | np.isnan(values)).all())
