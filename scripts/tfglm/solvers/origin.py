"""Responses far from 0 for their spread are counted from their mean while a linear regression is fitted.

Of y = 1e9 + e, e of the size 1, linear predictors are rounded to 1e-7, and so would be all that is summed of residuals. With the
mean m of the response, and o of the offset, y - m and offset - o are exact, or nearly so, and the intercept is smaller by m - o.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfglm.data.limits import FAR
from tfglm.design.design import Design
from tfglm.design.parametrisation import holding_zero
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.solvers.fitted import EMPTY, Fitted
from tfglm.solvers.prepare import count
from tfglm.solvers.problem import Problem
from tfglm.solvers.profile import direction_of


def centred(workload: Workload, executor: Executor, counts: Sums) -> tuple[Workload, Sums]:
    """The workload with responses and offset that are counted from their means, and its counts; the same, if they are not far
    from 0 or if no coefficients take up the difference."""
    design = workload.design
    if not design.distribution.quadratic or constant(design) is None:
        return workload, counts
    mean = float(counts["response"] / counts["weight_sum"])
    # Of a mean that is so large that this is a rounding error, it is small.
    variance = float(counts["squares"] / counts["weight_sum"]) - mean**2
    offset = design.offset
    far_offset = offset is not None and abs(offset.center[0]) > FAR * offset.scale[0]
    if variance > (mean / FAR) ** 2 and not far_offset:
        return workload, counts
    if offset is not None:
        move = {"function": "scale", "mean": offset.center[0], "divisor": 1.0}
        # A name of its own, as a number of the formula may have the other.
        name, learnt = f"{offset.name} from its mean", (*offset.learnt, move)
        offset = replace(offset, name=name, learnt=learnt, center=(0.0,))
    workload = workload.with_design(replace(design, origin=mean, offset=offset))
    return workload, count(workload, executor)


def constant(design: Design) -> slice | None:
    """Places of coefficients that no penalty acts on, and that add the same to all linear predictors."""
    if design.constant is not None:
        return design.constant
    for part in design.parts:
        if part.grouping and not part.multiplier:
            penalised = design.penalised and design.penalised_coefficients[part.where].any()
            return None if penalised else part.where
    return None


def from_zero(fitted: Fitted, asked: Design, used: Design, problem: Problem | None = None) -> Fitted:
    """The fit of a `used` design as one of the design that was `asked` for; `problem` tells which coefficients are held at 0."""
    if used.origin == 0.0 and used.offset == asked.offset:
        return fitted
    added = np.zeros(asked.size)
    added[constant(asked)] = used.origin - (asked.offset.center[0] if asked.offset else 0.0)
    added[fitted.status == EMPTY] = 0.0
    if problem is not None and added[problem.held].any():
        added = holding_zero(problem.held, problem.null_vectors) @ added
    return replace(fitted, coefficients=fitted.coefficients + added, path_coefficients=fitted.path_coefficients + added)


def profiles_from_zero(profiles: Sequence[dict], design: Design, fitted: Fitted, moved: Fitted) -> list[dict]:
    """Profile intervals of a fit, as those of the fit that was `moved`."""
    ends = ("estimate", "ci_lower", "ci_upper", "wald_lower", "wald_upper")
    result = []
    for (name, weights), profile in zip(design.profile, profiles, strict=True):
        added = direction_of(design, fitted, name, dict(weights)) @ (moved.coefficients - fitted.coefficients)
        result.append(profile | {end: profile[end] + added for end in ends if profile[end] is not None})
    return result
