"""Read and check the stored blocks of shards, some blocks at a time: the input of a pass."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from tfglm.data.shards import AT_ONCE, BLOCK_ROWS, changed_block, fill, opened, raw_type
from tfglm.engine import kernels
from tfglm.errors import UserError


@dataclass(frozen=True)
class Input:
    """A column as a pass reads it; a coded one has tables of `table_size` entries."""

    column: str
    dtype: str
    coded: bool
    table_size: int


@dataclass(frozen=True)
class Signature:
    """The common properties of the calls of a pass: each reads up to `shards` shards, of `capacity` rows at most, of up to
    `files` ingested files."""

    capacity: int
    shards: int
    files: int
    inputs: tuple[Input, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Signature":
        """Return the object from the result of `asdict`."""
        return cls(raw["capacity"], raw["shards"], raw["files"], tuple(Input(**column) for column in raw["inputs"]))

    @property
    def blocks(self) -> int:
        return self.capacity // BLOCK_ROWS


MOST_OPEN = 8
"""Most shards whose files a call keeps open at the same time."""


class BlockReader(contextlib.ExitStack):
    """Blocks of the shards of one call: `paths` [shards, inputs], `expected` the checksums uint64 [blocks, inputs]."""

    def __init__(self, signature: Signature, paths: np.ndarray, expected: np.ndarray):
        super().__init__()
        self._signature, self._paths, self._expected = signature, paths, expected
        self._files: dict[int, _Files] = {}
        self._sizes = np.array([BLOCK_ROWS * raw_type(column.dtype).itemsize // 8 for column in signature.inputs])
        ends = np.cumsum(AT_ONCE * self._sizes)
        self._starts = ends - AT_ONCE * self._sizes
        self._words = np.zeros(ends[-1], np.int64)
        self._columns = self._views(self._words)
        self._raw = [column.view(np.uint8).data for column in self._columns.values()]
        widths = [len(raw) // AT_ONCE for raw in self._raw]
        self._raw_blocks = [
            [raw[place * width : (place + 1) * width] for place in range(AT_ONCE)]
            for raw, width in zip(self._raw, widths, strict=True)
        ]

    def _views(self, words: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns in `words`, which follow each other."""
        of_column = np.split(words, self._starts[1:])
        return {
            column.column: part.view(raw_type(column.dtype))
            for column, part in zip(self._signature.inputs, of_column, strict=True)
        }

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """A buffer for the columns in a given order, and its views; passes never need it."""
        words = np.empty_like(self._words)
        return words, self._views(words)

    def read(self, block: int, count: int, order: tuple[int, int] | None = None) -> dict[str, np.ndarray]:
        """The first `count` values of each column from a block on, AT_ONCE blocks at most, valid until the next are read; in the
        order (multiplier, offset) of `kernels.in_runs`, if one is given. Raises UserError if what is there is not what was
        written."""
        shard, place = divmod(block, self._signature.blocks)
        if shard not in self._files:
            if len(self._files) == MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[shard] = self.enter_context(_Files(self._paths[shard]))
        number = -(-count // BLOCK_ROWS)
        for file, whole in zip(self._files[shard].numbers, self._raw, strict=True):
            width = len(whole) // AT_ONCE
            fill(file, whole[: number * width], place * width)
        expected = self._expected[block : block + number].T.tolist()
        for column, (blocks, sums) in enumerate(zip(self._raw_blocks, expected, strict=True)):
            for at, (raw, checksum) in enumerate(zip(blocks, sums, strict=False)):
                if xxh3_64_intdigest(raw) != checksum:
                    raise changed_block(self._paths[shard][column], place + at)
        columns = self._columns
        if order:
            words, columns = self._ordered
            kernels.in_runs(self._words, self._starts, self._sizes * kernels.RUN // BLOCK_ROWS, count, *order, words)
        return {name: values[:count] for name, values in columns.items()}


class _Files(contextlib.ExitStack):
    """The open files of a shard; `numbers` are their descriptors."""

    def __init__(self, paths: Sequence[str]):
        super().__init__()
        try:
            self.numbers = [self.enter_context(opened(path)) for path in paths]
        except UserError:
            self.close()
            raise
