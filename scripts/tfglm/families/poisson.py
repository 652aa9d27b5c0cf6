"""Poisson regression."""

from typing import Any, ClassVar

import numpy as np

from tfglm.families.family import Family, Law


class Poisson(Family):
    """E(y) = exp(eta); loss exp(eta) - y eta."""

    name = "poisson"
    link_name = "log"
    of_counts: ClassVar[bool] = True
    regression = "Poisson regression of the count"
    effect = "log rate ratio"
    ratio = "rate_ratio"
    metrics = "counts"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(eta) - y * eta

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        return tf.nn.log_poisson_loss(y, eta)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return np.exp(eta)

    def link(self, mean: float) -> float:
        return float(np.log(mean))

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean

    def saturated(self, y: np.ndarray) -> np.ndarray:
        from scipy.special import xlogy  # slow to import, and only a fit needs it

        return y - xlogy(y, y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln

        return -weight * gammaln(y + 1.0)

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        return Law(stats.poisson(mean), y, steps=True) if np.all(weight == 1) else None
