"""The effective number of clusters by the design: how many clusters of equal information would say as much of a coefficient.

It decides which tests by cluster are reported if CR2 costs too much, if there are clusters of several columns, and for dates
that are close to each other. Everything is computed for the null model, so the response does not enter: only prior weights and
the offset make its weights unequal.

Let w_i be these weights, with mean 1 over the rows, M the inverse information matrix, c a combination of coefficients and x_i a
row of the design matrix. Let the rows of a cluster share a tenth of their variance (rho = 1/9). Then cluster g adds to the
variance of c'b

    v_g = sum over its rows of w_i (c'M x_i)^2 + rho (c'M h_g)^2,   h_g = sum over its rows of w_i x_i.

The first sum is c'M K_g M c with the information matrix K_g of the cluster. If the matrices of all clusters are too large, it is
approximated. With n_g, the sum of its w_i, it is (c'M h_g)^2 / n_g and a part within the cluster. All parts within clusters are
together c'M c - sum of (c'M h_g)^2 / n_g, exactly. A cluster's share of them is taken to be proportional to the sum over the
columns j of (c'M e_j)^2 k_gj, with k_gj = sum of w_i (x_ij - h_gj / n_g)^2.

The variances v_g have these degrees of freedom (`serial.degrees_of_freedom`). For several combinations, a Wishart distribution
approximates the sum of independent Wishart matrices with these covariances, and its degrees of freedom are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tfglm.inference import serial
from tfglm.inference.bread import Bread

RHO = 1 / 9
"""The variance that the rows of a cluster share, over what they do not share. With 1, as in CR2's rule, a number that varies
within clusters would count as few clusters, because its sums there differ by chance."""

CONSTANT = 1e-10
"""Share of a column's sum of squares in a cluster below which its variance there is a rounding error."""


@dataclass(frozen=True, eq=False)
class ByDesign:
    """The columns of the design matrix, summed by cluster of a column of clusters or of several, or by date.

    `sums` [clusters, n] are the h_g and `sizes` [clusters] the n_g, both for weights of mean 1 and in units in which M belongs
    to the null model. `within` [clusters, n] are the k_gj, in any unit. `matrices` [clusters, n (n + 1) / 2] are the lower
    triangles of the K_g; None if these are too large. `null` is M; None if the fit has the same.
    """

    sums: np.ndarray
    within: np.ndarray
    sizes: np.ndarray
    matrices: np.ndarray | None = None
    null: Bread | None = None

    @classmethod
    def of_column(cls, sums: np.ndarray, within: np.ndarray, sizes: np.ndarray, rows: float) -> Self:
        """Those of the clusters of a column, from their weighted sums and the k_gj [clusters, n], and the sums of the weights,
        `sizes` [clusters]. There are so many `rows` in all."""
        mean = float(sizes.sum()) / rows
        return cls(sums / np.sqrt(mean), within, sizes / mean)

    @classmethod
    def joined(cls, columns: Sequence[Self], matrices: np.ndarray | None, null: Bread | None) -> Self:
        """Those of the clusters of several columns, which follow each other."""
        sums, within, sizes = (
            np.concatenate([getattr(each, name) for each in columns]) for name in ("sums", "within", "sizes")
        )
        return cls(sums, within, sizes, matrices, null)


def within(sums: np.ndarray, squares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The k_gj of some columns, from their weighted sums and sums of squares [clusters, n], and the sums of the weights, `sizes`
    [clusters].

    >>> within(np.array([[2.0, 3.0]]), np.array([[2.0, 9.0]]), np.array([4.0])).tolist()
    [[1.0, 6.75]]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        left = squares - sums**2 / sizes[:, None]
    return np.where(left > CONSTANT * squares, left, 0.0)


def degrees_of_freedom(inside: np.ndarray, between: np.ndarray, lags: int) -> np.ndarray:
    """The degrees of freedom of some combinations c, [combinations].

    Parameters
    ----------
    inside
        The first sum of v_g, [combinations, clusters].
    between
        c'M h_g, [combinations, clusters].
    lags
        Of the dates; 0 for clusters.

    Examples
    --------
    Of ten clusters of four rows, a constant is known from all, and a column that is 1 in two of them from two:

    >>> between = np.array([[0.1] * 10, [0.5, 0.5] + [0.0] * 8])
    >>> degrees_of_freedom(between**2 / 4, between, lags=0).round(6).tolist()
    [9.0, 2.0]
    """
    return serial.degrees_of_freedom(inside + RHO * between**2, lags, kurtosis=1.0)


def wishart_degrees(inside: np.ndarray, between: np.ndarray, lags: int) -> float:
    """The same for a joint test of q combinations C: `inside` are the matrices C M K_g M C' [clusters, q, q].

    >>> between = np.vstack([[0.5, 0.5] + [0.0] * 8, [0.0] * 8 + [0.5, 0.5]])
    >>> inside = np.einsum("ig,jg->gij", between, between) / 4
    >>> round(wishart_degrees(inside, between, lags=0), 6)
    3.0
    """
    q, dates = between.shape
    variances = inside + RHO * np.einsum("ig,jg->gij", between, between)
    root = np.linalg.inv(np.linalg.cholesky(variances.sum(axis=0)))
    variances = root @ variances @ root.T
    traces, flat = np.einsum("gii->g", variances), variances.reshape(dates, -1)
    variance = 0.0
    for apart, weight in [(0, 0.5**0.5), *serial.weights_of(lags)]:
        first, second = slice(apart, None), slice(None, dates - apart)
        variance += 2 * weight**2 * float(traces[first] @ traces[second] + np.vdot(flat[first], flat[second]))
    return min(q * (q + 1) / variance, (dates - 1) / serial.dates_alike(lags))


def approximated(
    between: np.ndarray, within: np.ndarray, total: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The shares of clusters in the part within clusters [combinations, clusters], and this part [combinations].

    Parameters
    ----------
    between
        c'M h_g, [combinations, clusters].
    within
        The shares in any unit, [combinations, clusters].
    total
        c'M c, [combinations].
    sizes
        n_g, [clusters].
    """
    sums = within.sum(axis=1, keepdims=True)
    share = np.divide(within, sums, out=np.zeros_like(within), where=sums > 0)
    return share, np.maximum(total - np.sum(between**2 / sizes, axis=1), 0.0)
