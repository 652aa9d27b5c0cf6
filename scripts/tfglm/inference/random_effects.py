"""What the estimation of the variances of random effects takes from the tests of other coefficients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from tfglm.inference.bread import Bread, Prior, chunks

MOST_ROWS = 4_000
"""Rows of a joint test with degrees of freedom of its own beside random effects."""


@dataclass(frozen=True, eq=False)
class RandomEffects:
    """The random effects of a fit with q + m free coefficients.

    `penalties` [random terms, q + m] are the penalties of the effects of each term, 0 elsewhere. With R = `variance_root`
    [lambdas + 1, random terms + 1], R'R is the covariance of their log lambda and of log dispersion.
    """

    penalties: np.ndarray
    variance_root: np.ndarray

    def degrees_of_freedom(self, bread: Bread, transform: scipy.sparse.csr_array, otherwise: float) -> np.ndarray:
        """The degrees of freedom 2 v^2 / (g' C g) of the rows of a transformation, [rows].

        v is the classical variance, g its derivative by log lambda of the random effects and log dispersion, and C the covariance
        of these (Satterthwaite 1946; as in lmerTest). Rows that have random effects themselves have those that hold `otherwise`.
        """
        df = np.full(transform.shape[0], otherwise)
        if not len(self.penalties):
            return df
        random = bread.free[self.penalties.any(axis=0)]
        fixed = np.flatnonzero(np.diff(transform[:, random].indptr) == 0)
        priors = [Prior(bread, penalty) for penalty in self.penalties]
        for some in chunks(len(fixed)):
            rows = bread.rows(transform[fixed[some]])
            variance = rows.squares()
            slopes = np.stack([*(-prior.squares(rows) for prior in priors), variance])
            uncertainty = np.sum((self.variance_root @ slopes) ** 2, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                df[fixed[some]] = np.where(variance > 0, 2 * variance**2 / uncertainty, otherwise)
        return df

    def joint_degrees(
        self,
        bread: Bread,
        covariance: Callable[[scipy.sparse.csr_array], np.ndarray],
        transform: scipy.sparse.csr_array,
        otherwise: float,
    ) -> float:
        """The degrees of freedom of the denominator of F for the rows of a transformation: those of the principal components of
        the rows together (Fai and Cornelius 1996; as in lmerTest). `covariance` is that of the rows of a transformation. Rows are
        made orthonormal first, so reference levels do not matter."""
        size = transform.shape[0]
        if not len(self.penalties) or not 0 < size <= MOST_ROWS:
            return otherwise
        basis = np.linalg.qr(transform.toarray().T)[0].T
        vectors = np.linalg.eigh(covariance(scipy.sparse.csr_array(basis)))[1]
        df = self.degrees_of_freedom(bread, scipy.sparse.csr_array(vectors.T @ basis), otherwise)
        if df.min() <= 2:
            return float(min(df.max(), 2.0))
        excess = float(np.sum(2 / (df - 2)))
        return 2 + 2 * size / excess if excess > 0 else np.inf
