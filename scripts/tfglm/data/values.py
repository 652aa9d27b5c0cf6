"""What the text of a field stands for: the same, whichever parser split the lines.

Texts are taken as they are. Around numbers and times of day, blanks and tabs are ignored. A number is decimal: digits with an
optional sign, point and exponent, or `inf`; neither `nan` nor 0x1F nor 1_000 is one. A whole number may be written with
decimals that are zero (15.00), or with an exponent, and is exact up to 64 bits. A date is YYYY-MM-DD, or as its `format` has it.
What the layout lists as `missing` is compared with the whole field, quoted or not, before all this.
"""

import codecs
import re
from decimal import Decimal, InvalidOperation

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import LayoutColumn
from tfglm.data.distinct import Distinct

ARROW_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "clock": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "image": pa.binary(),
}
"""What the values of a column are, by its type in the layout."""

DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
NUMBER = rf"^({DECIMAL}|[+-]?(?i:inf|infinity))$"
WHOLE = r"^[+-]?[0-9]{1,18}$"
ISO_DATE = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$"
ZERO_DECIMALS = r"^([+-]?[0-9]+)\.0*$"


class Unreadable(ValueError):
    """A block holds something that cannot be read; the message says what, without the place."""


def values_of(texts: pa.Array, column: LayoutColumn) -> tuple[pa.Array, np.ndarray]:
    """The values of some texts, one of ARROW_TYPES, and which texts are none (bool, [texts]); there, any value may stand."""
    if column.type == "string":
        return texts.cast(pa.string()), np.zeros(len(texts), bool)
    series = pl.Series(texts, dtype=pl.String)
    if column.type == "date":
        dates = series.str.to_date(column.format or "%Y-%m-%d", strict=False)
        wrong = dates.is_null()
        # The library reads ` 06-01-02` so, too, which is no date but a damaged one.
        return dates.to_arrow(), (wrong if column.format else wrong | ~series.str.contains(ISO_DATE)).to_numpy()
    series = series.str.strip_chars(" \t")
    if column.type == "number":
        numbers = series.cast(pl.Float64, strict=False)
        unreadable = ~series.str.contains(NUMBER) | numbers.is_null()
        return numbers.fill_null(0.0).to_arrow(), unreadable.to_numpy()
    whole, none = whole_numbers(series)
    if column.type == "clock":
        none = none | is_no_clock(whole)
    return pl.Series(whole).to_arrow(), none


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
    """Which whole numbers are no time of day, hours and minutes from 0 to 2400."""
    return (numbers < 0) | (numbers > 2400) | (numbers % 100 >= 60)


def decoded(raw: pa.Array, encoding: str) -> tuple[pa.Array, np.ndarray]:
    """Binary values as texts, and which ones are not in the encoding (bool)."""
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


def refined(column: Distinct, name: str, how: LayoutColumn) -> Distinct:
    """A column of texts, numbers or dates with the values that ARROW_TYPES has for it.

    Raises Unreadable, or another error of UNREADABLE, for a value that is none.
    """
    values, wrong = column.values, None
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if how.type != "string" and (is_text or pa.types.is_decimal(values.type) or how.type == "date"):
        values, wrong = values_of(values.cast(pa.string()), how)
    elif values.type != ARROW_TYPES[how.type]:
        values = values.cast(ARROW_TYPES[how.type])  # fails for 1.5 as a whole number
    if how.type == "clock" and wrong is None:
        wrong = is_no_clock(values.to_numpy(False))
    # A value that no row here has may have been left by an earlier block.
    if wrong is not None and (bad := np.append(wrong, False).take(column.indices, mode="wrap")).any():
        value = column.values[int(column.indices[bad.argmax()])]
        raise Unreadable(f"column `{name}`: {value} is not a {how.type}")
    return column if values is column.values else Distinct(values, column.indices)
