"""The steps of a fit with absorbed factors, and what is said of it (solvers.absorbed)."""

from dataclasses import replace

import numpy as np

from tfglm.config.std_errors import ROBUST
from tfglm.engine.cells import task
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers.absorbed import AbsorbedProblem, Kept, prepare, without_separated_rows
from tfglm.solvers.certificate import rounding, within
from tfglm.solvers.describe import describe
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, SEPARATED, Fitted
from tfglm.solvers.inference import estimates, without_errors
from tfglm.solvers.newton import CONVERGED_BELOW, NewtonSearch
from tfglm.solvers.problem import Solution, State
from tfglm.solvers.run import Run
from tfglm.solvers.separation import Drifting, terms_in
from tfglm.solvers.sparse_information import SparseFactored


def fit(workload: Workload, run: Run, counts: Sums) -> Fitted:
    """Fit a design with absorbed factors. `counts` are those of all rows; the rest, and the errors, are as of `solvers.fit.fit`.

    The covariance that is returned is that of the coefficients which are reported.
    """
    problem, state = prepare(Kept(workload, counts, {}, {}), run)
    before = 0
    while True:
        try:
            solution, factored = solve(problem, state)
            break
        except Drifting as drifting:
            coefficients, before = drifting.coefficients, before + drifting.iterations
        # Some rows are seen to be separated only once others have left.
        less = without_separated_rows(problem)
        if less:
            problem, state = less
        else:
            problem = replace(problem, overlaps=True)
            state = problem.at(coefficients)
    solution = replace(solution, iterations=solution.iterations + before)
    fitted = with_separation(estimates(solution, counts), problem)
    if solution.has_covariance:
        solution = replace(solution, certificate=certify(solution, fitted, factored))
        fitted = with_errors(fitted, solution, factored) if solution.converged else without_errors(fitted)
    report = describe(solution, fitted, counts, [])
    report |= of_absorbed(problem, fitted, counts)
    return replace(fitted, summary=report | {"warnings": [*report["warnings"], *remarks(problem)]})


def solve(problem: AbsorbedProblem, state: State) -> tuple[Solution, SparseFactored]:
    """The maximum of the likelihood, from `state`. Raises UserError and Drifting as `newton.solve` does."""
    design = problem.design
    estimated = int(np.count_nonzero(problem.free[: design.reported_size])) + problem.identified
    df_residual = float(problem.counts["rows"]) - estimated
    if df_residual <= 0 and not problem.family.dispersion_known:
        raise UserError(
            f"models.{design.model}: {problem.counts['rows']:,.0f} training rows for {estimated:,} coefficients, of absorbed "
            f"factors too, leave no residual variance to estimate; absorb fewer factors, or coarser ones"
        )
    search = NewtonSearch(problem, state, df_residual, problem.run.max_iterations)
    search.run()
    factored = search.factored
    assert isinstance(factored, SparseFactored)
    perfect = problem.is_perfect(search.state, factored.blocks)
    solution = Solution(
        problem,
        search.state,
        factored.of_reported,
        iterations=search.iteration,
        converged=perfect or search.lambda_squared <= CONVERGED_BELOW,
        certificate={} if perfect else {"lambda_squared": search.lambda_squared},
        violation=problem.violation(search.state),
        effective=estimated,
        is_perfect=perfect,
        has_covariance=not perfect,
    )
    return solution, factored


def with_separation(fitted: Fitted, problem: AbsorbedProblem) -> Fitted:
    """The fit with the directions along which terms and absorbed factors separate rows: predictions of such rows are not finite,
    and coefficients that only they tell of are not identified."""
    across = problem.across
    if not across:
        return fitted
    further = ~np.isin(problem.held, across.held)
    others = np.zeros((np.count_nonzero(further), problem.design.size))
    others[:, : problem.design.reported_size] = problem.null_vectors[further]
    null = across.null_vectors if further.any() else problem.null_vectors
    return replace(
        fitted,
        null_vectors=null,
        separating=np.vstack([across.direction, others]),
        separated_rows=np.zeros((0, len(others))),
    )


def certify(solution: Solution, fitted: Fitted, factored: SparseFactored) -> dict[str, float]:
    """As `solvers.certificate.certify`, for the reported coefficients: what is wrong in the gradient of absorbed ones comes to
    these by Z'."""
    error = rounding(solution.problem, solution.state, fitted.rows)
    gradient = error.gradient.copy()
    blocks = factored.blocks
    gradient[blocks.dense] += error.gradient[blocks.eliminated] @ np.abs(factored.projection)
    square = solution.certificate["lambda_squared"]
    return {
        "lambda_squared": square,
        "converged_below": CONVERGED_BELOW,
        "within_standard_errors": within(square, replace(error, gradient=gradient), fitted, fitted.dispersion),
    }


