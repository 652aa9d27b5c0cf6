"""Profile likelihood intervals: the values of a combination t'b of coefficients that a likelihood ratio test does not reject.

For a value v let D(v) be the least deviance of coefficients with t'b = v, divided by the dispersion, less that of all
coefficients, and zeta(v) its root with the sign of v less the estimate. The ends of the interval are where zeta is -z and z, the
quantile of the normal distribution, or of t where the dispersion is estimated (Venables & Ripley, Modern Applied Statistics with
S, 2002, 7.2; R's confint of a glm, which interpolates zeta between some values).

D(v) is found by Newton's steps in the plane t'b = v: with gradient g and information matrix I,

    step = -I^-1 g + lambda I^-1 t,   lambda = t'I^-1 g / t'I^-1 t,

and begins where the value before has ended, moved along I^-1 t. The ends are found by the secant of zeta, which is close to a
straight line. Where theta of a negative binomial is estimated, it is so at each v too, given the means, and takes turns with the
coefficients; D is then the difference of -2 log-likelihood. With Firth's penalty it is that of
the penalised one, with the prior of the whole model, as R's logistf has it (Heinze & Schemper, Statistics in Medicine 21, 2002).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import ndtri, stdtrit

from tfglm.design.design import Design
from tfglm.design.parametrisation import to_data_scale
from tfglm.design.references import coefficient_name
from tfglm.errors import UserError
from tfglm.solvers import firth, theta
from tfglm.solvers.fitted import EMPTY, SEPARATED, Fitted
from tfglm.solvers.problem import Problem, Solution, State
from tfglm.solvers.steps import SHORTEST_STEP, is_no_higher

CLOSE = 1e-7
"""How near zeta comes to z."""

SETTLED = 1e-13
"""Of g'I^-1 g in the plane, in units of the deviance."""

MOST_VALUES, MOST_STEPS, MOST_TURNS = 25, 40, 20
"""For one end, at one value for one theta, and of theta there."""

THETA_SETTLED = 1e-5
"""Of its standard errors, by which theta moves in the last turn: D is off by the square."""

FARTHEST = 1e3
"""Standard errors from the estimate where an end is no longer looked for."""

IN_PLANE = 1e-10
"""Standard errors, of dispersion 1, from the plane that rounding may leave."""


class Least(NamedTuple):
    """The least of minus the log-likelihood, penalised or not, but for a constant, and the state there."""

    state: State
    loss: float


@dataclass(frozen=True)
class Plane:
    """Where the least deviance is sought: t'b = v, for `direction` t [p], with theta estimated too if it is free."""

    solution: Solution
    direction: np.ndarray
    dispersion: float
    theta_is_free: bool

    def least(self, start: np.ndarray, value: float) -> Least | None:
        """The least deviance there, from coefficients that may have another value of t'b; None if the steps do not settle.
        Raises scipy.linalg.LinAlgError if an information matrix is singular."""
        problem = self.solution.problem
        if problem.design.firth:
            penalised = firth.least(self.solution, self.direction, start, value)
            return penalised and Least(*penalised)
        state = self.settled(problem, start, value)
        if not self.theta_is_free:
            return None if state is None else Least(state, state.loss)
        for _ in range(MOST_TURNS):
            if state is None:
                return None
            try:
                found = theta.given_means(
                    replace(self.solution, problem=problem, state=state), np.array([problem.family.theta])
                )
            except UserError:
                return None  # as of a Poisson distribution
            moved = abs(found.value - (problem.family.theta or np.inf)) / found.std_error
            problem = with_theta(problem, found.value)
            state = self.settled(problem, state.coefficients, value)
            if state and moved <= THETA_SETTLED:
                return Least(state, minus_log_likelihood(problem, state))
        return None

    def settled(self, problem: Problem, start: np.ndarray, value: float) -> State | None:
        """The state of least deviance there, for the shape of the family that the problem has."""
        t = self.direction
        state = problem.at(start)
        for _ in range(MOST_STEPS):
            factored = problem.factored(state.information)
            along = factored.solve(t)
            gradient = problem.gradient(state)
            newton = factored.solve(gradient)
            size = float(t @ along)
            off = value - float(t @ state.coefficients)
            within = newton - along * float(t @ newton) / size
            in_plane = abs(off) <= IN_PLANE * np.sqrt(size)
            if in_plane and float(gradient @ within) <= SETTLED * self.dispersion:
                return state
            step, share = along * off / size - within, 1.0
            # Into the plane in any case; within it the loss has to fall.
            now = problem.at(state.coefficients + step)
            while in_plane and not is_no_higher(now.loss, state.loss) and share > SHORTEST_STEP:
                share /= 2
                now = problem.at(state.coefficients + share * step)
            if not np.isfinite(now.loss):
                return None
            state = now
        return None


