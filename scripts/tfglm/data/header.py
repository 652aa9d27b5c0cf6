"""The column names of an input file."""

import codecs
from collections import Counter
from pathlib import Path

from tfglm.data import csv_lines, images
from tfglm.data.images import has_images
from tfglm.data.packing import opened, packing
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
        return parse_header(path, stream.readline(LONGEST_HEADER + 1), separator, encoding)


def parse_header(path: Path, line: bytes, separator: bytes, encoding: str) -> list[str]:
    """The column names in the first line of a CSV file, without blanks around them."""
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}: is encoded as UTF-16\n  save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in line:
        raise UserError(f"{path}: is not a CSV file (its first line holds binary data)")
    if len(line) > LONGEST_HEADER or line.count(separator) >= MOST_COLUMNS:
        raise UserError(
            f"{path}: is not a CSV file of at most {MOST_COLUMNS:,} columns (its first line has {len(line):,} bytes or more)"
        )
    bare = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(codecs.BOM_UTF8)
    fields = csv_lines.fields_of(bare, separator)
    if fields is None or b"\r" in bare:
        what = "a quote that is not closed" if fields is None else "a carriage return, which ends no line by itself"
        raise UserError(f"{path}: is not a CSV file: its first line holds {what}")
    header = [name.strip() for name in decoded(path, fields, encoding)]
    if not any(header):
        raise UserError(f"{path}: is empty; a CSV file begins with a line of column names")
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UserError(f"{path}: the header names {', '.join(f'`{name}`' for name in twice[:10])} twice; rename one")
    return header


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
