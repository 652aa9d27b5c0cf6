"""Crossed random effects of any size, `(1 | user) + (1 | film)`, in a linear regression.

The largest factor is eliminated exactly (solvers.sparse_information). Beyond the limit of a dense matrix, the matrix T of the
other factors is never built. With D = diag(T) and B = D^-1/2 T D^-1/2:

1. Conjugate gradients solve with T. Penalties on its diagonal make it positive definite and well conditioned. Estimates, the
   variances of coefficients without a penalty, and the derivatives of the estimates by log lambda are exact.
2. Traces of the inverse and log|B| are means over `PROBES` fixed random vectors of signs (Hutchinson 1990), and sums over one
   vector for each factor, D^1/2 times a constant, or over all unit vectors of a small factor. The constants are nearly the
   directions in which B is smallest, and the probes are orthogonal to all these (Meyer, Musco, Musco and Woodruff, Hutch++,
   2021). Conjugate gradients for a probe also have the Lanczos matrix of its quadrature of log|B| (Ubaru, Chen and Saad, SIAM
   Journal on Matrix Analysis 38, 2017).
3. Newton's method finds where the derivatives of V by log lambda are 0. Its second derivatives are the average of observed and
   expected ones, which need no trace (Gilmour, Thompson and Cullis, Biometrics 51, 1995), and what earlier steps show. Those at
   the end are differences of first derivatives.

The spread over probes gives the errors of these means, and so those of V, of standard deviations and of estimates.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.linalg

from tfglm.design.checks import crossed_terms, listed_in_words
from tfglm.engine.cell_kernels import subtract_products
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.bread import Bread
from tfglm.solvers import newton
from tfglm.solvers.absorbed import CellIndex, sparse_blocks
from tfglm.solvers.information import Blocks, Factored, gradient
from tfglm.solvers.objective import NOT_FACTORED, CountedRows, Point, Solution
from tfglm.solvers.reml import Derivatives, Parameters, Penalties, RemlDescent, WorkingModel, covariance_of, varies
from tfglm.solvers.run import Run
from tfglm.solvers.smooth import PERFECT_WITHIN, SmoothObjective, learnt, refuse_single_rows, root_of
from tfglm.solvers.smooth_report import report
from tfglm.solvers.sparse_information import TOLERANCE, SparseBlocks, SparseFactored, SparsePart, eliminate, product

PROBES, SEED, FEW_LEVELS = 30, 1, 64
"""Random vectors behind each trace, the same in each fit. A factor of so many levels has exact traces."""

TOLERANCE_OF_PROBES = 1e-6
"""Largest residual of a probe, as a share of its size."""

AT_ONCE, THREADS = 8, 2
"""Vectors that a loop multiplies together, and such loops at the same time. The results are the same for any number."""

DIFFERENCE = 0.05
"""The step of log lambda between first derivatives at the end."""


@dataclass(frozen=True, eq=False)
class Probed:
    """Estimates from probes. `inverse` [m] is the diagonal of M^-1, and `samples` [factors, probes] are its sums by factor and
    probe. `log_determinant` is log|M|, with the standard error `error`."""

    inverse: np.ndarray
    samples: np.ndarray
    log_determinant: float
    error: float


class RidgedPart(SparsePart):
    """M with a penalty on its diagonal, which is not singular."""

    def _solvable(self, right: np.ndarray) -> np.ndarray:
        return right

    def _reduced(self, vectors: np.ndarray) -> np.ndarray:
        if vectors.shape[1] == 1:
            return super()._reduced(vectors)
        entries, (with_largest, among) = self.pattern.with_largest, self._blocks
        args = (entries.starts, entries.columns, with_largest.data, self._inverse[:, 0])

        def times(first: int) -> np.ndarray:
            some = np.ascontiguousarray(vectors[:, first : first + AT_ONCE])
            result = self.diagonal[self.pattern.others][:, None] * some
            subtract_products(*args, some, result)
            return result + product(among, some) + product(among.T, some) if among.nnz else result

        with ThreadPoolExecutor(THREADS) as threads:
            return np.hstack(list(threads.map(times, range(0, vectors.shape[1], AT_ONCE))))

    @cached_property
    def probed(self) -> Probed:
        """The estimates from probes."""
        pattern, scale = self.pattern, np.sqrt(self._inverse_diagonal)
        there = scale[:, 0] > 0
        known = self._known(np.divide(1.0, scale[:, 0], out=np.zeros(len(scale)), where=there))
        signs = np.random.default_rng(SEED).integers(0, 2, (len(scale), PROBES)) * 2.0 - 1.0
        signs[~there] = 0.0
        probes = np.hstack([known, signs - known @ (known.T @ signs)])
        share = np.append(np.ones(known.shape[1]), np.full(PROBES, 1 / PROBES))
        solved, logarithms = self._solved_with_logarithms(probes, scale)
        # M^-1 has the blocks T^-1 and D_e^-1 + D_e^-1 E T^-1 E' D_e^-1.
        right, left = scale * probes, scale * solved
        products = np.empty((pattern.size, len(share)))
        products[pattern.others] = right * left
        products[pattern.eliminated] = product(self._blocks[0], right) * product(self._blocks[0], left)
        products[pattern.eliminated] *= self._inverse**2
        inverse = products @ share
        inverse[pattern.eliminated] += self._inverse[:, 0]
        samples = np.array([products[where, -PROBES:].sum(axis=0) for where in pattern.factors])
        inverses = np.concatenate([self._inverse, self._inverse_diagonal])
        whole = float(logarithms @ share - np.log(inverses[inverses > 0]).sum())
        return Probed(inverse, samples, whole, float(np.std(logarithms[-PROBES:], ddof=1) / np.sqrt(PROBES)))

    def _known(self, root: np.ndarray) -> np.ndarray:
        """The orthonormal columns beside the probes, [o, columns]. `root` [o] is D^1/2."""
        columns = []
        for k, factor in enumerate(self.pattern.factors):
            if k != self.pattern.largest:
                levels = np.arange(factor.stop - factor.start)
                where, is_small = self.pattern.place(k) + levels, len(levels) <= FEW_LEVELS
                column = np.zeros((len(root), len(levels) if is_small else 1))
                column[where, levels if is_small else 0] = root[where]
                size = np.linalg.norm(column, axis=0)
                columns.append(np.divide(column, size, out=column, where=size > 0))
        return np.hstack(columns)

    def _solved_with_logarithms(self, right: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B^-1 r, [o, k], and the quadratures of r' log(B) r, [k], for the columns r of `right` [o, k]. `scale` is D^-1/2."""
        x, residual, direction = np.zeros_like(right), right.copy(), right.copy()
        first = np.einsum("ij,ij->j", right, right)
        square, going, lengths, ratios = first.copy(), np.flatnonzero(first > 0), [], []
        while len(going):
            along = direction[:, going]
            moved = scale * self._reduced(scale * along)
            length = square[going] / np.einsum("ij,ij->j", along, moved)
            x[:, going] += length * along
            residual[:, going] -= length * moved
            after = np.einsum("ij,ij->j", residual[:, going], residual[:, going])
            ratio = after / square[going]
            direction[:, going] = residual[:, going] + ratio * along
            square[going], goes_on = after, after > TOLERANCE_OF_PROBES**2 * first[going]
            # A column that has ended gets steps of its own, which its quadrature does not see.
            lengths.append(np.ones(len(first)))
            ratios.append(np.zeros(len(first)))
            lengths[-1][going], ratios[-1][going] = length, np.where(goes_on, ratio, 0.0)
            going = going[goes_on]
        length, ratio = np.array(lengths), np.array(ratios)[:-1]
        diagonal, beside = 1 / length, np.sqrt(ratio) / length[:-1]
        diagonal[1:] += ratio / length[:-1]
        forms = [scipy.linalg.eigh_tridiagonal(*each) for each in zip(diagonal.T, beside.T, strict=True)]
        return x, first * [vectors[0] ** 2 @ np.log(values) for values, vectors in forms]


