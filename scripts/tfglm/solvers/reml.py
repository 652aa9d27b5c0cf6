"""V, minus the logarithm of the restricted likelihood, near a fit: as a function of the smoothing parameters, and its minimum.

For smoothing parameters lambda a fit minimises F(b) = sum of weight * loss(eta, y) + b'Pb / 2, with the diagonal matrix P =
sum of lambda_j S_j. A coefficient of a tensor product may have an entry in several S_j. The lambdas, and an unknown dispersion
phi, minimise Laplace's approximation of minus the logarithm of the restricted likelihood (Wood, JRSS B 73, 2011):

    V = -l(b, phi) + b'Pb / (2 phi) + log|H + P| / 2 - log|P|_+ / 2 - m log(2 pi phi) / 2.

l is the log-likelihood at the minimum b of F, and H the second derivative of the loss there. |P|_+ is the product of the entries
of P that are not 0, and m the number of coefficients without a penalty. By maximum likelihood (ML) V integrates over the
coefficients with a penalty alone: H has their block in log|H + P|, and m is 0 (as in lme4; Bates et al., JSS 67, 2015).

Near b the loss is quadratic, and log|H + P| / 2 changes by t'(b - b0), with its derivative t. So V is a function of few matrices
(`WorkingModel`). Newton's method minimises it over log lambda and log phi, without a pass over the rows (`RemlDescent`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import OF_POSTERIOR, UNCONDITIONAL
from tfglm.design.splines import SEEN_ABOVE
from tfglm.design.terms import Smoothing
from tfglm.errors import UserError
from tfglm.families.family import Dispersed, LikelihoodSums
from tfglm.solvers.descent import Descent, halve_until, is_no_higher, newton_step
from tfglm.solvers.information import Blocks, Factored, factor
from tfglm.solvers.objective import Objective, Point, Solution

MOST_STEPS, LONGEST = 200, 5.0
"""The largest number of Newton steps in a turn, and the longest step of log lambda, as in mgcv."""

LONGEST_OF_THETA = 1.0
"""The largest change of log theta in a turn."""

STEP = 1e-4
"""The step of log lambda between first derivatives of V. Their difference gives the second derivatives."""

PRECISE = 1e-9
"""The step of log lambda and log phi at which a turn ends."""

FARTHEST, CLOSEST = 1e7, 1e9
"""The largest penalty, and the inverse of the smallest one, as a multiple of the information of a coefficient. The smallest of
random effects in a linear regression is 1 / CLOSEST, because errors depend on it however small it is."""

STRAIGHT = 1e-3
"""Effective degrees of freedom of the penalised coefficients of a term below which a rising lambda is taken to be infinite."""

FLAT, FLAT_SLOPE = 1e-5, 1e-6
"""The same, and the slope of V, below which it stays infinite."""

MARGIN, SPACING = 12.0, 1.0
"""The grid along a log lambda: its distance from the limits, next to which V is flat, and between its points."""

SAME = 1e-9
"""Difference of V, as a share of its size, that may be a rounding error of two fits."""

WIDEST_AXIS = 200
"""The largest number of coefficients of a term, or levels of random effects, whose log lambda has a grid."""

RISE = 1.0
"""Rise of V that may be an error of a rough model."""

RISING = 0.001
"""The slope of V, as a share of these degrees of freedom, from which V rises. Both vanish as lambda rises, and their ratio does
not. So an infinite lambda comes back if V has its minimum elsewhere; below this share the slope may be a rounding error."""


@dataclass(frozen=True)
class Parameters:
    """log lambda [smooths], and log phi, 0 for a family that knows its dispersion. While theta is unknown, log theta takes the
    place of log phi."""

    log_lambda: np.ndarray
    log_phi: float

    @property
    def vector(self) -> np.ndarray:
        return np.append(self.log_lambda, self.log_phi)


@dataclass(frozen=True)
class Penalties:
    """The penalties S_j of the smooth terms as `weights` [lambdas, p] of the free coefficients. `ranks` [lambdas] are the numbers
    of coefficients that have no other penalty, and the `shared` [p] have several. `smooths` has the term of each lambda.
    `lowest` and `highest` [lambdas] are the limits of log lambda; the same if it is given. V does not integrate over coefficients
    `outside` [p], which are none by REML."""

    smooths: tuple[Smoothing, ...]
    weights: np.ndarray
    ranks: np.ndarray
    shared: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    first: np.ndarray
    outside: np.ndarray

    @classmethod
    def of(cls, objective: Objective, blocks: Blocks) -> "Penalties":
        """The penalties for an information matrix. The first lambda of a term gives its coefficients as much penalty as
        information. Coefficients that no row sees have no part in the limits. Raises UserError if no row sees a term."""
        information = blocks.diagonal(objective.design.size)
        smooths, rows, limits = [], [], []
        for smooth in objective.design.smooths:
            for number, penalty in enumerate(smooth.penalties):
                row = np.zeros(objective.design.size)
                row[smooth.places] = penalty
                row[~objective.free] = 0.0
                if not row.any():
                    continue
                smooths.append(smooth)
                rows.append(row)
                if not information[row > 0].any():
                    value = "the same" if smooth.beside else "0"  # correlated slopes have a number less its mean
                    raise UserError(
                        f"models.{objective.design.model}.formula: `{smooth.term}`: the number that multiplies it is {value} in "
                        "all training rows with a weight; remove the term"
                    )
                seen = (row > 0) & (information > SEEN_ABOVE * information[row > 0].max())
                equal = np.log(information[seen] / row[seen])
                nearest = CLOSEST if smooth.is_random and objective.family.quadratic else FARTHEST
                limits.append(
                    (equal.min() - np.log(nearest), equal.mean(), equal.max() + np.log(FARTHEST))
                    if smooth.sp is None
                    else (np.log(smooth.sp[number]),) * 3
                )
        weights = np.array(rows).reshape(-1, objective.design.size)
        lowest, first, highest = np.array(limits).reshape(-1, 3).T
        shared = np.count_nonzero(weights, axis=0) > 1
        ranks = np.count_nonzero(weights[:, ~shared], axis=1)
        outside = objective.free & ~weights.any(axis=0) & (objective.design.likelihood.method == "ml")
        if outside.any() and type(blocks) is not Blocks:
            raise UserError(
                f"models.{objective.design.model}.method: maximum likelihood is not for crossed random effects of so many "
                "levels; remove the key"
            )
        return cls(tuple(smooths), weights, ranks, shared, lowest, highest, first, outside)

    def begin(self, near: Solution | None) -> Parameters:
        """The start of a search: the log lambdas of a solution with as many, or the first."""
        known = near.log_lambda if near and len(near.log_lambda) == len(self.first) else self.first
        return Parameters(np.clip(known, self.lowest, self.highest), 0.0)

    @property
    def size(self) -> int:
        """The number of coefficients with a penalty."""
        return int(self.ranks.sum() + np.count_nonzero(self.shared))

    def integrated(self, factored: Factored) -> Factored:
        """The part of H + P for the coefficients that V integrates over."""
        return factor(factored.blocks.restrict(~self.outside)) if self.outside.any() else factored

    def ridge(self, log_lambda: np.ndarray) -> np.ndarray:
        """The diagonal of P, [p]."""
        return self.weights.T @ np.exp(log_lambda)

    def log_determinant(self, log_lambda: np.ndarray) -> float:
        """log|P|_+."""
        alone = self.weights[:, ~self.shared]
        return self.determinant(log_lambda) + float(np.log(alone[alone > 0]).sum())

    def determinant(self, log_lambda: np.ndarray) -> float:
        """log|P|_+ less what does not depend on lambda."""
        value = float(self.ranks @ log_lambda)
        return value + float(np.log(self.ridge(log_lambda)[self.shared]).sum()) if self.shared.any() else value

    def shares(self, log_lambda: np.ndarray) -> np.ndarray:
        """The share of each lambda in the penalty of each coefficient with several, [lambdas, shared]."""
        parts = np.exp(log_lambda)[:, None] * self.weights[:, self.shared]
        return parts / parts.sum(axis=0)

    def slopes(self, log_lambda: np.ndarray) -> np.ndarray:
        """The derivatives of log|P|_+ by log lambda, [lambdas]."""
        return self.ranks + self.shares(log_lambda).sum(axis=1)


class ThetaTerms(NamedTuple):
    """How V near a fit depends on log theta, which is `at` there. `slope` and `curvature` belong to -l + log|H + P| / 2, and
    `mixed` [p] is the derivative of the gradient of the loss."""

    at: float
    slope: float
    curvature: float
    mixed: np.ndarray


@dataclass(frozen=True)
class WorkingModel:
    """V near a fit, as a function of `Parameters`.

    `name` is the model's. `blocks` is H without penalties, `right` [p] is H b0 less the gradient of the loss, and
    `constant` is the loss at b = 0 in the quadratic approximation. `slope` [p] is t. `dispersed` gives the part of the
    likelihood that depends on log phi alone; None if phi is 1. `null_size` is m. `theta` is None unless theta is unknown. `bend`
    [smooths + 1, smooths + 1] adds to the second derivatives, and nothing to V and its gradient at the parameters `bent_at`.

    By ML V has its minimum over coefficients `outside`, too, where the derivative of log|H + P| / 2 by them is not 0. So b
    minimises F + tilt'b, where `tilt` [p] is phi times this derivative, taken for constant.
    """

    name: str
    penalties: Penalties
    blocks: Blocks
    right: np.ndarray
    constant: float
    slope: np.ndarray
    dispersed: Callable[[float], Dispersed] | None
    null_size: int
    theta: ThetaTerms | None = None
    bend: np.ndarray | None = None
    bent_at: np.ndarray | None = None
    tilt: np.ndarray | None = None

    @classmethod
    def near(
        cls,
        objective: Objective,
        point: Point,
        penalties: Penalties,
        blocks: Blocks | None = None,
        slope: np.ndarray | None = None,
    ) -> "WorkingModel":
        """The model near a point, by the expected information if no `blocks` are given, and without t if no `slope` is given."""
        blocks = blocks or point.information
        derivative = np.where(objective.free, point.gradient, 0.0)
        curved = blocks.times(point.coefficients)
        constant = point.loss + float(point.coefficients @ (0.5 * curved - derivative))
        null_size = int(np.count_nonzero(objective.free & ~penalties.outside)) - penalties.size
        slope = np.zeros(objective.design.size) if slope is None else slope
        right = curved - derivative
        return cls(objective.design.model, penalties, blocks, right, constant, slope, dispersed(objective), null_size)

    def tilted(self, factored: Factored, coefficients: np.ndarray, phi: float) -> "WorkingModel":
        """The model with its `tilt` at the coefficients [p]. `factored` is H + P there."""
        if not self.penalties.outside.any() or not self.slope.any():
            return self
        followed = self.slope - self.blocks.times(self.penalties.integrated(factored).solve(self.slope))
        derivative = np.where(self.penalties.outside, followed, 0.0)
        tilt, slope = phi * derivative, self.slope - derivative
        constant = self.constant - float(tilt @ coefficients)
        return replace(self, right=self.right - tilt, slope=slope, constant=constant, tilt=tilt)

    def penalised(self, log_lambda: np.ndarray) -> Factored:
        return factor(self.blocks.penalised(self.penalties.ridge(log_lambda)))

    def theta_step(self, parameters: Parameters) -> float:
        """By how much log theta is larger than where the rows were summed; 0 if theta is known."""
        return parameters.log_phi - self.theta.at if self.theta else 0.0

    def right_at(self, parameters: Parameters) -> np.ndarray:
        """`right` for the theta of these parameters."""
        return self.right - self.theta_step(parameters) * self.theta.mixed if self.theta else self.right

    def value(self, parameters: Parameters) -> float:
        """V less what depends on none of the parameters; infinite where H + P is not positive definite."""
        try:
            factored = self.penalised(parameters.log_lambda)
        except scipy.linalg.LinAlgError:
            return np.inf
        phi, right = np.exp(parameters.log_phi) if self.dispersed else 1.0, self.right_at(parameters)
        b = factored.solve(right)
        value = (self.constant - 0.5 * float(right @ b)) / phi + float(self.slope @ b)
        value += 0.5 * self.penalties.integrated(factored).log_determinant()
        value -= 0.5 * self.penalties.determinant(parameters.log_lambda)
        if self.dispersed:
            value += self.dispersed(parameters.log_phi).value - 0.5 * self.null_size * parameters.log_phi
        if self.theta:
            step = self.theta_step(parameters)
            value += self.theta.slope * step + 0.5 * self.theta.curvature * step**2
        if self.bend is not None:
            moved = parameters.vector - self.bent_at
            value += 0.5 * float(moved @ self.bend @ moved)
        return value

    def derivatives(self, parameters: Parameters) -> "Derivatives":
        """The first and second derivatives of V by log lambda, and by log phi or log theta."""
        factored, right = self.penalised(parameters.log_lambda), self.right_at(parameters)
        phi = np.exp(parameters.log_phi) if self.dispersed else 1.0
        weights = np.exp(parameters.log_lambda)[:, None] * self.penalties.weights
        b = factored.solve(right)
        pulled = weights * b  # lambda_j S_j b
        moved = -np.array([factored.solve(each) for each in pulled])  # the derivatives of b by log lambda_j
        squares, integrated = pulled @ b / phi, self.penalties.integrated(factored)
        traces, slopes = traces_of(integrated, weights), self.penalties.slopes(parameters.log_lambda)
        shares = self.penalties.shares(parameters.log_lambda)
        along = moved @ self.slope
        gradient = 0.5 * (squares + traces - slopes) + along
        to_slope = weights * factored.solve(self.slope)
        bent = -(to_slope @ moved.T)
        hessian = np.diag(0.5 * (squares + traces) + along) + pulled @ moved.T / phi
        hessian += bent + bent.T - 0.5 * integrated.traces(weights)
        hessian -= 0.5 * (np.diag(shares.sum(axis=1)) - shares @ shares.T)
        size = len(weights)
        whole = np.zeros((size + 1, size + 1))
        whole[:size, :size], whole[size, size] = hessian, np.inf  # a phi that is known does not vary
        slope_of_phi = 0.0
        if self.dispersed:
            scaled, of_phi = (self.constant - 0.5 * float(right @ b)) / phi, self.dispersed(parameters.log_phi)
            slope_of_phi = of_phi.slope - scaled - 0.5 * self.null_size
            whole[:size, size] = whole[size, :size] = -0.5 * squares
            whole[size, size] = scaled + of_phi.curvature
        if self.theta:
            theta, back = self.theta, factored.solve(self.theta.mixed)  # b moves by -back
            slope_of_phi = theta.slope + theta.curvature * self.theta_step(parameters)
            slope_of_phi += float(theta.mixed @ b - self.slope @ back)
            whole[:size, size] = whole[size, :size] = moved @ theta.mixed + to_slope @ back
            whole[size, size] = theta.curvature - float(theta.mixed @ back)
        slope = np.append(gradient, slope_of_phi)
        if self.bend is not None:
            slope, whole = slope + self.bend @ (parameters.vector - self.bent_at), whole + self.bend
        return Derivatives(slope, whole, slopes - traces, moved)


class Derivatives(NamedTuple):
    """The gradient and the second derivatives of V by log lambda, and by log phi or log theta. `effective` has the effective
    degrees of freedom of the penalised coefficients of each term, `moved` [smooths, p] the derivatives of b by log lambda."""

    gradient: np.ndarray
    hessian: np.ndarray
    effective: np.ndarray
    moved: np.ndarray


def curvature(objective: Objective, coefficients: np.ndarray, penalties: Penalties) -> tuple[Blocks, np.ndarray]:
    """H without penalties at these coefficients, and t. Raises scipy.linalg.LinAlgError if H with penalties is not positive
    definite."""
    canonical = objective.family.canonical
    blocks = objective.at(coefficients).information if canonical else objective.observed(coefficients)
    integrated = penalties.integrated(factor(blocks.penalised(objective.ridge)))
    slope = objective.slope_of_determinant(coefficients, integrated)
    return blocks, np.where(objective.free, slope, 0.0)


def traces_of(factored: Factored, weights: np.ndarray) -> np.ndarray:
    """The traces of A^-1 times the diagonal matrices of `weights` [matrices, p], [matrices]."""
    on_dense, on_eliminated = factored.inverse_diagonal()
    blocks = factored.blocks
    return weights[:, blocks.dense] @ on_dense + weights[:, blocks.eliminated] @ on_eliminated


class RemlDescent(Descent):
    """Newton's method for V of a working model, within the limits of log lambda.

    If the penalised coefficients of a term are nearly 0, and V falls or is flat as lambda rises, lambda is set to its upper
    limit.
    """

    most = MOST_STEPS

    def __init__(self, model: WorkingModel, parameters: Parameters, longest: float = np.inf):
        self.model, self.parameters = model, parameters
        self.lowest = np.maximum(model.penalties.lowest, parameters.log_lambda - longest)
        self.highest = np.minimum(model.penalties.highest, parameters.log_lambda + longest)
        if model.dispersed:
            self.parameters = replace(parameters, log_phi=first_phi(model, parameters))

    def measure(self) -> None:
        derivatives = self.model.derivatives(self.parameters)
        size = len(self.lowest)
        straight = ((derivatives.effective < STRAIGHT) & (derivatives.gradient[:size] < 0)) | self.flat(derivatives)
        if np.any(straight & (self.parameters.log_lambda < self.highest)):
            log_lambda = np.where(straight, self.highest, self.parameters.log_lambda)
            self.parameters = replace(self.parameters, log_lambda=log_lambda)
            derivatives = self.model.derivatives(self.parameters)
        self.find_step(derivatives)

    def find_step(self, derivatives: Derivatives) -> None:
        """Find Newton's step within the limits, from the derivatives at the parameters."""
        size = len(self.lowest)
        gradient, log_lambda = derivatives.gradient, self.parameters.log_lambda
        is_given = self.lowest == self.highest
        at_limit = (
            is_given
            | ((log_lambda >= self.highest) & ((gradient[:size] < 0) | self.flat(derivatives)))
            | ((log_lambda <= self.lowest) & (gradient[:size] > 0))
        )
        free = np.append(~at_limit, self.model.dispersed is not None or self.model.theta is not None)
        self.step = np.zeros(size + 1)
        if free.any():
            self.step[free] = newton_step(gradient[free], derivatives.hessian[np.ix_(free, free)])
        longest = float(np.abs(self.step).max())
        # Where residuals are rounding errors, V has no minimum.
        self.step = self.step / max(1.0, longest / LONGEST) if np.isfinite(longest) else np.zeros(size + 1)

    def flat(self, derivatives: Derivatives) -> np.ndarray:
        """Where V is flat, because lambda is as good as infinite."""
        slopes, effective = derivatives.gradient[: len(self.lowest)], derivatives.effective
        return (effective < FLAT) & (np.abs(slopes) < FLAT_SLOPE) & (slopes < RISING * effective)

    def has_ended(self) -> bool:
        return bool(np.abs(self.step).max() <= PRECISE) or self.iteration == self.most

    def go(self) -> bool:
        before, theta = self.model.value(self.parameters), self.model.theta

        def after(length: float) -> Parameters:
            moved = self.parameters.vector + length * self.step
            last = (
                moved[-1] if not theta else np.clip(moved[-1], theta.at - LONGEST_OF_THETA, theta.at + LONGEST_OF_THETA)
            )
            return Parameters(np.clip(moved[:-1], self.lowest, self.highest), float(last))

        trial = halve_until(lambda tried: is_no_higher(self.model.value(tried), before), after)
        if trial is None:
            return False
        self.parameters = trial
        return True


