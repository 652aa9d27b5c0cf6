"""Numbers in disguise: the SQL that makes numbers of texts such as `1.1M` and `2100 - 2850`, and numbers such as -999 that are
none."""

import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from tfglm.config.layouts import Numerals
from tfglm.data.sql import expression
from tfglm.data.values import PLAIN
from tfglm.errors import counted, short
from tfglm.survey.names import CONVERTED, FEW_VALUES

MULTIPLES = {"k": "e3", "K": "e3", "M": "e6", "mn": "e6", "B": "e9", "bn": "e9"}
"""What stands behind a number for a multiple of it, and the exponent that means the same."""
READ, READ_PLAINLY = 0.8, 0.95
"""Least share of the rows that a conversion reads; the same of one that only drops what is no number."""
AROUND = (
    r"^\s*([$€£¥₹₩]|(?i:us\$|rs\.?|usd|eur|gbp|inr|chf))?\s*[+-]?[0-9](?:[0-9.,]*[0-9])?"
    r"\s*([^0-9]*?(?:/[0-9]+|[a-z][23])?)\s*$"
)
"""A number with a currency before it, and what is behind it."""
RANGE = r"^\s*[0-9.,]+(\s*(?:-|–|to)\s*)[0-9.,]+\s*$"
HEIGHT = r"""^\s*[0-9]' ?[0-9]{1,2}"?\s*$"""
"""Feet and inches."""


def conversion_of(texts: pl.Series, numerals: Numerals = PLAIN) -> tuple[str, pl.Series, str] | None:
    """The SQL that makes numbers of a column of texts, the numbers, and a remark on them; None if most texts are none.

    It drops units, currencies and marks of thousands, writes `1.1M` as `1.1e6`, and takes the middle of `2100 - 2850`.
    """
    name, known = texts.name, texts.drop_nulls()
    if known.n_unique() <= FEW_VALUES or 2 * known.head(200).str.contains("[0-9]").sum() < len(known.head(200)):
        return None
    if known.str.contains(HEIGHT).sum() >= READ * len(known):
        inches = f"REPLACE(SPLIT_PART({name}, '''', 2), '\"', '')"
        sql, how = f"TRY_CAST(SPLIT_PART({name}, '''', 1) AS DOUBLE) * 12 + TRY_CAST({inches} AS DOUBLE)", ", in inches"
    else:
        ranges = known.str.extract(RANGE, 1).drop_nulls()
        between = ranges.mode().sort()[0] if 0 < 2 * len(ranges) < len(known) else ""
        parts = {side: known.str.extract(AROUND, place).drop_nulls() for place, side in ((1, "before"), (2, "behind"))}
        before, behind = (values.mode().sort().to_list()[:1] for values in parts.values())
        # A unit that not all numbers have, unless they are 0, is another than that of the column.
        measured = known.filter(known.str.contains(AROUND) & ~known.str.contains(r"^[^1-9]*$"))
        units = [each for each in (*before, *behind) if each not in {"", "+", *MULTIPLES}]
        units = [each for each in units if measured.str.contains(each, literal=True).all()]
        signs = [each for each in ("+", " ") if known.str.contains(each, literal=True).any()]
        written = dict.fromkeys([*units, *signs], "")
        mark = "," if numerals.decimal == "." else "."
        written |= {mark: ""} if known.str.contains(rf"[0-9]\{mark}[0-9]{{3}}").any() else {}
        written |= {",": "."} if numerals.decimal == "," else {}
        multiples = parts["behind"].unique().sort()
        written |= {each: MULTIPLES[each] for each in multiples if each in MULTIPLES}
        sql, how = _number(name, written), ""
        if between:
            low, high = (_number(f"SPLIT_PART({name}, '{between}', {part})", written) for part in (1, 2))
            sql, how = f"COALESCE({sql}, ({low} + {high}) / 2)", f", and {len(ranges):,} ranges as their middles"
        plain = len(known) - known.cast(pl.Float64, strict=False).null_count()
        needed = READ if written or between else READ_PLAINLY
        if len(parts["behind"]) + len(ranges) < needed * len(known) or (
            needed == READ_PLAINLY and plain < needed * len(known)
        ):
            return None
    value = expression(sql, name, {name: pl.String()}).alias(f"{name}_{CONVERTED}")
    numbers = texts.to_frame().select(value).to_series()
    unread = texts.filter(texts.is_not_null() & numbers.is_null())
    if len(unread) > (1 - READ) * len(known) or numbers.n_unique() <= FEW_VALUES:
        return None
    counts = unread.alias("text").value_counts(name="rows").sort("rows", "text", descending=[True, False])
    examples = ", ".join(f"`{short(text, 30)}` in {counted(rows, 'row')}" for text, rows in counts.head(3).iter_rows())
    lost = (
        f"; {len(unread):,} of {len(known):,} cannot be read and are missing: {examples}{', ...' if len(counts) > 3 else ''}"
        if len(unread)
        else ""
    )
    odd = texts.filter(texts.cast(pl.Float64, strict=False).is_null() & numbers.is_not_null())
    example = f"`{short(odd[0] if len(odd) else known[0], 30)}`"
    return sql, numbers, f"texts such as {example}, read as numbers in {numbers.name}{how}{lost}"


def _number(sql: str, written: Mapping[str, str]) -> str:
    """The SQL of a number in whose text some parts are written otherwise."""
    for part, instead in written.items():
        sql = f"REPLACE({sql}, '{part.replace(chr(39), 2 * chr(39))}', '{instead}')"
    return f"TRY_CAST({sql} AS DOUBLE)"


CODES = r"-?99+|-200|-1"
"""Numbers that often stand for a missing value."""
FEWEST_CODES = 3
"""Rows that have one, at least."""


def codes_in(rows: pl.DataFrame) -> tuple[dict[float, list[str]], dict[str, str]]:
    """The numbers that stand for missing values, each with its columns, and remarks on columns where a number may be one.

    Such a number is below or above all others of a column, by more than their whole range, or negative where no other is.
    """
    found: dict[float, set[str]] = {}
    suspect: dict[float, set[str]] = {}
    remarks: dict[str, str] = {}
    numbers = {
        column.name: column.drop_nulls().cast(pl.Float64).to_numpy() for column in rows.select(pl.selectors.numeric())
    }
    numbers = {name: values for name, values in numbers.items() if len(np.unique(values)) > FEW_VALUES}
    for name, values in numbers.items():
        for code in (float(values.min()), float(values.max())):
            others = values[values != code]
            count, least, greatest = len(values) - len(others), float(others.min()), float(others.max())
            gap = max(least - code, code - greatest)
            if count < FEWEST_CODES:
                continue
            if re.fullmatch(CODES, f"{code:g}") and gap > greatest - least:
                found.setdefault(code, set()).add(name)
            elif re.fullmatch(CODES, f"{code:g}") and code < 0 <= least:
                suspect.setdefault(code, set()).add(name)
            elif code == 0 and gap >= max(float(others.std()), 2.0):
                remarks[name] = (
                    f"0 in {count:,} rows, far below all others ({least:g} to {greatest:g}); if it means no value, derive "
                    f"NULLIF({name}, 0)"
                )
    codes = {}
    for code, columns in found.items():
        columns |= suspect.get(code, set())
        holding = {name for name, values in numbers.items() if (values == code).any()}
        if holding <= columns:
            codes[code] = sorted(columns)
        else:
            remarks |= {
                name: f"{code:g} may stand for no value; if so, derive NULLIF({name}, {code:g})" for name in columns
            }
    return codes, remarks
