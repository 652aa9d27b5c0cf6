"""The update rules of the online solvers: the effect of one batch on the weights and on the memory of the solver.

The state is a float array [slots, coefficients]. A rule receives the gradient of the mean loss of the batch, and adds the
penalties of the objective of docs/statistics.md itself: `l1` and `l2` are the penalties of each coefficient (0 for the
intercept).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tfglm.engine import kernels

State = Sequence[np.ndarray]
"""The slots, each [coefficients]."""


class Penalty(NamedTuple):
    """Penalties, each [coefficients]."""

    l1: np.ndarray
    l2: np.ndarray


class Optimiser:
    """An update rule. `slots` are what it remembers, each 0 at the start but the first, which `start` sets: by default the
    weights."""

    slots: ClassVar[int]
    learning_rate: ClassVar[float]
    """Its default."""
    decay: ClassVar[float]
    """Its default: the learning rate is divided by 1 + decay * epochs."""

    def start(self, weights: np.ndarray, rate: float, penalty: Penalty) -> State:
        """The state before the first step, from the weights to begin with."""
        return [weights, *[np.zeros_like(weights)] * (self.slots - 1)]

    def weights(self, state: State, rate, step, penalty: Penalty) -> np.ndarray:
        """The weights after `step` steps."""
        return state[0]

    def update(self, state: State, weights: np.ndarray, gradient: np.ndarray, rate, step, penalty: Penalty) -> State:
        """Return the slots after one more step, number `step` from 1, at the learning rate `rate`. `gradient` is that of the
        mean loss of the batch at `weights`, without penalties, [coefficients]."""
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(Optimiser):
    """w -= rate * g."""

    slots: ClassVar[int] = 1
    learning_rate: ClassVar[float] = 1.0
    decay: ClassVar[float] = 1.0

    def update(self, state: State, weights: np.ndarray, gradient: np.ndarray, rate, step, penalty: Penalty) -> State:
        return [weights - rate * (gradient + penalty.l2 * weights)]


@dataclass(frozen=True)
class Adagrad(Optimiser):
    """n += g^2, w -= rate * g / sqrt(n + epsilon): Duchi, Hazan & Singer, JMLR 12 (2011); as Keras writes it, with nothing to
    begin with in n."""

    slots: ClassVar[int] = 2
    learning_rate: ClassVar[float] = 0.2
    decay: ClassVar[float] = 0.0
    epsilon: float = 1e-7

    def update(self, state: State, weights: np.ndarray, gradient: np.ndarray, rate, step, penalty: Penalty) -> State:
        after, squares = np.empty((2, *weights.shape), weights.dtype)
        kernels.adagrad(weights, state[1], gradient, penalty.l2, rate, self.epsilon, after, squares)
        return [after, squares]


@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma & Ba, ICLR 2015, in the form at the end of their section 2, which is Keras'."""

    slots: ClassVar[int] = 3
    learning_rate: ClassVar[float] = 0.01
    decay: ClassVar[float] = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7

    def update(self, state: State, weights: np.ndarray, gradient: np.ndarray, rate, step, penalty: Penalty) -> State:
        gradient = gradient + penalty.l2 * weights
        first = state[1] + (1 - self.beta1) * (gradient - state[1])
        second = state[2] + (1 - self.beta2) * (gradient * gradient - state[2])
        rate = rate * np.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
        return [weights - rate * first / (np.sqrt(second) + self.epsilon), first, second]


@dataclass(frozen=True)
class FTRL(Optimiser):
    """Follow the regularised leader, with proximal steps.

    The weights minimise g_1:t w + t (l1 |w| + l2 / 2 w^2) + sum_s sigma_s / 2 (w - w_s)^2, where the sum of the sigma is
    (beta + sqrt(n)) / rate.

    This is algorithm 1 of McMahan et al., KDD 2013. As in McMahan, AISTATS 2011, the penalty counts once per step, so it is
    a penalty beside the mean loss, not beside a single step.
    """

    slots: ClassVar[int] = 2
    learning_rate: ClassVar[float] = 0.2
    decay: ClassVar[float] = 0.0
    beta: float = 1e-3

    def start(self, weights: np.ndarray, rate: float, penalty: Penalty) -> State:
        return [-weights * self.beta / rate, np.zeros_like(weights)]

    def weights(self, state: State, rate, step, penalty: Penalty) -> np.ndarray:
        z, n = state
        shrunk = np.sign(z) * np.maximum(np.abs(z) - step * penalty.l1, 0.0)
        return -shrunk / ((self.beta + np.sqrt(n)) / rate + step * penalty.l2)

    def update(self, state: State, weights: np.ndarray, gradient: np.ndarray, rate, step, penalty: Penalty) -> State:
        z, n = state
        squares = n + gradient * gradient
        sigma = (np.sqrt(squares) - np.sqrt(n)) / rate
        return [z + gradient - sigma * weights, squares]


OPTIMISERS: dict[str, Optimiser] = {"sgd": SGD(), "adagrad": Adagrad(), "adam": Adam(), "ftrl": FTRL()}
