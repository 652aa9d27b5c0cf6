"""The information matrix with absorbed factors. Their part is sparse, and conjugate gradients solve with it.

A is the dense part of the covariates (the reported coefficients), M the part of the absorbed factors, and B is between them:

    X'WX = [[A, B], [B', M]],   Z = M^- B',   S = A - B Z.

M has the sums of the weights by level on its diagonal, and by pair of levels of two factors off the diagonal. Only pairs that
occur are stored. These are few, and never more than rows.

The largest factor e is eliminated from M exactly, because its own block is the diagonal D_e. With the block E between the levels
of e and the others, T = M_oo - E' D_e^-1 E remains. T is never built. Preconditioned conjugate gradients (Hestenes & Stiefel
1952; Golub & Van Loan, Matrix Computations, 11.5) multiply by it. The preconditioner is the diagonal of T, which is known
exactly. If that takes more than `PATIENCE` steps, it is the approximate Cholesky factors of the blocks of T of each large factor
(solvers.approximate_cholesky).

M is singular, because within a connected component the levels of two factors have the same sum. A system is solvable if its
right side has the same equality. Its solutions make the same predictions. Conjugate gradients find a solution as if the matrix
were not singular (Kaasschieter, Journal of Computational and Applied Mathematics 24, 1988). Rounding errors of right sides along
the null directions are removed.

A factor with slopes has several coefficients for each level, so that D_e is not diagonal. Then the coefficients of each level
change to x = C y, so that C' M C has diagonal blocks by level (Gram-Schmidt on the columns of a level). All else is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse

from tfglm.engine.cell_kernels import add_own_forms, subtract_product, subtract_squares
from tfglm.errors import UserError
from tfglm.solvers.approximate_cholesky import ApproximateCholesky
from tfglm.solvers.information import Blocks, Factored
from tfglm.solvers.pattern import Pattern

TOLERANCE = 1e-10
"""Largest residual for Z, as a share of the right side. Both are in the norm of the inverse diagonal of T."""

TOLERANCE_OF_STEP = 1e-6
"""The same for a Newton step. The next step corrects the rest of the gradient."""

CANCELLED = 1e-4
"""Smallest size of a right side after the elimination of the largest factor, as a share of its size before. If the factor
determines a covariate, only rounding errors remain, and they are not solved for."""

LEAST = 1e-6
"""Largest residual with which standard errors are reported."""

LEAST_OF_STEP = 1e-2
"""The same for a step of a search, which later steps correct."""

MOST_STEPS = 20_000
STALLED = 500
"""Largest number of steps of conjugate gradients, and of steps without a smaller residual."""

PATIENCE = 30
"""Steps with the diagonal as the preconditioner. A fit that needs more of them once uses approximate factors from then on."""

FEW_LEVELS = 200
"""A factor of so many levels keeps its diagonal."""

AT_ONCE = 16
"""Right sides that are solved for at the same time."""

CONSTANT = 1e-12
"""A number is constant within a level, or determined by earlier ones, if so little remains of its sum of squares there."""

EMPTY = 1e-13
"""A diagonal entry of T is 0 below this share of the entry in M. All rows of such a level have the same level of the largest
factor, and the rest is rounding."""

SINGULAR = 1e-11
"""Smallest pivot of T, with a diagonal of 1, that is no rounding error."""


def product(matrix: scipy.sparse.sparray, vectors: np.ndarray) -> np.ndarray:
    """A matrix times vectors [rows, columns]. SciPy is faster for a single vector."""
    return (matrix @ vectors[:, 0])[:, None] if vectors.shape[1] == 1 else matrix @ vectors


@dataclass(frozen=True, eq=False)
class SparsePart:
    """M for some weights: `diagonal` [m], and `weights` by pair (solvers.pattern). The upper entries of the blocks by level
    follow, for each factor and each two of its coefficients [levels]. `changed` are E and M_oo in other coordinates, in which
    the blocks by level are diagonal."""

    pattern: Pattern
    diagonal: np.ndarray
    weights: np.ndarray
    changed: tuple[scipy.sparse.csr_array, scipy.sparse.csr_array] | None = None

    @cached_property
    def _blocks(self) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """E and the upper triangle of M_oo, without the blocks by level."""
        if self.changed:
            return self.changed
        pattern = self.pattern
        of_e, of_others, _ = np.split(self.weights, [len(pattern.with_largest.columns), pattern.pairs])
        return pattern.with_largest.matrix(of_e), pattern.among.matrix(of_others)

    def _by_level(self, values: Sequence[np.ndarray]) -> scipy.sparse.csr_array:
        """The upper triangular matrix [m, m] with these values [levels] for each factor and each two of its coefficients."""
        rows, columns = [], []
        for where, levels in zip(self.pattern.factors, self.pattern.levels, strict=True):
            starts = range(where.start, where.stop, levels)
            for first, second in combinations(starts, 2):
                rows.append(np.arange(first, first + levels))
                columns.append(np.arange(second, second + levels))
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return scipy.sparse.csr_array(entries, shape=(self.pattern.size, self.pattern.size))

    @cached_property
    def _within(self) -> scipy.sparse.csr_array:
        """The blocks by level above their diagonal, [m, m]."""
        return self._by_level([self.weights[self.pattern.pairs :]])

    @cached_property
    def orthogonal(self) -> tuple["SparsePart", scipy.sparse.csr_array]:
        """C' M C and C (see above). Columns of C are 0 for coefficients that earlier ones of their level determine."""
        pattern, pivots, shares, before = self.pattern, np.zeros(self.pattern.size), [], self.pattern.pairs
        for where, levels in zip(pattern.factors, pattern.levels, strict=True):
            own = self.diagonal[where].reshape(-1, levels)
            count = len(own)
            block, basis = np.zeros((2, count, count, levels))
            for i, k in combinations(range(count), 2):
                block[i, k] = block[k, i] = self.weights[before : before + levels]
                before += levels
            for k in range(count):
                block[k, k], basis[k, k] = own[k], 1.0
                for i in range(k):
                    share = np.einsum("al,abl,bl->l", basis[:, i], block, basis[:, k])
                    place = slice(where.start + i * levels, where.start + (i + 1) * levels)
                    basis[:, k] -= basis[:, i] * np.divide(share, pivots[place], where=pivots[place] > 0, out=0 * share)
                pivot = np.einsum("al,abl,bl->l", basis[:, k], block, basis[:, k])
                basis[:, k, pivot <= CONSTANT * own[k]] = 0.0
                place = slice(where.start + k * levels, where.start + (k + 1) * levels)
                pivots[place] = np.where(pivot > CONSTANT * own[k], pivot, 0.0)
            shares += [basis[i, k] for i, k in combinations(range(count), 2)]
        change = (self._by_level(shares) + scipy.sparse.diags_array((pivots > 0).astype(float))).tocsr()
        largest, others, (with_largest, among) = pattern.eliminated, pattern.others, self._blocks
        of_largest, of_others = change[largest, largest], change[others][:, others]
        changed = (
            scipy.sparse.csr_array(of_largest.T @ with_largest @ of_others),
            scipy.sparse.csr_array(scipy.sparse.triu(of_others.T @ (among + among.T) @ of_others, 1)),
        )
        return replace(self, diagonal=pivots, changed=changed), change

    @cached_property
    def _inverse(self) -> np.ndarray:
        """D_e^-1, [coefficients of the largest factor, 1]; 0 for levels without rows."""
        diagonal = self.diagonal[self.pattern.eliminated]
        return np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]

    @cached_property
    def _inverse_diagonal(self) -> np.ndarray:
        """The inverse of the diagonal of T, [o, 1]. It is 0 if the entry is 0, because the whole row is 0 then."""
        entries, own = self._blocks[0], self.diagonal[self.pattern.others]
        left = own.copy()
        subtract_squares(entries.indptr, entries.indices, entries.data, self._inverse[:, 0], left)
        return np.divide(1.0, left, out=np.zeros_like(left), where=left > EMPTY * own)[:, None]

    @cached_property
    def _factors(self) -> list[tuple[slice, ApproximateCholesky]]:
        """The approximate factors of the blocks of T of large factors, with their places in T. Slopes have none, and are left
        out of T for those of effects."""
        pattern, entries, own = self.pattern, self._blocks[0], self.diagonal[self.pattern.others]
        if not pattern.has_effects[pattern.largest]:
            return []
        eliminated = pattern.levels[pattern.largest]
        args = (entries.indptr[: eliminated + 1], entries.indices, entries.data), self._inverse[:eliminated, 0]
        starts = [
            (pattern.place(k), size)
            for k, size in enumerate(pattern.levels)
            if k != pattern.largest and pattern.has_effects[k] and size > FEW_LEVELS
        ]
        places = [slice(start, start + size) for start, size in starts]
        return [(place, ApproximateCholesky.of(*args, own[place], EMPTY * own[place], place)) for place in places]

    def inverse_parts(self) -> dict[str, np.ndarray]:
        """M^- in the parts that leverages need (engine.cells): the dense `inverse` of T [o, o], D_e^-1 E in compressed sparse
        rows, and `own`, the entry of M^- for each level of the largest factor.

        T is singular. Pivoted Cholesky factors a largest regular part of it (Higham, Accuracy and Stability of Numerical
        Algorithms, 10.3), and the other entries of the inverse are 0. Quadratic forms of rows do not depend on the choice.
        """
        (with_largest, among), inverse = self._blocks, self._inverse[:, 0]
        starts, columns = with_largest.indptr, with_largest.indices
        shares = with_largest.data * np.repeat(inverse, np.diff(starts))
        moved = scipy.sparse.csr_array((shares, columns, starts), shape=with_largest.shape)
        left = (among + among.T - with_largest.T @ moved).toarray() + np.diag(self.diagonal[self.pattern.others])
        result = np.zeros_like(left)
        if len(left):
            scale = np.sqrt(self._inverse_diagonal)
            factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(left * scale * scale.T, tol=SINGULAR, lower=1)
            kept = pivots[:rank] - 1
            result[np.ix_(kept, kept)] = scipy.linalg.cho_solve((factor[:rank, :rank], True), np.eye(rank))
            result *= scale * scale.T
        own = inverse.copy()
        add_own_forms(starts, columns, shares, result, own)
        return {"inverse": result, "starts": starts, "columns of shares": columns, "shares": shares, "own": own}

    def _preconditioned(self, vectors: np.ndarray) -> np.ndarray:
        """The preconditioner times vectors, [o, columns]."""
        result = self._inverse_diagonal * vectors
        for place, factor in self._factors if self.pattern.slow else ():
            result[place] = factor.solve(vectors[place])
        return result

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """M times vectors, [m, columns]."""
        with_largest, among = self._blocks
        where, others = self.pattern.eliminated, self.pattern.others
        result = self.diagonal[:, None] * vectors
        result[where] += product(with_largest, vectors[others])
        result[others] += product(with_largest.T, vectors[where])
        if among.nnz:
            result[others] += product(among, vectors[others]) + product(among.T, vectors[others])
        if self.pattern.has_slopes:
            result += product(self._within, vectors) + product(self._within.T, vectors)
        return result

    def _reduced(self, vectors: np.ndarray) -> np.ndarray:
        """T times vectors, [o, columns]."""
        with_largest, among = self._blocks
        args = (with_largest.indptr, with_largest.indices, with_largest.data, self._inverse[:, 0])
        by_vector = np.ascontiguousarray(vectors.T)
        result = self.diagonal[self.pattern.others] * by_vector
        for vector, of_vector in zip(by_vector, result, strict=True):
            subtract_product(*args, vector, of_vector)
        result = np.ascontiguousarray(result.T)
        if among.nnz:
            result += product(among, vectors) + product(among.T, vectors)
        return result

    def solve(self, right: np.ndarray, start: np.ndarray | None = None, tolerance: float = TOLERANCE) -> "Solved":
        """Solve M x = right for right sides [m, columns], beginning at `start`."""
        if self.pattern.has_slopes and not self.changed:
            orthogonal, change = self.orthogonal
            begin = None if start is None else 2 * start - product(change, start)  # C^-1, for up to two coefficients
            solved = orthogonal.solve(product(change.T, right), begin, tolerance)
            return replace(solved, vectors=product(change, solved.vectors))
        pieces = []
        for first in range(0, right.shape[1], AT_ONCE):
            some = slice(first, first + AT_ONCE)
            begin = None if start is None else np.ascontiguousarray(start[:, some])
            pieces.append(self._solve(np.ascontiguousarray(right[:, some]), begin, tolerance))
        vectors = np.hstack([piece.vectors for piece in pieces]) if pieces else np.zeros_like(right)
        return Solved(vectors, max((piece.left for piece in pieces), default=0.0), sum(piece.steps for piece in pieces))

    def _solvable(self, right: np.ndarray) -> np.ndarray:
        """Right sides for T without their part along null directions."""
        return self.pattern.consistent(right)

    def _solve(self, right: np.ndarray, start: np.ndarray | None, tolerance: float) -> "Solved":
        pattern = self.pattern
        where, others, with_largest = pattern.eliminated, pattern.others, self._blocks[0]
        on_others = self._solvable(right[others] - product(with_largest.T, self._inverse * right[where]))
        begin = np.zeros_like(on_others) if start is None else start[others]
        inverse = self._inverse_diagonal
        size = np.maximum(
            np.einsum("ij,ij->j", on_others, inverse * on_others),
            CANCELLED**2 * np.einsum("ij,ij->j", right[others], inverse * right[others]),
        )
        first = MOST_STEPS if pattern.slow else PATIENCE
        found, left, steps = self._conjugate_gradients(on_others, begin, size, tolerance, first)
        if left > tolerance and not pattern.slow:
            pattern.slow.append(True)
            found, left, more = self._conjugate_gradients(on_others, found, size, tolerance, MOST_STEPS)
            steps += more
        vectors = np.empty_like(right)
        vectors[others] = found
        vectors[where] = self._inverse * (right[where] - product(with_largest, found))
        return Solved(vectors, left, steps)

    def _conjugate_gradients(
        self, right: np.ndarray, begin: np.ndarray, size: np.ndarray, tolerance: float, most: int
    ) -> tuple[np.ndarray, float, int]:
        """The solution of T x = right after at most `most` steps, the largest residual (as in `TOLERANCE`), and the number of
        steps.

        `size` is the squared norm of each right side.
        """
        inverse, best = self._inverse_diagonal, begin.copy()
        x, residual = begin.copy(), right - self._reduced(begin)
        left = np.full(right.shape[1], np.inf)
        stalled = np.zeros(right.shape[1], int)
        active = np.arange(right.shape[1])
        scaled = self._preconditioned(residual)
        direction, square = scaled.copy(), np.einsum("ij,ij->j", residual, scaled)
        steps = 0
        while True:
            norm = np.einsum("ij,ij->j", residual, inverse * residual)
            better = norm < left[active]
            best[:, active[better]], left[active[better]] = x[:, better], norm[better]
            stalled[active] = np.where(better, 0, stalled[active] + 1)
            going = (norm > tolerance**2 * size[active]) & (stalled[active] < STALLED)
            if not going.any() or steps == most:
                break
            if not going.all():
                active, square = active[going], square[going]
                x, residual, direction = x[:, going], residual[:, going], direction[:, going]
            moved = self._reduced(direction)
            length = square / np.einsum("ij,ij->j", direction, moved)
            x = x + length * direction
            residual = residual - length * moved
            scaled = self._preconditioned(residual)
            before, square = square, np.einsum("ij,ij->j", residual, scaled)
            direction = scaled + square / before * direction
            steps += 1
        share = np.sqrt(np.divide(left, size, out=np.zeros_like(left), where=size > 0))
        return best, float(share.max(initial=0.0)), steps


