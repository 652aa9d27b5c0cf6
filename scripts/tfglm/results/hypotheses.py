"""Joint tests of linear combinations of coefficients, and p-values that allow for many tests."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse

from tfglm.config.comparisons import EQUALS
from tfglm.design.parametrisation import to_fit_scale
from tfglm.design.references import check_hypotheses
from tfglm.errors import UserError
from tfglm.results.coefficients import combined
from tfglm.results.estimates import Estimates
from tfglm.results.joint import COLUMNS, compared, wald_of, with_p_values

DEPENDENT = 1e-9
"""Share of a row that the rows before it do not make."""


def hypotheses(estimated: Estimates, wanted: Mapping[str, Sequence[Mapping[str, float]]]) -> pd.DataFrame:
    """Wald tests that several linear combinations of the coefficients have given values: L b = r, by (L b - r)' (L V L')^-1
    (L b - r). Each row of a hypothesis has weights by `term` or `term[level]`, and under EQUALS the value, 0 by default.

    A row for each hypothesis. Columns: hypothesis, df, chi_squared, F (for a family with unknown dispersion, or errors by
    cluster), df_denominator (by cluster), p_value, neg_log10_p, note. Raises UserError for a coefficient that is not there
    or has no finite estimate, and for rows that contradict each other.
    """
    check_hypotheses(estimated.design, wanted)
    tests = [(name, *test(estimated, name, rows)) for name, rows in wanted.items()]
    return with_p_values(pd.DataFrame(tests, columns=["hypothesis", *COLUMNS]), estimated)


def test(
    estimated: Estimates, name: str, rows: Sequence[Mapping[str, float]]
) -> tuple[float, float, float, float, float, str]:
    named = {f"{name}.{place}": row for place, row in enumerate(rows, 1)}
    weights = {place: {key: value for key, value in row.items() if key != EQUALS} for place, row in named.items()}
    combination = combined(estimated, weights, "hypotheses")
    return tested_together(estimated, name, combination, np.array([row.get(EQUALS, 0.0) for row in rows]))


def tested_together(
    estimated: Estimates, name: str, combination: np.ndarray, equals: np.ndarray
) -> tuple[float, float, float, float, float, str]:
    """The COLUMNS of the hypothesis that combinations of the coefficients of the table [rows, p] have these values [rows]."""
    combination = np.where(estimated.reference, 0.0, combination)
    # Scale by the unit of each coefficient, so that the hypothesis is the same in other units.
    unit = np.abs(to_fit_scale(estimated.design).diagonal())
    scaled = combination / unit
    chosen = independent(scaled)
    value = np.abs(equals).max(initial=0.0) or 1.0
    with_equals = independent(np.hstack([scaled, equals[:, None] / value * np.linalg.norm(scaled, axis=1).max()]))
    if len(with_equals) > len(chosen):
        place = next(place for place in with_equals if place not in chosen)
        refuse_contradiction(f"models.{estimated.design.model}.hypotheses.{name}", combination, equals, place)
    if not chosen:
        return np.nan, np.nan, np.nan, np.nan, np.nan, "its rows are of reference levels alone, which are 0"
    notes = []
    if len(chosen) < len(equals):
        notes.append(f"{len(equals) - len(chosen):,} of {len(equals):,} rows follow from the others")
    combination, equals = combination[chosen], equals[chosen]
    values = combination @ np.where(np.isfinite(estimated.values), estimated.values, 0.0) - equals
    weights = scipy.sparse.csr_array(combination)
    transformed = (weights @ estimated.transform).tocsr()
    if not estimated.fitted.covariance.is_known:
        return len(chosen), np.nan, np.nan, np.nan, np.nan, "; ".join([*notes, "no coefficient with a standard error"])
    value, df, problem = wald_of(estimated.fitted, values, transformed, equals)
    tested = compared(estimated, values, transformed, weights, value, df)
    note = "; ".join(filter(None, [*notes, problem, tested.pop("note")]))
    return df, *tested.values(), note


def refuse_contradiction(where: str, combination: np.ndarray, equals: np.ndarray, place: int) -> NoReturn:
    """Raise UserError for the row at `place` of a hypothesis, which the rows before it, or reference levels, make something
    else. `combination` [rows, coefficients] and `equals` [rows] are those of all its rows, and `where` is its key."""
    if not combination[place].any():
        raise UserError(
            f"{where}.{place + 1}: it has only reference levels, whose coefficients are 0, so it is 0 and not "
            f"{equals[place]:g}\n"
            "  remove the row, or choose another level under `reference` of the model"
        )
    before = np.linalg.lstsq(combination[:place].T, combination[place], rcond=None)[0] @ equals[:place]
    raise UserError(
        f"{where}: its rows contradict each other: the rows before row {place + 1} imply {before:.6g} for it, and it says "
        f'{equals[place]:g}\n  remove a row, or correct the value of `"="`'
    )


def independent(rows: np.ndarray) -> list[int]:
    """Return the rows that are not linear combinations of earlier rows."""
    chosen: list[int] = []
    basis = np.zeros((0, rows.shape[1]))
    for place, row in enumerate(rows):
        size = np.linalg.norm(row)
        left = row - (basis @ row) @ basis
        left = left - (basis @ left) @ basis  # once more, for what rounding has left
        if size and np.linalg.norm(left) > DEPENDENT * size:
            chosen.append(place)
            basis = np.vstack([basis, left / np.linalg.norm(left)])
    return chosen


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return p-values adjusted for their number (Holm, Scandinavian Journal of Statistics 6, 1979), as R's p.adjust(method
    = "holm").

    If all hypotheses are true, the probability that any test rejects is at most the level. Missing p-values do not count.
    """
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def adjusted(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """A table of tests, with p-values that allow for their number if the method is `holm`."""
    if method == "holm" and "p_value" in table:
        table.insert(table.columns.get_loc("neg_log10_p") + 1, "p_adjusted", holm(table["p_value"].to_numpy()))
    return table
