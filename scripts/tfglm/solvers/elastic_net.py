"""Lasso and elastic net, by proximal Newton steps (Lee, Sun & Saunders, SIAM J. Optim. 24, 2014).

Minimises F(b) = sum of weight * loss(eta, y) + sum of (ridge * b^2 / 2 + lasso * |b|) over the free coefficients. With the
gradient g of the smooth part of F, the information matrix I of the loss, and H = I + diag(ridge):

1. End if no KKT condition is broken by more than a share of the penalty, or after so many steps.
2. If I is older than b, and the last step has left too much of the violation, sum it at b.
3. The step v minimises g'v + v'Hv / 2 + sum of lasso * |b + v| (solvers.quadratic). The first step from the minimum for another
   penalty is corrected by what the first step there was wrong by.
4. Go the step, or the half of it, a quarter, ... until F does not rise (solvers.steps).
5. Sum I there, in the same pass, if the linear predictors have moved far; go to 1.

With a link that is not canonical I is the expected information, and far from the responses its steps are too long or too short
by as much as it differs from the observed one. Once two of them, with I where they begin, have left most of the violation, H has
the observed information instead, where that is positive definite.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.errors import UserError
from tfglm.solvers import quadratic
from tfglm.solvers.information import NO_BLOCKS, Blocks, factor, null_vectors
from tfglm.solvers.problem import CONVERGED_BELOW, Point, Problem, Solution, State
from tfglm.solvers.separation import DRIFTING_ABOVE, Drifting, can_separate
from tfglm.solvers.steps import Since, line_search

FAR = 0.005
"""How far the linear predictors may move, in quadratic mean, while an older information matrix is good enough for the next step:
each leaves about this share of the error, and costs a third of one with a new matrix."""

SLOW = 0.3
"""Share of the violation that a step with an older information matrix must not leave."""

CREEPING, MOST_CREEPING = 0.5, 2
"""Share of the violation that a step with I where it begins must not leave, and how many such steps are enough."""

PRECISION = 1e-9
"""Of the quadratic problem: the largest violation of its KKT conditions, as a share of the penalty."""


def solve(start: Solution) -> Solution:
    """The minimum of F from `start`; with no iterations, how far the start is from it. Raises Drifting if terms that no penalty
    acts on separate the response."""
    problem, state = start.problem, start.state
    point = minimise(problem, state, state.information, np.zeros(len(state.coefficients)), problem.l1)
    check_drift(point.problem, point.state)
    return solution(start, point if problem.l2 else replace(point, effective=effective_coefficients(point)))


def check_drift(problem: Problem, state: State) -> None:
    """Raise Drifting if a Newton step of what no penalty acts on is too long for a minimum, because terms separate the response.

    The KKT conditions do not tell: where coefficients run off to infinity, the gradient vanishes."""
    moving = problem.unpenalised
    alone = np.count_nonzero(moving) <= (problem.design.intercept is not None)
    if alone or problem.overlaps or not can_separate(problem.design):
        return
    state = state if state.blocks else problem.at(state.coefficients)
    try:
        step = factor(state.information.restrict(moving)).solve(np.where(moving, problem.gradient(state), 0.0))
    except scipy.linalg.LinAlgError:
        raise Drifting(state.coefficients, 0) from None
    if np.abs(step).max() > DRIFTING_ABOVE:
        raise Drifting(state.coefficients, 0)


def solution(start: Solution, point: Point) -> Solution:
    """What the fit ends in, from its point."""
    if point.problem.l2:
        # With the information matrix where it is, and not merely near.
        state = point.state if point.state.blocks else point.problem.at(point.state.coefficients)
        point = replace(point, state=state, near=state.information)
        point = replace(point, effective=effective_coefficients(point))
    problem, converged_below = point.problem, CONVERGED_BELOW * point.penalty
    # A lasso has no covariance: zeros have no posterior standard deviation.
    blocks = NO_BLOCKS if problem.l1 else point.near.restrict(problem.active(point.state)).penalised(problem.ridge)
    return replace(
        start,
        problem=problem,
        state=point.state,
        information=factor(blocks),
        iterations=point.iterations,
        converged=point.converged,
        certificate={"largest_kkt_violation": point.violation, "converged_below": converged_below},
        violation=point.violation,
        effective=point.effective,
        has_covariance=not problem.l1,
    )


def minimise(problem: Problem, state: State, near: Blocks, correction: np.ndarray, penalty: float) -> Point:
    """Take proximal Newton steps from `state` to the minimum of F.

    Parameters
    ----------
    problem
        F, with the penalties of this point.
    state
        Where to begin: the start of the fit, or the point before on a path.
    near
        An information matrix, of `state` or from somewhere near it.
    correction
        How far the point before was from where the first step towards it led, [p]; added to the first step towards this one.
    penalty
        That of the point on its path; violations are compared with it.
    """
    search = ProximalSearch(problem, state, near)
    foretold, before, iteration = state.coefficients, np.inf, 0
    while True:
        violation = problem.violation(search.state)
        objective = problem.objective(search.state)
        problem.run.reporter.note(f"iteration {iteration}: objective {objective:.10g}, KKT violation {violation:.3g}")
        if violation <= CONVERGED_BELOW * penalty or iteration == problem.run.max_iterations:  # 1.
            break
        if search.creeps(violation):
            search.observe()
        elif not search.since.is_fresh and violation > SLOW * before:  # 2.
            search.renew(search.evaluate(search.state.coefficients, "information"))
        plain = step = search.step(PRECISION * penalty * problem.weight_sum)  # 3.
        if not iteration:
            foretold = search.state.coefficients + step
            corrected = foretold + correction
            step = np.where(foretold * corrected > 0, corrected, foretold) - search.state.coefficients
        # 4. and 5. A corrected step need not go downhill.
        if not search.go(step) and (step is plain or not search.go(plain)):
            break
        before = np.inf if search.state.blocks else violation
        iteration += 1
    if search.is_observed:
        search.renew(search.evaluate(search.state.coefficients, "information"))
    state, passes = search.state, search.passes
    correction = state.coefficients - foretold
    counts = iteration, passes["information"], passes["gradient"]
    return Point(penalty, problem, state, search.near, violation, correction, *counts)


class ProximalSearch:
    """Where the steps stand: `near` is the last I, `blocks` are H, `since` is what has happened since they were summed. H has the
    observed information if it `is_observed`. `last` is the violation before the last step, which `began_fresh` if H was summed
    where it began; the last `creeping` of such steps came hardly closer."""

    def __init__(self, problem: Problem, state: State, near: Blocks):
        self.problem, self.state, self.near = problem, state, near
        self.blocks, self.since = near.penalised(problem.ridge), Since()
        self.passes: Counter = Counter()
        self.is_observed, self.began_fresh, self.creeping, self.last = False, False, 0, np.inf

    def evaluate(self, coefficients: np.ndarray, sums: str) -> State:
        self.passes[sums] += 1
        return self.problem.at(coefficients, sums)

    def renew(self, state: State) -> None:
        """Go on with the information matrix at this state."""
        self.state, self.near = state, state.information
        self.blocks, self.since, self.is_observed = self.near.penalised(self.problem.ridge), Since(), False

    def creeps(self, violation: float) -> bool:
        """Whether H should have the observed information where the coefficients are, by what the last step has left."""
        last, self.last = self.last, violation
        if self.problem.family.canonical:
            return False
        if self.is_observed:
            return not self.since.is_fresh and violation > SLOW * last
        self.creeping = self.creeping + 1 if self.began_fresh and violation > CREEPING * last else 0
        return self.creeping >= MOST_CREEPING

    def observe(self) -> None:
        """Go on with the observed information where the coefficients are, with the expected one if that is not positive
        definite."""
        self.passes["information"] += 1
        blocks = self.problem.observed(self.state.coefficients).penalised(self.problem.ridge)
        try:
            factor(blocks)
        except scipy.linalg.LinAlgError:
            self.creeping = 0
            if self.is_observed:
                self.renew(self.evaluate(self.state.coefficients, "information"))
        else:
            self.blocks, self.since, self.is_observed = blocks, Since(), True

    def step(self, precision: float) -> np.ndarray:
        """The next one, [p]. Raises UserError if it cannot be told."""
        problem, state = self.problem, self.state
        try:
            return quadratic.solve(self.blocks, problem.gradient(state), state.coefficients, problem.lasso, precision)
        except quadratic.NotSolved:
            raise UserError(
                f"models.{problem.design.model}: a step of the elastic net was not solved, which happens where columns of the "
                "formula nearly depend on each other; leave out a term, such as one of two curves of the same column, or give "
                "all of them a penalty of which a part is `l2`"
            ) from None

    def go(self, step: np.ndarray) -> bool:
        """Whether some part of the step did not raise F; if so, it has been gone."""
        square = float(step @ quadratic.product(self.blocks, step))
        weight = np.diag(self.blocks.a).max(initial=self.blocks.d.max(initial=0.0))
        largest, mean = self.problem.movement(step), np.sqrt(square / weight)

        def since(length: float) -> Since:
            return self.since.moved(length * largest, length * mean, np.inf)

        def is_due(after: Since) -> bool:
            return after.mean > FAR and not self.is_observed

        self.began_fresh = self.since.is_fresh
        trial = line_search(self.problem, self.state, step, since, is_due, self.evaluate)
        if trial is None:
            return False
        self.state, self.since = trial
        if self.state.blocks:
            self.renew(self.state)
        return True


def effective_coefficients(point: Point) -> float:
    """The trace of (I + penalty)^-1 I over the coefficients that are not zero (Tibshirani & Taylor, Annals of Statistics 40,
    2012)."""
    problem = point.problem
    active = problem.active(point.state)
    blocks = point.near.restrict(active)
    if not problem.ridge.any():
        # Of columns that depend on each other a lasso may keep all.
        return float(np.count_nonzero(active) - len(null_vectors(blocks, len(active))[0]))
    return factor(blocks.penalised(problem.ridge)).effective_coefficients(problem.ridge)