@dataclass(frozen=True)
class Solved:
    """Solutions `vectors` [m, columns], the largest residual `left` as a share of the right side, and the number of `steps`."""

    vectors: np.ndarray
    left: float
    steps: int


@dataclass(frozen=True)
class SparseBlocks(Blocks):
    """A, B [dense, m] and M. `eliminated` are the positions of all absorbed levels, and `d` is the diagonal of M. `accuracy` has
    the residual at which a solution ends, and the largest that is accepted."""

    sparse: SparsePart
    accuracy: tuple[float, float] = (TOLERANCE, LEAST)

    def damped(self, ridge: np.ndarray) -> "SparseBlocks":
        return replace(self.penalised(ridge), accuracy=(TOLERANCE_OF_STEP, LEAST_OF_STEP))

    def penalised(self, ridge: np.ndarray) -> "SparseBlocks":
        if not ridge.any():
            return self
        d = self.d + ridge[self.eliminated]
        return replace(self, a=self.a + np.diag(ridge[self.dense]), d=d, sparse=replace(self.sparse, diagonal=d))

    def times(self, vector: np.ndarray) -> np.ndarray:
        dense, eliminated = vector[self.dense], vector[self.eliminated]
        result = np.zeros(len(vector))
        result[self.dense] = self.a @ dense + self.b @ eliminated
        result[self.eliminated] = dense @ self.b + self.sparse.times(eliminated[:, None])[:, 0]
        return result

    def plus(self, other: Blocks, factor: float) -> Self:
        assert isinstance(other, SparseBlocks)
        added = super().plus(other, factor)
        weights = self.sparse.weights + factor * other.sparse.weights
        return replace(added, sparse=replace(self.sparse, diagonal=added.d, weights=weights))


