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
from tfglm.inference.random_effects import RandomEffects
from tfglm.inference.reference import DETERMINED_ALONE, FEWEST, Fewest, JointReference, Reference

THREADS = 2
"""Threads that compute the variances of many rows. The results are the same bit for bit for any number."""


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
    random: RandomEffects | None = None
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

        def of_some(rows: scipy.sparse.csr_array) -> Variances:
            parts = self.bread.rows(rows)
            classical = self.dispersion * parts.squares()
            bias = self.dispersion * self._prior.squares(parts) if self._prior else np.zeros(len(classical))
            return Variances(self._variances(parts, classical, bias), classical, bias)

        # The first chunk runs alone, because it fills the caches that all threads use.
        first, *others = (transform[rows] for rows in chunks(transform.shape[0]))
        parts = [of_some(first)]
        with ThreadPoolExecutor(THREADS) as threads:
            parts += threads.map(of_some, others)
        return Variances(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def reference(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST, exactly: bool = True) -> Reference:
        """The reference distribution of the rows of a transformation divided by their standard errors.

        Parameters
        ----------
        transform
            The rows, [rows, p].
        fewest
            With clusters: the least information for a test.
        exactly
            With clusters: whether to use Satterthwaite's degrees of freedom of CR2. Otherwise, for many rows, the effective
            number of clusters is used.
        """
        if not self.random:
            return Reference(np.full(transform.shape[0], self.df_residual), varies=False)
        return Reference(self.random.degrees_of_freedom(self.bread, transform, self.df_residual))

    def joint(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
        """The reference distribution of the Wald statistic of the rows of a transformation, which are independent."""
        if not self.random or not self.is_known:
            return JointReference(1.0, self.df_residual)
        return JointReference(1.0, self.random.joint_degrees(self.bread, self.of, transform, self.df_residual))

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

    @property
    def _penalties(self) -> list[np.ndarray]:
        """The parts of the penalty in I."""
        return [] if self.penalty is None else [self.penalty]

    @cached_property
    def _prior(self) -> Prior | None:
        return None if self.penalty is None else Prior(self.bread, self.penalty)