def elsewhere(
    model: WorkingModel, parameters: Parameters, is_rough: Callable[[np.ndarray], bool]
) -> list[tuple[float, int, Parameters]]:
    """Where V may have minima as low as at the parameters, the lowest first: V of the model, the number of a log lambda, and the
    parameters. A grid of the model along the axis of the log lambda shows them:

    - Newton's method leads from a minimum on the grid to a lower V. It may be higher by RISE if the model `is_rough` for the
      movement of b [p] to there.
    - The lambda is infinite, and V rises by less than RISE over many points. The last of these is where V may fall again, if the
      model is rough for it.
    """
    penalties, found, here = model.penalties, [], model.value(parameters)
    factored, sizes = model.penalised(parameters.log_lambda), np.count_nonzero(penalties.weights, axis=1)

    def b_at(moved: Parameters) -> np.ndarray:
        return model.penalised(moved.log_lambda).solve(model.right_at(moved))

    b = b_at(parameters)
    for number in map(int, np.flatnonzero((penalties.lowest < penalties.highest) & (sizes <= WIDEST_AXIS))):
        lowest, highest, at = penalties.lowest[number], penalties.highest[number], parameters.log_lambda[number]
        grid = np.append(np.arange(lowest + MARGIN, highest - MARGIN, SPACING), highest)
        points = np.repeat(parameters.log_lambda[None], len(grid) + 1, axis=0)
        points[:, number] = np.append(grid, at)
        points = points[np.argsort(points[:, number])]
        rises = np.array([np.inf, *rises_along(model, parameters, factored, number, points), np.inf])
        is_lowest = (rises[1:-1] < rises[:-2]) & (rises[1:-1] < rises[2:])
        for point in points[is_lowest & (points[:, number] != at)]:
            descent = RemlDescent(model, replace(parameters, log_lambda=point))
            descent.run()
            value, moved = model.value(descent.parameters), descent.parameters
            doubt = RISE if is_rough(b_at(moved) - b) else 0.0
            if abs(moved.log_lambda[number] - at) > SPACING and is_lower(value, here + doubt):
                found.append((value, number, moved))
        edge = points[-max(int(np.argmin(rises[-2::-1] < RISE)), 1)]  # the points from infinity on
        if at == highest and edge[number] < highest:
            moved = replace(parameters, log_lambda=edge)
            if is_rough(b_at(moved) - b):
                found.append((here + RISE, number, moved))
    return sorted(found, key=itemgetter(0))


