"""The shape of a family by maximum likelihood, alternating with the coefficients: theta of the negative binomial (solvers.theta),
power of the Tweedie distribution (solvers.power).

The coefficients and a shape are orthogonal in the expected information, so that few turns are needed (Lawless, Canadian Journal
of Statistics 15, 1987; MASS::glm.nb in R):

1. The coefficients at a shape to begin with.
2. The shape, given the means.
3. The coefficients, given the shape, from those before.
4. End once the shape moves by less than a billionth of its standard error, or as little as it can be told; else go to 2.

The fit that is reported is then made anew with the shape as if it had been given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tfglm.errors import UserError
from tfglm.solvers.problem import Solution

PRECISE = 1e-9
"""In standard errors of the shape: how far the last turn may move it."""

MOST_TURNS = 50


@dataclass(frozen=True)
class Shape:
    """The estimate of a shape by the name that design and config have for it, and its standard error.

    `trial` is what the next turn begins with, `precise` how far the last step may go, in standard errors; `dispersion` and
    `log_likelihood` are those of a family whose dispersion is estimated by maximum likelihood too.
    """

    name: str
    value: float
    std_error: float
    trial: np.ndarray
    precise: float = PRECISE
    dispersion: float | None = None
    log_likelihood: float | None = None


class Method(NamedTuple):
    """How a shape is found: what to `begin` with, from the first coefficients, and its estimate `given_means` and a trial."""

    begin: Callable[[Solution], np.ndarray]
    given_means: Callable[[Solution, np.ndarray], Shape]


def estimate(first: Solution, method: Method, solve: Callable[[Solution], Solution]) -> Shape:
    """The shape by maximum likelihood.

    Parameters
    ----------
    first
        The fit with the shape not known.
    method
        Finds the shape, given the means.
    solve
        Finds the coefficients from a start.

    Raises
    ------
    UserError
        If the shape has no estimate, or the turns do not end.
    """
    solution, design, trial, before = first, first.problem.design, method.begin(first), np.inf
    for _ in range(MOST_TURNS):
        found = method.given_means(solution, trial)
        if abs(found.value - before) <= found.precise * found.std_error:
            return found
        first.problem.run.reporter.tell(f"{found.name} {found.value:.6g}, standard error {found.std_error:.3g}")
        trial, before = found.trial, found.value
        workload = first.problem.workload.with_design(design.as_fitted({found.name: found.value}))
        problem = replace(solution.problem, workload=workload)
        solution = solve(replace(first, problem=problem, state=problem.at(solution.state.coefficients)))
    raise UserError(
        f"models.{design.model}.{found.name}: its estimate did not settle in {MOST_TURNS} turns; give a number, such as "
        f"{found.value:.3g}"
    )
