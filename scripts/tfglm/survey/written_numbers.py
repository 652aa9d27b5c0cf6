"""How the numbers of a file are written: one convention of decimals and thousands for all, and the symbol of a column."""

from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import polars as pl

from tfglm.config import LayoutColumn
from tfglm.config.layouts import Numerals
from tfglm.data.values import MARKS_OF_THOUSANDS, PLAIN, values_of
from tfglm.errors import UserError, short

SYMBOLS = "%$€£¥"

MARKED = r"[0-9][.,'\u2019\u00a0\u2009\u202f ][0-9]|[.,][0-9]"
"""Digits with a mark of decimals or thousands."""

CONVENTIONS = [Numerals(".", mark) for mark in (None, ",", "'", "blank")]
CONVENTIONS += [Numerals(",", mark) for mark in (None, ".", "'", "blank")]
"""The likeliest first, unless semicolons separate the columns."""

FEWEST_GROUPED, FEWEST_CERTAIN, FEWEST_SHORT = 10, 50, 3
"""Different numbers with three digits behind each mark, and others below 1,000 without one, that tell of thousands: decimals
that end in 0 would be shorter. So many are certain, as none of them would end in 0 once in 200 files."""


DECIMALS = {"": "", "point": ".", "comma": ","}


def decimal_character(word: object) -> str:
    """The character before decimals by its name; empty if nothing is said. Raises UserError for another word."""
    if not isinstance(word, str) or word not in DECIMALS:
        raise UserError(f"decimal: `{short(str(word))}` must be point or comma")
    return DECIMALS[word]


def invalid(texts: pl.Series, column: LayoutColumn, numerals: Numerals = PLAIN) -> pl.Series:
    """Which texts are no values of a type."""
    return pl.Series(np.asarray(values_of(texts.to_arrow(), column, numerals)[1], bool))


def fits(texts: pl.Series, column: LayoutColumn, numerals: Numerals = PLAIN) -> bool:
    """Whether all texts are values of a type. Most types are out after the first values."""
    return not any(invalid(part, column, numerals).any() for part in (texts.head(100), texts))


def number_type(texts: pl.Series, numerals: Numerals = PLAIN) -> LayoutColumn | None:
    """Whole numbers or numbers, if all of some different texts are such with the same symbol or none."""
    symbol = next((each for each in SYMBOLS if each in texts[0] and texts.str.contains(each, literal=True).all()), None)
    columns = [LayoutColumn(type="integer", symbol=symbol), LayoutColumn(type="number", symbol=symbol)]
    return next((column for column in columns if fits(texts, column, numerals)), None)


def numerals_of(columns: Mapping[str, pl.Series], separator: str, decimal: str = "") -> tuple[Numerals, dict[str, str]]:
    """Return the convention by which most columns of texts are numbers, and a remark on each column that another convention
    would read, or read otherwise. `decimal` is that of the file, if it is known."""
    marked = {name: texts for name, texts in columns.items() if texts.str.contains(MARKED).any()}
    conventions = [each for each in CONVENTIONS if decimal in ("", each.decimal)]
    if separator == ";":
        conventions.sort(key=lambda each: (each.thousands is not None, each.decimal != ","))
    values: dict[Numerals, dict[str, np.ndarray]] = {each: {} for each in conventions}
    for name, texts in marked.items():
        numbers_by = cache(partial(_numbers, texts))
        for each in conventions:
            has_mark = each.thousands and texts.str.contains(MARKS_OF_THOUSANDS[each.thousands]).any()
            numbers = numbers_by(each if has_mark else Numerals(each.decimal))
            values[each] |= {name: numbers} if numbers is not None else {}
    most = max(map(len, values.values()))
    if not most:
        return Numerals("," if decimal == "," else "."), {}
    chosen, *others = [each for each in conventions if len(values[each]) == most]
    other = next((each for each in others if _different(values[chosen], values[each])), chosen)
    if other.thousands and not chosen.thousands:
        unlike = _different(values[chosen], values[other])
        if all(_are_grouped(marked[name]) for name in unlike):
            chosen, other = other, chosen
    remarks = {
        name: f"numbers written as {marked[name][0]}, unlike those of other columns, so read as text"
        for name in set().union(*values.values()) - values[chosen].keys()
    }
    word = {".": "point", ",": "comma"}[other.decimal]
    unlike = _different(values[chosen], values[other])
    open_columns = (
        {} if all(_are_grouped(marked[name], FEWEST_CERTAIN) for name in unlike) and chosen.thousands else unlike
    )
    for name, place in open_columns.items():
        read, instead = (f"{values[each][name][place]:.15g}" for each in (chosen, other))
        remarks[name] = (
            f"{marked[name][place]} is read as {read}, but could mean {instead}; if so, ask again with decimal={word}"
        )
    return chosen, remarks


def _numbers(texts: pl.Series, numerals: Numerals) -> np.ndarray | None:
    """The values of the first of some texts, if all are numbers."""
    column = number_type(texts, numerals)
    if not column:
        return None
    return pl.Series(values_of(texts.head(1000).to_arrow(), column, numerals)[0]).cast(pl.Float64).to_numpy()


def _different(values: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The columns whose numbers differ, each with the place of the first one that does."""
    unlike = {name: np.flatnonzero(values[name] != others[name]) for name in values if name in others}
    return {name: int(places[0]) for name, places in unlike.items() if len(places)}


def _are_grouped(texts: pl.Series, fewest: int = FEWEST_GROUPED) -> bool:
    """Whether numbers below 1,000 have no mark, and all others, `fewest` or more, do."""
    short = texts.str.contains("^[^0-9]*[1-9][0-9]{0,2}[^0-9]*$")
    return int(short.sum()) >= FEWEST_SHORT and int((~short).sum()) >= fewest
