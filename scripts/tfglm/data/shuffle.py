"""Permute the rows of a file out of core: permute chunks, spill them to disk, and deal them to the shards.

Each shard takes an equal part of every chunk, which is a random sample of it, at an even pace. So the first blocks of a
shard are a fair sample of the whole file too. Memory holds only a few chunks, or one column of a few shards.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tfglm.config import SPLITS
from tfglm.data import lookups
from tfglm.data.encoding import Encoder, FinishedColumn, groups_of
from tfglm.data.limits import CHUNK_BYTES
from tfglm.data.shards import write_values
from tfglm.errors import writing

IN_ORDER = frozenset({SPLITS.index("predict")})
"""Splits whose rows stay in the order of the file: predictions are read beside it."""


@dataclass(frozen=True)
class Chunk:
    """Permuted rows: the number of rows of each split, which follow each other, and the columns, or the files and types of
    those that are on disk."""

    sizes: np.ndarray
    columns: "list[np.ndarray | tuple[Path, np.dtype]]"

    def column(self, number: int, rows: slice) -> np.ndarray:
        """Some rows of a column."""
        column = self.columns[number]
        if isinstance(column, np.ndarray):
            return column[rows]
        path, dtype = column
        return np.fromfile(path, dtype, rows.stop - rows.start, offset=rows.start * dtype.itemsize)


class Shuffler:
    """The rows of a file on their way to the shards. `folder`, if needed, takes the chunks; the caller removes it."""

    def __init__(
        self, folder: Path, encoders: list[Encoder], seed: int, executor: Executor, chunk_bytes: int = CHUNK_BYTES
    ):
        self.folder, self.encoders, self.seed, self.executor = folder, encoders, seed, executor
        self.chunk_bytes = chunk_bytes
        self.waiting: list[list[np.ndarray]] = []
        self.waiting_bytes = 0
        self.chunks: list[Future[Chunk]] = []

    def add(self, split: np.ndarray, columns: list[np.ndarray]) -> None:
        """Some rows: the number of their split, and the results of the encoders."""
        kinds = [column.dtype.kind for column in columns]
        if self.waiting and kinds != [column.dtype.kind for column in self.waiting[-1][1:]]:
            self._send()  # one array cannot hold codes and plain values
        self.waiting.append([split, *columns])
        self.waiting_bytes += sum(column.nbytes for column in self.waiting[-1])
        if self.waiting_bytes >= self.chunk_bytes:
            self._send()

    def _send(self, spill: bool = True) -> None:
        if self.chunks:
            self.chunks[-1].result()  # one at a time, or a fast reader would fill the memory
        self.chunks.append(self.executor.submit(self._permute, len(self.chunks), self.waiting, spill))
        self.waiting, self.waiting_bytes = [], 0

    def _permute(self, chunk: int, rows: list[list[np.ndarray]], spill: bool) -> "Chunk":
        """Permute the rows of each split, and `spill` them to disk."""
        split, *columns = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        random = np.random.default_rng([self.seed, chunk])
        order = []
        for number in range(len(SPLITS)):
            order.append(np.flatnonzero(split == number))
            if number not in IN_ORDER:
                # Sorted by a random number each, which with 16 bits is many times as fast as to shuffle.
                order[-1] = order[-1].take(lookups.ascending(random.integers(0, 2**16, len(order[-1]), np.uint16)))
        sizes = [len(rows) for rows in order]
        taken = np.concatenate(order).astype(np.uint32)
        patterns = lookups.looked_up(columns[0], taken)
        ends = np.cumsum([0, *sizes]).tolist()
        groups = [
            group
            for number, (first, last) in enumerate(pairwise(ends))
            for group in groups_of(patterns, number, first, last)
        ]
        permuted: list[np.ndarray | tuple[Path, np.dtype]] = []
        for number, (encoder, values) in enumerate(zip(self.encoders, columns, strict=True)):
            values = lookups.looked_up(values, taken) if number else patterns
            encoder.note(values, groups)
            permuted.append(self._spilled(chunk, number, values) if spill else values)
        return Chunk(np.array(sizes), permuted)

    def _spilled(self, chunk: int, column: int, values: np.ndarray) -> tuple[Path, np.dtype]:
        path = self.folder / f"{chunk}-{column}"
        self.folder.mkdir(exist_ok=True)
        with writing(path):
            write_values(path, values)
        return path, values.dtype

    def finish(self) -> "ShuffledFile":
        """All rows, once the last one has been added. The last chunk stays in memory: a small file has no other."""
        if self.waiting:
            self._send(spill=False)
        chunks = [chunk.result() for chunk in self.chunks]
        finished = [encoder.finish() for encoder in self.encoders]
        sources = [number for number, columns in enumerate(finished) for _ in columns]
        return ShuffledFile(chunks, [column for columns in finished for column in columns], sources)


@dataclass(frozen=True)
class ShuffledFile:
    """The permuted rows of a file, and the columns to be stored; `sources` are the encoders that these come from, by number."""

    chunks: list[Chunk]
    columns: list[FinishedColumn]
    sources: list[int]

    def total(self) -> int:
        return sum(int(chunk.sizes.sum()) for chunk in self.chunks)

    def shards(self, split: int, capacity: int) -> Iterator["ShuffledShard"]:
        """The shards of a split, of at most `capacity` rows and nearly equal size."""
        sizes = [int(chunk.sizes[split]) for chunk in self.chunks]
        starts = [int(chunk.sizes[:split].sum()) for chunk in self.chunks]
        if not any(sizes):
            return
        pieces = -(-sum(sizes) // capacity)
        while split not in IN_ORDER and sum(-(-size // pieces) for size in sizes) > capacity:
            pieces += 1
        for piece in range(pieces):
            if split in IN_ORDER:
                taken = consecutive(sizes, sum(sizes) * piece // pieces, sum(sizes) * (piece + 1) // pieces)
            else:
                taken = [(size * piece // pieces, size * (piece + 1) // pieces) for size in sizes]
            slices = [slice(start + first, start + last) for start, (first, last) in zip(starts, taken, strict=True)]
            yield ShuffledShard(self, split, piece, slices)


@dataclass(frozen=True)
class ShuffledShard:
    """One shard to be: which rows of each chunk it takes."""

    file: ShuffledFile
    split: int
    piece: int
    slices: list[slice]

    def order(self) -> np.ndarray:
        """In which order it takes the rows of its parts, laid end to end, uint32: from all parts at an even pace."""
        sizes = [rows.stop - rows.start for rows in self.slices]
        if self.split in IN_ORDER:
            return np.arange(sum(sizes), dtype=np.uint32)
        progress = [(np.arange(0.5, size) * (2**16 / size)).astype(np.uint16) for size in sizes if size]
        return lookups.ascending(np.concatenate(progress))

    def column(self, number: int, order: np.ndarray) -> np.ndarray:
        """Return the column with this number in its stored form, [rows]."""
        column, source = self.file.columns[number], self.file.sources[number]
        chunks = [chunk.column(source, rows) for chunk, rows in zip(self.file.chunks, self.slices, strict=True)]
        if len({chunk.dtype.kind for chunk in chunks}) > 1:  # codes, and then plain values
            everywhere = [np.arange(len(chunk), dtype=np.uint32) for chunk in chunks]
            finished = [column.finished(chunk, rows) for chunk, rows in zip(chunks, everywhere, strict=True)]
            return lookups.looked_up(np.concatenate(finished), order)
        return column.finished(np.concatenate(chunks), order)


def consecutive(sizes: list[int], first: int, last: int) -> list[tuple[int, int]]:
    """The part of each chunk that the rows `first` to `last` (excluded) of all chunks together are."""
    starts = np.cumsum([0, *sizes[:-1]])
    return [
        (int(np.clip(first - start, 0, size)), int(np.clip(last - start, 0, size)))
        for start, size in zip(starts, sizes, strict=True)
    ]
