"""Where an exact solver begins: at the null model, near the optimum of a sample, or where an online solver has ended."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfglm.families.gaussian import Gaussian
from tfglm.solvers.damped import of_columns
from tfglm.solvers.information import Blocks, null_vectors
from tfglm.solvers.newton import NewtonSearch
from tfglm.solvers.problem import Problem, Solution, State
from tfglm.solvers.quadratic import product
from tfglm.solvers.run import Reporter

LEFT_ABOVE = 1e-12
"""Share of the squares of a column that others leave, above which it is estimated: less are the squares of rounding errors."""

DOUBTFUL_ABOVE = 1e-14
"""The same by squares, below which no row is asked."""

WARM_ITERATIONS = 12
WARM_UNTIL = 0.25
"""Of lambda^2 there, for each coefficient: closer to their optimum than that is to the one of all rows."""

WARM_RIDGE = 1.0
"""Penalty on these steps (times b^2 / 2), as a rare group may have responses that are all alike among the rows sampled."""


def begin(problem: Problem, learn: Callable[[Problem], Solution] | None = None) -> Solution:
    """Find where an exact solver goes on.

    Parameters
    ----------
    problem
        What is minimised.
    learn
        An online solver, which goes first. What it ends with is only evaluated.

    Returns
    -------
    The state to begin with. What is aliased is no longer free in its problem.
    """
    state = sampled = None
    share = sample_share(problem)
    if problem.design.penalty_factors:
        problem, state = without_aliased_unpenalised(problem)
    elif not (problem.design.l1 or problem.design.path):
        problem, state, sampled = without_aliased(problem, share)
    if learn:
        return learn(problem)
    if sampled is not None:
        state = problem.at(warm_start(problem, sampled, share))
        # Rows that the sample has not may have no mean there, by a link of which only linear predictors above 0 have one.
        state = state if np.isfinite(state.loss) else problem.at(problem.null_coefficients)
    elif state is None:
        state = problem.at(problem.null_coefficients)
    else:
        state = replace(state, blocks=state.information.restrict(problem.free))
    return Solution(problem, state)


def without_aliased(problem: Problem, share: float) -> tuple[Problem, State | None, State | None]:
    """The problem without aliased coefficients, and the sums at the null model over all rows, or over a sample of them.

    At the null model all weights are alike, so what is aliased there is aliased by the columns alone (docs/statistics.md:
    Aliasing). Columns that are independent on some of the rows are so on all of them: a sample that has all groups is enough to
    know that nothing is aliased, and a pass over all rows is saved.
    """
    design, size = problem.design, problem.design.size
    if share < 1.0 and not problem.family.quadratic:
        sampled = replace(problem, workload=problem.workload.sampled(share)).at(problem.null_coefficients)
        blocks = sampled.information
        # Groups that the sample lacks have no part in the rest of the matrix.
        blocks = replace(blocks, d=np.where(blocks.d > 0, blocks.d, 1.0))
        if design.l2 or (np.all(np.diag(blocks.a) > 0) and not len(null_vectors(blocks, size)[0])):
            return problem, None, sampled
    state = problem.at(problem.null_coefficients)
    if design.l2:
        return problem, state, None
    aliased, directions = redundant(problem, state.information)
    if len(aliased) and design.offset:
        aliased, directions = aliased_by_columns(problem, aliased, directions)
    return problem.without_aliased(aliased, directions), state, None


def redundant(problem: Problem, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """As `null_vectors`, but for columns that the rows show to be more than the others make of them.

    Squares lose half of the digits: a pivot of 1e-11 may be rounding error, or a column that can be estimated.
    """
    size = problem.design.size
    estimable: set[int] = set()
    while True:
        aliased, directions = null_vectors(blocks, size, estimable=estimable)
        if problem.design.equations:
            return aliased, directions
        more = {
            int(place)
            for place, direction in zip(aliased, directions, strict=True)
            if is_doubtful(blocks, int(place), direction) and left_of(problem, int(place), direction) > LEFT_ABOVE
        }
        if not more:
            return aliased, directions
        estimable |= more


def is_doubtful(blocks: Blocks, place: int, direction: np.ndarray) -> bool:
    """Whether squares cannot tell if a direction, which should move no row, moves some by a multiple of a column."""
    alone = np.where(np.arange(len(direction)) == place, direction, 0.0)
    left, whole = (float(each @ product(blocks, each)) for each in (direction, alone))
    return abs(left) > DOUBTFUL_ABOVE * whole


def left_of(problem: Problem, place: int, direction: np.ndarray) -> float:
    """The share of the squares of a column that a combination leaves, which a direction says to be nothing; row by row, so that
    nothing of it is lost."""
    linear = replace(
        problem.design, family=Gaussian.name, link=None, theta=None, power=None, response=None, trials=None, offset=None
    )
    workload = problem.workload.with_design(linear)
    alone = np.where(np.arange(len(direction)) == place, direction, 0.0)
    left, whole = (
        float(workload.sum(problem.executor, "gradient", linear.by_term(each))["loss"]) for each in (direction, alone)
    )
    return left / whole


def aliased_by_columns(problem: Problem, aliased: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is aliased with the same weight for each row, if that is less: with an offset the weights at the null model differ as
    exp(offset) does, and columns that only rows of hardly any weight tell apart seem to be alike."""
    fewer, of_fewer = redundant(problem, of_columns(problem))
    return (fewer, of_fewer) if len(fewer) < len(aliased) else (aliased, directions)


def without_aliased_unpenalised(problem: Problem) -> tuple[Problem, State]:
    """The problem without what is aliased among the coefficients that no penalty acts on, which alone can be, and the sums at the
    null model."""
    state = problem.at(problem.null_coefficients)
    unpenalised = problem.free & (problem.design.penalised_coefficients == 0)
    return problem.without_aliased(*redundant(problem, state.information.restrict(unpenalised))), state


def sample_share(problem: Problem) -> float:
    """The share of the rows on which to take the first steps; 1 if there are too few for a sample to pay. Those of a file that
    stand for many (`frequency`) are no more than they are."""
    rows, limits = float(problem.counts["rows"]), problem.run.limits
    if problem.design.frequency:
        rows = min(rows, problem.workload.rows)
    fewest = max(limits.sample_rows, limits.sample_rows_per_coefficient * problem.free_count)
    share = max(limits.sample_share, fewest / rows)
    return float(share) if share <= limits.largest_sample else 1.0


def warm_start(problem: Problem, state: State, share: float) -> np.ndarray:
    """Coefficients near the optimum, from steps on a sample of the rows, at which `state` has been summed, [p]."""
    ridge = share * problem.ridge + np.where(problem.ridge > 0, 0.0, WARM_RIDGE)
    if problem.design.intercept is not None:
        ridge[problem.design.intercept] = 0.0
    live = problem.run.reporter.live
    run = replace(problem.run, reporter=Reporter(live=lambda message: live(f"on {share:.0%} of the rows, {message}")))
    sampled = replace(problem, workload=problem.workload.sampled(share), ridge=ridge, run=run)
    until = WARM_UNTIL * problem.free_count
    search = NewtonSearch(sampled, state, share * float(problem.counts["rows"]), WARM_ITERATIONS, until, is_exact=False)
    search.run()
    return search.state.coefficients
