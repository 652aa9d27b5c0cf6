"""What is minimised, where a search for its minimum stands, and what a solver returns.

The objective, over the free coefficients b, is

    F(b) = sum over rows of weight * loss(eta, y) + sum over coefficients of (ridge * b^2 / 2 + lasso * |b|).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.families import Family, LikelihoodSums
from tfglm.solvers.fitted import ALIASED, FREE
from tfglm.solvers.information import NO_BLOCKS, Blocks, Factored, assemble, factor, gradient
from tfglm.solvers.run import Run
from tfglm.solvers.validated import CrossValidation

CONVERGED_BELOW = 1e-6
"""Largest KKT violation of an elastic net at the returned coefficients, as a share of the penalty."""

PERFECT = 16 * 2.0**-53
"""Of what a linear predictor consists of, in root mean square: residuals that are no larger are rounding errors."""


@dataclass(frozen=True)
class State:
    """What a pass has summed at some coefficients.

    `loss` is that of all rows, `gradient` [coefficients] its derivative, `pearson` the sum of weight * (y - mean)^2 / variance,
    `blocks` the information matrix of the free coefficients, if the pass has summed that too.
    """

    coefficients: np.ndarray
    loss: float
    gradient: np.ndarray
    pearson: float
    blocks: Blocks | None = None

    @property
    def information(self) -> Blocks:
        """`blocks`, where the pass has summed them."""
        assert self.blocks, "the pass `gradient` sums no information matrix"
        return self.blocks


@dataclass(frozen=True)
class Separation:
    """Rows that terms separate together, and that have left the likelihood.

    `workload` still has them. The `direction` [p] moves each of these `rows` by 1 or more, and no other one. `before` is how many
    null vectors there were before they left.
    """

    workload: Workload
    direction: np.ndarray
    before: int
    rows: int


@dataclass(frozen=True)
class Problem:
    """The objective F, and which coefficients are free in it.

    `counts` are the sums of a counts pass over the workload's rows; `status` [p] says what each coefficient is (solvers.fitted).
    The coefficients `held` at zero make the others unique: `null_vectors` [held, p] are the directions that change no
    prediction, one for each. `null_coefficients` [p] and `null_loss` are the model with nothing but an intercept. `l1` and `l2`
    are the penalties beside the mean loss of a row, `lasso` and `ridge` [p] those beside the loss of all rows. `separation` is
    what terms separate together, if that is known, and `overlaps` says that they separate nothing else.
    """

    workload: Workload
    run: Run
    counts: Sums
    status: np.ndarray
    held: np.ndarray
    null_vectors: np.ndarray
    null_coefficients: np.ndarray
    null_loss: float
    l1: float
    l2: float
    lasso: np.ndarray
    ridge: np.ndarray
    separation: Separation | None = None
    overlaps: bool = False

    @property
    def design(self) -> Design:
        return self.workload.design

    @property
    def executor(self) -> Executor:
        return self.run.executor

    @property
    def family(self) -> Family:
        return self.design.distribution

    @cached_property
    def free(self) -> np.ndarray:
        return self.status == FREE

    @property
    def unpenalised(self) -> np.ndarray:
        """The free coefficients that no penalty draws to 0, a boolean for each, [p]."""
        return self.free & (self.design.penalised_coefficients == 0) if self.design.penalised else self.free

    @property
    def free_count(self) -> int:
        return int(np.count_nonzero(self.free))

    @property
    def separating(self) -> np.ndarray:
        """The direction that separates rows, and those that with it span all that change no prediction for the others alone,
        [directions, p]; none if nothing is separated across terms."""
        if not self.separation:
            return np.zeros((0, self.design.size))
        return np.vstack([self.separation.direction, self.null_vectors[self.separation.before :]])

    @property
    def separated_across(self) -> int:
        """How many coefficients more the separated rows would identify, were they not infinite."""
        return max(len(self.separating) - 1, 0)

    @property
    def weight_sum(self) -> float:
        return float(self.counts["weight_sum"])

    def penalised(self, l1: float, l2: float) -> "Problem":
        """With these penalties on all coefficients but the intercept."""
        of_each, weight_sum = self.design.penalised_coefficients, self.weight_sum
        return replace(self, l1=l1, l2=l2, lasso=l1 * weight_sum * of_each, ridge=l2 * weight_sum * of_each)

    def without_aliased(self, aliased: np.ndarray, null_vectors: np.ndarray) -> "Problem":
        """With these coefficients held at zero too, because the directions show that others determine them."""
        status = self.status.copy()
        status[aliased] = ALIASED
        held = np.array([*self.held, *aliased], int)
        return replace(self, status=status, held=held, null_vectors=np.vstack([self.null_vectors, null_vectors]))

    def at(self, coefficients: np.ndarray, sums: str = "information") -> State:
        """The sums of a pass over all rows; without the information matrix by the pass `gradient`."""
        design = self.design
        total = self.workload.sum(self.executor, sums, design.by_term(coefficients))
        # What else there is for the information matrix is as large as that, and is not kept beside it.
        blocks = assemble(design, total, self.free) if sums == "information" else None
        return State(coefficients, float(total["loss"]), gradient(design, total), float(total["pearson"]), blocks)

    def observed(self, coefficients: np.ndarray) -> Blocks:
        """The observed information matrix of the free coefficients: the second derivative of the loss."""
        by_term = self.design.by_term(coefficients)
        return assemble(self.design, self.workload.sum(self.executor, "observed", by_term), self.free)

    def dispersion(self, state: State, df_residual: float) -> float:
        """Of the response, known or estimated at a state."""
        return self.family.dispersion(state.loss, state.pearson, df_residual)

    def likelihood(self, state: State) -> float | None:
        """Logarithm of the likelihood at a state; None if the family has none."""
        counts = self.counts
        saturated, base, rows = (float(counts[name]) for name in ("saturated", "base", "rows"))
        return self.family.log_likelihood(LikelihoodSums(state.loss, saturated, base, rows, self.weight_sum))

    def rectified(self, state: Mapping[str, np.ndarray], moving: np.ndarray) -> tuple[Sums, Blocks]:
        """The sums of the pass `rectifier` with this state, and the second derivative of its loss by the coefficients that are
        `moving`, a boolean for each."""
        sums = self.workload.sum(self.executor, "rectifier", state)
        return sums, assemble(self.design, sums, moving)

    def factored(self, blocks: Blocks) -> Factored:
        """An information matrix of this problem, with penalties, factored. Raises scipy.linalg.LinAlgError if it is singular."""
        return factor(blocks)

    def objective(self, state: State) -> float:
        """F."""
        penalty = 0.5 * self.ridge @ state.coefficients**2 + self.lasso @ np.abs(state.coefficients)
        return state.loss + float(penalty)

    def gradient(self, state: State) -> np.ndarray:
        """Of the loss and the ridge penalty, by the free coefficients; 0 for the others, [p]."""
        return np.where(self.free, state.gradient + self.ridge * state.coefficients, 0.0)

    def violation(self, state: State) -> float:
        """By how much the coefficients break their KKT conditions at most, for the mean loss of a row: |g + lasso sign(b)| where
        b is not zero, max(|g| - lasso, 0) where it is; g is the gradient of the loss and of the ridge penalty."""
        gradient, b = self.gradient(state), state.coefficients
        at_zero = np.maximum(np.abs(gradient) - self.lasso, 0.0)
        elsewhere = np.abs(gradient + self.lasso * np.sign(b))
        broken = np.where(self.free, np.where(b == 0, at_zero, elsewhere), 0.0)
        return float(broken.max(initial=0.0)) / self.weight_sum

    def active(self, state: State) -> np.ndarray:
        """Which coefficients are not zero, or have no lasso penalty, [p]."""
        return self.free & ((state.coefficients != 0) | (self.lasso == 0))

    def is_perfect(self, state: State, blocks: Blocks) -> bool:
        """Whether the residuals are rounding errors, of a family whose dispersion is estimated: then that is one too. (R's
        summary.lm warns of an essentially perfect fit where the residual variance is below 1e-30 of the mean square of the fitted
        values.)"""
        if self.family.dispersion_known:
            return False
        parts, squares = self.design.parts, np.zeros(self.design.size)
        squares[blocks.dense], squares[blocks.eliminated] = np.diag(blocks.a), blocks.d
        squares *= state.coefficients**2
        reach = sum(float(np.sqrt(squares[part.where].sum())) for part in parts)
        reach += abs(self.design.origin) * float(np.sqrt(self.weight_sum))
        squared = 2 * state.loss if self.family.quadratic else state.pearson
        return bool(np.sqrt(squared) <= PERFECT * len(parts) * reach)

    def movement(self, step: np.ndarray) -> float:
        """How far a step moves a linear predictor at most, numbers being one standard deviation from their mean; 0 where the
        information matrix does not depend on it. Predictors that have to be above 0 have the unit of the response: there it is a
        share of that of the mean response."""
        if self.family.quadratic or self.family.constant_information:
            return 0.0
        moved = sum(float(np.abs(step[part.where]).max(initial=0.0)) for part in self.design.parts)
        if not self.family.positive_predictor:
            return moved
        return moved / self.family.link(float(self.counts["response"]) / self.weight_sum)


@dataclass(frozen=True)
class Point:
    """Where F is least for one pair of penalties, l1 and l2, on the way or at the end of an elastic net.

    `violation` is compared with `penalty`. `near` is the last information matrix, NO_BLOCKS once it is forgotten. `correction`
    [p] is how far the first step, from the minimum for other penalties, was from this one. `effective` is the effective number
    of coefficients.
    """

    penalty: float
    problem: Problem
    state: State
    near: Blocks
    violation: float
    correction: np.ndarray
    iterations: int
    information_passes: int
    gradient_passes: int
    effective: float = np.nan
    deviance_held_out: float | None = None

    @property
    def converged(self) -> bool:
        """Whether the KKT conditions hold to within a share of the penalty."""
        return self.violation <= CONVERGED_BELOW * self.penalty


NOT_FACTORED = Factored(NO_BLOCKS, np.zeros((0, 0)))


@dataclass(frozen=True)
class Solution:
    """Where a solver has ended; or, before the first iteration, where it begins.

    `information` is the information matrix of the coefficients that are estimated, with the ridge penalty, factored: at `state`,
    or near it if the fit is not exact; of a lasso it is empty. `has_covariance` says that its inverse is the covariance of the
    estimates, `is_perfect` that there is none because the residuals are rounding errors. `effective` is the effective number of
    coefficients, `certificate` how sure the end is, as fit.json reports it, and `online` what it reports of an online solver
    that came first. An error of the gradient moves the maximum by up to `stretch` times as much as the expected information says
    (`newton.stretch`). `objective` is F where it is another than that of the problem (solvers.firth). A path keeps all its
    points, the number of the chosen one, and its cross-validation, if it has one.
    """

    problem: Problem
    state: State
    information: Factored = NOT_FACTORED
    iterations: int = 0
    converged: bool = False
    certificate: Mapping[str, float] = field(default_factory=dict)
    stretch: float = 1.0
    violation: float = np.nan
    effective: float = np.nan
    is_perfect: bool = False
    has_covariance: bool = False
    online: Mapping | None = None
    objective: float = np.nan
    path: tuple[Point, ...] = ()
    chosen: int | None = None
    cross_validation: CrossValidation | None = None

    @property
    def df_residual(self) -> float:
        return float(self.problem.counts["rows"]) - self.effective
