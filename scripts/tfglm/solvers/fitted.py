"""A fitted model: the estimates by coefficient, and their covariance in block form."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE
from tfglm.solvers import effective, serial
from tfglm.solvers.clustered import Clustered

FREE, REFERENCE, ALIASED, SEPARATED, EMPTY = range(5)
"""The status of a coefficient. REFERENCE and ALIASED coefficients are held at 0. SEPARATED coefficients have no finite estimate.
EMPTY coefficients have no rows after the rows of separated groups are dropped."""

CHUNK = 512
"""Rows of a transformation in a chunk of the computation."""

THREADS = 2
"""Threads that compute the variances of many rows. The results are the same bit for bit for any number."""


class Variances(NamedTuple):
    """Variances of the rows of a transformation, [rows]: `chosen` as in the config, and classical. With robust errors beside a
    penalty, both contain its expected squared `bias`."""

    chosen: np.ndarray
    classical: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class Fitted:
    """Estimates and covariance on the scale of the fit (numbers centred and scaled as in the design).

    There are p coefficients; q dense and m eliminated coefficients are free.

    - `coefficients`, `status` and `rows` are [p]. `responses` [p] sums the response by group; for terms without groups, over
      all rows.
    - `dense` [q] and `eliminated` [m] are the positions of the free coefficients. The blocks of the information matrix I are
      `schur_inverse` [q, q], `loadings` = B D^-1 [q, m] and `diagonal` = D [m].
    - `null_vectors` [directions, p] are directions that change no prediction.
    - The classical covariance is dispersion * I^-1. The quasi covariance is `correction` times the classical covariance.
    - The robust covariance is `correction` * I^-1 M I^-1. M has the blocks `meat_dense` [q, q], `meat_mixed` [q, m] and
      `meat_diagonal` [m]. By cluster, M = Z'Z with `scores` = Z [clusters, q + m].
    - CR2 (solvers.clustered) needs five more. `cluster_scores` [clusters, q + m] are Z before the adjustment.
      `cluster_information` is the lower triangle of the information matrix of each cluster [clusters, (q + m) (q + m + 1) / 2].
      `cluster_design` is the same for a linear regression whose rows have a mean weight of 1. `cluster_constant` [q + m] and
      `cluster_rho` define the working model.
    - Clusters of several columns follow each other in Z. `score_columns` [clusters] is the number of their column, -1 for rows
      that agree in several columns. `score_signs` [clusters] is 1 for clusters that are added, -1 for subtracted clusters.
    - Without CR2, `cluster_sums`, `cluster_within` [clusters, q + m] and `cluster_sizes` [clusters] describe the clusters of each
      column, or the dates, as solvers.effective does. `cluster_design` is the information matrix of each at the null model,
      unless these are too large. The blocks of the information matrix there are `null_schur_inverse`, `null_loadings` and
      `null_diagonal`, empty if the fit has the same.
    - With `lags` above 0, each row of Z is a date, in order of time. M is then Z'KZ, with Bartlett weights K (solvers.serial).
    - With `of_lambda` [smooths, q + m], the covariance is the classical one plus of_lambda' of_lambda, which allows for estimated
      smoothing parameters (solvers.smooth).
    - With `penalty` = P [q + m], the diagonal of the penalty of smooth terms in I, the robust covariance has dispersion *
      I^-1 P I^-1 beside it, the expected squared bias. By cluster P lacks the penalty of random effects that have all rows in one
      cluster, whose prior is a part of the score: `cluster_penalty` [q + m].
    - `random_penalties` [random terms, q + m] are the penalties of the random effects of each term, 0 elsewhere. With R =
      `variance_root` [lambdas + 1, random terms + 1], R'R is the covariance of their log lambda and of log dispersion.
    - `separating` [directions, p] are the directions that separate rows across terms. The first direction moves all separated
      rows. The others and `null_vectors` span all directions that change no prediction for the rows of the likelihood.
    - `separated_rows` [rows, others] says how far the other directions move each separated row towards its response. Equal
      rows appear once.
    - `path_coefficients` [penalties, p] are the coefficients for all penalties of a path, `path_penalties`.

    The blocks of a penalised fit are those of I + penalty; its inverse is the posterior covariance. The dispersion is NaN if
    there are no standard errors, for example after an online solver or a lasso.
    """

    coefficients: np.ndarray
    status: np.ndarray
    rows: np.ndarray
    responses: np.ndarray
    dense: np.ndarray
    eliminated: np.ndarray
    schur_inverse: np.ndarray
    loadings: np.ndarray
    diagonal: np.ndarray
    null_vectors: np.ndarray
    dispersion: float
    correction: float = 1.0
    meat_dense: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    meat_mixed: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    meat_diagonal: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scores: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_scores: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_information: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_design: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_constant: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cluster_rho: float = 0.0
    score_columns: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    score_signs: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cluster_sums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_within: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    cluster_sizes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    null_schur_inverse: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    null_loadings: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    null_diagonal: np.ndarray = field(default_factory=lambda: np.zeros(0))
    lags: int = 0
    of_lambda: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    penalty: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cluster_penalty: np.ndarray = field(default_factory=lambda: np.zeros(0))
    random_penalties: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    variance_root: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)))
    path_penalties: np.ndarray = field(default_factory=lambda: np.zeros(0))
    path_coefficients: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    separating: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    separated_rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    summary: dict = field(default_factory=dict)

    def reported(self, design: Design) -> "Fitted":
        """The fit without the coefficients of absorbed factors, which have no covariance."""
        if not design.absorbed:
            return self
        shown = slice(0, design.reported_size)
        by_term = {name: getattr(self, name)[shown] for name in ("coefficients", "status", "rows", "responses")}
        return replace(self, **by_term, separating=self.separating[:, shown])

    def solved(self, dense: np.ndarray, eliminated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a transformation, [rows, q] and [rows, m], times the inverse information matrix.

        The inverse is blockdiag(0, D^-1) + U S^-1 U' with U = [I; -loadings']. It is never built.
        """
        on_dense = (dense - eliminated @ self.loadings.T) @ self.schur_inverse
        return on_dense, eliminated / self.diagonal - on_dense @ self.loadings

    def covariance(self, transform: scipy.sparse.csr_array, classical: bool = False) -> np.ndarray:
        """T V T' for a transformation T [rows, p] of the coefficients."""
        dense, eliminated = transform[:, self.dense].toarray(), transform[:, self.eliminated].toarray()
        on_dense, on_eliminated = self.solved(dense, eliminated)
        if classical or not self.is_robust:
            scale = self.dispersion * (1.0 if classical else self.correction)
            result = scale * (dense @ on_dense.T + eliminated @ on_eliminated.T)
            if classical or not len(self.of_lambda):
                return result
            along = self.on_free(transform) @ self.of_lambda.T
            return result + along @ along.T
        if len(self.scores):
            half = serial.windows(np.hstack([on_dense, on_eliminated]) @ self.scores.T, self.lags)
            signed = half * self.score_signs if len(self.score_signs) else half
            result = self.correction * (signed @ half.T)
        else:
            half = on_dense @ self.meat_mixed
            crossed = half @ on_eliminated.T
            square = on_dense @ self.meat_dense @ on_dense.T + (on_eliminated * self.meat_diagonal) @ on_eliminated.T
            result = self.correction * (square + crossed + crossed.T)
        return result + self.dispersion * self._biases(on_dense, on_eliminated) if len(self.penalty) else result

    def _biases(self, on_dense: np.ndarray, on_eliminated: np.ndarray) -> np.ndarray:
        """T I^-1 P I^-1 T', from T I^-1."""
        moved = np.hstack([on_dense, on_eliminated])
        return (moved * self.penalty) @ moved.T

    def information(self, places: np.ndarray) -> np.ndarray:
        """The information of the rows about the free coefficients at these positions, [places, places]."""
        scale = np.sqrt(np.diag(self.schur_inverse))  # a large penalty would take the digits of the others
        schur = np.linalg.inv(self.schur_inverse / scale / scale[:, None]) / scale / scale[:, None]
        mixed = self.loadings * self.diagonal
        rank = {place: number for number, place in enumerate([*self.dense.tolist(), *self.eliminated.tolist()])}
        order = np.array([rank[place] for place in places.tolist()])
        result, q = np.zeros((len(order), len(order))), len(self.dense)
        inside, others = order < q, order >= q
        on_dense, on_eliminated = order[inside], order[others] - q
        result[np.ix_(inside, inside)] = (schur + self.loadings @ mixed.T)[np.ix_(on_dense, on_dense)]
        result[np.ix_(inside, others)] = mixed[np.ix_(on_dense, on_eliminated)]
        result[np.ix_(others, inside)] = result[np.ix_(inside, others)].T
        result[np.ix_(others, others)] = np.diag(self.diagonal[on_eliminated])
        for penalty in (self.penalty, self.cluster_penalty):
            result = result - np.diag(penalty[order]) if len(penalty) else result
        return result

    def share_of_effects(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """About the share of the variance of the rows of a transformation in random effects that single clusters determine,
        [rows]."""
        if not self.cluster_penalty.any():
            return np.zeros(transform.shape[0])
        mixed = self.loadings * self.diagonal
        dense = np.diag(np.linalg.inv(self.schur_inverse)) + np.einsum("ij,ij->i", self.loadings, mixed)
        weight = (self.cluster_penalty > 0) / np.append(dense, self.diagonal)
        along = transform[:, [*self.dense, *self.eliminated]].power(2) @ weight
        return along / np.maximum(self.unscaled_variances(transform), np.finfo(float).tiny)

    @property
    def is_robust(self) -> bool:
        return bool(len(self.scores) or len(self.meat_dense) or len(self.meat_diagonal))

    @cached_property
    def clustered(self) -> Clustered | None:
        """The matrices behind the degrees of freedom of CR2; None for other standard errors."""
        if not len(self.cluster_information):
            return None
        return Clustered(
            square(self.cluster_information), self.cluster_constant, float(self.cluster_rho), penalty=self.penalty
        )

    @cached_property
    def design_clustered(self) -> Clustered | None:
        """The same for a linear regression on the same columns, clusters and prior weights, with rho = 1.

        The rows of a cluster then share half of the variance. The response does not enter. The result decides which tests by
        cluster are reported.
        """
        if self.clustered is None or not len(self.cluster_design):
            return self.clustered
        information, penalty = square(self.cluster_design), self.penalty
        if len(penalty):
            # The weights have another mean, so the penalty has another unit.
            penalty = penalty * np.trace(information.sum(0)) / np.trace(self.clustered.information.sum(0))
        return Clustered(information, self.cluster_constant, 1.0, penalty=penalty)

    def estimable(self, rows: np.ndarray) -> np.ndarray:
        """Which combinations of the coefficients [rows, p] can be estimated, [rows].

        A combination is estimable if it is constant along every direction that changes no prediction for the rows of the
        likelihood. The largest entry of a direction is about 1, and its rounding errors are far below NEGLIGIBLE. So they are
        compared with the largest weight of the combination.
        """
        largest = np.abs(rows).max(axis=1, initial=0.0)
        along = np.abs(rows @ np.vstack([self.null_vectors, *self.separating[1:]]).T)
        return (along <= NEGLIGIBLE * largest[:, None]).all(axis=1)

    def on_free(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The columns of a transformation that belong to free coefficients, [rows, q + m]."""
        return np.hstack([transform[:, self.dense].toarray(), transform[:, self.eliminated].toarray()])

    def effective_clusters(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The effective number of clusters for each row of a transformation, [rows].

        It is 3 (sum z^2)^2 / sum z^4, at most the number of clusters less 1. z is the contribution of a cluster to the error.
        Clusters of several columns use the column with the smallest result. Correlated dates count as fewer independent dates
        (`serial.degrees_of_freedom`).
        """
        parts = []
        for rows in chunks(transform.shape[0]):
            dense, sparse = transform[rows][:, self.dense].toarray(), transform[rows][:, self.eliminated]
            squares = self._by_cluster(self._on_dense(dense, sparse)[1], sparse) ** 2
            of_columns = [squares[:, of_column] for of_column in self.columns_of_scores]
            parts.append(np.min([serial.degrees_of_freedom(of_column, self.lags) for of_column in of_columns], axis=0))
        return np.concatenate(parts)

    def effective_by_design(self, transform: scipy.sparse.csr_array) -> np.ndarray | None:
        """The effective number of clusters by the design (solvers.effective) for each row of a transformation, [rows]. None with
        CR2, which has degrees of freedom of its own."""
        if not len(self.cluster_sizes):
            return None
        parts = []
        for rows in chunks(transform.shape[0]):
            of_columns = [
                effective.degrees_of_freedom(self._inside(transform[rows], of), between, self.lags)
                for of, between in zip(self.columns_of_scores, self._between(transform[rows]), strict=True)
            ]
            parts.append(np.min(of_columns, axis=0))
        return np.concatenate(parts)

    def joint_effective_by_design(self, transform: scipy.sparse.csr_array) -> float | None:
        """The same for a joint test of the rows of a transformation."""
        if not len(self.cluster_sizes):
            return None
        return min(
            effective.wishart_degrees(self._inside(transform, of, jointly=True), between, self.lags)
            for of, between in zip(self.columns_of_scores, self._between(transform), strict=True)
        )

    def _between(self, transform: scipy.sparse.csr_array) -> list[np.ndarray]:
        """T M h_g for the clusters of each column, [rows, clusters]."""
        null = self._at_null_model
        dense, sparse = transform[:, self.dense].toarray(), transform[:, self.eliminated]
        of_dense = null._on_dense(dense, sparse)[1] @ null._reduced_sums.T
        between = null._plus_alone(of_dense, null._alone(sparse), self.cluster_sums)
        return [between[:, of] for of in self.columns_of_scores]

    def _inside(self, transform: scipy.sparse.csr_array, of: np.ndarray, jointly: bool = False) -> np.ndarray:
        """The diagonals of T M K_g M T' for the clusters of a column, [rows, clusters]; `jointly` the matrices, [clusters, rows,
        rows]."""
        null = self._at_null_model
        dense, sparse = transform[:, self.dense].toarray(), transform[:, self.eliminated]
        if len(self.cluster_design):
            moved = np.hstack(null.solved(dense, sparse.toarray()))
            products = (moved @ square(each[None])[0] for each in self.cluster_design[of])
            if jointly:
                return np.array([each @ moved.T for each in products])
            return np.stack([np.sum(each * moved, axis=1) for each in products], axis=1)
        reduced, on_dense = null._on_dense(dense, sparse)
        sums = null._plus_alone(on_dense @ null._reduced_sums.T, null._alone(sparse), self.cluster_sums)[:, of]
        within = null._plus_alone(
            on_dense**2 @ self.cluster_within[:, : len(self.dense)].T, null._alone(sparse).power(2), self.cluster_within
        )[:, of]
        total, sizes = null._unscaled(reduced, on_dense, sparse), self.cluster_sizes[of]
        if len(self.penalty):
            total = total - null._bias(on_dense, sparse)
        share, left = effective.approximated(sums, within, total, sizes)
        if not jointly:
            return share * left[:, None] + sums**2 / sizes
        whole = reduced @ on_dense.T
        if len(self.diagonal):
            whole = whole + (null._alone(sparse) @ sparse.T).toarray()
        if len(self.penalty):
            whole = whole - null._biases(*null.solved(dense, sparse.toarray()))
        of_clusters = np.einsum("ig,jg->gij", sums, sums / sizes)
        return of_clusters + share.mean(axis=0)[:, None, None] * (whole - of_clusters.sum(axis=0))

    @cached_property
    def _at_null_model(self) -> "Fitted":
        """The fit with the information matrix of the null model."""
        if not len(self.null_schur_inverse):
            return self
        blocks = {name: getattr(self, f"null_{name}") for name in ("schur_inverse", "loadings", "diagonal")}
        return replace(self, **blocks)

    @property
    def columns_of_scores(self) -> list[np.ndarray]:
        """The positions in `scores` of the clusters of each column."""
        if not len(self.score_columns):
            return [np.arange(len(self.scores))]
        return [np.flatnonzero(self.score_columns == column) for column in range(self.score_columns.max() + 1)]

    @property
    def cluster_count(self) -> int:
        """The number of clusters or dates. With several columns, the smallest number."""
        return min(map(len, self.columns_of_scores))

    def unscaled_variances(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The classical variances divided by the dispersion: the diagonal of T I^-1 T', [rows]. For a penalised fit it is the
        diagonal of T (I + penalty)^-1 T'."""
        parts = []
        for rows in chunks(transform.shape[0]):
            dense, sparse = transform[rows][:, self.dense].toarray(), transform[rows][:, self.eliminated]
            parts.append(self._unscaled(*self._on_dense(dense, sparse), sparse))
        return np.concatenate(parts)

    def variances(self, transform: scipy.sparse.csr_array) -> Variances:
        """The diagonals of T V T' for the chosen and the classical covariance. With clusters of several columns, a variance that
        is not positive is NaN."""
        # The first chunk runs alone, because it fills the caches that all threads use.
        first, *others = (transform[rows] for rows in chunks(transform.shape[0]))
        parts = [self._variances(first)]
        with ThreadPoolExecutor(THREADS) as threads:
            parts += threads.map(self._variances, others)
        return Variances(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def satterthwaite(self, transform: scipy.sparse.csr_array, otherwise: float) -> np.ndarray:
        """The degrees of freedom 2 v^2 / (g' C g) of the rows of a transformation beside random effects, [rows].

        v is the classical variance, g its derivative by log lambda of the random effects and log dispersion, and C the covariance
        of these (Satterthwaite 1946; as in lmerTest). Rows that have random effects themselves, and a fit without any, have those
        that hold `otherwise`.
        """
        df = np.full(transform.shape[0], otherwise)
        if not len(self.random_penalties):
            return df
        random = np.array([*self.dense, *self.eliminated])[self.random_penalties.any(axis=0)]
        fixed = np.flatnonzero(np.diff(transform[:, random].indptr) == 0)
        alone = [replace(self, penalty=penalty) for penalty in self.random_penalties]
        for some in chunks(len(fixed)):
            rows = transform[fixed[some]]
            dense, sparse = rows[:, self.dense].toarray(), rows[:, self.eliminated]
            reduced, on_dense = self._on_dense(dense, sparse)
            variance = self._unscaled(reduced, on_dense, sparse)
            slopes = np.stack([*(-each._bias(on_dense, sparse) for each in alone), variance])
            uncertainty = np.sum((self.variance_root @ slopes) ** 2, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                df[fixed[some]] = np.where(variance > 0, 2 * variance**2 / uncertainty, otherwise)
        return df

    def variances_with_spreads(self, transform: scipy.sparse.csr_array, by_spread: np.ndarray) -> np.ndarray:
        """The variances of functions with the derivatives `transform` by the coefficients and `by_spread` [rows, random terms] by
        the logarithm of the standard deviations of random effects, which the fit estimates together; with `of_lambda`."""
        root = self.variance_root
        along = self.on_free(transform) @ self.of_lambda.T
        # log standard deviation = (log dispersion - log lambda) / 2
        along += by_spread @ (root[:, -1:] - root[:, :-1]).T / 2
        return self.variances(transform).classical + np.einsum("ij,ij->i", along, along)

    def _variances(self, transform: scipy.sparse.csr_array) -> Variances:
        dense, sparse = transform[:, self.dense].toarray(), transform[:, self.eliminated]
        reduced, on_dense = self._on_dense(dense, sparse)
        classical = self.dispersion * self._unscaled(reduced, on_dense, sparse)
        bias = self.dispersion * self._bias(on_dense, sparse) if len(self.penalty) else np.zeros(len(classical))
        if len(self.of_lambda):
            along = dense @ self.of_lambda[:, : len(self.dense)].T + sparse @ self.of_lambda[:, len(self.dense) :].T
            return Variances(classical + np.einsum("ij,ij->i", along, along), classical, bias)
        if not self.is_robust:
            return Variances(self.correction * classical, classical, bias)
        # A row of T I^-1 is (a, e D^-1 - a loadings) with a = `on_dense` and e = `sparse`, which has few nonzero entries.
        if len(self.scores):
            on_clusters = serial.windows(self._by_cluster(on_dense, sparse), self.lags)
            if len(self.score_signs):
                robust = np.einsum("ij,ij,j->i", on_clusters, on_clusters, self.score_signs)
                robust = np.where(robust > 0, robust, np.nan)
            else:
                robust = np.einsum("ij,ij->i", on_clusters, on_clusters)
        else:
            within, between = self._reduced_meat
            robust = np.einsum("ij,ij->i", on_dense @ within, on_dense)
            if len(self.diagonal):
                alone = self._alone(sparse)
                robust += 2 * np.einsum("ij,ij->i", on_dense, alone @ between.T)
                robust += alone.power(2) @ self.meat_diagonal
        return Variances(self.correction * robust + bias, classical, bias)

    def _bias(self, on_dense: np.ndarray, sparse: scipy.sparse.csr_array) -> np.ndarray:
        """The diagonal of T I^-1 P I^-1 T', from the parts of T that `_variances` has."""
        penalties = self.penalty[: len(self.dense)], self.penalty[len(self.dense) :]
        diagonal = on_dense**2 @ penalties[0]
        if penalties[1].any():
            weighted, reduced = self._penalised_loadings
            alone = self._alone(sparse)
            diagonal += np.einsum("ij,ij->i", on_dense, on_dense @ reduced - 2 * (alone @ weighted.T))
            diagonal += alone.power(2) @ penalties[1]
        return diagonal

    @cached_property
    def _penalised_loadings(self) -> tuple[np.ndarray, np.ndarray]:
        """loadings P [q, m] and loadings P loadings' [q, q], with the P of eliminated coefficients."""
        weighted = self.loadings * self.penalty[len(self.dense) :]
        return weighted, weighted @ self.loadings.T

    def _unscaled(self, reduced: np.ndarray, on_dense: np.ndarray, sparse: scipy.sparse.csr_array) -> np.ndarray:
        """The diagonal of T I^-1 T', from the parts of T that `_on_dense` returns."""
        diagonal = np.einsum("ij,ij->i", on_dense, reduced)
        return diagonal + sparse.power(2) @ (1.0 / self.diagonal) if len(self.diagonal) else diagonal

    def _on_dense(self, dense: np.ndarray, sparse: scipy.sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """The reduced part T_dense - T_eliminated loadings' of rows of a transformation, and this part times S^-1."""
        # SciPy copies what it multiplies, so only the used columns are passed.
        used = np.unique(sparse.indices)
        reduced = dense - sparse[:, used] @ self.loadings[:, used].T
        return reduced, reduced @ self.schur_inverse

    def _alone(self, sparse: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """The eliminated part of rows of a transformation times D^-1."""
        return sparse @ scipy.sparse.diags_array(1.0 / self.diagonal)

    def _by_cluster(self, on_dense: np.ndarray, sparse: scipy.sparse.csr_array) -> np.ndarray:
        """T I^-1 Z', [rows, clusters]."""
        return self._plus_alone(on_dense @ self._reduced_scores.T, self._alone(sparse), self.scores)

    def _plus_alone(self, of_dense: np.ndarray, alone: scipy.sparse.csr_array, by_cluster: np.ndarray) -> np.ndarray:
        """Plus the eliminated part of rows of a transformation times numbers of the clusters, [clusters, q + m]."""
        return of_dense + alone @ by_cluster[:, len(self.dense) :].T if len(self.diagonal) else of_dense

    @cached_property
    def _reduced_scores(self) -> np.ndarray:
        """Z_dense - Z_eliminated loadings', [clusters, q]."""
        return self._reduced(self.scores)

    @cached_property
    def _reduced_sums(self) -> np.ndarray:
        """The same of `cluster_sums`."""
        return self._reduced(self.cluster_sums)

    def _reduced(self, by_cluster: np.ndarray) -> np.ndarray:
        q = len(self.dense)
        return by_cluster[:, :q] - by_cluster[:, q:] @ self.loadings.T

    @cached_property
    def _reduced_meat(self) -> tuple[np.ndarray, np.ndarray]:
        """(I, -loadings) M (I, -loadings)' [q, q] and (I, -loadings) M (0, I)' [q, m]."""
        scaled = self.loadings * self.meat_diagonal
        crossed = self.meat_mixed @ self.loadings.T
        return self.meat_dense - crossed - crossed.T + scaled @ self.loadings.T, self.meat_mixed - scaled


def square(triangles: np.ndarray) -> np.ndarray:
    """Build symmetric matrices [matrices, n, n] from their lower triangles [matrices, n (n + 1) / 2].

    >>> square(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """
    size = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2
    places = np.zeros((size, size), int)
    rows, columns = np.tril_indices(size)
    places[rows, columns] = places[columns, rows] = np.arange(triangles.shape[1])
    return triangles[:, places]


def chunks(rows: int) -> Iterator[slice]:
    return (slice(first, first + CHUNK) for first in range(0, max(rows, 1), CHUNK))
