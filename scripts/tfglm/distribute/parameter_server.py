"""An executor on a cluster of parameter servers and workers, as the chief uses it.

Workers add the results of their calls, and the chief adds the results of the workers. The order depends only on the order
of the calls (`reduction.pairwise`). TensorFlow promises only that a call runs *at least* once: a sum in a variable on the
ps was wrong after a worker had been killed. The sum of this executor is the same bit for bit for any number of workers, and
also if workers die.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfglm import command, tensorflow_setup
from tfglm.distribute import remote, tasks, wire
from tfglm.distribute.designs import Designs
from tfglm.distribute.executor import Call, Executor, Shared, State
from tfglm.distribute.servers import Servers, Waiting
from tfglm.distribute.slots import Slots, write
from tfglm.distribute.tasks import Division, Task
from tfglm.errors import UserError
from tfglm.roles.announce import Announcement

with tensorflow_setup.quiet():
    import tensorflow as tf

MOST_TOGETHER = 16
"""Calls; they are lost with a worker."""

MOST_ATTEMPTS = 5
"""To have a sum added by the ps: each is spoilt only by a worker that the chief had given up, and that comes back to write."""

LONGEST_TURN = 8
"""Calls that change an array, which a worker makes one after the other: between two of these are 3 ms, and 20 where the chief has
a part in it."""


def connect(
    members: Sequence[Announcement], folders: Iterable[Path], deadline_seconds: float, waiting: Waiting
) -> "ParameterServerExecutor":
    """An executor on these `Servers`. `folders` are where the workers have announced themselves; designs are put there.
    Raises UserError if a member does not answer in time."""
    servers = Servers(members, deadline_seconds, waiting)
    designs = [Designs.beside(folder) for folder in folders]
    for earlier in designs:
        earlier.remove()
    return ParameterServerExecutor(servers, designs)


def _sum_of_calls(variable: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function that a worker runs for a message: it reads the state from the ps and returns one float64 vector."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int64)])
    def scheduled(message: tf.Tensor) -> tf.Tensor:
        return remote.operation(variable.read_value(), message)

    return scheduled


def _sum_into_slot(variable: tf.Variable, sizes: Sequence[int]) -> Callable[..., tuple[()]]:
    """The same, but the worker writes the vector into a slot, whose slices are so long. Before the message is the stamp."""

    # The function accepts messages of any length.
    @tf.function(autograph=False, reduce_retracing=True)
    def scheduled(words: tf.Tensor, *slices: tf.Tensor) -> tuple[()]:
        vector = remote.operation(variable.read_value(), words[1:])
        write(slices, tf.ensure_shape(vector, [sum(sizes)]), sizes, tf.cast(words[:1], tf.float64))
        return ()

    return scheduled


class SharedOnServers:
    """An array that the ps keep together, each some of its columns. Workers add to it whenever they like."""

    def __init__(self, parts: Sequence[tf.Variable], pushes: tf.Variable, waiting: Waiting) -> None:
        self.parts, self.pushes, self._waiting = parts, pushes, waiting
        # One message for each ps.
        self._values = tf.function(
            lambda: ([part.read_value() for part in parts], pushes.read_value()), autograph=False
        )

    def read(self) -> tuple[np.ndarray, int]:
        """Return the current value, float64 [rows, columns], and the number of additions so far."""
        with self._waiting():
            parts, pushes = self._values()
            return np.concatenate([part.numpy() for part in parts], axis=1), int(pushes.numpy())


def _updates(
    task: Task, shared: SharedOnServers, weight: float, kinds: Sequence[wire.Kinds]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Updates as a worker runs them, one for each of the calls: pull the shared array, run the task, push the difference."""
    sizes = [part.shape[1] for part in shared.parts]
    shape = shared.parts[0].shape[0], sum(sizes)

    def update(kinds_of_call: wire.Kinds, words: tf.Tensor) -> tf.Tensor:
        state = tf.reshape(tf.concat([part.read_value() for part in shared.parts], 1), [-1])
        vector = remote.operation_of(task, {"state": shape}, [kinds_of_call], state, words)
        difference = tf.reshape(vector[: math.prod(shape)], shape)
        # A value that is not finite would spoil the work of all workers; the chief sees it in the result.
        finite = tf.cast(tf.reduce_all(tf.math.is_finite(difference)), tf.float64)
        difference = tf.where(finite > 0, difference, tf.zeros_like(difference))
        for part, of_part in zip(shared.parts, tf.split(difference, sizes, axis=1), strict=True):
            part.assign_add(weight * of_part)
        shared.pushes.assign_add(finite)
        rest = vector[math.prod(shape) :]
        return tf.where(finite > 0, rest, tf.fill(tf.shape(rest), tf.constant(np.nan, tf.float64)))

    @tf.function(autograph=False)
    def scheduled(words: tf.Tensor) -> tf.Tensor:
        words_of_calls = tf.split(words, [*map(wire.size, kinds)])
        # One after the other, since each changes what the next one reads.
        return tf.stack([update(*call) for call in zip(kinds, words_of_calls, strict=True)])

    return scheduled


