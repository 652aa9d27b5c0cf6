"""A network without hidden layers as the regression that it is: its coefficients by name."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.inference import estimates
from tfglm.solvers.online import held_at_zero
from tfglm.solvers.prepare import count, prepare
from tfglm.solvers.problem import Problem, Solution
from tfglm.solvers.run import Run
from tfglm.solvers.start import begin


def fitted(
    weights: Mapping[str, np.ndarray], start: float, unit: float, design: Design, files: Sequence[IngestedFile]
) -> Fitted:
    """The coefficients of a linear network, parametrised as those of a regression, without standard errors.

    Parameters
    ----------
    weights
        Those of the network, as `checkpoint.read` has them.
    start, unit
        The scale of its output, which `networks.layers` explains.
    design, files
        What it was trained on.

    Raises
    ------
    UserError
        For a response with classes, if the formula has no intercept, which `start` is a part of, or if terms separate the
        responses.
    """
    if design.classes:
        raise UserError(
            f"networks.{design.model}: a table of coefficients has one linear predictor, and `{design.classes.name}` has one for "
            f"each class; with `export: true`, model.json has all coefficients by class"
        )
    if design.intercept is None:
        raise UserError(
            f"networks.{design.model}.formula: a network has an intercept; write the formula with one to see its coefficients"
        )
    coefficients = unit * weights["wide/coefficients"].astype(float)
    coefficients[design.intercept] += start
    workload, run = Workload(design, files, "train"), Run(LocalExecutor())
    counts = count(workload, run.executor)

    def learnt(problem: Problem) -> Solution:
        problem, held = held_at_zero(problem, coefficients)
        return Solution(problem, problem.at(held))

    solution = begin(prepare(workload, run, counts), learnt)
    return estimates(solution, counts)
