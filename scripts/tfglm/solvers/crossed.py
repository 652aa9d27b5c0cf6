"""Crossed random effects of any size, `(1 | user) + (1 | film)`, in a linear regression.

The largest factor is eliminated exactly (solvers.sparse_information). Beyond the limit of a dense matrix, the matrix T of the
other factors is never built. With D = diag(T) and B = D^-1/2 T D^-1/2:

1. Conjugate gradients solve with T. Penalties on its diagonal make it positive definite and well conditioned. Estimates, the
   variances of coefficients without a penalty, and the derivatives of the estimates by log lambda are exact.
2. Traces of the inverse and log|B| are means over `PROBES` fixed random vectors of signs (Hutchinson 1990), and sums over one
   vector for each factor, D^1/2 times a constant. That is nearly the direction in which B is smallest, and the probes are
   orthogonal to it (Meyer, Musco, Musco and Woodruff, Hutch++, SOSA 2021). Conjugate gradients for a probe also have the Lanczos
   matrix of its quadrature of log|B| (Ubaru, Chen and Saad, SIAM Journal on Matrix Analysis 38, 2017).
3. Newton's method finds where the derivatives of V by log lambda are 0 (solvers.reml). Its second derivatives are the average
   of observed and expected ones, which need no trace (Gilmour, Thompson and Cullis, Biometrics 51, 1995).

The spread over probes gives the errors of these means, and so of V, standard deviations and estimates (`Simulation`).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.linalg

from tfglm.design.checks import crossed_terms, listed_in_words
from tfglm.engine.cell_kernels import subtract_products
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.bread import Bread
from tfglm.solvers.absorbed import CellIndex, sparse_blocks
from tfglm.solvers.information import Blocks, Factored, gradient
from tfglm.solvers.newton import CONVERGED_BELOW, PRECISE_BELOW
from tfglm.solvers.objective import CountedRows, Point, Solution
from tfglm.solvers.reml import STRAIGHT, Parameters, Penalties, WorkingModel, best_phi, covariance_of, varies
from tfglm.solvers.run import Run
from tfglm.solvers.smooth import PERFECT_WITHIN, SmoothObjective, refuse_single_rows, root_of
from tfglm.solvers.smooth_report import report
from tfglm.solvers.sparse_information import SparseBlocks, SparseFactored, SparsePart, eliminate, product

PROBES, SEED = 30, 1
"""Random vectors behind each trace, the same in each fit."""

TOLERANCE_OF_PROBES = 1e-6
"""Largest residual of a probe, as a share of its size."""

AT_ONCE, THREADS = 8, 2
"""Vectors that a loop multiplies together, and such loops at the same time. The results are the same for any number."""

MOST_STEPS, LONGEST, SETTLED = 100, 3.0, 1e-7
"""The largest number of steps of log lambda, the longest step, and the last one."""

MOST_CORRECTIONS = 4
"""The largest number of Newton steps of b at the end, which correct the residuals of conjugate gradients."""


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
        size, there = len(scale), scale[:, 0] > 0
        constants = np.zeros((size, len(pattern.factors) - 1))
        for number, k in enumerate(k for k in range(len(pattern.factors)) if k != pattern.largest):
            start, levels = pattern.place(k), pattern.factors[k].stop - pattern.factors[k].start
            inside = slice(start, start + levels)
            constants[inside, number] = np.divide(1.0, scale[inside, 0], out=np.zeros(levels), where=there[inside])
        constants /= np.linalg.norm(constants, axis=0)
        signs = np.random.default_rng(SEED).integers(0, 2, (size, PROBES)) * 2.0 - 1.0
        signs = np.where(there[:, None], signs, 0.0)
        probes = np.hstack([constants, signs - constants @ (constants.T @ signs)])
        share = np.append(np.ones(constants.shape[1]), np.full(PROBES, 1 / PROBES))
        solved, logarithms = self._solved_with_logarithms(probes, scale)
        right, left = scale * probes, scale * solved
        # M^-1 has the blocks T^-1 and D_e^-1 + D_e^-1 E T^-1 E' D_e^-1.
        moved = [self._inverse * product(self._blocks[0], each) for each in (right, left)]
        products = np.empty((pattern.size, len(share)))
        products[pattern.others], products[pattern.eliminated] = right * left, moved[0] * moved[1]
        inverse = products @ share
        inverse[pattern.eliminated] += self._inverse[:, 0]
        samples = np.array([products[where, -PROBES:].sum(axis=0) for where in pattern.factors])
        diagonal = self.diagonal[pattern.eliminated]
        known = np.log(diagonal[diagonal > 0]).sum() - 2 * np.log(scale[there]).sum()
        error = float(np.std(logarithms[-PROBES:], ddof=1) / np.sqrt(PROBES))
        return Probed(inverse, samples, float(known + logarithms @ share), error)

    def _solved_with_logarithms(self, right: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B^-1 r, [o, k], and the quadratures of r' log(B) r, [k], for the columns r of `right` [o, k]. `scale` is D^-1/2."""
        x, residual, direction = np.zeros_like(right), right.copy(), right.copy()
        first = square = np.einsum("ij,ij->j", right, right)
        going, lengths, ratios = np.flatnonzero(first > 0), [], []
        while len(going):
            moved = scale * self._reduced(scale * direction[:, going])
            length = square[going] / np.einsum("ij,ij->j", direction[:, going], moved)
            x[:, going] += length * direction[:, going]
            residual[:, going] -= length * moved
            before, square = square, square.copy()
            square[going] = np.einsum("ij,ij->j", residual[:, going], residual[:, going])
            ratio = square[going] / before[going]
            direction[:, going] = residual[:, going] + ratio * direction[:, going]
            for values, found in ((lengths, length), (ratios, ratio)):
                values.append(np.full(len(first), np.nan))
                values[-1][going] = found
            going = going[square[going] > TOLERANCE_OF_PROBES**2 * first[going]]
        forms = np.zeros(len(first))
        for column in np.flatnonzero(first > 0):
            length, ratio = (np.array([each[column] for each in values]) for values in (lengths, ratios))
            length, ratio = length[~np.isnan(length)], ratio[~np.isnan(ratio)][:-1]
            diagonal = 1 / length
            diagonal[1:] += ratio / length[:-1]
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, np.sqrt(ratio) / length[:-1])
            forms[column] = first[column] * (vectors[0] ** 2 @ np.log(values))
        return x, forms


