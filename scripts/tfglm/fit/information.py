"""The information matrix in blocks, with the largest part eliminated.

The block of X'WX that belongs to one part with groups is diagonal. With the dense part a (all other coefficients) and the
eliminated part b,

    X'WX = [[A, B], [B', D]],   S = A - B D^-1 B',   (X'WX)^-1 = blockdiag(0, D^-1) + U S^-1 U',   U = [I; -D^-1 B'],

so that only S, as wide as the dense part, is ever factored (STATISTICS: Covariance).
"""

from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import scipy.linalg

from tfglm.model.design import Design
from tfglm.model.passes import Sums, nesting

ALIASED_BELOW = 1e-10
"""Scaled pivot, 1 - R^2 on the columns before: an exact alias was measured at 3e-16, flight distance given its ends at 3e-5."""


@dataclass(frozen=True)
class Blocks:
    """A, B and D; `dense` and `eliminated` are positions in the coefficient vector."""

    dense: np.ndarray
    eliminated: np.ndarray
    a: np.ndarray
    b: np.ndarray
    d: np.ndarray

    def restrict(self, free: np.ndarray) -> "Blocks":
        """Only the coefficients that are free (a boolean for each); the others are held where they are."""
        rows, columns = free[self.dense], free[self.eliminated]
        return Blocks(
            self.dense[rows],
            self.eliminated[columns],
            self.a[np.ix_(rows, rows)],
            self.b[np.ix_(rows, columns)],
            self.d[columns],
        )

    def penalised(self, strength: np.ndarray) -> "Blocks":
        """With strength * b^2 / 2, for each coefficient, added to the loss."""
        return replace(self, a=self.a + np.diag(strength[self.dense]), d=self.d + strength[self.eliminated])


def gradient(design: Design, sums: Sums) -> np.ndarray:
    """The derivative of the loss by the coefficients, from the sums of a gradient or information pass."""
    found = np.zeros(design.size)
    for k, part in enumerate(design.parts):
        found[part.where] = sums[f"part_{k}"]
    return found


def assemble(design: Design, sums: Sums) -> Blocks:
    """The blocks from the sums of an information pass, or of squares."""
    parts = design.parts
    sizes = {k: part.size for k, part in enumerate(parts) if part.coding}
    largest = max(sizes, key=sizes.__getitem__, default=None)
    positions = [np.arange(part.where.start, part.where.stop) for part in parts]
    single = [k for k, part in enumerate(parts) if not part.coding]
    eliminated = positions[largest] if largest is not None else np.zeros(0, int)
    dense = np.setdiff1d(np.arange(design.size), eliminated)
    rank = np.full(design.size, -1)
    rank[dense] = np.arange(len(dense))
    a, b = np.zeros((len(dense), len(dense))), np.zeros((len(dense), len(eliminated)))
    d = sums[f"own_{largest}"] if largest is not None else np.zeros(0)

    def put(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Entries of X'WX, given once, at positions in the coefficient vector that broadcast."""
        for first, second in ((rows, columns), (columns, rows)):
            if rank[first.flat[0]] < 0:
                continue
            if rank[second.flat[0]] < 0:
                b[rank[first], second - eliminated[0]] = values
            else:
                a[rank[first], rank[second]] = values

    for s, t in combinations_with_replacement(single, 2):
        put(positions[s], positions[t], sums[f"pair_{s}_{t}"])
    for k in sizes:
        if k != largest:
            put(positions[k], positions[k], sums[f"own_{k}"])
        for s in single:
            put(positions[s], positions[k], sums[f"single_{s}_{k}"])
    for j, k in combinations(sizes, 2):
        nested = nesting(parts[j], parts[k])
        if not nested:
            put(positions[j][:, None], positions[k][None], sums[f"pair_{j}_{k}"])
            continue
        coarse, fine = (j, k) if nested > 0 else (k, j)
        above = design.projection(parts[coarse].coding, parts[fine].coding)
        put(positions[coarse][above], positions[fine], sums[f"nested_{j}_{k}"])
    return Blocks(dense, eliminated, a, b, d)


@dataclass(frozen=True)
class Factored:
    """Restricted blocks, ready to solve with. `loadings` is B D^-1; `factor` the lower Cholesky factor of S."""

    blocks: Blocks
    loadings: np.ndarray
    factor: np.ndarray

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """(X'WX)^-1 times a vector over all coefficients, whose entries at others than the free ones do not count; 0 there."""
        blocks = self.blocks
        on_dense, on_eliminated = vector[blocks.dense], vector[blocks.eliminated]
        step = np.zeros(len(vector))
        dense = scipy.linalg.cho_solve((self.factor, True), on_dense - self.loadings @ on_eliminated)
        step[blocks.dense] = dense
        step[blocks.eliminated] = on_eliminated / blocks.d - self.loadings.T @ dense
        return step

    def schur_inverse(self) -> np.ndarray:
        """S^-1."""
        return scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.factor)))


def factor(blocks: Blocks) -> Factored:
    """Factor the Schur complement. Raises scipy.linalg.LinAlgError if it is not positive definite."""
    loadings = blocks.b / blocks.d
    return Factored(blocks, loadings, scipy.linalg.cholesky(schur_complement(blocks), lower=True))


def schur_complement(blocks: Blocks) -> np.ndarray:
    """S, of which only the lower triangle is filled: by a product with itself, which is half the work of another."""
    if not len(blocks.d):
        return blocks.a
    half = np.asfortranarray(blocks.b / np.sqrt(blocks.d))
    return scipy.linalg.blas.dsyrk(-1.0, half, beta=1.0, c=np.asfortranarray(blocks.a), lower=1)


def null_vectors(blocks: Blocks, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The dense columns that earlier ones and the eliminated term make redundant, and the directions that show it; `size` is the
    number of coefficients.

    Returns their positions in the coefficient vector, and [aliases, coefficients] vectors v with X v = 0. Each alias is
    found as the first pivot of the Cholesky factorisation of S below `ALIASED_BELOW` times its diagonal entry in A.
    """
    null, aliased = [], []
    loadings = blocks.b / blocks.d
    schur = schur_complement(blocks)
    schur = np.tril(schur) + np.tril(schur, -1).T
    scale = np.sqrt(np.diag(blocks.a))
    scale[scale == 0] = 1.0
    schur = schur / scale[:, None] / scale
    kept = np.arange(len(schur))
    while True:
        first, lower = _first_small_pivot(schur[np.ix_(kept, kept)])
        if first is None:
            break
        before, column = kept[:first], kept[first]
        coordinates = scipy.linalg.cho_solve((lower, True), schur[before, column])
        on_dense = np.zeros(len(schur))
        on_dense[before], on_dense[column] = -coordinates / scale[before], 1.0 / scale[column]
        vector = np.zeros(size)
        vector[blocks.dense] = on_dense
        vector[blocks.eliminated] = -loadings.T @ on_dense
        null.append(vector / np.abs(vector).max())
        aliased.append(blocks.dense[column])
        kept = np.delete(kept, first)
    return np.array(aliased, int), np.array(null).reshape(len(null), size)


def _first_small_pivot(matrix: np.ndarray) -> tuple[int | None, np.ndarray]:
    """Index of the first pivot below the tolerance, if any, and the Cholesky factor of what comes before it."""
    lower, stopped = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
    good = stopped - 1 if stopped > 0 else len(matrix)
    small = np.flatnonzero(np.diag(lower)[:good] ** 2 < ALIASED_BELOW)
    first = small[0] if len(small) else good
    return (None if first == len(matrix) else int(first)), lower[:first, :first]
