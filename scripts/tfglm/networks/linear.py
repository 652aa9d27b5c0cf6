"""A network without hidden layers as the regression that it is: its coefficients by name."""

from collections.abc import Sequence

import keras
import numpy as np

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.networks.layers import Scale
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.inference import estimates
from tfglm.solvers.limits import DEFAULTS
from tfglm.solvers.online import held_at_zero
from tfglm.solvers.prepare import count, prepare
from tfglm.solvers.problem import Problem, Solution
from tfglm.solvers.reporter import Reporter
from tfglm.solvers.start import begin


def fitted(network: keras.Model, design: Design, files: Sequence[IngestedFile], scale: Scale) -> Fitted:
    """The coefficients of a linear network, parametrised as those of a regression, without standard errors.

    Raises UserError for a response with classes, if the formula has no intercept, which `scale.start` is a part of, or if terms
    separate the responses.
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
    coefficients = scale.unit * np.asarray(network.get_layer("wide").coefficients, float)
    coefficients[design.intercept] += scale.start
    workload, executor, reporter = Workload(design, files, "train"), LocalExecutor(), Reporter()
    counts = count(workload, executor)

    def learnt(problem: Problem) -> Solution:
        problem, held = held_at_zero(problem, coefficients)
        return Solution(problem, problem.at(held))

    solution = begin(prepare(workload, executor, counts, reporter.tell), DEFAULTS, reporter, learnt)
    return estimates(solution, counts)
