"""Newton's method for the exact maximum likelihood estimate, synchronous: every sum is over all rows."""

from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.engine.passes import Sums
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.solvers.information import Factored, factor, null_vectors
from tfglm.solvers.problem import MOST_STEPS, SHORTEST_STEP, Problem, Since, State, dispersion, is_perfect, movement
from tfglm.solvers.reporter import Reporter
from tfglm.solvers.separation import DRIFTING_ABOVE, refuse_separation

CONVERGED_BELOW = 1e-12
"""Of lambda^2 = g' I^-1 g at the returned coefficients; its root bounds every |Newton step| / standard error."""

PRECISE_BELOW = 1e-18
"""Of lambda^2: where the steps end, as re-sharding must not move an estimate by 1e-9 standard errors; or where rounding errors
keep them from coming closer."""

WARM_SHARE = 0.05
"""Of the rows, on which the first steps are taken if there are enough."""

WARM_ROWS_PER_COEFFICIENT = 20
FEWEST_WARM_ROWS = 50_000

WARM_ITERATIONS = 12
WARM_UNTIL = 0.25
"""Of lambda^2 there, for each coefficient: closer to their optimum than that is to the one of all rows."""

WARM_RIDGE = 1.0
"""Penalty on these steps (times b^2 / 2), as a rare group may have responses that are all alike among the rows sampled."""

SLOW = 0.1
"""Share of lambda^2 that such a step must not leave."""


def first_states(
    problem: Problem, start: np.ndarray, counts: Sums
) -> tuple[State | None, State | None, np.ndarray, np.ndarray]:
    """The sums at `start` over all rows or over a sample, which coefficients are aliased, and the directions that show it.

    At the null model all weights are alike, so what is aliased there is aliased by the columns alone (STATISTICS: Aliasing).
    Columns that are independent on some of the rows are so on all of them: a sample that has all groups is enough to know
    that nothing is aliased, and a pass over all rows is saved.
    """
    design = problem.workload.design
    none = np.zeros(0, int), np.zeros((0, design.size))
    share = share_of_rows(problem, counts)
    if share < 1.0 and not FAMILIES[design.family].quadratic:
        sampled = replace(problem, workload=problem.workload.sampled(share)).at(start)
        # Groups that the sample lacks have no part in the rest of the matrix.
        blocks = replace(sampled.blocks, d=np.where(sampled.blocks.d > 0, sampled.blocks.d, 1.0))
        if design.l2 or (np.all(np.diag(blocks.a) > 0) and not len(null_vectors(blocks, design.size)[0])):
            return None, sampled, *none
    state = problem.at(start)
    if design.l2:
        return state, None, *none
    return state, None, *null_vectors(state.blocks, design.size)


def share_of_rows(problem: Problem, counts: Sums) -> float:
    """The share of the rows on which to take the first steps; 1 if there are too few for that to pay."""
    fewest = max(FEWEST_WARM_ROWS, WARM_ROWS_PER_COEFFICIENT * np.count_nonzero(problem.free))
    share = max(WARM_SHARE, fewest / float(counts["rows"]))
    return float(share) if share <= 0.2 else 1.0


def warm_start(problem: Problem, state: State, share: float, reporter: Reporter) -> np.ndarray:
    """Coefficients near the optimum, from steps on a sample of the rows, at which `state` has been summed."""
    strength = share * problem.strength + np.where(problem.strength > 0, 0.0, WARM_RIDGE)
    if problem.workload.design.intercept is not None:
        strength[problem.workload.design.intercept] = 0.0
    sampled = replace(problem, workload=problem.workload.sampled(share), strength=strength)

    said = Reporter(live=lambda message: reporter.live(f"on {share:.0%} of the rows, {message}"))
    until = WARM_UNTIL * np.count_nonzero(problem.free)
    state, *_ = iterate(sampled, state, np.inf, WARM_ITERATIONS, said, until)
    return state.coefficients


