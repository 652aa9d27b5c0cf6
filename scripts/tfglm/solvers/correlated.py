"""Correlated random effects, `(1 + x | g)`: the origins of the numbers of slopes, by restricted maximum likelihood.

Intercept and slope that are correlated at x = 0 are independent at another origin of x. In general the effects of a level are
u = M'^-1 v with independent v, and a lower triangular M with ones on its diagonal. M[1, 0] is that origin. A fit has the effects
v of numbers that `Design.with_origins` measures from M, and V depends on M too.

Newton's method minimises V over M (solvers.smooth.OriginDescent). A step replaces M by M (I - Delta) and v by (I - Delta)' v. For
the old v this is the penalty P = (I - Delta) Lambda (I - Delta)'. So V has derivatives by Delta as by lambda (solvers.reml),
without a pass over the rows. The determinant of P does not depend on Delta. Each step needs a fit at its origins.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.inference.block_diagonal import BlockDiagonal
from tfglm.solvers.information import Factored
from tfglm.solvers.objective import Solution
from tfglm.solvers.reml import STEP, Derivatives, Parameters, Penalties, WorkingModel, curvature
from tfglm.solvers.smooth_report import QUANTILE, WIDEST

DIFFERENCE = 1e-5
"""The step of parameters for derivatives of standard deviations and correlations."""

MOST_EFFECTS = 6_000
"""The largest number of correlated effects of a group that is not eliminated."""


@dataclass(frozen=True)
class CorrelatedTerms:
    """Random effects of the levels of a factor that are correlated: the numbers of their `terms` in `Penalties`, the intercepts
    first, the names of the `factors` of slopes, '' for intercepts, and the `places` [terms, levels] of the free coefficients."""

    terms: tuple[int, ...]
    factors: tuple[str, ...]
    places: np.ndarray

    def scales(self, design: Design) -> np.ndarray:
        """Of the number of each term, [terms]."""
        return np.array([design.numeric_by_name[name].scale[0] if name else 1.0 for name in self.factors])

    def m(self, design: Design) -> np.ndarray:
        """M on the scale of the fit, [terms, terms]."""
        m = np.eye(len(self.terms))
        for row, name in enumerate(self.factors[1:], start=1):
            factor = design.numeric_by_name[name]
            center = [] if self.factors[0] else [factor.center[0] / factor.scale[0]]
            m[row, :row] = *center, *(weight for *_, weight in factor.earlier_of(0))
        return m

    def origins(self, design: Design, m: np.ndarray) -> dict[str, list[float]]:
        """What `Design.with_origins` takes."""
        centers, first = (np.zeros(len(m)), 0) if self.factors[0] else (m[:, 0] * self.scales(design), 1)
        rows = enumerate(self.factors[1:], start=1)
        return {name: [float(centers[row]), *map(float, m[row, first:row])] for row, name in rows}

    def summary(self, design: Design, change: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """The logarithms of the standard deviations of u on the scale of the data, and Fisher's z of the correlations of its
        pairs. The `variances` are those of v on the scale of the fit, and `change` is a step I - Delta."""
        root = np.linalg.inv(self.m(design) @ change).T * np.sqrt(variances) / self.scales(design)[:, None]
        ratios = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for one, other in combinations(root, 2):
                # z is the arsinh of r / (1 - r^2)^1/2, by an area that is not lost to rounding where r is near 1.
                area = np.outer(one, other) - np.outer(other, one)
                ratios.append(one @ other / np.sqrt(np.sum(area**2) / 2))
            return np.append(np.log(np.linalg.norm(root, axis=1)), np.arcsinh(ratios))


@dataclass(frozen=True)
class Correlated:
    """The groups of a design. The entries of Delta are those of their pairs of terms."""

    groups: tuple[CorrelatedTerms, ...]

    @classmethod
    def of(cls, design: Design, penalties: Penalties, free: np.ndarray) -> "Correlated":
        """The groups whose terms all have rows. Raises UserError for too many effects."""
        numbers = {smooth.term: number for number, smooth in enumerate(penalties.smooths)}
        numeric = {term.name: term.numeric for term in design.terms}
        eliminated = [design.parts[k].term.name for k in design.eliminated_parts]
        last = {smooth.beside[0]: smooth for smooth in penalties.smooths if smooth.beside}
        groups = []
        for smooth in last.values():
            names = (*smooth.beside, smooth.term)
            if not numbers.keys() >= set(names):
                continue
            places = np.array([penalties.smooths[numbers[name]].places for name in names])
            places = places[:, free[places].all(axis=0)]
            if smooth.term not in eliminated and places.size > MOST_EFFECTS:
                raise UserError(
                    f"models.{design.model}.formula: `{smooth.term}` is one of {places.size:,} correlated random effects, and "
                    f"there may be {MOST_EFFECTS:,} at most beside a factor with more levels; write || in place of |"
                )
            factors = tuple(next(iter(numeric[name]), "") for name in names)
            groups.append(CorrelatedTerms(tuple(numbers[name] for name in names), factors, places))
        return cls(tuple(groups))

    @property
    def pairs(self) -> list[tuple[CorrelatedTerms, int, int]]:
        """Each entry of Delta: its group, and an earlier term and a later one."""
        return [(group, *pair) for group in self.groups for pair in combinations(range(len(group.terms)), 2)]

    @property
    def places(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The coefficients of both terms of each pair, by level."""
        return [(group.places[first], group.places[later]) for group, first, later in self.pairs]

    def varies(self, penalties: Penalties, parameters: Parameters) -> np.ndarray:
        """Which entries of Delta matter, because the later term has a variance, [pairs]."""
        has_variance = parameters.log_lambda < penalties.highest
        return np.array([has_variance[group.terms[later]] for group, _, later in self.pairs], bool)

    def moved(self, design: Design, delta: np.ndarray, coefficients: np.ndarray) -> tuple[Design, np.ndarray]:
        """The design and the coefficients [p] after a step."""
        coefficients, origins = coefficients.copy(), dict[str, list[float]]()
        for group, change in self.steps(delta):
            coefficients[group.places] = change.T @ coefficients[group.places]
            origins |= group.origins(design, group.m(design) @ change)
        return design.with_origins(origins), coefficients

    def steps(self, delta: np.ndarray) -> list[tuple[CorrelatedTerms, np.ndarray]]:
        """I - Delta of each group."""
        changes = [np.eye(len(group.terms)) for group in self.groups]
        for (group, first, later), value in zip(self.pairs, delta, strict=True):
            changes[self.groups.index(group)][later, first] -= value
        return list(zip(self.groups, changes, strict=True))

    def origins(self, design: Design) -> dict[str, list[float]]:
        """What `Design.with_origins` has taken."""
        return {name: row for group in self.groups for name, row in group.origins(design, group.m(design)).items()}


