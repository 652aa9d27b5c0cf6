"""The training of a network: one loop of TensorFlow under any strategy, with checkpoints to continue from.

1. Make the network, with random weights from the seed, and the optimizer, under the strategy (`prepare`). 2. Continue from
the last checkpoint of the same training, if there is one. 3. Each step takes a batch, which the strategy divides among its
devices. The loss of the batch is the weighted mean of the losses of its rows. The gradients of the devices are added, and
the optimizer changes the weights. With `auto_shard: file` a process reads its part of the batch itself, and the weights of
the rows are added over all processes before the loss. 4. After each epoch compute the loss of the held-out rows. With
`patience` stop when it no longer falls, and restore the weights with the smallest loss.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tfglm.data.shards import AT_ONCE, BLOCK_ROWS
from tfglm.errors import UserError
from tfglm.networks import drawing, own, predict
from tfglm.networks.callbacks import Callbacks
from tfglm.networks.counts import count
from tfglm.networks.cutting import batches_of_readers
from tfglm.networks.layers import mixed_over_rows, network, with_state
from tfglm.networks.losses import TrainingLoss, metrics_of
from tfglm.networks.optimizers import SummedFirst, optimizer
from tfglm.networks.pipeline import Batch, Batches
from tfglm.networks.rows import RESPONSE, WEIGHT, Units

sys.dont_write_bytecode = True  # of the code that AutoGraph writes into TMPDIR, a folder would stay there

POINTS_OF_AN_EPOCH = 20
"""Points of the loss curve in an epoch. Each point covers the steps since the previous point; reports may be far rarer."""

STEPS_OF_A_CALL = 100
"""Steps that TensorFlow takes without coming back to Python, at most."""

PARTS_OF_BATCHES = tf.data.Options()
"""Each of several processes reads all batches and takes its part of each: they are the same for any number of processes."""
PARTS_OF_BATCHES.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA

EPOCHS_OF_A_PLATEAU = 10
"""Epochs without a smaller loss, as in Keras."""

LINES = "lines.json"
"""The file with the values recorded for the steps before a checkpoint, and whether the training had stopped there."""


@dataclass(frozen=True)
class ChiefHooks:
    """The work of the process that leads a training, besides its steps."""

    record: Callable[[int, dict[str, float]], None]
    """Receives the step and quantities by name, such as `train/loss`."""
    say: Callable[[str], None]
    """Receives lines for people who wait."""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while it waits for other processes."""
    look: Callable[[int, keras.Model], None] = lambda step, network: None
    """Receives the step and the network after an epoch, if the settings ask for histograms of its weights."""


@dataclass(frozen=True)
class Assignment:
    """The task of a process that trains; each kind of training takes the same."""

    units: Units
    """The training rows."""
    held_out: Units
    """The rows that decide when to stop."""
    settings: TrainingConfig
    folder: Path
    """The folder of checkpoints; existing checkpoints belong to the same training."""
    chief: ChiefHooks | None = None
    """The other work of the chief; None in a process that only takes the same steps as the chief."""


@dataclass(frozen=True)
class Trained:
    """A network, and what fit.json says of how it was trained."""

    network: keras.Model
    summary: dict[str, Any]


