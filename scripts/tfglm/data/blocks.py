"""Input files as streams of blocks of whole rows, whatever they are packed in."""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128

from tfglm.config import Dialect
from tfglm.data import csv_lines
from tfglm.data.packing import opened, reported
from tfglm.data.parquet_files import batches
from tfglm.errors import UserError

LONGEST_LINE = 64 << 20

SLACK = 64
"""Bytes allocated behind each block, so that its last bytes can be read as a whole vector."""

LINE = 1 << 12
"""Bytes more than asked for, as a block begins with what the last one left of a line."""

STEP = 1 << 20
"""Bytes: so that files of like size use the same memory."""


@dataclass(frozen=True)
class InputBlock:
    """Some consecutive rows of a file: whole lines, or rows of a Parquet file. `first` is the number of the first one, as a
    text editor counts lines, or would if the rows were written as CSV; 0 where nobody asked."""

    data: memoryview | pa.RecordBatch
    first: int = 0


class Buffers:
    """Memory for blocks, used again: to get it fresh takes longer than to read a file into it."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """So many bytes or more, whatever they hold."""
        while self._free:
            buffer = self._free.pop()
            if len(buffer) >= size:
                return buffer
        return bytearray(-(-(size + LINE) // STEP) * STEP)

    def give(self, block: InputBlock) -> None:
        """Have the memory of a block used again, now that nobody looks at it any more."""
        if isinstance(block.data, memoryview) and isinstance(block.data.obj, bytearray):
            self._free.append(block.data.obj)


def parquet_blocks(path: Path, columns: Sequence[str]) -> Iterator[InputBlock]:
    """The rows of a Parquet file, `columns` of them. Raises UserError for a damaged file."""
    first = 2  # as in CSV, where the header is line 1: the same rows have the same random numbers
    for batch in batches(path, columns):
        yield InputBlock(batch, first)
        first += batch.num_rows


def csv_blocks(
    path: Path,
    block_bytes: int,
    threads: int,
    fields: int,
    numbered: bool,
    dialect: Dialect,
    checksum: xxh3_128 | None,
    buffers: Buffers,
) -> Iterator[InputBlock]:
    """The lines of a CSV file, packed or not, behind its header, or all of a file without one. A line longer than
    `block_bytes` enlarges the block. If the number of `fields` of a row is given, no block ends within a quoted text of
    several lines. With `numbered` each block knows the number of its first line, which takes time. `checksum` receives all
    bytes, including the header. The consumer returns each block to `buffers`. Raises UserError if the file cannot be
    unpacked, or has a line longer than LONGEST_LINE."""
    with opened(path, threads, dialect.sheet) as stream, reported(path):
        skipped, header = csv_lines.header_line(stream, comment=dialect.comment.encode())
        if checksum:
            checksum.update(b"".join([*skipped, header]))
        separator, rest, first = dialect.separator_bytes, b"", len(skipped) + 2
        if dialect.header is not True:
            rest, first = header.removeprefix(codecs.BOM_UTF8), first - 1
        size = filled = 0
        while filled == size:
            size = len(rest) + block_bytes
            buffer = buffers.take(size + SLACK)
            buffer[: len(rest)] = rest
            filled = len(rest) + fill(stream, memoryview(buffer)[len(rest) : size])
            if checksum:
                checksum.update(memoryview(buffer)[len(rest) : filled])
            end = buffer.rfind(b"\n", 0, filled) + 1
            if fields:
                end = csv_lines.end_of_records(buffer, end, fields, separator) if filled == size else filled
            rest = bytes(memoryview(buffer)[end:filled])
            pieces = [memoryview(buffer)[:end], memoryview(rest if filled < size else b"")]
            for lines in filter(len, pieces):
                if dialect.strip_blanks:
                    lines = csv_lines.without_blanks(lines, separator)
                yield InputBlock(lines, first if numbered else 0)
                first += csv_lines.count_of_lines(np.frombuffer(lines, np.uint8)) if numbered else 0
            if len(rest) > LONGEST_LINE:
                raise UserError(f"{path}: is not a CSV file (a line of more than {len(rest) >> 20} MB)")


def fill(stream: Any, buffer: memoryview) -> int:
    """Read until the buffer is full or the stream ends, so that blocks are the same whatever a file is packed in. Returns
    the number of bytes read."""
    filled = 0
    while filled < len(buffer) and (size := stream.readinto(buffer[filled:])):
        filled += size
    return filled
