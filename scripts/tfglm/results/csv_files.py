"""Tables as CSV files that a spreadsheet opens correctly: a level such as `=1+1` stays text and does not become a formula.

Text that a spreadsheet would treat as a formula gets a single quote before it (OWASP, CSV Injection). So does text that
looks as if it already had such a quote, so that `read` restores every text exactly. A number such as -5 is no formula.
Parquet files keep all texts unchanged.
"""

import csv
import io
import re
from collections.abc import Collection
from pathlib import Path
from typing import TextIO

import pandas as pd

from tfglm import digests

FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

AVERAGED = ("class", "term", "level", "reference", "status", "about")
TEXTS: dict[str, Collection[str]] = {
    "coefficients": ("class", "term", "level", "reference", "status", "aliased_with", "note"),
    "terms": ("term", "note"),
    "contrasts": ("contrast", "note"),
    "hypotheses": ("hypothesis", "note"),
    "pairwise": ("class", "term", "at", "level", "against", "note"),
    "marginal_effects": AVERAGED,
    "adjusted_means": AVERAGED,
    "margins_at": ("at", "against", *AVERAGED),
    "effects": ("term", "column", "at", "slope_of", "column_2"),
    "event_study": ("term", "about", "note"),
    "embeddings": ("factor", "level"),
    "profile": ("name", "note"),
    "instruments": ("endogenous", "term", "level", "reference", "note"),
    "vcov": ("Unnamed: 0",),
}
"""The columns of tables that are no numbers, by the name of the file without suffix."""


def write(table: pd.DataFrame, file: Path | TextIO, header: bool = True) -> None:
    """Write a table without its index, or some rows of a table without the `header`. Columns of numbers stay unchanged,
    including infinite numbers."""
    texts = {name: table[name].map(guarded) for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])}
    shown = table.assign(**texts).rename(columns=guarded)
    # CSV readers also end a line at a carriage return, for which pandas does not quote a field.
    returns = any(isinstance(text, str) and "\r" in text for column in texts.values() for text in column)
    shown.to_csv(file, header=header, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def read(path: Path, fit: Path) -> pd.DataFrame:
    """A table of TEXTS that `write` has written, with digests beside it. A level called NA is text. Raises UserError if it has
    changed since, or was made from another fit than `fit`."""
    content = io.BytesIO(digests.read_beside(path, fit))
    table = pd.read_csv(content, dtype=str, keep_default_na=False).rename(columns=plain)
    texts = TEXTS[path.stem]
    return table.apply(lambda column: column.map(plain) if column.name in texts else pd.to_numeric(column))


def guarded(text: object) -> object:
    """Return text in its form in a CSV file; other values unchanged."""
    return f"'{text}" if isinstance(text, str) and is_formula(text) else text


def plain(text: str) -> str:
    """The text that was `guarded`."""
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would treat a text as a formula, or whether it looks like a quoted formula."""
    return bool(FORMULA.match(text)) and not NUMBER.fullmatch(text)
