"""Smooth terms and random effects: coefficients and smoothing parameters together, by restricted maximum likelihood (REML).

A fit minimises the loss with the penalties of smooth terms, F, at the smoothing parameters that minimise V (solvers.reml).

1. Go to the minimum of F and V in the model of the last pass (`JointDescent`). The next pass sums the gradient, H and t there,
   until nothing moves. The derivative of V is exact at the end. Then fit at the lambdas, for the certificate.
2. If 1 has not settled, begin again with a fit at each step of lambda, so that V falls with each (`ProfileDescent`).
3. Look for other minima of V along the axis of each log lambda, in the model. Go downhill from them as in 2, and keep the fit
   with the lowest V.

In a linear regression the loss is quadratic and t = 0, so the first lambdas are the last. An unknown theta of the negative
binomial takes part like a smoothing parameter (`with_theta`).
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.design.checks import listed_in_words
from tfglm.design.design import Design
from tfglm.design.parametrisation import at_reference, hold, references_first
from tfglm.design.terms import Smoothing
from tfglm.engine.evaluated import SHAPE
from tfglm.errors import UserError
from tfglm.inference.bread import Bread
from tfglm.inference.covariance import VarianceComponents
from tfglm.inference.fitted import EMPTY
from tfglm.solvers import newton
from tfglm.solvers.correlated import Correlated, profiled, reported, whole, with_exact_origins
from tfglm.solvers.descent import Descent, halve_until, is_no_higher, newton_step
from tfglm.solvers.information import Blocks, Factored, assemble, factor, gradient, inverse_state
from tfglm.solvers.newton import FisherScoring
from tfglm.solvers.objective import Objective, Point, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.reml import (
    LONGEST,
    SPACING,
    Parameters,
    Penalties,
    RemlDescent,
    ThetaTerms,
    WorkingModel,
    covariance_of,
    elsewhere,
    first_phi,
    is_lower,
    needs_exact_hessian,
    restricted,
    varies,
    with_exact_hessian,
)
from tfglm.solvers.smooth_report import corrected, report

MOST_JOINT, MOST_WITH_THETA = 20, 40
"""The largest number of steps of b and of the smoothing parameters together; and with theta."""

LONGEST_SHIFT, FAR_ORIGIN, COARSE_SHIFT, PRECISE_SHIFT = 3.0, 10.0, 0.3, 1e-6
"""The longest step of an origin, one that is far away, and the longest from which second derivatives are learnt, in standard
deviations of its number; and the step in its standard errors that ends a search."""

MOST_TILTS = 20
"""The largest number of fits at the same smoothing parameters, with different terms F.tilt."""

MOST_FITS = 200
"""The largest number of fits at smoothing parameters."""

COARSE = 1.0
"""Passes sum t once log lambda and log phi move by less than this. Before, t = 0. Second derivatives of V are learnt from steps
that are no longer."""

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

SEPARATING = (
    "can separate rows by their response: the restricted likelihood rises without limit as its smoothing parameter falls to 0\n"
    "  use a smaller k or fewer smooth terms, or give it sp"
)
PERFECT_WITHIN = (
    "explains the response up to almost nothing, so the variance of a row is too small beside that of the random effects\n"
    "  remove it, and keep one row of each level, as the mean of its rows"
)
"""Why lambdas cannot be 0, with a known dispersion and without."""

SETTLED = 1e-7
"""Largest movement of log lambda and log phi in the last turn."""

LEAST_FALL, MOST_FLAT = 1e-10, 2
"""Foretold fall of V, as a share of its size, that may be a rounding error, and how many such steps are taken."""

WELL_FORETOLD = 0.75
"""Share of the foretold fall of V from which steps become longer."""

ORTHOGONAL = 1e-8
"""Cosine below which the miss of a gradient says nothing of the second derivative along a step (Nocedal and Wright 2006)."""

STIFFER = (0.0, 4.0, 8.0, 16.0, 32.0)
"""By how much the first log lambda may have to be larger."""

ROUGH_FROM = 0.1
"""Movement of linear predictors from which a model of V is rough, because weights change."""


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

    @property
    def random(self) -> list[Smoothing]:
        """The random effects that some rows have."""
        return [smooth for smooth in self.design.smooths if smooth.is_random and self.free[smooth.places].any()]

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        # Penalised coefficients are finite, so only the others can separate rows.
        status = np.where(self.unpenalised, self.status, EMPTY)
        unpenalised = replace(self, status=status, ridge=np.zeros(len(status)))
        return PlainObjective.without_separated_rows(unpenalised, coefficients)

    def random_effects(self, bread: Bread, solution: Solution) -> VarianceComponents | None:
        if not self.design.random_parts:
            return None
        of_terms = [
            np.bincount(each.places, self.ridge[each.places], self.design.size)[bread.free] for each in self.random
        ]
        penalties, crossed, partners = np.array(of_terms).reshape(-1, len(bread.free)), None, None
        if solution.pairs:
            crossed = np.zeros((len(solution.pairs), len(bread.free)))
            partners = np.zeros(crossed.shape, int)
            for number, pair in enumerate(solution.pairs):
                one, other = map(bread.ranks, pair)
                crossed[number, one] = crossed[number, other] = -self.ridge[pair[0]]
                partners[number, one], partners[number, other] = other, one
        return VarianceComponents(penalties, solution.variance_root, crossed, partners)


def solve(start: Solution) -> Solution:
    """Minimise F at the smoothing parameters that minimise V. Raises UserError if these do not settle, and as newton.solve."""
    objective = start.objective
    refuse_single_rows(objective)
    penalties = Penalties.of(objective, start.point.information)
    if not len(penalties.smooths):
        return newton.solve(start)
    search = LambdaSearch(start, penalties)
    found = search.lowest(penalties.begin(start.near), start.near)
    correlated = Correlated.of(objective.design, penalties, objective.free)
    if correlated.groups and found.solution.converged:
        found = OriginDescent(search, correlated, found).lowest()
    solution, parameters = found.solution, found.parameters
    at_end = found.model.derivatives(parameters)
    which = varies(penalties, parameters)
    exactly = which & needs_exact_hessian(objective.design.inference.std_errors, penalties)
    if exactly.any() and solution.converged:
        at_end = with_exact_hessian(at_end, solution, penalties, parameters, exactly)
    if correlated.groups:
        at_end = whole(found.model, parameters, correlated, at_end)
        if exactly.any() and solution.converged and not solution.objective.family.quadratic:
            at_end = with_exact_origins(at_end, solution, penalties, parameters, correlated)
        which = np.append(which, correlated.varies(penalties, parameters))
    covariance = covariance_of(at_end.hessian, which)
    root, last = root_of(covariance), len(penalties.smooths)
    moved = np.delete(root, last, axis=1) @ at_end.moved
    of_terms = reported(correlated, solution, penalties, parameters, covariance)
    # Correlated terms have no test that one of them is absent, since it would depend on the origin.
    facts = report(solution, penalties, parameters, found.model, covariance[: last + 1, : last + 1], of_terms)
    for entry in facts["smooths"]:
        entry.update(of_terms.get(entry["term"], {}))
    if correlated.groups:
        facts["origins"] = correlated.origins(solution.objective.design)
    if penalties.outside.any() and not objective.family.dispersion_known:
        objective = replace(solution.objective, known_dispersion=float(np.exp(parameters.log_phi)))
        solution = replace(solution, objective=objective)
    return replace(
        solution,
        smooths=facts | corrected(solution, moved),
        smoothing_root=moved,
        log_lambda=parameters.log_lambda,
        variance_root=root[
            :, np.r_[[smooth.is_random for smooth in penalties.smooths], np.ones(len(root) - last, bool)].astype(bool)
        ],
        pairs=correlated.places,
        near=None,  # as large as the information
    )


class Fitting(NamedTuple):
    """A fit at smoothing parameters, and the model of V there."""

    parameters: Parameters
    solution: Solution
    model: WorkingModel


@dataclass(frozen=True)
class LambdaSearch:
    """The search for the smoothing parameters of a fit that begins at `start`. With `of_theta`, the design with an unknown theta,
    log theta is one of the parameters."""

    start: Solution
    penalties: Penalties
    of_theta: Design | None = None

    def lowest(self, first: Parameters, near: Solution | None) -> Fitting:
        """The fit with the lowest V that is found from the first parameters, and from other minima of the model of V. Raises
        UserError if the parameters do not settle."""
        found = self.nearest(first, near)
        return self.beside(found) if found.solution.converged and not found.solution.is_perfect else found

    def nearest(self, first: Parameters, near: Solution | None) -> Fitting:
        """The fit at the minimum of V to which the first parameters lead. Raises UserError if the parameters do not settle."""
        joint = JointDescent(self, first, near)
        joint.run()  # 1.
        if joint.is_settled or joint.is_poisson:
            found = joint.fitting()
        else:
            descent = ProfileDescent(self, self.begin(first))  # 2.
            descent.run()
            if not descent.is_settled and descent.found.solution.converged:
                raise UserError(
                    f"models.{self.start.objective.design.model}.formula: the smoothing parameters"
                    f"{' and theta' if self.of_theta else ''} did not settle in {MOST_FITS} fits; use a smaller k, or fewer "
                    "smooth terms"
                )
            found = descent.found
        if terms := self.unlimited(found):
            is_known = self.start.objective.family.dispersion_known
            raise UserError(
                f"models.{self.start.objective.design.model}.formula: {listed_in_words(terms)} "
                f"{SEPARATING if is_known else PERFECT_WITHIN}"
            )
        return found

    def begin(self, first: Parameters) -> Fitting:
        """The fit at the first parameters, or at larger lambdas if the loss is not convex there. Raises UserError if it is convex
        at none."""
        objective = self.start.objective
        for more in STIFFER:
            log_lambda = np.clip(first.log_lambda + more, self.penalties.lowest, self.penalties.highest)
            with suppress(scipy.linalg.LinAlgError):
                return self.fitted(replace(first, log_lambda=log_lambda), self.start.point.coefficients)
        raise UserError(
            f"models.{objective.design.model}.formula: the likelihood of the smooth terms is not concave at any fit, so there "
            f"are no smoothing parameters; use the canonical link of family "
            f"{objective.design.likelihood.family}, or fewer smooth terms"
        )

    def beside(self, found: Fitting) -> Fitting:
        """The fit with the lowest V among `found` and what is downhill from where its model may have other minima."""
        family, here = self.start.objective.family, found.parameters.log_lambda

        def is_rough(step: np.ndarray) -> bool:
            return not family.quadratic and found.solution.objective.distance(step) > ROUGH_FROM

        for _, number, other in elsewhere(found.model, found.parameters, is_rough):  # 3.
            trial, value = self.trial(other, found), self.value(found)
            if not trial:
                continue
            descent, downhill = ProfileDescent(self, trial), RemlDescent(trial.model, trial.parameters)
            downhill.run()
            leads_back = abs(downhill.parameters.log_lambda[number] - here[number]) <= SPACING
            if descent.value < value or not leads_back:
                descent.run()
                if descent.is_settled and is_lower(descent.value, value) and not self.unlimited(descent.found):
                    return self.beside(descent.found)
        return found

    def unlimited(self, found: Fitting) -> list[str]:
        """The terms with lambdas of 0 that a fit cannot have. With a known dispersion V is infinite there, unless the term
        separates rows. With an unknown one the errors of other coefficients depend on the lambda of random effects, however small
        it is."""
        penalties, is_known = self.penalties, self.start.objective.family.dispersion_known
        alone = np.count_nonzero(penalties.weights, axis=1) == penalties.ranks
        at_zero = alone & (found.parameters.log_lambda <= penalties.lowest) & (penalties.lowest < penalties.highest)
        smooths = [penalties.smooths[place] for place in np.flatnonzero(at_zero)]
        return list(dict.fromkeys(smooth.term for smooth in smooths if is_known or smooth.is_random))

    def objective(self, parameters: Parameters, tilt: np.ndarray | None = None) -> Objective:
        objective = self.start.objective
        if self.of_theta:
            design = self.of_theta.as_fitted({"theta": float(np.exp(parameters.log_phi))})
            objective = replace(objective, workload=objective.workload.with_design(design))
        return replace(objective, ridge=self.penalties.ridge(parameters.log_lambda), tilt=tilt)

    def summed(
        self, objective: Objective, coefficients: np.ndarray, factored: Factored, last: float
    ) -> tuple[Point, WorkingModel]:
        """The point at some coefficients [p], and the model there, by a pass for H and t. `factored` is H + P for t, and the
        `last` parameter log phi or log theta."""
        design, of_theta = objective.design, self.of_theta is not None
        inverse = inverse_state(design, self.penalties.integrated(factored).bread())
        state = objective.workload.state(coefficients) | inverse
        if of_theta:
            state |= {SHAPE: np.exp([last])}
        sums = objective.workload.sum(objective.executor, "curvature_by_shape" if of_theta else "curvature", state)
        blocks = assemble(design, sums, objective.free)
        expected = blocks if objective.family.canonical else None
        point = Point(coefficients, float(sums["loss"]), gradient(design, sums), float(sums["pearson"]), expected)
        slope = np.where(objective.free, gradient(design, sums, "slope"), 0.0)
        model = WorkingModel.near(objective, point, self.penalties, blocks, slope)
        if of_theta:
            theta, mixed = np.exp(last), np.where(objective.free, gradient(design, sums, "by_shape"), 0.0)
            score, information = float(sums["score"]), float(sums["information"])
            # The model measures from b = 0, where the change of theta has the constant below.
            at_zero = float(sums["half_weight"]) - theta * score - float(mixed @ coefficients)
            terms = ThetaTerms(last, at_zero, theta**2 * information - theta * score, mixed)
            model = replace(model, theta=terms)
        phi = float(np.exp(last)) if model.dispersed else 1.0
        return point, model.tilted(factor(blocks.penalised(objective.ridge)), coefficients, phi)

    def fitted(self, parameters: Parameters, coefficients: np.ndarray) -> Fitting:
        """The fit at these parameters, from some coefficients [p]. An unknown phi is that of the lowest V. Raises as
        newton.solve, and scipy.linalg.LinAlgError if the loss is not convex at the fit."""
        tilt = None
        for _ in range(MOST_TILTS):
            objective = self.objective(parameters, tilt)
            solution = newton.solve(replace(self.start, objective=objective, point=objective.at(coefficients)))
            coefficients, factored = solution.point.coefficients, solution.information
            if not objective.family.canonical:
                factored = factor(objective.observed(coefficients).penalised(objective.ridge))
            _, model = self.summed(objective, coefficients, factored, parameters.log_phi)
            if model.tilt is None:
                break
            change = model.tilt if tilt is None else model.tilt - tilt
            tilt = model.tilt
            if float(change @ factored.solve(change)) <= SHORT:
                break
        if model.dispersed and not solution.is_perfect:
            parameters = replace(parameters, log_phi=first_phi(model, parameters))
        return Fitting(parameters, solution, model)

    def trial(self, parameters: Parameters, found: Fitting) -> Fitting | None:
        """The fit at other parameters than those of a fit; None if there is none."""
        # F has a minimum at all lambdas, because it has one at those of the fit. So no rows are separated.
        start = replace(self.start, objective=replace(self.start.objective, overlaps=True))
        try:
            trial = replace(self, start=start).fitted(parameters, found.solution.point.coefficients)
        except (UserError, scipy.linalg.LinAlgError):
            return None
        return trial if trial.solution.converged else None

    def value(self, found: Fitting) -> float:
        """V of a fit."""
        objective = found.solution.objective
        if self.of_theta:
            by_term = objective.design.by_term(found.solution.point.coefficients)
            objective = replace(objective, counts=objective.workload.sum(objective.executor, "counts", by_term))
        return restricted(objective, found.solution.point, found.model, found.parameters)

    def tell(self, parameters: Parameters) -> None:
        """Report the parameters of a turn."""
        shown = [f"{value:.4g}" for value in parameters.log_lambda[:SHOWN]]
        more = ", ..." if len(self.penalties.smooths) > SHOWN else ""
        self.start.objective.run.reporter.tell(f"log lambda {', '.join(shown)}{more}")


class WithTheta(NamedTuple):
    """Theta of the negative binomial and its standard error, the fit at it, where a search with this theta begins, and the
    `origins` of correlated slopes there, as `Design.with_origins` takes them."""

    theta: float
    std_error: float
    solution: Solution
    origins: dict[str, list[float]]


def with_theta(poisson: Solution, theta: float) -> WithTheta:
    """The theta that minimises V with the smoothing parameters, from a first value and from the fit with an infinite theta.
    Raises UserError if it does not settle."""
    asked = poisson.objective.design
    workload = poisson.objective.workload.with_design(asked.as_fitted({"theta": theta}))
    objective = replace(poisson.objective, workload=workload)
    point = objective.at(poisson.point.coefficients)
    penalties = Penalties.of(objective, point.information)
    first = replace(penalties.begin(poisson), log_phi=float(np.log(theta)))
    information = factor(point.information.penalised(penalties.ridge(first.log_lambda)))
    search = LambdaSearch(Solution(objective, point), penalties, asked)
    found = search.lowest(first, replace(poisson, information=information))
    correlated = Correlated.of(asked, penalties, objective.free)
    if correlated.groups and found.solution.converged:
        found = OriginDescent(search, correlated, found).lowest()
    parameters, which = found.parameters, varies(penalties, found.parameters)
    at_end = whole(found.model, parameters, correlated, found.model.derivatives(parameters))
    which = np.append(which, correlated.varies(penalties, parameters))
    error = float(np.sqrt(covariance_of(at_end.hessian, which)[len(penalties.smooths), len(penalties.smooths)]))
    theta, origins = float(np.exp(parameters.log_phi)), correlated.origins(found.solution.objective.design)
    return WithTheta(theta, theta * error, replace(found.solution, log_lambda=parameters.log_lambda), origins)


def refuse_single_rows(objective: Objective) -> None:
    """Raise UserError if each level of a random effect has one row, whose error cannot be separated from the effect; or if the
    rows are no more than the correlated effects of a group, as lme4 does."""
    design = objective.design
    rows = by_coefficient(design, objective.counts, "rows")
    for smooth in design.smooths:
        if smooth.is_random and not objective.family.dispersion_known and rows[smooth.places].max() <= 1:
            raise UserError(
                f"models.{design.model}.formula: `{smooth.term}`: each level has one row, so its effect cannot be told from the "
                "error of the row; remove the term"
            )
        effects = (1 + len(smooth.beside)) * np.count_nonzero(rows[smooth.places])
        if smooth.beside and not objective.family.dispersion_known and effects >= objective.counts["rows"]:
            raise UserError(
                f"models.{design.model}.formula: `{smooth.term}` is one of {effects:,.0f} correlated random effects, and there "
                f"are only {objective.counts['rows']:,.0f} rows, so effects cannot be told from the errors of the rows; leave "
                "a slope out"
            )


class JointDescent(Descent):
    """Steps of b and of the smoothing parameters together. Each needs one pass over the rows.

    1. Minimise V in the `model` of the last pass. The `parameters` are those of the minimum, which have `moved` by so much. The
       step goes to the b of that minimum.
    2. End if neither the parameters nor b move (`is_settled`); then the parameters before count, at which b was found. In a
       linear regression the first step ends the search. It `is_poisson` if theta is as good as infinite.
    3. The next pass sums F, H and t there, t with the matrix of the pass before. If F has risen, scoring steps take its place
       (`newton.FisherScoring`), since they have every remedy.

    The expected information has t = 0. Passes sum the second derivative of the loss and t once the parameters or b move
    little (`is_near`), or from the beginning if there is a solution `near`. Log lambda moves freely only then (`is_free`).
    `factored` is H + P of the last model.
    """

    def __init__(self, search: LambdaSearch, first: Parameters, near: Solution | None = None):
        start, self.with_theta = search.start, search.of_theta is not None
        self.search, self.parameters, self.is_settled, self.is_poisson = search, first, False, False
        self.most = min(MOST_WITH_THETA if self.with_theta else MOST_JOINT, start.objective.run.max_iterations)
        rows, free = float(start.objective.counts["rows"]), np.count_nonzero(start.objective.free)
        self.df_residual = max(rows - free + search.penalties.size, 1.0)
        self.objective, self.point = search.objective(first), start.point
        self.model = WorkingModel.near(self.objective, self.point, search.penalties)
        self.lambda_squared, self.is_near, self.is_free = np.inf, near is not None, not self.with_theta
        if near:
            self.factored = near.information
            self.point, self.model = self._at(near.point.coefficients)

    def expected(self) -> Point:
        """The point with the expected information."""
        return self.point if self.point.blocks else self.objective.at(self.point.coefficients)

    def measure(self) -> None:
        self.before, self.lambda_squared = self.parameters, np.nan
        try:
            self._turn()
        except scipy.linalg.LinAlgError:
            if not self.point.blocks:
                # The second derivative of the loss is not positive definite here. The expected information is.
                self.point = self.expected()
                self.model = WorkingModel.near(self.objective, self.point, self.search.penalties)
                self.measure()

    def _turn(self) -> None:
        descent = RemlDescent(self.model, self.parameters, np.inf if self.is_free else LONGEST_FAR)
        descent.run()
        self.parameters = descent.parameters
        self.search.tell(self.parameters)
        self.moved = float(np.abs(self.parameters.vector - self.before.vector).max())
        self.objective = self.search.objective(self.parameters, self.model.tilt)
        self.factored = self.model.penalised(self.parameters.log_lambda)
        self.step = self.factored.solve(self.model.right_at(self.parameters)) - self.point.coefficients
        square = float(self.step @ self.factored.blocks.times(self.step))
        dispersion = self.objective.dispersion(self.point, self.df_residual)
        self.lambda_squared = square / dispersion if dispersion > 0 else np.nan
        if self.with_theta:
            self.is_free = abs(self.parameters.log_phi - self.before.log_phi) <= CLOSE_THETA
        else:
            self.is_free = self.is_near = self.moved <= COARSE or self.lambda_squared <= ROUGH

    def has_ended(self) -> bool:
        if self.objective.family.quadratic or np.isnan(self.lambda_squared):
            self.is_settled = self.objective.family.quadratic
            return True
        value, reporter = self.objective.value(self.point), self.objective.run.reporter
        reporter.live(f"iteration {self.iteration}: loss {value:.10g}, lambda^2 {self.lambda_squared:.3g}")
        reporter.record(self.iteration, {"newton/loss": value, "newton/lambda squared": self.lambda_squared})
        if self.with_theta and not self.model.theta:
            return self.iteration == self.most
        self.is_settled = self.moved <= SETTLED and self.lambda_squared <= SHORT
        if self.is_settled:
            self.parameters, self.objective = self.before, self.search.objective(self.before, self.model.tilt)
        self.is_poisson = self.with_theta and self.parameters.log_phi > np.log(LARGEST_THETA)
        return self.is_settled or self.is_poisson or self.iteration == self.most

    def go(self) -> bool:
        point, model = self._at(self.point.coefficients + self.step)
        if not self._is_lower(point):
            self.objective.run.reporter.live(f"  the loss rose to {self.objective.value(point):.10g}: scoring steps")
            scoring = FisherScoring(
                self.objective, self.expected(), self.df_residual, ROUGH_STEPS, ROUGH, is_exact=False
            )
            scoring.run()
            point, model = self._at(scoring.point.coefficients)
        self.point, self.model = point, model
        return True

    def _at(self, coefficients: np.ndarray) -> tuple[Point, WorkingModel]:
        if self.is_near:
            return self.search.summed(self.objective, coefficients, self.factored, self.parameters.log_phi)
        point = self.objective.at(coefficients)
        return point, WorkingModel.near(self.objective, point, self.search.penalties)

    def _is_lower(self, point: Point) -> bool:
        """Whether the step has lowered F. The F of two thetas cannot be compared, so the gradient has to be finite then."""
        if self.with_theta:
            return bool(np.isfinite(point.loss) and np.all(np.isfinite(point.gradient)))
        return is_no_higher(self.objective.value(point), self.objective.value(self.point))

    def fitting(self) -> Fitting:
        """The fit at the end. With an unknown theta it is as the last step has left it, because another fit follows."""
        if self.with_theta:
            solution = Solution(self.objective, self.point, self.factored, converged=self.is_settled)
        else:
            solution = newton.solve(replace(self.search.start, objective=self.objective, point=self.expected()))
            solution = replace(solution, iterations=self.iteration + solution.iterations)
        return Fitting(self.parameters, solution, self.model)


class ProfileDescent(Descent):
    """Newton's method for V itself, with a fit at each step, so that V falls with each (Wood, JRSS B 73, 2011).

    A step goes to the minimum of the model of V at the fit, with no log lambda further than `radius` away. The model has the
    gradient of V. Its second derivatives lack those of H and t, which `bend` learns from the gradients at further fits, by
    symmetric updates of rank one (as the second part in Dennis, Gay and Welsch, ACM TOMS 7, 1981). If V rises, the step becomes
    shorter. `found` is the last fit, with V `value`.
    """

    most = MOST_FITS

    def __init__(self, search: LambdaSearch, found: Fitting):
        self.search, self.found, self.radius, self.flat, self.is_settled = search, found, LONGEST, 0, False
        self.value, size = search.value(found), len(found.parameters.vector)
        self.bend = np.zeros((size, size))

    @property
    def model(self) -> WorkingModel:
        return replace(self.found.model, bend=self.bend, bent_at=self.found.parameters.vector)

    def measure(self) -> None:
        descent = RemlDescent(self.model, self.found.parameters, self.radius)
        descent.run()
        self.next = descent.parameters
        self.search.tell(self.next)
        self.moved = float(np.abs(self.next.vector - self.found.parameters.vector).max())
        self.foretold = self.model.value(self.next) - self.model.value(self.found.parameters)
        is_flat = self.moved < self.radius and -self.foretold <= LEAST_FALL * abs(self.value)
        self.flat = self.flat + 1 if is_flat else 0

    def has_ended(self) -> bool:
        solution = self.found.solution
        self.is_settled = solution.is_perfect or self.moved <= SETTLED or self.flat > MOST_FLAT
        return self.is_settled or not solution.converged or self.iteration == self.most

    def go(self) -> bool:
        trial = self.search.trial(self.next, self.found)
        value = self.search.value(trial) if trial else np.inf
        if trial and self.moved <= COARSE:
            self._learn(trial)
        if not trial or is_lower(self.value, value):
            self.radius = self.moved / 4
            return True
        if value - self.value <= WELL_FORETOLD * self.foretold:
            self.radius = max(self.radius, 2 * self.moved)
        self.found, self.value = trial, value
        return True

    def _learn(self, trial: Fitting) -> None:
        step = trial.parameters.vector - self.found.parameters.vector
        foretold = self.model.derivatives(trial.parameters).gradient
        self.bend = learnt(self.bend, trial.model.derivatives(trial.parameters).gradient - foretold, step)


def learnt(bend: np.ndarray, missed: np.ndarray, step: np.ndarray) -> np.ndarray:
    """`bend` after a step that `missed` the gradient by so much, by the symmetric update of rank one."""
    along = float(missed @ step)
    if abs(along) <= ORTHOGONAL * np.linalg.norm(missed) * np.linalg.norm(step):
        return bend
    return bend + np.outer(missed, missed) / along


class OriginDescent(Descent):
    """Newton's method for V by the origins of correlated random slopes, with a search for the smoothing parameters at each step.
    `found` is the fit with the lowest V there, `value`. The second derivatives lack those of H and t; `bend` learns them, as in
    `ProfileDescent`, from the `gradient` before the step that was `taken` last."""

    most = MOST_FITS

    def __init__(self, search: LambdaSearch, correlated: Correlated, found: Fitting):
        self.search, self.correlated, self.found, self.value = search, correlated, found, search.value(found)
        size = len(correlated.pairs)
        self.bend, self.gradient, self.taken = np.zeros((size, size)), np.zeros(size), np.zeros(size)

    def measure(self) -> None:
        model, parameters, penalties = self.found.model, self.found.parameters, self.search.penalties
        at = whole(model, parameters, self.correlated, model.derivatives(parameters))
        inner, which = varies(penalties, parameters), self.correlated.varies(penalties, parameters)
        pairs = np.append(np.zeros_like(inner), np.ones_like(which))
        before, self.gradient = self.gradient, at.gradient[pairs]
        hessian = profiled(at.hessian, np.append(inner, np.zeros_like(which)), pairs)
        is_exact = self.search.start.objective.family.quadratic
        if not is_exact and 0 < np.abs(self.taken).max(initial=0.0) <= COARSE_SHIFT:
            missed = self.gradient - before - (hessian + self.bend) @ self.taken
            self.bend = learnt(self.bend, np.where(which, missed, 0.0), self.taken)
        self.step, self.taken = np.zeros(len(which)), np.zeros(len(which))
        if which.any():
            self.step[which] = newton_step(self.gradient[which], (hessian + self.bend)[np.ix_(which, which)])
        self.in_errors = float(np.sqrt(-self.gradient @ self.step))
        self.step /= max(1.0, float(np.abs(self.step).max(initial=0.0)) / LONGEST_SHIFT)

    def has_ended(self) -> bool:
        return self.in_errors <= PRECISE_SHIFT or self.iteration == self.most

    def go(self) -> bool:
        parameters = self.found.parameters
        trial = halve_until(
            lambda tried: not is_lower(self.value, tried[1].value),
            lambda length: (length * self.step, self.at(length * self.step, parameters)),
        )
        if trial is None:
            return False
        self.taken, reached = trial
        self.search, self.found, self.value = reached.search, reached.found, reached.value
        return True

    def at(self, step: np.ndarray, parameters: Parameters) -> "OriginDescent":
        """The search from a step away, and from these smoothing parameters."""
        solution, objective = self.found.solution, self.search.start.objective
        design, coefficients = self.correlated.moved(solution.objective.design, step, solution.point.coefficients)
        objective = replace(objective, workload=objective.workload.with_design(design))
        start = replace(self.search.start, objective=objective, point=objective.at(coefficients))
        asked = self.search.of_theta and self.search.of_theta.with_origins(self.correlated.origins(design))
        search = replace(self.search, start=start, of_theta=asked)
        near = replace(solution, point=replace(solution.point, coefficients=coefficients))
        return OriginDescent(search, self.correlated, search.nearest(parameters, near))

    def lowest(self) -> Fitting:
        """The fit with the lowest V. Where the effects of a slope have no variance, V falls towards a correlation of 1 or -1: the
        intercept has no variance at an origin that is far away."""
        self.run()
        parameters, highest = self.found.parameters, self.search.penalties.highest
        for number, (group, first, later) in enumerate(self.correlated.pairs):
            one, other = group.terms[first], group.terms[later]
            if parameters.log_lambda[other] < highest[other] or parameters.log_lambda[one] >= highest[one]:
                continue
            log_lambda = parameters.log_lambda.copy()
            log_lambda[other] = log_lambda[one] + np.log(FAR_ORIGIN**2)
            log_lambda[one] = highest[one]
            for distance in (FAR_ORIGIN, -FAR_ORIGIN):
                step = distance * (np.arange(len(self.correlated.pairs)) == number)
                trial = self.at(step, replace(parameters, log_lambda=log_lambda))
                trial.run()
                if is_lower(trial.value, self.value):
                    return trial.lowest()
        return self.found


def root_of(covariance: np.ndarray) -> np.ndarray:
    """R with R'R = the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
