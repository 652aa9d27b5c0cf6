"""Smooth terms and random effects, with smoothing parameters by restricted maximum likelihood (REML).

For smoothing parameters lambda the fit minimises F(b) = sum of weight * loss(eta, y) + b'Pb / 2, with the diagonal matrix P =
sum of lambda_j S_j. A coefficient of a tensor product may have an entry in several S_j. The lambdas, and an unknown dispersion
phi, minimise Laplace's approximation of minus the logarithm of the restricted likelihood (Wood, JRSS B 73, 2011):

    V = -l(b, phi) + b'Pb / (2 phi) + log|H + P| / 2 - log|P|_+ / 2 - m log(2 pi phi) / 2.

l is the log-likelihood at the minimum b of F, H the second derivative of the loss there, |P|_+ the product of the entries of P
that are not 0, and m the number of coefficients without a penalty.

Near b the loss is quadratic, and log|H + P| / 2 changes by t'(b - b0), with its derivative t. So V is a function of few matrices
(`WorkingModel`). Newton's method minimises it over log lambda and log phi, without a pass over the rows.

1. Go to the minimum of F and V in the model of the last pass (`JointDescent`). The next pass sums the gradient, H and t there,
   until nothing moves. The derivative of V is exact at the end.
2. Fit at the lambdas, for the certificate.
3. If 1 has not settled, begin again at lambdas for t = 0 (`step_by_step`), and fit. Then sum H and t at the fit, find new
   lambdas, and go to 2 until none moves.

In a linear regression the loss is quadratic and t = 0, so the first lambdas are the last. An unknown theta of the negative
binomial takes part in 1 like a smoothing parameter (`with_theta`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import OF_POSTERIOR, UNCONDITIONAL
from tfglm.design.design import Design
from tfglm.design.terms import Smooth
from tfglm.engine.passes import SHAPE
from tfglm.errors import UserError
from tfglm.families.family import Dispersed, LikelihoodSums
from tfglm.solvers import newton
from tfglm.solvers.covariance import inverse_of_factored, slope_of_determinant
from tfglm.solvers.descent import Descent, halve_until, is_no_higher
from tfglm.solvers.fitted import EMPTY, Fitted
from tfglm.solvers.fractional_rank import statistics
from tfglm.solvers.information import Blocks, Factored, assemble, factor, gradient
from tfglm.solvers.newton import FisherScoring
from tfglm.solvers.objective import Objective, Point, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.run import Reporter

MOST_TURNS = 50

MOST_JOINT, MOST_WITH_THETA = 20, 40
"""The largest number of steps of b and of the smoothing parameters together; and with theta."""

COARSE = 1.0
"""Passes sum t once log lambda and log phi move by less than this. Before, t = 0."""

LITTLE = 0.1
"""Movement of log lambda and log phi below which turns with t = 0 end."""

LONGEST_FAR, CLOSE_THETA = 2.0, 0.1
"""The largest movement of log lambda while t = 0, but for the first, and after a larger movement of log theta than this. Far from
the minimum lambda would often run to infinity."""

SHORT = 1e-12
"""lambda^2 of the next step below which such steps can end."""

ROUGH, ROUGH_STEPS = 1.0, 12
"""lambda^2 below which passes sum t, too, and at which scoring steps in between end; their largest number."""

LARGEST_THETA = 1e7
"""From this theta on, the distribution is Poisson up to rounding errors."""

SHOWN = 5
"""Lambdas that a message names."""

SETTLED = 1e-7
"""Largest movement of log lambda and log phi in the last turn."""

MOST_STEPS, LONGEST = 200, 5.0
"""The largest number of Newton steps in a turn, and the longest step of log lambda, as in mgcv."""

LONGEST_OF_THETA = 1.0
"""The largest change of log theta in a turn."""

STEP = 1e-4
"""The step of log lambda between first derivatives of V, whose difference gives second ones."""

PRECISE = 1e-9
"""The step of log lambda and log phi at which a turn ends."""

FARTHEST = 1e7
"""The largest penalty, and the inverse of the smallest one, as a multiple of the information of a coefficient."""

QUANTILE = 1.959963984540054
"""Standard errors on either side in an interval of 95 %."""

WIDEST = 50.0
"""The largest half of an interval of the logarithm of a standard deviation."""

MOST_LEVELS, LARGEST_TEST = 2_000, 20_000_000
"""The largest number of random effects with a test, and of entries of the matrices behind it."""

STRAIGHT = 1e-3
"""Effective degrees of freedom of the penalised coefficients of a term below which a rising lambda is taken to be infinite."""

FLAT, FLAT_SLOPE = 1e-5, 1e-6
"""The same, and the slope of V, below which it is infinite whether V rises or falls: there the slope is a rounding error."""


class SmoothObjective(PlainObjective):
    """F with the penalties of smooth terms and random effects in `ridge`."""

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        # Penalised coefficients are finite, so only the others can separate rows.
        status = np.where(self.unpenalised, self.status, EMPTY)
        unpenalised = replace(self, status=status, ridge=np.zeros(len(status)))
        return PlainObjective.without_separated_rows(unpenalised, coefficients)

    def with_errors(self, fitted: Fitted, solution: Solution) -> Fitted:
        free = [*fitted.dense, *fitted.eliminated]
        if self.design.std_errors == UNCONDITIONAL:
            return replace(fitted, of_lambda=solution.of_lambda[:, free])
        if self.design.std_errors not in OF_POSTERIOR:
            fitted = replace(fitted, penalty=self.ridge[free])
        return super().with_errors(fitted, solution)


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
    `lowest` and `highest` [lambdas] are the limits of log lambda; the same if it is given."""

    smooths: tuple[Smooth, ...]
    weights: np.ndarray
    ranks: np.ndarray
    shared: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, objective: Objective, blocks: Blocks) -> "Penalties":
        """The penalties for an information matrix. The first lambda of a term gives its coefficients as much penalty as
        information."""
        information = np.zeros(objective.design.size)
        information[blocks.dense], information[blocks.eliminated] = np.diag(blocks.a), blocks.d
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
                equal = np.log(information[row > 0] / row[row > 0])
                limits.append(
                    (equal.min() - np.log(FARTHEST), equal.mean(), equal.max() + np.log(FARTHEST))
                    if smooth.sp is None
                    else (np.log(smooth.sp[number]),) * 3
                )
        weights = np.array(rows).reshape(-1, objective.design.size)
        lowest, first, highest = np.array(limits).reshape(-1, 3).T
        shared = np.count_nonzero(weights, axis=0) > 1
        ranks = np.count_nonzero(weights[:, ~shared], axis=1)
        return cls(tuple(smooths), weights, ranks, shared, lowest, highest, first)

    def begin(self, near: Solution | None) -> Parameters:
        """Where a search begins: at the log lambdas of a solution with as many, or at the first."""
        known = near.log_lambda if near and len(near.log_lambda) == len(self.first) else self.first
        return Parameters(np.clip(known, self.lowest, self.highest), 0.0)

    @property
    def size(self) -> int:
        """The number of coefficients with a penalty."""
        return int(self.ranks.sum() + np.count_nonzero(self.shared))

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


