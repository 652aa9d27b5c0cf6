"""The page of the data: for each column its type, missing values and distribution, and all of it by outcome if that is binary."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from tfglm.data.dictionary import Column, Dictionary
from tfglm.data.kinds import ABSENT, MEANINGS
from tfglm.data.shards import IngestedFile
from tfglm.data.training_rows import MOST_SAMPLED, sampled_rows
from tfglm.errors import counted
from tfglm.report.inline import bars, part_of
from tfglm.report.pages import render
from tfglm.report.ratios import round_values
from tfglm.report.words import Words
from tfglm.results.digits import four_that_count, percent, significant

MOST_COLUMNS, MOST_LEVELS, MOST_FREQUENT, MOST_BINS = 100, 12, 6, 24
"""Columns on the page, levels of a factor that are all shown, those of a larger factor, and bars of a number."""


@dataclass(frozen=True)
class CountedLevel:
    """A level: its share of the rows as a picture, its rows, and the share of its rows with the event."""

    label: str
    picture: Markup
    rows: str
    events: str


@dataclass(frozen=True)
class DescribedColumn:
    """A column: its `kind` in words, how many values are `missing`, a `summary`, and the pictures of its distribution: its
    `levels`, or bars between `low` and `high`."""

    name: str
    unit: str
    kind: str
    missing: str
    summary: str
    levels: list[CountedLevel] = field(default_factory=list)
    picture: Markup | None = None
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Characteristic:
    """A line of the first table: a column or one of its levels, and the cell of each group of rows."""

    name: str
    cells: list[str]
    is_level: bool = False


def page(
    account: Mapping[str, Any],
    dictionary: Dictionary,
    files: Sequence[IngestedFile],
    responses: Sequence[str],
    words: Words,
    reading: str = "",
    most_rows: int = MOST_SAMPLED,
    subset: str | None = None,
) -> str:
    """Return the page from the content of rows.json and dictionary.json, and the ingested files. The first of the responses
    with 0 and 1 is the outcome. `reading` says in words which texts are missing values. Distributions are computed from a
    sample of `most_rows` rows. `subset` is the column that is 0 in the rows outside the subset of the only model, which the page
    leaves out."""
    shown = {
        name: column
        for name, column in dictionary.columns.items()
        if column.kind in MEANINGS and column.kind != "image" and name in account.get("columns", dictionary.columns)
    }
    shown = dict(list(shown.items())[:MOST_COLUMNS])
    rows = sampled_rows(files, [*shown, *filter(None, [subset])], dictionary.required, most_rows)
    if subset:
        inside = rows.pop(subset) != 0
        rows = {name: values[inside] for name, values in rows.items()}
    outcome = next((name for name in responses if name in rows and is_binary(shown[name])), None)
    events = rows[outcome] == 1 if outcome else None
    described = [
        describe(
            column,
            rows.get(name),
            None if name == outcome else events,
            missing_of(name, account, column),
            words,
            not subset,
        )
        for name, column in shown.items()
    ]
    compared = [(column, rows[name]) for name, column in shown.items() if name in rows and name != outcome]
    characteristics = [line for column, values in compared for line in lines(column, values, events, words)]
    used = account["splits"]["train"]["used"] if subset else dictionary.rows["train"]
    sampled = len(next(iter(rows.values()), ()))
    if account.get("subsets"):
        reading = f"Rows outside the `subset` of a model are among them. {reading}"
    return render(
        "columns",
        rows=used,
        sampled=sampled if sampled < used else None,
        outcome=outcome,
        reading=reading,
        groups=groups_of(events, outcome),
        characteristics=characteristics,
        columns=described,
        left_out=max(len(dictionary.columns) - MOST_COLUMNS, 0),
    )


def is_binary(column: Column) -> bool:
    return column.levels == [0, 1]


def missing_of(name: str, account: Mapping[str, Any], column: Column) -> str:
    """How many training rows lack a value, and what became of them."""
    dropped = account["splits"]["train"]["dropped"].items()
    lacking = sum(count for reason, count in dropped if name in reason.removeprefix("missing: ").split(","))
    if column.missing_rows:
        return f"{counted(column.missing_rows, 'row')} without a value, the level {ABSENT}"
    return f"{counted(lacking, 'row')} without a value, dropped" if lacking else "no value missing"


def describe(
    column: Column,
    values: np.ndarray | None,
    events: np.ndarray | None,
    missing: str,
    words: Words,
    is_whole: bool = True,
) -> DescribedColumn:
    """The description of a column from values of a sample; `is_whole` says whether the dictionary counts the same rows."""
    known = (full_name(column.name, words), words.units.get(column.name, ""), MEANINGS[column.kind], missing)
    size = column.distinct if is_whole or values is None else len(pd.unique(pd.Series(values)))
    distinct = "more values than can be told apart" if size is None else f"{size:,} values"
    if values is None:
        return DescribedColumn(*known, distinct)
    if column.kind == "text" or (column.distinct is not None and column.distinct <= MOST_LEVELS):
        is_large = (column.distinct or 0) > MOST_LEVELS
        summary = f"{distinct}; the {MOST_FREQUENT} most frequent" if is_large else distinct
        return DescribedColumn(*known, summary, counted_levels(column, values, events, words))
    numbers, of_event = values[np.isfinite(values)], None if events is None else events[np.isfinite(values)]
    if not len(numbers):
        return DescribedColumn(*known, "no numbers")
    mean, variance = column.moments if is_whole else (float(numbers.mean()), float(numbers.var()))
    median = float(np.median(numbers))
    spread = four_that_count(math.sqrt(variance))
    summary = f"mean {four_that_count(mean)}, standard deviation {spread}, median {four_that_count(median)}"
    picture, low, high = histogram(numbers, of_event)
    return DescribedColumn(*known, summary, picture=picture, low=low, high=high)


def counted_levels(column: Column, values: np.ndarray, events: np.ndarray | None, words: Words) -> list[CountedLevel]:
    """The most frequent levels, by their rows."""
    place, found = levels_in(column, values)
    counts = np.bincount(place)
    of_event = np.zeros(len(found)) if events is None else np.bincount(place, events, len(found))
    return [
        CountedLevel(
            label_of(column.name, found[number], words),
            part_of(counts[number] / counts.max(), of_event[number] / counts.max()),
            in_percent(counts[number] / len(values)),
            "" if events is None else in_percent(of_event[number] / counts[number]),
        )
        for number in most_frequent(counts)
    ]


def levels_in(column: Column, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the level of each value, and the levels in their order."""
    place, found = pd.factorize(values, sort=True, use_na_sentinel=False)
    if not column.order:
        return place, found
    places = {level: number for number, level in enumerate(column.order)}
    texts = [text_of(level) for level in found]
    order = np.array(sorted(range(len(found)), key=lambda number: places.get(texts[number], len(places))))
    return np.argsort(order)[place], found[order]


