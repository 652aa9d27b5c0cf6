"""The compiled loops over rows of ingest: what NumPy does with indices of eight bytes, and one step at a time."""

from collections.abc import Sequence

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def looked_up(table: np.ndarray, numbers: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """table[numbers], or table[numbers[rows]], for `numbers` of 16 bits and `rows` of 32."""
    words = table.view(f"u{table.itemsize}")  # one loop for all types of a size
    out = np.empty(len(numbers if rows is None else rows), table.dtype)
    if rows is None:
        look_up(words, numbers, out.view(words.dtype))
    else:
        look_up_some(words, numbers, rows, out.view(words.dtype))
    return out


def joined(numbers: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's combination, uint16 [rows], counted as NumPy does in an array of these sizes; and those that
    occur, in order. There must be 2^16 or fewer."""
    joint = numbers[0].copy()
    for others, size in zip(numbers[1:], sizes[1:], strict=True):
        joint *= np.uint16(size % 2**16)  # a size of 2^16 has one partner, 0
        joint += others
    occur = np.zeros(int(np.prod(sizes)), bool)
    mark(joint, occur)
    return joint, np.flatnonzero(occur)


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
def mark(numbers, occur):
    """Set `occur` at the numbers of some rows."""
    for row in range(len(numbers)):
        occur[numbers[row]] = True
