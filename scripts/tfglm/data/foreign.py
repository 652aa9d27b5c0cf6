"""Workbooks, Stata and SPSS files and JSON lines as a stream of CSV, made while it is read.

The stream is UTF-8 with commas, and begins with a line of names. So a layout, missing values, unreadable values and conditions
mean the same for all kinds of files. Line ends within a text become blanks, because a row is a line.
"""

import codecs
import csv
import io
import json
import math
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tfglm.config import Layout
from tfglm.data import workbooks
from tfglm.data.csv_lines import DAMAGED
from tfglm.data.editions import FileStatus
from tfglm.errors import UserError, require, short

if TYPE_CHECKING:
    import polars as pl

CHUNK_VALUES = 2_000_000
"""Values of a Stata or SPSS file that are converted together. A piece takes the longer the further back it is."""

PIECE = 1 << 16
"""Bytes of a converted workbook that are read together."""

FIRST_LINES = 10_000
"""JSON lines that name the columns."""

SPSS_DATES = [f"{name}{width}" for name in ("MOYR", "QYR", "WKYR") for width in range(4, 41)]
"""Formats of dates that pyreadstat leaves alone by itself."""

MONTHS = {"%tm": 1, "%tq": 3, "%th": 6}
"""How many months a count from 1960 stands for, by the format of Stata."""

WITHIN = "\0"
"""Stands for the point between `a` and `b` in the column a.b, until columns have names."""

LINE_ENDS = str.maketrans("\r\n\0", "   ")


def as_converted(layout: Layout, kind: str) -> Layout:
    """A layout for the CSV that a file is converted to: its dialect is known. A workbook may have no line of names."""
    fixed: dict[str, Any] = {"separator": ",", "decimal": ".", "encoding": "utf-8", "strip_blanks": False}
    fixed |= {"thousands": None} if layout.thousands == "." else {}
    return layout.model_copy(update=fixed if kind == "workbook" else fixed | {"header": True, "comment": None})


def converted(path: Path, kind: str, sheet: str, lines: IO[bytes] | None = None) -> io.BufferedReader:
    """The content of a file as CSV; `sheet` is that of a workbook, if named, and `lines` are those of JSON, which are closed
    with the result. Raises UserError, also while it is read, for what cannot be read."""
    if lines:
        pieces = json_as_csv(path, lines)
    elif kind == "workbook":
        pieces = workbook_as_csv(path, FileStatus.of(path), sheet).pieces()
    else:
        pieces = statistical_as_csv(path, kind)
    return io.BufferedReader(Pieces(pieces, lines))


class Pieces(io.RawIOBase):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes], source: IO[bytes] | None = None) -> None:
        self._pieces, self._waiting, self._source = pieces, memoryview(b""), source

    def close(self) -> None:
        if self._source:
            self._source.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read as a raw stream does: some bytes, or none at the end."""
        while not len(self._waiting):
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._waiting = memoryview(piece)
        size = min(len(buffer), len(self._waiting))
        buffer[:size], self._waiting = self._waiting[:size], self._waiting[size:]
        return size


class Spool:
    """Pieces of bytes on disk as far as somebody has read them: a workbook takes long to convert, and `init` reads it thrice."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._lock, self._size = pieces, threading.Lock(), 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._problem: Exception | None = None

    def pieces(self) -> Iterator[bytes]:
        """The bytes from the first on. Raises what the conversion does, each time."""
        place = 0
        while piece := self._piece(place):
            yield piece
            place += len(piece)

    def _piece(self, place: int) -> bytes:
        with self._lock:
            if self._size == place:
                try:
                    self._file.seek(self._size)
                    self._size += self._file.write(next(self._pieces, b""))
                except Exception as error:
                    self._problem = error
                if self._problem:
                    raise self._problem
            self._file.seek(place)
            return self._file.read(PIECE)


