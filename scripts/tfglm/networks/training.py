"""The training of a network: one loop of TensorFlow under any strategy, with checkpoints to go on from.

1. Make the network, its weights at random from the seed, and the optimizer, under the strategy (`prepare`).
2. Go on from the last checkpoint of the same training, if there is one.
3. Each step takes a batch, which the strategy divides among its devices. The loss of the batch is the weighted mean of the losses
   of its rows; the gradients of the devices are added, and the optimizer changes the weights. With `auto_shard: file` a process
   reads its part of the batch itself, and the weights of the rows are added over all processes before the loss.
4. After each epoch look at the loss of the rows held out; with `patience` stop when it no longer falls, and take back the weights
   with the smallest.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm import digests
from tfglm.config import TrainingConfig
from tfglm.data.shards import BLOCK_ROWS
from tfglm.engine.blocks import AT_ONCE
from tfglm.errors import UserError
from tfglm.networks import predict
from tfglm.networks.counts import count
from tfglm.networks.layers import network
from tfglm.networks.optimizers import optimizer
from tfglm.networks.pipeline import Batch, Batches, batches_of_an_epoch
from tfglm.networks.rows import RESPONSE, WEIGHT, Units

POINTS_OF_AN_EPOCH = 20
"""Of the curve of the loss, which tells of the steps since the point before; reports may be far rarer."""

STEPS_OF_A_CALL = 100
"""Steps that TensorFlow takes without coming back to Python, at most."""

PARTS_OF_BATCHES = tf.data.Options()
"""Each of several processes reads all batches and takes its part of each: they are the same for any number of processes."""
PARTS_OF_BATCHES.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA

LINES = "lines.json"
"""What has been noted of the steps before a checkpoint."""


@dataclass(frozen=True)
class Chief:
    """What the process does that leads a training, beside its steps."""

    record: Callable[[int, dict[str, float]], None]
    """Is told the step and quantities by name, such as `train/loss`."""
    say: Callable[[str], None]
    """Is told lines for who waits."""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while it waits for other processes."""


@dataclass(frozen=True)
class Trained:
    """A network, and what fit.json says of how it was trained."""

    network: keras.Model
    summary: dict[str, Any]


def among_all(batch: Batch) -> Batch:
    """The part of a batch that one process has read, with the shares that its rows have in the whole batch."""
    weight = batch.numbers[:, WEIGHT]
    of_all = tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(weight))
    return batch._replace(share=weight / of_all)


