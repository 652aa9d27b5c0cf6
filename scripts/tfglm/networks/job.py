"""The training of a network as a job does it: the files that it reads and writes."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import tfglm
from tfglm import command, digests, fitting, provenance
from tfglm.config import LayersConfig, TrainingConfig
from tfglm.distribute import strategies
from tfglm.fitting import Job
from tfglm.networks import predict, stored, tensorboard
from tfglm.networks.on_tpu import TrainingOnTPU
from tfglm.networks.sources import Sources
from tfglm.networks.summary import summary_of
from tfglm.networks.training import Assignment, ChiefHooks, Training

Start = Callable[[Assignment], Training]
"""Makes the training, before any TensorFlow operation."""


def train_here(job: Job) -> None:
    """Train the network of a job in this process. Raises UserError as `train` does."""
    settings: TrainingConfig = job.arguments.settings

    def start(assigned: Assignment) -> Training:
        where = f"networks.{job.design.model}"
        if settings.strategy == "tpu":
            return TrainingOnTPU(assigned, strategies.tpu_strategy(where))
        return Training(
            assigned, strategies.one_process_strategy(settings.strategy, settings.gpus, settings.devices, where)
        )

    train(job, start)


@tf.autograph.experimental.do_not_convert
def train(job: Job, start: Start, waiting: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
    """Train the network of a job, and write what it says. `waiting` is entered while this process waits for others. Raises
    UserError as `start` and the training do."""
    arguments, design, progress = job.arguments, job.design, job.progress
    settings: TrainingConfig = arguments.settings
    tf.config.threading.set_intra_op_parallelism_threads(settings.threads)
    training_units, held_out = Sources.of(vars(arguments)).units("train", "evaluate")
    folder = checkpoint_folder(
        arguments.journal, fitting.key(arguments, *arguments.offset[::2]), arguments.begin, arguments.until
    )
    history = fitting.History(arguments.events, design.model, progress)

    def record(step: int, values: Mapping[str, float]) -> None:
        history.record(step, values)
        progress.advance(step, training.steps)

    look = partial(tensorboard.show_weights, history.curves)
    chief = ChiefHooks(record, lambda message: command.live(f"{design.model}: {message}"), waiting, look)
    training = start(Assignment(training_units, held_out, settings, folder, chief))
    tensorboard.show_network(history.curves, training.network, settings)
    progress.fitting()
    trained = training.run(arguments.until)
    of_classes: dict[str, Any] = {}
    if design.classes:
        of_classes["classes"] = design.classes.levels
        if len(held_out):
            of_classes["held_out_accuracy"] = predict.means(held_out, trained.network)["accuracy"]
    tensorboard.show_embeddings(history.curves, design, trained.network, job.files)
    stored.save(trained.network, settings, arguments.checkpoint)
    layers = settings.model_dump(include=set(LayersConfig.model_fields))
    content: dict[str, Any] = {
        "kind": "network",
        "model": design.model,
        "formula": design.formula,
        "family": design.likelihood.family,
        "response": design.roles.response,
        **trained.summary,
        **of_classes,
        "strategy": settings.strategy,
        **({"synchronous": settings.synchronous} if settings.servers[1] else {}),
        "layers": layers,
        "summary": summary_of(trained.network),
        **({"offset": digests.sha256(arguments.offset[-1])} if arguments.offset else {}),
        "warnings": [*design.warnings, *training.remarks],
        **provenance.identity(arguments.design, arguments.checkpoint),
        "provenance": provenance.of(job.files, json.loads(arguments.config), tfglm.ENGINE),
    }
    content["provenance"]["versions"]["keras"] = keras.__version__
    digests.write_json(arguments.fit, content, indent=2)
    history.write(arguments.history, arguments.fit)
    if arguments.keep:
        shutil.rmtree(arguments.keep, ignore_errors=True)
        shutil.move(arguments.journal, arguments.keep)
    else:
        shutil.rmtree(arguments.journal)
    progress.update(state="finished", seconds_left=0.0)
    accuracy = of_classes.get("held_out_accuracy")
    command.tell(
        f"{design.model}: {trained.summary['steps']:,} steps in {history.seconds():.1f} s, final cost "
        f"{trained.summary['loss']:.6g}"
        + (f", accuracy {accuracy:.4f} on the rows held out" if accuracy is not None else "")
    )


def checkpoint_folder(folder: Path, key: str, begin: Path | None = None, until: int | None = None) -> Path:
    """The folder for the checkpoints of a training that ends after the epoch `until`; what is there of another one is removed.
    A new folder gets the checkpoints in `begin`, if they are of a part of the same training."""
    written, training = folder / "key", f"{key} {until or ''}"
    if not written.is_file() or written.read_text(encoding="utf-8") != training:
        shutil.rmtree(folder, ignore_errors=True)
        of_part = begin / "key" if begin else None
        if begin and of_part and of_part.is_file() and of_part.read_text(encoding="utf-8").partition(" ")[0] == key:
            shutil.copytree(begin, folder, ignore=shutil.ignore_patterns("key"))
        else:
            folder.mkdir(parents=True)
        written.write_text(training, encoding="utf-8")
    return folder
