"""The shape of a family by maximum likelihood, alternating with the coefficients: theta of the negative binomial.

The coefficients and theta are orthogonal in the expected information, so that few turns are needed (Lawless, Canadian Journal of
Statistics 15, 1987; MASS::glm.nb in R):

1. The coefficients at theta = infinity, which is a Poisson regression. If its residuals vary no more than a Poisson distribution
   does, theta has no finite estimate, and the model is refused by name.
2. Theta, given the means: Newton's method on its logarithm.
3. The coefficients, given theta, from those before.
4. End once theta moves by less than a billionth of its standard error; else go to 2.

The fit that is reported is then made anew with theta as if it had been given; its standard error is that of the observed
information for theta alone, as MASS has it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tfglm.engine.passes import SHAPE
from tfglm.errors import UserError
from tfglm.solvers.problem import Solution

PRECISE = 1e-9
"""In standard errors of theta: how far the last turn may move it."""

MOST_TURNS, MOST_STEPS = 50, 100
"""Of the coefficients, and of theta in one of these."""

LARGEST = 1e7
"""Theta from which on the distribution is a Poisson one but for rounding errors."""


@dataclass(frozen=True)
class Shape:
    """The estimate of a shape and its standard error, by the name that design and config have for it."""

    name: str
    value: float
    std_error: float


def estimate(first: Solution, solve: Callable[[Solution], Solution], tell: Callable[[str], None]) -> Shape:
    """Theta by maximum likelihood.

    Parameters
    ----------
    first
        The fit with theta not known, which takes it for infinite.
    solve
        Finds the coefficients from a start.
    tell
        Hears of each turn.

    Raises
    ------
    UserError
        If the response does not vary enough for a finite estimate, or the turns do not end.
    """
    solution, design = first, first.problem.design
    sums = _sums(solution, 1.0)
    if sums["excess"] <= 0:
        raise no_theta(solution)
    theta = float(solution.problem.weight_sum / sums["moment"])
    before = np.inf
    for _ in range(MOST_TURNS):
        theta, error = given_means(solution, theta)
        if abs(theta - before) <= PRECISE * error:
            return Shape("theta", theta, error)
        tell(f"theta {theta:.6g}, standard error {error:.3g}")
        before = theta
        workload = first.problem.workload.with_design(replace(design, theta=theta))
        problem = replace(solution.problem, workload=workload)
        solution = solve(replace(first, problem=problem, state=problem.at(solution.state.coefficients)))
    raise UserError(
        f"models.{design.model}.theta: its estimate did not settle in {MOST_TURNS} turns; give a number, such as {theta:.3g}"
    )


def given_means(solution: Solution, theta: float) -> tuple[float, float]:
    """Theta and its standard error, with the means of the coefficients, from a start."""
    for _ in range(MOST_STEPS):
        sums = _sums(solution, theta)
        score, information = float(sums["score"]), float(sums["information"])
        # By the logarithm of theta.
        slope, curvature = theta * score, theta**2 * information - theta * score
        step = float(np.clip(slope / curvature, -1.0, 1.0)) if curvature > 0 else float(np.sign(slope))
        if information > 0 and abs(step) * theta * np.sqrt(information) <= PRECISE / 10:
            return theta, float(1.0 / np.sqrt(information))
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


def _sums(solution: Solution, theta: float) -> dict[str, np.ndarray]:
    problem = solution.problem
    state = problem.workload.state(solution.state.coefficients) | {SHAPE: np.array([theta])}
    return problem.workload.sum(problem.executor, "shape", state)