def most_frequent(counts: np.ndarray) -> list[int]:
    """The levels to show: all in their order, or of many the most frequent ones, by their rows."""
    if len(counts) <= MOST_LEVELS:
        return list(range(len(counts)))
    return [int(number) for number in np.argsort(-counts, kind="stable")[:MOST_FREQUENT]]


def in_percent(share: float) -> str:
    return percent(share, "\N{NO-BREAK SPACE}%")


def full_name(column: str, words: Words) -> str:
    """What pages call a column, with its name in formulas."""
    label = words.column(column)
    return column if label == column else f"{label} ({column})"


def label_of(name: str, value: Any, words: Words) -> str:
    text = text_of(value)
    return words.labels.get(name, {}).get(text, text or ABSENT)


def text_of(value: Any) -> str:
    """A level as a config has it."""
    return str(value) if isinstance(value, str) else f"{value:g}"


def histogram(values: np.ndarray, events: np.ndarray | None) -> tuple[Markup, str, str]:
    """Bars of a column of numbers, and the ends of its axis. A hundredth of the values at either end shares the outer bars if it
    would leave the others no room."""
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values, [0.005, 0.995])
    if high - low > 3 * (inner[1] - inner[0]) > 0:
        low, high = float(inner[0]), float(inner[1])
    ticks = round_values(low, high, MOST_BINS)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    edges = np.arange(math.floor(low / step + 1e-9), math.floor(high / step + 1e-9) + 2) * step
    within = np.clip(values, edges[0], np.nextafter(edges[-1], -np.inf))
    counts = np.histogram(within, edges)[0]
    of_event = np.histogram(within[events], edges)[0] if events is not None else np.zeros(0)
    tips = []
    for number, count in enumerate(counts.tolist()):
        share = f", {in_percent(of_event[number] / count)} with the event" if len(of_event) and count else ""
        tips.append(f"{edges[number]:,.6g} to {edges[number + 1]:,.6g}: {counted(count, 'row')}{share}")
    picture = bars(counts.tolist(), tips, of_event.tolist())
    first = "≤ " if values.min() < edges[0] else ""
    last = "≥ " if values.max() > edges[-1] else ""
    return picture, f"{first}{four_that_count(float(edges[0]))}", f"{last}{four_that_count(float(edges[-1]))}"


def groups_of(events: np.ndarray | None, outcome: str | None) -> list[str]:
    """The heads of the groups of rows."""
    if events is None:
        return ["all rows"]
    share = float(events.mean())
    return ["all rows", f"{outcome} = 0 ({in_percent(1 - share)})", f"{outcome} = 1 ({in_percent(share)})"]


def lines(column: Column, values: np.ndarray, events: np.ndarray | None, words: Words) -> list[Characteristic]:
    """The lines of a column: its mean with standard deviation, or the share of each level."""
    groups = [np.ones(len(values), bool), *([~events, events] if events is not None else [])]
    unit = words.units.get(column.name)
    name = f"{words.column(column.name)}, {unit}" if unit else words.column(column.name)
    if column.kind != "text" and not words.labels.get(column.name):
        cells = [cell_of_numbers(values[group & np.isfinite(values)], is_binary(column)) for group in groups]
        return [Characteristic(f"{name}, {'share of 1' if is_binary(column) else 'mean (standard deviation)'}", cells)]
    place, found = levels_in(column, values)
    counts = [np.bincount(place[group], minlength=len(found)) for group in groups]
    levels = [
        Characteristic(
            label_of(column.name, found[number], words),
            [in_percent(of_group[number] / of_group.sum()) if of_group.any() else "" for of_group in counts],
            True,
        )
        for number in most_frequent(counts[0])
    ]
    more = f", the {MOST_FREQUENT} most frequent of {len(found):,} levels" if len(found) > MOST_LEVELS else ""
    return [Characteristic(f"{name}{more}", [""] * len(groups)), *levels]


def cell_of_numbers(numbers: np.ndarray, is_share: bool) -> str:
    if not len(numbers):
        return ""
    mean = float(numbers.mean())
    return in_percent(mean) if is_share else f"{significant(mean, 4)} ({significant(float(numbers.std()), 4)})"
