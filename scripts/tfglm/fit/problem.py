"""What is minimised, and where a search for its minimum stands."""

from dataclasses import dataclass

import numpy as np

from tfglm.fit.information import Blocks, assemble, gradient
from tfglm.model.design import Design
from tfglm.model.families import FAMILIES
from tfglm.model.passes import Sums
from tfglm.model.workload import Workload

SHORTEST_STEP = 2.0**-20

FRESH = 1e-6
"""How far any linear predictor may move until the information has to be summed anew before it is reported: its weights change
by no greater share."""

FAR = 0.005
"""How far the linear predictors may move, in quadratic mean, while an older information matrix is good enough for the next step:
each leaves about this share of the error, and costs a third of one with a new matrix."""


@dataclass(frozen=True)
class State:
    """Where the iteration stands: the coefficients, and the sums of a gradient or information pass there."""

    coefficients: np.ndarray
    sums: Sums


@dataclass(frozen=True)
class Problem:
    """What is minimised: the loss of the workload's rows, and strength * b^2 / 2 + threshold * |b| for each coefficient, over the
    free ones. `mass` is the weight of all rows."""

    workload: Workload
    pool: object
    free: np.ndarray
    strength: np.ndarray
    threshold: np.ndarray
    mass: float

    def at(self, coefficients: np.ndarray, sums: str = "information") -> State:
        return State(coefficients, self.workload.sum(self.pool, sums, self.workload.design.by_term(coefficients)))

    def objective(self, state: State) -> float:
        penalty = 0.5 * self.strength @ state.coefficients**2 + self.threshold @ np.abs(state.coefficients)
        return float(state.sums["loss"]) + float(penalty)

    def gradient(self, state: State) -> np.ndarray:
        """Of the loss and the ridge penalty, by the free coefficients; 0 for the others."""
        found = gradient(self.workload.design, state.sums) + self.strength * state.coefficients
        return np.where(self.free, found, 0.0)

    def blocks(self, state: State) -> Blocks:
        return assemble(self.workload.design, state.sums, self.free).penalised(self.strength)


@dataclass(frozen=True)
class Since:
    """What has happened since the information was summed: how far the linear predictors have moved, at most and in quadratic
    mean; how far at most in the last step, and lambda^2 before it; and how far they may move in the next step."""

    largest: float = 0.0
    mean: float = 0.0
    last: float = 0.0
    decrement: float = np.inf
    next: float = 0.0

    def moved(self, largest: float, mean: float, decrement: float) -> "Since":
        ratio = max(self.mean + mean, largest / self.last if self.last else 0.0)
        return Since(self.largest + largest, self.mean + mean, largest, decrement, largest * ratio)


def movement(design: Design, step: np.ndarray) -> float:
    """How far a step moves a linear predictor at most, numbers being one standard deviation from their mean; 0 where weights do
    not follow from it."""
    if design.family == "gaussian":
        return 0.0
    return sum(float(np.abs(step[part.where]).max(initial=0.0)) for part in design.parts)


def dispersion(design: Design, sums: Sums, df_residual: float) -> float:
    """1 where the family knows it; else the residual variance RSS / (n - p)."""
    return 1.0 if FAMILIES[design.family].dispersion_known else 2 * float(sums["loss"]) / df_residual
