"""Batches of rows, by tf.data: units of the shards in random order, mixed, and cut into batches."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.networks.rows import WEIGHT, Units

MIXED_ROWS = 2**17
"""About so many rows of random units are mixed: those of a file lie shuffled already, but units of several files do not."""

READERS = 2
"""Units that are read at the same time."""


class Batch(NamedTuple):
    """The rows of a step: `groups` and `numbers` as `Rows` has them; `share` [rows], the weight of a row divided by that of all,
    0 where the last batch of an epoch is filled up."""

    groups: tf.Tensor
    numbers: tf.Tensor
    share: tf.Tensor


class Batches:
    """The batches of each epoch. Their order follows from the seed and the number of the epoch alone, so an interrupted training
    goes on in it."""

    def __init__(self, units: Units, settings: TrainingConfig) -> None:
        self._settings, self._units = settings, units
        self._read = tf.data.Dataset.range(len(units)).map(self._unit, READERS).cache() if settings.cache else None

    def epoch(self, number: int) -> tf.data.Dataset:
        """The batches of an epoch, from 0."""
        settings, count = self._settings, len(self._units)
        seed = int(np.random.default_rng([settings.seed, number]).integers(2**31))
        if self._read is not None:
            rows = self._read.shuffle(count, seed) if settings.shuffle else self._read
        else:
            numbers = tf.data.Dataset.range(count)
            rows = (numbers.shuffle(count, seed) if settings.shuffle else numbers).map(self._unit, READERS)
        batches = max(1, MIXED_ROWS // settings.batch_size)
        mixed = rows.rebatch(batches * settings.batch_size).enumerate().map(self._cut(seed), READERS)
        return mixed.unbatch().prefetch(settings.prefetch)

    def _unit(self, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The rows of a unit that take part."""
        groups, numbers = tf.numpy_function(
            lambda number: tuple(self._units.train(int(number))), [number], [tf.int32, tf.float32]
        )
        widths = len(self._units.design.groupings), self._units.multipliers + 3
        return tf.ensure_shape(groups, [None, widths[0]]), tf.ensure_shape(numbers, [None, widths[1]])

    def _cut(self, seed: int) -> Callable[[tf.Tensor, tuple[tf.Tensor, tf.Tensor]], Batch]:
        """Cut rows, in random order, into batches; the last one is filled up with rows of no weight."""
        size, shuffle = self._settings.batch_size, self._settings.shuffle

        def order(place: int, rows: int) -> np.ndarray:
            return np.random.default_rng([seed, place]).permutation(rows).astype(np.int32)

        def cut(place: tf.Tensor, rows: tuple[tf.Tensor, tf.Tensor]) -> Batch:
            groups, numbers = rows
            count = tf.shape(groups)[0]
            if shuffle:
                chosen = tf.ensure_shape(tf.numpy_function(order, [place, count], tf.int32), [None])
                groups, numbers = tf.gather(groups, chosen), tf.gather(numbers, chosen)
            fill = [[0, -count % size], [0, 0]]
            groups, numbers = (
                tf.reshape(tf.pad(values, fill), [-1, size, values.shape[1]]) for values in (groups, numbers)
            )
            weight = numbers[:, :, WEIGHT]
            return Batch(groups, numbers, weight / tf.reduce_sum(weight, axis=1, keepdims=True))

        return cut
