"""An executor in this process: no cluster, no TensorFlow."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfglm.distribute import tasks
from tfglm.distribute.executor import Call, Executor, Shared, State
from tfglm.distribute.tasks import Task


class SharedHere:
    """An array of this process that calls change."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.additions = np.asarray(array, float), 0

    def add(self, difference: np.ndarray) -> None:
        self.array = self.array + difference
        self.additions += 1

    def read(self) -> tuple[np.ndarray, int]:
        return self.array, self.additions


class ExecutorInRounds(Executor):
    """An executor with the shared array in this process."""

    def share(self, array: np.ndarray) -> SharedHere:
        return SharedHere(array)

    def update(
        self, calls: Sequence[tuple[Task, Call]], shared: Shared, weight: float
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """See `Executor.update`: as if all workers were equally fast. Each round has one call for each worker, and all read the
        array as it was before the round. So it is the same each time with so many workers."""
        assert isinstance(shared, SharedHere)
        for first in range(0, len(calls), self.workers):
            read = shared.array
            vectors = self.map(calls[first : first + self.workers], {"state": read})
            for number, vector in enumerate(vectors, first):
                difference, rest = np.split(vector, [read.size])
                finite = bool(np.all(np.isfinite(difference)))
                if finite:
                    shared.add(weight * difference.reshape(read.shape))
                yield [(number, rest if finite else np.full(len(rest), np.nan))]


class LocalExecutor(ExecutorInRounds):
    """Runs one call after the other, and remembers nothing."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        if not calls:
            raise ValueError("a sum needs at least one call")
        return tasks.run(task, calls, state)

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        return (tasks.run(task, [call], state) for task, call in calls)


MOST_TOGETHER = 16
"""Calls of a thread in a row, at most, so that no thread waits long for the last one."""


class ThreadedExecutor(ExecutorInRounds):
    """Runs calls in so many threads of this process: the compiled loops of a pass run without Python's lock."""

    def __init__(self, workers: int) -> None:
        self.workers, self._threads = workers, ThreadPoolExecutor(workers)

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        if not calls:
            raise ValueError("a sum needs at least one call")
        division = tasks.divide(task, calls, self.workers, MOST_TOGETHER)
        pieces = division.pieces(calls)
        return division.added(self._threads.map(lambda piece: tasks.run(piece[0], piece[1], state), pieces))

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        return self._threads.map(lambda each: tasks.run(each[0], [each[1]], state), calls)
