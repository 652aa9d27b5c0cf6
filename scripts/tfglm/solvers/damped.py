"""Steps for where the information matrix says little of how far to go.

Where the weights of rows in it differ by many orders of magnitude, as those of counts do whose exposures differ so, a Newton step
moves what has hardly any weight much further than to its estimate, and no part of the step that moves the rest at all lowers the
objective. The step is -(H + damping X'X)^-1 g instead, as if each row weighed `damping` more (Levenberg, Quarterly of Applied
Mathematics 2, 1944; Marquardt, SIAM Journal 11, 1963). It goes downhill for every damping, and the least is taken that moves no
linear predictor further than FARTHEST.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.linalg

from tfglm.design.design import Design
from tfglm.families.gaussian import Gaussian
from tfglm.solvers.information import Blocks
from tfglm.solvers.problem import Problem, State

FARTHEST = 8.0
"""A step may move a linear predictor, numbers being one standard deviation from their mean."""

LEAST, MOST, GROWS = 1e-8, 1e4, 3.0
"""The damping that is tried first and last, in mean weights of a row, and the factor from one to the next."""

MOST_TRIALS = 8
"""Each takes a pass."""


class Damping:
    """Makes steps for a problem. X'X is summed once, when it is needed."""

    def __init__(self, problem: Problem):
        self.problem = problem

    def steps(self, state: State, blocks: Blocks) -> Iterator[np.ndarray]:
        """Steps [p] from a state with the information matrix and penalties in `blocks`, each shorter than the one before."""
        gradient, rows = self.problem.gradient(state), self._squares
        damping = LEAST * _trace(blocks) / _trace(rows)
        most, tried = MOST / LEAST * damping, 0
        while damping <= most and tried < MOST_TRIALS:
            try:
                step = -self.problem.factored(blocks.plus(rows, damping)).solve(gradient)
            except scipy.linalg.LinAlgError:
                step = np.full(len(gradient), np.nan)
            if np.all(np.isfinite(step)) and self.problem.movement(step) <= FARTHEST:
                tried += 1
                yield step
            damping *= GROWS

    @cached_property
    def _squares(self) -> Blocks:
        """X'X of the free coefficients, rows by their prior weights."""
        return of_columns(self.problem)


def of_columns(problem: Problem) -> Blocks:
    """The information matrix in which all rows weigh the same, but for their prior weights: that of linear regression."""
    of_linear = replace(problem, workload=problem.workload.with_design(linear(problem.design)))
    return of_linear.at(np.zeros(problem.design.size)).information


def linear(design: Design) -> Design:
    """The linear regression on the same columns and rows."""
    return replace(design, family=Gaussian.name, link=None, theta=None, power=None)


def _trace(blocks: Blocks) -> float:
    return float(np.trace(blocks.a) + blocks.d.sum())
