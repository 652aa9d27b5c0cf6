"""The plain kind of CSV, compiled: short entries without quotes, as in most flight data.

pyarrow splits any CSV; this loop needs a third of its time. Without
it, ingest of 292 MB of flights takes 1.6 times as long. It judges nothing. A block with anything unusual is left to
pyarrow and `values`, which read it or report the problem. Unusual are a quote, a carriage return, a NUL byte, an entry of
more than eight bytes, a number that has other characters than digits, a wrong number of fields, a blank line, and a missing
line end at the end. Both ways give the same result.
"""

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data import csv_loops
from tfglm.data.csv_loops import VECTOR, WORD
from tfglm.data.distinct import Distinct

MOST_ENTRIES = 2**16
"""Most distinct entries of a field, so that numbers of 16 bits can distinguish them; pyarrow reads a field with more."""

MOST_SHARED = 2**13
"""Fewest distinct entries of a field that the next file does not begin with."""

FEWEST_BITS = 8
"""2^8 buckets of a field to begin with."""


class Entries:
    """The distinct entries of some fields that one thread has met so far, and their values: see `csv_loops.number_of`."""

    def __init__(self, slots: int, most: int = MOST_ENTRIES):
        # Only the buckets in use are marked as free: for columns with few entries the rest never occupies memory.
        self.bits = np.full(slots, FEWEST_BITS, np.int64)
        self.buckets = np.zeros((slots, 2 * most), np.uint64)
        self.buckets[:, : 2**FEWEST_BITS] = csv_loops.FREE
        self.numbers = np.zeros((slots, 2 * most), np.uint16)
        self.words = np.zeros((slots, most), np.uint64)
        self.known = np.zeros(slots, np.int64)
        self.meaning: list[tuple[np.ndarray, pa.Array | None]] = [(np.zeros(0, np.int32), None)] * slots

    def numbers_in(
        self, data: np.ndarray, size: int, separator: np.uint8, fields: int, wanted: np.ndarray
    ) -> np.ndarray | None:
        """The numbers of the entries of the lines `data[:size]`, uint16 [slots, rows]; None if the lines are not plain."""
        numbers = np.empty((len(wanted), size // fields), np.uint16)
        tables = self.buckets, self.numbers, self.words, self.known, self.bits
        rows = csv_loops.parse(data, np.uint64(size), separator, fields, wanted, *tables, numbers)
        return numbers[:, :rows] if rows >= 0 else None


class PlainCsv:
    """Parses lines of `fields` entries with `separator` between them, and reads the entries with the numbers `wanted`.

    Fields marked in `whole` are whole numbers; the others are texts in the given encoding. `missing` are the entries for a
    missing value.
    """

    @classmethod
    @functools.lru_cache(4)
    def of(cls, *arguments: Any) -> "PlainCsv":
        """The one with these arguments, which small files share, with the compiled code loaded."""
        made = cls(*arguments)
        made.load()
        return made

    def __init__(
        self,
        fields: int,
        wanted: Sequence[int],
        whole: Sequence[bool],
        missing: Sequence[str],
        encoding: str,
        separator: bytes = b",",
    ):
        self.separator = np.uint8(ord(separator))
        self.fields, self.wanted, self.whole, self.encoding = fields, np.array(wanted), whole, encoding
        # A marker that the encoding cannot represent marks nothing.
        marks = [mark.encode(encoding, "ignore") for mark in missing]
        marks = [raw for raw, mark in zip(marks, missing, strict=True) if raw.decode(encoding) == mark]
        self.missing = np.array([mark for mark in marks if len(mark) <= WORD and b"\0" not in mark], "S8").view("<u8")
        self.of_thread = threading.local()
        self.files = 0

    def begin(self) -> None:
        """Begin another file. Entries of earlier ones are kept if they are few: to find them out takes time, and what is computed
        of the same values is the same."""
        self.files += 1

    def parse(self, lines: memoryview) -> list[Distinct] | None:
        """The wanted fields, int64 or string; None if the lines are not plain.

        `lines` begins where its buffer begins. The values may hold a number twice (7 and 07), and what only earlier blocks
        had. Raises UnicodeDecodeError for a text that has another encoding.
        """
        buffer = lines.obj
        if not isinstance(buffer, bytearray) or len(buffer) < len(lines) + VECTOR:
            return None
        if getattr(self.of_thread, "file", None) != self.files:
            known = self.of_thread.entries.known if hasattr(self.of_thread, "entries") else []
            if max(known, default=MOST_SHARED) >= MOST_SHARED:
                self.of_thread.entries = Entries(len(self.wanted))
            self.of_thread.file = self.files
        entries: Entries = self.of_thread.entries
        data = np.frombuffer(buffer, np.uint8)
        numbers = entries.numbers_in(data, len(lines), self.separator, self.fields, self.wanted)
        if numbers is None:
            return None
        columns = []
        for slot, of_rows in enumerate(numbers):
            known = entries.known[slot]
            if len(entries.meaning[slot][0]) < known:
                entries.meaning[slot] = self._meaning(entries.words[slot, :known], self.whole[slot])
            table, values = entries.meaning[slot]
            if values is None:
                self.forget()  # or the entry that is no whole number would be there for ever
                return None
            columns.append(Distinct(values, of_rows, table))
        return columns

    def forget(self) -> None:
        """Forget the entries of this thread."""
        self.of_thread.entries = Entries(len(self.wanted))

    def load(self) -> None:
        """Load the compiled code, or compile it, which happens once a machine."""
        data = np.frombuffer(bytearray(b"1\n".ljust(2 + VECTOR)), np.uint8)
        Entries(1, 256).numbers_in(data, 2, self.separator, 1, np.zeros(1, np.int64))

    def _meaning(self, entries: np.ndarray, whole: bool) -> tuple[np.ndarray, pa.Array | None]:
        """Return the positions of the values of some entries, int32, -1 for a missing value, and the values. Returns None if
        they should be whole numbers and are not."""
        absent = np.isin(entries, self.missing)
        entries = np.where(absent, np.uint64(ord("0")), entries)
        if whole:
            values = integers_of(entries)
        else:
            texts = [text.decode(self.encoding) for text in entries.astype("<u8").view("S8").tolist()]
            values = pl.Series(texts, dtype=pl.String).to_arrow()
        return np.where(absent, -1, np.arange(len(absent))).astype(np.int32), values


def integers_of(words: np.ndarray) -> pa.Array | None:
    """The whole numbers that the texts in `words` stand for; None if one is something else."""
    characters = words.astype("<u8").view(np.uint8).reshape(-1, WORD).astype(np.int64)
    negative = characters[:, 0] == ord("-")
    characters[negative, :-1] = characters[negative, 1:]
    characters[negative, -1] = 0
    there = characters != 0
    digits = characters - ord("0")
    if not (there[:, 0].all() and ((digits >= 0) & (digits <= 9) | ~there).all()):
        return None
    numbers = np.zeros(len(words), np.int64)
    for position in range(WORD):
        numbers = np.where(there[:, position], 10 * numbers + digits[:, position], numbers)
    return pl.Series(np.where(negative, -numbers, numbers)).to_arrow()
