"""Lasso and elastic net by the proximal Newton method (Lee, Sun & Saunders, SIAM J. Optim. 24, 2014).

It minimises F(b) = sum of weight * loss(eta, y) + sum of (ridge * b^2 / 2 + lasso * |b|) over the free coefficients. g is the
gradient of the smooth part of F, I is the information matrix of the loss, and H = I + diag(ridge).

1. Find the largest violation of a KKT condition.
2. If I is from an earlier point, and the last step left too much of the violation, sum I at b.
3. End if the violation is below a share of the penalty, or after the largest number of steps.
4. The step v minimises g'v + v'Hv / 2 + sum of lasso * |b + v| (solvers.quadratic). The first step from the minimum for another
   penalty is corrected by the error of the first step there. Take the whole step, or half of it, a quarter, ..., until F does not
   rise. Sum I in the same pass if the linear predictors have moved far.

If the link is not canonical, I is the expected information. Far from the responses, it differs from the observed information,
and its steps are too long or too short. If two consecutive steps with a fresh I leave most of the violation, H uses the observed
information instead, provided it is positive definite.

A lasso over all levels of factors can have many minima with the same predictions. The reported one has the least sum of squared
penalised coefficients: the limit of elastic nets as their ridge vanishes. The order of rows and files does not change it.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.errors import UserError
from tfglm.solvers import quadratic
from tfglm.solvers.descent import Age, Descent, search_line
from tfglm.solvers.information import NO_BLOCKS, Blocks, factor, null_vectors
from tfglm.solvers.objective import CONVERGED_BELOW, Objective, PathPoint, Point, Solution
from tfglm.solvers.separation import DRIFTING_ABOVE, Drifting

FAR = 0.005
"""How far the linear predictors may move, in quadratic mean, before a new information matrix is summed. A step with an older
matrix leaves about this share of the error, and costs a third of a step with a new matrix."""

SLOW = 0.3
"""A step with an older information matrix is slow if it leaves more than this share of the violation."""

CREEPING, MOST_CREEPING = 0.5, 2
"""A step with a fresh I creeps if it leaves more than this share of the violation. After so many creeping steps, H uses the
observed information."""

AT_BOUND = 1 - 1e-5
"""Share of the lasso penalty that the gradient of a coefficient reaches if the coefficient may differ from 0 in a minimum."""

VANISHING = 1e-10
"""Share of the largest penalised coefficient below which a coefficient is a rounding error of 0."""

PRECISION = 1e-9
"""Largest violation of the KKT conditions of the quadratic problem, as a share of the penalty."""


def solve(start: Solution) -> Solution:
    """Minimise F from `start`. Without iterations, only measure the distance of `start` from the minimum. Raises Drifting if
    unpenalised terms separate the response."""
    objective, begun = start.objective, start.point
    end = minimise(objective, begun, begun.information, np.zeros(len(begun.coefficients)), objective.l1)
    check_drift(end.objective, end.point)
    return solution(start, end if objective.l2 else replace(end, effective=effective_coefficients(end)))


def check_drift(objective: Objective, point: Point) -> None:
    """Raise Drifting if a Newton step of the unpenalised coefficients is too long, because terms separate the response. The
    KKT conditions do not show this: the gradient vanishes as coefficients go to infinity."""
    moving = objective.unpenalised
    alone = np.count_nonzero(moving) <= (objective.design.intercept is not None)
    if alone or objective.overlaps or not objective.family.separates:
        return
    point = point if point.blocks else objective.at(point.coefficients)
    try:
        step = factor(point.information.restrict(moving)).solve(np.where(moving, objective.gradient(point), 0.0))
    except scipy.linalg.LinAlgError:
        raise Drifting(point.coefficients, 0) from None
    if np.abs(step).max() > DRIFTING_ABOVE:
        raise Drifting(point.coefficients, 0)


def solution(start: Solution, end: PathPoint) -> Solution:
    """The fit that ends at this point of a path."""
    end = replace(end, point=least(end))
    if end.objective.l2:
        # The reported covariance needs the information matrix at the point itself.
        point = end.point if end.point.blocks else end.objective.at(end.point.coefficients)
        end = replace(end, point=point, near=point.information)
        end = replace(end, effective=effective_coefficients(end))
    objective, converged_below = end.objective, CONVERGED_BELOW * end.penalty
    # A lasso has no covariance, because zeros have no posterior standard deviation.
    blocks = NO_BLOCKS if objective.l1 else end.near.restrict(objective.active(end.point)).penalised(objective.ridge)
    return replace(
        start,
        objective=objective,
        point=end.point,
        information=factor(blocks),
        iterations=end.iterations,
        converged=end.converged,
        certificate={"largest_kkt_violation": end.violation, "converged_below": converged_below},
        violation=end.violation,
        effective=end.effective,
        has_covariance=not objective.l1,
    )


def least(end: PathPoint) -> Point:
    """Return the minimum with the least sum of squared penalised coefficients.

    Without a ridge, the minima with the same predictions are z = b + N'a >= 0 times the signs that the gradient gives, N being
    the redundant directions of the coefficients whose gradient is at its bound. The least of them is a least distance problem
    (Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23).
    """
    objective, point = end.objective, end.point
    if end.near is NO_BLOCKS or objective.l2:
        return point
    gradient, b = objective.gradient(point), point.coefficients
    bound = objective.free & ((np.abs(gradient) >= AT_BOUND * objective.lasso) | (b != 0))
    directions = null_vectors(end.near.restrict(bound), len(b))[1]
    penalised = bound & (objective.lasso > 0)
    directions = directions[(directions[:, penalised] != 0).any(axis=1)]
    if not len(directions) or not b[penalised].any():
        return point
    from scipy.optimize import nnls  # slow to import

    sign = np.where(b[penalised] != 0, np.sign(b[penalised]), -np.sign(gradient[penalised]))
    start, basis = sign * b[penalised], (directions[:, penalised] * sign).T
    along = scipy.linalg.orth(basis)
    fixed = start - along @ (along.T @ start)
    size = np.abs(start).max()
    multipliers, _ = nnls(np.vstack([along.T, -fixed / size]), np.append(np.zeros(along.shape[1]), 1.0))
    residual = np.append(along.T @ multipliers, -fixed @ multipliers / size - 1.0)
    moved = fixed - size * (along @ residual[:-1]) / residual[-1]
    moved = np.where((multipliers > 0) | (moved <= VANISHING * size), 0.0, moved)
    coefficients = b + np.linalg.lstsq(basis, moved - start)[0] @ directions
    coefficients[penalised] = sign * moved
    return replace(point, coefficients=coefficients)


def minimise(objective: Objective, point: Point, near: Blocks, correction: np.ndarray, penalty: float) -> PathPoint:
    """Minimise F, with the penalties of this point of a path, by proximal Newton steps from `point`: the start of the fit,
    or the previous point. `near` is an information matrix from there or near it. `correction` [p], the error of the first
    step to the previous point, is added to the first step. Violations are compared with `penalty`, that of this point."""
    descent = ProximalNewton(objective, point, near, correction, penalty)
    descent.run()
    if descent.is_observed:
        descent.use(descent.at(descent.point.coefficients, "information"))
    return PathPoint(
        penalty,
        objective,
        descent.point,
        descent.near,
        descent.violation,
        descent.point.coefficients - descent.predicted,
        descent.iteration,
        descent.passes["information"],
        descent.passes["gradient"],
    )


class ProximalNewton(Descent):
    """The search for a point of a path.

    `near` is the last I, `blocks` are H, and `age` is the age of H. H uses the observed information if it `is_observed`. `before`
    is the violation before the last step. `predicted` [p] is the end of the first step without its correction. `began_fresh`:
    the last step began with a fresh H. `creeping` counts the last steps of this kind that left most of the violation.
    """

    def __init__(self, objective: Objective, point: Point, near: Blocks, correction: np.ndarray, penalty: float):
        self.objective, self.correction, self.penalty = objective, correction, penalty
        self.most = objective.run.max_iterations
        self.point, self.near, self.predicted = point, near, point.coefficients
        self.blocks, self.age, self.is_observed = near.penalised(objective.ridge), Age(), False
        self.passes: Counter = Counter()
        self.violation, self.before = np.inf, np.inf
        self.stepped, self.began_fresh, self.creeping = False, False, 0

    def measure(self) -> None:
        self.violation = self.objective.violation(self.point)
        if self.stepped and not self.objective.family.canonical and not self.is_observed:
            crept = self.began_fresh and self.violation > CREEPING * self.before
            self.creeping = self.creeping + 1 if crept else 0
        self.stepped = False
        value = self.objective.value(self.point)
        self.objective.run.reporter.note(
            f"iteration {self.iteration}: objective {value:.10g}, KKT violation {self.violation:.3g}"
        )

    def is_outdated(self) -> bool:
        if self._is_near or self.iteration == self.most:
            return False
        is_slow = self.violation > SLOW * self.before and not self.age.is_fresh
        return is_slow or (self.creeping >= MOST_CREEPING and not self.is_observed)

    def renew(self) -> None:
        """Sum H at the present coefficients. It uses the observed information if steps with the expected information creep, and
        if the observed information is positive definite."""
        if self.is_observed or self.creeping >= MOST_CREEPING:
            self.passes["information"] += 1
            blocks = self.objective.observed(self.point.coefficients).penalised(self.objective.ridge)
            self.creeping = 0
            try:
                factor(blocks)
            except scipy.linalg.LinAlgError:
                pass
            else:
                self.blocks, self.age, self.is_observed = blocks, Age(), True
                return
        self.use(self.at(self.point.coefficients, "information"))

    def has_ended(self) -> bool:
        return self._is_near or self.iteration == self.most

    @property
    def _is_near(self) -> bool:
        return self.violation <= CONVERGED_BELOW * self.penalty

    def go(self) -> bool:
        step = self._step()
        begun = self.point.coefficients
        if self.iteration:
            return self._go(step)
        self.predicted = begun + step
        corrected = self.predicted + self.correction
        corrected = np.where(self.predicted * corrected > 0, corrected, self.predicted) - begun
        # A corrected step may go uphill.
        return self._go(corrected) or self._go(step)

    def _step(self) -> np.ndarray:
        """The step, [p]. Raises UserError if the quadratic problem is not solved."""
        objective, point = self.objective, self.point
        precision = PRECISION * self.penalty * objective.weight_sum
        try:
            return quadratic.solve(
                self.blocks, objective.gradient(point), point.coefficients, objective.lasso, precision
            )
        except quadratic.NotSolved:
            raise UserError(
                f"models.{objective.design.model}: a step of the elastic net was not solved, because columns of the formula "
                "nearly depend on each other; leave out a term, for example a second curve of the same column, or give all "
                "terms a penalty with an `l2` part"
            ) from None

    def _go(self, step: np.ndarray) -> bool:
        square = float(step @ self.blocks.times(step))
        weight = np.diag(self.blocks.a).max(initial=self.blocks.d.max(initial=0.0))
        largest, mean = self.objective.movement(step), np.sqrt(square / weight)

        def age(length: float) -> Age:
            return self.age.after(length * largest, length * mean, np.inf)

        def is_due(aged: Age) -> bool:
            return aged.mean > FAR and not self.is_observed

        began_fresh = self.age.is_fresh
        trial = search_line(self.objective, self.point, step, age, is_due, self.at)
        if trial is None:
            return False
        self.point, self.age = trial
        self.before, self.began_fresh, self.stepped = self.violation, began_fresh, True
        if self.point.blocks:
            self.use(self.point)
        return True

    def use(self, point: Point) -> None:
        """Continue with the information matrix at this point."""
        self.point, self.near = point, point.information
        self.blocks, self.age, self.is_observed = self.near.penalised(self.objective.ridge), Age(), False

    def at(self, coefficients: np.ndarray, sums: str) -> Point:
        self.passes[sums] += 1
        return self.objective.at(coefficients, sums)


def effective_coefficients(end: PathPoint) -> float:
    """The trace of (I + penalty)^-1 I over the nonzero coefficients (Tibshirani & Taylor, Annals of Statistics 40, 2012)."""
    objective = end.objective
    active = objective.active(end.point)
    blocks = end.near.restrict(active)
    if not objective.ridge.any():
        # A lasso may keep all of a set of linearly dependent columns.
        return float(np.count_nonzero(active) - len(null_vectors(blocks, len(active))[0]))
    return factor(blocks.penalised(objective.ridge)).effective_coefficients(objective.ridge)
