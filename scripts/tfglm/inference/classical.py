"""The covariance by the likelihood: classical, of a quasi-likelihood, and with estimated smoothing parameters."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse

from tfglm.inference.bread import BreadRows
from tfglm.inference.covariance import Covariance


@dataclass(frozen=True, eq=False, kw_only=True)
class Classical(Covariance):
    """`correction` times the classical covariance: 1, or the Pearson dispersion of a quasi-likelihood. Beside smooth terms it is
    the posterior covariance."""

    kind: ClassVar[str] = "classical"

    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        return self.dispersion * self.correction * self.bread.of(transform)

    def _variances(self, rows: BreadRows, classical: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return self.correction * classical

    def eliminated_wald(self, coefficients: np.ndarray) -> float:
        """The Wald statistic for no effect of the eliminated part, from all coefficients [p]. It uses the information that
        is left after the dense part is eliminated: b'Db - (Bb)' A^-1 (Bb). So the covariance of the part is never computed."""
        bread, b = self.bread, coefficients[self.bread.eliminated]
        mixed = bread.d.times(bread.loadings)
        dense = np.linalg.inv(bread.schur_inverse) + bread.loadings @ mixed.T
        coupled = mixed @ b
        return float(
            (bread.d.form(b) - coupled @ np.linalg.solve(dense, coupled)) / (self.dispersion * self.correction)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Unconditional(Classical):
    """The posterior covariance plus R'R with R = `smoothing_root` [smooths, q + m], the part of the estimation of smoothing
    parameters (solvers.smooth)."""

    smoothing_root: np.ndarray

    kind: ClassVar[str] = "unconditional"

    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        along = self.bread.on_free(transform) @ self.smoothing_root.T
        return super().of(transform) + along @ along.T

    def _variances(self, rows: BreadRows, classical: np.ndarray, bias: np.ndarray) -> np.ndarray:
        of_dense, of_eliminated = np.split(self.smoothing_root, [len(self.bread.dense)], axis=1)
        along = rows.dense @ of_dense.T + rows.sparse @ of_eliminated.T
        return classical + np.einsum("ij,ij->i", along, along)

    def with_spreads(self, transform: scipy.sparse.csr_array, by_spread: np.ndarray) -> np.ndarray:
        """The variances of functions with the derivatives `transform` by the coefficients and `by_spread` [rows, random terms] by
        the logarithm of the standard deviations of random effects, which the fit estimates together, [rows]."""
        assert self.random
        root, terms = self.random.variance_root, len(self.random.penalties)
        along = self.bread.on_free(transform) @ self.smoothing_root.T
        # log standard deviation = (log dispersion - log lambda) / 2
        along += by_spread @ (root[:, [terms]] - root[:, :terms]).T / 2
        return self.variances(transform).classical + np.einsum("ij,ij->i", along, along)
