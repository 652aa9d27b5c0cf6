"""The one operation that a worker runs: a call of Python, in a TensorFlow graph.

What TensorFlow sends to a worker is a graph of three operations: read the state from the ps, run the task, return its vector.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice

import numpy as np

from tfglm import tensorflow_setup
from tfglm.distribute import tasks, wire
from tfglm.distribute.designs import Designs
from tfglm.distribute.tasks import Task
from tfglm.errors import UserError

with tensorflow_setup.quiet():
    import tensorflow as tf

TOKEN = "pyfunc_0"
"""By which TensorFlow knows the first Python function of a process."""

_GRAPH = tf.Graph()
"""TensorFlow forgets a Python function with the graph that it is in."""


def operation(state: tf.Tensor, message: tf.Tensor) -> tf.Tensor:
    """The operation that sums a task over some calls on a worker.

    It is the same for all tasks: TensorFlow takes 10 ms to make a graph and to bring it to a worker, as long as a pass over the
    rows of a small fit.

    Parameters
    ----------
    state
        The arrays of the state, one after the other, float64 [numbers].
    message
        The header and the arrays of the calls, as `wire.message` writes them, int64 [words].
    """
    (vector,) = tf.raw_ops.PyFunc(input=[state, message], token=TOKEN, Tout=[tf.float64])
    return tf.ensure_shape(vector, [None])


def operation_of(
    task: Task,
    shapes: Mapping[str, tuple[int, ...]],
    calls: Sequence[wire.Kinds],
    state: tf.Tensor,
    words: tf.Tensor,
) -> tf.Tensor:
    """The operation of one task, for graphs that have more in them.

    Parameters
    ----------
    task
        What is summed; the header of the operation has its kind, the digest of its design, and its settings.
    shapes
        Of the arrays of the state, by name.
    calls
        Types and shapes of the arrays of each call.
    state
        The arrays of the state, one after the other, float64 [numbers].
    words
        The arrays of the calls, as `wire.pack` writes them, int64 [words].
    """
    header = tf.constant(wire.message(wire.header(task, shapes, calls)))
    return operation(state, tf.concat([header, words], 0))


def run(header: bytes, state: np.ndarray, words: np.ndarray, designs: Designs) -> np.ndarray:
    """The sum that is asked for: by a task that is registered in this process, and by nothing else.

    Raises UserError as `tasks.run` does, and for a request that no chief makes.
    """
    try:
        request = wire.checked(header, len(state), len(words))
        task = Task(request.kind, designs.get(request.design), request.settings)
        arrays = iter(wire.unpack(chain(*request.calls), words))
        calls = [list(islice(arrays, len(call))) for call in request.calls]
        return tasks.run(task, calls, request.named(state))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"refused: {type(error).__name__}: {error}") from None


def serve(designs: Designs) -> None:
    """Make this process answer `operation` by `run`."""

    def answer(state: np.ndarray, message: np.ndarray) -> np.ndarray:
        try:
            header, words = wire.opened(message)
            return run(header, state, words, designs)
        except UserError as error:
            raise ValueError(str(error)) from None

    with _GRAPH.as_default():
        inputs = [tf.compat.v1.placeholder(kind) for kind in (tf.float64, tf.int64)]
        token = tf.numpy_function(answer, inputs, tf.float64).op.get_attr("token").decode()
    assert token == TOKEN
