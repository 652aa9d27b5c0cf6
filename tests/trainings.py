"""Trainings of networks in this process."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.families import FAMILIES
from tfglm.networks.rows import RESPONSE, Units
from tfglm.networks.training import Assignment, ChiefHooks, Training


def rows_of(design: Design, file: IngestedFile) -> list[Units]:
    """The training rows and the rows held out."""
    return [Units(Workload(design, [file], split)) for split in ("train", "evaluate")]


def training_of(
    rows: Sequence[Units],
    settings: TrainingConfig,
    folder: Path,
    record: Callable = lambda *of_step: None,
    say: Callable = lambda line: None,
    kind: type[Training] = Training,
    strategy: tf.distribute.Strategy | None = None,
) -> Training:
    """A training with these rows and the rows held out; it notes what it reports by `record` and `say`."""
    assigned = Assignment(*rows, settings, folder, ChiefHooks(record, say))
    return kind(assigned, strategy or tf.distribute.OneDeviceStrategy("/cpu:0"))


def slopes(
    network: keras.Model, batch: Sequence[np.ndarray], family: str, step: float
) -> Iterator[tuple[float, float]]:
    """The derivative of the mean loss of a batch (groups and numbers) along a random direction of each weight: by TensorFlow, and
    by the difference of the losses a `step` away on both sides."""
    y, of_family = batch[1][:, RESPONSE], FAMILIES[family]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(of_family.tensor_loss(tf, network(batch), tf.constant(y)))
    gradients = tape.gradient(loss, network.trainable_variables)
    random = np.random.default_rng(5)
    for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
        direction = np.sign(random.normal(size=variable.shape)).astype(np.float32)
        before, sides = np.asarray(variable), []
        for length in (step, -step):
            variable.assign(before + length * direction)
            sides.append(np.mean(of_family.loss(np.asarray(network(batch), float), y.astype(float))))
        variable.assign(before)
        yield np.sum(np.asarray(tf.convert_to_tensor(gradient)) * direction), (sides[0] - sides[1]) / (2 * step)
