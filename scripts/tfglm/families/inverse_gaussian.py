"""Inverse Gaussian regression."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Law, LikelihoodSums
from tfglm.families.linked import PositiveFamily
from tfglm.families.links import InverseSquare, Link, Log


class InverseGaussian(PositiveFamily):
    """y > 0 with the variance dispersion * mean^3; loss y / (2 mean^2) - 1 / mean. Canonical is the link 1 / mean^2."""

    name = "inverse_gaussian"
    links: ClassVar[dict[str, Link]] = {"log": Log(), "1/mu^2": InverseSquare()}
    regression = "inverse Gaussian regression of"

    def __init__(self, link: str = "log"):
        super().__init__(link)
        self.canonical = link == "1/mu^2"

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean**3

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return 3.0 * mean**2

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * y / mean**2 - 1.0 / mean

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return -0.5 / np.where(y > 0, y, 1.0)

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        return Law(stats.invgauss(mean * dispersion / weight, scale=weight / dispersion), y, steps=False)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return -1.5 * weight * np.log(np.where(y > 0, y, 1.0))

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        """With the dispersion deviance / sum(w), as R's inverse.gaussian()$aic: -(sum(w) (log(2 pi dispersion) + 1) + 3 sum(w
        log(y))) / 2; None where the deviance is a rounding error."""
        dispersion = 2 * (sums.loss - sums.saturated) / sums.weight_sum
        if dispersion <= 0:  # a rounding error
            return None
        return float(-0.5 * sums.weight_sum * (np.log(2 * np.pi * dispersion) + 1) + sums.base)
