"""The inverse of an information matrix I, and products of it with the rows of a transformation T of the coefficients.

q dense and m eliminated coefficients are free. The inverse is blockdiag(0, D^-1) + U S^-1 U' with U = [I; -loadings']. It is
never built.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse

from tfglm.inference.block_diagonal import BlockDiagonal

CHUNK = 512
"""Rows of a transformation in a chunk of the computation."""


@dataclass(frozen=True, eq=False)
class Bread:
    """I^-1 of the free coefficients. In a penalised fit it is (I + penalty)^-1, the posterior covariance over the dispersion.

    `dense` [q] and `eliminated` [m] are their positions in the coefficient vector. The blocks are `schur_inverse` = S^-1 [q, q],
    `loadings` = B D^-1 [q, m] and `diagonal`, the values of D (solvers.information).
    """

    dense: np.ndarray
    eliminated: np.ndarray
    schur_inverse: np.ndarray
    loadings: np.ndarray
    diagonal: np.ndarray

    @cached_property
    def d(self) -> BlockDiagonal:
        return BlockDiagonal(self.diagonal)

    @cached_property
    def free(self) -> np.ndarray:
        """The positions of the free coefficients, the dense ones first, [q + m]."""
        return np.concatenate([self.dense, self.eliminated])

    def on_free(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The columns of a transformation that belong to free coefficients, [rows, q + m]."""
        return np.hstack([transform[:, self.dense].toarray(), transform[:, self.eliminated].toarray()])

    def solved(self, dense: np.ndarray, eliminated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a transformation, [rows, q] and [rows, m], times I^-1."""
        on_dense = (dense - eliminated @ self.loadings.T) @ self.schur_inverse
        return on_dense, self.d.divide(eliminated) - on_dense @ self.loadings

    def times(self, transform: scipy.sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """T I^-1, [rows, q] and [rows, m]."""
        return self.solved(transform[:, self.dense].toarray(), transform[:, self.eliminated].toarray())

    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """T I^-1 T', [rows, rows]."""
        dense, eliminated = transform[:, self.dense].toarray(), transform[:, self.eliminated].toarray()
        on_dense, on_eliminated = self.solved(dense, eliminated)
        return dense @ on_dense.T + eliminated @ on_eliminated.T

    def squares(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The diagonal of T I^-1 T', [rows]."""
        return np.concatenate([self.rows(transform[some]).squares() for some in chunks(transform.shape[0])])

    def rows(self, transform: scipy.sparse.csr_array) -> "BreadRows":
        """T I^-1 in parts."""
        dense, sparse = transform[:, self.dense].toarray(), transform[:, self.eliminated]
        # SciPy copies what it multiplies, so only the used columns are passed.
        used = np.unique(sparse.indices)
        reduced = dense - sparse[:, used] @ self.loadings[:, used].T
        return BreadRows(self, dense, sparse, reduced, reduced @ self.schur_inverse)

    def information(self, places: np.ndarray) -> np.ndarray:
        """The entries of I of the free coefficients at these positions, [places, places]."""
        scale = np.sqrt(np.diag(self.schur_inverse))  # a large penalty would take the digits of the others
        schur = np.linalg.inv(self.schur_inverse / scale / scale[:, None]) / scale / scale[:, None]
        mixed = self.d.times(self.loadings)
        order, q = self.ranks(places), len(self.dense)
        result = np.zeros((len(order), len(order)))
        inside, others = order < q, order >= q
        on_dense, on_eliminated = order[inside], order[others] - q
        result[np.ix_(inside, inside)] = (schur + self.loadings @ mixed.T)[np.ix_(on_dense, on_dense)]
        result[np.ix_(inside, others)] = mixed[np.ix_(on_dense, on_eliminated)]
        result[np.ix_(others, inside)] = result[np.ix_(inside, others)].T
        result[np.ix_(others, others)] = self.d.matrix[on_eliminated][:, on_eliminated].toarray()
        return result

    def ranks(self, places: np.ndarray) -> np.ndarray:
        """The places in `free` of the coefficients at these positions."""
        order = np.argsort(self.free)
        return order[np.searchsorted(self.free, places, sorter=order)]


@dataclass(frozen=True, eq=False)
class BreadRows:
    """Rows T = (`dense`, `sparse`) [rows, q] and [rows, m], and T I^-1 in parts: (a, e D^-1 - a loadings) with a = `on_dense`
    [rows, q] and e = `sparse`, which has few nonzero entries. `reduced` [rows, q] is T_dense - e loadings'."""

    bread: Bread
    dense: np.ndarray
    sparse: scipy.sparse.csr_array
    reduced: np.ndarray
    on_dense: np.ndarray

    @cached_property
    def alone(self) -> scipy.sparse.csr_array:
        """e D^-1."""
        return self.sparse @ self.bread.d.inverse.matrix

    def squares(self) -> np.ndarray:
        """The diagonal of T I^-1 T'."""
        diagonal = np.einsum("ij,ij->i", self.on_dense, self.reduced)
        return diagonal + self.bread.d.inverse.squares(self.sparse) if len(self.bread.diagonal) else diagonal

    def plus_eliminated(self, of_dense: np.ndarray, alone: scipy.sparse.csr_array, values: np.ndarray) -> np.ndarray:
        """`of_dense` plus eliminated parts `alone` [rows, m] times the numbers of some clusters, `values` [clusters, q + m]."""
        return of_dense + alone @ values[:, len(self.bread.dense) :].T if len(self.bread.diagonal) else of_dense


@dataclass(frozen=True, eq=False)
class ByCluster:
    """Numbers of clusters by free coefficient, such as their scores: `values` = Z [clusters, q + m]."""

    bread: Bread
    values: np.ndarray

    @cached_property
    def _reduced(self) -> np.ndarray:
        """Z_dense - Z_eliminated loadings', [clusters, q]."""
        q = len(self.bread.dense)
        return self.values[:, :q] - self.values[:, q:] @ self.bread.loadings.T

    def along(self, rows: BreadRows) -> np.ndarray:
        """T I^-1 Z', [rows, clusters]."""
        return rows.plus_eliminated(rows.on_dense @ self._reduced.T, rows.alone, self.values)


@dataclass(frozen=True, eq=False)
class Prior:
    """The diagonal of a penalty of free coefficients, `values` = P [q + m]. The prior expects I^-1 P I^-1 of the squared bias."""

    bread: Bread
    values: np.ndarray

    def of(self, on_dense: np.ndarray, on_eliminated: np.ndarray) -> np.ndarray:
        """T I^-1 P I^-1 T', from T I^-1."""
        moved = np.hstack([on_dense, on_eliminated])
        return (moved * self.values) @ moved.T

    def squares(self, rows: BreadRows) -> np.ndarray:
        """The diagonal of T I^-1 P I^-1 T'."""
        of_dense, of_eliminated = np.split(self.values, [len(self.bread.dense)])
        diagonal = rows.on_dense**2 @ of_dense
        if of_eliminated.any():
            weighted, reduced = self._loadings
            diagonal += np.einsum("ij,ij->i", rows.on_dense, rows.on_dense @ reduced - 2 * (rows.alone @ weighted.T))
            diagonal += rows.alone.power(2) @ of_eliminated
        return diagonal

    @cached_property
    def _loadings(self) -> tuple[np.ndarray, np.ndarray]:
        """loadings P [q, m] and loadings P loadings' [q, q], with the P of eliminated coefficients."""
        weighted = self.bread.loadings * self.values[len(self.bread.dense) :]
        return weighted, weighted @ self.bread.loadings.T


def chunks(rows: int) -> Iterator[slice]:
    return (slice(first, first + CHUNK) for first in range(0, max(rows, 1), CHUNK))


def triangles(matrices: np.ndarray) -> np.ndarray:
    """The lower triangles of symmetric matrices [matrices, n, n], row by row, [matrices, n (n + 1) / 2]."""
    return matrices[:, *np.tril_indices(matrices.shape[1])]


def square(triangles: np.ndarray) -> np.ndarray:
    """Build symmetric matrices [matrices, n, n] from their lower triangles [matrices, n (n + 1) / 2].

    >>> square(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """
    size = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2
    places = np.zeros((size, size), int)
    rows, columns = np.tril_indices(size)
    places[rows, columns] = places[columns, rows] = np.arange(triangles.shape[1])
    return triangles[:, places]
