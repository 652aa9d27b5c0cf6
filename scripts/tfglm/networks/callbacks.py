"""Callbacks of the user's: Keras' hooks at the start and the end of epochs and of the training."""

from collections.abc import Mapping

import keras

from tfglm.config import TrainingConfig
from tfglm.errors import UserError
from tfglm.networks import code

HOOKS = ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")
"""What is called."""


class Callbacks:
    """The callbacks that the config names. They run in the process that leads the training. Raises UserError, which begins
    with `where`, for an error of the user's code, and for a hook that is never called."""

    def __init__(self, settings: TrainingConfig, where: str) -> None:
        self._label = f"{where}.callbacks"
        self._made: list[tuple[str, keras.callbacks.Callback]] = []
        for place in settings.callbacks:
            made = code.function(settings, "callbacks", place, where)()
            if not isinstance(made, keras.callbacks.Callback):
                raise UserError(
                    f"{self._label}: `{place}` makes a {type(made).__name__}, and no keras.callbacks.Callback"
                )
            for name in dir(keras.callbacks.Callback):
                is_own = getattr(type(made), name) is not getattr(keras.callbacks.Callback, name)
                if name.startswith("on_") and name not in HOOKS and is_own:
                    raise UserError(
                        f"{self._label}: `{place}` has `{name}`, which is never called, for TensorFlow takes many steps without "
                        f"coming back to Python; there are {', '.join(HOOKS)}"
                    )
            self._made.append((place.rpartition(":")[0], made))

    def __bool__(self) -> bool:
        return bool(self._made)

    def call(self, hook: str, network: keras.Model, *arguments: int, logs: Mapping[str, float] | None = None) -> bool:
        """Call a hook of all callbacks, with the network as it predicts now. Return whether one says that training stops."""
        network.stop_training = False
        for file, callback in self._made:
            with code.shown(self._label, file):
                if callback.model is not network:
                    callback.set_model(network)
                getattr(callback, hook)(*arguments, logs=dict(logs or {}))
        return bool(network.stop_training)
