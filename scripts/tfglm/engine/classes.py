"""Rows of a regression of classes, and what a row contributes to the likelihood: a linear predictor for each class, 0 for the
reference class (families.multinomial), or one with thresholds (families.ordinal)."""

from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from tfglm.engine.evaluated import Evaluated, Values
from tfglm.engine.outcomes import joined, parts_of_predictors
from tfglm.families.ordinal import LossBetween, Ordinal


class EvaluatedClasses(Evaluated):
    """Each class but the reference class has an equation. Equations are numbered in the order of the design, classes in the
    order of their labels."""

    pearson = 0.0

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictors as the family takes them, [rows, classes]."""
        predictors = {
            number: self.rows.linear_predictor(self.coefficients, self.parts[own], self.numbers)
            for number, own in parts_of_predictors(self.design).items()
        }
        return joined(self.design, self.coefficients, predictors)

    @property
    def loss(self) -> float:
        rows = self.rows
        loss = np.where(rows.weight > 0, self.design.distribution.loss(self.eta, rows.y), 0.0) * rows.weight
        return float(loss.sum())

    @cached_property
    def _numbers_of_classes(self) -> list[int]:
        """The number of the class of each equation that is of one."""
        labels = self.design.likelihood.class_labels
        return [labels.index(equation) for equation in self.design.equations if equation]

    @cached_property
    def _probabilities(self) -> np.ndarray:
        """Of the class of each equation, [equations, rows]."""
        return self.design.distribution.mean(self.eta)[:, self._numbers_of_classes].T

    @cached_property
    def scores(self) -> list[np.ndarray]:
        rows = self.rows
        return [
            np.where(rows.weight > 0, probability - (rows.y == number), 0.0) * rows.weight
            for number, probability in zip(self._numbers_of_classes, self._probabilities, strict=True)
        ]

    @property
    def weights(self) -> Values:
        """p_k (1{k = l} - p_l) for equations k and l, times the weight of the row."""
        p, weight = self._probabilities, self.rows.weight
        return {("weight", k, m): weight * p[k] * ((k == m) - p[m]) for k, m in self.pairs}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self.design.equations)), 2))


class EvaluatedOrdered(EvaluatedClasses):
    """Each class k has the predictor zeta_k - eta, infinite for the last class. With the first threshold in the intercept, these
    are zeta_k - zeta_0 less the linear predictor that all classes share (design.by_class). Terms of single thresholds, if there
    are some (solvers.parallel_slopes), have the coefficients 0."""

    @cached_property
    def _interval(self) -> LossBetween:
        """The loss by the two thresholds around the class of a row, times its weight; 0 for rows that take no part."""
        rows, distribution = self.rows, self.design.distribution
        assert isinstance(distribution, Ordinal)
        takes_part = rows.weight > 0
        of_rows = distribution.interval_of(self.eta, np.where(takes_part, rows.y, 0.0))
        return LossBetween(*(np.where(takes_part, values, 0.0) * rows.weight for values in of_rows))

    @cached_property
    def _sides(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each equation, how it moves the upper and the lower threshold of the class of a row, [rows] each."""
        y = self.rows.y
        moved = [((y == number).astype(float), (y == number + 1).astype(float)) for number in self._numbers_of_classes]
        return [*moved, (np.full(len(y), -1.0), np.full(len(y), -1.0))]

    @property
    def loss(self) -> float:
        return float(self._interval.loss.sum())

    @cached_property
    def scores(self) -> list[np.ndarray]:
        interval = self._interval
        return [upper * interval.upper + lower * interval.lower for upper, lower in self._sides]

    @property
    def weights(self) -> Values:
        """The second derivative of the loss by the predictors of equations k and l, times the weight of the row."""
        of, sides, nothing = self._interval, self._sides, np.zeros(len(self.rows.y))
        last = len(sides) - 1
        return {
            ("weight", k, m): sides[k][0] * sides[m][0] * of.upper_upper
            + sides[k][1] * sides[m][1] * of.lower_lower
            + (sides[k][0] * sides[m][1] + sides[k][1] * sides[m][0]) * of.upper_lower
            # No class has two thresholds that are not neighbours.
            if m in (k, k + 1, last)
            else nothing
            for k, m in self.pairs
        }

    @property
    def expected_weights(self) -> Values:
        """The same in expectation, for responses with the probabilities of the model: of a row and thresholds k and j
        f_k^2 (1 / p_k + 1 / p_k+1) if j is k, and -f_k f_k+1 / p_k+1 if j is k + 1, with densities f."""
        distribution, weight = self.design.distribution, self.rows.weight
        assert isinstance(distribution, Ordinal)
        density, share = distribution.cumulative.density(self.eta)[:, :-1], distribution.mean(self.eta)
        own = density**2 * (1.0 / share[:, :-1] + 1.0 / share[:, 1:])
        beside = -density[:, :-1] * density[:, 1:] / share[:, 1:-1]
        together = own.copy()
        together[:, :-1] += beside
        together[:, 1:] += beside
        of = self._numbers_of_classes
        last = len(of)
        result: Values = {}
        for k, m in self.pairs:
            if k == last:
                value = together.sum(axis=1)
            elif m == last:
                value = -together[:, of[k]]
            else:
                value = own[:, of[k]] if k == m else beside[:, of[k]] if of[m] == of[k] + 1 else np.zeros(len(weight))
            result["weight", k, m] = np.where(weight > 0, value, 0.0) * weight
        return result
