"""Firth's penalised likelihood: the posterior mode under Jeffreys' prior. Its estimates are finite and have less bias.

The fit minimises F(b) = sum of weight * loss(eta, y) - log|I(b)| / 2 over the free coefficients, with the information matrix I
(Firth, Biometrika 80, 1993; Heinze & Schemper, Statistics in Medicine 21, 2002). With canonical links the gradient g of F is

    X' (weight * (mean - y) - h * curvature / variance / 2).

h is the leverage of a row (engine.leverage). Curvature and variance are the derivatives of variance and mean by eta.

1. Sum the loss, its gradient and I at b, in one pass; factor I.
2. Sum the gradient of log|I| / 2 in a second pass, which uses the inverse of I.
3. lambda^2 = g' I^-1 g is the squared length of -I^-1 g in standard errors. I lacks the curvature of log|I|, which matters if
   there are few rows for each coefficient. The step takes this curvature from the last changes of b and g: L-BFGS, with I
   instead of a multiple of the identity matrix (Nocedal & Wright, Numerical Optimization, 2006, algorithm 7.4).
4. End if lambda^2 is small and steps no longer reduce it, or after the largest number of steps.
5. Take the whole step, or half of it, a quarter, ..., until F does not rise. Each trial sums as in 1 and 2; then go to 3.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import Fitted
from tfglm.solvers.descent import Descent, halve_until, is_no_higher
from tfglm.solvers.information import Factored, factor
from tfglm.solvers.newton import CONVERGED_BELOW, PRECISE_BELOW
from tfglm.solvers.objective import Point, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.run import Reporter, Run

MOST_STEPS_IN_PLANE = 100

REMEMBERED = 10
"""Number of past changes of b and g that give the curvature."""

STUCK = 0.9
"""A step that leaves more than this share of lambda^2 is at the limit of rounding errors."""


@dataclass(frozen=True, kw_only=True)
class FirthPoint(Point):
    """A point with the factored I, the `value` of F and its derivative, `slope` [p]."""

    factored: Factored
    value: float
    slope: np.ndarray


class FirthObjective(PlainObjective):
    """F with Jeffreys' prior. All its estimates are finite, so no level is separated."""

    @classmethod
    def _overlapping(cls, workload: Workload, run: Run, counts: Sums, terms: list[str]) -> tuple[Workload, Sums]:
        return workload, counts

    def with_prior(self, coefficients: np.ndarray) -> FirthPoint | None:
        """Steps 1 and 2 at some coefficients [p]; None if the information matrix is singular."""
        point = self.at(coefficients)
        try:
            factored = factor(point.information)
        except (scipy.linalg.LinAlgError, ValueError):
            return None
        of_prior = self.slope_of_determinant(coefficients, factored)
        return FirthPoint(
            **vars(point),
            factored=factored,
            value=point.loss - 0.5 * factored.log_determinant(),
            slope=np.where(self.free, point.gradient - of_prior, 0.0),
        )

    def value(self, point: Point) -> float:
        return point.value if isinstance(point, FirthPoint) else super().value(point)

    def effective(self, factored: Factored) -> float:
        return self.free_count

    def facts(self, fitted: Fitted) -> dict:
        return {"firth": True}


def solve(start: Solution, at_zero: np.ndarray | None = None, across: np.ndarray | None = None) -> Solution:
    """Minimise F from `start`. The coefficients b marked in `at_zero` [p] stay at zero, but remain in I. So do the
    combinations `across` [rows, p] times b."""
    objective = start.objective
    assert isinstance(objective, FirthObjective)
    moving = objective.free if at_zero is None else objective.free & ~at_zero
    begun = np.where(moving, start.point.coefficients, 0.0)
    if across is not None:
        along, unit = orthonormal(factor(start.point.information.restrict(moving)).solve, across)
        begun = begun - along.T @ (unit @ begun)
    point = objective.with_prior(begun)
    assert point, "the information matrix of the null model is not singular once what is aliased is held at zero"

    def metric(point: FirthPoint) -> Metric:
        free = Metric(factor(point.factored.blocks.restrict(moving)).solve, np.where(moving, point.slope, 0.0))
        return free if across is None else free.keeping(across)

    descent = JeffreysDescent(objective, point, metric, objective.run.max_iterations, objective.run.reporter)
    descent.run()
    point = descent.point
    return replace(
        start,
        point=point,
        information=point.factored,
        iterations=descent.iteration,
        converged=descent.square <= CONVERGED_BELOW,
        certificate={"lambda_squared": descent.square},
        violation=float(np.abs(point.slope[moving]).max(initial=0.0)) / objective.weight_sum,
        effective=objective.effective(point.factored),
        has_covariance=True,
    )


