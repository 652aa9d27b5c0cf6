"""The studentized range: the range of k independent normal variables, divided by the root of a chi-squared variable over
its degrees of freedom (Tukey). Its tail probabilities equal those of scipy.stats.studentized_range, which takes a second
for a few dozen values.

If the largest of the k variables is z, the range is at most q if all others are above z - q. So

    P(range > q) = k int phi(z) [Phi(z)^(k-1) - (Phi(z) - Phi(z - q))^(k-1)] dz,

and with the standard deviation s of the estimate it is P(range > q s), averaged over s. Gauss-Legendre quadrature computes
both integrals.
"""

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtri

NODES = 64
"""Points of each integral: the tails are accurate to 1e-9."""

WIDE = 9.0
"""Standard deviations beyond which a normal variable has no say."""

AT_ONCE = 256
"""Tails that are computed together."""


def tail(q: np.ndarray, k: int, df: np.ndarray) -> np.ndarray:
    """P(range > q) for values q >= 0 of the studentized range of k variables with these degrees of freedom, which may be
    infinite; NaN where one of them is."""
    q, df = np.broadcast_arrays(np.asarray(q, float), np.asarray(df, float))
    flat = np.full(q.size, np.nan)
    values, degrees = q.ravel(), df.ravel()
    known = np.flatnonzero(np.isfinite(values) & (degrees > 0))
    for first in range(0, len(known), AT_ONCE):
        some = known[first : first + AT_ONCE]
        infinite = np.isinf(degrees[some])
        flat[some[infinite]] = normal_tail(values[some[infinite]], k)
        flat[some[~infinite]] = t_tail(values[some[~infinite]], k, degrees[some[~infinite]])
    return np.minimum(flat, 1.0).reshape(q.shape)


def normal_tail(q: np.ndarray, k: int) -> np.ndarray:
    """The same with infinite degrees of freedom, of any shape."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    # The largest of k is below this with the probability exp(-WIDE^2 / 2).
    low = max(float(ndtri(np.exp(-(WIDE**2) / 2 / max(k - 1, 1)))), -WIDE)
    half = (np.maximum(WIDE, q / 2 + WIDE) - low) / 2
    z = low + half[..., None] * (nodes + 1)
    log_all = log_ndtr(z)
    with np.errstate(divide="ignore"):
        others = (k - 1) * np.log1p(-np.exp(np.minimum(log_ndtr(z - q[..., None]) - log_all, 0.0)))
    density = np.exp(-(z**2) / 2 + (k - 1) * log_all) / np.sqrt(2 * np.pi)
    return k * half * ((density * -np.expm1(others)) @ weights)


def t_tail(q: np.ndarray, k: int, df: np.ndarray) -> np.ndarray:
    """The same with finite degrees of freedom, [values]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    spread = 1 / np.sqrt(2 * df)
    low = np.maximum(1 - WIDE * spread, 0.0)
    half = (1 + (WIDE + 2) * spread * (1 + spread) - low) / 2
    s = low[:, None] + half[:, None] * (nodes + 1)
    # The density of the root of chi-squared over its degrees of freedom.
    shape = df[:, None] / 2
    log_density = np.log(2) + shape * np.log(shape) - gammaln(shape) + (df[:, None] - 1) * np.log(s) - shape * s**2
    return half * ((np.exp(log_density) * normal_tail(q[:, None] * s, k)) @ weights)


def quantile(probability: float, k: int, df: np.ndarray) -> np.ndarray:
    """The value that the range is below with this probability, for each of `df`; NaN where that is no degree of freedom."""
    df = np.asarray(df, float)
    found = np.full(df.shape, np.nan)
    known = np.unique(df[df > 0])
    if not len(known):
        return found
    # A smooth function of 1 / df: of many their values at some are enough.
    points, ends = known, [1 / known[-1], 1 / known[0]]
    if len(known) > POINTS:
        along = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)  # Chebyshev's points
        points = 1 / ((ends[0] + ends[1]) / 2 + (ends[1] - ends[0]) / 2 * along)
    low, high = np.zeros(len(points)), np.full(len(points), 1e4)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = tail(middle, k, points) > 1 - probability
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    if len(known) > POINTS:
        high = np.polynomial.Chebyshev.fit(1 / points, high, POINTS - 1, domain=ends)(1 / known)
    found[df > 0] = high[np.searchsorted(known, df[df > 0])]
    return found


POINTS, BISECTIONS = 16, 48