def solve(start: Solution) -> Solution:
    """Minimise F at the smoothing parameters that minimise V. Raises UserError if these do not settle, and as newton.solve."""
    objective, point = start.objective, start.point
    refuse_single_rows(objective)
    penalties = Penalties.of(objective, point.information)
    if not len(penalties.smooths):
        return newton.solve(start)
    turns = Turns(penalties, objective.run.reporter, penalties.begin(start.near))
    joint = JointDescent(objective, point, turns, start.near)
    joint.run()  # 1.
    iterations, begun = joint.iteration, None if joint.is_settled else step_by_step(objective, point, penalties)
    turns, point = begun or (turns, joint.expected())
    solution = replace(start, point=point)
    while True:
        objective = replace(objective, ridge=penalties.ridge(turns.parameters.log_lambda))
        solution = newton.solve(replace(start, objective=objective, point=solution.point))  # 2.
        iterations += solution.iterations
        if joint.is_settled or not solution.converged:
            break
        fresh = solution.information.blocks.penalised(-objective.ridge)
        solution = replace(solution, point=replace(solution.point, blocks=fresh))
        before = turns.parameters
        turns.take(WorkingModel.at(solution, penalties))  # 3.
        if turns.moved <= SETTLED:
            turns.parameters = before
            break
    at_end = turns.model.derivatives(turns.parameters)
    which = varies(penalties, turns.parameters)
    exactly = which & needs_exact_hessian(objective.design.std_errors, penalties)
    if exactly.any() and solution.converged:
        at_end = with_exact_hessian(at_end, solution, penalties, turns.parameters, exactly)
    covariance = covariance_of(at_end.hessian, which)
    moved = root_of(covariance)[:, : len(at_end.moved)] @ at_end.moved
    facts = report(solution, penalties, turns.parameters, turns.model, covariance)
    return replace(
        solution,
        iterations=iterations,
        smooths=facts | corrected(solution, moved),
        of_lambda=moved,
        log_lambda=turns.parameters.log_lambda,
        near=None,  # as large as the information
    )


def step_by_step(objective: Objective, point: Point, penalties: Penalties) -> "tuple[Turns, Point] | None":
    """Turns with t = 0 from the beginning, each near the minimum of F at the lambdas before, until lambdas move little; None if a
    matrix has no inverse. It takes more passes than `JointDescent`, and fails less often where few rows determine a term."""
    turns = Turns(penalties, objective.run.reporter, penalties.begin(None))
    df_residual = max(float(objective.counts["rows"]) - np.count_nonzero(objective.free) + penalties.size, 1.0)
    try:
        turns.take(WorkingModel.near(objective, point, penalties))
        while turns.moved > LITTLE:
            objective = replace(objective, ridge=penalties.ridge(turns.parameters.log_lambda))
            scoring = FisherScoring(objective, point, df_residual, ROUGH_STEPS, ROUGH, is_exact=False)
            scoring.run()
            point = scoring.point if scoring.point.blocks else objective.at(scoring.point.coefficients)
            turns.take(WorkingModel.near(objective, point, penalties))
    except scipy.linalg.LinAlgError:
        return None
    return turns, point


