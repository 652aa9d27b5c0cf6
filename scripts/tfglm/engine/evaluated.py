"""Rows with what the coefficients make of them: linear predictor, and what a row contributes to the likelihood."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from tfglm.design.design import Design
from tfglm.design.scenarios import Scenario
from tfglm.engine.bases import Basis, BasisColumns, apart
from tfglm.engine.leverage import TOO_NEAR, leverages
from tfglm.engine.rectified import rectified
from tfglm.engine.rows import NOT_FINITE, WITHOUT_MEAN, Multiplier, Rows
from tfglm.engine.sums import RESIDUAL, WEIGHT, Key
from tfglm.families import Terms

Values = dict[Key, np.ndarray | float]
"""Values to sum, by name: [rows], or already summed."""

SHAPE = "shape of the family"
"""Stands beside the terms in the state of a pass `shape`: trial values."""


class Evaluated:
    """Rows with what the coefficients make of them, each [rows], when it is first asked for."""

    def __init__(
        self,
        design: Design,
        looked_up: tuple[list[Multiplier], np.ndarray],
        rows: Rows,
        coefficients: np.ndarray,
        state: Mapping[str, np.ndarray],
        bases: Sequence[Basis] = (),
    ):
        self.design, (self._multipliers, self.parts), self._bases = design, looked_up, bases
        self.rows, self.coefficients, self.state = rows, coefficients, state

    def at(self, scenario: Scenario) -> "Evaluated":
        """The same if some columns had the values of a scenario, which no table of a basis has."""
        looked_up = self._multipliers, self.parts
        return Evaluated(self.design, looked_up, self.rows.at(scenario), self.coefficients, self.state)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The multipliers, [multipliers, rows]."""
        multipliers = self._multipliers
        return self.rows.multiplied(multipliers, np.empty((len(multipliers), len(self.rows.flag))))

    @cached_property
    def uncoded(self) -> np.ndarray:
        """The multipliers, [multipliers, rows]. Those of bases with codes are not set."""
        coded = {basis.first + k for basis in self._bases if basis.columns for k in range(basis.width)}
        if not coded:
            return self.numbers
        numbers = np.empty((len(self._multipliers), len(self.rows.flag)))
        which = [k for k in range(len(numbers)) if k not in coded]
        self.rows.multiplied([self._multipliers[k] for k in which], [numbers[k] for k in which])
        return numbers

    @cached_property
    def columns(self) -> list[BasisColumns]:
        return [basis.of(self.rows, self.uncoded) for basis in self._bases]

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictor."""
        eta = self.along(self.coefficients)
        return eta + self.rows.offset if self.design.roles.offset else eta

    def along(self, direction: np.ndarray) -> np.ndarray:
        """Return the change of the linear predictor along a direction [p]."""
        return self._along(direction, self.uncoded, self.columns)

    def _along(self, direction: np.ndarray, numbers: np.ndarray, columns: Sequence[BasisColumns]) -> np.ndarray:
        eta = self.rows.without_offset(direction, self.parts[apart(self.parts, self._bases)], numbers)
        for each in columns:
            each.add_along(eta, direction[each.basis.in_groups(each.basis.places)])
        return eta

    @cached_property
    def reach(self) -> np.ndarray:
        """1 plus the sizes of all that the linear predictor consists of; these alone where it has the unit of the response."""
        rows, family = self.rows, self.design.distribution
        is_relative = family.quadratic or family.positive_predictor or self.design.likelihood.origin
        of_mean = 0.0 if is_relative else 1.0
        columns = [each.changed(np.abs) for each in self.columns]
        reach = of_mean + self._along(np.abs(self.coefficients), np.abs(self.uncoded), columns)
        return reach + np.abs(rows.offset) if self.design.roles.offset else reach

    @cached_property
    def terms(self) -> Terms:
        rows = self.rows
        return self.design.distribution.terms(self.eta, rows.y, rows.weight, not self.design.roles.multiplicities)

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return self.terms.loss

    @property
    def pearson(self) -> float:
        """The sum of the Pearson statistics; 0 if a row has several linear predictors."""
        return self.terms.pearson

    @property
    def scores(self) -> list[np.ndarray]:
        """The derivative of the loss by the linear predictor of each equation."""
        return [self.terms.score]

    @property
    def weights(self) -> Values:
        """The weights in the information matrix, by pair of equations."""
        return {WEIGHT: self.terms.weight}

    @property
    def expected_weights(self) -> Values:
        """The weights in the expected information matrix: the same, unless the others are those of the response."""
        return self.weights

    @property
    def observed(self) -> np.ndarray:
        """The weight of the row in the observed information matrix, which may be negative."""
        rows = self.rows
        return np.where(rows.weight > 0, self.design.distribution.observed(self.eta, rows.y) * rows.weight, 0.0)

    @property
    def contributions(self) -> Values:
        """To the loss, to its gradient, and to the Pearson statistic."""
        return {"loss": self.loss, "pearson": self.pearson, **residuals(self.scores)}

    @property
    def own_weights(self) -> Values:
        """In the diagonal of the information matrix, by the linear predictor, named as the scores."""
        weights = self.weights
        return residuals([np.asarray(weights["weight", k, k]) for k in range(len(self.design.equations) or 1)])

    @property
    def squared(self) -> Values:
        """The products of the scores of a row; those of the rows that it stands for are as many times as large."""
        frequency, scores = self.rows.frequency, self.scores
        return {
            ("weight", k, m): np.divide(
                scores[k] * scores[m], frequency, out=np.zeros_like(frequency), where=frequency > 0
            )
            for k, m in combinations_with_replacement(range(len(scores)), 2)
        }

    def squared_over(self, power: int) -> Values:
        """The squares of scores over a power of 1 less the leverage; rows that are `alone` have none."""
        left = 1.0 - self.leverage
        alone = self.rows.kept & (left <= TOO_NEAR)
        return {
            WEIGHT: np.where(alone, 0.0, self.squared[WEIGHT] / np.where(alone, 1.0, left) ** power),
            "alone": alone,
        }

    @property
    def sizes(self) -> Values:
        """Values that bound rounding errors (solvers.certificate). The weight of `reach` is the larger of the weight w in
        the information matrix and of o^2 / w, with the observed weight o. o^2 / w is larger if a rounding error of the
        linear predictor changes the score by more, in the same standard errors."""
        weight = np.sum([np.asarray(each) for each in self.own_weights.values()], axis=0)
        if not self.design.distribution.canonical:
            weight = np.maximum(
                weight, np.divide(self.observed**2, weight, out=np.zeros_like(weight), where=weight > 0)
            )
        return {"reach": weight * self.reach**2, **residuals([np.abs(score) for score in self.scores])}

    @property
    def counts(self) -> Values:
        rows, design, family = self.rows, self.design, self.design.distribution
        y, kept = rows.y, rows.kept
        impossible = kept & ~family.in_range(y)
        values: Values = {
            "rows": rows.frequency,
            "row_weight": rows.weight,
            "response": rows.weight * y,
            "squares": rows.weight * y**2,
            "not_finite": np.where(rows.flag == NOT_FINITE, rows.repeats, 0.0),
            "out_of_range": np.where(impossible, rows.repeats, 0.0),
            **{("class", k): rows.weight * (y == k) for k in range(len(design.likelihood.class_labels))},
        }
        # If responses are 0 and 1, both sums are 0, and logarithms of factorials would cost more than everything else
        # together.
        if family.counts_events and not (design.roles.trials or design.roles.weights):
            return values | {"saturated": 0.0, "base": 0.0}
        safe, weight = np.where(kept & ~impossible, y, 0.0), np.where(kept, rows.prior_weight, 1.0)
        saturated, base = family.saturated(safe), family.base(safe, weight)
        return values | {"saturated": rows.weight * saturated, "base": rows.frequency * base}

    @property
    def firth_terms(self) -> Values:
        """Half the derivative of log|I| by the linear predictor: the leverage times the derivative of log(weight), over 2. If the
        link is not canonical, I is the observed information."""
        rows = self.rows
        curvature = rows.weight * self.design.distribution.observed_slope(self.eta, rows.y)
        return {RESIDUAL: np.where(rows.kept, 0.5 * curvature * self.distance, 0.0)}

    def in_clusters(self, values: Values) -> Values:
        """Values of rows that belong to a cluster of each column, 0 for others; and the `rows`."""
        within = self.rows.in_clusters
        return {"rows": self.rows.frequency, **{name: np.where(within, value, 0.0) for name, value in values.items()}}

    @property
    def shape_terms(self) -> Values:
        """The values that a family sums for its shape, at the trial values in the state."""
        rows = self.rows
        y, weight = np.where(rows.kept, rows.y, 0.0), np.where(rows.kept, rows.prior_weight, 1.0)
        eta = np.where(rows.kept, self.eta, 0.0)
        values = self.design.distribution.shape_terms(eta, y, weight, self.state[SHAPE])
        kept: Values = {name: np.where(rows.kept, rows.frequency * value, 0.0) for name, value in values.items()}
        if not self.design.distribution.shape_is_apart:
            mixed, _ = self.design.distribution.slopes_by_shape(self.eta, rows.y)
            kept[RESIDUAL] = np.where(rows.kept, rows.weight * mixed, 0.0)
        return kept

    @property
    def slopes_by_shape(self) -> Values:
        """Derivatives by the logarithm of the shape."""
        rows = self.rows
        score, weight = self.design.distribution.slopes_by_shape(self.eta, rows.y)
        of_rows: Values = {RESIDUAL: score, "half_weight": 0.5 * weight * self.distance}
        kept: Values = {name: np.where(rows.kept, rows.weight * value, 0.0) for name, value in of_rows.items()}
        return kept | self.shape_terms

    @property
    def rectified(self) -> Values:
        """The loss of `rectified`, with the coefficients as a direction."""
        return rectified(self.rows, self.design.distribution, self.along, self.coefficients, self.state)

    @property
    def directions(self) -> Values:
        """Where the coefficients, as a direction, move rows."""
        rows, eta, family = self.rows, self.along(self.coefficients), self.design.distribution
        # A row that a separating direction leaves where it is moves by the rounding error of the direction.
        up, down = ((sign * eta > 1e-6 * np.abs(self.coefficients).max()) & rows.kept for sign in (1.0, -1.0))
        along = (down & (rows.y == family.smallest)) | (up & (rows.y == family.largest))
        return {
            "along": along,
            "wrongly_up": up & ~along,
            "wrongly_down": down & ~along,
            "left": rows.kept & ~(up | down),
        }

    @property
    def flag(self) -> np.ndarray:
        """The flag of the row, or that it has no mean."""
        family, flag = self.design.distribution, self.rows.flag
        if not family.positive_predictor:
            return flag
        return np.where((flag >= 0) & ~family.is_valid(self.eta), WITHOUT_MEAN, flag)

    @cached_property
    def distance(self) -> np.ndarray:
        """x' I^-1 x with the row x of the design matrix, if the state has the inverse information matrix."""
        last = self.design.eliminated_parts
        return leverages(self.state, self.parts, last, self.rows.groups, self.uncoded, self.columns)

    @cached_property
    def leverage(self) -> np.ndarray:
        """The leverage of a row, if the state has the inverse information matrix. If a row represents several rows, it is
        the leverage of one of these."""
        frequency = self.rows.frequency
        working = np.divide(self.terms.weight, frequency, out=np.zeros_like(frequency), where=frequency > 0)
        return working * self.distance


