"""The layers of a network: Keras layers over the levels and numbers of a design, and a linear part beside them.

    eta = offset + start + unit * (wide + deep)

`wide` is the linear predictor of the formula, with a coefficient for each level, as in `Design`. `deep` are hidden layers
over an embedding of each factor and the standardised numbers. `start` is the linear predictor of the mean response minus
the mean offset. `unit` is the standard deviation of a response without a natural scale. So learning begins near the best
constant in any units.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from tfglm.networks import own
from tfglm.networks.convolutions import convolved, penalty_of
from tfglm.networks.embeddings import layer
from tfglm.networks.inputs import NamedInputs, inputs_of
from tfglm.networks.rows import OFFSET

MOST_DIMENSIONS = 50
"""Most dimensions of an embedding, unless the config says otherwise."""


@dataclass(frozen=True)
class OutputScale:
    """The start and the unit of the output; if the response has classes, the start is a number for each class."""

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
        return linear_predictor(self.coefficients.value, self._parts, *inputs)


def network(design: Design, settings: LayersConfig, scale: OutputScale, seed: int = 0) -> keras.Model:
    """A network of the groups and numbers of `networks.rows.NetworkRows`, which returns the linear predictor [rows];
    if the response has classes, [rows, classes].

    `seed` chooses the first weights and what is dropped out. Raises UserError for an embedding of what is no factor of the
    formula, as `convolutions.convolved` does, and as `own.deep_part` does.
    """
    classes = np.shape(scale.start)
    (groups, numbers), inputs = inputs_of(design, math.prod(classes))
    parts = []
    if settings.wide or not settings.is_deep:
        parts.append(Wide(design, classes, name="wide")((groups, numbers[:, :OFFSET])))
    if settings.is_deep:
        with computing_in(settings.precision):
            if settings.model:
                output = own.deep_part(inputs, settings, seed, f"networks.{design.model}")
            else:
                output = hidden_layers(design, inputs, settings, seed)
        if output.dtype != "float32":
            output = keras.ops.cast(output, "float32")
        parts.append(output if classes else output[:, 0])
    learnt = keras.layers.Add(name="sum")(parts) if len(parts) > 1 else parts[0]
    eta = keras.layers.Rescaling(scale.unit, scale.start, name="scale")(learnt) + (
        inputs.offset[:, None] if classes else inputs.offset
    )
    made = keras.Model([groups, numbers], eta, name=design.model)
    for each in embeddings_of(made):
        read_by_rows(each)
    for each in batch_normalisations(made):
        # Of the whole batch, not of the part of a device: so all strategies learn the same.
        each.synchronized = True
    return made


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Give the layers that are made inside this precision."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def embeddings_of(network: keras.Model) -> list[keras.layers.Embedding]:
    """The embeddings, without those that Keras reads in a way of their own."""
    layers = network._flatten_layers(include_self=False)
    return [layer for layer in layers if type(layer) is keras.layers.Embedding and not layer.lora_enabled]


def read_by_rows(embedding: keras.layers.Embedding) -> None:
    """Have an embedding read only the rows of a batch. Keras reads all rows first, and TensorFlow copies them if a step has
    changed some."""
    table = embedding.embeddings

    def sparse_read(rows: Any, name: str | None = None) -> Any:
        with keras.src.backend.AutocastScope(None):  # the layer casts the rows
            return table.value.sparse_read(rows, name)

    # `tf.gather`, which Keras calls, looks for it.
    table.sparse_read = sparse_read


def batch_normalisations(network: keras.Model) -> list[keras.layers.BatchNormalization]:
    """The layers that compute with means over the rows of a batch."""
    layers = network._flatten_layers(include_self=False)
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]


def mixed_over_rows(network: keras.Model) -> list[str]:
    """The names of the layers whose output for a row depends on the other rows of the batch."""
    return [layer.name for layer in batch_normalisations(network)]


def with_state(network: keras.Model) -> list[str]:
    """The paths of what a step changes besides weights, random numbers and batch normalisation: each device computes it from its
    rows."""
    rows = [tf.zeros((2, *each.shape[1:]), each.dtype) for each in network.inputs]
    weights, state = (
        [tf.convert_to_tensor(np.asarray(each)) for each in variables]
        for variables in (network.trainable_variables, network.non_trainable_variables)
    )
    _, after = network.stateless_call(weights, state, rows, training=True)
    known = {id(variable) for layer in batch_normalisations(network) for variable in layer.variables}
    return [
        variable.path
        for variable, old, new in zip(network.non_trainable_variables, state, after, strict=True)
        if new is not old and old.dtype.is_floating and id(variable) not in known
    ]


def hidden_layers(design: Design, inputs: NamedInputs, settings: LayersConfig, seed: int) -> Any:
    """The output of hidden layers over an embedding of each factor and the numbers, [rows, outputs]."""
    sizes = embeddings(design, settings)
    seeds = np.random.default_rng(seed).integers(2**31, size=2 * len(settings.hidden) + len(sizes) + 1)
    random = iter(seeds.tolist())
    read = [convolved(design, settings, inputs, seed)] if inputs.all_numbers is not None else []
    for factor, dimensions in sizes.items():
        initializer = keras.initializers.RandomUniform(-0.05, 0.05, seed=next(random))
        embedding = keras.layers.Embedding(inputs.sizes[factor], dimensions, initializer, name=layer(design, factor))
        read.append(embedding(inputs.levels[factor]))
    deep = keras.layers.Concatenate(name="inputs")(read) if len(read) > 1 else read[0]
    for number, units in enumerate(settings.hidden):
        deep = keras.layers.Dense(
            units,
            None if settings.batch_normalization else settings.activation,
            kernel_initializer=keras.initializers.GlorotUniform(next(random)),
            kernel_regularizer=penalty_of(settings),
            name=f"hidden_{number}",
        )(deep)
        if settings.batch_normalization:
            deep = keras.layers.BatchNormalization(name=f"normalised_{number}")(deep)
            deep = keras.layers.Activation(settings.activation, name=f"activated_{number}")(deep)
        deep = keras.layers.Dropout(settings.dropout, seed=next(random), name=f"dropout_{number}")(deep)
    initializer = keras.initializers.GlorotUniform(next(random))
    return keras.layers.Dense(inputs.outputs, kernel_initializer=initializer, name="deep", dtype="float32")(deep)


def embeddings(design: Design, settings: LayersConfig) -> dict[str, int]:
    """Return the dimensions of the embedding of each factor that the hidden layers read. These are the factors that are
    terms of their own; the layers find interactions themselves. Raises UserError for another factor."""
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
    """Return the dimensions of an embedding of so many levels: the rule of thumb of fastai (Howard & Gugger 2020)."""
    return max(1, min(MOST_DIMENSIONS, round(1.6 * levels**0.56)))