@dataclass(frozen=True)
class CrossedBlocks(SparseBlocks):
    """A, B and M with penalties. All levels stay in M."""

    sparse: RidgedPart

    def restrict(self, free: np.ndarray) -> Blocks:
        rows, levels = free[self.dense], free[self.eliminated]
        dense, a, b = self.dense[rows], self.a[np.ix_(rows, rows)], self.b[rows]
        if levels.any():
            return replace(self, dense=dense, a=a, b=b)
        return Blocks(dense, self.eliminated[levels], a, b[:, levels], self.d[levels])


@dataclass(frozen=True)
class CrossedFactored(SparseFactored):
    """Factored blocks with the estimates from probes."""

    blocks: CrossedBlocks
    tolerance: ClassVar[float] = TOLERANCE

    @property
    def probed(self) -> Probed:
        return self.blocks.sparse.probed

    def inverse_diagonal(self) -> tuple[np.ndarray, np.ndarray]:
        inverse = self.schur_inverse()
        of_dense = np.einsum("ij,jk,ik->i", self.projection, inverse, self.projection)
        return np.diag(inverse), self.probed.inverse + of_dense

    def log_determinant(self) -> float:
        return float(2 * np.log(np.diag(self.factor)).sum()) + self.probed.log_determinant

    def traces(self, weights: np.ndarray) -> np.ndarray:
        """Left out; `CrossedModel` does without."""
        return np.zeros((len(weights), len(weights)))

    def bread(self) -> Bread:
        """The inverse, with the diagonal of M^-1 for M^-1 itself. It is at least the inverse diagonal of M."""
        blocks, there = self.blocks, self.blocks.d > 0
        diagonal = 1.0 / np.maximum(self.probed.inverse[there], 1.0 / blocks.d[there])
        return Bread(blocks.dense, blocks.eliminated[there], self.schur_inverse(), self.projection[there].T, diagonal)


