"""The coefficients that the first page shows: the strongest effects on one axis, and a short table of the coefficients."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd
from markupsafe import Markup

from tfglm.formula.names import class_and_term, with_class
from tfglm.formula.parse import term_of
from tfglm.formula.terms import EventStudy
from tfglm.report.coefficient_rows import NUMBERS, Heading, PictureRow, clearness, is_constant, rows_and_scale, steps_of
from tfglm.report.conditions import against, conditions, is_difference
from tfglm.report.inline import InlineAxis
from tfglm.report.words import Words, amount, logged, plain
from tfglm.results.digits import aligned, decimals_of, fixed, p_value

MOST_EFFECTS = 14
"""Effects on the axis; a model with no more coefficients shows all."""


@dataclass(frozen=True)
class DrawnEffect:
    """An effect: what it compares, its picture, and its size with its interval as text."""

    label: str
    picture: Markup
    size: str
    interval: str


@dataclass(frozen=True)
class Candidate:
    """An effect that may be drawn: how much of it is sure, its term and label, and its numbers."""

    sure: float
    term: str
    label: str
    row: PictureRow


@dataclass(frozen=True)
class Effects:
    """The effects with the line of ticks below them; `measure` is what the axis shows, and `left_out` the number of others."""

    rows: list[DrawnEffect]
    ticks: Markup
    measure: str
    left_out: int


def strongest_effects(
    table: pd.DataFrame,
    measure: str,
    ratio: str | None,
    rate: float,
    words: Words,
    averages: pd.DataFrame | None = None,
) -> Effects | None:
    """Return the strongest effects of a table of coefficients with confidence limits, in the order of the table; None if
    none has an interval. An effect is as strong as the end of its interval nearer to none, as so much is sure.

    `measure` and `ratio` are the names of a coefficient, and of its exponential if that has a meaning; a coefficient is
    multiplied by `rate` before it. `averages` are marginal effects on the scale of the coefficients, if there are such: they
    are drawn in place of coefficients that hold at some values of other columns only.
    """
    shown, averaged, steps = shown_effects(table, rate, words, averages)
    if "ci_lower" not in shown or shown["ci_lower"].isna().all():
        return None
    items, scale = rows_and_scale(shown, ratio, words, averaged, steps=steps)
    compared = {str(term): against(str(term), rows, words) for term, rows in shown.groupby("term")}
    candidates: list[Candidate] = []
    term = more = ""
    for item in items:
        if isinstance(item, Heading):
            term, more = item.term, item.more
        elif item.kind in ("estimate", "beyond") and math.isfinite(item.lower) and math.isfinite(item.upper):
            sure = float(clearness(item.lower, item.upper))
            name = item.label if term == "numbers" else term
            candidates.append(Candidate(sure, name, label_of(term, item.label, compared, words) + more, item))
    if not candidates:
        return None
    axis = InlineAxis.of(scale)
    rows = []
    for effect in chosen_effects(candidates):
        numbers = effect.row.estimate, effect.row.lower, effect.row.upper
        size, start, end = map(scale.written, numbers)
        rows.append(DrawnEffect(effect.label, axis.interval(*numbers, effect.row.tip), size, f"{start} to {end}"))
    return Effects(rows, axis.scale_line(), (ratio or measure).replace("_", " "), len(candidates) - len(rows))


def shown_effects(
    table: pd.DataFrame, rate: float, words: Words, averages: pd.DataFrame | None
) -> tuple[pd.DataFrame, set[str], dict[str, float]]:
    """The rows of a table that are effects, as `strongest_effects` takes it, the terms that have average effects, and `steps_of`
    numbers. Random effects are no comparisons: their standard deviation is."""
    averaged: set[str] = set()
    if averages is not None and "ci_lower" in table:
        table, averaged = on_average(table, averages, words)
    # Levels without a reference level have means, or intercepts, which are no effects.
    by_term = table.groupby("term")
    others = {term for term, rows in by_term if term not in averaged and not is_difference(rows)}
    random = {term for term in table["term"].unique() if term_of(str(term)).is_random}
    table = table.assign(**{name: table[name] * rate for name in NUMBERS if name in table})
    table = table[~table["term"].isin(others | random)]
    return table, averaged, steps_of(table, words) if "ci_lower" in table else {}


def on_average(table: pd.DataFrame, averages: pd.DataFrame, words: Words) -> tuple[pd.DataFrame, set[str]]:
    """The table with average marginal effects for terms that have such, and whose coefficients are no differences or hold at some
    values of other columns only; and the names of these terms."""
    known = averages.dropna(subset=NUMBERS).set_index(["term", "level"])[[*NUMBERS, "std_error", "p_value"]]
    keys = pd.MultiIndex.from_frame(table[["term", "level"]])
    partial = {term for term, rows in table.groupby("term") if not is_difference(rows)} | set(conditions(table, words))
    averaged = partial & set(table["term"][keys.isin(known.index)])
    of_averaged = table["term"].isin(averaged)
    replaced = table.copy()
    # Others are compared with the reference level, and a level without an average effect stays out.
    replaced.loc[of_averaged, known.columns] = known.reindex(keys[of_averaged]).to_numpy()
    of_reference = of_averaged & (table["level"] == table["reference"]) & (table["level"] != "")
    replaced.loc[of_reference, "estimate"] = 0.0
    return replaced[replaced["estimate"].notna() | ~of_averaged], averaged


def chosen_effects(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The strongest of each term, and the strongest of all others, in their order."""
    by_strength = sorted(candidates, key=lambda each: -each.sure)
    of_terms = {each.term: each for each in reversed(by_strength)}
    others = [each for each in by_strength if of_terms[each.term] is not each]
    first = sorted(of_terms.values(), key=lambda each: -each.sure)
    chosen = {id(each) for each in [*first, *others][:MOST_EFFECTS]}
    return [each for each in candidates if id(each) in chosen]


