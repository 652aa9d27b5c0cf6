"""The effect of a number on the linear predictor as a curve, if the formula has a function of it; of two numbers of a smooth as
a surface."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm.data.dictionary import Column, Dictionary
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Numeric
from tfglm.design.parametrisation import RAW, form_of, standardised
from tfglm.design.terms import DesignTerm, Part
from tfglm.inference.fitted import EMPTY, SEPARATED
from tfglm.results.estimates import Estimates

POINTS = 101

POINTS_OF_SURFACE = 31
"""Values of each of two numbers."""

TOO_FAR = 0.1
"""Distance of a point of a surface from all training rows, in shares of the ranges of its columns, above which pictures leave it
blank: `too.far` of mgcv."""


def curves(estimated: Estimates, dictionary: Dictionary, confidence: float) -> pd.DataFrame:
    """Return the difference of the linear predictor between each value of a number in the training rows and the value
    nearest the mean. If the formula also multiplies the number by a factor or another number, the difference is at the
    reference level of that factor, or at the mean of that number.

    A row for each value of each number. The terms of a number are combined, as in `hour + I(hour^2)`; a term that is a
    product of several factors has no curve of its own, except a smooth at each level of a factor. Columns: term, column, at
    (where the others are held, '' if none multiplies it), value, reference, effect, std_error (posterior_sd of a penalised
    fit), ci_lower, ci_upper. What is not estimable is missing. If the formula has smooths of several numbers, each two of
    these have a row for each pair of values, with the second number in column_2, value_2 and reference_2; is_far is 1 for a
    pair that is far from all training rows, else 0. If a number multiplies a curve or surface, as in `s(x, by=z)`, the
    effect is the slope of that number, which slope_of names, and there is no reference.
    """
    design = estimated.design
    error_name = "posterior_sd" if design.penalty.given else "std_error"
    names = ["term", "column", "at", "value", "reference", "effect", error_name, "ci_lower", "ci_upper"]
    names += ["slope_of"] if any(term.multiplier for term in design.terms) else []
    names += (
        ["column_2", "value_2", "reference_2", "is_far"] if any(term.kind.is_surface for term in design.terms) else []
    )
    tables = [pd.DataFrame(columns=names)]
    for at_levels, factors in curved(estimated):
        name = factors[0].column
        column = dictionary.columns[name]
        values = grid(column)
        reference = values[np.argmin(np.abs(values - column.mean))]
        together = [*factors, *multiplied(design, name)]
        rows = np.sum([differences(at_levels, factor, values, reference) for factor in together], axis=0)
        columns = {"value": values, "reference": reference} | compared(estimated, rows, error_name, confidence)
        at = dict.fromkeys(where for factor in together for where in held(at_levels, factor))
        texts = {"term": " + ".join(factor.name for factor in factors), "column": name, "at": "; ".join(at)}
        tables.append(pd.DataFrame(columns).assign(**texts).reindex(columns=names))
    tables += [table.reindex(columns=names) for table in slopes(estimated, dictionary, error_name, confidence)]
    tables += [table.reindex(columns=names) for table in surfaces(estimated, dictionary, error_name, confidence)]
    table = pd.concat(tables[1:] or tables, ignore_index=True)
    absent = {"slope_of": "", "column_2": "", "is_far": 0}
    return table.fillna({name: value for name, value in absent.items() if name in names})


def compared(estimated: Estimates, rows: np.ndarray, error_name: str, confidence: float) -> dict[str, np.ndarray]:
    """The columns of differences of the linear predictor, given as `rows` [rows, p] on the scale of the fit."""
    fitted = estimated.fitted
    unknown = np.isin(fitted.status, (SEPARATED, EMPTY))
    known = fitted.estimable(rows) & (rows[:, unknown] == 0).all(axis=1)
    effect = np.where(known, rows @ np.where(unknown, 0.0, fitted.coefficients), np.nan)
    error = lower = upper = np.full(len(rows), np.nan)
    if fitted.covariance.is_known:
        sparse = scipy.sparse.csr_array(np.where(known[:, None], rows, 0.0))
        distribution = fitted.covariance.reference(sparse, estimated.fewest)
        error = np.sqrt(np.maximum(fitted.covariance.variances(sparse).chosen, 0.0))
        error = np.where(known & ~np.asarray(distribution.unseen), error, np.nan)
        if estimated.design.bounds:
            error = np.where((error == 0) & rows.any(axis=1), np.nan, error)
        lower, upper = distribution.interval(effect, error, confidence)
        # At the value that others are compared with nothing is estimated.
        lower, upper = (np.where(error == 0, effect, limit) for limit in (lower, upper))
    return {"effect": effect, error_name: error, "ci_lower": lower, "ci_upper": upper}


def slopes(estimated: Estimates, dictionary: Dictionary, error_name: str, confidence: float) -> Iterator[pd.DataFrame]:
    """Yield a table for each number that multiplies a curve: its slope at each value of the curve's column."""
    design = estimated.design
    for term in design.terms:
        number = design.multiplier_of(term)
        if number and not term.kind.is_surface:
            (column,) = (factor.column for factor in design.smoothed(term))
            values = grid(dictionary.columns[column])
            table = pd.DataFrame({"value": values, "reference": np.nan})
            rows = at_points(design, term, {column: values})
            columns = compared(estimated, rows, error_name, confidence)
            yield table.assign(**columns, term=term.name, column=column, at="", slope_of=number.column)


