"""Rows that terms separate together, though no level does by itself (docs/statistics.md: Separation).

They leave the likelihood. What is left has a finite maximum, for which coefficients that the other rows do not tell are held at
zero, as aliased ones are.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfglm.engine.rectified import side
from tfglm.errors import UserError
from tfglm.solvers import rectifier
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, REFERENCE
from tfglm.solvers.online import held_at_zero
from tfglm.solvers.prepare import by_coefficient, null_model
from tfglm.solvers.problem import Problem, Separation, Solution
from tfglm.solvers.separation import Drifting, name_or_terms, separation, terms_in
from tfglm.solvers.start import begin

MOST_SEPARATED_ROWS = 20_000
"""Rows, of those that differ in how the directions move them, of which a table of coefficients tells the signs of infinite
estimates."""

DIGITS = 9
"""To which rows that are alike are told from others."""


def solve_across(start: Solution, solve: Callable[[Solution], Solution]) -> Solution:
    """What a solver comes to, without the rows that terms separate together.

    Parameters
    ----------
    start
        Where the solver begins.
    solve
        The solver. It raises Drifting where its steps lead to infinity.

    Raises
    ------
    UserError
        If the terms separate all rows, and what the solver raises.
    """
    before = 0
    while True:
        try:
            solution = solve(start)
            return replace(solution, iterations=solution.iterations + before)
        except Drifting as drifting:
            coefficients, before = drifting.coefficients, before + drifting.iterations
        if start.problem.design.equations:
            raise UserError(of_classes_separate(start.problem, coefficients))
        problem = without_separated_rows(start.problem)
        if problem is None:
            problem = replace(start.problem, overlaps=True)
        else:
            # Of nearly aliased columns some rows are seen to be separated only once others have left.
            problem = begin(problem).problem
            _, coefficients = held_at_zero(problem, coefficients)
        start = Solution(problem, problem.at(coefficients), online=start.online)


def of_classes_separate(problem: Problem, coefficients: np.ndarray) -> str:
    """That terms separate the classes, as far as where the steps of a solver lead can tell."""
    names = terms_in(problem.design, np.abs(coefficients - problem.null_coefficients))
    return (
        f"models.{problem.design.model}: the estimates run off to infinity: the terms {', '.join(f'`{name}`' for name in names)} "
        f"separate classes, though each level has all of them\n"
        f"  leave one of the terms out, merge rare levels with data.rare, or derive coarser classes"
    )


def without_separated_rows(problem: Problem) -> Problem | None:
    """The problem of the rows that cannot be separated; None if none can.

    Raises
    ------
    UserError
        If none is left, or if terms separate them that penalties leave alone.
    """
    design = problem.design
    try:
        separated = rectifier.separated(problem)
        if separated and problem.separation:
            separated = rectifier.with_earlier(problem, problem.separation, separated)
    except rectifier.NotTold:
        raise UserError(
            f"models.{design.model}: the estimates run off to infinity, and which rows are separated could not be told\n"
            f"  leave out the terms whose numbers are the largest or vary the least, merge rare levels, or add a penalty, `l2`"
        ) from None
    if separated is None:
        return None
    workload, counts, direction = separated.workload, separated.counts, separated.direction
    involved = terms_in(design, np.abs(direction))
    if not counts["rows"] or design.penalised:
        involved, _ = name_or_terms(problem.workload, problem.executor, direction)
        raise UserError(separation(design, involved, separated.rows, int(counts["rows"])))
    names = ", ".join(involved)
    problem.run.reporter.tell(
        f"separated by terms together, so left out of the likelihood: {separated.rows:,} rows, by {names}"
    )
    status, empty = problem.status.copy(), by_coefficient(design, counts, "rows") == 0
    gone = np.flatnonzero(empty & (status == FREE))
    status[empty & np.isin(status, (FREE, REFERENCE, ALIASED))] = EMPTY
    coefficients, loss = null_model(workload, problem.executor, counts)
    first = problem.separation or Separation(problem.workload, direction, len(problem.null_vectors), 0)
    return replace(
        problem,
        workload=workload,
        counts=counts,
        status=status,
        held=np.array([*problem.held, *gone], int),
        null_vectors=np.vstack([problem.null_vectors, np.eye(design.size)[gone]]),
        null_coefficients=coefficients,
        null_loss=loss,
        separation=replace(first, direction=direction, rows=first.rows + separated.rows),
    )


def separated_rows(problem: Problem) -> np.ndarray:
    """How the directions beside the first move each separated row towards its response, [rows, directions]: rows that are alike,
    but for a factor, once, and none if they are more than `MOST_SEPARATED_ROWS`."""
    assert problem.separation
    directions = problem.separating
    if len(directions) == 2:
        # Of one dimension: the second is the first but for a factor, along which all rows move alike.
        return np.sign([[directions[0] @ directions[1]]])
    answer = problem.executor.remember("separated rows", lambda: {"rows": _separated_rows(problem)})
    return answer["rows"]


def _separated_rows(problem: Problem) -> np.ndarray:
    assert problem.separation
    design, workload, (first, *others) = problem.design, problem.separation.workload, problem.separating
    family, known = design.distribution, np.zeros((0, len(others)))
    state = workload.state(np.zeros(design.size))
    for _, _, signature, call in workload.shards_alone():
        for evaluated in workload.passes(signature).evaluated(state, call):
            towards = side(evaluated.rows, family)
            which = (towards != 0) & (np.abs(evaluated.along(first)) > 0.5)
            movement = np.stack([towards * evaluated.along(other) for other in others], axis=1)[which]
            movement /= np.abs(movement).max(axis=1, keepdims=True)
            known = np.unique(np.vstack([known, movement.round(DIGITS)]), axis=0)
        if len(known) > MOST_SEPARATED_ROWS:
            return known[:0]
    return known