def rises_along(
    model: WorkingModel, parameters: Parameters, factored: Factored, number: int, points: np.ndarray
) -> np.ndarray:
    """The rise of V of a model from the parameters to points [points, smooths] that differ in log lambda `number`; infinite
    where H + P is not positive definite. An unknown phi is that of the lowest V. `factored` is H + P at the parameters. With
    A = H + P, A + delta S for all points costs one eigendecomposition, of S^1/2 A^-1 S^1/2."""
    weights, size = model.penalties.weights[number], model.penalties.weights.shape[1]
    places, right = np.flatnonzero(weights), model.right_at(parameters)
    root = np.sqrt(weights[places])

    def scaled_inverse(of: Factored) -> np.ndarray:
        inverse = np.array([of.solve(np.bincount([place], minlength=size))[places] for place in places])
        return root[:, None] * inverse * root

    values, vectors = np.linalg.eigh(scaled_inverse(factored))
    inner = model.penalties.integrated(factored)
    of_determinant = values if inner is factored else np.linalg.eigvalsh(scaled_inverse(inner))
    b, to_slope = (vectors.T @ (root * factored.solve(each)[places]) for each in (right, model.slope))
    delta = (np.exp(points[:, number]) - np.exp(parameters.log_lambda[number]))[:, None]
    grown = 1.0 + delta * values
    with np.errstate(divide="ignore", invalid="ignore"):
        rises = np.sum(0.5 * np.log(1.0 + delta * of_determinant) - delta * b * to_slope / grown, axis=1)
        losses = 0.5 * np.sum(delta * b**2 / grown, axis=1)
    rises -= 0.5 * np.array([model.penalties.determinant(point) for point in points])
    rises += 0.5 * model.penalties.determinant(parameters.log_lambda)
    if model.dispersed:
        here = model.constant - 0.5 * float(right @ factored.solve(right))
        before, *after = (lowest_by_phi(model, loss, parameters.log_phi) for loss in here + np.append(0.0, losses))
        losses = np.array(after) - before
    return np.where(np.all(grown > 0, axis=1), rises + losses, np.inf)


