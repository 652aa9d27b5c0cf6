"""Standard errors: the covariance of the estimates, and the columns that other columns nearly determine.

Robust covariances are I^-1 M I^-1, where M is a sum of products of scores. With smooth terms, I has their penalty P, and the
dispersion times I^-1 P I^-1 is added, the squared bias that the prior of the penalty expects (mgcv's vcov.gam(sandwich = TRUE)).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.design.design import Design
from tfglm.design.parametrisation import APART, form_of, to_data_scale, to_fit_scale
from tfglm.distribute.executor import Executor
from tfglm.engine import leverage
from tfglm.engine.parts import eliminated_part, equation_of
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families.gaussian import Gaussian
from tfglm.solvers import effective, serial
from tfglm.solvers.clustered import Clustered
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.information import Factored, assemble, gradient
from tfglm.solvers.objective import Objective, Solution
from tfglm.solvers.prepare import by_coefficient, constant_direction
from tfglm.solvers.separation import group_names

NEARLY_ALIASED_BELOW = 1e-3
"""Scaled pivot: 1 - R^2 in a regression on the columns before."""

SHOWN = 5
"""Groups that a message names."""


def estimates(solution: Solution) -> Fitted:
    """The solver's coefficients with the classical covariance; a lasso has no covariance."""
    objective, factored = solution.objective, solution.objective.reported(solution.information)
    blocks, design, counts = factored.blocks, objective.design, objective.counted.as_asked
    separation, separating = objective.separation, objective.separating
    null = objective.null_vectors
    if separation and len(separating) > 1:
        null = separation.null_vectors
    coefficients = [end.point.coefficients for end in solution.path]
    return Fitted(
        coefficients=solution.point.coefficients,
        status=objective.status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        null_vectors=null,
        separating=separating,
        separated_rows=objective.movements() if separation else np.zeros((0, 0)),
        dispersion=objective.dispersion(solution.point, solution.df_residual) if solution.has_covariance else np.nan,
        path_penalties=np.array([end.penalty for end in solution.path]),
        path_coefficients=np.array(coefficients).reshape(len(coefficients), design.size),
        dense=blocks.dense,
        eliminated=blocks.eliminated,
        schur_inverse=factored.schur_inverse(),
        loadings=factored.loadings,
        diagonal=blocks.d,
    )


def without_errors(fitted: Fitted) -> Fitted:
    """The fit without covariance, for a fit that has not converged. All tables then have estimates only."""
    return replace(fitted, dispersion=np.nan)


def free_of(fitted: Fitted, design: Design) -> np.ndarray:
    """Which coefficients are estimated, [p]."""
    return np.isin(np.arange(design.size), [*fitted.dense, *fitted.eliminated])


