"""The interface with which a solver runs its sums, independent of where they run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfglm.distribute.tasks import Task

Call = tuple[Any, ...]
"""The arguments of a task beside the state: arrays, numbers and texts."""

State = Mapping[str, np.ndarray]
"""The common input of all calls of a sum: float64 arrays by name."""

Arrays = dict[str, np.ndarray]


class Shared(Protocol):
    """An array that calls change while others read it."""

    def read(self) -> tuple[np.ndarray, int]:
        """Return the current value, float64 [rows, columns], and the number of additions so far."""


class Executor(Protocol):
    """Runs tasks. Each task returns `task(state, *call)`, a float64 vector, without side effects.

    `distribute.local` runs tasks in this process, `distribute.parameter_server` and `distribute.multi_worker_mirrored` run
    them in several processes; `resume` continues where an earlier fit ended. With any of them, `sum` and `map` return the
    same bits. They raise UserError if a task fails, or if it is not registered.
    """

    workers: int
    """The number of calls that run at the same time."""
    kept: str = ""
    """Where stored answers are; '' if nowhere."""

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        """The sum of `task(state, *call)` over at least one call, added pairwise in the order of the calls
        (`reduction.pairwise`)."""

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        """`task(state, *call)` for each (task, call), in their order."""

    def share(self, array: np.ndarray) -> Shared:
        """Share an array [rows, columns], which `update` changes."""

    def update(
        self, calls: Sequence[tuple[Task, Call]], shared: Shared, weight: float
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """Run `task({"state": shared}, *call)` for each (task, call), with the value of `shared` at the start of the task.

        A task returns a vector that begins with its difference to the state. At the end of the task `weight` times the
        difference is added to `shared`, if all of it is finite. Several calls may run at the same time. If a worker dies, a
        call may run twice; then `shared` has more additions than there were calls.

        Yields
        ------
        The number of each call and the rest of its vector (NaN if the difference was not finite), in the order of the calls.
        Calls that a worker ran in a row are yielded together.
        """

    def remember(self, question: str, make: Callable[[], Arrays]) -> Arrays:
        """Return `make()`. An executor that resumes an earlier fit returns the stored answers to the same questions, if they come
        in the same order."""
        return make()
