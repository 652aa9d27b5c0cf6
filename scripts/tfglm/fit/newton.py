"""Newton's method for the exact maximum likelihood estimate, synchronous: every sum is over all rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import tensorflow as tf

from tfglm.errors import UserError
from tfglm.fit import inference
from tfglm.fit.information import Blocks, Factored, assemble, factor, gradient, null_vectors
from tfglm.model.design import INTERCEPT, Design
from tfglm.model.families import FAMILIES
from tfglm.model.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted
from tfglm.model.parametrisation import hold, most_frequent_first, null_space, to_fit_scale
from tfglm.model.passes import Sums
from tfglm.model.workload import Workload

CONVERGED_BELOW = 1e-12
"""Of lambda^2 = g' I^-1 g at the returned coefficients; its root bounds every |Newton step| / standard error."""

SHORTEST_STEP = 2.0**-20

DRIFTING_ABOVE = 1e-3
"""Largest entry of a Newton step that belongs to an estimate. Where the maximum is at infinity, the loss and lambda^2 vanish
all the same, but each step is as long as the one before."""

WARM_SHARE = 0.05
"""Of the rows, on which the first steps are taken if there are enough."""

WARM_ROWS_PER_COEFFICIENT = 20
FEWEST_WARM_ROWS = 50_000

WARM_ITERATIONS = 12
WARM_UNTIL = 0.25
"""Of lambda^2 there, for each coefficient: closer to their optimum than that is to the one of all rows."""

WARM_RIDGE = 1.0
"""Penalty on these steps (times b^2 / 2), as a rare group may have responses that are all alike among the rows sampled."""

FRESH = 1e-6
"""How far any linear predictor may move until the information has to be summed anew before it is reported: its weights change
by no greater share."""

FAR = 0.005
"""How far the linear predictors may move, in quadratic mean, while an older information matrix is good enough for the next step:
each leaves about this share of the error, and costs a third of one with a new matrix."""

SLOW = 0.1
"""Share of lambda^2 that such a step must not leave."""


@dataclass(frozen=True)
class State:
    """Where the iteration stands: the coefficients, and the sums of a gradient or information pass there."""

    coefficients: np.ndarray
    sums: Sums


@dataclass(frozen=True)
class Problem:
    """What is minimised: the loss of the workload's rows, and strength * b^2 / 2 for each coefficient, over the free ones."""

    workload: Workload
    pool: object
    free: np.ndarray
    strength: np.ndarray

    def at(self, coefficients: np.ndarray, sums: str = "information") -> State:
        return State(coefficients, self.workload.sum(self.pool, sums, self.workload.design.by_term(coefficients)))

    def objective(self, state: State) -> float:
        return float(state.sums["loss"]) + 0.5 * float(self.strength @ state.coefficients**2)

    def gradient(self, state: State) -> np.ndarray:
        """Of the objective, by the free coefficients; 0 for the others."""
        found = gradient(self.workload.design, state.sums) + self.strength * state.coefficients
        return np.where(self.free, found, 0.0)

    def blocks(self, state: State) -> Blocks:
        made = assemble(self.workload.design, state.sums)
        return (made.penalised(self.strength) if self.strength.any() else made).restrict(self.free)


@dataclass(frozen=True)
class Maximum:
    """Where the likelihood is largest, over the rows that are left once those of separated groups are gone (`counts`).

    `state` is the last one, `summed` the last with an information matrix, of which `factored` is made; they are FRESH.
    """

    problem: Problem
    counts: Sums
    status: np.ndarray
    null: np.ndarray
    null_loss: float
    state: State
    summed: State
    factored: Factored
    certificate: float
    iterations: int


