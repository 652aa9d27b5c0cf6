"""The information matrix in blocks, with the largest part eliminated.

The block of X'WX for a part with groups is diagonal. The largest such part is eliminated; all other coefficients are dense. If it
has random effects, those of other terms at the same levels are eliminated too: D has a small block for each level. The blocks are
A (dense), D (eliminated) and B (between them):

    X'WX = [[A, B], [B', D]],   S = A - B D^-1 B',   (X'WX)^-1 = blockdiag(0, D^-1) + U S^-1 U',   U = [I; -D^-1 B'].

So only S, as wide as the dense part, is factored (docs/statistics.md: Covariance).
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.linalg

from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE
from tfglm.engine import leverage
from tfglm.engine.parts import block_pairs, nesting
from tfglm.engine.passes import Sums
from tfglm.inference.block_diagonal import BlockDiagonal
from tfglm.inference.bread import Bread

ALIASED_BELOW = 1e-10
"""Scaled pivot (1 - R^2 in a regression on the columns before) below which a column may be redundant. The rows then decide
(solvers.plain). An exact alias was measured at 3e-16, and flight distance given its ends at 3e-5."""


STRIP, CHUNK = 128, 2048
"""Rows of S and columns of B in a block of the computation. Such blocks fit into the processor's cache."""

THREADS = 2
"""Threads that compute S while the workers wait. The result is the same bit for bit for any number."""


@dataclass(frozen=True)
class Blocks:
    """A, B and the values `d` of D; `dense` and `eliminated` are positions in the coefficient vector."""

    dense: np.ndarray
    eliminated: np.ndarray
    a: np.ndarray
    b: np.ndarray
    d: np.ndarray

    @cached_property
    def within(self) -> BlockDiagonal:
        """D."""
        return BlockDiagonal(self.d)

    @property
    def whole(self) -> np.ndarray:
        """The whole matrix, the dense coefficients first."""
        return np.block([[self.a, self.b], [self.b.T, self.within.matrix.toarray()]])

    def restrict(self, free: np.ndarray) -> "Blocks":
        """The blocks of the `free` coefficients [p] only; the others do not move."""
        rows, columns = free[self.dense], free[self.eliminated]
        if rows.all() and columns.all():
            return self
        return Blocks(
            self.dense[rows],
            self.eliminated[columns],
            self.a[np.ix_(rows, rows)],
            self.b[np.ix_(rows, columns)],
            self.within.restrict(columns).values,
        )

    def penalised(self, ridge: np.ndarray) -> "Blocks":
        """The blocks of the loss plus the penalty sum of ridge * b^2 / 2."""
        if not ridge.any():
            return self
        return replace(self, a=self.a + np.diag(ridge[self.dense]), d=self.within.plus(ridge[self.eliminated]).values)

    def damped(self, ridge: np.ndarray) -> "Blocks":
        """The same for steps of a search, which later steps correct."""
        return self.penalised(ridge)

    def times(self, vector: np.ndarray) -> np.ndarray:
        """The matrix times a vector over all coefficients, [p]; 0 for coefficients outside the blocks."""
        dense, eliminated = vector[self.dense], vector[self.eliminated]
        result = np.zeros(len(vector))
        result[self.dense] = self.a @ dense + self.b @ eliminated
        result[self.eliminated] = dense @ self.b + self.within.times(eliminated)
        return result

    def diagonal(self, size: int) -> np.ndarray:
        """The diagonal of the matrix, [p = size]; 0 for coefficients outside the blocks."""
        diagonal = np.zeros(size)
        diagonal[self.dense], diagonal[self.eliminated] = np.diag(self.a), self.within.diagonal
        return diagonal

    def plus(self, other: "Blocks", factor: float) -> Self:
        """The blocks plus `factor` times the blocks of another matrix over the same coefficients."""
        a, b, d = (getattr(self, name) + factor * getattr(other, name) for name in ("a", "b", "d"))
        return replace(self, a=a, b=b, d=d)


NO_BLOCKS = Blocks(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0))
"""The blocks of no coefficients."""


