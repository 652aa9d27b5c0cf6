"""The fold of each row in a cross-validation. It depends on the content alone, so it is the same on every machine."""

from collections.abc import Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from tfglm.data.shards import BLOCK_ROWS

GOLDEN, FIRST, SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""The increment of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""


def mixed(bits: np.ndarray) -> np.ndarray:
    """Mix bits, uint64: each bit of the input changes about half of the bits of the result. Takes an array, or in compiled
    loops a number."""
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return bits ^ (bits >> np.uint64(31))


def stored_name(response: str, number: int) -> str:
    """The column with the fold of a row, of so many, in rows that are collapsed; no column of the data has such a name."""
    return f"{response}.fold.{number}"


def folds_of_rows(checksums: np.ndarray, count: int, number: int) -> np.ndarray:
    """Return the fold of each of `count` rows, int32 [rows]. The fold is a hash of the place of the row in its block and of
    the content of the block. `checksums` are the checksums of the response in these blocks."""
    blocks = np.arange(count) // BLOCK_ROWS
    hashes = checksums.astype(np.uint64)[blocks] + GOLDEN * (np.arange(count, dtype=np.uint64) % np.uint64(BLOCK_ROWS))
    return (mixed(hashes) % np.uint64(number)).astype(np.int32)


def assign_folds(values: Sequence[str], number: int) -> np.ndarray:
    """Return the fold of each value of a column, int32 [values]. Values are dealt to the folds in turn, in the order of
    their hashes, so the sizes of the folds differ by at most one value."""
    hashes = [xxh3_64_intdigest(value.encode()) for value in values]
    folds = np.empty(len(hashes), np.int32)
    folds[np.argsort(np.array(hashes, np.uint64), kind="stable")] = np.arange(len(hashes)) % number
    return folds
