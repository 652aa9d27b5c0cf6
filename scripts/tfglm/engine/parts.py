"""The parts of a design as passes see them: what is looked up where, and which blocks the information matrix has."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import Part
from tfglm.engine.bases import Basis
from tfglm.engine.rows import Multiplier, cluster_key
from tfglm.engine.sums import Key, Sum, SumLayout


def looked_up_parts(design: Design) -> tuple[list[Multiplier], np.ndarray]:
    """The distinct multipliers of a design, and its parts as `kernels.add_linear_predictor` takes them."""
    of_part = [Multiplier.of(design, part) for part in design.parts]
    distinct = list(dict.fromkeys(key for key in of_part if key))
    places = [
        (
            part.where.start,
            design.groupings.index(part.grouping) if part.grouping else -1,
            distinct.index(multiplier) if multiplier else -1,
        )
        for part, multiplier in zip(design.parts, of_part, strict=True)
    ]
    return distinct, np.array(places, np.int64).reshape(-1, 3)


def numbers_of(parts: np.ndarray) -> list[tuple[int, ...]]:
    """The multiplier of each part, if it has one, as `Sum` names it."""
    return [() if which < 0 else (int(which),) for _, _, which in parts]


def sum_layout(design: Design, sums: Mapping[Key, Sum], bases: Sequence[Basis] = ()) -> SumLayout:
    """The positions of these sums, for rows with the groups of the design and the columns of these bases."""
    sizes: dict[Hashable, int] = {grouping: design.levels_of(grouping) for grouping in design.groupings}
    sizes |= {cluster_key(number): count for number, count in enumerate(design.inference.cluster_counts)}
    return SumLayout(sums, sizes, bases)


def derivative(design: Design, parts: np.ndarray, *by: Hashable, name: str = "part") -> dict[Key, Sum]:
    """Return the derivative by the coefficients of each part, in their order; `residual` is that by the linear predictor."""
    return {
        (name, k): Sum(("residual", *equations_of(design, part)), numbers, (*by, *filter(None, [part.grouping])))
        for k, (part, numbers) in enumerate(zip(design.parts, numbers_of(parts), strict=True))
    }


def products(design: Design, parts: np.ndarray, *by: Hashable) -> dict[Key, Sum]:
    """Return the blocks of X' diag(weight) X by pair of parts: of nested parts, and of a part with itself, the sums by the finer
    groups."""
    blocks: dict[Key, Sum] = {}
    numbers = numbers_of(parts)
    for j, k in block_pairs(design):
        first, second = design.parts[j], design.parts[k]
        both = {1: (second,), -1: (first,), 0: (first, second)}[nesting(first, second)]
        groups = (part.grouping for part in both if part.grouping)
        weight = ("weight", *sorted(equations_of(design, first, second)))
        blocks["block", j, k] = Sum(weight, (*numbers[j], *numbers[k]), (*by, *groups))
    return blocks


def equations_of(design: Design, *parts: Part) -> tuple[int, ...]:
    """Return the numbers of the equations that some parts belong to; 0 if there is only one linear predictor."""
    return tuple(design.equations.index(part.term.equation) if design.equations else 0 for part in parts)


def block_pairs(design: Design) -> list[tuple[int, int]]:
    """Return the numbers of the pairs of parts whose blocks of X'WX are summed: without pairs of absorbed factors (engine.cells).
    A part without groups comes before others, and the eliminated ones last."""
    last, absorbed = design.eliminated_parts, design.absorbed_parts
    single = [k for k, part in enumerate(design.parts) if not part.grouping]
    grouped = [k for k, part in enumerate(design.parts) if part.grouping]
    return [
        *combinations_with_replacement(single, 2),
        *((j, k) for k in grouped for j in (k, *single)),
        *(
            (k, j) if j in last and k not in last else (j, k)
            for j, k in combinations(grouped, 2)
            if not (j in absorbed and k in absorbed and design.parts[j].grouping != design.parts[k].grouping)
        ),
    ]


def nesting(first: Part, second: Part) -> int:
    """Return 1 if the groups of the second part divide the groups of the first, -1 for the reverse, 0 for neither."""
    if set(first.grouping) <= set(second.grouping):
        return 1
    return -1 if set(second.grouping) <= set(first.grouping) else 0
