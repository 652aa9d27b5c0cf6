"""Rows cut into batches, by NumPy alone, which is all that a worker on parameter servers needs to read batches of its own."""

import functools
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from tfglm.networks.rows import WEIGHT, NetworkRows, Units

MIXED_ROWS = 2**17
"""Approximate number of rows of random units to mix. The rows of a file are already shuffled, but the units of several
files are not."""

MOST_MIXED_BYTES = 2**26
"""The same for rows as wide as images."""

KEPT_CHUNKS = 4
"""Chunks of batches that a reader keeps: the present one and the next one, of itself and of a reader that is late."""


def batches_of_readers(lines_of_units: Sequence[int], readers: int, size: int) -> list[int]:
    """Return the number of batches of `size` rows that each reader has in an epoch, given the rows of each unit."""
    return [-(-sum(lines_of_units[reader::readers]) // size) for reader in range(readers)]


def rows_at_once(batch_size: int, width: int, buffer: int | None = None) -> int:
    """Return how many rows of so many numbers are mixed and cut together: a multiple of the batch size, near the `buffer`."""
    mixed = buffer or min(MIXED_ROWS, MOST_MIXED_BYTES // (np.dtype(np.float32).itemsize * width))
    return max(1, mixed // batch_size) * batch_size


def cut(rows: NetworkRows, order: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut rows into batches of `size` in this `order`: the arrays of `Batch`, [batches, size, ...]. The last batch is filled
    up with copies of rows, of weight 0: layers that average over a batch get real rows. NumPy does this in one step, and in
    half the time of TensorFlow's operations."""
    count = len(order)
    filled = np.resize(order, count + -count % size)
    groups, numbers = (np.empty((len(filled), values.shape[1]), values.dtype) for values in rows)
    for values, ordered in zip(rows, (groups, numbers), strict=True):
        np.take(values, filled, axis=0, out=ordered, mode="clip")  # any other mode makes a copy first
    numbers[count:, WEIGHT] = 0.0
    groups, numbers = (values.reshape(-1, size, values.shape[1]) for values in (groups, numbers))
    weight = numbers[:, :, WEIGHT]
    return groups, numbers, weight / weight.sum(axis=1, keepdims=True)


class OwnBatches:
    """The batches that each of several readers makes from units of its own: of n readers the first has the first of each n
    units. They follow from seed, epoch and reader alone, so any process can make those of any reader.

    `units` are those of all readers, `lines` their rows, and `size` the rows of a batch. `at_once` rows, a multiple of
    `size`, are mixed in the order of the `seed`; None for the order of the rows. With `cache` units that have been read stay
    in memory. With `ahead` reading continues while a batch is used: for a process that takes all batches of a reader.
    """

    def __init__(
        self,
        units: Units,
        lines: Sequence[int],
        readers: int,
        size: int,
        at_once: int,
        seed: int | None,
        cache: bool,
        ahead: bool = True,
    ) -> None:
        self._lines, self._readers, self._size, self._at_once, self._seed = lines, readers, size, at_once, seed
        self._widths, self._ahead = units.widths, ahead
        # A unit may be in two chunks.
        self._unit = functools.lru_cache(maxsize=None if cache else 1)(units.train)
        self._chunks: dict[tuple[int, int, int], Future[tuple[np.ndarray, ...]]] = {}
        self._thread = ThreadPoolExecutor(1)

    def batch(self, reader: int, epoch: int, number: int) -> tuple[np.ndarray, ...]:
        """Return the groups and the numbers of a batch, [size, ...] each; after the last one of an epoch, rows of weight 0."""
        place, within = divmod(number, self._at_once // self._size)
        first = number * self._size
        if first >= sum(self._lines[reader :: self._readers]):
            return tuple(np.zeros((self._size, width)) for width in self._widths)
        groups, numbers, _ = self._chunk(reader, epoch, place).result()
        if self._ahead:
            is_last = (place + 1) * self._at_once >= sum(self._lines[reader :: self._readers])
            self._chunk(reader, *((epoch + 1, 0) if is_last else (epoch, place + 1)))
        return groups[within], numbers[within]

    def _chunk(self, reader: int, epoch: int, place: int) -> Future[tuple[np.ndarray, ...]]:
        """The batches that are cut from rows that are mixed together."""
        key = reader, epoch, place
        chunk = self._chunks.pop(key, None) or self._thread.submit(self._cut, *key)
        if len(self._chunks) == KEPT_CHUNKS:
            del self._chunks[next(iter(self._chunks))]
        self._chunks[key] = chunk  # the last used one is the last
        return chunk

    def _cut(self, reader: int, epoch: int, place: int) -> tuple[np.ndarray, ...]:
        own = np.arange(reader, len(self._lines), self._readers)
        if self._seed is not None:
            own = np.random.default_rng([self._seed, epoch, reader]).permutation(own)
        rows, passed = [], 0
        for unit in own.tolist():
            first = max(place * self._at_once - passed, 0)
            last = min((place + 1) * self._at_once - passed, self._lines[unit])
            if first < last:
                rows.append([values[first:last] for values in self._unit(unit)])
            passed += self._lines[unit]
        together = NetworkRows(*map(np.concatenate, zip(*rows, strict=True)))
        order = np.arange(len(together.groups))
        if self._seed is not None:
            order = np.random.default_rng([self._seed, epoch, reader, place]).permutation(order)
        return cut(together, order, self._size)