def fit(workload: Workload, pool, max_iterations: int, tell: Callable[[str], None]) -> Fitted:
    """Fit the workload's design on its rows; `pool.sum(pass_, calls, state)` adds a pass over shards.

    The result's `summary` is what fit.json reports. Raises UserError if the rows that are left have but one response.
    """
    design = workload.design
    counts = workload.sum(pool, "counts", design.by_term(np.zeros(design.size)))
    check_counts(design, counts)
    tell(f"{counts['rows']:,.0f} training rows, {design.size:,} coefficients with all levels")
    found = maximise(workload, pool, counts, max_iterations, tell)
    effective = inference.effective_coefficients(design, found.factored, found.summed.sums, design.l2)
    df_residual = float(found.counts["rows"]) - effective
    blocks = found.factored.blocks
    fitted = Fitted(
        coefficients=found.state.coefficients,
        status=found.status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        dense=blocks.dense,
        eliminated=blocks.eliminated,
        schur_inverse=found.factored.schur_inverse(),
        loadings=found.factored.loadings,
        diagonal=blocks.d,
        null_vectors=found.null,
        dispersion=dispersion(design, found.state.sums, df_residual),
    )
    pearson = float(found.state.sums["pearson"])
    fitted, remarks = inference.with_errors(fitted, found.problem.workload, pool, found.counts, df_residual, pearson)
    near = inference.nearly_aliased(found.factored)
    violation = np.abs(found.problem.gradient(found.state)).max() / found.counts["mass"]
    return replace(
        fitted,
        summary=summary(design, fitted, counts, found, effective)
        | {"largest_kkt_violation": float(violation)}
        | inference.describe(design, fitted, near)
        | {"likelihood_ratio_tests": likelihood_ratios(workload, pool, counts, found, max_iterations, tell)}
        | {"warnings": [*design.warnings, *remarks, *inference.remarks_on(design, near)]},
    )


def maximise(
    workload: Workload,
    pool,
    counts: Sums,
    max_iterations: int,
    tell: Callable[[str], None],
    without: str | None = None,
) -> Maximum:
    """The maximum of the likelihood, with all coefficients of the term `without`, if there is one, held at zero."""
    design = workload.design
    family = FAMILIES[design.family]
    if not design.l2:
        workload, counts = leave_out_separated(workload, pool, counts, tell, without)
    status = initial_status(design, workload, counts)
    if without is not None:
        status[design.slices[without]] = EMPTY
    null = np.zeros((0, design.size))
    if not design.l2:
        present = np.isin(status, (EMPTY, SEPARATED), invert=True)
        null = null_space(design, present, without) @ to_fit_scale(design).T.toarray()
        held, null = hold(null, most_frequent_first(design, by_coefficient(design, counts, "rows")))
        status[held] = REFERENCE
    start, strength = np.zeros(design.size), np.full(design.size, design.l2 * float(counts["mass"]))
    null_intercept, null_loss = null_model(workload, pool, counts)
    if design.intercept is not None:
        start[design.intercept], strength[design.intercept] = null_intercept, 0.0
    problem = Problem(workload, pool, status == FREE, strength)
    state, sampled, aliased, found = first_states(problem, start, counts)
    status[aliased] = ALIASED
    null = np.vstack([null, found])
    problem = replace(problem, free=status == FREE)
    if sampled is not None:
        state = problem.at(warm_start(problem, sampled, share_of_rows(problem, counts), tell))
    free = int(np.count_nonzero(problem.free))
    df_residual = float(counts["rows"]) - free
    if df_residual <= 0 and not family.dispersion_known and not design.l2:
        raise UserError(
            f"models.{design.model}: {counts['rows']:,.0f} training rows for {free:,} coefficients leave no residual variance to "
            f"estimate; use fewer terms, or more rows"
        )
    return Maximum(
        problem, counts, status, null, null_loss, *iterate(problem, state, df_residual, max_iterations, tell)
    )