@dataclass(frozen=True)
class CrossedBlocks(SparseBlocks):
    """A, B and M with penalties. All levels stay in M."""

    def restrict(self, free: np.ndarray) -> Blocks:
        rows = free[self.dense]
        dense, a, b = self.dense[rows], self.a[np.ix_(rows, rows)], self.b[rows]
        if free[self.eliminated].any():
            return replace(self, dense=dense, a=a, b=b)
        return Blocks(dense, self.eliminated[:0], a, b[:, :0], self.d[:0])


@dataclass(frozen=True)
class CrossedFactored(SparseFactored):
    """Factored blocks with the estimates from probes."""

    @property
    def probed(self) -> Probed:
        assert isinstance(self.blocks, CrossedBlocks)
        assert isinstance(self.blocks.sparse, RidgedPart)
        return self.blocks.sparse.probed

    def solve(self, vector: np.ndarray) -> np.ndarray:
        blocks = self.blocks
        assert isinstance(blocks, CrossedBlocks)
        on_dense, on_levels = vector[blocks.dense], vector[blocks.eliminated]
        dense = scipy.linalg.cho_solve((self.factor, True), on_dense - on_levels @ self.projection)
        step = np.zeros(len(vector))
        step[blocks.dense] = dense
        step[blocks.eliminated] = blocks.sparse.solve((on_levels - dense @ blocks.b)[:, None]).vectors[:, 0]
        return step

    def inverse_diagonal(self) -> tuple[np.ndarray, np.ndarray]:
        inverse = self.schur_inverse()
        of_dense = np.einsum("ij,jk,ik->i", self.projection, inverse, self.projection)
        return np.diag(inverse), self.probed.inverse + of_dense

    def log_determinant(self) -> float:
        return float(2 * np.log(np.diag(self.factor)).sum()) + self.probed.log_determinant

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
            near = next(iter(self.last.values()), None)
            schur, projection = eliminate(blocks, self.name, near.projection if near else None)
            self.last.clear()
            self.last[key] = CrossedFactored(blocks, scipy.linalg.cholesky(schur, lower=True), projection)
        return self.last[key]


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

    def reported_error(self, error: np.ndarray, factored: Factored) -> np.ndarray:
        """M is at least P, so the form of an error in M^-1 is at most that in P^-1."""
        bread, error = factored.bread(), error.copy()
        error[bread.eliminated] *= np.sqrt(bread.diagonal / self.ridge[bread.eliminated])
        return error


