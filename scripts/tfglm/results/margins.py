"""Average marginal effects and adjusted means, on the scale of the response, with standard errors by the delta method.

The averages are over the rows of the likelihood, with their weights there; adjusted means may instead be averaged over a
balanced grid (results.balanced). In a multinomial regression they concern the probability of each class. An average F has
the variance (dF/db)' V (dF/db) with the covariance matrix V of the coefficients, absorbed ones included
(solvers.absorbed_averages): the covariates are fixed, and only the response varies.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tfglm.config import ResultsConfig
from tfglm.config.compatibility import NO_AVERAGES
from tfglm.data.shards import IngestedFile
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.design.scenarios import scenarios
from tfglm.design.transforms import is_step
from tfglm.engine import binned_averages, collapsed
from tfglm.engine.averages import (
    AveragedBlock,
    GridValues,
    LevelMeans,
    MeanResponse,
    MeanSlope,
    average,
    value_of,
    with_values,
)
from tfglm.engine.binned_averages import BinnedMeans
from tfglm.engine.estimands import AveragesByLevel
from tfglm.engine.reductions import Reduction, Together
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.inference.covariance import Covariance
from tfglm.inference.fitted import Fitted
from tfglm.results.marginal_tables import Averaged, InScenario, in_two_ways, numbers_of, with_limits
from tfglm.results.population import Population
from tfglm.results.predict import without_separated
from tfglm.solvers.absorbed_averages import errors_of_averages


@dataclass(frozen=True)
class Largest:
    """Limits; factors that exceed them are left out, because they would take too much time or memory: the levels of a
    factor, which each have two rows of tables; `predictions`, levels times training rows if the mean is not linear in the
    coefficients, 10 to 20 ns each; and `derivatives`, levels times coefficients, of 8 bytes. A factor that `BinnedMeans`
    averages counts as `binned_averages.LEVELS` levels; up to `one_by_one` predictions these do not pay."""

    levels: int = 500
    predictions: float = 4e9
    one_by_one: float = 2e7
    derivatives: float = 2**24


LARGEST = Largest()


@dataclass(frozen=True)
class Variable:
    """A column that the effect is of: by the levels of a factor, or of numbers. `left_out` says why it has no effect here."""

    column: str
    factor: Categorical | None
    left_out: str = ""

    @property
    def term(self) -> str:
        return self.factor.name if self.factor else self.column


DEFAULTS = ResultsConfig()


def average_rows(
    design: Design,
    fitted: Fitted,
    files: Sequence[IngestedFile],
    settings: ResultsConfig = DEFAULTS,
    of_collapsed: IngestedFile | None = None,
    threads: int = 1,
    largest: Largest = LARGEST,
) -> Averaged:
    """Return the averages over the training rows that `marginal_tables` makes tables of.

    The `settings` say over what adjusted means are averaged (effects are always averages over the rows), the offset, the
    scenarios, and what becomes of random effects (results.population). Factors beyond the `largest` limits are left out.
    `of_collapsed` are the collapsed training rows, if the fit used them. The number of `threads` that read the rows changes no
    bit.
    """
    balanced, offset_at = settings.adjusted_means == "balanced", settings.offset_at
    rows_of_fit, as_fitted = Workload(design, files, "train"), fitted
    if offset_at is not None:
        design, fitted, number = at_offset(design, fitted, offset_at)
    if design.absorbed and design.instruments:
        raise UserError(f"models.{design.model}: {NO_AVERAGES}")
    population = Population.of(design, fitted, with_limits(design, fitted), settings.random_effects)
    at = scenarios(design, settings.margins_at)
    listed = list(variables(design, largest, len(population.nodes) * (1 + len(at))))

    def averages(coefficients: np.ndarray) -> Reduction:
        """The averages at some coefficients, of the rows and in each scenario, by term; '' is the response."""
        in_scenarios = {}
        for name, scenario in at.items():
            # Levels that the scenario sets have no effect in it; the slope of a number at a value of it is one.
            others = [each for each in listed if not (each.factor and each.factor.name in scenario.levels)]
            response: dict[str, Reduction] = {"": MeanResponse(design, coefficients)}
            both = response | averages_of(design, others, coefficients, largest)
            in_scenarios[name] = Together(both, partial(AveragedBlock.at, scenario=scenario))
        of_rows = Together(averages_of(design, listed, coefficients, largest))
        at_coefficients = partial(AveragedBlock.with_coefficients, coefficients=coefficients)
        return Together({"rows": of_rows, "scenarios": Together(in_scenarios)}, at_coefficients)

    grid = grid_values(design) if balanced else {}
    columns = [column for number in design.numeric for column in number.columns] if balanced else []
    slopes = [variable.column for variable in listed if not (variable.factor or variable.left_out)]
    read = with_values(design.without_clusters(), list(dict.fromkeys([*slopes, *columns])))
    training = Workload(read, files, "train")
    training = collapsed.over(of_collapsed, training) if of_collapsed else training
    workload = without_separated(training, fitted)
    at_nodes = Together({node: averages(coefficients) for node, coefficients in enumerate(population.coefficients)})
    both = Together({"grid": Together(grid), "nodes": at_nodes})
    rows, found = average(workload, both, population.coefficients[0], threads)
    merged = population.merged(list(found["nodes"].values()))
    covariance = None
    if design.absorbed:
        every = [each for averages in (merged["rows"], *merged["scenarios"].values()) for each in averages.values()]
        rows_of_fit = without_separated(rows_of_fit, as_fitted)
        covariance = with_absorbed(every, lambda rows: errors_of_averages(rows_of_fit, as_fitted, rows, threads))
    values = found["grid"] if balanced else None
    if values is not None and offset_at is not None:
        values[""] = np.array([number])
    return Averaged(
        rows,
        {variable.term: variable.left_out for variable in listed},
        merged["rows"],
        values,
        {name: InScenario(averages, dict(at[name].levels)) for name, averages in merged["scenarios"].items()},
        population.about,
        covariance,
    )


def with_absorbed(
    averages: Sequence[list[AveragesByLevel]], errors: Callable[[np.ndarray], tuple[np.ndarray, Covariance]]
) -> Covariance | None:
    """Replace the derivatives of averages by those that `errors` makes of them, and return the covariance that belongs to them;
    None without averages."""
    every = [each for of_term in averages for each in of_term]
    if not every:
        return None
    derivatives = np.vstack([each.derivative for each in every])
    is_known = np.isfinite(derivatives).all(axis=1)
    changed, covariance = errors(np.where(is_known[:, None], derivatives, 0.0))
    changed[~is_known] = np.nan
    parts = iter(np.split(changed, np.cumsum([len(each.derivative) for each in every])[:-1]))
    for of_term in averages:
        of_term[:] = [each._replace(derivative=next(parts)) for each in of_term]
    return covariance


def averages_of(
    design: Design, listed: Iterable[Variable], coefficients: np.ndarray, largest: Largest
) -> dict[str, Reduction]:
    averages: dict[str, Reduction] = {}
    for variable in listed:
        if variable.factor and not variable.left_out:
            kind = BinnedMeans if is_binned(design, variable.factor, largest) else LevelMeans
            averages[variable.term] = kind(design, variable.factor, coefficients)
        elif not variable.left_out:
            averages[variable.term] = MeanSlope(design, variable.column, coefficients)
    return averages


def at_offset(design: Design, fitted: Fitted, value: float) -> tuple[Design, Fitted, float]:
    """A model in which the offset is that of one value of its column, in the intercept or an absorbed factor; and the offset.
    Raises UserError if there are neither, or if the offset of the value is not finite."""
    where = f"models.{design.model}.offset_at"
    assert design.roles.offset
    with np.errstate(all="ignore"):
        number = float(transforms.apply(np, design.roles.offset.learnt, np.array([float(value)]))[0][0])
    if not np.isfinite(number):
        raise UserError(f"{where}: `{design.roles.offset.name}` is not finite at {value:g}; choose another value")
    constant = design.absorbed[0] if design.absorbed else INTERCEPT
    if constant not in design.slices:
        raise UserError(f"{where}: the model has no intercept, which would hold the offset; remove the key")
    coefficients = fitted.coefficients.copy()
    coefficients[design.slices[constant]] += number
    return design.with_roles(offset=None), replace(fitted, coefficients=coefficients), number


def grid_values(design: Design) -> dict[str, GridValues]:
    """The values of a balanced grid, by the column of numbers, and of the offset under ''."""
    values = {column: GridValues(value_of(column)) for number in design.numeric for column in number.columns}
    return values | ({"": GridValues(design.roles.offset)} if design.roles.offset else {})


def is_binned(design: Design, factor: Categorical, largest: Largest) -> bool:
    levels, rows = len(factor.levels), design.rows["train"]
    many = levels > binned_averages.LEVELS and levels * rows > largest.one_by_one
    return many and binned_averages.is_alone(design, factor)


def variables(design: Design, largest: Largest, times: int = 1) -> Iterator[Variable]:
    """Return the variables in the terms of a formula, in the order of the formula; rows are averaged so many `times`."""
    seen = set()
    for term in design.reported.terms:
        for name in (*term.categorical, *term.numeric):
            factor = design.categorical_by_name.get(name)
            columns = (factor.column,) if factor else design.numeric_by_name[name].columns
            for variable in (Variable(column, factor) for column in columns):
                if variable.term not in seen:
                    seen.add(variable.term)
                    yield replace(variable, left_out=why_left_out(design, variable, largest, times))


def why_left_out(design: Design, variable: Variable, largest: Largest, times: int = 1) -> str:
    """Why a column has no effect here; '' if it has."""
    column, factor = variable.column, variable.factor
    if factor and factor.random:
        return "left out: its levels have random effects"
    if twice := in_two_ways(design, column):
        return twice
    if factor is None:
        numbers = [design.numeric_by_name[name] for part in design.fixed_parts for name, _ in part.multiplier]
        if not any(
            column in number.columns for number in (*numbers, *design.numeric_with_offset[len(design.numeric) :])
        ):
            return "left out: its mean slope is 0, as it has random slopes alone"
        steps = any(is_step(number.learnt) for number in numbers_of(design) if number.column == column)
        return "left out: a function of the formula changes in steps" if steps else ""
    levels, rows = len(factor.levels), design.rows["train"]
    if levels > largest.levels:
        return f"left out: {levels:,} levels, of {largest.levels:,} at most"
    of_a_row = binned_averages.LEVELS if is_binned(design, factor, largest) else levels
    predictions = of_a_row * rows * max(len(design.equations), 1) * times
    if predictions > largest.predictions and not design.distribution.quadratic:
        return f"left out: {levels:,} levels of {rows:,} rows, of {largest.predictions:,.0f} in all at most"
    if levels * design.size > largest.derivatives:
        return f"left out: {levels:,} levels by {design.size:,} coefficients, of {largest.derivatives:,.0f} at most"
    return ""
