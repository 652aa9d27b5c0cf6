"""The lines of a CSV file and their fields: what a row is, whichever parser reads it.

- A row is a line. Lines end with a line feed, or with a carriage return and a line feed; the last one may lack its end. Any
  other carriage return, or a NUL byte, makes its line unreadable. Lines without any character are no rows.
- Fields are separated by commas, or by what the layout says. A quote that begins a field lasts to the next one that is not
  doubled; in between, separators belong to the field and "" is a quote. What stands behind the closing quote is added;
  elsewhere a quote is a character as any.
- A quoted field ends in its line. A line that does not close a quote is unreadable: it may have been cut, and its text would
  take in the next line. Where the lines behind it complete a regular record, they are unreadable with it.
- Each row has as many fields as the header, which is the first line that is not blank.
"""

import codecs
import re
from dataclasses import dataclass
from functools import cache
from typing import IO

import numpy as np

NEWLINE, RETURN = 10, 13

MOST_SPANNED = 1000
MOST_SPANNED_BYTES = 1 << 16
"""A text in quotes that is longer is taken for a line that was cut."""

MOST_BLANK = 1000
"""Blank lines that may stand before the header."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a line: in short, as the account of rows counts it, and in full with the remedy."""

    reason: str
    remark: str


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but blanks and, as the first of a file may, a byte order mark."""
    return not line.removeprefix(codecs.BOM_UTF8).strip()


def header_line(stream: IO[bytes], longest: int = -1) -> tuple[list[bytes], bytes]:
    """The blank lines that a file begins with, and the line behind them, as far as its first `longest` bytes."""
    blank: list[bytes] = []
    while (line := stream.readline(longest)) and is_blank(line) and len(blank) < MOST_BLANK:
        blank.append(line)
    return blank, line


@cache
def field_pattern(separator: bytes) -> re.Pattern[bytes]:
    """A quoted field and what stands behind it, or a bare one."""
    others = b"[^" + re.escape(separator) + b"]*"
    return re.compile(rb'"((?:[^"]+|"")*+)"(' + others + rb')|((?!")' + others + b")")


def fields_of(line: bytes, separator: bytes) -> list[bytes] | None:
    """The fields of a line without its end; None if a quote is not closed."""
    if b'"' not in line:
        return line.split(separator)
    pattern = field_pattern(separator)
    fields, at = [], 0
    while match := pattern.match(line, at):
        quoted, behind, bare = match.groups()
        fields.append(bare if quoted is None else quoted.replace(b'""', b'"') + behind)
        at = match.end() + 1
        if at > len(line):
            return fields
    return None


def is_regular(record: bytes, separator: bytes) -> bool:
    """Whether quotes only enclose whole fields."""
    pattern = field_pattern(separator)
    at = 0
    while at <= len(record):
        match = pattern.match(record, at)
        if not match or match[2] or (match[3] and b'"' in match[3]):
            return False
        at = match.end() + 1
    return True


def lines_of(data: bytes) -> list[bytes]:
    """The lines without their ends."""
    *whole, last = data.split(b"\n")
    return [*(line.removesuffix(b"\r") for line in whole), *([last] if last else [])]


def count_of_lines(data: np.ndarray) -> int:
    """How many lines some bytes (uint8) are."""
    return int(np.count_nonzero(data == NEWLINE)) + (len(data) > 0 and data[-1] != NEWLINE)


def lines_with_rows(data: np.ndarray) -> np.ndarray:
    """Which lines of some bytes (uint8) hold a row, counted from 0: those that are not blank."""
    ends = np.flatnonzero(data == NEWLINE)
    if len(data) and data[-1] != NEWLINE:
        ends = np.append(ends, len(data))
    begins = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    sizes = ends - begins
    returns = (sizes == 1) & (data[np.minimum(begins, len(data) - 1)] == RETURN)
    return np.flatnonzero((sizes > 0) & ~returns)


def has_stray_bytes(data: np.ndarray) -> bool:
    """Whether there is a NUL byte, or a carriage return that does not belong to the end of a line."""
    if not data.all():
        return True
    returns = np.flatnonzero(data == RETURN)
    return bool(len(returns)) and (returns[-1] + 1 == len(data) or bool((data[returns + 1] != NEWLINE).any()))


def ends_in_quotes(data: bytes | memoryview, separator: bytes) -> bool:
    """Whether the last line that is not blank leaves a quote open."""
    size = 1 << 16
    while True:
        text = bytes(data[-size:]).rstrip(b"\r\n")
        begin = text.rfind(b"\n") + 1
        if begin or size >= len(data):
            return fields_of(text[begin:], separator) is None
        size *= 4


def problems_of(lines: list[bytes], headers: list[list[bytes]], separator: bytes) -> dict[int, Problem]:
    """The lines that are no row of a file, by their number, whatever their values are. `headers` are the ways in which its header
    may be written."""
    size = len(headers[0])
    problems: dict[int, Problem] = {}
    for number, line in enumerate(lines):
        if not line or number in problems:
            continue
        if b"\0" in line:
            problems[number] = Problem("NUL byte", "holds a NUL byte, which no text does; correct or remove the line")
            continue
        if b"\r" in line:
            remark = "holds a carriage return, which is no line end by itself; correct or remove the line"
            problems[number] = Problem("carriage return", remark)
            continue
        bare = b'"' not in line and line.count(separator) + 1 == size
        if bare and not any(header[0] in line for header in headers):
            continue
        fields = fields_of(line, separator)
        if fields is None:
            problems |= open_record(lines, number, size, separator)
        elif [field.strip() for field in fields] in headers:
            remark = "repeats the header in the middle of the file; remove the line"
            problems[number] = Problem("repeated header", remark)
        elif len(fields) != size:
            remark = f"{len(fields)} fields where the header has {size}; correct or remove the line"
            problems[number] = Problem("wrong number of fields", remark)
    return problems


def open_record(lines: list[bytes], first: int, fields: int, separator: bytes) -> dict[int, Problem]:
    """What is wrong with the line `first`, which leaves a quote open, and with those that complete its record."""
    last = last_of_record(lines, first, fields, separator)
    if not last:
        remark = "a quoted text is not closed in its line, which may have been cut; correct or remove the line"
        return {first: Problem("open quote", remark)}
    remark = f"begins a quoted text of {last - first + 1} lines, but a row is one line; correct or remove these lines"
    problem = Problem("row of several lines", remark)
    return {number: problem for number in range(first, last + 1) if lines[number]}


def last_of_record(lines: list[bytes], first: int, fields: int, separator: bytes) -> int | None:
    """The line that completes a regular record of so many fields with the line `first`, which leaves a quote open; 0 if none
    does, None if lines behind these may."""
    size = len(lines[first])
    for number in range(first + 1, len(lines)):
        size += 1 + len(lines[number])
        if number >= first + MOST_SPANNED or size > MOST_SPANNED_BYTES:
            return 0
        if b'"' in lines[number]:
            record = b"\n".join(lines[first : number + 1])
            if (values := fields_of(record, separator)) is not None:
                return number if len(values) == fields and is_regular(record, separator) else 0
    return None


def end_of_records(data: bytearray, end: int, fields: int, separator: bytes) -> int:
    """Where to cut whole lines, the first `end` bytes, so that a record of so many fields that one of the last lines begins, and
    that goes on behind them, stays together."""
    first = max(end - MOST_SPANNED_BYTES, 0)
    at = data.find(b"\n", first, end) + 1 if first else 0
    if data.find(b'"', at, end) < 0:
        return end
    lines = lines_of(bytes(data[at:end]))
    number = 0
    while number < len(lines):
        if fields_of(lines[number], separator) is None:
            last = last_of_record(lines, number, fields, separator)
            if last is None:
                for _ in range(number):
                    at = data.find(b"\n", at) + 1
                return at
            number = max(last, number)
        number += 1
    return end
