"""The shard format: one folder per shard, with one file of raw little-endian values per column.

A pass reads only the columns that its model uses, a block at a time. Reading a row of 30 bytes on one core took 7 ns, and
40 to 50 ns with TFRecord; a whole gradient pass may cost 50 ns a row. For eight columns it took 4 ns, checksums included,
and 14 to 16 ns with Arrow IPC with dictionaries and one record batch per block.

The folder of an input file also has these files: `levels.parquet` (the meaning of the codes, in one row group per
column, or in a single one if it is small), `checksums.npy` (uint64
[blocks of all shards in the manifest's order, columns]), `predicted_rows.npy` (int64: the number in the file, from 1, of
each row of the split `predict`, whose rows keep their order), and `manifest.json`. The manifest describes all of them and
has their digests. So it changes if anything changes, and everything that depends on the data depends on the content of the
manifest.
"""

import functools
import hashlib
import io
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64_intdigest

from tfglm import digests
from tfglm.data.kinds import Kind
from tfglm.errors import UserError, writing

if TYPE_CHECKING:
    import polars as pl

BLOCK_ROWS = 8192
"""Rows with a checksum of their own; a capacity is a multiple of it."""

AT_ONCE = 4
"""Blocks that a pass handles together, if there are enough: they share the overhead of Python, and their intermediate
arrays fit into the caches. Single blocks took a fifth longer per row, and eight blocks took no less."""

SMALLEST_CAPACITY, LARGEST_CAPACITY = AT_ONCE * BLOCK_ROWS, 2**19
SHARDS_PER_FILE = 8
"""Aimed at while a file is small, so that a few workers share even one file."""

MANIFEST = "manifest.json"
LEVELS, CHECKSUMS, PREDICTED_ROWS = "levels.parquet", "checksums.npy", "predicted_rows.npy"

MOST_KEPT = 2**18
"""Bytes of a `levels.parquet` that is read once and kept: many small files are read for each column of a model."""

MOST_TOGETHER = 2**14
"""Rows of a `levels.parquet` with a single row group. To read one column then takes as long as to read all: a millisecond,
where thirteen row groups take five."""

MISSING = "__missing__"
"""The column that every shard has beside its own: which of the others lack a value in a row, as a coded pattern."""


def codes_name(column: str) -> str:
    """Return the name of the column with the codes of an integer column that is also stored without codes. No column of the
    data can have this name."""
    return f"{column}.codes"


def raw_type(dtype: str) -> np.dtype:
    """The type of one value of a stored column, by its NumPy name: an image, such as `(8,8)u1`, is its bytes in one piece."""
    stored = np.dtype(dtype)
    return stored if stored.subdtype is None else np.dtype((np.void, stored.itemsize))


