"""The one operation that a worker runs: a call of Python, in a TensorFlow graph.

What TensorFlow sends to a worker is a graph of three operations: read the state from the ps, run the task, return its vector. The
worker does it by `answers`.
"""

from collections.abc import Mapping, Sequence

from tfglm import tensorflow_setup
from tfglm.distribute import wire
from tfglm.distribute.answers import TOKEN
from tfglm.distribute.tasks import Task

with tensorflow_setup.quiet():
    import tensorflow as tf


def operation(state: tf.Tensor, message: tf.Tensor) -> tf.Tensor:
    """The operation that sums a task over some calls on a worker. `state` has the arrays of the state, one after the other,
    float64 [numbers]; `message` is what `wire.message` writes, int64 [words]. It is the same for all tasks: TensorFlow takes
    10 ms to make a graph and to bring it to a worker, as long as a pass over the rows of a small fit."""
    (vector,) = tf.raw_ops.PyFunc(input=[state, message], token=TOKEN, Tout=[tf.float64])
    return tf.ensure_shape(vector, [None])


def operation_of(
    task: Task, shapes: Mapping[str, tuple[int, ...]], calls: Sequence[wire.Kinds], state: tf.Tensor, words: tf.Tensor
) -> tf.Tensor:
    """Return the operation of one task, for use in larger graphs. `shapes` are those of the arrays of the state, by name,
    and `calls` the types and shapes of the arrays of each call. `state` is float64 [numbers]; `words` are what `wire.pack`
    writes, int64."""
    header = tf.constant(wire.message(wire.header(task, shapes, calls)))
    return operation(state, tf.concat([header, words], 0))
