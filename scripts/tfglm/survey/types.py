"""The texts of a column: their type, the format of dates, and the marks of missing values."""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import partial

import numpy as np
import polars as pl

from tfglm.config import Layout, LayoutColumn
from tfglm.config.layouts import Numerals
from tfglm.data.values import PLAIN, ZERO_DECIMALS, values_of
from tfglm.survey.written_numbers import SYMBOLS, fits, invalid, number_type

CERTAIN_MARKS = [
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "<NA>", "NULL", "null", "#N/A", "?"),
    *("\\N", "(null)", "(NULL)", "<null>", "[NULL]", "#NA", "#N/D", "#NV", "#N/A N/A"),
    *("-NaN", "-nan", "1.#QNAN", "-1.#IND"),
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
]
MARKS = [*CERTAIN_MARKS, "None", "none", "-", "--", ".", " ", "  ", " ?"]
"""Possible marks of a missing value; among texts, where `None` may be a value, only the certain ones."""

DAYS = [
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%y/%m/%d", "%y.%m.%d"),
    *("%d-%b-%Y", "%d %b %Y", "%d/%b/%Y", "%b %d, %Y", "%b %d %Y", "%b-%d-%Y"),
    *("%d-%b-%y", "%d %b %y", "%b-%d-%y", "%d %B %Y", "%d-%B-%Y", "%B %d, %Y", "%B %d %Y"),
]
TIMES = [
    *("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M:%SZ", "T%H:%M", " %H:%M:%S%.f", "T%H:%M:%S%.f", "T%H:%M:%S%.fZ"),
    *(" %H:%M:%S%:z", "T%H:%M:%S%:z", " %I:%M %p", " %I:%M:%S %p"),
]
DATES = [None if day + time == "%Y-%m-%d" else day + time for time in TIMES for day in DAYS]
DATES += ["%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%d %H:%M:%S"]
"""Formats of a date, without and with a time of day; None is the default format of a layout."""

BARE_DATE = r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
"""A date of digits alone. A number that is none looks so by chance once in a thousand."""

FEWEST_BARE_DATES = 3

CODE = "^[+-]?0[0-9]+$"
"""Digits that begin with 0 are no number but a code, such as a postal code."""

MOST_DIGITS = 15
"""Longer whole numbers are codes: no program keeps all their digits in a number."""


def type_of(texts: pl.Series, numerals: Numerals = PLAIN) -> LayoutColumn:
    """The first type that all of some different texts have: whole numbers, numbers, dates; text if none."""
    if not len(texts) or is_code(texts):
        return LayoutColumn(type="string")
    bare_date = LayoutColumn(type="date", format="%Y%m%d")
    if len(texts) >= FEWEST_BARE_DATES and texts.str.contains(BARE_DATE).all() and fits(texts, bare_date):
        return bare_date
    return number_type(texts, numerals) or date_type(texts) or LayoutColumn(type="string")


def is_code(texts: pl.Series) -> bool:
    """Return whether texts are codes that numbers would not tell apart: some begin with 0, some whole numbers have more than
    MOST_DIGITS, or one number is written with an exponent and in another way."""
    bare = texts.str.strip_chars()
    if bare.str.contains(CODE).any():
        return True
    if bare.str.contains(r"^[+-]?[0-9]+(\.0*)?$").all():
        return bool(bare.str.replace(ZERO_DECIMALS, "$1").str.contains(rf"[0-9]{{{MOST_DIGITS + 1}}}").any())
    has_exponent = bare.str.contains("[0-9][eE]")
    if not has_exponent.any() or not fits(bare, LayoutColumn(type="number")):
        return False
    numbers = bare.cast(pl.Float64)
    return bool((numbers.is_duplicated() & has_exponent).any())


MOST_ODD, FEWEST_SOUND = 10, 10
"""Different values of a column that may stand out as missing ones, and sound values for each of them."""


def odd_values(counted: pl.DataFrame, numerals: Numerals) -> tuple[LayoutColumn, pl.DataFrame, bool] | None:
    """The type that most of the different texts of a column have, the others, and whether these can be no values: a few
    texts without a digit among numbers, or dates that no calendar has. None if no type fits most. `counted` has the texts
    with their `rows`."""
    texts = counted["text"]
    symbol = next((each for each in SYMBOLS if 2 * texts.str.contains(each, literal=True).sum() > len(texts)), None)
    candidates = [LayoutColumn(type="number", symbol=symbol)]
    first = texts.head(200)
    if 2 * looks_like_dates(first).sum() > len(first):
        candidates += [LayoutColumn(type="date", format=form) for form in DATES]
    column = min(candidates, key=lambda each: invalid(first, each, numerals).sum())
    odd = invalid(texts, column, numerals)
    if 2 * odd.sum() >= len(texts):
        return None
    sound, strange = texts.filter(~odd), texts.filter(odd)
    if column.type == "date":
        shapes, of_sound = (each.str.replace_all("[0-9]", "0") for each in (strange, sound))
        is_none = set(shapes) <= set(of_sound)
    else:
        is_none = not strange.str.contains("[0-9]").any()
    is_none &= len(strange) <= MOST_ODD and len(sound) >= FEWEST_SOUND * len(strange)
    return type_of(sound, numerals), counted.filter(odd), is_none


DATE_LIKE = r"^\s*[0-9A-Za-z][0-9A-Za-z ,./:+-]{5,34}\s*$"
"""The possible form of a date, in any of DATES."""


