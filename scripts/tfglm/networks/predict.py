"""The predictions of a network, a shard at a time, in the form that metrics and predictions expect."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.networks.losses import Metrics
from tfglm.networks.rows import RESPONSE, WEIGHT, Units
from tfglm.results.predict import Scored


def score(units: Units, network: keras.Model) -> Iterator[Scored]:
    """The rows of each shard in order: `eta`, `response`, `flag`, `weight`, `frequency` and `outside`, each [rows]."""
    forward, origin = _forward(network), units.design.likelihood.origin
    for file, shard, numbers in units.shards:
        parts: list[dict[str, np.ndarray]] = []
        for number in numbers:
            rows, flag, outside, frequency = units.read(number)
            eta, others = forward(rows.groups, rows.numbers).numpy().astype(float), rows.numbers.astype(float)
            of_rows = {"response": others[:, RESPONSE] + origin, "weight": others[:, WEIGHT]}
            parts.append({"eta": eta + origin, "flag": flag, "outside": outside, "frequency": frequency, **of_rows})
        yield Scored(file, shard, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def means(units: Units, network: keras.Model, others: Metrics | None = None) -> dict[str, float]:
    """Weighted means over the rows that take part: the `loss`, of a response with classes the `accuracy`, and `others`."""
    family = units.design.distribution
    measures: Metrics = {"loss": family.loss}
    if units.design.classes:
        measures["accuracy"] = lambda eta, response: eta.argmax(axis=1) == response
    measures |= others or {}
    sums, weight_sum = dict.fromkeys(measures, 0.0), 0.0
    for scored in score(units, network):
        used = scored.rows["weight"] > 0
        eta, response, weight = (scored.rows[name][used] for name in ("eta", "response", "weight"))
        for name, measure in measures.items():
            sums[name] += float(weight @ measure(eta, response))
        weight_sum += float(weight.sum())
    return {name: total / weight_sum if weight_sum else float("nan") for name, total in sums.items()}


@lru_cache(maxsize=1)
def _forward(network: keras.Model) -> Any:
    """The network as a function of groups and numbers, traced once for any number of rows."""
    specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in network.inputs]
    return tf.function(
        lambda groups, numbers: network([groups, numbers], training=False), autograph=False, input_signature=specs
    )
