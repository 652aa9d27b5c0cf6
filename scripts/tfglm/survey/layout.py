"""How the columns of a file are named and typed: by a shipped layout of flights, or by one made of its header and values."""

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tfglm.config import FILE, RANDOM, Layout, LayoutColumn, SelectionConfig, load_layout, shipped_layouts
from tfglm.config.base import LONGEST_NAME
from tfglm.data.images import has_images
from tfglm.data.layouts import OWN_SCHEMA, Recognition, recognised
from tfglm.data.packing import packing
from tfglm.data.parquet_files import natural_type, read_schema
from tfglm.data.parser import UNREADABLE, Parser
from tfglm.data.sql import parsed
from tfglm.data.values import DECIMAL
from tfglm.design.terms import INTERCEPT
from tfglm.errors import UserError, short
from tfglm.survey.dialect import Dialect
from tfglm.survey.types import MARKS, decimal_of, is_code, missing_marks, type_of
from tfglm.survey.written_numbers import as_number, removed_marks

BLOCK_BYTES, MOST_BLOCKS = 4 << 20, 8
"""Bytes of a block of CSV, and blocks that are looked at: 32 MB, or 524,288 rows of Parquet."""

FLIGHTS = SelectionConfig.model_validate(
    {
        "derive": {"late": "arr_delay >= 15"},
        "where": {"arrived": "arr_delay IS NOT NULL"},
        "split": {"train": "random < 0.8", "evaluate": "random >= 0.8"},
        "columns": ["late", "carrier", "origin", "dest", "month", "weekday", "dep_hour", "distance"],
    }
)
"""What is asked of flights, under the names that all shipped layouts of flights share."""


def check_header(path: Path, header: Sequence[str]) -> None:
    """Raise UserError for a file that is no table with a line of names."""
    if has_images(path):
        raise UserError(
            f"{path}: holds images; docs/config/networks.md (How do I train on images?) says what to write for them"
        )
    if len(header) == 1:
        raise UserError(
            f"{path}: has a single column, `{short(header[0])}`; write commas, semicolons or tabs between columns"
        )
    # A year may well be the name of a column.
    value = next(
        (name for name in header if re.fullmatch(DECIMAL, name) and not re.fullmatch("[12][0-9]{3}", name)), None
    )
    if value is not None:
        raise UserError(
            f"{path}: its first line holds `{value}`, a number and no name of a column; a file begins with a line of names\n"
            "  write one above the rows, such as id,age,price"
        )


def flight_layout(path: Path) -> Recognition | None:
    """The shipped layout that has what FLIGHTS needs in the header of a file, if one does."""
    try:
        known = recognised(path, {name: load_layout(name) for name in shipped_layouts()}, FLIGHTS)
    except UserError:
        return None
    return known if known.name != OWN_SCHEMA else None


def own_layout(path: Path, header: Sequence[str], dialect: Dialect) -> Layout:
    """A layout of all columns that have a name and values that can be read.

    Parameters
    ----------
    path
        A CSV file, packed or not, or a Parquet file.
    header
        The names of its columns.
    dialect
        How a CSV file is written.

    Raises
    ------
    UserError
        For a file that cannot be read, or has no such column.
    """
    sources = names_for(header)
    if not sources:
        raise UserError(f"{path}: no column of its header has a name")
    if packing(path) != "parquet":
        return layout_of_csv(path, header, sources, dialect)
    columns = columns_of_parquet(path, sources)
    if not columns:
        raise UserError(f"{path}: no column has values that can be read: {', '.join(header)}")
    return Layout(columns=columns)


def names_for(header: Sequence[str]) -> dict[str, str]:
    """Names that formulas and SQL can hold -> what the header says, unnamed columns left out."""
    sources: dict[str, str] = {}
    for source in filter(None, header):
        ascii_only = unicodedata.normalize("NFKD", source.replace("ß", "ss")).encode("ascii", "ignore").decode()
        word = re.sub(r"\W+", "_", ascii_only).strip("_")[: LONGEST_NAME - 10]
        word = word if re.match("[A-Za-z]", word) else f"column_{word}".rstrip("_")
        word = word if is_a_name(word) else f"{word}_column"
        names = itertools.chain([word], (f"{word}_{number}" for number in itertools.count(2)))
        sources[next(name for name in names if name not in sources)] = source
    return sources


def is_a_name(word: str) -> bool:
    """Whether SQL takes a word for a column, as it does not take `group` and `null`, and no table has a row of that name."""
    try:
        return word not in (FILE, RANDOM, INTERCEPT) and parsed(word, "").meta.root_names() == [word]
    except UserError:
        return False


def columns_of_parquet(path: Path, sources: Mapping[str, str]) -> dict[str, LayoutColumn]:
    """The columns of a Parquet file by the types that it has for them."""
    schema = read_schema(path)
    columns = {}
    for name, source in sources.items():
        kind = natural_type(schema.field(source).type)
        if kind:
            columns[name] = LayoutColumn.model_validate({"type": kind, "source": source})
    return columns


def layout_of_csv(path: Path, header: Sequence[str], sources: Mapping[str, str], dialect: Dialect) -> Layout:
    """The layout of a CSV file by its values."""
    strings = {name: LayoutColumn(type="string", source=source) for name, source in sources.items()}
    as_text = Layout(missing=[], encoding=dialect.encoding, separator=dialect.separator, columns=strings)
    values = distinct_texts(path, header, as_text)
    decimal = decimal_of(values, dialect.separator)
    columns: dict[str, LayoutColumn] = {}
    derive: dict[str, str] = {}
    for name, texts in values.items():
        known = texts.filter(~texts.is_in(MARKS))
        column = type_of(known, decimal).model_copy(update={"source": sources[name]})
        marks = removed_marks(known, decimal) if column.type == "string" and not is_code(known) else None
        if marks:
            written = next(new for new in (f"{name}_text", f"{name}_written") if new not in sources)
            derive[name] = as_number(written, marks, decimal)
            columns[written] = column
        else:
            columns[name] = column
    typed = {name for name, column in columns.items() if column.type != "string"} | set(derive)
    missing = missing_marks([texts for name, texts in values.items() if name in typed])
    return as_text.model_copy(update={"decimal": decimal, "missing": missing, "columns": columns, "derive": derive})


def columns_to_survey(layout: Layout) -> list[str]:
    """The columns of a layout of its own in the order of the file, a number that is made of a text in place of that."""
    numbers = {parsed(sql, "").meta.root_names()[0]: name for name, sql in layout.derive.items()}
    return [numbers.get(name, name) for name in layout.columns]


def distinct_texts(path: Path, header: Sequence[str], as_text: Layout) -> dict[str, pl.Series]:
    """The different texts that stand in each column of the first MOST_BLOCKS blocks of a CSV file."""
    parser = Parser(path, tuple(header), as_text, as_text.columns, whole_records=True, block_bytes=BLOCK_BYTES)
    values: dict[str, list[pl.Series]] = {name: [pl.Series([], dtype=pl.String)] for name in as_text.columns}
    for block in itertools.islice(parser.blocks(1, False), MOST_BLOCKS):
        try:
            columns = parser.parse(block.data).columns
        except UNREADABLE:
            columns = parser.examine(block.data)[1].columns
        for name, column in columns.items():
            values[name].append(pl.Series(column.compact().values, dtype=pl.String))
    return {name: pl.concat(parts, rechunk=True).unique() for name, parts in values.items()}
