"""Parquet files: the names and types of their columns, and their rows in batches."""

import functools
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from tfglm.addresses import partition_folders
from tfglm.config import LayoutColumn
from tfglm.data.packing import reported
from tfglm.errors import UserError

BATCH_ROWS = 1 << 16
"""Rows that are read together."""

NATURAL = {
    "integer": (pa.types.is_integer, pa.types.is_boolean),
    "number": (pa.types.is_floating, pa.types.is_decimal),
    "date": (pa.types.is_date, pa.types.is_timestamp),
    "string": (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        # Text that the file does not call text, as some writers leave it.
        *(pa.types.is_binary, pa.types.is_large_binary),
    ),
}
"""The type in a layout that is nearest to each kind of column."""

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose value is missing, by its name."""

READABLE_AS = {
    "integer": {"integer", "number", "clock", "string"},
    "number": {"integer", "number", "clock", "string"},
    "date": {"date", "clock", "string"},
    "string": {"string", "integer", "number", "date", "clock"},
}
"""The types in a layout as which each kind of column can be read, by its natural one; texts as in CSV."""


def partitions(path: Path) -> dict[str, pa.Scalar]:
    """The columns that a file has from the folders above it, as Spark, DuckDB and Hive write them. A column of whole numbers
    in all folders beside these has integers, and any other has texts. An empty scalar is missing."""
    folders = partition_folders(str(path))
    root = path.absolute().parents[len(folders)]
    names = [folder.partition("=")[0] for folder in folders]
    values = [_value(folder) for folder in folders]
    columns = {}
    for name, value, kind in zip(names, values, _types(root, tuple(names)), strict=True):
        whole = value is not None and pa.types.is_integer(kind)
        columns[unquote(name)] = pa.scalar(int(value or 0) if whole else value, kind)
    return columns


def _value(folder: str) -> str | None:
    """The value in the name of a folder; None if it is missing."""
    text = unquote(folder.partition("=")[2])
    return None if text in ("", NULL) else text


@functools.cache
def _types(root: Path, names: tuple[str, ...]) -> list[pa.DataType]:
    """The type of the column that each level of folders below a root gives."""
    pattern, types = "", []
    for name in names:
        pattern += f"{glob.escape(name)}=*/"
        values = set(map(_value, (folder.name for folder in root.glob(pattern)))) - {None}
        whole = bool(values) and all(re.fullmatch(r"-?\d{1,18}", value or "", re.ASCII) for value in values)
        types.append(pa.int64() if whole else pa.string())
    return types


def read_schema(path: Path) -> pa.Schema:
    """The columns of a file, and those of its folders that it lacks. Raises UserError for a file that is damaged."""
    with reported(path):
        try:
            schema = parquet.read_schema(path)
            for name, value in partitions(path).items():
                if name not in schema.names:
                    schema = schema.append(pa.field(name, value.type))
            return schema
        except pa.ArrowInvalid as error:
            raise UserError(
                f"{path}: is not a Parquet file that can be read: {str(error).splitlines()[0]}\n"
                "  it may have been cut short; fetch or write it again"
            ) from error


def natural_type(kind: pa.DataType) -> str | None:
    """Return the layout type nearest to the type of a column; None for types that cannot be read, such as lists."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return next((name for name, tests in NATURAL.items() if any(test(kind) for test in tests)), None)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a column has bytes of which the file does not say that they are text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def holds_text(path: Path, column: str) -> bool:
    """Whether the bytes of a column, in its first rows, are text in UTF-8."""
    first = next(batches(path, [column]), None)
    if first is None:
        return True
    values = first.column(0)
    values = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
    try:
        values.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def check_types(path: Path, columns: Mapping[str, LayoutColumn]) -> None:
    """Raise UserError, with all of them, for columns that cannot be read as the layout says."""
    schema = read_schema(path)
    problems = []
    for column in columns.values():
        kind = schema.field(column.source).type
        # A column of nulls has no type of its own.
        takes = READABLE_AS.get(natural_type(kind) or "", set()) | ({column.type} if pa.types.is_null(kind) else set())
        if not pa.types.is_timestamp(kind):
            takes -= {"clock"} if natural_type(kind) == "date" else set()
        if column.type not in takes:
            others = f"; it can be read as {', '.join(sorted(takes))}" if takes else ""
            problems.append(f"  `{column.source}`: {kind} cannot be read as {column.type}{others}")
    if problems:
        raise UserError(
            f"{path}: columns have other types than the layout gives them\n"
            + "\n".join(problems)
            + "\n  change their types in the layout, or write them to the file as numbers, texts or dates"
        )


def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some columns, row group by row group. Raises UserError for a damaged file."""
    with reported(path), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        of_folders = {name: value for name, value in partitions(path).items() if name not in file.schema_arrow.names}
        stored = [name for name in columns if name not in of_folders]
        for batch in file.iter_batches(BATCH_ROWS, columns=stored):
            for name in filter(of_folders.__contains__, columns):
                batch = batch.append_column(name, pa.repeat(of_folders[name], batch.num_rows))
            yield batch.select(list(columns))
