"""The common part of `asynchronous` and `synchronous`: training a network whose weights are on parameter servers."""

import json
from typing import Any

import keras
import tensorflow as tf

from tfglm.distribute.servers import Servers
from tfglm.distribute.tasks import Document, Task
from tfglm.networks.optimizers import optimizer
from tfglm.networks.pipeline import Batch
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

    def _task(self, kind: str, **settings: Any) -> Task:
        """The task of a worker that reads rows."""
        design = Document.of(self._sources.design.read_text(encoding="utf-8"))
        return Task(kind, design, json.dumps(self._sources.words | settings))

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
