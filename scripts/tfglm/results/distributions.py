"""Upper tails of the distributions that tests refer to.

They are those of scipy.stats to the last digit, whose import takes longer than most result jobs: it has a hundred more.
Without positive degrees of freedom they are NaN.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc, fdtr, fdtrc, fdtri, gammaincinv, log_ndtr, stdtr, stdtrit


class Tail(NamedTuple):
    """The probability of more than a value, and its logarithm, -inf where the probability is too small for a float64."""

    probability: np.ndarray
    logarithm: np.ndarray


def t_quantile(probability: float, df: np.ndarray) -> np.ndarray:
    """The value that a variable with Student's t distribution is below with this probability."""
    return stdtrit(_positive(df), probability)


def t(value: np.ndarray, df: np.ndarray) -> Tail:
    """Of Student's t distribution, beyond values that are not negative."""
    tail = stdtr(_positive(df), -np.asarray(value, float))
    with np.errstate(divide="ignore"):
        return Tail(tail, np.log(tail))


def f(value: np.ndarray, numerator_df: np.ndarray, denominator_df: np.ndarray) -> Tail:
    """Of the F distribution."""
    df = _positive(numerator_df), _positive(denominator_df)
    return _tail(value, fdtri(*df, 0.5), fdtr(*df, value), fdtrc(*df, value))


def chi_squared(value: np.ndarray, df: np.ndarray) -> Tail:
    """Of the chi-squared distribution."""
    df = _positive(df)
    return _tail(value, 2 * gammaincinv(df / 2, 0.5), chdtr(df, value), chdtrc(df, value))


def log_normal_tail(value: np.ndarray) -> np.ndarray:
    """The logarithm of the probability of more than `value`, of the standard normal distribution."""
    return log_ndtr(-np.asarray(value, float))


def _tail(value: np.ndarray, median: np.ndarray, below: np.ndarray, beyond: np.ndarray) -> Tail:
    """From the probabilities of less and of more; the logarithm is that of the smaller one, which has more digits."""
    with np.errstate(divide="ignore"):
        return Tail(beyond, np.where(value > median, np.log(beyond), np.log1p(-below)))


def _positive(df: np.ndarray) -> np.ndarray:
    df = np.asarray(df, float)
    return np.where(df > 0, df, np.nan)
