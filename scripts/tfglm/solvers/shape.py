"""The shape of a family by maximum likelihood: theta of the negative binomial, or the power of the Tweedie distribution.

The estimation alternates between the shape and the coefficients. It needs few turns, because the two are orthogonal in the
expected information (Lawless, Canadian Journal of Statistics 15, 1987; MASS::glm.nb in R):

1. Estimate the coefficients at an initial shape.
2. Estimate the shape, given the means.
3. Estimate the coefficients, given the shape, from the previous coefficients.
4. End if the shape moves by less than a small share of its standard error (`Shape.precise`). Otherwise go to 2.

The two are not orthogonal for beta regression. There step 2 is a Newton step for theta along the coefficients that are best at
each theta, and the covariance of the coefficients includes the estimation of theta.

Beside smooth terms theta minimises V, minus the logarithm of the restricted likelihood, together with the smoothing parameters
(solvers.smooth; as mgcv's nb).

Apart from that, the reported fit uses the shape as if it were known.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tfglm.engine.evaluated import SHAPE
from tfglm.engine.passes import Sums
from tfglm.errors import UserError
from tfglm.solvers.descent import Descent, halve_until
from tfglm.solvers.information import gradient
from tfglm.solvers.newton import with_observed
from tfglm.solvers.objective import Solution
from tfglm.solvers.smooth import LARGEST_THETA, with_theta

PRECISE = 1e-9
"""Largest movement of the shape in the last turn, in its standard errors."""

LAST_STEP = 1e-6
"""Its largest last Newton step beside the coefficients, after which the error is far smaller; large ones have rounding errors."""

SMALLEST_THETA, MOST_PRECISE = 1e-6, 1e5
"""Limits beside the coefficients: a count is logarithmic below, and the loss of a proportion has too few digits above."""

MOST_TURNS = 50


@dataclass(frozen=True)
class Shape:
    """The estimate of a shape and its standard error, under the name of the shape in design and config.

    The next turn begins at `trial`. `precise` is the largest movement in the last turn, in standard errors. `dispersion` and
    `log_likelihood` are set if the dispersion of the family is also estimated by maximum likelihood. A fit with this shape can
    begin `near` a solution, and its correlated random slopes at these `origins`. The square of `root` [p] is what its
    estimation adds to the variances of coefficients.
    """

    name: str
    value: float
    std_error: float
    trial: np.ndarray
    precise: float = PRECISE
    dispersion: float | None = None
    log_likelihood: float | None = None
    near: Solution | None = None
    root: np.ndarray | None = None
    origins: dict[str, list[float]] = field(default_factory=dict)


def estimate(first: Solution, solve: Callable[[Solution], Solution]) -> Shape:
    """Estimate the shape by maximum likelihood, from a fit at an initial shape; `solve` finds the coefficients from a start.
    Raises UserError if the shape has no estimate, or if the turns do not settle."""
    design = first.objective.design
    apart = design.distribution.shape_is_apart
    begin, given_means = METHODS[design.distribution.shape_name if apart else "theta beside coefficients"]
    solution, trial, before = first, begin(first), np.inf
    for _ in range(MOST_TURNS):
        found = given_means(solution, trial)
        if abs(found.value - before) <= found.precise * found.std_error:
            return found
        first.objective.run.reporter.tell(f"{found.name} {found.value:.6g}, standard error {found.std_error:.3g}")
        trial, before = found.trial, found.value
        workload = first.objective.workload.with_design(design.as_fitted({found.name: found.value}))
        objective = replace(solution.objective, workload=workload)
        solution = solve(replace(first, objective=objective, point=objective.at(solution.point.coefficients)))
    raise UserError(
        f"models.{design.model}.{found.name}: its estimate did not settle in {MOST_TURNS} turns; give a number, such as "
        f"{found.value:.3g}"
    )


def _sums(solution: Solution, shape: np.ndarray) -> Sums:
    """The sums of the pass `shape` at the means of a solution."""
    objective = solution.objective
    state = objective.workload.state(solution.point.coefficients) | {SHAPE: shape}
    return objective.workload.sum(objective.executor, "shape", state)


# ------------------------------------------------------------------------------------ theta of the negative binomial

MOST_STEPS_OF_THETA = 100


def theta_by_moments(solution: Solution) -> np.ndarray:
    """The initial theta, [1], by moments from a Poisson regression (theta = infinity). Raises UserError if the response does not
    vary enough for a finite estimate."""
    sums = _sums(solution, np.array([1.0]))
    if sums["excess"] <= 0:
        raise no_theta(solution)
    return np.array([solution.objective.weight_sum / float(sums["moment"])])


def theta_given_means(solution: Solution, trial: np.ndarray) -> Shape:
    """Theta by Newton's method on its logarithm, from a trial value [1]. The standard error is from the observed information
    for theta alone, as in R's MASS::theta.ml. Raises UserError if theta has no finite estimate."""
    theta = float(trial[0])
    for _ in range(MOST_STEPS_OF_THETA):
        sums = _sums(solution, np.array([theta]))
        score, information = float(sums["score"]), float(sums["information"])
        slope, curvature = theta * score, theta**2 * information - theta * score  # for log(theta)
        step = float(np.clip(slope / curvature, -1.0, 1.0)) if curvature > 0 else float(np.sign(slope))
        if information > 0 and abs(step) * theta * np.sqrt(information) <= PRECISE / 10:
            return Shape("theta", theta, float(1.0 / np.sqrt(information)), np.array([theta]))
        theta *= float(np.exp(step))
        if theta > LARGEST_THETA:
            break
    raise no_theta(solution)


