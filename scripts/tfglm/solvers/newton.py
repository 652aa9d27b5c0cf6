"""Newton's method for the exact maximum likelihood estimate. Every sum is over all rows.

It minimises F(b) = sum of weight * loss(eta, y) + sum of ridge * b^2 / 2 over the free coefficients. g is the gradient of F, I is
the information matrix of the loss, and H = I + diag(ridge). `FisherScoring` has the four parts of solvers.descent:

1. The step is -H^-1 g. lambda^2 = g'H^-1 g / dispersion is its squared length in standard errors.
2. H is too old if steps with it become slow, or if the search would end with it. A pass then sums it at b.
3. End if lambda^2 is small and steps no longer reduce it much, or if the residuals are rounding errors. Two signs show that the
   steps lead to infinity, because terms separate the response (solvers.separation):

   - The step is long although lambda^2 is small.
   - The steps keep their length while each removes about 1 - 1/e of lambda^2, and lambda^2 is below 1. Near a maximum, Newton's
     steps become shorter. A single row that is not yet predicted keeps lambda^2 above 1.

   Neither counts if all rows are known to overlap.
4. Take the whole step, or half of it, a quarter, ..., until F does not rise. If it always rises, take a damped step
   (`damped_steps`); from then on, damped steps replace all steps that are too long. Sum I in the same pass if it is due.

If the link is not canonical, the observed information J (the second derivative of the loss) differs from the expected
information I. Scoring then comes near the maximum, as R's glm does. But each step leaves a constant share of the error: 1 less
an eigenvalue of I^-1 J. So `ObservedNewton` continues from there, and its steps give the certificate:

1. The step is v = -J^-1 g. lambda^2 = v'I v / dispersion is its squared length in the standard errors from I.
2. J is too old if steps with it become slow, or if F rises. If the new J is not positive definite, b is near no minimum. The fit
   then returns to scoring until the end.
3. End if lambda^2 is small and steps no longer reduce it much.
4. Take the whole step, unless F rises.

At the end I is summed at b, for the standard errors.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.linalg

from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.solvers.descent import FRESH, Age, Descent, is_no_higher, search_line
from tfglm.solvers.information import Blocks, Factored
from tfglm.solvers.objective import NOT_FACTORED, Objective, Point, Solution
from tfglm.solvers.separation import DRIFTING_ABOVE, Drifting, refuse_separation

CONVERGED_BELOW = 1e-12
"""Largest lambda^2 = g' I^-1 g / dispersion of a converged fit. Its root bounds every |Newton step| / standard error."""

PRECISE_BELOW = 1e-18
"""lambda^2 at which the steps end, because other shards must not move an estimate by 1e-9 standard errors. Rounding errors may
end the steps earlier."""

SLOW = 0.1
"""A step with an older information matrix is slow if it leaves more than this share of lambda^2."""

MOST_STEPS = 3
"""Largest predicted number of further steps with an older information matrix. Above it, a new matrix is summed. A step with a
new matrix about squares the error, and costs two to five times as much. More steps follow than are predicted: with 5, the passes
of a fit took a third longer (15 million rows, 676 coefficients) or a twentieth longer (10 million rows, 8,805 coefficients)."""

AS_LONG, MOST_STEADY = 0.8, 2
"""A steady step has at least this share of the length of the step before. So many steady steps show that the search leads to
infinity."""


def solve(start: Solution) -> Solution:
    """Minimise F from `start`. Without iterations, only measure the distance of `start` from the minimum. Raises Drifting if
    terms separate the response; UserError if they do and there are no iterations, if the information matrix is singular, or
    if no residual degrees of freedom remain for the dispersion."""
    objective, most = start.objective, start.objective.run.max_iterations
    df_residual = float(objective.counts["rows"]) - objective.estimated
    if df_residual <= 0 and not objective.family.dispersion_known:
        if not objective.ridge.any():
            raise UserError(objective.too_few_rows())
        # Penalised coefficients count in part.
        factored = objective.factored(start.point.information.penalised(objective.ridge), start.information)
        df_residual = float(objective.counts["rows"]) - objective.effective(factored)
    scoring, stretched = FisherScoring(objective, start.point, df_residual, most, near=start.information), None
    if most and not objective.family.canonical:
        scoring.converged_below = scoring.precise_below = NEAR
        scoring.run()
        scoring.converged_below, scoring.precise_below = CONVERGED_BELOW, PRECISE_BELOW
        stretched = finish(scoring)
    else:
        scoring.run()
        stretched = 1.0
    perfect = objective.is_perfect(scoring.point, scoring.factored.blocks)
    return replace(
        start,
        point=scoring.point,
        information=scoring.factored,
        iterations=scoring.iteration,
        converged=perfect or (scoring.lambda_squared <= CONVERGED_BELOW and stretched is not None),
        certificate={} if perfect else {"lambda_squared": scoring.lambda_squared},
        stretch=stretched or 1.0,
        violation=objective.violation(scoring.point),
        effective=objective.effective(scoring.factored),
        is_perfect=perfect,
        has_covariance=most > 0 and not perfect,
    )


