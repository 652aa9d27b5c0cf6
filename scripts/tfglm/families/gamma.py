"""Gamma regression."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Dispersed, Law, LikelihoodSums
from tfglm.families.linked import PositiveFamily
from tfglm.families.links import Inverse, Link, Log


class Gamma(PositiveFamily):
    """y > 0 with the variance dispersion * mean^2; loss y / mean + log(mean), the same shape for all rows. Canonical is the
    inverse link."""

    name = "gamma"
    links: ClassVar[dict[str, Link]] = {"log": Log(), "inverse": Inverse()}
    regression = "gamma regression of"

    def __init__(self, link: str = "log"):
        super().__init__(link)
        self.canonical = link == "inverse"
        self.constant_information = link == "log"

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean**2

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return 2.0 * mean

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y / mean + np.log(mean)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return 1.0 + np.log(np.where(y > 0, y, 1.0))

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        return Law(stats.gamma(weight / dispersion, scale=mean * dispersion / weight), y, steps=False)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """0: `saturated` has all that the likelihood needs of the responses."""
        return np.zeros_like(y)

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        """With the shape k = sum(w) / deviance, as R's Gamma()$aic: sum of w (k log(k y / mean) - k y / mean - log(y) -
        log gamma(k)); None where the deviance is a rounding error."""
        from scipy.special import gammaln

        log_y = sums.saturated - sums.weight_sum
        deviance = 2 * (sums.loss - sums.saturated)
        if deviance <= 0:  # a rounding error
            return None
        shape = sums.weight_sum / deviance
        constant = shape * np.log(shape) - gammaln(shape)
        return float(shape * (log_y - sums.loss) - log_y + sums.weight_sum * constant)

    def dispersed(self, log_phi: float, sums: LikelihoodSums) -> Dispersed:
        """With k = 1 / phi the log-likelihood is -k loss + n (k log k - log gamma(k)) + (k - 1) sum of log y."""
        from scipy.special import digamma, gammaln, polygamma

        k, rows, log_y = np.exp(-log_phi), sums.rows, sums.saturated - sums.weight_sum
        value = log_y * (k - 1) + rows * (k * np.log(k) - float(gammaln(k)))
        slope = log_y + rows * (np.log(k) + 1 - float(digamma(k)))
        curvature = rows * (1 / k - float(polygamma(1, k)))
        return Dispersed(-value, k * slope, -k * slope - k**2 * curvature)
