"""Batches of rows, by tf.data: units of the shards in random order, mixed, and cut into batches."""

from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.networks.cutting import cut, rows_at_once
from tfglm.networks.rows import WEIGHT, NetworkRows, Units

READERS = 2
"""Units that are read at the same time."""


class Batch(NamedTuple):
    """The rows of a step, with `groups` and `numbers` as in `NetworkRows`.

    `share` [rows] is the weight of a row divided by the weight of all rows read in the step. It is 0 for rows that fill up the
    last batches of an epoch. `place` [rows] is the place of a row in the batch of all devices.
    """

    groups: tf.Tensor
    numbers: tf.Tensor
    share: tf.Tensor
    place: tf.Tensor


class Batches:
    """The batches of each epoch, which has every row once. Seed and number of the epoch alone determine their order, so an
    interrupted training continues in it.

    With `auto_shard: file` they are the parts of the batches that one process makes from its `own` units, followed by so
    many `empty` batches. TensorFlow's AutoShardPolicy.FILE cannot divide the units: it looks for data sets of files, such
    as TFRecordDataset, and refuses a range of numbers.
    """

    def __init__(self, units: Units, settings: TrainingConfig, own: range | None = None, empty: int = 0) -> None:
        self._settings, self._units, self._empty, self._widths = settings, units, empty, units.widths
        self._own = range(len(units)) if own is None else own
        self._size = settings.batch_size // settings.readers
        read = self._numbers.map(self._unit, READERS)
        self._cached = read.cache() if settings.cache else None

    def epochs(self, first: int, end: int) -> tf.data.Dataset:
        """The batches of these epochs, counted from 0, one after the other: a data set for each took 0.3 s to make."""
        seeds = [np.random.default_rng([self._settings.seed, epoch]).integers(2**31) for epoch in range(first, end)]
        mixed = tf.data.Dataset.from_tensor_slices(np.array(seeds, np.int64)).flat_map(self._epoch)
        return mixed.unbatch().prefetch(self._settings.prefetch)

    def _epoch(self, seed: tf.Tensor) -> tf.data.Dataset:
        """The batches of an epoch, several at a time."""
        units = self._numbers if self._cached is None else self._cached
        if self._settings.shuffle:
            units = units.shuffle(len(self._own), seed)
        rows = units.map(self._unit, READERS) if self._cached is None else units
        at_once = rows_at_once(self._size, self._widths[1], self._settings.shuffle_buffer)
        batches = rows.rebatch(at_once).enumerate().map(partial(self._cut, seed), READERS)
        if not self._empty:
            return batches
        # Rows with weight 0, for the steps in which only other processes have rows left.
        groups, numbers = (tf.zeros([1, self._size, width]) for width in self._widths)
        empty = Batch(tf.cast(groups, tf.int32), numbers, numbers[:, :, WEIGHT], self._places[None])
        return batches.concatenate(tf.data.Dataset.from_tensors(empty).repeat(self._empty))

    @property
    def _numbers(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(self._own.start, self._own.stop, self._own.step)

    def _unit(self, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The rows of a unit that take part."""
        groups, numbers = tf.numpy_function(
            lambda number: tuple(self._units.train(int(number))), [number], [tf.int32, tf.float32]
        )
        return tf.ensure_shape(groups, [None, self._widths[0]]), tf.ensure_shape(numbers, [None, self._widths[1]])

    def _cut(self, seed: tf.Tensor, place: tf.Tensor, rows: tuple[tf.Tensor, tf.Tensor]) -> Batch:
        """Cut rows into batches, in random order."""
        settings = self._settings

        def cut_rows(seed: int, place: int, *rows: np.ndarray) -> tuple[np.ndarray, ...]:
            count = len(rows[0])
            order = np.random.default_rng([seed, place]).permutation(count) if settings.shuffle else np.arange(count)
            return cut(NetworkRows(*rows), order, self._size)

        batches = tf.numpy_function(cut_rows, [seed, place, *rows], [tf.int32, tf.float32, tf.float32])
        shapes = [[None, self._size, *width] for width in ([self._widths[0]], [self._widths[1]], [])]
        groups, numbers, share = map(tf.ensure_shape, batches, shapes)
        return Batch(groups, numbers, share, tf.tile(self._places[None], [tf.shape(share)[0], 1]))

    @property
    def _places(self) -> tf.Tensor:
        """Those of the rows of a batch: a process that reads only its part of it has the number of its first unit."""
        return self._own.start * self._size + tf.range(self._size)