@dataclass(frozen=True, eq=False)
class Turn:
    """V and its derivatives at some log lambda. `gradient` [lambdas] and `hessian` [lambdas + 1, lambdas + 1], whose last entry is of
    log phi, and `moved` [lambdas, p] are as in `reml.Derivatives`. `effective` [lambdas] are effective degrees of freedom.
    `spread` [lambdas, lambdas] is the covariance of the error of the gradient, and `lengths` [lambdas, lambdas] are the squared
    lengths of `moved` in standard errors."""

    parameters: Parameters
    b: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    moved: np.ndarray
    effective: np.ndarray
    spread: np.ndarray
    lengths: np.ndarray

    @classmethod
    def at(cls, model: CrossedModel, parameters: Parameters) -> "Turn":
        penalties, factored = model.penalties, model.penalised(parameters.log_lambda)
        b = factored.solve(model.right)
        loss = model.constant - 0.5 * float(model.right @ b)
        log_phi = best_phi(model, loss, parameters.log_phi)
        phi = np.exp(log_phi)
        weights = np.exp(parameters.log_lambda)[:, None] * penalties.weights
        pulled = weights * b
        moved = -np.array([factored.solve(each) for each in pulled])
        lengths = -pulled @ moved.T / phi
        squares = pulled @ b / phi
        (on_dense, on_levels), blocks = factored.inverse_diagonal(), factored.blocks
        traces = weights[:, blocks.dense] @ on_dense + weights[:, blocks.eliminated] @ on_levels
        samples, factors = factored.probed.samples, blocks.sparse.pattern.factors
        of_levels = weights[:, blocks.eliminated]
        largest = np.array([[each[where].max() for where in factors] for each in of_levels])
        halved = 0.5 * largest @ samples
        size = len(penalties.smooths)
        hessian = np.zeros((size + 1, size + 1))
        hessian[:size, :size] = 0.5 * (np.diag(squares) - lengths)
        hessian[:size, size] = hessian[size, :size] = -0.5 * squares
        hessian[size, size] = loss / phi + model.dispersed(log_phi).curvature
        return cls(
            replace(parameters, log_phi=log_phi),
            b,
            0.5 * (squares + traces - penalties.ranks),
            hessian,
            moved,
            penalties.ranks - traces,
            np.cov(halved).reshape(size, size) / PROBES,
            lengths,
        )

    def step(self, free: np.ndarray) -> np.ndarray:
        """Newton's step of the log lambdas marked in `free`, with the best phi, [lambdas]."""
        which = np.append(free, True)
        slope = np.append(self.gradient, 0.0)[which]
        step = np.zeros(len(free))
        step[free] = -np.linalg.lstsq(self.hessian[np.ix_(which, which)], slope, rcond=None)[0][:-1]
        return np.clip(step, -LONGEST, LONGEST)


