"""The fold of a row by itself in a cross-validation: by content alone, so that it is the same on every machine."""

import numpy as np

from tfglm.data.shards import BLOCK_ROWS

GOLDEN, FIRST, SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""


def mixed(bits: np.ndarray) -> np.ndarray:
    """Bits, uint64, of which each one changes about half of the result's: an array, or in compiled loops a number."""
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return bits ^ (bits >> np.uint64(31))


def stored_name(response: str, number: int) -> str:
    """The column with the fold of a row, of so many, in rows that are collapsed; no column of the data has such a name."""
    return f"{response}.fold.{number}"


def of_rows(checksums: np.ndarray, count: int, number: int) -> np.ndarray:
    """The fold of each of `count` rows of blocks with these checksums, of the response: of the hash of the place of a row in its
    block, and of what the block holds. int32 [rows]."""
    blocks = np.arange(count) // BLOCK_ROWS
    hashes = checksums.astype(np.uint64)[blocks] + GOLDEN * (np.arange(count, dtype=np.uint64) % np.uint64(BLOCK_ROWS))
    return (mixed(hashes) % np.uint64(number)).astype(np.int32)
