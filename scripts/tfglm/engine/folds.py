"""The folds of a cross-validation: by content alone, so that they are the same for any number of workers and on every machine."""

from collections.abc import Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from tfglm.design.factors import Folds


def assign_folds(values: Sequence[str], number: int) -> np.ndarray:
    """Return the fold of each value of a column, int32 [values]. Values are dealt to the folds in turn, in the order of
    their hashes, so the sizes of the folds differ by at most one value."""
    hashes = [xxh3_64_intdigest(value.encode()) for value in values]
    folds = np.empty(len(hashes), np.int32)
    folds[np.argsort(np.array(hashes, np.uint64), kind="stable")] = np.arange(len(hashes)) % number
    return folds


def left_out(folds: Folds, of_rows: np.ndarray) -> np.ndarray:
    """Return which rows take no part, given the fold of each: the rows of the fold that is held out, or all others."""
    return (of_rows == folds.fold) != folds.held
