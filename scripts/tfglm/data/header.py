"""The column names of an input file."""

import codecs
import shlex
from collections import Counter
from pathlib import Path

from tfglm.config import Dialect
from tfglm.data import csv_lines, images
from tfglm.data.packing import entry_of, kind_of_file, opened, packing
from tfglm.data.parquet_files import read_schema
from tfglm.errors import UserError

LONGEST_HEADER, MOST_COLUMNS = 1 << 20, 10_000

PLAIN = Dialect()


def read_header(path: Path, dialect: Dialect = PLAIN) -> list[str]:
    """Return the column names of a file. The names of a CSV file are in UTF-8, or else in the encoding of the dialect.
    Raises UserError if it has none."""
    kind = kind_of_file(path)
    if kind == "images":
        return images.header(path)
    if kind == "parquet":
        return read_schema(path).names
    with opened(path, sheet=dialect.sheet) as stream:
        skipped, line = csv_lines.header_line(stream, LONGEST_HEADER + 1, dialect.comment.encode())
    fields = first_fields(path, line, dialect, len(skipped) + 1)
    if dialect.header is True:
        return parse_header(path, fields, dialect.encoding, len(skipped) + 1)
    names = list(dialect.header or (f"V{number}" for number in range(1, len(fields) + 1)))
    if len(names) != len(fields):
        raise UserError(
            f"{path}: its first row has {len(fields):,} fields, and `header` of the layout names {len(names):,} columns; "
            "name each"
        )
    return names


def skipped_lines(path: Path, dialect: Dialect) -> int:
    """Return the number of blank lines and comments before the header of a CSV file, or before its first row."""
    with opened(path, sheet=dialect.sheet) as stream:
        return len(csv_lines.header_line(stream, LONGEST_HEADER + 1, dialect.comment.encode())[0])


def first_fields(path: Path, line: bytes, dialect: Dialect, number: int) -> list[bytes]:
    """The fields of the first line of a CSV file that is not skipped, its line of this number. Raises UserError for what is
    no CSV file."""
    separator = dialect.separator_bytes
    if csv_lines.is_blank(line):
        skipped = f"blank lines{' and comments' if dialect.comment else ''}"
        what = "is empty" if number == 1 else f"holds {number - 1:,} {skipped} and no others"
        what = what if not line else f"begins with more than {number - 1:,} {skipped}"
        raise UserError(f"{path}: {what}; a CSV file begins with a line of column names")
    place = "first line" if number == 1 else f"line {number}"
    wide = {
        "UTF-32": line.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
        "UTF-16": line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
        "UTF-16LE": line[1:4:2] == b"\0\0" and b"\0" not in line[::2],
        "UTF-16BE": line[:3:2] == b"\0\0" and b"\0" not in line[1::2],
    }
    if encoding := next((name for name, is_it in wide.items() if is_it), None):
        raise UserError(
            f"{path}: is encoded as {encoding}\n  save it as UTF-8, or convert it: iconv -f {encoding} -t UTF-8"
        )
    if b"\0" in line:
        raise UserError(f"{path}: is not a CSV file (its {place} holds binary data)")
    bare = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(codecs.BOM_UTF8)
    if b"\r" in bare:
        how, command = "which alone ends no line; if all its lines end so, as on old Macs, convert it", r"tr '\r' '\n'"
        if bare.endswith(b"\r"):
            how, command = "and its lines may all end with two; remove them", r"tr -d '\r'"
        how_to_convert = f"{how}:\n  {conversion_command(path, command)}"
        raise UserError(f"{path}: is not a CSV file: its {place} holds a carriage return, {how_to_convert}")
    if len(line) > LONGEST_HEADER or line.count(separator) >= MOST_COLUMNS:
        raise UserError(
            f"{path}: is not a CSV file of at most {MOST_COLUMNS:,} columns (its {place} has {len(line):,} bytes or more)"
        )
    fields = csv_lines.fields_of(bare, separator, dialect.strip_blanks)
    if fields is None:
        raise UserError(f"{path}: is not a CSV file: its {place} holds a quote that is not closed")
    return fields


def parse_header(path: Path, fields: list[bytes], encoding: str, number: int = 1) -> list[str]:
    """The column names in the header of a CSV file, its line of this number, without blanks around them."""
    header = [name.strip() for name in decoded(path, fields, encoding)]
    place = "first line" if number == 1 else f"line {number}"
    if not any(header):
        raise UserError(
            f"{path}: its {place} names no column; a CSV file begins with a line of column names\n"
            f"  remove the lines before them: {conversion_command(path, f'tail -n +{number + 1}')}"
        )
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UserError(f"{path}: has two columns called {', '.join(f'`{name}`' for name in twice[:10])}; rename one")
    return header


def conversion_command(path: Path, command: str) -> str:
    """The shell command that writes what a filter makes of a file into another one."""
    stem, source = path.name.partition(".")[0], shlex.quote(str(path))
    target = shlex.quote(str(path.with_name(f"{stem}-converted.csv")))
    kind = packing(path)
    if kind == "none":
        return f"{command} < {source} > {target}"
    unpack = {"gzip": f"gzip -dc {source}", "bz2": f"bzip2 -dc {source}"}.get(kind)
    unpack = unpack or f"unzip -p {source} {shlex.quote(entry_of(path))}"
    return f"{unpack} | {command} > {target}"


def decoded(path: Path, fields: list[bytes], encoding: str) -> list[str]:
    """Return names as text. Raises UserError if they are neither in UTF-8 nor in the given encoding."""
    for each in dict.fromkeys(["utf-8", encoding]):
        try:
            return [name.decode(each) for name in fields]
        except UnicodeDecodeError as error:
            problem = error
    raise UserError(
        f"{path}: is not a CSV file whose header is {problem.encoding.upper()}: {problem}\n"
        "  set `encoding` in the layout, such as `latin-1`, to what it is"
    )
