"""The synchronous training of a network on parameter servers: the workers take each step together.

1. The chief makes the batches of `Training`, and cuts each batch into parts, as many as there are workers without the
backup workers. 2. A free worker takes the next part, reads the weights from the ps, and returns the gradient of its part of
the loss. 3. When at most as many parts are missing as there are backup workers, these compute the missing parts as well;
the first result counts. So a slow worker delays nobody within an epoch, and each row counts once. Backup workers are an
idea of Chen et al. (2016, arXiv:1604.00981), who leave out the rows of late gradients. 4. The chief adds the gradients in
the order of the parts, and the optimizer changes the weights on the ps. The steps are those of one device, whichever worker
was fast. With batch normalisation, whose means are of the whole batch, a batch has one part.

With `auto_shard: file` the chief sends no rows: each worker makes its part of each batch from rows of its own, and the chief
divides the sums by the weight of all parts. A worker takes the part with its own number. If it is asked twice in a step, another
worker was late or has died: the missing part is then asked for by its number, of any worker.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.distribute.servers import Servers
from tfglm.networks.layers import mixed_over_rows, with_state
from tfglm.networks.on_servers import TrainingOnServers
from tfglm.networks.pipeline import Batch
from tfglm.networks.sources import Sources
from tfglm.networks.training import Assignment


class SynchronousTraining(TrainingOnServers):
    """See `TrainingOnServers`; the workers read rows if each has rows of its own."""

    def __init__(self, assigned: Assignment, servers: Servers, sources: Sources) -> None:
        settings = assigned.settings
        self._parts = servers.workers - settings.backup_workers
        self._weight_of_part: tf.Tensor | None = None
        """The weight of the rows of a part, if their shares in the batch are not known yet."""
        super().__init__(assigned, servers, sources)
        self._let_workers_read(settings.readers, ahead=True)

    def _part_of_penalty(self, penalties: Sequence[tf.Tensor]) -> tf.Tensor:
        whole = super()._part_of_penalty(penalties)
        return whole / self._parts if self._weight_of_part is None else whole * self._weight_of_part

    def _build(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        built = super()._build()
        if mixed := [*mixed_over_rows(built[0]), *(with_state(built[0]) if self._settings.model else [])]:
            # The workers cannot add up means in the middle of a step.
            self._parts = 1
            self._say(
                f"`{mixed[0]}` needs the whole batch, so one worker at a time takes a step, and the others stand by"
            )
        return built

    def _begin(self, step: int) -> None:
        if self._settings.readers > 1:
            self._rest = iter(())  # the workers read
        else:
            super()._begin(step)

    def _take(self, batches: Any, count: tf.Tensor) -> None:
        first = int(self._step)
        for step in range(first, first + int(count)):
            if self._settings.readers > 1:
                self._take_step(self._gradients_of_own_rows(step))
            else:
                parts = zip(*(np.array_split(each, self._parts) for each in next(batches)), strict=True)
                calls = [(Batch(*map(tf.constant, part)), tf.constant(step)) for part in parts]
                self._take_step(self._servers.fetch_all(self._gradient, calls, self._settings.backup_workers))

    def _gradients_of_own_rows(self, step: int) -> list[tuple[Any, ...]]:
        """What `_gradient` returns for each part of a step, whose rows the workers read."""
        found: dict[int, tuple[Any, ...]] = {}
        missing = [-1] * self._parts
        place = tf.constant([step, *divmod(step, self._batches_of_all_rows)], tf.int64)
        while missing:
            calls = [(place, tf.constant(part, tf.int64)) for part in missing]
            for part, *result in self._servers.fetch_all(self._gradient_of_own_rows, calls, spare=0):
                found[int(part)] = tuple(result)
            missing = [part for part in range(self._parts) if part not in found]
        weight = np.float32(sum(float(of_part[0]) for of_part in found.values()))
        divided = [tf.nest.map_structure(lambda values: values / weight, found[part][1:4]) for part in sorted(found)]
        return [
            (loss, vector, found[part][4], rows, found[part][5])
            for part, (loss, vector, rows) in zip(sorted(found), divided, strict=True)
        ]

    def _take_step(self, results: Sequence[tuple[Any, ...]]) -> None:
        """A step with the results of the parts of a batch."""
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
    def _gradient(self, part: Batch, step: tf.Tensor) -> tuple[Any, ...]:
        """The function that a worker runs. It returns the loss of a part of a batch, its gradients by the parts of the
        vector of weights and by the rows of large embeddings, and the levels of these rows."""
        return self._strategy.run(self._gradient_of_replica, (part, step))

    @tf.function(autograph=False, reduce_retracing=True)
    def _gradient_of_own_rows(self, place: tf.Tensor, wanted: tf.Tensor) -> tuple[Any, ...]:
        """The same for rows that the worker reads: those of the part with its own number, or with that which is `wanted`. `place`
        has the step, the epoch, and the number of the batch in the epoch. It returns the part and the weight of its rows too,
        by which the loss and the gradients are still to be divided."""
        own = tf.distribute.coordinator.experimental_get_current_worker_index()
        part = tf.where(wanted < 0, own, wanted)
        batch = self._read(tf.stack([part, place[1], place[2]]))
        batch = batch._replace(place=tf.cast(part, tf.int32) * self._size + batch.place)
        self._weight_of_part = tf.reduce_sum(batch.share)
        loss, of_vector, levels, rows, changes = self._strategy.run(
            self._gradient_of_replica, (batch, tf.cast(place[0], tf.int32))
        )
        return part, self._weight_of_part, loss, of_vector, rows, levels, changes

    def _gradient_of_replica(self, part: Batch, step: tf.Tensor) -> tuple[Any, ...]:
        pulled = self._weights.pull(part)
        loss, vector, rows, state = self._gradients(pulled, part, step)
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