def iterate(
    problem: Problem,
    state: State,
    df_residual: float,
    max_iterations: int,
    reporter: Reporter,
    converged_below: float = CONVERGED_BELOW,
) -> tuple[State, Factored, float, int]:
    """Damped Newton from `state`, which has an information matrix; close to the optimum with one for several steps.

    Returns the last state, the last information matrix factored, lambda^2 of the last state (NaN if the fit is perfect), and the
    number of steps. The gradient is always at the returned coefficients; on all rows the information is FRESH there. Raises
    UserError if terms separate the response.
    """
    design = problem.workload.design
    exact = converged_below == CONVERGED_BELOW
    iteration, before = 0, 0.0
    factored, since = factorise(problem, state, iteration), Since()
    while True:
        if is_perfect(design, state, factored.blocks):
            return state, factored, np.nan, iteration
        slope = problem.gradient(state)
        step = factored.solve(slope)
        square = float(step @ slope)
        decrement = square / dispersion(design, state.loss, df_residual)
        # The sum of the weights of all rows is the largest entry, if anything in the formula is there for all rows.
        weight = np.diag(factored.blocks.a).max(initial=factored.blocks.d.max(initial=0.0))
        objective = problem.objective(state)
        if not since.is_fresh and (decrement > SLOW * since.decrement or (exact and decrement <= converged_below)):
            state = problem.at(state.coefficients)
            factored, since = factorise(problem, state, iteration, -step), Since()
            continue
        reporter.live(f"iteration {iteration}: loss {objective:.10g}, lambda^2 {decrement:.3g}")
        if exact:
            if converged_below < decrement < before:
                # As if every step to come shrank lambda^2 as the last one did.
                left = np.log(converged_below / decrement) / np.log(decrement / before)
                reporter.advance(iteration, min(iteration + int(np.ceil(left)), max_iterations))
            reporter.record(iteration, {"newton/loss": objective, "newton/lambda squared": decrement})
        drifting = exact and not problem.strength.any() and np.abs(step).max(initial=0.0) > DRIFTING_ABOVE
        closer = exact and decrement > PRECISE_BELOW and (iteration == 0 or decrement <= SLOW * before)
        ends = (decrement <= converged_below and not closer) or iteration == max_iterations
        if drifting and (decrement <= converged_below or ends):
            refuse_separation(problem.workload, problem.pool, [-step, state.coefficients])
        if ends:
            return state, factored, decrement, iteration
        length, before = 1.0, decrement
        while True:
            after = since.moved(length * movement(design, step), length * np.sqrt(square / weight), decrement)
            # Where the first steps end, on a sample, no information matrix is needed; elsewhere when it is worth a few steps, or
            # the one to come is too short to change it.
            again = exact and not after.is_fresh and not 1 < after.steps_left <= MOST_STEPS
            trial = problem.at(state.coefficients - length * step, "information" if again else "gradient")
            # Near the optimum the loss changes by less than its rounding error: there the full step is taken.
            if problem.objective(trial) <= objective + 1e-12 * abs(objective):
                break
            length /= 2
            reporter.live(f"  the loss rose to {problem.objective(trial):.10g}: trying {length:g} of the step")
            if length < SHORTEST_STEP:
                if drifting:
                    refuse_separation(problem.workload, problem.pool, [-step, state.coefficients])
                return state, factored, decrement, iteration
        state, since, iteration = trial, after, iteration + 1
        if again:
            factored, since = factorise(problem, state, iteration, -step), Since()


def factorise(problem: Problem, state: State, iteration: int, last_step: np.ndarray | None = None) -> Factored:
    """Raises UserError if the information matrix there is singular, because terms separate the response or for another reason."""
    try:
        return factor(state.blocks.penalised(problem.strength))
    except scipy.linalg.LinAlgError as error:
        # The weights of rows that are foretold without error vanish.
        steps = [] if last_step is None else [last_step]
        refuse_separation(problem.workload, problem.pool, [*steps, state.coefficients])
        raise UserError(
            f"models.{problem.workload.design.model}: the information matrix is singular after {iteration} iterations, though no "
            f"term is aliased and none was seen to separate the response\n  leave out the terms whose numbers are the largest "
            f"or vary the least, or those with the rarest levels, one at a time"
        ) from error
