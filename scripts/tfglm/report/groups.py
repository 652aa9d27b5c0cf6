"""The picture of the metrics by the values of columns."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.errors import short
from tfglm.report.drawing import GREY, MAIN, OTHERS, TITLE_HEIGHT, Picture, literal, most_fitting, nothing
from tfglm.report.evaluation import wilson
from tfglm.report.words import Words
from tfglm.results.digits import four_that_count

ROW, PANEL_WIDTH, PANEL_ROWS = 0.155, 3.4, 52
"""Inches of a row and of a panel, which a telephone shows at its size and a sheet of paper holds."""

ABOVE, BELOW = 0.75, 0.5
"""Inches above and below the rows."""

LONGEST_LABEL, LETTER = 16, 0.062
"""Letters of a value, and inches per letter."""

QUALITIES = {"auc": "AUC", "accuracy": "accuracy", "d_squared": "deviance explained", "rmse": "root mean\nsquare error"}
"""What tells how well a group is predicted: the first of them that there is."""


def groups_plot(metrics: dict, title: str, paths: Iterable[Path]) -> None:
    """How the rows with each value of a column are predicted: the mean response beside the mean prediction, and a measure of
    quality, with dotted lines for all rows; `metrics` are what `labelled` makes of metrics.json."""
    parts = [(column, part) for column, levels in metrics["by"].items() for part in divided(levels)]
    if not parts:
        nothing(title, paths)
        return

    def bands_of(abreast: int) -> dict[int, float]:
        """The first part of each band of panels, and the height of the band."""
        return {
            first: ABOVE + BELOW + ROW * max(len(part) for _, part in parts[first : first + abreast])
            for first in range(0, len(parts), abreast)
        }

    def shape(abreast: int) -> tuple[float, float]:
        return abreast * PANEL_WIDTH, TITLE_HEIGHT + sum(bands_of(abreast).values())

    abreast = most_fitting(len(parts), shape)
    picture = Picture(title, *shape(abreast))
    top = TITLE_HEIGHT
    for first, height in bands_of(abreast).items():
        for place, (column, part) in enumerate(parts[first : first + abreast]):
            draw_part(picture, (place * PANEL_WIDTH, top), column, part, metrics)
        top += height
    picture.write(paths)


def labelled(metrics: dict, words: Words) -> dict:
    """Return metrics.json with groups in the order of display, and with their labels."""
    by = {
        column: [
            level | {"level": words.level(column, level["level"])}
            for level in in_order(levels, words.orders.get(column, ()))
        ]
        for column, levels in metrics.get("by", {}).items()
    }
    return metrics | ({"by": by} if by else {})


def in_order(levels: Sequence[dict[str, Any]], order: Sequence[str]) -> list[dict[str, Any]]:
    """The levels as the config orders them, or else numbers by size."""
    if order:
        places = {level: place for place, level in enumerate(order)}
        return sorted(levels, key=lambda row: places.get(row["level"], len(places)))
    try:
        return sorted(levels, key=lambda row: float(row["level"]))
    except ValueError:
        return list(levels)


def divided(levels: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Divide the groups of a column into parts of about the same size, each of which fits into a panel."""
    number = max(math.ceil(len(levels) / PANEL_ROWS), 1)
    return [part.tolist() for part in np.array_split(np.array(levels, object), number) if len(part)]


def draw_part(
    picture: Picture, corner: tuple[float, float], column: str, levels: Sequence[dict[str, Any]], metrics: dict
) -> None:
    """A panel of some groups of a column."""
    left, top = corner
    height = ROW * len(levels)
    panel = picture.panel(left, top, PANEL_WIDTH, ABOVE + BELOW + height)
    margin = 0.15 + LETTER * min(max(4, *(len(row["level"]) for row in levels)), LONGEST_LABEL)
    has_means = "mean_response" in metrics
    quality = next(name for name in QUALITIES if name in metrics)
    gap = 0.2
    width = (PANEL_WIDTH - margin - 0.15 - gap) / 2 if has_means else PANEL_WIDTH - margin - 0.15
    first = panel.add_axes(margin, ABOVE, width, height)
    shown = [first]
    if has_means:
        draw_means(first, levels, metrics["mean_response"])
        shown.append(panel.add_axes(margin + width + gap, ABOVE, width, height))
    draw_quality(shown[-1], levels, quality, metrics[quality])
    whole = pd.DataFrame(metrics["by"][column])
    for axes, names in zip(shown[::-1], ([quality], ["mean_response", "mean_prediction"]), strict=False):
        low, high = whole[names].min(axis=None), whole[names].max(axis=None)
        if low < high:
            axes.set_xlim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        axes.set_ylim(len(levels) - 0.5, -0.5)
        axes.set_yticks([])
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="x", labelsize=7)
        axes.locator_params(axis="x", nbins=4)
        axes.hlines(
            range(len(levels)), 0, 1, color="#e4e4e4", linewidth=0.4, zorder=0.4, transform=axes.get_yaxis_transform()
        )
    for place, row in enumerate(levels):
        name = literal(short(row["level"], LONGEST_LABEL - 2))
        first.text(-0.05, place, name, transform=first.get_yaxis_transform(), fontsize=7.5, ha="right", va="center")
        tip = "; ".join(
            f"{key.replace('_', ' ')} {four_that_count(value)}"
            for key, value in row.items()
            if isinstance(value, int | float)
        )
        for axes in shown:
            panel.tip(axes, axes.get_xlim(), (place - 0.5, place + 0.5), f"{column} {row['level']}: {tip}")
    over = 1 + (ABOVE - 0.22) / height
    first.text(0.08 / width - margin / width, over, literal(short(column, 40)), transform=first.transAxes, fontsize=9.5)


def draw_means(axes: Axes, levels: Sequence[dict[str, Any]], of_all: float) -> None:
    """The mean response of each group, with a 95 % interval of a share of events, beside its mean prediction."""
    table = pd.DataFrame(levels)
    places = np.arange(len(table))
    if "events" in table:
        count = (table["events"] / table["mean_response"]).fillna(table["rows"])
        lower, upper = wilson(table["mean_response"], count)
        axes.hlines(places, lower, upper, color=MAIN, linewidth=1)
    axes.plot(table["mean_response"], places, "o", color=MAIN, markersize=3.5, label="observed")
    axes.plot(
        table["mean_prediction"],
        places,
        "D",
        color=OTHERS[0],
        markerfacecolor="white",
        markersize=3.2,
        label="predicted",
    )
    axes.axvline(of_all, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xlabel("mean response")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.1, 1), borderaxespad=0.1, fontsize=7, handletextpad=0.1, ncols=1)


def draw_quality(axes: Axes, levels: Sequence[dict[str, Any]], name: str, of_all: float | None) -> None:
    """How well each group is predicted."""
    values = [math.nan if row[name] is None else row[name] for row in levels]
    axes.plot(values, range(len(values)), "s", color=MAIN, markersize=3.5)
    if of_all is not None:
        axes.axvline(of_all, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xlabel(QUALITIES[name])
