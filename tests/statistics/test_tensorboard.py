"""What TensorBoard shows of a network: the events and files that its plugins read."""

import json
import struct

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from google.protobuf.struct_pb2 import Value
from test_models import flights
from test_networks import design
from test_own_networks import settings_of

from pools import ingest_frame
from tfglm.config import TrainingConfig
from tfglm.networks import layers, tensorboard
from tfglm.networks.layers import OutputScale
from tfglm.roles.curves import Curves


def events_in(folder) -> list:
    (path,) = folder.glob("events.out.tfevents.*")
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    assert events[0].file_version == "brain.Event:2"
    return events[1:]


def fields(content: bytes) -> list[tuple[int, bytes]]:
    """The fields of a protocol buffer, by its description (protobuf.dev/programming-guides/encoding)."""
    found, place = [], 0

    def number() -> int:
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = content[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while place < len(content):
        key = number()
        size = {1: 8, 2: None}[key & 7] or number()
        found.append((key >> 3, content[place : place + size]))
        place += size
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return ingest_frame(flights(600, seed=3), tmp_path_factory.mktemp("tensorboard"))


def test_the_graph_and_the_settings_of_a_network_are_shown(file, tmp_path):
    network = layers.network(design(file), TrainingConfig(hidden=[4]), OutputScale(0.0, 1.0))
    curves = Curves(tmp_path / "events")
    settings = TrainingConfig.model_validate({"hidden": [4], "optimizer": {"learning_rate": 0.25}, "cache": True})
    tensorboard.show_network(curves, network, settings)
    graph, shown = events_in(tmp_path / "events")
    nodes = {node.name for node in tf.compat.v1.GraphDef.FromString(graph.graph_def).node}
    assert any("hidden_0" in name for name in nodes) and any("embedding_0" in name for name in nodes)
    (value,) = shown.summary.value
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("_hparams_/session_start_info", "hparams")
    assert value.HasField("tensor")
    ((of_session, session),) = fields(value.metadata.plugin_data.content)
    assert of_session == 3
    entries = [dict(fields(content)) for number, content in fields(session) if number == 1]
    read = {entry[1].decode(): Value.FromString(entry[2]) for entry in entries}
    assert read["optimizer.learning_rate"].number_value == 0.25 and read["batch_size"].number_value == 512
    assert read["hidden"].string_value == "[4]" and read["cache"].string_value == "True" and "code" not in read
    assert [struct.unpack("<d", content) for number, content in fields(session) if number == 5] == [(0.0,)]


def test_histograms_have_all_finite_values(tmp_path):
    curves = Curves(tmp_path / "events")
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    tensorboard.show_weights(curves, 7, network)
    events = events_in(tmp_path / "events")
    assert {event.step for event in events} == {7} and len(events) == 2
    for event, weight in zip(events, network.trainable_variables, strict=True):
        (value,) = event.summary.value
        buckets = tf.make_ndarray(value.tensor)
        assert value.tag == weight.path and buckets.shape == (30, 3) and buckets[:, 2].sum() == np.size(weight)
        assert buckets[0, 0] <= np.min(weight) and buckets[-1, 1] >= np.max(weight)
    assert tensorboard.histogram(np.array([np.nan, 1.0, np.inf, 2.0]))[:, 2].sum() == 2


@pytest.mark.parametrize("settings", [TrainingConfig(hidden=[4]), settings_of()], ids=["hidden layers", "own model"])
def test_the_projector_has_the_levels_by_name(file, tmp_path, settings):
    of_network = design(file)
    network = layers.network(of_network, settings, OutputScale(0.0, 1.0))
    curves = Curves(tmp_path / "events")
    curves.record(0, {"train/loss": 1.0})
    tensorboard.show_embeddings(curves, of_network, network, [file])
    lines = (tmp_path / "events" / "projector_config.pbtxt").read_text().splitlines()
    words = [line.partition(":")[::2] for line in lines if ":" in line]
    configs = [{key.strip(): json.loads(value) for key, value in words[k : k + 3]} for k in range(0, len(words), 3)]
    assert [config["tensor_name"] for config in configs] == ["carrier", "origin"]
    for config in configs:
        points = pd.read_csv(tmp_path / "events" / config["tensor_path"], sep="\t", header=None)
        levels = pd.read_csv(tmp_path / "events" / config["metadata_path"], sep="\t")
        factor = of_network.categorical_by_name[config["tensor_name"]]
        assert sorted(levels["level"]) == sorted(factor.levels) and len(points) == len(levels)
        assert levels["rows"].sum() == 600 and levels["rows"].is_monotonic_decreasing


HIDDEN = """import keras


class Mine(keras.Model):
    def __init__(self, levels):
        super().__init__()
        self.embedding, self.dense = keras.layers.Embedding(levels, 3), keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(self.embedding(inputs["carrier"]))


def build(inputs, settings):
    return Mine(inputs.sizes["carrier"])
"""


def test_an_embedding_inside_a_class_of_the_users_is_passed_over(file, tmp_path):
    of_network = design(file)
    network = layers.network(of_network, settings_of(HIDDEN), OutputScale(0.0, 1.0))
    curves = Curves(tmp_path / "events")
    curves.record(0, {"train/loss": 1.0})
    tensorboard.show_embeddings(curves, of_network, network, [file])
    assert [path.name.partition(".")[0] for path in (tmp_path / "events").iterdir()] == ["events"]


def test_a_folder_that_cannot_be_written_ends_nothing(file, tmp_path):
    (tmp_path / "events").write_text("a file")
    curves = Curves(tmp_path / "events")
    curves.record(0, {"train/loss": 1.0})
    assert curves.folder is None
    network = layers.network(design(file), TrainingConfig(hidden=[4]), OutputScale(0.0, 1.0))
    tensorboard.show_embeddings(curves, design(file), network, [file])
    tensorboard.show_network(curves, network, TrainingConfig())