def turns_of(kinds: Sequence[Hashable], workers: int) -> list[slice]:
    """Yield the calls to give to a worker together, if calls of one kind follow each other: turns of equal length, and an
    equal number for each worker."""
    turns, first = [], 0
    for _, alike in itertools.groupby(kinds):
        places = np.arange(first, first := first + len(list(alike)))
        rounds = -(-len(places) // (workers * LONGEST_TURN))
        parts = np.array_split(places, min(len(places), workers * rounds))
        turns += [slice(part[0], part[-1] + 1) for part in parts]
    return turns


class ParameterServerExecutor(Executor):
    """The workers and the ps of one cluster. If a worker is lost, its results are computed again; nothing is stored."""

    def __init__(self, servers: Servers, designs: Sequence[Designs]) -> None:
        self._servers, self._designs = servers, designs
        self.workers = servers.workers
        self._variables: dict[int, tf.Variable] = {}
        self._traced: dict[Hashable, Callable[..., Any]] = {}
        self._slots = Slots(servers)
        self.received = 0
        """Bytes of results that have come to the chief."""
        # Bounds the results that wait on the chief for their turn, without idling workers faster than another.
        self._ahead = 4 * self.workers

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        """See `Executor.sum`.

        The state is sent to the ps once; each call reads it from there. A state of another length needs a new trace, so use
        few different lengths. Each call costs some milliseconds, and a result of 53 MB costs 0.1 s, so use few large calls.

        Raises UserError if a ps is lost, or if the task fails on a worker, with the message of its error. Lost workers are
        no error: other workers repeat their calls, or the lost workers do so when they are back.
        """
        if not calls:
            raise ValueError("a sum needs at least one call")
        division = tasks.divide(task, calls, self.workers, MOST_TOGETHER, len(self._servers.ps))
        if division.lengths:
            return self._sum_in_slots(division, calls, state)
        return division.added(self._sums(division.pieces(calls), state))

    def _sum_in_slots(self, division: Division, calls: Sequence[Call], state: State) -> np.ndarray:
        """The sum, added by the ps."""
        pieces = division.pieces(calls)
        with self._servers.readable():
            variable = self._put(state)

            def schedule(slot: int) -> Any:
                portion = slot % len(division.portions)
                sizes = self._slots.sizes(division.lengths[portion])
                key = variable.shape[0], sizes
                if key not in self._traced:
                    self._traced[key] = _sum_into_slot(variable, sizes)
                words = np.concatenate([[stamps[slot]], self._message(*pieces[slot], state)])
                return self._schedule(key, words, self._slots.slices(portion, slot, sizes))

            for _ in range(MOST_ATTEMPTS):
                stamps = self._slots.stamps(len(pieces))
                for _ in self._in_order(len(pieces), schedule):
                    pass
                total = self._slots.added(division.lengths, stamps)
                if total is not None:
                    self.received += total.nbytes
                    return total
                command.log(
                    "a worker that had been given up has written its numbers late: the same sum again, without them"
                )
        raise UserError(f"a sum was spoilt {MOST_ATTEMPTS} times by workers that had been given up and come back")

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        return self._sums([(task, [call]) for task, call in calls], state)

    def _sums(self, pieces: Sequence[tuple[Task, Sequence[Call]]], state: State) -> Iterator[np.ndarray]:
        """The sum of `task(state, *call)` over the calls of each piece, (task, calls)."""
        with self._servers.readable():
            variable = self._put(state)
            length = variable.shape[0]
            if length not in self._traced:
                self._traced[length] = _sum_of_calls(variable)

            def schedule(number: int) -> Any:
                return self._schedule(length, self._message(*pieces[number], state))

            for result in self._in_order(len(pieces), schedule):
                self.received += result.nbytes
                yield result

    def _message(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        """The message with the sums that a worker is to compute."""
        shapes = {name: np.shape(value) for name, value in state.items()}
        header = wire.header(self._published(task), shapes, [wire.kinds(call) for call in calls])
        return wire.message(header, [array for call in calls for array in call])

    def _published(self, task: Task) -> Task:
        """The task, whose design the workers can read from now on."""
        for designs in self._designs:
            designs.put(task.design)
        return task

    def _schedule(self, key: Hashable, words: np.ndarray, slices: Sequence[tf.Tensor] = ()) -> Any:
        return self._servers.schedule(self._traced[key], (tf.constant(words), *slices))

    def _in_order(self, number: int, schedule: Callable[[int], Any]) -> Iterator[Any]:
        """Schedule the calls with the numbers 0, 1, ...; their results in this order."""
        waiting: deque = deque()
        for place in range(number):
            waiting.append(schedule(place))
            if len(waiting) == self._ahead:
                yield self._servers.fetch(waiting.popleft())
        while waiting:
            yield self._servers.fetch(waiting.popleft())

    def share(self, array: np.ndarray) -> SharedOnServers:
        """Put an array [rows, columns] on the ps, its columns divided among them."""
        with self._servers.readable(), self._servers.waiting(), self._servers.strategy.scope():
            parts = np.array_split(np.asarray(array, float), min(len(self._servers.ps), array.shape[1]), axis=1)
            variables = [tf.Variable(part, name=f"shared_{k}", trainable=False) for k, part in enumerate(parts)]
            pushes = tf.Variable(0.0, dtype=tf.float64, name="pushes", trainable=False)
            return SharedOnServers(variables, pushes, self._servers.waiting)

    def update(
        self, calls: Sequence[tuple[Task, Call]], shared: Shared, weight: float
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """See `Executor.update`: all calls are scheduled, and run as workers become free. If a worker dies after adding a
        difference, but before it reports this, its calls are repeated. Raises UserError as `sum` does."""
        assert isinstance(shared, SharedOnServers)
        kinds_of_calls = [(task, wire.kinds(call)) for task, call in calls]
        turns = turns_of(kinds_of_calls, self.workers)
        with self._servers.readable():

            def schedule(number: int) -> Any:
                turn = turns[number]
                task, kinds = kinds_of_calls[turn.start][0], tuple(kinds for _, kinds in kinds_of_calls[turn])
                key = task, shared, weight, kinds
                if key not in self._traced:
                    self._traced[key] = _updates(self._published(task), shared, weight, kinds)
                return self._schedule(key, wire.pack([array for _, call in calls[turn] for array in call]))

            for turn, rests in zip(turns, self._in_order(len(turns), schedule), strict=True):
                yield list(enumerate(rests, turn.start))

    def _put(self, state: State) -> tf.Variable:
        """The state on the ps, as one vector."""
        vector = wire.vector_of(state)
        with self._servers.waiting():
            if len(vector) not in self._variables:
                # Made under the scope, it is on a ps.
                with self._servers.strategy.scope():
                    self._variables[len(vector)] = tf.Variable(
                        tf.zeros(len(vector), tf.float64), name="state", trainable=False
                    )
            self._variables[len(vector)].assign(vector)
        return self._variables[len(vector)]
