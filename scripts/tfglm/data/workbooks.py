"""One sheet of an Excel file, row by row as texts: the values that Excel has stored, not the formulas.

Empty cells are empty texts, errors are `#N/A` and the like, dates `2019-03-23`, and with a time of day `2019-03-23 20:21:09`.
"""

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from tfglm.errors import UserError, nearest, short

MOST_ABOVE = 100
"""Rows that are looked at to tell whether a sheet is empty."""

FORMULA = re.compile(
    rb'<c r="([A-Z]+[0-9]+)"(?![^>]* t="str")[^>]*>\s*<f(?:\s[^>]*)?(?:/>|>[^<]*</f>)\s*(?:<v\s*/>|<v></v>)?\s*</c>'
)
"""A formula without the value that it had when the file was saved. (The value of one with t="str" is an empty text.)"""

MERGED = re.compile(rb'<mergeCell\s+ref="([A-Z]+[0-9]+:[A-Z]+[0-9]+)"\s*/?>')

PIECE = 1 << 20

DAMAGES = (
    KeyError,
    ValueError,
    SyntaxError,
    TypeError,
    AttributeError,
    IndexError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)
"""The errors of openpyxl in a damaged workbook; that of XML is a SyntaxError."""


def rows(path: Path, sheet: str) -> Iterator[list[str]]:
    """The rows of a sheet from its first, without fields if they have no value.

    `sheet` may be empty if the workbook has a single one with values. Raises UserError for a sheet that is missing or has a title
    above its names, and for cells whose values are not in the file or belong to several rows.
    """
    with opened(path) as book:
        chosen = chosen_sheet(path, book, sheet)
        check_cells(path, chosen)
        header: list[str] = []
        is_first = True
        for number, row in enumerate(chosen.iter_rows(), start=1):
            values = [text_of(cell) for cell in row]
            while values and not values[-1] and (len(values) > len(header) or not any(values)):
                values.pop()
            if header and is_first and values:
                is_first = False
                if 2 * len(list(filter(None, header))) < len(list(filter(None, values))):
                    title = short(", ".join(filter(None, header)))
                    raise UserError(
                        f"{path}: the first row of the sheet `{chosen.title}` with a value, `{title}`, names fewer columns than "
                        f"row {number} has values; delete the rows above the names of columns"
                    )
            header = header or values
            yield values + [""] * (len(header) - len(values) if values else 0)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A workbook, which is closed in the end. Raises UserError for a damaged one, also while its rows are read."""
    import openpyxl  # takes a while, and few files need it

    # It warns of styles and rules that no value depends on.
    warnings.filterwarnings("ignore", module="openpyxl")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            yield book
        finally:
            book.close()
    except DAMAGES as error:
        raise UserError(
            f"{path}: is damaged, or no Excel file that can be read: {error}\n  open it in Excel and save it again as .xlsx"
        ) from error


def sheets_with_values(path: Path) -> list[str]:
    """The names of the visible sheets that are not empty."""
    with opened(path) as book:
        return [sheet.title for sheet in visible(book)]


def visible(book: Any) -> list[Any]:
    return [
        sheet
        for sheet in book.worksheets
        if sheet.sheet_state == "visible"
        and any(value is not None for row in sheet.iter_rows(max_row=MOST_ABOVE, values_only=True) for value in row)
    ]


def chosen_sheet(path: Path, book: Any, sheet: str) -> Any:
    """Raises UserError if there is no sheet of this name, or several if none is named."""
    titles = [each.title for each in book.worksheets]
    if sheet:
        if sheet not in titles:
            raise UserError(
                f"{path}: has no sheet `{short(sheet)}`{nearest(sheet, titles)}; it has {', '.join(titles)}"
            )
        return book[sheet]
    full = visible(book)
    if not full:
        raise UserError(f"{path}: none of its visible sheets has a value: {', '.join(titles)}")
    if len(full) > 1:
        raise UserError(
            f"{path}: has the sheets {', '.join(each.title for each in full)}; name one in the layout, as in "
            f"`sheet: {full[0].title}`"
        )
    return full[0]


def check_cells(path: Path, sheet: Any) -> None:
    """Raise UserError for formulas without values, and for merged cells below the first row."""
    formulas: list[str] = []
    merged: list[str] = []
    behind = b""
    is_behind_cells = False
    with sheet._get_source() as source:
        while piece := source.read(PIECE):
            text = behind + piece
            formulas += [match.decode() for match in FORMULA.findall(text)]
            merged += [match.decode() for match in MERGED.findall(text)]
            # A cell or a merged range that is cut at the end is looked at again, and nothing else.
            is_behind_cells = is_behind_cells or b"</sheetData>" in text
            behind = text[text.rfind(b">" if is_behind_cells else b"</c>") + 1 :][-PIECE:]
    if formulas:
        raise UserError(
            f"{path}: the formula in {formulas[0]} of the sheet `{sheet.title}` has no stored value, like {len(formulas):,} in "
            "all; open the file in Excel or LibreOffice and save it, which computes them"
        )
    below = [cells for cells in merged if re.findall("[0-9]+", cells) != ["1", "1"]]
    if below:
        raise UserError(
            f"{path}: merged cells ({', '.join(below[:5])}) in the sheet `{sheet.title}`: their value would belong to the first "
            "row alone; unmerge them, and write the value into each row"
        )


def text_of(cell: Any) -> str:
    """The value of a cell as text, without blanks around it, as readxl in R has it."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        has_time = value.time() != time() or re.search("[hs]", cell.number_format.lower())
        return f"{value:%Y-%m-%d %H:%M:%S}" if has_time else f"{value:%Y-%m-%d}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return f"{value:%H:%M:%S}"
    return str(value).strip()