def predictions_of(evaluated: Evaluated) -> dict[str, np.ndarray]:
    """What metrics and tables of predictions need of each row."""
    rows = evaluated.rows
    return {
        "eta": evaluated.eta,
        "response": rows.y,
        "flag": evaluated.flag,
        "weight": rows.weight,
        "frequency": np.broadcast_to(rows.repeats, rows.flag.shape),
        "outside": rows.outside,
    }


def rows_of_design(evaluated: Evaluated) -> dict[str, np.ndarray]:
    """Linear predictors, and the rows of the design matrix: `groups` [rows, groupings], and the product of the numbers of each
    part on the scale of the fit, `multipliers` [rows, parts]."""
    numbers = np.vstack([evaluated.numbers, np.ones(len(evaluated.eta))])
    return {
        "eta": evaluated.eta,
        "flag": evaluated.flag,
        "outside": evaluated.rows.outside,
        "groups": evaluated.rows.groups[: len(evaluated.design.groupings)].T.astype(int),
        "multipliers": numbers[evaluated.parts[:, 2]].T,
        "weight": evaluated.rows.prior_weight,
    }


def residuals(values: Sequence[np.ndarray]) -> Values:
    """Values by equation, as derivatives by the coefficients take them."""
    return {("residual", equation): value for equation, value in enumerate(values)}
