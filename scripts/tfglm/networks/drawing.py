"""Random numbers by row: in a step a row gets the same numbers on any device and under any strategy.

Keras draws for the rows that a device has, so dropout and noise would depend on how a strategy divides a batch. Here its
layers draw for the whole batch, and a device takes the numbers of its rows. Keras has no option for this, so functions of
`keras.src.backend.random`, through which all its layers draw, are replaced. A layer that calls TensorFlow or NumPy itself
draws as it likes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import tensorflow as tf

BY_SHAPE = ("normal", "uniform", "truncated_normal", "randint")
"""Functions of Keras that draw a tensor of a given shape."""


class PartOfBatch(threading.local):
    """The rows of the device that is being traced: their `places` [rows] in a batch of `size` rows; None for a whole batch.
    TensorFlow traces each device in a thread of its own."""

    places: tf.Tensor | None = None
    size = 0


PART = PartOfBatch()


@contextmanager
def draw_by_row(places: tf.Tensor, size: int) -> Iterator[None]:
    """Have layers draw for rows at these `places` [rows] of a batch of `size` rows."""
    PART.places, PART.size = places, size
    try:
        yield
    finally:
        PART.places = None


def has_rows(first: Any) -> bool:
    """Whether the `first` dimension of a tensor is that of the rows of a part of a batch."""
    return PART.places is not None and (not isinstance(first, int) or first == PART.places.shape[0])


def drawn(draw: Callable[..., tf.Tensor], shape: Any, *arguments: Any, **options: Any) -> tf.Tensor:
    """Return a tensor of this shape that Keras' function draws, by row if it has rows."""
    shape = tf.unstack(shape) if tf.is_tensor(shape) else shape
    if not len(shape) or not has_rows(shape[0]):
        return draw(shape, *arguments, **options)
    return tf.gather(draw((PART.size, *shape[1:]), *arguments, **options), PART.places)


def dropped(
    drop: Callable[..., tf.Tensor], inputs: tf.Tensor, rate: float, noise_shape: Any = None, seed: Any = None
) -> tf.Tensor:
    """Return `inputs` without the units that Keras' function drops, by row if it has rows."""
    if not has_rows(inputs.shape[0]):
        return drop(inputs, rate, noise_shape, seed)
    ones = tf.ones((PART.size, *keras.ops.shape(inputs)[1:]), inputs.dtype)
    if noise_shape is not None and has_rows(noise_shape[0]):
        noise_shape = (None, *noise_shape[1:])
    return inputs * tf.gather(drop(ones, rate, noise_shape, seed), PART.places)


_keras = keras.src.backend.random
for _name in BY_SHAPE:
    setattr(_keras, _name, partial(drawn, getattr(_keras, _name)))
_keras.dropout = partial(dropped, _keras.dropout)
