"""Profile likelihood intervals: the values of a combination t'b of coefficients that a likelihood ratio test does not reject.

For a value v, let D(v) be the smallest deviance with t'b = v, less the deviance of the fit, divided by the dispersion. The root
of D(v), with the sign of v less the estimate, is zeta(v). The interval ends where zeta is -z and z, the quantile of the normal
distribution, or of t if the dispersion is estimated. (Venables & Ripley, Modern Applied Statistics with S, 2002, 7.2. R's confint
of a glm interpolates zeta between some values.)

Newton's steps in the plane t'b = v find D(v) (`DescentInPlane`). With gradient g and information matrix I,

    step = -I^-1 g + lambda I^-1 t,   lambda = t'I^-1 g / t'I^-1 t.

The search begins at the result for the value before, moved along I^-1 t. A secant search on zeta, which is close to a straight
line, finds the ends of the interval.

An estimated theta of a negative binomial is re-estimated at each v. Theta, given the means, alternates with the coefficients. D
is then the difference of -2 log-likelihood. With Firth's penalty, D is the difference of the penalised deviance with the prior
of the whole model, as in R's logistf (Heinze & Schemper, Statistics in Medicine 21, 2002).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import ndtri, stdtrit

from tfglm.design.by_class import thresholds
from tfglm.design.design import Design
from tfglm.design.parametrisation import to_data_scale
from tfglm.errors import UserError
from tfglm.formula.names import coefficient_name
from tfglm.inference.fitted import EMPTY, SEPARATED, Fitted
from tfglm.solvers import firth, shape
from tfglm.solvers.descent import SHORTEST_STEP, Descent, is_no_higher
from tfglm.solvers.objective import Objective, Point, Solution

CLOSE = 1e-7
"""Largest distance of zeta from z at an end."""

SETTLED = 1e-13
"""g'I^-1 g in the plane at which the search ends, in units of the deviance."""

MOST_VALUES, MOST_STEPS, MOST_TURNS = 25, 40, 20
"""Largest number of values for an end, of steps for a value and a theta, and of turns of theta for a value."""

THETA_SETTLED = 1e-5
"""Largest movement of theta in the last turn, in its standard errors. The error of D is its square."""

FARTHEST = 1e3
"""Standard errors from the estimate beyond which no end is searched."""

IN_PLANE = 1e-10
"""Largest distance from the plane by rounding, in standard errors with dispersion 1."""


class Least(NamedTuple):
    """A minimum of the objective, up to a constant: `value` is minus the log-likelihood (penalised with Firth), at `point`."""

    point: Point
    value: float


@dataclass(frozen=True)
class Plane:
    """The planes t'b = v for `direction` t [p]. There the deviance is minimised, over theta too if it is free."""

    solution: Solution
    direction: np.ndarray
    dispersion: float
    theta_is_free: bool

    def least(self, start: np.ndarray, value: float) -> Least | None:
        """The minimum in the plane t'b = `value`; None if the search does not settle. The search begins at coefficients
        `start` [p], which may be outside the plane. Raises scipy.linalg.LinAlgError if an information matrix is singular."""
        objective = self.solution.objective
        if objective.design.likelihood.firth:
            penalised = firth.least(self.solution, self.direction, start, value)
            return None if penalised is None else Least(penalised, penalised.value)
        point = self.settled(objective, start, value)
        if not self.theta_is_free:
            return None if point is None else Least(point, point.loss)
        for _ in range(MOST_TURNS):
            if point is None:
                return None
            given = replace(self.solution, objective=objective, point=point)
            try:
                found = shape.theta_given_means(given, np.array([objective.family.theta]))
            except UserError:
                return None  # the distribution is Poisson
            moved = abs(found.value - (objective.family.theta or np.inf)) / found.std_error
            objective = with_theta(objective, found.value)
            point = self.settled(objective, point.coefficients, value)
            if point and moved <= THETA_SETTLED:
                return Least(point, minus_log_likelihood(objective, point))
        return None

    def settled(self, objective: Objective, start: np.ndarray, value: float) -> Point | None:
        """The point of smallest deviance in the plane t'b = `value`, with the shape of the objective's family fixed."""
        descent = DescentInPlane(objective, start, self.direction, value, SETTLED * self.dispersion)
        descent.run()
        return descent.point if descent.is_settled else None


class DescentInPlane(Descent):
    """Newton's steps from coefficients `start` [p] to the smallest loss in the plane t'b = `value`. It `is_settled` if
    g'I^-1 g in the plane is at most `settled`."""

    most = MOST_STEPS

    def __init__(self, objective: Objective, start: np.ndarray, direction: np.ndarray, value: float, settled: float):
        self.objective, self.direction, self.value, self.settled = objective, direction, value, settled
        self.point, self.is_settled = objective.at(start), False

    def measure(self) -> None:
        t, point, factored = self.direction, self.point, self.objective.factored(self.point.information)
        along, gradient = factored.solve(t), self.objective.gradient(point)
        newton, size = factored.solve(gradient), float(t @ along)
        off = self.value - float(t @ point.coefficients)
        within = newton - along * float(t @ newton) / size
        self.is_in_plane = abs(off) <= IN_PLANE * np.sqrt(size)
        self.is_settled = self.is_in_plane and float(gradient @ within) <= self.settled
        self.step = along * off / size - within

    def has_ended(self) -> bool:
        return self.is_settled or self.iteration == self.most

    def go(self) -> bool:
        # The first step goes into the plane even if the loss rises. Within the plane the loss must not rise.
        begun, share = self.point, 1.0
        self.point = self.objective.at(begun.coefficients + self.step)
        while self.is_in_plane and not is_no_higher(self.point.loss, begun.loss) and share > SHORTEST_STEP:
            share /= 2
            self.point = self.objective.at(begun.coefficients + share * self.step)
        return bool(np.isfinite(self.point.loss))


