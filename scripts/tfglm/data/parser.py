"""Turn a block of an input file into columns.

`csv_lines` defines lines, and `values` the meaning of fields. Compiled code of this package splits plain lines, and pyarrow
all others: unlike polars, pyarrow refuses a line with too few or too many fields, whichever columns are requested.
"""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from xxhash import xxh3_128

from tfglm.config import Layout, LayoutColumn
from tfglm.data import csv_lines, lookups
from tfglm.data.blocks import Buffers, InputBlock, csv_blocks, parquet_blocks
from tfglm.data.csv_lines import LineProblem
from tfglm.data.distinct import Distinct
from tfglm.data.header import skipped_lines
from tfglm.data.images import Images
from tfglm.data.limits import BLOCK_BYTES, MOST_CODES
from tfglm.data.packing import FileKind, estimated_csv_bytes, kind_of_file, packing
from tfglm.data.parquet_files import check_types
from tfglm.data.sql import FAILURES
from tfglm.data.values import ARROW_TYPES, Unreadable, decoded, refined, typed_values_of, values_of

if TYPE_CHECKING:
    from tfglm.data.plain_csv import PlainCsv

LARGE = 200 * 10**6
"""From this size of a CSV file (bytes) on, it pays to load the compiled parser, which takes two seconds."""

SMALLEST_BLOCK = 2**16
"""Bytes that are read at once at least: some file systems say that a file has none."""

SECOND_WRITING = "^[+-]?0[0-9]|[0-9][eE]"
"""Of a number, in codes another code."""

UNREADABLE = (Unreadable, pa.ArrowInvalid, *FAILURES)
"""Errors from parsing a block, or from evaluating an expression on it."""


@dataclass(frozen=True)
class Parsed:
    """The needed columns of a block, with values of ARROW_TYPES; how many lines it has; and which of these, from 0, hold the
    rows, int64 [rows], None if all do."""

    rows: int
    columns: dict[str, Distinct]
    lines: int
    with_rows: np.ndarray | None = None

    @property
    def line_numbers(self) -> np.ndarray:
        """The line of each row, from 0, int64 [rows]."""
        return np.arange(self.rows) if self.with_rows is None else self.with_rows

    def taken(self, rows: np.ndarray) -> "Parsed":
        """Some of the rows, with only the values that occur in them."""
        columns = {name: column.take(rows).compact() for name, column in self.columns.items()}
        with_rows = rows if self.with_rows is None else self.with_rows[rows]
        return Parsed(len(rows), columns, self.lines, with_rows)


