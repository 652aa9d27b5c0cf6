"""The loop that every search for a minimum runs.

A descent is at a point and repeats:

1. Measure the distance to the minimum.
2. If the matrix behind this distance is too old, sum it again and measure again.
3. End if the minimum is near enough, or after the largest number of steps.
4. Take the whole step, or half of it, a quarter, ..., until the objective falls. If it never falls, renew an old matrix and go
   to 1; with a fresh matrix, end.

Each subclass defines these four parts. It is Fisher scoring or Newton's method (solvers.newton), also under Jeffreys' prior
(solvers.firth) or in a plane (solvers.profile), or proximal Newton (solvers.elastic_net). Others search for separated rows
(solvers.rectifier), a shape (solvers.shape), or smoothing parameters (solvers.smooth, solvers.reml).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tfglm.solvers.objective import Objective, Point

SHORTEST_STEP = 2.0**-20
"""The shortest share of a step that is tried."""

ROUNDING = 1e-12
"""The rise of an objective that counts as rounding error, as a share of its size. Near the optimum an objective changes by
less than its rounding error."""

FLATTEST = 1e-10
"""The smallest eigenvalue of second derivatives in a Newton step, as a share of the largest."""

At = TypeVar("At")


class Descent(ABC):
    """A search for a minimum. `iteration` counts its steps; `most` limits them."""

    iteration: int = 0
    most: int

    def run(self) -> None:
        while True:
            self.measure()  # 1.
            if self.is_outdated():  # 2.
                self.renew()
            elif self.has_ended():  # 3.
                return
            elif self.go():  # 4.
                self.iteration += 1
            elif self.is_outdated():
                self.renew()
            else:
                return

    @abstractmethod
    def measure(self) -> None:
        """Find the step to the minimum, and the distance."""

    def is_outdated(self) -> bool:
        """Whether the matrix behind the step is too old for the next step, or for the end."""
        return False

    def renew(self) -> None:
        """Sum the matrix at the present point."""
        raise NotImplementedError

    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the search ends at the present point."""

    @abstractmethod
    def go(self) -> bool:
        """Take the step; False if no part of it lowers the objective."""


def is_no_higher(after: float, before: float) -> bool:
    """Whether an objective has not risen by more than its rounding error. The objective may be negative; NaN gives False.

    >>> is_no_higher(3.0, 3.0), is_no_higher(3.1, 3.0), is_no_higher(float("nan"), 3.0)
    (True, False, False)
    """
    return bool(after <= before + ROUNDING * abs(before))


def newton_step(gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The step of Newton's method, downhill where the second derivatives are not positive definite: it has their absolute
    eigenvalues (Nocedal and Wright, Numerical Optimization, 2006, 3.4).

    >>> newton_step(np.array([2.0, 3.0]), np.diag([4.0, -1.0])).tolist()
    [-0.5, -3.0]
    """
    values, vectors = np.linalg.eigh(hessian)
    curved = np.maximum(np.abs(values), max(FLATTEST * np.abs(values).max(), np.finfo(float).tiny))
    with np.errstate(over="ignore", invalid="ignore"):
        return -vectors @ (vectors.T @ gradient / curved)


def halve_until(
    is_lower: Callable[[At], bool], at: Callable[[float], At], shortest: float = SHORTEST_STEP
) -> At | None:
    """Try a whole step, half of it, a quarter, ..., and return the first point that `is_lower`; None if none is.

    `at` gives the point after a share of the step.

    >>> halve_until(lambda x: x**2 < 1, lambda length: 1 - 3 * length)
    -0.5
    """
    length = 1.0
    while length >= shortest:
        trial = at(length)
        if is_lower(trial):
            return trial
        length /= 2
    return None


FRESH = 1e-7
"""How far linear predictors may move before the reported information must be summed again. The weights change by at most this
share."""

SHORT = FRESH / 10
"""Predicted length of a step below which the information is summed before the step. Rare groups move further than predicted."""


@dataclass(frozen=True)
class Age:
    """How far the search has moved since the information matrix was summed.

    The linear predictors have moved by at most `largest` in all, by at most `last` in the last step, and by `mean` in
    quadratic mean. `decrement` is lambda^2 before the last step. The next step probably leaves a share `ratio` of the error.

    >>> age = Age().after(largest=0.5, mean=0.1, decrement=2.0).after(largest=0.05, mean=0.01, decrement=0.02)
    >>> age.largest, age.last, round(age.ratio, 3), age.steps_left
    (0.55, 0.05, 0.11, 7.0)
    """

    largest: float = 0.0
    mean: float = 0.0
    last: float = 0.0
    decrement: float = np.inf
    ratio: float = 0.0

    def after(self, largest: float, mean: float, decrement: float) -> "Age":
        """The age after a step that moves the linear predictors by `largest` and `mean`."""
        # A step leaves about the share of the error by which the weights have changed.
        ratio = max(self.mean + mean, largest / self.last if self.last else 0.0)
        return Age(self.largest + largest, self.mean + mean, largest, decrement, ratio)

    @property
    def is_fresh(self) -> bool:
        """Whether the information matrix is still valid at the present point."""
        return self.largest <= FRESH

    @property
    def steps_left(self) -> float:
        """The predicted number of steps with this information matrix until a step is SHORT."""
        if self.last <= SHORT or self.ratio == 0.0:
            return float(self.last > SHORT)
        return float(np.ceil(np.log(SHORT / self.last) / np.log(self.ratio))) if self.ratio < 1.0 else np.inf


def search_line(
    objective: Objective,
    point: Point,
    step: np.ndarray,
    age: Callable[[float], Age],
    is_due: Callable[[Age], bool],
    at: Callable[[np.ndarray, str], Point],
) -> tuple[Point, Age] | None:
    """Try step, step / 2, step / 4, ... until one does not raise the objective. Return the point after the step and the age
    of the information matrix there; None if every length raises the objective.

    `age` gives the age of the matrix after a share of the step, `is_due` whether a matrix of that age must be summed again;
    then the point has `blocks`. `at` gives the point at some coefficients [p], by the pass with that name.
    """
    before = objective.value(point)

    def trial(length: float) -> tuple[Point, Age]:
        aged = age(length)
        return at(point.coefficients + length * step, "information" if is_due(aged) else "gradient"), aged

    def is_lower(tried: tuple[Point, Age]) -> bool:
        value = objective.value(tried[0])
        if is_no_higher(value, before):
            return True
        objective.run.reporter.live(f"  the loss rose to {value:.10g}: trying a shorter step")
        return False

    return halve_until(is_lower, trial)
