"""The weights of a network on parameter servers: few variables, as each that a step reads or changes costs it a message.

All weights but those of large embeddings lie one after the other in one vector, of which each server keeps a part. A large
embedding is divided among the servers by its levels, and a step reads and changes only the levels of its batch.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfglm.networks.embeddings import grouping
from tfglm.networks.pipeline import Batch

LARGE = 2**16
"""Numbers of an embedding from which on a step does not read all of it."""


class Pulled(NamedTuple):
    """What a step reads: the parts of the vector, and of each large embedding the levels of the batch, their rows, and for each
    row of the batch the place of its level among them."""

    vector: list[tf.Tensor]
    levels: list[tf.Tensor]
    rows: list[tf.Tensor]
    places: list[tf.Tensor]


class SharedWeights:
    """Made under the scope of the strategy. `network` has the first weights, and says what these are for; embeddings of `large`
    numbers or more are divided by their levels."""

    def __init__(self, network: keras.Model, servers: int, large: int = LARGE) -> None:
        embeddings = [layer for layer in network.layers if isinstance(layer, keras.layers.Embedding)]
        self._large = [layer for layer in embeddings if math.prod(layer.embeddings.shape) >= large]
        # The network without the look-ups in large embeddings, whose outcome it is given.
        self._rest = keras.Model([*network.inputs, *(layer.output for layer in self._large)], network.output)
        self._small = self._rest.trainable_variables
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
        """All of them: those of the vector, then those of each table."""
        return [*self.vector, *(part for table in self.tables for part in table)]

    def pull(self, batch: Batch) -> Pulled:
        """Read what the network needs for a batch."""
        found = [tf.unique(batch.groups[:, grouping(layer.name)]) for layer in self._large]
        levels, places = [unique.y for unique in found], [unique.idx for unique in found]
        rows = [
            # Finds a level in the parts where `np.array_split` has put it, and has each server look up its own.
            tf.nn.embedding_lookup([part.value for part in table], of_batch)
            for table, of_batch in zip(self.tables, levels, strict=True)
        ]
        return Pulled([tf.identity(part.value) for part in self.vector], levels, rows, places)

    def eta(self, pulled: Pulled, batch: Batch) -> tf.Tensor:
        """The linear predictor of a batch in training, with what was pulled."""
        sizes = [math.prod(variable.shape) for variable in self._small]
        parts = tf.split(tf.concat(pulled.vector, 0), sizes) if sizes else []
        weights = [tf.reshape(part, variable.shape) for part, variable in zip(parts, self._small, strict=True)]
        embedded = [tf.gather(rows, places) for rows, places in zip(pulled.rows, pulled.places, strict=True)]
        eta, _ = self._rest.stateless_call(weights, [], [batch.groups, batch.numbers, *embedded], training=True)
        return eta

    def gradients(
        self, levels: Sequence[tf.Tensor], of_vector: Sequence[tf.Tensor], of_rows: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """Those of `variables`, given those of the parts of the vector, and of these `levels` of each large embedding."""
        of_tables = []
        for table, of_table, of_levels in zip(self.tables, levels, of_rows, strict=True):
            first = 0
            for part in table:
                mine = (of_table >= first) & (of_table < first + part.shape[0])
                places = tf.boolean_mask(of_table, mine) - first
                of_tables.append(tf.IndexedSlices(tf.boolean_mask(of_levels, mine), places, tf.constant(part.shape)))
                first += part.shape[0]
        return [*of_vector, *of_tables]

    def changed(self) -> tf.Tensor:
        """Something that can only be read after the changes that this step makes."""
        return tf.gather(self.vector[0].value, [0])

    def copy(self) -> None:
        """Set the weights of the network to what they are now."""
        vector = np.concatenate([np.asarray(part) for part in self.vector])
        ends = np.cumsum([math.prod(variable.shape) for variable in self._small])[:-1]
        for variable, values in zip(self._small, np.split(vector, ends), strict=True):
            variable.assign(values.reshape(variable.shape))
        for layer, table in zip(self._large, self.tables, strict=True):
            layer.embeddings.assign(np.concatenate([np.asarray(part) for part in table]))
