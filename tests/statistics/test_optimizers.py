"""A step of each optimizer from its publication, in float64: the weights after the gradients of `GRADIENTS`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfglm.config import OptimizerConfig
from tfglm.networks.optimizers import optimizer

GRADIENTS = np.array([[0.5, -2.0, 0.01], [-0.1, 1.0, 0.3], [0.2, -0.7, 0.0]])


def sgd(w, rate=0.1, momentum=0.9, nesterov=True):
    """Sutskever, Martens, Dahl & Hinton 2013."""
    velocity = np.zeros(3)
    for g in GRADIENTS:
        velocity = momentum * velocity - rate * g
        w = w + (momentum * velocity - rate * g if nesterov else velocity)
    return w


def adam(w, rate=0.1, beta_1=0.8, beta_2=0.9, epsilon=1e-4):
    """Kingma & Ba 2015, section 2 at the end, and the largest second moment of Reddi, Kale & Kumar 2018."""
    first, second, largest = np.zeros((3, 3))
    for step, g in enumerate(GRADIENTS, start=1):
        first = beta_1 * first + (1 - beta_1) * g
        second = beta_2 * second + (1 - beta_2) * g**2
        largest = np.maximum(largest, second)
        w = w - rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step) * first / (np.sqrt(largest) + epsilon)
    return w


def adagrad(w, rate=0.1, initial=0.2, epsilon=1e-4):
    """Duchi, Hazan & Singer 2011."""
    squares = np.full(3, initial)
    for g in GRADIENTS:
        squares = squares + g**2
        w = w - rate * g / np.sqrt(squares + epsilon)
    return w


def rmsprop(w, rate=0.1, rho=0.8, epsilon=1e-4):
    """Hinton's lecture 6e, 2012."""
    squares = np.zeros(3)
    for g in GRADIENTS:
        squares = rho * squares + (1 - rho) * g**2
        w = w - rate * g / np.sqrt(squares + epsilon)
    return w


def ftrl(w, rate=0.1, initial=0.2, l1=0.05, l2=0.1):
    """Algorithm 1 of McMahan et al. 2013. Keras counts half of what the
    paper calls lambda_2."""
    squares = np.full(3, initial)
    z = np.zeros(3)
    for g in GRADIENTS:
        sigma = (np.sqrt(squares + g**2) - np.sqrt(squares)) / rate
        z, squares = z + g - sigma * w, squares + g**2
        w = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / (np.sqrt(squares) / rate + 2 * l2))
    return w


STEPS = {
    "sgd": (sgd, {"momentum": 0.9, "nesterov": True}),
    "adam": (adam, {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-4, "amsgrad": True}),
    "adagrad": (adagrad, {"initial_accumulator_value": 0.2, "epsilon": 1e-4}),
    "rmsprop": (rmsprop, {"rho": 0.8, "epsilon": 1e-4}),
    "ftrl": (
        ftrl,
        {"initial_accumulator_value": 0.2, "l1_regularization_strength": 0.05, "l2_regularization_strength": 0.1},
    ),
}


def taken(name: str, start: np.ndarray, gradients: list) -> np.ndarray:
    """The weights after steps with these gradients."""
    variable = keras.Variable(start, dtype="float32")
    made = optimizer(OptimizerConfig.model_validate({"name": name, "learning_rate": 0.1, **STEPS[name][1]}), 1)
    made.build([variable])
    for gradient in gradients:
        made.apply_gradients([(gradient, variable)])
    return np.asarray(variable)


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_those_of_the_published_formulas(name):
    start = np.array([1.0, -0.5, 0.25])
    weights = taken(name, start, [tf.constant(gradient, tf.float32) for gradient in GRADIENTS])
    np.testing.assert_allclose(weights, STEPS[name][0](start), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", STEPS)
def test_the_gradient_of_a_level_is_that_of_all_its_rows(name):
    """As an embedding has it: three rows of a batch, of which the first and the last have the same level."""
    start = np.array([1.0, -0.5, 0.25])
    gradients = [
        tf.IndexedSlices(
            tf.constant(np.stack([0.25 * gradient, gradient[::-1], 0.75 * gradient]), tf.float32),
            tf.constant([0, 2, 0]),
            tf.constant([3, 3]),
        )
        for gradient in GRADIENTS
    ]
    weights = taken(name, np.stack([start] * 3), gradients)
    np.testing.assert_allclose(weights[0], STEPS[name][0](start), rtol=2e-5, atol=1e-6)
    alone = taken(name, np.stack([start]), [tf.constant(gradient[None, ::-1], tf.float32) for gradient in GRADIENTS])
    np.testing.assert_allclose(weights[2], alone[0], rtol=2e-5, atol=1e-6)


LEVELS = 6
NAMES = ["sgd", "adam", "adamw", "nadam", "adamax", "lion", "adagrad", "adadelta", "rmsprop", "ftrl"]
MOVING = {
    "sgd": {"momentum": 0.9, "nesterov": True},
    "adam": {"amsgrad": True},
    "rmsprop": {"centered": True, "momentum": 0.5},
    "ftrl": {"l1_regularization_strength": 0.01},
}
"""Options with which an optimizer keeps more state."""


def sparse(rows: np.ndarray, levels: list[int]) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(rows, tf.float32), tf.constant(levels), tf.constant([LEVELS, rows.shape[1]]))


