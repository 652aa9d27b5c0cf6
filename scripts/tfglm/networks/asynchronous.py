"""The asynchronous training of a network on parameter servers: workers take steps independently of each other.

1. An epoch is cut into turns: batches of some units of the shards, whose rows are mixed.
2. A worker that is free takes the next turn. For each of its batches it reads the weights from the ps, computes the gradient, and
   has the optimizer, whose state is on the ps too, change the weights there. So a gradient may be of weights that others have
   changed since: how many steps of others came between is its *staleness*.
3. The chief counts what comes back. A turn of a worker that dies is given to another one, so some steps may be taken twice.
4. After each epoch, and before each checkpoint, it waits until no turn is under way.
"""

import time
from collections import deque
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfglm.distribute.servers import Servers
from tfglm.networks.cutting import batches_of_readers, rows_at_once
from tfglm.networks.on_servers import TrainingOnServers
from tfglm.networks.optimizers import SharedAdam
from tfglm.networks.pipeline import Batch
from tfglm.networks.sources import Sources
from tfglm.networks.training import Assignment

TURNS_OF_A_WORKER = 4
"""Least number of turns of a worker in an epoch, so that no worker waits long for the last turns."""


class Turn(NamedTuple):
    """Consecutive batches that one worker takes."""

    reader: int
    """The reader that they are of; see `cutting.OwnBatches`."""
    epoch: int
    first: int
    batches: int


def count_at_once(optimizer: keras.Optimizer) -> None:
    """Have the ps add 1 to the number of steps. Keras reads it and writes it back, and of two workers that do so at the same time
    one would not be counted."""
    steps = optimizer.iterations
    steps.assign_add = steps.value.assign_add


class AsynchronousTraining(TrainingOnServers):
    """See `TrainingOnServers`."""

    def __init__(self, assigned: Assignment, servers: Servers, sources: Sources) -> None:
        super().__init__(assigned, servers, sources)
        self._staleness = 0.0

    def _set_length(self, steps_of_an_epoch: int) -> None:
        """Cut the rows into those of readers: as many as are mixed together, or a few readers for each worker."""
        lines, size = self.counts.lines_of_units, self._settings.batch_size
        mixed = rows_at_once(size, self._widths[1], self._settings.shuffle_buffer)
        enough = max(1, min(mixed, sum(lines) // (TURNS_OF_A_WORKER * self._servers.workers)))
        readers = min(len(lines), -(-sum(lines) // enough))
        self._batches_of_readers = batches_of_readers(lines, readers, size)
        self._let_workers_read(readers, ahead=False)
        super()._set_length(sum(self._batches_of_readers))

    def _new_optimizer(self, adam: type[keras.Optimizer] | None = SharedAdam) -> keras.Optimizer:
        made = super()._new_optimizer(adam)
        count_at_once(made)
        return made

    def _begin(self, step: int) -> None:
        """The workers read what they need."""

    def _turns(self, epoch: int) -> list[Turn]:
        """The turns of an epoch, in the order in which workers receive them."""
        parts = -(-TURNS_OF_A_WORKER * self._servers.workers // len(self._batches_of_readers))
        turns = [
            Turn(reader, epoch, int(places[0]), len(places))
            for reader, batches in enumerate(self._batches_of_readers)
            for places in np.array_split(np.arange(batches), min(parts, batches) or 1)
            if len(places)
        ]
        if not self._settings.shuffle:
            return turns
        return [turns[place] for place in np.random.default_rng([self._settings.seed, epoch]).permutation(len(turns))]

    def _take_rest_of(self, epoch: int) -> None:
        """Give out the turns of an epoch that are left."""
        step = int(self._step)
        end = min((epoch + 1) * self.steps_of_an_epoch, self.steps)
        place = epoch * self.steps_of_an_epoch
        under_way: deque[tuple[int, Any]] = deque()
        self._began, self._noted = time.monotonic(), step
        for turn in self._turns(epoch):
            begin, place = place, place + turn.batches
            if begin < step or begin >= end:
                continue  # taken by the run that this run continues, or after the last step
            turn = turn._replace(batches=min(turn.batches, end - begin))
            under_way.append((turn.batches, self._servers.schedule(self._take, (tf.constant(turn, tf.int64),))))
            if len(under_way) > 2 * self._servers.workers:
                self._receive(epoch, end, *under_way.popleft())
            if self._is_due(place):
                while under_way:
                    self._receive(epoch, end, *under_way.popleft())
                if place < end:
                    self._save()
        while under_way:
            self._receive(epoch, end, *under_way.popleft())

    def _receive(self, epoch: int, end: int, batches: int, result: Any) -> None:
        """Wait for the result of a turn; note and say how far training is."""
        loss, staleness = self._servers.fetch(result).tolist()
        step = int(self._step) + batches
        self._step.assign(step)
        self._costs.assign_add(loss)
        self._follow_costs(step, end)
        self._staleness += staleness
        if step - int(self._reported) >= self._settings.report_every or step == end:
            steps = step - self._noted
            self._report(
                step, epoch, (time.monotonic() - self._began) / steps, {"train/staleness": self._staleness / steps}
            )
            self._staleness = 0.0
            self._began, self._noted = time.monotonic(), step

    @tf.function(autograph=False)
    def _take(self, turn: tf.Tensor) -> tf.Tensor:
        """The function that a worker runs: a turn. It returns the sums of losses and of staleness, [2]."""
        reader, epoch, first, batches = tf.unstack(turn)

        def read(number: tf.Tensor) -> Batch:
            batch = self._read(tf.stack([reader, epoch, number]))
            return batch._replace(share=batch.share / tf.reduce_sum(batch.share))

        own = iter(tf.data.Dataset.range(first, first + batches).map(read).prefetch(self._settings.prefetch))

        def take(step: tf.Tensor, loss: tf.Tensor, staleness: tf.Tensor) -> tuple[tf.Tensor, ...]:
            of_step, of_others = self._strategy.run(self._step_and_staleness, (next(own),))
            return step + 1, loss + tf.cast(of_step, tf.float64), staleness + of_others

        start = (tf.zeros([], batches.dtype), tf.constant(0.0, tf.float64), tf.constant(0, tf.int64))
        _, loss, staleness = tf.while_loop(lambda step, *_: step < batches, take, start, parallel_iterations=1)
        return tf.stack([loss, tf.cast(staleness, tf.float64)])

    def _step_and_staleness(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Pull weights, and push the update that the optimizer makes of the gradient of a batch. Returns the loss, divided
        by its unit, and the number of steps that other workers finished in between."""
        steps = self._optimizer.iterations.value
        before = steps.read_value()
        with tf.control_dependencies([before]):
            pulled = self._weights.pull(batch)
        loss, vector, rows, state = self._gradients(pulled, batch, before)
        self._weights.change_state([new - old for new, old in zip(state, pulled.state, strict=True)])
        gradients = self._weights.gradients(pulled.levels, vector, rows)
        self._optimizer.apply_gradients(zip(gradients, self._weights.variables, strict=True))
        with tf.control_dependencies([self._weights.changed()]):
            return loss, steps.read_value() - before - 1