def clustered(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with a covariance that is robust to clusters: CR2 or CR1.

    CR1 is used for a ridge, for too many clusters and coefficients (`run.Limits`), and for a regression of classes. For
    classes, CR2 would need a working model of the correlation of classes within a cluster.
    """
    objective, workload = solution.objective, solution.objective.workload
    design, free = objective.design, free_of(fitted, objective.design)
    (scores,) = scores_of(fitted, solution)
    present, priors = scores.clusters, scores.priors_of(fitted)
    clusters, rows, limits = len(present), float(objective.counts["rows"]), objective.run.limits
    fitted = replace(without_priors(fitted, [scores]), scores=scores.sums)
    wide = max(free.sum(), design.size)
    too_large = clusters * wide**2 > limits.largest_cr2 or clusters * wide**3 > limits.longest_cr2
    if design.penalty.l2 or design.equations or not fitted.dispersion > 0 or too_large:
        # CR1: the factor of sandwich's vcovCL(type = "HC1"), and of statsmodels' cov_type="cluster".
        by_rows = (rows - 1) / solution.df_residual
        return with_columns(scored(fitted, design, [scores], by_rows), solution, [present], [priors])
    information = by_cluster(workload, objective.executor, design.by_term(fitted.coefficients), present, free)
    reduced = bias_reduced(fitted, design, priors.added_to(information), free)
    # The weights of a linear regression are the prior weights; they do not depend on the response.
    of_linear = information
    if design.distribution.name != Gaussian.name or design.likelihood.link not in (None, Gaussian.link_name):
        alike = workload.with_design(design.as_linear())
        of_linear = by_cluster(alike, objective.executor, design.by_term(np.zeros(design.size)), present, free)
    if len(priors.places):
        of_linear = priors.added_to(of_linear, np.trace(of_linear.sum(0)) / np.trace(information.sum(0)))
    constant = reduced.cluster_constant
    weight = float(constant @ of_linear.sum(0) @ constant) / rows or 1.0
    return replace(reduced, cluster_design=of_linear[:, *np.tril_indices(len(constant))] / weight)


def by_cluster(
    workload: Workload, executor: Executor, state: dict[str, np.ndarray], clusters: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """The information matrices of the clusters with these numbers, [clusters, free, free], dense coefficients first."""
    return matrices_of(workload.design, workload.sum(executor, "cluster_information", state), clusters, free)


def matrices_of(design: Design, sums: Sums, clusters: np.ndarray, free: np.ndarray, column: int = 0) -> np.ndarray:
    """The same from the sums of a pass, for clusters of the column of clusters with this number."""
    ending, count = f"_of_{column}" if column else "", int(free.sum())
    own = {
        name.removesuffix(ending): value
        for name, value in sums.items()
        if (name.endswith(ending) if column else "_of_" not in name)
    }
    information = np.empty((len(clusters), count, count))
    for place, cluster in enumerate(clusters):
        information[place] = assemble(design, {name: value[cluster] for name, value in own.items()}, free).whole
    return information


def bias_reduced(fitted: Fitted, design: Design, information: np.ndarray, free: np.ndarray) -> Fitted:
    """Replace the raw scores by those of CR2 (solvers.clustered).

    Parameters
    ----------
    fitted
        The fit, with the scores of the clusters, [clusters with rows, dense and eliminated coefficients]. With a penalty of
        smooth terms it loses them, as no bootstrap is for these.
    design
        The design of the fit.
    information
        The information matrix of each cluster with rows, [clusters, free coefficients, free coefficients].
    free
        Which coefficients are estimated, [p].
    """
    constant = np.zeros(design.size)
    constant[constant_direction(design, free)] = 1.0
    constant = constant[[*fitted.dense, *fitted.eliminated]]
    if len(fitted.penalty) and design.intercept is None and constant.any():
        random = np.concatenate([smooth.places for smooth in design.smooths])
        if np.isin(constant_direction(design, free), random).any():
            constant[:] = 0.0  # random effects share no part of the variance with the rows of a cluster
    adjustment = Clustered(information, constant, penalty=fitted.penalty).with_rho(fitted.scores, fitted.dispersion)
    rows, columns = np.tril_indices(len(constant))
    return replace(
        fitted,
        scores=adjustment.adjusted(fitted.scores),
        cluster_scores=fitted.scores[: 0 if len(fitted.penalty) else None],
        cluster_information=information[:, rows, columns],
        cluster_constant=constant,
        cluster_rho=adjustment.rho,
    )


def robust(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with a covariance that is robust to a wrong variance.

    M = sum of f s_i s_i' over rows, with the score s_i and the leverage h_i of a row. The factor f is

    - HC0: 1 (White 1980)
    - HC1: n / (n - p)
    - HC2: 1 / (1 - h_i) (Horn, Horn and Duncan 1975)
    - HC3: 1 / (1 - h_i)^2 (MacKinnon and White, Journal of Econometrics 29, 1985)

    A row with a frequency counts as so many rows, each with its own leverage.

    Raises
    ------
    UserError
        If HC2 or HC3 would divide by 0, because a single row determines a coefficient.
    """
    objective, kind = solution.objective, solution.objective.design.inference.std_errors
    design, state = objective.design, objective.design.by_term(fitted.coefficients)
    if kind in BY_LEVERAGE:
        state |= inverse_of(design, fitted)
    sums = objective.workload.sum(objective.executor, kind.lower() if kind in BY_LEVERAGE else "squares", state)
    if kind in BY_LEVERAGE:
        refuse_leverage_of_one(design, sums, objective.counts)
    meat = assemble(design, sums, free_of(fitted, design))
    factor = float(objective.counts["rows"]) / solution.df_residual if kind in ("robust", "HC1") else 1.0
    return replace(fitted, meat_dense=meat.a, meat_mixed=meat.b, meat_diagonal=meat.d, correction=factor)


class Priors(NamedTuple):
    """The random effects that belong to clusters: their places among the free coefficients, clusters and penalties [effects].

    All rows of such an effect are in one cluster. As a row of this cluster its prior is part of the score, so that the rows of a
    cluster may be alike in any way, and the clusters are independent. (With one effect for each cluster, the covariance of the
    other coefficients is that of Liang & Zeger, Biometrika 73, 1986, with the working covariance of the mixed model.)
    """

    places: np.ndarray
    clusters: np.ndarray
    penalties: np.ndarray

    def added_to(self, information: np.ndarray, share: float = 1.0) -> np.ndarray:
        """The information matrices of the clusters [clusters, free, free], or their diagonals [clusters, free], with `share`
        times the penalties."""
        if not len(self.places):
            return information
        information = information.copy()
        at = (self.clusters, self.places) if information.ndim == 2 else (self.clusters, self.places, self.places)
        information[at] += share * self.penalties
        return information


class Scores(NamedTuple):
    """Scores summed by cluster: `clusters` are the numbers of the clusters with rows, `sums` [clusters, free coefficients]. The
    sums have the priors of the random effects that belong `to` a cluster, its number among those with rows, [free]; -1 for
    others."""

    clusters: np.ndarray
    sums: np.ndarray
    to: np.ndarray

    def priors_of(self, fitted: Fitted) -> Priors:
        """The priors, from the fit with the whole penalty."""
        places = np.flatnonzero(self.to >= 0)
        return Priors(places, self.to[places], fitted.penalty[places] if len(places) else np.zeros(0))


def without_priors(fitted: Fitted, scores: Sequence[Scores]) -> Fitted:
    """The fit whose `penalty` lacks the priors that the scores have."""
    if not len(fitted.penalty):
        return fitted
    inside = np.any([each.to >= 0 for each in scores], axis=0)
    own, others = (np.where(which, fitted.penalty, 0.0) for which in (inside, ~inside))
    return replace(fitted, penalty=others, cluster_penalty=own)


def with_priors(fitted: Fitted, design: Design, clusters: np.ndarray, sums: np.ndarray) -> Scores:
    """The scores of clusters, and the priors of the random effects that have rows in one cluster alone. Changes the `sums`."""
    to, free = np.full(sums.shape[1], -1), [*fitted.dense, *fitted.eliminated]
    if len(fitted.penalty):
        is_random = np.zeros(design.size, bool)
        for smooth in design.smooths:
            is_random[smooth.places] = smooth.is_random
        # The sum over no row is 0 exactly.
        places = np.flatnonzero(is_random[free] & (np.count_nonzero(sums, axis=0) == 1))
        to[places] = np.argmax(sums[:, places] != 0, axis=0)
        sums[to[places], places] += fitted.penalty[places] * fitted.coefficients[free][places]
    return Scores(clusters, sums, to)


def scores_of(fitted: Fitted, solution: Solution) -> list[Scores]:
    """The scores for each entry of `Design.cluster_counts`. Raises UserError for `newey_west` if a date has several rows."""
    objective, design = solution.objective, solution.objective.design
    sums = objective.workload.sum(objective.executor, "scores", design.by_term(fitted.coefficients))
    scores = []
    for number in range(len(design.inference.cluster_counts)):
        which = f"_of_{number}" if number else ""
        rows = sums[f"rows{which}"]
        present = rows > 0
        if design.inference.std_errors == "newey_west" and rows.max() > 1:
            raise UserError(
                f"models.{design.model}.std_errors: newey_west is for one row of each date, and a date has {rows.max():,.0f}\n"
                f"  use `driscoll_kraay({design.inference.clusters[0].column})`, which takes the rows of a date together"
            )
        by_cluster = np.zeros((len(present), design.size))
        for k, part in enumerate(design.parts):
            by_cluster[:, part.where] = sums[f"part_{k}{which}"].reshape(len(present), part.size)
        of_free = by_cluster[np.ix_(present, [*fitted.dense, *fitted.eliminated])]
        scores.append(with_priors(fitted, design, np.flatnonzero(present), of_free))
    return scores


def by_several(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with a covariance that is robust to clusters of several columns.

    Each set of the columns defines clusters: the rows that agree in all columns of the set. M adds the M of CR1 for sets with
    an odd number of columns, and subtracts it for even numbers. For two columns, M = M_a + M_b - M_ab (Cameron, Gelbach &
    Miller, Journal of Business & Economic Statistics 29, 2011). Each set with G clusters has the factor G / (G - 1) (n - 1) /
    (n - p), as in sandwich's vcovCL(type = "HC1").
    """
    design, scores = solution.objective.design, scores_of(fitted, solution)
    of_columns = scores[: len(design.inference.clusters)]
    priors, fitted = [each.priors_of(fitted) for each in of_columns], without_priors(fitted, scores)
    fitted = scored(fitted, design, scores, (float(solution.objective.counts["rows"]) - 1) / solution.df_residual)
    return with_columns(fitted, solution, [each.clusters for each in of_columns], priors)


def scored(fitted: Fitted, design: Design, scores: Sequence[Scores], factor: float) -> Fitted:
    """The fit with the scores by clusters of one column or several. M of a set with G clusters has this `factor` times
    G / (G - 1)."""
    if len(scores) == 1:
        clusters = len(scores[0].sums)
        correction = clusters / (clusters - 1) * factor if clusters > 1 else np.nan
        return replace(fitted, scores=scores[0].sums, correction=correction)
    of = [(number,) for number in range(len(design.inference.clusters))] + [
        cells.of for cells in design.inference.cells
    ]
    parts, columns, signs = [], [], []
    for columns_of, (_, by_cluster, _) in zip(of, scores, strict=True):
        clusters, single = len(by_cluster), len(columns_of) == 1
        if clusters < 2:
            by_cluster, clusters = np.full_like(by_cluster, np.nan), 2
        if not single and clusters > by_cluster.shape[1]:
            by_cluster = scipy.linalg.qr(by_cluster, mode="r", check_finite=False)[0][: by_cluster.shape[1]]
        parts.append(np.sqrt(factor * clusters / (clusters - 1)) * by_cluster)
        columns.append(np.full(len(by_cluster), columns_of[0] if single else -1))
        signs.append(np.full(len(by_cluster), 1.0 if len(columns_of) % 2 else -1.0))
    return replace(
        fitted, scores=np.vstack(parts), score_columns=np.concatenate(columns), score_signs=np.concatenate(signs)
    )


def by_date(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with a covariance that is robust to serial correlation (solvers.serial), times n / (n - p)."""
    design = solution.objective.design
    ((present, scores, _),) = scores_of(fitted, solution)
    dates = len(scores)
    lags = serial.default_lags(dates) if design.inference.lags is None else min(design.inference.lags, dates - 1)
    share = serial.share_seen(dates, lags)
    correction = float(solution.objective.counts["rows"]) / solution.df_residual / share if share > 0 else np.nan
    return with_columns(replace(fitted, scores=scores, lags=lags, correction=correction), solution, [present])


def with_columns(
    fitted: Fitted, solution: Solution, present: Sequence[np.ndarray], priors: Sequence[Priors] = ()
) -> Fitted:
    """The fit with what the clusters of each column have of its design matrix. `present` are the clusters of each column with
    rows, and `priors` those of their random effects."""
    objective, design = solution.objective, solution.objective.design
    if not design.by_cluster:
        return fitted
    null, coefficients = at_null_model(solution)
    state = design.by_term(coefficients)
    sums = objective.workload.sum(objective.executor, "cluster_columns", state)
    matrices = np.zeros((0, 0))
    if has_products(solution, sum(map(len, present)), design.size):
        products = objective.workload.sum(objective.executor, "cluster_information", state)
        of = free_of(fitted, design)
        parts = [matrices_of(design, products, clusters, of, number) for number, clusters in enumerate(present)]
        if priors:
            parts = [each.added_to(part) for part, each in zip(parts, priors, strict=True)]
        matrices = np.concatenate(parts)[:, *np.tril_indices(int(of.sum()))]
    rows, free = float(objective.counts["rows"]), [*fitted.dense, *fitted.eliminated]
    found = []
    for number, clusters in enumerate(present):
        which, shape = f"_of_{number}" if number else "", (design.inference.clusters[number].count, design.size)
        columns, within, weights = np.zeros(shape), np.zeros(shape), {}
        for k, part in enumerate(design.parts):
            name = f"weight{equation_of(design, part)}{which}"
            weights[name] = sums[name]
            of_part = sums[f"part_{k}{which}"].reshape(-1, part.size)
            squares = sums.get(f"square_part_{k}{which}", of_part).reshape(-1, part.size)
            columns[:, part.where] = of_part
            within[:, part.where] = effective.within(of_part, squares, sums[name])
        of_sums, of_within = (each[np.ix_(clusters, free)] for each in (columns, within))
        if priors:
            of_within = priors[number].added_to(of_within)
        sizes = np.sum(list(weights.values()), axis=0)[clusters]
        found.append(effective.columns_of(of_sums, of_within, sizes, rows))
    return with_clusters(fitted, found, objective.reported(null), matrices)


def has_products(solution: Solution, clusters: int, wide: int) -> bool:
    """Whether the information matrices of so many clusters are not too large for `wide` coefficients."""
    limits = solution.objective.run.limits
    return clusters * wide**2 <= limits.largest_products and clusters * wide**3 <= limits.longest_cr2


def with_clusters(
    fitted: Fitted, columns: Sequence[effective.ColumnsByCluster], null: Factored, matrices: np.ndarray
) -> Fitted:
    """The fit with what the clusters of each column have of the design matrix at the `null` model.

    `matrices` are the lower triangles of their information matrices; none if these are too large.
    """
    sums, within, sizes = (
        np.concatenate([getattr(each, name) for each in columns]) for name in ("sums", "within", "sizes")
    )
    return replace(
        fitted,
        cluster_sums=sums,
        cluster_within=within,
        cluster_sizes=sizes,
        cluster_design=matrices,
        null_schur_inverse=null.schur_inverse(),
        null_loadings=null.loadings,
        null_diagonal=null.blocks.d,
    )


WIDEST_NULL = 8_000
"""Columns of the dense part, at most, of an information matrix that is stored a second time, for the null model."""


def at_null_model(solution: Solution) -> tuple[Factored, np.ndarray]:
    """The factored information matrix of the null model, and its coefficients [p].

    Its weights are equal but for prior weights and the offset. If the fit has the same weights, its own matrix is returned. It is
    for a model wider than WIDEST_NULL, too, because a second matrix would not fit into memory.
    """
    objective, family = solution.objective, solution.objective.family
    is_alike = family.quadratic or family.constant_information
    if is_alike or len(solution.information.blocks.dense) > WIDEST_NULL:
        return solution.information, solution.point.coefficients
    information = objective.at(objective.null_coefficients).information.penalised(objective.ridge)
    return objective.factored(information, solution.information), objective.null_coefficients


LARGEST_CHECKED = 1_000
"""Largest number of coefficients for the check that their covariance matrix is positive semidefinite. It takes some seconds."""

ROUNDING = 1e-9
"""Rounding error of an eigenvalue, as a share of the largest eigenvalue."""


def smallest_share(fitted: Fitted) -> float | None:
    """The smallest ratio of the variance by clusters of several columns to the classical variance, over all combinations of
    coefficients. It is negative if the covariance matrix is not positive semidefinite. None for too many coefficients."""
    free = len(fitted.dense) + len(fitted.eliminated)
    if not len(fitted.score_signs) or free > LARGEST_CHECKED or not np.isfinite(fitted.scores).all():
        return None
    dense, eliminated = np.split(np.eye(free), [len(fitted.dense)], axis=1)
    classical = fitted.dispersion * np.hstack(fitted.solved(dense, eliminated))
    # With I^-1 = L L', the eigenvalues of L'ML are the ratios of the variances to classical variances.
    root = scipy.linalg.cholesky(classical, lower=True)
    moved = fitted.scores @ root
    matrix = (moved * fitted.score_signs[:, None]).T @ moved
    if len(fitted.penalty):
        matrix += fitted.dispersion * (root.T * fitted.penalty) @ root
    values = scipy.linalg.eigvalsh(matrix) / fitted.dispersion**2
    return float(values[0]) if values[0] < -ROUNDING * abs(values[-1]) else max(float(values[0]), 0.0)


def inverse_of(design: Design, fitted: Fitted) -> dict[str, np.ndarray]:
    """The inverse information matrix of a fit, in the form that a pass needs."""
    return inverse_state(
        design, (fitted.dense, fitted.eliminated), fitted.schur_inverse, fitted.loadings, fitted.diagonal
    )


def inverse_of_factored(design: Design, factored: Factored) -> dict[str, np.ndarray]:
    """The inverse of a factored matrix, in the same form."""
    blocks = factored.blocks
    places = blocks.dense, blocks.eliminated
    return inverse_state(design, places, factored.schur_inverse(), factored.loadings, blocks.d)


def inverse_state(
    design: Design,
    places: tuple[np.ndarray, np.ndarray],
    schur_inverse: np.ndarray,
    loadings: np.ndarray,
    eliminated_block: np.ndarray,
) -> dict[str, np.ndarray]:
    """The same, from the positions of the dense and eliminated coefficients, S^-1, B D^-1 and D."""
    mixed = schur_inverse @ loadings
    diagonal = 1.0 / eliminated_block + np.einsum("ij,ij->j", loadings, mixed)
    number = eliminated_part(design)
    eliminated = slice(design.size, design.size) if number is None else design.parts[number].where
    return leverage.state_of(design.size, places, eliminated, (schur_inverse, -mixed, diagonal))


def slope_of_determinant(objective: Objective, coefficients: np.ndarray, factored: Factored) -> np.ndarray:
    """The derivative of log|A| / 2 by the coefficients, [p], where A is the information matrix at these coefficients, plus
    penalties. `factored` is A."""
    design, workload = objective.design, objective.workload
    state = workload.state(coefficients) | inverse_of_factored(design, factored)
    return gradient(design, workload.sum(objective.executor, "jeffreys", state))


def refuse_leverage_of_one(design: Design, sums: Sums, counts: Sums) -> None:
    """Raise UserError if a single row determines a coefficient. The message names the groups of such rows."""
    alone = int(sums["alone"])
    if not alone:
        return
    named = []
    for number, grouping in enumerate(design.groupings):
        of_one = np.flatnonzero((sums[f"alone_{number}"] == 1) & (counts[f"rows_{number}"] == 1))
        named += [f"{':'.join(grouping)}[{name}]" for name in group_names(design, grouping, of_one)]
    where = f", those of {', '.join(named[:SHOWN])}{', ...' if len(named) > SHOWN else ''}" if named else ""
    raise UserError(
        f"models.{design.model}.std_errors: {design.inference.std_errors} divides by 1 less the leverage of a row, and "
        f"that is 0 for {'a training row' if alone == 1 else f'{alone:,} training rows'}: "
        f"each alone determines a coefficient{where}\n"
        "  merge rare levels with data.rare, leave such rows out in data.where, or use `std_errors: HC1`"
    )


@dataclass(frozen=True)
class Near:
    """Columns that others nearly determine: their positions in the coefficient vector, scaled pivots and variance inflation
    factors."""

    places: np.ndarray
    pivots: np.ndarray
    inflation: np.ndarray


def nearly_aliased(factored: Factored, design: Design) -> Near:
    """The nearly aliased columns: columns of the dense part that other columns nearly determine."""
    blocks = factored.blocks
    scale = np.diag(blocks.a)
    schur = np.diag(factored.factor) ** 2
    pivots, inflation = schur / scale, {}
    of_dense = {place: number for number, place in enumerate(blocks.dense.tolist())}
    for place, ours, theirs in together_with(design):
        if place not in of_dense:
            continue
        number, size = of_dense[place], float(ours @ blocks.times(ours))
        pivots[number] = schur[number] * ours[place] ** 2 / size
        inflation[number] = size * float(theirs @ factored.solve(theirs))
    near = np.flatnonzero(pivots < NEARLY_ALIASED_BELOW)
    inverse = scipy.linalg.cho_solve((factored.factor, True), np.eye(len(scale))[:, near])
    plain = scale[near] * inverse[near, np.arange(len(near))]
    inflated = [inflation.get(number, value) for number, value in zip(near.tolist(), plain, strict=True)]
    return Near(blocks.dense[near], pivots[near], np.array(inflated))


def together_with(design: Design) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the columns of the data that the fit has as residuals from earlier columns.

    For each, yield the position of its coefficient and two vectors [p]. The first vector combines the columns of the fit to
    the centred column of the data. The second combines the coefficients of the fit to the coefficient of the data.
    """
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
