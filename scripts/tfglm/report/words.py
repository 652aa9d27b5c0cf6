"""Columns, levels and numbers as a reader wants them: labels and units of the layouts, and digits that count."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from tfglm.design.terms import of_any_class

FACTOR = re.compile(r"C\((\w+)(?:, ([\w.]+))?\)")
"""A number that a formula takes for a factor, and how it is coded if by contrasts."""

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
    """What the layouts say of columns: labels of values, by column, units, and files with the coordinates of values."""

    labels: Mapping[str, Mapping[str, str]]
    units: Mapping[str, str]
    coordinates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of_json(cls, text: str) -> "Words":
        """From what `words_of_columns` of the config gives, as JSON."""
        columns = json.loads(text)
        labels = {name: column["labels"] for name, column in columns.items()}
        units = {name: column["unit"] for name, column in columns.items() if column["unit"]}
        return cls(
            labels, units, {name: column["coordinates"] for name, column in columns.items() if "coordinates" in column}
        )

    def level(self, term: str, level: str) -> str:
        """The label of a level; of an interaction, of each factor in it."""
        term = of_any_class(term)
        columns = [plain(part) for part in term.split(":")]
        parts = level.split(":") if len(columns) > 1 else [level]
        if len(parts) != len(columns):
            # Numbers in an interaction have no level, and a level may hold a colon.
            return level
        return ":".join(
            self._level(factor, column, part)
            for factor, column, part in zip(term.split(":"), columns, parts, strict=True)
        )

    def _level(self, factor: str, column: str, level: str) -> str:
        """The label of a level of a factor; of a contrast with the letter before it."""
        labels, coded = self.labels.get(column, {}), FACTOR.fullmatch(factor)
        contrast = CODED_LEVEL.fullmatch(level) if coded and coded[2] else None
        return contrast[1] + labels.get(contrast[2], contrast[2]) if contrast else labels.get(level, level)

    def against(self, term: str, reference: str) -> str:
        """What the levels of a term are compared with: the label of the reference level, or what a coding says; '' if nothing."""
        coded = FACTOR.fullmatch(of_any_class(term))
        return self.level(term, reference) if reference else CODED.get(str(coded and coded[2]), "")


NO_WORDS = Words({}, {})


def plain(term: str) -> str:
    """The column of a factor: `month` of `C(month)`."""
    factor = FACTOR.fullmatch(of_any_class(term))
    return factor[1] if factor else of_any_class(term)


def minus(text: object) -> object:
    """A negative number with a minus sign in place of the hyphen; anything else as it is."""
    return NEGATIVE.sub("−", text, count=1) if isinstance(text, str) and NEGATIVE.match(text) else text


def decimals_of(errors: pd.Series) -> int:
    """So many decimals that the smallest of some standard errors keeps two digits. What is rounding error beside most of them
    does not count."""
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


def two_digits(value: float) -> str:
    """A size in a sentence: two digits that count, all those before the point."""
    if value == 0 or abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.{max(1 - math.floor(math.log10(abs(value))), 0)}f}"


def four_that_count(value: float) -> str:
    """Four digits that count, and all those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
