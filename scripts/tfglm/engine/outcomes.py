"""The means of a response as functions of its linear predictors, with their derivatives: one mean, or the probability of each
class.

With m the weight of a row, eta_k the linear predictor of equation k and mu_c the mean of outcome c:

- of one response: one outcome and one equation, mu(eta);
- of a multinomial regression, with p_c the probability of class c, and d_ck 1 if c is k and else 0:
  dp_c/deta_k = p_c (d_ck - p_k). The reference class has the linear predictor 0;
- of ordered classes, p_c = F(v_c) - F(v_c-1) with v_k = zeta_k - eta: the derivative is F'(v_c-1) - F'(v_c) by eta, F'(v_c) by
  zeta_c, and -F'(v_c-1) by zeta_c-1.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from tfglm.design.design import Design
from tfglm.families import Family
from tfglm.families.ordinal import Ordinal
from tfglm.formula.terms import INTERCEPT

SHARED = -1
"""The number of the linear predictor of the only outcome, or of all ordered classes."""


def parts_of_equations(design: Design) -> dict[int, list[int]]:
    """Return the numbers of the parts of each equation, by the number of its class, or SHARED."""
    return {
        design.likelihood.class_labels.index(equation) if equation else SHARED: [
            number for number, part in enumerate(design.parts) if part.term.equation == equation
        ]
        for equation in design.equations or ("",)
    }


def parts_of_predictors(design: Design) -> dict[int, list[int]]:
    """Those of the equations whose linear predictors differ between rows: thresholds do not."""
    ordered = design.likelihood.is_ordered
    return {number: parts for number, parts in parts_of_equations(design).items() if number == SHARED or not ordered}


def differentiated(design: Design) -> list[int]:
    """The numbers of the outcomes whose derivatives are summed over rows: of classes all but one, whose derivative is minus the
    sum of the others."""
    if design.likelihood.is_ordered:
        return list(range(1, len(design.likelihood.class_labels)))
    return list(parts_of_equations(design)) if design.equations else [0]


def distances(design: Design, coefficients: np.ndarray) -> np.ndarray:
    """The distances zeta_k - zeta_0 from the first threshold, infinite for the last class, [classes]."""
    constants = [part for part in design.parts if part.term.base == INTERCEPT]
    further = [coefficients[part.where.start] for part in constants if part.term.equation]
    return np.array([0.0, *further, np.inf])


def joined(design: Design, coefficients: np.ndarray, predictors: Mapping[int, np.ndarray]) -> np.ndarray:
    """The linear predictors of `parts_of_predictors`, arrays of the same shape, as the family takes them: of classes with a last
    axis [classes]."""
    if not design.equations:
        return predictors[SHARED]
    if design.likelihood.is_ordered:
        return -predictors[SHARED][..., None] + distances(design, coefficients)
    eta = np.zeros((*next(iter(predictors.values())).shape, len(design.likelihood.class_labels)))
    for number, of_class in predictors.items():
        eta[..., number] = of_class
    return eta


class Outcomes(ABC):
    """The outcomes of some rows, in arrays of the shape of a linear predictor. `eta` is as the family takes it (`joined`), and
    `weight` multiplies all derivatives."""

    def __init__(self, family: Family, eta: np.ndarray, weight: np.ndarray):
        self._family, self._eta, self._weight = family, eta, weight
        self._mean = family.mean(eta)

    def mean(self, outcome: int) -> np.ndarray:
        return self._mean[..., outcome]

    @abstractmethod
    def slope(self, outcome: int, equation: int) -> np.ndarray:
        """The derivative of its mean by a linear predictor."""

    def along(self, changes: Mapping[int, np.ndarray]) -> np.ndarray:
        """A direction as `change` and `bend` take it, from the changes of the linear predictors by equation."""
        return changes[SHARED]

    def change(self, outcome: int, along: np.ndarray) -> np.ndarray:
        """The change of the mean along a direction."""
        return self.slope(outcome, SHARED) * along

    @abstractmethod
    def bend(self, outcome: int, equation: int, along: np.ndarray) -> np.ndarray:
        """The change of `slope` along a direction."""


class OneMean(Outcomes):
    """The mean of a response with one linear predictor."""

    def mean(self, outcome: int) -> np.ndarray:
        return self._mean

    @cached_property
    def _slope(self) -> np.ndarray:
        return self._weight * self._family.slope(self._eta, self._mean)

    @cached_property
    def _curvature(self) -> np.ndarray:
        return self._weight * self._family.curvature(self._eta, self._mean)

    def slope(self, outcome: int, equation: int) -> np.ndarray:
        return self._slope

    def bend(self, outcome: int, equation: int, along: np.ndarray) -> np.ndarray:
        return self._curvature * along


class ClassShares(Outcomes):
    """The probabilities of the classes of a multinomial regression. A direction is the changes of the linear predictors less
    their mean, [..., classes]."""

    def slope(self, outcome: int, equation: int) -> np.ndarray:
        return self._weight * self._mean[..., outcome] * ((outcome == equation) - self._mean[..., equation])

    def along(self, changes: Mapping[int, np.ndarray]) -> np.ndarray:
        change = np.zeros(self._mean.shape)
        for equation, of_equation in changes.items():
            change[..., equation] = of_equation
        return change - np.sum(self._mean * change, axis=-1, keepdims=True)

    def change(self, outcome: int, along: np.ndarray) -> np.ndarray:
        return self._weight * self._mean[..., outcome] * along[..., outcome]

    def bend(self, outcome: int, equation: int, along: np.ndarray) -> np.ndarray:
        mean = self._mean[..., equation]
        left = ((outcome == equation) - mean) * along[..., outcome] - mean * along[..., equation]
        return self._weight * self._mean[..., outcome] * left


class OrderedShares(Outcomes):
    """The probabilities of ordered classes. The last class has no threshold above it, and the first none below: there the density
    is 0."""

    @cached_property
    def _density(self) -> np.ndarray:
        assert isinstance(self._family, Ordinal)
        return self._weight[..., None] * self._family.cumulative.density(self._eta)

    @cached_property
    def _density_slope(self) -> np.ndarray:
        assert isinstance(self._family, Ordinal)
        return self._weight[..., None] * self._family.cumulative.density_slope(self._eta)

    def slope(self, outcome: int, equation: int) -> np.ndarray:
        return between(self._density, outcome, equation)

    def bend(self, outcome: int, equation: int, along: np.ndarray) -> np.ndarray:
        return -along * between(self._density_slope, outcome, equation)


def between(values: np.ndarray, outcome: int, equation: int) -> np.ndarray:
    """The derivative of F(v_c) - F(v_c-1) by the predictor of an equation, from those of F at each v, [..., classes]."""
    above, below = values[..., outcome], values[..., outcome - 1]
    if equation == SHARED:
        return below - above
    return above * (outcome == equation) - below * (outcome - 1 == equation)


def outcomes_of(family: Family, eta: np.ndarray, weight: np.ndarray) -> Outcomes:
    """The outcomes of rows by their linear predictors `eta`, as the family takes them."""
    kind = OrderedShares if family.is_ordered else ClassShares if family.of_classes else OneMean
    return kind(family, eta, weight)
