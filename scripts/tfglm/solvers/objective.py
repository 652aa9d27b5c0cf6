"""The objective of a fit, its sums at a point, and the solution that a solver returns.

The objective, over the free coefficients b, is

    F(b) = sum over rows of weight * loss(eta, y) + sum over coefficients of (ridge * b^2 / 2 + lasso * |b|).

A fit chooses the kind of its objective once (solvers.fit): `PlainObjective`, `ClassesObjective`, `FirthObjective`,
`SmoothObjective` or `AbsorbedObjective`. The kinds differ in further terms of F, in the storage of the information matrix, and in
the treatment of separated rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.families import Family, LikelihoodSums
from tfglm.inference.bread import Bread
from tfglm.inference.covariance import VarianceComponents
from tfglm.inference.fitted import ALIASED, FREE, Fitted
from tfglm.solvers.cluster_sums import Columns, Scores
from tfglm.solvers.information import NO_BLOCKS, Blocks, Factored, assemble, factor, gradient, inverse_state
from tfglm.solvers.run import Run

CONVERGED_BELOW = 1e-6
"""Largest KKT violation of an elastic net at the returned coefficients, as a share of the penalty."""

NOT_FACTORED = Factored(NO_BLOCKS, np.zeros((0, 0)))

PERFECT = 16 * 2.0**-53
"""Residuals are rounding errors below this share of the root mean square of the linear predictor's parts."""


@dataclass(frozen=True)
class Point:
    """Coefficients [p], and the sums of a pass there.

    `loss` is the loss of all rows, and `gradient` [p] its derivative. `pearson` is the sum of weight * (y - mean)^2 / variance.
    `blocks` is the information matrix of the free coefficients, if the pass summed it.
    """

    coefficients: np.ndarray
    loss: float
    gradient: np.ndarray
    pearson: float
    blocks: Blocks | None = None

    @property
    def information(self) -> Blocks:
        """`blocks`, which the pass must have summed."""
        assert self.blocks, "the pass `gradient` sums no information matrix"
        return self.blocks


class CountedRows(NamedTuple):
    """Rows to fit, and the sums of a counts pass over them. The `workload` may measure responses from their mean
    (solvers.origin). `original` is the design with the original responses, and `original_counts` are its counts."""

    workload: Workload
    counts: Sums
    original: Design
    original_counts: Sums


@dataclass(frozen=True)
class Separation:
    """Rows that terms separate together. They are no longer in the likelihood.

    `workload` still has these rows. `held` and `null_vectors` belong to the objective that had them. The `direction` [p] moves
    each of these `rows` by 1 or more towards its response, and no other row. With absorbed factors `others` are the further
    directions [others, p] that only these rows rule out.
    """

    workload: Workload
    direction: np.ndarray
    held: np.ndarray
    null_vectors: np.ndarray
    rows: int = 0
    others: np.ndarray | None = None