def with_theta(objective: Objective, value: float) -> Objective:
    design = objective.design.with_likelihood(theta=value)
    workload = objective.workload.with_design(design)
    counts = workload.sum(objective.executor, "counts", design.by_term(np.zeros(design.size)))
    return replace(objective, workload=workload, counts=counts)


def minus_log_likelihood(objective: Objective, point: Point) -> float:
    value = objective.likelihood(point)
    assert value is not None, "a negative binomial has a likelihood"
    return -value


def intervals(
    solution: Solution, fitted: Fitted, shift: np.ndarray, theta_is_free: bool = False
) -> list[dict[str, object]]:
    """The profile intervals that the design asks for, as entries of fit.json: `name`, `estimate`, `std_error` (from the
    information matrix), `ci_lower` and `ci_upper` (None if there is no end), `wald_lower` and `wald_upper`. `note` says why
    an end is missing.

    `shift` [p] is added to the coefficients of the fit before they are reported. With `theta_is_free` theta of a negative
    binomial is re-estimated at each value of a combination. Raises UserError if a combination has no finite estimate, or if
    its value depends on reference levels.
    """
    design = solution.objective.design
    found = []
    for name, weights in design.inference.profile:
        solution.objective.run.reporter.tell(f"profile likelihood of {name}:")
        direction = direction_of(design, fitted, name, dict(weights))
        found.append(interval(solution, fitted, name, direction, float(direction @ shift), theta_is_free))
    return found


def interval(
    solution: Solution, fitted: Fitted, name: str, direction: np.ndarray, shift: float, theta_is_free: bool
) -> dict[str, object]:
    objective, point = solution.objective, solution.point
    dispersion = fitted.covariance.dispersion * fitted.covariance.correction
    known = objective.family.dispersion_known and objective.design.inference.std_errors != "quasi"
    tail = 0.5 + objective.design.inference.profile_confidence / 2
    cut = float(ndtri(tail) if known else stdtrit(solution.df_residual, tail))
    free = np.where(objective.free, direction, 0.0)
    beside_shape = sum(float(root @ free) ** 2 for root in solution.smoothing_root)
    error = float(np.sqrt(dispersion * (free @ solution.information.solve(free)) + beside_shape))
    estimate = float(direction @ point.coefficients)
    plane = Plane(solution, free, dispersion, theta_is_free)
    best = Least(point, minus_log_likelihood(objective, point) if theta_is_free else objective.value(point))
    ends, notes = [], []
    for side in (-1.0, 1.0):
        end, note = end_of(plane, best, estimate, error, side, cut)
        ends.append(None if end is None else end + shift)
        notes.append(note)
    return {
        "name": name,
        "estimate": estimate + shift,
        "std_error": error,
        "ci_lower": ends[0],
        "ci_upper": ends[1],
        "wald_lower": estimate - cut * error + shift,
        "wald_upper": estimate + cut * error + shift,
        "note": "; ".join(dict.fromkeys(filter(None, notes))),
    }


def end_of(
    plane: Plane, best: Least, estimate: float, error: float, side: float, cut: float
) -> tuple[float | None, str]:
    """The end where zeta is `side` times `cut`, and an empty note; or None, and a note that says why."""
    at = best.point.coefficients
    inner, outer = (0.0, 0.0), (np.inf, np.inf)  # distance from the estimate, and |zeta| there
    distance = cut * error
    for _ in range(MOST_VALUES):
        try:
            least = plane.least(at, estimate + side * distance)
        except scipy.linalg.LinAlgError:
            least = None
        if least is None:
            return None, "the fit at a value of it does not settle"
        zeta = float(np.sqrt(max(0.0, 2 * (least.value - best.value) / plane.dispersion)))
        if abs(zeta - cut) <= CLOSE:
            return estimate + side * distance, ""
        at = least.point.coefficients
        before = inner if zeta < cut else (inner if np.isinf(outer[0]) else outer)
        inner, outer = ((distance, zeta), outer) if zeta < cut else (inner, (distance, zeta))
        slope = (zeta - before[1]) / (distance - before[0])
        distance += (cut - zeta) / slope if slope > 0 else distance
        if not inner[0] < distance < outer[0]:
            distance = (inner[0] + outer[0]) / 2 if np.isfinite(outer[0]) else 2 * inner[0]
        distance = min(distance, 4 * max(inner[0], error))
        if distance > FARTHEST * error:
            break
    return None, "the likelihood does not fall as far as an end of the interval"


def direction_of(design: Design, fitted: Fitted, name: str, weights: Mapping[str, float]) -> np.ndarray:
    """The combination of coefficients on the scale of the fit, [p]. Raises UserError if it has no finite estimate, or if it
    depends on reference levels."""
    where = f"models.{design.model}.profile.{name}"
    places = {coefficient_name(*names): place for place, names in enumerate(design.coefficients())}
    row = np.zeros(design.size)
    for coefficient, weight in weights.items():
        place = places[coefficient]
        if fitted.status[place] in (SEPARATED, EMPTY):
            raise UserError(f"{where}: `{coefficient}` has no finite estimate, so it has no profile")
        row[place] = weight
    if design.likelihood.is_ordered:
        row = thresholds(design).T @ row
    direction = np.asarray(to_data_scale(design).T @ row).ravel()
    if not fitted.estimable(direction[None])[0]:
        raise UserError(
            f"{where}: its value depends on reference levels, or on coefficients that the rows do not identify; write a "
            'difference of levels, such as {"carrier[UA]": 1, "carrier[AA]": -1}'
        )
    return direction