class FisherScoring(Descent):
    """Fisher scoring. With a canonical link it is Newton's method.

    `factored` is H, and `age` its age. `lambda_squared` belongs to `point`; it is NaN if the fit is perfect. `before` is
    lambda^2 before the last step. `steady` counts the last steps that kept their length. `is_damped` says that a
    damped step was taken.

    The gradient is always from the last point. At the end of an exact search, H is too. An exact search continues to
    `precise_below` while each step comes much closer. Any other search, for example on a sample, ends at `converged_below`.
    """

    def __init__(
        self,
        objective: Objective,
        point: Point,
        df_residual: float,
        most: int,
        converged_below: float = CONVERGED_BELOW,
        is_exact: bool = True,
        near: Factored = NOT_FACTORED,
    ):
        self.objective, self.point, self.df_residual, self.most = objective, point, df_residual, most
        self.converged_below, self.precise_below, self.is_exact = converged_below, PRECISE_BELOW, is_exact
        self.before, self.lambda_squared, self.steady = 0.0, np.nan, 0
        self.step, self.factored = np.zeros(0), near
        self.is_damped = False
        self._factorise()

    def measure(self) -> None:
        if self.objective.is_perfect(self.point, self.factored.blocks):
            self.lambda_squared = np.nan
            return
        gradient = self.objective.gradient(self.point)
        direction = self.factored.solve(gradient)
        # Rounding errors of a singular matrix can be negative.
        self.last, self.step, self.square = self.step, -direction, abs(float(direction @ gradient))
        dispersion = self.objective.dispersion(self.point, self.df_residual)
        self.lambda_squared = self.square / dispersion if dispersion else np.inf

    def is_outdated(self) -> bool:
        slow = self.lambda_squared > SLOW * self.age.decrement
        return not self.age.is_fresh and (slow or (self.is_exact and self.lambda_squared <= self.converged_below))

    def renew(self) -> None:
        self.step = self.last
        self.sum()

    def sum(self) -> None:
        self.point = self.objective.at(self.point.coefficients)
        self._factorise()

    def has_ended(self) -> bool:
        if np.isnan(self.lambda_squared):
            return True
        self.report()
        is_as_long = np.abs(self.step).max(initial=0.0) >= AS_LONG * np.abs(self.last).max(initial=0.0)
        falls = SLOW * self.before < self.lambda_squared < AS_LONG**2 * self.before
        self.steady = self.steady + 1 if is_as_long and falls else 0
        seems_to_drift = self.steady >= MOST_STEADY and self.lambda_squared < 1.0 and self._is_drifting
        if seems_to_drift and self.objective.detects_separation:
            self._raise_separation()
        near = self.lambda_squared <= self.converged_below
        closing_in = self.iteration == 0 or self.lambda_squared <= SLOW * self.before
        closer = self.is_exact and self.lambda_squared > self.precise_below and closing_in
        ends = (near and not closer) or self.iteration == self.most
        if near or ends:
            self.check_drift()
        return ends

    def go(self) -> bool:
        objective, blocks = self.objective, self.factored.blocks
        # The largest entry is the sum of the weights of all rows, if the formula has an intercept.
        weight = np.diag(blocks.a).max(initial=blocks.d.max(initial=0.0))
        largest, mean = objective.movement(self.step), np.sqrt(self.square / weight)

        def age(length: float) -> Age:
            return self.age.after(length * largest, length * mean, self.lambda_squared)

        def is_due(aged: Age) -> bool:
            # Steps on a sample end without an information matrix. Otherwise a new matrix is due when it saves enough steps, or
            # when the next step is too short to change it.
            return self.is_exact and not aged.is_fresh and not 1 < aged.steps_left <= MOST_STEPS

        # With lambda^2 below 1, a long step leads to infinity, because terms separate rows.
        is_too_long = self.is_exact and largest > FARTHEST and self.lambda_squared > 1.0
        trial = None
        if not (self.is_damped and is_too_long):
            trial = search_line(objective, self.point, self.step, age, is_due, objective.at)
        if trial is None and is_too_long:
            trial = self._go_damped()
        if trial is None:
            self.check_drift()
            return False
        (self.point, self.age), self.before = trial, self.lambda_squared
        if self.point.blocks:
            self._factorise()
        return True

    def _go_damped(self) -> tuple[Point, Age] | None:
        """The point after a damped step; None if no damped step lowers F."""
        if not self.age.is_fresh:
            self.sum()
        self.is_damped, before = True, self.objective.value(self.point)
        for step in damped_steps(self.objective, self.point, self.factored, self._squares):
            trial = self.objective.at(self.point.coefficients + step)
            value = self.objective.value(trial)
            if is_no_higher(value, before):
                return trial, Age()
            self.objective.run.reporter.live(f"  the loss rose to {value:.10g}: trying a shorter step")
        return None

    @cached_property
    def _squares(self) -> Blocks:
        return self.objective.squares()

    def _factorise(self) -> None:
        """Factor H at `point`. If H is singular, raises Drifting if terms separate the response, otherwise UserError."""
        objective = self.objective
        try:
            self.factored = objective.factored(self.point.information.penalised(objective.ridge), self.factored)
        except scipy.linalg.LinAlgError as error:
            # Perfectly predicted rows have zero weight.
            self._raise_separation()
            rows = " the rows that are left" if objective.overlaps else " rows"
            separate = f", and none was seen to separate{rows}" if objective.family.separates else ""
            raise UserError(
                f"models.{objective.design.model}: the information matrix is singular after {self.iteration} iterations, though "
                f"no term is aliased{separate}\n  leave out the terms whose numbers are the "
                f"largest or vary the least, or those with the rarest levels, one at a time"
            ) from error
        self.age = Age()

    @property
    def _is_drifting(self) -> bool:
        """Whether the step is too long to end at a finite estimate."""
        objective = self.objective
        intercepts = sum(term.base == INTERCEPT for term in objective.design.terms)
        may_drift = self.is_exact and np.count_nonzero(objective.unpenalised) > intercepts
        return bool(may_drift and np.abs(self.step).max(initial=0.0) > DRIFTING_ABOVE)

    def check_drift(self) -> None:
        """Raise Drifting or UserError if the last step is too long, because terms separate the response. A search with a
        coarser tolerance cannot decide this. Other steps continue after it."""
        if self._is_drifting and self.converged_below <= CONVERGED_BELOW:
            self._raise_separation()

    def _raise_separation(self) -> None:
        objective, coefficients = self.objective, self.point.coefficients
        if not self.is_exact or not self.most:
            refuse_separation(objective.workload, objective.executor, [self.step, coefficients])
        elif objective.family.separates and not objective.overlaps:
            raise Drifting(coefficients, self.iteration)

    def report(self) -> None:
        value, square = self.objective.value(self.point), self.lambda_squared
        reporter = self.objective.run.reporter
        reporter.live(f"iteration {self.iteration}: loss {value:.10g}, lambda^2 {square:.3g}")
        if not self.is_exact:
            return
        if self.converged_below < square < self.before:
            # Assume that every step shrinks lambda^2 like the last step.
            left = np.log(self.converged_below / square) / np.log(square / self.before)
            reporter.advance(self.iteration, min(self.iteration + int(np.ceil(left)), self.most))
        reporter.record(self.iteration, {"newton/loss": value, "newton/lambda squared": square})