def likelihood_ratios(
    workload: Workload,
    pool,
    counts: Sums,
    full: Maximum,
    max_iterations: int,
    tell: Callable[[str], None],
) -> list[dict]:
    """Likelihood ratio tests of the terms with separated levels, whose Wald test would leave these levels out.

    Each takes a fit without the term. The rows of separated levels have loss 0 in the full model, and so are in both.
    Only with classical standard errors, since it takes the family's variance for true as they do.
    """
    design = workload.design
    made = []
    for term in design.terms:
        where = design.slices[term.name]
        separated = int(np.count_nonzero(full.status[where] == SEPARATED))
        inside = any(term is not one and set(term.categorical) <= set(one.categorical) for one in design.terms)
        if (
            not separated
            or inside
            or design.std_errors != "classical"
            or len(design.terms) < 2 + (design.intercept is not None)
        ):
            continue
        tell(f"without {term.name}, for its likelihood ratio test:")
        try:
            less = maximise(workload, pool, counts, max_iterations, tell, term.name)
        except UserError as error:
            made.append({"term": term.name, "problem": str(error).splitlines()[0]})
            continue
        difference = 2 * float(less.state.sums["loss"] - full.state.sums["loss"])
        df = int(np.count_nonzero(full.problem.free)) + separated - int(np.count_nonzero(less.problem.free))
        made.append({"term": term.name, "chi_squared": difference, "df": df})
    return made


def check_counts(design: Design, counts: Sums) -> None:
    """Raise UserError for responses that the family cannot have, and if nothing has a weight."""
    if counts["not_finite"]:
        raise UserError(
            f"models.{design.model}.formula: a function has no finite value for {counts['not_finite']:,.0f} training rows, as "
            f"the logarithm of 0\n  leave them out with a condition in data.where"
        )
    if counts["out_of_range"]:
        what = (
            f"more events in `{design.response}` than trials in `{design.trials}`"
            if design.trials
            else (f"a response `{design.response}` out of the range of family {design.family}")
        )
        raise UserError(
            f"models.{design.model}: {counts['out_of_range']:,.0f} training rows have {what}\n"
            f"  leave them out with a condition in data.where, or correct them under data.derive"
        )
    if not counts["rows"]:
        raise UserError(
            f"models.{design.model}: no training row has a weight above 0; check `weights`, `frequency` and `trials`"
        )


def null_model(workload: Workload, pool, counts: Sums) -> tuple[float, float]:
    """Intercept and loss of the model with nothing but an intercept and the offset; without an intercept, of the offset alone."""
    design = workload.design
    family = FAMILIES[design.family]
    mean = float(counts["response"] / counts["mass"])
    intercept = family.link(mean) if design.intercept is not None else 0.0
    if not design.offset and family.dispersion_known:
        # The loss is linear in the response.
        loss = family.loss(tf.constant(intercept, tf.float64), tf.constant(mean, tf.float64))
        return intercept, float(loss) * float(counts["mass"])
    for _ in range(100):
        start = np.zeros(design.size)
        if design.intercept is not None:
            start[design.intercept] = intercept
        sums = workload.sum(pool, "null", design.by_term(start))
        step = float(sums["residual"] / sums["weight"]) if design.intercept is not None else 0.0
        if abs(step) <= 1e-12 * max(1.0, abs(intercept)):
            break
        # A long step overshoots where the mean is an exponential.
        intercept -= float(np.clip(step, -1.0, 1.0)) if family.dispersion_known else step
    return intercept, float(sums["loss"])


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
    if share < 1.0 and design.family != "gaussian":
        sampled = replace(problem, workload=problem.workload.sampled(share)).at(start)
        blocks = assemble(design, sampled.sums).restrict(problem.free)
        there = blocks.restrict(np.isin(np.arange(design.size), blocks.eliminated[blocks.d == 0], invert=True))
        if design.l2 or (np.all(np.diag(blocks.a) > 0) and not len(null_vectors(there, design.size)[0])):
            return None, sampled, *none
    state = problem.at(start)
    if design.l2:
        return state, None, *none
    return state, None, *null_vectors(assemble(design, state.sums).restrict(problem.free), design.size)


