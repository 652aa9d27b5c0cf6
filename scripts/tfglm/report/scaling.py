"""The picture of networks that were trained by different numbers of workers."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.report.drawing import COLOURS, GREY, grid
from tfglm.results.digits import four_that_count

ALONE = "one_device"

NAMES = {
    "parameter_server": "asynchronous",
    "multi_worker_mirrored": "synchronous",
}
"""Strategies in plain words, where these say more than their names."""


def scaling_plot(table: pd.DataFrame, paths: list[Path]) -> None:
    """Draw the accuracy on the held-out rows (or the loss, if the response has no classes) by epochs of each worker and by
    updates.

    Each strategy of `results.scaling.table` has a row of panels, compared with a single device. Networks that differ only
    in the seed are a single line, their mean, with a band from the lowest to the highest value.
    """
    measure = "accuracy" if table["accuracy"].notna().all() else "loss"
    alone = table[table["strategy"] == ALONE]
    rows = [(strategy, lines) for strategy, lines in table.groupby("strategy", sort=False) if strategy != ALONE]
    rows = rows or [(ALONE, alone)]
    colours = dict(zip(sorted(table["workers"].unique()), COLOURS * len(table), strict=False))
    picture, panels = grid(f"{measure} of networks by their workers", 2 * len(rows), columns=2, cell=(4.4, 3.4))
    axes = np.array([panel.axes[0] for panel in panels]).reshape(len(rows), 2)
    for (by_epochs, by_updates), (strategy, lines) in zip(axes, rows, strict=True):
        # As far as each number of workers goes.
        end = lines.groupby("workers")["epochs_of_worker"].max().min()
        draw(by_epochs, "epochs_of_worker", measure, lines, alone[alone["epochs_of_worker"] <= end], colours)
        draw(by_updates, "updates", measure, lines, alone, colours)
        by_epochs.set_xlabel("epochs of each worker")
        by_updates.set_xlabel("updates of the weights")
        by_updates.set_xscale("log")
        by_updates.xaxis.set_major_formatter(lambda updates, _: f"{updates:,.0f}")
        by_epochs.set_ylabel(f"{measure} on the rows held out")
        by_epochs.set_title(NAMES.get(strategy, strategy.replace("_", " ")))
        by_updates.legend(fontsize=7)
    for_all = [axis.get_ylim() for axis in axes.flat]
    for axis in axes.flat:
        axis.set_ylim(min(low for low, _ in for_all), max(high for _, high in for_all))
    for panel in panels:
        for line in panel.axes[0].lines:
            for x, y in zip(*map(np.asarray, line.get_data()), strict=True):
                panel.tip_around(panel.axes[0], (x, y), 4, f"{line.get_label()}: {four_that_count(y)} after {x:,.6g}")
    picture.write(paths)


def draw(
    axis: Axes, across: str, measure: str, table: pd.DataFrame, alone: pd.DataFrame, colours: dict[int, str]
) -> None:
    """The lines of a panel: of a single device, and of each number of workers and rows of a step."""
    shown = {} if alone.empty else {("one device", GREY, ":"): alone}
    smallest, several = table["batch_size"].min(), table["batch_size"].nunique() > 1
    for (workers, batch_size), lines in table.groupby(["workers", "batch_size"]):
        label = f"{workers} {'worker' if workers == 1 else 'workers'}"
        label += f", batches of {batch_size:,}" if several else ""
        shown[label, colours[workers], "-" if batch_size == smallest else "--"] = lines
    for (label, colour, style), lines in shown.items():
        points = lines.groupby(across)[measure].agg(["mean", "min", "max"])
        axis.plot(points.index, points["mean"], style, color=colour, linewidth=1.2, label=label)
        axis.fill_between(points.index, points["min"], points["max"], color=colour, alpha=0.15, linewidth=0)
