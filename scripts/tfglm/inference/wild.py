"""P-values and intervals from few clusters: the restricted wild cluster bootstrap on scores.

CR2 with t needs some degrees of freedom. With fewer, this bootstrap keeps its level (docs/statistics.md: Tests). It draws
the sign of each cluster's score again and again, under the hypothesis (Cameron, Gelbach and Miller, Review of Economics and
Statistics 90, 2008; on scores, Kline and Santos, Journal of Econometric Methods 1, 2012). For linear regression it is WCR of
`boottest` (Roodman, MacKinnon, Nielsen and Webb, Stata Journal 19, 2019). For other families it linearises the score at the
estimates.

Notation: K_g are the information matrices of the clusters, s_g the scores at the estimates, M = (sum K_g)^-1, c is a contrast,
q = c'Mc, and r is the estimate of c'b less its value under the hypothesis.

- The scores under the hypothesis are s_g + K_g M c r / q.
- a_g = c'M (s_g + K_g M c r / q) is the part of cluster g in an estimate, and b_gh = c'M K_g M (s_h + K_h M c r / q).
- With signs v, the statistic of a draw is |sum v_g a_g| / (sum_g (v_g a_g - sum_h v_h b_gh)^2)^1/2. The observed statistic is
  |r| / (sum_g (c'M s_g)^2)^1/2.

Both a and b are linear in r, so the squared statistics of all draws are ratios of quadratic polynomials in r. An interval
contains the values that a test does not reject.
"""

from dataclasses import dataclass

import numpy as np

from tfglm.inference.bread import Bread

FEWEST_CLUSTERS = 6
"""With 5 clusters the smallest p-value is 1 / 16."""

MOST_CLUSTERS = 50
"""With more clusters and few degrees of freedom, few clusters differ from many others, and the bootstrap rejects too rarely."""

ALL_SIGNS = 13
"""Up to so many clusters, all their signs are used. No p-value then depends on chance."""

DRAWS = 9_999

SEED = 12

MOST_DOUBLINGS = 20
"""An interval that reaches further than 2^20 standard errors is infinite."""

PRECISE = 1e-9
"""The width at which the search for a limit ends, in standard errors."""

TIES = 1e-6
"""Statistics are equal if they differ by less than this share. A fit ends up to 1e-6 standard errors from its maximum."""


@dataclass(frozen=True)
class WildBootstrap:
    """The draws for a contrast, the observed one first: numerators n_0 + n_1 r and squared denominators d_0 + d_1 r + d_2
    r^2. `numerators` [2, draws] are n_0 and n_1, `denominators` [3, draws] are d_0, d_1 and d_2. `std_error` is that of CR0."""

    numerators: np.ndarray
    denominators: np.ndarray
    std_error: float

    def p_value(self, distance: float) -> float:
        """The p-value of the hypothesis that the contrast is its estimate less `distance`."""
        powers = np.array([1.0, distance, distance**2])
        squares = (powers[:2] @ self.numerators) ** 2
        observed = (distance / self.std_error) ** 2
        is_reached = squares >= observed * (1 - TIES) * (powers @ self.denominators)
        is_reached[0] = True  # the observed signs
        return float(np.mean(is_reached))

    def reach(self, level: float) -> tuple[float, float]:
        """How far the values with a p-value above `level` reach below and above the estimate; infinite if without end."""
        return self._limit(self.std_error, level), self._limit(-self.std_error, level)

    def _limit(self, step: float, level: float) -> float:
        inside, outside = 0.0, step
        for _ in range(MOST_DOUBLINGS):
            if self.p_value(outside) <= level:
                break
            inside, outside = outside, 2 * outside
        else:
            return np.inf
        while abs(outside - inside) > PRECISE * self.std_error:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self.p_value(middle) > level else (inside, middle)
        return abs(inside)


def signs_of(clusters: int) -> np.ndarray:
    """The signs of the clusters in each draw, [draws, clusters]. The first draw is the observed one. If all signs are used, the
    first sign is always positive, because a draw and its opposite have the same statistic.

    >>> signs_of(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    """
    if clusters <= ALL_SIGNS:
        numbers = np.arange(2 ** (clusters - 1))
        return 1.0 - 2.0 * (numbers[:, None] >> np.arange(clusters)[::-1] & 1)
    drawn = np.random.default_rng(SEED).choice([1.0, -1.0], (DRAWS, clusters))
    return np.vstack([np.ones(clusters), drawn])


def wild_bootstrap(
    bread: Bread, information: np.ndarray, scores: np.ndarray, contrasts: np.ndarray, places: np.ndarray
) -> dict[int, WildBootstrap]:
    """Return the draws for the contrasts [contrasts, free] at some places, by their place, from M, the K_g [clusters, free, free]
    and the sums of the derivatives of the loss by cluster [clusters, free], which are the scores with the opposite sign."""
    if not len(places):
        return {}
    scores = -scores
    signs, result = signs_of(len(scores)), {}

    def solved(rows: np.ndarray) -> np.ndarray:
        """Rows [rows, free] times M."""
        return np.hstack(bread.solved(*np.split(rows, [len(bread.dense)], axis=1)))

    for place, contrast in zip(places.tolist(), contrasts[places], strict=True):
        on = solved(contrast[None])[0]  # M c
        moved = information @ on  # K_g M c
        within = solved(moved)  # c'M K_g M
        moved /= contrast @ on
        own = np.stack([scores @ on, moved @ on])
        others = np.stack([within @ scores.T, within @ moved.T])
        parts = signs * own[:, None] - signs @ others.transpose(0, 2, 1)
        products = [np.einsum("dg,dg->d", parts[i], parts[j]) for i, j in ((0, 0), (0, 1), (1, 1))]
        denominators = np.stack([products[0], 2 * products[1], products[2]])
        result[place] = WildBootstrap(own @ signs.T, denominators, float(np.sqrt(own[0] @ own[0])))
    return result
