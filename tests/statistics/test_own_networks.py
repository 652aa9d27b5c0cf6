"""Networks whose layers the user builds: their state, their errors, and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_models import flights

from pools import design_of, ingest_frame
from tfglm.config import LayersConfig, TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.networks import check, layers, predict, stored
from tfglm.networks.layers import OutputScale
from tfglm.networks.pipeline import Batches
from tfglm.networks.rows import RESPONSE, WEIGHT, Units
from tfglm.networks.shared_weights import SharedWeights
from tfglm.networks.training import Training
from trainings import rows_of, training_of

FORMULA = "late ~ carrier + origin + hour + distance"
BUILD = """import keras


def build(inputs, settings):
    embedded = [
        keras.layers.Embedding(inputs.sizes[name], 3)(levels) for name, levels in inputs.levels.items()
    ]
    deep = keras.layers.Concatenate()([*inputs.numbers.values(), *embedded])
    deep = keras.layers.BatchNormalization(momentum=0.9)(keras.layers.Dense(settings["units"])(deep))
    deep = keras.layers.Dropout(settings.get("dropout", 0.0))(keras.layers.Activation("relu")(deep))
    return keras.layers.Dense(inputs.outputs, kernel_regularizer=keras.regularizers.L2(settings.get("l2", 0.0)))(deep)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> IngestedFile:
    split = {"train": "month <= 5", "evaluate": "month = 6"}
    return ingest_frame(flights(3050, seed=3), tmp_path_factory.mktemp("own"), split=split)


@pytest.fixture(scope="module")
def design(file) -> Design:
    return design_of(FORMULA, "binomial", merge([file]), [file])


def settings_of(code: str = BUILD, **keys) -> TrainingConfig:
    raw = {"model": "mine.py:build", "settings": {"units": 6}, "batch_size": 100, "epochs": 2} | keys
    return TrainingConfig.model_validate(raw | {"code": {"mine.py": code}})


def training(file, design, folder: Path, record=lambda *of_step: None, **keys) -> Training:
    return training_of(rows_of(design, file), settings_of(**keys), folder, record)


def built(design: Design, code: str = BUILD, **keys) -> keras.Model:
    return layers.network(design, settings_of(code, **keys), OutputScale(-0.5, 1.0), seed=4)


RUNNING = """import keras


class Running(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(name="mean", shape=shape[-1:], trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, axis=0))
        return inputs - self.mean


def build(inputs, settings):
    known = keras.layers.Normalization(mean=0.5, variance=2.0)(keras.layers.Concatenate()([*inputs.numbers.values()]))
    deep = keras.layers.BatchNormalization()(keras.layers.Dropout(0.2)(keras.layers.Dense(4)(known)))
    return keras.layers.Dense(inputs.outputs)(Running(name="running")(deep) if settings["runs"] else deep)
"""


@pytest.mark.slow
def test_a_state_that_each_device_computes_is_remarked_on(file, design, tmp_path):
    for runs in (False, True):
        keys = {"code": RUNNING, "settings": {"runs": runs}}
        assert layers.with_state(built(design, **keys)) == ["running/mean"] * runs
        assert training(file, design, tmp_path / str(runs), **keys).remarks == []  # on one device
    on_two = SimpleNamespace(_strategy=SimpleNamespace(num_replicas_in_sync=2))
    (remark,) = Training._remarks_on(on_two, ["running/mean"])
    assert remark.startswith("each of 2 devices computes `running/mean` from its part of a batch")


class Interrupted(Exception):
    pass


