"""Random CSV files, whole and damaged, and an independent reader of them: Python's csv module, and conversions written from what
is documented (tfglm/data/csv_lines.py, values.py), not from the code."""

import bz2
import csv
import gzip
import io
import random
import re
import zipfile
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

import numpy as np

from tfglm.config import Layout, SelectionConfig

csv.field_size_limit(1 << 30)

TYPES = {"id": "integer", "carrier": "string", "delay": "number", "time": "clock", "day": "date"}
HEADER = ["Id", "Carrier", "Delay", "Time", "Day", "note"]
SOURCES = dict(zip(TYPES, HEADER, strict=False))

WHOLE = [
    *("0", "1", "7", "007", "-5", "+5", "12345678", "9007199254740993", "9007199254740992", "9223372036854775807"),
    *("-9223372036854775808", "15.00", "15.", "1e3", "1.5e1", "10e-1", " 5", "5\t", "00000000000000000000012", "-0"),
    "1000000000000000000000e-20",
]
NO_WHOLE = [
    *("1.5", "x", "0x1F", "nan", "NaN", "inf", "1_000", "9223372036854775808", "1e30", "1e999999999", "--5", "5 5"),
    *("1e", "-", "é", "٣", "\ufeff5"),
]
NUMBERS = [
    *("0", "-0", "1.5", ".5", "5.", "+2.25", "1e3", "1e-320", "0.1", "123456789.123456789", "1e22", "-7.25e-3"),
    *(" 2.5 ", "0.30000000000000004"),
]
NO_NUMBERS = ["nan", "NAN", "0x1F", "1,5", "1.5.2", "e5", "1_0", "", "++1", "é"]
INFINITE = ["inf", "-Infinity", "1e400"]
TEXTS = [
    *("AA", "UA", "Len", "a b", " padded ", "12345678", "123456789", "nan", "0x1F", "NA ", "é", "ä,ö", 'say ""hi""'),
    *("x" * 70, "N1\u20ac", "日本", "\ufeffAA"),
]
CLOCKS = ["0", "7", "0741", "2400", "2359", "5.0"]
NO_CLOCKS = ["2460", "2401", "-1", "61", "noon"]
DATES = ["2006-01-02", "2008-02-29", "1999-12-31"]
NO_DATES = ["2006-02-30", "yesterday", "2006-13-01", " 006-01-02"]
GOOD = {"id": WHOLE, "carrier": TEXTS, "delay": NUMBERS, "time": CLOCKS, "day": DATES}
BAD = {"id": NO_WHOLE, "carrier": ["\udcff\udce4"], "delay": NO_NUMBERS + INFINITE, "time": NO_CLOCKS, "day": NO_DATES}


SWAPPED = str.maketrans(".,", ",.")


@dataclass
class Case:
    """A file, how it is to be read, how large blocks are, and how many blank lines stand before the header."""

    data: bytes
    layout: Layout
    settings: dict
    block: int
    blank: int = 0


def case(seed: int) -> Case:
    draw = random.Random(seed)
    encoding = draw.choice(["utf-8"] * 4 + ["latin-1", "cp1252", "shift_jis", "ascii", "gb18030"])
    missing = draw.choice(
        [["NA", ""]] * 4 + [[""], [], ["-", "NA", "0"], ["NULL", " "], ["\u2013", "NA", ""], ["7", "1.5"]]
    )
    names = draw.sample(list(TYPES), draw.randint(1, 5))
    if draw.random() < 0.5:
        names = [name for name in names if name != "delay"] or ["carrier"]
    plain = draw.random() < 0.3  # what the compiled parser takes
    trouble = draw.choice([0, 0, 0.02, 0.1, 0.5])
    other = "surrogateescape" if encoding == "utf-8" else "replace"
    separator = draw.choice([",", ";", "\t"] if encoding in ("shift_jis", "gb18030") else [",", ",", ";", "\t", "|"])
    decimal = draw.choice([".", ".", ","])
    rows = draw.choice([0, 1, 3, 12, 40])
    lines = [record(draw, missing, plain, trouble, separator, decimal).encode(encoding, other) for _ in range(rows)]
    for place in range(len(lines)):
        if draw.random() < trouble:
            lines[place] = damaged(draw, lines[place], separator)
    if not plain and draw.random() < 0.02 and lines:
        lines[draw.randrange(len(lines))] += b"y" * 200_000
    ends = draw.choice([[b"\n"]] * 4 + [[b"\r\n"], [b"\n", b"\r\n"]])
    header = separator.join(f'"{name}"' if draw.random() < 0.1 else name for name in HEADER).encode()
    head = (b"\xef\xbb\xbf" if draw.random() < 0.1 else b"") + header
    data = b"".join(line + draw.choice(ends) for line in [head, *lines])
    if draw.random() < 0.3:
        data = data[: -draw.choice([1, 1, 2, 5])] if len(data) > len(head) + 8 else data
    layout = {
        "columns": {name: {"type": kind, "source": SOURCES[name]} for name, kind in TYPES.items()},
        "encoding": encoding,
        "missing": missing,
        "separator": separator,
        "decimal": decimal,
    }
    settings: dict = {"columns": names, "seed": seed, "derive": {}}
    if "id" in names and draw.random() < 0.5:
        settings["derive"] = {"double": "id + id"}
        settings["columns"] = [*names, "double"]
    settings["split"] = {"evaluate": "random < 0.3", "predict": "random > 0.8"}
    settings["split"]["train"] = "random BETWEEN 0.3 AND 0.8"
    if draw.random() < 0.3:
        settings["split"] = {"train": "TRUE"}
    blank = [draw.choice([b"\n", b"\r\n", b" \n", b"\xef\xbb\xbf\n"]) for _ in range(draw.choice([0, 0, 0, 1, 3]))]
    data = b"".join([*blank, data])
    return Case(data, Layout.model_validate(layout), settings, draw.choice([60, 200, 1000, 1 << 20]), len(blank))


