"""Rows of a regression of classes, and what a row contributes to the likelihood: a linear predictor for each class, 0 for the
reference class (families.multinomial), or one with thresholds (families.ordinal)."""

from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import INTERCEPT
from tfglm.engine.evaluated import Evaluated, Values
from tfglm.families.ordinal import LossBetween, Ordinal


class EvaluatedClasses(Evaluated):
    """Each class but the reference class has an equation. Equations are numbered in the order of the design, classes in the
    order of their labels."""

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictors, [rows, classes]."""
        design, parts = self._design, self._parts
        eta = np.zeros((len(self.rows.flag), len(design.likelihood.class_labels)))
        for equation in design.equations:
            own = [k for k, part in enumerate(design.parts) if part.term.equation == equation]
            of_class = self.rows.without_offset(self.coefficients, parts[own], self.numbers)
            eta[:, design.likelihood.class_labels.index(equation)] = of_class
        return eta

    @cached_property
    def _probabilities(self) -> np.ndarray:
        """Return the probability of the class of each equation, [equations, rows]."""
        design = self._design
        columns = [design.likelihood.class_labels.index(equation) for equation in design.equations]
        return self._design.distribution.mean(self.eta)[:, columns].T

    @cached_property
    def _scores_by_equation(self) -> list[np.ndarray]:
        """The derivative of the loss by the linear predictor of each equation, [rows] each."""
        design, rows = self._design, self.rows
        classes = [design.likelihood.class_labels.index(equation) for equation in design.equations]
        return [
            np.where(rows.weight > 0, probability - (rows.y == number), 0.0) * rows.weight
            for number, probability in zip(classes, self._probabilities, strict=True)
        ]

    @property
    def contributions(self) -> Values:
        rows = self.rows
        loss = np.where(rows.weight > 0, self._design.distribution.loss(self.eta, rows.y), 0.0) * rows.weight
        return {"loss": float(loss.sum()), "pearson": 0.0, **self._by_equation(self._scores_by_equation)}

    @property
    def scores(self) -> Values:
        return self._by_equation(self._scores_by_equation)

    @property
    def weights(self) -> Values:
        """p_k (1{k = l} - p_l) for equations k and l, times the weight of the row."""
        p, weight = self._probabilities, self.rows.weight
        return {f"weight_{k}_{m}": weight * p[k] * ((k == m) - p[m]) for k, m in self._pairs}

    @property
    def own_weights(self) -> Values:
        weights = self.weights
        return self._by_equation([np.asarray(weights[f"weight_{k}_{k}"]) for k in range(len(self._design.equations))])

    @property
    def squared(self) -> Values:
        """Return the products of the scores of a row; if it represents several rows, multiplied by their number."""
        frequency, scores = self.rows.frequency, self._scores_by_equation
        return {
            f"weight_{k}_{m}": np.divide(
                scores[k] * scores[m], frequency, out=np.zeros_like(frequency), where=frequency > 0
            )
            for k, m in self._pairs
        }

    @property
    def sizes(self) -> Values:
        weights = self.weights
        diagonal = sum(weights[f"weight_{k}_{k}"] for k in range(len(self._scores_by_equation)))
        return {
            "reach": diagonal * self.reach**2,
            **self._by_equation([np.abs(score) for score in self._scores_by_equation]),
        }

    @property
    def counted(self) -> Values:
        """The weight of a row, by its class."""
        rows = self.rows
        return {f"class_{k}": rows.weight * (rows.y == k) for k in range(len(self._design.likelihood.class_labels))}

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self._design.equations)), 2))

    def _by_equation(self, values: list[np.ndarray]) -> Values:
        return {f"residual_{k}": value for k, value in enumerate(values)}


class EvaluatedOrdered(EvaluatedClasses):
    """Each class k has the predictor zeta_k - eta, infinite for the last class. With the first threshold in the intercept, these
    are zeta_k - zeta_0 less the linear predictor that all classes share (design.by_class). Terms of single thresholds, if there
    are some (solvers.parallel_slopes), have the coefficients 0."""

    @cached_property
    def eta(self) -> np.ndarray:
        """zeta_k - eta, [rows, classes]."""
        design, parts = self._design, self._parts
        own = [k for k, part in enumerate(design.parts) if not part.term.equation]
        shared = self.rows.linear_predictor(self.coefficients, parts[own], self.numbers)
        return -shared[:, None] + distances(design, self.coefficients)

    @cached_property
    def _interval(self) -> LossBetween:
        """The loss by the two thresholds around the class of a row, times its weight; 0 for rows that take no part."""
        rows, distribution = self.rows, self._design.distribution
        assert isinstance(distribution, Ordinal)
        takes_part = rows.weight > 0
        of_rows = distribution.interval_of(self.eta, np.where(takes_part, rows.y, 0.0))
        return LossBetween(*(np.where(takes_part, values, 0.0) * rows.weight for values in of_rows))

    @cached_property
    def _sides(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each equation, how it moves the upper and the lower threshold of the class of a row, [rows] each."""
        labels, y = self._design.likelihood.class_labels, self.rows.y
        numbers = [labels.index(equation) for equation in self._design.equations if equation]
        moved = [((y == number).astype(float), (y == number + 1).astype(float)) for number in numbers]
        return [*moved, (np.full(len(y), -1.0), np.full(len(y), -1.0))]

    @property
    def contributions(self) -> Values:
        loss = float(self._interval.loss.sum())
        return {"loss": loss, "pearson": 0.0, **self._by_equation(self._scores_by_equation)}

    @cached_property
    def _scores_by_equation(self) -> list[np.ndarray]:
        interval = self._interval
        return [upper * interval.upper + lower * interval.lower for upper, lower in self._sides]

    @property
    def weights(self) -> Values:
        """The second derivative of the loss by the predictors of equations k and l, times the weight of the row."""
        of, sides, nothing = self._interval, self._sides, np.zeros(len(self.rows.y))
        last = len(sides) - 1
        return {
            f"weight_{k}_{m}": sides[k][0] * sides[m][0] * of.upper_upper
            + sides[k][1] * sides[m][1] * of.lower_lower
            + (sides[k][0] * sides[m][1] + sides[k][1] * sides[m][0]) * of.upper_lower
            # No class has two thresholds that are not neighbours.
            if m in (k, k + 1, last)
            else nothing
            for k, m in self._pairs
        }

    @property
    def expected_weights(self) -> Values:
        """The same in expectation, for responses with the probabilities of the model: of a row and thresholds k and j
        f_k^2 (1 / p_k + 1 / p_k+1) if j is k, and -f_k f_k+1 / p_k+1 if j is k + 1, with densities f."""
        distribution, weight = self._design.distribution, self.rows.weight
        assert isinstance(distribution, Ordinal)
        density, share = distribution.cumulative.density(self.eta)[:, :-1], distribution.mean(self.eta)
        own = density**2 * (1.0 / share[:, :-1] + 1.0 / share[:, 1:])
        beside = -density[:, :-1] * density[:, 1:] / share[:, 1:-1]
        together = own.copy()
        together[:, :-1] += beside
        together[:, 1:] += beside
        of = [self._design.likelihood.class_labels.index(equation) for equation in self._design.equations if equation]
        last, result = len(of), {}
        for k, m in self._pairs:
            if k == last:
                value = together.sum(axis=1)
            elif m == last:
                value = -together[:, of[k]]
            else:
                value = own[:, of[k]] if k == m else beside[:, of[k]] if of[m] == of[k] + 1 else np.zeros(len(weight))
            result[f"weight_{k}_{m}"] = np.where(weight > 0, value, 0.0) * weight
        return result


def distances(design: Design, coefficients: np.ndarray) -> np.ndarray:
    """The distances zeta_k - zeta_0 from the first threshold, infinite for the last class, [classes]."""
    constants = [part for part in design.parts if part.term.base == INTERCEPT]
    further = [coefficients[part.where.start] for part in constants if part.term.equation]
    return np.array([0.0, *further, np.inf])
