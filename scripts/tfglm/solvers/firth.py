"""Firth's penalised likelihood: the posterior mode under Jeffreys' prior, whose estimates are finite and have less bias.

Minimises F(b) = sum of weight * loss(eta, y) - log|I(b)| / 2 over the free coefficients, with the information matrix I (Firth,
Biometrika 80, 1993; Heinze & Schemper, Statistics in Medicine 21, 2002). With canonical links its gradient is

    X' (weight * (mean - y) - h * curvature / variance / 2),

where h is the leverage of a row (engine.leverage), and curvature and variance are the derivatives of variance and mean by eta.

1. Sum the loss, its gradient and I at b, in one pass; factor I.
2. Sum the gradient of log|I| / 2 in another one, given the inverse of I.
3. lambda^2 = g' I^-1 g is the square of the length of -I^-1 g in standard errors. The curvature of log|I| is not in I; with few
   rows a coefficient it is much of F's. It is told by how g has changed in the last steps: L-BFGS, with I in place of a
   multiple of the identity matrix (Nocedal & Wright, Numerical Optimization, 2006, algorithm 7.4).
4. End if lambda^2 is small enough and steps no longer make it smaller, or after so many steps.
5. Go the step, or the half of it, a quarter, ... until F does not rise; go to 2.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.design.parametrisation import NEGLIGIBLE, hold, holding_zero, most_frequent_first
from tfglm.solvers.fitted import ALIASED, FREE, REFERENCE
from tfglm.solvers.information import Factored, factor, gradient
from tfglm.solvers.likelihood_ratio import is_removable
from tfglm.solvers.newton import CONVERGED_BELOW, PRECISE_BELOW
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.problem import Problem, Solution, State
from tfglm.solvers.run import Reporter
from tfglm.solvers.sandwich import inverse_state
from tfglm.solvers.steps import SHORTEST_STEP, is_no_higher

NOTE = "penalised likelihood ratio (Firth)"

MOST_STEPS_IN_PLANE = 100

REMEMBERED = 10
"""Changes from which the curvature is told."""

STUCK = 0.9
"""Share of lambda^2 that a step leaves where rounding errors keep it from becoming smaller."""


@dataclass(frozen=True)
class Point:
    """What the passes have summed at some coefficients: `objective` is F, `gradient` [p] that of F."""

    state: State
    factored: Factored
    objective: float
    gradient: np.ndarray


def solve(start: Solution, at_zero: np.ndarray | None = None) -> Solution:
    """The minimum of F, from `start`. The coefficients `at_zero` (a boolean for each) stay there, but are in I."""
    problem = start.problem
    moving = problem.free if at_zero is None else problem.free & ~at_zero
    point = _at(problem, np.where(moving, start.state.coefficients, 0.0))
    assert point, "the information matrix of the null model is not singular once what is aliased is held at zero"

    def of_moving(point: Point) -> Steps:
        return Steps(factor(point.factored.blocks.restrict(moving)).solve, np.where(moving, point.gradient, 0.0))

    point, iteration, square = _descend(problem, point, of_moving, problem.run.max_iterations, problem.run.reporter)
    return replace(
        start,
        state=point.state,
        information=point.factored,
        iterations=iteration,
        converged=square <= CONVERGED_BELOW,
        certificate={"lambda_squared": square},
        violation=float(np.abs(point.gradient[moving]).max(initial=0.0)) / problem.weight_sum,
        effective=problem.free_count,
        has_covariance=True,
        objective=point.objective,
    )


def least(full: Solution, direction: np.ndarray, start: np.ndarray, value: float) -> tuple[State, float] | None:
    """The least of F where t'b is `value`, for a `direction` t [p], with the prior of the whole model, and the state there: found
    as that of all coefficients is, by steps in the plane (solvers.profile). None if they do not settle.

    Parameters
    ----------
    full
        The fit.
    direction
        Of free coefficients, [p].
    start
        Coefficients to begin with, which may have another value of t'b.
    value
        Of t'b.
    """
    problem = full.problem
    along = full.information.solve(direction)
    point = _at(problem, start + along * (value - direction @ start) / (direction @ along))
    if point is None:
        return None

    def in_plane(point: Point) -> Steps:
        inverse = point.factored.solve
        along = inverse(direction)
        along = along / np.sqrt(direction @ along)

        def solve_with(vector: np.ndarray) -> np.ndarray:
            return inverse(vector) - along * (along @ vector)

        # Without the part across the plane, beside which the rest would drown near the end.
        return Steps(solve_with, point.gradient - direction * (along @ point.gradient) / (direction @ along))

    point, _, square = _descend(problem, point, in_plane, MOST_STEPS_IN_PLANE, Reporter())
    return (point.state, point.objective) if square <= CONVERGED_BELOW else None


class Steps(NamedTuple):
    """What steps from a point are made of: the inverse of I where they go, as a function, and the gradient of F there, [p]."""

    solve_with: Callable[[np.ndarray], np.ndarray]
    gradient: np.ndarray


def _descend(
    problem: Problem, point: Point, steps: Callable[[Point], Steps], max_iterations: int, reporter: Reporter
) -> tuple[Point, int, float]:
    """3. to 5., from a point: the last one, the number of steps, and lambda^2."""
    iteration, before = 0, np.inf
    changes: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=REMEMBERED)
    solve_with, slope = steps(point)
    while True:
        square = float(solve_with(slope) @ slope)
        reporter.live(f"iteration {iteration}: penalised loss {point.objective:.10g}, lambda^2 {square:.3g}")
        reporter.record(iteration, {"firth/loss": point.objective, "firth/lambda squared": square})
        near = square <= CONVERGED_BELOW and square > STUCK * before
        if near or square <= PRECISE_BELOW or iteration == max_iterations:
            return point, iteration, square
        trial = _go(problem, point, _direction(solve_with, slope, changes))
        if trial is None:
            return point, iteration, square
        solve_with, of_trial = steps(trial)
        change = trial.state.coefficients - point.state.coefficients, of_trial - slope
        if change[0] @ change[1] > 0:
            changes.append(change)
        point, before, iteration, slope = trial, square, iteration + 1, of_trial


def _direction(
    solve_with: Callable[[np.ndarray], np.ndarray],
    of_moving: np.ndarray,
    changes: Sequence[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """The inverse Hessian times a gradient [p], as the last changes of coefficients and gradient tell it."""
    result, shares = of_moving.copy(), []
    for moved, turned in reversed(changes):
        shares.append(float(moved @ result / (moved @ turned)))
        result -= shares[-1] * turned
    result = solve_with(result)
    for (moved, turned), share in zip(changes, reversed(shares), strict=True):
        result += (share - float(turned @ result / (moved @ turned))) * moved
    return result


def _go(problem: Problem, point: Point, step: np.ndarray) -> Point | None:
    """5. The point after the step; None if no part of it lowers F."""
    length = 1.0
    while length >= SHORTEST_STEP:
        trial = _at(problem, point.state.coefficients - length * step)
        if trial and is_no_higher(trial.objective, point.objective):
            return trial
        length /= 2
    return None


def _at(problem: Problem, coefficients: np.ndarray) -> Point | None:
    """1. and 2. at some coefficients; None where the information matrix is singular."""
    design, state = problem.design, problem.at(coefficients)
    try:
        factored = factor(state.information)
    except (scipy.linalg.LinAlgError, ValueError):
        return None
    logarithm = 2 * np.log(np.diag(factored.factor)).sum() + np.log(factored.blocks.d).sum()
    blocks = factored.blocks
    inverse = inverse_state(
        design, (blocks.dense, blocks.eliminated), factored.schur_inverse(), factored.loadings, blocks.d
    )
    given = problem.workload.state(coefficients) | inverse
    of_prior = gradient(design, problem.workload.sum(problem.executor, "jeffreys", given))
    of_all = np.where(problem.free, state.gradient - of_prior, 0.0)
    return Point(state, factored, state.loss - 0.5 * float(logarithm), of_all)


def likelihood_ratios(full: Solution) -> list[dict[str, object]]:
    """Penalised likelihood ratio tests of the terms (Heinze & Schemper 2002): twice by how much F is larger where the
    coefficients of a term are zero, with the prior of the whole model.

    Parameters
    ----------
    full
        The fit with all terms.

    Returns
    -------
    For each term that is in no other what fit.json says: `chi_squared`, `df` and a `note`, or a `problem`.
    """
    tests: list[dict[str, object]] = []
    for term in full.problem.design.terms:
        if not is_removable(full.problem.design, term):
            continue
        at_zero = np.zeros(full.problem.design.size, bool)
        at_zero[full.problem.design.slices[term.name]] = True
        whole = _redundant_in(full, at_zero)
        df = int(np.count_nonzero(whole.problem.free & at_zero))
        if not df:
            continue
        full.problem.run.reporter.tell(f"with {term.name} at zero, for its penalised likelihood ratio test:")
        less = solve(whole, at_zero)
        if less.converged:
            tests.append(
                {"term": term.name, "chi_squared": 2 * (less.objective - whole.objective), "df": df, "note": NOTE}
            )
        else:
            tests.append({"term": term.name, "problem": f"not converged after {less.iterations} iterations"})
    return tests


def _redundant_in(full: Solution, of_term: np.ndarray) -> Solution:
    """The same fit with what the formula makes redundant held among the coefficients of a term (a boolean for each), as far as it
    can be: then the model without the term is that in which those that are free are zero. Without an intercept it may be held in
    another term. F is another by a constant, as I is of other coefficients."""
    problem = full.problem
    aliased = problem.status[problem.held] == ALIASED
    elsewhere = problem.null_vectors[~aliased & ~of_term[problem.held]]
    if np.abs(elsewhere[:, of_term]).max(initial=0.0) <= NEGLIGIBLE:
        return full
    by_rows = most_frequent_first(problem.design, by_coefficient(problem.design, problem.counts, "rows"))
    order = np.concatenate([problem.held[aliased], by_rows[of_term[by_rows]], problem.held[~aliased]])
    held, null_vectors = hold(problem.null_vectors, order)
    status = problem.status.copy()
    status[problem.held], status[held] = FREE, REFERENCE
    status[problem.held[aliased]] = ALIASED
    problem = replace(problem, status=status, held=held, null_vectors=null_vectors)
    point = _at(problem, np.where(problem.free, holding_zero(held, null_vectors) @ full.state.coefficients, 0.0))
    assert point, "the information matrix is that of the same model"
    return replace(full, problem=problem, state=point.state, objective=point.objective)
