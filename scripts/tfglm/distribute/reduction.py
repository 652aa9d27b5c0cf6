"""Combine the results of calls in an order that depends only on the order of the calls, not on the workers."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def add_to_first(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Their sum, in the place of the first if that can be written to."""
    return np.add(first, second, out=first if first.flags.writeable else None)


def pairwise(vectors: Iterable[Any], add: Callable[[Any, Any], Any] = add_to_first) -> Any:
    """The sum of vectors: each with its neighbour, then each two with the next two, and so on. It may write to them. So a
    run of 2^k vectors that begins at a multiple of 2^k can be summed elsewhere first, and the sum is the same bit for bit."""
    waiting: list[tuple[int, Any]] = []
    for vector in vectors:
        total, number = vector, 1
        while waiting and waiting[-1][0] == number:
            total, number = add(waiting.pop()[1], total), 2 * number
        waiting.append((number, total))
    total = waiting.pop()[1]
    while waiting:
        total = add(waiting.pop()[1], total)
    return total


def calls_together(calls: int, workers: int, most: int) -> int:
    """Return how many calls to give to a worker together: a power of two up to `most`, as many as possible without giving a
    worker more calls than necessary. Each message costs 10 ms, and 0.1 s or more for a result of 53 MB."""
    together = 1
    while 2 * together <= most and _longest(calls, workers, 2 * together) <= _longest(calls, workers, 1):
        together *= 2
    return together


def _longest(calls: int, workers: int, together: int) -> int:
    """Return the most calls that a worker has, if it receives so many together."""
    return -(-calls // (together * workers)) * together