@dataclass(frozen=True)
class StoredColumn:
    """How one column of one input file is stored.

    `kind` is what the values are; `dtype` the NumPy name of the stored type. With `coded`, the stored integers count
    from 1 into the column's rows of `levels.parquet`, and 0 is a missing value; otherwise they are the values
    themselves, and NaN is a missing one.
    """

    name: str
    kind: Kind
    dtype: str
    coded: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width of images; of others ()."""
        return np.dtype(self.dtype).shape


@dataclass(frozen=True)
class Shard:
    """One shard: its folder relative to the manifest."""

    path: str
    split: str
    rows: int

    @property
    def blocks(self) -> int:
        return -(-self.rows // BLOCK_ROWS)


@dataclass(frozen=True)
class Manifest:
    """The description of an ingested file. `capacity` is the number of rows that a reader allocates for each shard.

    `xxh128` is the checksum of the file, as `xxh128sum` prints it. `read` is the number of its data rows, and `dropped`
    counts by reason the rows that no shard holds. `digests` has the sha256 of the files beside the manifest, by name; among
    these, CHECKSUMS has the checksums of the shards. `twice` has by column a number that occurs in two
    writings, such as 007 and 7, and `odd` all numbers that are written with zeros before or an exponent, by their
    texts; none if these were not looked at.
    """

    file: str
    source: str
    xxh128: str
    layout: str
    capacity: int
    columns: tuple[StoredColumn, ...]
    shards: tuple[Shard, ...]
    read: int
    dropped: dict[str, int]
    digests: Mapping[str, str] = field(default_factory=dict)
    twice: Mapping[str, str] = field(default_factory=dict)
    odd: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The digest of everything made from the file, and of the file itself, independent of its location."""
        return hashlib.sha256(json.dumps(asdict(self) | {"source": ""}, sort_keys=True).encode()).hexdigest()

    def write(self, path: Path) -> None:
        digests.write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Raises UserError if the file has changed since it was written."""
        raw = digests.read_json(path, needs=[each.name for each in fields(cls)])
        raw["columns"] = tuple(StoredColumn(**column) for column in raw["columns"])
        raw["shards"] = tuple(Shard(**shard) for shard in raw["shards"])
        return cls(**raw)


@dataclass(frozen=True)
class IngestedFile:
    """The manifest of one input file with the meaning of its codes, and their folder."""

    folder: Path
    manifest: Manifest
    checksums: np.ndarray
    _small_levels: bytes | None = field(default=None, repr=False, compare=False)
    _values: dict[str, "pl.Series"] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def load(cls, manifest_path: Path) -> "IngestedFile":
        """Raises UserError if the manifest, or what it says of its codes and shards, has changed since it was written."""
        path = Path(manifest_path)
        manifest = Manifest.load(path)
        levels, small = path.with_name(LEVELS), None
        if levels.exists() and levels.stat().st_size <= MOST_KEPT:
            small = digests.read(levels, manifest.digests[LEVELS], delete=path)
        else:
            digests.check(levels, manifest.digests[LEVELS], delete=path)
        checksums = digests.read(path.with_name(CHECKSUMS), manifest.digests[CHECKSUMS], delete=path)
        return cls(path.parent, manifest, np.load(io.BytesIO(checksums)), small)

    def levels(self, name: str, parts: Sequence[str] | None = None) -> "pl.DataFrame":
        """The rows of `levels.parquet` of a stored column: some `parts`, or all. Raises UserError if the file has
        changed since it was loaded."""
        # Here and below: workers read shards alone, and these start threads, before which processes are to be forked.
        import polars as pl
        import pyarrow as pa
        from pyarrow import parquet

        path = self.folder / LEVELS
        try:
            if self._small_levels is not None:
                table = tables_by_column(self._small_levels)[name]
                return table[list(parts)] if parts else table
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                if file.num_row_groups > 1:  # each of one column
                    read = parts or [part for part in file.schema_arrow.names if part != "column"]
                    place = list(self._columns).index(name)
                    return pl.DataFrame(file.read_row_group(place, columns=read, use_threads=False))
                table = pl.DataFrame(file.read_row_group(0, use_threads=False))
        except (OSError, pa.ArrowException) as error:
            raise digests.changed(path, str(error).splitlines()[0], delete=self.folder / MANIFEST) from error
        return table.filter(pl.col("column") == name)[list(parts or table.columns[1:])]

    def shard_checksums(self) -> Iterator[tuple[Shard, np.ndarray]]:
        """Yield each shard with the checksums of its blocks, uint64 [blocks, columns]."""
        first = 0
        for shard in self.manifest.shards:
            yield shard, self.checksums[first : first + shard.blocks]
            first += shard.blocks

    def stored(self, shard: Shard, name: str, rows: int | None = None) -> np.ndarray:
        """Return the first values of a column of a shard in their stored form: `rows` values, or all. Raises UserError if
        they are missing, or differ from the values that were written."""
        column, rows = self.column(name), shard.rows if rows is None else rows
        path = self.folder / shard.path / name
        expected = next(sums for other, sums in self.shard_checksums() if other == shard)
        blocks = -(-rows // BLOCK_ROWS)
        values = np.zeros(blocks * BLOCK_ROWS, raw_type(column.dtype))
        with opened(path) as file:
            fill(file, values.view(np.uint8).data, 0)
        damaged = np.flatnonzero(checksums(values) != expected[:blocks, self.manifest.columns.index(column)])
        if len(damaged):
            raise changed_block(path, int(damaged[0]))
        return values[:rows]

    def predicted_rows(self) -> np.ndarray:
        """The number in the file, from 1, of each row of the split `predict`, int64. Raises UserError if the file has changed
        since it was written."""
        path = self.folder / PREDICTED_ROWS
        digests.check(path, self.manifest.digests[PREDICTED_ROWS], delete=self.folder / MANIFEST)
        return np.load(path)

    @property
    def is_small(self) -> bool:
        """Whether its tables of levels are read from memory."""
        return self._small_levels is not None

    @cached_property
    def _columns(self) -> dict[str, StoredColumn]:
        return {column.name: column for column in self.manifest.columns}

    def column(self, name: str) -> StoredColumn:
        return self._columns[name]

    @property
    def names(self) -> list[str]:
        """The columns of the data."""
        return [name for name in self._columns if name != MISSING and name.isidentifier()]

    def has_codes(self, name: str) -> bool:
        """Whether codes distinguish the values of a column of the data."""
        return self._identified(name).coded

    def codes(self, name: str) -> StoredColumn:
        """The stored column that has the codes of a column of the data. Raises LookupError if there are none."""
        column = self._identified(name)
        if not column.coded:
            raise LookupError(f"{self.manifest.file}: column `{name}` is stored as plain numbers, without codes")
        return column

    def _identified(self, name: str) -> StoredColumn:
        return self._columns.get(codes_name(name), self._columns[name])

    def values(self, name: str) -> "pl.Series":
        """Return the values of the codes 1, 2, ... of a stored column, in the order of the codes."""
        if name not in self._values:
            kinds = {column.name: column.kind for column in self.manifest.columns if column.coded}
            if self._small_levels is not None:
                # All are read together, and kept: most are wanted.
                tables = read_tables(self._small_levels, ("code", *dict.fromkeys(kinds.values())))
            else:
                kind = self.column(name).kind
                kinds, tables = {name: kind}, {name: self.levels(name, ("code", kind))}
            for each, kind in kinds.items():
                levels = tables[each]
                codes, rows = np.unique(levels["code"].to_numpy(), return_index=True)
                self._values[each] = levels[kind].gather(rows[codes > 0])
        return self._values[name]


def read_tables(content: bytes, parts: Sequence[str] | None = None) -> "dict[str, pl.DataFrame]":
    """The tables of levels by column in a `levels.parquet`; of these some columns, or all. Raises pa.ArrowException."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    source, read = pa.BufferReader(content), ["column", *parts] if parts else None
    with parquet.ParquetFile(source, page_checksum_verification=True, read_dictionary=["column"]) as file:
        table = file.read(columns=read, use_threads=False)
    names = table["column"].combine_chunks()
    runs = pc.run_end_encode(names.indices)
    rows, first = pl.DataFrame(table.drop(["column"])), 0
    tables = defaultdict(rows.clear)  # a column may have no rows
    for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        tables[names.dictionary[number].as_py()] = rows.slice(first, end - first)
        first = end
    return tables


