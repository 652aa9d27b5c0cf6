"""What is said of the estimates beside their values: standard errors that hold up where the model's variance does not, effective
degrees of freedom, and which columns others nearly determine."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import ROBUST, SERIAL
from tfglm.design.design import Design
from tfglm.design.parametrisation import APART, form_of, to_data_scale, to_fit_scale
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.families.gaussian import Gaussian
from tfglm.solvers.across import separated_rows
from tfglm.solvers.clustered import Clustered
from tfglm.solvers.damped import linear
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.information import Factored, assemble
from tfglm.solvers.prepare import by_coefficient, constant_direction
from tfglm.solvers.problem import Solution
from tfglm.solvers.quadratic import product
from tfglm.solvers.sandwich import by_date, by_several, robust, scores_of

NEARLY_ALIASED_BELOW = 1e-3
"""Scaled pivot, 1 - R^2 on the columns before."""


def estimates(solution: Solution, counts: Sums) -> Fitted:
    """What the solver has found, with the classical covariance; of a lasso, without any. `counts` are those of all rows."""
    problem, factored = solution.problem, solution.information
    blocks, df_residual = factored.blocks, solution.df_residual
    dispersion = problem.dispersion(solution.state, df_residual) if solution.has_covariance else np.nan
    points = solution.path
    coefficients = [point.state.coefficients for point in points]
    return Fitted(
        coefficients=solution.state.coefficients,
        status=problem.status,
        rows=by_coefficient(problem.design, counts, "rows"),
        responses=by_coefficient(problem.design, counts, "response"),
        null_vectors=problem.null_vectors[: problem.separation.before] if problem.separation else problem.null_vectors,
        separating=problem.separating,
        separated_rows=separated_rows(problem) if problem.separation else np.zeros((0, 0)),
        dispersion=dispersion,
        path_penalties=np.array([point.penalty for point in points]),
        path_coefficients=np.array(coefficients).reshape(len(points), problem.design.size),
        dense=blocks.dense,
        eliminated=blocks.eliminated,
        schur_inverse=factored.schur_inverse(),
        loadings=factored.loadings,
        diagonal=blocks.d,
    )


def without_errors(fitted: Fitted) -> Fitted:
    """The fit with no covariance, as one that has not converged: then all tables have estimates alone."""
    return replace(fitted, dispersion=np.nan)


def with_errors(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with the covariance that the design asks for (docs/statistics.md: Standard errors)."""
    design = solution.problem.design
    free = np.isin(np.arange(design.size), [*fitted.dense, *fitted.eliminated])
    if design.std_errors == "quasi":
        return replace(fitted, correction=solution.state.pearson / solution.df_residual)
    if design.std_errors in ROBUST:
        return robust(fitted, solution, free)
    if design.std_errors in SERIAL:
        return by_date(fitted, solution)
    if not design.by_cluster:
        return fitted
    return by_several(fitted, solution) if design.crossed else clustered(fitted, solution, free)


def clustered(fitted: Fitted, solution: Solution, free: np.ndarray) -> Fitted:
    """The fit with the covariance that is robust to clusters: CR2, or CR1 where that would be too large, and of a regression of
    classes, of which CR2 would need a working model of how the classes of a cluster go together."""
    problem, workload = solution.problem, solution.problem.workload
    design = problem.design
    ((present, scores),) = scores_of(fitted, solution)
    clusters, rows, limits = len(present), float(problem.counts["rows"]), problem.run.limits
    fitted = replace(fitted, scores=scores)
    wide = max(free.sum(), design.size)
    too_large = clusters * wide**2 > limits.largest_cr2 or clusters * wide**3 > limits.longest_cr2
    if design.l2 or design.equations or not fitted.dispersion > 0 or too_large:
        # CR1: the factor of sandwich's vcovCL(type = "HC1"), and of statsmodels' cov_type="cluster".
        correction = clusters / (clusters - 1) * (rows - 1) / solution.df_residual if clusters > 1 else np.nan
        return replace(fitted, correction=correction)
    information = by_cluster(workload, problem.executor, design.by_term(fitted.coefficients), present, free)
    reduced = bias_reduced(fitted, design, information, free)
    # In a linear regression all rows weigh the same, but for their prior weights, whatever the response is.
    of_linear = information
    if design.distribution.name != Gaussian.name or design.link not in (None, Gaussian.link_name):
        alike = workload.with_design(linear(design))
        of_linear = by_cluster(alike, problem.executor, design.by_term(np.zeros(design.size)), present, free)
    constant = reduced.cluster_constant
    weight = float(constant @ of_linear.sum(0) @ constant) / rows or 1.0
    return replace(reduced, cluster_design=of_linear[:, *np.tril_indices(len(constant))] / weight)


