"""The cumulative link model, for a response that is one of several ordered classes (McCullagh, Journal of the Royal
Statistical Society B 42, 1980)."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from tfglm.families.links import ComplementaryLogLog, Probit
from tfglm.families.multinomial import FamilyOfClasses


class LossBetween(NamedTuple):
    """The loss -log(F(u) - F(l)) of rows, its derivatives by u and l, and its second derivatives, each [rows]."""

    loss: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    upper_upper: np.ndarray
    lower_lower: np.ndarray
    upper_lower: np.ndarray


class Cumulative(ABC):
    """A distribution function F. Arguments of F may be infinite."""

    @abstractmethod
    def quantile(self, probability: np.ndarray) -> np.ndarray:
        """The value at which F is a probability."""

    @abstractmethod
    def density(self, value: np.ndarray) -> np.ndarray:
        """F'."""

    @abstractmethod
    def density_slope(self, value: np.ndarray) -> np.ndarray:
        """F''."""

    @abstractmethod
    def interval(self, upper: np.ndarray, lower: np.ndarray) -> LossBetween:
        """The loss of rows between two values, of which `upper` is the larger. It has no difference of two probabilities, which
        would lose digits where both are near 0 or 1."""


class Logistic(Cumulative):
    """F(u) - F(l) = F(u) (1 - F(l)) (1 - exp(l - u))."""

    def quantile(self, probability: np.ndarray) -> np.ndarray:
        return np.log(probability) - np.log1p(-probability)

    def density(self, value: np.ndarray) -> np.ndarray:
        from scipy.special import expit  # slow to import, and only a fit needs it

        return expit(value) * expit(-value)

    def density_slope(self, value: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        return self.density(value) * (expit(-value) - expit(value))

    def interval(self, upper: np.ndarray, lower: np.ndarray) -> LossBetween:
        from scipy.special import expit

        distance = upper - lower
        rate = 1.0 / np.expm1(distance)
        bend = rate * (1.0 + rate)
        loss = np.logaddexp(0.0, -upper) + np.logaddexp(0.0, lower) - log_of_rest(distance)
        slopes = -expit(-upper) - rate, expit(lower) + rate
        return LossBetween(loss, *slopes, self.density(upper) + bend, self.density(lower) + bend, -bend)


class Normal(Cumulative):
    """Of two values above 0 the interval is that of their negatives, so that both probabilities are small."""

    _link = Probit()

    def quantile(self, probability: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return ndtri(probability)

    def density(self, value: np.ndarray) -> np.ndarray:
        return self._link.slope(value, value)

    def density_slope(self, value: np.ndarray) -> np.ndarray:
        return finite_times(-value, self.density(value))

    def interval(self, upper: np.ndarray, lower: np.ndarray) -> LossBetween:
        mirrored = upper + lower > 0
        high, low = np.where(mirrored, -lower, upper), np.where(mirrored, -upper, lower)
        log_high = self._link.log_mean(high)
        log_share = log_high + log_of_rest(log_high - self._link.log_mean(low))
        constant = 0.5 * np.log(2.0 * np.pi)
        of_upper, of_lower = (np.exp(-0.5 * value**2 - constant - log_share) for value in (upper, lower))
        return LossBetween(
            -log_share,
            -of_upper,
            of_lower,
            finite_times(upper, of_upper) + of_upper**2,
            of_lower**2 - finite_times(lower, of_lower),
            -of_upper * of_lower,
        )


class Gumbel(Cumulative):
    """1 - exp(-h) with the hazard h = exp(value): F(u) - F(l) = exp(-h(l)) (1 - exp(h(l) - h(u)))."""

    _link = ComplementaryLogLog()

    def quantile(self, probability: np.ndarray) -> np.ndarray:
        return np.log(-np.log1p(-probability))

    def density(self, value: np.ndarray) -> np.ndarray:
        return self._link.slope(value, value)

    def density_slope(self, value: np.ndarray) -> np.ndarray:
        return self._link.curvature(value, value)

    def interval(self, upper: np.ndarray, lower: np.ndarray) -> LossBetween:
        above, below = np.exp(upper), np.exp(lower)
        # Near each other, the hazards have few digits in their difference, and the values have more.
        distance = np.where(np.isfinite(upper - lower), below * np.expm1(upper - lower), above - below)
        rate = 1.0 / np.expm1(distance)
        of_upper, of_lower = finite_times(above, rate), below * (1.0 + rate)
        return LossBetween(
            below - log_of_rest(distance),
            -of_upper,
            of_lower,
            finite_times(above * (1.0 + rate) - 1.0, of_upper),
            of_lower * (1.0 + below * rate),
            -of_upper * of_lower,
        )


def log_of_rest(distance: np.ndarray) -> np.ndarray:
    """log(1 - exp(-distance)), with all digits (Mächler, Accurately Computing log(1 - exp(-|a|)), 2012)."""
    near = distance < np.log(2.0)
    return np.where(near, np.log(-np.expm1(-distance)), np.log1p(-np.exp(-distance)))


def finite_times(value: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """A product that is 0 where the factor is, whatever the value."""
    return np.where(factor == 0.0, 0.0, value * factor)


WORDS: dict[str, tuple[str, str, str | None]] = {
    "logit": ("ordered logistic regression of", "log odds ratio", "odds_ratio"),
    "probit": ("ordered probit regression of", "difference in the probit", None),
    "cloglog": ("ordered complementary log-log regression of", "difference in the complementary log-log", None),
}
"""By link, the names of a fit, of a coefficient, and of its exponential."""

CUMULATIVE: dict[str, Cumulative] = {"logit": Logistic(), "probit": Normal(), "cloglog": Gumbel()}


class Ordinal(FamilyOfClasses):
    """P(class <= k) = F(zeta_k - eta), with thresholds zeta_0 < zeta_1 < ...; loss -log(F(zeta_y - eta) - F(zeta_y-1 - eta)).

    Here `eta` is zeta_k - eta of each class k, of shape [rows, classes], infinite for the last class; y is the number of a row's
    class, from 0, in their order. The loss is convex in the thresholds and eta together (Pratt, Journal of the American
    Statistical Association 76, 1981; Burridge, Journal of the Royal Statistical Society B 43, 1981). The information matrix is
    the observed one, as in R's MASS::polr, so that scoring is Newton's method.
    """

    name = "ordinal"
    is_ordered = True
    in_networks = False

    def __init__(self, link: str):
        self.link_name, self.cumulative = link, CUMULATIVE[link]
        self.regression, self.effect, self.ratio = WORDS[link]

    def interval_of(self, eta: np.ndarray, y: np.ndarray) -> LossBetween:
        """The interval of the class of each row."""
        number = y.astype(int)[:, None]
        below = np.take_along_axis(eta, np.maximum(number - 1, 0), axis=1)
        lower = np.where(number == 0, -np.inf, below)[:, 0]
        upper = np.take_along_axis(eta, number, axis=1)[:, 0]
        with np.errstate(all="ignore"):
            interval = self.cumulative.interval(upper, lower)
            return interval._replace(loss=np.where(upper > lower, interval.loss, np.inf))

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.interval_of(eta, y).loss

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """The probability of each class, [rows, classes]."""
        lower = np.concatenate([np.full((*eta.shape[:-1], 1), -np.inf), eta[..., :-1]], axis=-1)
        with np.errstate(all="ignore"):
            return np.exp(-self.cumulative.interval(eta, lower).loss)

    def link(self, mean: float) -> float:
        return float(self.cumulative.quantile(np.array(mean)))

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return self.cumulative.density_slope(eta)
