"""Numbers that are written with more than digits: with groups of thousands, a per cent sign or a currency."""

import re

import polars as pl

GROUPS = {".": [",", "'", "\u2019", " ", "\u00a0", "\u202f"], ",": [".", "'", "\u2019", " ", "\u00a0", "\u202f"]}
"""Thousands separators, by the decimal character."""

SIGNS = "%$€£"


def removed_marks(texts: pl.Series, decimal: str) -> list[str] | None:
    """Return what to remove from some different texts so that numbers remain; None if they are no numbers then."""
    around = rf"[{SIGNS}]?\s?"
    for group in GROUPS[decimal]:
        grouped = rf"[0-9]{{1,3}}({re.escape(group)}[0-9]{{3}})+"
        pattern = rf"^\s*{around}[+-]?{around}({grouped}|[0-9]+)({re.escape(decimal)}[0-9]+)?\s?[{SIGNS}]?\s*$"
        # Most texts are excluded after the first characters.
        if len(texts) and all(part.str.contains(pattern).all() for part in (texts.head(100), texts)):
            marks = [group, *SIGNS, "\u00a0", " "]
            return [mark for mark in dict.fromkeys(marks) if texts.str.contains(mark, literal=True).any()]
    return None


def as_number(name: str, marks: list[str], decimal: str) -> str:
    """The SQL expression of the number that a text is when some marks are removed."""
    sql = name
    for mark in marks:
        sql = f"REPLACE({sql}, '{mark.replace(chr(39), 2 * chr(39))}', '')"
    if decimal == ",":
        sql = f"REPLACE({sql}, ',', '.')"
    return f"CAST({sql} AS DOUBLE)"