@lru_cache(maxsize=1)
def workbook_as_csv(path: Path, status: FileStatus, sheet: str) -> Spool:
    """One sheet. `status` distinguishes the file from what was in its place before."""
    return Spool(in_pieces(workbooks.rows(path, sheet)))


def in_pieces(rows: Iterable[list[str]]) -> Iterator[bytes]:
    """Rows as lines of CSV, some at a time; one without fields is a blank line."""
    following = iter(rows)
    while some := list(islice(following, 1000)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(some)
        written = text.getvalue()
        if written.count("\n") != len(some) or "\r" in written or "\0" in written:
            text = io.StringIO()
            bare = (
                row if row[:1] and row[0].startswith(DAMAGED) else [value.translate(LINE_ENDS) for value in row]
                for row in some
            )
            csv.writer(text, lineterminator="\n").writerows(bare)
            written = text.getvalue()
        yield written.encode("utf-8", "replace")


def statistical_as_csv(path: Path, kind: str) -> Iterator[bytes]:
    """The rows of a Stata or SPSS file. Codes stay codes, whatever their labels; all kinds of missing values are missing."""
    import polars as pl

    first = 0
    most = max(1, CHUNK_VALUES // max(1, len(read_statistical(path, kind)[0].columns)))
    while len(frame := read_statistical(path, kind, first, most)[0]) or not first:
        whole = [
            name
            for name, values in zip(frame.columns, frame, strict=True)
            if values.dtype.is_float()
            and bool(((values == values.round()) & (values.abs() < 2**53)).fill_null(True).all())
        ]
        text = frame.with_columns(
            pl.col(whole).cast(pl.Int64), pl.col(pl.String).str.replace_all("[\r\n\0]", " ")
        ).write_csv(include_header=not first, datetime_format="%Y-%m-%d %H:%M:%S", time_format="%H:%M:%S")
        yield text.encode()
        first += len(frame)
        if len(frame) < most:
            return


def read_statistical(path: Path, kind: str, first: int = 0, rows: int = 0) -> "tuple[pl.DataFrame, Any]":
    """Some rows of a Stata or SPSS file, and what pyreadstat says of its columns; no rows if none are asked for. A week,
    month, quarter or half-year is the date of its first day, and a duration is in hours."""
    require("pyreadstat", "files", f"{path}: a file of Stata or SPSS")
    import polars as pl
    import pyreadstat  # takes a while, and few files need it

    options = {"output_format": "polars", "row_offset": first, "row_limit": rows, "user_missing": False}
    read = partial(pyreadstat.read_dta if kind == "stata" else pyreadstat.read_sav, str(path), **options)
    try:
        frame, about = read(metadataonly=not rows, extra_date_formats=SPSS_DATES)
        formats = {name: form or "" for name, form in about.original_variable_types.items()} if rows else {}
        durations = [name for name, form in formats.items() if re.match("[DM]?TIME", form)]
        if durations:
            frame = frame.with_columns(read(usecols=durations, disable_datetime_conversion=True)[0] / 3600)
        # The shortest decimals that a float of four bytes stands for: 0.1, not 0.10000000149011612.
        floats = [name for name, kind in about.readstat_variable_types.items() if kind == "float"] if rows else []
        frame = frame.with_columns(pl.col(name).cast(pl.Float32) for name in floats if frame[name].dtype.is_float())
        periods = {name: form[:3] for name, form in formats.items() if form[:3] in ("%tw", *MONTHS)}
        return frame.with_columns(first_day(name, form) for name, form in periods.items()), about
    except (
        *(pyreadstat.ReadstatError, pyreadstat.PyreadstatError, pl.exceptions.PolarsError),
        *(UnicodeDecodeError, OverflowError),
    ) as error:
        program = "Stata" if kind == "stata" else "SPSS"
        raise UserError(
            f"{path}: cannot be read as a {program} file: {next(iter(str(error).splitlines()), '')}\n"
            f"  fetch it again, or write it as CSV in {program} ({'export delimited' if kind == 'stata' else 'Save As'})"
        ) from error


def first_day(name: str, form: str) -> "pl.Expr":
    """The first day of the weeks or months that Stata counts from 1960; each of its years has 52 weeks."""
    import polars as pl

    count = pl.col(name).cast(pl.Int64)
    if form == "%tw":
        return (pl.date(1960 + count // 52, 1, 1) + pl.duration(days=7 * (count % 52))).alias(name)
    months = MONTHS[form] * count
    return pl.date(1960 + months // 12, months % 12 + 1, 1).alias(name)


def labels_in(path: Path, kind: str) -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """The labels of whole numbers in a Stata or SPSS file, by column and number; not those of Stata's missing values .a to .z.
    And what the file calls its columns on paper (variable labels), by column; those that say more than the name."""
    about = read_statistical(path, kind)[1]
    of_values = {
        name: {
            int(value): label
            for value, label in of_column.items()
            if isinstance(value, (int, float)) and float(value).is_integer() and label.strip()
        }
        for name, of_column in about.variable_value_labels.items()
    }
    written = {name: " ".join((label or "").split()) for name, label in about.column_names_to_labels.items()}
    return of_values, {name: label for name, label in written.items() if label not in ("", name)}


def json_as_csv(path: Path, lines: IO[bytes]) -> Iterator[bytes]:
    """JSON lines as rows: a key is a column, and `b` within `a` is the column a.b. A list is text.

    A line that is no object becomes a damaged row, which the reader counts or refuses. A key `a.b` and `b` within `a` are two
    columns of the same name, which the reader refuses. Raises UserError if none of the first lines is an object, and for a key
    that none of these has.
    """
    objects = (flat(number, line) for number, line in enumerate(lines, start=1))
    first = list(islice(objects, FIRST_LINES))
    names = {name: place for place, name in enumerate(dict.fromkeys(name for row in first for name in row_of(row)))}
    if not names and (problem := next((row for row in first if isinstance(row, str)), None)):
        number = first.index(problem) + 1
        raise UserError(f"{path}, line {number:,}: {problem}\n  `jq -c .` writes each object on one line")

    def rows() -> Iterator[list[str]]:
        yield [name.replace(WITHIN, ".") for name in names]
        for number, row in enumerate(chain(first, objects), start=1):
            if isinstance(row, str):
                yield [f"{DAMAGED}{row}"]
                continue
            values = [""] * len(names) if row is not None else []
            for name, value in row_of(row).items():
                if name not in names:
                    shown = short(name.replace(WITHIN, '": {"'))
                    raise UserError(
                        f"{path}, line {number:,}: has the key `{short(name.replace(WITHIN, '.'))}`, and none of the first "
                        f'{FIRST_LINES:,} lines has; add `"{shown}": null{"}" * name.count(WITHIN)}` to the first line'
                    )
                values[names[name]] = value
            yield values

    yield from in_pieces(rows())


def row_of(row: dict[str, str] | str | None) -> dict[str, str]:
    return row if isinstance(row, dict) else {}


def flat(number: int, line: bytes) -> dict[str, str] | str | None:
    """The values of a line, as text, by their keys; None for a blank line, and the problem of a line that is no object."""
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    if not line.strip():
        return None
    try:
        row = json.loads(line.rstrip(), object_pairs_hook=with_each_key_once)
        if isinstance(row, dict):
            return dict(leaves(row, ""))
        problem = "is no JSON object"
    except UserError as error:
        problem = str(error)
    except (ValueError, RecursionError) as error:
        problem = f"is no JSON ({' '.join(str(error).replace('line 1 ', '').split())})"
    return f'{problem}; each line must hold one object, such as {{"age": 31}}; correct or remove the line'


def with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise UserError("holds an object with the same key twice")
    return row


def leaves(row: dict[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from leaves(value, f"{name}{WITHIN}")
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, list):
            yield name, json.dumps(value, ensure_ascii=False)
        elif value is None or (isinstance(value, float) and math.isnan(value)):
            yield name, ""
        else:
            yield name, str(value)
