"""How a worker answers: by a task that is registered in its process, and by nothing else.

Of TensorFlow it needs `tf.numpy_function` alone, from where that is defined: all the rest would be half of the start of a worker
(`tensorflow_setup.in_parts`).
"""

from itertools import chain, islice

import numpy as np

from tfglm import tensorflow_setup
from tfglm.distribute import tasks, wire
from tfglm.distribute.designs import Designs
from tfglm.distribute.tasks import Task
from tfglm.errors import UserError

with tensorflow_setup.quiet():
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import array_ops, script_ops

TOKEN = "pyfunc_0"
"""TensorFlow's name for the first Python function of a process."""

_GRAPH = ops.Graph()
"""TensorFlow forgets a Python function with the graph that it is in. To make it starts a thread: what is to be forked from this
process is forked before (`roles.forking`)."""


def run(header: bytes, state: np.ndarray, words: np.ndarray, designs: Designs) -> np.ndarray:
    """Return the requested sum, computed by a task that is registered in this process, and by nothing else. Raises UserError
    as `tasks.run` does, and for a request that no chief makes."""
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
    """Make this process answer `remote.operation` by `run`."""

    def answer(state: np.ndarray, message: np.ndarray) -> np.ndarray:
        try:
            header, words = wire.opened(message)
            return run(header, state, words, designs)
        except UserError as error:
            raise ValueError(str(error)) from None

    with _GRAPH.as_default():
        inputs = [array_ops.placeholder(kind) for kind in (dtypes.float64, dtypes.int64)]
        token = script_ops.numpy_function(answer, inputs, dtypes.float64).op.get_attr("token").decode()
    assert token == TOKEN
