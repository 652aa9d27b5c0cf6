"""Input files as streams of blocks of whole lines, whatever they are packed in, and the parsing of such a block.

Plain lines are parsed by a loop of our own, all others by pyarrow: unlike polars it refuses a line with too few or too many
fields whatever columns are asked for.
"""

import bz2
import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as lines_of_fields
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import indexed_bzip2
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from tfglm.config import Layout, LayoutColumn
from tfglm.data.distinct import Distinct
from tfglm.errors import UserError

if TYPE_CHECKING:
    from tfglm.data.plain_csv import PlainCsv

BLOCK_BYTES = 16 << 20
SLACK = 16
"""Bytes behind each block: its last ones can be read as whole machine words."""

LARGE = 200 * 10**6
"""Bytes of CSV from which on it pays to load the compiled parser, which takes two seconds."""

NEWLINE = ord("\n")
BLOCK_ROWS = 1 << 16
"""Rows of a Parquet file that are read at once."""

ARROW_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "clock": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
}

Packing = Literal["none", "gzip", "bz2", "zip", "parquet"]

EXPANSION = {"none": 1.0, "gzip": 5.5, "bz2": 7.5, "parquet": 6.0}
"""Bytes of CSV for a byte of the file, of flight data; for an estimate of the space that they need."""


class Unreadable(ValueError):
    """A block holds something that cannot be read; the message says what, without the place."""


UNREADABLE = (Unreadable, pa.ArrowInvalid, pl.exceptions.PolarsError)
"""What parsing a block or evaluating an expression on it raises."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows of a file: whole lines, or rows of a Parquet file. `first` is the number of the first one, as a
    text editor counts lines; 0 where nobody asked."""

    data: memoryview | pa.RecordBatch
    first: int = 0


def packing(path: Path) -> Packing:
    """How the file is packed, by its first bytes: an ending may be missing or wrong."""
    with reported(path), path.open("rb") as file:
        first = file.read(4)
    if first.startswith(b"\x1f\x8b"):
        return "gzip"
    if first.startswith(b"BZh"):
        return "bz2"
    return {b"PK\x03\x04": "zip", b"PAR1": "parquet"}.get(first, "none")


