"""Curves of numbers and surfaces of two: what their values do, against the values nearest the means. And random effects."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.errors import short
from tfglm.formula.parse import term_of
from tfglm.formula.terms import EventStudy
from tfglm.report.drawing import GREY, MAIN, Panel, grid, halfway, literal, nothing, spread, two_colours
from tfglm.report.ratios import Scale, scale_of
from tfglm.report.words import NO_WORDS, Words, effects_in_words

POINTED_AT, POINTED_AT_ALONG = 40, 12
"""Places along a curve, and along each axis of a surface, that say their value."""

SHADES, LINES = 24, 7
"""Of a surface: its shades, and contour lines at most."""

MOST_EFFECTS, MOST_PAIRS = 24, 2_000
"""Levels with the most extreme random effects, and pairs of correlated ones, that are drawn."""


@dataclass(frozen=True)
class Curve:
    """What a term of numbers does, from the table of `results.effects`."""

    term: str
    points: pd.DataFrame

    @property
    def rows(self) -> float:
        """Its height, as so many rows of a picture of coefficients."""
        return 15.0

    @property
    def title(self) -> str:
        at = self.points["at"].iloc[0]
        return literal(short(f"{self.term}, {at}" if at else self.term, 36))

    @property
    def is_path(self) -> bool:
        """Whether it is the path of an event study, which has points and no line."""
        return isinstance(term_of(self.term), EventStudy)

    @property
    def slope_of(self) -> str:
        """The number whose slope the curve is, '' of an effect against a reference."""
        return str(self.points["slope_of"].iloc[0]) if "slope_of" in self.points else ""

    def label(self, effect: str, is_ratio: bool) -> str:
        if not self.slope_of:
            return effect
        return literal(f"slope of {self.slope_of}{f' (log {effect})' if is_ratio else ''}")


class Surface(Curve):
    """What two numbers do together."""


@dataclass(frozen=True)
class Caterpillar(Curve):
    """The random effects of levels with their intervals, from a table of coefficients in the order of the estimates. Between the
    lowest and the highest of them so many `others` are left out."""

    others: int = 0

    @property
    def rows(self) -> float:
        return len(self.points) + bool(self.others) + 6.0

    @property
    def title(self) -> str:
        return literal(short(effects_in_words(self.term), 40))

    @property
    def slope_of(self) -> str:
        return ":".join(term_of(self.term).columns[1:])


@dataclass(frozen=True)
class EffectPairs(Curve):
    """Correlated random effects of levels, those of `term` beside those of an `earlier` term, with the columns `estimate` and
    `other`."""

    earlier: str = ""
    correlation: float = np.nan


def random_effects_of(
    table: pd.DataFrame, smooths: Iterable[Mapping], most: int, words: Words = NO_WORDS
) -> list[Curve]:
    """The pictures of the random effects of fit.json in a table of coefficients: at most so many levels, the most
    extreme."""
    found, by_term = list[Curve](), dict[str, pd.DataFrame]()
    for term, rows in table.groupby("term"):
        levels = [words.level(str(term), level) for level in rows["level"]]
        by_term[str(term)] = rows.assign(level=levels).dropna(subset=["estimate"])
    for smooth in (each for each in smooths if each["is_random"]):
        rows = by_term[smooth["term"]].sort_values("estimate", kind="stable")
        others = len(rows) - most if len(rows) > most + 1 else 0
        shown = pd.concat([rows.iloc[: most // 2], rows.iloc[most // 2 + others :]]) if others else rows
        if len(rows):
            found.append(Caterpillar(smooth["term"], shown, others))
        for pair in smooth.get("correlations", ()):
            other = by_term[pair["term"]].set_index("level")["estimate"].rename("other")
            both = rows.join(other, on="level").dropna(subset=["other"])
            found.append(EffectPairs(smooth["term"], both, pair["term"], pair["correlation"]))
    return found


def curves_of(effects: pd.DataFrame) -> list[Curve]:
    """Return the curves with estimates besides the point that the others are compared with."""
    if "column_2" in effects:
        effects = effects[effects["column_2"] == ""]
    by_term = effects.dropna(subset=["effect"]).fillna({"at": "", "slope_of": ""}).groupby(["term", "at"], sort=False)
    return [Curve(str(term), points) for (term, _), points in by_term if len(points) > 1]


def surfaces_of(effects: pd.DataFrame) -> list[Surface]:
    """Return the surfaces with estimates, without points that are far from all training rows."""
    if "column_2" not in effects:
        return []
    points = (
        effects[(effects["column_2"] != "") & ~effects["is_far"].astype(bool)]
        .dropna(subset=["effect"])
        .fillna({"at": ""})
    )
    by_term = points.groupby(["term", "at", "column", "column_2"], sort=False)
    return [Surface(str(term), rows) for (term, *_), rows in by_term if len(rows) > 1]


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
        draw_curve(panel, panel.axes[0], curve, ratio is not None, label)
    for panel, surface in zip(panels[len(curves) :], surfaces, strict=True):
        draw_surface(panel, panel.axes[0], surface, ratio is not None, label)
    picture.write(paths)


def draw_curve(panel: Panel, axes: Axes, curve: Curve, is_ratio: bool, label: str) -> None:
    """A curve with its band. `label` is of the effects. Slopes have no ratios, as those depend on a unit."""
    axes.set_ylabel(curve.label(label, is_ratio))
    is_ratio = is_ratio and not curve.slope_of
    points, limits = curve.points, curve.points[["ci_lower", "ci_upper"]].to_numpy().ravel()
    scale = scale_of(points["effect"].to_numpy(float), limits[np.isfinite(limits)], is_ratio)
    value = points["value"].to_numpy(float)
    room = 0.5 if curve.is_path else 0.0
    axes.set_xlim(value.min() - room, value.max() + room)
    scale.apply(axes, along="y")
    if curve.is_path:
        axes.vlines(value, points["ci_lower"], points["ci_upper"], color=MAIN)
        axes.plot(value, points["effect"], "o", color=MAIN, markersize=3)
        axes.axvline(-0.5, color=GREY, linestyle=":", linewidth=0.8)  # before it no effect
    else:
        axes.fill_between(value, points["ci_lower"], points["ci_upper"], color=MAIN, alpha=0.2, linewidth=0)
        axes.plot(value, points["effect"], color=MAIN)
    reference = points["reference"].iloc[0]
    if not curve.slope_of:
        axes.plot(reference, 0.0, "s", color=GREY, markerfacecolor="white", markersize=4)
    axes.set_xlabel(literal(curve.points["column"].iloc[0]))
    axes.set_title(curve.title)
    every = points.iloc[spread(len(points), POINTED_AT)]
    for (low, high), point in zip(halfway(every["value"].to_numpy(float)), every.to_dict("records"), strict=True):
        effect = f"{scale.written(point['effect'])}"
        effect = f"slope of {curve.slope_of} {effect}" if curve.slope_of else f"{effect} against {reference:,.6g}"
        tip = f"{curve.points['column'].iloc[0]} {point['value']:,.6g}: {effect}{interval(point, scale)}"
        panel.tip(axes, (low, high), (scale.low, scale.high), tip)


def draw_caterpillar(panel: Panel, axes: Axes, effects: Caterpillar, is_ratio: bool, label: str) -> None:
    """Random effects from the lowest to the highest, with intervals. `label` is of the effects."""
    axes.set_xlabel(effects.label(label, is_ratio))
    points, limits = effects.points, effects.points[["ci_lower", "ci_upper"]].to_numpy(float).ravel()
    scale = scale_of(points["estimate"].to_numpy(float), limits[np.isfinite(limits)], is_ratio and not effects.slope_of)
    places = np.arange(len(points), dtype=float)
    names = [short(literal(str(level)), 24) for level in points["level"]]
    ticks = places
    if effects.others:
        places[len(points) // 2 :] += 1
        names.insert(len(points) // 2, f"{effects.others:,} others")
        ticks = np.arange(len(points) + 1)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(ticks, names, fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    scale.apply(axes)
    axes.hlines(places, points["ci_lower"].clip(scale.low), points["ci_upper"].clip(upper=scale.high), color=MAIN)
    axes.plot(points["estimate"].clip(scale.low, scale.high), places, "o", color=MAIN, markersize=3)
    axes.set_title(effects.title)
    for place, point in zip(places, points.to_dict("records"), strict=True):
        tip = f"{point['level']}: {scale.written(point['estimate'])}{interval(point, scale)}, {point['rows']:,.0f} rows"
        panel.tip(axes, (scale.low, scale.high), (place - 0.5, place + 0.5), tip)


def draw_pairs(panel: Panel, axes: Axes, pairs: EffectPairs) -> None:
    """A point for each level, with its correlated effects, on the scale of coefficients."""
    points = pairs.points.iloc[spread(len(pairs.points), MOST_PAIRS)]
    axes.axhline(0.0, color=GREY, linewidth=0.6)
    axes.axvline(0.0, color=GREY, linewidth=0.6)
    axes.plot(points["other"], points["estimate"], "o", color=MAIN, markersize=3)
    axes.set_xlabel(literal(short(effects_in_words(pairs.earlier), 40)))
    axes.set_ylabel(literal(short(effects_in_words(pairs.term), 40)))
    axes.set_title(f"correlation {pairs.correlation:.2f}".replace("-", "\N{MINUS SIGN}"))
    for point in points.iloc[spread(len(points), POINTED_AT)].to_dict("records"):
        tip = f"{point['level']}: {point['other']:,.4g}, {point['estimate']:,.4g}"
        panel.tip_around(axes, (point["other"], point["estimate"]), 4.0, tip)


def draw_surface(panel: Panel, axes: Axes, surface: Surface, is_ratio: bool, label: str) -> None:
    """A surface as shades with contour lines, with dots where the interval holds no difference. `label` is of the lines."""
    points, slope_of = surface.points, surface.slope_of
    label, is_ratio = surface.label(label, is_ratio), is_ratio and not slope_of
    effect = points["effect"].to_numpy(float)
    scale = scale_of(effect, np.zeros(0), is_ratio)
    first, second = (np.unique(points[name].to_numpy(float)) for name in ("value", "value_2"))
    heights = points.pivot(index="value_2", columns="value", values="effect").to_numpy(float)
    heights = np.clip(heights, scale.low, scale.high)
    reach = float(np.nanmax(np.abs(heights))) or 1.0
    axes.contourf(first, second, heights, np.linspace(-reach, reach, SHADES + 1), cmap=two_colours())
    ticks, _ = scale.ticks()
    levels = [tick for tick in ticks if np.nanmin(heights) < tick < np.nanmax(heights)][:LINES]
    if levels:
        lines = axes.contour(first, second, heights, levels, colors="black", linewidths=0.6, linestyles="solid")
        axes.clabel(lines, fontsize=7, fmt={level: scale.written(level) for level in levels})
    remark = "\nblank: far from all rows" if np.isnan(heights).any() else ""
    if points["ci_lower"].notna().all():
        lower, upper = (
            points.pivot(index="value_2", columns="value", values=name).to_numpy(float)
            for name in ("ci_lower", "ci_upper")
        )
        unsure = ((lower <= 0) & (upper >= 0)).astype(float)
        if unsure.any():
            dots = axes.contourf(first, second, unsure, [0.5, 1.5], colors="none", hatches=["..."])
            dots.set(edgecolor="#8a8a8a", linewidth=0)
            nothing_clear = f"no clear {'slope' if slope_of else 'difference'}"
            remark = f"\ndotted: {nothing_clear}{'; blank: far from rows' if remark else ''}"
    references = points["reference"].iloc[0], points["reference_2"].iloc[0]
    if not slope_of:
        axes.plot(*references, "s", color=GREY, markerfacecolor="white", markersize=4)
    names = [str(points[name].iloc[0]) for name in ("column", "column_2")]
    axes.set(xlim=(first[0], first[-1]), ylim=(second[0], second[-1]))
    axes.set_xlabel(literal(names[0]) + remark)
    axes.set_ylabel(literal(names[1]))
    at = points["at"].iloc[0]
    axes.set_title(short(f"{label}, {at}" if at else label, 36) if slope_of else surface.title)
    by_place = points.set_index(["value", "value_2"])
    across, along = (values[spread(len(values), POINTED_AT_ALONG)] for values in (first, second))
    for (left, right), x in zip(halfway(across), across.tolist(), strict=True):
        for (low, high), y in zip(halfway(along), along.tolist(), strict=True):
            if (x, y) not in by_place.index:
                continue
            row = by_place.loc[(x, y)]
            tip = f"{names[0]} {x:,.6g}, {names[1]} {y:,.6g}: {label} {scale.written(row['effect'])}"
            tip += "" if slope_of else f" against {references[0]:,.6g}, {references[1]:,.6g}"
            tip += interval(row, scale)
            panel.tip(axes, (left, right), (low, high), tip)


def interval(point: Mapping, scale: Scale) -> str:
    """The interval of a point in brackets, if it has one."""
    if pd.isna(point["ci_lower"]):
        return ""
    return f" ({scale.written(point['ci_lower'])} to {scale.written(point['ci_upper'])})"
