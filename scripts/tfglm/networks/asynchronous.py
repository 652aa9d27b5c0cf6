"""The asynchronous training of a network on parameter servers: workers take steps independently of each other.

1. An epoch is cut into turns: some units of the shards, or a part of them, whose rows are mixed and cut into batches.
2. A worker that is free takes the next turn. For each of its batches it reads the weights from the ps, computes the gradient, and
   has the optimizer, whose state is on the ps too, change the weights there. So a gradient may be of weights that others have
   changed since: how many steps of others came between is its *staleness*.
3. The chief counts what comes back. A turn of a worker that dies is given to another one, so some steps may be taken twice.
4. After each epoch, and before each checkpoint, it waits until no turn is under way.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfglm.distribute import remote
from tfglm.distribute.servers import Servers
from tfglm.networks import served
from tfglm.networks.cutting import rows_at_once
from tfglm.networks.on_servers import TrainingOnServers
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import WEIGHT
from tfglm.networks.shared_adam import SharedAdam
from tfglm.networks.sources import Sources
from tfglm.networks.training import Assignment

TURNS_OF_A_WORKER = 4
"""Least number of turns of a worker in an epoch, so that no worker waits long for the last turns."""


class Turn(NamedTuple):
    """Consecutive batches that one worker takes."""

    units: tuple[int, ...]
    seed: int
    """The seed of the order of their rows."""
    part: int
    parts: int
    """The turn has the batches whose number has the remainder `part` modulo `parts`."""
    batches: int


def chunks(
    rows: Sequence[int], batch_size: int, at_once: int, workers: int, order: Sequence[int]
) -> list[tuple[tuple[int, ...], int]]:
    """Yield units in the given order, combined until they have as many rows as are mixed together (`at_once`), or make a
    few chunks for each worker; with the number of batches of each chunk. `rows` are the rows of each unit."""
    enough = max(1, min(at_once, sum(rows) // (TURNS_OF_A_WORKER * workers)))
    together: list[list[int]] = [[]]
    for unit in order:
        if sum(rows[each] for each in together[-1]) >= enough:
            together.append([])
        together[-1].append(unit)
    sizes = [sum(rows[unit] for unit in units) for units in together]
    return [(tuple(units), -(-size // batch_size)) for units, size in zip(together, sizes, strict=True) if size]


def count_at_once(optimizer: keras.Optimizer) -> None:
    """Have the ps add 1 to the number of steps. Keras reads it and writes it back, and of two workers that do so at the same time
    one would not be counted."""
    steps = optimizer.iterations
    steps.assign_add = steps.value.assign_add


class AsynchronousTraining(TrainingOnServers):
    """See `TrainingOnServers`."""

    def __init__(self, assigned: Assignment, servers: Servers, sources: Sources) -> None:
        super().__init__(assigned, servers, sources)
        self._reading = self._task(served.KIND, cache=self._settings.cache)
        self._staleness = 0.0

    def _set_length(self, steps_of_an_epoch: int) -> None:
        """Set how many batches the chunks have; their number is not that of the batches of `Training`."""
        order = np.arange(len(self.counts.lines_of_units))
        if self._settings.shuffle:
            order = np.random.default_rng(self._settings.seed).permutation(order)
        size = self._settings.batch_size
        self._rows_at_once = rows_at_once(size, self._widths[1], self._settings.shuffle_buffer)
        self._chunks = chunks(
            self.counts.lines_of_units, size, self._rows_at_once, self._servers.workers, order.tolist()
        )
        super()._set_length(sum(batches for _, batches in self._chunks))

    def _new_optimizer(self, adam: type[keras.Optimizer] | None = SharedAdam) -> keras.Optimizer:
        made = super()._new_optimizer(adam)
        count_at_once(made)
        return made

    def _begin(self, step: int) -> None:
        """The workers read what they need."""

    def _turns(self, epoch: int) -> list[Turn]:
        """The turns of an epoch, in the order in which workers receive them."""
        random = np.random.default_rng([self._settings.seed, epoch])
        parts = -(-TURNS_OF_A_WORKER * self._servers.workers // len(self._chunks))
        turns = []
        for units, batches in self._chunks:
            seed, of_chunk = int(random.integers(2**31)), min(parts, batches)
            turns += [
                Turn(units, seed, part, of_chunk, len(range(part, batches, of_chunk))) for part in range(of_chunk)
            ]
        return [turns[place] for place in random.permutation(len(turns))] if self._settings.shuffle else turns

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
            under_way.append((min(turn.batches, end - begin), self._give(turn, min(turn.batches, end - begin))))
            if len(under_way) > 2 * self._servers.workers:
                self._receive(epoch, end, *under_way.popleft())
            if self._is_due(place):
                while under_way:
                    self._receive(epoch, end, *under_way.popleft())
                if place < end:
                    self._save()
        while under_way:
            self._receive(epoch, end, *under_way.popleft())

    def _give(self, turn: Turn, batches: int) -> Any:
        words = np.array([turn.seed, turn.part, turn.parts, batches])
        return self._servers.schedule(self._take, (tf.constant(np.array(turn.units)), tf.constant(words)))

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
    def _take(self, units: tf.Tensor, turn: tf.Tensor) -> tf.Tensor:
        """The function that a worker runs: a turn (seed, part, parts, batches) over these units. It returns the sums of
        losses and of staleness, [2]."""
        seed, part, parts, batches = tf.unstack(turn)
        rows = tf.data.Dataset.from_tensor_slices(units).map(self._rows).rebatch(self._rows_at_once)
        cut = rows.enumerate().map(lambda place, of_rows: self._cut(seed, place, *of_rows)).unbatch()
        own = iter(cut.shard(parts, part).prefetch(self._settings.prefetch))

        def take(step: tf.Tensor, loss: tf.Tensor, staleness: tf.Tensor) -> tuple[tf.Tensor, ...]:
            of_step, of_others = self._strategy.run(self._step_and_staleness, (next(own),))
            return step + 1, loss + tf.cast(of_step, tf.float64), staleness + of_others

        start = (tf.zeros([], batches.dtype), tf.constant(0.0, tf.float64), tf.constant(0, tf.int64))
        _, loss, staleness = tf.while_loop(lambda step, *_: step < batches, take, start, parallel_iterations=1)
        return tf.stack([loss, tf.cast(staleness, tf.float64)])

    def _step_and_staleness(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Pull weights, and push the update that the optimizer makes of the gradient of a batch.

        Returns the loss, divided by its unit, and the number of steps that other workers finished in between.
        """
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

    def _rows(self, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The groups and the numbers of a unit's rows; see `served`."""
        kinds = (("<i8", (1,)),)
        vector = remote.operation_of(self._reading, {}, [kinds], tf.zeros(0, tf.float64), tf.reshape(number, [1]))
        groups, numbers = self._widths
        count = tf.size(vector) // (groups + numbers)
        of_groups = tf.reshape(vector[: count * groups], [-1, groups])
        return tf.cast(of_groups, tf.int32), tf.cast(tf.reshape(vector[count * groups :], [-1, numbers]), tf.float32)

    def _cut(self, seed: tf.Tensor, place: tf.Tensor, groups: tf.Tensor, numbers: tf.Tensor) -> Batch:
        """Cut rows into batches, in random order; the last one is filled up with copies of rows, of no weight."""
        size, count = self._settings.batch_size, tf.shape(groups)[0]
        order = tf.range(count)
        if self._settings.shuffle:
            order = tf.random.experimental.stateless_shuffle(order, tf.stack([seed, place]))
        places = tf.range(count + -count % size)
        filled = tf.gather(order, places % count)
        groups, numbers = (
            tf.reshape(tf.gather(values, filled), [-1, size, values.shape[1]]) for values in (groups, numbers)
        )
        weight = tf.where(tf.reshape(places < count, [-1, size]), numbers[:, :, WEIGHT], 0.0)
        share = weight / tf.reduce_sum(weight, axis=1, keepdims=True)
        return Batch(groups, numbers, share, tf.reshape(places % size, [-1, size]))