@dataclass(frozen=True)
class Objective(ABC):
    """F over the rows of a workload, and the status of its coefficients.

    - `counts` are the sums of a counts pass over the workload's rows. `counted` has the counts of all rows.
    - `status` [p] is the status of each coefficient (inference.fitted).
    - The coefficients `held` at zero make the others unique. `null_vectors` [held, p] has a direction for each of them that
      changes no prediction.
    - `null_coefficients` [p] and `null_loss` belong to the model with an intercept only.
    - `l1` and `l2` are the penalties relative to the mean loss of a row. `lasso` and `ridge` [p] are relative to the loss of
      all rows.
    - `separation` describes the rows that terms separate together, if these are known. With `overlaps`, no further rows can be
      separated.
    - F has a further term, `tilt` times b, if there is one (solvers.reml.WorkingModel).
    - `known_dispersion` takes the place of the estimate of `dispersion`.
    """

    workload: Workload
    run: Run
    counts: Sums
    counted: CountedRows
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
    tilt: np.ndarray | None = None
    known_dispersion: float | None = None

    detects_separation: ClassVar[bool] = True
    """Whether a search can confirm that terms separate rows."""

    # These methods differ between the kinds.

    @classmethod
    @abstractmethod
    def of(cls, counted: CountedRows, run: Run) -> Self:
        """The objective over the rows of levels that are not separated. Raises UserError if all remaining responses are
        alike."""

    @abstractmethod
    def begin(self, learn: "Callable[[Self], Solution] | None" = None) -> "Solution":
        """The start of a solver: the null model, a point nearer to the optimum, or the end of an online solver (`learn`). In
        the objective of the start, aliased coefficients are no longer free."""

    @abstractmethod
    def without_separated_rows(self, coefficients: np.ndarray) -> "Solution | None":
        """The next start of a solver whose steps lead to infinity, without the rows that terms separate together. The solver
        stopped at these coefficients [p]. None if no rows are separated. Raises UserError if all rows are separated, or if
        the separated rows cannot be found."""

    @abstractmethod
    def movement_of_separated_rows(self) -> np.ndarray:
        """How far all directions of `separating` but the first move each separated row towards its response, [rows,
        directions]. Rows that are multiples of each other appear once. If there are too many rows, the result has none."""

    @abstractmethod
    def meat(self, bread: Bread, solution: "Solution") -> Blocks:
        """The sum over rows of the products of the scores of free coefficients, with the factors of inference.sandwich.
        Raises UserError if HC2 or HC3 would divide by 0, because a single row determines a coefficient."""

    @abstractmethod
    def scores(self, bread: Bread, solution: "Solution") -> list[Scores]:
        """The scores of free coefficients by cluster or date, for each entry of `Design.cluster_counts`. Raises UserError
        for `newey_west` if a date has several rows."""

    @abstractmethod
    def columns_by_cluster(
        self, bread: Bread, null: "Solution", clusters: Sequence[np.ndarray], with_matrices: bool
    ) -> list[Columns]:
        """The columns of the design matrix by cluster, for each column of clusters, with the weights at the `null` model.
        `clusters` are the numbers of the clusters with rows."""

    def df_residual_by_cluster(self, solution: "Solution") -> float:
        """The residual degrees of freedom for the factor of CR1."""
        return solution.df_residual

    def random_effects(self, bread: Bread, solution: "Solution") -> VarianceComponents | None:
        """The random effects of a fit; None if the model has none."""
        return None

    @property
    def estimated(self) -> int:
        return self.free_count

    def effective(self, factored: Factored) -> float:
        return factored.effective_coefficients(self.ridge)

    def reported(self, factored: Factored) -> Factored:
        """The part of a factored information matrix for the reported coefficients."""
        return factored

    def reported_error(self, error: np.ndarray, factored: Factored) -> np.ndarray:
        """Convert an error of the gradient [p] to an error in the gradient of the reported coefficients."""
        return error

    def too_few_rows(self) -> str:
        """The message if no residual degrees of freedom remain."""
        return (
            f"models.{self.design.model}: {self.counts['rows']:,.0f} training rows for {self.estimated:,} coefficients leave no "
            f"residual variance to estimate; use fewer terms, or more rows"
        )

    def facts(self, fitted: Fitted) -> dict:
        """The entries of fit.json that only this kind of objective has."""
        return {}

    def remarks(self) -> list[str]:
        """The warnings that only this kind of objective has."""
        return []

    # These methods are common to all kinds.

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
        """Which coefficients are free and have no penalty, [p]."""
        return self.free & (self.design.penalised_coefficients == 0) if self.design.has_penalties else self.free

    @property
    def free_count(self) -> int:
        return int(np.count_nonzero(self.free))

    @property
    def separating(self) -> np.ndarray:
        """The directions that separate rows, [directions, p]; none if no rows are separated across terms.

        The first direction moves all separated rows. All of them together with the null vectors of all rows span the
        directions that change no prediction for the other rows.
        """
        if not self.separation:
            return np.zeros((0, self.design.size))
        others = self.separation.others
        later = self.null_vectors[~np.isin(self.held, self.separation.held)] if others is None else others
        return np.vstack([self.separation.direction, later])

    @property
    def separated_across(self) -> int:
        """The number of coefficients that only the separated rows identify."""
        return max(len(self.separating) - 1, 0)

    @property
    def weight_sum(self) -> float:
        return float(self.counts["weight_sum"])

    def penalised(self, l1: float, l2: float) -> Self:
        """The objective with these penalties on all coefficients except the intercept."""
        factors, weight_sum = self.design.penalised_coefficients, self.weight_sum
        return replace(self, l1=l1, l2=l2, lasso=l1 * weight_sum * factors, ridge=l2 * weight_sum * factors)

    def without_aliased(self, aliased: np.ndarray, null_vectors: np.ndarray) -> Self:
        """The objective with these coefficients also held at zero. `null_vectors` shows that others determine them."""
        status = self.status.copy()
        status[aliased] = ALIASED
        held = np.array([*self.held, *aliased], int)
        return replace(self, status=status, held=held, null_vectors=np.vstack([self.null_vectors, null_vectors]))

    def at(self, coefficients: np.ndarray, sums: str = "information") -> Point:
        """The point at these coefficients [p], by a pass over all rows. The pass `gradient` sums no information matrix."""
        design = self.design
        total = self.workload.sum(self.executor, sums, design.by_term(coefficients))
        # The sums are as large as the information matrix, so the point does not keep them.
        blocks = assemble(design, total, self.free) if sums == "information" else None
        return Point(coefficients, float(total["loss"]), gradient(design, total), float(total["pearson"]), blocks)

    def observed(self, coefficients: np.ndarray) -> Blocks:
        """The observed information matrix of the free coefficients: the second derivative of the loss."""
        by_term = self.design.by_term(coefficients)
        return assemble(self.design, self.workload.sum(self.executor, "observed", by_term), self.free)

    def squares(self) -> Blocks:
        """X'X of the free coefficients with prior weights, which is the information matrix of linear regression."""
        linear = replace(self, workload=self.workload.with_design(self.design.as_linear()))
        return linear.at(np.zeros(self.design.size)).information

    def rectified(self, state: Mapping[str, np.ndarray], moving: np.ndarray) -> tuple[Sums, Blocks]:
        """The sums of the pass `rectifier` with this state, and the second derivative of its loss by the coefficients marked in
        `moving` [p]."""
        sums = self.workload.sum(self.executor, "rectifier", state)
        return sums, assemble(self.design, sums, moving)

    def factored(self, blocks: Blocks, near: Factored = NOT_FACTORED) -> Factored:
        """Factor an information matrix of this objective, with penalties. An iteration may begin at the factors of a matrix
        `near` it. Raises scipy.linalg.LinAlgError if the matrix is singular."""
        return factor(blocks)

    def slope_of_determinant(self, coefficients: np.ndarray, factored: Factored) -> np.ndarray:
        """The derivative of log|A| / 2 by the coefficients, [p], where A is the information matrix at these coefficients, plus
        penalties. `factored` is A."""
        state = self.workload.state(coefficients) | inverse_state(self.design, factored.bread())
        return gradient(self.design, self.workload.sum(self.executor, "jeffreys", state))

    def value(self, point: Point) -> float:
        """F at a point."""
        penalty = 0.5 * self.ridge @ point.coefficients**2 + self.lasso @ np.abs(point.coefficients)
        return point.loss + float(penalty) + (0.0 if self.tilt is None else float(self.tilt @ point.coefficients))

    def gradient(self, point: Point) -> np.ndarray:
        """The derivative of the smooth part of F, [p]; 0 for coefficients that are not free."""
        slope = point.gradient + self.ridge * point.coefficients
        return np.where(self.free, slope if self.tilt is None else slope + self.tilt, 0.0)

    def dispersion(self, point: Point, df_residual: float) -> float:
        """The dispersion of the response: known, or estimated at a point."""
        if self.known_dispersion is not None:
            return self.known_dispersion
        return self.family.dispersion(point.loss, point.pearson, df_residual)

    def likelihood(self, point: Point) -> float | None:
        """The log-likelihood at a point; None if the family has no likelihood."""
        saturated, base, rows = (float(self.counts[name]) for name in ("saturated", "base", "rows"))
        return self.family.log_likelihood(LikelihoodSums(point.loss, saturated, base, rows, self.weight_sum))

    def violation(self, point: Point) -> float:
        """The largest violation of the KKT conditions, in units of the mean loss of a row. With the gradient g of the smooth
        part of F, a violation is |g + lasso sign(b)| if b is not zero, and max(|g| - lasso, 0) if b is zero."""
        gradient, b = self.gradient(point), point.coefficients
        at_zero = np.maximum(np.abs(gradient) - self.lasso, 0.0)
        elsewhere = np.abs(gradient + self.lasso * np.sign(b))
        broken = np.where(self.free, np.where(b == 0, at_zero, elsewhere), 0.0)
        return float(broken.max(initial=0.0)) / self.weight_sum

    def active(self, point: Point) -> np.ndarray:
        """Which free coefficients are nonzero or have no lasso penalty, [p]."""
        return self.free & ((point.coefficients != 0) | (self.lasso == 0))

    def is_perfect(self, point: Point, blocks: Blocks) -> bool:
        """Whether the residuals are rounding errors, for a family with an estimated dispersion.

        The dispersion is then a rounding error too. (R's summary.lm warns of an essentially perfect fit if the residual variance
        is below 1e-30 of the mean square of the fitted values.)
        """
        if self.family.dispersion_known:
            return False
        parts, squares = self.design.parts, blocks.diagonal(self.design.size) * point.coefficients**2
        reach = sum(float(np.sqrt(squares[part.where].sum())) for part in parts)
        reach += self.design.likelihood.origin_reach * float(np.sqrt(self.weight_sum))
        squared = 2 * point.loss if self.family.quadratic else point.pearson
        return bool(np.sqrt(squared) <= PERFECT * len(parts) * reach)

    def movement(self, step: np.ndarray) -> float:
        """As `distance`, but 0 if the information matrix does not depend on the linear predictor."""
        return 0.0 if self.family.quadratic or self.family.constant_information else self.distance(step)

    def distance(self, step: np.ndarray) -> float:
        """The largest movement of a linear predictor by a step [p], for numbers one standard deviation from their mean. If
        linear predictors must be above 0, it is a share of the linear predictor of the mean response, because they have the
        unit of the response."""
        moved = sum(float(np.abs(step[part.where]).max(initial=0.0)) for part in self.design.parts)
        if not self.family.positive_predictor:
            return moved
        return moved / self.family.link(float(self.counts["response"]) / self.weight_sum)


