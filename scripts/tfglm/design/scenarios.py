"""Scenarios: values of some columns that all rows are set to before a model's predictions are averaged."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.references import check_finite, levels_in_words
from tfglm.errors import Problems, UserError, nearest


@dataclass(frozen=True)
class Scenario:
    """The number of the level of each factor that is set, by its name, and the value of each number, by its column."""

    levels: Mapping[str, int]
    numbers: Mapping[str, float]


def scenarios(
    design: Design, wanted: Mapping[str, Mapping[str, str]], offset_at: float | None = None
) -> dict[str, Scenario]:
    """Return the scenarios under `margins_at`, which have values by column as text. `offset_at` sets the column of the
    offset in all.

    Raises UserError for a column that is no covariate, or that `offset_at` sets too; for a level that no training row has;
    and for a value that is no number, at which a function of the formula is not finite, or that is outside the range that a
    spline has learnt.
    """
    problems, result = Problems(), {}
    for name, values in wanted.items():
        with problems.collected():
            where = f"models.{design.model}.margins_at.{name}"
            result[name] = scenario(design, where, values, offset_at)
    problems.check()
    return result


def scenario(design: Design, where: str, values: Mapping[str, str], offset_at: float | None) -> Scenario:
    """One of them; `where` is its key in the config."""
    factors = [factor for factor in design.categorical if factor.column != design.roles.response and not factor.random]
    numbers = [number for number in design.numeric_with_offset if not number.shape]
    of_numbers_too = [column for number in numbers for column in number.columns]
    columns = list(dict.fromkeys([*(factor.column for factor in factors), *of_numbers_too]))
    levels: dict[str, int] = {}
    of_numbers: dict[str, float] = {}
    random = {factor.column for factor in design.categorical if factor.random}.difference(columns)
    for column, value in values.items():
        if column in random:
            raise UserError(
                f"{where}: the levels of `{column}` have random effects, and averages are over all levels of their population; "
                "remove it here, or predict rows of the level"
            )
        if column not in columns:
            raise UserError(
                f"{where}: `{column}` is no covariate of the model{nearest(column, columns)}\n"
                f"  there are: {', '.join(columns) or 'none'}"
            )
        if offset_at is not None and design.roles.offset and design.roles.offset.column == column:
            raise UserError(f"{where}: `offset_at` sets `{column}` already; remove one of the two")
        for factor in factors:
            if factor.column == column:
                levels[factor.name] = level_of(where, factor, value)
        own = [number for number in numbers if column in number.columns]
        if own:
            of_numbers[column] = number_of(where, column, value)
        for number in own:
            check_value(f"{where}.{column}", number, column, of_numbers[column])
    return Scenario(levels, of_numbers)


def level_of(where: str, factor: Categorical, value: str) -> int:
    """The number of a level; a value that is merged into a level of rare values has that one."""
    number = factor.numbers.get(value)
    if number is None and value in factor.levels:
        number = factor.levels.index(value)
    if number is None:
        raise UserError(
            f"{where}.{factor.column}: no level `{value}` in the training rows{levels_in_words(value, factor.levels)}"
        )
    return number


def number_of(where: str, column: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise UserError(
            f"{where}.{column}: `{column}` is a number in the formula, and `{value}` is none; write a number"
        )
    return number


def check_value(where: str, number: Numeric, column: str, value: float) -> None:
    """Raise UserError for a value at which a function of the formula is not finite, or outside the range of a spline."""
    x: np.ndarray | tuple[np.ndarray, ...] = np.array([value])
    if len(number.columns) == 1:
        check_finite(where, number, [value])
    else:
        within = zip(number.columns, number.learnt[-1]["low"], strict=True)
        x = tuple(np.array([value if name == column else low]) for name, low in within)
    if transforms.learns_range(number.learnt) and transforms.is_outside(np, number.learnt, x)[0]:
        raise UserError(
            f"{where}: {value:g} is outside the range of the training rows, where `{number.name}` has no curve; choose "
            "another value"
        )


def check_scenarios(
    design: Design,
    wanted: Mapping[str, Mapping[str, str]],
    contrasts: Mapping[str, Mapping[str, float]],
    offset_at: float | None,
) -> None:
    """Raise UserError as `scenarios` does, and for contrasts of scenarios that are not there or that have the name of one."""
    problems = Problems()
    with problems.collected():
        scenarios(design, wanted, offset_at)
    where = f"models.{design.model}.margins_contrasts"
    for name, weights in contrasts.items():
        if name in wanted:
            problems.messages.append(f"{where}.{name}: a scenario under `margins_at` has this name too; rename one")
        for scenario_name in weights:
            if scenario_name not in wanted:
                problems.messages.append(
                    f"{where}.{name}: no scenario `{scenario_name}` under `margins_at`{nearest(scenario_name, wanted)}\n"
                    f"  there are: {', '.join(wanted) or 'none'}"
                )
    problems.check()