def theta_beside(solution: Solution, trial: np.ndarray) -> Shape:
    """Theta by a Newton step on its logarithm from `trial` [1], along the coefficients that are best at each theta. These move
    by -I^-1 m with log(theta), where m is the mixed second derivative of the loss. So the information for log(theta), J,
    becomes J - m'I^-1 m, and the covariance is that of both together. Raises UserError if theta has no finite estimate."""
    objective, theta = solution.objective, float(trial[0])
    sums = _sums(solution, trial)
    mixed = np.where(objective.free, gradient(objective.design, sums, "by_shape"), 0.0)
    moved = with_observed(solution).information.solve(mixed)
    slope, information = theta * float(sums["score"]), theta**2 * float(sums["information"]) - float(mixed @ moved)
    curvature = information - slope
    step = float(np.clip(slope / curvature, -2.0, 2.0)) if curvature > 0 else float(np.sign(slope))
    if not SMALLEST_THETA < theta * np.exp(step) < (LARGEST_THETA if objective.family.of_counts else MOST_PRECISE):
        raise no_theta(solution, theta < 1)
    spread = 1.0 / np.sqrt(information) if information > 0 else 0.0
    found = theta * float(np.exp(step))
    return Shape("theta", found, theta * spread, np.array([found]), LAST_STEP, root=moved * spread)


def by_restricted_likelihood(poisson: Solution) -> Shape:
    """Theta that minimises V of fits with smooth terms, from the fit with an infinite theta. Raises UserError if theta has no
    finite estimate."""
    found = with_theta(poisson, float(theta_by_moments(poisson)[0]))
    if found.theta > LARGEST_THETA:
        raise no_theta(poisson)
    return Shape(
        "theta", found.theta, found.std_error, np.array([found.theta]), near=found.solution, origins=found.origins
    )


def no_theta(solution: Solution, falls: bool = False) -> UserError:
    """The error for a theta without a finite estimate, or one that `falls` to 0."""
    design, family = solution.objective.design, solution.objective.family
    response, truncated = design.roles.response, "truncated_" if family.smallest == 1 else ""
    if falls:
        why = f"the estimate of theta falls to 0\n  use family: {truncated}poisson, or give theta a number, such as 0.1"
    elif family.of_counts:
        why = (
            f"the response `{response}` varies no more around its mean than a Poisson distribution does, so theta has no finite "
            f"estimate\n  use family: {truncated}poisson, or give theta a number"
        )
    else:
        why = (
            f"the response `{response}` hardly varies around its mean, so theta has no finite estimate\n  use family: gaussian "
            "with its logit as the response, or leave out the term that determines it"
        )
    return UserError(f"models.{design.model}.theta: {why}")


# ------------------------------------------------------------------------------- power of the Tweedie distribution

LOWEST, HIGHEST = 1.01, 1.99
"""Limits of the estimated power, as in mgcv::tw. At 1 the distribution is discrete; at 2 it has no zeros."""

FIRST_LENGTHS = np.array([0.02, 0.005])
LENGTH = 0.05
"""Lengths of the differences: the first, and later in standard errors. The error of a derivative grows with their fourth
power."""

POWER_PRECISE = 1e-7
"""Largest last step of u and v, in standard errors. Differences cannot locate a maximum more precisely."""

MOST_STEPS_OF_POWER = 60

LONGEST = np.array([1.0, 0.1])
"""Longest step of u and v."""

POINTS = np.array(
    [
        *((0, 0), (1, 0), (-1, 0), (2, 0), (-2, 0), (0, 1), (0, -1), (0, 2), (0, -2)),
        *((1, 1), (1, -1), (-1, 1), (-1, -1)),
    ],
    float,
)


def power_by_pearson(solution: Solution) -> np.ndarray:
    """The initial u and v: the logarithm of the Pearson dispersion at the first power, and that power."""
    dispersion = solution.objective.dispersion(solution.point, solution.df_residual)
    return np.array([np.log(dispersion), 1.5])


def power_given_means(solution: Solution, trial: np.ndarray) -> Shape:
    """The power, from trial values of u and v. Raises UserError if the likelihood has no maximum within the limits."""
    design, descent = solution.objective.design, PowerDescent(solution, trial)
    descent.run()
    power = float(descent.at[1])
    if descent.is_settled:
        error, dispersion = float(descent.errors[1]), float(np.exp(descent.at[0]))
        return Shape("power", power, error, descent.at, 10 * POWER_PRECISE, dispersion, float(descent.values[0]))
    if power not in (LOWEST, HIGHEST):
        raise UserError(
            f"models.{design.model}.power: the search for its estimate did not end in {MOST_STEPS_OF_POWER} steps, the last at "
            f"{power:.3g}; a response `{design.roles.response}` of multiples of a number can cause this\n  give power a number"
        )
    like = "amounts above 0" if power > 1.5 else "counts"
    raise UserError(
        f"models.{design.model}.power: the likelihood of the response `{design.roles.response}` has no maximum between "
        f"{LOWEST} and {HIGHEST}: it is still rising at {power:.3g}\n  give power a number, or use a family of {like}"
    )


