"""Input files as streams of blocks of whole rows, whatever they are packed in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128

from tfglm.data import csv_lines
from tfglm.data.packing import opened, reported
from tfglm.data.parquet_files import batches
from tfglm.errors import UserError

LONGEST_LINE = 64 << 20

SLACK = 64
"""Bytes behind each block: its last ones can be read as a whole vector."""


class ReadsInto(Protocol):
    """What streams of bytes can do, though IO[bytes] does not say so."""

    def readinto(self, buffer: memoryview, /) -> int: ...


@dataclass(frozen=True)
class Block:
    """Some consecutive rows of a file: whole lines, or rows of a Parquet file. `first` is the number of the first one, as a
    text editor counts lines, or would if the rows were written as CSV; 0 where nobody asked."""

    data: memoryview | pa.RecordBatch
    first: int = 0


def parquet_blocks(path: Path, columns: Sequence[str]) -> Iterator[Block]:
    """The rows of a Parquet file, `columns` of them. Raises UserError for a damaged file."""
    first = 2  # as in CSV, where the header is line 1: the same rows have the same random numbers
    for batch in batches(path, columns):
        yield Block(batch, first)
        first += batch.num_rows


def csv_blocks(
    path: Path,
    block_bytes: int,
    threads: int = 1,
    fields: int = 0,
    numbered: bool = False,
    separator: bytes = b",",
    checksum: xxh3_128 | None = None,
) -> Iterator[Block]:
    """The lines of a CSV file behind its header.

    Parameters
    ----------
    path
        The file, packed or not.
    block_bytes
        Size of a block; a longer line makes it larger.
    threads
        Threads that unpack.
    fields
        If given, the number of fields of a row: then no block ends within a quoted text of several lines.
    numbered
        Whether the number of each block's first line is to be known; counting lines takes time.
    separator
        What stands between fields.
    checksum
        Takes all bytes that are read, those of the header too.

    Raises
    ------
    UserError
        For a file that cannot be unpacked, or has a line longer than LONGEST_LINE.
    """
    with opened(path, threads) as stream, reported(path):
        header = stream.readline()
        if checksum:
            checksum.update(header)
        first = 2
        for lines in whole_lines(stream, path, block_bytes, fields, separator, checksum):
            yield Block(lines, first if numbered else 0)
            first += csv_lines.count_of_lines(np.frombuffer(lines, np.uint8)) if numbered else 0


def whole_lines(
    stream: IO[bytes], path: Path, block_bytes: int, fields: int, separator: bytes, checksum: xxh3_128 | None
) -> Iterator[memoryview]:
    """The rest of a stream in pieces of about `block_bytes` that end where a line ends; given the number of fields, not within
    a record of several lines. The checksum takes what is read."""
    rest = memoryview(b"")
    while True:
        size = len(rest) + block_bytes
        buffer = bytearray(size + SLACK)
        buffer[: len(rest)] = rest
        filled = len(rest) + fill(stream, memoryview(buffer)[len(rest) : size])
        if checksum:
            checksum.update(memoryview(buffer)[len(rest) : filled])
        end = buffer.rfind(b"\n", 0, filled) + 1
        if fields:
            end = csv_lines.end_of_records(buffer, end, fields, separator) if filled == size else filled
        piece, rest = memoryview(buffer)[:end], memoryview(buffer)[end:filled]
        if end:
            yield piece
        if filled < size:
            break
        if len(rest) > LONGEST_LINE:
            raise UserError(f"{path}: is not a CSV file (a line of more than {len(rest) >> 20} MB)")
    if len(rest):
        yield rest


def fill(stream: IO[bytes], buffer: memoryview) -> int:
    """Read until the buffer is full or the stream ends, so that blocks are the same whatever a file is packed in.

    Returns the number of bytes read.
    """
    filled = 0
    while filled < len(buffer) and (size := cast(ReadsInto, stream).readinto(buffer[filled:])):
        filled += size
    return filled