@dataclass(frozen=True)
class CrossedModel(WorkingModel):
    """V with the estimates from probes. `last` has the factors of the last log lambda."""

    last: dict[bytes, CrossedFactored] = field(default_factory=dict)

    def penalised(self, log_lambda: np.ndarray) -> CrossedFactored:
        key = log_lambda.tobytes()
        if key not in self.last:
            blocks = self.blocks.penalised(self.penalties.ridge(log_lambda))
            assert isinstance(blocks, CrossedBlocks)
            start = self.last.popitem()[1].projection if self.last else None
            schur, projection = eliminate(blocks, self.name, start)
            self.last[key] = CrossedFactored(blocks, scipy.linalg.cholesky(schur, lower=True), projection)
        return self.last[key]

    def derivatives(self, parameters: Parameters) -> Derivatives:
        """As in `WorkingModel`, with the average of the observed second derivatives by log lambda and their expectation."""
        found = super().derivatives(parameters)
        half = np.diag(found.gradient[:-1] + found.effective - 0.5 * self.penalties.ranks)
        hessian = found.hessian.copy()
        hessian[:-1, :-1] = 0.5 * (hessian[:-1, :-1] + half)
        return found._replace(hessian=hessian)

    def with_differences(self, parameters: Parameters) -> Derivatives:
        """The derivatives, the second of which by a finite log lambda are differences of the first ones."""
        found, finite = self.derivatives(parameters), varies(self.penalties, parameters)[:-1]
        hessian = found.hessian.copy()
        for place in np.flatnonzero(finite):
            step = DIFFERENCE * (np.arange(len(finite)) == place)
            after, before = (
                self.derivatives(replace(parameters, log_lambda=parameters.log_lambda + sign * step)).gradient
                for sign in (1, -1)
            )
            hessian[place] = (after - before) / (2 * DIFFERENCE)
        return found._replace(hessian=(hessian + hessian.T) / 2)


class GradientDescent(RemlDescent):
    """Newton's method for the zero of the gradient of V, whose errors are not those of V. `bend` is what the second derivatives
    lack, as earlier steps show (as in `smooth.ProfileDescent`), and `foretold` the gradient after the last step, `moved`."""

    most = 100

    def __init__(self, model: CrossedModel, parameters: Parameters, tell: Callable[[str], None]):
        super().__init__(model, parameters)
        size = len(parameters.vector)
        self.foretold: np.ndarray | None = None
        self.bend, self.moved, self.tell = np.zeros((size, size)), np.zeros(size), tell

    def find_step(self, derivatives: Derivatives) -> None:
        if self.foretold is not None:
            self.bend = learnt(self.bend, derivatives.gradient - self.foretold, self.moved)
        self.latest = derivatives._replace(hessian=derivatives.hessian + self.bend)
        super().find_step(self.latest)

    def go(self) -> bool:
        before, after = self.parameters.vector, self.parameters.vector + self.step
        after[:-1] = np.clip(after[:-1], self.lowest, self.highest)
        self.moved = after - before
        self.foretold = self.latest.gradient + self.latest.hessian @ self.moved
        self.parameters = Parameters(after[:-1], float(after[-1]))
        self.tell(f"log lambda {', '.join(f'{value:.6g}' for value in after[:-1])}")
        return True


