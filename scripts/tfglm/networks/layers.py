"""What a network consists of: Keras layers over the levels and numbers of a design, and a linear part beside them.

    eta = offset + start + unit * (wide + deep)

`wide` is the linear predictor of the formula, a coefficient for each level, as `Design` has it. `deep` are hidden layers over an
embedding of each factor and the standardised numbers. `start` is the linear predictor of the mean response less the mean offset,
and `unit` the standard deviation of a response without a natural scale: learning begins near the best constant in any units.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.config import LayersConfig
from tfglm.design.design import Design
from tfglm.engine.parts import looked_up_parts
from tfglm.errors import UserError, nearest
from tfglm.export import linear_predictor
from tfglm.networks.convolutions import convolved
from tfglm.networks.embeddings import layer
from tfglm.networks.rows import OFFSET, width_of_groups

MOST_DIMENSIONS = 50
"""Of an embedding, if the config does not say."""


@dataclass(frozen=True)
class Scale:
    """Where the output starts, of a response with classes at a number for each, and its unit."""

    start: float | list[float]
    unit: float


class Wide(keras.layers.Layer):
    """The linear predictor of a design without its offset, in units of the output. `coefficients`, [size] or [size, classes],
    begin at 0."""

    def __init__(self, design: Design, classes: Sequence[int] = (), **options: Any) -> None:
        super().__init__(**options)
        self._parts, self._shape = looked_up_parts(design)[1].tolist(), (design.size, *classes)

    def build(self, input_shape: Any) -> None:
        self.coefficients = self.add_weight(name="coefficients", shape=self._shape, initializer="zeros")

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return linear_predictor(tf.convert_to_tensor(self.coefficients), self._parts, *inputs)


class Dropout(keras.layers.Layer):
    """Sets units to 0 with probability `rate` and divides the others by 1 - rate, in training.

    Which ones follows from the seed, the step and the device. Keras' own layer draws from a state that it changes, which some
    strategies do not allow, and which a training that goes on from a checkpoint would have to find again.
    """

    def __init__(self, rate: float, seed: int, step: Callable[[], tf.Tensor], **options: Any) -> None:
        super().__init__(**options)
        self._rate, self._seed, self._step = rate, seed, step

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training or not self._rate:
            return inputs
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = tf.stack([tf.cast(self._step(), tf.int32), self._seed ^ replica])
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, seed, rng_alg="philox")


def network(
    design: Design, settings: LayersConfig, scale: Scale, seed: int = 0, step: Callable[[], tf.Tensor] = lambda: 0
) -> keras.Model:
    """A network of the groups and numbers of `networks.rows.Rows`, which returns the linear predictor [rows], of a response with
    classes [rows, classes].

    `seed` chooses the first weights, and with the `step` that training is at what is dropped out. Raises UserError for an
    embedding of what is no factor of the formula, and as `convolutions.convolved` does.
    """
    sizes = embeddings(design, settings)
    multipliers, classes = len(looked_up_parts(design)[0]), np.shape(scale.start)
    groups = keras.Input((width_of_groups(design),), dtype="int32", name="groups")
    all_numbers = keras.Input((multipliers + 3,), name="numbers")
    numbers, offset, parts = all_numbers[:, :OFFSET], all_numbers[:, OFFSET], []
    if settings.wide or not settings.hidden:
        parts.append(Wide(design, classes, name="wide")((groups, numbers)))
    if settings.hidden:
        seeds = np.random.default_rng(seed).integers(2**31, size=2 * len(settings.hidden) + len(sizes) + 1)
        random = iter(seeds.tolist())
        inputs = [convolved(design, settings, numbers, seed)] if multipliers else []
        for factor, dimensions in sizes.items():
            place = design.groupings.index((factor,))
            initializer = keras.initializers.RandomUniform(-0.05, 0.05, seed=next(random))
            embedding = keras.layers.Embedding(
                design.levels_of((factor,)), dimensions, initializer, name=layer(design, factor)
            )
            inputs.append(embedding(groups[:, place]))
        deep = keras.layers.Concatenate(name="inputs")(inputs) if len(inputs) > 1 else inputs[0]
        for number, units in enumerate(settings.hidden):
            initializer = keras.initializers.GlorotUniform(next(random))
            deep = keras.layers.Dense(
                units, settings.activation, kernel_initializer=initializer, name=f"hidden_{number}"
            )(deep)
            deep = Dropout(settings.dropout, next(random), step, name=f"dropout_{number}")(deep)
        initializer = keras.initializers.GlorotUniform(next(random))
        output = keras.layers.Dense(math.prod(classes), kernel_initializer=initializer, name="deep")(deep)
        parts.append(output if classes else output[:, 0])
    learnt = keras.layers.Add(name="sum")(parts) if len(parts) > 1 else parts[0]
    eta = keras.layers.Rescaling(scale.unit, scale.start, name="scale")(learnt) + (
        offset[:, None] if classes else offset
    )
    return keras.Model([groups, all_numbers], eta, name=design.model)


def embeddings(design: Design, settings: LayersConfig) -> dict[str, int]:
    """The dimensions of the embedding of each factor that the hidden layers read: those that are terms by themselves, as what
    interactions say is for the layers to find. Raises UserError for another factor."""
    factors = [grouping[0] for grouping in design.groupings if len(grouping) == 1]
    given = settings.embedding
    if isinstance(given, int):
        return dict.fromkeys(factors, given)
    for name in given or {}:
        if name not in factors:
            raise UserError(
                f"networks.{design.model}.embedding: `{name}` is no factor of the formula{nearest(name, factors) or ';'} "
                f"there are {', '.join(factors) or 'none'}"
            )
    return {factor: (given or {}).get(factor, dimensions(design.levels_of((factor,)))) for factor in factors}


def dimensions(levels: int) -> int:
    """Those of an embedding of so many levels: the rule of thumb of fastai (Howard & Gugger 2020)."""
    return max(1, min(MOST_DIMENSIONS, round(1.6 * levels**0.56)))
