"""From sums over the rows to the covariance of the estimates (inference): which sums each kind of errors takes, and when CR2
costs too much."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import ROBUST, SERIAL, SURVEY, UNCONDITIONAL
from tfglm.design.specification import Inference
from tfglm.engine.workload import Workload
from tfglm.families.gaussian import Gaussian
from tfglm.inference import serial
from tfglm.inference.bread import Bread, triangles
from tfglm.inference.classical import Classical, Unconditional
from tfglm.inference.clustered import Clustered, Crossed, Serial, Survey
from tfglm.inference.covariance import Covariance
from tfglm.inference.cr2 import CR2, ClusterModel
from tfglm.inference.effective import ByDesign
from tfglm.inference.fitted import Fitted, FittedPath, JointSeparation
from tfglm.inference.reference import has_dispersion
from tfglm.inference.sandwich import Sandwich
from tfglm.solvers.cluster_sums import Priors, Scores, matrices_of
from tfglm.solvers.objective import Solution
from tfglm.solvers.prepare import by_coefficient, constant_direction


def estimates(solution: Solution) -> Fitted:
    """The solver's coefficients with the classical covariance; a lasso has no covariance."""
    objective = solution.objective
    design, counts, separation = objective.design, objective.counted.original_counts, objective.separation
    bread, path = objective.reported(solution.information).bread(), None
    if solution.path:
        ends = [(end.penalty, end.point.coefficients) for end in solution.path]
        path = FittedPath(*map(np.array, zip(*ends, strict=True)))
    return Fitted(
        coefficients=solution.point.coefficients,
        status=objective.status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        null_vectors=separation.null_vectors if separation and objective.separated_across else objective.null_vectors,
        covariance=Classical(
            bread=bread,
            dispersion=objective.dispersion(solution.point, solution.df_residual)
            if solution.has_covariance
            else np.nan,
            df_residual=solution.df_residual if has_dispersion(design) else np.inf,
            random=objective.random_effects(bread, solution),
        ),
        separation=JointSeparation(objective.separating, objective.movement_of_separated_rows())
        if separation
        else None,
        path=path,
    )


def with_errors(classical: Covariance, solution: Solution) -> Covariance:
    """The covariance that the design asks for (docs/statistics.md: Standard errors), from the classical one."""
    objective, bread = solution.objective, classical.bread
    kind = objective.design.inference.std_errors
    beside_shape = len(solution.smoothing_root) > 0 and not objective.design.smooths
    if kind == "classical" and not beside_shape:
        return classical
    if kind == "quasi":
        return replace(classical, correction=solution.point.pearson / solution.df_residual)
    common: dict[str, Any] = {
        name: getattr(classical, name) for name in ("bread", "dispersion", "df_residual", "random")
    }
    if kind == UNCONDITIONAL or beside_shape:
        return Unconditional(**common, smoothing_root=solution.smoothing_root[:, bread.free])
    if objective.design.smooths:
        common["penalty"] = objective.ridge[bread.free]
    if kind in ROBUST:
        meat = objective.meat(bread, solution)
        factor = float(objective.counts["rows"]) / solution.df_residual if kind in ("robust", "HC1") else 1.0
        return Sandwich(**common, meat_dense=meat.a, meat_mixed=meat.b, meat_diagonal=meat.d, correction=factor)
    return by_cluster(solution, common)