@dataclass(frozen=True, kw_only=True)
class CrossedObjective(SmoothObjective):
    """F with a sparse information matrix of random effects. `index` has their pairs of levels."""

    index: CellIndex | None = None

    @classmethod
    def of(cls, counted: CountedRows, run: Run, without: str | None = None) -> Self:
        objective = super().of(counted, run, without)
        index = CellIndex.of(objective.by_pair, run.executor)
        pairs = " + ".join(f"{size:,} pairs of levels" for size in index.sizes)
        run.reporter.tell(f"crossed: {', '.join(crossed_terms(objective.design))}, {pairs}")
        return replace(objective, index=index)

    @cached_property
    def by_pair(self) -> Workload:
        """The rows for sums by pair of levels, as those of absorbed factors."""
        design = self.design
        return self.workload.with_design(replace(design, absorbed=crossed_terms(design)))

    def at(self, coefficients: np.ndarray, sums: str = "information") -> Point:
        if sums != "information":
            return super().at(coefficients, sums)
        assert self.index
        design = self.by_pair.design
        total, cells = self.index.sum(self.by_pair, self.executor, sums, self.by_pair.state(coefficients))
        found = sparse_blocks(design, total, cells, self.index.pattern, self.free)
        part = RidgedPart(found.sparse.pattern, found.sparse.diagonal, found.sparse.weights)
        blocks = CrossedBlocks(found.dense, found.eliminated, found.a, found.b, found.d, part)
        return Point(coefficients, float(total["loss"]), gradient(design, total), float(total["pearson"]), blocks)

    def factored(self, blocks: Blocks, near: Factored = NOT_FACTORED) -> Factored:
        """The factors of the end, since blocks do not depend on coefficients."""
        assert isinstance(near, CrossedFactored)
        return near

    def reported_error(self, error: np.ndarray, factored: Factored) -> np.ndarray:
        """M is at least P, so the form of an error in M^-1 is at most that in P^-1."""
        bread, error = factored.bread(), error.copy()
        error[bread.eliminated] *= np.sqrt(bread.diagonal / self.ridge[bread.eliminated])
        return error


def solve(start: Solution) -> Solution:
    """Minimise F at the smoothing parameters that minimise V. Raises UserError if these do not settle."""
    objective = start.objective
    refuse_single_rows(objective)
    penalties, name = Penalties.of(objective, start.point.information), objective.design.model
    near = WorkingModel.near(objective, start.point, penalties)
    model = CrossedModel(**{each.name: getattr(near, each.name) for each in fields(WorkingModel)})
    descent = GradientDescent(model, penalties.begin(start.near), objective.run.reporter.tell)
    descent.run()
    parameters = descent.parameters
    if descent.iteration == descent.most:
        raise UserError(
            f"models.{name}.formula: the variances of the random effects did not settle in {descent.most} steps; leave one out"
        )
    if np.any(at_zero := (parameters.log_lambda <= penalties.lowest) & (penalties.lowest < penalties.highest)):
        terms = [penalties.smooths[place].term for place in np.flatnonzero(at_zero)]
        raise UserError(f"models.{name}.formula: {listed_in_words(terms)} {PERFECT_WITHIN}")
    objective = replace(objective, ridge=penalties.ridge(parameters.log_lambda))
    factored, key = model.penalised(parameters.log_lambda), parameters.log_lambda.tobytes()
    point = replace(objective.at(factored.solve(model.right), "gradient"), blocks=model.blocks)
    solution = newton.solve(replace(start, objective=objective, point=point, information=factored, near=None))
    at_end = model.with_differences(parameters)
    covariance = covariance_of(at_end.hessian, varies(penalties, parameters))
    root = root_of(covariance)
    terms, model = [smooth.term for smooth in penalties.smooths], replace(model, last={key: factored})
    facts = report(solution, penalties, parameters, model, covariance, terms)
    return replace(
        solution,
        smooths=facts | simulation(solution, at_end, covariance),
        smoothing_root=root[:, :-1] @ at_end.moved,
        log_lambda=parameters.log_lambda,
        variance_root=root,
    )


def simulation(solution: Solution, at_end: Derivatives, covariance: np.ndarray) -> dict:
    """What fit.json says of the error of probes: their number, and the standard errors of V, of the logarithms of the standard
    deviations of random effects, and of any estimate in its standard errors. `covariance` is that of log lambda and log phi."""
    factored, objective = solution.information, solution.objective
    assert isinstance(factored, CrossedFactored)
    blocks, size = factored.blocks, len(at_end.moved)
    # The factors are the terms, in their order.
    ridges = [objective.ridge[blocks.eliminated[where]].max() for where in blocks.sparse.pattern.factors]
    spread = np.cov(0.5 * np.array(ridges)[:, None] * factored.probed.samples) / PROBES
    errors = covariance[:, :size] @ spread @ covariance[:size]
    ends = np.column_stack([-0.5 * np.eye(size), np.full(size, 0.5)])
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    lengths = at_end.moved @ np.array([blocks.times(each) for each in at_end.moved]).T / dispersion
    return {
        "simulation": {
            "probes": PROBES,
            "reml": 0.5 * factored.probed.error,
            "log_std_dev": np.sqrt(np.einsum("ij,jk,ik->i", ends, errors, ends)).tolist(),
            "standard_errors": float(np.sqrt(max(np.sum(errors[:size, :size] * lengths), 0.0))),
        }
    }