def remove_generated() -> None:
    """Delete the Python that AutoGraph has written into TMPDIR for TensorFlow's own function that saves weights on parameter
    servers: a process that leaves at once, or is killed, would leave it there."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__:
            Path(module.__file__).unlink(missing_ok=True)


class Training:
    """The training of one network, from its first step or its last checkpoint to its end.

    Parameters
    ----------
    units, held_out
        The training rows, and those that decide when to stop.
    strategy
        TensorFlow's, made by `distribute.strategies`.
    folder
        For checkpoints; what is there is of the same training.
    chief
        What else is to be done; None in a process that takes the same steps as the chief and leaves the rest to it.
    """

    def __init__(
        self,
        units: Units,
        held_out: Units,
        settings: TrainingConfig,
        strategy: tf.distribute.Strategy,
        folder: Path,
        chief: Chief | None,
    ) -> None:
        self._settings, self._strategy, self._folder = settings, strategy, folder
        self._held_out, self._chief = held_out, chief
        self._waiting = chief.waiting if chief else nullcontext
        self._family, self._where = units.design.distribution, f"networks.{units.design.model}"
        self._divided = settings.readers > 1
        if settings.readers > len(units):
            raise UserError(
                f"{self._where}.auto_shard: `file` gives each of {settings.readers} workers other units of up to "
                f"{AT_ONCE * BLOCK_ROWS:,} training rows, of which the shards have {len(units)}; use `auto_shard: data`"
            )
        reader = strategy.cluster_resolver.task_id if self._divided else 0
        own = range(reader, len(units), settings.readers)
        self.counts = count(units, self._family, own, self._of_processes if self._divided else np.asarray)
        if settings.batch_size > self.counts.lines:
            raise UserError(
                f"{self._where}.batch_size: {settings.batch_size:,} is more than the {self.counts.lines:,} training rows"
            )
        of_processes = batches_of_an_epoch(self.counts.lines_of_units, settings)
        self._batches_of_all_rows = max(of_processes)
        self._batches = Batches(units, settings, own, max(of_processes) - of_processes[reader])
        self._set_length(settings.steps_per_epoch or self._batches_of_all_rows)
        self._design = units.design
        self._optimizer: keras.Optimizer
        self.network, weights = self._made()
        self._unit_of_loss = self.counts.scale.unit**2
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._costs = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        """The sum of the losses of the steps since `_reported`."""
        self._reported = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._noted_cost, self._noted_step = 0.0, 0
        """The step of the last point of the curve, and what `_costs` was there, less what reports have taken from it since."""
        self._best = tf.Variable(math.inf, dtype=tf.float64, trainable=False)
        self._best_epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
        state = tf.train.Checkpoint(
            weights=weights,
            optimizer=self._optimizer,
            step=self._step,
            costs=self._costs,
            reported=self._reported,
            best=self._best,
            best_epoch=self._best_epoch,
        )
        self._manager = tf.train.CheckpointManager(state, str(folder / "steps"), settings.checkpoints.keep)
        self._smallest = tf.train.CheckpointManager(
            tf.train.Checkpoint(network=self.network), str(folder / "smallest"), max_to_keep=1
        )
        self._lines: list[tuple[int, dict[str, float]]] = []
        self._saved, self._saved_step = time.monotonic(), 0

    def _set_length(self, steps_of_an_epoch: int) -> None:
        self.steps_of_an_epoch = steps_of_an_epoch
        steps = self._settings.epochs * steps_of_an_epoch
        self.steps = min(self._settings.last_step or steps, steps)

    def _made(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """The network, and where its weights are kept in training; the optimizer lies beside these."""
        with self._strategy.scope():
            network = self._new_network()
            self._optimizer = optimizer(self._settings.optimizer)
            self._optimizer.build(network.trainable_variables)
        return network, tf.train.Checkpoint(network=network)

    def _new_network(self) -> keras.Model:
        return network(self._design, self._settings, self.counts.scale, self._settings.seed, self._step_of_dropout)

    def _step_of_dropout(self) -> tf.Tensor | int:
        """The step that is being taken."""
        return self._optimizer.iterations.value

    def run(self) -> Trained:
        """Train to the end. Raises UserError if the loss becomes infinite."""
        self._resume()
        self._begin(int(self._step))
        stopped = False
        while int(self._step) < self.steps and not stopped:
            epoch = int(self._step) // self.steps_of_an_epoch
            self._take_rest_of(epoch)
            if int(self._step) % self.steps_of_an_epoch == 0:
                stopped = self._look(epoch + 1)
        chooses = self._settings.patience is not None
        network = self._readable_network()
        if chooses:
            self._smallest.restore_or_initialize()
        return Trained(network, self._summary() | {"weights_by_held_out_loss": chooses})

    def _begin(self, step: int) -> None:
        """Make the batches that come after so many steps."""
        first, taken = divmod(step, self._batches_of_all_rows)
        end = -(-self.steps // self._batches_of_all_rows)
        dataset = self._batches.epochs(first, end).skip(taken).with_options(PARTS_OF_BATCHES)
        if self._divided:
            self._rest: Iterator = iter(self._strategy.distribute_datasets_from_function(lambda _: dataset))
        # To hand a batch to a single device through the strategy took half a millisecond.
        elif self._strategy.num_replicas_in_sync > 1:
            self._rest = iter(self._strategy.experimental_distribute_dataset(dataset))
        else:
            self._rest = iter(dataset)

    def _take_rest_of(self, epoch: int) -> None:
        """Take the steps of an epoch that are left."""
        step = int(self._step)
        end = min((epoch + 1) * self.steps_of_an_epoch, self.steps)
        every, noted, began = self._settings.report_every, step, time.monotonic()
        while step < end:
            events = [
                end,
                (step // every + 1) * every,
                self._noted_step + self._steps_of_a_point,
                step + STEPS_OF_A_CALL,
            ]
            if self._settings.checkpoints.steps:
                events.append((step // self._settings.checkpoints.steps + 1) * self._settings.checkpoints.steps)
            count = int(min(events)) - step
            with self._waiting():
                self._take(self._rest, tf.constant(count))
            step += count
            self._follow_costs(step, end)
            if step % every == 0 or step == end:
                self._report(step, epoch, (time.monotonic() - began) / (step - noted))
                noted, began = step, time.monotonic()
            self._step.assign(step)
            # At the end of an epoch only after the look at the rows held out, whose loss belongs to it.
            if step < end and self._is_due(step):
                self._save()

    @property
    def _steps_of_a_point(self) -> int:
        return max(self.steps_of_an_epoch // POINTS_OF_AN_EPOCH, 1)

    def _follow_costs(self, step: int, end: int) -> None:
        """Refuse a loss that is not finite; note that of the last steps, if a point of its curve is due."""
        cost = float(self._costs)
        if not math.isfinite(cost):
            raise UserError(
                f"{self._where}: the loss is not finite after step {step:,}; choose a smaller "
                f"optimizer.learning_rate than {self._settings.optimizer.learning_rate:g}"
            )
        steps = step - self._noted_step
        if steps >= self._steps_of_a_point or step == end:
            self._note(step, {"train/recent loss": self._unit_of_loss * (cost - self._noted_cost) / steps})
            self._noted_cost, self._noted_step = cost, step

    def _report(self, step: int, epoch: int, seconds: float, more: Mapping[str, float] = MappingProxyType({})) -> None:
        """Note and say the mean loss of the steps since the last time, and the seconds that one of them took; note `more`."""
        cost = self._unit_of_loss * float(self._costs) / (step - int(self._reported))
        self._note(step, {"train/loss": cost, "train/milliseconds a batch": 1000 * seconds, **more})
        self._say(
            f"step {step:,}, epoch {epoch + 1} of {self._settings.epochs}, batch "
            f"{step - epoch * self.steps_of_an_epoch:,} of {self.steps_of_an_epoch:,}: cost {cost:.6g}, "
            f"{1000 * seconds:.2f} ms a batch"
        )
        self._noted_cost -= float(self._costs)
        self._costs.assign(0.0)
        self._reported.assign(step)

    @tf.function(autograph=False)
    def _take(self, batches: Any, count: tf.Tensor) -> None:
        """Take so many steps."""

        def take(step: tf.Tensor) -> tuple[tf.Tensor]:
            losses = self._strategy.run(self._step_of_replica, (next(batches),))
            self._costs.assign_add(tf.cast(self._strategy.reduce("SUM", losses, axis=None), tf.float64))
            return (step + 1,)

        tf.while_loop(lambda step: step < count, take, (0,), parallel_iterations=1)

    def _step_of_replica(self, batch: Batch) -> tf.Tensor:
        """A step with the part of a batch that one device has; its part of the loss, divided by the unit of the loss."""
        if self._divided:
            batch = among_all(batch)
        return self._gradient_step(self.network, batch)

    def _gradient_step(self, network: keras.Model, batch: Batch, dense: bool = False) -> tf.Tensor:
        """Have the optimizer change the weights of a network; the loss before. `dense` gradients have a row for each level of an
        embedding, not only for those in the batch."""
        variables = network.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._loss(network([batch.groups, batch.numbers], training=True), batch)
        gradients = tape.gradient(loss, variables)
        if dense:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _loss(self, eta: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The part that these rows have in the loss of the whole batch, divided by the unit of the loss."""
        losses = self._family.tensor_loss(tf, eta, batch.numbers[:, RESPONSE]) / self._unit_of_loss
        return tf.reduce_sum(batch.share * losses)

    def _look(self, epoch: int) -> bool:
        """Look at the rows held out after an epoch; whether to stop."""
        patience, stopped = self._settings.patience, False
        if len(self._held_out):
            self._weigh(epoch)
            stopped = patience is not None and epoch - int(self._best_epoch) >= patience
        if not stopped and self._is_due(int(self._step)):
            self._save()
        return stopped

    def _weigh(self, epoch: int) -> None:
        """Note how well the rows held out are predicted, and keep the weights if their loss was never smaller."""
        means = predict.means(self._held_out, self._readable_network()) if self._chief else {}
        loss = self._by_chief(means.get("loss", 0.0))
        self._note(int(self._step), {f"evaluate/{name}": value for name, value in means.items()})
        shown = ", ".join(f"{name} {value:.6g}" for name, value in means.items())
        self._say(f"epoch {epoch} of {self._settings.epochs}: {shown} on the rows held out")
        if loss < float(self._best):
            self._best.assign(loss)
            self._best_epoch.assign(epoch)
            if self._settings.patience and self._chief:
                self._smallest.save(epoch)

    def _readable_network(self) -> keras.Model:
        """The network, for rows that it is not trained with."""
        return self.network

    def _by_chief(self, number: float) -> float:
        """The chief's number, in all processes: whether to stop they have to decide alike."""
        if not isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return number
        return float(self._of_processes(np.array(number if self._chief else 0.0)))

    def _of_processes(self, values: np.ndarray) -> np.ndarray:
        """The sum of what each process gives."""
        with self._waiting():
            return self._total(tf.constant(values, tf.float64)).numpy()

    @tf.function(autograph=False)
    def _total(self, value: tf.Tensor) -> tf.Tensor:
        """The same in TensorFlow."""
        return self._strategy.reduce("SUM", self._strategy.run(tf.identity, (value,)), axis=None)

    def _note(self, step: int, values: dict[str, float]) -> None:
        self._lines.append((step, values))
        if self._chief:
            self._chief.record(step, values)

    def _say(self, line: str) -> None:
        if self._chief:
            self._chief.say(line)

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def _is_due(self, step: int) -> bool:
        """Whether to write a checkpoint now. One process does."""
        if not self._chief:
            return False
        checkpoints = self._settings.checkpoints
        by_steps = checkpoints.steps is not None and step // checkpoints.steps > self._saved_step // checkpoints.steps
        return by_steps or time.monotonic() - self._saved >= checkpoints.seconds

    def _save(self) -> None:
        """Write what has been noted so far, and then a checkpoint: a kill between the two leaves lines of later steps, which are
        passed over. A disk that takes neither ends no training."""
        self._saved, self._saved_step = time.monotonic(), int(self._step)
        try:
            digests.write_json(self._folder / LINES, {"lines": self._lines})
            self._manager.save(self._step)
        except (tf.errors.OpError, OSError) as error:
            self._say(f"warning: no checkpoint could be written in {self._folder}: {error}")
        remove_generated()

    def _resume(self) -> None:
        """Go on from the last checkpoint."""
        if not self._manager.restore_or_initialize():
            return
        step = self._saved_step = self._noted_step = int(self._step)
        self._noted_cost = float(self._costs)
        self._say(f"going on from step {step:,} of an earlier run")
        for of_step, values in digests.read_json(self._folder / LINES, delete=self._folder)["lines"]:
            if of_step <= step:
                self._note(of_step, values)

    def _summary(self) -> dict[str, Any]:
        """What fit.json says of the training."""
        step = int(self._step)
        held_out = {"smallest_held_out_loss": float(self._best), "epoch_of_smallest_loss": int(self._best_epoch)}
        return {
            "rows": self.counts.rows + self.counts.rows_of_separated_levels,
            "rows_of_separated_levels": self.counts.rows_of_separated_levels,
            "weight_sum": self.counts.weight_sum,
            "parameters": sum(math.prod(variable.shape) for variable in self.network.trainable_variables),
            "steps": step,
            "steps_of_an_epoch": self.steps_of_an_epoch,
            "epochs": step / self.steps_of_an_epoch,
            "loss": next((values["train/loss"] for _, values in reversed(self._lines) if "train/loss" in values), None),
            **(held_out if int(self._best_epoch) else {}),
            "start": self.counts.scale.start,
            "unit": self.counts.scale.unit,
        }
