"""How the text of a CSV file is written: separator, encoding, comments above the header, and whether there is one.

DuckDB's sniffer was tried on 246 files of the tests: for 18 it finds another separator or header, or none.
"""

import codecs
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfglm.config import Dialect, Layout
from tfglm.config.layouts import Separator
from tfglm.data import csv_lines
from tfglm.data.packing import kind_of_file, opened
from tfglm.data.values import DECIMAL
from tfglm.data.workbooks import sheets_with_values
from tfglm.errors import UserError, short

LOOKED_AT = 32 << 20
"""Bytes that are read to determine the encoding."""

MOST_LINES = 2000
"""Lines that are read to determine the separator."""

COMMENT = b"#"

FEWEST_ROWS = 10
"""Rows that have the texts of the first line too, if it is no header but a row of texts."""

SEPARATORS: dict[Separator, bytes] = {"tab": b"\t", ";": b";", "|": b"|", ",": b","}
"""Separators, beginning with those that are rarest within texts and numbers."""

OTHER_ENCODINGS = ("cp1250", "cp1251", "gb18030", "shift_jis")
"""Of Central Europe, Russian, Chinese and Japanese; bytes alone do not tell them from Windows-1252."""

FIRST_OF_SEVERAL = 0xC0
"""Least byte that begins a character of several bytes in UTF-8."""

MOST_ODD = 0.1
"""Share of the lines that may have another number of fields than the header: they may be damaged."""


def dialect_of(path: Path, header_is: bool | tuple[str, ...] | None = None) -> Dialect:
    """How a CSV file is written. `header_is` says whether it begins with a line of names, or names its columns; None where
    that is to be found out. Raises UserError for a file that cannot be unpacked, or that begins with a note for Excel, or
    whose rows are longer than its header."""
    kind = kind_of_file(path)
    sheet = sheets_with_values(path)[0] if kind == "workbook" else ""
    with opened(path, sheet=sheet) as stream:
        data = stream.read(LOOKED_AT)
    if kind not in ("csv", "workbook"):
        return Dialect()
    whole = data[: data.rfind(b"\n") + 1] or data
    first = io.BytesIO(whole.removeprefix(codecs.BOM_UTF8)[: 4 << 20])
    lines = csv_lines.lines_of(b"".join(itertools.islice(first, MOST_LINES)))
    lines = [line for line in lines if not csv_lines.is_blank(line)]
    comments = list(itertools.takewhile(lambda line: line.startswith(COMMENT), lines))
    if len(comments) == len(lines):
        comments = []
    header, *rows = lines[len(comments) :] or [b""]
    if re.fullmatch(rb'"?sep=.?"?', header, re.IGNORECASE):
        raise UserError(
            f"{path}: its first line, `{header.decode()}`, is a note for Excel and names no columns; remove it\n"
            "  tail -n +2 does, and a file begins with a line of names then"
        )
    separator, encoding = separator_of(header, rows) if kind == "csv" else ",", encoding_of(whole)
    behind_header = memoryview(whole)[whole.find(header) + len(header) :]
    padded = len(csv_lines.without_blanks(behind_header, SEPARATORS[separator])) < len(behind_header)
    dialect = Dialect(separator, encoding, COMMENT.decode() if comments else "", True, sheet, padded)
    if isinstance(header_is, tuple):
        return replace(dialect, header=header_is)
    fields = fields_of(header, dialect)
    is_names = header_is if header_is is not None else not is_row(fields, [fields_of(row, dialect) for row in rows])
    if is_names:
        check_row_names(path, header, rows, SEPARATORS[separator])
        return dialect
    # As in `#id,age`, the last comment may name the columns.
    names = [name.strip() for name in fields_of(comments[-1].lstrip(COMMENT), dialect)] if comments else []
    named = len(names) == len(fields) > 1 and all(names) and len(set(names)) == len(names)
    return replace(dialect, header=tuple(names) if named else False)


def fields_of(line: bytes, dialect: Dialect) -> list[str]:
    """The fields of a line, as text; none if a quote is not closed."""
    of_line = csv_lines.fields_of(line, dialect.separator_bytes, dialect.strip_blanks) or []
    return [field.decode(dialect.encoding, "replace") for field in of_line]


