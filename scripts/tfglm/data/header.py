"""The column names of an input file."""

import codecs
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tfglm.data import csv_lines, images
from tfglm.data.images import has_images
from tfglm.data.packing import opened, packing, reported
from tfglm.errors import UserError

LONGEST_HEADER, MOST_COLUMNS = 1 << 20, 10_000


def read_header(path: Path) -> list[str]:
    """The column names of a file. Raises UserError if it has none."""
    if has_images(path):
        return images.header(path)
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
        raise UserError(
            f"{path}: is not a CSV file whose header is UTF-8: {error}\n  save the header as UTF-8"
        ) from error
    if not any(header):
        raise UserError(f"{path}: is empty; a CSV file begins with a line of column names")
    twice = sorted(name for name, times in Counter(header).items() if name and times > 1)
    if twice:
        raise UserError(f"{path}: the header names {', '.join(f'`{name}`' for name in twice[:10])} twice; rename one")
    return header
