"""The pictures and pages of a model, by name."""

import argparse
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from tfglm import digests
from tfglm.errors import counted
from tfglm.formula.parse import term_of
from tfglm.report.circumstances import PENALTIES
from tfglm.report.class_effects import classes_compared
from tfglm.report.coefficients import absorbed_effects, leave_out, profiles, shares_in_words, sheet, variance_components
from tfglm.report.confusion import confusion_plot
from tfglm.report.curves import effects_plot
from tfglm.report.drawing import nothing
from tfglm.report.embedded import panels
from tfglm.report.embeddings import embeddings_plot
from tfglm.report.evaluation import binomial_plot, mean_plot
from tfglm.report.forest import coefficient_plot
from tfglm.report.groups import groups_plot, labelled
from tfglm.report.history import history_plot
from tfglm.report.model_results import ModelResults
from tfglm.report.pages import render
from tfglm.report.penalties import path_plot
from tfglm.report.shapes import shapes_of
from tfglm.report.words import Words
from tfglm.results.accuracy import SERIAL, errors
from tfglm.results.compare import family_words
from tfglm.results.digits import four_digits, four_that_count, statistic


def draw_coefficients(results: ModelResults, plots: Sequence[Path]) -> None:
    fit, table = results.fit, results.coefficients
    intervals, shown = "confidence intervals", table
    if "posterior_sd" in table:
        intervals = "posterior intervals"
        margin = NormalDist().inv_cdf(0.5 + results.settings.confidence / 2) * table["posterior_sd"]
        shown = table.assign(ci_lower=table["estimate"] - margin, ci_upper=table["estimate"] + margin)
    elif fit["std_errors"]["kind"] == "none":
        shown = table.assign(ci_lower=np.nan, ci_upper=np.nan)
    title = f"{fit['model']}: estimates with {results.confidence} {intervals}"
    if shown["ci_lower"].isna().all():
        title = f"{fit['model']}: estimates"
    effects = results.curves if results.has_curves else None
    coefficient_plot(shown, effects, title, *results.effect_and_ratio, plots, results.words, fit.get("smooths", ()))


def coefficients_page(results: ModelResults, picture: Path) -> str:
    fit, table = results.fit, results.coefficients
    effect, ratio = results.effect_and_ratio
    return render(
        "coefficients",
        fit=fit,
        in_words=in_words(fit, results.words),
        effect=effect,
        ratio=ratio.replace("_", " ") if ratio else "",
        coded=any(factor.coding for term in table["term"].unique() for factor in term_of(str(term)).factors),
        by_cluster=fit["std_errors"]["kind"] in ("cluster", *SERIAL),
        sheet=sheet(table, ratio, results.settings.confidence, results.words),
        shapes=shapes_of(fit, results.curves, results.words) if results.has_curves else [],
        components=variance_components(fit, results.words),
        shares=shares_in_words(fit),
        absorbed=absorbed_effects(fit, results.words),
        without_errors=leave_out(fit, results.words),
        profiles=profiles(fit, ratio),
        picture=panels(picture),
    )


def draw_effects(results: ModelResults, plots: Sequence[Path]) -> None:
    title = f"{results.fit['model']}: difference to the mean, with {results.confidence} intervals"
    effects_plot(results.curves, title, *results.effect_and_ratio, plots)


def draw_metrics(results: ModelResults, plots: Sequence[Path]) -> None:
    metrics = labelled(results.metrics, results.words)
    title = title_of_metrics(metrics)
    if metrics["rows"]:
        draw = confusion_plot if "confusion" in metrics else binomial_plot if "auc" in metrics else mean_plot
        draw(metrics, title, plots)
    else:
        nothing(title, plots)


def title_of_metrics(metrics: dict) -> str:
    rows = counted(metrics["rows"], "row") if metrics["rows"] else "no row can be predicted of those"
    return f"{metrics['model']}: {rows} to {metrics['split']}"


def metrics_page(results: ModelResults, picture: Path) -> str:
    metrics = labelled(results.metrics, results.words)
    numbers = [(name, value) for name, value in metrics.items() if isinstance(value, int | float)]
    groups = {column: readable(pd.DataFrame(levels)) for column, levels in metrics.get("by", {}).items()}
    table = readable(pd.DataFrame(numbers, columns=["metric", "value"], dtype=object))
    table["metric"] = [NAMES.get(name, name.replace("_", " ")) for name, _ in numbers]
    classes = readable(pd.DataFrame(metrics["classes"])) if "classes" in metrics else None
    return render(
        "metrics",
        model=metrics["model"],
        title=title_of_metrics(metrics),
        rows=metrics["rows"],
        picture=panels(picture),
        unseen=metrics["unseen"],
        metrics=table,
        classes=classes,
        by=groups,
    )


def draw_groups(results: ModelResults, plots: Sequence[Path]) -> None:
    metrics = labelled(results.metrics, results.words)
    groups_plot(metrics, f"{title_of_metrics(metrics)}, by group", plots)


