"""A trained network for others: a SavedModel that needs none of our code, and a description in JSON."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm import export
from tfglm.config import LayersConfig
from tfglm.design.design import Design
from tfglm.design.origin import intercept_from_zero
from tfglm.design.parametrisation import to_data_scale
from tfglm.networks import layers
from tfglm.networks.sources import Regression
from tfglm.results import unseen


class ExportedNetwork(tf.Module):
    """A network as a function of `tfglm.export.Covariates`. Rows without a prediction get NaN. `substitutes` has the level
    that replaces unseen levels, by factor; the linear predictor of the `regression` is added, if there is one."""

    def __init__(
        self, network: keras.Model, design: Design, substitutes: Mapping[str, int], regression: Regression | None
    ) -> None:
        super().__init__()
        self.covariates = export.Covariates(design, substitutes, "networks")
        kinds = dict(self.covariates.kinds)
        self._network, self._regression = network, None
        self._classes = list(design.classes.levels) if design.classes else []
        if regression:
            missing = unseen.collective_levels(regression.design)
            self._regression = export.ExportedRegression(regression.design, regression.fitted, missing)
            kinds |= self._regression.covariates.kinds
        self._from_zero = intercept_from_zero(design, regression is not None)
        # Whole, for TensorFlow saves no dictionary that was changed once the module has it.
        self.kinds = kinds

    @tf.function(autograph=False)
    def predict(self, **columns: tf.Tensor) -> dict[str, tf.Tensor]:
        """The `tfglm.export.outputs` of rows, given by column."""
        inputs = self.covariates.read(columns)
        offset = inputs.offset
        if self._regression:
            offset += self._regression.linear_predictor(columns) - self.covariates.design.likelihood.origin
        unused = tf.zeros_like(offset)  # response and weight
        numbers = tf.concat([inputs.numbers, tf.stack([offset, unused, unused], axis=1)], axis=1)
        groups = inputs.groups if self.covariates.design.groupings else tf.zeros_like(unused[:, None])
        of_network = [tf.cast(groups, tf.int32), tf.cast(numbers, tf.float32)]
        eta = tf.cast(self._network(of_network, training=False), tf.float64) + self.covariates.design.likelihood.origin
        known = inputs.known & tf.math.is_finite(offset)
        if self._classes:
            known = known[:, None]
        eta = tf.where(known & tf.math.is_finite(eta), eta, tf.constant(np.nan, tf.float64))
        return export.outputs(self.covariates.design, eta)

    def description(self, fit: Mapping[str, Any], derived: Mapping[str, str]) -> dict[str, Any]:
        """Describe the network for readers without tfglm, by fit.json and the SQL expressions of columns that are in no
        file.

        The linear predictor is offset + `start` + wide + `unit` * deep. Wide is the sum over the `coefficients` of the
        product of the term's numbers where the row has the coefficient's level. Deep is the output of the hidden layers, or
        of the user's `model`, whose `code` builds it. The offset includes the linear predictor of the regression
        `offset_from`, which `models` describes. A response with `classes` has all of this for each class, in their order,
        and the probabilities of the classes are the softmax of the linear predictors.
        """
        design, settings = self.covariates.design, LayersConfig.model_validate(fit["layers"])
        hidden = [{"units": units, "activation": settings.activation} for units in settings.hidden]
        convolutions = {"filters": settings.convolutions, "kernel": settings.kernel, "pooling": settings.pooling}
        coefficients = []
        if settings.wide or not settings.is_deep:
            wide = np.asarray(self._network.get_layer("wide").coefficients, float)
            on_data_scale = fit["unit"] * (to_data_scale(design) @ wide)
            if self._classes:
                for name, of_class in zip(self._classes, on_data_scale.T, strict=True):
                    coefficients += [{"class": name, **named} for named in export.named(design, of_class)]
            else:
                coefficients = export.named(design, on_data_scale)
        return {
            **export.described(design, self.kinds, derived),
            "offset_from": settings.offset_from,
            **({"response": fit["response"], "classes": self._classes} if self._classes else {}),
            "start": fit["start"] if self._classes else fit["start"] + self._from_zero,
            "unit": fit["unit"],
            "coefficients": coefficients,
            "embeddings": layers.embeddings(design, settings) if hidden else {},
            **({"convolutions": convolutions} if settings.convolutions else {}),
            "hidden": hidden,
            **(
                {"model": settings.model, "settings": settings.settings, "code": settings.code}
                if settings.model
                else {}
            ),
            "rows": fit["rows"],
            "steps": fit["steps"],
        }
