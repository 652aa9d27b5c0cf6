"""The curves of a fit, as TensorBoard shows them."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfglm import command, tensorflow_setup


def recorder(folder: Path | None) -> Callable[[int, Mapping[str, float]], None]:
    """A function of a step and values by name that writes them for TensorBoard; it does nothing without a folder, nor after it
    could not write, as on a full disk: curves are no reason to end a fit.

    `tf.summary.scalar` does the same, but only where the package tensorboard is installed.
    """
    if folder is None:
        return lambda step, values: None
    with tensorflow_setup.quiet():
        import tensorflow as tf

    shutil.rmtree(folder, ignore_errors=True)
    metadata = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class=1
    )

    writer: Any = None
    lost = False

    def record(step: int, values: Mapping[str, float]) -> None:
        nonlocal writer, lost
        if lost:
            return
        try:
            writer = writer or tf.summary.create_file_writer(str(folder))
            with writer.as_default(step):
                for name, value in values.items():
                    tf.summary.write(name, tf.constant(value, tf.float32), metadata=metadata)
            writer.flush()
        except (tf.errors.OpError, OSError) as error:
            lost = True
            command.log(f"no more curves for TensorBoard: {folder} cannot be written: {error}")

    return record