def draw_history(results: ModelResults, plots: Sequence[Path]) -> None:
    history = digests.read_beside(results.folder / "history.csv", results.path_of_fit)
    history_plot(pd.read_csv(io.BytesIO(history)), f"{results.fit['model']}: how the fit went", plots)


def draw_embeddings(results: ModelResults, plots: Sequence[Path]) -> None:
    table = results.table("embeddings")
    embeddings_plot(table, f"{results.fit['model']}: embeddings of levels", plots)


def draw_path(results: ModelResults, plots: Sequence[Path]) -> None:
    from tfglm.results.saved_fit import SavedFit  # slow to import, and few models have a path

    folder, fit = results.folder, results.fit
    files = {"design": folder / "design.json", "checkpoint": folder / "checkpoint", "fit": results.path_of_fit}
    saved = SavedFit(argparse.Namespace(**files))
    table = pd.DataFrame(fit["path"]).dropna(axis=1, how="all")
    terms = [term for term, _ in saved.design.coefficients()]
    path = saved.fitted.path
    assert path
    path_plot(table, path.coefficients, terms, f"{fit['model']}: {fit['formula']}", plots)


PICTURES: dict[str, Callable[[ModelResults, Sequence[Path]], None]] = {
    "coefficients": draw_coefficients,
    "effects": draw_effects,
    "metrics": draw_metrics,
    "metrics_by": draw_groups,
    "history": draw_history,
    "path": draw_path,
    "embeddings": draw_embeddings,
}
"""Each draws into files of these formats, by the name of the files without suffix."""
PAGES: dict[str, Callable[[ModelResults, Path], str]] = {"coefficients": coefficients_page, "metrics": metrics_page}
"""Each returns the page with a picture, an SVG."""

NAMES = {
    "auc": "AUC",
    "auc_bound": "AUC, off by at most",
    "brier": "Brier score",
    "calibration_slope_std_error": "calibration slope, standard error",
    "calibration_in_the_large_std_error": "calibration in the large, standard error",
    "f1": "F1",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "r_squared": "R squared",
    "d_squared": "deviance explained",
    "null_accuracy": "accuracy of the most frequent class alone",
}
"""What readers call a metric; others have the name of their key."""


def in_words(fit: dict, words: Words) -> str:
    """The fit in two sentences."""
    lost = fit["rows_of_separated_levels"]
    separated = f" ({lost:,} of them in separated levels)" if lost else ""
    alone = fit.get("absorbed", {}).get("rows_of_singletons", 0)
    separated += f" ({alone:,} of them in absorbed levels of one row, which tell nothing)" if alone else ""
    across = fit.get("rows_separated_across_terms", 0)
    separated += f" ({across:,} of them separated by terms together)" if across else ""
    converged = "converged" if fit["converged"] else "did NOT converge"
    iterations = fit["iterations"]
    ended = f"{converged} after {counted(iterations, 'iteration')}"
    if not fit["exact"]:
        online = fit["online"]
        ended = f"stopped after {online['epochs']} epochs ({online['steps']:,} steps) of {online['solver']}"
    against = f", {classes_compared(fit, words)}" if fit.get("classes") else ""
    likelihood = ""
    if fit["log_likelihood"] is not None:
        likelihood = f"Log-likelihood {statistic(fit['log_likelihood'])}, AIC {statistic(fit['aic'])}. "
    family = family_words(fit, "family")
    parameters = "".join(
        f", {name} {four_that_count(fit[name])}" for name in ("theta", "power") if fit.get(name) is not None
    )
    collapsed, counts = "", fit.get("collapsed", {})
    if counts.get("distinct_rows"):
        collapsed = (
            f" Its {counts['rows']:,} training rows were summed into {counts['distinct_rows']:,} different rows."
        )
    left = f", {fit['coefficients_not_zero']:,} of them not zero" if fit.get("l1") else ""
    penalties = "".join(f", {name} {four_that_count(fit[key])}" for key, name in PENALTIES.items() if fit.get(key))
    of_null = "" if fit["null_deviance"] is None else f" of {statistic(fit['null_deviance'])}"
    return (
        f"{family[0].upper()}{family[1:]}{parameters}, {counted(fit['rows'], 'row')}{separated}, "
        f"{counted(fit['coefficients'], 'coefficient')}{against}{left}{penalties}; "
        f"{ended}. {likelihood}Deviance {statistic(fit['deviance'])}{of_null}.{collapsed} {errors(fit)}"
    )


def readable(table: pd.DataFrame) -> pd.DataFrame:
    return table.map(shown).rename(columns=lambda name: name.replace("_", " "))


def shown(value: str | float | None) -> str:
    """A number as a reader wants it; metrics.json has all digits."""
    match value:
        case None:
            return ""
        case str():
            return value
        case int():
            return f"{value:,}"
        case float() if value == round(value, 0) and abs(value) >= 10:
            return f"{value:,.0f}"
        case float():
            return "" if pd.isna(value) else four_digits(value)