def surfaces(
    estimated: Estimates, dictionary: Dictionary, error_name: str, confidence: float
) -> Iterator[pd.DataFrame]:
    """Yield a table for each two numbers of a smooth, at each level of its factor: all pairs of their values, with further
    numbers at the value nearest their mean."""
    design = estimated.design
    for term in (term for term in design.terms if term.kind.is_surface):
        number, factors = design.multiplier_of(term), design.smoothed(term)
        columns = {name: dictionary.columns[name] for factor in factors for name in factor.columns}
        seen = {
            column: np.array(values)
            for factor in factors
            for column, values in zip(factor.columns, factor.learnt[-1]["seen"], strict=True)
        }
        by = design.categorical_by_name[term.categorical[0]] if term.categorical else None
        values = {name: grid(column, POINTS_OF_SURFACE) for name, column in columns.items()}
        references = {name: float(each[np.argmin(np.abs(each - columns[name].mean))]) for name, each in values.items()}
        levels = range(len(by.levels) if by else 1)
        for (first, second), level in product(combinations(columns, 2), levels):
            crossed = [each.ravel() for each in np.meshgrid(values[first], values[second], indexing="ij")]
            points = {name: np.full(len(crossed[0]) + 1, reference) for name, reference in references.items()}
            points[first][:-1], points[second][:-1] = crossed
            rows = at_points(design, term, points, level)
            rows = rows[:-1] if number else rows[:-1] - rows[-1]
            table = pd.DataFrame(compared(estimated, rows, error_name, confidence))
            for name, place in ((first, ""), (second, "_2")):
                reference = np.nan if number else references[name]
                parts = {"column": name, "value": points[name][:-1], "reference": reference}
                table = table.assign(**{f"{key}{place}": value for key, value in parts.items()})
            others = [f"{by.name} {by.levels[level]}"] if by else []
            others += [f"{name} {references[name]:g}" for name in columns if name not in (first, second)]
            far = is_far(crossed, [seen[first], seen[second]])
            slope_of = number.column if number else ""
            yield table.assign(term=term.name, at="; ".join(others), is_far=far.astype(int), slope_of=slope_of)


def is_far(points: Sequence[np.ndarray], seen: Sequence[np.ndarray]) -> np.ndarray:
    """Whether points, given by column, are farther than TOO_FAR from all that are `seen`, with each column from 0 to 1 over the
    points (mgcv's exclude.too.far)."""
    squares = sum(((x[:, None] - rows) / np.ptp(x)) ** 2 for x, rows in zip(points, seen, strict=True))
    return np.min(squares, axis=1) > TOO_FAR**2


def at_points(design: Design, term: DesignTerm, points: Mapping[str, np.ndarray], level: int = 0) -> np.ndarray:
    """Rows of the design matrix in a curve or surface at points, [points, p], which are given by column; those of the slope of a
    number that multiplies it. If each level of a factor has a smooth, `level` is the number of one."""
    number = design.multiplier_of(term)
    numbers: dict[str, list] = {}
    for name in term.numeric:
        factor = design.numeric_by_name[name]
        if factor is number:
            numbers[name] = [1 / number.scale[0]]
            continue
        x = tuple(points[column] for column in factor.columns)
        numbers[name] = transforms.apply(np, factor.learnt, x if len(x) > 1 else x[0])
    rows = np.zeros((len(next(iter(points.values()))), design.size))
    for part in (part for part in design.parts if part.term is term):
        rows[:, part.where.start + level] = math.prod(numbers[name][position] for name, position in part.multiplier)
    return rows


