"""The folds of a cross-validation: by content alone, so that they are the same for any number of workers and on every machine."""

from collections.abc import Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from tfglm.data.shards import BLOCK_ROWS
from tfglm.design.factors import Folds

GOLDEN, FIRST, SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""


def dealt(values: Sequence[str], number: int) -> np.ndarray:
    """The fold of each value of a column: in the order of their hashes they are dealt to the folds in turn, so that these have as
    many values each, but for one. int32 [values]."""
    hashes = [xxh3_64_intdigest(value.encode()) for value in values]
    folds = np.empty(len(hashes), np.int32)
    folds[np.argsort(np.array(hashes, np.uint64), kind="stable")] = np.arange(len(hashes)) % number
    return folds


def of_rows(checksums: np.ndarray, count: int, number: int) -> np.ndarray:
    """The fold of each of `count` rows of blocks with these checksums, of the response: of the hash of the place of a row in its
    block, and of what the block holds. int32 [rows]."""
    blocks = np.arange(count) // BLOCK_ROWS
    hashes = checksums.astype(np.uint64)[blocks] + GOLDEN * (np.arange(count, dtype=np.uint64) % np.uint64(BLOCK_ROWS))
    hashes = (hashes ^ (hashes >> np.uint64(30))) * FIRST
    hashes = (hashes ^ (hashes >> np.uint64(27))) * SECOND
    return ((hashes ^ (hashes >> np.uint64(31))) % np.uint64(number)).astype(np.int32)


def left_out(folds: Folds, of_rows: np.ndarray) -> np.ndarray:
    """Which rows take no part, given the fold of each: those of the fold that is held out, or all others."""
    return (of_rows == folds.fold) != folds.held