def is_row(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of a file is a row, and names no columns: it has a number, or only texts that its columns repeat.

    A year may be the name of a column. So may be numbers that count, which pandas gives to columns without names, and any number
    beside a word above a column of numbers.
    """
    numbers = [field for field in fields if re.fullmatch(DECIMAL, field.strip())]
    if numbers:
        columns = [[row[place] for row in rows if place < len(row)] for place in range(len(fields))]
        numeric = [sum(bool(re.fullmatch(DECIMAL, text.strip())) for text in column) for column in columns]
        above_numbers = [
            field
            for field, count in zip(fields, numeric, strict=True)
            if count > (1 - MOST_ODD) * len(rows) > 0 and len(re.findall(r"[^\W\d_]", field)) > 1
        ]
        if any(field.strip().lower() not in ("na", "n/a", "nan", "null", "none", "inf") for field in above_numbers):
            return False
        named = [field for field in fields if field]
        counts = [str(number) for start in (0, 1) for number in range(start, start + len(named))]
        is_count = len(named) > 1 and named in (counts[: len(named)], counts[len(named) :])
        return not is_count and not all(re.fullmatch("[12][0-9]{3}", number) for number in numbers)
    if len(rows) < FEWEST_ROWS or not all(fields):
        return False
    others = [row for row in rows if row != fields]  # the header may be repeated
    return all(any(row[place : place + 1] == [field] for row in others) for place, field in enumerate(fields))


def separator_of(header: bytes, rows: Sequence[bytes]) -> Separator:
    """Return the first separator that gives nearly all rows as many fields as the header, and the header at least two. If
    there is none, return the separator that gives the header the most fields."""
    sizes = {name: size_of(header, separator) for name, separator in SEPARATORS.items()}
    for name, separator in SEPARATORS.items():
        odd = sum(size_of(row, separator) != sizes[name] for row in rows)
        if sizes[name] > 1 and odd <= MOST_ODD * len(rows):
            return name
    return max(reversed(SEPARATORS), key=lambda name: sizes[name])


def size_of(line: bytes, separator: bytes) -> int:
    """The number of fields; 0 if a quote is not closed."""
    return len(csv_lines.fields_of(line, separator, strip_blanks=True) or [])


def check_row_names(path: Path, header: bytes, rows: Sequence[bytes], separator: bytes) -> None:
    """Raise UserError if nearly all rows have one field more than the header, as R's write.table writes them."""
    longer = [row for row in rows if size_of(row, separator) == size_of(header, separator) + 1]
    if rows and len(longer) >= (1 - MOST_ODD) * len(rows):
        if quotes := csv_lines.other_quotes(longer[0], separator):
            raise UserError(
                f"{path}: its rows have one field more than its header names, {quotes}; write it with these"
            )
        raise UserError(
            f"{path}: its rows have one field more than its header names, such as the names of rows that R's "
            "write.table writes\n"
            "  write the file again with a name for each column (in R: col.names = NA), or put a name before the "
            "first line"
        )


def encoding_of(data: bytes) -> str:
    """UTF-8 unless most characters beyond ASCII are none; else Windows-1252, or Latin-1 for bytes that Windows-1252 lacks."""
    known = data.decode("utf-8", "ignore").encode()
    if len(data) - len(known) <= np.count_nonzero(np.frombuffer(known, np.uint8) >= FIRST_OF_SEVERAL):
        return "utf-8"
    return "cp1252" if data.decode("cp1252", "ignore").encode("cp1252") == data else "latin-1"


def encoding_remark(path: Path, layout: Layout) -> str:
    """Say why an encoding was taken: the first text that is not UTF-8, as this encoding and others read it."""
    with opened(path) as stream:
        fields = (
            (number, field) for number, line in enumerate(stream, 1) for field in line.split(layout.separator_bytes)
        )
        line, raw = next((number, raw) for number, raw in fields if raw != raw.decode("utf-8", "ignore").encode())
    readings: dict[str, str] = {}
    for encoding in (layout.encoding, *OTHER_ENCODINGS):
        readings.setdefault(short(raw.strip().decode(encoding, "replace")), encoding)
    shown = ", ".join(f"`{text}` in {encoding}" for text, encoding in readings.items() if "\ufffd" not in text)
    return (
        f"encoding {layout.encoding}, as line {line:,} is not UTF-8: it has {shown}; if another is right, correct `encoding` in "
        "the layout"
    )
