"""The certificate of a fit: a bound on the distance of the estimates from the maximum of the likelihood.

Let c'b be any combination of the coefficients, on any scale and under any constraints. A Newton step v = I^-1 g moves it by at
most lambda times its classical standard error, where lambda^2 = g' I^-1 g / dispersion (Cauchy and Schwarz). The same holds for
an error of the gradient. So a single number bounds the error of all coefficients of all tables. Rounding adds to the last
gradient, with u = 2^-53:

- The error of a sum of n products is at most (n - 1 + the relative error of a product in u) * u * the sum of their sizes
  (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 4.2). A pass sums the sizes.
- The error of the linear predictor of a row is a few u * r, where r is the sum of the sizes of its parts. The error of its score
  is as many u * weight * r. In standard errors, the total is at most the root of the sum of weight * r^2.
- The error of a score is a few u, relative to the score and to the terms of its difference.

A coefficient of a table is rounded to a float64. Its size is also at most the root of the sum of weight * r^2 standard errors.
"""

from dataclasses import dataclass, replace

import numpy as np

from tfglm.engine.passes import ROWS_IN_A_SUM
from tfglm.inference.block_diagonal import BlockDiagonal
from tfglm.inference.bread import Bread
from tfglm.inference.covariance import Covariance
from tfglm.inference.fitted import Fitted
from tfglm.solvers.information import gradient
from tfglm.solvers.newton import CONVERGED_BELOW
from tfglm.solvers.objective import Objective, Point, Solution

UNIT_ROUNDOFF = 2.0**-53

MARGIN = 1.1
"""A factor for effects of higher order: rounding in the bound itself, and the error of a Newton step as a distance."""

OF_A_SCORE = 16
"""Error of a mean in units of roundoff, given the linear predictor. An exponential has up to 4, and a few operations follow."""

CHUNK = 2048
"""Columns in a chunk of the computation."""


UNRELIABLE_ABOVE = 0.01
"""Gap for each coefficient above which the quadratic approximation is not valid."""


def certify(solution: Solution, fitted: Fitted) -> dict[str, float]:
    """The certificate of an exact fit in fit.json: a bound on the distance of its estimates from the maximum."""
    error, objective = rounding(solution.objective, solution.point, fitted.rows), solution.objective
    error = replace(error, gradient=objective.reported_error(error.gradient, solution.information))
    square = solution.certificate["lambda_squared"]
    return {
        "lambda_squared": square,
        "converged_below": CONVERGED_BELOW,
        "within_standard_errors": within(square, error, fitted.covariance, solution.stretch),
    }


def optimality_gap(solution: Solution) -> dict:
    """The gap of an online fit in fit.json (docs/statistics.md: Online solvers).

    The log-likelihood is lambda^2 / 2 below its maximum. `standard_errors` is the root mean square distance of the
    coefficients from their estimates at the maximum, in standard errors.
    """
    square, free = solution.certificate["lambda_squared"], solution.objective.free_count
    return {
        "log_likelihood": square / 2,
        "each_coefficient": square / 2 / free,
        "standard_errors": float(np.sqrt(square / free)),
        "unreliable": bool(square / 2 > UNRELIABLE_ABOVE * free),
    }


@dataclass(frozen=True)
class Rounding:
    """Bounds on rounding errors.

    `gradient` [p] bounds the error of each sum of the gradient. `scores` bounds the errors of the scores, and `reach` is the root
    of the sum of weight * r^2. Both are in standard errors times the root of the dispersion.
    """

    gradient: np.ndarray
    scores: float
    reach: float


def rounding(objective: Objective, point: Point, rows: np.ndarray) -> Rounding:
    """The rounding errors of the gradient at `point`. `rows` [p] counts the rows of each coefficient's group."""
    workload, design = objective.workload, objective.workload.design
    sums = workload.sum(objective.executor, "magnitudes", design.by_term(point.coefficients))
    sizes = gradient(design, sums)
    most_numbers = max(len(part.multiplier) for part in design.parts)
    blocks = sum(int(np.count_nonzero(counts)) for calls in workload.calls.values() for _, _, _, counts, *_ in calls)
    # Each numeric column is a difference times a rounded inverse. Blocks and calls are then added.
    added = np.minimum(rows, ROWS_IN_A_SUM) + blocks + 4 * most_numbers + 2
    penalty = 2 * np.abs(objective.ridge * point.coefficients)
    of_predictor = len(design.parts) + 4 * most_numbers + 1
    reach = float(np.sqrt(sums["reach"]))
    return Rounding(
        UNIT_ROUNDOFF * (added * sizes + penalty),
        UNIT_ROUNDOFF * (of_predictor * reach + OF_A_SCORE * (reach + float(np.sqrt(point.pearson)))),
        reach + design.likelihood.origin_reach * float(np.sqrt(objective.weight_sum)),
    )


def within(square: float, rounded: Rounding, covariance: Covariance, stretch: float = 1.0) -> float:
    """The largest distance of an estimate of any table from the maximum, in classical standard errors.

    `square` is lambda^2. An error of the gradient moves the maximum by up to `stretch` times the prediction of the expected
    information (`newton.stretch`).
    """
    gradient = np.sqrt(_largest_square(rounded.gradient, covariance.bread))
    hidden = (stretch * (gradient + rounded.scores) + UNIT_ROUNDOFF * rounded.reach) / np.sqrt(covariance.dispersion)
    return float(MARGIN * (np.sqrt(square) + hidden))


def _largest_square(errors: np.ndarray, bread: Bread) -> float:
    """A bound on e' I^-1 e over all e with |e| <= `errors` [p]. It uses the absolute values of the entries of I^-1."""
    dense, eliminated = errors[bread.dense], errors[bread.eliminated]
    for first in range(0, len(eliminated), CHUNK):
        chunk = slice(first, first + CHUNK)
        dense = dense + np.abs(bread.loadings[:, chunk]) @ eliminated[chunk]
    on_dense = sum(
        float(dense[first : first + CHUNK] @ (np.abs(bread.schur_inverse[first : first + CHUNK]) @ dense))
        for first in range(0, len(dense), CHUNK)
    )
    return on_dense + BlockDiagonal(np.abs(bread.d.inverse.values)).form(eliminated)
