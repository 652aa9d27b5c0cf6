"""Online solvers: SGD, AdaGrad, Adam and FTRL, on batches of rows and on several workers at a time.

Minimise F(b) = sum of weight * loss(eta, y) / sum of weights + sum of (l2 * b^2 / 2 + l1 * |b|), all levels being free:

1. Each epoch goes through all rows, the shards and their blocks in random order, in calls that each learn from some blocks.
2. A worker pulls the weights and what the solver remembers of each, goes a step a batch, and pushes 1/N of the difference, of N
   workers. Pushed whole, the first calls of an epoch, each long enough to come near the optimum, would overshoot it N times:
   so the parameter servers hold a moving average of the workers' models (Zhang, Choromanska & LeCun, NIPS 2015, is of this
   kind), and with one worker the solver is the textbook's. If it is synchronous, all calls of a round begin at the same
   weights instead, and the mean of their differences is added.
3. The coefficients after an epoch are the mean over its second half (Polyak & Juditsky 1992), or the last ones.
4. End after so many epochs or steps, or when the loss on the rows held out has not fallen for some epochs: the best epoch counts.
5. Coefficients of levels that an exact fit holds at zero are made zero, without changing a prediction; F is summed there, and
   refused if it is far above that of the null model.
"""

from dataclasses import replace

import numpy as np

from tfglm.design.parametrisation import hold, holding_zero
from tfglm.engine.optimisers import OPTIMISERS
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers.problem import Problem, Solution
from tfglm.solvers.training import Objective, train

FAR_ABOVE_NULL = 2.0
"""Times the deviance of the null model: a little above it is where a solver may end that has found nothing."""


def solve(problem: Problem, held_out: Workload | None) -> Solution:
    """What an online solver has learnt from the null model on, evaluated but not certified.

    Parameters
    ----------
    problem
        What is minimised.
    held_out
        The rows that decide when to stop early.

    Raises
    ------
    UserError
        If the solver has gone astray: the loss has become infinite, or has ended far above that of the null model.
    """
    design, settings = problem.design, problem.run.settings
    # A response of any size is learnt in units of its standard deviation.
    variance = 2 * problem.null_loss / problem.weight_sum if problem.family.quadratic else 1.0
    unit = float(np.sqrt(variance)) or 1.0
    coefficients, summary = train(
        Objective(problem.workload, problem.counts, design.l1, design.l2, unit),
        held_out if settings.online.patience else None,
        problem.run,
        problem.null_coefficients,
    )
    problem, coefficients = held_at_zero(problem, coefficients)  # 5.
    state = problem.at(coefficients)
    check(problem, state.loss, summary)
    return Solution(problem, state, online=summary)


def held_at_zero(problem: Problem, coefficients: np.ndarray) -> tuple[Problem, np.ndarray]:
    """The problem of an exact fit, and coefficients [p] that make the same predictions: zero where that fit holds them."""
    if len(problem.held):
        held, null_vectors = hold(problem.null_vectors, problem.held)
        problem = replace(problem, held=held, null_vectors=null_vectors)
        coefficients = holding_zero(held, null_vectors) @ coefficients
    return problem, np.where(problem.free, coefficients, 0.0)


def check(problem: Problem, loss: float, summary: dict) -> None:
    """Raise UserError if the solver ended far above the null model, with which it began: scores of a binomial response are
    bounded, and so its loss stays finite however long the steps are."""
    saturated = float(problem.counts["saturated"])
    deviance, null_deviance = 2 * (loss - saturated), 2 * (problem.null_loss - saturated)
    if deviance <= FAR_ABOVE_NULL * null_deviance:
        return
    solver, rate = summary["solver"], summary["learning_rate"]
    raise UserError(
        f"models.{problem.design.model}.online.learning_rate: with {rate:g} the steps are too long: {solver} began at a deviance "
        f"of {null_deviance:.4g} and has come to {deviance:.4g}\n  make learning_rate smaller, such as "
        f"{min(rate / 10, OPTIMISERS[solver].learning_rate):g}"
    )
