"""Theta of the negative binomial by maximum likelihood, given the means: Newton's method on its logarithm.

It begins at a Poisson regression, which is theta = infinity. If the residuals of that vary no more than a Poisson distribution
does, theta has no finite estimate, and the model is refused by name. The standard error is that of the observed information for
theta alone, as R's MASS::theta.ml has it.
"""

import numpy as np

from tfglm.engine.passes import SHAPE, Sums
from tfglm.errors import UserError
from tfglm.solvers.problem import Solution
from tfglm.solvers.shape import PRECISE, Shape

MOST_STEPS = 100

LARGEST = 1e7
"""Theta from which on the distribution is a Poisson one but for rounding errors."""


def begin(solution: Solution) -> np.ndarray:
    """Theta by moments, [1]. Raises UserError if the response does not vary enough for a finite estimate."""
    sums = _sums(solution, 1.0)
    if sums["excess"] <= 0:
        raise no_theta(solution)
    return np.array([solution.problem.weight_sum / float(sums["moment"])])


def given_means(solution: Solution, trial: np.ndarray) -> Shape:
    """Theta, from a trial value [1]. Raises UserError if it has no finite estimate."""
    theta = float(trial[0])
    for _ in range(MOST_STEPS):
        sums = _sums(solution, theta)
        score, information = float(sums["score"]), float(sums["information"])
        # By the logarithm of theta.
        slope, curvature = theta * score, theta**2 * information - theta * score
        step = float(np.clip(slope / curvature, -1.0, 1.0)) if curvature > 0 else float(np.sign(slope))
        if information > 0 and abs(step) * theta * np.sqrt(information) <= PRECISE / 10:
            return Shape("theta", theta, float(1.0 / np.sqrt(information)), np.array([theta]))
        theta *= float(np.exp(step))
        if theta > LARGEST:
            break
    raise no_theta(solution)


def no_theta(solution: Solution) -> UserError:
    """That theta has no finite estimate."""
    design = solution.problem.design
    return UserError(
        f"models.{design.model}.theta: the response `{design.response}` varies no more around its mean than a Poisson "
        f"distribution does, so theta has no finite estimate\n  use family: poisson, or give theta a number"
    )


def _sums(solution: Solution, theta: float) -> Sums:
    problem = solution.problem
    state = problem.workload.state(solution.state.coefficients) | {SHAPE: np.array([theta])}
    return problem.workload.sum(problem.executor, "shape", state)
