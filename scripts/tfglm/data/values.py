"""The meaning of the text of a field, independent of the parser that split the lines.

Texts stay unchanged. Around numbers and times of day, blanks and tabs are ignored. A number is decimal: digits with an
optional sign, point and exponent, or `inf`; `nan`, 0x1F and 1_000 are no numbers. A whole number may have decimals that are
zero (15.00), or an exponent, and is exact up to 64 bits. With `decimal: ","` in the layout a comma replaces the point, and
1.5 is no number. `thousands` there is the character between groups of three digits, and `symbol` of a column one that each of
its numbers has. A number beyond the largest float64 is none. A date is YYYY-MM-DD, or follows the `format` of its column; a
time of day may follow one, too. Before all this, the whole field, quoted or not, is compared with the `missing` entries of the
layout.
"""

import codecs
import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import LayoutColumn
from tfglm.config.layouts import Numerals
from tfglm.data.distinct import Distinct

ARROW_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "clock": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "image": pa.binary(),
}
"""The kind of a column, by its type in the layout."""

DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
NUMBER = rf"^({DECIMAL}|[+-]?(?i:inf|infinity))$"
WHOLE = r"^[+-]?[0-9]{1,18}$"
ISO_DATE = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$"
ZERO_DECIMALS = r"^([+-]?[0-9]+)\.0*$"


class Unreadable(ValueError):
    """A block holds something that cannot be read; the message says what, without the place."""


PLAIN = Numerals()

MARKS_OF_THOUSANDS = {",": ",", ".": r"\.", "'": "['\u2019]", "blank": "[ \u00a0\u2009\u202f]"}
"""Patterns, by what the layout calls them."""


def values_of(texts: pa.Array, column: LayoutColumn, numerals: Numerals = PLAIN) -> tuple[pa.Array, np.ndarray]:
    """Parse texts as one of ARROW_TYPES. Return the values, and which texts are invalid (bool, [texts]); values there are
    arbitrary. `numerals` says how numbers are written.
    """
    if column.type == "string":
        return texts.cast(pa.string()), np.zeros(len(texts), bool)
    series = pl.Series(texts, dtype=pl.String)
    if column.type == "date":
        dates = series.str.to_date((column.formats or ["%Y-%m-%d"])[0], strict=False)
        for form in column.formats[1:]:
            dates = dates.fill_null(series.str.to_date(form, strict=False))
        wrong = dates.is_null()
        # The library reads ` 06-01-02` so, too, which is no date but a damaged one.
        return dates.to_arrow(), (wrong if column.format else wrong | ~series.str.contains(ISO_DATE)).to_numpy()
    series = in_digits(series.str.strip_chars(" \t"), column.symbol, numerals)
    if column.type == "clock" and column.format:
        clock = clock_of(series, column.formats[0])
        for form in column.formats[1:]:
            clock = clock.fill_null(clock_of(series, form))
        return clock.fill_null(0).to_arrow(), clock.is_null().to_numpy()
    if column.type == "number":
        numbers = series.cast(pl.Float64, strict=False)
        # A code such as 1E999 is no number either.
        overflows = numbers.is_infinite() & series.str.contains("[0-9]")
        unreadable = ~series.str.contains(NUMBER) | numbers.is_null() | overflows
        return numbers.fill_null(0.0).to_arrow(), unreadable.to_numpy()
    whole, none = whole_numbers(series)
    if column.type == "clock":
        none = none | is_no_clock(whole)
    return pl.Series(whole).to_arrow(), none


def in_digits(texts: pl.Series, symbol: str | None, numerals: Numerals) -> pl.Series:
    """The numbers with digits, a sign, a point and an exponent alone; a text that is no such number stays one that is none."""
    texts = texts.str.replace_all("\u2212", "-", literal=True)  # the minus of Unicode
    if symbol:
        mark = re.escape(symbol)
        bare = texts.str.replace(rf"^([+-]?)\s?{mark}\s?([+-]?[0-9])", "$1$2").str.replace(rf"\s?{mark}$", "")
        once = texts.str.count_matches(symbol, literal=True) == 1
        texts = bare.zip_with(once & ~bare.str.contains(symbol, literal=True), pl.Series(["?"]))
    if numerals.thousands:
        mark = MARKS_OF_THOUSANDS[numerals.thousands]
        grouped = rf"^[+-]?[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+({re.escape(numerals.decimal)}[0-9]*)?$"
        texts = texts.str.replace_all(mark, "").zip_with(texts.str.contains(grouped), texts)
    if numerals.decimal == ",":
        texts = texts.str.replace_many([",", "."], [".", ","])  # 1.5 is no number then
    return texts


