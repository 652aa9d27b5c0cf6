"""Sums of rows by their score, in memory that does not grow with the rows: what curves, AUC and calibration are made of."""

from collections.abc import Sequence

import numpy as np

BINS = 2**20
"""Up to so many different scores are told apart."""

DIGITS = 10
"""Decimals that scores are rounded to: rows of equal covariates are ties, whatever the order in which their terms were added."""


def edges(sample: np.ndarray, bins: int = BINS) -> np.ndarray:
    """The upper ends of all bins but the last: a bin for each score of the sample, or if there are more, equal shares of it."""
    ordered = np.sort(np.round(sample, DIGITS))
    distinct = np.unique(ordered)
    if len(distinct) > bins:
        # The quantiles `inverted_cdf`; for so many of them np.quantile took minutes.
        distinct = np.unique(ordered[-(-np.arange(1, bins + 1) * len(ordered) // bins) - 1])
    return distinct[:-1]


class Histogram:
    """Sums of several quantities by bin, [bins, quantities], and the least and largest score in each bin."""

    def __init__(self, upper: np.ndarray, quantities: int):
        self.upper = upper
        self.sums = np.zeros((len(upper) + 1, quantities))
        self.least, self.largest = np.full(len(self.sums), np.inf), np.full(len(self.sums), -np.inf)

    def add(self, score: np.ndarray, quantities: Sequence[np.ndarray]) -> None:
        """Some rows: their scores and quantities, [rows] each."""
        rounded = np.round(score, DIGITS)
        where = np.searchsorted(self.upper, rounded)
        for column, quantity in enumerate(quantities):
            self.sums[:, column] += np.bincount(where, quantity, len(self.sums))
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
