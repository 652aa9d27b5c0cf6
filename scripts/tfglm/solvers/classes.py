"""What a regression of classes begins with: its null model. Levels that lack a class are refused."""

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import INTERCEPT
from tfglm.engine.passes import Sums
from tfglm.errors import UserError
from tfglm.solvers.separation import group_names

SHOWN = 10
"""Levels that a message names."""


def refuse_lacking_levels(design: Design, counts: Sums) -> None:
    """Raise UserError if all rows, or those of a level, lack a class: then coefficients have no finite estimate, while the rows
    still tell of the other classes."""
    without = [label for which, label in enumerate(design.class_labels) if not counts[f"class_{which}"]]
    if without:
        raise UserError(
            f"models.{design.model}: no training row of class {', '.join(without)} of `{design.response}` has a weight above 0\n"
            f"  leave these rows out in data.where, so that there is no such class, or correct `weights` or `frequency`"
        )
    lacking, seen = [], set()
    for part in design.parts:
        infinite = part.grouping and not part.multiplier and part.term.name in design.unpenalised_terms
        if not infinite or part.grouping in seen:
            continue
        seen.add(part.grouping)
        number = design.groupings.index(part.grouping)
        for which, label in enumerate(design.class_labels):
            groups = np.flatnonzero((counts[f"rows_{number}"] > 0) & (counts[f"class_{which}_{number}"] == 0))
            names = group_names(design, part.grouping, groups)
            lacking += [f"{':'.join(part.grouping)} {name} has no row of class {label}" for name in names]
    if lacking:
        raise UserError(
            f"models.{design.model}: coefficients would be infinite, as levels lack a class: {'; '.join(lacking[:SHOWN])}"
            f"{f'; and {len(lacking) - SHOWN:,} more' if len(lacking) > SHOWN else ''}\n"
            f"  merge rare levels with data.rare, leave their rows out in data.where, derive coarser classes, or add a ridge "
            "(`l2`), which keeps them finite"
        )


def null_model(design: Design, counts: Sums) -> tuple[np.ndarray, float]:
    """Coefficients [p] and loss of the model with an intercept for each class alone; without intercepts, of equal odds."""
    of_classes = np.array([float(counts[f"class_{number}"]) for number in range(len(design.class_labels))])
    total, coefficients = of_classes.sum(), np.zeros(design.size)
    if not any(term.base == INTERCEPT for term in design.terms):
        return coefficients, float(total * np.log(len(of_classes)))
    against = of_classes[design.class_labels.index(design.reference_class or "")]
    for term in design.terms:
        if term.base == INTERCEPT:
            of_class = of_classes[design.class_labels.index(term.equation)]
            coefficients[design.slices[term.name]] = np.log(of_class / against)
    return coefficients, float(-(of_classes @ np.log(of_classes / total)))
