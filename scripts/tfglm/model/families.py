"""The families: how the response varies around its mean, and the mean follows from the linear predictor.

Functions of a block take the linear predictor eta and the response y, float64 tensors of shape [rows]. The response of
`binomial` is the share of events; a row then weighs as much as it has trials. The loss is minus the log-likelihood of a row
of weight 1, but for what depends on y and the dispersion alone.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import tensorflow as tf

from tfglm.model.sums import in_columns


class Family(Protocol):
    """What the passes and the solver need to know. All links are canonical: `mean(eta) - y` is the derivative of the loss by eta,
    and the variance function the second."""

    name: str
    dispersion_known: bool
    largest: float
    """No response is larger, and but for `gaussian` none is negative."""

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Loss of each row."""

    def total_loss(self, eta: tf.Tensor, y: tf.Tensor, mass: tf.Tensor, unit: bool) -> tf.Tensor:
        """Numbers [rows] that add up to the sum of mass * loss; `unit` says that each mass is 0 or 1."""

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        """E(y)."""

    def variance(self, mean: tf.Tensor) -> tf.Tensor:
        """Variance function: the weight of a row in the information matrix."""

    def saturated(self, y: tf.Tensor) -> tf.Tensor:
        """The least loss that any mean has."""

    def base(self, y: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """What the log-likelihood of each row has beside -weight * loss."""

    def link(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        """Maximised log-likelihood from the sums at the estimate."""


def _total(family: Family, eta: tf.Tensor, y: tf.Tensor, mass: tf.Tensor) -> tf.Tensor:
    # What takes no part may have any eta.
    return in_columns(mass * tf.where(mass > 0, family.loss(eta, y), tf.zeros_like(eta)))


@dataclass(frozen=True)
class Gaussian:
    """y = eta + e, e normal with unknown variance, divided by the weight; loss (y - eta)^2 / 2."""

    name: ClassVar[str] = "gaussian"
    dispersion_known: ClassVar[bool] = False
    largest: ClassVar[float] = np.inf

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return 0.5 * tf.square(y - eta)

    def total_loss(self, eta: tf.Tensor, y: tf.Tensor, mass: tf.Tensor, unit: bool) -> tf.Tensor:
        return _total(self, eta, y, mass)

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        return eta

    def variance(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.ones_like(mean)

    def saturated(self, y: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(y)

    def base(self, y: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return 0.5 * tf.math.log(weight)

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

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        # log(1 + exp(eta)) in the form that neither overflows nor loses digits far from 0.
        return tf.maximum(eta, 0.0) + tf.math.log1p(tf.exp(-tf.abs(eta))) - y * eta

    def total_loss(self, eta: tf.Tensor, y: tf.Tensor, mass: tf.Tensor, unit: bool) -> tf.Tensor:
        if not unit:
            return _total(self, eta, y, mass)
        # A logarithm a row costs as much as the rest of a gradient. A product of factors between 1 and 2 is still a number.
        factors = in_columns(1.0 + mass * tf.exp(-tf.abs(eta)), tf.reduce_prod)
        return in_columns(mass * (tf.maximum(eta, 0.0) - y * eta)) + tf.math.log(factors)

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(eta)

    def variance(self, mean: tf.Tensor) -> tf.Tensor:
        return mean * (1.0 - mean)

    def saturated(self, y: tf.Tensor) -> tf.Tensor:
        return -tf.math.xlogy(y, y) - tf.math.xlogy(1.0 - y, 1.0 - y)

    def base(self, y: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """Logarithm of the binomial coefficient, `weight` the number of trials, as R's binomial()$aic."""
        events = weight * y
        return tf.math.lgamma(weight + 1.0) - tf.math.lgamma(events + 1.0) - tf.math.lgamma(weight - events + 1.0)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        return -loss + base


@dataclass(frozen=True)
class Poisson:
    """E(y) = exp(eta); loss exp(eta) - y eta."""

    name: ClassVar[str] = "poisson"
    dispersion_known: ClassVar[bool] = True
    largest: ClassVar[float] = np.inf

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.exp(eta) - y * eta

    def total_loss(self, eta: tf.Tensor, y: tf.Tensor, mass: tf.Tensor, unit: bool) -> tf.Tensor:
        return _total(self, eta, y, mass)

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        return tf.exp(eta)

    def variance(self, mean: tf.Tensor) -> tf.Tensor:
        return mean

    def saturated(self, y: tf.Tensor) -> tf.Tensor:
        return y - tf.math.xlogy(y, y)

    def base(self, y: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return -weight * tf.math.lgamma(y + 1.0)

    def link(self, mean: float) -> float:
        return float(np.log(mean))

    def log_likelihood(self, loss: float, base: float, rows: float) -> float:
        return -loss + base


FAMILIES: dict[str, Family] = {family.name: family for family in (Gaussian(), Binomial(), Poisson())}
