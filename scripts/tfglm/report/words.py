"""Columns, levels and numbers as a reader wants them: labels and units of the layouts, and digits that count."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tfglm.errors import UserError
from tfglm.formula.names import class_and_term, with_class
from tfglm.formula.parse import term_of
from tfglm.formula.terms import Term

PERCENT = 10
"""A logarithm is reported for so many percent more of its column."""

CODED = {
    "contr.sum": "the mean of the levels",
    "contr.helmert": "the mean of the levels before",
    "contr.diff": "the level before",
}
"""What the coefficients of a coding are compared with."""

CODED_LEVEL = re.compile(r"([SHD]\.)(.+)", re.DOTALL)
"""A level in the name of a contrast."""


@dataclass(frozen=True)
class Words:
    """The words of the layouts for columns: labels of values, by column, units, and the names of columns on
    pages.

    `spans` has the largest value of a column of numbers less the smallest, `minima` the smallest, `zero_one` the columns that
    are 0 or 1, and `orders` the levels of columns that the config orders.
    """

    labels: Mapping[str, Mapping[str, str]]
    units: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[str, float] = field(default_factory=dict)
    minima: Mapping[str, float] = field(default_factory=dict)
    zero_one: frozenset[str] = frozenset()
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str, columns_of_data: Mapping[str, Any] = MappingProxyType({})) -> "Words":
        """From what `words_of_columns` of the config gives, as JSON, and the columns in dictionary.json."""
        columns = json.loads(text)
        labels = {name: column["labels"] for name, column in columns.items()}
        units = {name: column["unit"] for name, column in columns.items() if column["unit"]}
        names = {name: column["label"] for name, column in columns.items() if "label" in column}
        ranges = {name: (column["minimum"], column["maximum"]) for name, column in columns_of_data.items()}
        spans = {name: high - low for name, (low, high) in ranges.items() if low is not None and high is not None}
        minima = {name: ranges[name][0] for name in spans}
        zero_one = [
            name for name, ends in ranges.items() if ends == (0, 1) and columns_of_data[name]["kind"] == "integer"
        ]
        orders = {name: column["order"] for name, column in columns_of_data.items() if column.get("order")}
        return cls(labels, units, names, spans, minima, frozenset(zero_one), orders)

    def extent(self, factor: Term) -> float:
        """The largest value less the smallest of a number, or of a function of one; 0 if not known."""
        if not factor.calls:
            return self.spans.get(factor.name, 0.0)
        from tfglm.design import transforms

        span, low = (known.get(factor.columns[0], 0.0) for known in (self.spans, self.minima))
        values = low + np.linspace(0.0, span, 101)
        try:
            return float(np.ptp(transforms.learn(factor.calls, values, np.ones(101, int), "")[1])) if span else 0.0
        except UserError:  # no row of the fit has some of these values
            return 1.0

    def column(self, name: str) -> str:
        """What pages call a column."""
        return self.names.get(name, name)

    def term(self, term: str) -> str:
        """A term with what pages call its columns; functions stay as the formula has them."""
        label, bare = class_and_term(term)
        return with_class(label, ":".join(self.names.get(each.bare, each.name) for each in term_of(bare).factors))

    def level(self, term: str, level: str) -> str:
        """The label of a level; of an interaction, of each factor in it."""
        factors = term_of(term).factors
        parts = level.split(":") if len(factors) > 1 else [level]
        if len(parts) != len(factors):
            # Numbers in an interaction have no level, and a level may hold a colon.
            return level
        return ":".join(map(self._level, factors, parts))

    def _level(self, factor: Term, level: str) -> str:
        """The label of a level of a factor; of a contrast with the letter before it."""
        labels = {} if factor.is_curve or factor.calls else self.labels.get(next(iter(factor.columns), ""), {})
        contrast = CODED_LEVEL.fullmatch(level) if factor.coding else None
        return contrast[1] + labels.get(contrast[2], contrast[2]) if contrast else labels.get(level, level)

    def against(self, term: str, reference: str) -> str:
        """Say what the levels of a term are compared with: the label of the reference level, or the text of a coding; '' if
        nothing."""
        return self.level(term, reference) if reference else CODED.get(str(term_of(term).coding), "")


NO_WORDS = Words({}, {})


def amount(step: float, unit: str = "") -> str:
    """So much of a number: `1 year`, `10 years`, `0.1`."""
    one = step == 1 and unit.endswith("s") and not unit.endswith("ss")
    return f"{step:,.12g} {unit[:-1] if one else unit}".rstrip()


def plain(term: str) -> str:
    """What pages have a name for: the column of `C(month)` and of `s(month, bs=re)`, and other terms as they are."""
    return term_of(term).bare


def logged(term: str) -> tuple[str, float] | None:
    """Return the column of a term that is its logarithm, and how much the logarithm grows with PERCENT more of the column;
    None for other terms."""
    label, kind = class_and_term(term)[0], term_of(term)
    return (with_class(label, kind.columns[0]), math.log1p(PERCENT / 100) / math.log(kind.base)) if kind.base else None


def effects_in_words(term: str) -> str:
    """What random effects are: `slopes of Days by Subject`."""
    factor, *numbers = term_of(term).columns
    return f"{'slopes of ' if numbers else 'intercepts'}{' times '.join(numbers)} by {factor}"
