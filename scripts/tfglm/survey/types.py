"""The texts of a column: their type, the format of dates, the marks of missing values and the decimal character."""

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from tfglm.config import Layout, LayoutColumn
from tfglm.data.values import values_of

CERTAIN_MARKS = [
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "<NA>", "NULL", "null", "#N/A", "?"),
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
]
MARKS = [*CERTAIN_MARKS, "None", "none", "-", "--", ".", " ", "  ", " ?"]
"""Possible marks of a missing value; among texts, where `None` may be a value, only the certain ones."""

DAYS = [
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y"),
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

CODE = "^0[0-9]+$"
"""Digits that begin with 0 are no number but a code, such as a postal code."""

DECIMAL_COMMA = r"^\s*[+-]?([0-9]*,([0-9]{1,2}|[0-9]{4,})|0*,[0-9]+|[0-9]{4,},[0-9]+)\s*$"
"""A number with a comma that does not part thousands, as that of 1,234 might."""


def decimal_of(columns: Mapping[str, pl.Series], separator: str) -> str:
    """Return the character before the decimals in columns of texts: a comma, if more texts are numbers with commas than
    with points. If semicolons separate the columns, a comma counts as a thousands separator only if it must be."""
    comma = "," if separator == ";" else DECIMAL_COMMA
    with_point = with_comma = 0
    for texts in columns.values():
        known = texts.filter(~texts.is_in(MARKS))
        with_comma += bool(known.str.contains(comma).any()) and type_of(known, ",").type == "number"
        with_point += type_of(known).type == "number"
    return "," if with_comma > with_point else "."


def type_of(texts: pl.Series, decimal: str = ".") -> LayoutColumn:
    """The first type that all of some different texts have: whole numbers, numbers, dates; text if none."""
    if not len(texts) or is_code(texts):
        return LayoutColumn(type="string")
    candidates = [LayoutColumn(type="integer"), LayoutColumn(type="number")]
    if len(texts) >= FEWEST_BARE_DATES and texts.str.contains(BARE_DATE).all():
        candidates.insert(0, LayoutColumn(type="date", format="%Y%m%d"))
    for column in candidates:
        if fits(texts, column, decimal):
            return column
    return date_type(texts) or LayoutColumn(type="string")


def is_code(texts: pl.Series) -> bool:
    """Return whether texts are codes of digits, some of which begin with 0."""
    return bool(texts.str.contains(CODE).any())


def fits(texts: pl.Series, column: LayoutColumn, decimal: str = ".") -> bool:
    """Whether all texts are values of a type. Most types are out after the first values."""
    return all(not values_of(part.to_arrow(), column, decimal)[1].any() for part in (texts.head(100), texts))


def date_type(texts: pl.Series) -> LayoutColumn | None:
    """Return the format of dates, if the texts are dates. If day and month could be swapped, choose the format for which
    the dates are closest together."""
    # With %Y, 1.2.13 would be in the year 13.
    has_century = bool(texts.str.contains("[0-9]{4}").all())
    candidates = (LayoutColumn(type="date", format=form) for form in DATES if has_century or "%y" in (form or ""))
    column = next((column for column in candidates if fits(texts, column)), None)
    other = swapped(column) if column else None
    if column and other and fits(texts, other) and span(texts, other) < span(texts, column):
        return other
    return column


def swapped(column: LayoutColumn) -> LayoutColumn | None:
    """Return the format with day and month swapped; None if they are not adjacent numbers."""
    form = "".join(column.formats[:1])
    for first, second in itertools.permutations(("%d", "%m")):
        for mark in "/.-":
            if form.startswith(f"{first}{mark}{second}"):
                return column.model_copy(update={"format": f"{second}{mark}{first}{form[5:]}"})
    return None


def span(texts: pl.Series, column: LayoutColumn) -> float:
    """Days between the first and the last date."""
    days = pl.Series(values_of(texts.to_arrow(), column)[0]).cast(pl.Int32).to_numpy()
    return float(np.ptp(days))


def doubtful_dates(layout: Layout, rows: pl.DataFrame) -> dict[str, str]:
    """The dates, by column, whose day and month could all as well be the other way round, with what to do."""
    doubtful = {}
    for name, column in layout.columns.items():
        other = swapped(column)
        if other and bool((rows[name].drop_nulls().dt.day() <= 12).all()):
            doubtful[name] = (
                f"dates read as {column.formats[0]}, but they could be {other.formats[0]} as well; correct `format`"
            )
    return doubtful


DATE_LIKE = r"^[0-9A-Za-z][0-9A-Za-z ,./:+-]{5,34}$"
"""The possible form of a date, in any of DATES."""


def mixed_dates(layout: Layout, rows: pl.DataFrame) -> dict[str, str]:
    """The columns read as text whose values are dates in two formats: how many rows have which, and how to read all of them."""
    mixed: dict[str, str] = {}
    for name, column in layout.columns.items():
        if column.type != "string" or name not in rows.columns:
            continue
        counted = rows[name].drop_nulls().value_counts(name="rows")
        counted = counted.filter(~pl.col(name).is_in(MARKS)).sort("rows", name, descending=True)
        looks = counted[name].str.contains(DATE_LIKE) & counted[name].str.contains("[0-9]{2}")
        if len(counted) > 1 and looks.all():
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
