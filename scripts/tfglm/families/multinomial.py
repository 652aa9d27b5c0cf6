"""The softmax of several linear predictors, for a response that is one of several classes."""

from typing import Any

import numpy as np

from tfglm.families.family import Family


class FamilyOfClasses(Family):
    """What the families have whose response is one of several classes: `y` is the number of a row's class, from 0. Which columns
    have classes, the design decides (`design.checks.check_classes`)."""

    of_classes = True
    predicted = "probability"
    metrics = "classes"

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean)


class Multinomial(FamilyOfClasses):
    """P(class k) = exp(eta_k) / sum over j of exp(eta_j); loss log(sum over j of exp(eta_j)) - eta_y.

    Here eta is of shape [rows, classes], and y the number of a row's class, from 0. In a regression the linear predictor of the
    reference class is 0 (engine.classes).
    """

    name = "multinomial"
    link_name = "softmax"
    regression = "multinomial regression of the class"
    effect = "log odds ratio"
    ratio = "odds_ratio"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        # Less the largest, whose exponential could overflow.
        largest = eta.max(axis=1, keepdims=True)
        total = largest[:, 0] + np.log(np.exp(eta - largest).sum(axis=1))
        return total - np.take_along_axis(eta, y.astype(int)[:, None], axis=1)[:, 0]

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y, tf.int32), eta)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """The probability of each class, [..., classes]."""
        odds = np.exp(eta - eta.max(axis=-1, keepdims=True))
        return odds / odds.sum(axis=-1, keepdims=True)

    def link(self, mean: float) -> float:
        """Return the linear predictor for the probability of a class. Many linear predictors give the same probabilities;
        the exponentials of these add up to 1."""
        return float(np.log(mean))

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean) * (1.0 - 2.0 * mean)
