"""Find the direction that separates all rows that can be separated, in rounds of least squares.

Let s be 1 for rows with the largest response of the family, -1 for rows with the smallest response, and 0 for all other rows. A
direction v of the coefficients separates if s x'v >= 0 for all rows with s, s x'v > 0 for some of them, and x'v = 0 for the
others. The likelihood rises along v without end (Albert & Anderson, Biometrika 71, 1984). The rows that no such direction moves
have a finite maximum.

The iterative rectifier of Correia, Guimaraes & Zylkin (2019, arXiv:1903.01633) finds all separated rows. This variant also works
for responses with two ends, and ends after finitely many steps:

1. The candidates are at first the rows with s. Minimise sum of max(0, 1 - s x'v)^2 / 2 over candidates + sum of (x'v)^2 / 2 over
   the other rows, by Newton's method (Keerthi & DeCoste, Journal of Machine Learning Research 6, 2005).
2. If the minimum is 0, then v separates all candidates: end. If there are no candidates, no rows are separated: end.
3. At the minimum, sum of max(0, 1 - s x'v) s x' over candidates = sum of (x'v) x' over the others. So no separating direction
   moves a candidate with s x'v < 1 (Stiemke's lemma). Such rows are no longer candidates; go to 1.

Each step is a pass over the rows, with weights 0 and 1 and other responses. The weight and offset of a row do not matter.
"""

from dataclasses import dataclass

import numpy as np

from tfglm.engine.passes import Sums
from tfglm.engine.rectified import LADDER, LEAST, ROUNDS
from tfglm.engine.workload import Workload
from tfglm.solvers.descent import Descent, halve_until
from tfglm.solvers.information import Blocks, gradient
from tfglm.solvers.objective import NOT_FACTORED, Objective, Separation

NOTHING = 1e-10
"""A smaller minimum counts as 0. Then v moves the candidates by 1, and the others by less than 1.5e-5."""

CLOSE = 1e-16
"""g'H^-1 g at which the search ends: twice the distance to the minimum. The error of margins is below its root, and so far below
the smallest step of LADDER."""

DAMPING = 1e-11
"""Share of the diagonal of X'X that is added to H, because a direction that only moves rows beyond the margin has no
curvature."""

SHORTEST = 1e-9
"""The shortest share of a step that is tried."""

MOST_DOUBLINGS = 15
"""Largest number of doublings of a direction. It moves separated rows by 1 or more, and other rows by less than 1.5e-5."""

MOST_STEPS, MOST_ROUNDS = 200, 50


class Undecided(Exception):
    """The search has not found the separated rows."""


@dataclass(frozen=True)
class SeparatedRows:
    """The number of `rows` that a `direction` [p] separates, and the workload and counts of the other rows."""

    direction: np.ndarray
    workload: Workload
    counts: Sums
    rows: int


def separated(objective: Objective) -> SeparatedRows | None:
    """All rows that can be separated; None if there are none. Raises Undecided if they cannot be found."""
    direction = separating_direction(objective)
    return None if direction is None else left_by(objective, objective.workload, direction)


def left_by(objective: Objective, workload: Workload, direction: np.ndarray) -> SeparatedRows:
    """The rows of a workload without those that a direction separates."""
    rest = workload.along(2 * direction[None])
    counts = rest.sum(objective.executor, "counts", objective.design.by_term(np.zeros(objective.design.size)))
    return SeparatedRows(direction, rest, counts, int(objective.counts["rows"] - counts["rows"]))


def moves_less(objective: Objective, workload: Workload, direction: np.ndarray, other: np.ndarray) -> bool:
    """Whether a direction moves some row that the `other` direction separates by less than 1, or to the wrong side."""
    state = workload.state(direction) | {ROUNDS: other[None], LEAST: np.array([0.5])}
    return bool(workload.sum(objective.executor, "rectifier", state)["short", 0])


