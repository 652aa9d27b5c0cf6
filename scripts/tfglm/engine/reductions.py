"""Reductions of rows: what a block of rows gives, how the results of two blocks add up, and what is made of the sum."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np


@dataclass
class Partial:
    """What some rows come to, by name: numbers and arrays that add up, also in lists and dictionaries; flags that hold if they do
    for some rows; and other partial results."""

    def add(self, other: Self) -> Self:
        for field in fields(self):
            setattr(self, field.name, added(getattr(self, field.name), getattr(other, field.name)))
        return self


def added(first: Any, second: Any) -> Any:
    """The sum of two partial results, which it may write to the first.

    >>> added({"rows": 2.0, "unknown": False}, {"rows": 3.0, "unknown": True})
    {'rows': 5.0, 'unknown': True}
    """
    if isinstance(first, Partial):
        return first.add(second)
    if isinstance(first, dict):
        return {name: added(value, second[name]) for name, value in first.items()}
    if isinstance(first, list):
        return [added(value, other) for value, other in zip(first, second, strict=True)]
    if isinstance(first, np.ndarray):
        return np.add(first, second, out=first if first.flags.writeable else None)
    return first or second if isinstance(first, bool) else first + second


class Reduction(ABC):
    """A reduction of blocks of rows. It does not change; what the rows come to is in partial results (`added` adds two)."""

    @abstractmethod
    def start(self) -> Any:
        """The partial result of no rows."""

    @abstractmethod
    def map(self, block: Any, partial: Any) -> None:
        """Add a block of rows to a partial result."""

    def close(self, partial: Any) -> None:
        """Make a partial result ready to be added to others, after its last block."""
        return

    @abstractmethod
    def finish(self, total: Any) -> Any:
        """What is made of the sum of all partial results."""


class Together(Reduction):
    """Several reductions of the same blocks, by name. They get what `change` makes of a block."""

    def __init__(self, reductions: Mapping[Any, Reduction], change: Callable[[Any], Any] = lambda block: block):
        self._reductions, self._change = reductions, change

    def start(self) -> dict[Hashable, Any]:
        return {name: each.start() for name, each in self._reductions.items()}

    def map(self, block: Any, partial: dict[Hashable, Any]) -> None:
        block = self._change(block)
        for name, each in self._reductions.items():
            each.map(block, partial[name])

    def close(self, partial: dict[Hashable, Any]) -> None:
        for name, each in self._reductions.items():
            each.close(partial[name])

    def finish(self, total: dict[Hashable, Any]) -> dict[Hashable, Any]:
        return {name: each.finish(total[name]) for name, each in self._reductions.items()}
