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
    made = optimizer(OptimizerConfig.model_validate({"name": name, "learning_rate": 0.1, **STEPS[name][1]}))
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


def test_what_an_optimizer_does_not_have_is_refused():
    with pytest.raises(ValueError, match="`sgd` has no `amsgrad`; beside learning_rate it has momentum, nesterov"):
        OptimizerConfig(name="sgd", amsgrad=True)