def with_theta(problem: Problem, value: float) -> Problem:
    """The problem with another theta."""
    design = replace(problem.design, theta=value)
    workload = problem.workload.with_design(design)
    counts = workload.sum(problem.executor, "counts", design.by_term(np.zeros(design.size)))
    return replace(problem, workload=workload, counts=counts)


def minus_log_likelihood(problem: Problem, state: State) -> float:
    value = problem.likelihood(state)
    assert value is not None, "a negative binomial has a likelihood"
    return -value


def intervals(solution: Solution, fitted: Fitted, theta_is_free: bool = False) -> list[dict[str, object]]:
    """The profile intervals that the design asks for.

    Parameters
    ----------
    solution, fitted
        The fit, at the maximum, and its covariance.
    theta_is_free
        Whether theta of a negative binomial is estimated at each value of a combination.

    Returns
    -------
    For each combination what fit.json says: `name`, `estimate`, `std_error` (of the information matrix), `ci_lower` and
    `ci_upper` (None without an end), `wald_lower` and `wald_upper`, and a `note`, why there is no end.

    Raises
    ------
    UserError
        For a combination that has no finite estimate, or whose value depends on reference levels.
    """
    design = solution.problem.design
    found = []
    for name, weights in design.profile:
        solution.problem.run.reporter.tell(f"profile likelihood of {name}:")
        direction = direction_of(design, fitted, name, dict(weights))
        found.append(interval(solution, fitted, name, direction, theta_is_free))
    return found


def interval(
    solution: Solution, fitted: Fitted, name: str, direction: np.ndarray, theta_is_free: bool
) -> dict[str, object]:
    """That of one combination."""
    problem, state = solution.problem, solution.state
    dispersion = fitted.dispersion * fitted.correction
    known = problem.family.dispersion_known and problem.design.std_errors != "quasi"
    tail = 0.5 + problem.design.profile_confidence / 2
    cut = float(ndtri(tail) if known else stdtrit(solution.df_residual, tail))
    free = np.where(problem.free, direction, 0.0)
    error = float(np.sqrt(dispersion * (free @ solution.information.solve(free))))
    estimate = float(direction @ state.coefficients)
    plane = Plane(solution, free, dispersion, theta_is_free)
    loss = solution.objective if problem.design.firth else state.loss
    best = Least(state, minus_log_likelihood(problem, state) if theta_is_free else loss)
    ends, notes = [], []
    for side in (-1.0, 1.0):
        end, note = None, "the fit did not converge"
        if solution.converged:
            end, note = end_of(plane, best, estimate, error, side, cut)
        ends.append(end)
        notes.append(note)
    return {
        "name": name,
        "estimate": estimate,
        "std_error": error,
        "ci_lower": ends[0],
        "ci_upper": ends[1],
        "wald_lower": estimate - cut * error,
        "wald_upper": estimate + cut * error,
        "note": "; ".join(dict.fromkeys(filter(None, notes))),
    }


def end_of(
    plane: Plane, best: Least, estimate: float, error: float, side: float, cut: float
) -> tuple[float | None, str]:
    """Where zeta is `side` times `cut`, or None and why."""
    at = best.state.coefficients
    inner, outer = (0.0, 0.0), (np.inf, np.inf)  # distances from the estimate, and |zeta| there
    distance = cut * error
    for _ in range(MOST_VALUES):
        try:
            least = plane.least(at, estimate + side * distance)
        except scipy.linalg.LinAlgError:
            least = None
        if least is None:
            return None, "the fit at a value of it does not settle"
        zeta = float(np.sqrt(max(0.0, 2 * (least.loss - best.loss) / plane.dispersion)))
        if abs(zeta - cut) <= CLOSE:
            return estimate + side * distance, ""
        at = least.state.coefficients
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
    """The combination on the scale of the fit, [p]. Raises UserError if it has no finite estimate, or depends on reference
    levels."""
    where = f"models.{design.model}.profile.{name}"
    places = {coefficient_name(*names): place for place, names in enumerate(design.coefficients())}
    row = np.zeros(design.size)
    for coefficient, weight in weights.items():
        place = places[coefficient]
        if fitted.status[place] in (SEPARATED, EMPTY):
            raise UserError(f"{where}: `{coefficient}` has no finite estimate, so it has no profile")
        row[place] = weight
    direction = np.asarray(to_data_scale(design).T @ row).ravel()
    if not fitted.estimable(direction[None])[0]:
        raise UserError(
            f"{where}: its value depends on reference levels, or on what the data do not tell; write a difference of levels, as "
            'in {"carrier[UA]": 1, "carrier[AA]": -1}'
        )
    return direction
