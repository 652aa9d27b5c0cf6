"""The curves of a fit, as TensorBoard shows them."""

import os
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfglm import command, tensorflow_setup


class Curves:
    """Writes scalars and other events for TensorBoard into a folder, which is emptied first; without a folder, nothing.

    It also stops after a failed write, as on a full disk: curves are no reason to end a fit.

    `tf.summary.scalar` does the same, but only if the package tensorboard is installed, and needs all of TensorFlow.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._writer: Any = None
        if folder is None:
            return
        # TensorBoard recognises the name, and the version in the first record.
        self._path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.0.v2"
        with tensorflow_setup.quiet():
            from tensorflow.core.framework import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
            from tensorflow.core.util import event_pb2
            from tensorflow.python.framework import errors_impl
            from tensorflow.python.lib.io import tf_record

        shutil.rmtree(folder, ignore_errors=True)
        self._summaries, self._events, self._records = summary_pb2, event_pb2, tf_record
        self._errors = (errors_impl.OpError, OSError)
        self._scalar = summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=summary_pb2.DATA_CLASS_SCALAR,
        )
        self._number = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_FLOAT, tensor_shape=tensor_shape_pb2.TensorShapeProto()
        )

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to the curve of each name."""
        if self.folder is None:
            return
        summary = self._summaries.Summary()
        for name, value in values.items():
            point = summary.value.add(tag=name, metadata=self._scalar, tensor=self._number)
            point.tensor.float_val.append(value)
        self.write(step=step, summary=summary)

    def write(self, **content: Any) -> None:
        """Write an event of TensorFlow with this content."""
        if self.folder is None:
            return
        try:
            if not self._writer:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._writer = self._records.TFRecordWriter(str(self._path))
                first = self._events.Event(wall_time=time.time(), file_version="brain.Event:2")
                self._writer.write(first.SerializeToString())
            self._writer.write(self._events.Event(wall_time=time.time(), **content).SerializeToString())
            self._writer.flush()
        except self._errors as error:
            command.log(f"no more curves for TensorBoard: {self.folder} cannot be written: {error}")
            self.folder = None
