"""Coefficients without a finite estimate, because the responses of their rows are all alike (STATISTICS: Separation)."""

from collections.abc import Callable

import numpy as np

from tfglm.errors import UserError
from tfglm.model.design import Design
from tfglm.model.passes import Sums
from tfglm.model.workload import Workload

DRIFTING_ABOVE = 1e-3
"""Largest entry of a Newton step that belongs to an estimate. Where the maximum is at infinity, the loss and lambda^2 vanish
all the same, but each step is as long as the one before."""


def leave_out_separated(
    workload: Workload, pool, counts: Sums, tell: Callable[[str], None], without: str | None = None
) -> tuple[Workload, Sums]:
    """The workload without the rows of separated groups of all terms but `without`, and its counts (STATISTICS: Separation).

    A group is separated when its responses are all 0, or all 1 with family binomial. Leaving out its rows can separate
    another: so until none is.
    """
    design = workload.design
    plain = {part.coding for part in design.parts if not part.multiplier and part.term.name != without}
    excluded: dict[tuple[str, ...], frozenset[int]] = {}
    while design.family != "gaussian":
        found = {}
        for number, coding in enumerate(design.codings):
            mass, events = counts[f"mass_{number}"], counts[f"response_{number}"]
            alike = (events == 0) | ((events == mass) & (design.family == "binomial"))
            groups = np.flatnonzero((mass > 0) & alike)
            if len(groups) and coding in plain:
                found[coding] = frozenset(groups.tolist())
                names = ", ".join(group_names(design, coding, groups[:20])) + (", ..." if len(groups) > 20 else "")
                tell(f"separated, so without a finite estimate: {':'.join(coding)} {names}")
        if not found:
            break
        excluded = {
            coding: excluded.get(coding, frozenset()) | found.get(coding, frozenset())
            for coding in {**excluded, **found}
        }
        workload = workload.without(excluded)
        counts = workload.sum(pool, "counts", design.by_term(np.zeros(design.size)))
    share_of_events = counts["response"] / counts["mass"] if counts["mass"] else 0.0
    if design.family != "gaussian" and (share_of_events == 0 or (share_of_events == 1 and design.family == "binomial")):
        raise UserError(
            f"models.{design.model}: the terms separate the response completely: once the levels whose responses are all "
            f"alike are left out, nothing is left to fit\n  remove the term that determines `{design.response}`"
        )
    return workload, counts


def group_names(design: Design, coding: tuple[str, ...], groups: np.ndarray) -> list[str]:
    levels = [design.factors[name].levels for name in coding]
    numbers = design.levels(coding)[groups]
    return [":".join(names[number] for names, number in zip(levels, group, strict=True)) for group in numbers]


def refuse_separation(workload: Workload, pool, direction: np.ndarray) -> None:
    """Raise UserError if `direction` moves no row away from its response, and some towards it: then it leads to infinity."""
    design = workload.design
    if design.family == "gaussian":
        return
    rows = workload.sum(pool, "separation", design.by_term(direction))
    if rows["against"] == 0 < rows["along"]:
        size = np.abs(direction)
        involved = [term for term, where in design.slices.items() if size[where].max() > DRIFTING_ABOVE * size.max()]
        raise UserError(
            f"models.{design.model}: the terms {', '.join(involved)} together separate {rows['along']:,.0f} rows by their "
            f"response, so their coefficients have no finite estimate\n  leave one of these terms out, or merge its rare levels"
        )
