"""How the columns of a file are named and typed: by a shipped layout of flights, or by one made of its header and values."""

import itertools
import json
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from tfglm.config import FILE, RANDOM, Layout, LayoutColumn, SelectionConfig, load_layout, shipped_layouts
from tfglm.config.base import LONGEST_NAME
from tfglm.data.blocks import Block
from tfglm.data.images import has_images
from tfglm.data.layouts import choose
from tfglm.data.packing import packing
from tfglm.data.parser import UNREADABLE, Parser
from tfglm.data.sql import parsed
from tfglm.data.values import DECIMAL, values_of
from tfglm.errors import UserError, short

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

MARKS = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "#N/A", "?", "-", "--", "."]
"""What may stand for a missing value."""

DATES = [None, "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]
TYPES = [
    LayoutColumn(type="integer"),
    LayoutColumn(type="number"),
    *(LayoutColumn(type="date", format=form) for form in DATES),
]
"""In this order: the first that all values of a column have is its type; text if none."""

CODE = "^0[0-9]+$"
"""Digits that begin with 0 are no number but a code, such as a postal code."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def check_header(path: Path, header: Sequence[str]) -> None:
    """Raise UserError for a file that is no table with commas and a line of names."""
    if has_images(path):
        raise UserError(
            f"{path}: holds images; config/README.md (How do I train on images?) says what to write for them"
        )
    for mark, name in SEPARATORS.items():
        if sum(column.count(mark) for column in header) >= len(header):
            raise UserError(
                f"{path}: its columns are separated by {name}, and only commas are read, with a point in decimals\n"
                f"  rewrite it once, which leaves the file as it is, and name the new one:\n  {rewriting(path, mark)}"
            )
    if len(header) == 1:
        raise UserError(f"{path}: has a single column, `{short(header[0])}`; write commas between columns")
    # A year may well be the name of a column.
    value = next(
        (name for name in header if re.fullmatch(DECIMAL, name) and not re.fullmatch("[12][0-9]{3}", name)), None
    )
    if value is not None:
        raise UserError(
            f"{path}: its first line holds `{value}`, a number and no name of a column; a file begins with a line of names\n"
            "  write one above the rows, such as id,age,price"
        )


def rewriting(path: Path, separator: str) -> str:
    """A command that writes a file with commas between columns and points in decimals. Values stay texts, so 007 stays 007."""
    target = path.with_name(f"{path.name.partition('.')[0]}_commas.csv")
    columns = f"polars.scan_csv({json.dumps(str(path))}, separator={json.dumps(separator)}, infer_schema=False)"
    points = r'polars.all().str.replace(r"^([+-]?\d+),(\d+)$", "$1.$2")'
    program = f"import polars; {columns}.with_columns({points}).sink_csv({json.dumps(str(target))})"
    return f"python -c {shlex.quote(program)}"


def flight_layout(header: Sequence[str], source: str) -> tuple[str, Layout] | None:
    """The shipped layout that has what FLIGHTS needs in this header, if one does."""
    try:
        return choose(header, {name: load_layout(name) for name in shipped_layouts()}, FLIGHTS, source)
    except UserError:
        return None


def own_layout(path: Path, header: Sequence[str]) -> Layout:
    """A layout of all columns that have a name and values that can be read.

    Parameters
    ----------
    path
        A CSV file, packed or not, or a Parquet file.
    header
        The names of its columns.

    Raises
    ------
    UserError
        For a file that cannot be read, or has no such column.
    """
    sources = names_for(header)
    if packing(path) == "parquet":
        columns, missing, encoding = columns_of_parquet(path, sources), MARKS[:2], "utf-8"
    else:
        columns, missing, encoding = columns_of_csv(path, header, sources)
    if not columns:
        raise UserError(f"{path}: no column of its header has a name and values that can be read: {', '.join(header)}")
    return Layout(missing=missing, encoding=encoding, columns=columns)


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
    """Whether SQL takes a word for a column, as it does not take `group` and `null`."""
    try:
        return word not in (FILE, RANDOM) and parsed(word, "").meta.root_names() == [word]
    except UserError:
        return False


def columns_of_parquet(path: Path, sources: Mapping[str, str]) -> dict[str, LayoutColumn]:
    """The columns of a Parquet file by the types that it has for them."""
    schema = parquet.read_schema(path)
    columns = {}
    for name, source in sources.items():
        kind = schema.field(source).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            columns[name] = LayoutColumn(type="integer", source=source)
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            columns[name] = LayoutColumn(type="number", source=source)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            columns[name] = LayoutColumn(type="date", source=source)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            columns[name] = LayoutColumn(type="string", source=source)
    return columns


def columns_of_csv(
    path: Path, header: Sequence[str], sources: Mapping[str, str]
) -> tuple[dict[str, LayoutColumn], list[str], str]:
    """The columns of a CSV file by its values, what stands for a missing one, and the encoding."""
    texts = {name: LayoutColumn(type="string", source=source) for name, source in sources.items()}
    if not texts:
        return {}, MARKS[:2], "utf-8"
    as_text = Layout(missing=[], columns=texts)
    parser = Parser(path, tuple(header), as_text, texts, whole_records=True, block_bytes=BLOCK_BYTES)
    blocks = list(itertools.islice(parser.blocks(1, False), MOST_BLOCKS))
    encoding = "utf-8" if all(map(is_utf_8, blocks)) else "latin-1"
    parser.layout = as_text.model_copy(update={"encoding": encoding})
    values: dict[str, list[pl.Series]] = {name: [] for name in texts}
    for block in blocks:
        try:
            columns = parser.parse(block.data).columns
        except UNREADABLE:
            columns = parser.examine(block.data)[1].columns
        for name, column in columns.items():
            values[name].append(pl.Series(column.compact().values, dtype=pl.String))
    missing = set(MARKS[:2])
    for name, parts in values.items():
        every = pl.concat(parts, rechunk=True).unique() if parts else pl.Series([], dtype=pl.String)
        marked = every.is_in(MARKS)
        how = type_of(every.filter(~marked))
        texts[name] = how.model_copy(update={"source": sources[name]})
        # In a text, `None` may be a value as any other.
        missing |= set(every.filter(marked)) if how.type != "string" else set()
    return texts, sorted(missing, key=MARKS.index), encoding


def is_utf_8(block: Block) -> bool:
    try:
        bytes(block.data).decode()
    except UnicodeDecodeError:
        return False
    return True


def type_of(texts: pl.Series) -> LayoutColumn:
    """The first of TYPES that all of some different texts have."""
    if len(texts) and not texts.str.contains(CODE).any():
        for column in TYPES:
            # Most types are out after the first values.
            if all(not values_of(part.to_arrow(), column)[1].any() for part in (texts.head(100), texts)):
                return column
    return LayoutColumn(type="string")
