"""Tables for papers as files: LaTeX, Markdown, Word and Excel.

great_tables 1.1 writes HTML and LaTeX, and maketables 0.2 Word too. Neither writes Markdown or Excel, and they bring a dozen
packages. So one function here makes the rows for all four formats.
"""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import openpyxl
import pandas as pd
from docx import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Pt
from docx.table import _Row
from openpyxl.styles import Alignment, Border, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet
from tabulate import SEPARATING_LINE, tabulate

from tfglm.results.digits import aligned, four_digits, statistic
from tfglm.results.paper import Line, PaperTable, written

LONGEST_ON_A_PAGE = 45
"""Lines of a LaTeX table that does not break across pages."""

MARKDOWN = re.compile(r"[\\`*|<\[]|(?<![^\W_])_|_(?![^\W_])")
"""Characters of a Markdown table cell that are not plain text; an underscore within a word is."""

NUMBER = re.compile(r"([\[(]?[^\[(,e]*?\d(?:,\d{3})*(?:\.\d+)?)([)*]*)")
"""A number in a cell, after an opening bracket, and what follows it."""

DIGIT, POINT = "\ue000", "\ue001"
BLANKS = str.maketrans({"\N{FIGURE SPACE}": DIGIT, "\N{PUNCTUATION SPACE}": POINT})
"""Stand for blanks as wide as a digit and a point; the library would strip real ones."""

TYPESET = {"\N{MINUS SIGN}": "$-$", "χ": r"$\chi$", "²": "$^2$", "\N{REPLACEMENT CHARACTER}": "?"}
TYPESET |= {DIGIT: r"\phantom{0}", POINT: r"\phantom{.}"}
"""Signs that LaTeX has by other names, after everything else has been escaped."""


def write(table: PaperTable, path: Path) -> None:
    """Write a table in the format that the name of the file ends with."""
    WRITERS[path.suffix](table, path)


# As text ---------------------------------------------------------------------------------------------------------------


def rows(lines: tuple[Line, ...], number: Callable[[float], str]) -> Iterator[list[str]]:
    """Return the rows of some lines as texts: the term, if it differs from the row before, the level, and a cell for each
    model. The standard error or interval below an estimate has a row of its own."""
    before = None
    for line in lines:
        values, errors = zip(*(written(cell, number) for cell in line.cells), strict=True)
        yield ["" if line.term == before else line.term, line.level, *values]
        before = line.term
        if any(errors):
            yield ["", "", *errors]


def text_rows(table: PaperTable) -> tuple[list[list[str]], list[list[str]]]:
    return list(rows(table.coefficients, four_digits)), list(rows(table.statistics, statistic))


def alignment(table: PaperTable) -> list[str]:
    return ["left", "left", *["right"] * len(table.models)]


def write_markdown(table: PaperTable, path: Path) -> None:
    """Write a pipe table, as GitHub, Pandoc and Quarto read it, and the notes as a list."""

    def escaped(text: str) -> str:
        return MARKDOWN.sub(r"\\\g<0>", text)

    coefficients, statistics = text_rows(table)
    body = [[escaped(text) for text in row] for row in [*coefficients, *statistics]]
    head = ["", "", *map(escaped, table.models)]
    shown = tabulate(body, head, "pipe", colalign=alignment(table), disable_numparse=True)
    path.write_text("\n".join([shown, "", *(f"- {escaped(note)}" for note in table.notes), ""]), encoding="utf-8")


def at_their_points(rows: list[list[str]]) -> list[list[str]]:
    """The rows of coefficients with blanks as wide as digits behind the numbers of a column, before stars and brackets."""
    columns = list(zip(*rows, strict=True))
    for place, column in enumerate(columns[2:], start=2):
        found = [NUMBER.fullmatch(text) for text in column]
        numbers = iter(aligned([match[1] for match in found if match]))
        columns[place] = tuple(
            next(numbers).translate(BLANKS) + match[2] if match else text
            for text, match in zip(column, found, strict=True)
        )
    return [list(row) for row in zip(*columns, strict=True)]


def write_latex(table: PaperTable, path: Path) -> None:
    """Write a `tabular` to \\input, a `longtable` if it is long, and the notes as a paragraph."""
    coefficients, statistics = text_rows(table)
    body = [*at_their_points(coefficients), *([SEPARATING_LINE] if coefficients else []), *statistics]
    head = ["", "", *table.models]
    shown = tabulate(body, head, "latex_booktabs", colalign=alignment(table), disable_numparse=True)
    packages = "booktabs"
    if len(body) > LONGEST_ON_A_PAGE:
        packages = "booktabs and longtable"
        shown = shown.replace("{tabular}", "{longtable}").replace("\\midrule", "\\midrule\n\\endhead", 1)
    # The library escapes cells, so notes go through it as cells of a table without lines.
    notes = [tabulate([[note]], tablefmt="latex", disable_numparse=True).splitlines()[2] for note in table.notes]
    paragraph = " ".join(note.strip().removesuffix("\\\\").strip() for note in notes)
    # Stars and brackets after a number take no room, so that digits are below each other.
    shown = re.sub(r"(?<=[\d\ue000\ue001])(\)|\]|\*+)(?= *(?:&|\\\\))", r"\\rlap{\1}", shown)
    text = f"% Needs the packages {packages}.\n{shown}\n\n\\par\\smallskip{{\\footnotesize {paragraph}\\par}}\n"
    for sign, name in TYPESET.items():
        text = text.replace(sign, name)
    path.write_text(text, encoding="utf-8")


