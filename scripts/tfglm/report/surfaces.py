"""Surfaces of two numbers: what their values do together, against the values nearest their means."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.errors import short
from tfglm.report.drawing import GREY, Panel, halfway, literal, spread, two_colours
from tfglm.report.ratios import scale_of

SHADES, LINES = 24, 7
"""Of a picture: its shades, and contour lines at most."""

POINTED_AT = 12
"""Places along each axis that say their value."""


@dataclass(frozen=True)
class Surface:
    """Two numbers of a term, of the table of `results.effects`."""

    term: str
    points: pd.DataFrame


def surfaces_of(effects: pd.DataFrame) -> list[Surface]:
    """Return the surfaces with estimates."""
    if "column_2" not in effects:
        return []
    points = effects[effects["column_2"] != ""].dropna(subset=["effect"]).fillna({"at": ""})
    by_term = points.groupby(["term", "column", "column_2"], sort=False)
    return [Surface(str(term), rows) for (term, _, _), rows in by_term if len(rows) > 1]


def draw_surface(panel: Panel, axes: Axes, surface: Surface, is_ratio: bool, label: str) -> None:
    """A surface as shades with contour lines, with dots where the interval holds no difference. `label` is of the lines."""
    points = surface.points
    effect = points["effect"].to_numpy(float)
    scale = scale_of(effect, np.zeros(0), is_ratio)
    first, second = (np.unique(points[name].to_numpy(float)) for name in ("value", "value_2"))
    heights = points.pivot(index="value_2", columns="value", values="effect").to_numpy(float)
    heights = np.clip(heights, scale.low, scale.high)
    reach = float(np.abs(heights).max()) or 1.0
    axes.contourf(first, second, heights, np.linspace(-reach, reach, SHADES + 1), cmap=two_colours())
    ticks, _ = scale.ticks()
    levels = [tick for tick in ticks if heights.min() < tick < heights.max()][:LINES]
    if levels:
        lines = axes.contour(first, second, heights, levels, colors="black", linewidths=0.6, linestyles="solid")
        axes.clabel(lines, fontsize=7, fmt={level: scale.written(level) for level in levels})
    remark = ""
    if points["ci_lower"].notna().all():
        lower, upper = (
            points.pivot(index="value_2", columns="value", values=name).to_numpy(float)
            for name in ("ci_lower", "ci_upper")
        )
        unsure = ((lower <= 0) & (upper >= 0)).astype(float)
        if unsure.any():
            dots = axes.contourf(first, second, unsure, [0.5, 1.5], colors="none", hatches=["..."])
            dots.set(edgecolor="#8a8a8a", linewidth=0)
            remark = "\ndotted: the interval holds no difference"
    references = points["reference"].iloc[0], points["reference_2"].iloc[0]
    axes.plot(*references, "s", color=GREY, markerfacecolor="white", markersize=4)
    names = [str(points[name].iloc[0]) for name in ("column", "column_2")]
    axes.set(xlim=(first[0], first[-1]), ylim=(second[0], second[-1]))
    axes.set_xlabel(literal(names[0]) + remark)
    axes.set_ylabel(literal(names[1]))
    at = points["at"].iloc[0]
    axes.set_title(literal(short(f"{surface.term}, {at}" if at else surface.term, 36)))
    interval = points.set_index(["value", "value_2"])
    across, along = (values[spread(len(values), POINTED_AT)] for values in (first, second))
    for (left, right), x in zip(halfway(across), across.tolist(), strict=True):
        for (low, high), y in zip(halfway(along), along.tolist(), strict=True):
            row = interval.loc[(x, y)]
            told = f"{names[0]} {x:,.6g}, {names[1]} {y:,.6g}: {label} {scale.written(row['effect'])}"
            told += f" against {references[0]:,.6g}, {references[1]:,.6g}"
            if pd.notna(row["ci_lower"]):
                told += f" ({scale.written(row['ci_lower'])} to {scale.written(row['ci_upper'])})"
            panel.tip(axes, (left, right), (low, high), told)