def estimated_csv_bytes(path: Path) -> int:
    """About how large the file is as plain CSV."""
    packed = packing(path)
    if packed == "zip":
        with reported(path), zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    return int(path.stat().st_size * EXPANSION[packed])


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Errors of opening and unpacking a file as UserErrors that name it."""
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"{path}: {error.strerror}") from error
        raise UserError(
            f"{path}: is damaged or cut short and cannot be unpacked ({error})\n  fetch the file again"
        ) from error


@contextmanager
def opened(path: Path, threads: int = 1) -> Iterator[BinaryIO]:
    """The uncompressed content. Raises UserError for an archive with more than one file."""
    with reported(path):
        openers = {
            "gzip": gzip.open,
            # bzip2 unpacks 30 MB a second and core, a tenth of what the rest of ingest takes.
            "bz2": bz2.open if threads == 1 else partial(indexed_bzip2.open, parallelization=threads),
            "zip": only_entry,
        }
        with openers.get(packing(path), partial(open, mode="rb"))(str(path)) as stream:
            yield stream


def only_entry(path: str) -> BinaryIO:
    """The one file in a .zip archive, opened. Raises UserError if there are several."""
    archive = zipfile.ZipFile(path)
    files = [each for each in archive.namelist() if not each.endswith("/")]
    if len(files) != 1:
        raise UserError(
            f"{path}: holds {len(files)} files ({', '.join(files)}); unpack it and name the one you mean in data.files"
        )
    return archive.open(files[0])


def read_header(path: Path) -> list[str]:
    """The column names of a file. Raises UserError if it has none."""
    if packing(path) == "parquet":
        with reported(path):
            try:
                return parquet.read_schema(path).names
            except pa.ArrowInvalid as error:
                raise UserError(f"{path}: is not a Parquet file that can be read: {error}") from error
    with opened(path) as stream:
        return parse_header(path, stream.readline(1 << 20))


def parse_header(path: Path, line: bytes) -> list[str]:
    """The column names in the first line of a CSV file, without blanks around them."""
    if b"\0" in line:
        raise UserError(f"{path}: is not a CSV file (its first line holds binary data)")
    try:
        header = next(lines_of_fields([line.decode("utf-8-sig")]), [])
    except (UnicodeDecodeError, CsvError) as error:
        raise UserError(f"{path}: is not a CSV file: {error}") from error
    header = [name.strip() for name in header]
    if not any(header):
        raise UserError(f"{path}: is empty; a CSV file begins with a line of column names")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise UserError(f"{path}: the header names {', '.join(f'`{name}`' for name in twice)} twice; rename one")
    return header


@dataclass(frozen=True)
class Parsed:
    """The needed columns of a block, with values of ARROW_TYPES."""

    rows: int
    columns: dict[str, Distinct]


@dataclass
class Parser:
    """How the blocks of one file become columns. `columns` are the needed ones, by their tfglm name."""

    path: Path
    header: tuple[str, ...]
    layout: Layout
    columns: dict[str, LayoutColumn]
    plain: "PlainCsv | None" = field(default=None, init=False)

    def blocks(self, threads: int, numbered: bool) -> Iterator[Block]:
        """The file from its first row to its last; `numbered` if it is to be known which rows they are."""
        return self._batches() if packing(self.path) == "parquet" else self._lines(threads, numbered)

    def _batches(self) -> Iterator[Block]:
        # A query may need no column at all (`train: TRUE`), but the rows are to be counted.
        sources = list(dict.fromkeys(column.source for column in self.columns.values())) or [self.header[0]]
        first = 1
        with reported(self.path), parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=sources):
                yield Block(batch, first)
                first += batch.num_rows

    def _lines(self, threads: int, numbered: bool) -> Iterator[Block]:
        with opened(self.path, threads) as stream, reported(self.path):
            stream.readline()
            first = 2
            for lines in whole_lines(stream, self.path):
                yield Block(lines, first if numbered else 0)
                first += np.count_nonzero(np.frombuffer(lines, np.uint8) == NEWLINE) if numbered else 0

    def parse(self, data: memoryview | pa.RecordBatch) -> Parsed:
        """Raises one of UNREADABLE."""
        if isinstance(data, pa.RecordBatch):
            return Parsed(data.num_rows, {name: self._converted(data, name, one) for name, one in self.columns.items()})
        if not len(data):
            nothing = {name: pa.nulls(0, ARROW_TYPES[one.type]) for name, one in self.columns.items()}
            return Parsed(0, {name: Distinct.of(array) for name, array in nothing.items()})
        sources, rows = self._plain_columns(data) or self._any_columns(data)
        if any(
            self.columns[name].type == "string" and self.columns[name].source in column.values.to_pylist()
            for name, column in sources.items()
        ):
            self._refuse_header(data)
        return Parsed(rows, {name: refined(column, name, self.columns[name]) for name, column in sources.items()})

    def _plain_columns(self, data: memoryview) -> tuple[dict[str, Distinct], int] | None:
        """The columns by name and the number of rows, if the lines are plain."""
        columns = self.plain and self.plain.parse(data)
        return columns and (dict(zip(self.columns, columns, strict=True)), len(columns[0].indices))

    def is_large(self) -> bool:
        """Whether `compile` pays."""
        return bool(self.columns) and estimated_csv_bytes(self.path) >= LARGE

    def compile(self) -> None:
        """Have plain lines parsed by compiled code from now on, if the columns allow it. Loading it takes two seconds."""
        if packing(self.path) == "parquet" or any(column.type == "number" for column in self.columns.values()):
            return
        from tfglm.data.plain_csv import PlainCsv

        wanted = [self.header.index(column.source) for column in self.columns.values()]
        whole = [column.type in ("integer", "clock") for column in self.columns.values()]
        plain = PlainCsv(len(self.header), wanted, whole, self.layout.missing, self.layout.encoding)
        plain.load()
        self.plain = plain

    def _any_columns(self, data: memoryview | bytes) -> tuple[dict[str, Distinct], int]:
        """The columns by name and the number of rows, whatever the lines. Raises pa.ArrowInvalid."""
        if self.layout.encoding != "utf-8" and np.frombuffer(data, np.int8).min() < 0:
            data = str(data, self.layout.encoding).encode()
        try:
            table = self._read(data, pa.int64())
        except pa.ArrowInvalid:
            # Whole numbers may be written with decimals, as BTS does (15.00).
            table = self._read(data, pa.float64())
        columns = {name: Distinct.of(table[one.source].chunk(0)) for name, one in self.columns.items()}
        return columns, table.num_rows

    def _read(self, data: memoryview | bytes, whole: pa.DataType) -> pa.Table:
        types = ARROW_TYPES | {"date": pa.string(), "integer": whole, "clock": whole}
        columns = {one.source: types[one.type] for one in self.columns.values()}
        convert = csv.ConvertOptions(
            include_columns=list(columns) or [self.header[0]],
            column_types=columns,
            null_values=self.layout.missing,
            strings_can_be_null=True,
        )
        read = csv.ReadOptions(column_names=self.header, use_threads=False, block_size=len(data) + 1)
        return csv.read_csv(pa.BufferReader(data), read, convert_options=convert)

    def _converted(self, batch: pa.RecordBatch, name: str, how: LayoutColumn) -> Distinct:
        """One column of a Parquet file, which has a type of its own."""
        array = batch.column(how.source)
        array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            missing = pc.is_in(array, pa.array(self.layout.missing, array.type))
            array = pc.if_else(missing, pa.scalar(None, array.type), array)
        elif how.type == "date":
            array, how = array.cast(pa.date32()), how.model_copy(update={"format": None})
        try:
            return refined(Distinct.of(array), name, how)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pl.exceptions.PolarsError) as error:
            raise Unreadable(f"column `{how.source}` ({array.type}) cannot be read as {how.type}: {error}") from error

    def _refuse_header(self, lines: memoryview | bytes) -> None:
        """Raise Unreadable if a line is the header once more."""
        for line in bytes(lines).splitlines():
            if self.header[0].encode() in line and self._fields(line) == list(self.header):
                raise Unreadable("repeats the header")

    def _fields(self, line: bytes) -> list[str]:
        return [field.strip() for field in next(lines_of_fields([line.decode("latin-1")]), [])]

    def describe(self, line: bytes, error: Exception) -> tuple[str, str]:
        """What is wrong with one line that cannot be read: in short, as the account of rows has it, and with the remedy."""
        fields = self._fields(line)
        if fields == list(self.header):
            return "repeated header", "the header once more, in the middle of the file; remove the line"
        if len(fields) != len(self.header):
            count = f"{len(fields)} fields where the header has {len(self.header)}"
            return "wrong number of fields", f"{count}; mend or remove the line"
        for name, column in self.columns.items():
            try:
                replace(self, columns={name: column}).parse(memoryview(line))
            except UNREADABLE:
                return f"value of {name}", self._describe_value(column, fields[self.header.index(column.source)])
        return "expression", str(error).splitlines()[0]

    def _describe_value(self, column: LayoutColumn, value: str) -> str:
        place = f"column `{column.source}`: "
        if not value.isascii() and self.layout.encoding == "utf-8":
            raw = value.encode("latin-1")
            return f"{place}bytes that are not UTF-8 ({raw!r}); set `encoding: latin-1` in the layout, if it is that"
        wanted = {
            "integer": "a whole number",
            "number": "a number",
            "clock": "a time of day (hhmm, from 0 to 2400)",
            "date": f"a date ({column.format or '%Y-%m-%d'})",
            "string": "text",
        }
        return (
            f"{place}expected {wanted[column.type]}, found `{value}`\n  mend the value, add it to `missing` in the layout "
            f"if it marks a missing one, or change the column's type there"
        )


def whole_lines(stream: BinaryIO, path: Path) -> Iterator[memoryview]:
    """The rest of a stream in pieces of about BLOCK_BYTES that end where a line ends."""
    rest = memoryview(b"")
    while True:
        size = len(rest) + BLOCK_BYTES
        buffer = bytearray(size + SLACK)
        buffer[: len(rest)] = rest
        filled = len(rest) + fill(stream, memoryview(buffer)[len(rest) : size])
        end = buffer.rfind(b"\n", 0, filled) + 1
        piece, rest = memoryview(buffer)[:end], memoryview(buffer)[end:filled]
        if end:
            yield piece
        if filled < size:
            break
        if len(rest) > 4 * BLOCK_BYTES:
            raise UserError(f"{path}: is not a CSV file (a line of more than {len(rest) >> 20} MB)")
    if len(rest):
        yield rest


def fill(stream: BinaryIO, buffer: memoryview) -> int:
    """Read until the buffer is full or the stream ends, so that blocks are the same whatever a file is packed in.

    Returns the number of bytes read.
    """
    filled = 0
    while filled < len(buffer) and (read := stream.readinto(buffer[filled:])):
        filled += read
    return filled


def refined(column: Distinct, name: str, how: LayoutColumn) -> Distinct:
    """A column with the values that ARROW_TYPES has for it: whole numbers, times of day that exist, dates."""
    values = column.values
    if how.type == "date":
        values = pl.Series(values).cast(pl.String).str.to_date(how.format or "%Y-%m-%d").to_arrow()
    elif values.type != ARROW_TYPES[how.type]:
        values = values.cast(ARROW_TYPES[how.type])  # fails for 1.5 as a whole number
    if how.type == "clock":
        times = values.to_numpy()
        wrong = times[(times < 0) | (times > 2400) | (times % 100 >= 60)]
        if len(wrong):
            raise Unreadable(f"column `{name}`: {wrong[0]} is not a time of day")
    return column if values is column.values else Distinct(values, column.indices)
