"""One sheet of an Excel file, row by row as texts: the values that Excel has stored, not the formulas.

Empty cells are empty texts, errors are `#N/A` and the like, dates `2019-03-23`, and with a time of day `2019-03-23 20:21:09`.
Durations, whose format is `[h]:mm` or the like, are hours. fastexcel was tried: it reads merged cells and formulas without a
value as empty, errors too, and gives each date a time of day.
"""

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from tfglm.errors import UserError, nearest, require, short

DAMAGES = (
    *(KeyError, ValueError, SyntaxError, TypeError, AttributeError, IndexError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)
"""The errors of openpyxl in a damaged workbook; that of XML is a SyntaxError."""


def rows(path: Path, sheet: str) -> Iterator[list[str]]:
    """The rows of a sheet from its first, without fields if they have no value.

    `sheet` may be empty if the workbook has a single one with values. Raises UserError for a sheet that is missing or has a title
    above its names, and for cells whose values are not in the file or belong to several rows.
    """
    with opened(path) as book:
        chosen = chosen_sheet(path, book, sheet)
        header: list[str] = []
        is_first = True
        for number, values in enumerate(texts(path, chosen), start=1):
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


def texts(path: Path, sheet: Any) -> Iterator[list[str]]:
    """The texts of the cells, row by row; a row that the file leaves out has none. Raises UserError for a formula without a
    value, and behind the last row for merged cells below the first row."""
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

    def parse_cell(element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = WorkSheetParser.parse_cell(parser, element)
        # The value of a formula with t="str" is an empty text.
        if cell["value"] is None and element.get("t") != "str" and element.find(FORMULA_TAG) is not None:
            place = f"{get_column_letter(cell['column'])}{parser.row_counter}"
            raise UserError(
                f"{path}: the formula in {place} of the sheet `{sheet.title}` has no stored value; open the file in Excel or "
                "LibreOffice and save it, which computes all"
            )
        return cell

    book = sheet.parent
    formats = {"date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
    with sheet._get_source() as source:
        parser = WorkSheetParser(source, sheet._shared_strings, data_only=True, epoch=book.epoch, **formats)
        parser.parse_cell = parse_cell
        rows = 0
        for number, cells in parser.parse():
            columns = [cell["column"] for cell in cells]
            if number <= rows or len(set(columns)) < len(columns):
                raise ValueError(f"row {number} of the sheet `{sheet.title}`, or a cell in it, is there twice")
            row = [""] * max(columns, default=0)
            for column, cell in zip(columns, cells, strict=True):
                row[column - 1] = text_of(cell, sheet)
            yield from [[]] * (number - rows - 1)
            rows = number
            yield row
    merged = parser.merged_cells.mergeCell if parser.merged_cells else []
    if below := [cells.coord for cells in merged if cells.max_row > 1]:
        raise UserError(
            f"{path}: merged cells ({', '.join(below[:5])}) in the sheet `{sheet.title}`: their value would belong to the first "
            "row alone; unmerge them, and write the value into each row"
        )


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A workbook, which is closed in the end. Raises UserError for a damaged one, also while its rows are read. What a sheet
    says of its size may be wrong, and is not believed."""
    require("openpyxl", "files", f"{path}: an Excel file")
    import openpyxl  # takes a while, and few files need it

    # It warns of styles and rules that no value depends on.
    warnings.filterwarnings("ignore", module="openpyxl")
    try:
        # From a file of any name; by its path openpyxl opens .xlsx alone.
        with path.open("rb") as file, closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book:
            for sheet in book.worksheets:
                sheet.reset_dimensions()
            yield book
    except DAMAGES as error:
        raise UserError(
            f"{path}: is damaged, or no Excel file that can be read: {error}\n  open it in Excel and save it again as .xlsx"
        ) from error


def sheets_with_values(path: Path) -> list[str]:
    """The names of the visible sheets that are not empty. Raises UserError if there is none."""
    with opened(path) as book:
        return [sheet.title for sheet in visible(path, book)]


def visible(path: Path, book: Any) -> list[Any]:
    """The visible sheets that are not empty. Raises UserError if there is none."""
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    full = [sheet for sheet in shown if any(value is not None for row in sheet.values for value in row)]
    if not full:
        hidden = ", ".join(sheet.title for sheet in book.worksheets if sheet not in shown)
        remedy = f"unhide the sheet with the table (hidden: {hidden})" if hidden else "write the table into one"
        raise UserError(f"{path}: its visible sheets have no values ({', '.join(s.title for s in shown)}); {remedy}")
    return full


def chosen_sheet(path: Path, book: Any, sheet: str) -> Any:
    """Raises UserError if there is no sheet of this name, or several if none is named."""
    titles = [each.title for each in book.worksheets]
    if sheet:
        if sheet not in titles:
            raise UserError(
                f"{path}: has no sheet `{short(sheet)}`{nearest(sheet, titles)}; it has {', '.join(titles)}"
            )
        return book[sheet]
    full = visible(path, book)
    if len(full) > 1:
        raise UserError(
            f"{path}: has the sheets {', '.join(each.title for each in full)}; name one in the layout, as in "
            f"`sheet: {full[0].title}`"
        )
    return full[0]


def text_of(cell: dict[str, Any], sheet: Any) -> str:
    """The value of a cell as text, without blanks around it, as readxl in R has it."""
    value = cell["value"]
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        from openpyxl.cell.read_only import ReadOnlyCell

        has_time = value.time() != time() or re.search("[hs]", ReadOnlyCell(sheet, **cell).number_format.lower())
        return f"{value:%Y-%m-%d %H:%M:%S}" if has_time else f"{value:%Y-%m-%d}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return f"{value:%H:%M:%S}"
    if isinstance(value, timedelta):
        value = value / timedelta(hours=1)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    from openpyxl.utils.escape import unescape

    return unescape(str(value)).strip()  # `_x000D_` is how Excel writes a line end
