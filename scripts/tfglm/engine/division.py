"""How workers share a pass: by its calls, and where these are fewer than workers, or their vectors so long that to bring each to
the chief would take longer than the rows, by its sums too.

A worker with one portion of the sums reads the same rows as that with another, and makes the linear predictor anew; but its
vector is shorter, and all vectors together are no longer than one. Each number is summed from the same rows in the same order
by whomever it is, so the sum is the same bit for bit for any division.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tfglm.distribute.tasks import Division, Task, divides
from tfglm.engine.passes import Pass, pass_of

ROW = 15e-9
"""Seconds to read a row and to make its linear predictor and its weight."""

SUM = 0.4e-9
"""Seconds for each row and sum whose numbers stay in a processor's own cache."""

OUTSIDE = 3e-9
"""Seconds for each row and sum whose numbers do not."""

CACHED = 1e5
"""Numbers that do: 0.8 MB."""

SENT = 8e-9
"""Seconds for each number of a result on the worker, which clears its memory and copies it to the network."""

RECEIVED = 15e-9
"""Seconds for each number of a result on the chief: 0.1 for 53 MB."""

PIECE = 2e-3
"""Seconds on the chief to give a worker something to do, and to hear of its end."""

NO_MATTER = 0.01
"""Seconds by which a division has to be faster than one with fewer portions."""


@divides("pass")
def divide(task: Task, calls: Sequence[tuple[Any, ...]], workers: int, most: int) -> Division:
    """The division of a pass that is likely to be ready first; see `tasks.divide`."""
    whole = pass_of(task.design.text, json.loads(task.settings))
    assert isinstance(whole, Pass)
    rows = sum(int(np.sum(counts)) for _, _, _, counts, *_ in calls) / len(calls)
    sizes = np.array([size for _, size in whole.sums])
    together, bounds = quickest(sizes, len(calls), rows, workers, most)
    portions = pairwise(bounds) if len(bounds) > 2 else ()
    return Division(together, tuple(whole.portion(*of_portion).task for of_portion in portions) or (task,))


def quickest(sizes: np.ndarray, calls: int, rows: float, workers: int, most: int) -> tuple[int, tuple[int, ...]]:
    """How many calls to give out together, `most` at most, and at which sums portions begin and end.

    Parameters
    ----------
    sizes
        The numbers of each sum, [sums].
    calls, rows
        How many calls there are, and the rows of one.
    """

    def cost(division: tuple[int, tuple[int, ...]]) -> tuple[float, int, int]:
        together, bounds = division
        return round(seconds(sizes, bounds, calls, together, rows, workers) / NO_MATTER), len(bounds), -together

    divisions, together = [], 1
    while together <= min(most, 2 * calls - 1):
        runs = -(-calls // together)
        # As many portions as leave no worker without one.
        for portions in {1, -(-workers // runs)}:
            divisions.append((together, bounds_of(sizes, rows * together, portions)))
        together *= 2
    return min(divisions, key=cost)


def bounds_of(sizes: np.ndarray, rows: float, portions: int) -> tuple[int, ...]:
    """Where to cut the sums, in their order, for portions that take about as long."""
    of_sums = seconds_of_sums(sizes, rows)
    ends = np.cumsum(of_sums)
    portions = min(portions, len(ends))
    order = np.arange(1, portions)
    # A long sum is on the side where its middle is.
    cuts = np.searchsorted(ends - of_sums / 2, ends[-1] * order / portions)
    # Each portion has a sum: a long one is alone, and leaves fewer to the others.
    cuts = np.minimum(np.maximum.accumulate(np.maximum(cuts - order, 0)) + order, len(ends) - portions + order)
    return (0, *cuts.tolist(), len(ends))


def seconds_of_sums(sizes: np.ndarray, rows: float) -> np.ndarray:
    """What each sum takes a worker, beside what all of a row takes, [sums]."""
    return rows * np.where(sizes > CACHED, OUTSIDE, SUM) + sizes * SENT


def seconds(sizes: np.ndarray, bounds: Sequence[int], calls: int, together: int, rows: float, workers: int) -> float:
    """How long a division is likely to take: the worker that is the last, and what the chief does."""
    runs, portions = -(-calls // together), len(bounds) - 1
    of_portions = np.add.reduceat(seconds_of_sums(sizes, rows * together), bounds[:-1])
    longest = rows * together * ROW + float(of_portions.max())
    turns = -(-runs * portions // workers)
    return turns * longest + runs * (int(sizes.sum()) * RECEIVED + portions * PIECE)
