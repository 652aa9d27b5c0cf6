"""Separation: coefficients without a finite estimate (docs/statistics.md: Separation)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.solvers.objective import Solution
from tfglm.solvers.run import Run

DRIFTING_ABOVE = 1e-3
"""The largest entry that a Newton step towards a finite estimate may have. If the maximum is at infinity, the loss and lambda^2
vanish too, but the steps do not become shorter."""


MOST_NAMED = 20
"""Groups that a message names."""


class Drifting(Exception):
    """The steps of a solver seem to lead to infinity. After `iterations` steps it is at these `coefficients` [p]."""

    def __init__(self, coefficients: np.ndarray, iterations: int):
        super().__init__("the steps lead to infinity")
        self.coefficients, self.iterations = coefficients, iterations


def solve_without_separated(start: Solution, solve: Callable[[Solution], Solution]) -> Solution:
    """Solve without the rows that several terms separate together (docs/statistics.md: Separation).

    These rows leave the likelihood. The likelihood of the other rows has a finite maximum. Coefficients that the other rows
    do not identify are held at zero, like aliased coefficients. The solver raises Drifting if its steps lead to infinity.
    Raises UserError if the terms separate all rows. Errors of the solver pass through.
    """
    before = 0
    while True:
        try:
            solution = solve(start)
            return replace(solution, iterations=solution.iterations + before)
        except Drifting as drifting:
            coefficients, before = drifting.coefficients, before + drifting.iterations
        less = start.objective.without_separated_rows(coefficients)
        if less is None:
            objective = replace(start.objective, overlaps=True)
            less = Solution(objective, objective.at(coefficients))
        start = replace(less, online=start.online)


def leave_out_separated(workload: Workload, run: Run, counts: Sums, terms: Collection[str]) -> tuple[Workload, Sums]:
    """Return the workload and the counts without the rows of separated groups of `terms` (docs/statistics.md: Separation).

    A group is separated if its responses are all at one end of the range of the family. Without its rows, another group may
    become separated. So this repeats until no group is separated. Raises UserError if all remaining responses are at the
    same end of the range of the family.
    """
    design = workload.design
    plain = {part.grouping for part in design.parts if not part.multiplier and part.term.name in terms}
    excluded: dict[tuple[str, ...], frozenset[int]] = {}
    family = design.distribution
    while True:
        separated = {}
        for number, grouping in enumerate(design.groupings):
            weight, response = counts["weight_sum", number], counts["response", number]
            groups = np.flatnonzero((weight > 0) & family.at_an_end(response, weight))
            if len(groups) and grouping in plain:
                separated[grouping] = frozenset(groups.tolist())
                names = first_names(design, grouping, groups)
                run.reporter.tell(f"separated, so without a finite estimate: {':'.join(grouping)} {names}")
        if not separated:
            break
        excluded = {
            grouping: excluded.get(grouping, frozenset()) | separated.get(grouping, frozenset())
            for grouping in {**excluded, **separated}
        }
        workload = workload.excluding(excluded)
        counts = workload.sum(run.executor, "counts", design.by_term(np.zeros(design.size)))
    if family.at_an_end(counts["response"], counts["weight_sum"]):
        raise UserError(
            f"models.{design.model}: the terms separate the response completely: without the levels whose responses are all "
            f"alike, no rows remain to fit\n  remove the term that determines `{design.roles.response}`"
        )
    return workload, counts


def group_names(design: Design, grouping: tuple[str, ...], groups: np.ndarray) -> list[str]:
    levels = [design.categorical_by_name[name].levels for name in grouping]
    numbers = design.levels(grouping)[groups]
    return [":".join(names[number] for names, number in zip(levels, group, strict=True)) for group in numbers]


def first_names(design: Design, grouping: tuple[str, ...], groups: np.ndarray) -> str:
    """The names of groups for a message, up to MOST_NAMED."""
    names = ", ".join(group_names(design, grouping, groups[:MOST_NAMED]))
    return names + (", ..." if len(groups) > MOST_NAMED else "")


def refuse_separation(workload: Workload, executor: Executor, directions: Sequence[np.ndarray]) -> None:
    """Raise UserError if a direction separates rows.

    Such a direction moves some rows towards their response and no row away from it, so the estimates go to infinity. The
    message names the terms in the direction, or a single numeric term that separates the rows alone.
    """
    design = workload.design
    if not design.distribution.separates:
        return
    for direction in directions:
        size = np.abs(direction)
        if not (np.all(np.isfinite(size)) and size.max(initial=0.0) > 0):
            continue
        if separates(moved(workload, executor, direction)):
            involved, rows = name_or_terms(workload, executor, direction)
            raise UserError(separation(design, involved, int(rows["along"]), int(rows["left"])))


def name_or_terms(workload: Workload, executor: Executor, direction: np.ndarray) -> tuple[list[str], Sums]:
    """The terms in a direction that separates rows, or a single numeric term that separates them alone; and the sums of the
    pass `separation` for them."""
    design = workload.design
    involved = terms_in(design, np.abs(direction))
    for term in involved if len(involved) > 1 else []:
        alone = by_itself(workload, executor, direction, term)
        if alone:
            return [term], alone
    return involved, moved(workload, executor, direction)


def moved(workload: Workload, executor: Executor, direction: np.ndarray) -> Sums:
    return workload.sum(executor, "separation", workload.design.by_term(direction))


def separates(rows: Sums) -> bool:
    return bool(rows["wrongly_up"] == rows["wrongly_down"] == 0 < rows["along"])


def terms_in(design: Design, size: np.ndarray) -> list[str]:
    """The terms in a direction, without the intercept. `size` [p] has the absolute entries of the direction."""
    return [
        term
        for term, where in design.slices.items()
        if term != INTERCEPT and size[where].max() > DRIFTING_ABOVE * size.max()
    ]


MOST_CUTS = 60


def by_itself(workload: Workload, executor: Executor, direction: np.ndarray, term: str) -> Sums | None:
    """The sums of the pass `separation` for a numeric term alone, if the term separates rows without the others; else None.
    The value of the term that divides the rows is found by bisection."""
    design = workload.design
    where = design.slices[term]
    if design.intercept is None or where.stop - where.start > 1:
        return None
    alone = np.zeros(design.size)
    alone[where] = direction[where]
    alone[design.intercept] = direction[design.intercept]
    below, above, length = -np.inf, np.inf, float(np.abs(alone[where]).max())
    for _ in range(MOST_CUTS):
        rows = moved(workload, executor, alone)
        if separates(rows):
            return rows
        if rows["wrongly_up"] and rows["wrongly_down"]:
            return None
        cut = alone[design.intercept]
        below, above = (below, cut) if rows["wrongly_up"] else (cut, above)
        if np.isfinite(below) and np.isfinite(above):
            alone[design.intercept] = (below + above) / 2
        else:
            alone[design.intercept] += -length if rows["wrongly_up"] else length
            length *= 2
    return None


def separation(design: Design, involved: Sequence[str], rows: int, others: int) -> str:
    """The message that these terms separate `rows` rows, and do not separate the `others`."""
    names, several = ", ".join(f"`{term}`" for term in involved), len(involved) > 1
    penalty = "penalise it (`unpenalised`, `penalty_factors`)" if design.penalty.given else "add a penalty, `l2`"
    penalty = "write ns() for s() and te(), and add a penalty, `l2`" if design.smooths else penalty
    left = f"the other {others:,} stay undecided" if others else "all there are"
    return (
        f"models.{design.model}: {'the terms ' if several else ''}{names} {'together separate' if several else 'separates'} "
        f"{rows:,} rows by their response ({left}), so {'their coefficients have' if several else 'its coefficient has'} no "
        f"finite estimate\n"
        f"  leave {'one of these terms' if several else 'the term'} out, merge rare levels, or {penalty}"
    )
