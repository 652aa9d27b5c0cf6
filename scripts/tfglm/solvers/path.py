"""A path of penalties: fit an elastic net for each penalty, the largest first, and choose a penalty.

1. The config gives the penalties. By default they are evenly spaced on the logarithmic scale, from the smallest penalty
   that sets all coefficients to 0.
2. For each penalty, F is minimised (solvers.elastic_net) from the coefficients and the information matrix of the penalty before.
3. The chosen penalty has the smallest deviance on held-out rows or the smallest AIC, or the rule of a cross-validation chooses
   it.

A cross-validation sums the deviance of each penalty on rows outside its fit, fold by fold of the training rows:

1. For each fold, follow the path over the rows of the other folds, at the penalties of all rows.
2. d_k is the mean deviance of a row in fold k, and w_k is the sum of its weights. The deviance of a penalty is
   d = sum w_k d_k / sum w_k. Its standard error is the root of sum w_k (d_k - d)^2 / sum w_k / (K - 1), as in cv.glmnet.
   (Hastie, Tibshirani & Friedman, The Elements of Statistical Learning, 2009, 7.10.)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfglm.config import PathConfig
from tfglm.design.design import Design
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import EMPTY, SEPARATED
from tfglm.solvers import elastic_net, quadratic
from tfglm.solvers.information import NO_BLOCKS
from tfglm.solvers.objective import CountedRows, CrossValidation, Objective, PathPoint, Point, Solution
from tfglm.solvers.prepare import count
from tfglm.solvers.run import Reporter
from tfglm.solvers.separation import solve_without_separated

LEAST_L1_RATIO = 1e-3
"""Smallest l1_ratio in the choice of the first penalty, because a ridge sets no coefficient to zero."""

FORBIDDING = 1e300
"""A lasso penalty that is larger than any gradient."""

CRITERIA = {
    "held_out": "deviance on the held-out rows",
    "aic": "AIC",
    "cross_validation": "deviance on the folds held out",
}


def solve(start: Solution, settings: PathConfig, held_out: Workload | None) -> Solution:
    """The chosen point of the path. `start` is the model with the intercept alone. Raises UserError if no term has an effect."""
    objective = start.objective
    points = follow(objective, unpenalised_alone(start), settings, held_out)
    validated = None
    if settings.select == "cross_validation":
        wanted = settings.model_copy(update={"penalties": [point.penalty for point in points]})

        def follow_without_fold(objective: Objective, held_out: Workload) -> list[PathPoint]:
            def follow_from(start: Solution) -> Solution:
                points = follow(start.objective, unpenalised_alone(start), wanted, held_out)
                return replace(start, path=tuple(points))

            return list(solve_without_separated(objective.begin(), follow_from).path)

        validated = cross_validate(objective, len(points), follow_without_fold)
        chosen = validated.chosen(settings.rule)
    else:
        values = [point.deviance_held_out if settings.select == "held_out" else aic(point) for point in points]
        chosen = int(np.argmin(np.array(values, float)))  # 3.
    what = "is the strongest within one standard error of the least" if settings.rule == "one_se" else "has the least"
    objective.run.reporter.tell(f"penalty {points[chosen].penalty:.4g} {what} {CRITERIA[settings.select]}")
    end = elastic_net.solution(start, points[chosen])
    return replace(end, path=tuple(points), chosen=chosen, cross_validation=validated)


def unpenalised_alone(start: Solution) -> Point:
    """The model of the unpenalised terms; if there are none, the model with the intercept alone, which is the start. Raises
    Drifting if these terms separate the response."""
    objective = start.objective
    if not any(factor == 0 for _, factor in objective.design.penalty.factors):
        return start.point
    factors = objective.design.penalised_coefficients
    alone = replace(objective, lasso=np.where(factors > 0, FORBIDDING, 0.0))
    # The precision is relative to the penalty at which terms enter, at the null model.
    slopes = np.where(factors > 0, objective.gradient(start.point), 0.0)
    entering = float(np.abs(slopes).max()) / objective.weight_sum
    begun = without_penalised(objective, start.point)
    nothing = np.zeros(len(begun.coefficients))
    point = elastic_net.minimise(alone, begun, begun.information, nothing, entering).point
    elastic_net.check_drift(objective, point)
    return point if point.blocks else objective.at(point.coefficients)


def without_penalised(objective: Objective, point: Point) -> Point:
    """The closest point whose penalised coefficients are 0, measured by the linear predictor.

    If there is no intercept, the null model has nonzero coefficients of a factor, which may be penalised. Raises UserError if
    rows have no mean at the point.
    """
    left_out = np.where(objective.unpenalised, 0.0, point.coefficients)
    if not left_out.any():
        return point
    blocks = point.information
    instead = quadratic.newton(blocks, objective.unpenalised, -blocks.times(left_out))
    point = objective.at(point.coefficients - left_out + instead)
    if not np.isfinite(point.loss):
        raise UserError(
            f"models.{objective.design.model}.unpenalised: without an intercept a path begins with these terms alone, and some "
            "rows then have no mean; write the formula with an intercept, or choose `link: log`"
        )
    return point


def follow(objective: Objective, point: Point, settings: PathConfig, held_out: Workload | None) -> list[PathPoint]:
    """Follow the path from the model of the unpenalised terms (`unpenalised_alone`); each fit begins at the minimum for the
    penalty before. The deviance of `held_out` is summed at each point. The points lack their information matrices, which
    together would be too large."""
    ends: list[PathPoint] = []
    reporter, null_loss, saturated = objective.run.reporter, point.loss, None
    near, correction = point.information, np.zeros(len(point.coefficients))
    wanted = penalties(objective, point, settings)  # 1.
    for penalty in wanted:
        penalised = objective.penalised(settings.l1_ratio * penalty, (1 - settings.l1_ratio) * penalty)
        end = elastic_net.minimise(penalised, point, near, correction, penalty)  # 2.
        if held_out:
            if saturated is None:
                nothing = np.zeros(held_out.design.size)
                saturated = held_out.sum(objective.executor, "counts", held_out.design.by_term(nothing))["saturated"]
            by_term = held_out.design.by_term(end.point.coefficients)
            loss = held_out.sum(objective.executor, "gradient", by_term)["loss"]
            end = replace(end, deviance_held_out=2 * float(loss - saturated))
        # The quadratic approximation has about the same error at the next penalty.
        point, near, correction = end.point, end.near, end.correction
        effective = elastic_net.effective_coefficients(end)
        ends.append(
            replace(end, effective=effective, near=NO_BLOCKS, point=replace(elastic_net.least(end), blocks=None))
        )
        reporter.advance(len(ends), len(wanted))
        explained = 1 - point.loss / null_loss
        reporter.record(len(ends), {"path/penalty": penalty, "path/loss explained": explained})
        reporter.live(
            f"penalty {penalty:.4g}: {np.count_nonzero(point.coefficients):,} coefficients are not zero, "
            f"{end.iterations} iterations, KKT violation {end.violation / penalty:.1g} of the penalty"
        )
    return ends


def penalties(objective: Objective, point: Point, settings: PathConfig) -> list[float]:
    """The penalties of the path, the largest first. `point` is the model of the unpenalised terms."""
    if settings.penalties:
        return sorted(settings.penalties, reverse=True)
    factors = objective.design.penalised_coefficients
    gradient = np.abs(objective.gradient(point))[factors > 0] / factors[factors > 0]
    largest = float(gradient.max(initial=0.0)) / objective.weight_sum / max(settings.l1_ratio, LEAST_L1_RATIO)
    if not largest:
        raise UserError(
            f"models.{objective.design.model}.path: all penalised coefficients are 0 at any penalty; remove the key"
        )
    return np.geomspace(largest, settings.smallest * largest, settings.number).tolist()


def aic(end: PathPoint) -> float | None:
    """The AIC with the effective number of coefficients; None if the family has no likelihood. For a lasso this is the
    number of nonzero coefficients (Zou, Hastie & Tibshirani, Annals of Statistics 35, 2007)."""
    log_likelihood = end.objective.likelihood(end.point)
    if log_likelihood is None:
        return None
    return -2 * log_likelihood + 2 * (end.effective + (not end.objective.family.dispersion_known))


Follow = Callable[[Objective, Workload], list[PathPoint]]
"""A function that follows the path for an objective, and sums the deviance of held-out rows at each point."""


def cross_validate(objective: Objective, penalties: int, follow: Follow) -> CrossValidation:
    """Hold out each fold in turn, and `follow` the path without it. Raises UserError if a fold has no rows, or if the
    responses of the other rows are all alike, or if unpenalised terms separate them."""
    folds = objective.design.folds
    assert folds
    by_fold, weights, rows = np.zeros((folds.number, penalties)), np.zeros(folds.number), np.zeros(folds.number)
    not_converged = 0
    for fold in range(folds.number):
        train, held_out = (rows_of_fold(objective.workload, fold, held) for held in (False, True))
        of_held = count_fold(objective, held_out, fold)
        counts = count(train, objective.executor)
        if objective.family.at_an_end(counts["response"], counts["weight_sum"]):
            raise UserError(
                f"models.{objective.design.model}.path.folds: the responses of the training rows without fold {fold + 1} are all "
                f"alike; use fewer folds"
            )
        counted = CountedRows(train, counts, train.design, counts)
        without = objective.of(counted, replace(objective.run, reporter=Reporter()))
        unknown = unknown_groups(without)
        if unknown:
            held_out = held_out.excluding(unknown)
            of_held = count_fold(objective, held_out, fold)
        try:
            points = follow(without, held_out)
        except UserError as error:
            raise UserError(
                f"models.{objective.design.model}.path.folds: without fold {fold + 1}: {str(error).partition(': ')[2]}"
            ) from error
        weights[fold], rows[fold] = float(of_held["weight_sum"]), float(of_held["rows"])
        by_fold[fold] = [(point.deviance_held_out or 0.0) / weights[fold] for point in points]
        not_converged += sum(not point.converged for point in points)
        objective.run.reporter.live(f"fold {fold + 1} of {folds.number}: {rows[fold]:,.0f} rows held out")
    return CrossValidation(by_fold, weights, rows, not_converged)


def unknown_groups(without: Objective) -> dict[tuple[str, ...], frozenset[int]]:
    """The groups of unpenalised terms that have no finite coefficient in the fit without a fold. These groups are separated
    or have no rows there. In a penalised term, a group without rows has the coefficient 0."""
    design = without.design
    unknown: dict[tuple[str, ...], frozenset[int]] = {}
    for part in design.parts:
        if part.grouping and not part.multiplier and part.term.name in design.unpenalised_terms:
            groups = np.flatnonzero(np.isin(without.status[part.where], (SEPARATED, EMPTY)))
            if len(groups):
                unknown[part.grouping] = frozenset(groups.tolist())
    return unknown


def rows_of_fold(workload: Workload, fold: int, held: bool) -> Workload:
    """The rows of a fold if `held`, otherwise all other rows."""
    design: Design = workload.design
    assert design.folds
    design = replace(design, folds=replace(design.folds, fold=fold, held=held))
    return Workload(design, workload.files, workload.split, cutting=workload.cutting)


def count_fold(objective: Objective, held_out: Workload, fold: int) -> Sums:
    """The counts of the rows of a fold. Raises UserError if there are none."""
    counts = held_out.sum(objective.executor, "counts", held_out.design.by_term(np.zeros(held_out.design.size)))
    if not counts["rows"]:
        raise UserError(f"models.{objective.design.model}.path.folds: fold {fold + 1} has no rows; use fewer folds")
    return counts
