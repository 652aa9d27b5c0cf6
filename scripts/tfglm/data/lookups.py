"""Rows by number: by NumPy, or by compiled loops where these are loaded, as for large files. Both give the same.

NumPy does it with indices of eight bytes, one step at a time, and counts holding the lock that other threads wait for.
"""

from collections.abc import Sequence
from types import ModuleType

import numpy as np

_loops: ModuleType | None = None


def load() -> None:
    """Have compiled loops used from now on. Loading them takes a second, or longer the first time on a machine."""
    global _loops
    from tfglm.data import row_loops

    _loops = row_loops


def looked_up(table: np.ndarray, numbers: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """table[numbers], or table[numbers[rows]], for small unsigned numbers; `rows` are of 32 bits."""
    if _loops and table.dtype.kind != "V":
        found = np.empty(len(numbers if rows is None else rows), table.dtype)
        words, out = (
            values.view(f"u{table.itemsize}") for values in (table, found)
        )  # one loop for all types of a size
        if rows is None:
            _loops.look_up(words, numbers, out)
        else:
            _loops.look_up_some(words, numbers, rows, out)
        return found
    if table.dtype == numbers.dtype == np.uint8 and len(table):
        # Four times as fast as take, which needs indices of 8 bytes.
        found = np.frombuffer(numbers.tobytes().translate(table.tobytes().ljust(256, b"\0")), np.uint8)
    else:
        found = table.take(numbers)
    return found if rows is None else found.take(rows)


def ascending(keys: np.ndarray) -> np.ndarray:
    """Return the rows, uint32, sorted by keys of 16 bits; rows with equal keys keep their order."""
    if not _loops:
        return keys.argsort(kind="stable").astype(np.uint32)
    rows = np.empty(len(keys), np.uint32)
    _loops.sort(keys, np.zeros(2**16, np.uint32), rows)
    return rows


def joined(numbers: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's combination, uint16 [rows], counted as NumPy does in an array of these sizes; and those that
    occur, in order. There must be 2^16 or fewer, and `numbers` are uint16."""
    joint = numbers[0].copy()
    for others, size in zip(numbers[1:], sizes[1:], strict=True):
        joint *= np.uint16(size % 2**16)  # beside 2^16 there is but the number 0
        joint += others
    occur = np.zeros(int(np.prod(sizes)), bool)
    if _loops:
        _loops.mark(joint, occur)
    else:
        occur[joint] = True
    return joint, np.flatnonzero(occur)


def counted(codes: np.ndarray) -> np.ndarray:
    """Count the occurrences of some small unsigned codes, int64."""
    if not len(codes):
        return np.zeros(0, np.int64)
    if len(codes) < 2**16:
        return np.bincount(codes)
    if _loops and codes.itemsize <= 2:
        lanes = np.zeros((_loops.LANES, 256**codes.itemsize), np.int64)
        _loops.count(codes, lanes)
        return np.trim_zeros(lanes.sum(0), "b")
    if codes.dtype != np.uint8:
        return np.bincount(codes)
    # Two at a time takes half as long.
    pairs = np.bincount(codes[: len(codes) // 2 * 2].view(np.uint16), minlength=2**16).reshape(256, 256)
    rows = pairs.sum(0) + pairs.sum(1)
    rows[codes[-1]] += len(codes) % 2
    return np.trim_zeros(rows, "b")
