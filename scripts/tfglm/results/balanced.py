"""Adjusted means on a balanced grid, as R's emmeans computes them by default (Searle, Speed and Milliken 1980).

The grid has each combination of the levels of the factors once. Every column of numbers, and the offset, is at its mean in
the rows of the likelihood, or at both values if it has only two. Random effects are at 0, their mean. Let x_l be the mean row
of the design matrix in the part of the grid with level l of a factor. Then the adjusted mean is mu(x_l'b), and its standard error
mu'(x_l'b) (x_l' V x_l)^1/2. Its interval is the interval of x_l'b, transformed by the inverse link.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE, form_of, standardised
from tfglm.design.terms import Part
from tfglm.families.family import Family
from tfglm.inference.fitted import EMPTY, SEPARATED, Fitted


class ReferenceGrid:
    """The grid that the levels of each factor are averaged over.

    A level without a finite estimate is only in the grid of its own factor. So the other means equal those of a fit without
    its rows, which are not in the likelihood.

    `values` are those of the columns of numbers in the grid, and of the offset under '' (`engine.averages.GridValues`).
    """

    def __init__(self, design: Design, fitted: Fitted, values: Mapping[str, np.ndarray]):
        self._design, self._values = design, values
        known = (~np.isin(fitted.status, (SEPARATED, EMPTY))).astype(float)
        present = {factor.name: design.by_level(factor.name, known) > 0 for factor in design.categorical}
        self._shares = {name: levels / levels.sum() for name, levels in present.items()}

    @property
    def offset(self) -> float:
        return float(self._values[""].mean()) if self._design.roles.offset else 0.0

    @cached_property
    def _numbers(self) -> list[float]:
        return [number_in_grid(self._design, part, self._values) for part in self._design.parts]

    def rows(self, factor: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean row of the design matrix for each level of a factor, on the scale of the fit, [levels, p]; and
        whether it includes a combination of levels that no training row has, [levels]."""
        design = self._design
        size = len(design.categorical_by_name[factor].levels)
        rows, lacking = np.zeros((size, design.size)), np.zeros(size, bool)
        at_zero = design.random_parts
        for part, number in zip(design.parts, self._numbers, strict=True):
            if part in at_zero:
                continue
            levels = dict(zip(part.grouping, design.levels(part.grouping).T, strict=True))
            mine = levels.pop(factor, None)
            share = np.ones(part.size)
            for name, level in levels.items():
                share = share * self._shares[name][level]
            places = np.arange(part.where.start, part.where.stop)
            if mine is None:
                rows[:, places] = number * share
                lacking |= share.sum() < 1 - NEGLIGIBLE
            else:
                rows[mine, places] = number * share
                lacking |= np.bincount(mine, share, size) < 1 - NEGLIGIBLE
        return rows, lacking

    def without_say(self, coefficients: np.ndarray) -> np.ndarray:
        """Which coefficients multiply numbers in groups whose linear predictor is infinite, [p]."""
        alone = {
            part.grouping: np.isinf(coefficients[part.where]) for part in self._design.parts if not part.multiplier
        }
        result = np.zeros(len(coefficients), bool)
        for part in self._design.parts:
            if part.multiplier and part.grouping in alone:
                result[part.where] = alone[part.grouping]
        return result


def number_in_grid(design: Design, part: Part, values: Mapping[str, np.ndarray]) -> float:
    """Return the mean in a grid of what multiplies a part, on the scale of the fit. `values` has those of each column."""

    def raw(name: str) -> list[np.ndarray]:
        """The numbers of a factor in the grid, on the scale of the data."""
        factor = design.numeric_by_name[name]
        if len(factor.columns) > 1:
            crossed = np.meshgrid(*(values[column] for column in factor.columns))
            return transforms.apply(np, factor.learnt, tuple(each.ravel() for each in crossed))
        return transforms.apply(np, factor.learnt, values[factor.column])

    by_column: dict[str, np.ndarray] = {}
    form = form_of(design, part)
    for name, position in part.multiplier:
        number = standardised(design, (name, position), form, raw)
        column = design.numeric_by_name[name].column
        by_column[column] = by_column.get(column, 1.0) * number
    # Every value of one column meets every value of another.
    return float(np.prod([product.mean() for product in by_column.values()]))


class GridMeans:
    """The mean of the linear predictor in a balanced grid with a factor at each of its levels: `mean` [levels], its
    `derivative` by the coefficients [levels, p], and `unknown` and `infinite` as `engine.averages.LevelMeans` has them.
    `coefficients` [p] are infinite where separated, and NaN without rows."""

    def __init__(self, grid: ReferenceGrid, factor: str, coefficients: np.ndarray):
        self.derivative, lacking = grid.rows(factor)
        taken = (self.derivative != 0) & ~grid.without_say(coefficients)
        self.unknown = lacking | (taken & np.isnan(coefficients)).any(axis=1)
        self.infinite = (taken & np.isinf(coefficients)).any(axis=1)
        with np.errstate(
            invalid="ignore"
        ):  # of infinite coefficients that are not used, and of two with opposite signs
            parts = np.where(taken, self.derivative * coefficients, 0.0)
            self.mean = np.where(self.unknown, np.nan, grid.offset + parts.sum(axis=1))


def on_response_scale(columns: dict, family: Family) -> dict:
    """Transform columns of a table of means from the linear predictor to the response."""
    mean = family.mean(columns["mean"])
    if "std_error" not in columns:
        return columns | {"mean": mean}
    lower, upper = family.interval(columns["ci_lower"], columns["ci_upper"])
    error = np.abs(family.slope(columns["mean"], mean)) * columns["std_error"]
    return columns | {"mean": mean, "std_error": error, "ci_lower": lower, "ci_upper": upper}
