"""Linear regression."""

from typing import Any, ClassVar

import numpy as np

from tfglm.families.family import Dispersed, Family, Law, LikelihoodSums


class Gaussian(Family):
    """y = eta + e, e normal with unknown variance, divided by the weight; loss (y - eta)^2 / 2."""

    name = "gaussian"
    link_name = "identity"
    dispersion_known = False
    quadratic = True
    is_movable = True
    smallest: ClassVar[float] = -np.inf
    largest: ClassVar[float] = np.inf
    regression = "linear regression of"
    effect = "difference in the response"
    metrics = "means"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(y - eta)

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        return tf.square(y - eta) / 2

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return eta

    def link(self, mean: float) -> float:
        return mean

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return np.ones_like(mean)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.zeros_like(mean)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return 0.5 * np.log(weight)

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        return Law(stats.norm(mean, np.sqrt(dispersion / weight)), y, steps=False)

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        """-n/2 (log(2 pi RSS / n) + 1) + sum log(w) / 2, the variance at its estimate RSS / n, as R's logLik.lm."""
        loss, rows = sums.loss, sums.rows
        return -0.5 * rows * (np.log(2 * np.pi * 2 * loss / rows) + 1) + sums.base

    def dispersed(self, log_phi: float, sums: LikelihoodSums) -> Dispersed:
        """The log-likelihood is -loss / phi - n log(2 pi phi) / 2 + sum of log(weight) / 2."""
        return Dispersed(0.5 * sums.rows * (log_phi + np.log(2 * np.pi)) - sums.base, 0.5 * sums.rows, 0.0)

    def dispersion(self, loss: float, pearson: float, df_residual: float) -> float:
        """The residual variance RSS / (n - p)."""
        return 2 * loss / df_residual