def gradient(design: Design, sums: Sums, name: str = "part") -> np.ndarray:
    """The derivative of the loss by the coefficients, [p], from the sums of a gradient or information pass; or another
    derivative, whose sums have this `name`."""
    derivative = np.zeros(design.size)
    for k, part in enumerate(design.parts):
        derivative[part.where] = sums[name, k]
    return derivative


def assemble(design: Design, sums: Sums, free: np.ndarray | None = None) -> Blocks:
    """The blocks from the sums of an information pass or of squares. `free` [p] restricts them to these coefficients."""
    parts = design.parts
    free = np.ones(design.size, bool) if free is None else free
    last = design.eliminated_parts
    of_part = [free[part.where] for part in parts]
    free_runs = [runs(which) for which in of_part]
    in_eliminated = np.zeros(design.size, bool)
    for k in last:
        in_eliminated[parts[k].where] = True
    dense, eliminated = np.flatnonzero(free & ~in_eliminated), np.flatnonzero(free & in_eliminated)
    rank = np.full(design.size, -1)
    rank[dense], rank[eliminated] = np.arange(len(dense)), np.arange(len(eliminated))
    a, b = np.zeros((len(dense), len(dense))), np.zeros((len(dense), len(eliminated)))
    present = [k for k in last if of_part[k].any()]
    d = np.array([[sums["block", min(j, k), max(j, k)][of_part[j]] for k in present] for j in present])

    def place(k: int) -> slice:
        """The positions of a part's free coefficients in A, or in B."""
        first = parts[k].where.start + int(np.argmax(of_part[k]))
        return slice(rank[first], rank[first] + np.count_nonzero(of_part[k]))

    def put_block(j: int, k: int, values: np.ndarray) -> None:
        """Put all entries of two parts, [size of j, size of k]."""
        if not free_runs[j] or not free_runs[k]:
            return
        to = (b if k in last else a)[place(j), place(k)]
        # Run by run, because a copy of the free entries would be as large as B. Few coefficients are not free.
        for rows, from_rows in free_runs[j]:
            for columns, from_columns in free_runs[k]:
                to[rows, columns] = values[from_rows, from_columns]
        if k not in last:
            a[place(k), place(j)] = to.T

    def put_entries(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Put single entries at these positions in the coefficient vector."""
        there = free[rows] & free[columns]
        rows, columns, values = rows[there], columns[there], values[there]
        for first, second in ((rows, columns), (columns, rows)):
            if not len(first) or in_eliminated[first[0]]:
                continue
            (b if in_eliminated[second[0]] else a)[rank[first], rank[second]] = values

    positions = [np.arange(part.where.start, part.where.stop) for part in parts]
    for j, k in block_pairs(design):
        nested = nesting(parts[j], parts[k])
        if not (nested and parts[j].grouping):
            put_block(j, k, np.atleast_2d(sums["block", j, k]))
        elif j not in last or k not in last:
            coarse, fine = (j, k) if nested > 0 else (k, j)
            above = design.projection(parts[coarse].grouping, parts[fine].grouping)
            put_entries(positions[coarse][above], positions[fine], sums["block", j, k])
    return Blocks(dense, eliminated, a, b, BlockDiagonal.joined(d).values if present else np.zeros(0))


def runs(which: np.ndarray) -> list[tuple[slice, slice]]:
    """The slice of each run of true values, first among the true values and then among all values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], which, [False]]).astype(np.int8))).reshape(-1, 2)
    ends = np.cumsum(edges[:, 1] - edges[:, 0])
    return [
        (slice(end - (last - first), end), slice(first, last)) for (first, last), end in zip(edges, ends, strict=True)
    ]


