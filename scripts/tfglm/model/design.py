"""Formula and dictionary together: which coefficients there are. What can be refused before training is refused here."""

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from tfglm.data.dictionary import ABSENT, RARE, Column, Dictionary
from tfglm.errors import UserError, nearest
from tfglm.model.formula import FormulaTerm, parse


@dataclass(frozen=True)
class Term:
    """One term of the linear predictor.

    `intercept` and `numeric` terms have one coefficient; a numeric one multiplies (x - center) / scale, so that the
    information matrix is well conditioned. A `categorical` term has one coefficient for each of `levels`. The last ones
    may be levels that stand for others: RARE for the values in `rare`, if there are any, and ABSENT for a missing value, if
    `missing`.
    """

    name: str
    kind: Literal["intercept", "numeric", "categorical"]
    column: str | None = None
    column_kind: str | None = None
    levels: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    missing: bool = False
    center: float = 0.0
    scale: float = 1.0

    @property
    def size(self) -> int:
        return len(self.levels) if self.kind == "categorical" else 1

    @property
    def numbers(self) -> dict[str | None, int]:
        """The number of the level that each value has, by its label; None is a missing value."""
        # A value may be written like a level that is made, in a column that has no such level.
        made = [RARE] * bool(self.rare) + [ABSENT] * self.missing
        values = self.levels[: len(self.levels) - len(made)]
        numbers: dict[str | None, int] = {level: number for number, level in enumerate(values)}
        numbers |= dict.fromkeys(self.rare, len(values))
        return numbers | ({None: len(self.levels) - 1} if self.missing else {})


@dataclass(frozen=True)
class Design:
    """A model ready to be fitted. The coefficient vector has every level of every categorical term, in formula order.

    A row without a value in a `required` column is not used. `known_after_departure` are the terms that a prediction made
    before departure could not use.
    """

    model: str
    formula: str
    family: str
    response: str
    terms: tuple[Term, ...]
    required: tuple[str, ...]
    rows: dict[str, int]
    known_after_departure: tuple[str, ...] = ()

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each term lies in the coefficient vector."""
        where, start = {}, 0
        for term in self.terms:
            where[term.name] = slice(start, start + term.size)
            start += term.size
        return where

    @property
    def size(self) -> int:
        """Length of the coefficient vector."""
        return sum(term.size for term in self.terms)

    @cached_property
    def numeric(self) -> tuple[Term, ...]:
        """The terms with one coefficient, the intercept first."""
        return tuple(term for term in self.terms if term.kind != "categorical")

    @cached_property
    def categorical(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.kind == "categorical")

    @property
    def warnings(self) -> list[str]:
        """What whoever reads the results should know of the model."""
        if not self.known_after_departure:
            return []
        names = ", ".join(f"`{name}`" for name in self.known_after_departure)
        return [
            f"the model uses {names}, known only after departure: it cannot predict before a flight departs, and its metrics "
            f"are better than those of a prediction made then would be"
        ]

    def by_term(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a coefficient vector, as the passes take it."""
        return {term: vector[where] for term, where in self.slices.items()}

    def coefficients(self) -> Iterator[tuple[Term, str]]:
        """Term and level ('' for a term without levels) of each coefficient, in order."""
        for term in self.terms:
            for level in term.levels or ("",):
                yield term, level

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Design":
        raw = json.loads(path.read_text())
        tuples = ("levels", "rare")
        raw["terms"] = tuple(Term(**term | {key: tuple(term[key]) for key in tuples}) for term in raw["terms"])
        return cls(**raw | {key: tuple(raw[key]) for key in ("required", "known_after_departure")})


