"""The information matrix in blocks, with the largest categorical term eliminated.

The block of X'WX that belongs to one categorical term is diagonal. With the dense part a (all other coefficients) and the
eliminated term b,

    X'WX = [[A, B], [B', D]],   S = A - B D^-1 B',   (X'WX)^-1 = blockdiag(0, D^-1) + U S^-1 U',   U = [I; -D^-1 B'],

so that only S, as wide as the dense part, is ever factored (STATISTICS: Covariance).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from tfglm.model.design import Design
from tfglm.model.passes import Sums

ALIASED_BELOW = 1e-10
"""Scaled pivot, 1 - R^2 on the columns before: an exact alias was measured at 3e-16, flight distance given its ends at 3e-5."""


@dataclass(frozen=True)
class Blocks:
    """A, B, D and the gradient over all coefficients; `dense` and `eliminated` are positions in the coefficient vector."""

    dense: np.ndarray
    eliminated: np.ndarray
    a: np.ndarray
    b: np.ndarray
    d: np.ndarray
    gradient: np.ndarray

    def restrict(self, free: np.ndarray) -> "Blocks":
        """Only the coefficients that are free (a boolean for each); the others are held where they are."""
        rows, columns = free[self.dense], free[self.eliminated]
        return Blocks(
            self.dense[rows],
            self.eliminated[columns],
            self.a[np.ix_(rows, rows)],
            self.b[np.ix_(rows, columns)],
            self.d[columns],
            self.gradient,
        )


def assemble(design: Design, sums: Sums) -> Blocks:
    """The blocks from the sums of an information pass."""
    sizes = [term.size for term in design.categorical]
    largest = int(np.argmax(sizes)) if sizes else None
    numeric_positions = np.array([design.slices[term.name].start for term in design.numeric])
    positions = [np.arange(design.size)[design.slices[term.name]] for term in design.categorical]
    gradient = np.zeros(design.size)
    gradient[numeric_positions] = sums["numeric"]
    full = {("n", "n"): sums["numeric_numeric"]}
    for k, size in enumerate(sizes):
        gradient[positions[k]] = sums[f"categorical_{k}"]
        full["n", k] = sums[f"numeric_{k}"]
        # The intercept's row of numeric x categorical holds the sums of the weights: the diagonal of the term's block.
        full[k, k] = sums[f"numeric_{k}"][0]
        for j in range(k):
            full[j, k] = sums[f"pair_{j}_{k}"].reshape(sizes[j], size)
    where = {"n": numeric_positions, **dict(enumerate(positions))}
    dense = np.sort(np.concatenate([where[key] for key in where if key != largest]))
    rank = np.full(design.size, -1)
    rank[dense] = np.arange(len(dense))
    eliminated = positions[largest] if largest is not None else np.zeros(0, int)
    a, b, d = np.zeros((len(dense), len(dense))), np.zeros((len(dense), len(eliminated))), np.zeros(0)
    for (j, k), block in full.items():
        if j == k == largest:
            d = block
        elif largest in (j, k):
            b[rank[where[k if j == largest else j]]] = block.T if j == largest else block
        else:
            square = np.diag(block) if j == k != "n" else block
            a[np.ix_(rank[where[j]], rank[where[k]])] = square
            a[np.ix_(rank[where[k]], rank[where[j]])] = square.T
    return Blocks(dense, eliminated, a, b, d, gradient)


@dataclass(frozen=True)
class Factored:
    """Restricted blocks, ready to solve with. `loadings` is B D^-1; `factor` the lower Cholesky factor of S."""

    blocks: Blocks
    loadings: np.ndarray
    factor: np.ndarray

    def solve(self) -> np.ndarray:
        """(X'WX)^-1 gradient: a vector as long as the coefficient vector, 0 where a coefficient is not free."""
        blocks = self.blocks
        on_dense, on_eliminated = blocks.gradient[blocks.dense], blocks.gradient[blocks.eliminated]
        step = np.zeros(len(blocks.gradient))
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
    return Factored(blocks, loadings, scipy.linalg.cholesky(blocks.a - loadings @ blocks.b.T, lower=True))


def null_vectors(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """The dense columns that earlier ones and the eliminated term make redundant, and the directions that show it.

    Returns their positions in the coefficient vector, and [aliases, coefficients] vectors v with X v = 0. Each alias is
    found as the first pivot of the Cholesky factorisation of S below `ALIASED_BELOW` times its diagonal entry in A.
    """
    size, null, aliased = len(blocks.gradient), [], []
    loadings = blocks.b / blocks.d
    schur = blocks.a - loadings @ blocks.b.T
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
