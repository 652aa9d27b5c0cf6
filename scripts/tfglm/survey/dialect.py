"""How the text of a CSV file is written: what parts its columns, and in which encoding."""

import codecs
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfglm.data import csv_lines
from tfglm.data.packing import opened
from tfglm.errors import UserError

LOOKED_AT = 32 << 20
"""Bytes by which the encoding is told."""

MOST_LINES = 2000
"""Lines by which the separator is told."""

Separator = Literal[",", ";", "tab", "|"]

SEPARATORS: dict[Separator, bytes] = {"tab": b"\t", ";": b";", "|": b"|", ",": b","}
"""Those that stand least often within texts and numbers come first."""

MOST_ODD = 0.1
"""Share of the lines that may have another number of fields than the header: they may be damaged."""


@dataclass(frozen=True)
class Dialect:
    """How a file is written; `separator` as a layout names it."""

    separator: Separator
    encoding: str

    @property
    def separator_bytes(self) -> bytes:
        return SEPARATORS[self.separator]


def dialect_of(path: Path) -> Dialect:
    """How a CSV file is written.

    Raises
    ------
    UserError
        For a file that cannot be unpacked, or that begins with a note for Excel, or whose rows are longer than its header.
    """
    with opened(path) as stream:
        data = stream.read(LOOKED_AT)
    whole = data[: data.rfind(b"\n") + 1] or data
    lines = csv_lines.lines_of(whole.removeprefix(codecs.BOM_UTF8)[: 4 << 20])[:MOST_LINES]
    lines = list(itertools.dropwhile(csv_lines.is_blank, lines))
    header, rows = (lines[0], [line for line in lines[1:] if line]) if lines else (b"", [])
    if re.fullmatch(rb'"?sep=.?"?', header, re.IGNORECASE):
        raise UserError(
            f"{path}: its first line, `{header.decode()}`, is a note for Excel and names no columns; remove it\n"
            "  tail -n +2 does, and a file begins with a line of names then"
        )
    separator = separator_of(header, rows)
    check_row_names(path, header, rows, SEPARATORS[separator])
    return Dialect(separator, encoding_of(whole))


def separator_of(header: bytes, rows: Sequence[bytes]) -> Separator:
    """The first separator that gives nearly all rows as many fields as the header, which has two or more; if none does, the one
    that gives the header the most."""
    sizes = {name: size_of(header, separator) for name, separator in SEPARATORS.items()}
    for name, separator in SEPARATORS.items():
        odd = sum(size_of(row, separator) != sizes[name] for row in rows)
        if sizes[name] > 1 and odd <= MOST_ODD * len(rows):
            return name
    return max(reversed(SEPARATORS), key=lambda name: sizes[name])


def size_of(line: bytes, separator: bytes) -> int:
    """The number of fields; 0 if a quote is not closed."""
    return len(csv_lines.fields_of(line, separator) or [])


def check_row_names(path: Path, header: bytes, rows: Sequence[bytes], separator: bytes) -> None:
    """Raise UserError if nearly all rows have one field more than the header, as R's write.table writes them."""
    longer = sum(size_of(row, separator) == size_of(header, separator) + 1 for row in rows)
    if rows and longer >= (1 - MOST_ODD) * len(rows):
        raise UserError(
            f"{path}: its rows have one field more than its header names, such as the names of rows that R's write.table "
            "writes\n  write the file anew with a name for each column (in R: col.names = NA), or put one before the first line"
        )


def encoding_of(data: bytes) -> str:
    """The first of UTF-8, Windows-1252 and Latin-1 that all bytes have. The last two differ in quotes, dashes and the euro."""
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError:
        has_more = any(0x80 <= byte < 0xA0 for byte in set(data))
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        has_more = False
    return "cp1252" if has_more else "latin-1"
