"""A network without hidden layers as the regression that it is: its coefficients by name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.design.origin import intercept_from_zero
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted
from tfglm.solvers.covariance import estimates
from tfglm.solvers.objective import CountedRows, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.prepare import count
from tfglm.solvers.run import Run


def fitted(
    weights: Mapping[str, np.ndarray], fit: Mapping[str, Any], design: Design, files: Sequence[IngestedFile]
) -> Fitted:
    """Return the coefficients of a linear network in the parametrisation of a regression, without standard errors. The
    weights are those that `bundle.read` returns; fit.json has the layers and the scale of the output (`networks.layers`).
    Raises UserError if the network has hidden layers, if the response has classes, if the formula has no intercept to
    include `start`, or if terms separate the responses."""
    if fit["layers"]["hidden"]:
        raise UserError(
            f"networks.{design.model}.hidden: a network with hidden layers is no regression, and has no table of coefficients\n"
            f"  with `export: true`, model.json has those of its linear part; embeddings.csv has what the layers read"
        )
    if design.classes:
        raise UserError(
            f"networks.{design.model}: a response with classes has no table of coefficients, because each class of "
            f"`{design.classes.name}` has its own; with `export: true`, model.json has all coefficients by class"
        )
    if design.intercept is None:
        raise UserError(
            f"networks.{design.model}.formula: a network has an intercept; write the formula with one to see its coefficients"
        )
    coefficients = fit["unit"] * weights["wide/coefficients"].astype(float)
    coefficients[design.intercept] += fit["start"]
    workload, run = Workload(design, files, "train"), Run(LocalExecutor())
    counts = count(workload, run.executor)

    def learnt(objective: PlainObjective) -> Solution:
        objective, held = objective.with_zeros_held(coefficients)
        return Solution(objective, objective.at(held))

    from_mean = estimates(PlainObjective.of(CountedRows(workload, counts, design, counts), run).begin(learnt))
    moved = from_mean.coefficients.copy()
    moved[design.intercept] += intercept_from_zero(design, "offset" in fit)
    return replace(from_mean, coefficients=moved)