@dataclass(frozen=True)
class PathPoint:
    """The minimum of F for a pair of penalties l1 and l2.

    `violation` is compared with `penalty`. `near` is the last information matrix, or NO_BLOCKS after it is dropped.
    `correction` [p] is the error of the first step, which began at the minimum for other penalties. `effective` is the
    effective number of coefficients.
    """

    penalty: float
    objective: Objective
    point: Point
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
        """Whether the violation is at most CONVERGED_BELOW times the penalty."""
        return self.violation <= CONVERGED_BELOW * self.penalty


@dataclass(frozen=True)
class CrossValidation:
    """A deviance for each penalty of a path, and its standard error.

    `by_fold` [folds, penalties] is the mean deviance of a row in each fold. `weights` [folds] are the sums of the weights of
    the rows, and `rows` [folds] are their numbers. `not_converged` counts the fits that have not converged.

    >>> by_fold = np.array([[1.1, 1.0, 1.3], [1.2, 1.2, 1.4]])
    >>> validated = CrossValidation(by_fold, weights=np.array([50.0, 50.0]), rows=np.array([50, 50]), not_converged=0)
    >>> validated.mean.round(2).tolist(), validated.std_error.round(2).tolist()
    ([1.15, 1.1, 1.35], [0.05, 0.1, 0.05])
    >>> validated.chosen("min"), validated.chosen("one_se")
    (1, 0)
    """

    by_fold: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    not_converged: int

    @property
    def mean(self) -> np.ndarray:
        """[penalties]"""
        return np.average(self.by_fold, axis=0, weights=self.weights)

    @property
    def std_error(self) -> np.ndarray:
        """[penalties]"""
        squares = np.average((self.by_fold - self.mean) ** 2, axis=0, weights=self.weights)
        return np.sqrt(squares / (len(self.weights) - 1))

    def chosen(self, rule: str) -> int:
        """The number of the chosen penalty; number 0 is the strongest penalty.

        Rule "min" chooses the penalty with the smallest deviance. Rule "one_se" chooses the strongest penalty whose deviance is
        within a standard error of the smallest.
        """
        mean = self.mean
        best = int(np.argmin(mean))
        return int(np.argmax(mean <= mean[best] + self.std_error[best])) if rule == "one_se" else best