def record(draw: random.Random, missing: list[str], plain: bool, trouble: float, separator: str, decimal: str) -> str:
    values = []
    for name in [*TYPES, "note"]:
        chance = draw.random()
        if name == "note":
            value = draw.choice(["", "ok", "NA"])
        elif chance < trouble / 4:
            value = draw.choice(BAD[name])
        elif chance > 0.9 and missing:
            value = draw.choice(missing)
        else:
            value = draw.choice(GOOD[name][: 4 if plain else None])
            value = value.replace(".", decimal) if TYPES.get(name) in ("integer", "number", "clock") else value
        quoted = not plain and draw.random() < 0.2
        parted = separator in value and draw.random() < 0.9
        values.append(f'"{value}"' if quoted or parted else value.replace('""', '"'))
    return separator.join(values)


def damaged(draw: random.Random, line: bytes, separator: str) -> bytes:
    at = draw.randrange(len(line) + 1)
    odd = [
        *(b'"', b'""', b"\0", b"\0\0\0", b"\r", b"\n", b",", separator.encode(), b"\r\r", b"\x1f", b"\xff"),
        *(b"\xe4\xe5", b" ", b'"\n"', b'"x\ny"'),
    ]
    how = draw.randrange(8)
    if how == 0:
        return line[:at]
    if how == 1:
        return b""
    if how == 2:
        return separator.join(HEADER).encode()
    if how == 3:
        return b'1,"two\nlines",2,3,,'.replace(b",", separator.encode())
    if how == 5:
        return b"\xef\xbb\xbf" + line
    if how == 4:
        return b'1,"three\nx,y,1,2,2006-01-02,\nlines",2,3,,'.replace(b",", separator.encode())
    return line[:at] + draw.choice(odd) + line[at + draw.choice([0, 0, 1]) :]


@dataclass
class Read:
    """What is in a file: the rows by split, in order, each with its number in the file; and the lines that are none."""

    rows: dict[str, list[tuple[int, tuple]]] = field(
        default_factory=lambda: {"train": [], "evaluate": [], "predict": []}
    )
    bad: list[int] = field(default_factory=list)
    read: int = 0


def independently(of: Case) -> Read:
    """The file as documented, with all unreadable lines left out."""
    settings = SelectionConfig.model_validate(of.settings)
    lines = of.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    last = len(lines) if of.data.endswith(b"\n") else len(lines) - 1
    lines = [*(line.removesuffix(b"\r") for line in lines[:last]), *lines[last:]]
    key = np.random.SeedSequence([settings.seed, *b"flights"]).generate_state(2, np.uint64)
    drawn = np.random.Generator(np.random.Philox(key=key)).random(len(lines) + 2)
    outcome = Read()
    separator = of.layout.separator_bytes
    spanned = 0
    for place, line in enumerate(lines[of.blank + 1 :], start=of.blank + 1):
        if not line:
            continue
        outcome.read += 1
        row = None
        if place > spanned:
            fields = split(line, separator)
            if fields is None:
                spanned = record_to(lines, place, separator)
            row = fields and values(fields, of, settings)
        if row is None:
            outcome.bad.append(place + 1)
        else:
            chance = drawn[place + 1]
            parts = settings.split
            name = "train"
            if parts.evaluate:
                name = "evaluate" if chance < 0.3 else "predict" if chance > 0.8 else "train"
            outcome.rows[name].append((outcome.read, row))
    return outcome


