"""Adjusted means of factors, drawn and as tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from tfglm.report.inline import InlineAxis, stacked
from tfglm.report.ratios import Scale
from tfglm.report.words import Words, plain
from tfglm.results.digits import decimals_of, fixed
from tfglm.results.geometric import RETRANSFORMED

MOST_DRAWN = 24
"""Levels of a factor that are drawn, such as all hours: of more, half as many with the smallest and with the largest means."""


@dataclass(frozen=True)
class DrawnMean:
    """A level: its picture, its mean as text, and the number of its rows."""

    level: str
    picture: Markup
    mean: str
    rows: str


@dataclass(frozen=True)
class DrawnMeans:
    """The adjusted means of a factor: `measure` says what kind, `all` is the table of all levels, and `classes` are those whose
    shares are drawn."""

    name: str
    measure: str
    rows: list[DrawnMean]
    ticks: Markup | None
    all: pd.DataFrame
    is_long: bool
    classes: Sequence[str] = ()


def by_factor(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows with a mean, by term."""
    for term, rows in table.dropna(subset=["mean"]).groupby("term", sort=False):
        yield str(term), rows


def means_of_factor(term: str, rows: pd.DataFrame, is_share: bool, words: Words) -> DrawnMeans:
    """The means of a factor of adjusted_means.csv: shares in percent, and of a logarithm geometric means."""
    measure, error = "mean", rows["std_error"]
    if RETRANSFORMED["mean"] in rows:
        measure = "geometric mean"
        rows = rows.assign(**{name: rows[power] for name, power in RETRANSFORMED.items()})
        error = error * rows["mean"]
    factor, unit, decimals = (100.0, " %", 1) if is_share else (1.0, "", decimals_of(error))
    mean, lower, upper = (factor * rows[name].to_numpy(float) for name in ("mean", "ci_lower", "ci_upper"))

    def written(values: np.ndarray) -> list[str]:
        return ["" if np.isnan(value) else f"{fixed(value, decimals)}{unit}" for value in values]

    levels = [words.level(term, level) for level in rows["level"]]
    counts = [f"{count:,.0f}" for count in rows["rows"]]
    columns = {"level": levels, "mean": written(mean), "from": written(lower), "to": written(upper), "rows": counts}
    # A fact that holds for all of them, such as a penalty, is stated below.
    if rows["status"].nunique() > 1:
        columns["note"] = rows["status"].tolist()
    axis = axis_of(np.concatenate([mean, lower, upper]))
    drawn = []
    for place in chosen(mean):
        tip = f"{levels[place]}: {columns['mean'][place]} ({columns['from'][place]} to {columns['to'][place]})"
        picture = axis.interval(mean[place], lower[place], upper[place], tip)
        drawn.append(DrawnMean(levels[place], picture, columns["mean"][place], counts[place]))
    table = pd.DataFrame(columns).rename(columns={"mean": measure})
    return DrawnMeans(words.column(plain(term)), measure, drawn, axis.scale_line(), table, len(levels) > MOST_DRAWN)


def chosen(means: np.ndarray) -> list[int]:
    """The levels to draw, in their order."""
    if len(means) <= MOST_DRAWN:
        return list(range(len(means)))
    ordered = np.argsort(means, kind="stable")
    return [*ordered[: MOST_DRAWN // 2].tolist(), *ordered[-(MOST_DRAWN // 2) :].tolist()]


def axis_of(values: np.ndarray) -> InlineAxis:
    """An axis for means and the ends of their intervals."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.05 * (high - low) or abs(high) or 1.0
    return InlineAxis.of(Scale(low - margin, high + margin, False), has_zero=False)


def means_by_class(table: pd.DataFrame, response: str, words: Words) -> list[DrawnMeans]:
    """The adjusted means of each factor of a regression of classes, from adjusted_means.csv with its column `class`: the share of
    each class at each level."""
    return [shares_of_factor(term, rows, response, words) for term, rows in by_factor(table)]


def shares_of_factor(term: str, rows: pd.DataFrame, response: str, words: Words) -> DrawnMeans:
    by_class = {str(label): of_class.set_index("level") for label, of_class in rows.groupby("class", sort=False)}
    first = next(iter(by_class.values()))
    labels = [words.level(response, label) for label in by_class]
    levels, counts = [words.level(term, level) for level in first.index], [f"{count:,.0f}" for count in first["rows"]]
    columns = {"level": levels}
    for label, of_class in zip(labels, by_class.values(), strict=True):
        numbers = of_class[["mean", "ci_lower", "ci_upper"]]
        columns[label] = [percent(*each) for each in numbers.itertuples(index=False)]
    shares = np.stack([of_class["mean"].reindex(first.index).to_numpy(float) for of_class in by_class.values()], axis=1)
    drawn = [
        DrawnMean(levels[place], stacked(np.nan_to_num(shares[place]).tolist(), labels), "", counts[place])
        for place in chosen(np.nan_to_num(shares[:, -1]))
    ]
    table = pd.DataFrame({**columns, "rows": counts})
    return DrawnMeans(words.column(plain(term)), "shares", drawn, None, table, len(levels) > MOST_DRAWN, labels)


def percent(mean: float, lower: float, upper: float) -> str:
    """`23.1 % (22.0 to 24.2)`; without an interval where there is none."""
    value, *ends = (fixed(100 * number, 1) for number in (mean, lower, upper))
    return f"{value} % ({ends[0]} to {ends[1]})" if all(ends) else f"{value} %"
