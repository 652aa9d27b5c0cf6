"""Dispersion and power of the Tweedie distribution by maximum likelihood, given the means.

The density is a series without a closed form (families.tweedie_rows), so that Newton's method takes the derivatives of the
log-likelihood, by the logarithm u of the dispersion and by the power v, from its values at 13 points in one pass: the middle, one
and two lengths away along each axis (central differences of the fourth order), and four in between for the mixed derivative.
"""

import numpy as np

from tfglm.engine.passes import SHAPE
from tfglm.errors import UserError
from tfglm.solvers.problem import Solution
from tfglm.solvers.shape import Shape

LOWEST, HIGHEST = 1.01, 1.99
"""Powers between which the estimate has to lie, as in mgcv::tw: at 1 the distribution is discrete, at 2 it has no zeros."""

FIRST_LENGTHS = np.array([0.02, 0.005])
LENGTH = 0.05
"""Of the differences, in standard errors once these are known: the error of a derivative is of their fourth power."""

PRECISE = 1e-7
"""In standard errors: differences tell a maximum no better than this and some rounding."""

MOST_STEPS = 60

LONGEST = np.array([1.0, 0.1])
"""Step of u and v."""

POINTS = np.array(
    [
        *((0, 0), (1, 0), (-1, 0), (2, 0), (-2, 0), (0, 1), (0, -1), (0, 2), (0, -2)),
        *((1, 1), (1, -1), (-1, 1), (-1, -1)),
    ],
    float,
)


def begin(solution: Solution) -> np.ndarray:
    """u and v: of the dispersion by Pearson at the first power."""
    problem = solution.problem
    dispersion = problem.dispersion(solution.state, solution.df_residual)
    return np.array([np.log(dispersion), 1.5])


def given_means(solution: Solution, trial: np.ndarray) -> Shape:
    """The power, from trial values of u and v. Raises UserError if it runs to an end of its range."""
    design, lengths, best = solution.problem.design, FIRST_LENGTHS, -np.inf
    middle = step = np.zeros(2)
    trial = trial.copy()
    for _ in range(MOST_STEPS):
        lengths = np.minimum(lengths, (np.min([trial[1] - 1.0, 2.0 - trial[1]]) / 3, 1.0)[::-1])
        values = log_likelihoods(solution, trial, lengths)
        if values[0] < best - 1e-10 * abs(best):
            step = step / 2
            trial = middle + step
            continue
        middle, best = trial, float(values[0])
        gradient, hessian = derivatives(values, lengths)
        curvature = np.linalg.eigvalsh(-hessian)
        if curvature[0] <= 0:
            step = np.clip(np.sign(gradient) * lengths * 5, -LONGEST, LONGEST)
        else:
            covariance = np.linalg.inv(-hessian)
            errors = np.sqrt(np.diag(covariance))
            step = covariance @ gradient
            # In its direction, along which the likelihood rises.
            step = step / max(1.0, float(np.max(np.abs(step) / LONGEST)))
            if np.all(np.abs(step) <= PRECISE * errors):
                dispersion, power = float(np.exp(middle[0])), float(middle[1])
                return Shape("power", power, float(errors[1]), middle, 10 * PRECISE, dispersion, best)
            lengths = LENGTH * errors
        trial = middle + step
        trial[1] = np.clip(trial[1], LOWEST, HIGHEST)
        if middle[1] == trial[1] and middle[1] in (LOWEST, HIGHEST):
            break
        step = trial - middle
    if middle[1] not in (LOWEST, HIGHEST):
        raise UserError(
            f"models.{design.model}.power: the search for its estimate did not end in {MOST_STEPS} steps, the last at "
            f"{middle[1]:.3g}; a response `{design.response}` of multiples of a number can do that\n  give power a number"
        )
    like = "amounts above 0" if middle[1] > 1.5 else "counts"
    raise UserError(
        f"models.{design.model}.power: the likelihood of the response `{design.response}` has no maximum between {LOWEST} and "
        f"{HIGHEST}: it is still rising at {middle[1]:.3g}\n  give power a number, or use a family of {like}"
    )


def derivatives(values: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient [2] and second derivatives [2, 2] of a function with these values at POINTS times `lengths`."""
    along = [values[[0, 1, 2, 3, 4]], values[[0, 5, 6, 7, 8]]]
    gradient = [(8 * (one - back) - (two - far)) / 12 for _, one, back, two, far in along]
    second = [(16 * (one + back) - (two + far) - 30 * at) / 12 for at, one, back, two, far in along]
    mixed = (values[9] - values[10] - values[11] + values[12]) / 4
    hessian = np.array([[second[0], mixed], [mixed, second[1]]])
    return np.array(gradient) / lengths, hessian / np.outer(lengths, lengths)


def log_likelihoods(solution: Solution, middle: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """At the points around a pair of u and v, [points]."""
    problem = solution.problem
    points = middle + POINTS * lengths
    shape = np.column_stack([np.exp(points[:, 0]), points[:, 1]])
    state = problem.workload.state(solution.state.coefficients) | {SHAPE: shape}
    sums = problem.workload.sum(problem.executor, "shape", state)
    return np.array([float(sums[name]) for name in problem.family.shape_sums])
