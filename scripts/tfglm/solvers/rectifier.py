"""The direction that separates all rows that can be separated, in rounds of least squares.

Let s be 1 for a row whose response is the largest that the family has, -1 for the smallest, and else 0. A direction v of the
coefficients separates if s x'v >= 0 for all rows with s, > 0 for some, and x'v = 0 for the others: the likelihood rises along
it without end (Albert & Anderson, Biometrika 71, 1984). Rows that no such direction moves have a finite maximum among themselves.
The iterative rectifier of Correia, Guimaraes & Zylkin (2019, arXiv:1903.01633) finds all others; so does this variant of it,
for responses with two ends too, which comes to its end in finitely many steps:

1. Of all candidates, which are the rows with s, and the others minimise sum of max(0, 1 - s x'v)^2 / 2 + sum of (x'v)^2 / 2.
   This has a minimum, found by Newton's method (Keerthi & DeCoste, Journal of Machine Learning Research 6, 2005).
2. If it is 0, then v separates all candidates: the end. There are none: nothing is separated.
3. At the minimum sum of max(0, 1 - s x'v) s x' = sum of (x'v) x' over the others. So no separating direction moves a candidate
   with s x'v < 1 (Stiemke's lemma), nor did it move the others. It is a candidate no longer; go to 1.

Each step is one pass over the rows, with 0, 1 as weights and other responses. A row's weight and offset do not matter.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tfglm.engine.passes import Sums
from tfglm.engine.rectified import LADDER, LEAST, ROUNDS
from tfglm.engine.workload import Workload
from tfglm.solvers.information import Blocks, gradient
from tfglm.solvers.problem import Problem

NOTHING = 1e-10
"""A minimum that is no larger is 0: rows that are not to be moved are moved by less than 1.5e-5, all others by 1."""

CLOSE = 1e-16
"""Of g'H^-1 g, twice what is left to the minimum: margins are off by less than its root, far less than the least of LADDER."""

DAMPING = 1e-11
"""Times the diagonal of X'X, added to H: directions that move no row short of the margin have no curvature."""

SHORTEST = 1e-9
"""Share of a step that is tried."""

MOST_DOUBLINGS = 15
"""Of a direction that moves rows by 1 or more, and by less than 1.5e-5 where it should by nothing."""

MOST_STEPS, MOST_ROUNDS = 200, 50


class NotTold(Exception):
    """The search has not come to an end."""


@dataclass(frozen=True)
class _Point:
    """What a pass has summed at a direction."""

    direction: np.ndarray
    loss: float
    gradient: np.ndarray
    blocks: Blocks
    sums: Sums


@dataclass(frozen=True)
class Separated:
    """The `rows` that a direction [p] separates, and the workload of the others with their counts."""

    direction: np.ndarray
    workload: Workload
    counts: Sums
    rows: int


class Earlier(Protocol):
    """What was separated before: a direction that did, and the workload that still had its rows."""

    @property
    def workload(self) -> Workload: ...

    @property
    def direction(self) -> np.ndarray: ...


def separated(problem: Problem) -> Separated | None:
    """All rows that can be separated; None if none can. Raises NotTold if that cannot be told."""
    direction = separating_direction(problem)
    return None if direction is None else left_by(problem, problem.workload, direction)


def left_by(problem: Problem, workload: Workload, direction: np.ndarray) -> Separated:
    """What a direction that separates rows of a workload leaves of them."""
    rest = workload.along(2 * direction[None])
    counts = rest.sum(problem.executor, "counts", problem.design.by_term(np.zeros(problem.design.size)))
    return Separated(direction, rest, counts, int(problem.counts["rows"] - counts["rows"]))


def moves_less(problem: Problem, workload: Workload, direction: np.ndarray, other: np.ndarray) -> bool:
    """Whether a direction moves some row that another one separates by less than 1, or not to its side."""
    state = workload.state(direction) | {ROUNDS: other[None], LEAST: np.array([0.5])}
    return bool(workload.sum(problem.executor, "rectifier", state)["short_0"])


def with_earlier(problem: Problem, earlier: Earlier, later: Separated) -> Separated:
    """The same with a direction that separates rows that have left earlier too: a multiple of the one that did, which moves no
    other row, and the later one. Raises NotTold if rounding errors leave none."""
    for power in range(MOST_DOUBLINGS):
        direction = 2.0**power * earlier.direction + later.direction
        if moves_less(problem, earlier.workload, direction, earlier.direction):
            continue
        both = left_by(problem, earlier.workload, direction)
        if both.counts["rows"] == later.counts["rows"]:
            return both
    raise NotTold


def separating_direction(problem: Problem) -> np.ndarray | None:
    """The direction that moves each row that can be separated by 1 or more to its side, and no other, [p]; None if there is no
    such row. Only free coefficients that no penalty acts on have a part in it. Raises NotTold if it cannot be found."""
    rounds, least = np.zeros((0, problem.design.size)), np.zeros(0)
    for _ in range(MOST_ROUNDS):
        point = _minimum(problem, rounds, least)
        if not point.sums["candidate"]:
            return None
        short = [step for number, step in enumerate(LADDER) if point.sums[f"short_{number}"] > 0]
        if point.loss <= NOTHING or not short:
            return point.direction
        rounds, least = np.vstack([rounds, point.direction]), np.append(least, 1.0 - short[0])
    raise NotTold


def _minimum(problem: Problem, rounds: np.ndarray, least: np.ndarray) -> _Point:
    """1. The minimum of a round, from 0 on."""
    workload, design = problem.workload, problem.design
    moving = problem.unpenalised

    def at(direction: np.ndarray) -> _Point:
        state = workload.state(direction) | {ROUNDS: rounds, LEAST: least}
        sums, blocks = problem.rectified(state, moving)
        of_all = np.where(moving, gradient(design, sums), 0.0)
        return _Point(direction, float(sums["loss"]), of_all, blocks, sums)

    point = at(np.zeros(design.size))
    ridge = np.zeros(design.size)  # at 0 all weights are 1
    ridge[point.blocks.dense], ridge[point.blocks.eliminated] = np.diag(point.blocks.a), point.blocks.d
    ridge *= DAMPING
    for _ in range(MOST_STEPS):
        step = problem.factored(point.blocks.penalised(ridge)).solve(point.gradient)
        if step @ point.gradient <= CLOSE or point.loss <= NOTHING or not point.sums["candidate"]:
            return point
        trial, length = at(point.direction - step), 1.0
        while trial.loss >= point.loss:
            if length < SHORTEST:
                return point  # rounding keeps it from coming closer
            length /= 2
            trial = at(point.direction - length * step)
        # Of a loss with the curvature of H half of this is gained. More tells that damping has made the step too short.
        while length >= 1 and point.loss - trial.loss > 0.75 * length * (step @ point.gradient):
            further = at(point.direction - 2 * length * step)
            if further.loss >= trial.loss:
                break
            trial, length = further, 2 * length
        point = trial
    raise NotTold