class WithTheta(NamedTuple):
    """Theta of the negative binomial and its standard error, and the fit at it, where a search with this theta begins. The
    search `is_settled` if it has found the minimum of V."""

    theta: float
    std_error: float
    solution: Solution
    is_settled: bool


def with_theta(poisson: Solution, theta: float) -> WithTheta:
    """The theta that minimises V with the smoothing parameters, from a first value and from the fit with an infinite theta."""
    asked = poisson.objective.design
    workload = poisson.objective.workload.with_design(asked.as_fitted({"theta": theta}))
    objective = replace(poisson.objective, workload=workload)
    point = objective.at(poisson.point.coefficients)
    penalties = Penalties.of(objective, point.information)
    first = replace(penalties.begin(poisson), log_phi=float(np.log(theta)))
    turns = Turns(penalties, objective.run.reporter, first)
    information = factor(point.information.penalised(penalties.ridge(first.log_lambda)))
    joint = JointDescent(objective, point, turns, replace(poisson, information=information), of_theta=asked)
    joint.run()
    error = np.nan
    if joint.is_settled:
        hessian = turns.model.derivatives(turns.parameters).hessian
        error = float(np.sqrt(covariance_of(hessian, varies(penalties, turns.parameters))[-1, -1]))
    theta = float(np.exp(turns.parameters.log_phi))
    end = Solution(joint.objective, joint.point, joint.factored, log_lambda=turns.parameters.log_lambda)
    return WithTheta(theta, theta * error, end, joint.is_settled)


class Turns:
    """The turns of a fit. `parameters` are the last, which have `moved` by so much from those before, and `model` gave them."""

    model: "WorkingModel"

    def __init__(self, penalties: Penalties, reporter: Reporter, first: Parameters):
        self.penalties, self.reporter, self.number = penalties, reporter, 0
        self.parameters, self.moved = first, np.inf

    def take(self, model: "WorkingModel", longest: float = np.inf) -> None:
        """Minimise V of a model, with log lambda no further than `longest` from its value before. Raises UserError after
        MOST_TURNS."""
        search = RemlDescent(model, self.parameters, longest)
        search.run()
        self.moved = float(np.abs(search.parameters.vector - self.parameters.vector).max())
        self.model, self.parameters, self.number = model, search.parameters, self.number + 1
        shown = [f"{value:.4g}" for value in self.parameters.log_lambda[:SHOWN]]
        more = ", ..." if len(self.penalties.smooths) > SHOWN else ""
        self.reporter.tell(f"log lambda {', '.join(shown)}{more}")
        if self.number == MOST_TURNS:
            raise UserError(
                f"models.{model.name}.formula: the smoothing parameters did not settle in {MOST_TURNS} turns; use a smaller k, "
                "or fewer smooth terms"
            )


def refuse_single_rows(objective: Objective) -> None:
    """Raise UserError for random effects that cannot be told from the error of a row, because each level has one row."""
    design = objective.design
    rows = by_coefficient(design, objective.counts, "rows")
    for smooth in design.smooths:
        if smooth.is_random and not objective.family.dispersion_known and rows[smooth.places].max() <= 1:
            raise UserError(
                f"models.{design.model}.formula: `{smooth.term}`: each level has one row, so its effect cannot be told from the "
                "error of the row; remove the term"
            )


class ThetaTerms(NamedTuple):
    """How V near a fit depends on log theta, which is `at` there: -l + log|H + P| / 2 by `slope` and `curvature`, and the
    gradient of the loss by `of_gradient` [p]."""

    at: float
    slope: float
    curvature: float
    of_gradient: np.ndarray


