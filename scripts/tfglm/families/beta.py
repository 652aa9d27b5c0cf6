"""Beta regression of proportions."""

from typing import Any

import numpy as np

from tfglm.families.binomial import Binomial
from tfglm.families.family import Family, Law, LikelihoodSums, Response, Terms, ranges
from tfglm.families.linked import LinkedFamily


class Beta(Binomial):
    """0 < y < 1 with the mean m = 1 / (1 + exp(-eta)) and the variance m (1 - m) / (1 + theta), where theta is the precision
    (Ferrari & Cribari-Neto, Journal of Applied Statistics 31, 2004). While theta is unknown, the loss is that of a
    probability.

    With a = m theta, b = (1 - m) theta and their digamma functions, the loss is log B(a, b) - a log(y) - b log(1 - y), and its
    derivative by m is theta (digamma(a) - digamma(b) - log(y / (1 - y))). The information is the expected one.
    """

    name = "beta"
    smallest, largest = -np.inf, np.inf
    counts_events = incidental_bias = in_networks = False
    shape_name = "theta"
    shape_sums = ("score", "information")
    shape_is_apart = False
    regression = "beta regression of the proportion"
    effect = "log odds ratio of the mean"
    predicted = "mean"
    metrics = "means"  # type: ignore[assignment]
    observed_slope = LinkedFamily.observed_slope

    def __init__(self, theta: float | None = None):
        self.theta = theta
        self.shape_is_known = theta is not None
        self.canonical = theta is None

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        return Family.tensor_loss(self, tf, eta, y)

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import betaln  # slow to import, and only a fit needs it

        if self.theta is None:
            return super().loss(eta, y)
        a, b = self._parameters(eta, self.theta)
        return betaln(a, b) - a * np.log(y) - b * np.log1p(-y)

    def _parameters(self, eta: np.ndarray, theta: float) -> tuple[np.ndarray, np.ndarray]:
        return theta * self.mean(eta), theta * self.mean(-eta)

    def _by_mean(self, eta: np.ndarray, y: np.ndarray, theta: float) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of the loss by the mean, and the expected second one."""
        from scipy.special import digamma, zeta

        a, b = self._parameters(eta, theta)
        logit = np.log(y) - np.log1p(-y)
        return theta * (digamma(a) - digamma(b) - logit), theta**2 * (zeta(2.0, a) + zeta(2.0, b))

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean) / (1.0 + (self.theta or 0.0))

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean * self.mean(-eta)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self.theta is not None
        (first, second), slope = self._by_mean(eta, y, self.theta), self.slope(eta, self.mean(eta))
        return first * slope, second * slope**2

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.variance(mean) if self.theta is None else self.derivatives(eta, np.full_like(mean, 0.5))[1]

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.theta is None:
            return super().observed(eta, y)
        score, information = self.derivatives(eta, y)
        return information + score * (1.0 - 2.0 * self.mean(eta))

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        if self.theta is None:
            return super().terms(eta, y, weight, unit)
        mean, kept = self.mean(eta), weight > 0
        pearson = np.where(kept, (y - mean) ** 2 / self.variance(mean), 0.0) @ weight
        return Family.terms(self, eta, np.where(kept, y, 0.5), weight, unit)._replace(pearson=float(pearson))

    def in_range(self, y: np.ndarray) -> np.ndarray:
        return (y > 0) & (y < 1)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        """By Newton's method for each response: the mean that fits it best is not the response."""
        if self.theta is None:
            return super().saturated(y)
        y = np.where(self.in_range(y), y, 0.5)
        eta = np.log(y) - np.log1p(-y)
        for _ in range(50):
            score, information = self.derivatives(eta, y)
            eta = eta - np.clip(score / information, -1.0, 1.0)
        return self.loss(eta, y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        y = np.where(self.in_range(y), y, 0.5)
        return -weight * (np.log(y) + np.log1p(-y))

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        return -sums.loss + sums.base

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        if self.theta is None or not np.all(weight == 1):
            return None
        return Law(stats.beta(self.theta * mean, self.theta * (1.0 - mean)), y, steps=False)

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        if not trials and response.minimum > 0 and response.maximum < 1:
            return None
        return (
            f"needs a response above 0 and below 1, without trials, {ranges(response)}\n  for shares that are 0 or 1 use "
            f"family: binomial with `weights` and `std_errors: robust`, or family: ordinal for classes of shares"
        )

    def shape_terms(
        self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Given theta, the derivative of the log-likelihood by theta, and minus the expected second one."""
        from scipy.special import digamma, zeta

        (theta,), mean, y = shape, self.mean(eta), np.where(self.in_range(y), y, 0.5)
        a, b = self._parameters(eta, theta)
        score = digamma(theta) - mean * (digamma(a) - np.log(y)) - (1.0 - mean) * (digamma(b) - np.log1p(-y))
        information = mean**2 * zeta(2.0, a) + (1.0 - mean) ** 2 * zeta(2.0, b) - zeta(2.0, theta)
        return {"score": weight * score, "information": weight * information}

    def slopes_by_shape(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The expected derivative by log(theta) of the first derivative of the loss by eta, [rows]; and 0."""
        from scipy.special import zeta

        theta = 1.0 if self.theta is None else self.theta
        (a, b), mean = self._parameters(eta, theta), self.mean(eta)
        mixed = theta**2 * (mean * zeta(2.0, a) - (1.0 - mean) * zeta(2.0, b)) * self.slope(eta, mean)
        return mixed, np.zeros_like(mixed)
