"""The training of a network on a TPU. XLA compiles a step, so that all shapes in it have to be known before."""

from pathlib import Path

import keras
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.errors import UserError
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import Units
from tfglm.networks.training import Chief, Training


class TrainingOnTPU(Training):
    """See `Training`. Its network is a copy of the one on the TPU, for rows that it is not trained with. Raises UserError too
    if the cores of the TPU cannot have equal parts of a batch."""

    def __init__(
        self,
        units: Units,
        held_out: Units,
        settings: TrainingConfig,
        strategy: tf.distribute.Strategy,
        folder: Path,
        chief: Chief,
    ) -> None:
        cores = strategy.num_replicas_in_sync
        if settings.batch_size % cores:
            raise UserError(
                f"networks.{units.design.model}.batch_size: the {cores} cores of the TPU share each batch, and "
                f"{settings.batch_size:,} is no multiple of {cores}"
            )
        super().__init__(units, held_out, settings, strategy, folder, chief)

    def _made(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """A copy of the network outside the TPU, and the one on it."""
        self._on_tpu, weights = super()._made()
        return self._new_network(), weights

    def _step_of_replica(self, batch: Batch) -> tf.Tensor:
        variables = self._on_tpu.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._loss(self._on_tpu([batch.groups, batch.numbers], training=True), batch)
        # Those of embeddings for all levels: how many are in a batch is not known before.
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _readable_network(self) -> keras.Model:
        of_cores = self._strategy.experimental_local_results
        self.network.set_weights([of_cores(weight)[0].numpy() for weight in self._weights()])
        return self.network

    @tf.function
    def _weights(self) -> list[tf.Tensor]:
        """Each weight, by core; they are the same on all. To read it elsewhere than on the TPU failed with TensorFlow 2.16
        (tensorflow/tensorflow issue 74926)."""
        return self._strategy.run(lambda: [tf.identity(weight) for weight in self._on_tpu.weights])
