"""Averages over rows, as in engine.averages, of the probability of each class of a regression of classes.

In a multinomial regression, let p_c be the probability of class c, and d_ck be 1 if c is k and else 0. Let x_k' be the row
of the design matrix of equation k, with linear predictor x_k'b_k (0 for the reference class):

- of a factor, for each level l: F_lc = sum m p_c / M and dF_lc/db_k = sum m p_c (d_ck - p_k) x_k / M, all at x_kl;
- of a number z, with s_k = (dx_k/dz)'b_k and s = sum over k of p_k s_k: F_c = sum m p_c (s_c - s) / M and
  dF_c/db_k = sum m p_c (((d_ck - p_k)(s_c - s) - p_k (s_k - s)) x_k + (d_ck - p_k) dx_k/dz) / M;
- of the response itself: F_c = sum m p_c / M and dF_c/db_k = sum m p_c (d_ck - p_k) x_k / M.

The reference class has the rest: probabilities add up to 1, and their derivatives to 0. Of ordered classes, the first has
the rest.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.engine import kernels
from tfglm.engine.averaged import AveragesByLevel, AverageSlope
from tfglm.engine.averages import CELLS_AT_ONCE, AveragedBlock, LevelMeans, MeanResponse, MeanSlope, RowMean
from tfglm.engine.classes import distances
from tfglm.families import Family
from tfglm.families.ordinal import Cumulative, Ordinal

SHARED = -1
"""The number of the linear predictor that all ordered classes share."""


def parts_of_equations(design: Design) -> dict[int, list[int]]:
    """Return the numbers of the parts of each equation, by the number of its class."""
    return {
        design.likelihood.class_labels.index(equation) if equation else SHARED: [
            number for number, part in enumerate(design.parts) if part.term.equation == equation
        ]
        for equation in design.equations
    }


def classes_of_sums(design: Design) -> list[int]:
    """The numbers of the classes that are summed over rows: all but one."""
    return (
        list(range(1, len(design.likelihood.class_labels)))
        if design.likelihood.is_ordered
        else list(parts_of_equations(design))
    )


class ClassMeans(LevelMeans):
    """The mean probability of each class with a factor at each of its levels in all rows."""

    def __init__(
        self, design: Design, factor: Categorical, coefficients: np.ndarray, cells_at_once: int = CELLS_AT_ONCE
    ):
        super().__init__(design, factor, coefficients, cells_at_once)
        self._of_equations, self._classes = parts_of_equations(design), len(design.likelihood.class_labels)
        self._totals = np.zeros((self._classes, self._levels))
        empty = self._derivative
        self._derivatives = {number: [np.zeros_like(sums) for sums in empty] for number in classes_of_sums(design)}

    def add(self, block: AveragedBlock) -> None:
        self._weight += float(block.weight.sum())
        groups = [
            self._changed[number][0][block.group(number)] if number in self._changed else block.group(number)
            for number in range(len(self._parts))
        ]
        rest = {number: self._rest(block, own) for number, own in self._of_equations.items()}
        step = max(1, self._cells_at_once // (self._levels * self._classes))
        for first in range(0, len(block.weight), step):
            self._add_rows(block, groups, rest, slice(first, first + step))

    def _rest(self, block: AveragedBlock, own: list[int]) -> np.ndarray:
        """Return the sum of the parts of an equation without the factor."""
        unchanged = [number for number in own if number not in self._changed]
        return block.linear_predictor(self._finite, self._parts[unchanged])

    def _add_rows(
        self, block: AveragedBlock, groups: list[np.ndarray], rest: dict[int, np.ndarray], some: slice
    ) -> None:
        weight = block.weight[some, None]
        eta = np.zeros((len(weight), self._levels, self._classes))
        for equation, own in self._of_equations.items():
            of_equation = np.repeat(rest[equation][some, None], self._levels, axis=1)
            for number in [number for number in own if number in self._tables]:
                kernels.add_levels(of_equation, self._tables[number], groups[number][some], block.number(number)[some])
            eta[:, :, equation] = of_equation
        mean = self._family.mean(eta.reshape(-1, self._classes)).reshape(eta.shape)
        self._totals += np.einsum("i,ilc->cl", weight[:, 0], mean)
        for of_class, sums in self._derivatives.items():
            for equation, own in self._of_equations.items():
                slope = weight * mean[:, :, of_class] * ((of_class == equation) - mean[:, :, equation])
                for number in own:
                    kernels.add_by_level(sums[number], groups[number][some], block.number(number)[some], slope)

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._totals += other._totals
        for of_class, of_parts in other._derivatives.items():
            for sums, more in zip(self._derivatives[of_class], of_parts, strict=True):
                sums += more

    @cached_property
    def _by_class(self) -> dict[int, np.ndarray]:
        """The derivatives of each class with an equation, [levels, p]."""
        return {number: self._assembled(sums) for number, sums in self._derivatives.items()}

    def for_class(self, number: int) -> AveragesByLevel:
        """Those of a class."""
        known = self._by_class
        derivative = known[number] if number in known else -sum(known.values(), np.zeros(()))
        mean = np.where(self.unknown, np.nan, self._totals[number] / self._weight)
        return AveragesByLevel(mean, derivative, self.unknown, self.infinite)


class ByClass(RowMean):
    """Means over rows for each class: those of all classes but one, which has the `rest`."""

    rest = 0.0

    def __init__(self, design: Design, *given: Any):
        super().__init__(design, *given)
        self._of_equations, self._classes = parts_of_equations(design), len(design.likelihood.class_labels)
        self._totals = dict.fromkeys(classes_of_sums(design), 0.0)
        self._derivatives = {number: np.zeros(design.size) for number in self._totals}

    def merge(self, other: Self) -> None:
        super().merge(other)
        for of_class, derivative in other._derivatives.items():
            self._totals[of_class] += other._totals[of_class]
            self._derivatives[of_class] += derivative

    def _average(self, number: int) -> tuple[float, np.ndarray]:
        """The mean of a class, and its derivative by the coefficients, [p]."""
        if number in self._totals:
            return self._totals[number] / self._weight, self._derivatives[number] / self._weight
        derivative = -sum(self._derivatives.values(), np.zeros(()))
        return self.rest - sum(self._totals.values()) / self._weight, derivative / self._weight


class ClassResponse(ByClass, MeanResponse):
    """The mean probability of each class."""

    rest = 1.0

    def add(self, block: AveragedBlock) -> None:
        self._check(block)
        self._weight += float(block.weight.sum())
        mean, slopes = probabilities(self._family, self._predictors(block))
        for of_class, derivative in self._derivatives.items():
            self._totals[of_class] += float(block.weight @ mean[:, of_class])
            for equation, own in self._of_equations.items():
                self._add_derivative(block, derivative, own, block.weight * slopes(of_class, equation))

    def _predictors(self, block: AveragedBlock) -> np.ndarray:
        """The linear predictors as the family takes them, [rows, classes]."""
        eta = np.zeros((len(block.weight), self._classes))
        for equation, own in self._of_equations.items():
            eta[:, equation] = block.linear_predictor(self._coefficients, self._parts[own])
        return eta

    def for_class(self, number: int) -> AveragesByLevel:
        """That of a class."""
        return self._as_level(*self._average(number))


class OrderedResponse(ClassResponse):
    """The mean probability of each ordered class."""

    def _predictors(self, block: AveragedBlock) -> np.ndarray:
        shared = block.linear_predictor(self._coefficients, self._parts[self._of_equations[SHARED]])
        return distances(self._design, self._coefficients) - shared[:, None]


class ClassSlopes(ByClass, MeanSlope):
    """The mean of the derivative of the probability of each class by a column of numbers."""

    def add(self, block: AveragedBlock) -> None:
        by_multiplier = self._slopes(block)
        self._weight += float(block.weight.sum())
        eta, change = np.zeros((2, len(block.weight), self._classes))
        for equation, own in self._of_equations.items():
            eta[:, equation] = block.linear_predictor(self._coefficients, self._parts[own])
            change[:, equation] = self._change(block, by_multiplier, own)
        mean = self._family.mean(eta)
        away = change - np.sum(mean * change, axis=1, keepdims=True)
        for of_class, derivative in self._derivatives.items():
            own_mean = block.weight * mean[:, of_class]
            self._totals[of_class] += float(own_mean @ away[:, of_class])
            for equation, own in self._of_equations.items():
                left = (of_class == equation) - mean[:, equation]
                first = own_mean * left
                second = own_mean * (left * away[:, of_class] - mean[:, equation] * away[:, equation])
                self._add_derivative(block, derivative, own, first, second, by_multiplier)

    def for_class(self, number: int) -> AverageSlope:
        """Those of a class."""
        return AverageSlope(*self._average(number))


class OrderedMeans(ClassMeans):
    """The mean probability of each ordered class with a factor at each of its levels in all rows.

    With p_c = F(v_c) - F(v_c-1) and v_k = zeta_k - eta, the derivative of p_c is F'(v_c-1) - F'(v_c) by eta, F'(v_c) by zeta_c,
    and -F'(v_c-1) by zeta_c-1.
    """

    def _add_rows(
        self, block: AveragedBlock, groups: list[np.ndarray], rest: dict[int, np.ndarray], some: slice
    ) -> None:
        shared, weight = np.repeat(rest[SHARED][some, None], self._levels, axis=1), block.weight[some]
        for number in self._tables:
            kernels.add_levels(shared, self._tables[number], groups[number][some], block.number(number)[some])
        eta = distances(self._design, self._finite) - shared[:, :, None]
        self._totals += np.einsum("i,ilc->cl", weight, self._family.mean(eta))
        density = weight[:, None, None] * cumulative_of(self._family).density(eta)
        for of_class, sums in self._derivatives.items():
            above, below = density[:, :, of_class], density[:, :, of_class - 1]
            for equation, own in self._of_equations.items():
                slope = slope_by(equation, of_class, above, below)
                for number in own:
                    kernels.add_by_level(sums[number], groups[number][some], block.number(number)[some], slope)


class OrderedSlopes(ClassSlopes):
    """The mean of the derivative of the probability of each ordered class by a column of numbers: with s = d eta / dz, that of
    class c is (F'(v_c-1) - F'(v_c)) s."""

    def add(self, block: AveragedBlock) -> None:
        by_multiplier = self._slopes(block)
        self._weight += float(block.weight.sum())
        own = self._of_equations[SHARED]
        shared = block.linear_predictor(self._coefficients, self._parts[own])
        change = self._with_offset(block, self._change(block, by_multiplier, own))
        eta = distances(self._design, self._coefficients) - shared[:, None]
        cumulative = cumulative_of(self._family)
        density = block.weight[:, None] * cumulative.density(eta)
        bend = (block.weight * change)[:, None] * cumulative.density_slope(eta)
        for of_class, derivative in self._derivatives.items():
            first = density[:, of_class - 1] - density[:, of_class]
            self._totals[of_class] += float(first @ change)
            for equation, parts in self._of_equations.items():
                second = -slope_by(equation, of_class, bend[:, of_class], bend[:, of_class - 1])
                by_column = first if equation == SHARED else np.zeros_like(first)
                self._add_derivative(block, derivative, parts, by_column, second, by_multiplier)


def probabilities(family: Family, eta: np.ndarray) -> tuple[np.ndarray, Callable[[int, int], np.ndarray]]:
    """Return the probabilities of the classes, [rows, classes], and a function that returns the derivative of that of a class by
    the predictor of an equation, [rows], from the numbers of both. `eta` [rows, classes] is as the family takes it."""
    mean = family.mean(eta)
    if isinstance(family, Ordinal):
        # The last class has no threshold above it, and the first none below: there the density is 0.
        density = family.cumulative.density(eta)
        return mean, lambda of_class, equation: slope_by(
            equation, of_class, density[:, of_class], density[:, of_class - 1]
        )
    return mean, lambda of_class, equation: mean[:, of_class] * ((of_class == equation) - mean[:, equation])


def slope_by(equation: int, of_class: int, above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The derivative of F(v_c) - F(v_c-1) by the predictor of an equation, from those of F at v_c and v_c-1."""
    if equation == SHARED:
        return below - above
    return above * (of_class == equation) - below * (of_class - 1 == equation)


def cumulative_of(family: Family) -> Cumulative:
    assert isinstance(family, Ordinal)
    return family.cumulative