@pytest.mark.slow
def test_state_and_random_numbers_survive_an_interruption_and_storing(file, design, tmp_path):
    keys = {"settings": {"units": 6, "dropout": 0.3, "l2": 0.01}, "patience": 5, "checkpoints": {"steps": 7}}
    whole = training(file, design, tmp_path / "whole", **keys).run().network

    def stop(step: int, values: dict) -> None:
        if step >= 20:
            raise Interrupted

    with pytest.raises(Interrupted):
        training(file, design, tmp_path / "cut", record=stop, report_every=20, **keys).run()
    trained = training(file, design, tmp_path / "cut", **keys).run()
    for mine, theirs in zip(trained.network.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    means = next(weight for weight in whole.weights if weight.name == "moving_mean")
    assert np.abs(np.asarray(means)).max() > 0.01

    settings = settings_of(**keys)
    stored.save(whole, settings, tmp_path / "checkpoint")
    fit = trained.summary | {"layers": settings.model_dump(include=set(LayersConfig.model_fields))}
    loaded = stored.load(design, fit, tmp_path / "checkpoint")
    units = Units(Workload(design, [file], "evaluate"))
    for mine, theirs in zip(predict.score(units, whole), predict.score(units, loaded), strict=True):
        np.testing.assert_array_equal(mine.rows["eta"], theirs.rows["eta"])


@pytest.mark.slow
def test_a_step_on_servers_changes_state_as_one_device_does(file, design):
    settings = settings_of(settings={"units": 6, "l2": 0.1})
    alone, copied = (layers.network(design, settings, OutputScale(-0.5, 1.0), seed=4) for _ in range(2))
    shared = SharedWeights(copied, 2, "networks.m", large=6)
    assert len(shared.tables) == 2 and len(shared.state) == 1
    optimizers = [keras.optimizers.SGD(0.5) for _ in range(2)]
    optimizers[0].build(shared.variables)
    optimizers[1].build(alone.trainable_variables)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    units = Units(Workload(design, [file], "train"))

    def loss_of(eta, batch):
        return tf.reduce_sum(batch.share * FAMILIES["binomial"].tensor_loss(tf, eta, batch.numbers[:, RESPONSE]))

    def of_shared(batch):
        pulled = shared.pull(batch)
        with tf.GradientTape() as tape:
            tape.watch([pulled.vector, pulled.rows])
            eta, state, penalties = shared.outcome(pulled, batch, tf.constant(0))
            loss = loss_of(eta, batch) + tf.add_n(penalties)
        vector, rows = tape.gradient(loss, [pulled.vector, pulled.rows])
        shared.change_state([new - old for new, old in zip(state, pulled.state, strict=True)])
        gradients = shared.gradients(pulled.levels, vector, rows)
        optimizers[0].apply_gradients(zip(gradients, shared.variables, strict=True))

    def of_network(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(alone([batch.groups, batch.numbers], training=True), batch) + tf.add_n(alone.losses)
        gradients = tape.gradient(loss, alone.trainable_variables)
        optimizers[1].apply_gradients(zip(gradients, alone.trainable_variables, strict=True))

    for batch in list(Batches(units, settings).epochs(0, 1))[:5]:
        strategy.run(of_shared, (batch,))
        strategy.run(of_network, (batch,))
    shared.copy()
    for mine, theirs in zip(copied.weights, alone.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_layers_on_servers_draw_other_random_numbers_in_each_step(file, design):
    """In a graph, as workers run it."""
    settings = settings_of(settings={"units": 6, "dropout": 0.5})
    shared = SharedWeights(layers.network(design, settings, OutputScale(-0.5, 1.0), seed=4), 2, "networks.m", large=6)
    batch = next(iter(Batches(Units(Workload(design, [file], "train")), settings).epochs(0, 1)))
    outcome = tf.function(lambda step: shared.outcome(shared.pull(batch), batch, step)[0], autograph=False)
    steps = [outcome(tf.constant(step)).numpy() for step in (0, 0, 1)]
    np.testing.assert_array_equal(steps[0], steps[1])
    assert np.abs(steps[0] - steps[2]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3])
def test_rows_are_ordered_after_layers_are_built_with_any_seed(file, design, seed):
    layers.network(design, settings_of(), OutputScale(-0.5, 1.0), seed=seed)
    units = Units(Workload(design, [file], "train"))
    batches = list(Batches(units, settings_of(seed=seed)).epochs(0, 1))
    again = list(Batches(units, settings_of(seed=seed)).epochs(0, 1))
    assert len(batches) > 10
    np.testing.assert_equal([batch.numbers.numpy() for batch in batches], [batch.numbers.numpy() for batch in again])


def test_the_last_batch_is_filled_with_copies_of_its_rows(file, design):
    units = Units(Workload(design, [file], "train"))
    *_, last = Batches(units, settings_of()).epochs(0, 1)
    filled = last.numbers[:, WEIGHT].numpy() == 0
    assert filled.any()
    known = {row.tobytes() for row in units.train(0).numbers[:, :WEIGHT]}
    assert {row.tobytes() for row in last.numbers.numpy()[filled, :WEIGHT]} <= known
    assert (last.share.numpy()[filled] == 0).all()


def test_inputs_have_the_names_of_the_formula(file):
    design = design_of("late ~ carrier * hour + origin:carrier + bs(distance, 5)", "binomial", merge([file]), [file])
    _, inputs = layers.inputs_of(design, 1)
    assert {name: tensor.shape[1] for name, tensor in inputs.numbers.items()} == {"hour": 1, "bs(distance, 5)": 5}
    assert inputs.sizes == {":".join(names): design.levels_of(names) for names in design.groupings}
    assert set(inputs.levels) == set(inputs.sizes) and "carrier" in inputs.levels and not inputs.images
    assert inputs.all_numbers.shape == (None, 6)


MODELS = {
    "a functional model": "return keras.Model([inputs.levels['carrier'], inputs.numbers['hour']], "
    "keras.layers.Dense(1)(inputs.numbers['hour']))",
    "with inputs of its own": "own = keras.Input((1,), name='hour')\n    "
    "return keras.Model({'hour': own}, keras.layers.Dense(1)(own))",
    "a class": "return Mine()",
    "one number a row": "return keras.layers.Dense(1)(inputs.numbers['hour'])[:, 0]",
}
MINE = """import keras


class Mine(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs["hour"])


def build(inputs, settings):
    """


@pytest.mark.parametrize("returned", MODELS)
def test_a_function_may_return_a_whole_model(file, design, returned):
    network = built(design, MINE + MODELS[returned])
    rows = Units(Workload(design, [file], "train")).train(0)
    kernel, bias = network.get_weights()
    hour = rows.numbers[:, list(layers.inputs_of(design, 1)[1].numbers).index("hour")]
    np.testing.assert_allclose(network([rows.groups, rows.numbers]), hour * kernel[0, 0] + bias - 0.5, rtol=1e-5)


HEAD = "import keras\nimport numpy\n\n\ndef build(inputs, settings):\n    "
DENSE = "keras.layers.Dense(1)(inputs.all_numbers)"
REFUSED = {
    "return keras.layers.Dense(2)(inputs.all_numbers)": r"returns the shape \[rows, 2\]; it has to be \[rows, 1\]",
    f"return [{DENSE}, {DENSE}]": "returns 2 outputs; return one tensor",
    f"{DENSE}": "returns nothing; return a Keras tensor",
    "return numpy.zeros(3)": "returns a ndarray; return a Keras tensor",
    "return inputs.offset": "builds no layer with weights to train",
    "return keras.layers.Dense(1, bias_initializer=keras.initializers.Constant(numpy.nan))(inputs.all_numbers)": (
        "the first weights of `.*bias` are not finite"
    ),
    "return keras.layers.Dense(1)(inputs.numbers['huor'])": (
        r"mine.py, line 6, in build: KeyError: 'huor'\n    return keras.layers.Dense"
    ),
    "return keras.layers.Dense(1)(inputs.all_numbers + keras.ops.zeros((7, 7)))": (
        r"mine.py, line 6, in build: ValueError: .*\[7, 7\]"
    ),
    "raise SystemExit": r"mine.py, line 6, in build: SystemExit\n    raise SystemExit",
    "return keras.Model(keras.Input((1,), name='nothing'), keras.layers.Dense(1)(keras.Input((1,))))": "mine.py",
    "own = keras.Input((1,), name='tail')\n    return keras.Model(own, keras.layers.Dense(1)(own))": (
        "a model with the input `tail`; there are hour, distance, carrier, origin, offset"
    ),
    "dense = keras.layers.Dense(3)(inputs.all_numbers)\n    return keras.layers.Dense(1)(keras.ops.stop_gradient(dense))": (
        "the loss does not depend on the weights `dense.*/kernel`"
    ),
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_a_function_may_not_return_is_refused_by_name(design, body, tmp_path):
    settings = settings_of(HEAD + body)
    with pytest.raises(UserError, match=f"^networks.m.model: .*{REFUSED[body]}"):
        check.check(design, settings, tmp_path / "checked.json")
    assert not (tmp_path / "checked.json").exists()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nothing_like_it\n", "mine.py, line 1: ModuleNotFoundError: .*nothing_like_it"),
        ("build = 3\n", "mine.py has no function `build`"),
        ("def build(inputs, settings):\n    return settings['depth']\n", "line 2, in build: KeyError: 'depth'"),
        (
            MINE.replace("hour", "huor") + "return Mine()",
            "line 10, in call: KeyError: Exception .*\nCould not .*'huor'\n",
        ),
    ],
)
def test_errors_of_the_file_are_the_users_own_and_come_alone(design, code, message, recwarn):
    with pytest.raises(UserError, match=rf"(?s)^networks.m.model: .*{message}"):
        built(design, code)
    assert not [warning for warning in recwarn if warning.category is UserWarning]


def test_a_warning_of_a_function_that_works_is_shown(design):
    code = HEAD.replace("import numpy", "import warnings") + f"warnings.warn('few units')\n    return {DENSE}"
    with pytest.warns(UserWarning, match="few units"):
        built(design, code)


def test_what_servers_cannot_keep_is_refused(design, tmp_path):
    keys = {"strategy": "parameter_server"}
    code = HEAD + "return keras.layers.Dense(1, kernel_constraint='non_neg')(inputs.all_numbers)"
    with pytest.raises(UserError, match=r"networks.m.strategy: `.*kernel` has a constraint"):
        check.check(design, settings_of(code, **keys), tmp_path / "checked.json")