def by_cluster(solution: Solution, common: dict[str, Any]) -> Clustered:
    """The covariance that is robust to rows being alike, from the fields that all kinds have in `common`.

    - `newey_west` and `driscoll_kraay`: by date, times n / (n - p).
    - Clusters of one column: CR2 (`cr2`), or CR1 with the factor G / (G - 1) (n - 1) / (n - p) for G clusters, as in sandwich's
      vcovCL(type = "HC1") and statsmodels' cov_type="cluster".
    - Clusters of several columns: each set of the columns defines clusters, the rows that agree in all columns of the set. M adds
      the M of CR1 for sets with an odd number of columns, and subtracts it for even numbers. For two columns, M = M_a + M_b -
      M_ab (Cameron, Gelbach & Miller, Journal of Business & Economic Statistics 29, 2011).
    """
    objective, bread, penalty = solution.objective, common["bread"], common.get("penalty")
    design, rows = objective.design, float(objective.counts["rows"])
    scores = objective.scores(bread, solution)
    if design.inference.std_errors == SURVEY:
        return by_sampling_unit(design.inference, scores[-1], common)
    priors: list[Priors] = []
    if penalty is not None:
        is_random = np.isin(bread.free, [place for each in design.smooths if each.is_random for place in each.places])
        priors = [Priors.of(each, is_random, penalty) for each in scores]
        for each, prior in zip(scores, priors, strict=True):
            each.sums[prior.clusters, prior.places] += (
                prior.penalties * solution.point.coefficients[bread.free][prior.places]
            )
        inside = np.isin(np.arange(len(penalty)), np.concatenate([prior.places for prior in priors]))
        common["penalty"], common["cluster_penalty"] = (np.where(which, penalty, 0.0) for which in (~inside, inside))
    if (
        design.inference.std_errors not in SERIAL
        and not design.inference.crossed
        and has_cr2(solution, common, len(scores[0].clusters))
    ):
        return cr2(solution, common, scores[0], priors[0] if priors else None)
    common["by_design"] = by_design(
        solution, bread, scores[: len(design.inference.clusters)], priors[: len(design.inference.clusters)]
    )
    if design.inference.std_errors in SERIAL:
        dates = len(scores[0].sums)
        lags = serial.default_lags(dates) if design.inference.lags is None else min(design.inference.lags, dates - 1)
        share = serial.share_seen(dates, lags)
        correction = rows / solution.df_residual / share if share > 0 else np.nan
        kind = Serial if lags else Clustered
        return kind(**common, scores=scores[0].sums, correction=correction, lags=lags)
    factor = (rows - 1) / objective.df_residual_by_cluster(solution)
    if not design.inference.crossed:
        clusters = len(scores[0].sums)
        correction = clusters / (clusters - 1) * factor if clusters > 1 else np.nan
        return Clustered(**common, scores=scores[0].sums, correction=correction)
    sets = [(number,) for number in range(len(design.inference.clusters))] + [
        cells.of for cells in design.inference.cells
    ]
    parts, numbers, signs = [], [], []
    for columns, each in zip(sets, scores, strict=True):
        sums, clusters, single = each.sums, len(each.sums), len(columns) == 1
        if clusters < 2:
            sums, clusters = np.full_like(sums, np.nan), 2
        if not single and clusters > sums.shape[1]:
            sums = scipy.linalg.qr(sums, mode="r", check_finite=False)[0][: sums.shape[1]]
        parts.append(np.sqrt(factor * clusters / (clusters - 1)) * sums)
        numbers.append(np.full(len(sums), columns[0] if single else -1))
        signs.append(np.full(len(sums), 1.0 if len(columns) % 2 else -1.0))
    return Crossed(**common, scores=np.vstack(parts), numbers=np.concatenate(numbers), signs=np.concatenate(signs))


def by_sampling_unit(inference: Inference, scores: Scores, common: dict[str, Any]) -> Survey:
    """The covariance by the sampling units of a survey, as in R's survey::svyglm. Units without a row in the likelihood count,
    with a score of 0."""
    units = inference.cluster_counts[-1]
    sums = np.zeros((units, scores.sums.shape[1]))
    sums[scores.clusters] = scores.sums
    stratum = (
        np.array(inference.cells[0].joint) % inference.crossed[0].count if inference.cells else np.zeros(units, int)
    )
    count = np.bincount(stratum)
    means = np.zeros((len(count), sums.shape[1]))
    np.add.at(means, stratum, sums)
    means /= count[:, None]
    means[count == 1] = 0.0  # the mean of all units
    factor = (1 - np.array(inference.fractions or np.zeros(len(count)))) * count / np.maximum(count - 1, 1)
    df = len(scores.clusters) - len(np.unique(stratum[scores.clusters]))
    return Survey(**common, scores=np.sqrt(factor[stratum])[:, None] * (sums - means[stratum]), df_design=float(df))


def has_cr2(solution: Solution, common: dict[str, Any], clusters: int) -> bool:
    """Whether errors by so many clusters are those of CR2. They are CR1 for too many clusters and coefficients
    (`run.Limits`), beside absorbed factors, with instruments, and for a regression of classes, for which CR2 would need a working
    model of the correlation of classes within a cluster."""
    design, limits = solution.objective.design, solution.objective.run.limits
    wide = design.size
    too_large = clusters * wide**2 > limits.largest_cr2 or clusters * wide**3 > limits.longest_cr2
    return not (design.absorbed or design.instruments or design.equations or too_large) and common["dispersion"] > 0


