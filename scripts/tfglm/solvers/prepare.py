"""The preparation of a fit from the counts of its rows: checks of the responses, the null model, and the start."""

from collections.abc import Collection

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums, numbered
from tfglm.engine.sums import Key
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import Family
from tfglm.inference.fitted import EMPTY, FREE, SEPARATED
from tfglm.solvers.separation import first_names

MOST_NULL_STEPS = 100
"""Newton steps for the intercept of the null model."""


MOST_ROWS = 2.0**53
"""Largest number of rows that float64 counts exactly."""


def count(workload: Workload, executor: Executor) -> Sums:
    """The sums of a counts pass: rows, weights and responses, in total and by group. Raises UserError for responses that the
    family cannot have, and if no row has a weight."""
    design = workload.design
    counts = workload.sum(executor, "counts", design.by_term(np.zeros(design.size)))
    if counts["not_finite"]:
        raise UserError(
            f"models.{design.model}.formula: a function has no finite value for {counts['not_finite']:,.0f} training rows, for "
            f"example the logarithm of 0\n  leave them out with a condition in data.where"
        )
    if counts["out_of_range"]:
        what = (
            f"more events in `{design.roles.response}` than trials in `{design.roles.trials}`"
            if design.roles.trials
            else (f"a response `{design.roles.response}` out of the range of family {design.likelihood.family}")
        )
        raise UserError(
            f"models.{design.model}: {counts['out_of_range']:,.0f} training rows have {what}\n"
            f"  leave them out with a condition in data.where, or correct them under data.derive"
        )
    if not counts["rows"]:
        raise UserError(
            f"models.{design.model}: no training row has a weight above 0; check `subset`, `weights`, `frequency` and `trials`"
        )
    if counts["rows"] > MOST_ROWS:
        raise UserError(
            f"models.{design.model}.frequency: `{design.roles.frequency}` adds up to {counts['rows']:.6g}, more than 2^53; "
            f"larger whole numbers are not exact\n  divide it by a number under data.derive, and give that as `weights`"
        )
    return counts


def null_model(workload: Workload, executor: Executor, counts: Sums) -> tuple[np.ndarray, float]:
    """The coefficients [p] and the loss of the null model. The null model has the offset and an intercept, or an absorbed
    factor that contains an intercept. If the formula has neither, it has the offset alone."""
    design = workload.design
    family = design.distribution
    coefficients = np.zeros(design.size)
    has_intercept = design.constant is not None
    mean = mean_response(design, counts)
    intercept = family.link(mean) if has_intercept else 0.0
    if has_intercept:
        coefficients[design.constant] = intercept
    if not design.roles.offset and family.metrics != "means" and not design.likelihood.origin:
        # The loss is linear in the response.
        loss = family.loss(np.array(intercept), np.array(mean))
        return coefficients, float(loss) * float(counts["weight_sum"])
    step = 0.0
    for _ in range(MOST_NULL_STEPS):
        sums = workload.sum(executor, "null", design.by_term(coefficients))
        if np.isfinite(sums["loss"]) or not has_intercept:
            step = float(sums["residual"] / sums["weight"]) if has_intercept else 0.0
            # The intercept of a linear regression has the unit of the response.
            unit = np.sqrt(2 * sums["loss"] / counts["weight_sum"]) if family.quadratic else 1.0
            if abs(step) <= 1e-12 * max(unit, abs(intercept)):
                break
            # A long step overshoots if the mean is an exponential.
            step = step if family.quadratic else float(np.clip(step, -1.0, 1.0))
            intercept -= step
        elif step:
            # Go back by half of the step, until all rows have a mean.
            step /= 2
            intercept += step
        else:
            if family.positive_predictor:
                raise UserError(
                    f"models.{design.model}.offset: with link {family.link_name} the linear predictor has to be above 0, and the "
                    f"offset moves it below 0 for some rows of the model with the intercept alone\n  use link: log, or leave the "
                    f"offset out"
                )
            raise UserError(
                f"models.{design.model}.offset: the offset is so large for some rows that with link {family.link_name} their "
                f"mean in the model with the intercept alone is infinite\n  give an exposure as its logarithm, or leave such "
                f"rows out in data.where"
            )
        coefficients = coefficients.copy()
        coefficients[design.constant] = intercept
    return coefficients, float(sums["loss"])


