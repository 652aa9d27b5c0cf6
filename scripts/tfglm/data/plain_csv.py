"""The plain kind of CSV, compiled: short entries without a quote, which is what flight data mostly are.

pyarrow splits any CSV; this loop needs a third of its time. It judges nothing: a block that holds anything out of the
ordinary (a quote, a carriage return, a NUL byte, an entry of more than eight bytes, a number that is not of digits alone, a
wrong number of fields, a blank line, no line end at the end) is left to pyarrow and `values`, which read it or say what is
wrong with it. Both give the same.
"""

import threading
from collections.abc import Sequence

import numba
import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data.distinct import Distinct

QUOTE, RETURN = b'"', b"\r"
NEWLINE = 10

WORD = 8
"""Bytes of an entry that fit into one machine word, which then identifies it."""

SLACK = 2 * WORD
"""Bytes that a buffer must have behind the lines."""

BUCKETS = 2**17
"""Size of the hash table of a field; one that has more than half as many distinct entries is left to pyarrow."""


class PlainCsv:
    """Lines of `fields` entries, with `separator` between them, of which those with the numbers `wanted` are read: as whole
    numbers where `whole` says so, else as texts in the given encoding. `missing` stands for a missing value."""

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
        # What cannot be written in the encoding marks nothing.
        marks = [mark.encode(encoding, "ignore") for mark in missing]
        marks = [raw for raw, mark in zip(marks, missing, strict=True) if raw.decode(encoding) == mark]
        self.missing = np.array([mark for mark in marks if len(mark) <= WORD and b"\0" not in mark], "S8").view("<u8")
        # Each thread has the entries that it has met so far: most blocks hold few new ones.
        self.of_thread = threading.local()

    def parse(self, lines: memoryview) -> list[Distinct] | None:
        """The wanted fields, int64 or string; None if the lines are not plain.

        `lines` begins where its buffer begins. The values may hold a number twice (7 and 07), and what only earlier blocks
        had. Raises UnicodeDecodeError for a text that has another encoding.
        """
        buffer = lines.obj
        assert isinstance(buffer, bytearray)
        if len(buffer) < len(lines) + SLACK or QUOTE in buffer or RETURN in buffer:
            return None
        if buffer.find(b"\0", 0, len(lines)) >= 0:
            return None
        if not hasattr(self.of_thread, "entries"):
            slots = len(self.wanted)
            self.of_thread.entries = np.zeros((slots, BUCKETS), np.int32), np.zeros((slots, BUCKETS // 2), np.uint64)
            self.of_thread.known = np.zeros(slots, np.int64)
            self.of_thread.meaning = [(np.zeros(0, bool), None)] * slots
        known = self.of_thread.known
        data, words = np.frombuffer(lines, np.uint8), np.frombuffer(buffer, np.uint64, len(buffer) // WORD)
        plain, indices = _parse(data, words, self.separator, self.fields, self.wanted, *self.of_thread.entries, known)
        if not plain:
            return None
        columns = []
        for slot, of_rows in enumerate(indices):
            absent, values = self.of_thread.meaning[slot]
            if len(absent) < known[slot]:
                absent, values = self._meaning(self.of_thread.entries[1][slot, : known[slot]], self.whole[slot])
                self.of_thread.meaning[slot] = absent, values
            if values is None:
                self.forget()  # or the entry that is no whole number would be there for ever
                return None
            if absent.any():
                of_rows = np.where(absent, -1, np.arange(len(absent))).astype(np.int32).take(of_rows)
            columns.append(Distinct(values, of_rows))
        return columns

    def forget(self) -> None:
        """Begin anew with the entries of this thread."""
        del self.of_thread.entries

    def load(self) -> None:
        """Load the compiled code, or compile it, which happens once a machine."""
        data, words = np.frombuffer(bytearray(b"1\n"), np.uint8), np.frombuffer(bytearray(3 * WORD), np.uint64)
        table, entries = np.zeros((1, 4), np.int32), np.zeros((1, 2), np.uint64)
        _parse(data, words, self.separator, 1, np.zeros(1, np.int64), table, entries, np.zeros(1, np.int64))

    def _meaning(self, entries: np.ndarray, whole: bool) -> tuple[np.ndarray, pa.Array | None]:
        """Which entries are missing, and what the others are; None if they should be whole numbers and one is not."""
        absent = np.isin(entries, self.missing)
        entries = np.where(absent, np.uint64(ord("0")), entries)
        return absent, integers_of(entries) if whole else texts_of(entries, self.encoding)


def texts_of(words: np.ndarray, encoding: str) -> pa.Array:
    """The texts of up to eight bytes, the first byte lowest, that words hold."""
    texts = [text.decode(encoding) for text in words.astype("<u8").view("S8").tolist()]
    return pl.Series(texts, dtype=pl.String).to_arrow()


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


@numba.njit(nogil=True, cache=True)
def _parse(data, words, separator, fields, wanted, table, entries, known):
    """Whether the lines `data` (uint8, the same bytes as `words`) are plain, and for each row the number of its entry among
    the distinct ones, int32 [wanted, rows].

    The distinct entries are kept from call to call: `entries` as words, uint64 [wanted, buckets / 2], the first `known`
    (int64 [wanted]) of each field, and `table`, int32 [wanted, buckets], their numbers plus 1 by hash.
    """
    rows = 0
    for byte in data:
        rows += byte == NEWLINE
    indices = np.empty((len(wanted), rows), np.int32)
    if not len(data) or data[-1] != NEWLINE:
        return False, indices
    one, last = np.uint64(1), np.uint64(table.shape[1] - 1)
    # Entry f of a row begins at begins[f] and ends before begins[f + 1] - 1. More separators than fields all go to the last.
    # All places are unsigned: numba would have to test others for indices that count from the end.
    begins = np.zeros(fields + 2, np.uint64)
    at = np.uint64(0)
    most = np.uint64(fields)
    for row in range(rows):
        field = np.uint64(0)
        begins[0] = at
        byte = data[at]
        while byte != NEWLINE:
            at += one
            # No branch: the processor could not foresee it.
            begins[field + one] = at
            field = min(field + np.uint64(byte == separator), most)
            byte = data[at]
        at += one
        begins[field + one] = at
        if field + one != most:
            return False, indices
        for slot in range(len(wanted)):
            start = begins[wanted[slot]]
            size = begins[wanted[slot] + 1] - start - one
            if size > WORD:
                return False, indices
            shift = (start & np.uint64(7)) * np.uint64(8)
            word = start >> np.uint64(3)
            # Shifts in two steps, for one by 64 is undefined.
            entry = (words[word] >> shift) | ((words[word + one] << one) << (np.uint64(63) - shift))
            spare = np.uint64(8) * (np.uint64(WORD) - size)
            entry = ((entry << (spare >> np.uint64(1))) << (spare - (spare >> np.uint64(1)))) >> (spare >> np.uint64(1))
            entry = entry >> (spare - (spare >> np.uint64(1)))
            bucket = ((entry * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & last
            while True:
                number = table[slot, bucket] - 1
                if number < 0:
                    number = known[slot]
                    if number == entries.shape[1]:
                        return False, indices
                    entries[slot, number] = entry
                    known[slot] = number + 1
                    table[slot, bucket] = number + 1
                    break
                if entries[slot, number] == entry:
                    break
                bucket = (bucket + one) & last
            indices[slot, row] = number
    return True, indices
