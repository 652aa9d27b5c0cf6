"""The objectives of regressions of classes. Each class except the reference has a linear predictor, or all have one and
thresholds."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from tfglm.design.design import Design
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.inference.fitted import Fitted
from tfglm.solvers import newton
from tfglm.solvers.information import Blocks, null_vectors
from tfglm.solvers.objective import CountedRows, Solution
from tfglm.solvers.plain import PlainObjective
from tfglm.solvers.run import Reporter, Run
from tfglm.solvers.separation import group_names, terms_in

SHOWN = 10
"""Levels that a message names."""


class ClassesObjective(PlainObjective):
    """F for a response with classes. A level that lacks a class is refused. It is not left out, because its rows inform
    about the other classes."""

    detects_separation: ClassVar[bool] = False
    though: ClassVar[str] = ", though each level has all of them"
    """What a message about separated classes adds."""

    @classmethod
    def of(cls, counted: CountedRows, run: Run, without: str | None = None) -> Self:
        refuse_lacking_classes(counted.workload.design, counted.counts)
        cls._check_levels(counted.workload.design, counted.counts)
        return super().of(counted, run, without)

    @classmethod
    def _check_levels(cls, design: Design, counts: Sums) -> None:
        """Raise UserError if no row of a level belongs to some class, so that a coefficient of this class is infinite."""
        lacking = [
            f"{name} has no row of class {label}"
            for number, name, group in levels_of_terms(design, counts)
            for which, label in enumerate(design.likelihood.class_labels)
            if counts["class", which, number][group] == 0
        ]
        remedy = "derive coarser classes, or add a ridge (`l2`), which keeps them finite"
        refuse_levels(design, "as levels lack a class", lacking, remedy)

    @classmethod
    def _overlapping(cls, workload: Workload, run: Run, counts: Sums, terms: list[str]) -> tuple[Workload, Sums]:
        return workload, counts

    @classmethod
    def _null_model(cls, workload: Workload, run: Run, counts: Sums) -> tuple[np.ndarray, float]:
        return null_model(workload.design, counts)

    def redundant(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
        return null_vectors(blocks, self.design.size)

    def squares(self) -> Blocks:
        """The information matrix at the null model, where all rows weigh alike."""
        return self.at(self.null_coefficients).information

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        """Raise UserError with the terms that separate the classes, found by the coefficients that go to infinity."""
        names = terms_in(self.design, np.abs(coefficients - self.null_coefficients))
        raise UserError(
            f"models.{self.design.model}: the estimates run off to infinity: the terms "
            f"{', '.join(f'`{name}`' for name in names)} separate classes{self.though}\n"
            f"  leave one of the terms out, merge rare levels with data.rare, or derive coarser classes"
        )

    def facts(self, fitted: Fitted) -> dict:
        design = self.design
        # With several linear predictors, a row has no single residual.
        return {
            "classes": list(design.likelihood.class_labels),
            "reference_class": design.likelihood.reference_class,
            "pearson_dispersion": None,
        }


class OrderedObjective(ClassesObjective):
    """F for a response with ordered classes. A level whose rows are all in the lowest class, or all in the highest, is
    refused: its coefficient has no finite estimate."""

    though: ClassVar[str] = ""

    @classmethod
    def _check_levels(cls, design: Design, counts: Sums) -> None:
        """Raise UserError if all rows of a level are in the lowest class, or in the highest."""
        labels = design.likelihood.class_labels
        lacking = [
            f"all rows of {name} are of class {labels[which]}, the {end}"
            for number, name, group in levels_of_terms(design, counts)
            for end, which in {"lowest": 0, "highest": len(labels) - 1}.items()
            if counts["class", which, number][group] == counts["weight_sum", number][group]
        ]
        remedy = "or add a ridge (`l2`), which keeps them finite"
        refuse_levels(design, "as levels have one class at an end", lacking, remedy)

    @classmethod
    def _null_model(cls, workload: Workload, run: Run, counts: Sums) -> tuple[np.ndarray, float]:
        design = workload.design
        coefficients, loss = null_model(design, counts)
        if not design.roles.offset:
            return coefficients, loss
        alone = replace(design, terms=tuple(term for term in design.terms if term.base == INTERCEPT), numeric=())
        counted = CountedRows(workload.with_design(alone), counts, alone, counts)
        point = newton.solve(ThresholdsObjective.of(counted, replace(run, reporter=Reporter())).begin()).point
        # The constants come first.
        coefficients[: alone.size] = point.coefficients
        return coefficients, point.loss

    def facts(self, fitted: Fitted) -> dict:
        return {"classes": list(self.design.likelihood.class_labels), "ordered": True, "pearson_dispersion": None}


class ThresholdsObjective(OrderedObjective):
    """F of the model with thresholds and offset alone. Its solver begins at the thresholds without the offset."""

    @classmethod
    def _null_model(cls, workload: Workload, run: Run, counts: Sums) -> tuple[np.ndarray, float]:
        return null_model(workload.design, counts)


def refuse_lacking_classes(design: Design, counts: Sums) -> None:
    """Raise UserError if no row belongs to some class. Coefficients of this class then have no finite estimate."""
    without = [label for which, label in enumerate(design.likelihood.class_labels) if not counts["class", which]]
    if without:
        raise UserError(
            f"models.{design.model}: no training row of class {', '.join(without)} of "
            f"`{design.roles.response}` has a weight above 0\n"
            f"  leave these rows out in data.where, so that there is no such class, or correct `weights` or `frequency`"
        )


def levels_of_terms(design: Design, counts: Sums) -> Iterator[tuple[int, str, int]]:
    """Yield the levels with rows whose coefficients no penalty keeps finite: the number of the grouping, the name, and the number
    of each."""
    seen = set()
    for part in design.parts:
        infinite = part.grouping and not part.multiplier and part.term.name in design.unpenalised_terms
        if not infinite or part.grouping in seen:
            continue
        seen.add(part.grouping)
        number = design.groupings.index(part.grouping)
        groups = np.flatnonzero(counts["rows", number] > 0)
        for group, name in zip(groups, group_names(design, part.grouping, groups), strict=True):
            yield number, f"{':'.join(part.grouping)} {name}", int(group)


def refuse_levels(design: Design, why: str, named: list[str], remedy: str) -> None:
    """Raise UserError if some levels are `named`."""
    if named:
        raise UserError(
            f"models.{design.model}: coefficients would be infinite, {why}: {'; '.join(named[:SHOWN])}"
            f"{f'; and {len(named) - SHOWN:,} more' if len(named) > SHOWN else ''}\n"
            f"  merge rare levels with data.rare, leave their rows out in data.where, {remedy}"
        )


def null_model(design: Design, counts: Sums) -> tuple[np.ndarray, float]:
    """The coefficients [p] and the loss of the model with only an intercept for each class, or the thresholds alone, without an
    offset; without intercepts, the model of equal odds."""
    labels = design.likelihood.class_labels
    of_classes = np.array([float(counts["class", number]) for number in range(len(labels))])
    total, coefficients = of_classes.sum(), np.zeros(design.size)
    constants = {design.slices[term.name].start: term.equation for term in design.terms if term.base == INTERCEPT}
    if not constants:
        return coefficients, float(total * np.log(len(of_classes)))
    if design.likelihood.is_ordered:
        zeta = [design.distribution.link(share) for share in np.cumsum(of_classes)[:-1] / total]
        coefficients[[*constants]] = [-zeta[0], *(each - zeta[0] for each in zeta[1:])]
    else:
        against = of_classes[labels.index(design.likelihood.reference_class or "")]
        for place, equation in constants.items():
            coefficients[place] = np.log(of_classes[labels.index(equation)] / against)
    return coefficients, float(-(of_classes @ np.log(of_classes / total)))
