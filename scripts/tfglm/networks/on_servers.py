"""What `asynchronous` and `synchronous` share: the training of a network whose weights lie on parameter servers."""

from pathlib import Path

import keras
import tensorflow as tf

from tfglm.config import OptimizerConfig, TrainingConfig
from tfglm.distribute.servers import Servers
from tfglm.networks.optimizers import optimizer
from tfglm.networks.rows import Units
from tfglm.networks.shared_weights import SharedWeights
from tfglm.networks.training import Chief, Trained, Training


class TrainingOnServers(Training):
    """See `Training`; `servers` keep the weights and the optimizer's state."""

    def __init__(
        self,
        units: Units,
        held_out: Units,
        settings: TrainingConfig,
        servers: Servers,
        folder: Path,
        chief: Chief,
    ) -> None:
        self._servers = servers
        with servers.readable():
            super().__init__(units, held_out, settings, servers.strategy, folder, chief)

    def run(self) -> Trained:
        """See `Training.run`. Raises UserError too if a ps is lost."""
        with self._servers.readable():
            return super().run()

    def _made(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """A copy of the network in this process, and its weights on the servers."""
        network = self._new_network()
        with self._strategy.scope():
            self._weights = SharedWeights(network, len(self._servers.ps))
            self._optimizer = self._new_optimizer(self._settings.optimizer)
            self._optimizer.build(self._weights.variables)
        return network, tf.train.Checkpoint(variables=[variable.value for variable in self._weights.variables])

    def _new_optimizer(self, settings: OptimizerConfig) -> keras.Optimizer:
        return optimizer(settings)

    def _readable_network(self) -> keras.Model:
        with self._waiting():
            self._weights.copy()
        return self.network
