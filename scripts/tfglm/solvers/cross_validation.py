"""The deviance of each penalty of a path on rows that its fit has not seen, for one part of the training rows after the other.

1. For each fold the path is followed over the rows of the others (solvers.path), at the penalties of all rows.
2. The deviance of a penalty is the mean d_k of a row of fold k, and their mean over the folds with the weights w_k of their rows:
   d = sum w_k d_k / sum w_k, with the standard error of cv.glmnet (Hastie, Tibshirani & Friedman, The Elements of Statistical
   Learning, 2009, 7.10), the root of sum w_k (d_k - d)^2 / sum w_k / (K - 1).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfglm.design.design import Design
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.solvers.fitted import EMPTY, SEPARATED
from tfglm.solvers.prepare import count, prepare
from tfglm.solvers.problem import Point, Problem
from tfglm.solvers.run import Reporter
from tfglm.solvers.validated import CrossValidation

Follow = Callable[[Problem, Workload], list[Point]]
"""Follows the path for a problem, and sums the deviance of the rows held out at each point."""


def cross_validate(problem: Problem, penalties: int, follow: Follow) -> CrossValidation:
    """Hold out one fold after the other.

    Parameters
    ----------
    problem
        Of all rows.
    penalties
        How many there are.
    follow
        Follows their path.

    Raises
    ------
    UserError
        If a fold has no rows, the rows without it have but one response, or terms that no penalty acts on separate them.
    """
    folds = problem.design.folds
    assert folds
    by_fold, weights, rows = np.zeros((folds.number, penalties)), np.zeros(folds.number), np.zeros(folds.number)
    not_converged = 0
    for fold in range(folds.number):
        train, held_out = (of_fold(problem.workload, fold, held) for held in (False, True))
        of_held = count_fold(problem, held_out, fold)
        counts = count(train, problem.executor)
        if FAMILIES[problem.design.family].at_an_end(counts["response"], counts["weight_sum"]):
            raise UserError(
                f"models.{problem.design.model}.path.folds: the responses of the training rows without fold {fold + 1} are all "
                f"alike; use fewer folds"
            )
        without = prepare(train, replace(problem.run, reporter=Reporter()), counts)
        unknown = unknown_groups(without)
        if unknown:
            held_out = held_out.without(unknown)
            of_held = count_fold(problem, held_out, fold)
        try:
            points = follow(without, held_out)
        except UserError as error:
            raise UserError(
                f"models.{problem.design.model}.path.folds: without fold {fold + 1}: {str(error).partition(': ')[2]}"
            ) from error
        weights[fold], rows[fold] = float(of_held["weight_sum"]), float(of_held["rows"])
        by_fold[fold] = [(point.deviance_held_out or 0.0) / weights[fold] for point in points]
        not_converged += sum(not point.converged for point in points)
        problem.run.reporter.live(f"fold {fold + 1} of {folds.number}: {rows[fold]:,.0f} rows held out")
    return CrossValidation(by_fold, weights, rows, not_converged)


def unknown_groups(without: Problem) -> dict[tuple[str, ...], frozenset[int]]:
    """The groups of unpenalised terms that have no finite coefficient without a fold, as they are separated or have no rows
    there: of a penalised term one without rows has the coefficient 0."""
    design = without.design
    unknown: dict[tuple[str, ...], frozenset[int]] = {}
    for part in design.parts:
        if part.grouping and not part.multiplier and part.term.name in design.unpenalised_terms:
            groups = np.flatnonzero(np.isin(without.status[part.where], (SEPARATED, EMPTY)))
            if len(groups):
                unknown[part.grouping] = frozenset(groups.tolist())
    return unknown


def of_fold(workload: Workload, fold: int, held: bool) -> Workload:
    """The rows of a fold, or all others."""
    design: Design = workload.design
    assert design.folds
    design = replace(design, folds=replace(design.folds, fold=fold, held=held))
    return Workload(design, workload.files, workload.split, cutting=workload.cutting)


def count_fold(problem: Problem, held_out: Workload, fold: int) -> Sums:
    """The counts of the rows of a fold. Raises UserError if there are none."""
    counts = held_out.sum(problem.executor, "counts", held_out.design.by_term(np.zeros(held_out.design.size)))
    if not counts["rows"]:
        raise UserError(f"models.{problem.design.model}.path.folds: fold {fold + 1} has no rows; use fewer folds")
    return counts
