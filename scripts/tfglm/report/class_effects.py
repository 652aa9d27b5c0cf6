"""The effects of a regression of classes in sentences, and its adjusted means in tables: for each class those of one response."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from tfglm.report.sentences import Model, Told, slopes, tell
from tfglm.report.words import Words, fixed, plain


def is_symmetric(fit: Mapping) -> bool:
    """Whether all classes have coefficients, as penalised ones have, so that these compare no two classes."""
    return bool(fit.get("classes")) and "effective_coefficients" in fit


def effect_and_ratio(fit: Mapping, effect: str, ratio: str | None) -> tuple[str, str | None]:
    """What a coefficient is, and what its exponential is, for the axes of pictures; by default those of the family."""
    return ("coefficient", None) if is_symmetric(fit) else (effect, ratio)


def classes_compared(fit: Mapping) -> str:
    """What the coefficients of a class are compared with, by fit.json."""
    if is_symmetric(fit):
        return f"each class with penalised coefficients of its own, others against {fit['reference_class']}"
    return f"each class against {fit['reference_class']}"


def tell_by_class(table: pd.DataFrame, averages: pd.DataFrame, model: Model, reference: str) -> list[Told]:
    """What is said of each class against the reference class.

    Parameters
    ----------
    table, averages
        coefficients.csv and marginal_effects.csv, with their column `class`; there may be no averages.
    model
        What `sentences.tell` needs, its response the column of the classes.
    reference
        The reference class.

    Returns
    -------
    By class and term; none without tests.
    """
    response, words, told = model.response, model.words, []
    totals = table.groupby(["term", "level"])["events"].transform("sum")
    # What counts for the odds of a class against the reference class are the rows of these two.
    compared = table.assign(rows=table["events"] + table["rows"] - totals)
    for label, rows in compared.groupby("class", sort=False):
        name = words.level(response, str(label))
        of_class = replace(
            model,
            response=f"{name} rather than {words.level(response, reference)}",
            event=name,
            slopes=slopes(averages[averages["class"] == label]) if len(averages) else {},
            nearly_aliased=without_class(model.nearly_aliased, str(label)),
        )
        told += [replace(each, term=f"{name}: {each.term}") for each in tell(rows, of_class)]
    return told


def without_class(terms: Iterable[str], label: str) -> set[str]:
    """Of terms with their class before them those of one class, without it."""
    start = f"{label}: "
    return {term.removeprefix(start) for term in terms if term.startswith(start)}


def means_by_class(table: pd.DataFrame, response: str, words: Words) -> list[tuple[str, pd.DataFrame]]:
    """The adjusted means of each factor as tables for readers, a row a level and a column a class, from adjusted_means.csv with
    its column `class`."""
    shown = []
    for term, of_term in table.dropna(subset=["mean"]).groupby("term", sort=False):
        by_class = {str(label): rows.set_index("level") for label, rows in of_term.groupby("class", sort=False)}
        first = next(iter(by_class.values()))
        columns = {"level": [words.level(str(term), level) for level in first.index]}
        for label, rows in by_class.items():
            columns[words.level(response, label)] = [
                percent(*numbers) for numbers in rows[["mean", "ci_lower", "ci_upper"]].itertuples(index=False)
            ]
        columns["rows"] = [f"{count:,.0f}" for count in first["rows"]]
        shown.append((plain(str(term)), pd.DataFrame(columns)))
    return shown


def percent(mean: float, lower: float, upper: float) -> str:
    """`23.1 % (22.0 to 24.2)`; without an interval where there is none."""
    value, *ends = (fixed(100 * number, 1) for number in (mean, lower, upper))
    return f"{value} % ({ends[0]} to {ends[1]})" if all(ends) else f"{value} %"
