"""Options of Keras' optimizers, learning rates, losses, metrics and callbacks, against Keras itself or their formulas."""

import contextlib
import functools
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError
from test_models import flights

from pools import design_of, ingest_frame
from tfglm.config import LayersConfig, NetworkConfig, OptimizerConfig, TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.networks import check, layers, predict, stored
from tfglm.networks.counts import TrainingCounts
from tfglm.networks.cutting import rows_at_once
from tfglm.networks.layers import OutputScale
from tfglm.networks.losses import TrainingLoss
from tfglm.networks.optimizers import SharedAdam, learning_rate, optimizer
from tfglm.networks.pipeline import Batches
from tfglm.networks.rows import Units
from tfglm.networks.shared_weights import SharedWeights
from tfglm.networks.training import Training, averaged
from trainings import rows_of, training_of

OPTIMIZERS = get_args(OptimizerConfig.model_fields["name"].annotation)

OPTIONS = {
    "clipnorm": {"name": "sgd", "clipnorm": 0.5},
    "global_clipnorm": {"name": "adam", "global_clipnorm": 0.7},
    "clipvalue": {"name": "sgd", "clipvalue": 0.3, "momentum": 0.5},
    "weight_decay": {"name": "sgd", "weight_decay": 0.1},
    "ema": {"name": "sgd", "use_ema": True, "ema_momentum": 0.8},
    "adamw": {"name": "adamw", "amsgrad": True},
    "nadam": {"name": "nadam", "beta_1": 0.8},
    "adamax": {"name": "adamax"},
    "lion": {"name": "lion", "weight_decay": 0.01},
    "adadelta": {"name": "adadelta", "rho": 0.9},
    "centered": {"name": "rmsprop", "centered": True, "momentum": 0.1},
    "cosine": {"name": "sgd", "learning_rate": {"schedule": "cosine", "initial_learning_rate": 0.1, "alpha": 0.2}},
}
STEPS = 12


def gradients(number: int) -> list[tf.Tensor]:
    random = np.random.default_rng(number)
    return [tf.constant(random.normal(size=shape), tf.float32) for shape in ((3, 2), (4,))]


def of_keras(settings: OptimizerConfig) -> keras.Optimizer:
    rate = settings.learning_rate
    if settings.schedule:
        rate = keras.optimizers.schedules.CosineDecay(0.1, STEPS, alpha=0.2)
    return type(keras.optimizers.get(settings.name))(learning_rate=rate, **settings.given)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_does_what_it_does_in_keras(name):
    check_option(name, tf.distribute.OneDeviceStrategy("/cpu:0"), 1)


@pytest.mark.processes
def test_each_option_does_the_same_on_two_devices():
    """The gradients that they add up are clipped, not those of each."""
    lines = """
import tensorflow as tf
(processor,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
import test_everyday_keras as tests
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"], tf.distribute.ReductionToOneDevice())
for name in tests.OPTIONS:
    tests.check_option(name, strategy, 2)
central = tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"], "/cpu:0")
for each in (strategy, central):
    for name in ("sgd", "adam", "adamw", "adamax", "lion", "adagrad", "adadelta", "rmsprop", "ftrl"):
        tests.check_rows(name, each)
tests.check_rows("nadam", strategy)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_option(name: str, strategy: tf.distribute.Strategy, devices: int) -> None:
    """Compare steps under a strategy with those of Keras' optimizer alone."""
    settings = OptimizerConfig.model_validate({"learning_rate": 0.1} | OPTIONS[name])
    theirs = of_keras(settings)
    variables = [keras.Variable(np.ones(gradient.shape, np.float32)) for gradient in gradients(0)]
    theirs.build(variables)
    for number in range(STEPS):
        theirs.apply_gradients(zip(gradients(number), variables, strict=True))
    with strategy.scope(), tf.variable_creator_scope(averaged):
        mine = [keras.Variable(np.ones(gradient.shape, np.float32)) for gradient in gradients(0)]
        made = optimizer(settings, STEPS)
        made.build(mine)

    @tf.function(autograph=False)
    def step(*parts: tf.Tensor) -> None:
        strategy.run(lambda: made.apply(list(map(tf.identity, parts)), mine))

    for number in range(STEPS):
        step(*(gradient / devices for gradient in gradients(number)))
    for ours, expected in zip(mine, variables, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(expected), rtol=1e-5, atol=1e-6)
    if settings.use_ema:
        for ours, expected in zip(made.averages(), theirs._model_variables_moving_average, strict=True):
            np.testing.assert_allclose(ours, np.asarray(expected), rtol=1e-5)