def curved(estimated: Estimates) -> Iterator[tuple[Estimates, list[Numeric]]]:
    """Yield the numbers that share a curve, with the levels at which the curve is: the reference levels, or for `s(x, by=g)` each
    level of g in turn."""
    design = estimated.design
    for factors in by_column(design).values():
        yield estimated, factors
    for term in design.terms:
        if term.kind.is_smooth and term.categorical and not term.kind.is_surface:
            for level in design.categorical_by_name[term.categorical[0]].levels:
                levels = estimated.levels | {term.categorical[0]: level}
                yield replace(estimated, levels=levels), [design.numeric_by_name[term.numeric[0]]]


def by_column(design: Design) -> dict[str, list[Numeric]]:
    """Return the numbers that are terms of their own, by their column, in the order of the formula."""
    factors: dict[str, list[Numeric]] = {}
    for term in design.terms:
        if not term.categorical and len(term.numeric) == 1 and not term.kind.is_surface:
            factor = design.numeric_by_name[term.numeric[0]]
            factors.setdefault(factor.column, []).append(factor)
    return factors


def multiplied(design: Design, column: str) -> list[Numeric]:
    """Return the numbers and curves of a column that other numbers or factors multiply, and that are no terms of their own."""
    own, factors = by_column(design).get(column, []), dict[str, Numeric]()
    for term in design.terms:
        has_curves = term.kind.is_random or (term.kind.is_smooth and (term.categorical or term.kind.is_surface))
        for factor in map(design.numeric_by_name.__getitem__, term.numeric):
            if factor.columns == (column,) and factor not in (*own, design.multiplier_of(term)):
                factors |= {} if has_curves else {factor.name: factor}
    return list(factors.values())


def grid(column: Column, points: int = POINTS) -> np.ndarray:
    """Values between the least and the largest of the training rows: those that occur, if they are few."""
    if column.levels is not None and len(column.levels) <= points:
        return np.array(column.levels, float)
    return np.linspace(*column.limits, points)


def differences(estimated: Estimates, factor: Numeric, values: np.ndarray, reference: float) -> np.ndarray:
    """Rows of the design matrix at these values less that at the reference, on the scale of the fit, [values, p]."""
    design, points = estimated.design, np.append(values, reference)

    def changes(name: str) -> list[np.ndarray]:
        numbers = transforms.apply(np, design.numeric_by_name[name].learnt, points)
        return [number[:-1] - number[-1] for number in numbers]

    rows = np.zeros((len(values), design.size))
    for part in design.fixed_parts:
        form = form_of(design, part)
        own = [number for number in part.multiplier if number[0] == factor.name]
        others = [(design.numeric_by_name[name], position) for name, position in part.multiplier if name != factor.name]
        # The mean of another number is 0 on the scale of the fit, if it is centred there.
        if own and not (others and form != RAW):
            differ = standardised(design, own[0], form, changes, is_change=True)
            means = [number.center[position] / number.scale[position] for number, position in others]
            rows[:, cell(estimated, part)] = differ[:, None] * np.prod(means)
    return rows


def cell(estimated: Estimates, part: Part) -> np.ndarray:
    """The coefficient of a part at the reference levels of its factors, none if no row has them together."""
    design = estimated.design
    levels = [design.categorical_by_name[name].levels.index(estimated.levels[name]) for name in part.grouping]
    return part.where.start + np.flatnonzero((design.levels(part.grouping) == levels).all(axis=1))


def held(estimated: Estimates, factor: Numeric) -> Iterator[str]:
    """Say where a curve holds the factors that multiply its number: `carrier AA`, `hour at its mean`."""
    parts = [part for part in estimated.design.fixed_parts if factor.name in dict(part.multiplier)]
    for name in dict.fromkeys(name for part in parts for name in part.grouping):
        yield f"{name} {estimated.levels[name]}"
    for name in dict.fromkeys(name for part in parts for name, _ in part.multiplier if name != factor.name):
        yield f"{name} at its mean"
