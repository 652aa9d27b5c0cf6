"""A regression measures responses from their mean, if they are far from 0 relative to their spread.

For y = 1e9 + e with e of size 1, linear predictors are rounded to 1e-7. All sums of residuals would be too. Let m be the mean of
the response, and o the mean of the offset. Then y - m and offset - o are nearly exact, and the intercept is smaller by m - o.

With link log the linear predictor is measured from log(m): eta = log(mean / m), which is small, so the residual
m (exp(eta) - 1) - (y - m) is precise too. The intercept is smaller by log(m) - o.
"""

import numpy as np

from tfglm.data.limits import FAR
from tfglm.design.design import Design
from tfglm.design.origin import measured_from
from tfglm.design.parametrisation import holding_zero
from tfglm.distribute.executor import Executor
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import EMPTY
from tfglm.solvers.objective import CountedRows, Objective
from tfglm.solvers.prepare import count


def counted(workload: Workload, executor: Executor) -> CountedRows:
    """The rows and their counts. Responses and offset are measured from their means, if they are far from 0 and if
    coefficients can absorb the difference. Raises UserError as `count` does."""
    design, counts = workload.design, count(workload, executor)
    unmoved = CountedRows(workload, counts, design, counts)
    family = design.distribution
    if not family.is_movable or constant(design) is None or (design.smooths and not family.quadratic):
        return unmoved
    mean = float(counts["response"] / counts["weight_sum"])
    # If the mean is so large that the variance is a rounding error, the variance is below the threshold.
    variance = float(counts["squares"] / counts["weight_sum"]) - mean**2
    offset = design.roles.offset
    far_offset = offset is not None and abs(offset.center[0]) > FAR * offset.scale[0]
    if variance > (mean / FAR) ** 2 and not (far_offset and family.quadratic):
        return unmoved
    if not family.quadratic and mean <= 0:
        return unmoved  # which is refused
    workload = workload.with_design(measured_from(design, mean))
    return CountedRows(workload, count(workload, executor), design, counts)


def counted_alike(rows: Workload, counted: CountedRows) -> Workload:
    """Other rows, with responses and offset measured from the same origins as in a fit."""
    used = counted.workload.design
    if used is counted.original:
        return rows
    return rows.with_design(
        rows.design.with_likelihood(origin=used.likelihood.origin).with_roles(offset=used.roles.offset)
    )


def constant(design: Design) -> slice | None:
    """The positions of unpenalised coefficients that add the same constant to all linear predictors; None if there are none."""
    if design.constant is not None:
        return design.constant
    for part in design.parts:
        if part.grouping and not part.multiplier:
            penalised = design.has_penalties and design.penalised_coefficients[part.where].any()
            return None if penalised else part.where
    return None


def shift(objective: Objective) -> np.ndarray:
    """The shift from the coefficients of a fit to those for the original responses, [p]."""
    original, used = objective.counted.original, objective.design
    added = np.zeros(original.size)
    if used.likelihood.origin == 0.0 and used.roles.offset == original.roles.offset:
        return added
    origin = original.distribution.link(used.likelihood.origin)
    added[constant(original)] = origin - (original.roles.offset.center[0] if original.roles.offset else 0.0)
    added[objective.status == EMPTY] = 0.0
    if added[objective.held].any():
        added = holding_zero(objective.held, objective.null_vectors) @ added
    return added
