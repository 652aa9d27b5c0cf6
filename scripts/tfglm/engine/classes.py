"""Rows of a multinomial regression: a linear predictor for each, 0 for the reference class, and what a row contributes to the
likelihood (families.multinomial)."""

from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from tfglm.engine.evaluated import Evaluated, Values


class EvaluatedClasses(Evaluated):
    """Each class but the reference class has an equation. Equations are numbered in the order of the design, classes in the
    order of their labels."""

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictors, [rows, classes]."""
        design, parts = self._design, self._parts
        eta = np.zeros((len(self.rows.flag), len(design.class_labels)))
        for equation in design.equations:
            own = [k for k, part in enumerate(design.parts) if part.term.equation == equation]
            of_class = self.rows.without_offset(self.coefficients, parts[own], self.numbers)
            eta[:, design.class_labels.index(equation)] = of_class
        return eta

    @cached_property
    def _probabilities(self) -> np.ndarray:
        """Return the probability of the class of each equation, [equations, rows]."""
        design = self._design
        columns = [design.class_labels.index(equation) for equation in design.equations]
        return self._design.distribution.mean(self.eta)[:, columns].T

    @cached_property
    def _scores_by_equation(self) -> list[np.ndarray]:
        """The derivative of the loss by the linear predictor of each equation, [rows] each."""
        design, rows = self._design, self.rows
        classes = [design.class_labels.index(equation) for equation in design.equations]
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
        return {f"class_{k}": rows.weight * (rows.y == k) for k in range(len(self._design.class_labels))}

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self._design.equations)), 2))

    def _by_equation(self, values: list[np.ndarray]) -> Values:
        return {f"residual_{k}": value for k, value in enumerate(values)}
