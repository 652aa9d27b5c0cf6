"""The effects of a regression of classes in sentences: for each class those of one response, or those on the odds of a
higher class."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from tfglm.families import family_of_fit
from tfglm.formula.names import class_and_term, terms_of_class, with_class
from tfglm.report.sentences import ModelFacts, TermSentences, effect_sentences, slopes
from tfglm.report.words import Words
from tfglm.results.compare import response_of


def is_symmetric(fit: Mapping) -> bool:
    """Whether all classes have coefficients, as in a penalised fit; then a coefficient compares no two classes."""
    return compares_classes(fit) and "effective_coefficients" in fit


def effect_and_ratio(fit: Mapping) -> tuple[str, str | None]:
    """Return the names of a coefficient, and of its exponential if that has a meaning."""
    family = family_of_fit(fit)
    return ("coefficient", None) if is_symmetric(fit) else (family.effect, family.ratio)


def compares_classes(fit: Mapping) -> bool:
    """Whether classes have coefficients of their own, from fit.json."""
    return bool(fit.get("classes")) and not fit.get("ordered")


def classes_compared(fit: Mapping, words: Words) -> str:
    """Say what the coefficients of a class are compared with, or the order of the classes, from fit.json."""
    if fit.get("ordered"):
        return f"classes in the order {', '.join(words.level(response_of(fit), label) for label in fit['classes'])}"
    reference = words.level(response_of(fit), fit["reference_class"])
    if is_symmetric(fit):
        return f"each class with penalised coefficients of its own, others against {reference}"
    return f"each class against {reference}"


def with_labels_of_classes(table: pd.DataFrame, response: str, words: Words) -> pd.DataFrame:
    """The table of coefficients with the label of each class before its terms, in place of the class itself."""
    shown = {
        str(term): with_class(words.level(response, label), own)
        for term in table["term"].unique()
        for label, own in [class_and_term(str(term))]
        if label
    }
    return table.replace({"term": shown})


def sentences_by_class(
    table: pd.DataFrame, averages: pd.DataFrame, model: ModelFacts, response: str, reference: str
) -> list[TermSentences]:
    """Return the sentences about each class against the reference class, by class and term; none without tests. The tables
    are coefficients.csv and marginal_effects.csv, with their column `class`; there may be no averages. `response` is the
    column of the classes."""
    words, sentences = model.words, []
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
            nearly_aliased=terms_of_class(model.nearly_aliased, str(label)),
        )
        sentences += [replace(each, term=with_class(name, each.term)) for each in effect_sentences(rows, of_class)]
    return sentences


def sentences_of_order(
    table: pd.DataFrame, averages: pd.DataFrame, model: ModelFacts, response: str, classes: Sequence[str]
) -> list[TermSentences]:
    """Return the sentences about ordered `classes`, of which the last is the highest; the other parameters are those of
    `sentences_by_class`."""
    highest = classes[-1]
    of_order = replace(
        model,
        response=f"a higher class of {model.response}",
        event=model.words.level(response, highest),
        slopes=slopes(averages[averages["class"] == highest]) if len(averages) else {},
    )
    return effect_sentences(table, of_order)
