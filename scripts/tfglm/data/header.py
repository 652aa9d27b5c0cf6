"""The column names of an input file."""

import codecs
import shlex
from collections import Counter
from pathlib import Path

from tfglm.data import csv_lines, images
from tfglm.data.images import has_images
from tfglm.data.packing import entry_of, opened, packing
from tfglm.data.parquet_files import read_schema
from tfglm.errors import UserError

LONGEST_HEADER, MOST_COLUMNS = 1 << 20, 10_000


def read_header(path: Path, separator: bytes = b",", encoding: str = "utf-8") -> list[str]:
    """The column names of a file; those of a CSV file are in UTF-8, or else in the given encoding.

    Raises UserError if it has none.
    """
    if has_images(path):
        return images.header(path)
    if packing(path) == "parquet":
        return read_schema(path).names
    with opened(path) as stream:
        blank, line = csv_lines.header_line(stream, LONGEST_HEADER + 1)
    return parse_header(path, line, separator, encoding, len(blank) + 1)


def blank_lines(path: Path) -> int:
    """How many blank lines a CSV file has before its header."""
    with opened(path) as stream:
        return len(csv_lines.header_line(stream, LONGEST_HEADER + 1)[0])


def parse_header(path: Path, line: bytes, separator: bytes, encoding: str, number: int = 1) -> list[str]:
    """The column names in the header of a CSV file, its line of this number, without blanks around them."""
    if csv_lines.is_blank(line):
        what = "is empty" if number == 1 else f"holds {number - 1:,} blank lines and no others"
        what = what if not line else f"begins with more than {number - 1:,} blank lines"
        raise UserError(f"{path}: {what}; a CSV file begins with a line of column names")
    place = "first line" if number == 1 else f"line {number}"
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}: is encoded as UTF-16\n  save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in line:
        raise UserError(f"{path}: is not a CSV file (its {place} holds binary data)")
    bare = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(codecs.BOM_UTF8)
    if b"\r" in bare:
        raise UserError(f"{path}: is not a CSV file: its {place} holds a carriage return, {how_to_convert(path, bare)}")
    if len(line) > LONGEST_HEADER or line.count(separator) >= MOST_COLUMNS:
        raise UserError(
            f"{path}: is not a CSV file of at most {MOST_COLUMNS:,} columns (its {place} has {len(line):,} bytes or more)"
        )
    fields = csv_lines.fields_of(bare, separator)
    if fields is None:
        raise UserError(f"{path}: is not a CSV file: its {place} holds a quote that is not closed")
    header = [name.strip() for name in decoded(path, fields, encoding)]
    if not any(header):
        raise UserError(
            f"{path}: its {place} names no column; a CSV file begins with a line of column names\n"
            f"  remove what stands above them: {into_another(path, f'tail -n +{number + 1}')}"
        )
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UserError(f"{path}: the header names {', '.join(f'`{name}`' for name in twice[:10])} twice; rename one")
    return header


def how_to_convert(path: Path, header: bytes) -> str:
    """What to say of a carriage return within a header."""
    how, command = "which ends no line by itself; if all its lines end so, as on old Macs, convert it", r"tr '\r' '\n'"
    if header.endswith(b"\r"):
        how, command = "and its lines may all end with two; remove them", r"tr -d '\r'"
    return f"{how}:\n  {into_another(path, command)}"


def into_another(path: Path, command: str) -> str:
    """The shell command that writes what a filter makes of a file into another one."""
    source, target = shlex.quote(str(path)), shlex.quote(str(path.with_name(f"{file_stem(path)}-converted.csv")))
    kind = packing(path)
    if kind == "none":
        return f"{command} < {source} > {target}"
    unpack = {"gzip": f"gzip -dc {source}", "bz2": f"bzip2 -dc {source}"}.get(kind)
    unpack = unpack or f"unzip -p {source} {shlex.quote(entry_of(path))}"
    return f"{unpack} | {command} > {target}"


def file_stem(path: Path) -> str:
    """The name of a file without what follows its first point."""
    return path.name.partition(".")[0]


def decoded(path: Path, fields: list[bytes], encoding: str) -> list[str]:
    """Some names as text. Raises UserError if they are neither in UTF-8 nor in the given encoding."""
    for each in dict.fromkeys(["utf-8", encoding]):
        try:
            return [name.decode(each) for name in fields]
        except UnicodeDecodeError as error:
            problem = error
    raise UserError(
        f"{path}: is not a CSV file whose header is {problem.encoding.upper()}: {problem}\n"
        "  set `encoding` in the layout, such as `latin-1`, to what it is"
    )
