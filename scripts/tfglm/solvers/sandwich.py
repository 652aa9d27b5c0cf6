"""Standard errors that hold whatever the variance of a row is, and if rows are alike: I^-1 M I^-1 with M made of scores."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.design.design import Design
from tfglm.engine import leverage
from tfglm.engine.parts import eliminated_part
from tfglm.engine.passes import Sums
from tfglm.errors import UserError
from tfglm.solvers import serial
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.information import assemble
from tfglm.solvers.problem import Solution
from tfglm.solvers.separation import group_names

SHOWN = 5
"""Groups that a message names."""


def robust(fitted: Fitted, solution: Solution, free: np.ndarray) -> Fitted:
    """The fit with a covariance that is robust to a wrong variance.

    M = sum of f s_i s_i' over rows with the score s_i, where f is 1 (HC0: White 1980), n / (n - p) (HC1), 1 / (1 - h_i) (HC2:
    Horn, Horn and Duncan 1975), 1 / (1 - h_i)^2 (HC3: MacKinnon and White, Journal of Econometrics 29, 1985), with the leverage
    h_i. A row that stands for several is as many rows of its leverage.

    Parameters
    ----------
    fitted, solution
        The fit.
    free
        Which coefficients are estimated, [p].

    Raises
    ------
    UserError
        If HC2 or HC3 has to divide by 0, as a row alone determines a coefficient.
    """
    problem, kind = solution.problem, solution.problem.design.std_errors
    design, state = problem.design, problem.design.by_term(fitted.coefficients)
    if kind in BY_LEVERAGE:
        state |= inverse_of(design, fitted)
    sums = problem.workload.sum(problem.executor, kind.lower() if kind in BY_LEVERAGE else "squares", state)
    if kind in BY_LEVERAGE:
        refuse_leverage_of_one(design, sums, problem.counts)
    meat = assemble(design, sums, free)
    factor = float(problem.counts["rows"]) / solution.df_residual if kind in ("robust", "HC1") else 1.0
    return replace(fitted, meat_dense=meat.a, meat_mixed=meat.b, meat_diagonal=meat.d, correction=factor)


class Scores(NamedTuple):
    """Sums of scores by cluster: the numbers of the clusters that have rows, and [clusters, free coefficients]."""

    clusters: np.ndarray
    sums: np.ndarray


def scores_of(fitted: Fitted, solution: Solution) -> list[Scores]:
    """Those by the clusters of each of `Design.cluster_counts`. Raises UserError if errors are to be those of a series, and a
    date has several rows."""
    problem, design = solution.problem, solution.problem.design
    sums = problem.workload.sum(problem.executor, "scores", design.by_term(fitted.coefficients))
    scores = []
    for number in range(len(design.cluster_counts)):
        which = f"_of_{number}" if number else ""
        rows = sums[f"rows{which}"]
        present = rows > 0
        if design.std_errors == "newey_west" and rows.max() > 1:
            raise UserError(
                f"models.{design.model}.std_errors: newey_west is for one row of each date, and a date has {rows.max():,.0f}\n"
                f"  use `driscoll_kraay({design.clusters[0].column})`, which takes the rows of a date together"
            )
        by_cluster = np.zeros((len(present), design.size))
        for k, part in enumerate(design.parts):
            by_cluster[:, part.where] = sums[f"part_{k}{which}"].reshape(len(present), part.size)
        of_free = by_cluster[np.ix_(present, [*fitted.dense, *fitted.eliminated])]
        scores.append(Scores(np.flatnonzero(present), of_free))
    return scores


def by_several(fitted: Fitted, solution: Solution) -> Fitted:
    """The fit with a covariance that is robust to clusters of several columns.

    M is the sum over all sets of the columns of CR1's for the clusters of rows that agree in all columns of the set, subtracted
    if these are of even number: of two columns M_a + M_b - M_ab (Cameron, Gelbach & Miller, Journal of Business & Economic
    Statistics 29, 2011). Each has its own factor G / (G - 1) (n - 1) / (n - p), as in sandwich's vcovCL(type = "HC1").
    """
    design, scores = solution.problem.design, scores_of(fitted, solution)
    of = [(number,) for number in range(len(design.clusters))] + [cells.of for cells in design.cells]
    factor = (float(solution.problem.counts["rows"]) - 1) / solution.df_residual
    parts, columns, signs = [], [], []
    for columns_of, (_, by_cluster) in zip(of, scores, strict=True):
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
    """The fit with a covariance that is robust to serial correlation (solvers.serial), with the factor n / (n - p) beside."""
    design = solution.problem.design
    ((_, scores),) = scores_of(fitted, solution)
    dates = len(scores)
    lags = serial.default_lags(dates) if design.lags is None else min(design.lags, dates - 1)
    share = serial.share_seen(dates, lags)
    correction = float(solution.problem.counts["rows"]) / solution.df_residual / share if share > 0 else np.nan
    return replace(fitted, scores=scores, lags=lags, correction=correction)


LARGEST_CHECKED = 1_000
"""Coefficients up to which it is looked at whether their covariance matrix is positive semidefinite: some seconds."""

ROUNDING = 1e-9
"""Of an eigenvalue, in the largest."""


def smallest_share(fitted: Fitted) -> float | None:
    """The least variance by clusters of several columns of any combination of coefficients, in its classical variance: negative
    if the covariance matrix is not positive semidefinite. None for too many coefficients."""
    free = len(fitted.dense) + len(fitted.eliminated)
    if not len(fitted.score_signs) or free > LARGEST_CHECKED or not np.isfinite(fitted.scores).all():
        return None
    dense, eliminated = np.split(np.eye(free), [len(fitted.dense)], axis=1)
    classical = fitted.dispersion * np.hstack(fitted.solved(dense, eliminated))
    # I^-1 = L L': the eigenvalues of L'ML are those of the variances in classical ones.
    root = scipy.linalg.cholesky(classical, lower=True)
    moved = fitted.scores @ root
    values = scipy.linalg.eigvalsh((moved * fitted.score_signs[:, None]).T @ moved) / fitted.dispersion**2
    return float(values[0]) if values[0] < -ROUNDING * abs(values[-1]) else max(float(values[0]), 0.0)


def inverse_of(design: Design, fitted: Fitted) -> dict[str, np.ndarray]:
    """The inverse information matrix of a fit, as a pass takes it."""
    return inverse_state(
        design, (fitted.dense, fitted.eliminated), fitted.schur_inverse, fitted.loadings, fitted.diagonal
    )


def inverse_state(
    design: Design,
    places: tuple[np.ndarray, np.ndarray],
    schur_inverse: np.ndarray,
    loadings: np.ndarray,
    eliminated_block: np.ndarray,
) -> dict[str, np.ndarray]:
    """The same, given the places of the dense and the eliminated coefficients, S^-1, B D^-1 and D."""
    mixed = schur_inverse @ loadings
    diagonal = 1.0 / eliminated_block + np.einsum("ij,ij->j", loadings, mixed)
    number = eliminated_part(design)
    eliminated = slice(design.size, design.size) if number is None else design.parts[number].where
    return leverage.state_of(design.size, places, eliminated, (schur_inverse, -mixed, diagonal))


def refuse_leverage_of_one(design: Design, sums: Sums, counts: Sums) -> None:
    """Raise UserError if rows alone determine a coefficient, and name the groups that they are in."""
    alone = int(sums["alone"])
    if not alone:
        return
    named = []
    for number, grouping in enumerate(design.groupings):
        of_one = np.flatnonzero((sums[f"alone_{number}"] == 1) & (counts[f"rows_{number}"] == 1))
        named += [f"{':'.join(grouping)}[{name}]" for name in group_names(design, grouping, of_one)]
    where = f", those of {', '.join(named[:SHOWN])}{', ...' if len(named) > SHOWN else ''}" if named else ""
    raise UserError(
        f"models.{design.model}.std_errors: {design.std_errors} divides by 1 less the leverage of a row, and that is 0 for "
        f"{'a training row' if alone == 1 else f'{alone:,} training rows'}: each alone determines a coefficient{where}\n"
        "  merge rare levels with data.rare, leave such rows out in data.where, or use `std_errors: HC1`"
    )
