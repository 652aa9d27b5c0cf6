"""Newton's method for the exact maximum likelihood estimate, synchronous: every sum is over all rows.

Minimises F(b) = sum of weight * loss(eta, y) + sum of ridge * b^2 / 2 over the free coefficients. With its gradient g, the
information matrix I of the loss, and H = I + diag(ridge):

1. Sum g and I at the start, and factor H.
2. End if the residuals are rounding errors.
3. The step is -H^-1 g, and lambda^2 = g'H^-1 g / dispersion the square of its length in standard errors.
4. If I is older than b: when steps with it have become slow, or would end here, sum it at b and go to 2.
5. End if lambda^2 is small enough and steps no longer make it much smaller, or after so many steps. A step that is long where
   lambda^2 is small leads to infinity: terms separate the response (solvers.across), unless all rows are known to overlap. So
   do steps that stay as long as they are while each takes about 1 - 1/e of lambda^2, once that is below 1: near a maximum
   Newton's steps become shorter, and one row that is not yet foretold keeps lambda^2 above 1.
6. Go the step, or the half of it, a quarter, ... until F does not rise (solvers.steps). If it always does, go a damped one
   (solvers.damped), and from then on in place of each step that is too long.
7. Sum I there, in the same pass, if it is due; factor H; go to 2.

With a link that is not canonical, the observed information J (the second derivative of the loss) is not the expected one, I.
The steps above, Fisher scoring, then come near the maximum as R's glm does. But each step leaves a share of the error that does
not shrink: 1 less an eigenvalue of I^-1 J. So `run_observed` takes Newton's own steps from there, and certifies by them:

1. Sum J + diag(ridge) at b. If it is not positive definite, b is near no minimum: score on, to the end.
2. The step is v = -J^-1 g, and lambda^2 = v'I v / dispersion the square of its length in standard errors, which are those of I.
3. End if lambda^2 is small enough and steps no longer make it much smaller; if they do not, though it is large, go to 1.
4. Go the step, unless F rises; go to 2.
5. Sum I at b, from which the standard errors are.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from tfglm.design.terms import INTERCEPT
from tfglm.errors import UserError
from tfglm.solvers.damped import FARTHEST, Damping
from tfglm.solvers.information import Blocks, Factored, factor
from tfglm.solvers.problem import Problem, Solution, State
from tfglm.solvers.quadratic import product
from tfglm.solvers.separation import DRIFTING_ABOVE, Drifting, can_separate, refuse_separation
from tfglm.solvers.steps import (
    CONVERGED_BELOW,
    FRESH,
    MOST_STEPS,
    PRECISE_BELOW,
    SLOW,
    Since,
    is_no_higher,
    line_search,
)

AS_LONG, MOST_STEADY = 0.8, 2
"""Of the step before, and how many such steps tell that they lead to infinity."""


def solve(start: Solution) -> Solution:
    """The minimum of F, from `start`; with no iterations, how far the start is from it. Raises Drifting if terms separate the
    response, or without iterations UserError; that too if the information matrix is singular, and if no residual variance is left
    to estimate."""
    problem, max_iterations = start.problem, start.problem.run.max_iterations
    counts, design = problem.counts, problem.design
    df_residual = float(counts["rows"]) - problem.free_count
    if df_residual <= 0 and not problem.family.dispersion_known and not design.l2:
        raise UserError(
            f"models.{design.model}: {counts['rows']:,.0f} training rows for {problem.free_count:,} coefficients leave no "
            f"residual variance to estimate; use fewer terms, or more rows"
        )
    search = NewtonSearch(problem, start.state, df_residual, max_iterations)
    stretch: float | None = 1.0
    if max_iterations and not problem.family.canonical:
        stretch = run_observed(search)
    else:
        search.run()
    perfect = problem.is_perfect(search.state, search.factored.blocks)
    return replace(
        start,
        state=search.state,
        information=search.factored,
        iterations=search.iteration,
        converged=perfect or (search.lambda_squared <= CONVERGED_BELOW and stretch is not None),
        certificate={} if perfect else {"lambda_squared": search.lambda_squared},
        stretch=stretch or 1.0,
        violation=problem.violation(search.state),
        effective=search.factored.effective_coefficients(problem.ridge),
        is_perfect=perfect,
        has_covariance=max_iterations > 0 and not perfect,
    )


@dataclass
class NewtonSearch:
    """A search for the minimum of F, which `run` takes from `state` to the end.

    `factored` is H, and `since` what has happened since it was summed. `lambda_squared` is that of `state`, NaN if the fit is
    perfect, and `before` that before the last step; the last `steady` steps were as those that lead to infinity. There is a
    `damping` once a step had to be damped. The gradient is always at the last state; so is H, if the search is exact. A search
    that is not exact, as on a sample of the rows, ends at `converged_below` and leaves H as it is; one that is goes on to
    `precise_below`, as long as each step comes much closer.
    """

    problem: Problem
    state: State
    df_residual: float
    max_iterations: int
    converged_below: float = CONVERGED_BELOW
    precise_below: float = PRECISE_BELOW
    is_exact: bool = True
    iteration: int = 0
    before: float = 0.0
    lambda_squared: float = np.nan
    since: Since = field(default_factory=Since)
    steady: int = 0
    damping: Damping | None = None
    factored: Factored = field(init=False)
    step: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def run(self) -> None:
        """Raises Drifting if terms separate the response, and UserError if the information matrix is singular."""
        self._factorise()  # 1.
        while not self.problem.is_perfect(self.state, self.factored.blocks):  # 2.
            gradient = self.problem.gradient(self.state)  # 3.
            direction = self.factored.solve(gradient)
            last, self.step, square = self.step, -direction, float(direction @ gradient)
            dispersion = self.problem.dispersion(self.state, self.df_residual)
            self.lambda_squared = square / dispersion if dispersion else np.inf
            if self._is_outdated():  # 4.
                self.step = last
                self.renew()
                continue
            self.report()
            self._count_steady(last)
            if self._ends():  # 5.
                return
            trial = self._go(square)  # 6.
            if trial is None:
                return
            (self.state, self.since), self.before = trial, self.lambda_squared
            self.iteration += 1
            if self.state.blocks:  # 7.
                self._factorise()
        self.lambda_squared = np.nan

    def renew(self) -> None:
        """Sum H where the coefficients are."""
        self.state = self.problem.at(self.state.coefficients)
        self._factorise()

    def _factorise(self) -> None:
        """Factor H at `state`. Raises Drifting or UserError if it is singular, because terms separate the response or for another
        reason."""
        problem = self.problem
        try:
            self.factored, self.since = problem.factored(self.state.information.penalised(problem.ridge)), Since()
        except scipy.linalg.LinAlgError as error:
            # The weights of rows that are foretold without error vanish.
            self._tell_separation()
            rows = " the rows that are left" if problem.overlaps else " rows"
            separate = f", and none was seen to separate{rows}" if can_separate(problem.design) else ""
            raise UserError(
                f"models.{problem.design.model}: the information matrix is singular after {self.iteration} iterations, though "
                f"no term is aliased{separate}\n  leave out the terms whose numbers are the "
                f"largest or vary the least, or those with the rarest levels, one at a time"
            ) from error

    def _is_outdated(self) -> bool:
        """Whether H has to be summed before the next step, or before the end."""
        slow = self.lambda_squared > SLOW * self.since.decrement
        return not self.since.is_fresh and (slow or (self.is_exact and self.lambda_squared <= self.converged_below))

    @property
    def _is_drifting(self) -> bool:
        """Whether the step is too long to belong to an estimate."""
        problem = self.problem
        intercepts = sum(term.base == INTERCEPT for term in problem.design.terms)
        may_drift = self.is_exact and np.count_nonzero(problem.unpenalised) > intercepts
        return bool(may_drift and np.abs(self.step).max(initial=0.0) > DRIFTING_ABOVE)

    def _count_steady(self, last: np.ndarray) -> None:
        """Count steps that stay as long as they are, though lambda^2 falls."""
        is_as_long = np.abs(self.step).max(initial=0.0) >= AS_LONG * np.abs(last).max(initial=0.0)
        falls = SLOW * self.before < self.lambda_squared < AS_LONG**2 * self.before
        self.steady = self.steady + 1 if is_as_long and falls else 0

    def _ends(self) -> bool:
        seems_to_drift = self.steady >= MOST_STEADY and self.lambda_squared < 1.0 and self._is_drifting
        # Of classes no search confirms it.
        if seems_to_drift and not self.problem.design.equations:
            self._tell_separation()
        near = self.lambda_squared <= self.converged_below
        closing_in = self.iteration == 0 or self.lambda_squared <= SLOW * self.before
        closer = self.is_exact and self.lambda_squared > self.precise_below and closing_in
        ends = (near and not closer) or self.iteration == self.max_iterations
        if near or ends:
            self.check_drift()
        return ends

    def _go(self, square: float) -> tuple[State, Since] | None:
        """The state after the step; None if no part of it lowers F."""
        problem, blocks = self.problem, self.factored.blocks
        # The sum of the weights of all rows is the largest entry, if anything in the formula is there for all rows.
        weight = np.diag(blocks.a).max(initial=blocks.d.max(initial=0.0))
        largest, mean = problem.movement(self.step), np.sqrt(square / weight)

        def since(length: float) -> Since:
            return self.since.moved(length * largest, length * mean, self.lambda_squared)

        def is_due(after: Since) -> bool:
            # Where the first steps end, on a sample, no information matrix is needed; elsewhere when it is worth a few steps, or
            # the one to come is too short to change it.
            return self.is_exact and not after.is_fresh and not 1 < after.steps_left <= MOST_STEPS

        # Below 1 a long step leads to infinity, where terms separate rows.
        is_too_long = self.is_exact and largest > FARTHEST and self.lambda_squared > 1.0
        trial = None
        if not (self.damping and is_too_long):
            trial = line_search(problem, self.state, self.step, since, is_due, problem.at)
        if trial is None and is_too_long:
            trial = self._go_damped()
        if trial is None:
            self.check_drift()
        return trial

    def _go_damped(self) -> tuple[State, Since] | None:
        """The state after a step of `solvers.damped`; None if none lowers F."""
        if not self.since.is_fresh:
            self.renew()
        self.damping = self.damping or Damping(self.problem)
        objective = self.problem.objective(self.state)
        for step in self.damping.steps(self.state, self.factored.blocks):
            trial = self.problem.at(self.state.coefficients + step)
            if is_no_higher(self.problem.objective(trial), objective):
                return trial, Since()
            self.problem.run.reporter.live(
                f"  the loss rose to {self.problem.objective(trial):.10g}: trying a shorter step"
            )
        return None

    def check_drift(self) -> None:
        """Raise Drifting or UserError if the last step is too long for where it should end, because terms separate the response.
        A search that ends sooner, for other steps to go on (`run_observed`), cannot tell."""
        if self._is_drifting and self.converged_below <= CONVERGED_BELOW:
            self._tell_separation()

    def _tell_separation(self) -> None:
        problem, coefficients = self.problem, self.state.coefficients
        if not self.is_exact or not self.max_iterations:
            refuse_separation(problem.workload, problem.executor, [self.step, coefficients])
        elif can_separate(problem.design) and not problem.overlaps:
            raise Drifting(coefficients, self.iteration)

    def report(self) -> None:
        """Tell how far the search is."""
        objective, square = self.problem.objective(self.state), self.lambda_squared
        self.problem.run.reporter.live(f"iteration {self.iteration}: loss {objective:.10g}, lambda^2 {square:.3g}")
        if not self.is_exact:
            return
        if self.converged_below < square < self.before:
            # As if every step to come shrank lambda^2 as the last one did.
            left = np.log(self.converged_below / square) / np.log(square / self.before)
            self.problem.run.reporter.advance(
                self.iteration, min(self.iteration + int(np.ceil(left)), self.max_iterations)
            )
        self.problem.run.reporter.record(self.iteration, {"newton/loss": objective, "newton/lambda squared": square})


NEAR = 1e-4
"""Of lambda^2, where scoring ends: from a hundredth of a standard error a Newton step leaves about a ten-thousandth of one."""

MOST_PRODUCTS, STEADY = 100, 1e-3
"""Of the iteration for `stretch`, and the share by which its value may still change."""


def run_observed(search: NewtonSearch) -> float | None:
    """Take a search to its end; returns the `stretch` there, None if the observed information is not positive definite."""
    search.converged_below = search.precise_below = NEAR
    search.run()
    if np.isnan(search.lambda_squared):  # a perfect fit
        return 1.0
    hessian = _finish(search)
    search.converged_below, search.precise_below = CONVERGED_BELOW, PRECISE_BELOW
    if hessian is None:
        search.state = search.problem.at(search.state.coefficients)
        search.run()
        return None
    search.check_drift()
    return stretch(hessian, search.factored.blocks, len(search.state.coefficients))


def _finish(search: NewtonSearch) -> Factored | None:
    """Newton's own steps; the last J, None if it is not positive definite."""
    problem, moved, hessian = search.problem, 0.0, None
    while search.iteration < search.max_iterations or hessian is None:
        if moved > FRESH:
            search.renew()
            moved = 0.0
        try:
            hessian = factor(problem.observed(search.state.coefficients).penalised(problem.ridge))  # 1.
        except scipy.linalg.LinAlgError:
            return None
        began, before = search.iteration, np.inf
        while True:
            search.step = step = -hessian.solve(problem.gradient(search.state))  # 2.
            search.lambda_squared = _length(search, step)
            search.report()
            slow = search.lambda_squared > SLOW * before
            if search.lambda_squared <= PRECISE_BELOW or slow or search.iteration == search.max_iterations:  # 3.
                break
            trial = problem.at(search.state.coefficients + step, "gradient")  # 4.
            if not is_no_higher(problem.objective(trial), problem.objective(search.state)):
                break
            search.state, before = trial, search.lambda_squared
            search.iteration += 1
            moved += problem.movement(step)
        if search.lambda_squared <= CONVERGED_BELOW or search.iteration == began:
            break
    if moved > FRESH or not search.since.is_fresh:  # 5.
        search.renew()
        search.lambda_squared = _length(search, -hessian.solve(problem.gradient(search.state)))
    return hessian


def _length(search: NewtonSearch, step: np.ndarray) -> float:
    """Its square, in standard errors of the expected information."""
    square = float(step @ product(search.factored.blocks, step))
    return square / search.problem.dispersion(search.state, search.df_residual)


def stretch(hessian: Factored, blocks: Blocks, size: int) -> float:
    """How much longer, at most, J^-1 g is than I^-1 g for the same g, in the standard errors of I: the largest eigenvalue of
    J^-1 I, by the power method; at least 1."""
    x = np.random.default_rng(1).normal(size=size)
    value = 0.0
    for _ in range(MOST_PRODUCTS):
        image = product(blocks, x)
        length = float(np.sqrt(x @ image))
        if length == 0.0:
            break
        x = hessian.solve(image / length)
        before, value = value, float(np.sqrt(x @ product(blocks, x)))
        if abs(value - before) <= STEADY * value:
            break
    return max(value, 1.0)
