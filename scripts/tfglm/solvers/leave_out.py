"""The variances of the effects of two absorbed factors, such as workers and firms, without the sampling errors in them.

The plug-in variance of estimated effects is too large, and their covariance too small. Kline, Saggio & Sølvsten (Leave-Out
Estimation of Variance Components, Econometrica 88, 2020) subtract the sum of B_m s_m over the matches m, the rows of a level of
each factor. B_m = x_m' M^- Q M^- x_m for the quadratic form Q, and s_m estimates the error variance of m without m. As in
LeaveOutTwoWay, all other terms are first subtracted from the response, and each match becomes its mean, weighted by its rows n:

    s = n (mean - mean of all) (residual of the mean) / (1 - P),   P is the leverage.

A level of the larger factor with one match has P = 1. Its s comes from the rows of the match, as if these were independent.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from tfglm.engine.cell_kernels import cut_vertices
from tfglm.errors import UserError
from tfglm.solvers import newton
from tfglm.solvers.absorbed import AbsorbedObjective, Kept
from tfglm.solvers.objective import Solution
from tfglm.solvers.pattern import Pattern, Sparsity
from tfglm.solvers.run import Reporter
from tfglm.solvers.sparse_information import SparsePart

MOST_EXACT = 5_000
"""Matches, at most, for exact leverages. Above, they are means over random draws."""

DRAWS, SEED, AT_ONCE = 200, 7, 5


def compact(*levels: np.ndarray) -> list[np.ndarray]:
    """Levels as numbers from 0 on."""
    return [np.unique(each, return_inverse=True)[1] for each in levels]


def left_out(larger: np.ndarray, smaller: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which matches, [matches], are outside a largest set that stays connected without any one level of the larger factor."""
    kept = np.arange(len(rows))
    while len(kept):
        of_larger, of_smaller = compact(larger[kept], smaller[kept])
        edges, size = (of_larger, of_larger.max() + 1 + of_smaller), of_larger.max() + of_smaller.max() + 2
        graph = scipy.sparse.csr_array((np.ones(len(kept), np.int8), edges), shape=(size, size))
        graph = scipy.sparse.csr_array(graph + graph.T)
        component = connected_components(graph)[1][of_larger]
        inside = (component == np.bincount(component).argmax()) & (np.bincount(of_larger, rows[kept])[of_larger] > 1)
        inside &= ~cut_vertices(graph.indptr.astype(np.int64), graph.indices)[of_larger]
        if inside.all():
            break
        kept = kept[inside]
    return ~np.isin(np.arange(len(rows)), kept)


def matches(objective: AbsorbedObjective, coefficients: np.ndarray, order: tuple[int, int]) -> list[np.ndarray]:
    """The levels of the larger and of the smaller factor, the rows, and the sums of the residuals and of their squares, of each
    match, sorted."""
    workload, state = objective.workload, objective.workload.state(coefficients)
    found = []
    for signature, calls in workload.calls.items():
        task = workload.passes(signature).named("matches").task
        found += [each.reshape(4, -1) for each in objective.executor.map([(task, call) for call in calls], state)]
    size = objective.design.parts[objective.design.absorbed_parts[1]].size
    keys, *sums = np.concatenate(found, axis=1)
    levels = np.divmod(keys.astype(np.int64), size)
    places, number = np.unique(levels[order[0]] * 2**32 + levels[order[1]], return_inverse=True)
    return [*np.divmod(places, 2**32), *(np.bincount(number, each) for each in sums)]