def share_of_rows(problem: Problem, counts: Sums) -> float:
    """The share of the rows on which to take the first steps; 1 if there are too few for that to pay."""
    fewest = max(FEWEST_WARM_ROWS, WARM_ROWS_PER_COEFFICIENT * np.count_nonzero(problem.free))
    share = max(WARM_SHARE, fewest / float(counts["rows"]))
    return float(share) if share <= 0.2 else 1.0


def warm_start(problem: Problem, state: State, share: float, tell: Callable[[str], None]) -> np.ndarray:
    """Coefficients near the optimum, from steps on a sample of the rows, whose sums `state` has."""
    strength = share * problem.strength + np.where(problem.strength > 0, 0.0, WARM_RIDGE)
    if problem.workload.design.intercept is not None:
        strength[problem.workload.design.intercept] = 0.0
    sampled = replace(problem, workload=problem.workload.sampled(share), strength=strength)

    def tell_so(message: str) -> None:
        tell(f"on {share:.0%} of the rows, {message}")

    until = WARM_UNTIL * np.count_nonzero(problem.free)
    state, *_ = iterate(sampled, state, np.inf, WARM_ITERATIONS, tell_so, until)
    return state.coefficients


def iterate(
    problem: Problem,
    state: State,
    df_residual: float,
    max_iterations: int,
    tell: Callable[[str], None],
    converged_below: float = CONVERGED_BELOW,
) -> tuple[State, State, Factored, float, int]:
    """Damped Newton from `state`, which has an information matrix; close to the optimum with one for several steps.

    Returns the last state, the last one with an information matrix, that matrix factored, lambda^2 of the last state, and the
    number of steps. The gradient is always at the returned coefficients; on all rows the information is FRESH there.
    """
    design = problem.workload.design
    exact = converged_below == CONVERGED_BELOW
    iteration = 0
    summed, factored, since = state, factorise(problem, state, iteration), Since()
    while True:
        slope = problem.gradient(state)
        step = factored.solve(slope)
        square = float(step @ slope)
        decrement = square / dispersion(design, state.sums, df_residual)
        # The sum of the weights of all rows is the largest entry, if anything in the formula is there for all rows.
        weight = np.diag(factored.blocks.a).max(initial=factored.blocks.d.max(initial=0.0))
        objective = problem.objective(state)
        if since.largest > FRESH and (decrement > SLOW * since.decrement or (exact and decrement <= converged_below)):
            state = problem.at(state.coefficients)
            summed, factored, since = state, factorise(problem, state, iteration), Since()
            continue
        tell(f"iteration {iteration}: loss {objective:.10g}, lambda^2 {decrement:.3g}")
        if (
            exact
            and decrement <= converged_below
            and np.abs(step).max() > DRIFTING_ABOVE
            and not problem.strength.any()
        ):
            refuse_separation(problem.workload, problem.pool, -step)
        if decrement <= converged_below or iteration == max_iterations:
            return state, summed, factored, decrement, iteration
        length = 1.0
        while True:
            after = since.moved(length * movement(design, step), length * np.sqrt(square / weight), decrement)
            again = after.mean > FAR or (after.largest > FRESH and after.next <= FRESH)
            trial = problem.at(state.coefficients - length * step, "information" if again else "gradient")
            # Near the optimum the loss changes by less than its rounding error: there the full step is taken.
            if problem.objective(trial) <= objective + 1e-12 * abs(objective):
                break
            length /= 2
            tell(f"  the loss rose to {problem.objective(trial):.10g}: trying {length:g} of the step")
            if length < SHORTEST_STEP:
                return state, summed, factored, decrement, iteration
        state, since, iteration = trial, after, iteration + 1
        if again:
            summed, factored, since = state, factorise(problem, state, iteration), Since()


