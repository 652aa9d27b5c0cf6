"""Averages over rows of what a model predicts if one column were another, and their derivatives by the coefficients.

With m the weight of a row, M = sum m, mu_c the mean of outcome c, eta_k the linear predictor of equation k and x_k' the row
of its design matrix on the scale of the fit (engine.outcomes):

- of a factor, for each level l, with x_kl the row as it were at that level:
  F_lc = sum m mu_c / M and dF_lc/db_k = sum m dmu_c/deta_k x_kl / M, all at x_kl;
- of a number z, with s_k = (dx_k/dz)'b_k: F_c = sum m d_c / M with d_c = sum over k of dmu_c/deta_k s_k, and
  dF_c/db_k = sum m (dd_c/deta_k x_k + dmu_c/deta_k dx_k/dz) / M;
- of the response itself: F_c = sum m mu_c / M and dF_c/db_k = sum m dmu_c/deta_k x_k / M.

All of them may be averages over the rows as they would be in a scenario, where some columns have the same value in all rows.

The design matrix is never made: a row has for each part of the design a group and a number. A part with the factor has a context
instead of the group, which is the combination of the levels of its other factors: with the level it tells the coefficient.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from tfglm.design import thin_plates, transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.parametrisation import standardised
from tfglm.design.scenarios import Scenario
from tfglm.design.terms import Part
from tfglm.engine import kernels
from tfglm.engine.estimands import AveragesByLevel
from tfglm.engine.evaluated import Evaluated
from tfglm.engine.outcomes import Outcomes, differentiated, joined, outcomes_of, parts_of_equations, parts_of_predictors
from tfglm.engine.parts import looked_up_parts
from tfglm.engine.reductions import Partial, Reduction, added
from tfglm.engine.rows import Multiplier
from tfglm.engine.workload import Workload

CELLS_AT_ONCE = 2**15
"""Rows times levels and outcomes that are processed together, so that the intermediate arrays stay in the caches."""

ROWS_OF_PIECE = 2**22
"""At least, of what one thread adds: sums for each coefficient are added after it."""


class AveragedBlock:
    """The rows of a block that take part, [rows]. They have `weight`, `frequency`, `offset`, and for each part of the design
    the `group` and the `number` of a row. With these coefficients [p], which are finite, they also have `outcomes`."""

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
        """The same rows with other coefficients [p]. Those that are not finite count as 0."""
        coefficients = np.where(np.isfinite(coefficients), coefficients, 0.0)
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
    def outcomes(self) -> Outcomes:
        """The means of the response, and their derivatives times the weights."""
        predictors = {
            equation: self.linear_predictor(self._coefficients, self._parts[own])
            for equation, own in parts_of_predictors(self._design).items()
        }
        eta = joined(self._design, self._coefficients, predictors)
        return outcomes_of(self._design.distribution, eta, self.weight)

    def values(self, number: Numeric) -> np.ndarray:
        """Return the values of a factor that is one number."""
        return self._kept(self._evaluated.rows.numbers(number)[0]).astype(float)

    def derivatives(self, factor: Numeric, value: Numeric) -> list[np.ndarray]:
        """The derivatives of the numbers of a factor by the values of a column of it."""
        if len(factor.columns) > 1:
            numbers = tuple(self._kept(each) for each in self._evaluated.rows.values(factor))
            return thin_plates.slopes(numbers, factor.learnt[-1], by=factor.columns.index(value.column))
        return transforms.derivative(factor.learnt, self.values(value))

    def product(self, multiplier: Multiplier) -> np.ndarray:
        """The product of some numbers on the scale of the fit."""
        if not multiplier.numbers:
            return self._once
        out = np.empty((1, len(self._evaluated.rows.flag)))
        return self._kept(self._evaluated.rows.multiplied([multiplier], out)[0])


@dataclass
class MeanSums(Partial):
    """The weight of some rows, and by outcome the sums of its mean; also of levels, [outcomes, levels]. The `derivatives` of the
    outcomes that are `differentiated` are [p] each, or of levels by part of the design. `unknown` and `infinite` say why a row
    has no mean."""

    weight: float
    totals: np.ndarray
    derivatives: dict[int, Any]
    unknown: bool = False
    infinite: bool = False

    def means(self, by_outcome: Mapping[int, np.ndarray]) -> list[tuple[Any, np.ndarray]]:
        """The mean of each outcome with its derivative, from the sums of derivatives."""
        rest = -sum(by_outcome.values(), np.zeros(()))
        return [
            (total / self.weight, by_outcome.get(outcome, rest) / self.weight)
            for outcome, total in enumerate(self.totals)
        ]


class OutcomeMeans(Reduction):
    """The means over rows of a function of the linear predictors for each outcome, with their derivatives by the coefficients
    [p]."""

    def __init__(self, design: Design, coefficients: np.ndarray):
        self._design, self._family = design, design.distribution
        self._finite = np.where(np.isfinite(coefficients), coefficients, 0.0)
        self._multipliers, self._parts = looked_up_parts(design)
        self._equations, self._predictors = parts_of_equations(design), parts_of_predictors(design)
        self._outcomes = len(design.likelihood.class_labels) if design.equations else 1

    def start(self) -> MeanSums:
        derivatives = {outcome: np.zeros(self._design.size) for outcome in differentiated(self._design)}
        return MeanSums(0.0, np.zeros(self._outcomes), derivatives)

    def finish(self, total: MeanSums) -> list[AveragesByLevel]:
        """The means, each as that of one level."""
        unknown, infinite = np.array([total.unknown]), np.array([total.infinite])
        return [
            AveragesByLevel(np.where(unknown | infinite, np.nan, [mean]), derivative[None], unknown, infinite)
            for mean, derivative in total.means(total.derivatives)
        ]

    def _add_product(self, block: AveragedBlock, derivative: np.ndarray, number: int, value: np.ndarray) -> None:
        """Add the sums of a value [rows] by the coefficients of a part to a derivative [p]; numbers have multiplied it."""
        part = self._design.parts[number]
        if part.grouping:
            job = np.array([[part.where.start, self._parts[number, 1]]])
            kernels.add_by_group(derivative, job, block.groups, value)
        else:
            derivative[part.where] += value.sum()


class LevelMeans(OutcomeMeans):
    """The mean of each outcome with a factor set to each of its levels in all rows.

    `coefficients` [p] may be infinite, because a mean has a limit then; NaN is a coefficient without rows. `unknown`
    [levels] marks levels that some rows cannot be set to: no row has them together with the other levels of these rows.
    `infinite` [levels] marks levels at which the linear predictor of some rows is infinite. If the family has a quadratic
    loss, mu' is 1 at every level, so a row is added once instead of once for each level.
    """

    def __init__(
        self, design: Design, factor: Categorical, coefficients: np.ndarray, cells_at_once: int = CELLS_AT_ONCE
    ):
        super().__init__(design, coefficients)
        self._cells_at_once, self._levels = cells_at_once, len(factor.levels)
        self._changed = {
            number: contexts(design, part, factor.name)
            for number, part in enumerate(design.parts)
            if factor.name in part.grouping
        }
        self.unknown, self.infinite = np.zeros((2, self._levels), bool)
        self._tables = self._coefficients_of_levels(coefficients)

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

    def start(self) -> MeanSums:
        width = 1 if self._family.quadratic else self._levels
        derivatives = {
            outcome: [
                np.zeros((len(self._tables[number]) if number in self._tables else part.size, width))
                for number, part in enumerate(self._design.parts)
            ]
            for outcome in differentiated(self._design)
        }
        return MeanSums(0.0, np.zeros((self._outcomes, width)), derivatives)

    def map(self, block: AveragedBlock, partial: MeanSums) -> None:
        partial.weight += float(block.weight.sum())
        groups = [
            self._changed[number][0][block.group(number)] if number in self._changed else block.group(number)
            for number in range(len(self._parts))
        ]
        if self._family.quadratic:
            partial.totals += (block.weight * block.offset).sum()
            slope, all_rows = block.weight[:, None], slice(None)
            self._add_derivative(block, partial.derivatives[0], range(len(groups)), groups, all_rows, slope)
            return
        rest = {equation: self._rest(block, own) for equation, own in self._predictors.items()}
        step = max(1, self._cells_at_once // (self._levels * self._outcomes))
        for first in range(0, len(block.weight), step):
            some = slice(first, first + step)
            weight, predictors = block.weight[some], {}
            for equation, own in self._predictors.items():
                predictors[equation] = np.repeat(rest[equation][some, None], self._levels, axis=1)
                for number in (number for number in own if number in self._tables):
                    levels = predictors[equation], self._tables[number]
                    kernels.add_levels(*levels, groups[number][some], block.number(number)[some])
            eta = joined(self._design, self._finite, predictors)
            outcomes, nowhere = outcomes_of(self._family, eta, weight[:, None]), np.zeros(len(weight), np.uint32)
            for outcome, totals in enumerate(partial.totals):
                # Add a block separately first: a long chain of additions loses digits.
                total = np.zeros((1, self._levels))
                kernels.add_by_level(total, nowhere, weight, np.ascontiguousarray(outcomes.mean(outcome)))
                totals += total[0]
            for outcome, derivative in partial.derivatives.items():
                for equation, own in self._equations.items():
                    slope = outcomes.slope(outcome, equation)
                    self._add_derivative(block, derivative, own, groups, some, slope)

    def _rest(self, block: AveragedBlock, own: Sequence[int]) -> np.ndarray:
        """The linear predictor of some parts without the factor."""
        return block.linear_predictor(self._finite, self._parts[[each for each in own if each not in self._changed]])

    def _add_derivative(
        self,
        block: AveragedBlock,
        derivative: Sequence[np.ndarray],
        own: Iterable[int],
        groups: Sequence[np.ndarray],
        some: slice,
        slope: np.ndarray,
    ) -> None:
        for number in own:
            kernels.add_by_level(derivative[number], groups[number][some], block.number(number)[some], slope)

    def finish(self, total: MeanSums) -> list[AveragesByLevel]:
        averages = []
        by_outcome = {outcome: self._assembled(of_parts) for outcome, of_parts in total.derivatives.items()}
        for mean, derivative in total.means(by_outcome):
            if self._family.quadratic:
                mean = mean + derivative @ self._finite
            mean = np.where(self.unknown, np.nan, mean)
            averages.append(AveragesByLevel(mean, derivative, self.unknown, self.infinite))
        return averages

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
        return result


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


class MeanResponse(OutcomeMeans):
    """The mean of each outcome: of all rows in a scenario. There is none if some row has a combination of levels that no
    training row has, or a coefficient without an estimate."""

    def __init__(self, design: Design, coefficients: np.ndarray):
        super().__init__(design, coefficients)
        self._missing, self._infinite = np.isnan(coefficients), np.isinf(coefficients)

    def map(self, block: AveragedBlock, partial: MeanSums) -> None:
        partial.unknown |= block.is_unknown
        for number, part in enumerate(self._design.parts):
            missing, infinite = self._missing[part.where], self._infinite[part.where]
            if missing.any() or infinite.any():
                group = block.group(number)
                partial.unknown |= bool(missing[group].any())
                partial.infinite |= bool(infinite[group].any())
        partial.weight += float(block.weight.sum())
        for outcome in range(self._outcomes):
            partial.totals[outcome] += float((block.weight * block.outcomes.mean(outcome)).sum())
        for outcome, derivative in partial.derivatives.items():
            for equation, own in self._equations.items():
                slope = block.outcomes.slope(outcome, equation)
                for number in own:
                    value = slope * block.number(number) if self._design.parts[number].multiplier else slope
                    self._add_product(block, derivative, number, value)


class MeanSlope(OutcomeMeans):
    """The mean of the derivative of each outcome by a column of numbers, through all functions of it."""

    def __init__(self, design: Design, column: str, coefficients: np.ndarray):
        super().__init__(design, coefficients)
        self._value = value_of(column)
        self._own = {factor.name: factor for factor in design.numeric if column in factor.columns}
        # Of the numbers of correlated random slopes those of other columns are subtracted.
        self._moved = {*self._own} | {
            factor.name for factor in design.numeric for of in factor.earlier for name, *_ in of if name in self._own
        }
        self._changed = [
            number
            for number, part in enumerate(design.parts)
            if any(name in self._moved for name, _ in part.multiplier)
        ]

    def map(self, block: AveragedBlock, partial: MeanSums) -> None:
        by_multiplier = self._slopes(block)
        along = block.outcomes.along(
            {equation: self._change(block, by_multiplier, own) for equation, own in self._predictors.items()}
        )
        partial.weight += float(block.weight.sum())
        for outcome in range(self._outcomes):
            partial.totals[outcome] += float(block.outcomes.change(outcome, along).sum())
        for outcome, derivative in partial.derivatives.items():
            for equation, own in self._equations.items():
                first = block.outcomes.slope(outcome, equation)
                second = block.outcomes.bend(outcome, equation, along)
                self._add_derivative(block, derivative, own, first, second, by_multiplier)

    def _slopes(self, block: AveragedBlock) -> dict[int, np.ndarray]:
        """The derivatives of the multipliers by the column, [rows] each."""
        slopes = {name: block.derivatives(factor, self._value) for name, factor in self._own.items()}
        return {
            multiplier: self._slope(block, self._multipliers[multiplier], slopes)
            for multiplier in np.unique(self._parts[self._changed, 2]).tolist()
        }

    def _change(self, block: AveragedBlock, by_multiplier: Mapping[int, np.ndarray], own: Iterable[int]) -> np.ndarray:
        """The derivative of a linear predictor with its own parts by the column, [rows]."""
        change = np.zeros(len(block.weight))
        for number in (number for number in own if number in self._changed):
            part = self._design.parts[number]
            table = self._finite[part.where]
            coefficient = table[block.group(number)] if part.grouping else table
            change += coefficient * by_multiplier[self._parts[number, 2]]
        offset = self._design.roles.offset
        is_offset = offset is not None and offset.column == self._value.column
        return change + block.derivatives(offset, self._value)[0] if offset and is_offset else change

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
        zeros = [result] * max(factor.width for factor in self._design.numeric)
        for place, (name, column) in enumerate(multiplier.numbers):
            if name in self._moved:
                others = multiplier.numbers[:place] + multiplier.numbers[place + 1 :]
                slope = standardised(
                    self._design, (name, column), multiplier.form, lambda each: slopes.get(each, zeros), is_change=True
                )
                result = result + slope * block.product(Multiplier(others, multiplier.form))
        return result


@dataclass
class GridSums(Partial):
    """The sum of a number over some rows, how many these are, and its first distinct values, up to three."""

    total: float
    rows: float
    first: np.ndarray

    def add(self, other: "GridSums") -> "GridSums":
        first = np.union1d(self.first, other.first)[:3]
        return GridSums(self.total + other.total, self.rows + other.rows, first)


class GridValues(Reduction):
    """The values of a number in a balanced grid: its mean, or both values if it has only two."""

    def __init__(self, number: Numeric):
        self._number = number

    def start(self) -> GridSums:
        return GridSums(0.0, 0.0, np.zeros(0))

    def map(self, block: AveragedBlock, partial: GridSums) -> None:
        x = block.values(self._number)
        partial.total += float((block.frequency * x).sum())
        partial.rows += block.rows
        if len(partial.first) < 3:
            partial.first = np.union1d(partial.first, x)[:3]

    def finish(self, total: GridSums) -> np.ndarray:
        return total.first if len(total.first) == 2 else np.array([total.total / total.rows])


def with_values(design: Design, columns: Sequence[str]) -> Design:
    """Return a design that also reads the values of some columns, each as a factor outside all terms."""
    return replace(design, numeric=(*design.numeric, *(value_of(column) for column in columns)))


def value_of(column: str) -> Numeric:
    """Return the factor of the untransformed values of a column of numbers."""
    return Numeric(f"value of {column}", column, (), (0.0,), (1.0,))


def average(workload: Workload, averages: Reduction, coefficients: np.ndarray, threads: int = 1) -> tuple[float, Any]:
    """Return the number of rows of a workload, and their averages.

    Each shard is read once. Threads sum pieces of the shards, and the sums are added in the order of the pieces, so the
    number of threads changes no bit. `coefficients` [p] belong to the averages.
    """
    design, finite = workload.design, np.where(np.isfinite(coefficients), coefficients, 0.0)
    parts, state = looked_up_parts(design)[1], workload.state(np.zeros(design.size))

    @np.errstate(all="ignore")  # as at rows where a function of the formula has no derivative
    def average_piece(calls: Sequence[tuple]) -> list:
        rows, partial = 0.0, averages.start()
        for signature, call in calls:
            for evaluated in workload.passes(signature).evaluated(state, call):
                block = AveragedBlock(design, parts, evaluated, finite)
                rows += block.rows
                averages.map(block, partial)
        averages.close(partial)
        return [rows, partial]

    with ThreadPoolExecutor(threads) as pool:
        # Added as they arrive: with many coefficients, the sums of all pieces would take gigabytes.
        rows, total = reduce(added, pool.map(average_piece, pieces(workload)), [0.0, averages.start()])
    return rows, averages.finish(total)


def pieces(workload: Workload) -> list[list[tuple]]:
    """The shards, (signature, call) each, in pieces of ROWS_OF_PIECE or more."""
    result: list[list[tuple]] = []
    rows = ROWS_OF_PIECE
    for _, shard, signature, call in workload.shards_alone():
        if rows >= ROWS_OF_PIECE:
            result.append([])
            rows = 0
        result[-1].append((signature, call))
        rows += shard.rows
    return result
