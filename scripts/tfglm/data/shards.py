"""The shard format: one folder a shard, one file of raw little-endian values a column.

A pass reads only the columns that its model uses, a block at a time. TFRecord was measured at 40 to 50 ns a row of 30 bytes on
one core and this at 7, where a whole gradient pass may cost 50.
Beside the shards of an input file stand `manifest.json` (what is in them), `levels.parquet` (what the codes mean) and
`checksums.npy` (int64 [blocks of all shards in the manifest's order, columns]), and `predicted_rows.npy` (int64: the number in
the file, from 1, of each row of the split `predict`, whose rows stay in order).
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tfglm.errors import UserError

BLOCK_ROWS = 8192
"""Rows that a pass handles at once; a capacity is a multiple of it."""

LARGEST_CAPACITY = 2**19
SHARDS_PER_FILE = 8
"""Aimed at while a file is small, so that a few workers share even one file."""

MOST_CODES = 2**16
"""A number column with more distinct values than this is stored as it is instead of as codes."""

MISSING = "__missing__"
"""The column that every shard has beside its own: which of the others lack a value in a row, as a coded pattern."""

Kind = Literal["text", "integer", "number"]


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
    """What an ingested file consists of. `capacity` is the number of rows a reader allots for each shard.

    `sha256` is that of the file; `read` is the number of data rows in it, `dropped` counts by reason those that no shard holds.
    """

    file: str
    source: str
    sha256: str
    layout: str
    capacity: int
    columns: tuple[StoredColumn, ...]
    shards: tuple[Shard, ...]
    read: int
    dropped: dict[str, int]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        raw = json.loads(path.read_text())
        raw["columns"] = tuple(StoredColumn(**column) for column in raw["columns"])
        raw["shards"] = tuple(Shard(**shard) for shard in raw["shards"])
        return cls(**raw)


@dataclass(frozen=True)
class IngestedFile:
    """The manifest of one input file with the meaning of its codes, and the folder that both lie in."""

    folder: Path
    manifest: Manifest
    levels: pl.DataFrame
    checksums: np.ndarray
    _values: dict[str, list] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def load(cls, manifest_path: Path) -> "IngestedFile":
        folder = Path(manifest_path).parent
        levels, checksums = pl.read_parquet(folder / "levels.parquet"), np.load(folder / "checksums.npy")
        return cls(folder, Manifest.load(Path(manifest_path)), levels, checksums)

    def shard_checksums(self) -> Iterator[tuple[Shard, np.ndarray]]:
        """Each shard with the checksums of its blocks, int64 [blocks, columns]."""
        first = 0
        for shard in self.manifest.shards:
            yield shard, self.checksums[first : first + shard.blocks]
            first += shard.blocks

    def column(self, name: str) -> StoredColumn:
        return next(column for column in self.manifest.columns if column.name == name)

    def values(self, name: str) -> list:
        """What the codes 1, 2, ... of a coded column stand for, in the order of the codes."""
        if name not in self._values:
            column = self.column(name)
            rows = self.levels.filter(pl.col("column") == name, pl.col("code") > 0).unique("code").sort("code")
            self._values[name] = rows["text" if column.kind == "text" else "number"].to_list()
        return self._values[name]


def capacity_for(rows: int) -> int:
    """Rows per shard for a file: a power of two of blocks, so that files of like size share the calls of a pass."""
    capacity = BLOCK_ROWS
    while capacity * SHARDS_PER_FILE < rows and capacity < LARGEST_CAPACITY:
        capacity *= 2
    return capacity


def estimated_stored_bytes(csv_bytes: int, columns: int) -> int:
    """About how much disk space ingest needs, with what it sets down meanwhile: flight data have 80 bytes or more a row, and
    a value takes 2 bytes or fewer, but for few columns."""
    return 2 * (csv_bytes // 80) * (2 * columns + 1)


def checksums(values: np.ndarray) -> np.ndarray:
    """For each block, the sum of its 8-byte words w_i * (2 i + 1) modulo 2^64, as int64 [blocks].

    The last block is padded with zeros. The factors are odd, so any change within one word changes the sum; and the sum
    costs a pass 1 ns a row.
    """
    raw = values.tobytes()
    width = BLOCK_ROWS * values.itemsize
    words = np.frombuffer(raw + b"\0" * (-len(raw) % width), dtype="<i8").reshape(-1, width // 8)
    with np.errstate(over="ignore"):
        return words @ (2 * np.arange(width // 8, dtype=np.int64) + 1)


def write_column(path: Path, values: np.ndarray) -> np.ndarray:
    """Write one column of a shard; returns its checksums. Raises UserError if the disk does not take it."""
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    with written(path):
        values.tofile(path)
    return checksums(values)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Errors of writing a file as UserErrors that name it."""
    try:
        yield
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise UserError(
            f"{path}: {error.strerror or error} ({free / 1e6:,.0f} MB are free there)\n"
            f"  make room, or run snakemake in a folder on a larger disk with --directory"
        ) from error
