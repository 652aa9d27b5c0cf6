"""The weights of a network on parameter servers: few variables, because each variable that a step reads or changes costs a
message.

All weights, except large embeddings, are concatenated in one vector, and each server keeps a part of it. A large embedding
is divided among the servers by its levels, and a step reads and changes only the levels of its batch.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfglm.errors import UserError
from tfglm.networks.inputs import LevelOf
from tfglm.networks.optimizers import LARGE
from tfglm.networks.pipeline import Batch

SEED = "seed_generator_state"
"""Keras' name of the state of random numbers."""


class Pulled(NamedTuple):
    """The weights that a step reads: the parts of the vector, and of each large embedding the levels of the batch and their
    rows. It also has the position of each row's level among these levels."""

    vector: list[tf.Tensor]
    levels: list[tf.Tensor]
    rows: list[tf.Tensor]
    places: list[tf.Tensor]
    state: list[tf.Tensor]
    """What a step changes besides weights; see `SharedWeights.state`."""


class SharedWeights:
    """Made under the scope of the strategy. `network` has the first weights, and says what these are for; embeddings of `large`
    numbers or more are divided by their levels."""

    def __init__(self, network: keras.Model, servers: int, where: str, large: int = LARGE) -> None:
        layers = [layer for layer in network._flatten_layers() if isinstance(layer, keras.layers.Layer)]
        for variable in network.weights:
            if variable.constraint:
                raise UserError(
                    f"{where}.strategy: `{variable.path}` has a constraint, which `parameter_server` cannot apply, for the "
                    "servers keep the weights of all layers in one vector; remove it, or use another strategy"
                )
        self._large = {
            layer: place
            for layer in layers
            if (place := looked_up(layer, network)) is not None
            if math.prod(layer.embeddings.shape) >= large
        }
        # The network without the look-ups in large embeddings, whose outcome it is given.
        self._rest = keras.Model([*network.inputs, *(layer.output for layer in self._large)], network.output)
        self._small = self._rest.trainable_variables
        others = self._rest.non_trainable_variables
        self._floats = [variable for variable in others if tf.as_dtype(variable.dtype).is_floating]
        self._seeds = [variable for variable in others if not tf.as_dtype(variable.dtype).is_floating]
        # Read here, as a graph cannot read them.
        self._first_seeds = [np.asarray(variable) for variable in self._seeds]
        for variable in self._seeds:
            if variable.name != SEED:
                raise UserError(
                    f"{where}.strategy: `{variable.path}` is a state of whole numbers, which workers on `parameter_server` "
                    "cannot add up; use another strategy"
                )
        state = np.concatenate([*map(np.ravel, self._floats), np.zeros(0, np.float32)])
        self.state = [keras.Variable(state, trainable=False, name="state")] if len(state) else []
        """What steps change besides weights, such as the means of batch normalisation, in one vector; without any, nothing."""
        vector = np.concatenate([*map(np.ravel, self._small), np.zeros(0, np.float32)])
        self.vector = [keras.Variable(part, name=f"part_{k}") for k, part in enumerate(np.array_split(vector, servers))]
        self.tables = [
            [
                keras.Variable(part, name=f"{layer.name}_{k}")
                for k, part in enumerate(np.array_split(np.asarray(layer.embeddings), servers))
            ]
            for layer in self._large
        ]

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables: those of the vector, then those of each table."""
        return [*self.vector, *(part for table in self.tables for part in table)]

    def pull(self, batch: Batch) -> Pulled:
        """Read what the network needs for a batch."""
        found = [tf.unique(batch.groups[:, place]) for place in self._large.values()]
        levels, places = [unique.y for unique in found], [unique.idx for unique in found]
        rows = [
            # Finds a level in the parts where `np.array_split` has put it, and has each server look up its own.
            tf.nn.embedding_lookup([part.value for part in table], of_batch)
            for table, of_batch in zip(self.tables, levels, strict=True)
        ]
        state = [tf.identity(part.value) for part in self.state]
        return Pulled([tf.identity(part.value) for part in self.vector], levels, rows, places, state)

    def outcome(
        self, pulled: Pulled, batch: Batch, step: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """The linear predictor of a batch in training with what was pulled, the new state, and the penalties of layers.
        `step` takes the place of the states of random numbers, which each step would have to change for all workers."""
        weights = parts_of(tf.concat(pulled.vector, 0), self._small)
        others = dict(
            zip(map(id, self._floats), parts_of(tf.concat(pulled.state or [[]], 0), self._floats), strict=True)
        )
        embedded = [tf.gather(rows, places) for rows, places in zip(pulled.rows, pulled.places, strict=True)]
        others |= {id(seed): tf.constant(first) for seed, first in zip(self._seeds, self._first_seeds, strict=True)}
        variables = self._rest.non_trainable_variables

        def outcome() -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
            inputs, state = [batch.groups, batch.numbers, *embedded], [others[id(each)] for each in variables]
            return self._rest.stateless_call(weights, state, inputs, training=True, return_losses=True)

        # A step changes each seed by the same, whatever it is.
        after = dict(zip(map(id, variables), outcome()[1], strict=True)) if self._seeds else {}
        for seed in map(id, self._seeds):
            others[seed] += tf.cast(step, others[seed].dtype) * (after[seed] - others[seed])
        eta, new, penalties = outcome()
        floats = [tf.reshape(value, [-1]) for value in new if value.dtype.is_floating]
        return eta, [tf.concat(floats, 0)] if self.state else [], penalties

    def change_state(self, changes: Sequence[tf.Tensor]) -> None:
        """Add to the state; nothing without one."""
        for part, change in zip(self.state, changes, strict=True):
            part.value.assign_add(change, read_value=False)

    def gradients(
        self, levels: Sequence[tf.Tensor], of_vector: Sequence[tf.Tensor], of_rows: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """Return the gradients of `variables`, from the gradients of the parts of the vector and of these `levels` of each
        large embedding."""
        of_tables = []
        for table, of_table, of_levels in zip(self.tables, levels, of_rows, strict=True):
            first = 0
            for part in table:
                mine = (of_table >= first) & (of_table < first + part.shape[0])
                places = tf.boolean_mask(of_table, mine) - first
                shape = tf.constant(tuple(part.shape))  # in a graph TensorFlow makes no constant of a TensorShape
                of_tables.append(tf.IndexedSlices(tf.boolean_mask(of_levels, mine), places, shape))
                first += part.shape[0]
        return [*of_vector, *of_tables]

    def changed(self) -> tf.Tensor:
        """Something that can only be read after the changes that this step makes."""
        return tf.gather(self.vector[0].value, [0])

    def copy(self, averages: Sequence[np.ndarray] | None = None) -> None:
        """Set the weights of the network to what they are now, or to `averages` of the `variables`."""
        values_of = iter(averages or self.variables)
        vector = [next(values_of) for _ in self.vector]
        tables = [[next(values_of) for _ in table] for table in self.tables]
        joined = [np.concatenate([*map(np.asarray, parts), np.zeros(0)]) for parts in (vector, self.state)]
        for values, variables in zip(joined, (self._small, self._floats), strict=True):
            ends = np.cumsum([math.prod(variable.shape) for variable in variables])[:-1]
            for variable, of_variable in zip(variables, np.split(values, ends), strict=bool(variables)):
                variable.assign(of_variable.reshape(variable.shape))
        for layer, table in zip(self._large, tables, strict=True):
            layer.embeddings.assign(np.concatenate([np.asarray(part) for part in table]))


def parts_of(vector: tf.Tensor, variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """Cut a vector into tensors of the shapes of variables."""
    sizes = [math.prod(variable.shape) for variable in variables]
    parts = tf.split(vector, sizes) if sizes else []
    return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]


def looked_up(layer: keras.layers.Layer, network: keras.Model) -> int | None:
    """The grouping whose levels a layer embeds; None if it is no embedding, or one that a step needs as a whole."""
    plain = type(layer) is keras.layers.Embedding and layer in network.layers and len(layer._inbound_nodes) == 1
    if not plain or layer.embeddings_regularizer or layer.mask_zero or not layer.trainable or layer.lora_enabled:
        return None
    places = {id(each.output): each.place for each in network.layers if isinstance(each, LevelOf)}
    return places.get(id(layer.input))
