"""All pairs of levels of a factor compared with each other.

It compares the means of the linear predictor on a balanced grid, as R's emmeans. For a factor without interactions these
are differences of its coefficients. For a factor in an interaction they are averaged over the levels of the other factor. In an
interaction with numbers they are compared at values of these.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.design.references import check_pairwise, numbers_beside
from tfglm.families import FAMILIES
from tfglm.inference.fitted import EMPTY, SEPARATED, Fitted
from tfglm.results import studentized_range
from tfglm.results.balanced import number_in_grid
from tfglm.results.coefficients import tests
from tfglm.results.estimates import NOT_IDENTIFIED, Estimates
from tfglm.results.hypotheses import holm


def pairwise(
    estimated: Estimates, terms: list[str], confidence: float, at: Mapping[str, Sequence[float]] | None = None
) -> pd.DataFrame:
    """Return the differences of all pairs of levels of some factors. `confidence` is the probability that all intervals of a
    factor contain the true values. With `at`, the values by column of the numbers that multiply a factor, all levels are
    compared at each combination of them, like emmeans with `at` and `by`.

    A row for each pair of levels; in a multinomial regression for each linear predictor. Columns: class (multinomial), term,
    at (the values, with `at`), level, against, estimate (level minus against, on the scale of the linear predictor),
    std_error, z or t, df (with clusters), p_value and neg_log10_p of the pair alone; p_tukey, by the studentized range for
    the number of levels that can be compared (Tukey and Kramer); p_holm, by Holm's method; ci_lower and ci_upper, by Tukey;
    the ratio of the family; note, why there is no difference, error or test. Raises UserError if `check_pairwise` refuses a
    term.
    """
    at = at or {}
    check_pairwise(estimated.design, terms, at)
    design = estimated.design
    tables = []
    equations = design.equations if design.compares_classes else ("",)
    for equation, name in product(equations, terms):
        columns = numbers_beside(design, name)
        for chosen in product(*(at[column] for column in columns)):
            values = dict(zip(columns, chosen, strict=True))
            table = differences_in_factor(estimated, design.categorical_by_name[name], confidence, equation, values)
            if at:
                table.insert(1, "at", ", ".join(f"{column} = {value:g}" for column, value in values.items()))
            if equation:
                table.insert(0, "class", equation)
            tables.append(table)
    return pd.concat(tables, ignore_index=True)


def differences_in_factor(
    estimated: Estimates, factor: Categorical, confidence: float, equation: str, values: Mapping[str, float]
) -> pd.DataFrame:
    """The table of one factor, in the linear predictor of a class, at these values of the columns of numbers beside it."""
    design, fitted = estimated.design, estimated.fitted
    rows, notes = level_rows(design, fitted, factor, equation, values)
    first, second = np.array(list(combinations(range(len(factor.levels)), 2))).T
    differences = rows[first] - rows[second]
    why = np.array([notes[i] or notes[j] for i, j in zip(first, second, strict=True)], object)
    identified = fitted.estimable(differences)
    why = np.where((why == "") & ~identified, NOT_IDENTIFIED, why)
    known = why == ""
    coefficients = np.where(np.isfinite(fitted.coefficients), fitted.coefficients, 0.0)
    estimates = np.where(known, differences @ coefficients, np.nan)
    sparse = scipy.sparse.csr_array(differences)
    errors = np.where(known, np.sqrt(fitted.covariance.variances(sparse).chosen), np.nan)
    reference = estimated.distribution(sparse, sparse)
    errors = np.where(reference.unseen, np.nan, errors)
    columns = tests(estimated.statistic, reference, estimates, errors, confidence)
    count = len(set(first[known]) | set(second[known]))
    ratio = np.abs(columns[estimated.statistic]) * np.sqrt(2)
    tested = np.isfinite(columns["p_value"]) & ~np.isnan(reference.usable)
    df = np.where(tested, reference.df, np.nan)
    margin = studentized_range.quantile(confidence, max(count, 2), df) / np.sqrt(2) * errors
    tukey = studentized_range.tail(np.where(tested, ratio, np.nan), max(count, 2), df)
    del columns["ci_lower"], columns["ci_upper"]
    levels = np.array(factor.levels, object)
    table = {"term": factor.name, "level": levels[first], "against": levels[second], "estimate": estimates}
    table |= {"std_error": errors, **columns}
    table |= {
        "p_tukey": tukey,
        "p_holm": holm(columns["p_value"]),
        "ci_lower": estimates - margin,
        "ci_upper": estimates + margin,
    }
    name = FAMILIES[design.likelihood.family].ratio
    if name:
        with np.errstate(over="ignore"):
            table[name] = np.exp(estimates)
    unsaid = reference.notes() if reference.by_cluster else np.full(len(estimates), "")
    return pd.DataFrame(table | {"note": np.where(known, unsaid, why)})


def level_rows(
    design: Design, fitted: Fitted, factor: Categorical, equation: str, values: Mapping[str, float]
) -> tuple[np.ndarray, list[str]]:
    """Return the mean row of the design matrix for each level of a factor, [levels, p], in the linear predictor of a class,
    without entries in which levels do not differ; and why a level cannot be compared, '' if it can."""
    rows = np.zeros((len(factor.levels), design.size))
    known = (~np.isin(fitted.status, (SEPARATED, EMPTY))).astype(float)
    covariates = [other for other in design.categorical if other is not design.classes]
    present = {other.name: design.by_level(other.name, known, equation) > 0 for other in covariates}
    lacking = np.zeros(len(factor.levels), bool)
    grid = {column: np.array([value]) for column, value in values.items()}
    for part in design.parts:
        if part.term.equation != equation:
            continue
        levels = dict(zip(part.grouping, design.levels(part.grouping).T, strict=True))
        mine = levels.pop(factor.name, None)
        if mine is None:
            continue
        share = np.ones(part.size)
        for name, level in levels.items():
            share = share * present[name][level] / present[name].sum()
        rows[mine, np.arange(part.where.start, part.where.stop)] = share * number_in_grid(design, part, grid)
        finite = np.where(known[part.where] > 0, share, 0.0)
        lacking |= np.bincount(mine, finite, len(factor.levels)) < 1 - 1e-9
    of_level = design.by_level(factor.name, (fitted.status == SEPARATED).astype(float)) > 0
    notes = []
    for level, is_lacking, separated in zip(factor.levels, lacking, of_level, strict=True):
        reason = "is separated" if separated else "has combinations of levels without rows"
        notes.append(f"{level} {reason}" if is_lacking else "")
    return rows, notes
