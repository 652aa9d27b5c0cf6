"""Weights on parameter servers: a step that pulls and pushes them is the step that the network itself would take."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_models import flights

from pools import design_of, ingest_frame
from tfglm.config import LayersConfig, OptimizerConfig, TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.families import FAMILIES
from tfglm.networks.asynchronous import AsynchronousTraining, count_at_once
from tfglm.networks.cutting import batches_of_readers
from tfglm.networks.layers import OutputScale, network
from tfglm.networks.optimizers import SharedAdam, optimizer
from tfglm.networks.pipeline import Batch
from tfglm.networks.rows import RESPONSE, WEIGHT, Units
from tfglm.networks.shared_weights import SharedWeights
from tfglm.networks.sources import Sources

LARGE = 6
"""So that some embeddings of these few levels are large ones."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Sources:
    folder = tmp_path_factory.mktemp("shared")
    file = ingest_frame(flights(2000, seed=5), folder, split={"train": "hour < 20", "evaluate": "hour >= 20"})
    of_model = design_of("late ~ carrier + origin + hour + distance", "binomial", merge([file]), [file])
    of_model.write(folder / "design.json")
    return Sources(folder / "design.json", [folder / "table" / "manifest.json"], [])


@pytest.fixture(scope="module")
def units(sources) -> Units:
    (units,) = sources.units("train")
    return units


def batches(units: Units, number: int, size: int = 100) -> list[Batch]:
    groups, numbers = units.train(0)
    parts = [slice(size * k, size * (k + 1)) for k in range(number)]
    shares = [numbers[part, WEIGHT] / numbers[part, WEIGHT].sum() for part in parts]
    return [
        Batch(*map(tf.constant, (groups[part], numbers[part], share, range(size))))
        for part, share in zip(parts, shares, strict=True)
    ]