def by_cluster(
    workload: Workload, executor: Executor, state: dict[str, np.ndarray], clusters: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """The information matrices of the `free` [p] coefficients, dense and eliminated, of the clusters with these numbers."""
    sums, count = workload.sum(executor, "cluster_information", state), int(free.sum())
    information = np.empty((len(clusters), count, count))
    for place, cluster in enumerate(clusters):
        blocks = assemble(workload.design, {name: value[cluster] for name, value in sums.items()}, free)
        information[place] = np.block([[blocks.a, blocks.b], [blocks.b.T, np.diag(blocks.d)]])
    return information


def bias_reduced(fitted: Fitted, design: Design, information: np.ndarray, free: np.ndarray) -> Fitted:
    """Put CR2 (solvers.clustered) in place of the raw scores.

    Parameters
    ----------
    fitted
        With the scores of the clusters, [clusters with rows, dense and eliminated coefficients].
    design
        Of the fit.
    information
        Of each cluster with rows, [clusters, free coefficients, free coefficients].
    free
        Which coefficients are estimated, [p].
    """
    constant = np.zeros(design.size)
    constant[constant_direction(design, free)] = 1.0
    constant = constant[[*fitted.dense, *fitted.eliminated]]
    adjustment = Clustered(information, constant).with_rho(fitted.scores, fitted.dispersion)
    rows, columns = np.tril_indices(len(constant))
    return replace(
        fitted,
        scores=adjustment.adjusted(fitted.scores),
        cluster_information=information[:, rows, columns],
        cluster_constant=constant,
        cluster_rho=adjustment.rho,
    )


@dataclass(frozen=True)
class Near:
    """Columns that others nearly determine: their places in the coefficient vector, scaled pivots and variance inflation
    factors."""

    places: np.ndarray
    pivots: np.ndarray
    inflation: np.ndarray


def nearly_aliased(factored: Factored, design: Design) -> Near:
    """Which columns of the dense part have nearly no variation of their own."""
    blocks = factored.blocks
    scale = np.diag(blocks.a)
    schur = np.diag(factored.factor) ** 2
    pivots, inflation = schur / scale, {}
    of_dense = {place: number for number, place in enumerate(blocks.dense.tolist())}
    for place, ours, theirs in together_with(design):
        if place not in of_dense:
            continue
        number, size = of_dense[place], float(ours @ product(blocks, ours))
        pivots[number] = schur[number] * ours[place] ** 2 / size
        inflation[number] = size * float(theirs @ factored.solve(theirs))
    near = np.flatnonzero(pivots < NEARLY_ALIASED_BELOW)
    inverse = scipy.linalg.cho_solve((factored.factor, True), np.eye(len(scale))[:, near])
    plain = scale[near] * inverse[near, np.arange(len(near))]
    inflated = [inflation.get(number, value) for number, value in zip(near.tolist(), plain, strict=True)]
    return Near(blocks.dense[near], pivots[near], np.array(inflated))


def together_with(design: Design) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Of each coefficient that a fit has apart from earlier ones of its column: its place, what of the columns of the fit makes
    that of the data, centred, and what of the coefficients of the fit makes that of the data, each [p]."""
    if not any(factor.earlier for factor in design.numeric):
        return
    columns, rows = to_fit_scale(design).tocsc(), to_data_scale(design)
    numbers = np.concatenate([np.full(part.size, len(part.multiplier)) for part in design.parts])
    for part in design.parts:
        if form_of(design, part) == APART:
            for place in range(part.where.start, part.where.stop):
                alike = numbers == len(part.multiplier)
                ours, theirs = (matrix.toarray().ravel() * alike for matrix in (columns[:, [place]], rows[[place]]))
                yield place, ours, theirs