def clock_of(texts: pl.Series, form: str) -> pl.Series:
    """The time of day, hours and minutes (741 is 07:41), of texts in a format; null for texts in another."""
    if form.endswith(("%z", "%:z")):  # the time as it is written, whatever the zone
        form, texts = form.rpartition("%")[0], texts.str.replace(r"([+-][0-9]{2}:?[0-9]{2}|Z)$", "")
    if "%d" not in form:  # a time alone is read with a day before it
        form, texts = f"%Y-%m-%d {form}", "2000-01-01 " + texts
    times = texts.str.to_datetime(form, strict=False)
    return times.dt.hour().cast(pl.Int64) * 100 + times.dt.minute()


def typed_values_of(values: pa.Array, how: LayoutColumn, numerals: Numerals) -> tuple[pa.Array, np.ndarray]:
    """The same for values that already have a type, such as those of a Parquet file: texts are read as in CSV. Raises
    Unreadable or pa.ArrowInvalid if no value of the column can be read."""
    none = np.zeros(len(values), bool)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if how.type != "string" and (is_text or pa.types.is_decimal(values.type)):
        how = how if is_text else how.model_copy(update={"symbol": None})
        return values_of(values.cast(pa.string()), how, numerals if is_text else PLAIN)
    if how.type in ("integer", "clock") and pa.types.is_floating(values.type):
        numbers = pl.Series(values).to_numpy()
        none = ~((np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63))
        values = pl.Series(np.where(none, 0, numbers).astype(np.int64)).to_arrow()
    elif how.type in ("integer", "number", "clock") and values.type != ARROW_TYPES[how.type]:
        series = pl.Series(values)
        # The shortest decimals that a float32 stands for: 0.1, not 0.10000000149011612.
        series = series.cast(pl.String) if series.dtype == pl.Float32 else series
        series = series.cast(pl.Float64 if how.type == "number" else pl.Int64, strict=False)
        values, none = series.to_arrow(), series.is_null().to_numpy()
    elif values.type != ARROW_TYPES[how.type]:
        values = values.cast(ARROW_TYPES[how.type])
    if how.type == "clock":
        none = none | is_no_clock(pl.Series(values).to_numpy())
    return values, none


def whole_numbers(texts: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers, int64, that some texts stand for, and which texts are none."""
    shortened = texts.str.replace(ZERO_DECIMALS, "$1")
    plain = shortened.str.contains(WHOLE).to_numpy()
    numbers = shortened.cast(pl.Int64, strict=False).fill_null(0).to_numpy().copy()
    wrong = ~plain
    for place in np.flatnonzero(wrong):
        number = whole_number(texts[int(place)])
        if number is not None:
            numbers[place], wrong[place] = number, False
    return numbers, wrong


def whole_number(text: str) -> int | None:
    """A whole number of 64 bits, in any of its decimal writings."""
    if not re.fullmatch(DECIMAL, text):
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent beyond all
        return None
    # Only then are there as many digits as in the text: an exponent of millions would take the memory for so many.
    if value and (value.adjusted() > 18 or int(value.as_tuple().exponent) < -len(text)):
        return None
    whole = int(value) if value else 0
    return whole if whole == value and -(2**63) <= whole < 2**63 else None


def is_no_clock(numbers: np.ndarray) -> np.ndarray:
    """Return which whole numbers are no time of day (hours and minutes, from 0 to 2400)."""
    return (numbers < 0) | (numbers > 2400) | (numbers % 100 >= 60)


def decoded(raw: pa.Array, encoding: str) -> tuple[pa.Array, np.ndarray]:
    """Return binary values as texts, and which values are not in the encoding (bool)."""
    if codecs.lookup(encoding).name == "utf-8":
        try:
            return raw.cast(pa.string()), np.zeros(len(raw), bool)
        except pa.ArrowInvalid:
            pass
    texts, wrong = [], np.zeros(len(raw), bool)
    for place, value in enumerate(raw.to_pylist()):
        try:
            texts.append(value.decode(encoding))
        except UnicodeError:
            texts.append("")
            wrong[place] = True
    return pl.Series(texts, dtype=pl.String).to_arrow().cast(pa.string()), wrong


def refined(column: Distinct, name: str, how: LayoutColumn, numerals: Numerals) -> Distinct:
    """A column of texts or numbers with the values that ARROW_TYPES has for it. `numerals` are those of texts. Raises
    Unreadable, or another error of UNREADABLE, for a value that is none."""
    values, wrong = typed_values_of(column.values, how, numerals)
    # A value that no row here has may have been left by an earlier block.
    if wrong.any() and (bad := np.append(wrong, False).take(column.indices, mode="wrap")).any():
        value = column.values[int(column.indices[bad.argmax()])]
        raise Unreadable(f"column `{name}`: {value} is not a {how.type}")
    return column if values is column.values else replace(column, values=values)
