"""The training of a network on a TPU. XLA compiles a step, so that all shapes in it have to be known before."""

import keras
import tensorflow as tf

from tfglm.errors import UserError
from tfglm.networks.pipeline import Batch
from tfglm.networks.training import Training


class TrainingOnTPU(Training):
    """See `Training`. Its network is a copy of the network on the TPU, for rows other than training rows."""

    def _build(self) -> tuple[keras.Model, tf.train.Checkpoint]:
        """Return a copy of the network outside the TPU, and the network on the TPU. Raises UserError if the cores of the
        TPU cannot have equal parts of a batch."""
        cores, rows = self._strategy.num_replicas_in_sync, self._settings.batch_size
        if rows % cores:
            raise UserError(
                f"{self._where}.batch_size: the {cores} cores of the TPU share each batch, and "
                f"{rows:,} is no multiple of {cores}"
            )
        self._on_tpu, weights = super()._build()
        return self._new_network(), weights

    def _step_of_replica(self, batch: Batch) -> tf.Tensor:
        # Gradients for all levels of an embedding: the number of levels in a batch is not known in advance.
        return self._gradient_step(self._on_tpu, batch, dense=True)

    def _readable_network(self) -> keras.Model:
        of_cores = self._strategy.experimental_local_results
        self.network.set_weights([of_cores(weight)[0].numpy() for weight in self._weights()])
        return self.network

    @tf.function(autograph=False)
    def _weights(self) -> list[tf.Tensor]:
        """Each weight, by core; they are the same on all. To read it elsewhere than on the TPU failed with TensorFlow 2.16
        (tensorflow/tensorflow issue 74926)."""
        return self._strategy.run(lambda: [tf.identity(weight) for weight in self._on_tpu.weights])
