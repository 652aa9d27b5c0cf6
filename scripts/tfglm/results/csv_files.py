"""Tables as CSV files that a spreadsheet opens as they are meant: a level such as `=1+1` is text, and no formula.

Text that a spreadsheet would take for a formula gets a single quote before it (OWASP, CSV Injection), and so does text that
looks as if it had one already; so `read` gives every text back as it was. A number such as -5 is no formula. Parquet files have
all texts as they are.
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


def write(table: pd.DataFrame, file: Path | TextIO, header: bool = True) -> None:
    """Write a table without its index, or some rows of one without the `header`. Columns of numbers are as they are, an infinite
    one too."""
    texts = {name: table[name].map(guarded) for name in table.columns if not is_numeric(table[name])}
    shown = table.assign(**texts).rename(columns=guarded)
    # What reads CSV ends a line at a carriage return too, for which pandas does not quote a field by itself.
    returns = any(isinstance(text, str) and "\r" in text for column in texts.values() for text in column)
    shown.to_csv(file, header=header, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def is_numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column)


def read(path: Path, fit: Path, texts: Collection[str]) -> pd.DataFrame:
    """A table that `write` has written, with digests beside it. `texts` are columns that are no numbers; a level called NA is
    text there. Raises UserError if it has changed since, or was made from another fit than `fit`."""
    content = io.BytesIO(digests.read_beside(path, fit))
    table = pd.read_csv(content, dtype=str, keep_default_na=False).rename(columns=plain)
    return table.apply(lambda column: column.map(plain) if column.name in texts else pd.to_numeric(column))


def guarded(text: object) -> object:
    """Text as a CSV file has it; what is no text as it is."""
    return f"'{text}" if isinstance(text, str) and is_formula(text) else text


def plain(text: str) -> str:
    """The text that was `guarded`."""
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take it for one, or it looks like one that has been quoted."""
    return bool(FORMULA.match(text)) and not NUMBER.fullmatch(text)
