"""The families: how the response varies around its mean, and the mean follows from the linear predictor.

Functions of rows take the linear predictor eta and the response y, float64 arrays of shape [rows]. The response of
`binomial` is the share of events; a row then weighs as much as it has trials. The loss is minus the log-likelihood of a row
of weight 1, but for what depends on y and the dispersion alone.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.special

from tfglm.engine import kernels


class Terms(NamedTuple):
    """What rows have in the likelihood: their loss and Pearson statistic, and each [rows] the derivative of the loss by eta and
    the weight in the information matrix."""

    loss: float
    pearson: float
    score: np.ndarray
    weight: np.ndarray


class Family(Protocol):
    """What the passes and the solver need to know. All links are canonical: `mean(eta) - y` is the derivative of the loss by eta,
    and the variance function the second."""

    name: str
    dispersion_known: bool
    largest: float
    """No response is larger, and but for `gaussian` none is negative."""

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of each row."""

    def terms(self, eta: np.ndarray, y: np.ndarray, mass: np.ndarray, unit: bool) -> Terms:
        """Of rows of which those with mass 0 take no part; `unit` says that the others have mass 1."""

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """E(y)."""

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Variance function: the weight of a row in the information matrix."""

    def saturated(self, y: np.ndarray) -> np.ndarray:
        """The least loss that any mean has."""

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What the log-likelihood of each row has beside -weight * loss."""

    def link(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        """Maximised log-likelihood from the sums at the estimate."""


class _ByRow:
    """The terms from the functions of each row."""

    def terms(self: Family, eta: np.ndarray, y: np.ndarray, mass: np.ndarray, unit: bool) -> Terms:
        kept, mean = mass > 0, self.mean(eta)
        # What takes no part may have any mean.
        score = np.where(kept, mean - y, 0.0) * mass
        weight = np.where(kept, self.variance(mean) * mass, 0.0)
        loss = np.where(kept, self.loss(eta, y) * mass, 0.0)
        # A variance that rounds to 0 belongs to a residual that does.
        pearson = score * np.divide(score, weight, out=np.zeros_like(score), where=weight > 0)
        return Terms(float(loss.sum()), float(pearson.sum()), score, weight)


@dataclass(frozen=True)
class Gaussian(_ByRow):
    """y = eta + e, e normal with unknown variance, divided by the weight; loss (y - eta)^2 / 2."""

    name: ClassVar[str] = "gaussian"
    dispersion_known: ClassVar[bool] = False
    largest: ClassVar[float] = np.inf

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(y - eta)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return eta

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return np.ones_like(mean)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return np.zeros_like(y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return 0.5 * np.log(weight)

    def link(self, mean: float) -> float:
        return mean

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        """-n/2 (log(2 pi RSS / n) + 1) + sum log(w) / 2, the variance at its estimate RSS / n, as R's logLik.lm."""
        return -0.5 * rows * (np.log(2 * np.pi * 2 * loss / rows) + 1) + base


@dataclass(frozen=True)
class Binomial:
    """P(event) = 1 / (1 + exp(-eta)); loss log(1 + exp(eta)) - y eta."""

    name: ClassVar[str] = "binomial"
    dispersion_known: ClassVar[bool] = True
    largest: ClassVar[float] = 1.0

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        # log(1 + exp(eta)) in the form that neither overflows nor loses digits far from 0.
        return np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - y * eta

    def terms(self, eta: np.ndarray, y: np.ndarray, mass: np.ndarray, unit: bool) -> Terms:
        score, weight = np.empty((2, len(eta)), eta.dtype)
        small = np.abs(eta)
        np.exp(np.negative(small, out=small), out=small)  # NumPy's exponential is faster than numba's
        sums = kernels.binomial(eta, small, y, mass, unit, score, weight)
        return Terms(*sums, score, weight)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        # The exponential that does not overflow. NumPy's is three times as fast as scipy.special.expit.
        small = np.exp(-np.abs(eta))
        return np.where(eta >= 0, 1.0, small) / (1.0 + small)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return -scipy.special.xlogy(y, y) - scipy.special.xlogy(1.0 - y, 1.0 - y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Logarithm of the binomial coefficient, `weight` the number of trials, as R's binomial()$aic."""
        events, log_factorial = weight * y, scipy.special.gammaln
        return log_factorial(weight + 1.0) - log_factorial(events + 1.0) - log_factorial(weight - events + 1.0)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        return -loss + base


@dataclass(frozen=True)
class Poisson(_ByRow):
    """E(y) = exp(eta); loss exp(eta) - y eta."""

    name: ClassVar[str] = "poisson"
    dispersion_known: ClassVar[bool] = True
    largest: ClassVar[float] = np.inf

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(eta) - y * eta

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return np.exp(eta)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return y - scipy.special.xlogy(y, y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return -weight * scipy.special.gammaln(y + 1.0)

    def link(self, mean: float) -> float:
        return float(np.log(mean))

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        return -loss + base


FAMILIES: dict[str, Family] = {family.name: family for family in (Gaussian(), Binomial(), Poisson())}
