"""Regression of a positive mean on ratios, with normal errors."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Response, ranges
from tfglm.families.gaussian import Gaussian
from tfglm.families.linked import LinkedFamily
from tfglm.families.links import Link, Log


class GaussianLog(LinkedFamily, Gaussian):
    """y = exp(eta) + e, e normal with unknown variance, divided by the weight; loss (y - mean)^2 / 2. The loss is not convex in
    eta where y > 2 mean, so the observed information at the end tells whether it is a minimum."""

    links: ClassVar[dict[str, Link]] = {"log": Log()}
    quadratic = False
    is_movable = True
    regression = "regression of the mean, with normal errors, of"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return 0.5 * np.square(self.residual(eta, self.mean(eta), y))

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return np.zeros_like(mean)

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(y - mean)

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        return None if response.maximum > 0 else f"with link log needs a mean above 0, {ranges(response)}"
