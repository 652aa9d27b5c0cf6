"""The loss of rows in training: that of the family or of the user, with weights of classes and smoothed labels."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.design.design import Design
from tfglm.errors import UserError, nearest
from tfglm.networks import code
from tfglm.networks.counts import TrainingCounts

OfRows = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""Linear predictors, [rows] or [rows, classes], and responses, [rows], to a number for each row, [rows]."""


class TrainingLoss:
    """The loss of rows in training, divided by `unit`.

    Smoothing spreads a share of each response evenly over the classes. The weight of a row's class multiplies its loss, as in
    Keras. A binomial response between 0 and 1 has parts of both classes.
    """

    def __init__(self, design: Design, settings: TrainingConfig, counts: TrainingCounts) -> None:
        where = f"networks.{design.model}"
        family = design.distribution
        self.is_own = settings.loss is not None
        self.unit = 1.0 if self.is_own else counts.scale.unit**2
        if settings.loss:
            self._of_rows: OfRows = user_function(settings, "loss", settings.loss, where)
        else:
            self._of_rows = lambda eta, response: family.tensor_loss(tf, eta, response)
        self._classes = len(design.classes.levels) if design.classes else 2
        self._smoothing = settings.label_smoothing
        weights = weights_of_classes(design, settings, counts.shares)
        self._weights = tf.constant(weights, tf.float32) if weights is not None else None
        self._is_binomial = not design.classes

    def __call__(self, eta: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
        losses = self._of_rows(eta, response) / self.unit
        if self._smoothing:
            of_classes = [
                self._of_rows(eta, tf.fill(tf.shape(response), float(number))) for number in range(self._classes)
            ]
            spread = tf.add_n(of_classes) / (self._classes * self.unit)
            losses = (1 - self._smoothing) * losses + self._smoothing * spread
        if self._weights is not None and self._is_binomial:
            losses *= self._weights[0] + response * (self._weights[1] - self._weights[0])
        elif self._weights is not None:
            losses *= tf.gather(self._weights, tf.cast(response, tf.int32))
        return losses


def user_function(settings: TrainingConfig, key: str, place: str, where: str) -> OfRows:
    """Return a loss or a metric of the user's, which refuses an outcome that is no number for each row."""
    call = code.function(settings, key, place, where)

    def checked(eta: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
        outcome = call(eta, response)
        shape = getattr(outcome, "shape", None)
        if shape is None or len(shape) != 1:
            what = type(outcome).__name__ if shape is None else f"the shape {list(shape)}"
            raise UserError(f"{where}.{key}: `{place}` returns {what}; it has to be one number for each row, [rows]")
        return tf.cast(outcome, tf.float32)

    return checked


def on_arrays(of_rows: OfRows) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The same for arrays."""

    def computed(eta: np.ndarray, response: np.ndarray) -> np.ndarray:
        tensors = (tf.constant(values, tf.float32) for values in (eta, response))
        return np.asarray(of_rows(*tensors), float)

    return computed


def weights_of_classes(design: Design, settings: TrainingConfig, shares: list[float] | None) -> list[float] | None:
    """Return the weight of each class, None if all are the same. `shares` are those of the classes among the training rows.
    Raises UserError for a class that there is none of."""
    given = settings.class_weights
    if not given:
        return None
    if given == "balanced":
        assert shares is not None
        return [1 / (len(shares) * share) for share in shares]
    names = list(design.classes.levels) if design.classes else ["0", "1"]
    for name in given:
        if name not in names:
            raise UserError(
                f"networks.{design.model}.class_weights: `{design.roles.response}` has no class `{name}`"
                f"{nearest(name, names) or ';'} there are {', '.join(names)}"
            )
    weights = [float(given.get(name, 1.0)) for name in names]
    if not math.fsum(weights):
        raise UserError(
            f"networks.{design.model}.class_weights: all classes have the weight 0; give some a larger weight"
        )
    return weights


Metrics = dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]


def metrics_of(design: Design, settings: TrainingConfig, loss: TrainingLoss) -> Metrics:
    """The means that are recorded for the held-out rows, by name, if they are the user's."""
    where = f"networks.{design.model}"
    named: dict[str, Any] = {"loss": loss._of_rows} if loss.is_own else {}
    for place in settings.metrics:
        named[place.rpartition(":")[2]] = user_function(settings, "metrics", place, where)
    return {name: on_arrays(function) for name, function in named.items()}
