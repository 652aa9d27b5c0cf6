"""Beta regression of proportions."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Family, Law, Response, Terms, ranges
from tfglm.families.linked import LinkedFamily


def trigamma(x: np.ndarray) -> np.ndarray:
    """The second derivative of log gamma(x), twenty times as fast as scipy's zeta(2, x).

    >>> trigamma(np.array([1.0, 0.5])) / np.pi**2 * [6, 2]
    array([1., 1.])
    """
    total = np.zeros_like(x)
    for _ in range(10):
        total, x = total + 1.0 / x**2, x + 1.0
    y = 1.0 / x**2
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66 - y * 691 / 2730))))
    return total + 1.0 / x + 0.5 * y + y / x * series


class Beta(Family):
    """0 < y < 1 with the mean m = 1 / (1 + exp(-eta)) and the variance m (1 - m) / (1 + theta), where theta is the precision, 1
    while it is unknown (Ferrari & Cribari-Neto, Journal of Applied Statistics 31, 2004).

    With a = m theta, b = (1 - m) theta and their digamma functions, the loss is log B(a, b) - a log(y) - b log(1 - y), and its
    derivative by m is theta (digamma(a) - digamma(b) - log(y / (1 - y))). The information is the expected one.
    """

    name = "beta"
    link_name = "logit"
    canonical = in_networks = shape_is_apart = False
    smallest: ClassVar[float] = -np.inf
    shape_name = "theta"
    shape_sums = ("score", "information")
    regression = "beta regression of the proportion"
    effect = "log odds ratio of the mean"
    ratio = "odds_ratio"
    metrics = "means"
    observed_slope = LinkedFamily.observed_slope
    theta: float

    def __init__(self, theta: float | None = None):
        self.theta, self.shape_is_known = theta or 1.0, theta is not None

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import betaln  # slow to import, and only a fit needs it

        a, b = self._parameters(eta, self.theta)
        return betaln(a, b) - a * np.log(y) - b * np.log1p(-y)

    def _parameters(self, eta: np.ndarray, theta: float) -> tuple[np.ndarray, np.ndarray]:
        return theta * self.mean(eta), theta * self.mean(-eta)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        return expit(eta)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean) / (1.0 + self.theta)

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean * self.mean(-eta)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.slope(eta, mean) * (1.0 - 2.0 * mean)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import digamma

        a, b = self._parameters(eta, self.theta)
        slope = self.theta * self.slope(eta, self.mean(eta))
        logit = np.log(y) - np.log1p(-y)
        return slope * (digamma(a) - digamma(b) - logit), slope**2 * (trigamma(a) + trigamma(b))

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.derivatives(eta, np.full_like(mean, 0.5))[1]

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        score, information = self.derivatives(eta, y)
        return information + score * (1.0 - 2.0 * self.mean(eta))

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        mean, y = self.mean(eta), np.where(weight > 0, y, 0.5)
        pearson = (y - mean) ** 2 / self.variance(mean) @ weight
        return super().terms(eta, y, weight, unit)._replace(pearson=float(pearson))

    def in_range(self, y: np.ndarray) -> np.ndarray:
        return (y > 0) & (y < 1)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        """By Newton's method for each response: the mean that fits it best is not the response."""
        y = np.where(self.in_range(y), y, 0.5)
        eta = np.log(y) - np.log1p(-y)
        step, steps = np.ones(1), 0
        while np.abs(step).max(initial=0.0) > 1e-7 and steps < 50:
            score, information = self.derivatives(eta, y)
            step, steps = np.clip(score / information, -1.0, 1.0), steps + 1
            eta = eta - step
        return self.loss(eta, y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        y = np.where(self.in_range(y), y, 0.5)
        return -weight * (np.log(y) + np.log1p(-y))

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        law = Law(stats.beta(self.theta * mean, self.theta * (1.0 - mean)), y, steps=False)
        return law if np.all(weight == 1) else None

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
        from scipy.special import digamma

        (theta,), mean, y = shape, self.mean(eta), np.where(self.in_range(y), y, 0.5)
        a, b = self._parameters(eta, theta)
        score = digamma(theta) - mean * (digamma(a) - np.log(y)) - (1.0 - mean) * (digamma(b) - np.log1p(-y))
        information = mean**2 * trigamma(a) + (1.0 - mean) ** 2 * trigamma(b) - trigamma(np.array(theta))
        return {"score": weight * score, "information": weight * information}

    def slopes_by_shape(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The expected derivative by log(theta) of the first derivative of the loss by eta, [rows]; and 0."""
        (a, b), mean = self._parameters(eta, self.theta), self.mean(eta)
        mixed = self.theta**2 * (mean * trigamma(a) - (1.0 - mean) * trigamma(b)) * self.slope(eta, mean)
        return mixed, np.zeros_like(mixed)
