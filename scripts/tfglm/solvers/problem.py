"""What is minimised, and where a search for its minimum stands."""

from dataclasses import dataclass

import numpy as np

from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.families import FAMILIES
from tfglm.solvers.information import Blocks, assemble, gradient

SHORTEST_STEP = 2.0**-20

FRESH = 1e-7
"""How far any linear predictor may move until the information has to be summed anew before it is reported: its weights change
by no greater share."""

SHORT = FRESH / 10
"""How far a step may be likely to go, for which the information is summed before it: rare groups go further than is foretold."""

MOST_STEPS = 5
"""With an older information matrix, until they are SHORT: one with a new matrix leaves about the square of the error that it
finds, and costs two to four times as much."""


@dataclass(frozen=True)
class State:
    """Where the iteration stands: the coefficients, and what a pass has summed there: the loss, its derivative by each
    coefficient, the sum of m * (y - mean)^2 / variance, and the blocks of the information matrix, if it has."""

    coefficients: np.ndarray
    loss: float
    slope: np.ndarray
    pearson: float
    blocks: Blocks | None = None


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
        design = self.workload.design
        found = self.workload.sum(self.pool, sums, design.by_term(coefficients))
        # What else there is for the information matrix is as large as that, and is not kept beside it.
        blocks = assemble(design, found, self.free) if sums == "information" else None
        return State(coefficients, float(found["loss"]), gradient(design, found), float(found["pearson"]), blocks)

    def objective(self, state: State) -> float:
        penalty = 0.5 * self.strength @ state.coefficients**2 + self.threshold @ np.abs(state.coefficients)
        return state.loss + float(penalty)

    def gradient(self, state: State) -> np.ndarray:
        """Of the loss and the ridge penalty, by the free coefficients; 0 for the others."""
        return np.where(self.free, state.slope + self.strength * state.coefficients, 0.0)


@dataclass(frozen=True)
class Since:
    """What has happened since the information was summed: how far the linear predictors have moved, at most and in quadratic
    mean; how far at most in the last step, and lambda^2 before it; and what share of it the next step is likely to be."""

    largest: float = 0.0
    mean: float = 0.0
    last: float = 0.0
    decrement: float = np.inf
    ratio: float = 0.0

    def moved(self, largest: float, mean: float, decrement: float) -> "Since":
        # The share of the error that a step leaves is about that by which the weights have changed.
        ratio = max(self.mean + mean, largest / self.last if self.last else 0.0)
        return Since(self.largest + largest, self.mean + mean, largest, decrement, ratio)

    @property
    def is_fresh(self) -> bool:
        """Whether the information is the same there as where it was summed."""
        return self.largest <= FRESH

    @property
    def steps_left(self) -> float:
        """How many more steps with this information it is likely to take until one is SHORT."""
        if self.last <= SHORT or self.ratio == 0.0:
            return float(self.last > SHORT)
        return float(np.ceil(np.log(SHORT / self.last) / np.log(self.ratio))) if self.ratio < 1.0 else np.inf


def movement(design: Design, step: np.ndarray) -> float:
    """How far a step moves a linear predictor at most, numbers being one standard deviation from their mean; 0 where weights do
    not follow from it."""
    if FAMILIES[design.family].quadratic:
        return 0.0
    return sum(float(np.abs(step[part.where]).max(initial=0.0)) for part in design.parts)


def is_perfect(design: Design, state: State, blocks: Blocks) -> bool:
    """Whether the residuals of a linear regression are rounding errors: then the dispersion is one too. (R's summary.lm warns of
    an essentially perfect fit where the residual variance is below 1e-30 of the mean square of the fitted values.)"""
    if not FAMILIES[design.family].quadratic:
        return False
    squares = np.zeros(design.size)
    squares[blocks.dense], squares[blocks.eliminated] = np.diag(blocks.a), blocks.d
    squares *= state.coefficients**2
    reach = sum(float(np.sqrt(squares[part.where].sum())) for part in design.parts)
    return bool(np.sqrt(2 * state.loss) <= PERFECT * len(design.parts) * reach)


PERFECT = 16 * 2.0**-53
"""Of what a linear predictor consists of, in root mean square: residuals that are no larger are rounding errors."""


def dispersion(design: Design, loss: float, df_residual: float) -> float:
    return FAMILIES[design.family].dispersion(loss, df_residual)