def check_rows(name: str, strategy: tf.distribute.Strategy) -> None:
    """Compare steps by rows on two devices, each with levels of its own, with those of both together."""
    settings = OptimizerConfig.model_validate(
        {"name": name, "learning_rate": 0.1, "lazy": True, "weight_decay": 0.1, "clipvalue": 0.5}
        | ({"use_ema": True, "ema_momentum": 0.8} if name != "nadam" else {})
    )
    tables, averages = [], []
    for of_batch in (strategy, tf.distribute.OneDeviceStrategy("/cpu:0")):
        with of_batch.scope(), tf.variable_creator_scope(averaged):
            table = keras.Variable(np.ones((5, 2), np.float32))
            made = optimizer(settings, STEPS)
            made.build([table])
        devices = of_batch.num_replicas_in_sync

        @tf.function(autograph=False)
        def step(rows: tf.Tensor, levels: tf.Tensor) -> None:
            def of_device() -> None:
                number = tf.distribute.get_replica_context().replica_id_in_sync_group
                mine = slice(None) if devices == 1 else slice(2 * number, 2 * number + 2)  # noqa: B023
                made.apply([tf.IndexedSlices(rows[mine], levels[mine], tf.constant([5, 2]))], [table])  # noqa: B023

            of_batch.run(of_device)  # noqa: B023

        random = np.random.default_rng(4)
        for levels in ([0, 3, 3, 1], [3, 1, 0, 0], [1, 1, 1, 3]):
            step(tf.constant(random.normal(size=(4, 2)), tf.float32), tf.constant(levels))
        tables.append(np.asarray(table))
        averages.append(made.averages()[0] if settings.use_ema else tables[-1])
    np.testing.assert_allclose(averages[0], averages[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5, atol=1e-6)
    assert (tables[0][[2, 4]] == 1).all() and (tables[0][[0, 1, 3]] != 1).all()


def test_clipping_counts_the_rows_of_a_level_together():
    """As an embedding has it: two rows of a batch with the same level, whose gradients point to opposite directions."""
    rows = tf.constant([[3.0, 0.0], [-3.0, 0.4], [0.0, 0.3]])
    sparse = tf.IndexedSlices(rows, tf.constant([1, 1, 0]), tf.constant([2, 2]))
    for clip, scaled in (({"global_clipnorm": 0.25}, 0.5), ({"clipnorm": 0.25}, 0.5), ({"clipvalue": 0.1}, None)):
        variable = keras.Variable(np.zeros((2, 2), np.float32))
        made = optimizer(OptimizerConfig.model_validate({"name": "sgd", "learning_rate": 1.0} | clip), 1)
        made.build([variable])
        made.apply_gradients([(sparse, variable)])
        expected = [[0.0, -0.3], [0.0, -0.4]]
        expected = np.multiply(expected, scaled) if scaled else np.clip(expected, -0.1, 0.1)
        np.testing.assert_allclose(np.asarray(variable), expected, rtol=1e-6)


def taken(made: keras.Optimizer, variable: keras.Variable, gradient: tf.Tensor) -> None:
    made.apply_gradients([(gradient, variable)])


def test_adamw_for_shared_weights_takes_the_steps_of_that_of_keras():
    settings = OptimizerConfig(name="adamw", learning_rate=0.1)
    optimizers = [optimizer(settings, STEPS, SharedAdam), of_keras(settings)]
    variables = [keras.Variable(np.ones(4, np.float32)) for _ in optimizers]
    for each, variable in zip(optimizers, variables, strict=True):
        each.build([variable])
        step = tf.function(functools.partial(taken, each, variable), autograph=False)
        for number in range(STEPS):
            step(gradients(number)[1])
    np.testing.assert_allclose(np.asarray(variables[0]), np.asarray(variables[1]), rtol=1e-5)


SCHEDULES = keras.optimizers.schedules
RATES = {
    "cosine": (
        {"schedule": "cosine", "initial_learning_rate": 0.2, "warmup_steps": 10, "alpha": 0.1},
        lambda: SCHEDULES.CosineDecay(0.0, 90, alpha=0.1, warmup_target=0.2, warmup_steps=10),
    ),
    "exponential": (
        {
            "schedule": "exponential",
            "initial_learning_rate": 0.2,
            "decay_steps": 30,
            "decay_rate": 0.5,
            "staircase": True,
        },
        lambda: SCHEDULES.ExponentialDecay(0.2, 30, 0.5, staircase=True),
    ),
    "piecewise": (
        {"schedule": "piecewise", "boundaries": [20, 50], "values": [0.3, 0.2, 0.1]},
        lambda: SCHEDULES.PiecewiseConstantDecay([20, 50], [0.3, 0.2, 0.1]),
    ),
    "constant": (
        {"schedule": "constant", "initial_learning_rate": 0.2, "warmup_steps": 40},
        lambda: lambda step: 0.2 * min(step, 40) / 40,
    ),
}


@pytest.mark.parametrize("name", RATES)
def test_learning_rates_are_those_of_keras(name):
    raw, expected = RATES[name]
    mine = learning_rate(OptimizerConfig.model_validate({"learning_rate": raw}), 100)
    for step in (0, 1, 9, 10, 11, 20, 21, 49, 50, 51, 99, 100, 150):
        assert float(mine(step)) == pytest.approx(float(expected()(step)), rel=1e-5), step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_the_options_of_keras(name):
    """Each is tried with a value that it may have; Keras' signature says which there are."""
    values = {"amsgrad": True, "centered": True, "nesterov": True, "use_ema": True, "learning_rate_power": -0.5}
    keys = OptimizerConfig.model_fields.keys() - {"name", "learning_rate", "lazy"}
    accepted = set()
    for key in keys:
        with contextlib.suppress(ValidationError):
            OptimizerConfig.model_validate({"name": name, key: values.get(key, 0.5)})
            accepted.add(key)
    of_keras = inspect.signature(type(keras.optimizers.get(name))).parameters.keys()
    assert accepted == of_keras & keys
    assert of_keras - keys <= {
        *("kwargs", "name", "learning_rate", "ema_overwrite_frequency", "gradient_accumulation_steps"),
        *("loss_scale_factor", "l2_shrinkage_regularization_strength"),
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"optimizer": {"name": "lion", "amsgrad": True}},
            "name `lion` has no `amsgrad`; it has learning_rate, clipnorm, .*, lazy, beta_1, beta_2 ",
        ),
        (
            {
                "optimizer": {
                    "learning_rate": {"schedule": "exponential", "initial_learning_rate": 1, "decay_rate": 0.5}
                }
            },
            "schedule `exponential` needs `decay_steps`",
        ),
        (
            {"optimizer": {"learning_rate": {"schedule": "piecewise", "boundaries": [5, 3], "values": [1, 2, 3]}}},
            r"boundaries: \[5, 3\] do not rise",
        ),
        (
            {"optimizer": {"learning_rate": {"schedule": "piecewise", "boundaries": [5], "values": [1]}}},
            "values: there are 1 for 1 boundaries; write 2",
        ),
        (
            {"optimizer": {"learning_rate": {"schedule": "cosine", "initial_learning_rate": 1, "factor": 0.5}}},
            "schedule `cosine` has no `factor`",
        ),
        (
            {"optimizer": {"learning_rate": {"schedule": "plateau", "initial_learning_rate": 1, "warmup_steps": 5}}},
            "schedule `plateau` has no `warmup_steps`; it has initial_learning_rate, factor, patience, min_learning_rate",
        ),
        ({"precision": "mixed_float16"}, "no `mixed_float16`: its gradients vanish"),
        ({"class_weights": {"2": 1}}, "class_weights: the classes of `binomial` are 0 and 1"),
        ({"unseen": "reference"}, "a network has no reference levels; use `missing` or `error`"),
        ({"code": {}}, "code: name a function in a Python file by `model"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(keys, message):
    with pytest.raises(ValidationError, match=message):
        NetworkConfig.model_validate({"formula": "y ~ x", "family": "binomial"} | keys)


# Losses, metrics and callbacks ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> IngestedFile:
    split = {"train": "month <= 5", "evaluate": "month = 6"}
    return ingest_frame(flights(2050, seed=3), tmp_path_factory.mktemp("everyday"), split=split)


def design(file: IngestedFile, response: str = "late", family: str = "binomial") -> Design:
    return design_of(f"{response} ~ origin + hour + distance", family, merge([file]), [file])


CODE = """import keras
import tensorflow as tf


def focal(eta, response):
    probability = tf.sigmoid(eta)
    of_response = tf.where(response > 0, probability, 1 - probability)
    return -((1 - of_response) ** 2) * tf.math.log(of_response)


def right(eta, response):
    return tf.cast((eta > 0) == (response > 0), tf.float32)


def total(eta, response):
    return tf.reduce_sum(eta)


class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        assert set(logs) == {"loss", "val_loss", "val_right"} and self.model.count_params() > 3
        self.model.stop_training = epoch == 1


class Batches(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): ...


class Fails(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise KeyError("mine")
"""


def settings_of(**keys) -> TrainingConfig:
    raw = {"batch_size": 100, "epochs": 4, "hidden": [4], "code": {"mine.py": CODE}} | keys
    return TrainingConfig.model_validate(raw)


def training(file: IngestedFile, folder: Path, record=lambda *of_step: None, say=lambda line: None, **keys) -> Training:
    return training_of(rows_of(design(file), file), settings_of(**keys), folder, record, say)


def loss_of(of_design: Design, shares=None, **keys) -> TrainingLoss:
    start = [0.0] * len(of_design.classes.levels) if of_design.classes else 0.0
    return TrainingLoss(of_design, settings_of(**keys), TrainingCounts([], 0, 0, 1.0, OutputScale(start, 1.0), shares))


def test_weights_of_classes_and_smoothed_labels_are_those_of_keras(file):
    random = np.random.default_rng(1)
    eta, y = random.normal(size=50).astype(np.float32), random.integers(0, 2, 50).astype(np.float32)
    loss = loss_of(design(file), class_weights={"1": 3.0}, label_smoothing=0.2)
    theirs = keras.losses.BinaryCrossentropy(True, 0.2, reduction=None)(y[:, None], eta[:, None])
    np.testing.assert_allclose(loss(eta, y), theirs * np.where(y > 0, 3.0, 1.0), rtol=1e-4)

    carriers = design(file, "carrier", "multinomial")
    names = carriers.classes.levels
    eta = random.normal(size=(50, len(names))).astype(np.float32)
    y = random.integers(0, len(names), 50).astype(np.float32)
    loss = loss_of(carriers, class_weights={names[1]: 3.0}, label_smoothing=0.2)
    one_hot = keras.utils.to_categorical(y, len(names))
    theirs = keras.losses.CategoricalCrossentropy(True, 0.2, reduction=None)(one_hot, eta)
    np.testing.assert_allclose(loss(eta, y), theirs * np.where(y == 1, 3.0, 1.0), rtol=1e-4)
    with pytest.raises(UserError, match=r"networks.m.class_weights: `carrier` has no class `nobody`; there are"):
        loss_of(carriers, class_weights={"nobody": 3.0})


def test_balanced_classes_have_the_same_weight(file):
    loss = loss_of(design(file), [0.8, 0.2], class_weights="balanced")
    weights = np.asarray(loss(tf.zeros(2), tf.constant([0.0, 1.0]))) / np.log(2)
    np.testing.assert_allclose(weights * [0.8, 0.2], [0.5, 0.5], rtol=1e-6)


@pytest.mark.slow
def test_a_loss_metrics_and_callbacks_of_ones_own(file, tmp_path):
    noted: dict[str, list[float]] = {}

    def record(step: int, values: dict) -> None:
        for name, value in values.items():
            noted.setdefault(name, []).append(value)

    keys = {"loss": "mine.py:focal", "metrics": ["mine.py:right"], "callbacks": ["mine.py:Stops"]}
    trained = training(file, tmp_path, record, **keys).run()
    assert trained.summary["epochs"] == 2 and len(noted["evaluate/right"]) == 2
    assert noted["evaluate/loss"][-1] < noted["evaluate/loss"][0] < 0.3
    held_out = Units(Workload(design(file), [file], "evaluate"))
    scored = [of_shard.rows for of_shard in predict.score(held_out, trained.network)]
    eta, y, used = (np.concatenate([rows[name] for rows in scored]) for name in ("eta", "response", "weight"))
    right = ((eta > 0) == (y > 0))[used > 0].mean()
    assert noted["evaluate/right"][-1] == pytest.approx(right, abs=1e-6)
    with pytest.raises(UserError, match=r"^networks.m.callbacks: mine.py, line \d+, in on_epoch_end: KeyError: 'mine'"):
        training(file, tmp_path / "fails", callbacks=["mine.py:Fails"]).run()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"loss": "mine.py:total"},
            r"networks.m.loss: `mine.py:total` returns the shape \[\]; it has to be one number",
        ),
        ({"callbacks": ["mine.py:Batches"]}, "networks.m.callbacks: `mine.py:Batches` has `on_train_batch_end`"),
        ({"callbacks": ["mine.py:dict"]}, "networks.m.callbacks: mine.py has no function `dict`"),
        ({"class_weights": {"7": 1}}, "networks.m.class_weights: `late` has no class `7`"),
    ],
)
def test_mistakes_show_before_the_training(file, keys, message, tmp_path):
    with pytest.raises(UserError, match=message):
        check.check(design(file), settings_of(**keys), tmp_path / "checked.json")