def with_errors(fitted: Fitted, solution: Solution, factored: SparseFactored) -> Fitted:
    """The fit with the covariance that the design asks for (docs/statistics.md: Absorbed factors). By cluster it is CR1."""
    problem, df_residual = solution.problem, solution.df_residual
    assert isinstance(problem, AbsorbedProblem)
    design, rows = problem.design, float(problem.counts["rows"])
    if design.std_errors == "quasi":
        return replace(fitted, correction=solution.state.pearson / df_residual)
    if design.std_errors not in (*ROBUST, "cluster"):
        return fitted
    sums = left(solution, factored)
    free = len(fitted.dense)
    if design.std_errors in ROBUST:
        lower = np.tril(sums.reshape(free, free))
        meat = lower + np.tril(lower, -1).T
        mixed = np.zeros((free, 0))
        correction = 1.0 if design.std_errors == "HC0" else rows / df_residual
        return replace(fitted, meat_dense=meat, meat_mixed=mixed, correction=correction)
    assert design.cluster
    of_cluster, scores = np.split(sums, [design.cluster.count])
    scores = scores.reshape(design.cluster.count, free)[of_cluster > 0]
    clusters = len(scores)
    estimated = free + problem.identified_by_clusters
    correction = clusters / (clusters - 1) * (rows - 1) / (rows - estimated) if clusters > 1 else np.nan
    return replace(fitted, scores=scores, correction=correction)


def left(solution: Solution, factored: SparseFactored) -> np.ndarray:
    """The sums of the task `left` (engine.cells) at the estimates."""
    problem, dense = solution.problem, factored.blocks.dense
    design, workload = problem.design, problem.workload
    columns = np.full(design.reported_size, -1.0)
    columns[dense] = np.arange(len(dense))
    state = workload.state(solution.state.coefficients) | {"loadings": factored.projection, "columns": columns}
    of_signatures = [
        problem.executor.sum(task(workload.passes(signature), "left"), calls, state)
        for signature, calls in workload.calls.items()
    ]
    return np.sum(of_signatures, axis=0)


def of_absorbed(problem: AbsorbedProblem, fitted: Fitted, counts: Sums) -> dict:
    """What fit.json says of the absorbed factors, and in place of what counts all coefficients."""
    design, reported = problem.design, fitted.reported(problem.design)
    rows_across = problem.across.rows if problem.across else 0
    left_out = int(counts["rows"] - problem.counts["rows"])
    unknown = max(len(fitted.separating) - 1, 0)
    factors = []
    for number, k in enumerate(design.absorbed_parts):
        part = design.parts[k]
        factors.append(
            {
                "factor": part.term.name,
                "levels": int(np.count_nonzero(problem.free[part.where])),
                "singletons": len(problem.kept.singletons.get(part.grouping, ())),
                "separated": int(np.count_nonzero(problem.status[part.where] == SEPARATED)),
                "redundant": problem.index.pattern.redundant[number],
                "nested_in_clusters": k in problem.index.nested,
            }
        )
    return {
        "formula": f"{design.formula} | {' + '.join(design.absorbed)}",  # as fixest and pyfixest write it
        "coefficients": int(np.count_nonzero(reported.status == FREE)),
        "coefficients_aliased": int(np.count_nonzero(np.isin(reported.status, (ALIASED, EMPTY)))) - unknown,
        "coefficients_separated": int(np.count_nonzero(reported.status == SEPARATED)) + unknown,
        "rows_of_separated_levels": problem.kept.rows_separated,
        "rows_separated_across_terms": rows_across,
        "absorbed": {
            "factors": factors,
            "coefficients": problem.identified,
            "pairs_of_levels": sum(problem.index.sizes),
            "rows_left_out": left_out,
            "rows_of_singletons": left_out - problem.kept.rows_separated - rows_across,
        },
    }


def remarks(problem: AbsorbedProblem) -> list[str]:
    """That rows are separated, and that absorbed factors fall into groups of levels that no row connects."""
    design, redundant, across = problem.design, problem.index.pattern.redundant, problem.across
    names = [design.parts[k].term.name for k in design.absorbed_parts]
    together = ", ".join(f"`{term}`" for term in terms_in(design, np.abs(across.direction))) if across else ""
    said = (
        [
            f"{together} separate {across.rows:,} rows by their response, though no level does by itself: these rows have left "
            f"the likelihood, and have no prediction"
        ]
        if across
        else []
    )
    return said + [
        f"the levels of `{name}` and of {' or '.join(f'`{other}`' for other in names[:number])} fall into {groups:,} groups that "
        f"no training row connects: the prediction of a row with levels of two groups would depend on what cannot be estimated"
        for number, (name, groups) in enumerate(zip(names, redundant, strict=True))
        if groups > 1
    ]