# As documents ----------------------------------------------------------------------------------------------------------


def write_word(table: PaperTable, path: Path) -> None:
    """Write a document with the table, ruled above, below, and between its parts."""
    document = Document()
    document.core_properties.author = "tfglm"
    coefficients, statistics = text_rows(table)
    body = [["", "", *table.models], *coefficients, *statistics]
    shown = document.add_table(len(body), len(body[0]))
    for row, texts in zip(shown.rows, body, strict=True):
        for place, (cell, text) in enumerate(zip(row.cells, texts, strict=True)):
            paragraph = cell.paragraphs[0]
            paragraph.add_run(text).font.size = Pt(9)
            paragraph.paragraph_format.space_after = 0
            if place > 1:
                paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
    head = shown.rows[0]._tr.get_or_add_trPr()
    head.append(OxmlElement("w:tblHeader"))  # repeated on each page
    rule(shown.rows[0], "top", "bottom")
    if coefficients:
        rule(shown.rows[len(coefficients)], "bottom")
    rule(shown.rows[-1], "bottom")
    for note in table.notes:
        paragraph = document.add_paragraph()
        paragraph.add_run(note).font.size = Pt(8)
        paragraph.paragraph_format.space_after = 0
    document.save(str(path))


def rule(row: _Row, *edges: str) -> None:
    """Draw lines along a row; the library has no function for it."""
    for cell in row._tr.tc_lst:
        borders = OxmlElement("w:tcBorders")
        for edge in edges:
            line = OxmlElement(f"w:{edge}")
            line.set(qn("w:val"), "single")
            line.set(qn("w:sz"), "8")  # eighths of a point
            borders.append(line)
        cell.get_or_add_tcPr().append(borders)


ExcelRow = list[tuple[str | float, str]]
"""Values, each with its number format."""


def write_excel(table: PaperTable, path: Path) -> None:
    """Write a workbook whose numbers are numbers, with 16 digits, shown as in the other formats. Tests have a sheet of their
    own."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "models"
    ends = []
    head: list[ExcelRow] = [[("", ""), ("", ""), *((name, "") for name in table.models)]]
    parts = (head, excel_rows(table.coefficients, four_digits), excel_rows(table.statistics, statistic))
    for part in parts:
        for row in part:
            append(sheet, row)
        ends.append(sheet.max_row)
    for row in ends:
        for cell in sheet[row]:
            cell.border = Border(bottom=Side(style="thin"))
    for cell in (cell for row in sheet.iter_rows(min_col=3) for cell in row):
        cell.alignment = Alignment(horizontal="right")
    for note in table.notes:
        append(sheet, [(note, "")])
    sheet.freeze_panes = "C2"
    for place, width in enumerate([28, 16, *[18] * len(table.models)], start=1):
        sheet.column_dimensions[get_column_letter(place)].width = width
    if len(table.tests):
        tests = book.create_sheet("likelihood-ratio tests")
        for row in [list(table.tests.columns), *table.tests.astype(object).to_numpy().tolist()]:
            append(tests, [("" if value is pd.NA or value != value else value, "") for value in row])
    book.save(path)


def excel_rows(lines: tuple[Line, ...], number: Callable[[float], str]) -> Iterator[ExcelRow]:
    """`rows` with values and their number formats for texts."""
    texts = rows(lines, number)
    for line in lines:
        term, level, *shown = next(texts)
        pairs = zip(line.cells, shown, strict=True)
        yield [(term, ""), (level, ""), *(excel_number(cell.value, text) for cell, text in pairs)]
        if any(cell.below for cell in line.cells):
            _, _, *shown = next(texts)
            # Two limits share a cell, as text.
            yield [("", ""), ("", "")] + [
                excel_number(cell.below[0] if len(cell.below) == 1 else text, text)
                for cell, text in zip(line.cells, shown, strict=True)
            ]


def excel_number(value: str | float, text: str) -> tuple[str | float, str]:
    """A value as a cell has it, and the format that shows it as the text does: a number with brackets or stars."""
    if isinstance(value, str) or not math.isfinite(value):
        return str(value), ""
    number = text.strip("()*")
    before, after = (f'"{part}"' * bool(part) for part in text.split(number))
    whole, _, decimals = number.partition(".")
    shown = (
        "0.00E+00"
        if "e" in number
        else f"{'#,##0' if ',' in whole else '0'}{'.' * bool(decimals)}{'0' * len(decimals)}"
    )
    return value, f"{before}{shown}{after}"


def append(sheet: Worksheet, row: ExcelRow) -> None:
    """Add a row of values, each with its number format; text that looks like a formula is text."""
    sheet.append([value for value, _ in row])
    for cell, (value, shown) in zip(sheet[sheet.max_row], row, strict=False):
        if isinstance(value, str):
            cell.data_type = "s"
        elif shown:
            cell.number_format = shown


WRITERS = {".tex": write_latex, ".md": write_markdown, ".docx": write_word, ".xlsx": write_excel}