@pytest.mark.slow
def test_the_learning_rate_falls_on_a_plateau_and_continues_there(file, tmp_path):
    plateau = {"schedule": "plateau", "initial_learning_rate": 0.5, "patience": 1, "factor": 0.1}
    keys = {"optimizer": {"name": "sgd", "learning_rate": plateau}, "epochs": 8, "checkpoints": {"steps": 10}}
    rates: dict[int, float] = {}

    def record(step: int, values: dict, until: float = np.inf) -> None:
        if "train/learning rate" in values:
            rates[step] = values["train/learning rate"]
        if step >= until:
            raise KeyboardInterrupt

    whole = training(file, tmp_path / "whole", record, **keys)
    whole.run()
    expected = dict(rates)
    assert min(expected.values()) < 0.06 < max(expected.values()) == pytest.approx(0.5)
    rates.clear()
    with pytest.raises(KeyboardInterrupt):
        training(
            file, tmp_path / "cut", lambda step, values: record(step, values, 5.5 * whole.steps_of_an_epoch), **keys
        ).run()
    training(file, tmp_path / "cut", record, **keys).run()
    assert rates == expected


@pytest.mark.slow
def test_averaged_weights_are_those_that_predict(file, tmp_path):
    keys = {"optimizer": {"name": "sgd", "learning_rate": 1.0, "use_ema": True, "ema_momentum": 0.9}, "patience": 9}
    made = training(file, tmp_path, **keys)
    trained = made.run()
    held_out = Units(Workload(design(file), [file], "evaluate"))
    reached = predict.means(held_out, trained.network)["loss"]
    assert reached == pytest.approx(trained.summary["smallest_held_out_loss"], rel=1e-6)
    assert not np.allclose(trained.network.get_weights()[0], made.network.get_weights()[0])


