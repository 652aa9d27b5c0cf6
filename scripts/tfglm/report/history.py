"""The picture of how a fit went."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from tfglm.report.drawing import COLOURS, STYLES, Panel, grid, halfway, nothing, spread

TOGETHER = {"online/loss held out": "online/loss", "train/recent loss": "train/loss", "evaluate/loss": "train/loss"}
"""Quantities that are drawn in the panel of another one."""

NAMES = {
    "newton/lambda squared": "Newton decrement squared",
    "train/loss": "loss of training rows",
    "train/recent loss": "loss of training rows, before they are learnt from",
    "evaluate/loss": "loss of rows held out",
    "evaluate/accuracy": "accuracy on rows held out",
    "online/loss": "loss of training rows, before they are learnt from",
    "online/loss held out": "loss of rows held out",
    "pass/rows a second": "rows a second, in passes over the data",
    "path/loss explained": "share of the loss explained",
}
"""What quantities are called, where their own names say less."""

STEPS = {"newton": "iteration", "pass": "pass", "path": "penalty, the largest first"}

POINTED_AT = 60
"""Points of a curve that say their values."""


def history_plot(history: pd.DataFrame, title: str, paths: Iterable[Path]) -> None:
    """Draw the history of a fit (seconds, quantity, step, value) by step: a panel for each quantity, with training rows and
    held-out rows. Quantities that fall towards 0 have a logarithmic scale."""
    # The loss of each report is that of several of these points.
    if "train/recent loss" in set(history["quantity"]):
        history = history[history["quantity"] != "train/loss"]
    panel_of = history["quantity"].replace(TOGETHER)
    # A fit that went on where another one ended may have looked at the rows held out alone.
    drawn = [list(lines.groupby("quantity", sort=False)) for _, lines in history.groupby(panel_of, sort=False)]
    if not drawn:
        nothing(f"{title}: nothing was recorded", paths)
        return
    # The quantities of the solver come before the speed of the passes.
    drawn.sort(key=lambda lines: str(lines[0][0]).startswith("pass/"))
    picture, panels = grid(title, len(drawn), cell=(3.4, 2.7))
    for panel, lines in zip(panels, drawn, strict=True):
        draw(panel, [(str(name), points) for name, points in lines])
    picture.write(paths)


def draw(panel: Panel, lines: list[tuple[str, pd.DataFrame]]) -> None:
    axes = panel.axes[0]
    first, _ = lines[0]
    for number, (name, points) in enumerate(lines):
        marker = "o" if len(points) <= POINTED_AT else None
        style = STYLES[number % len(STYLES)]
        label = NAMES.get(name, name.partition("/")[2])
        axes.plot(
            points["step"], points["value"], style, marker=marker, markersize=3, color=COLOURS[number], label=label
        )
    if "squared" in first or "violation" in first:
        axes.set_yscale("log")
    elif "second" in first:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel(STEPS.get(first.partition("/")[0], "step"))
    if len(lines) > 1:
        axes.set_title("loss of a row")
        axes.legend(fontsize=7)
    else:
        axes.set_title(NAMES.get(first, first.partition("/")[2]))
    add_tips(panel, pd.concat([points for _, points in lines]))


def add_tips(panel: Panel, points: pd.DataFrame) -> None:
    """Say the values of the curves of a panel where one points at them."""
    steps = np.unique(points["step"].to_numpy(float))
    steps = steps[spread(len(steps), POINTED_AT)]
    axes = panel.axes[0]
    for ends, step in zip(halfway(steps), steps, strict=True):
        of_step = points[points["step"] == step]
        tip = [
            f"{NAMES.get(row['quantity'], row['quantity'].partition('/')[2])} {row['value']:,.6g}"
            for row in of_step.to_dict("records")
        ]
        seconds = of_step["seconds"].iloc[-1]
        panel.tip(axes, ends, axes.get_ylim(), f"step {step:,.0f}, after {seconds:,.1f} s: {'; '.join(tip)}")
