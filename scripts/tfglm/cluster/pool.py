"""The chief's hold on a cluster: a sum of a pure function over many calls, spread over the workers.

The chief adds what the calls return, in the order of the calls. TensorFlow promises only that a call runs *at least* once:
a sum kept in a variable by the workers was wrong after a worker had been killed. This one is the same bit for bit for any
number of workers, and for any that die on the way.
"""

import contextlib
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfglm import runtime
from tfglm.cluster import announce
from tfglm.errors import UserError

with runtime.quiet():
    import tensorflow as tf

Pass = Callable[..., Any]
"""A tf.function `(state, *call) -> nest of numeric tensors` of static shapes, without side effects."""

_PS = re.compile(r"/job:ps/replica:\d+/task:(\d+)")
_LOST = "GRPC error information from remote target /job:ps"


def connect(ps_addresses: Sequence[str], worker_addresses: Sequence[str], deadline_seconds: float) -> "Pool":
    """A pool over the TensorFlow servers at these addresses (`host:port`, in the order of their indices).

    Once a process, and before it runs any TensorFlow operation. Raises UserError if a server accepts no connection
    within the deadline; left to itself TensorFlow would wait for it for ever.
    """
    cluster = {"ps": list(ps_addresses), "worker": list(worker_addresses)}
    deadline = time.monotonic() + deadline_seconds
    for role, addresses in cluster.items():
        for index, address in enumerate(addresses):
            while not announce.reachable(address):
                if time.monotonic() > deadline:
                    raise UserError(
                        f"{role} {index} does not answer at {address} within {deadline_seconds:.0f} s; see whether its "
                        f"process lives and whether the network lets the port through"
                    )
                time.sleep(0.2)
    runtime.limit_threads()
    # What its threads report of a lost worker, a page each, the watchdog says in a line; errors of a pass are raised.
    tf.get_logger().setLevel("CRITICAL")
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return Pool(tf.distribute.coordinator.ClusterCoordinator(strategy), cluster)