@dataclass(frozen=True)
class SparseFactored(Factored):
    """Factored blocks. `factor` is the lower Cholesky factor of S, and `projection` = Z [m, dense]."""

    projection: np.ndarray
    tolerance: ClassVar[float] = TOLERANCE_OF_STEP

    def solve(self, vector: np.ndarray) -> np.ndarray:
        """(X'WX)^- times a vector over all coefficients, [p]. Entries of coefficients that are not free are ignored; the result
        is 0 there."""
        blocks = self.blocks
        assert isinstance(blocks, SparseBlocks)
        on_dense, on_absorbed = vector[blocks.dense], vector[blocks.eliminated]
        step = np.zeros(len(vector))
        dense = scipy.linalg.cho_solve((self.factor, True), on_dense - on_absorbed @ self.projection)
        step[blocks.dense] = dense
        step[blocks.eliminated] = blocks.sparse.solve(
            (on_absorbed - dense @ blocks.b)[:, None], tolerance=self.tolerance
        ).vectors[:, 0]
        return step

    @property
    def reported_part(self) -> Factored:
        """The part of the reported coefficients, which the results need."""
        blocks, none = self.blocks, np.zeros(0)
        return Factored(
            Blocks(blocks.dense, none.astype(int), blocks.a, np.zeros((len(blocks.dense), 0)), none), self.factor
        )


