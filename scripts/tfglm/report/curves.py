"""Curves of numbers: what their values do, against the value nearest the mean."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.errors import short
from tfglm.report.drawing import GREY, MAIN, Panel, grid, literal, nothing
from tfglm.report.ratios import scale_of

POINTED_AT = 40
"""Places along a curve that say their value."""


@dataclass(frozen=True)
class Curve:
    """A term of numbers, of the table of `results.effects`."""

    term: str
    points: pd.DataFrame


def curves_of(effects: pd.DataFrame) -> list[Curve]:
    """Return the curves with estimates besides the point that the others are compared with."""
    by_term = effects.dropna(subset=["effect"]).fillna({"at": ""}).groupby(["term", "at"], sort=False)
    return [Curve(str(term), points) for (term, _), points in by_term if len(points) > 1]


def effects_plot(effects: pd.DataFrame, title: str, effect: str, ratio: str | None, paths: Iterable[Path]) -> None:
    """Curves with bands, a panel for each term; `ratio` is what the exponential of an effect is called, if anything."""
    curves = curves_of(effects)
    if not curves:
        nothing(f"{title}: none that can be estimated", paths)
        return
    picture, panels = grid(title, len(curves))
    for panel, curve in zip(panels, curves, strict=True):
        draw_curve(panel, panel.axes[0], curve, ratio is not None)
        panel.axes[0].set_ylabel(ratio.replace("_", " ") if ratio else effect)
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
    every = points.iloc[np.unique(np.linspace(0, len(points) - 1, POINTED_AT).astype(int))]
    for (low, high), point in zip(halfway(every["value"].to_numpy(float)), every.to_dict("records"), strict=True):
        told = f"{curve.points['column'].iloc[0]} {point['value']:,.6g}: {scale.written(point['effect'])}"
        told += f" against {reference:,.6g}"
        if pd.notna(point["ci_lower"]):
            told += f" ({scale.written(point['ci_lower'])} to {scale.written(point['ci_upper'])})"
        panel.tip(axes, (low, high), (scale.low, scale.high), told)


def halfway(values: np.ndarray) -> list[tuple[float, float]]:
    """The part of an axis that is nearer to each of these ascending values than to the others."""
    ends = [values[0], *((values[1:] + values[:-1]) / 2), values[-1]]
    return list(itertools.pairwise(ends))
