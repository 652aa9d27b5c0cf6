"""Input files as streams of blocks of whole lines, whatever they are packed in, and the parsing of such a block.

What a line is and what its fields stand for is said in `csv_lines` and `values`. Plain lines are split by a loop of our own, all
others by pyarrow: unlike polars it refuses a line with too few or too many fields whatever columns are asked for.
"""

import bz2
import codecs
import errno
import gzip
import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from tfglm.data import csv_lines
from tfglm.data.csv_lines import Problem
from tfglm.data.distinct import Distinct
from tfglm.data.sql import FAILURES
from tfglm.data.values import ARROW_TYPES, is_no_clock, values_of
from tfglm.errors import UserError

if TYPE_CHECKING:
    from tfglm.data.plain_csv import PlainCsv

BLOCK_BYTES = 16 << 20
LONGEST_LINE = 64 << 20
SLACK = 16
"""Bytes behind each block: its last ones can be read as whole machine words."""

LARGE = 200 * 10**6
"""Bytes of CSV from which on it pays to load the compiled parser, which takes two seconds."""

BLOCK_ROWS = 1 << 16
"""Rows of a Parquet file that are read at once."""

LONGEST_HEADER, MOST_COLUMNS = 1 << 20, 10_000

OTHER_PACKINGS = {b"\xfd7zX": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR"}
"""By their first bytes."""

Packing = Literal["none", "gzip", "bz2", "zip", "parquet"]

EXPANSION = {"none": 1.0, "gzip": 5.5, "bz2": 7.5, "parquet": 6.0}
"""Bytes of CSV for a byte of the file, of flight data; for an estimate of the space that they need."""


class Unreadable(ValueError):
    """A block holds something that cannot be read; the message says what, without the place."""


UNREADABLE = (Unreadable, pa.ArrowInvalid, *FAILURES)
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
    for magic, name in OTHER_PACKINGS.items():
        if first.startswith(magic):
            raise UserError(f"{path}: is packed with {name}, which is not read here; unpack it, or pack it with gzip")
    return {b"PK\x03\x04": "zip", b"PAR1": "parquet"}.get(first, "none")


def estimated_csv_bytes(path: Path) -> int:
    """About how large the file is as plain CSV."""
    packed = packing(path)
    if packed == "zip":
        with reported(path), zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    return int(path.stat().st_size * EXPANSION[packed])


DAMAGES = (
    *(zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError),
    *(struct.error, ValueError, IndexError, pa.ArrowException),
)
"""What the libraries raise that unpack."""


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Errors of opening and unpacking a file as UserErrors that name it."""
    try:
        yield
    except DAMAGES as error:
        # A damaged archive sends its reader to places that no file has.
        if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:
            raise UserError(f"{path}: {error.strerror}") from error
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"{path}: is damaged or cut short and cannot be unpacked ({said})\n  fetch the file again"
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
        return parse_header(path, stream.readline(LONGEST_HEADER + 1))


def parse_header(path: Path, line: bytes) -> list[str]:
    """The column names in the first line of a CSV file, without blanks around them."""
    if b"\0" in line:
        raise UserError(f"{path}: is not a CSV file (its first line holds binary data)")
    if len(line) > LONGEST_HEADER or line.count(b",") >= MOST_COLUMNS:
        raise UserError(
            f"{path}: is not a CSV file of at most {MOST_COLUMNS:,} columns (its first line has {len(line):,} bytes or more)"
        )
    bare = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(codecs.BOM_UTF8)
    fields = csv_lines.fields_of(bare)
    if fields is None or b"\r" in bare:
        what = "a quote that is not closed" if fields is None else "a carriage return, which ends no line by itself"
        raise UserError(f"{path}: is not a CSV file: its first line holds {what}")
    try:
        header = [name.decode().strip() for name in fields]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not a CSV file whose header is UTF-8: {error}\n  write its names so") from error
    if not any(header):
        raise UserError(f"{path}: is empty; a CSV file begins with a line of column names")
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UserError(f"{path}: the header names {', '.join(f'`{name}`' for name in twice[:10])} twice; rename one")
    return header


@dataclass(frozen=True)
class Parsed:
    """The needed columns of a block, with values of ARROW_TYPES; how many lines it has; and which of these, from 0, hold the
    rows, int64 [rows], None if all do."""

    rows: int
    columns: dict[str, Distinct]
    lines: int
    with_rows: np.ndarray | None = None

    def taken(self, rows: np.ndarray) -> "Parsed":
        """Some of the rows, with the values that they have alone."""
        columns = {name: column.take(rows).compact() for name, column in self.columns.items()}
        with_rows = rows if self.with_rows is None else self.with_rows[rows]
        return Parsed(len(rows), columns, self.lines, with_rows)


@dataclass
class Parser:
    """How the blocks of one file become columns. `columns` are the needed ones, by their tfglm name. With `whole_records`, a
    quoted text of several lines is not cut by the end of a block."""

    path: Path
    header: tuple[str, ...]
    layout: Layout
    columns: dict[str, LayoutColumn]
    whole_records: bool = False
    plain: "PlainCsv | None" = field(default=None, init=False)

    def blocks(self, threads: int, numbered: bool) -> Iterator[Block]:
        """The file from its first row to its last; `numbered` if it is to be known which rows they are."""
        return self._batches() if packing(self.path) == "parquet" else self._lines(threads, numbered)

    def _batches(self) -> Iterator[Block]:
        # A query may need no column at all (`train: TRUE`), but the rows are to be counted.
        sources = list(dict.fromkeys(column.source for column in self.columns.values())) or [self.header[0]]
        first = 1
        with reported(self.path), parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=sources):
                yield Block(batch, first)
                first += batch.num_rows

    def _lines(self, threads: int, numbered: bool) -> Iterator[Block]:
        with opened(self.path, threads) as stream, reported(self.path):
            stream.readline()
            first = 2
            for lines in whole_lines(stream, self.path, len(self.header) if self.whole_records else 0):
                yield Block(lines, first if numbered else 0)
                first += csv_lines.count_of_lines(np.frombuffer(lines, np.uint8)) if numbered else 0

    def parse(self, data: memoryview | pa.RecordBatch) -> Parsed:
        """Raises one of UNREADABLE."""
        if isinstance(data, pa.RecordBatch):
            columns = {name: self._converted(data, name, one) for name, one in self.columns.items()}
            return Parsed(data.num_rows, columns, data.num_rows)
        if not len(data):
            nothing = {name: pa.nulls(0, ARROW_TYPES[one.type]) for name, one in self.columns.items()}
            return Parsed(0, {name: Distinct.of(array) for name, array in nothing.items()}, 0)
        plain = self._plain_columns(data)
        if plain is not None:
            rows = len(next(iter(plain.values())).indices)
            return Parsed(rows, plain, rows)
        return self._any_columns(data)

    def _plain_columns(self, data: memoryview) -> dict[str, Distinct] | None:
        """The columns by name, if the lines are plain."""
        try:
            split = self.plain and self.plain.parse(data)
        except UnicodeError:
            self.plain.forget()
            return None
        if not split:
            return None
        columns = {}
        for (name, how), column in zip(self.columns.items(), split, strict=True):
            if how.type == "string" and how.source in column.values.to_pylist():
                self._refuse_header(data)
            columns[name] = refined(column, name, how)
        return columns

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

    def _any_columns(self, data: memoryview) -> Parsed:
        """Whatever the lines. Raises Unreadable or pa.ArrowInvalid."""
        raw = np.frombuffer(data, np.uint8)
        if csv_lines.has_stray_bytes(raw):
            raise Unreadable("a NUL byte, or a carriage return within a line")
        table = self._read(data)
        lines, with_rows = csv_lines.count_of_lines(raw), None
        if table.num_rows != lines:
            with_rows = csv_lines.lines_with_rows(raw)
            if len(with_rows) != table.num_rows:
                raise Unreadable("a quoted text goes beyond its line")
        if csv_lines.ends_in_quotes(data):
            raise Unreadable("a quote is not closed")
        texts = [one.source for one in self.columns.values() if one.type == "string"] or table.column_names
        if any(source.encode() in self._distinct(table, source).values.to_pylist() for source in texts):
            self._refuse_header(data)
        columns = {}
        for name, how in self.columns.items():
            columns[name], wrong = self._values(table, how)
            if wrong.any():
                raise Unreadable(f"column `{name}`")
        return Parsed(table.num_rows, columns, lines, with_rows)

    def _read(self, data: memoryview | bytes) -> pa.Table:
        """The needed columns as they stand in the file, or any if none is."""
        sources = list(dict.fromkeys(one.source for one in self.columns.values())) or [self.header[0]]
        convert = csv.ConvertOptions(
            include_columns=sources,
            column_types=dict.fromkeys(sources, pa.dictionary(pa.int32(), pa.binary())),
            null_values=[],
            check_utf8=False,
        )
        read = csv.ReadOptions(column_names=self.header, use_threads=False, block_size=len(data) + 1)
        return csv.read_csv(pa.BufferReader(data), read, convert_options=convert)

    def _distinct(self, table: pa.Table, source: str) -> Distinct:
        column = table[source]
        if not column.num_chunks:
            return Distinct(pa.nulls(0, pa.binary()), np.zeros(0, np.int32))
        return Distinct.of(column.chunk(0))

    def _values(self, table: pa.Table, how: LayoutColumn) -> tuple[Distinct, np.ndarray]:
        """A column, and which of its values are none or not in the encoding (bool)."""
        raw = self._distinct(table, how.source)
        texts, undecoded = decoded(raw.values, self.layout.encoding)
        absent = pl.Series(texts, dtype=pl.String).is_in(self.layout.missing).to_numpy() & ~undecoded
        values, wrong = values_of(texts, how)
        indices = raw.indices
        if absent.any():
            indices = np.where(absent, -1, np.arange(len(absent))).astype(np.int32).take(indices)
        return Distinct(values, indices), (wrong & ~absent) | undecoded

    def examine(self, data: memoryview) -> tuple[dict[int, Problem], Parsed]:
        """What is wrong with the lines of a block, by their number in it, from 0; and the rows of the others.

        In one go, as a block may hold many such lines.
        """
        lines = csv_lines.lines_of(bytes(data))
        problems = csv_lines.problems_of(lines, [name.encode() for name in self.header])
        sound = np.array([place for place, line in enumerate(lines) if line and place not in problems], np.int64)
        if not len(sound):
            nothing = self.parse(memoryview(b""))
            return problems, Parsed(0, nothing.columns, len(lines), sound)
        table = self._read(b"".join(lines[place] + b"\n" for place in sound))
        columns = {}
        bad = np.zeros(len(sound), bool)
        for name, how in self.columns.items():
            columns[name], wrong = self._values(table, how)
            rows = np.append(wrong, False).take(columns[name].indices, mode="wrap") & ~bad
            for row in np.flatnonzero(rows).tolist():
                problems[int(sound[row])] = self._problem_of_value(name, how, lines[sound[row]])
            bad |= rows
        parsed = Parsed(len(sound), columns, len(lines), sound)
        return problems, parsed.taken(np.flatnonzero(~bad))

    def _problem_of_value(self, name: str, how: LayoutColumn, line: bytes) -> Problem:
        raw = csv_lines.fields_of(line)[self.header.index(how.source)]
        place = f"column `{how.source}`: "
        try:
            value = raw.decode(self.layout.encoding)
        except UnicodeError:
            encoding = self.layout.encoding
            remark = f"{place}bytes that are not {encoding.upper()} ({raw[:100]!r}); set `encoding` in the layout, "
            remark += "such as `latin-1`, to what it is"
            return Problem(f"value of {name}", remark)
        wanted = {
            "integer": "a whole number",
            "number": "a number",
            "clock": "a time of day (hhmm, from 0 to 2400)",
            "date": f"a date ({how.format or '%Y-%m-%d'})",
        }
        shown = value if len(value) <= 100 else f"{value[:100]}..."
        remark = (
            f"{place}expected {wanted[how.type]}, found `{shown}`\n  mend the value, add it to `missing` in the layout "
            f"if it marks a missing one, or change the column's type there"
        )
        return Problem(f"value of {name}", remark)

    def _converted(self, batch: pa.RecordBatch, name: str, how: LayoutColumn) -> Distinct:
        """One column of a Parquet file, which has a type of its own."""
        array = batch.column(how.source)
        array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            missing = pc.is_in(array, pa.array(self.layout.missing, array.type))
            array = pc.if_else(missing, pa.scalar(None, array.type), array)
        try:
            if how.type == "date" and not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
                array, how = array.cast(pa.date32()), how.model_copy(update={"format": None})
            return refined(Distinct.of(array), name, how)
        except (Unreadable, pa.ArrowInvalid, pa.ArrowNotImplementedError, *FAILURES) as error:
            raise Unreadable(f"column `{how.source}` ({array.type}) cannot be read as {how.type}: {error}") from error

    def _refuse_header(self, data: memoryview) -> None:
        """Raise Unreadable if a line is the header once more."""
        header = [name.encode() for name in self.header]
        for line in csv_lines.lines_of(bytes(data)):
            if header[0] in line and [one.strip() for one in csv_lines.fields_of(line) or []] == header:
                raise Unreadable("repeats the header")


def decoded(raw: pa.Array, encoding: str) -> tuple[pa.Array, np.ndarray]:
    """Binary values as texts, and which ones are not in the encoding (bool)."""
    if codecs.lookup(encoding).name == "utf-8":
        try:
            return raw.cast(pa.string()), np.zeros(len(raw), bool)
        except pa.ArrowInvalid:
            pass
    texts, wrong = [], np.zeros(len(raw), bool)
    for place, value in enumerate(raw.to_pylist()):
        try:
            texts.append(value.decode(encoding))
        except UnicodeError:
            texts.append("")
            wrong[place] = True
    return pl.Series(texts, dtype=pl.String).to_arrow().cast(pa.string()), wrong


def whole_lines(stream: BinaryIO, path: Path, fields: int = 0) -> Iterator[memoryview]:
    """The rest of a stream in pieces of about BLOCK_BYTES that end where a line ends; given the number of fields, not within a
    record of several lines."""
    rest = memoryview(b"")
    while True:
        size = len(rest) + BLOCK_BYTES
        buffer = bytearray(size + SLACK)
        buffer[: len(rest)] = rest
        filled = len(rest) + fill(stream, memoryview(buffer)[len(rest) : size])
        end = buffer.rfind(b"\n", 0, filled) + 1
        if fields:
            end = csv_lines.end_of_records(buffer, end, fields) if filled == size else filled
        piece, rest = memoryview(buffer)[:end], memoryview(buffer)[end:filled]
        if end:
            yield piece
        if filled < size:
            break
        if len(rest) > LONGEST_LINE:
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
    """A column of texts, numbers or dates with the values that ARROW_TYPES has for it.

    Raises Unreadable, or another error of UNREADABLE, for a value that is none.
    """
    values, wrong = column.values, None
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if how.type != "string" and (is_text or pa.types.is_decimal(values.type) or how.type == "date"):
        values, wrong = values_of(values.cast(pa.string()), how)
    elif values.type != ARROW_TYPES[how.type]:
        values = values.cast(ARROW_TYPES[how.type])  # fails for 1.5 as a whole number
    if how.type == "clock" and wrong is None:
        wrong = is_no_clock(values.to_numpy(False))
    # A value that no row here has may have been left by an earlier block.
    if wrong is not None and (bad := np.append(wrong, False).take(column.indices, mode="wrap")).any():
        value = column.values[int(column.indices[bad.argmax()])]
        raise Unreadable(f"column `{name}`: {value} is not a {how.type}")
    return column if values is column.values else Distinct(values, column.indices)