def cr2(solution: Solution, common: dict[str, Any], scores: Scores, priors: Priors | None) -> CR2:
    objective, bread, penalty = solution.objective, common["bread"], common.get("penalty")
    design, workload, free = objective.design, objective.workload, bread.free
    which = np.isin(np.arange(design.size), free)

    def matrices(workload: Workload, coefficients: np.ndarray) -> np.ndarray:
        """The information matrices of the clusters, [clusters, free, free]."""
        sums = workload.sum(objective.executor, "cluster_information", design.by_term(coefficients))
        return matrices_of(workload.design, sums, scores.clusters, which)

    information = matrices(workload, solution.point.coefficients)
    # The weights of a linear regression are the prior weights; they do not depend on the response.
    linear = information
    if design.distribution.name != Gaussian.name or design.likelihood.link not in (None, Gaussian.link_name):
        linear = matrices(workload.with_design(design.as_linear()), np.zeros(design.size))
    if priors:
        share = np.trace(linear.sum(0)) / np.trace(information.sum(0))
        information, linear = priors.added_to(information), priors.added_to(linear, share)
    constant = np.zeros(design.size)
    constant[constant_direction(design, which)] = 1.0
    constant = constant[free]
    if penalty is not None and design.intercept is None and constant.any():
        random = np.concatenate([smooth.places for smooth in design.smooths])
        if np.isin(constant_direction(design, which), random).any():
            constant[:] = 0.0  # random effects share no part of the variance with the rows of a cluster
    model = ClusterModel(information, constant, penalty=penalty).with_rho(scores.sums, common["dispersion"])
    weight = float(constant @ linear.sum(0) @ constant) / float(objective.counts["rows"]) or 1.0
    return CR2(
        **common,
        scores=model.adjusted(scores.sums),
        raw_scores=scores.sums if penalty is None else None,  # no bootstrap is for a penalty
        information_of_clusters=triangles(information),
        linear=triangles(linear) / weight,
        constant=constant,
        rho=model.rho,
    )


def by_design(solution: Solution, bread: Bread, scores: Sequence[Scores], priors: Sequence[Priors]) -> ByDesign:
    """What the clusters of each column have of the design matrix at the null model. `priors` are those of random effects."""
    objective, limits = solution.objective, solution.objective.run.limits
    null = at_null_model(solution)
    present = [each.clusters for each in scores]
    wide = len(bread.free) if objective.design.absorbed else objective.design.size
    clusters = sum(map(len, present))
    is_small = clusters * wide**2 <= limits.largest_products and clusters * wide**3 <= limits.longest_cr2
    columns = objective.columns_by_cluster(bread, null, present, is_small)
    if priors:
        columns = [
            each._replace(
                within=prior.added_to(each.within),
                matrices=None if each.matrices is None else prior.added_to(each.matrices),
            )
            for each, prior in zip(columns, priors, strict=True)
        ]
    means = [float(each.sizes.sum()) / float(objective.counts["rows"]) for each in columns]
    matrices = [each.matrices for each in columns if each.matrices is not None]
    return ByDesign(
        sums=joined([each.sums / np.sqrt(mean) for each, mean in zip(columns, means, strict=True)]),
        within=joined([each.within for each in columns]),
        sizes=joined([each.sizes / mean for each, mean in zip(columns, means, strict=True)]),
        null=bread if null is solution else objective.reported(null.information).bread(),
        matrices=joined([triangles(each) for each in matrices]) if is_small else None,
    )


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of arrays, without a copy of a single one, which may have millions of rows."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


WIDEST_NULL = 8_000
"""Columns of the dense part, at most, of an information matrix that is stored a second time, for the null model."""


def at_null_model(solution: Solution) -> Solution:
    """The point and the factored information matrix of the null model.

    Its weights are equal but for prior weights and the offset. If the fit has the same weights, it is returned itself. It is
    for a model wider than WIDEST_NULL, too, because a second matrix would not fit into memory.
    """
    objective, family = solution.objective, solution.objective.family
    is_alike = family.quadratic or family.constant_information
    if is_alike or len(solution.information.blocks.dense) > WIDEST_NULL:
        return solution
    point = objective.at(objective.null_coefficients)
    factored = objective.factored(point.information.penalised(objective.ridge), solution.information)
    return replace(solution, point=point, information=factored)