def is_lower(value: float, than: float) -> bool:
    """Whether V is lower by more than a rounding error of two fits."""
    return value < than - SAME * abs(than)


def restricted(objective: Objective, point: Point, model: WorkingModel, parameters: Parameters) -> float:
    """V at a minimum of F."""
    phi, penalties = float(np.exp(parameters.log_phi)) if model.dispersed else 1.0, model.penalties
    value = point.loss / phi
    value += model.dispersed(parameters.log_phi).value if model.dispersed else -float(objective.counts["base"])
    value += 0.5 * float(objective.ridge @ point.coefficients**2) / phi
    value += 0.5 * penalties.integrated(model.penalised(parameters.log_lambda)).log_determinant()
    return value - 0.5 * (penalties.log_determinant(parameters.log_lambda) + model.null_size * np.log(2 * np.pi * phi))


def first_phi(model: WorkingModel, parameters: Parameters) -> float:
    """log phi from the penalised loss for each row, where Newton's method begins."""
    b = model.penalised(parameters.log_lambda).solve(model.right)
    return best_phi(model, model.constant - 0.5 * float(model.right @ b), parameters.log_phi)


def best_phi(model: WorkingModel, loss: float, log_phi: float) -> float:
    """The log phi with the lowest V at a penalised loss, by Newton's method from another one."""
    assert model.dispersed
    for _ in range(MOST_STEPS):
        of_phi, scaled = model.dispersed(log_phi), loss / np.exp(log_phi)
        slope, curvature = of_phi.slope - scaled - 0.5 * model.null_size, scaled + of_phi.curvature
        step = float(np.clip(-slope / curvature, -1.0, 1.0)) if curvature > 0 else -float(np.sign(slope))
        log_phi += step
        if abs(step) <= PRECISE:
            break
    return log_phi