@dataclass(frozen=True)
class Since:
    """What has happened since the information was summed: how far the linear predictors have moved, at most and in quadratic
    mean; how far at most in the last step, and lambda^2 before it; and how far they may move in the next step."""

    largest: float = 0.0
    mean: float = 0.0
    last: float = 0.0
    decrement: float = np.inf
    next: float = 0.0

    def moved(self, largest: float, mean: float, decrement: float) -> "Since":
        ratio = max(self.mean + mean, largest / self.last if self.last else 0.0)
        return Since(self.largest + largest, self.mean + mean, largest, decrement, largest * ratio)


def movement(design: Design, step: np.ndarray) -> float:
    """How far a step moves a linear predictor at most, numbers being one standard deviation from their mean; 0 where weights do
    not follow from it."""
    if design.family == "gaussian":
        return 0.0
    return sum(float(np.abs(step[part.where]).max(initial=0.0)) for part in design.parts)


def factorise(problem: Problem, state: State, iteration: int) -> Factored:
    """Raises UserError if the information matrix there is singular."""
    try:
        return factor(problem.blocks(state))
    except scipy.linalg.LinAlgError as error:
        raise UserError(
            f"models.{problem.workload.design.model}: the information matrix is singular after {iteration} iterations, though no "
            f"term is aliased: some combination of terms foretells the response without error, so its coefficients have no "
            f"finite estimate\n  leave out the terms whose coefficients grow, or merge their rare levels"
        ) from error


def leave_out_separated(
    workload: Workload, pool, counts: Sums, tell: Callable[[str], None], without: str | None = None
) -> tuple[Workload, Sums]:
    """The workload without the rows of separated groups of all terms but `without`, and its counts (STATISTICS: Separation).

    A group is separated when its responses are all 0, or all 1 with family binomial. Leaving out its rows can separate
    another: so until none is.
    """
    design = workload.design
    plain = {part.coding for part in design.parts if not part.multiplier and part.term.name != without}
    excluded: dict[tuple[str, ...], frozenset[int]] = {}
    while design.family != "gaussian":
        found = {}
        for number, coding in enumerate(design.codings):
            mass, events = counts[f"mass_{number}"], counts[f"response_{number}"]
            alike = (events == 0) | ((events == mass) & (design.family == "binomial"))
            groups = np.flatnonzero((mass > 0) & alike)
            if len(groups) and coding in plain:
                found[coding] = frozenset(groups.tolist())
                names = ", ".join(group_names(design, coding, groups[:20])) + (", ..." if len(groups) > 20 else "")
                tell(f"separated, so without a finite estimate: {':'.join(coding)} {names}")
        if not found:
            break
        excluded = {
            coding: excluded.get(coding, frozenset()) | found.get(coding, frozenset())
            for coding in {**excluded, **found}
        }
        workload = workload.without(excluded)
        counts = workload.sum(pool, "counts", design.by_term(np.zeros(design.size)))
    share_of_events = counts["response"] / counts["mass"] if counts["mass"] else 0.0
    if design.family != "gaussian" and (share_of_events == 0 or (share_of_events == 1 and design.family == "binomial")):
        raise UserError(
            f"models.{design.model}: the terms separate the response completely: once the levels whose responses are all "
            f"alike are left out, nothing is left to fit\n  remove the term that determines `{design.response}`"
        )
    return workload, counts


def group_names(design: Design, coding: tuple[str, ...], groups: np.ndarray) -> list[str]:
    levels = [design.factors[name].levels for name in coding]
    numbers = design.levels(coding)[groups]
    return [":".join(names[number] for names, number in zip(levels, group, strict=True)) for group in numbers]


