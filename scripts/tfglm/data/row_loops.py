"""The compiled loops over rows of ingest: what NumPy does with indices of eight bytes, and one step at a time."""

import numpy as np

from tfglm.loops import compiled

LANES = 4
"""Counts that are kept apart: where the same code comes again, the processor would wait for the last one to be written."""


def looked_up(table: np.ndarray, numbers: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """table[numbers], or table[numbers[rows]], for unsigned `numbers` and `rows` of 32 bits."""
    words = table.view(f"u{table.itemsize}")  # one loop for all types of a size
    out = np.empty(len(numbers if rows is None else rows), table.dtype)
    if rows is None:
        look_up(words, numbers, out.view(words.dtype))
    else:
        look_up_some(words, numbers, rows, out.view(words.dtype))
    return out


def permuted(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """values[rows], for values of 1 to 8 bytes and `rows` of 32 bits."""
    words = values.view(f"u{values.itemsize}")
    out = np.empty(len(rows), values.dtype)
    look_up(words, rows, out.view(words.dtype))
    return out


def ascending(keys: np.ndarray) -> np.ndarray:
    """Return the rows, uint32, sorted by keys of 16 bits; rows with equal keys keep their order."""
    rows = np.empty(len(keys), np.uint32)
    sort(keys, np.zeros(2**16, np.uint32), rows)
    return rows


def counted(codes: np.ndarray) -> np.ndarray:
    """Count the occurrences of each code, int64, for codes of 8 or 16 bits."""
    lanes = np.zeros((LANES, 256**codes.itemsize), np.int64)
    count(codes, lanes)
    return np.trim_zeros(lanes.sum(0), "b")


def occurring(numbers: np.ndarray, size: int) -> np.ndarray:
    """Return the numbers below `size` that occur, in order."""
    occur = np.zeros(size, bool)
    mark(numbers, occur)
    return np.flatnonzero(occur)


@compiled
def look_up(table, numbers, out):
    """out = table[numbers], each [rows]."""
    for row in range(len(out)):
        out[row] = table[numbers[row]]


@compiled
def look_up_some(table, numbers, rows, out):
    """out = table[numbers[rows]], [rows]."""
    for row in range(len(out)):
        out[row] = table[numbers[rows[row]]]


@compiled
def sort(keys, places, rows):
    """Set `rows`, uint32, to those of `keys`, uint16, in ascending order: counting sort (Knuth, The Art of Computer Programming,
    5.2, algorithm D), eight times as fast as a sort by digits. `places`, uint32 [2^16], are 0 at the beginning."""
    for row in range(len(keys)):
        places[keys[row]] += np.uint32(1)
    before = np.uint32(0)
    for key in range(len(places)):
        here = places[key]
        places[key] = before
        before = np.uint32(before + here)
    for row in range(len(keys)):
        place = places[keys[row]]
        rows[place] = np.uint32(row)
        places[keys[row]] = np.uint32(place + np.uint32(1))


@compiled
def count(codes, lanes):
    """Add to `lanes`, int64 [LANES, codes], how often each code occurs in every LANES-th row."""
    whole = len(codes) // LANES * LANES
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[np.uint64(lane), codes[np.uint64(first + lane)]] += 1
    for row in range(whole, len(codes)):
        lanes[0, codes[row]] += 1


@compiled
def mark(numbers, occur):
    """Set `occur` at the numbers of some rows."""
    for row in range(len(numbers)):
        occur[numbers[row]] = True