tables_by_column = functools.lru_cache(512)(read_tables)
"""The same, kept for so many small files: half a megabyte each."""


def capacity_for(rows: int) -> int:
    """Rows per shard for a file: a power of two of blocks, so that files of like size share the calls of a pass."""
    capacity = SMALLEST_CAPACITY
    while capacity * SHARDS_PER_FILE < rows and capacity < LARGEST_CAPACITY:
        capacity *= 2
    return capacity


def estimated_stored_bytes(csv_bytes: int, columns: int) -> int:
    """Estimate the disk space for ingest in bytes, including temporary files. Flight data have 80 bytes or more a row, and
    a value takes at most 2 bytes, except in few columns."""
    return 2 * (csv_bytes // 80) * (2 * columns + 1)


def checksums(values: np.ndarray) -> np.ndarray:
    """The XXH3 of each block, uint64 [blocks]; the last one is padded with zeros."""
    raw = np.ascontiguousarray(values).view(np.uint8).data
    width = BLOCK_ROWS * values.itemsize
    blocks: list[memoryview | bytes] = [raw[first : first + width] for first in range(0, len(raw), width)]
    if blocks and len(blocks[-1]) < width:
        blocks[-1] = bytes(blocks[-1]).ljust(width, b"\0")
    return np.array([xxh3_64_intdigest(block) for block in blocks], np.uint64)


@contextmanager
def opened(path: str | Path) -> Iterator[int]:
    """The descriptor of a file of a shard. Raises UserError if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UserError(
            f"{path}, a part of a shard, cannot be read: {error.strerror}\n  {remedy(Path(path))}"
        ) from error
    try:
        yield file
    finally:
        os.close(file)


def fill(file: int, raw: memoryview, place: int) -> None:
    """Read from a place of a file on until `raw` is full, or zeros after the end of the file; a single call may bring less than
    there is."""
    while len(raw):
        size = os.preadv(file, [raw], place)
        if not size:
            raw[:] = bytes(len(raw))
        raw, place = raw[size or len(raw) :], place + size


def changed_block(path: str | Path, number: int) -> UserError:
    """The error for a block, the `number`-th from 0 of a column of a shard, that is not what was written."""
    return UserError(
        f"{path}: the shard has changed since it was written, in block {number} of {BLOCK_ROWS} rows\n"
        f"  {remedy(Path(path))}"
    )


def remedy(path: Path) -> str:
    """Say what to do about a damaged file of a shard: delete the manifest, so that the next run writes the folder again."""
    return digests.remedy(path.parents[2] / MANIFEST)


def write_column(path: Path, values: np.ndarray) -> np.ndarray:
    """Write one column of a shard; returns its checksums. Raises UserError if the disk does not take it."""
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    with writing(path):
        write_values(path, values)
    return checksums(values)


def write_values(path: Path, values: np.ndarray) -> None:
    """Write what an array contains, and nothing else. Raises OSError; `ndarray.tofile` writes through a buffer of C's, and says
    nothing when a full disk refuses the last of it."""
    path.write_bytes(np.ascontiguousarray(values).data)


def save(path: Path, values: np.ndarray) -> None:
    """Write an array as .npy. Raises OSError; `numpy.save` writes as `tofile` does where it finds a file."""
    with path.open("wb") as file:
        stream: Any = SimpleNamespace(write=file.write)
        np.save(stream, values)