@dataclass
class Parser:
    """Turns the blocks of one file into columns. `columns` are the needed columns, by their tfglm name. With
    `whole_records`, no block ends within a quoted text of several lines. `compiled` splits plain lines, once it is loaded."""

    path: Path
    header: tuple[str, ...]
    layout: Layout
    columns: dict[str, LayoutColumn]
    whole_records: bool = False
    block_bytes: int = BLOCK_BYTES
    compiled: "PlainCsv | None" = field(default=None, init=False)
    checksum: xxh3_128 = field(default_factory=xxh3_128, init=False)
    """Blocks of a file that is not packed: the position up to which they have been read."""
    buffers: Buffers = field(default=Buffers(), init=False)
    """Those of all files that this process reads."""
    twice: dict[str, set[str]] = field(default_factory=dict, init=False)
    """Numbers that are codes in different writings, such as 007 and 7, by the source of their column."""
    odd: dict[str, dict[str, float]] = field(default_factory=dict, init=False)
    """Numbers by how they are written, with zeros before or an exponent, by the source of their column."""
    unknown: set[str] = field(default_factory=set, init=False)
    """The sources of columns whose `odd` are not all there."""

    def blocks(self, threads: int, numbered: bool) -> Iterator[InputBlock]:
        """The file from its first row to its last; `numbered` if it is to be known which rows they are."""
        if self.images:
            return self.images.blocks()
        if self.kind == "parquet":
            return parquet_blocks(self.path, self._sources())
        fields = len(self.header) if self.whole_records else 0
        is_plain, block_bytes = packing(self.path) == "none", self.block_bytes
        if is_plain:
            # To clear more memory than the file fills would take as long as to parse a small file. One byte more shows the end.
            block_bytes = min(block_bytes, max(self.path.stat().st_size + 1, SMALLEST_BLOCK))
        checksum, dialect = self.checksum if is_plain else None, self.layout.dialect
        return csv_blocks(self.path, block_bytes, threads, fields, numbered, dialect, checksum, self.buffers)

    @cached_property
    def kind(self) -> FileKind:
        return kind_of_file(self.path)

    @cached_property
    def images(self) -> Images | None:
        """The content of the file, if it consists of images."""
        return Images.load(self.path) if self.kind == "images" else None

    def check_types(self) -> None:
        """Raise UserError for columns of a Parquet file that cannot be read as the layout says."""
        if self.kind == "parquet":
            check_types(self.path, self.columns)

    @cached_property
    def headers(self) -> list[list[bytes]]:
        """The ways in which the header may be written: in UTF-8 or in the encoding of the layout, and after a byte order
        mark, which occurs if files were concatenated."""
        encodings = dict.fromkeys(["utf-8", self.layout.encoding])
        written = [[name.encode(encoding, "replace") for name in self.header] for encoding in encodings]
        return [*written, *([codecs.BOM_UTF8 + first, *others] for first, *others in written)]

    @cached_property
    def skipped(self) -> int:
        """How many blank lines and comments the file begins with."""
        return 0 if self.kind in ("images", "parquet") else skipped_lines(self.path, self.layout.dialect)

    @property
    def first_line(self) -> int:
        """The number of the line of the first row."""
        return self.skipped + (2 if self.layout.header is True else 1)

    def _sources(self) -> list[str]:
        """The needed columns as the file calls them. A query may need none (`train: TRUE`), but the rows are to be counted."""
        return list(dict.fromkeys(column.source for column in self.columns.values())) or [self.header[0]]

    def parse(self, data: memoryview | pa.RecordBatch) -> Parsed:
        """Raises one of UNREADABLE."""
        if isinstance(data, pa.RecordBatch):
            return Parsed(data.num_rows, self._sound_columns(partial(self._typed, data)), data.num_rows)
        if not len(data):
            empty = {name: pa.nulls(0, ARROW_TYPES[column.type]) for name, column in self.columns.items()}
            return Parsed(0, {name: Distinct.of(array) for name, array in empty.items()}, 0)
        compiled = self._compiled_columns(data)
        if compiled is not None:
            rows = len(next(iter(compiled.values())))
            return Parsed(rows, compiled, rows)
        return self._any_columns(data)

    def _compiled_columns(self, data: memoryview) -> dict[str, Distinct] | None:
        """The columns by name, if the lines are plain."""
        if not self.compiled:
            return None
        try:
            fields = self.compiled.parse(data)
        except UnicodeError:
            self.compiled.forget()
            return None
        if not fields:
            return None
        columns = {}
        mark = codecs.BOM_UTF8.decode(self.layout.encoding, "replace")
        for (name, how), column in zip(self.columns.items(), fields, strict=True):
            if how.type == "string" and not {how.source, mark + how.source}.isdisjoint(column.values.to_pylist()):
                self._refuse_header(data)
            columns[name] = refined(column, name, how, self.layout.numerals)
            assert column.table is not None
            if (
                how.type == "integer"
                and pl.Series(column.values).gather(column.table[column.table >= 0]).is_duplicated().any()
            ):
                return None  # pyarrow and `_note_writings` see the texts
        return columns

    def is_large(self) -> bool:
        """Whether `compile` pays."""
        return bool(self.columns) and self.kind != "images" and estimated_csv_bytes(self.path) >= LARGE

    def compile(self) -> None:
        """Have rows looked up by compiled code from now on, and plain lines parsed by it, if the columns allow that. Loading it
        takes two seconds."""
        lookups.load()
        if (
            self.kind in ("images", "parquet")
            or len(self.header) == 1  # where a blank line looks like a missing value
            or any(column.type == "number" or column.symbol for column in self.columns.values())
        ):
            return
        from tfglm.data.plain_csv import PlainCsv

        wanted = tuple(self.header.index(column.source) for column in self.columns.values())
        whole = tuple(column.type in ("integer", "clock") and not column.format for column in self.columns.values())
        separator, missing, encoding = self.layout.separator_bytes, tuple(self.layout.missing), self.layout.encoding
        compiled = PlainCsv.of(len(self.header), wanted, whole, missing, encoding, separator)
        compiled.begin()
        self.compiled = compiled

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
        if csv_lines.ends_in_quotes(data, self.layout.separator_bytes):
            raise Unreadable("a quote is not closed")
        texts = [column.source for column in self.columns.values() if column.type == "string"] or table.column_names
        for source in texts:
            values = self._distinct(table, source).values.to_pylist()
            if any(header[self.header.index(source)] in values for header in self.headers):
                self._refuse_header(data)
        return Parsed(table.num_rows, self._sound_columns(partial(self._values, table)), lines, with_rows)

    def _sound_columns(self, read: Callable[[LayoutColumn], tuple[Distinct, np.ndarray]]) -> dict[str, Distinct]:
        """The columns as `read` gives them, with which of their values are none. Raises Unreadable if one is none."""
        columns = {}
        for name, how in self.columns.items():
            columns[name], wrong = read(how)
            if wrong.any():
                raise Unreadable(f"column `{name}`")
        return columns

    def _read(self, data: memoryview | bytes) -> pa.Table:
        """The needed columns as the file names them, or any column if none is needed."""
        sources = self._sources()
        if bytes(data[: len(codecs.BOM_UTF8)]) == codecs.BOM_UTF8:
            # pyarrow drops one, as if a file began here.
            data = codecs.BOM_UTF8 + bytes(data)
        convert = csv.ConvertOptions(
            include_columns=sources,
            column_types=dict.fromkeys(sources, pa.dictionary(pa.int32(), pa.binary())),
            null_values=[],
            check_utf8=False,
        )
        read = csv.ReadOptions(column_names=self.header, use_threads=False, block_size=len(data) + 1)
        parse = csv.ParseOptions(delimiter=self.layout.separator_bytes.decode())
        return csv.read_csv(pa.BufferReader(data), read, parse, convert)

    def _distinct(self, table: pa.Table, source: str) -> Distinct:
        column = table[source]
        if not column.num_chunks:
            return Distinct(pa.nulls(0, pa.binary()), np.zeros(0, np.int32))
        return Distinct.of(column.chunk(0))

    def _values(self, table: pa.Table, how: LayoutColumn) -> tuple[Distinct, np.ndarray]:
        return self._values_of_bytes(self._distinct(table, how.source), how)

    def _values_of_bytes(self, raw: Distinct, how: LayoutColumn) -> tuple[Distinct, np.ndarray]:
        """A column, and which of its values are none or not in the encoding (bool)."""
        texts, undecoded = decoded(raw.values, self.layout.encoding)
        absent = pl.Series(texts, dtype=pl.String).is_in(self.layout.missing).to_numpy() & ~undecoded
        values, wrong = values_of(texts, how, self.layout.numerals)
        self._note_writings(texts, values, wrong | absent | undecoded, how)
        indices = raw.indices
        if absent.any():
            indices = np.where(absent, -1, np.arange(len(absent))).astype(np.int32).take(indices)
        return Distinct(values, indices), (wrong & ~absent) | undecoded

    def _note_writings(self, texts: pa.Array, values: pa.Array, wrong: np.ndarray, how: LayoutColumn) -> None:
        """Note numbers that some different texts have in several writings, one of them with zeros before or an exponent."""
        # So many numbers are no levels.
        if len(texts) >= MOST_CODES:
            self.unknown.add(how.source)
        if how.type not in ("integer", "number") or (how.type == "number" and len(texts) >= MOST_CODES):
            return
        written = pl.Series(texts, dtype=pl.String).str.strip_chars()
        is_odd = written.str.contains(SECOND_WRITING) & pl.Series(~wrong)
        if not is_odd.any():
            return
        table = (
            pl.DataFrame({"value": pl.Series(values), "text": written, "odd": is_odd})
            .filter(~pl.Series(wrong))
            .unique()
        )
        odd = table.filter("odd")
        if how.source not in self.unknown:
            self.odd.setdefault(how.source, {}).update(zip(odd["text"], odd["value"], strict=True))
        same = table.group_by("value").agg(pl.col("text").sort(), pl.col("odd").any()).filter(pl.col("odd"))
        same = same.filter(pl.col("text").list.len() > 1).sort("value").head(1)
        for shown in same["text"]:
            self.twice.setdefault(how.source, set()).add(" and ".join(f"`{text}`" for text in shown.head(2)))

    def examine(self, data: memoryview | pa.RecordBatch) -> tuple[dict[int, LineProblem], Parsed]:
        """Return the problems of the lines of a block, by their number in it from 0, and the rows of the other lines. It
        examines all lines together, because a block may have many unreadable lines."""
        separator, problems = self.layout.separator_bytes, dict[int, LineProblem]()
        if isinstance(data, pa.RecordBatch):
            count, sound, read = data.num_rows, np.arange(data.num_rows), partial(self._typed, data)
        else:
            lines = csv_lines.lines_of(bytes(data))
            problems = csv_lines.problems_of(lines, self.headers, separator)
            sound = np.array([place for place, line in enumerate(lines) if line and place not in problems], np.int64)
            if not len(sound):
                return problems, Parsed(0, self.parse(memoryview(b"")).columns, len(lines), sound)
            count, table = len(lines), self._read(b"".join(lines[place] + b"\n" for place in sound))
            read = partial(self._values, table)
        columns = {}
        bad = np.zeros(len(sound), bool)
        for name, how in self.columns.items():
            columns[name], wrong = read(how)
            rows = np.append(wrong, False).take(columns[name].indices, mode="wrap") & ~bad
            for row in np.flatnonzero(rows).tolist():
                if isinstance(data, pa.RecordBatch):
                    value = data.column(how.source)[row].as_py()
                else:
                    fields = csv_lines.fields_of(lines[sound[row]], separator) or []
                    value = fields[self.header.index(how.source)]
                problems[int(sound[row])] = self._problem_of(name, how, value)
            bad |= rows
        return problems, Parsed(len(sound), columns, count, sound).taken(np.flatnonzero(~bad))

    def _problem_of(self, name: str, how: LayoutColumn, value: Any) -> LineProblem:
        """Describe the problem of a value that is not in the encoding, or does not have the type of its column."""
        if isinstance(value, bytes):
            try:
                value = value.decode(self.layout.encoding)
            except UnicodeError:
                remark = (
                    f"column `{how.source}`: bytes that are not {self.layout.encoding.upper()} ({value[:100]!r}); correct the "
                    "line, or set `encoding` in the layout, such as `latin-1`, to what it is"
                )
                return LineProblem(f"value of {name}", remark)
        value = str(value)
        written = f" with thousands (`{self.layout.thousands}`)" if self.layout.thousands else ""
        written += f" with the symbol `{how.symbol}`" if how.symbol else ""
        wanted = {
            "integer": f"a whole number{written}",
            "number": "a number"
            + (" with a comma before its decimals" if self.layout.decimal == "," else "")
            + written,
            "clock": f"a time of day ({' or '.join(how.formats) or 'hhmm, from 0 to 2400'})",
            "date": f"a date ({' or '.join(how.formats) or '%Y-%m-%d'})",
        }
        shown = value if len(value) <= 100 else f"{value[:100]}..."
        remark = (
            f"column `{how.source}`: expected {wanted[how.type]}, found `{shown}`\n"
            "  correct the value, add it to `missing` in the layout if it marks a missing one, or change the "
            "column's type there"
        )
        return LineProblem(f"value of {name}", remark)

    def _typed(self, batch: pa.RecordBatch, how: LayoutColumn) -> tuple[Distinct, np.ndarray]:
        """One column of a Parquet file or of images, which has a type of its own, and which of its values are none (bool)."""
        array = batch.column(how.source)
        if how.type == "image":
            return Distinct(array, np.arange(len(array), dtype=np.int32)), np.zeros(len(array), bool)
        array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
        if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
            return self._values_of_bytes(Distinct.of(array), how)
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            missing = pl.Series(self.layout.missing, dtype=pl.String).to_arrow().cast(array.type)
            array = pc.if_else(pc.is_in(array, missing), pa.nulls(1, array.type)[0], array)
        elif how.type == "date":
            array = array.cast(pa.date32())  # of a time with a zone, the day there
        elif how.type == "clock" and pa.types.is_timestamp(array.type):
            array = pc.add(pc.multiply(pc.hour(array), 100), pc.minute(array))
        column = Distinct.of(array)
        values, wrong = typed_values_of(column.values, how, self.layout.numerals)
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            self._note_writings(column.values, values, wrong, how)
        return Distinct(values, column.indices), wrong

    def _refuse_header(self, data: memoryview) -> None:
        """Raise Unreadable if a line is the header once more."""
        for line in csv_lines.lines_of(bytes(data)):
            if any(header[0] in line for header in self.headers):
                fields = csv_lines.fields_of(line, self.layout.separator_bytes) or []
                if [field.strip() for field in fields] in self.headers:
                    raise Unreadable("repeats the header")