def leverages(part: SparsePart, larger: np.ndarray, smaller: np.ndarray, is_exact: bool) -> np.ndarray:
    """1 / (1 - P), and the B of the variance of the larger effects, of the smaller and of their covariance, [4, matches].

    The projection of a normal draw on the effects has squares with the mean P, and the rest of the draw 1 - P. Both are
    independent, so 1 + (1 - 2 / draws) (sum of squares of the one) / (that of the other) has the mean 1 / (1 - P). The B are
    means of products of fitted values for right sides with the covariance Q. Unit vectors for draws give exact values."""
    n, size, total, random = part.weights, part.pattern.eliminated.stop, part.weights.sum(), np.random.default_rng(SEED)
    root, sums = np.sqrt(n)[:, None], np.zeros((5, len(n)))
    to_larger, to_smaller = (
        scipy.sparse.csr_array((np.ones(len(n)), (each, np.arange(len(n))))) for each in (larger, smaller)
    )
    for first in range(0, len(n) if is_exact else DRAWS, AT_ONCE):
        unit = np.eye(len(n), AT_ONCE, -first)
        draws, others = (unit, unit) if is_exact else random.normal(size=(2, len(n), AT_ONCE))
        moved = root * others - n[:, None] * ((root * others).sum(axis=0) / total)
        right = np.zeros((part.pattern.size, 3 * AT_ONCE))
        right[:size] = to_larger @ np.hstack([root * draws, moved, 0 * moved])
        right[size:] = to_smaller @ np.hstack([root * draws, 0 * moved, moved])
        effects = part.solve(right).vectors
        own, of_larger, of_smaller = np.split(root * (effects[larger] + effects[size + smaller]), 3, axis=1)
        left = draws - own
        pairs = (own, own), (left, left), (of_larger, of_larger), (of_smaller, of_smaller), (of_larger, of_smaller)
        sums += [np.einsum("ij,ij->i", *pair) for pair in pairs]
    of_ratio, of_b = (1, 1) if is_exact else (1 - 2 / DRAWS, DRAWS)
    with np.errstate(divide="ignore"):  # P is 1 of a level with one match
        return np.array([1 + of_ratio * sums[0] / sums[1], *(sums[2:] / of_b / (total - 1))])


def corrected_variances(solution: Solution, most_exact: int = MOST_EXACT) -> dict[str, Any]:
    """The entry of fit.json: the sample, and the plug-in and the corrected variances and covariance of the effects of the first
    two absorbed factors, over rows with the divisor rows - 1. `rows` is 0 if no such sample identifies the model."""
    design = solution.objective.design
    parts = [design.parts[k] for k in design.absorbed_parts]
    order = (0, 1) if parts[0].size >= parts[1].size else (1, 0)
    facts: dict[str, Any] = {"factors": [parts[factor].term.name for factor in order]}
    while True:
        objective, coefficients = solution.objective, solution.point.coefficients
        assert isinstance(objective, AbsorbedObjective)
        larger, smaller, n, residual, square = matches(objective, coefficients, order)
        levels, outside = (larger, smaller), left_out(larger, smaller, n)
        if not outside.any():
            break
        excluded = dict(objective.kept.singletons)
        for factor, of in zip(order, levels, strict=True):
            more = np.setdiff1d(of[outside], of[~outside]).tolist()
            excluded[parts[factor].grouping] = excluded.get(parts[factor].grouping, frozenset()) | set(more)
        workload, run = objective.workload.excluding(excluded), replace(objective.run, reporter=Reporter())
        counts = workload.sum(run.executor, "counts", design.by_term(np.zeros(design.size)))
        try:
            objective = objective._over(Kept(workload, counts, excluded, {}), objective.counted, run)
            solution = newton.solve(objective.begin())
        except UserError:
            return facts | {"rows": 0}
    effects = [coefficients[parts[factor].where][of] for factor, of in zip(order, levels, strict=True)]
    larger, smaller = compact(*levels)
    of_larger, of_smaller = np.bincount(larger, n), np.bincount(smaller, n)
    starts, size = np.searchsorted(larger, np.arange(len(of_larger) + 1)).astype(np.int32), len(of_smaller)
    factors = slice(0, len(of_larger)), slice(len(of_larger), len(of_larger) + size)
    nothing = Sparsity(np.zeros(size + 1, np.int32), np.zeros(0, np.int32), size)
    with_largest, both = Sparsity(starts, smaller.astype(np.int32), size), (True, True)
    pattern = Pattern(factors[1].stop, factors, (len(of_larger), size), both, 0, with_largest, nothing)
    is_exact = len(n) <= most_exact
    part = SparsePart(pattern, np.concatenate([of_larger, of_smaller]), n)
    inverse, *b = leverages(part, larger, smaller, is_exact)
    stays = np.bincount(larger)[larger] == 1
    response = effects[0] + effects[1] + residual / n
    variance = (response - np.average(response, weights=n)) * residual * np.where(stays, 0.0, inverse)
    variance[stays] = square[stays] / (n[stays] - 1)
    one, two = (each - np.average(each, weights=n) for each in effects)
    plug_in = [float(n @ each) / (n.sum() - 1) for each in (one**2, two**2, one * two)]
    return facts | {
        "rows": int(n.sum()),
        "levels": [len(of_larger), size],
        "matches": len(n),
        "draws": 0 if is_exact else DRAWS,
        "plug_in": plug_in,
        "corrected": [value - float(each @ variance) for value, each in zip(plug_in, b, strict=True)],
    }
