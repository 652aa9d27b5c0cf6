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
from functools import cached_property

import numpy as np
import scipy.sparse

from tfglm.inference import serial
from tfglm.inference.bread import Bread, BreadRows, ByCluster, Prior, chunks, square

RHO = 1 / 9
"""The variance that the rows of a cluster share, over what they do not share. With 1, as in CR2's rule, a number that varies
within clusters would count as few clusters, because its sums there differ by chance."""

CONSTANT = 1e-10
"""Share of a column's sum of squares in a cluster below which its variance there is a rounding error."""


@dataclass(frozen=True, eq=False)
class ByDesign:
    """The columns of the design matrix, summed by cluster of a column of clusters or of several, or by date.

    `sums` [clusters, n] are the h_g and `sizes` [clusters] the n_g, both for weights of mean 1 and in units in which M belongs
    to the null model. `within` [clusters, n] are the k_gj, in any unit. `null` is M. `matrices` [clusters, n (n + 1) / 2] are the
    lower triangles of the K_g; None if these are too large.
    """

    sums: np.ndarray
    within: np.ndarray
    sizes: np.ndarray
    null: Bread
    matrices: np.ndarray | None = None

    @cached_property
    def _sums(self) -> ByCluster:
        return ByCluster(self.null, self.sums)

    def degrees_of_freedom(
        self, transform: scipy.sparse.csr_array, columns: Sequence[np.ndarray], lags: int, penalty: np.ndarray | None
    ) -> np.ndarray:
        """The effective number of clusters for each row c of a transformation [rows, p], [rows]. The column of clusters with
        the smallest result counts. `lags` are those of dates, 0 for clusters; `penalty` [n] is that of the fit in M."""
        parts = []
        for some in chunks(transform.shape[0]):
            rows = self.null.rows(transform[some])
            between, of_columns = self._sums.along(rows), []
            for column in columns:
                sums = between[:, column]
                variances = self._inside(rows, sums, column, penalty) + RHO * sums**2
                of_columns.append(serial.degrees_of_freedom(variances, lags, kurtosis=1.0))
            parts.append(np.min(of_columns, axis=0))
        return np.concatenate(parts)

    def joint_degrees(
        self, transform: scipy.sparse.csr_array, columns: Sequence[np.ndarray], lags: int, penalty: np.ndarray | None
    ) -> float:
        """The same for a joint test of the rows of a transformation."""
        rows = self.null.rows(transform)
        between = self._sums.along(rows)
        return min(
            wishart_degrees(
                self._inside(rows, between[:, column], column, penalty, jointly=True), between[:, column], lags
            )
            for column in columns
        )

    def _inside(
        self,
        rows: BreadRows,
        sums: np.ndarray,
        column: np.ndarray,
        penalty: np.ndarray | None,
        jointly: bool = False,
    ) -> np.ndarray:
        """The c'M K_g M c of the clusters of a column with c'M h_g = `sums`, [rows, clusters]; `jointly` the matrices,
        [clusters, rows, rows]."""
        null, prior = self.null, None if penalty is None else Prior(self.null, penalty)
        if self.matrices is not None:
            moved = np.hstack(null.solved(rows.dense, rows.sparse.toarray()))
            if not jointly:
                return weights_of_triangles(moved) @ self.matrices[column].T
            parts = (square(self.matrices[column[some]]) for some in chunks(len(column)))
            return np.concatenate([moved @ each @ moved.T for each in parts])
        within, sizes = self.within, self.sizes[column]
        share = rows.plus_eliminated(rows.on_dense**2 @ within[:, : len(null.dense)].T, rows.alone.power(2), within)
        share = share[:, column]
        whole = share.sum(axis=1, keepdims=True)
        share = np.divide(share, whole, out=np.zeros_like(share), where=whole > 0)
        if not jointly:
            total = rows.squares()
            total = total - prior.squares(rows) if prior else total
            left = np.maximum(total - np.sum(sums**2 / sizes, axis=1), 0.0)
            return share * left[:, None] + sums**2 / sizes
        total = rows.reduced @ rows.on_dense.T
        if len(null.diagonal):
            total = total + (rows.alone @ rows.sparse.T).toarray()
        if prior:
            total = total - prior.of(*null.solved(rows.dense, rows.sparse.toarray()))
        of_clusters = np.einsum("ig,jg->gij", sums, sums / sizes)
        return of_clusters + share.mean(axis=0)[:, None, None] * (total - of_clusters.sum(axis=0))


def within(sums: np.ndarray, squares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The k_gj of some columns, from their weighted sums and sums of squares [clusters, n], and the sums of the weights, `sizes`
    [clusters].

    >>> within(np.array([[2.0, 3.0]]), np.array([[2.0, 9.0]]), np.array([4.0])).tolist()
    [[1.0, 6.75]]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        left = squares - sums**2 / sizes[:, None]
    return np.where(left > CONSTANT * squares, left, 0.0)


def weights_of_triangles(rows: np.ndarray) -> np.ndarray:
    """The weights [rows, n (n + 1) / 2] of the lower triangle of a symmetric matrix K in a'Ka, for the rows a [rows, n].

    >>> (weights_of_triangles(np.array([[1.0, 2.0]])) @ np.array([1.0, 10.0, 100.0])).tolist()
    [441.0]
    """
    first, second = np.tril_indices(rows.shape[1])
    return rows[:, first] * rows[:, second] * np.where(first == second, 1.0, 2.0)


def wishart_degrees(inside: np.ndarray, between: np.ndarray, lags: int) -> float:
    """The degrees of freedom of a joint test of q combinations C, from C M K_g M C' [clusters, q, q] and C M h_g [q, clusters].

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