def loss_of(eta: tf.Tensor, batch: Batch) -> tf.Tensor:
    return tf.reduce_sum(batch.share * FAMILIES["binomial"].tensor_loss(tf, eta, batch.numbers[:, RESPONSE]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: keras.optimizers.SGD(0.5, momentum=0.9), lambda: SharedAdam(0.05, amsgrad=True)]
)
@pytest.mark.parametrize("servers", [1, 3])
def test_steps_with_shared_weights_are_those_of_the_network(units, servers, make):
    settings = LayersConfig(hidden=[5], wide=True)
    alone, copied = (network(units.design, settings, OutputScale(-0.5, 1.0), seed=4) for _ in range(2))
    shared = SharedWeights(copied, servers, "networks.m", LARGE)
    assert len(shared.vector) == servers and len(shared.tables) == 2
    assert sum(np.size(variable) for variable in shared.variables) == alone.count_params()
    of_shared, of_network = make(), make()
    of_shared.build(shared.variables)
    of_network.build(alone.trainable_variables)
    for batch in batches(units, 5):
        pulled = shared.pull(batch)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([pulled.vector, pulled.rows])
            mine = loss_of(shared.outcome(pulled, batch, tf.constant(0))[0], batch)
            theirs = loss_of(alone([batch.groups, batch.numbers], training=True), batch)
        assert float(mine) == pytest.approx(float(theirs), rel=1e-5)
        vector, rows = tape.gradient(mine, [pulled.vector, pulled.rows])
        gradients = shared.gradients(pulled.levels, vector, rows)
        of_shared.apply_gradients(zip(gradients, shared.variables, strict=True))
        gradients = tape.gradient(theirs, alone.trainable_variables)
        of_network.apply_gradients(zip(gradients, alone.trainable_variables, strict=True))
    shared.copy()
    for mine, theirs in zip(copied.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop", "ftrl"])
def test_steps_by_rows_with_shared_weights_are_those_of_the_network(units, name):
    settings = LayersConfig(hidden=[5])
    alone, copied = (network(units.design, settings, OutputScale(-0.5, 1.0), seed=4) for _ in range(2))
    shared = SharedWeights(copied, 2, "networks.m", LARGE)
    averaged = {"name": name, "learning_rate": 0.05, "use_ema": True, "ema_momentum": 0.8}
    of_shared = optimizer(OptimizerConfig(**averaged), 1, SharedAdam, large=0)
    of_network = optimizer(OptimizerConfig(**averaged, lazy=True), 1)
    of_shared.build(shared.variables)
    of_network.build(alone.trainable_variables)

    # As on the servers: in a graph the number of rows is unknown, and Keras takes no table without rows for a bias.
    @tf.function(autograph=False, reduce_retracing=True)
    def change(levels: list, vector: list, rows: list) -> None:
        of_shared.apply_gradients(zip(shared.gradients(levels, vector, rows), shared.variables, strict=True))

    # Few rows, so that batches lack levels.
    for batch in batches(units, 6, size=2):
        pulled = shared.pull(batch)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([pulled.vector, pulled.rows])
            mine = loss_of(shared.outcome(pulled, batch, tf.constant(0))[0], batch)
            theirs = loss_of(alone([batch.groups, batch.numbers], training=True), batch)
        vector, rows = tape.gradient(mine, [pulled.vector, pulled.rows])
        change(pulled.levels, vector, [tf.convert_to_tensor(of_table) for of_table in rows])
        gradients = tape.gradient(theirs, alone.trainable_variables)
        of_network.apply_gradients(zip(gradients, alone.trainable_variables, strict=True))
    for given, expected in ((None, alone.get_weights()), (of_shared.averages(), of_network.averages())):
        shared.copy(given)
        for mine, theirs in zip(copied.get_weights(), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_for_shared_weights_takes_the_steps_of_that_of_keras(amsgrad):
    random = np.random.default_rng(1)
    optimizers = [kind(0.01, amsgrad=amsgrad) for kind in (keras.optimizers.Adam, SharedAdam)]
    variables = [keras.Variable(np.ones(7, np.float32)) for _ in optimizers]
    for each, variable in zip(optimizers, variables, strict=True):
        each.build([variable])

    @tf.function
    def step(gradient: tf.Tensor) -> None:
        for each, variable in zip(optimizers, variables, strict=True):
            each.apply_gradients([(gradient, variable)])

    for gradient in random.normal(size=(30, 7)) * random.integers(0, 2, size=(30, 7)):
        step(tf.constant(gradient, tf.float32))
    np.testing.assert_allclose(np.asarray(variables[1]), np.asarray(variables[0]), rtol=1e-6)
    assert abs(np.asarray(variables[0]) - 1).max() > 0.01


@pytest.mark.parametrize(("rows", "workers"), [([0, 500, 300, 0, 1], 2), ([100_000] * 7, 3), ([10], 8)])
def test_each_batch_is_in_one_turn_of_an_epoch(rows, workers):
    training = object.__new__(AsynchronousTraining)
    training._settings, training._servers = TrainingConfig(batch_size=64), SimpleNamespace(workers=workers)
    training._batches_of_readers = batches_of_readers(rows, len(rows), 64)
    turns = training._turns(3)
    batches = sorted((turn.reader, turn.first + number) for turn in turns for number in range(turn.batches))
    assert batches == [(place, number) for place, size in enumerate(rows) for number in range(-(-size // 64))]
    assert all(turn.batches and turn.epoch == 3 for turn in turns)
    assert turns == training._turns(3)


def test_no_step_of_two_at_the_same_time_is_lost():
    weights, optimizer = keras.Variable(np.zeros(3, np.float32)), keras.optimizers.SGD(0.1)
    optimizer.build([weights])
    count_at_once(optimizer)
    step = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, weights)]))
    step(tf.ones(3))
    step(tf.ones(3))
    assert int(optimizer.iterations) == 2
    changes = [
        node.type for node in step.get_concrete_function(tf.ones(3)).graph.get_operations() if "Assign" in node.type
    ]
    assert sorted(changes) == ["AssignAddVariableOp", "AssignSubVariableOp"]
