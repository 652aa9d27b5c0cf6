"""What can be run, and the value that says so.

A task travels as words: its kind, the digest of its design and its settings. Whoever runs it finds the function here by its
kind, where the module that defines it has registered it:

    scripts/worker.py -> remote.serve -> tasks.run -> @registered("pass") in engine/passes.py,
                                                      @registered("update") in engine/updates.py
"""

import functools
import hashlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfglm import command
from tfglm.distribute.reduction import pairwise
from tfglm.errors import UserError

Function = Callable[..., np.ndarray]
"""`(state, *call)` to a float64 vector, without side effects; `state` has arrays by name."""

Maker = Callable[[str, Mapping[str, Any]], Function]
"""Makes the function of a task of its design, as JSON, and its settings."""

_makers: dict[str, Maker] = {}


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
    """The sum of a task over some calls, added pairwise.

    Raises UserError if no such task is registered, and for any error of the task; the log has the traceback of one that is
    not the user's.
    """
    check_kind(task.kind)
    try:
        function = _function(task)
        return pairwise(function(state, *call) for call in calls)
    except UserError:
        raise
    except Exception as error:
        command.log(traceback.format_exc())
        raise UserError(f"{type(error).__name__}: {error}; the log of the process that ran it says where") from error