class AroundInverse(NamedTuple):
    """What V needs of a symmetric matrix P between the effects at `where`, and A = H + P: `trace` = tr(P A^-1), the `diagonal`
    [p] of A^-1 P A^-1, and the factors of tr(P A^-1 Q A^-1) for another matrix Q (`with_other`)."""

    where: np.ndarray
    matrix: scipy.sparse.csr_array
    trace: float
    diagonal: np.ndarray
    within: scipy.sparse.csr_array
    twice: scipy.sparse.csr_array
    reduced: np.ndarray

    def along(self, vector: np.ndarray) -> np.ndarray:
        """P times a vector [p]."""
        result = np.zeros(len(vector))
        result[self.where] = self.matrix @ vector[self.where]
        return result

    def with_other(self, other: "AroundInverse") -> float:
        return float(self.within.multiply(other.twice.T).sum() + np.sum(self.reduced * other.reduced.T))


def around_inverse(factored: Factored, size: int) -> Callable[[np.ndarray, np.ndarray, np.ndarray], AroundInverse]:
    """Make `AroundInverse` of the entries of P: the coefficients `one` and `other`, of the same levels, and their values.

    A^-1 = blockdiag(0, D^-1) + U S^-1 U' (solvers.information). P has entries within the blocks of D, or between dense
    coefficients. With K = U'PU, tr(P A^-1 Q A^-1) is that of P D^-1 Q (D^-1 + 2 L'S^-1 L) plus that of K_P S^-1 K_Q S^-1.
    """
    blocks, loadings, inverse = factored.blocks, factored.loadings, factored.schur_inverse()
    d, mixed = blocks.within.inverse, inverse @ loadings
    twice = BlockDiagonal(d.values + 2 * d.within(loadings, mixed)).matrix
    rank = np.full(size, -1)
    rank[blocks.dense], rank[blocks.eliminated] = np.arange(len(blocks.dense)), np.arange(len(blocks.eliminated))

    def around(one: np.ndarray, other: np.ndarray, values: np.ndarray) -> AroundInverse:
        is_eliminated = bool(len(one)) and one[0] in blocks.eliminated
        parts = []
        for is_here, where in ((is_eliminated, blocks.eliminated), (not is_eliminated, blocks.dense)):
            entries = (values, (rank[one], rank[other])) if is_here else None
            shape = (len(where), len(where))
            half = scipy.sparse.csr_array(entries, shape=shape) if entries else scipy.sparse.csr_array(shape)
            parts.append(half + half.T)
        inside, dense = parts
        reduced = dense + loadings @ (inside @ loadings.T) if is_eliminated else dense
        within, with_twice, along = inside @ d.matrix, inside @ twice, np.asarray(reduced @ inverse)
        diagonal = np.zeros(size)
        diagonal[blocks.dense] = np.einsum("ij,ji->i", inverse, along)
        diagonal[blocks.eliminated] = np.einsum("ij,ij->j", mixed, reduced @ mixed)
        if is_eliminated:
            diagonal[blocks.eliminated] += np.asarray(d.matrix.multiply(with_twice.T).sum(axis=1)).ravel()
        trace = float(within.trace() + np.trace(along))
        where, matrix = (blocks.eliminated, inside) if is_eliminated else (blocks.dense, dense)
        return AroundInverse(where, matrix, trace, diagonal, within, with_twice, along)

    return around