@dataclass(frozen=True)
class Factored:
    """Factored blocks of the free coefficients. `factor` is the lower Cholesky factor of S.

    >>> dense, eliminated = np.arange(1), np.arange(1, 3)
    >>> blocks = Blocks(dense, eliminated, np.array([[4.0]]), np.array([[1.0, 1.0]]), np.array([1.0, 1.0]))
    >>> factor(blocks).solve(blocks.times(np.array([1.0, 2.0, 3.0]))).round(6).tolist()
    [1.0, 2.0, 3.0]
    """

    blocks: Blocks
    factor: np.ndarray

    @cached_property
    def loadings(self) -> np.ndarray:
        """B D^-1."""
        return self.blocks.within.divide(self.blocks.b)

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """(X'WX)^-1 times a vector over all coefficients, [p]. Entries of coefficients that are not free are ignored; the
        result is 0 there."""
        blocks = self.blocks
        on_dense, on_eliminated = vector[blocks.dense], vector[blocks.eliminated]
        step = np.zeros(len(vector))
        dense = scipy.linalg.cho_solve((self.factor, True), on_dense - blocks.b @ blocks.within.divide(on_eliminated))
        step[blocks.dense] = dense
        step[blocks.eliminated] = blocks.within.divide(on_eliminated - dense @ blocks.b)
        return step

    def schur_inverse(self) -> np.ndarray:
        """S^-1."""
        return scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.factor)))

    def bread(self) -> Bread:
        """The inverse."""
        blocks = self.blocks
        return Bread(blocks.dense, blocks.eliminated, self.schur_inverse(), self.loadings, blocks.d)

    def effective_coefficients(self, ridge: np.ndarray) -> float:
        """The trace of (I + P)^-1 I, with P = diag(ridge). The blocks already contain P. Without a ridge, the number of
        coefficients."""
        blocks = self.blocks
        free = len(blocks.dense) + len(blocks.eliminated)
        if not ridge.any():
            return free
        # trace((I + P)^-1 I) = p - trace((I + P)^-1 P), and P is diagonal.
        on_dense, on_eliminated = self.inverse_diagonal()
        return free - float(on_dense @ ridge[blocks.dense]) - float(on_eliminated @ ridge[blocks.eliminated])

    def inverse_diagonal(self) -> tuple[np.ndarray, np.ndarray]:
        """The diagonal of the inverse: of the dense coefficients, and of the eliminated ones."""
        inverse = self.schur_inverse()
        on_eliminated = self.blocks.within.inverse.diagonal + np.einsum(
            "ij,ij->j", self.loadings, inverse @ self.loadings
        )
        return np.diag(inverse), on_eliminated

    def log_determinant(self) -> float:
        return float(2 * np.log(np.diag(self.factor)).sum() + self.blocks.within.log_determinant)

    def traces(self, weights: np.ndarray) -> np.ndarray:
        """The traces of A^-1 D_j A^-1 D_k for A = X'WX and the diagonal matrices D_j of `weights` [matrices, p], [matrices,
        matrices]."""
        inverse, loadings, blocks = self.schur_inverse(), self.loadings, self.blocks
        dense, others = weights[:, blocks.dense], weights[:, blocks.eliminated]
        mixed = inverse @ loadings
        crossed = dense @ mixed**2 @ others.T
        inner = blocks.within.within(loadings, mixed)
        if blocks.d.ndim == 1:
            alone = others * (1.0 / blocks.d + 2 * inner) / blocks.d
        else:
            within = blocks.within.inverse.values
            alone = BlockDiagonal(within * (within + 2 * inner)).times(others)
        between = [(mixed * each) @ loadings.T for each in others]
        pairs = np.array([[np.sum(one * other.T) for other in between] for one in between])
        return dense @ inverse**2 @ dense.T + crossed + crossed.T + alone @ others.T + pairs


def factor(blocks: Blocks) -> Factored:
    """Factor the Schur complement S. Raises scipy.linalg.LinAlgError if S or D is not positive definite."""
    if not np.all(blocks.within.diagonal > 0):
        raise scipy.linalg.LinAlgError("an eliminated coefficient has no information")
    return Factored(blocks, scipy.linalg.cholesky(schur_complement(blocks), lower=True))


