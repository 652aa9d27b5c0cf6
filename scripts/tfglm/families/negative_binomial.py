"""Negative binomial regression."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Law
from tfglm.families.linked import LinkedFamily
from tfglm.families.links import Link, Log


class NegativeBinomial(LinkedFamily):
    """NB2: a count with mean exp(eta) and variance mean + mean^2 / theta; loss (y + theta) log(1 + mean / theta) - y eta."""

    name = "negative_binomial"
    links: ClassVar[dict[str, Link]] = {"log": Log()}
    shape_name = "theta"
    shape_sums = ("score", "information", "excess", "moment")
    of_counts: ClassVar[bool] = True
    regression = "negative binomial regression of the count"
    metrics = "deviances"

    def __init__(self, theta: float | None = None):
        super().__init__("log")
        self.effect, self.ratio = "log rate ratio", "rate_ratio"
        self.theta = theta
        self.shape_is_known = theta is not None
        self.canonical = theta is None

    @property
    def _shape(self) -> float:
        """Theta; while it is unknown, the value for a Poisson distribution."""
        return np.inf if self.theta is None else self.theta

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean + mean**2 / self._shape

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return 1.0 + 2.0 * mean / self._shape

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import xlogy  # slow to import, and only a fit needs it

        return self._excess(mean, y) - xlogy(y, mean)

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self._excess(np.exp(eta), y) - y * eta

    def _excess(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(y + theta) log(1 + mean / theta), the mean itself of a Poisson distribution."""
        return mean if self.theta is None else (y + self.theta) * np.log1p(mean / self.theta)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return self.loss_of_mean(y, y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln

        if self.theta is None:
            return -weight * gammaln(y + 1.0)
        return weight * (gammaln(y + self.theta) - gammaln(self.theta) - gammaln(y + 1.0) - y * np.log(self.theta))

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        if self.theta is None or not np.all(weight == 1):
            return None
        return Law(stats.nbinom(self.theta, self.theta / (self.theta + mean)), y, steps=True)

    def shape_terms(
        self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Given theta, the derivative of the log-likelihood by theta (`score`), minus the second (`information`; both as R's
        MASS::theta.ml has them), and what a Poisson distribution leaves: `excess`, (y - mean)^2 - y, and `moment`,
        (y / mean - 1)^2."""
        from scipy.special import digamma, zeta

        (theta,), mean = shape, np.exp(eta)
        total = mean + theta
        # zeta(2, x) is the trigamma function.
        score = digamma(y + theta) - digamma(theta) - np.log1p(mean / theta) + (mean - y) / total
        information = zeta(2.0, theta) - zeta(2.0, y + theta) - 1.0 / theta + 2.0 / total - (y + theta) / total**2
        values = (score, information, (y - mean) ** 2 - y, (y / mean - 1.0) ** 2)
        return {name: weight * value for name, value in zip(self.shape_sums, values, strict=True)}

    def slopes_by_shape(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives by log(theta) of the first and of the second derivative of the loss by eta, each [rows]."""
        theta, mean = self._shape, np.exp(eta)
        total = mean + theta
        first = theta * mean * (mean - y) / total**2
        return first, theta * mean * (2.0 * theta * mean + y * (mean - theta)) / total**3