def refuse_separation(workload: Workload, pool, direction: np.ndarray) -> None:
    """Raise UserError if `direction` moves no row away from its response, and some towards it: then it leads to infinity."""
    design = workload.design
    if design.family == "gaussian":
        return
    rows = workload.sum(pool, "separation", design.by_term(direction))
    if rows["against"] == 0 < rows["along"]:
        size = np.abs(direction)
        involved = [term for term, where in design.slices.items() if size[where].max() > DRIFTING_ABOVE * size.max()]
        raise UserError(
            f"models.{design.model}: the terms {', '.join(involved)} together separate {rows['along']:,.0f} rows by their "
            f"response, so their coefficients have no finite estimate\n  leave one of these terms out, or merge its rare levels"
        )


def initial_status(design: Design, workload: Workload, counts: Sums) -> np.ndarray:
    """FREE, but for separated groups and groups without rows."""
    status = np.full(design.size, FREE)
    for part in design.parts:
        if part.coding:
            of_part = status[part.where]  # a view
            of_part[counts[f"rows_{design.codings.index(part.coding)}"] == 0] = EMPTY
            if not part.multiplier:
                of_part[sorted(workload.excluded.get(part.coding, ()))] = SEPARATED
    return status


def dispersion(design: Design, sums: Sums, df_residual: float) -> float:
    """1 where the family knows it; else the residual variance RSS / (n - p)."""
    return 1.0 if FAMILIES[design.family].dispersion_known else 2 * float(sums["loss"]) / df_residual


def by_coefficient(design: Design, counts: Sums, what: str) -> np.ndarray:
    """A count by group for each coefficient, and that of all rows for parts without groups."""
    result = np.full(design.size, counts[what], float)
    for part in design.parts:
        if part.coding:
            result[part.where] = counts[f"{what}_{design.codings.index(part.coding)}"]
    return result


def summary(design: Design, fitted: Fitted, counts: Sums, found: Maximum, effective: float) -> dict:
    """The content of fit.json. Rows of separated groups are in none of the likelihoods, as if they had not been there."""
    family = FAMILIES[design.family]
    rows, loss, null_loss = float(found.counts["rows"]), float(found.state.sums["loss"]), found.null_loss
    saturated = float(found.counts["saturated"])
    estimated = int(np.count_nonzero(fitted.status == FREE))
    log_likelihood = family.log_likelihood(loss, float(found.counts["base"]), rows)
    # As in R, an estimated variance counts as a parameter.
    parameters = effective + (not family.dispersion_known)
    df_residual = rows - effective
    has_intercept = any(term.name == INTERCEPT for term in design.terms)
    result = {
        "model": design.model,
        "formula": design.formula,
        "family": design.family,
        "solver": "newton",
        "converged": found.certificate <= CONVERGED_BELOW,
        "certificate": {"lambda_squared": found.certificate, "converged_below": CONVERGED_BELOW},
        "iterations": found.iterations,
        "rows": int(counts["rows"]),
        "rows_of_separated_levels": int(counts["rows"] - found.counts["rows"]),
        "coefficients": estimated,
        "coefficients_aliased": int(np.count_nonzero((fitted.status == ALIASED) | (fitted.status == EMPTY))),
        "coefficients_separated": int(np.count_nonzero(fitted.status == SEPARATED)),
        "log_likelihood": log_likelihood,
        "deviance": 2 * (loss - saturated),
        "null_deviance": 2 * (null_loss - saturated),
        "df_residual": df_residual if design.l2 else int(df_residual),
        "df_null": int(rows) - has_intercept,
        "aic": -2 * log_likelihood + 2 * parameters,
        "bic": -2 * log_likelihood + float(np.log(rows)) * parameters,
        "pseudo_r_squared": 1 - (loss - saturated) / (null_loss - saturated) if null_loss > saturated else None,
        "pearson_dispersion": float(found.state.sums["pearson"]) / df_residual if df_residual > 0 else None,
    }
    if design.l2:
        result |= {"l2": design.l2, "effective_coefficients": effective}
    if not family.dispersion_known:
        result |= {"sigma": float(np.sqrt(fitted.dispersion)), "r_squared": result.pop("pseudo_r_squared")}
    return result