def whole(model: WorkingModel, parameters: Parameters, correlated: Correlated, before: Derivatives) -> Derivatives:
    """The derivatives of V at Delta = 0 by log lambda, log phi and Delta, in this order; those of b without log phi. `before` are
    the derivatives without Delta."""
    size, factored = len(model.right), model.penalised(parameters.log_lambda)
    if not correlated.groups:
        return before
    phi, theta = np.exp(parameters.log_phi) if model.dispersed else 1.0, model.theta
    b, to_slope = factored.solve(model.right_at(parameters)), factored.solve(model.slope)
    back = factored.solve(theta.mixed) if theta else np.zeros(size)
    weights = np.exp(parameters.log_lambda)[:, None] * model.penalties.weights
    around = around_inverse(model.penalties.integrated(factored), size)
    firsts = [group.terms[first] for group, first, _ in correlated.pairs]
    penalties = [
        around(one, other, -weights[term, one]) for term, (one, other) in zip(firsts, correlated.places, strict=True)
    ]
    pulled = np.array([matrix.along(b) for matrix in penalties])
    moved = -np.array([factored.solve(each) for each in pulled])
    squares = pulled @ b / phi
    slopes = 0.5 * (squares + [matrix.trace for matrix in penalties]) + moved @ model.slope
    known, count = len(before.gradient), len(penalties)
    hessian = np.zeros((known + count, known + count))
    hessian[:known, :known] = before.hessian
    for place, matrix in enumerate(penalties):
        bent = matrix.along(to_slope)
        row = (weights * b) @ moved[place] / phi - (weights * to_slope) @ moved[place] - before.moved @ bent
        row -= 0.5 * weights @ matrix.diagonal
        row[firsts[place]] += slopes[place]
        of_phi = -0.5 * squares[place] if model.dispersed else 0.0
        of_phi += float(theta.mixed @ moved[place] + bent @ back) if theta else 0.0
        hessian[known + place, :known] = hessian[:known, known + place] = np.append(row, of_phi)
        for other in range(place + 1):
            value = float(pulled[place] @ moved[other]) / phi
            value -= float(bent @ moved[other] + penalties[other].along(to_slope) @ moved[place])
            value -= 0.5 * matrix.with_other(penalties[other])
            if firsts[place] == firsts[other]:
                one, later = correlated.places[place]
                second = around(later, correlated.places[other][1], weights[firsts[place], one])
                pull = second.along(b)
                value += 0.5 * (float(b @ pull) / phi + second.trace) - float(to_slope @ pull)
            hessian[known + place, known + other] = hessian[known + other, known + place] = value
    gradient = np.append(before.gradient, slopes)
    return before._replace(gradient=gradient, hessian=hessian, moved=np.vstack([before.moved, moved]))