def test_layers_have_penalties_and_batch_normalisation(file):
    made = layers.network(
        design(file),
        LayersConfig(hidden=[4, 3], batch_normalization=True, l1=0.1, l2=0.01),
        OutputScale(0.0, 1.0),
        seed=1,
    )
    kernels = [np.asarray(weight) for weight in made.weights if weight.path.startswith("hidden") and weight.ndim == 2]
    expected = sum(0.1 * np.abs(kernel).sum() + 0.01 * (kernel**2).sum() for kernel in kernels)
    assert float(tf.add_n(made.losses)) == pytest.approx(expected, rel=1e-5)
    assert layers.mixed_over_rows(made) == ["normalised_0", "normalised_1"]


def test_a_buffer_mixes_so_many_rows():
    assert rows_at_once(100, 5, 250) == 200 and rows_at_once(100, 5, 3) == 100
    assert rows_at_once(512, 5) == 2**17


@pytest.mark.slow
def test_hidden_layers_compute_in_bfloat16_and_all_else_in_float32(file, tmp_path):
    made = {
        precision: training(file, tmp_path / precision, precision=precision, epochs=2, hidden=[16], wide=True).run()
        for precision in ("float32", "mixed_bfloat16")
    }
    half = made["mixed_bfloat16"].network
    assert {variable.dtype for variable in half.weights} == {"float32"} and half.output.dtype == "float32"
    assert half.get_layer("hidden_0").compute_dtype == "bfloat16" and half.get_layer("wide").compute_dtype == "float32"
    losses = [each.summary["loss"] for each in made.values()]
    assert losses[0] != losses[1] and losses[1] == pytest.approx(losses[0], abs=2e-3)
    assert keras.config.dtype_policy().name == "float32"

    settings = settings_of(precision="mixed_bfloat16", hidden=[16], wide=True)
    stored.save(half, settings, tmp_path / "checkpoint")
    fit = made["mixed_bfloat16"].summary | {"layers": settings.model_dump(include=set(LayersConfig.model_fields))}
    units = Units(Workload(design(file), [file], "evaluate"))
    loaded = stored.load(design(file), fit, tmp_path / "checkpoint")
    for mine, theirs in zip(predict.score(units, half), predict.score(units, loaded), strict=True):
        np.testing.assert_array_equal(mine.rows["eta"], theirs.rows["eta"])

    shared = SharedWeights(half, 2, "networks.m", large=6)
    (batch, *_) = Batches(units, settings).epochs(0, 1)
    eta, _, _ = shared.outcome(shared.pull(batch), batch, tf.constant(0))
    np.testing.assert_allclose(eta, half([batch.groups, batch.numbers]), rtol=1e-6)
