"""TensorFlow 2.15's LinearClassifier, what this project replaces: one epoch from the CSV file, in batches of 500."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from common import Work

BATCH = 500


def feature_columns(work: Work, levels: dict[str, list[str]]) -> list:
    columns = tf.feature_column
    factors = [columns.categorical_column_with_vocabulary_list(name, levels[name]) for name in work.factors]
    return [*factors, *(columns.numeric_column(name) for name in work.numbers)]


def levels_of(work: Work) -> dict[str, list[str]]:
    """The levels of each factor, read once before the training, as its user would have to."""
    found: dict[str, set[str]] = {name: set() for name in work.factors}
    with work.table.open(newline="") as file:
        for row in csv.DictReader(file):
            for name, levels in found.items():
                levels.add(row[name])
    return {name: sorted(levels) for name, levels in found.items()}


def input_function(work: Work, part: int = 0, parts: int = 1):
    """The rows in batches, those of one part of the batches."""

    def rows():
        defaults = (
            {work.response: tf.float32}
            | dict.fromkeys(work.factors, tf.string)
            | dict.fromkeys(work.numbers, tf.float32)
        )
        names = work.table.open().readline().strip().split(",")
        data = tf.data.experimental.make_csv_dataset(
            str(work.table),
            BATCH,
            names,
            [defaults[name] for name in names],
            work.response,
            num_epochs=1,
            shuffle=False,
        )
        return data.shard(parts, part).prefetch(2)

    return rows


def estimator(work: Work, levels: dict[str, list[str]], folder: Path, config=None):
    shutil.rmtree(folder, ignore_errors=True) if config is None else None
    return tf.estimator.LinearClassifier(feature_columns(work, levels), model_dir=str(folder), config=config)


def coefficients(model, work: Work, levels: dict[str, list[str]]) -> Iterator[tuple]:
    prefix = "linear/linear_model"
    yield "Intercept", "", float(model.get_variable_value(f"{prefix}/bias_weights")[0])
    for name in work.numbers:
        yield name, "", float(model.get_variable_value(f"{prefix}/{name}/weights")[0, 0])
    for name in work.factors:
        values = model.get_variable_value(f"{prefix}/{name}/weights")[:, 0]
        yield from ((name, level, float(value)) for level, value in zip(levels[name], values, strict=True))
