"""The synchronous training of a network on parameter servers: the workers take each step together.

1. The chief makes the batches of `Training`, and cuts each batch into parts, as many as there are workers without the
backup workers. 2. A free worker takes the next part, reads the weights from the ps, and returns the gradient of its part of
the loss. 3. When at most as many parts are missing as there are backup workers, these compute the missing parts as well;
the first result counts. So a slow worker delays nobody within an epoch, and each row counts once. Backup workers are an
idea of Chen et al. (2016, arXiv:1604.00981), who leave out the rows of late gradients. 4. The chief adds the gradients in
the order of the parts, and the optimizer changes the weights on the ps. The steps are those of one device, whichever worker
was fast. With batch normalisation, whose means are of the whole batch, a batch has one part.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.distribute.servers import Servers
from tfglm.networks.layers import mixed_over_rows
from tfglm.networks.on_servers import TrainingOnServers
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import Units
from tfglm.networks.training import ChiefHooks


class SynchronousTraining(TrainingOnServers):
    """See `Training`."""

    def __init__(
        self,
        units: Units,
        held_out: Units,
        settings: TrainingConfig,
        servers: Servers,
        folder: Path,
        chief: ChiefHooks,
    ) -> None:
        self._parts = servers.workers - settings.backup_workers
        self._part_of_all: tf.Tensor | int = 0
        super().__init__(units, held_out, settings, servers, folder, chief)

    def _part_of_penalty(self, penalties: Sequence[tf.Tensor]) -> tf.Tensor:
        return super()._part_of_penalty(penalties) / self._parts

    def _build(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        built = super()._build()
        if mixed := mixed_over_rows(built[0]):
            # The workers cannot add up means in the middle of a step.
            self._parts = 1
            self._say(
                f"`{mixed[0]}` needs the whole batch, so one worker at a time takes a step, and the others stand by"
            )
        return built

    def _step_of_dropout(self) -> tf.Tensor | int:
        """Counts parts of steps, as each part leaves out other units."""
        return self._part_of_all

    def _take(self, batches: Any, count: tf.Tensor) -> None:
        first = int(self._step)
        for step in range(first, first + int(count)):
            parts = zip(*(np.array_split(each, self._parts) for each in next(batches)), strict=True)
            self._take_step(step, [Batch(*map(tf.constant, part)) for part in parts])

    def _take_step(self, step: int, parts: Sequence[Batch]) -> None:
        """A step with the parts of a batch."""
        calls = [(part, tf.constant(step * self._parts + place)) for place, part in enumerate(parts)]
        results = self._servers.fetch_all(self._gradient, calls, self._settings.backup_workers)
        losses, vectors, levels, rows, changes_of_state = zip(*results, strict=True)
        self._costs.assign_add(math.fsum(map(float, losses)))
        summed = [
            rows_by_level(np.concatenate(of_parts), np.concatenate(changes))
            for of_parts, changes in zip(zip(*levels, strict=True), zip(*rows, strict=True), strict=True)
        ]
        with self._waiting():
            self._change(
                [tf.constant(sum(of_parts)) for of_parts in zip(*vectors, strict=True)],
                [tf.constant(of_table) for of_table, _ in summed],
                [tf.constant(of_table) for _, of_table in summed],
                [tf.constant(sum(of_parts) / self._parts) for of_parts in zip(*changes_of_state, strict=True)],
            )

    @tf.function(autograph=False, reduce_retracing=True)
    def _gradient(self, part: Batch, part_of_all: tf.Tensor) -> tuple[Any, ...]:
        """The function that a worker runs. It returns the loss of a part of a batch, its gradients by the parts of the
        vector of weights and by the rows of large embeddings, and the levels of these rows."""
        self._part_of_all = part_of_all
        return self._strategy.run(self._gradient_of_replica, (part,))

    def _gradient_of_replica(self, part: Batch) -> tuple[Any, ...]:
        pulled = self._weights.pull(part)
        loss, vector, rows, state = self._gradients(pulled, part, self._part_of_all)
        changes = [new - old for new, old in zip(state, pulled.state, strict=True)]
        return loss, vector, pulled.levels, [tf.convert_to_tensor(of_table) for of_table in rows], changes

    @tf.function(autograph=False, reduce_retracing=True)
    def _change(
        self, vector: list[tf.Tensor], levels: list[tf.Tensor], rows: list[tf.Tensor], state: list[tf.Tensor]
    ) -> None:
        """Have the optimizer change the weights, and add to the state."""
        self._weights.change_state(state)
        self._strategy.run(self._change_of_replica, (vector, levels, rows))

    def _change_of_replica(self, vector: list[tf.Tensor], levels: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        # Before they go to the ps, Keras has the strategy sum gradients over replicas, which needs to know where they are.
        with tf.device("/cpu:0"):
            gradients = self._weights.gradients(levels, list(map(tf.identity, vector)), rows)
            self._optimizer.apply_gradients(zip(gradients, self._weights.variables, strict=True))


def rows_by_level(levels: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct `levels`, and for each the sum of its `rows` [levels, dimensions], in their order."""
    distinct, places = np.unique(levels, return_inverse=True)
    summed = np.zeros((len(distinct), rows.shape[1]), rows.dtype)
    np.add.at(summed, places, rows)
    return distinct, summed
