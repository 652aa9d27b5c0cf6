"""The curves of a fit, as TensorBoard shows them."""

import os
import shutil
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from tfglm import command
from tfglm.protobuf import message

WALL_TIME, STEP, FILE_VERSION, GRAPH, SUMMARY = 1, 2, 3, 4, 5
"""Fields of an Event (tensorflow/core/util/event.proto)."""

SCALAR = message({1: message({1: b"scalars"}), 4: 1})
"""The SummaryMetadata of a number: the name of TensorBoard's plugin, and DATA_CLASS_SCALAR."""


class Curves:
    """Writes scalars and other events for TensorBoard into a folder, which is emptied first; without a folder, nothing.

    It also stops after a failed write, as on a full disk: curves are no reason to end a fit.

    `tf.summary.scalar` does the same, but only if the package tensorboard is installed, and needs all of TensorFlow.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._stream: BinaryIO | None = None
        if folder is None:
            return
        # TensorBoard recognises the name, and the version in the first record.
        self._path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.0.v2"
        shutil.rmtree(folder, ignore_errors=True)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to the curve of each name."""
        summary = b""
        for name, value in values.items():
            # A TensorProto: DT_DOUBLE, no dimensions, and one number. A loss may be larger than float32 holds.
            tensor = message({1: 2, 2: b"", 6: struct.pack("<d", value)})
            summary += message({1: message({1: name.encode(), 8: tensor, 9: SCALAR})})
        self.write({STEP: step, SUMMARY: summary})

    def write(self, content: Mapping[int, int | bytes]) -> None:
        """Write an event with these fields."""
        if self.folder is None:
            return
        try:
            if not self._stream:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._stream = self._path.open("wb")
                self._stream.write(as_record(message({WALL_TIME: time.time(), FILE_VERSION: b"brain.Event:2"})))
            self._stream.write(as_record(message({WALL_TIME: time.time(), **content})))
            self._stream.flush()
        except OSError as error:
            command.log(f"no more curves for TensorBoard: {self.folder} cannot be written: {error}")
            self.folder = None


def as_record(data: bytes) -> bytes:
    """What a TFRecord file has of one record (tensorflow/core/lib/io/record_writer.h)."""
    from tfglm.crc32c import masked  # imports numba

    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", masked(size)) + data + struct.pack("<I", masked(data))