@dataclass(frozen=True)
class WorkingModel:
    """V near a fit, as a function of `Parameters`.

    `name` is the model's. `blocks` is H without penalties, `right` [p] is H b0 less the gradient of the loss, and
    `constant` is the loss at b = 0 in the quadratic approximation. `slope` [p] is t. `dispersed` gives the part of the
    likelihood that depends on log phi alone; None if phi is 1. `null_size` is m. `theta` is None unless theta is unknown.
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
        null_size = int(np.count_nonzero(objective.free)) - penalties.size
        slope = np.zeros(objective.design.size) if slope is None else slope
        right = curved - derivative
        return cls(objective.design.model, penalties, blocks, right, constant, slope, dispersed(objective), null_size)

    @classmethod
    def at(cls, solution: Solution, penalties: Penalties) -> "WorkingModel":
        """The exact model at a fit."""
        objective, point = solution.objective, solution.point
        try:
            blocks, slope = curvature(objective, point.coefficients, point.information)
        except scipy.linalg.LinAlgError:
            raise UserError(
                f"models.{objective.design.model}.formula: the likelihood of the smooth terms is not concave at the fit, so "
                f"there are no smoothing parameters; use the canonical link of family {objective.design.family}, or fewer "
                "smooth terms"
            ) from None
        return cls.near(objective, point, penalties, blocks, slope)

    def penalised(self, log_lambda: np.ndarray) -> Factored:
        return factor(self.blocks.penalised(self.penalties.ridge(log_lambda)))

    def beyond(self, parameters: Parameters) -> float:
        """By how much log theta is larger than where the rows were summed; 0 if theta is known."""
        return parameters.log_phi - self.theta.at if self.theta else 0.0

    def right_at(self, parameters: Parameters) -> np.ndarray:
        """`right` for the theta of these parameters."""
        return self.right - self.beyond(parameters) * self.theta.of_gradient if self.theta else self.right

    def value(self, parameters: Parameters) -> float:
        """V less what depends on none of the parameters; infinite where H + P is not positive definite."""
        try:
            factored = self.penalised(parameters.log_lambda)
        except scipy.linalg.LinAlgError:
            return np.inf
        phi, right = np.exp(parameters.log_phi) if self.dispersed else 1.0, self.right_at(parameters)
        b = factored.solve(right)
        value = (self.constant - 0.5 * float(right @ b)) / phi + float(self.slope @ b)
        value += 0.5 * factored.log_determinant() - 0.5 * self.penalties.determinant(parameters.log_lambda)
        if self.dispersed:
            value += self.dispersed(parameters.log_phi).value - 0.5 * self.null_size * parameters.log_phi
        if self.theta:
            beyond = self.beyond(parameters)
            value += self.theta.slope * beyond + 0.5 * self.theta.curvature * beyond**2
        return value

    def derivatives(self, parameters: Parameters) -> "Derivatives":
        """The first and second derivatives of V by log lambda, and by log phi or log theta."""
        factored, right = self.penalised(parameters.log_lambda), self.right_at(parameters)
        phi = np.exp(parameters.log_phi) if self.dispersed else 1.0
        weights = np.exp(parameters.log_lambda)[:, None] * self.penalties.weights
        b = factored.solve(right)
        pulled = weights * b  # lambda_j S_j b
        moved = -np.array([factored.solve(each) for each in pulled])  # the derivatives of b by log lambda_j
        squares = pulled @ b / phi
        traces, slopes = traces_of(factored, weights), self.penalties.slopes(parameters.log_lambda)
        shares = self.penalties.shares(parameters.log_lambda)
        along = moved @ self.slope
        gradient = 0.5 * (squares + traces - slopes) + along
        to_slope = weights * factored.solve(self.slope)
        bent = -(to_slope @ moved.T)
        hessian = np.diag(0.5 * (squares + traces) + along) + pulled @ moved.T / phi
        hessian += bent + bent.T - 0.5 * factored.traces(weights)
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
            theta, back = self.theta, factored.solve(self.theta.of_gradient)  # b moves by -back
            slope_of_phi = theta.slope + theta.curvature * self.beyond(parameters)
            slope_of_phi += float(theta.of_gradient @ b - self.slope @ back)
            whole[:size, size] = whole[size, :size] = moved @ theta.of_gradient + to_slope @ back
            whole[size, size] = theta.curvature - float(theta.of_gradient @ back)
        return Derivatives(np.append(gradient, slope_of_phi), whole, slopes - traces, moved)


class Derivatives(NamedTuple):
    """The gradient and the second derivatives of V by log lambda, and by log phi or log theta; the effective degrees of freedom
    of the penalised coefficients of each term, and the derivatives of b by log lambda, [smooths, p]."""

    gradient: np.ndarray
    hessian: np.ndarray
    effective: np.ndarray
    moved: np.ndarray


class JointDescent(Descent):
    """Steps of b and of the smoothing parameters together. Each needs one pass over the rows.

    1. `turns` minimises V in the `model` of the last pass. The step goes to the b of that minimum.
    3. End if neither the parameters nor b move (`is_settled`); then the parameters before count, at which b was found. In a
       linear regression the first step ends the search.
    4. The next pass sums F, H and t there, t with the matrix of the pass before. If F has risen, scoring steps take its place
       (`newton.FisherScoring`), since they have every remedy.

    With the expected information t is 0. Passes sum the second derivative of the loss and t once the parameters or b move
    little (`is_near`), or from the beginning if there is a solution `near`. Log lambda moves freely only then (`is_free`). With
    `of_theta`, the design with an unknown theta, log theta is one of the parameters. `factored` is H + P of the last model.
    """

    def __init__(
        self,
        objective: Objective,
        point: Point,
        turns: Turns,
        near: Solution | None = None,
        of_theta: Design | None = None,
    ):
        self.turns, self.of_theta, self.is_settled = turns, of_theta, False
        self.most = min(MOST_WITH_THETA if of_theta else MOST_JOINT, objective.run.max_iterations)
        self.df_residual = float(objective.counts["rows"]) - np.count_nonzero(objective.free) + turns.penalties.size
        self.objective, self.point = self._objective(objective, turns.parameters), point
        self.model = WorkingModel.near(objective, point, turns.penalties)
        self.lambda_squared, self.is_near, self.is_free = np.inf, near is not None, of_theta is None
        if near:
            self.factored = near.information
            self.point, self.model = self._summed(near.point.coefficients)

    def _objective(self, objective: Objective, parameters: Parameters) -> Objective:
        """The objective at these parameters."""
        if self.of_theta:
            design = self.of_theta.as_fitted({"theta": float(np.exp(parameters.log_phi))})
            objective = replace(objective, workload=objective.workload.with_design(design))
        return replace(objective, ridge=self.turns.penalties.ridge(parameters.log_lambda))

    def _summed(self, coefficients: np.ndarray) -> tuple[Point, WorkingModel]:
        """The point at some coefficients [p], and the model there, by a pass for H and t."""
        objective, design, of_theta = self.objective, self.objective.design, self.of_theta is not None
        log_theta = self.turns.parameters.log_phi
        state = objective.workload.state(coefficients) | inverse_of_factored(design, self.factored)
        if of_theta:
            state |= {SHAPE: np.exp([log_theta])}
        sums = objective.workload.sum(objective.executor, "curvature_by_shape" if of_theta else "curvature", state)
        blocks = assemble(design, sums, objective.free)
        expected = blocks if objective.family.canonical else None
        point = Point(coefficients, float(sums["loss"]), gradient(design, sums), float(sums["pearson"]), expected)
        slope = np.where(objective.free, gradient(design, sums, "slope_"), 0.0)
        model = WorkingModel.near(objective, point, self.turns.penalties, blocks, slope)
        if of_theta:
            theta, of_gradient = np.exp(log_theta), np.where(objective.free, gradient(design, sums, "shape_"), 0.0)
            score, information = float(sums["score"]), float(sums["information"])
            # The model measures from b = 0, where the change of theta has the constant below.
            at_zero = float(sums["half_weight"]) - theta * score - float(of_gradient @ coefficients)
            terms = ThetaTerms(log_theta, at_zero, theta**2 * information - theta * score, of_gradient)
            model = replace(model, theta=terms)
        return point, model

    def expected(self) -> Point:
        """The point with the expected information."""
        return self.point if self.point.blocks else self.objective.at(self.point.coefficients)

    def measure(self) -> None:
        self.before, self.lambda_squared = self.turns.parameters, np.nan
        try:
            self._turn()
        except scipy.linalg.LinAlgError:
            if not self.point.blocks:
                # The second derivative of the loss is not positive definite here. The expected information is.
                self.point = self.expected()
                self.model = WorkingModel.near(self.objective, self.point, self.turns.penalties)
                self.measure()

    def _turn(self) -> None:
        turns = self.turns
        turns.take(self.model, np.inf if self.is_free else LONGEST_FAR)
        self.objective = self._objective(self.objective, turns.parameters)
        self.factored = self.model.penalised(turns.parameters.log_lambda)
        self.step = self.factored.solve(self.model.right_at(turns.parameters)) - self.point.coefficients
        square = float(self.step @ self.factored.blocks.times(self.step))
        dispersion = self.objective.dispersion(self.point, max(self.df_residual, 1.0))
        self.lambda_squared = square / dispersion if dispersion > 0 else np.nan
        if self.of_theta:
            self.is_free = abs(turns.parameters.log_phi - self.before.log_phi) <= CLOSE_THETA
        else:
            self.is_free = self.is_near = turns.moved <= COARSE or self.lambda_squared <= ROUGH

    def has_ended(self) -> bool:
        turns, family = self.turns, self.objective.family
        if family.quadratic or np.isnan(self.lambda_squared):
            self.is_settled = family.quadratic
            return True
        value, reporter = self.objective.value(self.point), self.objective.run.reporter
        reporter.live(f"iteration {self.iteration}: loss {value:.10g}, lambda^2 {self.lambda_squared:.3g}")
        reporter.record(self.iteration, {"newton/loss": value, "newton/lambda squared": self.lambda_squared})
        if self.of_theta and not self.model.theta:
            return self.iteration == self.most
        self.is_settled = turns.moved <= SETTLED and self.lambda_squared <= SHORT
        if self.is_settled:
            turns.parameters = self.before
            self.objective = self._objective(self.objective, self.before)
        is_poisson = self.of_theta is not None and turns.parameters.log_phi > np.log(LARGEST_THETA)
        return self.is_settled or is_poisson or self.iteration == self.most

    def go(self) -> bool:
        point, model = self._at(self.point.coefficients + self.step)
        if not self._is_lower(point):
            self.objective.run.reporter.live(f"  the loss rose to {self.objective.value(point):.10g}: scoring steps")
            scoring = FisherScoring(
                self.objective, self.expected(), max(self.df_residual, 1.0), ROUGH_STEPS, ROUGH, is_exact=False
            )
            scoring.run()
            point, model = self._at(scoring.point.coefficients)
        self.point, self.model = point, model
        return True

    def _at(self, coefficients: np.ndarray) -> tuple[Point, WorkingModel]:
        if self.is_near:
            return self._summed(coefficients)
        point = self.objective.at(coefficients)
        return point, WorkingModel.near(self.objective, point, self.turns.penalties)

    def _is_lower(self, point: Point) -> bool:
        """Whether the step has lowered F. The F of two thetas cannot be compared, so the gradient has to be finite then."""
        if self.of_theta:
            return bool(np.isfinite(point.loss) and np.all(np.isfinite(point.gradient)))
        return is_no_higher(self.objective.value(point), self.objective.value(self.point))


def curvature(
    objective: Objective, coefficients: np.ndarray, expected: Blocks | None = None
) -> tuple[Blocks, np.ndarray]:
    """H without penalties at these coefficients, and t. `expected` is the information there, if known. Raises
    scipy.linalg.LinAlgError if H with penalties is not positive definite."""
    if objective.family.canonical:
        blocks = expected or objective.at(coefficients).information
    else:
        blocks = objective.observed(coefficients)
    slope = slope_of_determinant(objective, coefficients, factor(blocks.penalised(objective.ridge)))
    return blocks, np.where(objective.free, slope, 0.0)


def traces_of(factored: Factored, weights: np.ndarray) -> np.ndarray:
    """The traces of A^-1 times the diagonal matrices of `weights` [matrices, p], [matrices]."""
    on_dense, on_eliminated = factored.inverse_diagonal()
    blocks = factored.blocks
    return weights[:, blocks.dense] @ on_dense + weights[:, blocks.eliminated] @ on_eliminated


class RemlDescent(Descent):
    """Newton's method for V of a working model, within the limits of log lambda.

    Where the second derivatives are not positive definite, their absolute eigenvalues give the step. If the penalised
    coefficients of a term are nearly 0, and V falls or is flat as lambda rises, lambda is set to its upper limit.
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
            values, vectors = np.linalg.eigh(derivatives.hessian[np.ix_(free, free)])
            curved = np.maximum(np.abs(values), max(1e-10 * np.abs(values).max(), np.finfo(float).tiny))
            with np.errstate(over="ignore", invalid="ignore"):
                self.step[free] = -vectors @ (vectors.T @ gradient[free] / curved)
        longest = float(np.abs(self.step).max())
        # Where residuals are rounding errors, V has no minimum.
        self.step = self.step / max(1.0, longest / LONGEST) if np.isfinite(longest) else np.zeros(size + 1)

    def flat(self, derivatives: Derivatives) -> np.ndarray:
        """Where V is flat, because lambda is as good as infinite."""
        slopes = np.abs(derivatives.gradient[: len(self.lowest)])
        return (derivatives.effective < FLAT) & (slopes < FLAT_SLOPE)

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


