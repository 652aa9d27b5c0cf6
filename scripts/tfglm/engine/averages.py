"""Averages over rows of what a model predicts if one column were another, and their derivatives by the coefficients.

With m the weight of a row, M = sum m, mu the mean of the response, x' the row of the design matrix on the scale of the fit:

- of a factor, for each level l, with x_l the row as it were at that level:
  F_l = sum m mu(x_l'b) / M and dF_l/db = sum m mu'(x_l'b) x_l / M;
- of a number z: F = sum m mu'(x'b) s / M with s = (dx/dz)'b, and dF/db = sum m (mu''(x'b) s x + mu'(x'b) dx/dz) / M;
- of the response itself: F = sum m mu(x'b) / M and dF/db = sum m mu'(x'b) x / M.

All of them may be averages over the rows as they would be in a scenario, where some columns have the same value in all rows.

The design matrix is never made: a row has for each part of the design a group and a number. A part with the factor has a context
instead of the group, which is the combination of the levels of its other factors: with the level it tells the coefficient.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from tfglm.design import thin_plates
from tfglm.design.derivatives import derivative
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.parametrisation import standardised
from tfglm.design.scenarios import Scenario
from tfglm.design.terms import Part
from tfglm.engine import kernels
from tfglm.engine.averaged import AveragesByLevel, AverageSlope
from tfglm.engine.evaluated import Evaluated
from tfglm.engine.parts import looked_up_parts
from tfglm.engine.rows import Multiplier

CELLS_AT_ONCE = 2**15
"""Rows times levels that are processed together, so that the intermediate arrays stay in the caches."""


class AveragedBlock:
    """The rows of a block that take part, [rows].

    They have `weight`, `frequency`, `offset`, and for each part of the design the `group` and the `number` of a row. With
    these coefficients [p], which are finite, they also have the linear predictor `eta`, the `mean` of the response, and its
    first and second derivative by eta, `slope` and `curvature`.
    """

    def __init__(self, design: Design, parts: np.ndarray, evaluated: Evaluated, coefficients: np.ndarray):
        rows = evaluated.rows
        self._design, self._evaluated, self._parts, self._coefficients = design, evaluated, parts, coefficients
        takes_part = rows.weight > 0
        self._places = None if takes_part.all() else np.flatnonzero(takes_part)
        self.weight = self._kept(rows.weight)
        self.frequency = self._kept(rows.frequency)
        self.rows = float(self.frequency.sum())
        self.groups = self._kept(rows.groups)
        self.numbers = self._kept(evaluated.numbers)
        self.offset = self._kept(rows.offset) if design.roles.offset else np.zeros(len(self.weight))
        self._nowhere = np.zeros(len(self.weight), self.groups.dtype)
        self._once = np.ones(len(self.weight))

    def at(self, scenario: Scenario) -> "AveragedBlock":
        """The same rows if some columns had the values of a scenario."""
        return AveragedBlock(self._design, self._parts, self._evaluated.at(scenario), self._coefficients)

    def with_coefficients(self, coefficients: np.ndarray) -> "AveragedBlock":
        """The same rows with other coefficients [p], which are finite."""
        if np.array_equal(coefficients, self._coefficients):
            return self
        return AveragedBlock(self._design, self._parts, self._evaluated, coefficients)

    @property
    def is_unknown(self) -> bool:
        """Whether some row has a combination of levels without coefficients."""
        return bool(self._kept(self._evaluated.rows.is_unknown).any())

    def _kept(self, values: np.ndarray) -> np.ndarray:
        """Those of the rows that take part, of some [..., rows]; by an index of arrays it took four times as long."""
        return values if self._places is None else np.take(values, self._places, axis=-1)

    def group(self, part: int) -> np.ndarray:
        grouping = self._parts[part, 1]
        return self.groups[grouping] if grouping >= 0 else self._nowhere

    def number(self, part: int) -> np.ndarray:
        multiplier = self._parts[part, 2]
        return self.numbers[multiplier] if multiplier >= 0 else self._once

    def linear_predictor(self, coefficients: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Return the sum of some of the parts and the offset."""
        eta = self.offset.copy()
        kernels.add_linear_predictor(eta, coefficients, parts, self.groups, self.numbers)
        return eta

    @cached_property
    def eta(self) -> np.ndarray:
        return self.linear_predictor(self._coefficients, self._parts)

    @cached_property
    def mean(self) -> np.ndarray:
        return self._design.distribution.mean(self.eta)

    @cached_property
    def slope(self) -> np.ndarray:
        return self._design.distribution.slope(self.eta, self.mean)

    @cached_property
    def curvature(self) -> np.ndarray:
        return self._design.distribution.curvature(self.eta, self.mean)

    def values(self, number: Numeric) -> np.ndarray:
        """Return the values of a factor that is one number."""
        return self._kept(self._evaluated.rows.numbers(number)[0]).astype(float)

    def derivatives(self, factor: Numeric, value: Numeric) -> list[np.ndarray]:
        """The derivatives of the numbers of a factor by the values of a column of it."""
        if len(factor.columns) > 1:
            numbers = tuple(self._kept(each) for each in self._evaluated.rows.values(factor))
            return thin_plates.slopes(numbers, factor.learnt[-1], by=factor.columns.index(value.column))
        return derivative(factor.learnt, self.values(value))

    def product(self, multiplier: Multiplier) -> np.ndarray:
        """The product of some numbers on the scale of the fit."""
        if not multiplier.numbers:
            return self._once
        out = np.empty((1, len(self._evaluated.rows.flag)))
        return self._kept(self._evaluated.rows.multiplied([multiplier], out)[0])


