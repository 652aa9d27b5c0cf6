"""Fit a model, from the first pass over the rows to the summary."""

from dataclasses import replace
from functools import partial

import numpy as np

from tfglm.design.checks import crossed_terms
from tfglm.design.parametrisation import together
from tfglm.engine.workload import Workload
from tfglm.errors import UserError, counted
from tfglm.inference.fitted import Fitted
from tfglm.solvers import (
    bounded,
    crossed,
    elastic_net,
    firth,
    instruments,
    newton,
    online,
    origin,
    path,
    profile,
    shape,
    smooth,
)
from tfglm.solvers.absorbed import AbsorbedObjective
from tfglm.solvers.certificate import certify
from tfglm.solvers.classes import ClassesObjective, OrderedObjective
from tfglm.solvers.covariance import estimates, with_errors
from tfglm.solvers.crossed import CrossedObjective
from tfglm.solvers.firth import FirthObjective
from tfglm.solvers.likelihood_ratio import likelihood_ratios, penalised_likelihood_ratios
from tfglm.solvers.objective import CountedRows, Objective, Solution
from tfglm.solvers.parallel_slopes import parallel_slopes
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.report import report
from tfglm.solvers.run import Run
from tfglm.solvers.separation import solve_without_separated
from tfglm.solvers.smooth import SmoothObjective


def fit(
    workload: Workload, run: Run, held_out: Workload | None = None, rows_of_errors: Workload | None = None
) -> Fitted:
    """Fit the workload's design to its rows.

    Parameters
    ----------
    workload
        The design and the rows.
    run
        The executor, the solver with its settings, and the reporter.
    held_out
        The rows that decide when an online solver stops, and which penalty of a path is chosen.
    rows_of_errors
        The rows before collapsing, if the collapsed rows lack their clusters. Standard errors are summed over these rows.

    Returns
    -------
    Estimates and covariance; `summary` is what fit.json reports.

    Raises
    ------
    UserError
        If the family cannot have the responses, if the terms separate all rows, or if the solver fails.
    """
    # 1. Estimate the shape of the family, if it is not known; from here on the shape is fixed.
    original_rows, estimated = workload, None
    if not workload.design.distribution.shape_is_known:
        estimated = shape_of(workload, run)
        workload, held_out = with_shape(workload, estimated), held_out and with_shape(held_out, estimated)
    structural, workload = workload.design, workload.with_design(workload.design.with_instruments())
    design = workload.design
    # 2. Choose the objective: count the rows, drop separated rows, and hold redundant coefficients at zero.
    objective = objective_of(workload, run)
    run.reporter.tell(
        f"{objective.counted.original_counts['rows']:,.0f} training rows, {design.size:,} coefficients with all levels"
    )
    held_out = rows_held_out(objective, held_out and origin.counted_alike(held_out, objective.counted))
    # 3. Begin at the null model, at the optimum of a sample, or at the result of an online solver.
    start = objective.begin(partial(online.solve, held_out=held_out) if run.settings.online_solver else None)
    if estimated and estimated.near:
        start = replace(start, near=estimated.near)
    if design.instruments:
        return instruments.fit(start, structural)
    # 4. Solve. If several terms separate rows together, solve again without these rows.
    solution = solve_without_separated(start, partial(solve, held_out=held_out))
    del start, objective  # their sums may be large
    if estimated and estimated.root is not None:
        solution = replace(solution, smoothing_root=estimated.root[np.newaxis])
    solution = newton.with_observed(solution)
    fitted, has_errors = estimates(solution), solution.has_covariance and not solution.path
    # 5. Certify: bound the distance of the estimates from the maximum.
    if has_errors:
        solution = replace(solution, certificate=certify(solution, fitted))
    # 6. Compute standard errors, likelihood ratio tests and profile intervals.
    of_rows, moved = solution, origin.shift(solution.objective)
    if rows_of_errors:
        rows = rows_of_errors.as_in(solution.objective.workload)
        of_rows = replace(solution, objective=replace(solution.objective, workload=rows))
    tests, intervals = [], []
    if not solution.converged:
        fitted = fitted.without_errors()
    elif has_errors:
        fitted = replace(fitted, covariance=with_errors(fitted.covariance, of_rows))
        # Theta is re-estimated in each smaller model, as R's anova does for two negative binomial fits.
        theta_is_free = (
            estimated is not None
            and design.distribution.dispersion_known
            and design.inference.std_errors == "classical"
        )
        less = partial(without, solution.objective, original_rows if theta_is_free else None)
        tests = (
            penalised_likelihood_ratios(solution)
            if design.likelihood.firth
            else []
            if design.bounds
            else likelihood_ratios(solution, less, estimated)
        )
        intervals = profile.intervals(solution, fitted, moved, theta_is_free)
    # 7. Report.
    summary = report(of_rows, fitted, tests, estimated)
    if design.inference.profile:
        summary["profile"] = intervals
    if design.likelihood.is_ordered and has_errors and solution.converged and not design.has_penalties:
        summary["parallel_slopes"] = parallel_slopes(solution)
    return replace(
        fitted,
        coefficients=fitted.coefficients + moved,
        path=fitted.path and replace(fitted.path, coefficients=fitted.path.coefficients + moved),
        summary=summary,
    )


