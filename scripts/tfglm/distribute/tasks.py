"""What can be run, and the value that says so.

A task travels as words: its kind, the digest of its design and its settings. Whoever runs it finds the function here by its
kind, where the module that defines it has registered it:

    scripts/worker.py -> answers.serve -> tasks.run -> @registered("pass") in engine/passes.py,
                                                       @registered("update") in engine/updates.py
"""

import functools
import hashlib
import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from tfglm import command
from tfglm.distribute.reduction import calls_together, pairwise
from tfglm.errors import UserError

Function = Callable[..., np.ndarray]
"""`(state, *call)` to a float64 vector, without side effects; `state` has arrays by name."""

Maker = Callable[[str, Mapping[str, Any]], Function]
"""Makes the function of a task from its design, as JSON, and its settings."""

_makers: dict[str, Maker] = {}
_dividers: dict[str, "Divider"] = {}


@dataclass(frozen=True)
class Document:
    """The text of a design. It is sent once, and known by its digest from then on."""

    digest: str
    text: str = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> "Document":
        return cls(hashlib.sha256(text.encode()).hexdigest(), text)


@dataclass(frozen=True)
class Task:
    """A function of the registry with its design and its settings, a JSON object."""

    kind: str
    design: Document
    settings: str = "{}"


@dataclass(frozen=True)
class Division:
    """How workers share a sum.

    Each worker has a run of `together` calls, a power of two, of one of the `portions`. A portion is a task; the
    concatenated vectors of the portions are the vector of the whole task. The chief adds the results. If the `lengths` of
    the vectors of the portions are given, the ps add them instead (`distribute.slots`).
    """

    together: int
    portions: tuple[Task, ...]
    lengths: tuple[int, ...] = ()

    def pieces(self, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Task, Sequence[tuple[Any, ...]]]]:
        """Return the pieces that workers receive, (task, calls): all portions of the first run, then those of the next run,
        and so on."""
        runs = [calls[first : first + self.together] for first in range(0, len(calls), self.together)]
        return [(portion, run_) for run_ in runs for portion in self.portions]

    def added(self, vectors: Iterable[np.ndarray]) -> np.ndarray:
        """The sum over all calls, from the vectors of the pieces."""
        remaining, number = iter(vectors), len(self.portions)
        runs = iter(lambda: list(islice(remaining, number)), [])
        return pairwise(np.concatenate(portions) if number > 1 else portions[0] for portions in runs)


Divider = Callable[[Task, Sequence[tuple[Any, ...]], int, int, int], Division]
"""Divides a task over calls among so many workers, at most so many calls in a run, on so many ps."""


def divides(kind: str) -> Callable[[Divider], Divider]:
    """Let tasks of this kind be divided by a function: `@divides("pass")` above it."""

    def divide_by(divider: Divider) -> Divider:
        _dividers[kind] = divider
        return divider

    return divide_by


def divide(task: Task, calls: Sequence[tuple[Any, ...]], workers: int, most: int, ps: int = 0) -> Division:
    """How so many workers best share a sum, at most so many calls in a run; the sum is the same bit for bit for any division.
    Without `ps` nobody but the caller can add."""
    if task.kind in _dividers:
        return _dividers[task.kind](task, calls, workers, most, ps)
    return Division(calls_together(len(calls), workers, most), (task,))


def registered(kind: str) -> Callable[[Maker], Maker]:
    """Let a maker be found by the kind of its tasks: `@registered("pass")` above it."""

    def register(maker: Maker) -> Maker:
        if kind in _makers:
            raise ValueError(f"two kinds of tasks are called `{kind}`")
        _makers[kind] = maker
        return maker

    return register


def check_kind(kind: object) -> None:
    """Raises UserError if nothing of this kind is registered in this process."""
    if not isinstance(kind, str) or kind not in _makers:
        raise UserError(f"refused: `{kind}` is no task that this process runs; it runs: {', '.join(_makers)}")


@functools.lru_cache(maxsize=64)
def _function(task: Task) -> Function:
    return _makers[task.kind](task.design.text, json.loads(task.settings))


def run(task: Task, calls: Sequence[Sequence[Any]], state: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the sum of a task over some calls, added pairwise. Raises UserError if no such task is registered, and for any
    error of the task. If it is not a UserError, the log has its traceback."""
    check_kind(task.kind)
    try:
        function = _function(task)
        return pairwise(function(state, *call) for call in calls)
    except UserError:
        raise
    except Exception as error:
        command.log(traceback.format_exc())
        raise UserError(f"{type(error).__name__}: {error}; the log of the process that ran it says where") from error
