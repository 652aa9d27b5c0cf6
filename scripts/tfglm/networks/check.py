"""Builds a network with code of the user's once before training, so that its mistakes cost no earlier result."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfglm import digests
from tfglm.config import TrainingConfig
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.networks import code, own
from tfglm.networks.callbacks import Callbacks
from tfglm.networks.counts import TrainingCounts
from tfglm.networks.layers import OutputScale, network
from tfglm.networks.losses import TrainingLoss, metrics_of
from tfglm.networks.shared_weights import SharedWeights

ROWS = 4
"""Rows of zeros that the network computes for."""


def check(design: Design, settings: TrainingConfig, path: Path) -> None:
    """Build a network, compute its gradient for some rows of zeros, and write how many parameters it has. Raises UserError
    for an error of the user's code, for what the strategy cannot run, and for weights that get no gradient."""
    where = f"networks.{design.model}"
    classes = len(design.classes.levels) if design.classes else 0
    scale = OutputScale([0.0] * classes, 1.0) if classes else OutputScale(0.0, 1.0)
    counts = TrainingCounts([], 0, 0, 1.0, scale, [1 / (classes or 2)] * (classes or 2))
    made, loss = network(design, settings, scale, settings.seed), TrainingLoss(design, settings, counts)
    if settings.model:
        own.check(made, where, settings.model)
    rows = [tf.zeros([ROWS, *each.shape[1:]], each.dtype) for each in made.inputs]
    response = tf.zeros([ROWS])
    label, file = f"{where}.model", str(settings.model).rpartition(":")[0]
    with tf.GradientTape() as tape:
        with code.shown(label, file):
            eta = made(rows, training=True)
        total = tf.reduce_sum(loss(eta, response))
    gradients = tape.gradient(total, made.trainable_variables)
    lost = [each.path for each, gradient in zip(made.trainable_variables, gradients, strict=True) if gradient is None]
    if lost:
        named = ", ".join(f"`{name}`" for name in lost)
        raise UserError(
            f"{where}.{'loss' if settings.loss else 'model'}: the loss does not depend on the weights {named}; use their layers, "
            "or make them `trainable=False`"
        )
    for name, metric in metrics_of(design, settings, loss).items():
        values = metric(np.asarray(eta), np.asarray(response))
        if values.shape != (ROWS,):
            raise UserError(
                f"{where}.metrics: `{name}` returns the shape {list(values.shape)} for {ROWS} rows; return a number for each row"
            )
    Callbacks(settings, where)
    if settings.servers[1]:
        SharedWeights(made, 1, where)
    digests.write_json(path, {"model": design.model, "parameters": made.count_params()})
