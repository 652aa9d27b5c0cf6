"""The lines of a CSV file and their fields: the rules for rows, shared by all parsers.

- A row is a line. Lines end with a line feed, or with a carriage return and a line feed; the last line may lack its end. A
  line with any other carriage return, or with a NUL byte, is unreadable. Lines without any character are no rows.
- Fields are separated by commas, or by the separator of the layout. A quote at the start of a field opens quoted text,
  which lasts until the next quote that is not doubled. Within it, separators belong to the field and "" is a quote. Text
  behind the closing quote is appended; elsewhere a quote is an ordinary character.
- A quoted field ends in its line. A line that does not close a quote is unreadable: it may have been cut, and its text
  would absorb the next line. If the following lines complete a regular record, they are unreadable too.
- With `strip_blanks` in the layout, blanks and tabs around fields do not count: a field without quotes has none at its ends, and
  a quote behind them opens quoted text, whose own blanks stay. A line of nothing else is no row.
- Each row has as many fields as the header, which is the first line that is not blank, and no comment if the layout has some.
  A file without a header begins with a row.
"""

import codecs
import re
from dataclasses import dataclass
from functools import cache
from typing import IO

import numpy as np

NEWLINE, RETURN = 10, 13

BLANKS = b" \t"

MOST_SPANNED = 1000
MOST_SPANNED_BYTES = 1 << 16
"""A text in quotes that is longer is taken for a line that was cut."""

MOST_SKIPPED = 1000
"""Most blank lines and comments before the header."""

DAMAGED = "\0damaged: "
"""Stands before the problem of a line that could not be converted to CSV. No other converted line has a NUL byte."""


@dataclass(frozen=True)
class LineProblem:
    """The problem of a line: a short `reason` for the account of rows, and a `remark` with the remedy."""

    reason: str
    remark: str


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but blanks and, as the first of a file may, a byte order mark."""
    return not line.removeprefix(codecs.BOM_UTF8).strip()


def header_line(stream: IO[bytes], longest: int = -1, comment: bytes = b"") -> tuple[list[bytes], bytes]:
    """The blank lines and comments that a file begins with, and the line behind them, as far as its first `longest` bytes."""
    skipped: list[bytes] = []
    while (line := stream.readline(longest)) and len(skipped) < MOST_SKIPPED:
        if not is_blank(line) and not (comment and line.removeprefix(codecs.BOM_UTF8).startswith(comment)):
            break
        skipped.append(line)
    return skipped, line


def without_blanks(lines: memoryview, separator: bytes) -> memoryview:
    """Lines without the blanks around their fields, in the memory of the lines if it can be changed."""
    from tfglm.data import csv_loops  # numba takes a while, and reading headers must do without it

    lines = memoryview(bytearray(lines)) if lines.readonly else lines
    return lines[: csv_loops.strip_blanks(np.frombuffer(lines, np.uint8), len(lines), np.uint8(ord(separator)))]


@cache
def field_pattern(separator: bytes, around: bytes = b"") -> re.Pattern[bytes]:
    """A quoted field and the text behind it, or a bare field; `around` are the blanks that may stand before a quote."""
    others = b"[^" + re.escape(separator) + b"]*"
    before = b"[" + around + b"]*+" if around else b""
    return re.compile(before + rb'(?:"((?:[^"]+|"")*+)"(' + others + rb')|((?!")' + others + b"))")


def fields_of(line: bytes, separator: bytes, strip_blanks: bool = False) -> list[bytes] | None:
    """The fields of a line without its end; None if a quote is not closed."""
    around = BLANKS.replace(separator, b"") if strip_blanks else b""
    if b'"' not in line:
        return [field.strip(around) for field in line.split(separator)] if around else line.split(separator)
    pattern = field_pattern(separator, around)
    fields, at = [], 0
    while match := pattern.match(line, at):
        quoted, behind, bare = match.groups()
        if around:
            behind, bare = (text and text.rstrip(around) for text in (behind, bare))
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
    """Return the number of lines in some bytes (uint8)."""
    return int(np.count_nonzero(data == NEWLINE)) + (len(data) > 0 and data[-1] != NEWLINE)


def lines_with_rows(data: np.ndarray) -> np.ndarray:
    """Return the numbers, from 0, of the lines of some bytes (uint8) that are not blank."""
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


def problems_of(lines: list[bytes], headers: list[list[bytes]], separator: bytes) -> dict[int, LineProblem]:
    """Return the lines that are no row of a file, by number, regardless of their values. `headers` are the ways in which the
    header may be written."""
    size = len(headers[0])
    problems: dict[int, LineProblem] = {}
    for number, line in enumerate(lines):
        if not line or number in problems:
            continue
        if b"\0" in line:
            first, *_ = fields_of(line, separator) or [b""]
            if first.startswith(DAMAGED.encode()):
                problems[number] = LineProblem("damaged line", first.decode().removeprefix(DAMAGED))
                continue
            problems[number] = LineProblem(
                "NUL byte", "holds a NUL byte, which no text does; correct or remove the line"
            )
            continue
        if b"\r" in line:
            remark = "holds a carriage return in the middle of the line; correct or remove the line"
            problems[number] = LineProblem("carriage return", remark)
            continue
        bare = b'"' not in line and line.count(separator) + 1 == size
        if bare and not any(header[0] in line for header in headers):
            continue
        fields = fields_of(line, separator)
        if fields is None:
            problems |= open_record(lines, number, size, separator)
        elif [field.strip() for field in fields] in headers:
            remark = "repeats the header in the middle of the file; remove the line"
            problems[number] = LineProblem("repeated header", remark)
        elif len(fields) != size:
            cause = other_quotes(line, separator)
            remark = f"{len(fields)} fields where the header has {size}{', ' if cause else ''}{cause}; correct or remove the line"
            problems[number] = LineProblem("wrong number of fields", remark)
    return problems


def other_quotes(line: bytes, separator: bytes) -> str:
    """Say how a line that has a wrong number of fields quotes texts in another way than CSV does; nothing if it does not."""
    if b'\\"' in line:
        return 'as it writes a quote within a text as `\\"`, where CSV has `""` (sed \'s/\\\\"/""/g\' converts it)'
    if re.search(b"(?:^|" + re.escape(separator) + b") *'", line):
        return "as it has texts in single quotes, where CSV has double ones"
    return ""


def open_record(lines: list[bytes], first: int, fields: int, separator: bytes) -> dict[int, LineProblem]:
    """Return the problem of the line `first`, which leaves a quote open, and of the lines that complete its record."""
    last = last_of_record(lines, first, fields, separator)
    if not last:
        cause = other_quotes(lines[first], separator) or "which may have been cut"
        remark = f"a quoted text is not closed in its line, {cause}; correct or remove the line"
        return {first: LineProblem("open quote", remark)}
    remark = f"begins a quoted text of {last - first + 1} lines, but a row is one line; correct or remove these lines"
    problem = LineProblem("row of several lines", remark)
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
    """Return where to cut whole lines, at most at byte `end`. A record of so many fields may begin in the last lines and
    continue behind them. The cut keeps it in one piece."""
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
