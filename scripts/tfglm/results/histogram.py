"""Sums of rows by their score, in memory that does not grow with the rows. Curves, AUC and calibration are computed from
them."""

import math
from collections.abc import Sequence

import numpy as np

from tfglm.loops import compiled

BINS = 2**20
"""Most different scores that are kept apart."""

DIGITS = 10
"""Decimals that scores are rounded to, so that rows with equal covariates are ties whatever the order in which their terms
were added."""


def digits_of(sample: np.ndarray) -> int:
    """Round numbers in any unit to as many digits as DIGITS decimals of numbers near 1."""
    largest = float(np.abs(sample).max(initial=0.0))
    return min(DIGITS - min(0, math.floor(math.log10(largest))), 300) if largest else DIGITS


def edges(sample: np.ndarray, bins: int = BINS, digits: int = DIGITS) -> np.ndarray:
    """The upper ends of all bins but the last: a bin for each score of the sample, or if there are more, equal shares of it."""
    ordered = np.sort(np.round(sample, digits))
    distinct = without_repeats(ordered)
    if len(distinct) > bins:
        # The quantiles `inverted_cdf`; for so many of them np.quantile took minutes.
        distinct = without_repeats(ordered[-(-np.arange(1, bins + 1) * len(ordered) // bins) - 1])
    return distinct[:-1]


def without_repeats(ordered: np.ndarray) -> np.ndarray:
    """Return the distinct values of sorted numbers; np.unique, which sorts them itself, takes ten times as long."""
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


class Search:
    """Return np.searchsorted(upper, scores) for many scores. Parts of equal width narrow the search to a few entries of
    `upper` (Chen & Asau, AIIE Transactions 6, 1974). A search among a million entries misses the caches at nearly each step."""

    def __init__(self, upper: np.ndarray):
        self._upper = upper
        with np.errstate(all="ignore"):  # if entries are all equal or not finite, there are no parts
            self._parts_a_unit = len(upper) / (upper[-1] - upper[0]) if len(upper) else 0.0
        if self.has_parts:
            parts = ((upper - upper[0]) * self._parts_a_unit).astype(np.int64)
            self._first = np.searchsorted(parts, np.arange(parts[-1] + 2)).astype(np.int32)

    @property
    def has_parts(self) -> bool:
        return bool(0 < self._parts_a_unit < np.inf)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        if not self.has_parts:
            return np.searchsorted(self._upper, scores)
        places = np.empty(len(scores), np.int64)
        search(self._upper, self._first, self._parts_a_unit, scores, places)
        return places


@compiled
def search(upper: np.ndarray, first: np.ndarray, parts_a_unit: float, scores: np.ndarray, places: np.ndarray) -> None:
    """Set `places` [rows] to the first entries of `upper` that are no less than the scores; those of part k begin at first[k]."""
    for i in range(len(scores)):
        score = scores[i]
        if score <= upper[0]:
            places[i] = 0
        elif score <= upper[-1]:
            part = np.int64((score - upper[0]) * parts_a_unit)
            low, high = first[part], first[part + 1]
            while low < high:
                middle = (low + high) // 2
                if upper[middle] < score:
                    low = middle + 1
                else:
                    high = middle
            places[i] = low
        else:
            places[i] = len(upper)


@compiled
def add(where: np.ndarray, quantity: np.ndarray, of_some: np.ndarray, sums: np.ndarray) -> None:
    """Add a quantity of some rows [rows] to the `sums` [bins] of the bins `where` [rows] they are: first up in `of_some` [bins],
    which is 0 before and after. The bits are those of np.bincount, which goes through all bins, however few the rows."""
    for i in range(len(where)):
        of_some[where[i]] += quantity[i]
    for i in range(len(where)):
        sums[where[i]] += of_some[where[i]]
        of_some[where[i]] = 0.0


class Histogram:
    """Sums of several quantities by bin, [bins, quantities], and the least and largest score in each bin."""

    def __init__(self, upper: np.ndarray, quantities: int, digits: int = DIGITS):
        self._digits = digits
        self._search = Search(upper)
        self.sums = np.zeros((len(upper) + 1, quantities))
        self._of_some = np.zeros(len(self.sums))
        self.least, self.largest = np.full(len(self.sums), np.inf), np.full(len(self.sums), -np.inf)

    def add(self, score: np.ndarray, quantities: Sequence[np.ndarray]) -> None:
        """Add some rows: their scores and quantities, [rows] each."""
        rounded = np.round(score, self._digits)
        where = self._search(rounded)
        for column, quantity in enumerate(quantities):
            add(where, np.asarray(quantity, float), self._of_some, self.sums[:, column])
        np.minimum.at(self.least, where, rounded)
        np.maximum.at(self.largest, where, rounded)

    @property
    def mixed(self) -> np.ndarray:
        """The bins with more than one score."""
        return self.least < self.largest

    @property
    def score(self) -> np.ndarray:
        """The middle of the scores in each bin; NaN in an empty one."""
        return np.where(
            np.isfinite(self.least), (self.least + np.where(np.isfinite(self.least), self.largest, 0)) / 2, np.nan
        )

    def shares(self, by: np.ndarray, parts: int) -> np.ndarray:
        """The sums of equal shares of the quantity `by` [bins], the lowest scores first, [parts, quantities]; a bin across the
        border of two is divided."""
        ends = np.concatenate([[0.0], np.cumsum(by)])
        totals = np.vstack([np.zeros(self.sums.shape[1]), np.cumsum(self.sums, axis=0)])
        borders = ends[-1] * np.arange(parts + 1) / parts
        at = np.stack([np.interp(borders, ends, total) for total in totals.T], axis=1)
        return np.diff(at, axis=0)