def first_phi(model: WorkingModel, parameters: Parameters) -> float:
    """log phi from the penalised loss for each row, where Newton's method begins."""
    assert model.dispersed
    b = model.penalised(parameters.log_lambda).solve(model.right)
    scaled, log_phi = model.constant - 0.5 * float(model.right @ b), parameters.log_phi
    for _ in range(MOST_STEPS):
        of_phi = model.dispersed(log_phi)
        slope = of_phi.slope - scaled / np.exp(log_phi) - 0.5 * model.null_size
        curvature = scaled / np.exp(log_phi) + of_phi.curvature
        step = float(np.clip(-slope / curvature, -1.0, 1.0)) if curvature > 0 else -float(np.sign(slope))
        log_phi += step
        if abs(step) <= PRECISE:
            break
    return log_phi


def dispersed(objective: Objective) -> Callable[[float], Dispersed] | None:
    """The part of minus the log-likelihood that depends on log phi alone; None if the family knows phi."""
    if objective.family.dispersion_known:
        return None
    counts = {name: float(objective.counts[name]) for name in ("saturated", "base", "rows")}
    sums = LikelihoodSums(loss=0.0, **counts, weight_sum=objective.weight_sum)
    return lambda log_phi: objective.family.dispersed(log_phi, sums)


def report(
    solution: Solution, penalties: Penalties, parameters: Parameters, model: WorkingModel, covariance: np.ndarray
) -> dict:
    """The entries of fit.json: V as `reml`, and for each smooth term what it was estimated to be. `covariance` is that of log
    lambda and log phi."""
    objective, point = solution.objective, solution.point
    phi = float(np.exp(parameters.log_phi))
    minus = point.loss / phi
    minus += model.dispersed(parameters.log_phi).value if model.dispersed else -float(objective.counts["base"])
    penalised = factor(model.blocks.penalised(objective.ridge))
    reml = minus + 0.5 * float(objective.ridge @ point.coefficients**2) / phi + 0.5 * penalised.log_determinant()
    reml -= 0.5 * penalties.log_determinant(parameters.log_lambda) + 0.5 * model.null_size * np.log(2 * np.pi * phi)
    inverse, blocks = np.zeros(objective.design.size), solution.information.blocks
    inverse[blocks.dense], inverse[blocks.eliminated] = solution.information.inverse_diagonal()
    which, terms = lambdas_in_words(penalties, parameters.log_lambda), []
    means = np.zeros(objective.design.size)
    for term in objective.design.terms:
        if term.means:
            means[objective.design.slices[term.name]] = term.means
    for place, smooth in enumerate(penalties.smooths):
        if place and smooth is penalties.smooths[place - 1]:
            continue
        entry = smooth_entry(solution, smooth, inverse, means)
        if smooth.columns:
            of_columns = zip(smooth.columns, which[place:], strict=False)
            entry["margins"] = [{"column": column} | of_lambda for column, of_lambda in of_columns]
        else:
            entry |= which[place]
        if smooth.is_random and parameters.log_lambda[place] < penalties.highest[place]:
            component = variance_component(place, parameters, covariance)
            # Its interval takes the likelihood for true.
            entry |= component if objective.design.std_errors in OF_POSTERIOR else {"std_dev": component["std_dev"]}
        terms.append(entry)
    effective = {"effective_coefficients": solution.effective}
    return {"reml": reml, "reml_dispersion": phi, "smooths": terms} | effective


