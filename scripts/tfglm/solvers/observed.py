"""The end of a fit whose link is not canonical, where the observed information is not the expected one.

Fisher scoring (solvers.newton, with the expected information I) comes near the maximum as R's glm does, but each step leaves a
share of the error that does not shrink: 1 less an eigenvalue of I^-1 J, with the observed information J, the second derivative
of the loss. So the last steps are Newton's own, and so is the certificate. From where scoring has come near:

1. Sum J + diag(ridge) at b. If it is not positive definite, b is near no minimum: score on, to the end.
2. The step is v = -J^-1 g, and lambda^2 = v'I v / dispersion the square of its length in standard errors, which are those of I.
3. End if lambda^2 is small enough and steps no longer make it much smaller; if they do not, though it is large, go to 1.
4. Go the step, unless F rises; go to 2.
5. Sum I at b, from which the standard errors are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from tfglm.solvers.information import Blocks, Factored, factor
from tfglm.solvers.quadratic import product
from tfglm.solvers.steps import CONVERGED_BELOW, FRESH, PRECISE_BELOW, SLOW, is_no_higher

if TYPE_CHECKING:
    from tfglm.solvers.newton import NewtonSearch

NEAR = 1e-4
"""Of lambda^2, where scoring ends: from a hundredth of a standard error a Newton step leaves about a ten-thousandth of one."""

MOST_PRODUCTS, STEADY = 100, 1e-3
"""Of the iteration for `stretch`, and the share by which its value may still change."""


def run(search: NewtonSearch) -> float | None:
    """Take a search to its end; returns the `stretch` there, None if the observed information is not positive definite."""
    search.converged_below = search.precise_below = NEAR
    search.run()
    if np.isnan(search.lambda_squared):  # a perfect fit
        return 1.0
    hessian = _finish(search)
    search.converged_below, search.precise_below = CONVERGED_BELOW, PRECISE_BELOW
    if hessian is None:
        search.state = search.problem.at(search.state.coefficients)
        search.run()
        return None
    search.check_drift()
    return stretch(hessian, search.factored.blocks, len(search.state.coefficients))


def _finish(search: NewtonSearch) -> Factored | None:
    """Newton's own steps; the last J, None if it is not positive definite."""
    problem, moved, hessian = search.problem, 0.0, None
    while search.iteration < search.max_iterations or hessian is None:
        if moved > FRESH:
            search.renew()
            moved = 0.0
        try:
            hessian = factor(problem.observed(search.state.coefficients).penalised(problem.ridge))  # 1.
        except scipy.linalg.LinAlgError:
            return None
        began, before = search.iteration, np.inf
        while True:
            search.step = step = -hessian.solve(problem.gradient(search.state))  # 2.
            search.lambda_squared = _length(search, step)
            search.report()
            slow = search.lambda_squared > SLOW * before
            if search.lambda_squared <= PRECISE_BELOW or slow or search.iteration == search.max_iterations:  # 3.
                break
            trial = problem.at(search.state.coefficients + step, "gradient")  # 4.
            if not is_no_higher(problem.objective(trial), problem.objective(search.state)):
                break
            search.state, before = trial, search.lambda_squared
            search.iteration += 1
            moved += problem.movement(step)
        if search.lambda_squared <= CONVERGED_BELOW or search.iteration == began:
            break
    if moved > FRESH or not search.since.is_fresh:  # 5.
        search.renew()
        search.lambda_squared = _length(search, -hessian.solve(problem.gradient(search.state)))
    return hessian


def _length(search: NewtonSearch, step: np.ndarray) -> float:
    """Its square, in standard errors of the expected information."""
    square = float(step @ product(search.factored.blocks, step))
    return square / search.problem.dispersion(search.state, search.df_residual)


def stretch(hessian: Factored, blocks: Blocks, size: int) -> float:
    """How much longer, at most, J^-1 g is than I^-1 g for the same g, in the standard errors of I: the largest eigenvalue of
    J^-1 I, by the power method; at least 1."""
    x = np.random.default_rng(1).normal(size=size)
    value = 0.0
    for _ in range(MOST_PRODUCTS):
        image = product(blocks, x)
        length = float(np.sqrt(x @ image))
        if length == 0.0:
            break
        x = hessian.solve(image / length)
        before, value = value, float(np.sqrt(x @ product(blocks, x)))
        if abs(value - before) <= STEADY * value:
            break
    return max(value, 1.0)