class Averages(ABC):
    """Sums over rows that become averages."""

    @abstractmethod
    def add(self, block: AveragedBlock) -> None:
        """Add the rows of a block."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the rows of another of the same kind, which is finished."""

    def finish(self) -> None:
        """Bring all rows that were added into the sums; here they are."""
        return


class LevelMeans(Averages):
    """The mean of the response with a factor set to each of its levels in all rows.

    `coefficients` [p] may be infinite, because a mean has a limit then; NaN is a coefficient without rows. `unknown`
    [levels] marks levels that some rows cannot be set to: no row has them together with the other levels of these rows.
    `infinite` [levels] marks levels at which the linear predictor of some rows is infinite. If the family has a quadratic
    loss, mu' is 1 at every level, so a row is added once instead of once for each level.
    """

    def __init__(
        self, design: Design, factor: Categorical, coefficients: np.ndarray, cells_at_once: int = CELLS_AT_ONCE
    ):
        self._design, self._family, self._cells_at_once = design, design.distribution, cells_at_once
        self._levels, self._parts = len(factor.levels), looked_up_parts(design)[1]
        self._finite = np.where(np.isfinite(coefficients), coefficients, 0.0)
        self._changed = {
            number: contexts(design, part, factor.name)
            for number, part in enumerate(design.parts)
            if factor.name in part.grouping
        }
        self._unchanged = np.delete(self._parts, list(self._changed), axis=0)
        self.unknown, self.infinite = np.zeros((2, self._levels), bool)
        self._tables = self._coefficients_of_levels(coefficients)
        width = 1 if self._family.quadratic else self._levels
        self._total, self._weight = np.zeros((1, width)), 0.0
        self._derivative = [
            np.zeros((len(self._tables[number]) if number in self._tables else part.size, width))
            for number, part in enumerate(design.parts)
        ]

    def _coefficients_of_levels(self, coefficients: np.ndarray) -> dict[int, np.ndarray]:
        """The coefficients of each part with the factor, [contexts, levels]."""
        tables = {}
        infinite: dict[tuple[str, tuple[str, ...]], np.ndarray] = {}
        for number, (_, places) in self._changed.items():
            table = np.where(places >= 0, coefficients[places], np.nan)
            part = self._design.parts[number]
            where = part.term.equation, part.grouping
            # No row is set to a context that no row of the likelihood has.
            occurs = np.isfinite(table).any(axis=1, keepdims=True)
            if not part.multiplier:
                infinite[where] = np.isinf(table)
            elif where in infinite:
                # If the linear predictor is infinite, the multiplier of a number does not matter.
                table[infinite[where]] = 0.0
            self.unknown |= (np.isnan(table) & occurs).any(axis=0)
            self.infinite |= (np.isinf(table) & occurs).any(axis=0)
            tables[number] = table
        return tables

    def add(self, block: AveragedBlock) -> None:
        self._weight += float(block.weight.sum())
        groups = [
            self._changed[number][0][block.group(number)] if number in self._changed else block.group(number)
            for number in range(len(self._parts))
        ]
        if self._family.quadratic:
            self._total += (block.weight * block.offset).sum()
            self._add_derivative(block, groups, slice(None), block.weight[:, None])
            return
        rest = block.linear_predictor(self._finite, self._unchanged)
        step = max(1, self._cells_at_once // self._levels)
        for first in range(0, len(rest), step):
            some = slice(first, first + step)
            eta = np.repeat(rest[some, None], self._levels, axis=1)
            for number, table in self._tables.items():
                kernels.add_levels(eta, table, groups[number][some], block.number(number)[some])
            mean, total = self._family.mean(eta), np.zeros_like(self._total)
            kernels.add_by_level(total, np.zeros(len(mean), np.uint32), block.weight[some], mean)
            # Add a block separately first: a long chain of additions loses digits.
            self._total += total
            slope = self._family.slope(eta, mean) * block.weight[some, None]
            self._add_derivative(block, groups, some, slope)

    def _add_derivative(self, block: AveragedBlock, groups: list[np.ndarray], some: slice, slope: np.ndarray) -> None:
        for number, sums in enumerate(self._derivative):
            kernels.add_by_level(sums, groups[number][some], block.number(number)[some], slope)

    def merge(self, other: Self) -> None:
        self._total += other._total
        self._weight += other._weight
        for sums, more in zip(self._derivative, other._derivative, strict=True):
            sums += more

    def for_class(self, number: int) -> AveragesByLevel:
        """The averages; there is one response alone (engine.class_averages)."""
        return AveragesByLevel(self.mean, self.derivative, self.unknown, self.infinite)

    @cached_property
    def derivative(self) -> np.ndarray:
        """The derivative by the coefficients, [levels, p]."""
        return self._assembled(self._derivative)

    def _assembled(self, of_parts: Sequence[np.ndarray]) -> np.ndarray:
        """A derivative [levels, p] from its sums by part."""
        result = np.zeros((self._levels, self._design.size))
        for number, (part, sums) in enumerate(zip(self._design.parts, of_parts, strict=True)):
            if number not in self._changed:
                result[:, part.where] = sums.T
                continue
            places = self._changed[number][1]
            context, level = np.nonzero(places >= 0)
            result[level, places[context, level]] = np.broadcast_to(sums, places.shape)[context, level]
        return result / self._weight

    @cached_property
    def mean(self) -> np.ndarray:
        """[levels], NaN where some rows cannot be set to the level."""
        mean = np.broadcast_to(self._total[0] / self._weight, self._levels)
        if self._family.quadratic:
            mean = mean + self.derivative @ self._finite
        return np.where(self.unknown, np.nan, mean)


def contexts(design: Design, part: Part, factor: str) -> tuple[np.ndarray, np.ndarray]:
    """The context of each group of a part with the factor, [groups], and the place of the coefficient of each context and level,
    [contexts, levels], -1 for none."""
    numbers = design.levels(part.grouping)
    mine = part.grouping.index(factor)
    level, others = numbers[:, mine], np.delete(numbers, mine, axis=1)
    sizes = [len(design.categorical_by_name[name].levels) for name in part.grouping if name != factor]
    joint = np.ravel_multi_index(tuple(others.T), sizes) if sizes else np.zeros(part.size, np.int64)
    distinct, context = np.unique(joint, return_inverse=True)
    places = np.full((len(distinct), len(design.categorical_by_name[factor].levels)), -1)
    places[context, level] = np.arange(part.where.start, part.where.stop)
    return context.astype(np.uint32), places


class AtScenario(Averages):
    """Other averages, of the rows as they would be in a scenario."""

    def __init__(self, scenario: Scenario, averages: Sequence[Averages]):
        self._scenario, self._averages = scenario, averages

    def _changed(self, block: AveragedBlock) -> AveragedBlock:
        return block.at(self._scenario)

    def add(self, block: AveragedBlock) -> None:
        changed = self._changed(block)
        for of_rows in self._averages:
            of_rows.add(changed)

    def merge(self, other: Self) -> None:
        for of_rows, more in zip(self._averages, other._averages, strict=True):
            of_rows.merge(more)

    def finish(self) -> None:
        for of_rows in self._averages:
            of_rows.finish()


class AtCoefficients(AtScenario):
    """Other averages, of the rows with other coefficients [p]."""

    def __init__(self, coefficients: np.ndarray, averages: Sequence[Averages]):
        self._coefficients, self._averages = np.where(np.isfinite(coefficients), coefficients, 0.0), averages

    def _changed(self, block: AveragedBlock) -> AveragedBlock:
        return block.with_coefficients(self._coefficients)


class RowMean(Averages):
    """The mean over rows of a function of the linear predictor, with its derivative by the coefficients."""

    def __init__(self, design: Design, coefficients: np.ndarray):
        self._design, self._family = design, design.distribution
        self._coefficients = np.where(np.isfinite(coefficients), coefficients, 0.0)
        self._multipliers, self._parts = looked_up_parts(design)
        self._total = self._weight = 0.0
        self._derivative = np.zeros(design.size)

    def merge(self, other: Self) -> None:
        self._total += other._total
        self._weight += other._weight
        self._derivative += other._derivative

    @property
    def derivative(self) -> np.ndarray:
        """By the coefficients, [p]."""
        return self._derivative / self._weight

    @property
    def mean(self) -> float:
        return self._total / self._weight

    def _add_product(self, block: AveragedBlock, derivative: np.ndarray, number: int, value: np.ndarray) -> None:
        """Add the sums of a value [rows] by the coefficients of a part to a derivative [p]; numbers have multiplied it."""
        part = self._design.parts[number]
        if part.grouping:
            job = np.array([[part.where.start, self._parts[number, 1]]])
            kernels.add_by_group(derivative, job, block.groups, value)
        else:
            derivative[part.where] += value.sum()


class MeanResponse(RowMean):
    """The mean of the response: of all rows in a scenario.

    There is none if some row has a combination of levels that no training row has, or a coefficient without an estimate.
    """

    def __init__(self, design: Design, coefficients: np.ndarray):
        super().__init__(design, coefficients)
        self._missing, self._infinite = np.isnan(coefficients), np.isinf(coefficients)
        self.unknown = self.infinite = False

    def add(self, block: AveragedBlock) -> None:
        self._check(block)
        self._total += float((block.weight * block.mean).sum())
        self._weight += float(block.weight.sum())
        self._add_derivative(block, self._derivative, range(len(self._parts)), block.weight * block.slope)

    def _check(self, block: AveragedBlock) -> None:
        """Note whether a row has no mean."""
        self.unknown |= block.is_unknown
        for number, part in enumerate(self._design.parts):
            missing, infinite = self._missing[part.where], self._infinite[part.where]
            if missing.any() or infinite.any():
                group = block.group(number)
                self.unknown |= bool(missing[group].any())
                self.infinite |= bool(infinite[group].any())

    def _add_derivative(
        self, block: AveragedBlock, derivative: np.ndarray, parts: Iterable[int], slope: np.ndarray
    ) -> None:
        """Add sum of slope x of some parts to a derivative by the coefficients [p]."""
        for number in parts:
            value = slope * block.number(number) if self._design.parts[number].multiplier else slope
            self._add_product(block, derivative, number, value)

    def merge(self, other: Self) -> None:
        super().merge(other)
        self.unknown |= other.unknown
        self.infinite |= other.infinite

    def for_class(self, number: int) -> AveragesByLevel:
        """The mean as that of one level; there is one response alone (engine.class_averages)."""
        return self._as_level(self.mean, self.derivative)

    def _as_level(self, mean: float, derivative: np.ndarray) -> AveragesByLevel:
        unknown, infinite = np.array([self.unknown]), np.array([self.infinite])
        return AveragesByLevel(np.where(unknown | infinite, np.nan, [mean]), derivative[None], unknown, infinite)


class MeanSlope(RowMean):
    """The mean of the derivative of the response's mean by a column of numbers, through all functions of it."""

    def __init__(self, design: Design, column: str, coefficients: np.ndarray):
        super().__init__(design, coefficients)
        self._value = value_of(column)
        self._own = {factor.name: factor for factor in design.numeric if column in factor.columns}
        self._changed = [
            number for number, part in enumerate(design.parts) if any(name in self._own for name, _ in part.multiplier)
        ]

    def add(self, block: AveragedBlock) -> None:
        by_multiplier = self._slopes(block)
        change = self._with_offset(block, self._change(block, by_multiplier, self._changed))
        first = block.weight * block.slope
        second = block.weight * block.curvature * change
        self._total += float((first * change).sum())
        self._weight += float(block.weight.sum())
        self._add_derivative(block, self._derivative, range(len(self._parts)), first, second, by_multiplier)

    def _with_offset(self, block: AveragedBlock, change: np.ndarray) -> np.ndarray:
        """A derivative of the linear predictor by the column, with that of the offset if it is of the column."""
        offset = self._design.roles.offset
        own = offset is not None and offset.column == self._value.column
        return change + block.derivatives(offset, self._value)[0] if offset and own else change

    def _slopes(self, block: AveragedBlock) -> dict[int, np.ndarray]:
        """The derivatives of the multipliers by the column, [rows] each."""
        slopes = {name: block.derivatives(factor, self._value) for name, factor in self._own.items()}
        return {
            multiplier: self._slope(block, self._multipliers[multiplier], slopes)
            for multiplier in np.unique(self._parts[self._changed, 2]).tolist()
        }

    def _change(
        self, block: AveragedBlock, by_multiplier: Mapping[int, np.ndarray], parts: Iterable[int]
    ) -> np.ndarray:
        """The derivative of what some parts add up to, [rows]."""
        change = np.zeros(len(block.weight))
        for number in parts:
            if number in self._changed:
                part = self._design.parts[number]
                table = self._coefficients[part.where]
                coefficient = table[block.group(number)] if part.grouping else table
                change += coefficient * by_multiplier[self._parts[number, 2]]
        return change

    def _add_derivative(
        self,
        block: AveragedBlock,
        derivative: np.ndarray,
        parts: Iterable[int],
        first: np.ndarray,
        second: np.ndarray,
        by_multiplier: Mapping[int, np.ndarray],
    ) -> None:
        """Add sum of (first dx/dz + second x) of some parts to a derivative by the coefficients [p]."""
        for number in parts:
            part = self._design.parts[number]
            value = second * block.number(number) if part.multiplier else second
            if number in self._changed:
                # Not in place: `second` is of the other parts too.
                value = value + first * by_multiplier[self._parts[number, 2]]
            self._add_product(block, derivative, number, value)

    def _slope(
        self, block: AveragedBlock, multiplier: Multiplier, slopes: Mapping[str, list[np.ndarray]]
    ) -> np.ndarray:
        """The derivative of a product of numbers, by the product rule."""
        result = np.zeros(len(block.weight))
        for place, (name, column) in enumerate(multiplier.numbers):
            if name in slopes:
                others = multiplier.numbers[:place] + multiplier.numbers[place + 1 :]
                slope = standardised(self._design, (name, column), multiplier.form, slopes.__getitem__, is_change=True)
                result += slope * block.product(Multiplier(others, multiplier.form))
        return result

    def for_class(self, number: int) -> AverageSlope:
        """The average; there is one response alone (engine.class_averages)."""
        return AverageSlope(self.mean, self.derivative)


class GridValues(Averages):
    """Return the values of a number in a balanced grid: its mean, or both values if it has only two."""

    def __init__(self, number: Numeric):
        self._number = number
        self._total = self._rows = 0.0
        self._first = np.zeros(0)

    def add(self, block: AveragedBlock) -> None:
        x = block.values(self._number)
        self._total += float((block.frequency * x).sum())
        self._rows += block.rows
        if len(self._first) < 3:
            self._first = np.union1d(self._first, x)[:3]

    def merge(self, other: Self) -> None:
        self._total += other._total
        self._rows += other._rows
        self._first = np.union1d(self._first, other._first)[:3]

    @property
    def values(self) -> np.ndarray:
        return self._first if len(self._first) == 2 else np.array([self._total / self._rows])


def with_values(design: Design, columns: Sequence[str]) -> Design:
    """Return a design that also reads the values of some columns, each as a factor outside all terms."""
    return replace(design, numeric=(*design.numeric, *(value_of(column) for column in columns)))


def value_of(column: str) -> Numeric:
    """Return the factor of the untransformed values of a column of numbers."""
    return Numeric(f"value of {column}", column, (), (0.0,), (1.0,))
