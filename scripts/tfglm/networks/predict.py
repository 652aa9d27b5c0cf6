"""What a network predicts of rows, a shard at a time, in the form in which metrics and predictions take it."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.networks.rows import RESPONSE, WEIGHT, Units
from tfglm.results.predict import Scored


def score(units: Units, network: keras.Model) -> Iterator[Scored]:
    """The rows of each shard in order: `eta`, `response`, `flag`, `weight` and `outside`, each [rows]."""
    forward = _forward(network)
    for file, shard, numbers in units.shards:
        parts: list[dict[str, np.ndarray]] = []
        for number in numbers:
            rows, flag, outside, _ = units.read(number)
            eta, others = forward(rows.groups, rows.numbers).numpy().astype(float), rows.numbers.astype(float)
            of_rows = {"response": others[:, RESPONSE], "weight": others[:, WEIGHT]}
            parts.append({"eta": eta, "flag": flag, "outside": outside, **of_rows})
        yield Scored(file, shard, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def means(units: Units, network: keras.Model) -> dict[str, float]:
    """Weighted means over the rows that take part: the `loss`, and of a response with classes the `accuracy`."""
    family, classes = units.design.distribution, units.design.classes
    sums, weight_sum = dict.fromkeys(["loss", "accuracy"] if classes else ["loss"], 0.0), 0.0
    for scored in score(units, network):
        used = scored.rows["weight"] > 0
        eta, response, weight = (scored.rows[name][used] for name in ("eta", "response", "weight"))
        sums["loss"] += float(weight @ family.loss(eta, response))
        if classes:
            sums["accuracy"] += float(weight @ (eta.argmax(axis=1) == response))
        weight_sum += float(weight.sum())
    return {name: total / weight_sum if weight_sum else float("nan") for name, total in sums.items()}


@lru_cache(maxsize=1)
def _forward(network: keras.Model) -> Any:
    """The network as a function of groups and numbers, traced once for any number of rows."""
    specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in network.inputs]
    return tf.function(
        lambda groups, numbers: network([groups, numbers], training=False), autograph=False, input_signature=specs
    )
