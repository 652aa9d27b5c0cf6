"""Keras' optimizers, with the gradient of an embedding summed by level first."""

import functools
from typing import Any

import keras
import tensorflow as tf

from tfglm.config import OptimizerConfig


class SummedByLevel:
    """To be put before an optimizer of Keras.

    The gradient of an embedding comes as one row for each row of the batch, several of the same level. Keras 3.15 squares these
    rows and then adds them, where all formulas but that of sgd square the sum: a level of many rows took steps far too small.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if isinstance(gradient, tf.IndexedSlices):
            levels, places = tf.unique(gradient.indices)
            summed = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(levels))
            gradient = tf.IndexedSlices(summed, levels, gradient.dense_shape)
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]


@functools.cache
def _kind(name: str) -> type[keras.Optimizer]:
    of_keras = type(keras.optimizers.get(name))
    return type(of_keras.__name__, (SummedByLevel, of_keras), {})


def optimizer(settings: OptimizerConfig) -> keras.Optimizer:
    """The optimizer of this name with these settings."""
    return _kind(settings.name)(**settings.given)
