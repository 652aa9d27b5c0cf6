"""Serially correlated errors: the Bartlett weights of Newey and West, and the degrees of freedom of their variance.

The scores h_t of T dates have the long-run variance

    S = sum over |l| <= L of k_l sum over t of h_t h_(t-l)',   k_l = 1 - |l| / (L + 1)

(Newey & West, Econometrica 55, 1987; Driscoll & Kraay, Review of Economics and Statistics 80, 1998, with h_t summed over the
rows of a date). S is also the sum of w w' over all windows of L + 1 consecutive dates. Windows may begin before the first date
and end after the last. w is the sum of the scores in a window, divided by the root of L + 1.

If L is a large share of T, S varies and is too small, and t is not normal (Kiefer & Vogelsang, Econometric Theory 21, 2005). If
the h_t are independent, the expectation of S is 1 - b times the true variance, because the h_t sum to 0. The relative variance
of S is 2 c / T. Here

    b = (1 / T) sum over |l| <= L of k_l (1 - |l| / T),   c = sum over |l| <= L of k_l^2 = (2 (L + 1)^2 + 1) / (3 (L + 1)).

So the covariance is divided by 1 - b, and t has T / c degrees of freedom. The critical values (5 %, two-sided) come near those
that Kiefer and Vogelsang simulated. For L + 1 = T / 10 it is 2.24 and theirs is 2.26; for T / 5 it is 2.59 and theirs is 2.57.

Dates can differ in their information about a coefficient. For example, only the dates of a month inform its coefficient. So
the variance of S is estimated. Let z_t be the contributions of the dates to an error, independent and normal with variances
v_t. Then the variance of S is 2 sum of v_t^2 + 4 sum over l of k_l^2 sum of v_t v_(t-l). The estimate of v_t^2 is z_t^4 / 3, and
the estimates of the other products are z_t^2 z_(t-l)^2.
"""

import math

import numpy as np


def windows(by_date: np.ndarray, lags: int) -> np.ndarray:
    """The window sums w, [rows, dates + lags], of the contributions of each date, [rows, dates].

    >>> windows(np.array([[4.0, 0.0, 0.0]]), lags=3).tolist()
    [[2.0, 2.0, 2.0, 2.0, 0.0, 0.0]]
    """
    if not lags:
        return by_date
    width = lags + 1
    padded = np.pad(by_date, ((0, 0), (width, lags)))
    return (np.cumsum(padded, axis=1)[:, width:] - np.cumsum(padded, axis=1)[:, :-width]) / math.sqrt(width)


def dates_alike(lags: int) -> float:
    """c: the number of dates that carry the information of an independent date.

    >>> dates_alike(0), dates_alike(9)
    (1.0, 6.7)
    """
    width = lags + 1
    return (2 * width**2 + 1) / (3 * width)


def degrees_of_freedom(squares: np.ndarray, lags: int, kurtosis: float = 3.0) -> np.ndarray:
    """The degrees of freedom of the variance of errors, [rows], from the squared contributions of each date, [rows, dates].

    It is 2 S^2 / (variance of S), at most (dates - 1) / c. Without lags it is (sum v)^2 / sum v^2: the number of dates (or
    clusters) with equal variances that carry the same information (Carter, Schnepel & Steigerwald, Review of Economics and
    Statistics 99, 2017). `kurtosis` is E z^4 / v^2: 3 for normal contributions z, and 1 if the `squares` are the variances v.

    Ten clusters with equal contributions have 9 degrees of freedom. A single contributing cluster gives 3:

    >>> degrees_of_freedom(np.array([[1.0] * 10, [1.0] + [0.0] * 9]), lags=0).round(6).tolist()
    [9.0, 3.0]
    """
    variance = (squares**2).sum(1) / kurtosis
    for apart, weight in weights_of(lags):
        variance += 2 * weight**2 * np.einsum("it,it->i", squares[:, apart:], squares[:, :-apart])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.minimum(squares.sum(1) ** 2 / variance, (squares.shape[1] - 1) / dates_alike(lags))


def wishart_degrees(by_date: np.ndarray, lags: int) -> float:
    """The same for a matrix, from `by_date` [q, dates] with orthonormal rows. It is q (q + 1) divided by the sum of the
    variances of the entries of S, at most (dates - 1) / c. Without lags it is q (q + 1) / sum |z_t|^4."""
    q, sizes = len(by_date), np.sum(by_date**2, axis=0)
    variance = float(np.sum(sizes**2))
    for apart, weight in weights_of(lags):
        along = np.einsum("it,it->t", by_date[:, apart:], by_date[:, :-apart])
        variance += 2 * weight**2 * float(sizes[apart:] @ sizes[:-apart] + along @ along)
    return min(q * (q + 1) / variance, (by_date.shape[1] - 1) / dates_alike(lags))


def weights_of(lags: int) -> list[tuple[int, float]]:
    """Each l above 0 with its k_l.

    >>> weights_of(3)
    [(1, 0.75), (2, 0.5), (3, 0.25)]
    """
    return [(apart, 1 - apart / (lags + 1)) for apart in range(1, lags + 1)]


def share_seen(dates: int, lags: int) -> float:
    """1 - b: the share of the variance that S has in expectation.

    >>> round(share_seen(dates=100, lags=9), 3)
    0.903
    """
    apart = np.arange(-lags, lags + 1)
    weights = 1 - np.abs(apart) / (lags + 1)
    return 1 - float(weights @ (1 - np.abs(apart) / dates)) / dates


def default_lags(dates: int) -> int:
    """The default number of lags: 1.3 times the root of the number of dates.

    With it, 5 % tests of moderately correlated series come closest to their level (Lazarus, Lewis, Stock & Watson, Journal of
    Business & Economic Statistics 36, 2018).

    >>> default_lags(3), default_lags(100), default_lags(365)
    (1, 13, 24)
    """
    return min(math.floor(1.3 * math.sqrt(dates)), max(dates - 2, 0))
