"""What a solver needs to have its work done, wherever it is done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfglm.distribute.tasks import Task

Call = tuple[Any, ...]
"""The arguments of a task beside the state: arrays, numbers and texts."""

State = Mapping[str, np.ndarray]
"""What all calls of a sum are given: float64 arrays by name."""

Arrays = dict[str, np.ndarray]


class Shared(Protocol):
    """An array that calls change while others read it."""

    def read(self) -> tuple[np.ndarray, int]:
        """As it is now, float64 [rows, columns], and how often something has been added."""


class Executor(Protocol):
    """Runs tasks. Each gives `task(state, *call)`, a float64 vector, without side effects.

    `distribute.local` does it in this process, `distribute.parameter_server` and `distribute.multi_worker_mirrored` by
    several; `resume` goes on where an earlier fit ended. Whoever does it, `sum` and `map` return the same bit for bit. They raise
    UserError if a task fails, or if it is none of those that are registered.
    """

    @property
    def workers(self) -> int:
        """How many calls run at the same time."""

    @property
    def kept(self) -> str:
        """Where to find what is remembered; '' if that is nowhere."""

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        """The sum of `task(state, *call)` over at least one call, added pairwise in the order of the calls
        (`reduction.pairwise`)."""

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        """`task(state, *call)` for each (task, call), in their order."""

    def share(self, array: np.ndarray) -> Shared:
        """Make an array [rows, columns] one that `update` changes."""

    def update(
        self, calls: Sequence[tuple[Task, Call]], shared: Shared, weight: float
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """Run `task({"state": shared}, *call)` for each (task, call), each on what `shared` is when it begins.

        A task returns a vector that begins with its difference to the state; `weight` times that is added to `shared` where it
        ends, if all of it is finite. Several calls may run at the same time, and one may be run twice if its worker dies:
        `shared` then counts more additions than there were calls.

        Yields
        ------
        The number of each call and the rest of its vector (NaN if the difference was not finite), in the order of the calls;
        together those that a worker has run in a row.
        """

    def remember(self, question: str, make: Callable[[], Arrays]) -> Arrays:
        """What `make` returns. An executor that resumes an earlier fit has its answers to the same questions, asked in the same
        order."""
