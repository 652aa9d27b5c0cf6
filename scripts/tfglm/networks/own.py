"""Layers that a function of the user's builds with Keras, and the checks of what it returns."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfglm.config import LayersConfig
from tfglm.errors import UserError
from tfglm.networks import code
from tfglm.networks.inputs import NamedInputs

LARGEST_SEED = 2**32


def deep_part(inputs: NamedInputs, settings: LayersConfig, seed: int, where: str) -> Any:
    """Return the output of `build(inputs, settings)`, [rows, outputs].

    Layers without a seed of their own draw their first weights from `seed`. Raises UserError, which begins with `where`, for
    an error of the function, and for an output of another kind or shape.
    """
    place = str(settings.model)
    build, file = code.function(settings, "model", place, where), place.rpartition(":")[0]
    refused = f"{where}.model: `{place}` returns"
    with code.warnings_held_back():
        keras.utils.set_random_seed(seed % LARGEST_SEED)
        try:
            result = build(inputs, settings.model_copy(deep=True).settings)
        finally:
            # Otherwise the order of rows would depend on it too, and a seed of 0 is an error in the graph that orders them.
            tf.random.set_seed(None)
        if isinstance(result, keras.Model):
            with code.shown(f"{where}.model", file):
                result = _called(result, inputs, refused)
    if isinstance(result, list | tuple | dict):
        raise UserError(f"{refused} {len(result)} outputs; return one tensor [rows, {inputs.outputs}]")
    if not isinstance(result, keras.KerasTensor):
        raise UserError(
            f"{refused} {'nothing' if result is None else f'a {type(result).__name__}'}; return a Keras tensor "
            f"[rows, {inputs.outputs}] computed from the inputs, or a keras.Model of them"
        )
    if result.shape == (None,) and inputs.outputs == 1:
        return keras.ops.expand_dims(result, 1)
    if result.shape != (None, inputs.outputs):
        shape = ", ".join("rows" if size is None else str(size) for size in result.shape)
        why = "one number for each row" if inputs.outputs == 1 else f"one for each of the {inputs.outputs} classes"
        raise UserError(f"{refused} the shape [{shape}]; it has to be [rows, {inputs.outputs}], {why}")
    return result


def _called(model: keras.Model, inputs: NamedInputs, refused: str) -> Any:
    """The output of a model for the inputs of its names; a model with a `call` of its own gets all of them as a dict."""
    named = inputs.by_name
    if not isinstance(model, keras.src.models.functional.Functional):
        return model(named)
    # Keras appends this to the name of an input that is no `keras.Input`.
    names = [tensor.name.removesuffix("CLONE") for tensor in model.inputs]
    for name in names:
        if name not in named:
            raise UserError(f"{refused} a model with the input `{name}`; there are {', '.join(named)}")
    return model(keras.tree.pack_sequence_as(model._inputs_struct, [named[name] for name in names]))


def check(network: keras.Model, where: str, place: str) -> None:
    """Raise UserError, which begins with `where`, for a network without weights to train, or whose weights are not finite."""
    if not network.trainable_variables:
        raise UserError(f"{where}.model: `{place}` builds no layer with weights to train")
    for weight in network.weights:
        if not np.isfinite(np.asarray(weight, float)).all():
            raise UserError(f"{where}.model: `{place}`: the first weights of `{weight.path}` are not finite")
