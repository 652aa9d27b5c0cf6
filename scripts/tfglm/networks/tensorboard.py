"""What TensorBoard shows of a network besides its curves: the graph, the settings, the weights, and embeddings by level."""

import json
from collections.abc import Sequence

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow.core.framework.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata

from tfglm import command
from tfglm.config import TrainingConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.networks import layers
from tfglm.networks.embeddings import rows_of_levels
from tfglm.networks.inputs import LevelOf
from tfglm.protobuf import message
from tfglm.roles.curves import GRAPH, STEP, SUMMARY, Curves

BUCKETS = 30
"""Of a histogram, as in TensorFlow."""

SETTINGS = "_hparams_/session_start_info"
"""The tag by which TensorBoard finds the settings of a run."""

MOST_LEVELS = 100_000
"""Points of an embedding that the projector shows; it draws them in the browser."""


def show_network(curves: Curves, network: keras.Model, settings: TrainingConfig) -> None:
    """Write the graph of a network, and its settings."""
    if curves.folder is None:
        return
    inputs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in network.inputs]
    traced = tf.function(lambda *tensors: network(list(tensors), training=False), autograph=False)
    graph = traced.get_concrete_function(*inputs).graph
    curves.write({GRAPH: graph.as_graph_def().SerializeToString()})
    # TensorBoard passes over a value without a tensor.
    nothing = tf.make_tensor_proto(0.0, tf.float32)
    shown = Summary.Value(tag=SETTINGS, metadata=settings_metadata(settings), tensor=nothing)
    curves.write({SUMMARY: Summary(value=[shown]).SerializeToString()})


def settings_metadata(settings: TrainingConfig) -> SummaryMetadata:
    """The settings in the form of TensorBoard's plugin for hyperparameters: its messages, written by hand, as the package
    tensorboard, which defines them, need not be installed (tensorboard/plugins/hparams/plugin_data.proto)."""
    entries = []
    (flat,) = pd.json_normalize(settings.model_dump(exclude={"code"}, exclude_none=True)).to_dict("records")
    for name, value in flat.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = json.dumps(value) if isinstance(value, list) else str(value)
        # A google.protobuf.Value: its field 2 is a number, and 3 a text.
        shown = message({2: float(value)} if is_number else {3: text.encode()})
        entries.append(message({1: message({1: name.encode(), 2: shown})}))
    # Field 5 is when the run began, which its events say too.
    content = message({3: b"".join(entries) + message({5: 0.0})})
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=content)
    return SummaryMetadata(plugin_data=plugin, data_class=DATA_CLASS_TENSOR)


def show_weights(curves: Curves, step: int, network: keras.Model) -> None:
    """Write a histogram of each weight."""
    plugin = SummaryMetadata.PluginData(plugin_name="histograms")
    metadata = SummaryMetadata(plugin_data=plugin, data_class=DATA_CLASS_TENSOR)
    for weight in network.trainable_variables:
        tensor = tf.make_tensor_proto(histogram(np.asarray(weight)), tf.float64)
        summary = Summary(value=[Summary.Value(tag=weight.path, metadata=metadata, tensor=tensor)])
        curves.write({STEP: step, SUMMARY: summary.SerializeToString()})


def histogram(values: np.ndarray) -> np.ndarray:
    """Left, right and count of each bucket, [buckets, 3]."""
    counts, edges = np.histogram(values[np.isfinite(values)], BUCKETS)
    return np.column_stack([edges[:-1], edges[1:], counts])


def show_embeddings(curves: Curves, design: Design, network: keras.Model, files: Sequence[IngestedFile]) -> None:
    """Write the embedding of each factor for the projector, with the names of the levels and their training rows."""
    folder = curves.folder
    if folder is None:
        return
    config = ""
    try:
        for layer in layers.embeddings_of(network):
            if not layer._inbound_nodes:
                continue  # inside a class of the user's, which alone knows what it looks up
            source = layer.input._keras_history.operation
            grouping = design.groupings[source.place] if isinstance(source, LevelOf) else ()
            if len(grouping) != 1:
                continue
            factor = design.categorical_by_name[grouping[0]]
            rows = rows_of_levels(factor, files, design.roles.required)
            kept = np.argsort(-rows, kind="stable")[:MOST_LEVELS]
            levels = pd.DataFrame({"level": np.array(factor.levels)[kept], "rows": rows[kept]})
            levels = levels.replace(r"[\t\r\n]", " ", regex=True)
            levels.to_csv(folder / f"{layer.name}_levels.tsv", sep="\t", index=False)
            points = pd.DataFrame(np.asarray(layer.embeddings)[kept])
            points.to_csv(folder / f"{layer.name}.tsv", sep="\t", index=False, header=False)
            config += (
                f"embeddings {{\n  tensor_name: {json.dumps(factor.name)}\n  tensor_path: {json.dumps(f'{layer.name}.tsv')}\n"
                f"  metadata_path: {json.dumps(f'{layer.name}_levels.tsv')}\n}}\n"
            )
        if config:
            (folder / "projector_config.pbtxt").write_text(config, encoding="utf-8")
    except OSError as error:
        command.log(f"no embeddings for TensorBoard: {folder} cannot be written: {error}")
