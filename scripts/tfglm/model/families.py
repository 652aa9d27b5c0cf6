"""The families: how the response varies around its mean, and the mean follows from the linear predictor.

Each function takes the linear predictor eta and the response y of one block, float64 tensors of shape [rows]. The loss
is minus the log-likelihood of a row but for what depends on y and the dispersion alone.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import tensorflow as tf


class Family(Protocol):
    """What the passes and the solver need to know."""

    name: str
    dispersion_known: bool

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Loss of each row."""

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        """E(y); mean(eta) - y is the derivative of the loss by eta."""

    def weight(self, mean: tf.Tensor) -> tf.Tensor:
        """Second derivative of the loss by eta: the weight of a row in the information matrix."""

    def link(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    def log_likelihood(self, loss: float, rows: float) -> float:
        """Maximised log-likelihood from the sum of the losses at the estimate."""


@dataclass(frozen=True)
class Gaussian:
    """y = eta + e, e normal with unknown variance; loss (y - eta)^2 / 2."""

    name: ClassVar[str] = "gaussian"
    dispersion_known: ClassVar[bool] = False

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return 0.5 * tf.square(y - eta)

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        return eta

    def weight(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.ones_like(mean)

    def link(self, mean: float) -> float:
        return mean

    def log_likelihood(self, loss: float, rows: float) -> float:
        """-n/2 (log(2 pi RSS / n) + 1), the variance at its maximum likelihood estimate RSS / n, as R's logLik.lm."""
        return -0.5 * rows * (np.log(2 * np.pi * 2 * loss / rows) + 1)


@dataclass(frozen=True)
class Binomial:
    """P(y = 1) = 1 / (1 + exp(-eta)), y 0 or 1; loss log(1 + exp(eta)) - y eta."""

    name: ClassVar[str] = "binomial"
    dispersion_known: ClassVar[bool] = True

    def loss(self, eta: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        # log(1 + exp(eta)) in the form that neither overflows nor loses digits far from 0.
        return tf.maximum(eta, 0.0) + tf.math.log1p(tf.exp(-tf.abs(eta))) - y * eta

    def mean(self, eta: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(eta)

    def weight(self, mean: tf.Tensor) -> tf.Tensor:
        return mean * (1.0 - mean)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def log_likelihood(self, loss: float, rows: float) -> float:
        return -loss


FAMILIES: dict[str, Family] = {family.name: family for family in (Gaussian(), Binomial())}
