"""The page of the diagnostics of a regression: its residuals in pictures, and the most influential rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from tfglm.errors import counted, short
from tfglm.report.drawing import GREY, MAIN, Panel, diagonal, grid, literal, spread
from tfglm.report.embedded import panels
from tfglm.report.pages import cell, render
from tfglm.results.diagnostics import Diagnosed, binned, influential
from tfglm.results.digits import four_that_count, significant

MOST_NUMBERS, POINTS, POINTED_AT = 6, 300, 50
"""Columns of numbers with a panel, points of a picture, and those that say their values."""


def draw(diagnosed: Diagnosed, title: str, paths: Iterable[Path]) -> None:
    """Residuals against fitted values and normal quantiles, their spread, residuals against each number, and leverages."""
    rows, numbers = diagnosed.rows, diagnosed.numbers[:MOST_NUMBERS]
    residual, has_leverage = rows["quantile_residual"].to_numpy(float), "leverage" in rows
    picture, drawn = grid(title, 3 + len(numbers) + has_leverage)
    fitted = rows["fitted"].to_numpy(float)
    draw_binned(drawn[0], fitted, residual, "fitted value", "mean residual", "residuals and fitted values", 0.0)
    draw_quantiles(drawn[1], residual)
    expected = float(np.sqrt(2 / np.pi))
    draw_binned(drawn[2], fitted, np.abs(residual), "fitted value", "mean size of residuals", "spread", expected)
    for panel, name in zip(drawn[3:], numbers, strict=False):
        draw_binned(panel, rows[name].to_numpy(float), residual, name, "mean residual", f"residuals and {name}", 0.0)
    if has_leverage:
        draw_leverage(drawn[-1], rows)
    picture.write(paths)


def draw_binned(
    panel: Panel, x: np.ndarray, values: np.ndarray, across: str, along: str, title: str, expected: float
) -> None:
    """Means in bins with 95 % intervals, and the mean that a right model has."""
    axes, table = panel.axes[0], binned(x, values)
    axes.axhline(expected, color=GREY, linewidth=0.8, linestyle=":")
    errors = [table["mean"] - table["lower"], table["upper"] - table["mean"]]
    axes.errorbar(
        table["x"], table["mean"], yerr=np.nan_to_num(errors), fmt="o", markersize=3, color=MAIN, elinewidth=1
    )
    axes.set(xlabel=literal(short(across, 36)), ylabel=along)
    axes.set_title(literal(short(title, 40)))
    low, high = axes.get_ylim()
    for row in table.to_dict("records"):
        text = f"{across} {four_that_count(row['x'])}: {significant(row['mean'], 3)}, {counted(row['rows'], 'row')}"
        panel.tip_around(axes, (row["x"], min(max(row["mean"], low), high)), 5, text)


def draw_quantiles(panel: Panel, residual: np.ndarray) -> None:
    """Residuals against normal quantiles, with the band that holds 95 % of the points of a right model, each by itself."""
    axes, ordered = panel.axes[0], np.sort(residual[np.isfinite(residual)])
    count = len(ordered)
    if not count:
        return
    middle = np.linspace(0, count - 1, min(count, POINTS)).astype(int)
    ends = np.arange(min(count, 20))
    places = np.unique(np.concatenate([ends, middle, count - 1 - ends]))
    normal = stats.norm.ppf((places + 0.5) / count)
    band = [stats.norm.ppf(stats.beta.ppf(share, places + 1, count - places)) for share in (0.025, 0.975)]
    axes.fill_between(normal, *band, color=GREY, alpha=0.2, linewidth=0)
    diagonal(axes, float(normal[0]), float(normal[-1]))
    axes.plot(normal, ordered[places], "o", markersize=2.5, color=MAIN)
    axes.set(xlabel="normal quantile", ylabel="residual")
    axes.set_title("quantiles of the residuals, with 95 % band", fontsize=8.5)
    for place in spread(len(places), POINTED_AT):
        x, y = float(normal[place]), float(ordered[places[place]])
        panel.tip_around(axes, (x, y), 3, f"residual {four_that_count(y)}, normal quantile {four_that_count(x)}")


def draw_leverage(panel: Panel, rows: pd.DataFrame) -> None:
    """Standardised residuals against leverages; the lines have Cook's distance 0.5 and 1."""
    axes = panel.axes[0]
    shown = rows.dropna(subset=["cook"])
    shown = pd.concat([shown.nlargest(POINTED_AT, "cook"), shown.sample(min(len(shown), 2_000), random_state=1)])
    axes.scatter(shown["leverage"], shown["standardised_pearson_residual"], s=5, color=MAIN, alpha=0.5, linewidths=0)
    axes.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    size, limits = max(float(rows["leverage"].sum()), 1.0), axes.get_ylim()
    h = np.linspace(
        max(float(shown["leverage"].max()), 1e-6) / 200, min(float(shown["leverage"].max()) * 1.05, 0.999), 200
    )
    for distance in (0.5, 1.0):
        edge = np.sqrt(distance * size * (1 - h) / h)
        for sign in (1, -1):
            axes.plot(h, sign * edge, color=GREY, linewidth=0.6, linestyle="--")
    axes.set_ylim(limits)
    axes.set(xlabel="leverage", ylabel="standardised residual")
    axes.set_title("leverage, with Cook's distance 0.5 and 1", fontsize=8.5)
    for row in shown.head(POINTED_AT).to_dict("records"):
        numbers = [four_that_count(row[name]) for name in ("leverage", "standardised_pearson_residual", "cook")]
        tip = "leverage {}, standardised residual {}, Cook's distance {}".format(*numbers)
        panel.tip_around(axes, (row["leverage"], row["standardised_pearson_residual"]), 3, tip)


def page(diagnosed: Diagnosed, model: str, rows: int, identity: Sequence[str], picture: Path) -> str:
    """Return the page with a picture, an SVG; `rows` are all training rows."""
    table = influential(diagnosed, identity)
    sampled = len(diagnosed.rows)
    return render(
        "diagnostics",
        model=model,
        kind=diagnosed.kind,
        sampled=sampled if sampled < rows else None,
        rows=rows,
        left_out=max(len(diagnosed.numbers) - MOST_NUMBERS, 0),
        picture=panels(picture),
        influential=None if table is None else table.map(cell),
    )