@dataclass(frozen=True)
class Solution:
    """The end of a solver; before the first iteration, its start.

    - `information` is the factored information matrix of the estimated coefficients at `point`, with the ridge penalty. If the
      fit is not exact, it is from near `point`. It is empty for a lasso. Before the first iteration it is empty or begins the
      first factorisation.
    - `has_covariance`: the inverse of `information` is the covariance of the estimates.
    - `is_perfect`: there is no covariance, because the residuals are rounding errors.
    - `effective` is the effective number of coefficients.
    - `certificate` is the distance to the minimum, as fit.json reports it.
    - `stretch`: an error of the gradient moves the maximum by up to `stretch` times the prediction of the expected information
      (`newton.stretch`).
    - `online` is the report of an online solver that ran first.
    - `smooths` is what fit.json says of smooth terms and random effects. The squares of the columns of `smoothing_root` [smooths,
      p] add up to the variances that the estimation of smoothing parameters adds. Their search ended at `log_lambda` [lambdas].
      With R = `variance_root`, R'R is the covariance of log lambda of the random effects, log phi, and the origins of correlated
      ones (solvers.correlated), whose effects are `pairs`.
    - `near` is a solution with smooth terms, near which a start is known to be.
    - A path fills `path` with all its points, `chosen` with the number of the chosen point, and `cross_validation` if it has
      one.
    """

    objective: Objective
    point: Point
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
    smooths: Mapping[str, Any] = field(default_factory=dict)
    smoothing_root: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    log_lambda: np.ndarray = field(default_factory=lambda: np.zeros(0))
    variance_root: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)))
    pairs: Sequence[tuple[np.ndarray, np.ndarray]] = ()
    near: "Solution | None" = None
    path: tuple[PathPoint, ...] = ()
    chosen: int | None = None
    cross_validation: CrossValidation | None = None

    @property
    def df_residual(self) -> float:
        return float(self.objective.counts["rows"]) - self.effective