class PowerDescent(Descent):
    """Newton's method for dispersion and power of the Tweedie distribution by maximum likelihood, given the means.

    u is the logarithm of the dispersion, and v is the power. The density is a series without a closed form
    (families.tweedie_rows). So the derivatives come from the log-likelihood at 13 points, which a single pass sums. These are
    the middle, points at one and two lengths along each axis (central differences of the fourth order), and four diagonal
    points for the mixed derivative.

    `at` are u and v, `values` [13] are the log-likelihoods around them, and `lengths` [2] are the lengths of the differences.
    The search `is_settled` if a step is a small share of the standard `errors` of u and v.
    """

    most = MOST_STEPS_OF_POWER

    def __init__(self, solution: Solution, trial: np.ndarray):
        self.solution, self.is_settled, self.lengths = solution, False, FIRST_LENGTHS
        self._move_to(*self._evaluated(trial.copy()))

    def _evaluated(self, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lengths = np.minimum(self.lengths, (np.min([middle[1] - 1.0, 2.0 - middle[1]]) / 3, 1.0)[::-1])
        return middle, log_likelihoods(self.solution, middle, lengths), lengths

    def _move_to(self, middle: np.ndarray, values: np.ndarray, lengths: np.ndarray) -> None:
        self.at, self.values, self.lengths = middle, values, lengths

    def measure(self) -> None:
        gradient, hessian = derivatives(self.values, self.lengths)
        if np.linalg.eigvalsh(-hessian)[0] <= 0:
            self.step = np.clip(np.sign(gradient) * self.lengths * 5, -LONGEST, LONGEST)
            return
        covariance = np.linalg.inv(-hessian)
        self.errors = np.sqrt(np.diag(covariance))
        self.step = covariance @ gradient
        # Shorten the step, but keep its direction, along which the likelihood rises.
        self.step = self.step / max(1.0, float(np.max(np.abs(self.step) / LONGEST)))
        self.is_settled = bool(np.all(np.abs(self.step) <= POWER_PRECISE * self.errors))
        self.lengths = LENGTH * self.errors

    def has_ended(self) -> bool:
        return self.is_settled or self.iteration == self.most

    def go(self) -> bool:
        begun, best = self.at, float(self.values[0])
        end = begun + self.step
        end[1] = np.clip(end[1], LOWEST, HIGHEST)
        if begun[1] == end[1] and begun[1] in (LOWEST, HIGHEST):
            return False
        trial = halve_until(
            lambda tried: bool(tried[1][0] >= best - 1e-10 * abs(best)),
            lambda length: self._evaluated(end if length == 1.0 else begun + length * (end - begun)),
        )
        if trial is None:
            return False
        self._move_to(*trial)
        return True


def derivatives(values: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient [2] and the second derivatives [2, 2] of a function with these values at POINTS times `lengths`.

    For u + 3 v + u v at (0, 0):

    >>> points = POINTS * 0.1
    >>> values = points[:, 0] + 3 * points[:, 1] + points[:, 0] * points[:, 1]
    >>> gradient, hessian = derivatives(values, np.array([0.1, 0.1]))
    >>> gradient.round(6).tolist(), hessian.round(6)[0, 1]
    ([1.0, 3.0], np.float64(1.0))
    """
    along = [values[[0, 1, 2, 3, 4]], values[[0, 5, 6, 7, 8]]]
    gradient = [(8 * (one - back) - (two - far)) / 12 for _, one, back, two, far in along]
    second = [(16 * (one + back) - (two + far) - 30 * at) / 12 for at, one, back, two, far in along]
    mixed = (values[9] - values[10] - values[11] + values[12]) / 4
    hessian = np.array([[second[0], mixed], [mixed, second[1]]])
    return np.array(gradient) / lengths, hessian / np.outer(lengths, lengths)


def log_likelihoods(solution: Solution, middle: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The log-likelihoods at the 13 points around u and v, [points]."""
    points = middle + POINTS * lengths
    sums = _sums(solution, np.column_stack([np.exp(points[:, 0]), points[:, 1]]))
    return np.array([float(sums[name]) for name in solution.objective.family.shape_sums])


METHODS: dict[str, tuple[Callable[[Solution], np.ndarray], Callable[[Solution, np.ndarray], Shape]]] = {
    "theta": (theta_by_moments, theta_given_means),
    "power": (power_by_pearson, power_given_means),
    "theta beside coefficients": (lambda first: np.array([first.objective.family.theta]), theta_beside),
}
"""By the name of the shape: what gives the first trial from the first fit, and the estimate from the means and a trial."""
