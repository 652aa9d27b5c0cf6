"""Errors that are alike at dates close to each other: the Bartlett weights of Newey and West, and how far they can be believed.

The scores h_t of T dates have the long-run variance

    S = sum over |l| <= L of k_l sum over t of h_t h_(t-l)',   k_l = 1 - |l| / (L + 1)

(Newey & West, Econometrica 55, 1987; with h_t the sum over the rows of a date, Driscoll & Kraay, Review of Economics and
Statistics 80, 1998). It is the sum of w w' over all windows of L + 1 dates in a row, which may begin before the first and end
after the last, w the sum of the scores in a window over the root of L + 1.

Where L is no small share of T, S varies and is too small, and t is not normal (Kiefer & Vogelsang, Econometric Theory 21, 2005).
If the h_t are independent, S has the expectation 1 - b of the true one, since they add up to 0, and the relative variance
2 c / T:

    b = (1 / T) sum over |l| <= L of k_l (1 - |l| / T),   c = sum over |l| <= L of k_l^2 = (2 (L + 1)^2 + 1) / (3 (L + 1)).

So the covariance is divided by 1 - b, and t has T / c degrees of freedom. This comes near the critical values that Kiefer and
Vogelsang simulated: for L + 1 = T / 10 it gives 2.24 for their 2.26, for T / 5 2.59 for 2.57 (5 %, two-sided).

Where dates differ in what they tell, as those of one month do of its coefficient, the variance of S is estimated: with the z_t
that dates add to an error, independent and normal with variances v_t of their own, it is 2 sum of v_t^2 + 4 sum over l of k_l^2
sum of v_t v_(t-l), where z_t^4 / 3 estimates v_t^2 and z_t^2 z_(t-l)^2 the other products.
"""

import math

import numpy as np


def windows(by_date: np.ndarray, lags: int) -> np.ndarray:
    """The w of what each date adds, [rows, dates], as [rows, dates + lags]."""
    if not lags:
        return by_date
    width = lags + 1
    padded = np.pad(by_date, ((0, 0), (width, lags)))
    return (np.cumsum(padded, axis=1)[:, width:] - np.cumsum(padded, axis=1)[:, :-width]) / math.sqrt(width)


def dates_alike(lags: int) -> float:
    """c: so many dates tell as much as an independent one."""
    width = lags + 1
    return (2 * width**2 + 1) / (3 * width)


def degrees_of_freedom(by_date: np.ndarray, lags: int) -> np.ndarray:
    """Of the variance of errors, [rows], by what each date adds to them, [rows, dates]: 2 S^2 over the variance of S, and no more
    than (dates - 1) / c. Without lags (sum v)^2 / sum v^2, as many dates (or clusters) of one variance would tell as much
    (Carter, Schnepel & Steigerwald, Review of Economics and Statistics 99, 2017)."""
    squares = by_date**2
    variance = (squares**2).sum(1) / 3
    for apart, weight in weights_of(lags):
        variance += 2 * weight**2 * np.einsum("it,it->i", squares[:, apart:], squares[:, :-apart])
    with np.errstate(invalid="ignore"):
        return np.minimum(squares.sum(1) ** 2 / variance, (by_date.shape[1] - 1) / dates_alike(lags))


def wishart_degrees(by_date: np.ndarray, lags: int) -> float:
    """The same of a matrix: q (q + 1) over the variances of the entries of the S of `by_date` [q, dates], whose rows are
    orthonormal. Without lags q (q + 1) / sum |z_t|^4."""
    q, sizes = len(by_date), np.sum(by_date**2, axis=0)
    variance = float(np.sum(sizes**2))
    for apart, weight in weights_of(lags):
        along = np.einsum("it,it->t", by_date[:, apart:], by_date[:, :-apart])
        variance += 2 * weight**2 * float(sizes[apart:] @ sizes[:-apart] + along @ along)
    return min(q * (q + 1) / variance, (by_date.shape[1] - 1) / dates_alike(lags))


def weights_of(lags: int) -> list[tuple[int, float]]:
    """Each l above 0 with its k_l."""
    return [(apart, 1 - apart / (lags + 1)) for apart in range(1, lags + 1)]


def share_seen(dates: int, lags: int) -> float:
    """1 - b."""
    apart = np.arange(-lags, lags + 1)
    weights = 1 - np.abs(apart) / (lags + 1)
    return 1 - float(weights @ (1 - np.abs(apart) / dates)) / dates


def default_lags(dates: int) -> int:
    """1.3 times the root of the number of dates, at which 5 % tests of moderately correlated series come closest to their level
    (Lazarus, Lewis, Stock & Watson, Journal of Business & Economic Statistics 36, 2018)."""
    return min(math.floor(1.3 * math.sqrt(dates)), max(dates - 2, 0))