def with_exact_origins(
    at_end: Derivatives, solution: Solution, penalties: Penalties, parameters: Parameters, correlated: Correlated
) -> Derivatives:
    """The derivatives of `whole`, the second of which by Delta allow for the change of H with b, as in
    `reml.with_exact_hessian`."""
    objective, b = solution.objective, solution.point.coefficients

    def slopes(delta: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        design, coefficients = correlated.moved(objective.design, delta, coefficients)
        moved = replace(objective, workload=objective.workload.with_design(design))
        model = WorkingModel.near(moved, moved.at(coefficients), penalties, *curvature(moved, coefficients, penalties))
        return whole(model, parameters, correlated, model.derivatives(parameters)).gradient

    count = len(correlated.pairs)
    hessian, none = at_end.hessian.copy(), slopes(np.zeros(count), b)
    rows = [
        (slopes(STEP * step, b + STEP * moved) - none) / STEP
        for step, moved in zip(np.eye(count), at_end.moved[-count:], strict=True)
    ]
    hessian[-count:], hessian[:, -count:] = rows, np.array(rows).T
    inside = hessian[-count:, -count:]
    hessian[-count:, -count:] = (inside + inside.T) / 2
    return at_end._replace(hessian=hessian)


def profiled(hessian: np.ndarray, others: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The second derivatives of the lowest V by the parameters marked in `some`, where `others` are at the lowest V."""
    others = others & np.isfinite(np.diag(hessian))
    inner, mixed = hessian[np.ix_(others, others)], hessian[np.ix_(others, some)]
    return hessian[np.ix_(some, some)] - mixed.T @ np.linalg.pinv(inner, hermitian=True) @ mixed


def reported(
    correlated: Correlated, solution: Solution, penalties: Penalties, parameters: Parameters, covariance: np.ndarray
) -> dict[str, dict]:
    """What fit.json says of correlated random effects on the scale of the data, by their term: standard deviations, and
    correlations with the terms before, with intervals of 95 %. `covariance` is that of log lambda, log phi and Delta.
    Standard deviations have intervals of their logarithms, and correlations of Fisher's z, by the delta method."""
    if not correlated.groups:
        return {}
    design, infinite = solution.objective.design, parameters.log_lambda >= penalties.highest
    here, found = np.append(parameters.vector, np.zeros(len(correlated.pairs))), dict[str, dict]()

    weights = penalties.weights.max(axis=1)  # all effects of a term have the same

    def summary(vector: np.ndarray) -> list[np.ndarray]:
        log_lambda, log_phi, delta = np.split(vector, [len(infinite), len(infinite) + 1])
        variances = np.where(infinite, 0.0, np.exp(log_phi - log_lambda) / weights)
        return [
            group.summary(design, change, variances[list(group.terms)]) for group, change in correlated.steps(delta)
        ]

    around = [(summary(here + step), summary(here - step)) for step in DIFFERENCE * np.eye(len(here))]
    for number, (group, values) in enumerate(zip(correlated.groups, summary(here), strict=True)):
        terms, names = list(group.terms), [penalties.smooths[term].term for term in group.terms]
        pairs = list(combinations(range(len(terms)), 2))
        with np.errstate(invalid="ignore"):
            slope = np.array([after[number] - before[number] for after, before in around]).T / (2 * DIFFERENCE)
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slope, covariance, slope), 0.0))
        for place, (term, name) in enumerate(zip(terms, names, strict=True)):
            alone = 0.0 if infinite[term] else float(np.exp(0.5 * (parameters.log_phi - parameters.log_lambda[term])))
            found[name] = {"std_dev_at_origin": alone, "correlations": []}
            if np.isfinite(values[place]):
                found[name] |= interval("std_dev", values[place], error[place], np.exp)
        for place, (first, later) in enumerate(pairs, start=len(terms)):
            if not np.isnan(values[place]):
                of_pair = interval("correlation", values[place], error[place], np.tanh)
                found[names[later]]["correlations"].append({"term": names[first]} | of_pair)
    return found


def interval(name: str, value: float, error: float, back: Callable[[float], float]) -> dict[str, float]:
    """A value with the ends of its interval of 95 %, from another scale; without ends if it has no error."""
    entry = {name: float(back(value))}
    if np.isfinite(error):
        reach = min(QUANTILE * error, WIDEST)
        entry |= {f"{name}_lower": float(back(value - reach)), f"{name}_upper": float(back(value + reach))}
    return entry