def label_of(term: str, level: str, compared: Mapping[str, str], words: Words) -> str:
    """What an effect compares: `carrier: EV vs 9E`, or `age, +10 years`."""
    if term == "numbers":
        return level
    label, rest = class_and_term(words.term(term))
    name = with_class(label, plain(rest))
    reference = compared.get(term, "")
    return f"{name}: {level}{f' vs {reference}' if reference else ''}"


@dataclass(frozen=True)
class ShortTable:
    """A table of coefficients: the names of its columns of numbers, and rows of a label and its numbers."""

    names: list[str]
    rows: list[tuple[str, list[str]]]
    left_out: int


def short_table(
    table: pd.DataFrame, df_residual: float | None, words: Words, steps: Mapping[str, float] = MappingProxyType({})
) -> ShortTable | None:
    """Return estimate, error, statistic, degrees of freedom and p-value of the coefficients; of many those with the largest
    statistics. None if there are no errors. Slopes are for as much more of a number as `steps` say, by term."""
    error = "posterior_sd" if "posterior_sd" in table else "std_error"
    tested = table[table[error].notna()] if error in table else table[:0]
    tested = tested[[not isinstance(term_of(str(name)), EventStudy) for name in tested["term"]]]
    if tested.empty:
        return None
    statistic = next((name for name in ("t", "z", "statistic") if name in tested), None)
    if statistic and tested["p_value"].notna().any():
        tested = tested[tested["p_value"].notna()]
    strength = tested[statistic].abs() if statistic else tested["estimate"].abs() / tested[error]
    is_intercept = tested["term"].map(is_constant).astype(bool)
    kept = [*strength[~is_intercept].nlargest(MOST_EFFECTS).index, *tested.index[is_intercept]]
    rows = tested.loc[sorted(kept)]
    # A logarithm, and a number of 0 and 1, is shown as it is.
    steps = {term: step for term, step in steps.items() if step != 1 and not logged(term)}
    units = rows["term"].map(steps).astype(float).fillna(1.0)
    rows = rows.assign(**{name: rows[name] * units for name in ("estimate", error)})
    decimals = [decimals_of(pd.Series([size])) for size in rows[error]]
    columns = {
        "estimate": [fixed(value, places) for value, places in zip(rows["estimate"], decimals, strict=True)],
        "std. deviation" if error == "posterior_sd" else "std. error": [
            fixed(value, places) for value, places in zip(rows[error], decimals, strict=True)
        ],
    }
    if statistic:
        columns[statistic] = [fixed(value, 2) for value in rows[statistic]]
        freedom = rows["df"] if "df" in rows else pd.Series(df_residual if statistic == "t" else math.nan, rows.index)
        if freedom.notna().any():
            columns["df"] = ["" if pd.isna(value) else fixed(value, 0 if value >= 100 else 1) for value in freedom]
        columns["p"] = [p_value(value) for value in rows["p_value"]]
    compared = {str(term): against(str(term), each, words) for term, each in table.groupby("term")}
    holding = conditions(table, words)
    labels = [
        (
            label_of(str(row.term), words.level(str(row.term), row.level), compared, words)
            if row.level
            else words.term(str(row.term))
        )
        + (f", +{amount(steps[str(row.term)], words.units.get(plain(str(row.term)), ''))}" if row.term in steps else "")
        + (f", {holding[str(row.term)]}" if row.term in holding else "")
        for row in rows.itertuples()
    ]
    cells = zip(*(aligned(values) for values in columns.values()), strict=True)
    return ShortTable(
        list(columns), [(label, list(each)) for label, each in zip(labels, cells, strict=True)], len(tested) - len(rows)
    )
