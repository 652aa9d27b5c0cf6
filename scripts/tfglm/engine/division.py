"""How workers share a pass, and who adds their vectors: the chief, or the ps in slots.

Workers share a pass by its calls. They also share it by its sums, if there are fewer calls than workers, or if the vectors
are so long that sending them takes longer than reading the rows.

Workers with different portions of the sums read the same rows, and each computes the linear predictor. But their vectors
are shorter, and together no longer than one full vector. Each number is summed from the same rows in the same order by any
worker, so the sum is the same bit for bit for any division.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tfglm.distribute.reduction import calls_together
from tfglm.distribute.tasks import Division, Task, divides
from tfglm.engine.passes import SumPass, pass_of, rows_in

ROW = 15e-9
"""Seconds to read a row and to make its linear predictor and its weight."""

SUM = 0.09e-9
"""Seconds for each row, sum and doubling of its numbers, which are then farther out in a processor's own caches."""

OUTSIDE = 11e-9
"""Seconds for each row and sum whose numbers are outside of these."""

CACHED = 1e6
"""Numbers that are not: 8 MB."""

SENT = 4e-9
"""Seconds for each number of a result on the worker, which clears its memory and copies it to the network."""

RECEIVED = 25e-9
"""Seconds for each number of a result on the chief: 5e-9 in the memory of one machine, 64e-9 over a link of 1 Gbit/s."""

IN_SLOT = 4e-9
"""Seconds on a ps for each number that is written into a slot there, and added."""

MOST_HELD = 2**26
"""Numbers that a ps holds in slots: 0.5 GB. With what comes and goes it takes half as much again."""

ASKED = 118e-3
"""Seconds to have the ps add, and a part of what it takes to tell them how, once."""

PIECE = 2e-3
"""Seconds on the chief to give a worker something to do, and to hear of its end."""

NO_MATTER = 0.01
"""Seconds by which a division has to be faster than a division with fewer portions."""


class Sharing(NamedTuple):
    """How many calls a worker receives `together`, the bounds of the portions among the sums, and whether the ps add in
    `slots`."""

    together: int
    bounds: tuple[int, ...]
    slots: bool


@divides("pass")
def divide(task: Task, calls: Sequence[tuple[Any, ...]], workers: int, most: int, ps: int) -> Division:
    """The division of a pass that is likely to be ready first; see `tasks.divide`."""
    whole = pass_of(task.design.text, json.loads(task.settings))
    if not isinstance(whole, SumPass):
        return Division(calls_together(len(calls), workers, most), (task,))
    rows = rows_in(calls) / len(calls)
    sizes = np.array([size for _, size in whole.sums])
    together, bounds, slots = quickest(sizes, len(calls), rows, workers, most, ps)
    portions = pairwise(bounds) if len(bounds) > 2 else ()
    lengths = tuple(np.add.reduceat(sizes, bounds[:-1]).tolist()) if slots else ()
    return Division(together, tuple(whole.portion(*of_portion).task for of_portion in portions) or (task,), lengths)


def quickest(sizes: np.ndarray, calls: int, rows: float, workers: int, most: int, ps: int = 0) -> Sharing:
    """Return the division that is likely to finish first; among divisions that take about as long, the simplest. `sizes` are
    the numbers of each sum, `rows` those of one call, and `most` the calls that may be scheduled together. Without parameter
    servers (`ps`) the chief adds."""

    def cost(sharing: Sharing) -> tuple[float, bool, int, int]:
        likely = seconds(sizes, sharing, calls, rows, workers, ps)
        return round(likely / NO_MATTER), sharing.slots, len(sharing.bounds), -sharing.together

    sharings, together = [], 1
    while together <= min(most, 2 * calls - 1):
        runs = -(-calls // together)
        # Make as many portions as leave no worker without work.
        for portions in {1, -(-workers // runs)}:
            bounds = bounds_of(sizes, rows * together, portions)
            sharings.append(Sharing(together, bounds, slots=False))
            if runs > 1 and runs * int(sizes.sum()) <= ps * MOST_HELD:
                sharings.append(Sharing(together, bounds, slots=True))
        together *= 2
    return min(sharings, key=cost)


def bounds_of(sizes: np.ndarray, rows: float, portions: int) -> tuple[int, ...]:
    """Return where to cut the sums, in their order, for portions that take about the same time."""
    of_sums = seconds_of_sums(sizes, rows)
    ends = np.cumsum(of_sums)
    portions = min(portions, len(ends))
    order = np.arange(1, portions)
    # A long sum is on the side where its middle is.
    cuts = np.searchsorted(ends - of_sums / 2, ends[-1] * order / portions)
    # Each portion has at least one sum: a long sum is a portion of its own, and leaves fewer sums to the others.
    cuts = np.minimum(np.maximum.accumulate(np.maximum(cuts - order, 0)) + order, len(ends) - portions + order)
    return (0, *cuts.tolist(), len(ends))


def seconds_of_sums(
    sizes: np.ndarray, rows: float, cached: float = SUM, outside: float = OUTSIDE, sent: float = SENT
) -> np.ndarray:
    """Return the seconds of a worker for each sum, without the common work for the rows, [sums]."""
    return rows * np.where(sizes > CACHED, outside, cached * np.log2(sizes)) + sizes * sent


def seconds(sizes: np.ndarray, sharing: Sharing, calls: int, rows: float, workers: int, ps: int) -> float:
    """How long a pass is likely to take: the worker that is the last, and what the chief and the ps do; see `quickest`."""
    together, bounds, slots = sharing
    runs, portions, numbers = -(-calls // together), len(bounds) - 1, int(sizes.sum())
    of_portions = np.add.reduceat(seconds_of_sums(sizes, rows * together), bounds[:-1])
    longest = rows * together * ROW + float(of_portions.max())
    turns = -(-runs * portions // workers)
    added = runs * numbers * IN_SLOT / ps + numbers * RECEIVED + ASKED if slots else runs * numbers * RECEIVED
    return turns * longest + added + runs * portions * PIECE
