"""The page of the contrasts of a model, or of its joint hypotheses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tfglm.report.class_effects import effect_and_ratio
from tfglm.report.pages import numbers_as_text, render, tests_as_text
from tfglm.results import csv_files
from tfglm.results.digits import p_value


def page(path: Path, fit: Mapping[str, Any], path_of_fit: Path, confidence: float) -> str:
    """Return the page of contrasts.csv or hypotheses.csv. Raises UserError as `csv_files.read` does."""
    table = csv_files.read(path, path_of_fit)
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
    shown = (
        contrasts(table, effect_and_ratio(fit)[1])
        if "contrast" in table
        else tests_as_text(table[["hypothesis"]], table)
    )
    if "p_adjusted" in table:
        shown.insert(shown.columns.get_loc("p") + 1, "p (Holm)", table["p_adjusted"].map(p_value))
    return shown


def contrasts(table: pd.DataFrame, ratio: str | None) -> pd.DataFrame:
    """The estimates of contrasts, and their exponentials if these have a meaning."""
    errors = next((name for name in ("std_error", "posterior_sd") if name in table), None)
    sizes = table[errors] if errors else table["estimate"].abs()
    limits = {name: called for name, called in (("ci_lower", "from"), ("ci_upper", "to")) if name in table}
    texts = numbers_as_text(table[["estimate", *limits, *([errors] if errors else [])]], sizes)
    if ratio:
        ratios = numbers_as_text(table[["estimate", *limits]], sizes, rate=1.0)
        texts = pd.concat(
            [ratios.rename(columns={"estimate": ratio.replace("_", " ")}), texts.drop(columns=limits)], axis=1
        )
    shown = texts.rename(columns={**limits, "std_error": "std. error", "posterior_sd": "std. deviation"})
    shown.insert(0, "contrast", table["contrast"])
    if "p_value" in table:
        shown["p"] = table["p_value"].map(p_value)
    return shown.assign(note=table["note"]) if "note" in table and table["note"].any() else shown