def least(full: Solution, direction: np.ndarray, start: np.ndarray, value: float) -> FirthPoint | None:
    """Minimise F in the plane t'b = `value` (solvers.profile), with the prior of the whole model. t [p] is zero except at
    free coefficients; `start` may be outside the plane. None if the search does not converge."""
    objective = full.objective
    assert isinstance(objective, FirthObjective)
    along = full.information.solve(direction)
    point = objective.with_prior(start + along * (value - direction @ start) / (direction @ along))
    if point is None:
        return None

    def metric(point: FirthPoint) -> Metric:
        return Metric(point.factored.solve, point.slope).keeping(direction[None])

    descent = JeffreysDescent(objective, point, metric, MOST_STEPS_IN_PLANE, Reporter())
    descent.run()
    return descent.point if descent.square <= CONVERGED_BELOW else None


class Metric(NamedTuple):
    """The parts of a step from a point: `solve_with` multiplies by I^-1 within the allowed directions, and `gradient` [p] is
    the gradient of F within them."""

    solve_with: Callable[[np.ndarray], np.ndarray]
    gradient: np.ndarray

    def keeping(self, across: np.ndarray) -> "Metric":
        """The metric of the steps that change no combination `across` [rows, p] of the coefficients."""
        along, unit = orthonormal(self.solve_with, across)

        def solve_with(vector: np.ndarray) -> np.ndarray:
            return self.solve_with(vector) - along.T @ (along @ vector)

        # Without the part across the plane: near the end its rounding errors would hide the rest.
        return Metric(solve_with, self.gradient - unit.T @ (along @ self.gradient))


def orthonormal(solve_with: Callable[[np.ndarray], np.ndarray], across: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Combinations U [rows, p] that span those `across` with U I^-1 U' = 1, after U I^-1."""
    along = np.stack([solve_with(row) for row in across])
    root = np.linalg.cholesky(across @ along.T)
    return scipy.linalg.solve_triangular(root, along, lower=True), scipy.linalg.solve_triangular(
        root, across, lower=True
    )


class JeffreysDescent(Descent):
    """Steps 3 to 5. `square` is lambda^2 at the `point`. `changes` has the last changes of coefficients and gradient."""

    def __init__(
        self,
        objective: FirthObjective,
        point: FirthPoint,
        metric: Callable[[FirthPoint], Metric],
        most: int,
        reporter: Reporter,
    ):
        self.objective, self.point, self.metric, self.most, self.reporter = objective, point, metric, most, reporter
        self.here = metric(point)
        self.before = np.inf
        self.changes: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=REMEMBERED)

    def measure(self) -> None:
        self.square = float(self.here.solve_with(self.here.gradient) @ self.here.gradient)

    def has_ended(self) -> bool:
        value, square = self.point.value, self.square
        self.reporter.live(f"iteration {self.iteration}: penalised loss {value:.10g}, lambda^2 {square:.3g}")
        self.reporter.record(self.iteration, {"firth/loss": value, "firth/lambda squared": square})
        near = square <= CONVERGED_BELOW and square > STUCK * self.before
        return near or square <= PRECISE_BELOW or self.iteration == self.most

    def go(self) -> bool:
        step = self._direction()
        before = self.point

        def is_lower(trial: FirthPoint | None) -> bool:
            return trial is not None and is_no_higher(trial.value, before.value)

        after = halve_until(is_lower, lambda length: self.objective.with_prior(before.coefficients - length * step))
        if after is None:
            return False
        there = self.metric(after)
        change = after.coefficients - before.coefficients, there.gradient - self.here.gradient
        if change[0] @ change[1] > 0:
            self.changes.append(change)
        self.point, self.here, self.before = after, there, self.square
        return True

    def _direction(self) -> np.ndarray:
        """The inverse Hessian times the gradient, [p], by the two loops of L-BFGS."""
        result, shares = self.here.gradient.copy(), []
        for moved, turned in reversed(self.changes):
            shares.append(float(moved @ result / (moved @ turned)))
            result -= shares[-1] * turned
        result = self.here.solve_with(result)
        for (moved, turned), share in zip(self.changes, reversed(shares), strict=True):
            result += (share - float(turned @ result / (moved @ turned))) * moved
        return result
