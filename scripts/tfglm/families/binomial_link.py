"""Regression of a probability by another link than the logit."""

from typing import ClassVar

import numpy as np

from tfglm.families.binomial import Binomial
from tfglm.families.family import Family
from tfglm.families.linked import LinkedFamily
from tfglm.families.links import ComplementaryLogLog, Link, ProbabilityLink, Probit

WORDS: dict[str, tuple[str, str, str | None]] = {
    "probit": ("probit regression of the probability of", "difference in the probit", None),
    "cloglog": ("complementary log-log regression of the probability of", "log hazard ratio", "hazard_ratio"),
}
"""By link, the names of a fit, of a coefficient, and of its exponential."""


class BinomialLink(LinkedFamily, Binomial):
    """P(event) = mu(eta); loss -y log(mu) - (1 - y) log(1 - mu).

    With the hazards h1 = mu' / mu and h0 = mu' / (1 - mu), the score is (1 - y) h0 - y h1, the expected information is h1
    h0, and the observed information is (1 - y) h0' - y h1'. The hazards keep their digits if the probability is near 0 or
    1.
    """

    links: ClassVar[dict[str, Link]] = {"probit": Probit(), "cloglog": ComplementaryLogLog()}
    _link: ProbabilityLink

    def __init__(self, link: str):
        self._link = self.links[link]  # type: ignore[assignment]
        self.link_name = link
        self.regression, self.effect, self.ratio = WORDS[link]

    def variance_slope(self, mean: np.ndarray) -> np.ndarray:
        return 1.0 - 2.0 * mean

    def loss_of_mean(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import xlog1py, xlogy  # slow to import, and only a fit needs it

        return -xlogy(y, mean) - xlog1py(1.0 - y, -mean)

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # what takes no part may be anything
            events = np.where(y > 0, y * self._link.log_mean(eta), 0.0)
            return -events - np.where(y < 1, (1.0 - y) * self._link.log_complement(eta), 0.0)

    def log_odds(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self._link.log_mean(eta) - self._link.log_complement(eta)

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        up, down = self._link.hazards(eta)
        return up * down

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        up, down = self._link.hazard_slopes(eta)
        return (1.0 - y) * down - y * up

    def load(self) -> None:
        """Load nothing: the loops belong to the logit link."""

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        up, down = self._link.hazards(eta)
        return (1.0 - y) * down - y * up, up * down

    terms = Family.terms
