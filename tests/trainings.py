"""Trainings of networks in this process."""

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from tfglm.config import TrainingConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.networks.rows import Units
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
