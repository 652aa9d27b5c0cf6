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
        between, found = self._sums.along(rows), []
        for column in columns:
            sums = between[:, column]
            if self.matrices is not None:
                inside = self._inside(rows, sums, column, penalty, jointly=True)
                found.append(wishart_degrees(inside, sums, lags))
                continue
            left = self._total(rows, penalty) - (sums / self.sizes[column]) @ sums.T
            found.append(
                wishart_of_parts(
                    sums, 1 / self.sizes[column] + RHO, self._shares(rows, column).mean(axis=0), left, lags
                )
            )
        return min(found)

    def _total(self, rows: BreadRows, penalty: np.ndarray | None) -> np.ndarray:
        """C M C' of the rows C without the part of a penalty, [rows, rows]."""
        total = rows.reduced @ rows.on_dense.T
        if len(self.null.diagonal):
            total = total + (rows.alone @ rows.sparse.T).toarray()
        if penalty is not None:
            total = total - Prior(self.null, penalty).of(*self.null.solved(rows.dense, rows.sparse.toarray()))
        return total

    def _shares(self, rows: BreadRows, column: np.ndarray) -> np.ndarray:
        """The share of each cluster in what is within clusters, [rows, clusters]."""
        within = self.within
        share = rows.plus_eliminated(
            rows.on_dense**2 @ within[:, : len(self.null.dense)].T, rows.alone.power(2), within
        )
        share = share[:, column]
        whole = share.sum(axis=1, keepdims=True)
        return np.divide(share, whole, out=np.zeros_like(share), where=whole > 0)

    def _inside(
        self, rows: BreadRows, sums: np.ndarray, column: np.ndarray, penalty: np.ndarray | None, jointly: bool = False
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
        total = rows.squares()
        total = total - prior.squares(rows) if prior else total
        inside = sums**2 / self.sizes[column]
        left = np.maximum(total - np.sum(inside, axis=1), 0.0)
        return self._shares(rows, column) * left[:, None] + inside


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


def wishart_of_parts(
    between: np.ndarray, of_clusters: np.ndarray, shares: np.ndarray, left: np.ndarray, lags: int
) -> float:
    """The same of the variances a_g h_g h_g' + s_g L, without a matrix for each cluster: `between` [q, clusters] are the h_g,
    `of_clusters` the a_g, `shares` the s_g, and `left` [q, q] is L.

    >>> between = np.vstack([[0.5, 0.5] + [0.0] * 8, [0.0] * 8 + [0.5, 0.5]])
    >>> round(wishart_of_parts(between, np.full(10, 0.25 + RHO), np.zeros(10), np.zeros((2, 2)), lags=0), 6)
    3.0
    """
    q, dates = between.shape
    root = np.linalg.inv(np.linalg.cholesky((between * of_clusters) @ between.T + shares.sum() * left))
    between, left = root @ between, root @ left @ root.T
    forms = np.einsum("ig,ij,jg->g", between, left, between, optimize=True) * of_clusters
    traces = np.einsum("ig,ig->g", between, between) * of_clusters + shares * np.trace(left)
    variance = 0.0
    for apart, weight in [(0, 0.5**0.5), *serial.weights_of(lags)]:
        first, second = slice(apart, None), slice(None, dates - apart)
        crossed = np.einsum("ig,ig->g", between[:, first], between[:, second]) ** 2
        products = (of_clusters[first] * of_clusters[second]) @ crossed + (shares[first] @ shares[second]) * np.sum(
            left**2
        )
        products += forms[first] @ shares[second] + forms[second] @ shares[first]
        variance += 2 * weight**2 * float(traces[first] @ traces[second] + products)
    return min(q * (q + 1) / variance, (dates - 1) / serial.dates_alike(lags))
