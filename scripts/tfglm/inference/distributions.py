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


STEPS, BLOCK, MOST_BLOCKS = 40.0, 256, 400
"""Minus the logarithm of the error of a contour integral by steps; its steps in a block, and the largest number of blocks."""


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
    if rank == k or k == 0 or not value > 0:
        at, freedom = np.array(value), np.array(rank)
        return chi_squared(at, freedom) if np.isinf(df) else f(at / rank, freedom, np.array(df))
    return chi_squared_sum(value, np.array([*[1.0] * (k - 1), larger, extra - larger]), df)


def wald_of_rank(b: np.ndarray, covariance: np.ndarray, rank: float) -> tuple[list[float], float]:
    """b' C^- b with the pseudoinverse of a covariance matrix C, whose `rank` need not be whole (Wood 2013). Returns both values,
    and the rank, which is at most the rank of C."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    values, along = values[::-1], vectors.T[::-1] @ b
    whole = int(np.count_nonzero(values > values[0] * np.finfo(float).eps ** 0.9))
    k = int(rank)
    share = rank - k
    if whole < (k + 1 if share else k):
        k, share, rank = whole, 0.0, float(whole)
    if k == 0:
        return [float(along[0] ** 2 / values[0])] * 2, 1.0
    if not share:
        return [float(np.sum(along[:k] ** 2 / values[:k]))] * 2, rank
    before = float(np.sum(along[: k - 1] ** 2 / values[: k - 1]))
    last = slice(k - 1, k + 1)
    beside = np.sqrt(0.5 * share * (1 - share))
    middle = np.array([[1.0, beside], [beside, share]]) / np.sqrt(np.outer(values[last], values[last]))
    both = [along[last] * np.array([sign, 1.0]) for sign in (1.0, -1.0)]
    return [before + float(each @ middle @ each) for each in both], rank


def chi_squared_sum(value: float, weights: np.ndarray, df: float = np.inf) -> Tail:
    """Of a sum of `weights` [variables] times chi-squared variables of one degree of freedom each.

    If the dispersion is estimated, this is over chi-squared with `df` degrees of freedom, divided by them.

    With the cumulant generating function K of the sum, the tail is the integral of exp(K(s) - s value) / (2 pi i s) along any
    path to the right of 0 and to the left of the branch point b = 1 / (2 largest weight) (Davies, Biometrika 60, 1973). The path
    is a parabola around b, through the real number where the integrand is least. So the logarithm of a tiny tail is exact too.

    >>> float(chi_squared_sum(11.07, np.ones(5)).probability.round(4))
    0.05
    >>> float(chi_squared_sum(6.8, np.array([2.0]), 20.0).probability.round(4)), float(f(3.4, 1.0, 20.0).probability.round(4))
    (0.0801, 0.0801)
    """
    if not value > 0:
        return Tail(np.array(1.0), np.array(0.0))
    value, weights = value / weights.max(), weights[weights > 0] / weights.max()

    def exponent(s: np.ndarray) -> np.ndarray:
        shift = -value * s if np.isinf(df) else -0.5 * df * np.log1p(2 * value / df * s)
        return -0.5 * np.log1p(-2 * weights * s[..., None]).sum(axis=-1) + shift - np.log(s)

    low, high = 0.0, 0.5
    for _ in range(200):
        middle = 0.5 * (low + high)
        slope = np.sum(weights / (1 - 2 * weights * middle)) - value / (1 + 2 * value / df * middle) - 1 / middle
        low, high = (low, middle) if slope > 0 else (middle, high)
    # The path begins at `low`. It is as wide as the branch points are distant on average, so that it passes none too closely.
    pulls = weights / (1 - 2 * weights * low)
    square = max(0.5 * len(weights) / pulls.sum(), 0.5 - low)
    size = np.sqrt(square)
    # A step is short beside the distances from the first branch point and from 0, and beside the width of the integrand.
    distance = min(size - np.sqrt(square - (0.5 - low)), np.sqrt(square + low) - size)
    width = 1 / (size * np.sqrt(2 * np.sum(pulls**2) + 1 / low**2))
    step = np.pi * min(2 * distance / STEPS, width / np.sqrt(2 * STEPS))
    height = float(exponent(np.array([low + 0j]))[0].real)
    total, last = 0.0, 1.0
    for block in range(MOST_BLOCKS):
        t = step * (BLOCK * block + np.arange(BLOCK))
        terms = (np.exp(exponent(low + 2j * size * t + t**2) - height) * 2 * (1j * size + t)).imag
        terms[0] *= 1.0 if block else 0.5
        total, last = total + float(terms.sum()), float(np.abs(terms).max())
        if last <= np.finfo(float).eps * abs(total):
            break
    logarithm = np.minimum(np.array(np.log(max(total, 0.0) * step / np.pi) + height), 0.0)
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