FARTHEST = 8.0
"""Largest movement of a linear predictor by a damped step, for numbers one standard deviation from their mean."""

LEAST, MOST, GROWS = 1e-8, 1e4, 3.0
"""The first and the last damping, in mean weights of a row, and the factor between consecutive dampings."""

MOST_TRIALS = 8
"""Largest number of damped steps that are tried. Each needs a pass."""


def damped_steps(objective: Objective, point: Point, factored: Factored, rows: Blocks) -> Iterator[np.ndarray]:
    """Yield shorter and shorter steps [p] from a point, for rows whose weights differ by many orders of magnitude, such as counts
    with very different exposures. `factored` is its information matrix with the penalties, and `rows` are X'X.

    A Newton step then moves the coefficients of rows with little weight far past their estimates. No share of the step lowers
    the objective. The damped step is -(H + damping X'X)^-1 g, as if each row had `damping` more weight (Levenberg, Quarterly of
    Applied Mathematics 2, 1944; Marquardt, SIAM Journal 11, 1963). It goes downhill for every damping. The first damping is the
    smallest that moves no linear predictor further than FARTHEST.
    """
    gradient, blocks = objective.gradient(point), factored.blocks
    damping = LEAST * _trace(blocks) / _trace(rows)
    most, tried = MOST / LEAST * damping, 0
    while damping <= most and tried < MOST_TRIALS:
        try:
            step = -objective.factored(blocks.plus(rows, damping), factored).solve(gradient)
        except scipy.linalg.LinAlgError:
            step = np.full(len(gradient), np.nan)
        if np.all(np.isfinite(step)) and objective.movement(step) <= FARTHEST:
            tried += 1
            yield step
        damping *= GROWS


