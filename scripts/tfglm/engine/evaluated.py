"""Rows with what the coefficients make of them: linear predictor, and what a row contributes to the likelihood."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from tfglm.design.design import Design
from tfglm.design.scenarios import Scenario
from tfglm.engine.bases import Basis, BasisColumns, apart
from tfglm.engine.leverage import leverages
from tfglm.engine.parts import eliminated_part
from tfglm.engine.rows import WITHOUT_MEAN, Multiplier, Rows
from tfglm.families import Terms

Values = dict[str, np.ndarray | float]
"""Values to sum, by name: [rows], or already summed."""


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
        self._design, (self._multipliers, self._parts), self._bases = design, looked_up, bases
        self.rows, self.coefficients, self.state = rows, coefficients, state

    def at(self, scenario: Scenario) -> "Evaluated":
        """The same if some columns had the values of a scenario, which no table of a basis has."""
        looked_up = self._multipliers, self._parts
        return Evaluated(self._design, looked_up, self.rows.at(scenario), self.coefficients, self.state)

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
        """The columns of the bases."""
        return [basis.of(self.rows, self.uncoded) for basis in self._bases]

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictor."""
        eta = self.along(self.coefficients)
        return eta + self.rows.offset if self._design.roles.offset else eta

    def along(self, direction: np.ndarray) -> np.ndarray:
        """Return the change of the linear predictor along a direction [p]."""
        return self._along(direction, self.uncoded, self.columns)

    def _along(self, direction: np.ndarray, numbers: np.ndarray, columns: Sequence[BasisColumns]) -> np.ndarray:
        eta = self.rows.without_offset(direction, self._parts[apart(self._parts, self._bases)], numbers)
        for each in columns:
            each.add_along(eta, direction[each.basis.in_groups(each.basis.places)])
        return eta

    @cached_property
    def reach(self) -> np.ndarray:
        """1 plus the sizes of all that the linear predictor consists of; these alone where it has the unit of the response."""
        rows, family = self.rows, self._design.distribution
        is_relative = family.quadratic or family.positive_predictor or self._design.likelihood.origin
        of_mean = 0.0 if is_relative else 1.0
        columns = [each.changed(np.abs) for each in self.columns]
        reach = of_mean + self._along(np.abs(self.coefficients), np.abs(self.uncoded), columns)
        return reach + np.abs(rows.offset) if self._design.roles.offset else reach

    @cached_property
    def terms(self) -> Terms:
        rows = self.rows
        return self._design.distribution.terms(self.eta, rows.y, rows.weight, not self._design.roles.multiplicities)

    @property
    def contributions(self) -> Values:
        """To the loss, to its gradient, and to the Pearson statistic."""
        return {"loss": self.terms.loss, "pearson": self.terms.pearson, "residual": self.terms.score}

    @property
    def scores(self) -> Values:
        """The derivative of the loss by the linear predictor."""
        return {"residual": self.terms.score}

    @property
    def weights(self) -> Values:
        """In the information matrix."""
        return {"weight": self.terms.weight}

    @property
    def expected_weights(self) -> Values:
        """The weights in the expected information matrix: the same, unless the others are those of the response."""
        return self.weights

    @property
    def own_weights(self) -> Values:
        """In the diagonal of the information matrix, by the linear predictor, named as the scores."""
        return {"residual": self.terms.weight}

    @property
    def squared(self) -> Values:
        """The square of the score of a row; the score of those that a row stands for is as many times as large."""
        score, frequency = self.terms.score, self.rows.frequency
        return {"weight": np.divide(score**2, frequency, out=np.zeros_like(score), where=frequency > 0)}

    @property
    def sizes(self) -> Values:
        """Values that bound rounding errors (solvers.certificate)."""
        return {"reach": self.rounded * self.reach**2, "residual": np.abs(self.terms.score)}

    @property
    def counted(self) -> Values:
        """The values to count besides rows and responses: none."""
        return {}

    @property
    def observed(self) -> np.ndarray:
        """The weight of the row in the observed information matrix, which may be negative."""
        rows = self.rows
        return np.where(rows.weight > 0, self._design.distribution.observed(self.eta, rows.y) * rows.weight, 0.0)

    @property
    def rounded(self) -> np.ndarray:
        """The weight in `reach`: the larger of the weight w in the information matrix and of o^2 / w, with the observed
        weight o.

        o^2 / w is larger if a rounding error of the linear predictor changes the score by more, in the same standard
        errors.
        """
        weight = self.terms.weight
        if self._design.distribution.canonical:
            return weight
        return np.maximum(weight, np.divide(self.observed**2, weight, out=np.zeros_like(weight), where=weight > 0))

    @property
    def flag(self) -> np.ndarray:
        """The flag of the row, or that it has no mean."""
        family, flag = self._design.distribution, self.rows.flag
        if not family.positive_predictor:
            return flag
        return np.where((flag >= 0) & ~family.is_valid(self.eta), WITHOUT_MEAN, flag)

    @cached_property
    def distance(self) -> np.ndarray:
        """x' I^-1 x with the row x of the design matrix, if the state has the inverse information matrix."""
        last = eliminated_part(self._design)
        return leverages(self.state, self._parts, last, self.rows.groups, self.uncoded, self.columns)

    @cached_property
    def leverage(self) -> np.ndarray:
        """The leverage of a row, if the state has the inverse information matrix. If a row represents several rows, it is
        the leverage of one of these."""
        frequency = self.rows.frequency
        working = np.divide(self.terms.weight, frequency, out=np.zeros_like(frequency), where=frequency > 0)
        return working * self.distance
