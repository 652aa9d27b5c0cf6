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
        self.constant_information = self.is_movable = link == "log"

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean**2

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return 2.0 * mean

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y / mean + np.log(mean)

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not self.origin:
            return super().loss(eta, y)
        # Half the deviance, as the loss of the response itself would have no digits left for it.
        with np.errstate(all="ignore"):
            return _beyond_linear(np.log1p(y / self.origin) - eta)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return np.zeros_like(y) if self.origin else 1.0 + np.log(np.where(y > 0, y, 1.0))

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        return Law(stats.gamma(weight / dispersion, scale=mean * dispersion / weight), y, steps=False)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """0: `saturated` has all that the likelihood needs of the responses. With an origin, weight * log(response / origin)."""
        return weight * np.log1p(y / self.origin) if self.origin else np.zeros_like(y)

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        """With the shape k = sum(w) / deviance, as R's Gamma()$aic: sum of w (k log(k y / mean) - k y / mean - log(y) -
        log gamma(k)); None where the deviance is a rounding error."""
        from scipy.special import gammaln

        log_y = sums.saturated - sums.weight_sum
        deviance = 2 * (sums.loss - sums.saturated)
        if deviance <= 0:  # a rounding error
            return None
        shape = sums.weight_sum / deviance
        if self.origin:
            # Stirling's series of log gamma(shape), as the shape is large.
            log_y = sums.base + sums.weight_sum * np.log(self.origin)
            constant = 0.5 * np.log(shape / (2 * np.pi)) - 1 / (12 * shape) - 0.5
            return float(sums.weight_sum * constant - log_y)
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


def _beyond_linear(t: np.ndarray) -> np.ndarray:
    """exp(t) - 1 - t.

    >>> _beyond_linear(np.array([1e-9, 1e-9, 1.0])) / [5e-19, 5e-19, np.e - 2]
    array([1., 1., 1.])
    """
    series = 0.5 * t**2 * (1 + t / 3 * (1 + t / 4 * (1 + t / 5 * (1 + t / 6))))
    return np.where(np.abs(t) < 1e-3, series, np.expm1(t) - t)