def lowest(model: CrossedModel, parameters: Parameters, start: Solution) -> tuple[Turn, bool]:
    """Where the derivatives of V by log lambda are 0, and whether the search has settled. If the effects of a term are nearly 0,
    and V falls as lambda rises, lambda is infinite."""
    penalties, tell = model.penalties, start.objective.run.reporter.tell
    for _ in range(MOST_STEPS):
        turn = Turn.at(model, parameters)
        log_lambda = parameters.log_lambda
        straight = (turn.effective < STRAIGHT) & (turn.gradient < 0)
        infinite = straight | ((log_lambda >= penalties.highest) & (turn.gradient < 0))
        step = turn.step(~infinite)
        after = np.where(infinite, penalties.highest, np.clip(log_lambda + step, penalties.lowest, penalties.highest))
        tell(f"log lambda {', '.join(f'{value:.6g}' for value in after)}")
        moved = np.abs(after - log_lambda).max()
        if moved <= SETTLED:
            return turn, True
        parameters = replace(turn.parameters, log_lambda=after)
    return turn, False


def solve(start: Solution) -> Solution:
    """Minimise F at the smoothing parameters that minimise V. Raises UserError if these do not settle."""
    objective = start.objective
    assert isinstance(objective, CrossedObjective)
    refuse_single_rows(objective)
    penalties = Penalties.of(objective, start.point.information)
    near = WorkingModel.near(objective, start.point, penalties)
    model = CrossedModel(**{name: getattr(near, name) for name in WorkingModel.__dataclass_fields__})
    turn, settled = lowest(model, penalties.begin(start.near), start)
    parameters, name = turn.parameters, objective.design.model
    if not settled:
        raise UserError(
            f"models.{name}.formula: the variances of the random effects did not settle in {MOST_STEPS} steps; leave one out"
        )
    if np.any(at_zero := parameters.log_lambda <= penalties.lowest):
        terms = [penalties.smooths[place].term for place in np.flatnonzero(at_zero)]
        raise UserError(f"models.{name}.formula: {listed_in_words(terms)} {PERFECT_WITHIN}")
    factored = model.penalised(parameters.log_lambda)
    objective = replace(objective, ridge=penalties.ridge(parameters.log_lambda))
    effective, best = objective.effective(factored), None
    df_residual = float(objective.counts["rows"]) - effective
    coefficients = turn.b
    for iterations in range(1, MOST_CORRECTIONS + 1):
        point = objective.at(coefficients, "gradient")
        step = -factored.solve(slope := objective.gradient(point))
        square = max(float(-step @ slope), 0.0) / objective.dispersion(point, df_residual)
        if best is None or square < best[0]:
            best = square, point, iterations
        if best[0] <= PRECISE_BELOW or square > best[0]:
            break
        coefficients = coefficients + step
    square, point, iterations = best
    which = varies(penalties, parameters)
    covariance = covariance_of(turn.hessian, which)
    root = root_of(covariance)
    moved = np.delete(root, len(root) - 1, axis=1) @ turn.moved
    solution = replace(
        start,
        objective=objective,
        point=point,
        information=factored,
        iterations=iterations,
        converged=square <= CONVERGED_BELOW,
        certificate={"lambda_squared": square},
        violation=objective.violation(point),
        effective=effective,
        has_covariance=True,
        smoothing_root=moved,
        log_lambda=parameters.log_lambda,
        variance_root=root,
        near=None,
    )
    terms = [smooth.term for smooth in penalties.smooths]
    return replace(
        solution,
        smooths=report(solution, penalties, parameters, model, covariance, terms)
        | simulated(turn, factored, covariance),
    )


def simulated(turn: Turn, factored: CrossedFactored, covariance: np.ndarray) -> dict:
    """What fit.json says of the error of probes: their number, and the standard errors of V, of the logarithms of the standard deviations
    of random effects and of any coefficient, in its own standard errors."""
    size = len(turn.gradient)
    spread = covariance[:, :size] @ turn.spread @ covariance[:size]
    directions = np.column_stack([-0.5 * np.eye(size), np.full(size, 0.5)])
    return {
        "simulation": {
            "probes": PROBES,
            "reml": 0.5 * factored.probed.error,
            "log_std_dev": np.sqrt(np.einsum("ij,jk,ik->i", directions, spread, directions)).tolist(),
            "standard_errors": float(np.sqrt(max(np.sum(spread[:size, :size] * turn.lengths), 0.0))),
        }
    }