def objective_of(workload: Workload, run: Run, without: str | None = None) -> Objective:
    """Choose the objective of a fit of the workload's design, in the model `without` a term if one is named.

    Raises
    ------
    UserError
        For responses that the family cannot have.

    Examples
    --------
    Two carriers have ten flights each; three and six are late. In the null model all have the probability 0.45:

    >>> objective = objective_of(workload, Run(LocalExecutor()))
    >>> objective.free_count
    2
    >>> start = objective.begin().point
    >>> round(objective.value(start), 4), round(-9 * math.log(0.45) - 11 * math.log(0.55), 4)
    (13.7628, 13.7628)
    """
    design, counted = workload.design, origin.counted(workload, run.executor)
    if design.absorbed:
        return AbsorbedObjective.of(counted, run)
    kind: type[PlainObjective] = (
        FirthObjective if design.likelihood.firth else SmoothObjective if design.smooths else PlainObjective
    )
    if crossed_terms(design):
        kind = CrossedObjective
    if design.bounds:
        kind = bounded.BoundedObjective
    if design.equations:
        kind = OrderedObjective if design.likelihood.is_ordered else ClassesObjective
    return kind.of(counted, run, without)


def solve(start: Solution, held_out: Workload | None) -> Solution:
    """Solve with the method that the model needs. After an online solver alone, only measure the distance to the maximum."""
    design = start.objective.design
    if design.likelihood.firth:
        return firth.solve(start)
    if isinstance(start.objective, CrossedObjective):
        return crossed.solve(start)
    if design.smooths:
        return smooth.solve(start)
    if design.penalty.path:
        return path.solve(start, design.penalty.path, held_out)
    if design.penalty.l1:
        return elastic_net.solve(start)
    return bounded.solve(start) if design.bounds else newton.solve(start)


def shape_of(workload: Workload, run: Run, without: str | None = None) -> shape.Shape:
    """The estimate of the shape of the family. `without` names a term to leave out."""
    if workload.design.smooths:
        poisson = solve_without_separated(objective_of(workload, run).begin(), smooth.solve)
        if poisson.smooths:
            return shape.by_restricted_likelihood(poisson)
    solve_again = partial(solve_without_separated, solve=bounded.solve if workload.design.bounds else newton.solve)
    return shape.estimate(solve_again(objective_of(workload, run, without).begin()), solve_again)


def with_shape(rows: Workload, estimated: shape.Shape) -> Workload:
    """The rows with a design that takes the estimated shape of the family as known."""
    return rows.with_design(rows.design.as_fitted({estimated.name: estimated.value, "origins": estimated.origins}))


def without(objective: Objective, rows_for_theta: Workload | None, term: str) -> Solution:
    """The fit without a term. With rows `rows_for_theta`, theta is re-estimated over them."""
    assert isinstance(objective, PlainObjective)
    run, counted = objective.run, objective.counted
    if rows_for_theta:
        rows = rows_for_theta.with_design(together(rows_for_theta.design))
        return solve_without_separated(
            objective_of(with_shape(rows, shape_of(rows, run, term)), run, term).begin(), newton.solve
        )
    if counted.original.constant is None:
        # If there is no constant column, the origin of the responses is part of the model.
        counted = CountedRows(counted.workload.with_design(counted.original), counted.original_counts, *counted[2:])
    design = together(counted.workload.design)
    counted = counted._replace(workload=counted.workload.with_design(design), original=design)
    return solve_without_separated(type(objective).of(counted, run, term).begin(), newton.solve)


def rows_held_out(objective: Objective, held_out: Workload | None) -> Workload | None:
    """The held-out rows; None if there are none. Raises UserError if the settings need them and the model predicts none."""
    design, settings = objective.design, objective.run.settings
    there = held_out if held_out and held_out.rows else None
    needs = {
        "path.select: held_out": design.penalty.path and design.penalty.path.select == "held_out",
        "online.patience": settings.online_solver and settings.online.patience,
    }
    for key in (key for key, needed in needs.items() if needed):
        if not there:
            raise UserError(
                f"models.{design.model}.{key}: there are no rows to evaluate on\n"
                "  correct the condition data.split.evaluate"
            )
        if not there.sum(objective.executor, "counts", there.design.by_term(np.zeros(there.design.size)))["rows"]:
            raise UserError(
                f"models.{design.model}.{key}: the model can predict none of the {counted(there.rows, 'row')} to evaluate "
                "on, as when all have levels that no training row has\n"
                "  correct the condition data.split.evaluate, or the formula"
            )
    return there