def split(line: bytes, separator: bytes) -> list[bytes] | None:
    """The fields; None if they are none."""
    if b"\0" in line or b"\r" in line:
        return None
    reader = csv.reader([line.decode("latin-1"), "end"], delimiter=separator.decode())
    fields = next(reader)
    if reader.line_num > 1 or len(fields) != len(HEADER) or [each.strip() for each in fields] == HEADER:
        return None
    return [each.encode("latin-1") for each in fields]


def is_open(line: bytes, separator: bytes) -> bool:
    if b"\0" in line or b"\r" in line:
        return False
    reader = csv.reader([line.decode("latin-1"), "end"], delimiter=separator.decode())
    next(reader)
    return reader.line_num > 1


def record_to(lines: list[bytes], first: int, separator: bytes) -> int:
    """The last line of the regular record that begins in a line and goes on behind it; 0 if there is none."""
    if not is_open(lines[first], separator):
        return 0
    text = b"\n".join(lines[first:])[: 1 << 16]
    fields, at, in_quotes, after = 1, 0, False, False
    begin = True
    while at < len(text):
        character = text[at : at + 1]
        if in_quotes:
            if character == b'"' and text[at + 1 : at + 2] == b'"':
                at += 1
            elif character == b'"':
                in_quotes, after = False, True
        elif character == b"\n":
            last = first + text[:at].count(b"\n")
            return last if fields == len(HEADER) else 0
        elif character == separator:
            fields, begin, after = fields + 1, True, False
            at += 1
            continue
        elif character == b'"' and begin:
            in_quotes = True
        elif after or character == b'"':
            return 0
        begin = False
        at += 1
    last = first + text.count(b"\n")
    return last if not in_quotes and fields == len(HEADER) else 0


def values(fields: list[bytes], of: Case, settings: SelectionConfig) -> tuple | None:
    """The kept columns of a row; None if one has no value of its type."""
    row: dict = {}
    for name in [*settings.columns, *(["id"] if "double" in settings.columns else [])]:
        if name == "double":
            continue
        try:
            text = fields[HEADER.index(SOURCES[name])].decode(of.layout.encoding)
            swapped = of.layout.decimal == "," and TYPES[name] not in ("string", "date")
            value = text.translate(SWAPPED) if swapped else text
            row[name] = None if text in of.layout.missing else CONVERT[TYPES[name]](value)
        except ValueError:
            return None
    if "double" in settings.columns:
        row["double"] = None if row["id"] is None else 2 * row["id"]
        if row["double"] is not None and not -(2**63) <= row["double"] < 2**63:
            return None
    return tuple(row[name] for name in settings.columns)


def whole(text: str) -> int:
    matched = re.fullmatch(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?", text.strip(" \t"))
    if not matched:
        raise ValueError(text)
    sign, before, after, only, exponent = matched.groups()
    after = after or only or ""
    power = int(exponent or 0)
    if abs(power) > 100:
        raise ValueError(text)
    value = Fraction(int((before or "") + after) * (-1 if sign == "-" else 1)) * Fraction(10) ** (power - len(after))
    if value.denominator != 1 or not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return int(value)


def number(text: str) -> float:
    text = text.strip(" \t")
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise ValueError(text)
    if np.isinf(float(text)):
        raise ValueError(text)
    return float(text)


def clock(text: str) -> int:
    value = whole(text)
    if not 0 <= value <= 2400 or value % 100 >= 60:
        raise ValueError(text)
    return value


CONVERT = {
    "string": str,
    "integer": whole,
    "number": number,
    "clock": clock,
    "date": lambda text: datetime.strptime(text, "%Y-%m-%d").date().isoformat(),
}


def packed(text: bytes) -> dict[str, bytes]:
    archives = {}
    for name, method in (
        ("zip", zipfile.ZIP_DEFLATED),
        ("zip with LZMA", zipfile.ZIP_LZMA),
        ("zip with bz2", zipfile.ZIP_BZIP2),
    ):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            archive.writestr("flights.csv", text)
        archives[name] = stream.getvalue()
    several = bz2.compress(text[: len(text) // 2]) + bz2.compress(text[len(text) // 2 :])
    return archives | {"gzip": gzip.compress(text), "bz2": bz2.compress(text), "bz2 of two streams": several}
