"""The common part of `asynchronous` and `synchronous`: training a network whose weights are on parameter servers."""

import json

import keras
import tensorflow as tf

from tfglm.distribute import remote
from tfglm.distribute.servers import Servers
from tfglm.distribute.tasks import Document, Task
from tfglm.networks import served
from tfglm.networks.cutting import rows_at_once
from tfglm.networks.optimizers import optimizer
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import WEIGHT
from tfglm.networks.shared_weights import Pulled, SharedWeights
from tfglm.networks.sources import Sources
from tfglm.networks.training import Assignment, Trained, Training


class TrainingOnServers(Training):
    """See `Training`; `servers` keep the weights and the optimizer's state, and their workers read rows of the `sources`."""

    def __init__(self, assigned: Assignment, servers: Servers, sources: Sources) -> None:
        self._servers, self._sources = servers, sources
        self._widths = assigned.units.widths
        with servers.readable():
            super().__init__(assigned, servers.strategy)

    def _let_workers_read(self, readers: int, ahead: bool) -> None:
        """Cut the rows into the batches of so many readers, which workers read (`cutting.OwnBatches`)."""
        settings = self._settings
        self._size = settings.batch_size // settings.readers
        batches = {
            "lines": self.counts.lines_of_units,
            "readers": readers,
            "size": self._size,
            "at_once": rows_at_once(self._size, self._widths[1], settings.shuffle_buffer),
            "seed": settings.seed if settings.shuffle else None,
            "cache": settings.cache,
            "ahead": ahead,
        }
        design = Document.of(self._sources.design.read_text(encoding="utf-8"))
        self._reading = Task(served.BATCHES, design, json.dumps(self._sources.words | {"batches": batches}))

    def _read(self, place: tf.Tensor) -> Batch:
        """The batch at a place (reader, epoch, number), which this worker reads. Its shares are the weights of its rows."""
        kinds = (("<i8", (3,)),)
        vector = remote.operation_of(self._reading, {}, [kinds], tf.zeros(0, tf.float64), place)
        groups, numbers = self._widths
        of_groups = tf.reshape(vector[: self._size * groups], [self._size, groups])
        of_numbers = tf.cast(tf.reshape(vector[self._size * groups :], [self._size, numbers]), tf.float32)
        return Batch(tf.cast(of_groups, tf.int32), of_numbers, of_numbers[:, WEIGHT], tf.range(self._size))

    def run(self, until: int | None = None) -> Trained:
        """See `Training.run`. Raises UserError too if a ps is lost."""
        with self._servers.readable():
            return super().run(until)

    def _build(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """A copy of the network in this process, and its weights on the servers."""
        network = self._new_network()
        with self._strategy.scope():
            self._weights = SharedWeights(network, len(self._servers.ps), self._where)
            self._optimizer = self._new_optimizer()
            self._optimizer.build(self._weights.variables)
        variables = [*self._weights.variables, *self._weights.state]
        return network, tf.train.Checkpoint(variables=[variable.value for variable in variables])

    def _new_optimizer(self, adam: type[keras.Optimizer] | None = None) -> keras.Optimizer:
        # All embeddings that are tables of their own are large, but the part of one server may be small.
        return optimizer(self._settings.optimizer, self.steps, adam, large=0)

    def _gradients(
        self, pulled: Pulled, batch: Batch, step: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """The loss of a batch, its gradients by the parts of the vector and by the rows of large embeddings, and the new
        state. `step` chooses what layers draw at random."""
        with tf.GradientTape() as tape:
            tape.watch([pulled.vector, pulled.rows])
            with self._drawing(batch):
                eta, state, penalties = self._weights.outcome(pulled, batch, step)
            loss = self._loss(eta, batch)
            with_penalty = loss + self._part_of_penalty(penalties) if penalties else loss
        vector, rows = tape.gradient(with_penalty, [pulled.vector, pulled.rows])
        return loss, vector, rows, state

    def _readable_network(self) -> keras.Model:
        with self._waiting():
            self._weights.copy(self._optimizer.averages() if self._settings.optimizer.use_ema else None)
        return self.network
