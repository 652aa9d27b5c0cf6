"""Regression of counts that are at least 1, as in a hurdle model (Mullahy, Journal of Econometrics 33, 1986)."""

from typing import Any, ClassVar

import numpy as np

from tfglm.families.family import Family, Law, Response, Terms
from tfglm.families.negative_binomial import NegativeBinomial
from tfglm.families.poisson import Poisson


class AboveZero:
    """A distribution of counts, given that they are above 0; `counts` is one of scipy.stats."""

    def __init__(self, counts: Any):
        self.counts, self.share = counts, counts.sf(0)

    def cdf(self, count: np.ndarray) -> np.ndarray:
        return 1.0 - self.sf(count)

    def sf(self, count: np.ndarray) -> np.ndarray:
        return np.minimum(self.counts.sf(count) / self.share, 1.0)


class TruncatedNegativeBinomial(NegativeBinomial):
    """A negative binomial count with mean r = exp(eta) that is observed only above 0. With p, the probability of 0, and s =
    theta / (theta + r), the mean is m = r / (1 - p), its slope m (1 - m p s), and the score (m - y) s. Standard errors are those
    of the observed information, as in R's pscl. Theta is 1 while it is unknown.
    """

    name = "truncated_negative_binomial"
    regression = "truncated negative binomial regression of the count"
    smallest = 1.0
    shape_is_apart = False
    has_observed_errors = True

    def __init__(self, theta: float | None = None):
        super().__init__(theta or 1.0)
        self.effect, self.shape_is_known = "log rate ratio before truncation", theta is not None

    def _parts(self, eta: np.ndarray) -> tuple[np.ndarray, ...]:
        """The rate r, the logarithm of p, 1 - p, and s."""
        with np.errstate(over="ignore"):
            rate = np.exp(eta)
            log_none = -rate if self.theta is None else -self.theta * np.log1p(rate / self.theta)
        return rate, log_none, -np.expm1(log_none), 1.0 / (1.0 + rate / self._shape)

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return super().loss(eta, y) + np.log(self._parts(eta)[2])

    def mean(self, eta: np.ndarray) -> np.ndarray:
        rate, _, some, _ = self._parts(eta)
        return np.where(some > 0, rate / np.where(some > 0, some, 1.0), 1.0)

    def link(self, mean: float) -> float:
        return float(self.predictor(np.array(mean)))

    def predictor(self, mean: np.ndarray) -> np.ndarray:
        """The linear predictors of means, by Newton's method on log(mean - 1)."""
        with np.errstate(all="ignore"):
            eta = goal = np.log(mean - 1.0)
            for _ in range(40):
                at = self.mean(eta)
                step = (np.log(at - 1.0) - goal) * (at - 1.0) / self.slope(eta, at)
                eta = eta - np.where(np.isfinite(goal), np.clip(step, -2.0, 2.0), 0.0)
        return eta

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        _, log_none, _, share = self._parts(eta)
        return mean * (1.0 - mean * np.exp(log_none) * share)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        rate, log_none, _, share = self._parts(eta)
        lost = mean * np.exp(log_none) * share
        return mean * (1.0 - lost) ** 2 - mean * lost * (share - lost - rate * share)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return self._variance(mean, np.exp(self.predictor(mean)))

    def _variance(self, mean: np.ndarray, rate: np.ndarray) -> np.ndarray:
        return mean * (1.0 + rate + rate / self._shape - mean)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, share = self.mean(eta), self._parts(eta)[3]
        return (mean - y) * share, self.slope(eta, mean) * share

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.derivatives(eta, mean)[1]

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        score, information = self.derivatives(eta, y)
        return information - score * (1.0 - self._parts(eta)[3])

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        mean = self.mean(eta)
        pearson = np.where(weight > 0, (y - mean) ** 2 / self._variance(mean, np.exp(eta)), 0.0) @ weight
        return Family.terms(self, eta, y, weight, unit)._replace(pearson=float(pearson))

    def saturated(self, y: np.ndarray) -> np.ndarray:
        more = np.maximum(y, 1.0 + 1e-9)
        return np.where(y > 1.0, self.loss(self.predictor(more), y), 0.0)

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        counts: Family = Poisson() if self.theta is None else NegativeBinomial(self.theta)
        law = counts.law(y, np.exp(self.predictor(mean)), weight, dispersion)
        return law and law._replace(distribution=AboveZero(law.distribution))

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        refusal = super().refusal(response, trials, weights)
        return refusal and (
            f"{refusal}\n  add `subset: {response.name} > 0`, and for a hurdle model a second one with family: binomial and "
            f"the response {response.name} > 0"
        )

    def shape_terms(
        self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Those of the negative binomial, with the derivatives of -log(1 - p) by theta."""
        (theta,), rate = shape, np.exp(eta)
        odds, (first, second) = 1.0 / np.expm1(theta * np.log1p(rate / theta)), log_none_by_theta(rate, theta)
        sums = super().shape_terms(eta, y, weight, shape)
        sums["score"] += weight * odds * first
        sums["information"] -= weight * odds * (first**2 * (1.0 + odds) + second)
        return sums

    def slopes_by_shape(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative by log(theta) of the first derivative of the loss by eta, [rows]; and 0."""
        rate, log_none, some, share = self._parts(eta)
        theta, mean = self._shape, rate / some
        by_theta = mean * theta * np.exp(log_none) / some * log_none_by_theta(rate, theta)[0]
        return share * (by_theta + (mean - y) * (1.0 - share)), np.zeros_like(mean)


def log_none_by_theta(rate: np.ndarray, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """The first two derivatives by theta of the logarithm of the probability of 0."""
    total = rate + theta
    return rate / total - np.log1p(rate / theta), rate**2 / (theta * total**2)


class TruncatedPoisson(TruncatedNegativeBinomial):
    """A Poisson count that is observed only above 0."""

    name = "truncated_poisson"
    regression = "truncated Poisson regression of the count"
    shape_name: ClassVar[str] = ""
    shape_is_apart = True
    has_observed_errors = False

    def __init__(self) -> None:
        super().__init__()
        self.theta, self.shape_is_known, self.canonical = None, True, True
