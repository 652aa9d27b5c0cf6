"""Columns, levels and numbers as a reader wants them: labels and units of the layouts, and digits that count."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

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

NEGATIVE = re.compile(r"-(?=\d[\d,.]*(e[+-]\d+)?\Z|inf\Z)")


@dataclass(frozen=True)
class Words:
    """The words of the layouts for columns: labels of values, by column, units, files with the coordinates of values, and
    the names of columns on pages.

    `spans` has the largest value of a column of numbers less the smallest, `minima` the smallest, `zero_one` the columns that
    are 0 or 1, and `orders` the levels of columns that the config orders.
    """

    labels: Mapping[str, Mapping[str, str]]
    units: Mapping[str, str]
    coordinates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
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
        coordinates, names = (
            {name: column[key] for name, column in columns.items() if key in column} for key in ("coordinates", "label")
        )
        ranges = {name: (column["minimum"], column["maximum"]) for name, column in columns_of_data.items()}
        spans = {name: high - low for name, (low, high) in ranges.items() if low is not None and high is not None}
        minima = {name: ranges[name][0] for name in spans}
        zero_one = [
            name for name, ends in ranges.items() if ends == (0, 1) and columns_of_data[name]["kind"] == "integer"
        ]
        orders = {name: column["order"] for name, column in columns_of_data.items() if column.get("order")}
        return cls(labels, units, coordinates, names, spans, minima, frozenset(zero_one), orders)

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


def plain(term: str) -> str:
    """What pages have a name for: the column of `C(month)` and of `s(month, bs=re)`, and other terms as they are."""
    return term_of(term).bare


def logged(term: str) -> tuple[str, float] | None:
    """Return the column of a term that is its logarithm, and how much the logarithm grows with PERCENT more of the column;
    None for other terms."""
    label, kind = class_and_term(term)[0], term_of(term)
    return (with_class(label, kind.columns[0]), math.log1p(PERCENT / 100) / math.log(kind.base)) if kind.base else None


def minus(text: object) -> object:
    """Return a number with a minus sign instead of the hyphen; other values unchanged."""
    return NEGATIVE.sub("−", text, count=1) if isinstance(text, str) and NEGATIVE.match(text) else text


def decimals_of(errors: pd.Series) -> int:
    """Return the number of decimals that keeps two digits of the smallest standard error. Errors that are rounding errors
    compared with most of them do not count."""
    positive = errors[(errors > 0) & errors.map(math.isfinite)]
    positive = positive[positive > 1e-6 * positive.median()]
    return 2 if positive.empty else min(max(1 - math.floor(math.log10(positive.min())), 0), 12)


def fixed(value: float, decimals: int, no_zeros: bool = False) -> str:
    """A number with these decimals; empty if there is none.

    It is in powers of ten where it would be too long, and with `no_zeros` where it would be all zeros.
    """
    if pd.isna(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    # No minus before what is 0 to these decimals.
    short = f"{value:z,.{min(decimals, 6)}f}"
    all_zeros = value != 0 and float(short.replace(",", "")) == 0 and (no_zeros or decimals > 6)
    return str(minus(f"{value:.2e}" if all_zeros or abs(value) >= 1e7 else short))


def aligned(numbers: Sequence[str]) -> list[str]:
    """Numbers of a column with blanks as wide as digits after them, so that the decimal points are below each other."""
    after = [len(number) - number.index(".") if re.fullmatch(r"[^e]*\d\.\d+", number) else 0 for number in numbers]
    widest = max(after, default=0)
    blanks = [
        "\u2008" * (not places and widest > 0) + "\u2007" * (widest - max(places, widest > 0)) for places in after
    ]
    return [number + blank if number else "" for number, blank in zip(numbers, blanks, strict=True)]


def two_digits(value: float) -> str:
    """A size in a sentence: two digits that count, all those before the point."""
    if value == 0 or abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.{max(1 - math.floor(math.log10(abs(value))), 0)}f}"


def four_that_count(value: float) -> str:
    """Four digits that count, and all those before the point."""
    return str(minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"))