def lowest_by_phi(model: WorkingModel, loss: float, log_phi: float) -> float:
    """The part of V that depends on phi, at the phi where it is lowest; infinite without a loss."""
    assert model.dispersed
    if not 0 < loss < np.inf:
        return np.inf
    log_phi = best_phi(model, loss, log_phi)
    return float(loss / np.exp(log_phi) + model.dispersed(log_phi).value - 0.5 * model.null_size * log_phi)


def dispersed(objective: Objective) -> Callable[[float], Dispersed] | None:
    """The part of minus the log-likelihood that depends on log phi alone; None if the family knows phi."""
    if objective.family.dispersion_known:
        return None
    counts = {name: float(objective.counts[name]) for name in ("saturated", "base", "rows")}
    sums = LikelihoodSums(loss=0.0, **counts, weight_sum=objective.weight_sum)
    return lambda log_phi: objective.family.dispersed(log_phi, sums)


def needs_exact_hessian(std_errors: str, penalties: Penalties) -> np.ndarray:
    """Whether errors need the exact second derivatives of V by each log lambda and log phi, [smooths + 1]. Intervals of the
    standard deviations of random effects need them, and errors that count the estimation of lambda."""
    every, with_intervals = std_errors == UNCONDITIONAL, std_errors in OF_POSTERIOR
    return np.array([every or (with_intervals and smooth.is_random) for smooth in penalties.smooths] + [every])