def _trace(blocks: Blocks) -> float:
    return float(np.trace(blocks.a) + blocks.within.diagonal.sum())


NEAR = 1e-4
"""lambda^2 at which scoring ends. From a hundredth of a standard error, a Newton step leaves about a ten-thousandth."""

MOST_PRODUCTS, STEADY = 100, 1e-3
"""Largest number of iterations for `stretch`, and the share by which its value may still change at the end."""


def finish(scoring: FisherScoring) -> float | None:
    """Finish a search by scoring with the observed information. Returns the `stretch` at the end; None if the observed
    information is not positive definite."""
    if np.isnan(scoring.lambda_squared):  # a perfect fit
        return 1.0
    try:
        newton = ObservedNewton(scoring)
        newton.run()
    except scipy.linalg.LinAlgError:
        scoring.sum()
        scoring.run()
        return None
    newton.end()
    scoring.check_drift()
    return stretch(newton.hessian, scoring.factored.blocks, len(scoring.point.coefficients))


def with_observed(solution: Solution) -> Solution:
    """The solution of a fit without penalties, with the observed information if the errors of its family come from that."""
    objective, design = solution.objective, solution.objective.design
    if (
        not (objective.family.has_observed_errors and solution.has_covariance)
        or design.has_penalties
        or design.absorbed
    ):
        return solution
    return replace(solution, information=objective.factored(objective.observed(solution.point.coefficients)))


class ObservedNewton(Descent):
    """Newton's steps with the observed information. They move the point of a `scoring`.

    `hessian` is J, summed at iteration `began`. `moved` is how far the linear predictors have moved since I was summed. Raises
    scipy.linalg.LinAlgError if J is not positive definite.
    """

    def __init__(self, scoring: FisherScoring):
        self.scoring, self.objective = scoring, scoring.objective
        self.iteration, self.most, self.moved = scoring.iteration, scoring.most, 0.0
        self.renew()

    def renew(self) -> None:
        if self.moved > FRESH:
            self.scoring.sum()
            self.moved = 0.0
        matrix = self.objective.observed(self.scoring.point.coefficients)
        self.hessian = self.objective.factored(matrix.penalised(self.objective.ridge), self.scoring.factored)
        self.began, self.before, self.is_stuck = self.iteration, np.inf, False

    def measure(self) -> None:
        scoring = self.scoring
        scoring.step = -self.hessian.solve(self.objective.gradient(scoring.point))
        square = float(scoring.step @ scoring.factored.blocks.times(scoring.step))
        scoring.lambda_squared = square / self.objective.dispersion(scoring.point, scoring.df_residual)
        self.is_slow = scoring.lambda_squared > SLOW * self.before

    def is_outdated(self) -> bool:
        may_renew = self.iteration > self.began and self.iteration < self.most
        return may_renew and self.scoring.lambda_squared > CONVERGED_BELOW and (self.is_slow or self.is_stuck)

    def has_ended(self) -> bool:
        self.scoring.iteration = self.iteration
        self.scoring.report()
        return self.scoring.lambda_squared <= PRECISE_BELOW or self.is_slow or self.iteration == self.most

    def go(self) -> bool:
        scoring, objective = self.scoring, self.objective
        trial = objective.at(scoring.point.coefficients + scoring.step, "gradient")
        if not is_no_higher(objective.value(trial), objective.value(scoring.point)):
            self.is_stuck = True
            return False
        scoring.point, self.before = trial, scoring.lambda_squared
        self.moved += objective.movement(scoring.step)
        return True

    def end(self) -> None:
        """Sum I at the last point, for the standard errors."""
        if self.moved > FRESH or not self.scoring.age.is_fresh:
            self.scoring.sum()
            self.measure()


def stretch(hessian: Factored, blocks: Blocks, size: int) -> float:
    """The largest ratio of the lengths of J^-1 g and I^-1 g over all g, in the standard errors of I; at least 1. It is the
    largest eigenvalue of J^-1 I, by the power method."""
    x = np.random.default_rng(1).normal(size=size)
    value = 0.0
    for _ in range(MOST_PRODUCTS):
        image = blocks.times(x)
        length = float(np.sqrt(x @ image))
        if length == 0.0:
            break
        x = hessian.solve(image / length)
        before, value = value, float(np.sqrt(x @ blocks.times(x)))
        if abs(value - before) <= STEADY * value:
            break
    return max(value, 1.0)