def schur_complement(blocks: Blocks) -> np.ndarray:
    """S; only its lower triangle is filled."""
    schur, levels = blocks.a.copy(), blocks.d.shape[-1]
    by_level = blocks.b.reshape(len(schur), blocks.b.shape[1] // levels, levels) if levels else blocks.b[:, None]

    def fill(first: int) -> None:
        last = first + STRIP
        for begin in range(0, levels, CHUNK):
            chunk = slice(begin, begin + CHUNK)
            mixed = by_level[:last, :, chunk].reshape(len(by_level[:last]), -1)
            loadings = blocks.within.divide(mixed[first:], chunk)
            schur[first:last, :last] -= loadings @ mixed.T

    strips = range(0, len(schur), STRIP)
    if len(strips) == 1:
        fill(0)  # starting threads takes longer
        return schur
    with ThreadPoolExecutor(THREADS) as threads:
        # The longest strips first, so that no thread waits long for another.
        list(threads.map(fill, reversed(strips)))
    return schur


def null_vectors(
    blocks: Blocks, size: int, schur: np.ndarray | None = None, estimable: Collection[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The dense columns that earlier columns and the eliminated term make redundant, by their positions in the coefficient
    vector of this `size`, and the directions that show it: vectors v [columns, coefficients] with X v = 0.

    A redundant column is the first pivot of the Cholesky factorisation of S below `ALIASED_BELOW` times its entry in A. It
    is removed, and the search repeats. `schur` is the lower triangle of S, if the blocks lack some eliminated coefficients.
    Columns at the positions `estimable` are not redundant, even if their pivots are small.

    The third column is twice the first:

    >>> x = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 2.0], [1.0, 3.0, 2.0]])
    >>> none = np.zeros(0)
    >>> positions, directions = null_vectors(Blocks(np.arange(3), none.astype(int), x.T @ x, np.zeros((3, 0)), none), 3)
    >>> positions.tolist(), directions.round(6).tolist()
    ([2], [[-1.0, 0.0, 0.5]])
    """
    null, aliased = [], []
    schur = schur_complement(blocks) if schur is None else schur
    schur = np.tril(schur) + np.tril(schur, -1).T
    scale = np.sqrt(np.diag(blocks.a))
    scale[scale == 0] = 1.0
    schur = schur / scale[:, None] / scale
    size_of_column = np.zeros(size)
    size_of_column[blocks.dense], size_of_column[blocks.eliminated] = scale, np.sqrt(blocks.within.diagonal)
    kept = np.arange(len(schur))
    while True:
        known = np.isin(blocks.dense[kept], list(estimable))
        first, lower = _first_small_pivot(schur[np.ix_(kept, kept)], known)
        if first is None:
            break
        before, column = kept[:first], kept[first]
        coordinates = scipy.linalg.cho_solve((lower, True), schur[before, column])
        on_dense = np.zeros(len(schur))
        on_dense[before], on_dense[column] = -coordinates / scale[before], 1.0 / scale[column]
        vector = np.zeros(size)
        vector[blocks.dense] = on_dense
        vector[blocks.eliminated] = -blocks.within.divide(on_dense @ blocks.b)
        reach = np.abs(vector) * size_of_column
        vector[reach <= NEGLIGIBLE * reach.max()] = 0.0
        null.append(vector / np.abs(vector).max())
        aliased.append(blocks.dense[column])
        kept = np.delete(kept, first)
    return np.array(aliased, int), np.array(null).reshape(len(null), size)


def _first_small_pivot(matrix: np.ndarray, known: np.ndarray) -> tuple[int | None, np.ndarray]:
    """The index of the first pivot below the tolerance, or None, and the Cholesky factor of the columns before it. Columns that
    are `known` not to be redundant are skipped."""
    lower, stopped = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
    good = stopped - 1 if stopped > 0 else len(matrix)
    small = np.flatnonzero(np.diag(lower)[:good] ** 2 < np.where(known[:good], 0.0, ALIASED_BELOW))
    first = small[0] if len(small) else good
    return (None if first == len(matrix) else int(first)), lower[:first, :first]


def inverse_state(design: Design, bread: Bread) -> dict[str, np.ndarray]:
    """An inverse information matrix, in the form that a pass needs."""
    mixed = bread.schur_inverse @ bread.loadings
    within = BlockDiagonal(bread.d.inverse.values + bread.d.within(bread.loadings, mixed)).blocks
    eliminated = [design.parts[k].where for k in design.eliminated_parts]
    return leverage.state_of(
        design.size, (bread.dense, bread.eliminated), eliminated, (bread.schur_inverse, -mixed, within)
    )
