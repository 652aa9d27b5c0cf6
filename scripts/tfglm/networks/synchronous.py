"""The synchronous training of a network on parameter servers: the workers take each step together.

1. The chief makes the batches of `Training`, and cuts each into parts, as many as there are workers without the backup ones.
2. A worker that is free takes the next part, reads the weights from the ps, and returns the gradient of its part of the loss.
3. If no more parts are missing than there are backup workers, these compute the missing ones as well; the first result counts.
   So a slow worker keeps nobody waiting within an epoch, and each row counts once. Chen et al. (2016, arXiv:1604.00981), whose
   idea backup workers are, leave out the rows of a gradient that comes late.
4. The chief adds the gradients in the order of the parts, and the optimizer changes the weights on the ps. The steps are those of
   one device, whichever worker was fast.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.distribute.servers import Servers
from tfglm.networks.on_servers import TrainingOnServers
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import Units
from tfglm.networks.training import Chief


class SynchronousTraining(TrainingOnServers):
    """See `Training`."""

    def __init__(
        self,
        units: Units,
        held_out: Units,
        settings: TrainingConfig,
        servers: Servers,
        folder: Path,
        chief: Chief,
    ) -> None:
        self._parts = servers.workers - settings.backup_workers
        self._part_of_all: tf.Tensor | int = 0
        super().__init__(units, held_out, settings, servers, folder, chief)

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
        losses, vectors, levels, rows = zip(*results, strict=True)
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
            )

    @tf.function(autograph=False, reduce_retracing=True)
    def _gradient(self, part: Batch, part_of_all: tf.Tensor) -> tuple[Any, ...]:
        """What a worker runs: the loss of a part of a batch; its gradients by the parts of the vector of weights, and by the rows
        of large embeddings; and the levels that these belong to."""
        self._part_of_all = part_of_all
        return self._strategy.run(self._gradient_of_replica, (part,))

    def _gradient_of_replica(self, part: Batch) -> tuple[Any, ...]:
        pulled = self._weights.pull(part)
        with tf.GradientTape() as tape:
            tape.watch([pulled.vector, pulled.rows])
            loss = self._loss(self._weights.eta(pulled, part), part)
        vector, rows = tape.gradient(loss, [pulled.vector, pulled.rows])
        return loss, vector, pulled.levels, [tf.convert_to_tensor(of_table) for of_table in rows]

    @tf.function(autograph=False, reduce_retracing=True)
    def _change(self, vector: list[tf.Tensor], levels: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        """Have the optimizer change the weights."""
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
