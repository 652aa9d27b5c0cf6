"""The covariance that is robust to rows being alike: rows of a cluster (CR1), of clusters of several columns, or of dates that
are close to each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse

from tfglm.inference import serial
from tfglm.inference.bread import BreadRows, ByCluster, chunks
from tfglm.inference.covariance import Covariance
from tfglm.inference.effective import ByDesign
from tfglm.inference.reference import (
    AS_MANY,
    CROSSED,
    FEWEST,
    NOT_POSITIVE,
    ON_DEMAND,
    SEEN,
    UNRELIABLE,
    UNSEEN_BELOW,
    Fewest,
    JointReference,
    Reference,
    too_few,
)

LARGEST_CHECKED = 1_000
"""Largest number of coefficients for the check that their covariance matrix is positive semidefinite. It takes some seconds."""

ROUNDING = 1e-9
"""Rounding error of an eigenvalue, as a share of the largest eigenvalue."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Clustered(Covariance):
    """`correction` * I^-1 Z'Z I^-1, where Z = `scores` [clusters, q + m] are sums over the rows of a cluster.

    - `lags` is 0. Only the scores of dates (`Serial`) are added over so many dates.
    - `penalty` lacks the penalty of random effects that have all rows in one cluster, whose prior is a part of the score:
      `cluster_penalty` [q + m].
    - `by_design` has what the clusters contain of the design matrix.
    """

    scores: np.ndarray
    lags: int = 0
    cluster_penalty: np.ndarray | None = None
    by_design: ByDesign | None = None

    kind: ClassVar[str] = "clustered"

    carriers: ClassVar[str] = "clusters"
    """What carries the information, in words."""

    @property
    def columns(self) -> list[np.ndarray]:
        """The positions in `scores` of the clusters of each column."""
        return [np.arange(len(self.scores))]

    @property
    def count(self) -> int:
        """The number of clusters or dates. With several columns, the smallest number."""
        return min(map(len, self.columns))

    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        on_dense, on_eliminated = self.bread.times(transform)
        half = serial.windows(np.hstack([on_dense, on_eliminated]) @ self.scores.T, self.lags)
        result = self.correction * (self._signed(half) @ half.T)
        return result + self.dispersion * self._prior.of(on_dense, on_eliminated) if self._prior else result

    def _variances(self, rows: BreadRows, classical: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return self.correction * self._squares(serial.windows(self._scores.along(rows), self.lags)) + bias

    def _signed(self, half: np.ndarray) -> np.ndarray:
        """The contributions of the clusters to the rows of a transformation, [rows, clusters], with the sign of the clusters."""
        return half

    def _squares(self, half: np.ndarray) -> np.ndarray:
        """The sums of their squares, [rows]; NaN if a sum is no variance."""
        return np.einsum("ij,ij->i", half, half)

    @cached_property
    def _scores(self) -> ByCluster:
        return ByCluster(self.bread, self.scores)

    @property
    def _penalties(self) -> list[np.ndarray]:
        return super()._penalties + ([] if self.cluster_penalty is None else [self.cluster_penalty])

    @property
    def _by_design(self) -> ByDesign:
        assert self.by_design, "CR2 has degrees of freedom of its own"
        return self.by_design

    def reference(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST, exactly: bool = True) -> Reference:
        return Reference(
            self.effective_clusters(transform),
            True,
            self.unseen(transform),
            self._needed(fewest),
            of=self.carriers,
            count=self.count,
            prints_all=fewest.prints_all,
            df_by_design=self._by_design.degrees_of_freedom(transform, self.columns, self.lags, self.penalty),
        )

    def joint(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
        q = transform.shape[0]
        needed = self._needed_jointly(q, fewest)
        if self.count - 1 < needed and not fewest.prints_all:
            return JointReference(
                problem=too_few(self.carriers, self.count, self.count, needed + 1, f"{q} coefficients")
            )
        degrees = self._joint_degrees(transform, needed, fewest.prints_all)
        if isinstance(degrees, str):
            return JointReference(problem=degrees)
        eta, by_design = degrees
        if by_design >= AS_MANY * needed and eta > q - 1:
            return JointReference((eta - q + 1) / eta, eta - q + 1)
        problem = too_few(self.carriers, self.count, min(by_design, eta), needed, f"{q} coefficients")
        if not fewest.prints_all or eta <= q - 1:
            return JointReference(problem=problem)
        return JointReference((eta - q + 1) / eta, eta - q + 1, note=UNRELIABLE + problem.removesuffix(ON_DEMAND))

    def _needed(self, fewest: Fewest) -> float:
        """The least information for a test of a combination of coefficients."""
        return fewest.clusters

    def _needed_jointly(self, coefficients: int, fewest: Fewest) -> float:
        """The least information for a joint test of so many coefficients."""
        return max(fewest.clusters, fewest.clusters_per_coefficient * coefficients)

    def _joint_degrees(
        self, transform: scipy.sparse.csr_array, needed: float, always: bool
    ) -> tuple[float, float] | str:
        """The degrees of freedom of the Wishart matrix that approximates the covariance of the rows of a transformation, and
        those by the design, or why they are not computed. They are Hotelling's, q (q + 1) / sum |z_g|^4 of scores with sum
        z_g z_g' = I. For clusters of several columns, those of the column with the fewest."""
        scores = np.hstack(self.bread.times(transform)) @ self.scores.T
        normalised = [np.linalg.svd(scores[:, each], full_matrices=False)[2] for each in self.columns]
        eta = min(serial.wishart_degrees(of_column, self.lags) for of_column in normalised)
        return eta, self._by_design.joint_degrees(transform, self.columns, self.lags, self.penalty)

    def effective_clusters(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """The effective number of clusters for each row of a transformation, [rows].

        It is 3 (sum z^2)^2 / sum z^4, at most the number of clusters less 1. z is the contribution of a cluster to the error.
        Clusters of several columns use the column with the smallest result. Correlated dates count as fewer independent dates
        (`serial.degrees_of_freedom`).
        """
        parts = []
        for some in chunks(transform.shape[0]):
            squares = self._scores.along(self.bread.rows(transform[some])) ** 2
            of_columns = [serial.degrees_of_freedom(squares[:, column], self.lags) for column in self.columns]
            parts.append(np.min(of_columns, axis=0))
        return np.concatenate(parts)

    def unseen(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """Which rows of a transformation single clusters determine, [rows], so that their variance cannot be estimated."""
        chosen, classical, bias = self.variances(transform)
        unseen = ~(chosen - bias >= UNSEEN_BELOW * (classical - bias))
        return unseen | (self._share_of_effects(transform) > 1 - SEEN)

    def _share_of_effects(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """About the share of the variance of the rows of a transformation in random effects that single clusters determine,
        [rows]."""
        if self.cluster_penalty is None or not self.cluster_penalty.any():
            return np.zeros(transform.shape[0])
        bread = self.bread
        dense = np.diag(np.linalg.inv(bread.schur_inverse))
        dense = dense + np.einsum("ij,ij->i", bread.loadings, bread.d.times(bread.loadings))
        weight = (self.cluster_penalty > 0) / np.append(dense, bread.d.diagonal)
        along = transform[:, bread.free].power(2) @ weight
        return along / np.maximum(bread.squares(transform), np.finfo(float).tiny)

    def too_few_for(self, coefficients: int) -> str:
        if coefficients < self.count - 1:
            return ""
        return (
            f"{self.count} {self.carriers} are too few for {coefficients} coefficient{'' if coefficients == 1 else 's'}"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Serial(Clustered):
    """Each row of Z is a date, in order of time. M is Z'KZ, with Bartlett weights K (inference.serial)."""

    kind: ClassVar[str] = "serial"
    carriers: ClassVar[str] = "dates"

    def _needed(self, fewest: Fewest) -> float:
        return fewest.dates

    def _needed_jointly(self, coefficients: int, fewest: Fewest) -> float:
        return coefficients - 1 + max(fewest.dates_joint, coefficients)


@dataclass(frozen=True, eq=False, kw_only=True)
class Survey(Clustered):
    """By the sampling units of a survey. A row of Z is a unit less the mean of its stratum, times the root of (1 - f) n / (n - 1)
    for a stratum of n units, a share f of all (Binder, International Statistical Review 51, 1983). `df_design` is the number of
    units less that of strata."""

    df_design: float

    kind: ClassVar[str] = "survey"
    carriers: ClassVar[str] = "sampling units"

    def reference(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST, exactly: bool = True) -> Reference:
        return Reference(np.full(transform.shape[0], self.df_design), unseen=self.unseen(transform))

    def joint(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
        """F with q and df - q + 1 degrees of freedom, times (df - q + 1) / df (Korn & Graubard, American Statistician
        44, 1990)."""
        left = self.df_design - transform.shape[0] + 1
        return JointReference(left / self.df_design, left)

    def unseen(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """Which rows of a transformation have rounding errors for a variance, because single units determine them. It is exactly
        0 if all units of the population are in the sample."""
        chosen, classical, _ = self.variances(transform)
        return (chosen > 0) & (chosen < ROUNDING * classical)

    def too_few_for(self, coefficients: int) -> str:
        if coefficients <= self.df_design:
            return ""
        return f"{self.df_design:,.0f} degrees of freedom of the survey are too few for {coefficients} coefficients"


@dataclass(frozen=True, eq=False, kw_only=True)
class Crossed(Clustered):
    """By clusters of several columns. They follow each other in Z.

    `numbers` [clusters] is the number of their column, -1 for rows that agree in several columns. `signs` [clusters] is 1 for
    clusters that are added, -1 for subtracted clusters. A variance that is not positive is NaN.
    """

    numbers: np.ndarray
    signs: np.ndarray

    kind: ClassVar[str] = "crossed"
    carriers: ClassVar[str] = CROSSED
    why_unseen: ClassVar[str] = f"because {NOT_POSITIVE}"
    may_be_indefinite: ClassVar[bool] = True

    @property
    def columns(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.numbers == number) for number in range(self.numbers.max() + 1)]

    def _signed(self, half: np.ndarray) -> np.ndarray:
        return half * self.signs

    def _squares(self, half: np.ndarray) -> np.ndarray:
        squares = np.einsum("ij,ij,j->i", half, half, self.signs)
        return np.where(squares > 0, squares, np.nan)

    @property
    def smallest_share(self) -> float | None:
        """The smallest ratio of the variance to the classical variance, over all combinations of coefficients. It is negative if
        the covariance matrix is not positive semidefinite. None for too many coefficients."""
        free = len(self.bread.free)
        if free > LARGEST_CHECKED or not np.isfinite(self.scores).all():
            return None
        dense, eliminated = np.split(np.eye(free), [len(self.bread.dense)], axis=1)
        classical = self.dispersion * np.hstack(self.bread.solved(dense, eliminated))
        # With I^-1 = L L', the eigenvalues of L'ML are the ratios of the variances to classical variances.
        root = scipy.linalg.cholesky(classical, lower=True)
        moved = self.scores @ root
        matrix = (moved * self.signs[:, None]).T @ moved
        if self.penalty is not None:
            matrix += self.dispersion * (root.T * self.penalty) @ root
        values = scipy.linalg.eigvalsh(matrix) / self.dispersion**2
        return float(values[0]) if values[0] < -ROUNDING * abs(values[-1]) else max(float(values[0]), 0.0)
