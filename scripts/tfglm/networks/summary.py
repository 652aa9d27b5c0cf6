"""The layers of a network for fit.json, which pages show as a table and a picture."""

from collections.abc import Iterator
from typing import Any

import keras

from tfglm.networks.inputs import LevelOf


def summary_of(network: keras.Model) -> list[dict[str, Any]]:
    """Each layer that computes something: its name, kind, shape of output and number of weights, as in `model.summary()`, and
    the layers that it reads."""
    return [
        {
            "name": layer.name,
            **named_after(layer),
            "kind": type(layer).__name__,
            "from": [*dict.fromkeys(layers_before(layer))],
            "output": ["rows" if size is None else size for size in layer.output.shape],
            "parameters": layer.count_params(),
        }
        for layer in network.layers
        if is_shown(layer)
    ]


def named_after(layer: Any) -> dict[str, str]:
    """The term of the formula whose levels a layer reads or embeds, if any."""
    if isinstance(layer, LevelOf):
        return {"of": layer.output.name}
    if isinstance(layer, keras.layers.Embedding) and isinstance(layer.input._keras_history.operation, LevelOf):
        return {"of": layer.input.name}
    return {}


def is_shown(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Layer) and isinstance(getattr(layer, "output", None), keras.KerasTensor)


def layers_before(layer: Any) -> Iterator[str]:
    """The names of the layers that a layer reads, also through operations that are no layers."""
    for node in layer._inbound_nodes:
        for before in node.parent_nodes:
            if is_shown(before.operation):
                yield before.operation.name
            else:
                yield from layers_before(before.operation)
