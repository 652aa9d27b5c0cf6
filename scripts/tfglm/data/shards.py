"""The shard format: one folder a shard, one file of raw little-endian values a column.

A pass reads only the columns that its model uses, each with one `tf.io.read_file` and one `tf.io.decode_raw`. TFRecord was
measured at 40 to 50 ns a row of 30 bytes on one core and this at 13 to 19, where a whole gradient pass may cost 50.
Beside the shards of an input file stand `manifest.json` (what is in them) and `levels.parquet` (what the codes mean).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tfglm.errors import UserError

BLOCK_ROWS = 8192
"""Rows that a pass handles at once; a capacity is a multiple of it."""

LARGEST_CAPACITY = 2**21
SHARDS_PER_FILE = 8
"""Aimed at while a file is small, so that a few workers share even one file."""

MOST_CODES = 2**16
"""A number column with more distinct values than this is stored as it is instead of as codes."""

MISSING = "__missing__"
"""The column that every shard has beside its own: which of the others lack a value in a row, as a coded pattern."""

SPLITS = ("train", "evaluate")


@dataclass(frozen=True)
class StoredColumn:
    """How one column of one input file is stored.

    `kind` is what the values are; `dtype` the NumPy name of the stored type. With `coded`, the stored integers count
    from 1 into the column's rows of `levels.parquet`, and 0 is a missing value; otherwise they are the values
    themselves, and NaN is a missing one.
    """

    name: str
    kind: Literal["text", "integer", "number"]
    dtype: str
    coded: bool


@dataclass(frozen=True)
class Shard:
    """One shard: its folder relative to the manifest, and the checksum of each column in the manifest's order."""

    path: str
    split: str
    rows: int
    checksums: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """What an ingested file consists of. `capacity` is the number of rows a reader allots for each shard.

    `read` is the number of data rows in the file; `dropped` counts by reason those that no shard holds.
    """

    file: str
    source: str
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
        raw["shards"] = tuple(Shard(**{**shard, "checksums": tuple(shard["checksums"])}) for shard in raw["shards"])
        return cls(**raw)


@dataclass(frozen=True)
class IngestedFile:
    """The manifest of one input file with the meaning of its codes, and the folder that both lie in."""

    folder: Path
    manifest: Manifest
    levels: pl.DataFrame

    @classmethod
    def load(cls, manifest_path: Path) -> "IngestedFile":
        folder = Path(manifest_path).parent
        return cls(folder, Manifest.load(Path(manifest_path)), pl.read_parquet(folder / "levels.parquet"))

    def column(self, name: str) -> StoredColumn:
        return next(column for column in self.manifest.columns if column.name == name)

    def values(self, name: str) -> list:
        """What the codes 1, 2, ... of a coded column stand for, in the order of the codes."""
        column = self.column(name)
        rows = self.levels.filter(pl.col("column") == name, pl.col("code") > 0).unique("code").sort("code")
        return rows["text" if column.kind == "text" else "number"].to_list()


def capacity_for(rows: int) -> int:
    """Rows per shard for a file: a power of two of blocks, so that files of like size share one compiled pass."""
    capacity = BLOCK_ROWS
    while capacity * SHARDS_PER_FILE < rows and capacity < LARGEST_CAPACITY:
        capacity *= 2
    return capacity


def checksum(values: np.ndarray) -> int:
    """Sum of the 8-byte words w_i * (2 i + 1) modulo 2^64, as a signed integer; `values` is padded with zero bytes.

    The factors are odd, so any change within one word changes the sum; and the sum costs a pass 1 ns a row.
    """
    raw = values.tobytes()
    words = np.frombuffer(raw + b"\0" * (-len(raw) % 8), dtype="<i8")
    with np.errstate(over="ignore"):
        return int(np.sum(words * (2 * np.arange(len(words), dtype=np.int64) + 1), dtype=np.int64))


def write_shards(
    folder: Path, split: str, columns: tuple[StoredColumn, ...], data: dict[str, np.ndarray], capacity: int
) -> list[Shard]:
    """Write the rows of one split, in the order given, as shards of at most `capacity` rows and of nearly equal size."""
    rows = len(data[columns[0].name])
    shards = []
    pieces = -(-rows // capacity)
    for number in range(pieces):
        first, last = rows * number // pieces, rows * (number + 1) // pieces
        path = f"shards/{split}-{number:05d}"
        (folder / path).mkdir(parents=True)
        sums = []
        for column in columns:
            values = np.ascontiguousarray(
                data[column.name][first:last].astype(np.dtype(column.dtype).newbyteorder("<"))
            )
            try:
                (folder / path / column.name).write_bytes(values.tobytes())
            except OSError as error:
                raise UserError(
                    f"{folder / path / column.name}: {error.strerror} while writing {values.nbytes:,} bytes"
                ) from error
            sums.append(checksum(values))
        shards.append(Shard(path, split, last - first, tuple(sums)))
    return shards