def with_earlier(objective: Objective, earlier: Separation, later: SeparatedRows) -> SeparatedRows:
    """Combine the separated rows of an earlier search with those of a later search.

    The combined direction is a multiple of the earlier direction plus the later direction. The earlier direction moves no other
    row. Raises Undecided if rounding errors leave no such direction.
    """
    for power in range(MOST_DOUBLINGS):
        direction = 2.0**power * earlier.direction + later.direction
        if moves_less(objective, earlier.workload, direction, earlier.direction):
            continue
        both = left_by(objective, earlier.workload, direction)
        if both.counts["rows"] == later.counts["rows"]:
            return both
    raise Undecided


def separating_direction(objective: Objective) -> np.ndarray | None:
    """The direction that moves each separable row by 1 or more to its side, and no other row, [p]; None if no row is
    separable. Only free coefficients without a penalty are nonzero in it. Raises Undecided if the search does not find it."""
    rounds, least = np.zeros((0, objective.design.size)), np.zeros(0)
    for _ in range(MOST_ROUNDS):
        descent = RectifierDescent(objective, rounds, least)
        descent.run()
        if not descent.is_settled:
            raise Undecided
        if not descent.sums["candidate"]:
            return None
        short = [step for number, step in enumerate(LADDER) if descent.sums["short", number] > 0]
        if descent.loss <= NOTHING or not short:
            return descent.direction
        rounds, least = np.vstack([rounds, descent.direction]), np.append(least, 1.0 - short[0])
    raise Undecided


class RectifierDescent(Descent):
    """Step 1, beginning at direction 0. It `is_settled` at the minimum, or as near to it as rounding allows. A pass sums the
    `loss` at the `direction`, its `gradient` [p], its second derivative `blocks`, and all `sums`."""

    most = MOST_STEPS

    def __init__(self, objective: Objective, rounds: np.ndarray, least: np.ndarray):
        self.objective, self.rounds, self.least, self.is_settled = objective, rounds, least, False
        self._move_to(*self._at(np.zeros(objective.design.size)))
        # At 0 all weights are 1.
        self.ridge, self.factored = self.blocks.diagonal(objective.design.size) * DAMPING, NOT_FACTORED

    def _at(self, direction: np.ndarray) -> tuple[np.ndarray, Sums, Blocks]:
        state = self.objective.workload.state(direction) | {ROUNDS: self.rounds, LEAST: self.least}
        return direction, *self.objective.rectified(state, self.objective.unpenalised)

    def _move_to(self, direction: np.ndarray, sums: Sums, blocks: Blocks) -> None:
        self.direction, self.sums, self.blocks, self.loss = direction, sums, blocks, float(sums["loss"])
        self.gradient = np.where(self.objective.unpenalised, gradient(self.objective.design, sums), 0.0)

    def measure(self) -> None:
        self.factored = self.objective.factored(self.blocks.damped(self.ridge), self.factored)
        self.step = self.factored.solve(self.gradient)
        self.square = float(self.step @ self.gradient)

    def has_ended(self) -> bool:
        self.is_settled = self.square <= CLOSE or self.loss <= NOTHING or not self.sums["candidate"]
        return self.is_settled or self.iteration == self.most

    def go(self) -> bool:
        begun, loss, lengths = self.direction, self.loss, []

        def at(length: float) -> tuple[np.ndarray, Sums, Blocks]:
            lengths.append(length)
            return self._at(begun - length * self.step)

        trial = halve_until(lambda tried: float(tried[1]["loss"]) < loss, at, SHORTEST)
        if trial is None:
            self.is_settled = True  # rounding errors allow no better direction
            return False
        length = lengths[-1]
        # A loss with curvature H falls by half of length * square. If it falls by more, damping made the step too short.
        while length >= 1 and loss - float(trial[1]["loss"]) > 0.75 * length * self.square:
            further = self._at(begun - 2 * length * self.step)
            if float(further[1]["loss"]) >= float(trial[1]["loss"]):
                break
            trial, length = further, 2 * length
        self._move_to(*trial)
        return True
