"""Smooth terms and random effects: coefficients and smoothing parameters together, by restricted maximum likelihood (REML).

A fit minimises the loss with the penalties of smooth terms, F, at the smoothing parameters that minimise V (solvers.reml).

1. Go to the minimum of F and V in the model of the last pass (`JointDescent`). The next pass sums the gradient, H and t there,
   until nothing moves. The derivative of V is exact at the end.
2. Fit at the lambdas, for the certificate.
3. If 1 has not settled, begin again at lambdas for t = 0 (`step_by_step`), and fit. Then sum H and t at the fit, find new
   lambdas, and go to 2 until none moves (`Relaxation`).

In a linear regression the loss is quadratic and t = 0, so the first lambdas are the last. An unknown theta of the negative
binomial takes part in 1 like a smoothing parameter (`with_theta`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import OF_POSTERIOR, UNCONDITIONAL
from tfglm.design.design import Design
from tfglm.design.parametrisation import at_reference, hold, references_first
from tfglm.engine.passes import SHAPE
from tfglm.errors import UserError
from tfglm.solvers import newton
from tfglm.solvers.covariance import inverse_of_factored
from tfglm.solvers.descent import Descent, is_no_higher
from tfglm.solvers.fitted import EMPTY, Fitted
from tfglm.solvers.information import Blocks, assemble, factor, gradient
from tfglm.solvers.newton import FisherScoring
from tfglm.solvers.objective import Objective, Point, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.reml import (
    Parameters,
    Penalties,
    RemlDescent,
    ThetaTerms,
    WorkingModel,
    covariance_of,
    needs_exact_hessian,
    varies,
    with_exact_hessian,
)
from tfglm.solvers.run import Reporter
from tfglm.solvers.smooth_report import corrected, report

MOST_TURNS = 50

MOST_JOINT, MOST_WITH_THETA = 20, 40
"""The largest number of steps of b and of the smoothing parameters together; and with theta."""

COARSE = 1.0
"""Passes sum t once log lambda and log phi move by less than this. Before, t = 0."""

LITTLE = 0.1
"""Movement of log lambda and log phi below which turns with t = 0 end."""

LONGEST_FAR, CLOSE_THETA = 2.0, 0.1
"""The largest movement of log lambda while t = 0, except the first, and after a larger movement of log theta than this. Far from
the minimum lambda would often run to infinity."""

SHORT = 1e-12
"""lambda^2 of the next step below which such steps can end."""

ROUGH, ROUGH_STEPS = 1.0, 12
"""lambda^2 below which passes sum t, too, and at which scoring steps in between end; their largest number."""

LARGEST_THETA = 1e7
"""From this theta on, the distribution is Poisson up to rounding errors."""

SHOWN = 5
"""Lambdas that a message names."""

TAKEN_BACK = -0.5
"""The part of the turn before that a turn keeps, below which turns become shorter."""

SETTLED = 1e-7
"""Largest movement of log lambda and log phi in the last turn."""


class SmoothObjective(PlainObjective):
    """F with the penalties of smooth terms and random effects in `ridge`."""

    def redundant(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """As in other objectives, but curves keep their straight lines, as in mgcv. Coefficients of other terms are held, those
        of reference levels first, so a curve is that of these levels."""
        design, (aliased, directions) = self.design, super().redundant(blocks)
        references = {
            factor.name: factor.levels.index(factor.reference or factor.levels[0]) for factor in design.categorical
        }
        order = references_first(design, at_reference(design, references, directions))
        has_curve = np.any(directions[:, design.in_smooths], axis=1)
        return hold(directions, np.append(aliased[~has_curve], order))

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
    solution, relaxation = replace(start, point=point), Relaxation()
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
        turns.parameters = relaxation.after(before, turns.parameters)
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


class Relaxation:
    """Shorter turns where turns overshoot: V far from a fit differs from its model, so turns may alternate between two lambdas.

    If a turn takes back more than half of the turn before, both have moved too far. The next turns go the share `length` of their
    way, which would end the search if new lambdas were a linear function of those before (Irons and Tuck, International Journal
    for Numerical Methods in Engineering 1, 1969).
    """

    def __init__(self) -> None:
        self.length, self.last = 1.0, np.zeros(0)

    def after(self, before: Parameters, found: Parameters) -> Parameters:
        """The parameters to fit with, between those before and those that a turn has found."""
        whole = found.vector - before.vector
        if len(self.last):
            kept = float(whole @ self.last / (self.last @ self.last))
            if kept < TAKEN_BACK:
                self.length /= 1.0 - kept
        self.last = whole
        moved = before.vector + self.length * whole
        return Parameters(moved[:-1], float(moved[-1])) if self.length < 1.0 else found


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

    model: WorkingModel

    def __init__(self, penalties: Penalties, reporter: Reporter, first: Parameters):
        self.penalties, self.reporter, self.number = penalties, reporter, 0
        self.parameters, self.moved = first, np.inf

    def take(self, model: WorkingModel, longest: float = np.inf) -> None:
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
    """Raise UserError if each level of a random effect has one row, whose error cannot be separated from the effect."""
    design = objective.design
    rows = by_coefficient(design, objective.counts, "rows")
    for smooth in design.smooths:
        if smooth.is_random and not objective.family.dispersion_known and rows[smooth.places].max() <= 1:
            raise UserError(
                f"models.{design.model}.formula: `{smooth.term}`: each level has one row, so its effect cannot be told from the "
                "error of the row; remove the term"
            )


class JointDescent(Descent):
    """Steps of b and of the smoothing parameters together. Each needs one pass over the rows.

    1. `turns` minimises V in the `model` of the last pass. The step goes to the b of that minimum.
    2. End if neither the parameters nor b move (`is_settled`); then the parameters before count, at which b was found. In a
       linear regression the first step ends the search.
    3. The next pass sums F, H and t there, t with the matrix of the pass before. If F has risen, scoring steps take its place
       (`newton.FisherScoring`), since they have every remedy.

    The expected information has t = 0. Passes sum the second derivative of the loss and t once the parameters or b move
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


def root_of(covariance: np.ndarray) -> np.ndarray:
    """R with R'R = the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
