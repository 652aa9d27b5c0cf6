"""The links: how the mean of a response follows from its linear predictor (McCullagh & Nelder 1989; as R's make.link has them).

Functions take the linear predictor eta, or a mean, as a float array of shape [rows], and return [rows].
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np


class Link(ABC):
    """g with eta = g(mean), and its inverse."""

    positive_predictor: ClassVar[bool] = False
    """Whether only linear predictors above 0 have a mean."""

    @abstractmethod
    def mean(self, eta: np.ndarray) -> np.ndarray:
        """E(y); infinite for a linear predictor that has none."""

    @abstractmethod
    def of(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    @abstractmethod
    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The derivative of the mean by eta; `mean` is that of eta."""

    @abstractmethod
    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The second derivative of the mean by eta."""

    def is_valid(self, eta: np.ndarray) -> np.ndarray:
        """Return which linear predictors have a mean."""
        return eta > 0 if self.positive_predictor else np.ones(np.shape(eta), bool)


class Log(Link):
    """log(mean / unit)."""

    def __init__(self, unit: float = 1.0):
        self.unit = unit

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return np.exp(eta) if self.unit == 1.0 else self.unit * np.exp(eta)

    def of(self, mean: float) -> float:
        return float(np.log(mean / self.unit))

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean


class Inverse(Link):
    """1 / mean."""

    positive_predictor = True

    def mean(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(eta <= 0, np.inf, 1.0 / eta)

    def of(self, mean: float) -> float:
        return 1.0 / mean

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return -(mean**2)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * mean**3


class InverseSquare(Link):
    """1 / mean^2."""

    positive_predictor = True

    def mean(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1.0 / np.sqrt(np.maximum(eta, 0.0))

    def of(self, mean: float) -> float:
        return mean**-2.0

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return -0.5 * mean**3

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 0.75 * mean**5


class ProbabilityLink(Link):
    """A link of a probability, with logarithms and hazards that keep their digits where it is near 0 or 1."""

    @abstractmethod
    def log_mean(self, eta: np.ndarray) -> np.ndarray:
        """log(mean)."""

    @abstractmethod
    def log_complement(self, eta: np.ndarray) -> np.ndarray:
        """log(1 - mean)."""

    @abstractmethod
    def hazards(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives of log(mean) and of -log(1 - mean) by eta."""

    @abstractmethod
    def hazard_slopes(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives of these by eta."""


class Probit(ProbabilityLink):
    """The quantile of the standard normal distribution."""

    def mean(self, eta: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr  # slow to import, and only a fit needs it

        return ndtr(eta)

    def of(self, mean: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(mean))

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * eta**2) / np.sqrt(2.0 * np.pi).astype(eta.dtype)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return -eta * self.slope(eta, mean)

    def log_mean(self, eta: np.ndarray) -> np.ndarray:
        from scipy.special import log_ndtr

        return log_ndtr(eta)

    def log_complement(self, eta: np.ndarray) -> np.ndarray:
        return self.log_mean(-eta)

    def hazards(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # The density over the probability, without a difference of their logarithms.
        from scipy.special import erfcx

        scaled = eta * np.sqrt(0.5).astype(eta.dtype)
        height = np.sqrt(2.0 / np.pi).astype(eta.dtype)
        return height / erfcx(-scaled), height / erfcx(scaled)

    def hazard_slopes(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        up, down = self.hazards(eta)
        return -up * (eta + up), down * (down - eta)


LARGEST_EXPONENT = 80.0
"""Largest linear predictor of the complementary log-log link: far below it an event is certain, and its exponential is
finite in float32."""


class ComplementaryLogLog(ProbabilityLink):
    """log(-log(1 - mean)): the probability that something with proportional hazards has happened by a time."""

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return -np.expm1(-self._hazard(eta))

    def of(self, mean: float) -> float:
        return float(np.log(-np.log1p(-mean)))

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        hazard = self._hazard(eta)
        return hazard * np.exp(-hazard)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.slope(eta, mean) * (1.0 - self._hazard(eta))

    def log_mean(self, eta: np.ndarray) -> np.ndarray:
        hazard = self._hazard(eta)
        # For a small hazard h this is log(h) - h / 2.
        return np.where(hazard < 1e-9, eta - 0.5 * hazard, np.log(-np.expm1(-hazard)))

    def log_complement(self, eta: np.ndarray) -> np.ndarray:
        return -self._hazard(eta)

    def hazards(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hazard = self._hazard(eta)
        # h / (exp(h) - 1), where neither overflows; 1 where h underflows.
        up = np.divide(hazard * np.exp(-hazard), -np.expm1(-hazard), out=np.ones_like(hazard), where=hazard > 0)
        return up, hazard

    def hazard_slopes(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        up, hazard = self.hazards(eta)
        return up * (1.0 - hazard - up), hazard

    @staticmethod
    def _hazard(eta: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(eta, LARGEST_EXPONENT))