def needs_exact_hessian(std_errors: str, penalties: Penalties) -> np.ndarray:
    """Whether errors need the exact second derivatives of V by each log lambda and log phi, [smooths + 1]: for intervals of the
    standard deviations of random effects, and where errors count the estimation of lambda."""
    every, with_intervals = std_errors == UNCONDITIONAL, std_errors in OF_POSTERIOR
    return np.array([every or (with_intervals and smooth.is_random) for smooth in penalties.smooths] + [every])


def with_exact_hessian(
    derivatives: Derivatives, solution: Solution, penalties: Penalties, parameters: Parameters, which: np.ndarray
) -> Derivatives:
    """The derivatives with second ones that allow for the change of H with b, by differences of the first ones.

    Only those by the log lambdas marked in `which` change. Each needs passes for H and t. In a linear regression H is constant.
    """
    objective, b = solution.objective, solution.point.coefficients
    if objective.family.quadratic:
        return derivatives

    def slopes(coefficients: np.ndarray, log_lambda: np.ndarray) -> np.ndarray:
        blocks, slope = curvature(replace(objective, ridge=penalties.ridge(log_lambda)), coefficients)
        factored = factor(blocks.penalised(penalties.ridge(log_lambda)))
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


def root_of(covariance: np.ndarray) -> np.ndarray:
    """R with R'R = the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def corrected(solution: Solution, of_lambda: np.ndarray) -> dict:
    """The entry of fit.json for the effective number of coefficients that counts the estimation of lambda.

    It is the trace of I V / phi, where V is the covariance with `of_lambda` [smooths, p], and I the information. It is at most
    the trace of 2 F - F F (Wood, Pya and Saefken, JASA 111, 2016, with the first of their two corrections, as in mgcv's bam).
    """
    objective, factored = solution.objective, solution.information
    if not solution.has_covariance:
        return {}
    information = factored.blocks.penalised(-objective.ridge)
    added = sum(float(each @ information.times(each)) for each in of_lambda)
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    most = objective.free_count - float(factored.traces(objective.ridge[None])[0, 0])
    return {"effective_coefficients_corrected": min(solution.effective + added / dispersion, most)}


def variance_component(number: int, parameters: Parameters, covariance: np.ndarray) -> dict:
    """The standard deviation of random effects, (phi / lambda)^1/2, with the interval of 95 % of its logarithm."""
    direction = np.zeros(len(covariance))
    direction[number], direction[-1] = -0.5, 0.5
    logarithm = 0.5 * (parameters.log_phi - parameters.log_lambda[number])
    error = np.sqrt(max(float(direction @ covariance @ direction), 0.0))
    # An interval that says nothing has finite ends too.
    reach = min(QUANTILE * error, WIDEST)
    values = np.exp([logarithm, logarithm - reach, logarithm + reach])
    return dict(zip(("std_dev", "std_dev_lower", "std_dev_upper"), values.tolist(), strict=True))


def lambdas_in_words(penalties: Penalties, log_lambda: np.ndarray) -> list[dict]:
    """What fit.json says of each lambda."""
    is_at_limit = ((log_lambda >= penalties.highest, "infinite"), (log_lambda <= penalties.lowest, "zero"))
    return [
        {
            "log_lambda": float(value),
            "lambda_is": "given"
            if smooth.sp
            else next((word for is_there, word in is_at_limit if is_there[number]), "finite"),
        }
        for number, (smooth, value) in enumerate(zip(penalties.smooths, log_lambda, strict=True))
    ]


def smooth_entry(solution: Solution, smooth: Smooth, inverse: np.ndarray, means: np.ndarray) -> dict:
    """The entry of fit.json for a smooth term, without lambda. `inverse` [p] is the diagonal of (H + P)^-1, and `means` [p] are
    those of columns that are not centred."""
    objective = solution.objective
    places = smooth.places[objective.free[smooth.places]]
    entry = {
        "term": smooth.term,
        "level": smooth.level,
        "is_random": smooth.is_random,
        "coefficients": len(places),
        "edf": float(np.sum(1 - objective.ridge[places] * inverse[places])),
    }
    if smooth.is_random or np.all(objective.ridge[places] > 0):
        is_tested = objective.design.std_errors in OF_POSTERIOR
        return entry | (tested_as_random(solution, smooth, places) if is_tested else {})
    return entry | tested(solution, places, means)


def tested_as_random(solution: Solution, smooth: Smooth, places: np.ndarray) -> dict:
    """The test that a term with a penalty on each coefficient has no effect (Wood, Biometrika 100, 2013, 1005-1010; mgcv's
    reTest): the `statistic`, and the `weights` of the independent chi-squared variables whose sum it is without an effect.

    Other random effects, o, vary with the covariance phi P_o^-1. With H = X'WX, A = H + P and the coefficients b at `places`, the
    statistic is b'C b / phi. C is the Schur complement of b in H + H_o P_o^-1 H_o' + P, without o. The covariance of b / phi^1/2
    is its part of A^-1 (H + H_o P_o^-1 H_o') A^-1. Empty for too many random effects.
    """
    objective, factored = solution.objective, solution.information
    size, ridge = objective.design.size, objective.ridge
    others = np.zeros(size, bool)
    for other in objective.design.smooths:
        if other.is_random and other is not smooth:
            others[other.places] = objective.free[other.places]
    fixed = objective.free & ~others
    fixed[places] = False
    kept = np.concatenate([np.flatnonzero(fixed), places])
    if len(places) > MOST_LEVELS or len(kept) * size > LARGEST_TEST:
        return {}
    information = factored.blocks.penalised(-ridge)

    def unit(place: int) -> np.ndarray:
        return np.bincount([place], minlength=size).astype(float)

    rows = np.array([information.times(unit(place)) for place in kept])
    whole = rows[:, kept] + (rows[:, others] / ridge[others]) @ rows[:, others].T + np.diag(ridge[kept])
    first = len(kept) - len(places)
    root = np.linalg.cholesky(whole)[first:, first:]  # of the Schur complement
    inverse = np.array([factored.solve(unit(place)) for place in places])
    moved = np.array([information.times(each) for each in inverse])
    covariance = inverse @ moved.T + (moved[:, others] / ridge[others]) @ moved[:, others].T
    weights = np.linalg.eigvalsh(root.T @ covariance @ root)
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    statistic = float(np.sum((solution.point.coefficients[places] @ root) ** 2)) / dispersion
    return {"statistic": statistic, "weights": weights[weights > weights.max() * np.finfo(float).eps ** 0.8].tolist()}


def tested(solution: Solution, places: np.ndarray, means: np.ndarray) -> dict:
    """The test that a smooth term has no effect (Wood, Biometrika 100, 2013; mgcv's summary.gam): both `statistics`, and their
    `rank`. With robust errors the rank alone, as results.smooth_tests has the statistics.

    With the covariance V of the coefficients b and the information R'R of their columns less `means`, the statistic is
    b'R' (R V R')^- R b, with a pseudoinverse whose rank need not be whole. It is the trace of 2 F - F F, with F = (I + P)^-1 I.
    Eigenvectors have no sign, so there are two statistics; the p-value is the mean of their p-values, as in mgcv.
    """
    objective, factored = solution.objective, solution.information
    size = objective.design.size
    units = np.zeros((len(places), size))
    units[np.arange(len(places)), places] = 1.0
    rows = np.array([factored.solve(unit) for unit in units])
    # diag((A^-1 P)^2), of all coefficients with a penalty.
    blocks = factored.blocks.penalised(-objective.ridge)
    information = np.array([blocks.times(unit)[places] for unit in units])
    if means[places].any():
        unit, mean = np.zeros(size), means[places]
        unit[objective.design.intercept] = 1.0
        of_intercept = blocks.times(unit)
        crossed = np.outer(of_intercept[places], mean)
        information += np.outer(mean, mean) * of_intercept[objective.design.intercept] - crossed - crossed.T
    squares = np.einsum("ij,j,ij,i->i", rows, objective.ridge, rows, objective.ridge[places])
    reference = min(float(np.sum(1 - squares)), float(len(places)))
    if objective.design.std_errors not in OF_POSTERIOR:
        return {"rank": reference}
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    values, vectors = np.linalg.eigh(information)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    pair, rank = statistics(
        root @ solution.point.coefficients[places], dispersion * root @ rows[:, places] @ root, reference
    )
    return {"rank": rank, "statistics": pair}
