"""The covariance of the estimates of a fit. Each kind has a file: what it adds to the inverse information matrix, which
distributions its tests have, and what it keeps in a checkpoint (its fields)."""

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from tfglm.inference.bread import Bread, BreadRows, Prior, chunks
from tfglm.inference.reference import DETERMINED_ALONE, FEWEST, Fewest, JointReference, Reference

THREADS = 2
"""Threads that compute the variances of many rows. The results are the same bit for bit for any number."""


MOST_ROWS = 4_000
"""Rows of a joint test with degrees of freedom of its own beside random effects."""


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """The random effects of a fit with q + m free coefficients.

    `penalties` [random terms, q + m] are the penalties of the effects of each term, 0 elsewhere. With R = `variance_root`
    [parameters, random terms + 1 + pairs], R'R is the covariance of their log lambda, of log dispersion, and of the origins of
    correlated terms. The derivative of the penalty by an origin has the entries `crossed` [pairs, q + m] in the columns
    `partners` [pairs, q + m].
    """

    penalties: np.ndarray
    variance_root: np.ndarray
    crossed: np.ndarray | None = None
    partners: np.ndarray | None = None


class Variances(NamedTuple):
    """Variances of the rows of a transformation, [rows]: `chosen` as in the config, and classical. With robust errors beside a
    penalty, both contain its expected squared `bias`."""

    chosen: np.ndarray
    classical: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Covariance(ABC):
    """The covariance V of the coefficients on the scale of the fit.

    - `bread` is the inverse of the information matrix I at the estimates. The classical covariance is dispersion * I^-1.
    - `dispersion` is NaN if there are no standard errors, for example after an online solver or a lasso.
    - `df_residual` are the degrees of freedom of t; infinite if the dispersion is known.
    - `correction` is a factor of the covariance of some kinds.
    - `random` are the random effects, if the model has any.
    - `penalty` = P [q + m] is the diagonal of the penalty of smooth terms in I. A robust covariance has dispersion * I^-1 P I^-1
      beside it, the expected squared bias (mgcv's vcov.gam(sandwich = TRUE)). None if the covariance is the posterior one.
    """

    bread: Bread
    dispersion: float
    df_residual: float
    correction: float = 1.0
    random: VarianceComponents | None = None
    penalty: np.ndarray | None = None

    kind: ClassVar[str]
    """The name of the kind in a checkpoint."""

    why_unseen: ClassVar[str] = DETERMINED_ALONE
    """Why some combinations have no variance."""

    may_be_indefinite: ClassVar[bool] = False
    """Whether the matrix may have negative eigenvalues."""

    @property
    def is_known(self) -> bool:
        """Whether there are standard errors."""
        return bool(np.isfinite(self.dispersion))

    @abstractmethod
    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """T V T' for a transformation T [rows, p] of the coefficients."""

    @abstractmethod
    def _variances(self, rows: BreadRows, classical: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """The diagonal of T V T', from parts of T I^-1 and the classical variances."""

    def classical(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """T V T' for the classical covariance."""
        return self.dispersion * self.bread.of(transform)

    def variances(self, transform: scipy.sparse.csr_array) -> Variances:
        """The diagonals of T V T' for the chosen and the classical covariance."""

        def variances_of(rows: scipy.sparse.csr_array) -> Variances:
            parts = self.bread.rows(rows)
            classical = self.dispersion * parts.squares()
            bias = self.dispersion * self._prior.squares(parts) if self._prior else np.zeros(len(classical))
            return Variances(self._variances(parts, classical, bias), classical, bias)

        # The first chunk runs alone, because it fills the caches that all threads use.
        first, *others = (transform[rows] for rows in chunks(transform.shape[0]))
        parts = [variances_of(first)]
        with ThreadPoolExecutor(THREADS) as threads:
            parts += threads.map(variances_of, others)
        return Variances(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def reference(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST, exactly: bool = True) -> Reference:
        """The reference distribution of the rows of a transformation, [rows, p], divided by their standard errors. With
        clusters `fewest` is the least information for a test; unless `exactly`, the effective number of clusters replaces
        Satterthwaite's degrees of freedom of CR2, which take long for many rows."""
        return Reference(self._degrees_of_freedom(transform), varies=self.random is not None)

    def joint(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
        """The reference distribution of the Wald statistic of the rows of a transformation, which are independent."""
        return JointReference(1.0, self._joint_degrees_of_freedom(transform))

    def unseen(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """Which rows of a transformation have no variance that can be seen, [rows]."""
        return np.zeros(transform.shape[0], bool)

    def too_few_for(self, coefficients: int) -> str:
        """Why so many coefficients have no joint test, whatever they are; '' if they may have one."""
        return ""

    def information(self, places: np.ndarray) -> np.ndarray:
        """The information of the rows, without penalties, about the free coefficients at these positions, [places, places]."""
        result, order = self.bread.information(places), self.bread.ranks(places)
        for penalty in self._penalties:
            result = result - np.diag(penalty[order])
        return result

    def _degrees_of_freedom(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        """Those of t for the rows of a transformation, [rows]: beside random effects 2 v^2 / (g' C g).

        v is the classical variance, g its derivative by log lambda of the random effects and log dispersion, and C the covariance
        of these (Satterthwaite 1946; as in lmerTest). Rows that have random effects themselves have `df_residual`.
        """
        df = np.full(transform.shape[0], self.df_residual)
        if not self.random or not len(self.random.penalties):
            return df
        effects = self.bread.free[self.random.penalties.any(axis=0)]
        fixed = np.flatnonzero(np.diff(transform[:, effects].indptr) == 0)
        priors = [Prior(self.bread, penalty) for penalty in self.random.penalties]
        for some in chunks(len(fixed)):
            rows = self.bread.rows(transform[fixed[some]])
            variance = rows.squares()
            slopes = np.stack(
                [*(-prior.squares(rows) for prior in priors), variance, *self._by_origin(transform[fixed[some]])]
            )
            uncertainty = np.sum((self.random.variance_root @ slopes) ** 2, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                df[fixed[some]] = np.where(variance > 0, 2 * variance**2 / uncertainty, self.df_residual)
        return df

    def _by_origin(self, transform: scipy.sparse.csr_array) -> list[np.ndarray]:
        """The derivatives of the squares of the rows of a transformation by the origins of correlated random effects."""
        assert self.random
        if self.random.crossed is None or self.random.partners is None:
            return []
        moved = np.hstack(self.bread.times(transform))
        pairs = zip(self.random.crossed, self.random.partners, strict=True)
        return [-np.einsum("ij,j,ij->i", moved, values, moved[:, places]) for values, places in pairs]

    def _joint_degrees_of_freedom(self, transform: scipy.sparse.csr_array) -> float:
        """Those of the denominator of F: beside random effects those of the principal components of the rows together (Fai and
        Cornelius 1996; as in lmerTest). Rows are made orthonormal first, so reference levels do not matter."""
        size, has_effects = transform.shape[0], self.random is not None and len(self.random.penalties) > 0
        if not has_effects or not self.is_known or not 0 < size <= MOST_ROWS:
            return self.df_residual
        basis = np.linalg.qr(transform.toarray().T)[0].T
        vectors = np.linalg.eigh(self.of(scipy.sparse.csr_array(basis)))[1]
        df = self._degrees_of_freedom(scipy.sparse.csr_array(vectors.T @ basis))
        if df.min() <= 2:
            return float(min(df.max(), 2.0))
        excess = float(np.sum(2 / (df - 2)))
        return 2 + 2 * size / excess if excess > 0 else np.inf

    @property
    def _penalties(self) -> list[np.ndarray]:
        """The parts of the penalty in I."""
        return [] if self.penalty is None else [self.penalty]

    @cached_property
    def _prior(self) -> Prior | None:
        return None if self.penalty is None else Prior(self.bread, self.penalty)
