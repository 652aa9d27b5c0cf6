"""Regression of amounts that are often exactly 0."""

from typing import ClassVar

import numpy as np

from tfglm.families.family import Family, LikelihoodSums, Response
from tfglm.families.linked import PositiveFamily
from tfglm.families.links import Link, Log

TRIALS = 13
"""Pairs of dispersion and power whose likelihoods are summed together."""


class Tweedie(PositiveFamily):
    """A Poisson number of gamma amounts (Jorgensen 1987): y >= 0 with the variance dispersion * mean^power, 1 < power < 2; loss
    y mean^(1 - power) / (power - 1) + mean^(2 - power) / (2 - power)."""

    name = "tweedie"
    links: ClassVar[dict[str, Link]] = {"log": Log()}
    regression = "Tweedie regression of"
    separates = True
    shape_name = "power"
    shape_sums = tuple(f"trial_{number}" for number in range(TRIALS))

    def __init__(self, power: float | None = None):
        super().__init__("log")
        self.power = power
        self.shape_is_known = power is not None

    @property
    def _power(self) -> float:
        """The power; while it is unknown, the middle of its range."""
        return 1.5 if self.power is None else self.power

    def in_range(self, y: np.ndarray) -> np.ndarray:
        return (y >= 0) & (y < np.inf)

    def at_an_end(self, response: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return response == 0

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean**self._power

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return self._power * mean ** (self._power - 1.0)

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        power = self._power
        return y * mean ** (1.0 - power) / (power - 1.0) + mean ** (2.0 - power) / (2.0 - power)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        power = self._power
        return np.maximum(y, 0.0) ** (2.0 - power) / ((power - 1.0) * (2.0 - power))

    def log_likelihood(self, sums: LikelihoodSums) -> None:
        """Return None: the density has no closed form. It is a series in the dispersion too, and with a given power the
        dispersion has no maximum likelihood estimate (docs/statistics.md: Model)."""
        return

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        return Family.refusal(self, response, trials, weights)

    def shape_terms(
        self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Log densities at each of some pairs of dispersion and power, [TRIALS, 2]."""
        from tfglm.families.tweedie_rows import log_densities  # numba is slow to import, and only this pass needs it

        mean, values = np.exp(eta), np.empty((TRIALS, len(y)))
        for (dispersion, power), value in zip(shape, values, strict=True):
            log_densities(mean, y, weight, dispersion, power, value)
        return dict(zip(self.shape_sums, values, strict=True))
