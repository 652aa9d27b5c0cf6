"""A trained network as a checkpoint, with what it takes to use it again."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa

from tfglm import bundle, checkpoint, digests
from tfglm.config import LayersConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.networks import predict, sources
from tfglm.networks.layers import OutputScale, network
from tfglm.results import saved_fit
from tfglm.results.classes import predicted
from tfglm.results.predict import Scored, tables


def save(trained: keras.Model, settings: LayersConfig, folder: Path) -> None:
    """Write the weights as a TensorFlow checkpoint, by the name of their layer: `hidden_0/kernel`. Before the names in a model of
    the user's are their places, as Keras numbers layers without a name anew in each process."""
    named = {}
    for place, variable in enumerate(trained.weights):
        named[f"{place:04d}/{variable.path}" if settings.model else variable.path] = np.asarray(variable)
    bundle.write(named, folder / checkpoint.NETWORK)


def score(
    arguments: argparse.Namespace, design: Design, fit: Mapping[str, Any], files: Sequence[IngestedFile], split: str
) -> Iterator[Scored]:
    """The rows of a split as the network of a command line predicts them. Raises UserError if the network, or the regression
    under it, has changed since it was trained."""
    trained, offset = load_checked(arguments, design, fit)
    return predict.score(sources.units(design, files, split, offset), trained)


def load_checked(
    arguments: argparse.Namespace, design: Design, fit: Mapping[str, Any]
) -> tuple[keras.Model, sources.Regression | None]:
    """The network of a command line, and the regression under it. Raises UserError if one has changed since it was trained."""
    saved_fit.check(fit, arguments.design, arguments.checkpoint, arguments.fit)
    offset = sources.regression(arguments.offset)
    if offset and digests.sha256(arguments.offset[-1]) != fit["offset"]:
        raise digests.changed(arguments.fit, "it was trained on another fit of `offset_from`", delete=arguments.fit)
    return load(design, fit, arguments.checkpoint), offset


def predictions(
    arguments: argparse.Namespace, design: Design, fit: Mapping[str, Any], file: IngestedFile, identity: Sequence[str]
) -> Iterator[pa.Table]:
    """The `results.predict.tables` of the network of a command line: `linear_predictor`, and `probability` or `mean`; of a
    response with classes `results.classes.predicted`."""
    family, classes = design.distribution, design.classes

    def estimate(scored: Scored) -> dict[str, pa.Array]:
        if classes:
            return predicted(scored, classes.levels)
        eta = np.where(scored.rows["flag"] >= 0, scored.rows["eta"], np.nan)
        columns = {"linear_predictor": eta, family.predicted: family.mean(eta)}
        return {name: pa.array(values, from_pandas=True) for name, values in columns.items()}

    scored = score(arguments, design.to_predict, fit, [file], "predict")
    return tables(design.to_predict, file, identity, scored, estimate)


def load(design: Design, fit: Mapping[str, Any], folder: Path) -> keras.Model:
    """The network of fit.json. Raises UserError if the code of its layers does not run here."""
    settings = LayersConfig.model_validate(fit["layers"])
    loaded = network(design, settings, OutputScale(fit["start"], fit["unit"]))
    weights = bundle.read(folder / checkpoint.NETWORK)
    by_place = {name.partition("/")[0]: values for name, values in weights.items()}
    for place, variable in enumerate(loaded.weights):
        variable.assign(by_place[f"{place:04d}"] if settings.model else weights[variable.path])
    return loaded
