"""Upper tails of the distributions that tests refer to.

They are those of scipy.stats to the last digit, whose import takes longer than most result jobs: it has a hundred more.
Without positive degrees of freedom they are NaN.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy.special import chdtr, chdtrc, fdtr, fdtrc, fdtri, gammaincinv, gammaln, log_ndtr, logsumexp, stdtr, stdtrit


class Tail(NamedTuple):
    """The probability of more than a value, and its logarithm, -inf where the probability is too small for a float64."""

    probability: np.ndarray
    logarithm: np.ndarray


def t_quantile(probability: float, df: np.ndarray) -> np.ndarray:
    """The value that a variable with Student's t distribution is below with this probability."""
    return stdtrit(_positive(df), probability)


def t(value: np.ndarray, df: np.ndarray) -> Tail:
    """Tail probabilities of Student's t distribution beyond values that are not negative."""
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


NODES = 100
"""Nodes of Gauss and Legendre for the tails of sums of chi-squared variables."""


def chi_squared_of_rank(value: float, rank: float, df: float = np.inf) -> Tail:
    """Of the test statistic of a smooth term, whose rank k + nu need not be whole (Wood, Biometrika 100, 2013).

    It is distributed like chi-squared with k - 1 degrees of freedom, plus a u + b v with chi-squared u and v of one degree each
    and a + b = a^2 + b^2 = 1 + nu. If the dispersion is estimated, this is over chi-squared with `df` degrees of freedom, divided
    by them. With a whole rank it is chi-squared, or F.

    >>> float(chi_squared_of_rank(11.07, 5.0).probability.round(4)), float(chi_squared_of_rank(11.07, 4.7).probability.round(4))
    (0.05, 0.0418)
    """
    k = int(rank)
    extra = 1.0 + rank - k
    larger = (extra + np.sqrt(extra * (2 - extra))) / 2
    at, freedom = np.array(value), np.array(rank)
    plain = chi_squared(at, freedom) if np.isinf(df) else f(at / rank, freedom, np.array(df))
    if rank == k or k == 0 or not value > 0 or plain.probability < SMALLEST:
        return plain
    if np.isinf(df):
        return _tail_of_log(_log_beyond(np.array([value]), k, larger, extra - larger)[0])
    # The mean of the tail over the estimate of the dispersion, which makes the middle of the integrand smaller.
    middle, reach = np.log(1 / (1 + value / df / larger)), min(12 * np.sqrt(2 / df), 30.0)
    points, weights = legendre.leggauss(NODES)
    log_ratio = middle + reach * points
    density = 0.5 * df * (np.log(df / 2) + log_ratio - np.exp(log_ratio)) - gammaln(df / 2)
    beyond = _log_beyond(value * np.exp(log_ratio), k, larger, extra - larger)
    return _tail_of_log(logsumexp(density + beyond, b=reach * weights))


SMALLEST = 1e-280
"""Below it a tail is that of chi-squared or F with the rank for its degrees of freedom."""


def _log_beyond(values: np.ndarray, k: int, larger: float, smaller: float) -> np.ndarray:
    """The logarithms of the probabilities of more than positive values [values], of chi-squared with k - 1 degrees of freedom,
    plus `larger` u + `smaller` v.

    The first two are a mixture of chi-squared variables (Ruben, Annals of Mathematical Statistics 33, 1962); v is a square, over
    whose root the tail is integrated.
    """
    terms = np.arange(25)
    # (1 - r s)^(-1/2) has these coefficients, and r is at most 0.18.
    mixture = (
        np.exp(gammaln(terms + 0.5) - gammaln(0.5) - gammaln(terms + 1.0)) * (1 - 1 / larger) ** terms / larger**0.5
    )
    points, weights = legendre.leggauss(NODES)
    ends = np.minimum(np.sqrt(values / smaller), 40.0)
    roots = 0.5 * ends[:, None] * (points + 1)
    left = np.maximum(values[:, None] - smaller * roots**2, 0.0)
    inside = chdtrc(k + 2.0 * terms, left[:, :, None]) @ mixture
    density = np.exp(-0.5 * roots**2) * np.sqrt(2 / np.pi)
    beyond = np.sum(0.5 * ends[:, None] * weights * density * inside, axis=1) + 2 * np.exp(log_ndtr(-ends))
    with np.errstate(divide="ignore"):
        return np.log(beyond)


def _tail_of_log(logarithm: np.ndarray) -> Tail:
    logarithm = np.minimum(logarithm, 0.0)
    return Tail(np.exp(logarithm), logarithm)


def log_normal_tail(value: np.ndarray) -> np.ndarray:
    """The logarithm of the probability of more than `value`, of the standard normal distribution."""
    return log_ndtr(-np.asarray(value, float))


def _tail(value: np.ndarray, median: np.ndarray, below: np.ndarray, beyond: np.ndarray) -> Tail:
    """Compute p-values from the probabilities of smaller and of larger values; the logarithm is that of the smaller
    probability, which has more digits."""
    with np.errstate(divide="ignore"):
        return Tail(beyond, np.where(value > median, np.log(beyond), np.log1p(-below)))


def _positive(df: np.ndarray) -> np.ndarray:
    df = np.asarray(df, float)
    return np.where(df > 0, df, np.nan)
