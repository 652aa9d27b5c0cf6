"""The picture of the coefficients: every level of every term with its interval on one axis, and splines as curves."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from tfglm.errors import short
from tfglm.formula.read import factors_in
from tfglm.report import drawing
from tfglm.report.coefficient_rows import Heading, PictureRow, rows_and_scale
from tfglm.report.curves import (
    MOST_EFFECTS,
    Caterpillar,
    Curve,
    EffectPairs,
    Surface,
    curves_of,
    draw_caterpillar,
    draw_curve,
    draw_pairs,
    draw_surface,
    random_effects_of,
    surfaces_of,
)
from tfglm.report.drawing import GREY, LEFT, MAIN, TITLE_HEIGHT, Panel, Picture, literal, most_fitting, nothing
from tfglm.report.ratios import Scale
from tfglm.report.words import NO_WORDS, Words

ROW, COLUMN_WIDTH, MOST_COLUMNS, COLUMN_ROWS = 0.155, 3.4, 12, 56
"""Inches of a row and of a column of rows, which a telephone shows at its size; columns at most, and the rows of a column that is
so long that it has ticks at both ends."""

HEADING_ROWS = 2.4
"""The rows of a heading."""

ABOVE, BELOW = 0.22, 0.5
"""Inches for the ticks at both ends of a column."""

LONGEST_LABEL, LABEL_SIZE = 24, 7.5
"""Letters of a label, and the size of its font in points."""

Item = Heading | PictureRow | Curve

STYLES: dict[str, dict[str, Any]] = {
    "estimate": {"marker": "o", "s": 12, "facecolors": MAIN, "edgecolors": MAIN},
    "without interval": {"marker": "o", "s": 14, "facecolors": "white", "edgecolors": MAIN},
    "reference": {"marker": "s", "s": 13, "facecolors": "white", "edgecolors": GREY},
    "zero": {"marker": "x", "s": 11, "color": GREY, "linewidth": 0.8},
    "aliased": {"marker": "x", "s": 11, "color": GREY, "linewidth": 0.8},
    "not identified": {"marker": "x", "s": 11, "color": GREY, "linewidth": 0.8},
    "separated": {"s": 18, "facecolors": "white", "edgecolors": MAIN},
    "beyond": {"s": 18, "facecolors": MAIN, "edgecolors": MAIN},
}
"""How points are drawn, by the kind of their row. The last two are arrows at the edge."""


def coefficient_plot(
    table: pd.DataFrame,
    effects: pd.DataFrame | None,
    title: str,
    effect: str,
    ratio: str | None,
    paths: Iterable[Path],
    words: Words = NO_WORDS,
    smooths: Sequence[Mapping] = (),
) -> None:
    """Draw every coefficient of a table with confidence limits, the curves of `results.effects` if the formula has functions of
    numbers, and the random effects among the `smooths` of fit.json. `effect` is the title of the axis, which shows ratios if
    the exponential of a coefficient has a name."""
    look = drawing.LOOK
    words = replace(words, names={**words.names, **look.labels})
    rows, scale = rows_and_scale(table, ratio, words, most=look.levels, order=look.order)
    curved = (
        None if effects is None else effects[[any(f.is_curve for f in factors_in(term)) for term in effects["term"]]]
    )
    items = rows if curved is None else [*rows, *curves_of(curved), *surfaces_of(curved)]
    items = [*items, *random_effects_of(table, smooths, look.levels or MOST_EFFECTS, words)]
    if not items:
        nothing(f"{title}: none but the intercept", paths)
        return
    label = f"{ratio.replace('_', ' ')} (logarithmic scale)" if ratio else effect

    def shape(number: int) -> tuple[float, float]:
        filled = columns(items, number)
        return COLUMN_WIDTH * len(filled), TITLE_HEIGHT + ROW * max(map(height_of, filled)) + ABOVE + BELOW

    filled = columns(items, most_fitting(min(len(items), MOST_COLUMNS), shape))
    picture = Picture(title, *shape(len(filled)))
    margin = 0.12 + max([0.25, *(width_of(row.label) for row in rows if isinstance(row, PictureRow))])
    for place, column in enumerate(filled):
        height = ROW * height_of(column) + ABOVE + BELOW
        panel = picture.panel(place * COLUMN_WIDTH, TITLE_HEIGHT, COLUMN_WIDTH, height)
        draw_column(panel, column, scale, label, margin)
    picture.write(paths)


def width_of(label: str) -> float:
    """The inches that a label takes."""
    font = FontProperties(size=LABEL_SIZE)
    width, _, _ = text_to_path.get_text_width_height_descent(short(literal(label), LONGEST_LABEL), font, ismath=False)
    return width / 72


def size(item: Item) -> float:
    """How many rows it takes."""
    return HEADING_ROWS if isinstance(item, Heading) else item.rows if isinstance(item, Curve) else 1


def height_of(column: Sequence[Item]) -> float:
    """How many rows a column takes."""
    return sum(map(size, column))


def columns(items: Sequence[Item], number: int) -> list[list[Item]]:
    """Arrange the items in about so many columns of about equal height. The rows of a heading stay together, unless they are
    higher than a column; then it is repeated in the next column."""
    most = height_of(items) / number + HEADING_ROWS + 2
    filled: list[list[Item]] = [[]]
    heading = Heading("", "")
    height = 0.0
    for place, item in enumerate(items):
        needed = size(item)
        if isinstance(item, Heading):
            rows = itertools.takewhile(
                lambda each: isinstance(each, PictureRow), itertools.islice(items, place + 1, None)
            )
            whole = needed + sum(map(size, rows))
            needed = whole if whole <= most else needed + 3
        if height + needed > most and height:
            filled.append([])
            height = 0.0
            if isinstance(item, PictureRow):
                filled[-1].append(replace(heading, remark="continued"))
                height = HEADING_ROWS
        if isinstance(item, Heading):
            heading = item
        filled[-1].append(item)
        height += size(item)
    return filled


def draw_column(panel: Panel, items: Sequence[Item], scale: Scale, label: str, margin: float) -> None:
    """A column of a picture: rows on one axis, and curves on axes of their own."""
    heights = np.array([size(item) for item in items])
    tops = np.cumsum(heights) - heights
    rows = [(item, top + 0.5) for item, top in zip(items, tops, strict=True) if isinstance(item, PictureRow)]
    headings = [(item, top) for item, top in zip(items, tops, strict=True) if isinstance(item, Heading)]
    end = sum(height for item, height in zip(items, heights, strict=True) if not isinstance(item, Curve))
    if rows:
        axes = panel.add_axes(margin, ABOVE, panel.width - margin - 0.14, ROW * end)
        axes.set_ylim(end, 0)
        scale.apply(axes)
        axes.set_xlabel(literal(label))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="x", labelsize=7, length=2.5)
        if end > COLUMN_ROWS / 2:
            axes.tick_params(axis="x", top=True, labeltop=True)
        draw_rows(axes, rows, scale)
        # Names begin at the left end of the panel, in the coordinates of the axes.
        left = (0.08 - margin) / (panel.width - margin - 0.14)
        across = axes.get_yaxis_transform()
        for heading, top in headings:
            name = short(literal(heading.shown), 40)
            axes.text(left, top + 1.1, name, transform=across, fontsize=9.5, va="center")
            axes.text(
                left,
                top + 1.95,
                literal(short(heading.remark, 56)),
                transform=across,
                fontsize=7,
                color=GREY,
                va="center",
            )
        for row, place in rows:
            far = scale.low - (scale.high - scale.low) * -left
            panel.tip(axes, (far, scale.high), (place - 0.5, place + 0.5), row.tip)
    for item, top in zip(items, tops, strict=True):
        if isinstance(item, Curve):
            above = ABOVE + (BELOW if rows else 0) + ROW * top + 0.3
            names = item.points["level"] if isinstance(item, Caterpillar) else ()
            left = max([LEFT, *(0.12 + width_of(name) for name in names)])
            axes = panel.add_axes(left, above, panel.width - left - 0.18, ROW * item.rows - 0.85)
            effect = label.partition(" (")[0]
            match item:
                case Caterpillar():
                    draw_caterpillar(panel, axes, item, scale.ratio, effect)
                case EffectPairs():
                    draw_pairs(panel, axes, item)
                case Surface():
                    draw_surface(panel, axes, item, scale.ratio, effect)
                case _:
                    draw_curve(panel, axes, item, scale.ratio, effect)


def draw_rows(axes: Axes, rows: Sequence[tuple[PictureRow, float]], scale: Scale) -> None:
    """Points with intervals, and the names of the levels beside them."""
    across = axes.get_yaxis_transform()
    axes.hlines([place for _, place in rows], 0, 1, color="#e4e4e4", linewidth=0.4, zorder=0.4, transform=across)
    with_interval = [(row, place) for row, place in rows if row.lower < scale.high and row.upper > scale.low]
    lower = [max(row.lower, scale.low) for row, _ in with_interval]
    upper = [min(row.upper, scale.high) for row, _ in with_interval]
    lines = [("#bbbbbb", 3.5) if row.kind == "others" else (MAIN, 1.1) for row, _ in with_interval]
    colours, widths = zip(*lines, strict=True) if lines else ((), ())
    axes.hlines([place for _, place in with_interval], lower, upper, colors=colours, linewidths=widths)
    # Arrows are inside the axis: outside is the name of the level.
    inset = 0.02 * (scale.high - scale.low)
    points: dict[tuple[str, str | None], list[tuple[float, float]]] = defaultdict(list)
    for row, place in rows:
        arrow = None
        at = 0.0 if math.isnan(row.estimate) else row.estimate
        if row.kind in ("separated", "beyond"):
            arrow, at = (">", scale.high - inset) if row.estimate > 0 else ("<", scale.low + inset)
        if row.kind != "others":
            points[row.kind, arrow].append((at, place))
        axes.text(
            -0.02,
            place,
            short(literal(row.label), LONGEST_LABEL),
            transform=across,
            fontsize=LABEL_SIZE,
            color=GREY if row.kind == "others" else "black",
            ha="right",
            va="center",
        )
        if row.remark:
            beside = 5 if at < (scale.low + scale.high) / 2 else -5
            axes.annotate(
                row.remark,
                (at, place),
                (beside, 0),
                textcoords="offset points",
                fontsize=6.5,
                color=GREY,
                ha="left" if beside > 0 else "right",
                va="center",
            )
    # An arrow shows that an interval continues beyond the axis.
    for marker, edge, beyond in (
        ("<", scale.low + inset, [(row, place) for row, place in with_interval if row.lower < scale.low]),
        (">", scale.high - inset, [(row, place) for row, place in with_interval if row.upper > scale.high]),
    ):
        for row, place in beyond:
            colour = GREY if row.kind == "others" else MAIN
            axes.scatter(edge, place, marker=marker, s=9, color=colour, clip_on=False, zorder=3)
    for (kind, arrow), places in points.items():
        style = STYLES[kind] | ({"marker": arrow} if arrow else {})
        axes.scatter(*zip(*places, strict=True), zorder=3, clip_on=False, **style)