def embedded(name: str, lazy: bool, batches: list[list[int]], start: np.ndarray, **options) -> np.ndarray:
    """An embedding after steps with such levels in their batches, and gradients at random."""
    settings = OptimizerConfig.model_validate({"name": name, "learning_rate": 0.1, "lazy": lazy} | options)
    made, table = optimizer(settings, 1), keras.Variable(start, dtype="float32")
    made.build([table])
    step = tf.function(
        lambda gradient: made.apply_gradients([(gradient, table)]), autograph=False, reduce_retracing=True
    )
    random = np.random.default_rng(2)
    for levels in batches:
        step(sparse(random.normal(size=(len(levels), 2)), levels))
    return np.asarray(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_steps_by_rows_are_those_of_the_whole_table_if_each_batch_has_all_levels(name):
    start = np.random.default_rng(3).normal(size=(LEVELS, 2))
    batches = [[*range(LEVELS), 2, 4], [*reversed(range(LEVELS))], [5, *range(LEVELS)]]
    options = {"weight_decay": 0.05} | MOVING.get(name, {})
    both = [embedded(name, lazy, batches, start, **options) for lazy in (True, False)]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-5, atol=1e-6)
    assert np.abs(both[0] - start).min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_step_by_rows_changes_the_rows_of_its_batch_alone(name):
    start = np.random.default_rng(3).normal(size=(LEVELS, 2))
    options = {"weight_decay": 0.05} | MOVING.get(name, {})
    table = embedded(name, True, [[1, 4, 1], [4], [1, 4]], start, **options)
    changed = np.abs(table - start.astype(np.float32)).min(axis=1) > 0
    assert changed.tolist() == [level in (1, 4) for level in range(LEVELS)]
    if name in ("adam", "sgd", "rmsprop"):
        # A row has its momentum between its steps, which the whole table would apply meanwhile.
        whole = embedded(name, False, [[1, 4, 1], [4], [1, 4]], start, **options)
        assert np.abs(whole[1] - table[1]).max() > 1e-3


@pytest.mark.parametrize(("name", "start"), [("sgd", 1.0), ("adagrad", 1.0), ("ftrl", 0.0)])
def test_without_momentum_steps_by_rows_are_those_of_the_whole_table(name, start):
    """Those of ftrl from 0 on: a step of Keras sets rows that no batch has had to 0."""
    batches = [[0, 3, 3], [1], [3, 5], [0, 1]]
    both = [embedded(name, lazy, batches, np.full((LEVELS, 2), start)) for lazy in (True, False)]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-6, atol=1e-7)


BATCHES = [[0, 3, 3], [1], [3, 5], [0, 1], [5], [5, 5], [3], [1, 0]]
"""Level 4 is in none, and 2 in the last step only."""


@pytest.mark.parametrize(("name", "keys"), [("sgd", {}), ("adagrad", {}), ("sgd", {"clipvalue": 0.2})])
def test_averages_by_rows_are_those_of_keras(name, keys):
    """Of optimizers whose steps by rows are those of the whole table, against Keras' own optimizer with whole gradients."""
    options = {"name": name, "learning_rate": 0.1, "use_ema": True, "ema_momentum": 0.8} | keys
    start = np.random.default_rng(3).normal(size=(LEVELS, 2))
    tables = [keras.Variable(start, dtype="float32") for _ in range(2)]
    made = optimizer(OptimizerConfig.model_validate(options | {"lazy": True}), 1)
    theirs = keras.optimizers.get(
        {"class_name": name, "config": {key: options[key] for key in options if key != "name"}}
    )
    made.build(tables[:1])
    theirs.build(tables[1:])
    step = tf.function(
        lambda gradient: made.apply_gradients([(gradient, tables[0])]), autograph=False, reduce_retracing=True
    )
    random = np.random.default_rng(2)
    for levels in [*BATCHES, [2]]:
        gradient = sparse(random.normal(size=(len(levels), 2)), levels)
        step(gradient)
        theirs.apply_gradients([(tf.convert_to_tensor(gradient), tables[1])])
        np.testing.assert_allclose(
            made.averages()[0], np.asarray(theirs._model_variables_moving_average[0]), rtol=2e-6, atol=1e-7
        )
    np.testing.assert_allclose(np.asarray(tables[0]), np.asarray(tables[1]), rtol=1e-6, atol=1e-7)
    # An average that no batch has had yet is that of a weight that has not moved.
    np.testing.assert_array_equal(made.averages()[0][4], np.asarray(tables[0])[4])


@pytest.mark.parametrize("whole", [False, True])
def test_averages_by_rows_contain_each_step(whole):
    """With momentum, against the recurrence over the whole table, in float64."""
    settings = OptimizerConfig.model_validate({"name": "adam", "lazy": True, "use_ema": True, "ema_momentum": 0.7})
    made, table = optimizer(settings, 1), keras.Variable(np.zeros((LEVELS, 2), np.float32))
    made.build([table])
    average, random = np.zeros((LEVELS, 2)), np.random.default_rng(4)
    for number, levels in enumerate(BATCHES):
        gradient = sparse(random.normal(size=(len(levels), 2)), levels)
        made.apply_gradients([(tf.convert_to_tensor(gradient) if whole else gradient, table)])
        momentum = 0.7 if number else 0.0
        average = momentum * average + (1 - momentum) * np.asarray(table, np.float64)
        np.testing.assert_allclose(made.averages()[0], average, rtol=1e-5, atol=1e-9)
    # By rows the stored average of a row is older.
    is_older = np.abs(np.asarray(made._model_variables_moving_average[0]) - average).max() > 1e-5
    assert is_older != whole


def test_only_large_embeddings_are_changed_by_rows_unless_the_config_says_so():
    by_rows = {lazy: optimizer(OptimizerConfig(lazy=lazy), 1).by_rows_from for lazy in (None, True, False)}
    assert by_rows == {None: 2**16, True: 0, False: float("inf")}