def solved(blocks: SparseBlocks, right: np.ndarray, model: str, start: np.ndarray | None = None) -> np.ndarray:
    """M^- times right sides [m, columns]. Conjugate gradients begin at `start`. Raises UserError with the name of the model if
    they do not converge."""
    tolerance, least = blocks.accuracy
    solution = blocks.sparse.solve(right, start, tolerance)
    if solution.left > least:
        raise UserError(
            f"models.{model}.absorb: so few rows connect the levels of the absorbed factors that the equations for their "
            f"coefficients keep a relative error of {solution.left:.1g} after {solution.steps:,} steps\n"
            f"  leave one of them out, or merge rare levels with data.rare"
        )
    return solution.vectors


def eliminate(blocks: SparseBlocks, model: str, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """S and Z, as `solved`. With the residual R = B' - M Z, the error of S = A - B Z - Z'R is quadratic in the error of Z."""
    projection = solved(blocks, blocks.b.T, model, start)
    rest = blocks.b.T - blocks.sparse.times(projection)
    schur = blocks.a - blocks.b @ projection - projection.T @ rest
    return (schur + schur.T) / 2, projection


def factor(blocks: SparseBlocks, model: str, start: np.ndarray | None = None) -> SparseFactored:
    """Eliminate the absorbed coefficients and factor S. Raises scipy.linalg.LinAlgError if S is not positive definite, or if
    the weights of some levels are rounding errors."""
    schur, projection = eliminate(blocks, model, start)
    if not np.all(np.isfinite(schur)):
        raise scipy.linalg.LinAlgError("conjugate gradients met a direction without weight")
    return SparseFactored(blocks, scipy.linalg.cholesky(schur, lower=True), projection)