def averaged(make: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
    """Create a variable; what training changes besides weights is averaged over the devices."""
    if options.get("trainable") is False and options.get("aggregation") in (None, tf.VariableAggregation.NONE):
        floating = options.get("dtype") is None or tf.as_dtype(options["dtype"]).is_floating
        aggregation = tf.VariableAggregation
        options["aggregation"] = aggregation.MEAN if floating else aggregation.ONLY_FIRST_REPLICA
    return make(**options)


def state_of(network: keras.Model) -> dict[str, Any]:
    """The variables that training changes besides weights, such as the means of batch normalisation, for a checkpoint."""
    state = [variable.value for variable in network.non_trainable_variables]
    return {"state": state} if state else {}


class Training:
    """The training of one network, from its first step or its last checkpoint to its end. `strategy` is TensorFlow's, from
    `distribute.strategies`."""

    def __init__(self, assigned: Assignment, strategy: tf.distribute.Strategy) -> None:
        units, settings, folder, chief = assigned.units, assigned.settings, assigned.folder, assigned.chief
        self._settings, self._strategy, self._folder = settings, strategy, folder
        self._held_out, self._chief = assigned.held_out, chief
        self._waiting = chief.waiting if chief else nullcontext
        self._family, self._where = units.design.distribution, f"networks.{units.design.model}"
        self._divided = settings.readers > 1 and settings.peers > 0
        if settings.readers > len(units):
            raise UserError(
                f"{self._where}.auto_shard: `file` gives each of {settings.readers} workers its own units of up to "
                f"{AT_ONCE * BLOCK_ROWS:,} training rows, and the shards have only {len(units)} units; use "
                "`auto_shard: data`"
            )
        reader = strategy.cluster_resolver.task_id if self._divided else 0
        own = range(reader, len(units), settings.readers if self._divided else 1)
        self.counts = count(units, self._family, own, self._sum_over_processes if self._divided else np.asarray)
        if settings.batch_size > self.counts.lines:
            raise UserError(
                f"{self._where}.batch_size: {settings.batch_size:,} is more than the {self.counts.lines:,} training rows"
            )
        size = settings.batch_size // settings.readers
        of_processes = batches_of_readers(self.counts.lines_of_units, settings.readers, size)
        self._batches_of_all_rows = max(of_processes)
        self._batches = Batches(units, settings, own, max(of_processes) - of_processes[reader])
        self._set_length(settings.steps_per_epoch or self._batches_of_all_rows)
        self._design = units.design
        self._optimizer: SummedFirst
        self._losses = TrainingLoss(units.design, settings, self.counts)
        self._unit_of_loss = self._losses.unit
        self._metrics = metrics_of(units.design, settings, self._losses)
        self._callbacks = Callbacks(settings, self._where) if chief else None
        self.network, weights = self._build()
        self.remarks = self._remarks_on(with_state(self.network)) if settings.model else []
        self._predicting = self._new_network() if settings.optimizer.use_ema else self.network
        """The network that predicts: with the averages of weights, if these are asked for."""
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._costs = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        """The sum of the losses of the steps since `_reported`."""
        self._reported = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._noted_cost, self._noted_step = 0.0, 0
        """The step of the last point of the curve, and what `_costs` was there, less what reports have taken from it since."""
        self._best = tf.Variable(math.inf, dtype=tf.float64, trainable=False)
        self._best_epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._lowered = tf.Variable(0, dtype=tf.int64, trainable=False)
        """The epoch after which the learning rate was last lowered."""
        state = tf.train.Checkpoint(
            weights=weights,
            optimizer=self._optimizer,
            step=self._step,
            costs=self._costs,
            reported=self._reported,
            best=self._best,
            best_epoch=self._best_epoch,
            lowered=self._lowered,
        )
        self._manager = tf.train.CheckpointManager(state, str(folder / "steps"), settings.checkpoints.keep)
        self._smallest = tf.train.CheckpointManager(
            tf.train.Checkpoint(network=self._predicting, **state_of(self._predicting)),
            str(folder / "smallest"),
            max_to_keep=1,
        )
        self._lines: list[tuple[int, dict[str, float]]] = []
        self._stopped = False
        """Whether `patience` or a callback has ended it."""
        self._saved, self._saved_step = time.monotonic(), 0

    def _set_length(self, steps_of_an_epoch: int) -> None:
        self.steps_of_an_epoch = steps_of_an_epoch
        steps = self._settings.epochs * steps_of_an_epoch
        self.steps = min(self._settings.last_step or steps, steps)

    def _build(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """Build the network, and the checkpoint of its weights in training; the optimizer is saved beside them."""
        with self._strategy.scope(), tf.variable_creator_scope(averaged):
            network = self._new_network()
            self._optimizer = self._new_optimizer()
            self._optimizer.build(network.trainable_variables)
        return network, tf.train.Checkpoint(network=network, **state_of(network))

    def _new_optimizer(self) -> SummedFirst:
        return optimizer(self._settings.optimizer, self.steps)

    def _new_network(self) -> keras.Model:
        made = network(self._design, self._settings, self.counts.scale, self._settings.seed)
        if self._settings.model:
            own.check(made, self._where, self._settings.model)
        if self._settings.readers > 1 and mixed_over_rows(made):
            raise UserError(
                f"{self._where}.auto_shard: with `file` a process whose rows end early takes steps without rows, of which "
                f"`{mixed_over_rows(made)[0]}` has no mean; use `auto_shard: data`"
            )
        return made

    def _drawing(self, batch: Batch) -> AbstractContextManager[None]:
        """Entered while layers draw random numbers for a part of a batch."""
        if batch.place.shape[0] == self._settings.batch_size:
            return nullcontext()
        return drawing.draw_by_row(batch.place, self._settings.batch_size)

    def _remarks_on(self, state: Sequence[str]) -> list[str]:
        """What fit.json says of a network with such a `state` of its own."""
        devices = self._strategy.num_replicas_in_sync
        return [
            f"each of {devices} devices computes `{path}` from its part of a batch, so with another number of devices the "
            "network learns other weights; `strategy: one_device` uses the whole batch"
            for path in (state if devices > 1 else [])
        ]

    def run(self, until: int | None = None) -> Trained:
        """Train to the end, or until so many epochs are over, with a checkpoint to continue from. Raises UserError if the loss
        becomes infinite."""
        self._resume()
        self._begin(int(self._step))
        last = self.steps if until is None else min(until * self.steps_of_an_epoch, self.steps)
        self._stopped = self._call("on_train_begin") or self._stopped
        while int(self._step) < last and not self._stopped:
            epoch = int(self._step) // self.steps_of_an_epoch
            stopped = self._call("on_epoch_begin", epoch)
            self._take_rest_of(epoch)
            if int(self._step) % self.steps_of_an_epoch == 0:
                stopped = self._look(epoch + 1) or stopped
            self._stopped = stopped
        self._call("on_train_end")
        if until is not None:
            self._save()
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
        """Refuse a loss that is not finite; record the mean loss of the last steps, if a point of its curve is due."""
        cost = float(self._costs)
        if not math.isfinite(cost):
            own_code = self._settings.model or self._settings.loss
            raise UserError(
                f"{self._where}: the loss is not finite after step {step:,}; choose a smaller "
                f"optimizer.learning_rate than {self._settings.optimizer.first_rate:g}"
                + (f", or look in `{own_code}` for what is not finite, such as the logarithm of 0" if own_code else "")
            )
        steps = step - self._noted_step
        if steps >= self._steps_of_a_point or step == end:
            self._note(step, {"train/recent loss": self._unit_of_loss * (cost - self._noted_cost) / steps})
            self._noted_cost, self._noted_step = cost, step

    def _report(self, step: int, epoch: int, seconds: float, more: Mapping[str, float] = MappingProxyType({})) -> None:
        """Record and report the mean loss of the steps since the last report, and the seconds per step; also record `more`."""
        cost = self._unit_of_loss * float(self._costs) / (step - int(self._reported))
        rate = (
            {"train/learning rate": float(self._optimizer.learning_rate)} if self._settings.optimizer.schedule else {}
        )
        self._note(step, {"train/loss": cost, "train/milliseconds a batch": 1000 * seconds, **rate, **more})
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
        """Take a step with the part of a batch on one device. Returns its part of the loss, divided by the unit of the
        loss."""
        if self._divided:  # the shares of the rows that this process has read are of the whole batch
            weight = batch.numbers[:, WEIGHT]
            of_all = tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(weight))
            batch = batch._replace(share=weight / of_all)
        return self._gradient_step(self.network, batch)

    def _gradient_step(self, network: keras.Model, batch: Batch, dense: bool = False) -> tf.Tensor:
        """Let the optimizer change the weights of a network, and return the loss before the change. `dense` gradients have
        a row for each level of an embedding, not only for the levels in the batch."""
        variables = network.trainable_variables
        with tf.GradientTape() as tape:
            with self._drawing(batch):
                eta = network([batch.groups, batch.numbers], training=True)
            loss = self._loss(eta, batch)
            with_penalty = loss + self._part_of_penalty(network.losses) if network.losses else loss
        gradients = tape.gradient(with_penalty, variables)
        if dense:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _loss(self, eta: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The part that these rows have in the loss of the whole batch, divided by the unit of the loss."""
        return tf.reduce_sum(batch.share * self._losses(eta, batch.numbers[:, RESPONSE]))

    def _part_of_penalty(self, penalties: Sequence[tf.Tensor]) -> tf.Tensor:
        """The part of one device in the penalties of layers on their weights or outputs, for outputs without unit."""
        return tf.add_n(list(penalties)) / self._strategy.num_replicas_in_sync

    def _look(self, epoch: int) -> bool:
        """Look at the rows held out after an epoch; whether to stop."""
        patience, stopped = self._settings.patience, False
        means: dict[str, float] = {}
        if len(self._held_out):
            means = self._weigh(epoch)
            stopped = patience is not None and epoch - int(self._best_epoch) >= patience
            self._follow_plateau(epoch)
        if self._settings.histograms:
            # Peers join, as they do in callbacks: to read weights on servers takes all.
            network = self._readable_network()
            if self._chief:
                self._chief.look(int(self._step), network)
        learnt = next((values["train/loss"] for _, values in reversed(self._lines) if "train/loss" in values), math.nan)
        logs = {"loss": learnt} | {f"val_{name}": value for name, value in means.items()}
        stopped = self._call("on_epoch_end", epoch - 1, logs=logs) or stopped
        if not stopped and self._is_due(int(self._step)):
            self._save()
        return stopped

    def _call(self, hook: str, *arguments: int, logs: Mapping[str, float] | None = None) -> bool:
        """Call a hook of the user's callbacks. Return whether they stop the training."""
        if not self._settings.callbacks:
            return False
        stopped = (
            self._callbacks.call(hook, self._readable_network(), *arguments, logs=logs) if self._callbacks else False
        )
        return bool(self._by_chief(float(stopped)))

    def _follow_plateau(self, epoch: int) -> None:
        """Lower the learning rate if the loss on the rows held out has not fallen for some epochs."""
        schedule = self._settings.optimizer.schedule
        if not schedule or schedule.schedule != "plateau":
            return
        if epoch - max(int(self._best_epoch), int(self._lowered)) < (schedule.patience or EPOCHS_OF_A_PLATEAU):
            return
        rate = float(self._optimizer.learning_rate)
        lower = max(rate * (schedule.factor or 0.1), schedule.min_learning_rate or 0.0)
        self._lowered.assign(epoch)
        if lower < rate:
            self._optimizer.learning_rate.assign(lower)
            self._say(f"epoch {epoch} of {self._settings.epochs}: the learning rate is {lower:g} from here")

    def _weigh(self, epoch: int) -> dict[str, float]:
        """Note how well the rows held out are predicted, and keep the weights if their loss was never smaller."""
        means = predict.means(self._held_out, self._readable_network(), self._metrics) if self._chief else {}
        loss = self._by_chief(means.get("loss", 0.0))
        self._note(int(self._step), {f"evaluate/{name}": value for name, value in means.items()})
        shown = ", ".join(f"{name} {value:.6g}" for name, value in means.items())
        self._say(f"epoch {epoch} of {self._settings.epochs}: {shown} on the rows held out")
        if loss < float(self._best):
            self._best.assign(loss)
            self._best_epoch.assign(epoch)
            if self._settings.patience and self._chief:
                self._smallest.save(epoch)
        return means

    def _readable_network(self) -> keras.Model:
        """The network, for rows that it is not trained with."""
        if self._settings.optimizer.use_ema:
            averages = zip(self._predicting.trainable_variables, self._optimizer.averages(), strict=True)
            others = zip(self._predicting.non_trainable_variables, self.network.non_trainable_variables, strict=True)
            for variable, value in [*averages, *others]:
                variable.assign(np.asarray(value))
        return self._predicting

    def _by_chief(self, number: float) -> float:
        """The chief's number, in all processes: whether to stop they have to decide alike."""
        if not isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return number
        return float(self._sum_over_processes(np.array(number if self._chief else 0.0)))

    def _sum_over_processes(self, values: np.ndarray) -> np.ndarray:
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
            digests.write_json(self._folder / LINES, {"lines": self._lines, "stopped": self._stopped})
            self._manager.save(self._step)
        except (tf.errors.OpError, UserError, OSError) as error:
            self._say(f"warning: no checkpoint could be written in {self._folder}: {error}")
        # AutoGraph wrote code into TMPDIR, by which weights on parameter servers are saved: a killed process would leave it.
        for name, module in list(sys.modules.items()):
            if name.startswith("__autograph_generated_file") and module.__file__:
                Path(module.__file__).unlink(missing_ok=True)

    def _resume(self) -> None:
        """Go on from the last checkpoint."""
        if not self._manager.restore_or_initialize():
            return
        step = self._saved_step = self._noted_step = int(self._step)
        self._noted_cost = float(self._costs)
        self._say(f"continuing from step {step:,} of an earlier run")
        written = digests.read_json(self._folder / LINES, delete=self._folder)
        self._stopped = written.get("stopped", False)
        for of_step, values in written["lines"]:
            if of_step <= step:
                self._note(of_step, values)

    def _summary(self) -> dict[str, Any]:
        """Return the entries of fit.json about the training."""
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