def with_exact_hessian(
    derivatives: Derivatives, solution: Solution, penalties: Penalties, parameters: Parameters, which: np.ndarray
) -> Derivatives:
    """The derivatives, the second of which allow for the change of H with b. They are differences of first derivatives.

    Only derivatives by the log lambdas marked in `which` change. Each needs passes for H and t. In a linear regression H is
    constant.
    """
    objective, b = solution.objective, solution.point.coefficients
    if objective.family.quadratic:
        return derivatives

    def slopes(coefficients: np.ndarray, log_lambda: np.ndarray) -> np.ndarray:
        blocks, slope = curvature(replace(objective, ridge=penalties.ridge(log_lambda)), coefficients, penalties)
        factored = penalties.integrated(factor(blocks.penalised(penalties.ridge(log_lambda))))
        weights = np.exp(log_lambda)[:, None] * penalties.weights
        pulled = weights * coefficients
        squares = pulled @ coefficients / np.exp(parameters.log_phi)
        traces = traces_of(factored, weights)
        return 0.5 * (squares + traces - penalties.slopes(log_lambda)) - pulled @ factored.solve(slope)

    hessian, at_end = derivatives.hessian.copy(), slopes(b, parameters.log_lambda)
    places = np.flatnonzero(which[:-1])
    for place in places:
        step = STEP * (np.arange(len(at_end)) == place)
        hessian[place, :-1] = (
            slopes(b + STEP * derivatives.moved[place], parameters.log_lambda + step) - at_end
        ) / STEP
    inside = np.ix_(places, places)
    hessian[inside] = (hessian[inside] + hessian[inside].T) / 2
    hessian[:-1, places] = hessian[places, :-1].T
    return derivatives._replace(hessian=hessian)


def varies(penalties: Penalties, parameters: Parameters) -> np.ndarray:
    """Which of log lambda and log phi are estimated between their limits, [smooths + 1]."""
    inside = (penalties.lowest < parameters.log_lambda) & (parameters.log_lambda < penalties.highest)
    return np.append(inside, True)


def covariance_of(hessian: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The inverse of second derivatives, of the parameters marked in `which`; 0 for the others, and for a parameter whose own are
    infinite."""
    which = which & np.isfinite(np.diag(hessian))
    covariance = np.zeros_like(hessian)
    covariance[np.ix_(which, which)] = np.linalg.pinv(hessian[np.ix_(which, which)])
    return covariance
