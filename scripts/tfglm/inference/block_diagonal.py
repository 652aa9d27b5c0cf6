"""The eliminated block D of an information matrix: a diagonal, or a small block for each level of a factor."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse


@dataclass(frozen=True, eq=False)
class BlockDiagonal:
    """A symmetric matrix D [m, m] whose `values` are its diagonal [m], or [q, q, levels] for q coefficients of each level. Those
    of a term are adjacent, so coefficient `number * levels + level` belongs to a level.

    >>> d = BlockDiagonal(np.array([[[2.0], [1.0]], [[1.0], [3.0]]]))
    >>> d.divide(d.times(np.array([5.0, 7.0]))).round(9).tolist()
    [5.0, 7.0]
    """

    values: np.ndarray

    @classmethod
    def joined(cls, values: np.ndarray) -> "BlockDiagonal":
        """The matrix of values [q, q, levels], as a diagonal if q is 1."""
        return cls(values[0, 0] if len(values) == 1 else values)

    @property
    def blocks(self) -> np.ndarray:
        """The values as [q, q, levels]."""
        return self.values if self.values.ndim == 3 else self.values[None, None]

    @property
    def diagonal(self) -> np.ndarray:
        """[m]."""
        return self.values if self.values.ndim == 1 else np.einsum("iil->il", self.values).ravel()

    def times(self, rows: np.ndarray) -> np.ndarray:
        """Rows [..., m] times D."""
        if self.values.ndim == 1:
            return rows * self.values
        by_level = rows.reshape(*rows.shape[:-1], *self.values.shape[1:])
        return np.einsum("...il,ijl->...jl", by_level, self.values).reshape(rows.shape)

    def divide(self, rows: np.ndarray, levels: slice = slice(None)) -> np.ndarray:
        """Rows [..., m] times D^-1; or times the part of some levels."""
        if self.values.ndim == 1:
            return rows / self.values[levels]
        return BlockDiagonal(self.inverse.values[..., levels]).times(rows)

    def form(self, vector: np.ndarray) -> float:
        """v D v' for a vector [m]."""
        return float(vector**2 @ self.values if self.values.ndim == 1 else self.times(vector) @ vector)

    def squares(self, rows: scipy.sparse.csr_array) -> np.ndarray:
        """The diagonal of T D T' for rows T [rows, m]."""
        if self.values.ndim == 1:
            return rows.power(2) @ self.values
        return np.asarray((rows @ self.matrix).multiply(rows).sum(axis=1)).ravel()

    def within(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The entries of rows' others [m, m] at those of D, as its values. Rows and others are [n, m]."""
        if self.values.ndim == 1:
            return np.einsum("ij,ij->j", rows, others)
        first, second = (each.reshape(len(each), *self.values.shape[1:]) for each in (rows, others))
        return np.einsum("nil,njl->ijl", first, second)

    def plus(self, diagonal: np.ndarray) -> "BlockDiagonal":
        """D plus a diagonal matrix [m]."""
        if self.values.ndim == 1:
            return BlockDiagonal(self.values + diagonal)
        values, numbers = self.values.copy(), np.arange(len(self.values))
        values[numbers, numbers] += diagonal.reshape(len(values), -1)
        return BlockDiagonal(values)

    def restrict(self, which: np.ndarray) -> "BlockDiagonal":
        """The block of some coefficients [m]: for each level the same, of some levels."""
        if self.values.ndim == 1:
            return BlockDiagonal(self.values[which])
        by_level = which.reshape(len(self.values), -1)
        terms, levels = by_level.any(axis=1), by_level.any(axis=0)
        if not which.any():
            return BlockDiagonal(np.zeros(0))
        assert np.array_equal(by_level, np.outer(terms, levels))
        return BlockDiagonal.joined(self.values[np.ix_(terms, terms, levels)])

    @cached_property
    def _swept(self) -> tuple[np.ndarray, float]:
        """The values of D^-1, and log|D|, by the sweep operator for all levels at the same time."""
        if not np.all(self.diagonal > 0):
            raise np.linalg.LinAlgError("an eliminated coefficient has no information")
        if self.values.ndim == 1:
            return 1.0 / self.values, float(np.log(self.values).sum())
        swept, logarithm = self.values.copy(), 0.0
        for number in range(len(swept)):
            pivot = swept[number, number].copy()
            if not np.all(pivot > 0):
                raise np.linalg.LinAlgError("the eliminated coefficients of a level depend on each other")
            logarithm += float(np.log(pivot).sum())
            row, column = swept[number] / pivot, swept[:, number].copy()
            swept -= column[:, None] * row
            swept[number], swept[:, number], swept[number, number] = row, -column / pivot, 1.0 / pivot
        return (swept + swept.swapaxes(0, 1)) / 2, logarithm

    @cached_property
    def inverse(self) -> "BlockDiagonal":
        """D^-1. Raises numpy.linalg.LinAlgError if D is not positive definite."""
        return BlockDiagonal(self._swept[0])

    @property
    def log_determinant(self) -> float:
        return self._swept[1]

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """D [m, m]."""
        blocks, levels = self.blocks, self.blocks.shape[-1]
        if self.values.ndim == 1:
            return scipy.sparse.diags_array(self.values, format="csr")
        columns = np.broadcast_to(
            np.arange(len(blocks)) * levels + np.arange(levels)[:, None], (len(blocks), levels, len(blocks))
        )
        starts = np.arange(0, blocks.size + 1, len(blocks))
        return scipy.sparse.csr_array((np.moveaxis(blocks, 1, -1).ravel(), columns.ravel(), starts))
