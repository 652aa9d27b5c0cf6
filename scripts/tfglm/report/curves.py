"""Curves of numbers: what their values do, against the value nearest the mean. Surfaces are beside them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.errors import short
from tfglm.report.drawing import GREY, MAIN, Panel, grid, halfway, literal, nothing, spread
from tfglm.report.ratios import scale_of
from tfglm.report.surfaces import draw_surface, surfaces_of

POINTED_AT = 40
"""Places along a curve that say their value."""


@dataclass(frozen=True)
class Curve:
    """A term of numbers, of the table of `results.effects`."""

    term: str
    points: pd.DataFrame


def curves_of(effects: pd.DataFrame) -> list[Curve]:
    """Return the curves with estimates besides the point that the others are compared with."""
    if "column_2" in effects:
        effects = effects[effects["column_2"] == ""]
    by_term = effects.dropna(subset=["effect"]).fillna({"at": ""}).groupby(["term", "at"], sort=False)
    return [Curve(str(term), points) for (term, _), points in by_term if len(points) > 1]


def effects_plot(effects: pd.DataFrame, title: str, effect: str, ratio: str | None, paths: Iterable[Path]) -> None:
    """Curves with bands and surfaces with contour lines, a panel for each. `ratio` is what the exponential of an effect is
    called, if anything."""
    curves, surfaces = curves_of(effects), surfaces_of(effects)
    if not curves and not surfaces:
        nothing(f"{title}: none that can be estimated", paths)
        return
    picture, panels = grid(title, len(curves) + len(surfaces))
    label = ratio.replace("_", " ") if ratio else effect
    for panel, curve in zip(panels, curves, strict=False):
        draw_curve(panel, panel.axes[0], curve, ratio is not None)
        panel.axes[0].set_ylabel(label)
    for panel, surface in zip(panels[len(curves) :], surfaces, strict=True):
        draw_surface(panel, panel.axes[0], surface, ratio is not None, label)
    picture.write(paths)


def draw_curve(panel: Panel, axes: Axes, curve: Curve, is_ratio: bool) -> None:
    """A curve with its band."""
    points, limits = curve.points, curve.points[["ci_lower", "ci_upper"]].to_numpy().ravel()
    scale = scale_of(points["effect"].to_numpy(float), limits[np.isfinite(limits)], is_ratio)
    value = points["value"].to_numpy(float)
    axes.set_xlim(value.min(), value.max())
    scale.apply(axes, along="y")
    axes.fill_between(value, points["ci_lower"], points["ci_upper"], color=MAIN, alpha=0.2, linewidth=0)
    axes.plot(value, points["effect"], color=MAIN)
    reference = points["reference"].iloc[0]
    axes.plot(reference, 0.0, "s", color=GREY, markerfacecolor="white", markersize=4)
    axes.set_xlabel(literal(curve.points["column"].iloc[0]))
    where = curve.points["at"].iloc[0]
    axes.set_title(literal(short(f"{curve.term}, {where}" if where else curve.term, 36)))
    every = points.iloc[spread(len(points), POINTED_AT)]
    for (low, high), point in zip(halfway(every["value"].to_numpy(float)), every.to_dict("records"), strict=True):
        told = f"{curve.points['column'].iloc[0]} {point['value']:,.6g}: {scale.written(point['effect'])}"
        told += f" against {reference:,.6g}"
        if pd.notna(point["ci_lower"]):
            told += f" ({scale.written(point['ci_lower'])} to {scale.written(point['ci_upper'])})"
        panel.tip(axes, (low, high), (scale.low, scale.high), told)
