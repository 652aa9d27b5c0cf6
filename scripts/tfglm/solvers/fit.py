"""A fit, from its first pass over the rows to its summary: prepare, start, solve, certify, describe."""

from dataclasses import replace
from functools import partial

from tfglm.config import SolverConfig
from tfglm.design.design import Design
from tfglm.design.parametrisation import together
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers import absorbed_fit, elastic_net, firth, newton, online, origin, path, power, profile, shape, theta
from tfglm.solvers.across import solve_across
from tfglm.solvers.certificate import certify
from tfglm.solvers.describe import describe
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.inference import estimates, with_errors, without_errors
from tfglm.solvers.likelihood_ratio import likelihood_ratios
from tfglm.solvers.prepare import by_coefficient, count, null_model, prepare
from tfglm.solvers.problem import Solution
from tfglm.solvers.run import Run
from tfglm.solvers.start import begin

SHAPES = {
    "theta": shape.Method(theta.begin, theta.given_means),
    "power": shape.Method(power.begin, power.given_means),
}
"""How the shapes of families are estimated, by their names."""


def fit(
    workload: Workload, run: Run, held_out: Workload | None = None, rows_of_errors: Workload | None = None
) -> Fitted:
    """Fit the workload's design to its rows.

    Parameters
    ----------
    workload
        The design and the rows.
    run
        Who sums over the rows, the solver and its settings, and who hears how far it is.
    held_out
        The rows that decide when an online solver stops, and which penalty of a path is chosen.
    rows_of_errors
        Those that the workload has collapsed, if it does not have their clusters: standard errors are summed over them.

    Returns
    -------
    Estimates and covariance; `summary` is what fit.json reports.

    Raises
    ------
    UserError
        If the family cannot have the responses, if terms separate all of them, or if the solver goes astray.
    """
    design, as_asked = workload.design, workload
    estimated = None
    if not design.distribution.shape_is_known:
        estimated = with_shape(workload, run)
        known = {estimated.name: estimated.value}
        workload = workload.with_design(design.as_fitted(known))
        # Of its own design: rows that are kept back are never collapsed.
        held_out = held_out and held_out.with_design(held_out.design.as_fitted(known))
        design = workload.design
    # 1. Prepare: count the rows, leave out separated ones, hold at zero what the formula makes redundant.
    counts = count(workload, run.executor)
    run.reporter.tell(f"{counts['rows']:,.0f} training rows, {design.size:,} coefficients with all levels")
    plain, (workload, centred) = workload, origin.centred(workload, run.executor, counts)
    used = workload.design
    if design.absorbed:
        fitted = absorbed_fit.fit(workload, run, centred)
        fitted = replace(fitted, responses=by_coefficient(design, counts, "response"))
        return origin.from_zero(fitted, design, used)
    held_out = rows_held_out(design, run.settings, held_out)
    if held_out and workload is not plain:
        held_out = held_out.with_design(replace(held_out.design, origin=used.origin, offset=used.offset))
    problem = prepare(workload, run, centred)
    if workload is not plain and design.constant is None:
        problem = replace(problem, null_loss=null_model(plain, run.executor, counts)[1])
    # 2. Start: at the null model, near the optimum of a sample, or where an online solver has ended.
    start = begin(problem, partial(online.solve, held_out=held_out) if run.settings.online_solver else None)
    # 3. Solve; if terms separate rows together, without these rows.
    solution = solve_across(start, partial(solve, held_out=held_out))
    fitted, tests = estimates(solution, counts), []

    # Theta of the negative binomial is estimated anew in each smaller model, as R's anova does of two such fits.
    theta_is_free = estimated is not None and design.distribution.dispersion_known and design.std_errors == "classical"

    def fit_without(term: str) -> Solution:
        # Without the constant the origin is part of the model.
        of_term, of_counts = (workload, centred) if design.constant is not None else (plain, counts)
        of_term = of_term.with_design(together(of_term.design))
        if theta_is_free:
            asked = as_asked.with_design(together(as_asked.design))
            less = with_shape(asked, run, term)
            of_term = asked.with_design(asked.design.as_fitted({less.name: less.value}))
            of_counts = count(of_term, run.executor)
        return solve_across(begin(prepare(of_term, run, of_counts, term)), newton.solve)

    # 4. Certify: how far the estimates can be from the maximum, and how far that is from the truth.
    if solution.has_covariance and not solution.path:
        solution = replace(solution, certificate=certify(solution, fitted))
    if not solution.converged:
        fitted = without_errors(fitted)
    elif solution.has_covariance and not solution.path:
        fitted = with_errors(fitted, over_rows(solution, rows_of_errors))
        tests = (
            firth.likelihood_ratios(solution)
            if design.firth
            else likelihood_ratios(solution, fit_without, shapes=0 if estimated is None else 1)
        )
    has_profiles = solution.has_covariance and solution.converged
    profiles = profile.intervals(solution, fitted, theta_is_free) if has_profiles else []
    # 5. Describe.
    summary = describe(over_rows(solution, rows_of_errors), fitted, counts, tests, estimated)
    moved = origin.from_zero(fitted, design, used, solution.problem)
    if design.profile:
        summary["profile"] = origin.profiles_from_zero(profiles, design, fitted, moved) if profiles else []
    return replace(moved, summary=summary)


def over_rows(solution: Solution, rows: Workload | None) -> Solution:
    """The solution with the rows that are collapsed in its own; the same without any."""
    if rows is None:
        return solution
    problem = solution.problem
    return replace(solution, problem=replace(problem, workload=rows.as_in(problem.workload)))


def with_shape(workload: Workload, run: Run, without: str | None = None) -> shape.Shape:
    """The estimate of the shape of the family, in the model `without` a term if one is named."""
    solve_again = partial(solve_across, solve=newton.solve)
    first = solve_again(begin(prepare(workload, run, count(workload, run.executor), without)))
    return shape.estimate(first, SHAPES[workload.design.distribution.shape_name], solve_again)


def solve(start: Solution, held_out: Workload | None) -> Solution:
    """What the solver comes to that the model needs; after an online solver alone, only how far it is from there."""
    design = start.problem.design
    if design.firth:
        return firth.solve(start)
    if design.path:
        return path.solve(start, design.path, held_out)
    if design.l1:
        return elastic_net.solve(start)
    return newton.solve(start)


def rows_held_out(design: Design, settings: SolverConfig, held_out: Workload | None) -> Workload | None:
    """None if there are none. Raises UserError if they are needed then."""
    if held_out and held_out.rows:
        return held_out
    needs = {
        "path.select: held_out": design.path and design.path.select == "held_out",
        "online.patience": settings.online_solver and settings.online.patience,
    }
    for key, needed in needs.items():
        if needed:
            raise UserError(
                f"models.{design.model}.{key}: there are no rows to evaluate on\n"
                "  correct the condition data.split.evaluate"
            )
    return None
