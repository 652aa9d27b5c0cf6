"""The page of the contrasts of a model, or of its joint hypotheses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tfglm.families import family_of_fit
from tfglm.report.class_effects import effect_and_ratio
from tfglm.report.pages import p_value, render
from tfglm.report.words import decimals_of, fixed
from tfglm.results import csv_files

TEXTS = ["contrast", "hypothesis", "note"]
"""Columns of the tables that are no numbers."""


def page(path: Path, fit: Mapping[str, Any], path_of_fit: Path, confidence: float) -> str:
    """Return the page of contrasts.csv or hypotheses.csv. Raises UserError as `csv_files.read` does."""
    table = csv_files.read(path, path_of_fit, TEXTS)
    has_intervals = "ci_lower" in table
    return render(
        "combinations",
        fit=fit,
        kind=path.stem,
        table=combinations(table, fit),
        confidence=confidence,
        has_intervals=has_intervals,
    )


def combinations(table: pd.DataFrame, fit: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of contrasts.csv or of hypotheses.csv as the page has them."""
    family = family_of_fit(fit)
    _, ratio = effect_and_ratio(fit, family.effect, family.ratio)
    shown = contrasts(table, ratio) if "contrast" in table else hypotheses(table)
    for name, called in (("p_value", "p"), ("p_adjusted", "p (Holm)")):
        if name in table:
            shown[called] = table[name].map(p_value)
    return shown.assign(note=table["note"]) if "note" in table and table["note"].any() else shown


def contrasts(table: pd.DataFrame, ratio: str | None) -> pd.DataFrame:
    """The estimates of contrasts, and their exponentials if these have a meaning."""
    errors = next((table[name] for name in ("std_error", "posterior_sd") if name in table), table["estimate"].abs())
    numbers = table[[name for name in ("estimate", "ci_lower", "ci_upper") if name in table]]
    columns: dict[str, Any] = {"contrast": table["contrast"]}
    if ratio:
        with np.errstate(over="ignore"):
            powers = np.exp(numbers)
        places = decimals_of((errors * powers["estimate"]).where(errors < 1))
        written = powers.map(lambda value: fixed(value, places, no_zeros=True))
        columns |= {ratio.replace("_", " "): written.pop("estimate"), **written.rename(columns=ENDS)}
    decimals = decimals_of(errors)
    written = numbers.map(lambda value: fixed(value, decimals))
    columns["estimate"] = written.pop("estimate")
    columns |= {} if ratio else dict(written.rename(columns=ENDS))
    for name, called in (("std_error", "std. error"), ("posterior_sd", "std. deviation")):
        columns |= {called: table[name].map(lambda value: fixed(value, decimals))} if name in table else {}
    return pd.DataFrame(columns)


ENDS = {"ci_lower": "from", "ci_upper": "to"}


def hypotheses(table: pd.DataFrame) -> pd.DataFrame:
    """The statistics of joint tests."""
    name, statistic = ("F", "F") if "F" in table else ("chi-squared", "chi_squared")
    numbers = {"df": table["df"].map(whole), name: table[statistic].map(lambda value: fixed(value, 1))}
    return pd.DataFrame({"hypothesis": table["hypothesis"], **numbers})


def whole(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.4g}"
