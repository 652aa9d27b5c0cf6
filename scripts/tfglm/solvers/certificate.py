"""How far an estimate can be from the maximum of the likelihood: what the last gradient says, and what rounding hides.

For any combination c'b of the coefficients, on whatever scale and under whatever constraints, a Newton step v = I^-1 g moves it
by no more than lambda times its classical standard error, lambda^2 = g' I^-1 g / dispersion (Cauchy and Schwarz). Of an error
of the gradient the same holds. So one number bounds the error of all coefficients of all tables. Its parts, with u = 2^-53:

- The sum of n products is off by at most (n - 1 + what each product is off by) u times the sum of their sizes (Higham, Accuracy
  and Stability of Numerical Algorithms, 2002, 4.2), which a pass sums.
- The linear predictor of a row is off by a few u times r = the sum of the sizes of what it consists of, so its score by as many
  times weight * r. In standard errors that is no more than the root of the sum of weight * r^2.
- A score is off by a few u of itself and of what it is a difference of.

A coefficient of a table is rounded to a float64: its size is at most the root of the sum of weight * r^2 standard errors too.
"""

from dataclasses import dataclass

import numpy as np

from tfglm.engine.passes import ROWS_IN_A_SUM
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.newton import CONVERGED_BELOW
from tfglm.solvers.problem import Problem, Solution, State

UNIT_ROUNDOFF = 2.0**-53

MARGIN = 1.1
"""For what is of higher order: rounding in the bound itself, and that a Newton step is not quite the distance."""

OF_A_SCORE = 16
"""Units of roundoff of a mean, given the linear predictor: an exponential is off by up to 4, and a few operations follow."""

CHUNK = 2048
"""Columns that are worked on at once."""


UNRELIABLE_ABOVE = 0.01
"""Gap for each coefficient: the quadratic approximation does not reach that far."""


def certify(solution: Solution, fitted: Fitted) -> dict[str, float]:
    """What fit.json says of how far the estimates of an exact fit can be from the maximum."""
    error = rounding(solution.problem, solution.state, fitted.rows)
    square = solution.certificate["lambda_squared"]
    return {
        "lambda_squared": square,
        "converged_below": CONVERGED_BELOW,
        "within_standard_errors": within(square, error, fitted, fitted.dispersion, solution.stretch),
    }


def optimality_gap(solution: Solution) -> dict:
    """What fit.json says of how far the log-likelihood is from its maximum: half of lambda^2 (docs/statistics.md: Online
    solvers); and the coefficients from theirs, in standard errors, in root mean square."""
    square, free = solution.certificate["lambda_squared"], solution.problem.free_count
    return {
        "log_likelihood": square / 2,
        "each_coefficient": square / 2 / free,
        "standard_errors": float(np.sqrt(square / free)),
        "unreliable": bool(square / 2 > UNRELIABLE_ABOVE * free),
    }


@dataclass(frozen=True)
class Rounding:
    """How much rounding there is: `gradient` bounds the error of each sum of the gradient [coefficients]; `scores` and `reach`,
    in standard errors times the root of the dispersion, what is wrong in the scores, and the root of the sum of weight * r^2."""

    gradient: np.ndarray
    scores: float
    reach: float


def rounding(problem: Problem, state: State, rows: np.ndarray) -> Rounding:
    """That of the gradient at `state`. `rows` are those of each coefficient's group."""
    workload, design = problem.workload, problem.workload.design
    sums = workload.sum(problem.executor, "magnitudes", design.by_term(state.coefficients))
    sizes = np.concatenate([np.atleast_1d(sums[f"part_{k}"]) for k in range(len(design.parts))])
    most_numbers = max(len(part.multiplier) for part in design.parts)
    blocks = sum(int(np.count_nonzero(counts)) for calls in workload.calls.values() for _, _, _, counts, *_ in calls)
    # Each number is a difference, times a rounded inverse; then blocks are added, and calls.
    added = np.minimum(rows, ROWS_IN_A_SUM) + blocks + 4 * most_numbers + 2
    penalty = 2 * np.abs(problem.ridge * state.coefficients)
    of_predictor = len(design.parts) + 4 * most_numbers + 1
    reach = float(np.sqrt(sums["reach"]))
    return Rounding(
        UNIT_ROUNDOFF * (added * sizes + penalty),
        UNIT_ROUNDOFF * (of_predictor * reach + OF_A_SCORE * (reach + float(np.sqrt(state.pearson)))),
        reach + abs(design.origin) * float(np.sqrt(problem.weight_sum)),
    )


def within(square: float, rounded: Rounding, fitted: Fitted, dispersion: float, stretch: float = 1.0) -> float:
    """How many classical standard errors an estimate of any table can be from the maximum at most; `square` is lambda^2. An error
    of the gradient moves the maximum by `stretch` times as much as the expected information says (`newton.stretch`)."""
    gradient = np.sqrt(_largest_square(rounded.gradient, fitted))
    hidden = (stretch * (gradient + rounded.scores) + UNIT_ROUNDOFF * rounded.reach) / np.sqrt(dispersion)
    return float(MARGIN * (np.sqrt(square) + hidden))


def _largest_square(errors: np.ndarray, fitted: Fitted) -> float:
    """The largest e' I^-1 e, or a little more, of all e with |e| <= `errors`: each entry of the inverse by its size."""
    dense, eliminated = errors[fitted.dense], errors[fitted.eliminated]
    for first in range(0, len(eliminated), CHUNK):
        chunk = slice(first, first + CHUNK)
        dense = dense + np.abs(fitted.loadings[:, chunk]) @ eliminated[chunk]
    on_dense = sum(
        float(dense[first : first + CHUNK] @ (np.abs(fitted.schur_inverse[first : first + CHUNK]) @ dense))
        for first in range(0, len(dense), CHUNK)
    )
    return on_dense + float(eliminated**2 @ (1.0 / fitted.diagonal))
