"""A family whose link is not the canonical one, or not that alone: its derivatives by the chain rule."""

from abc import abstractmethod
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from tfglm.families.family import Family, Response, ranges
from tfglm.families.links import Link, Log

WORDS = {
    "log": ("log mean ratio", "mean_ratio"),
    "inverse": ("difference in the inverse of the mean", None),
    "1/mu^2": ("difference in the inverse square of the mean", None),
}
"""By link, the name of a coefficient, and of its exponential."""


LENGTH = 1e-4
"""Length of a difference in linear predictors. Its square and the rounding error over it are both about 1e-8 or less."""


class LinkedFamily(Family):
    """A family with a link, V its variance function, and mu(eta) the inverse of the link. Of a row:

    - the score, dloss/deta = (mu - y) mu' / V(mu)
    - the expected information, mu'^2 / V(mu): the weight of Fisher scoring, and of standard errors as R's glm has them
    - the observed information, mu'^2 / V + (mu - y) (mu'' V - mu'^2 V'(mu)) / V^2

    (McCullagh & Nelder, Generalized Linear Models, 1989, 2.5). The loss is linear in y.
    """

    canonical = False
    in_networks = False
    links: ClassVar[dict[str, Link]]
    """The links of the family, the default first."""
    origin: float = 0.0
    """With link log, what responses and means are measured from: y stands for origin + y, and eta for log(mean / origin). Both
    are then precise, however large the origin is (solvers.origin)."""

    def __init__(self, link: str):
        self._link = self.links[link]
        self.link_name = link
        self.positive_predictor = self._link.positive_predictor
        self.effect, self.ratio = WORDS[link]

    @abstractmethod
    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        """The derivative of the variance function."""

    @abstractmethod
    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The loss as a function of the mean, linear in y."""

    def about(self, origin: float) -> Self:
        if not self.is_movable:
            return self
        moved = copy(self)
        moved.origin, moved._link = origin, Log(origin)
        return moved

    def residual(self, eta: np.ndarray, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The mean less the response."""
        return self.origin * np.expm1(eta) - y if self.origin else mean - y

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.where(self.is_valid(eta), self.loss_of_mean(self.mean(eta), y), np.inf)

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        raise NotImplementedError(f"networks have no family {self.name}")

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return self._link.mean(eta)

    def link(self, mean: float) -> float:
        return float(np.log1p(mean / self.origin)) if self.origin else self._link.of(mean)

    def is_valid(self, eta: np.ndarray) -> np.ndarray:
        return self._link.is_valid(eta)

    def interval(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ends = self.mean(lower), self.mean(upper)
        return ends[::-1] if self.positive_predictor else ends  # such a link falls

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self._link.slope(eta, mean)

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self._link.curvature(eta, mean)

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.slope(eta, mean) ** 2 / self.variance(mean)

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean = self.mean(eta)
        slope, variance = self.slope(eta, mean), self.variance(mean)
        bend = self.curvature(eta, mean) / variance - slope**2 * self.variance_slope(mean) / variance**2
        return slope**2 / variance + self.residual(eta, mean, y) * bend

    def observed_slope(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By central differences."""
        return (self.observed(eta + LENGTH, y) - self.observed(eta - LENGTH, y)) / (2 * LENGTH)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = self.mean(eta)
        slope = self.slope(eta, mean)
        per_mean = slope / self.variance(mean)
        return self.residual(eta, mean, y) * per_mean, slope * per_mean


class PositiveFamily(LinkedFamily):
    """A family of responses above 0, with a dispersion that Pearson's statistic estimates."""

    dispersion_known = False
    metrics = "deviances"

    separates = False

    def in_range(self, y: np.ndarray) -> np.ndarray:
        return (y > -self.origin) & (y < np.inf)

    def at_an_end(self, response: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """None: no response is 0."""
        return np.zeros(np.shape(response), bool)

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        return None if response.minimum > 0 else f"needs a response above 0, {ranges(response)}"

    def dispersion(self, loss: float, pearson: float, df_residual: float) -> float:
        return pearson / df_residual
