"""The ps and the workers of one cluster, seen from the chief that gives them work."""

import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfglm import tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import announce, probe
from tfglm.roles.announce import Announcement

with tensorflow_setup.quiet():
    import tensorflow as tf

_PS = re.compile(r"/job:ps/replica:\d+/task:(\d+)")
_LOST = "GRPC error information from remote target /job:ps"


Waiting = Callable[[], contextlib.AbstractContextManager[None]]
"""Inside `waiting()` the chief waits for its cluster, and its watchdog counts the seconds."""


class Servers:
    """Connects to TensorFlow servers: once a process, and before it runs any TensorFlow operation. Raises UserError if a
    member does not answer within `deadline_seconds`; left to itself TensorFlow would wait for ever. `waiting` is entered
    while this process waits. `resumes` says what the same command does after the end of a run."""

    def __init__(
        self,
        members: Sequence[Announcement],
        deadline_seconds: float,
        waiting: Waiting,
        resumes: str = "the fit resumes from the last sum that it completed",
    ) -> None:
        cluster = {role: announce.addresses(members, role) for role in ("ps", "worker")}
        deadline = time.monotonic() + deadline_seconds
        for member in members:
            while probe.ask(member.address) != "answers":
                if time.monotonic() > deadline:
                    raise UserError(
                        f"{member.place}, does not answer within {deadline_seconds:.0f} s; see whether its process lives and "
                        f"whether the network lets the port through"
                    )
                time.sleep(0.2)
        tensorflow_setup.limit_threads()
        # Grappler takes half a second per function, and improves nothing in graphs of a few operations.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        # What its threads report of a lost worker, a page each, the watchdog says in a line; errors of a pass are raised.
        tf.get_logger().setLevel("CRITICAL")
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
        with waiting():
            self.strategy = tf.distribute.ParameterServerStrategy(resolver)
            self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.waiting, self._resumes = waiting, resumes
        self.ps = {member.index: member for member in members if member.role == "ps"}
        self.workers = len(members) - len(self.ps)
        of_workers = [gpu for gpu in tf.config.list_logical_devices("GPU") if "/job:worker/" in gpu.name]
        self.gpus = len(of_workers) // self.workers
        """The GPUs of each worker. TensorFlow refuses workers with different numbers of them."""

    def schedule(self, function: Callable, arguments: tuple) -> Any:
        """Schedule a `tf.function` on any free worker; `fetch` waits for its result. It runs at least once: the work of a
        lost worker is given to another worker."""
        with self.waiting():
            return self._coordinator.schedule(function, args=arguments)

    def fetch(self, result: tf.distribute.coordinator.RemoteValue) -> Any:
        """Wait for one result, an array or a structure of some, which cannot be written to. Raises the error that made it
        impossible."""
        with self.waiting():
            return self._get(result)

    def fetch_all(self, function: Callable, calls: Sequence[tuple], spare: int) -> list[Any]:
        """Have a `tf.function` run by the workers with the arguments of each call; the results in the order of the calls.
        Once no more than `spare` results are missing, these calls are made a second time, and the first result of each
        counts: for functions that change nothing."""
        results = [self.schedule(function, arguments) for arguments in calls]
        if not spare:
            return [self.fetch(result) for result in results]
        arrived: queue.SimpleQueue = queue.SimpleQueue()

        def get(place: int, result: Any) -> None:
            try:
                arrived.put((place, self._get(result)))
            except tf.errors.OpError as error:
                arrived.put((place, error))

        def wait_for(waited: Mapping[int, Any]) -> None:
            for place, result in waited.items():
                # It may wait for a frozen worker for ever.
                threading.Thread(target=get, args=(place, result), daemon=True).start()

        wait_for(dict(enumerate(results)))
        values: dict[int, Any] = {}
        repeated = False
        with self.waiting():
            while len(values) < len(calls):
                missing = [place for place in range(len(calls)) if place not in values]
                if len(missing) <= spare and not repeated:
                    repeated = True
                    wait_for({place: self.schedule(function, calls[place]) for place in missing})
                place, value = arrived.get()
                if isinstance(value, tf.errors.OpError):
                    raise value
                values.setdefault(place, value)
        return [values[place] for place in range(len(calls))]

    def _get(self, result: tf.distribute.coordinator.RemoteValue) -> Any:
        while True:
            try:
                # `result.fetch()` returns a copy of this, 50 ms later for 53 MB.
                return tf.nest.map_structure(lambda tensor: np.asarray(memoryview(tensor)), result.get())
            except tf.errors.OpError:
                # `done` raises what cannot be repaired. Otherwise the worker died between the end of the call and the
                # copy of its result to here: the coordinator has put the call back and will set a new result.
                self._coordinator.done()
                time.sleep(0.1)

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        """Turn an error of TensorFlow into a UserError whose first line says what happened."""
        try:
            yield
        except tf.errors.OpError as error:
            raise UserError(self._explain(error)) from error

    def _explain(self, error: tf.errors.OpError) -> str:
        said = re.search(r"ValueError: (.*?)\n+(?:Traceback|\s*\[\[)", error.message, re.DOTALL)
        lost = _PS.search(error.message)
        # A ps that a failed task was to write to says that it has failed too.
        if said and said[1]:
            return f"a task failed on a worker: {said[1]}"
        if lost and (_LOST in error.message or isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)):
            return (
                f"{self.ps[int(lost[1])].place}, is lost, with the state that it held; its log, or that of "
                f"roles.py, says why. Run the same command again: {self._resumes}"
            )
        return f"a task failed on a worker: {error.message}"