def looks_like_dates(texts: pl.Series) -> pl.Series:
    """Which texts could be dates: with a day and a year, apart from each other."""
    return texts.str.contains(DATE_LIKE) & texts.str.contains("[0-9]{2}") & texts.str.contains("[0-9][^0-9]+[0-9]")


def date_type(texts: pl.Series) -> LayoutColumn | None:
    """Return the format of dates, if the texts are dates. If day, month and year could be in another order, choose the format
    for which the dates are closest together."""
    if not looks_like_dates(texts.head(100)).all():
        return None
    # With %Y, 1.2.13 would be in the year 13.
    has_century = bool(texts.str.contains("[0-9]{4}").all())
    candidates = (LayoutColumn(type="date", format=form) for form in DATES if has_century or "%y" in (form or ""))
    column = next((column for column in candidates if fits(texts, column)), None)
    if not column:
        return None
    others = (LayoutColumn(type="date", format=form) for form in reordered(column.formats))
    return min([column, *(each for each in others if fits(texts, each))], key=partial(span, texts))


def reordered(formats: Sequence[str]) -> list[str]:
    """The formats with the same parts as the only one of some in another order."""
    return [form for form in DATES if form and form not in formats and [sorted(form)] == list(map(sorted, formats))]


def span(texts: pl.Series, column: LayoutColumn) -> float:
    """Days between the first and the last date."""
    days = pl.Series(values_of(texts.to_arrow(), column)[0]).cast(pl.Int32).to_numpy()
    return float(np.ptp(days))


def doubtful_dates(layout: Layout, rows: pl.DataFrame) -> dict[str, str]:
    """The dates, by column, whose day and month could all as well be the other way round, or that are to come as their years
    have two digits, with what to do."""
    doubtful = {}
    for name, column in layout.columns.items():
        if column.type != "date" or not column.formats or name not in rows.columns:
            continue
        of_day, *_ = re.split("[T ]%[HI]", column.formats[0])
        days = rows[name].drop_nulls().unique()
        texts = days.dt.to_string(of_day)
        # A year of two digits in another place would be a day, and the span of the dates tells which it is.
        others = (form for form in reordered([of_day]) if form.find("y") == of_day.find("y"))
        if other := next((form for form in others if fits(texts, LayoutColumn(type="date", format=form))), ""):
            doubtful[name] = f"dates read as {of_day}, but they could be {other} as well; correct `format`"
        elif "%y" in of_day and isinstance(latest := days.max(), date) and latest > date.today():
            doubtful[name] = (
                f"years of two digits, of which {latest:%y} is read as {latest:%Y}; if that is wrong, write years with four "
                "digits"
            )
    return doubtful


def mixed_dates(layout: Layout, rows: pl.DataFrame) -> dict[str, str]:
    """The columns read as text whose values are dates in two formats: how many rows have which, and how to read all of them."""
    mixed: dict[str, str] = {}
    for name, column in layout.columns.items():
        if column.type != "string" or name not in rows.columns:
            continue
        counted = rows[name].drop_nulls().value_counts(name="rows")
        counted = counted.filter(~pl.col(name).is_in(MARKS)).sort("rows", name, descending=True)
        if len(counted) > 1 and looks_like_dates(counted[name]).all():
            remark = two_formats(name, counted)
            mixed |= {name: remark} if remark else {}
    return mixed


def two_formats(name: str, counted: pl.DataFrame) -> str | None:
    """The remark for one column, of whose texts `rows` are counted; None unless two formats have all of them."""
    # Codes look like dates too: of a column of dates, every text is read by some format.
    if not any(read_by(counted.head(100), name, form)[1] for form in DATES):
        return None
    found: list[tuple[str, int, pl.Series]] = []
    rest = counted
    while len(rest) and len(found) < 2:
        best = max((read_by(rest, name, form) for form in DATES), key=lambda form_read: form_read[1])
        found.append(best)
        rest = rest.filter(~best[2])
    if len(rest) or len(found) < 2:
        return None
    rows = " and ".join(f"{number:,} as {form}" for form, number, _ in found)
    text = f"dates in two formats, {rows}, so read as text"
    (first, _, read), (second, *_) = found
    shapes = counted[name].str.replace_all("[0-9A-Za-z]", "_")
    (shape, *others), rest_shapes = shapes.filter(read).unique().to_list(), set(shapes.filter(~read))
    if others or shape in rest_shapes or "%H" in first + second or "%I" in first + second:
        return f"{text}; write them alike"
    return (
        f"{text}; to read all, derive CASE WHEN \"{name}\" LIKE '{shape}' THEN DATE(\"{name}\", '{first}') "
        f"ELSE DATE(\"{name}\", '{second}') END"
    )


def read_by(counted: pl.DataFrame, name: str, form: str | None) -> tuple[str, int, pl.Series]:
    """A format, how many rows it reads, and which texts."""
    bad = values_of(counted[name].to_arrow(), LayoutColumn(type="date", format=form))[1]
    read = pl.Series(~np.asarray(bad, bool))
    return form or "%Y-%m-%d", int(counted["rows"].filter(read).sum()), read


def missing_marks(columns: Iterable[pl.Series], texts: Iterable[pl.Series]) -> list[str]:
    """Return which of MARKS occur in columns that are not text, and which of CERTAIN_MARKS and blanks in any, the `texts`."""
    marked, blanks = {"", "NA"}, set()
    for values in columns:
        marked |= set(values.filter(values.is_in(MARKS)))
    for values in texts:
        marked |= set(values.filter(values.is_in(CERTAIN_MARKS)))
        blanks |= set(values.filter(values.str.strip_chars() == ""))
    return [*sorted(marked, key=MARKS.index), *sorted(blanks - marked)]
