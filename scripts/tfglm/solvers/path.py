"""A path of penalties: the elastic net for one after the other, the largest first, and the choice of one of them.

1. The penalties: those of the config, or evenly spread on the logarithmic scale from the least that sets all coefficients to 0.
2. For each, F is minimised (solvers.elastic_net) from the coefficients and the information matrix of the one before.
3. Chosen is the point with the least deviance on the rows held out, with the least AIC, or by cross-validation.
"""

from dataclasses import replace

import numpy as np

from tfglm.config import PathConfig
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers import elastic_net, quadratic
from tfglm.solvers.across import solve_across
from tfglm.solvers.cross_validation import cross_validate
from tfglm.solvers.information import NO_BLOCKS
from tfglm.solvers.problem import Point, Problem, Solution, State
from tfglm.solvers.start import begin

LEAST_L1_RATIO = 1e-3
"""In choosing the first penalty: a ridge leaves nothing at zero, however large."""

FORBIDDING = 1e300
"""A lasso that no gradient overcomes."""

CRITERIA = {
    "held_out": "deviance on the held-out rows",
    "aic": "AIC",
    "cross_validation": "deviance on the folds held out",
}


def solve(start: Solution, settings: PathConfig, held_out: Workload | None) -> Solution:
    """The chosen point of the path; `start` is the model with the intercept alone. Raises UserError if no term has an effect."""
    problem = start.problem
    points = follow(problem, unpenalised_alone(start), settings, held_out)
    validated = None
    if settings.select == "cross_validation":
        wanted = settings.model_copy(update={"penalties": [point.penalty for point in points]})

        def of_fold(problem: Problem, held_out: Workload) -> list[Point]:
            def follow_from(start: Solution) -> Solution:
                points = follow(start.problem, unpenalised_alone(start), wanted, held_out)
                return replace(start, path=tuple(points))

            return list(solve_across(begin(problem), follow_from).path)

        validated = cross_validate(problem, len(points), of_fold)
        chosen = validated.chosen(settings.rule)
    else:
        values = [point.deviance_held_out if settings.select == "held_out" else aic(point) for point in points]
        chosen = int(np.argmin(np.array(values, float)))  # 3.
    what = "is the strongest within one standard error of the least" if settings.rule == "one_se" else "has the least"
    problem.run.reporter.tell(f"penalty {points[chosen].penalty:.4g} {what} {CRITERIA[settings.select]}")
    end = elastic_net.solution(start, points[chosen])
    return replace(end, path=tuple(points), chosen=chosen, cross_validation=validated)


def unpenalised_alone(start: Solution) -> State:
    """The model of the terms that no penalty acts on; without any, that with the intercept alone, where the fit starts. Raises
    Drifting if these terms separate the response."""
    problem = start.problem
    if not any(factor == 0 for _, factor in problem.design.penalty_factors):
        return start.state
    of_each = problem.design.penalised_coefficients
    alone = replace(problem, lasso=np.where(of_each > 0, FORBIDDING, 0.0))
    # To within a share of what it takes to enter, at the null model.
    entering = float(np.abs(np.where(of_each > 0, problem.gradient(start.state), 0.0)).max()) / problem.weight_sum
    nothing = np.zeros(len(start.state.coefficients))
    begun = without_penalised(problem, start.state)
    state = elastic_net.minimise(alone, begun, begun.information, nothing, entering).state
    elastic_net.check_drift(problem, state)
    return state if state.blocks else problem.at(state.coefficients)


def without_penalised(problem: Problem, state: State) -> State:
    """A state with 0 where a penalty acts, of which the linear predictor is as near as it can be. Without an intercept the null
    model has coefficients that are penalised, those of a factor. Raises UserError if rows have no mean there."""
    left_out = np.where(problem.unpenalised, 0.0, state.coefficients)
    if not left_out.any():
        return state
    blocks = state.information
    instead = quadratic.newton(blocks, problem.unpenalised, -quadratic.product(blocks, left_out))
    state = problem.at(state.coefficients - left_out + instead)
    if not np.isfinite(state.loss):
        raise UserError(
            f"models.{problem.design.model}.unpenalised: without an intercept a path begins with these terms alone, which give "
            "some rows no mean; write the formula with an intercept, or choose `link: log`"
        )
    return state


def follow(problem: Problem, state: State, settings: PathConfig, held_out: Workload | None) -> list[Point]:
    """Go from penalty to penalty, each from the minimum of the one before.

    Parameters
    ----------
    problem
        F without penalties.
    state
        Of the model of what is not penalised (`unpenalised_alone`).
    settings
        Which penalties, and how the point is chosen.
    held_out
        Rows whose deviance is summed at each point.

    Returns
    -------
    The points of all penalties, without their information matrices, which would be too large to keep.
    """
    points: list[Point] = []
    heard, null_loss, saturated = problem.run.reporter, state.loss, None
    near, correction = state.information, np.zeros(len(state.coefficients))
    wanted = penalties(problem, state, settings)  # 1.
    for penalty in wanted:
        penalised = problem.penalised(settings.l1_ratio * penalty, (1 - settings.l1_ratio) * penalty)
        point = elastic_net.minimise(penalised, state, near, correction, penalty)  # 2.
        if held_out:
            if saturated is None:
                nothing = np.zeros(held_out.design.size)
                saturated = held_out.sum(problem.executor, "counts", held_out.design.by_term(nothing))["saturated"]
            by_term = held_out.design.by_term(point.state.coefficients)
            loss = held_out.sum(problem.executor, "gradient", by_term)["loss"]
            point = replace(point, deviance_held_out=2 * float(loss - saturated))
        # From one penalty to the next the same is missing from what a quadratic function foretells.
        state, near, correction = point.state, point.near, point.correction
        effective = elastic_net.effective_coefficients(point)
        points.append(replace(point, effective=effective, near=NO_BLOCKS, state=replace(state, blocks=None)))
        heard.advance(len(points), len(wanted))
        explained = 1 - state.loss / null_loss
        heard.record(len(points), {"path/penalty": penalty, "path/loss explained": explained})
        heard.live(
            f"penalty {penalty:.4g}: {np.count_nonzero(state.coefficients):,} coefficients are not zero, "
            f"{point.iterations} iterations, KKT violation {point.violation / penalty:.1g} of the penalty"
        )
    return points


def penalties(problem: Problem, state: State, settings: PathConfig) -> list[float]:
    """Those of the path, the largest first; `state` is the model of what is not penalised."""
    if settings.penalties:
        return sorted(settings.penalties, reverse=True)
    factors = problem.design.penalised_coefficients
    gradient = np.abs(problem.gradient(state))[factors > 0] / factors[factors > 0]
    largest = float(gradient.max(initial=0.0)) / problem.weight_sum / max(settings.l1_ratio, LEAST_L1_RATIO)
    if not largest:
        raise UserError(f"models.{problem.design.model}.path: no term has any effect, so there is no path to fit")
    return np.geomspace(largest, settings.smallest * largest, settings.number).tolist()


def aic(point: Point) -> float | None:
    """With the effective number of coefficients; of a lasso that is the number that are not zero (Zou, Hastie & Tibshirani,
    Annals of Statistics 35, 2007). None if the family has no likelihood."""
    problem, family = point.problem, point.problem.family
    log_likelihood = problem.likelihood(point.state)
    if log_likelihood is None:
        return None
    return -2 * log_likelihood + 2 * (point.effective + (not family.dispersion_known))