class _Scheduled:
    """A pass as a worker runs it: it reads the state from the ps and returns all its sums as one float64 vector.

    One, because each tensor that a call returns costs a round trip of its own: ten made it 5 times as slow.
    """

    def __init__(self, pass_: Pass, variables: Mapping[str, tf.Variable]) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.structure: Any = None

        @tf.function(autograph=False)  # `pass_` is a tf.function itself
        def function(*call: tf.Tensor) -> tf.Tensor:
            # Read here and not inside `pass_`: XLA compiles no function that holds a variable of another machine.
            result = pass_({name: variable.read_value() for name, variable in variables.items()}, *call)
            flat = tf.nest.flatten(result)
            self.shapes = [tuple(tensor.shape) for tensor in flat]
            self.structure = tf.nest.map_structure(lambda _: None, result)
            return tf.concat([tf.reshape(tf.cast(tensor, tf.float64), [-1]) for tensor in flat], axis=0)

        self.function = function

    def unpack(self, vector: np.ndarray) -> Any:
        """The nest that the pass returned, as views of the vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)]
        return tf.nest.pack_sequence_as(self.structure, parts)


class Pool:
    """The workers and the ps of one cluster."""

    def __init__(
        self, coordinator: tf.distribute.coordinator.ClusterCoordinator, cluster: dict[str, list[str]]
    ) -> None:
        self._coordinator, self._cluster = coordinator, cluster
        self._variables: dict[tuple, dict[str, tf.Variable]] = {}
        self._scheduled: dict[tuple, _Scheduled] = {}
        # Bounds the results that wait on the chief for their turn, without idling workers faster than another.
        self._ahead = 4 * len(cluster["worker"])
        self._outstanding = 0
        self._progress = time.monotonic()
        self.first_calls_seconds = 0.0
        """Spent until the first result of each pass, which is traced and compiled then."""

    def sum(self, pass_: Pass, calls: Sequence[tuple], state: Mapping[str, Any]) -> Any:
        """The sum of `pass_(state, *call)` over `calls`, a nest of float64 arrays, added in the order of the calls.

        `state`, arrays by name, goes to the ps once; each call reads it from there. A call holds numpy arrays, numbers
        and strings. Arrays of another shape or type trace the pass anew: keep the distinct ones few, and hand over the
        same `pass_` object each time. Calls cost 1.5 ms each, results 0.1 s for 53 MB: make few and large ones.

        Raises UserError if a ps is lost or if the pass itself fails on a worker, with the message of its assertion.
        Lost workers are not an error: their calls are repeated by others, or by themselves when they are back.
        """
        if not calls:
            raise ValueError("a sum needs at least one call")
        with self._readable():
            started, known = time.monotonic(), len(self._scheduled)
            scheduled = self._prepare(pass_, {name: np.asarray(value) for name, value in state.items()})
            is_new = len(self._scheduled) > known
            waiting: deque = deque()
            total = np.zeros(())
            self._progress = time.monotonic()
            for call in calls:
                waiting.append(self._coordinator.schedule(scheduled.function, args=tuple(map(tf.constant, call))))
                self._outstanding = len(waiting)
                if len(waiting) == self._ahead:
                    total = total + self._fetch(waiting.popleft())
            while waiting:
                total = total + self._fetch(waiting.popleft())
                self._outstanding = len(waiting)
                if is_new:
                    self.first_calls_seconds += time.monotonic() - started
                    is_new = False
        return scheduled.unpack(total)

    def stalled_seconds(self) -> float:
        """How long the chief has waited for the call that is next in order; 0 when no call is outstanding."""
        return time.monotonic() - self._progress if self._outstanding else 0.0

    def _prepare(self, pass_: Pass, state: dict[str, np.ndarray]) -> _Scheduled:
        """Put `state` on the ps; return `pass_` as a function of the call alone, the same at each sum."""
        layout = tuple((name, value.shape, value.dtype.str) for name, value in sorted(state.items()))
        if layout not in self._variables:
            # Made under the scope, variables are spread over the ps by the strategy, in turn.
            with self._coordinator.strategy.scope():
                self._variables[layout] = {
                    name: tf.Variable(tf.zeros(value.shape, value.dtype), name=f"state_{name}", trainable=False)
                    for name, value in state.items()
                }
        variables = self._variables[layout]
        for name, value in state.items():
            variables[name].assign(value)
        if (pass_, layout) not in self._scheduled:
            self._scheduled[pass_, layout] = _Scheduled(pass_, variables)
        return self._scheduled[pass_, layout]

    def _fetch(self, result: tf.distribute.coordinator.RemoteValue) -> np.ndarray:
        """Wait for one result. Raises the error that made it impossible."""
        while True:
            try:
                fetched = result.fetch()
            except tf.errors.OpError:
                # `done` raises what cannot be repaired. Otherwise the worker died between the end of the call and the
                # copy of its result to here: the coordinator has put the call back and will set a new result.
                self._coordinator.done()
                time.sleep(0.1)
            else:
                self._progress = time.monotonic()
                return fetched

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn an error of TensorFlow into a UserError whose first line says what happened."""
        try:
            yield
        except tf.errors.OpError as error:
            raise UserError(self._explain(error)) from error
        finally:
            self._outstanding = 0

    def _explain(self, error: tf.errors.OpError) -> str:
        lost = _PS.search(error.message)
        if lost and (_LOST in error.message or isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)):
            index = int(lost[1])
            return (
                f"ps {index} at {self._cluster['ps'][index]} is lost, and the state that it kept; its log says why. "
                f"Start again: the fit resumes from its last checkpoint"
            )
        return f"a pass failed on a worker: {own_words(error.message)}"


def own_words(message: str) -> str:
    """The part of a TensorFlow error that the author of the failed operation wrote."""
    asserted = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
    if asserted:
        return asserted[1]
    lines = [line.strip() for line in message.splitlines()]
    told = [line for line in lines if line and not re.match(r"Graph execution error|Detected at|\(\d+\) |\[\[", line)]
    return re.sub(r"\s*\[Op:.*\]$", "", told[0]) if told else message