def mean_response(design: Design, counts: Sums) -> float:
    """The weighted mean of the response. Raises UserError if all responses are at one end of their range, or if the mean is
    outside the range of the link."""
    mean = float(counts["response"] / counts["weight_sum"])
    if design.distribution.at_an_end(counts["response"], counts["weight_sum"]):
        raise UserError(
            f"models.{design.model}: the mean of the response `{design.roles.response}` is {mean:g}, an end of the "
            f"range of family {design.likelihood.family}, so there is nothing to fit\n"
            f"  check `weights`, `frequency` and the conditions in data.where"
        )
    if not np.isfinite(_link(design.distribution, mean)):
        raise UserError(
            f"models.{design.model}: the mean of the response `{design.roles.response}` is {mean:g}, and with link "
            f"{design.distribution.link_name} every mean is above 0\n  use another link, or leave rows out in data.where"
        )
    return mean


def check_means(design: Design, counts: Sums, terms: Collection[str]) -> None:
    """Raise UserError for levels of these terms whose mean response is 0 or less, if the link only allows means above 0. The
    likelihood would rise without end as their coefficients fall."""
    family = design.distribution
    if family.smallest >= 0 or not np.isnan(_link(family, -1.0)):
        return
    plain = {part.grouping for part in design.parts if not part.multiplier and part.term.name in terms}
    for number, grouping in enumerate(design.groupings):
        response, weight = counts["response", number], counts["weight_sum", number]
        groups = np.flatnonzero((weight > 0) & (response <= 0))
        if len(groups) and grouping in plain:
            names = first_names(design, grouping, groups)
            raise UserError(
                f"models.{design.model}: the mean of the response `{design.roles.response}` is 0 or less where "
                f"{':'.join(grouping)} is {names}, and with link {family.link_name} every mean is above 0\n  use "
                f"another link, merge levels with data.rare, or leave these rows out in data.where"
            )


def _link(family: Family, mean: float) -> float:
    """The linear predictor of a mean; NaN or infinite if the link does not allow the mean."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return family.link(mean)


def valid_start(design: Design, coefficients: np.ndarray, counts: Sums, free: np.ndarray) -> np.ndarray:
    """The first coefficients of a fit, [p].

    With an intercept, these are the coefficients of the null model. Without one, the linear predictor of the null model is 0. It
    may be far from the responses, and some links have no mean there. So the start gives each row the mean response, up to the
    offset, if the free coefficients can. Raises UserError if there is no valid start.
    """
    if design.intercept is not None:
        return coefficients
    family, places = design.distribution, constant_direction(design, free)
    if len(places):
        start = coefficients.copy()
        start[places] = family.link(mean_response(design, counts))
        return start
    if family.positive_predictor:
        raise UserError(
            f"models.{design.model}.formula: with link {family.link_name} every linear predictor has to be above 0, and without "
            f"an intercept or a factor with all its levels the fit has nowhere to begin\n  keep the intercept, or use link: log"
        )
    return coefficients


def constant_direction(design: Design, free: np.ndarray) -> np.ndarray:
    """The positions of coefficients that add the same constant to all linear predictors; empty if the free ones cannot."""
    if design.intercept is not None:
        return np.array([design.intercept])
    for part in design.parts:
        places = np.arange(part.where.start, part.where.stop)
        if part.grouping and not part.multiplier and free[part.where].all():
            return places
    return np.zeros(0, int)


def initial_status(design: Design, workload: Workload, counts: Sums) -> np.ndarray:
    """The status of each coefficient, [p]: SEPARATED for separated groups, EMPTY for groups without rows, otherwise FREE."""
    status = np.full(design.size, FREE)
    for part in design.parts:
        if part.grouping:
            of_part = status[part.where]  # a view
            of_part[counts["rows", design.groupings.index(part.grouping)] == 0] = EMPTY
            if not part.multiplier:
                of_part[sorted(workload.excluded.get(part.grouping, ()))] = SEPARATED
    return status


def by_coefficient(design: Design, counts: Sums, what: str) -> np.ndarray:
    """A count for each coefficient, [p]: by group, or of all rows for parts without groups."""
    result = np.zeros(design.size)
    for part in design.parts:
        # For the linear predictor of a class, the response is 1 for rows of the class.
        of_class = what == "response" and part.term.equation
        key: Key = ("class", design.likelihood.class_labels.index(part.term.equation)) if of_class else what
        result[part.where] = counts[numbered(key, design.groupings.index(part.grouping)) if part.grouping else key]
    return result