def design(model: str, formula: str, family: str, dictionary: Dictionary, known_late: Collection[str] = ()) -> Design:
    """The design of one model; `known_late` are the columns that are known only after departure.

    Raises UserError for what cannot be fitted: see the checks below.
    """
    where = f"models.{model}.formula"
    response, terms = parse(formula, where)
    check_rows(dictionary)
    check_response(find(response, dictionary, where), family, f"models.{model}")
    if response in (term.column for term in terms):
        raise UserError(f"{where}: `{response}` is the response and stands on the right-hand side too; remove it there")
    made = tuple(build_term(term, find(term.column, dictionary, where), where) for term in terms)
    late = tuple(term.name for term in made if term.column in known_late)
    intercept = Term("Intercept", "intercept")
    required = tuple(dictionary.required)
    return Design(model, formula, family, response, (intercept, *made), required, dictionary.rows, late)


def find(name: str, dictionary: Dictionary, where: str) -> Column:
    """The column `name`. Raises UserError if it was not kept."""
    if name not in dictionary.columns:
        raise UserError(
            f"{where}: no column `{name}`{nearest(name, dictionary.columns)}\n"
            f"  there are: {', '.join(dictionary.columns)}\n  to add one, name it in data.columns"
        )
    return dictionary.columns[name]


def check_rows(dictionary: Dictionary) -> None:
    """Raise UserError if nothing is left to train on."""
    if not dictionary.rows["train"]:
        raise UserError(
            "no training rows are left; results/data/rows.json tells which conditions dropped them\n"
            "  widen data.where or data.split.train, or take columns that are mostly missing out of data.columns"
        )


def check_response(column: Column, family: str, where: str) -> None:
    """Raise UserError unless the family can take this response and it varies."""
    if column.missing_rows is not None:
        raise UserError(
            f"{where}: the response `{column.name}` cannot have missing values as a level; take it out of data.missing"
        )
    if column.kind == "text":
        raise UserError(f"{where}: the response `{column.name}` is text; derive a number from it under data.derive")
    if column.minimum == column.maximum:
        raise UserError(
            f"{where}: the response `{column.name}` is {column.minimum:g} in all training rows, so there is nothing to "
            f"fit\n  check its definition in data.derive and the conditions in data.where"
        )
    if family == "binomial" and column.levels != [0.0, 1.0]:
        raise UserError(
            f"{where}: family binomial needs a response of 0 and 1, but `{column.name}` runs from {column.minimum:g} to "
            f"{column.maximum:g}\n  derive one under data.derive, e.g. `late: {column.name} >= 15`, or use family: gaussian"
        )


def build_term(term: FormulaTerm, column: Column, where: str) -> Term:
    """The term with its levels or its centre and scale. Raises UserError if it cannot have a coefficient."""
    if column.kind != "text" and not term.as_categorical:
        if column.missing_rows is not None:
            raise UserError(
                f"{where}: `{term.name}` is used as a number, so missing values cannot be a level of it\n"
                f"  write C({term.name}), or take it out of data.missing"
            )
        center, scale = column.mean, math.sqrt(column.variance) or 1.0
        return Term(term.name, "numeric", column.name, column.kind, center=center, scale=scale)
    if column.levels is None:
        raise UserError(f"{where}: `{term.name}` has more than 65,535 distinct values; use it as a number, without C()")
    if len(column.labels) < 2:
        raise UserError(
            f"{where}: `{term.name}` has the one level `{column.labels[0]}` in the training rows, so it has no effect to "
            f"estimate; remove it from the formula"
        )
    made = (tuple(column.labels), tuple(column.rare_labels), bool(column.missing_rows))
    return Term(term.name, "categorical", column.name, column.kind, *made)


def check_reference(design: Design, reference: dict[str, str]) -> None:
    """Raise UserError if a reference level asked for is not a level of a categorical term of the model."""
    levels = {term.name: term.levels for term in design.categorical}
    where = f"models.{design.model}.reference"
    for term, level in reference.items():
        if term not in levels:
            raise UserError(
                f"{where}: no categorical term `{term}`{nearest(term, levels)}\n  there are: {', '.join(levels)}"
            )
        if level not in levels[term]:
            raise UserError(
                f"{where}.{term}: no level `{level}` in the training rows{nearest(level, levels[term])}\n"
                f"  there are: {', '.join(levels[term])}"
            )
