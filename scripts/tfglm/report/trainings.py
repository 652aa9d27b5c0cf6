"""Pictures of the training of several networks: by different numbers of workers, or in a sweep."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tfglm.report.drawing import COLOURS, GREY, grid
from tfglm.results.digits import four_that_count

ALONE = "one_device"

NAMES = {"parameter_server": "asynchronous", "multi_worker_mirrored": "synchronous"}
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


MOST_COLOURED = len(COLOURS)
"""Networks with a colour and a name; the others are grey."""

BEYOND = 3.0
"""Losses that are farther from the smallest than so many times the coloured networks at their best are cut off."""


def losses_plot(sweep: str, curves: Mapping[str, pd.Series], paths: Sequence[Path]) -> None:
    """Draw the loss on the held-out rows by epoch. `curves` begins with the best network; the first ones have colours."""
    picture, (panel,) = grid(f"loss of the networks of {sweep} on the rows held out", 1, cell=(6.4, 4.0))
    (axes,) = panel.axes
    for place, (name, losses) in reversed(list(enumerate(curves.items()))):
        coloured = place < MOST_COLOURED
        # A training that ended early may have a single point.
        look = {"color": COLOURS[place], "label": name, "zorder": 3} if coloured else {"color": GREY, "alpha": 0.6}
        axes.plot(losses.index, losses, "o-", markersize=2.5, linewidth=1.2 if coloured else 0.8, **look)
    limits = limits_of([*curves.values()])
    if limits:
        axes.set_ylim(*limits)
    axes.set_xlabel("epochs")
    axes.set_ylabel("loss on the rows held out")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], fontsize=7)
    for name, losses in curves.items():
        if len(losses) and np.isfinite(losses.iloc[-1]):
            epochs, loss = losses.index[-1], losses.iloc[-1]
            panel.tip_around(axes, (epochs, loss), 4, f"{name}: {loss:.5g} after epoch {epochs:g}")
    picture.write(paths)


def limits_of(curves: Sequence[pd.Series]) -> tuple[float, float] | None:
    """The lowest and the highest loss to show, where some are too large to be shown beside the others."""
    finite = [losses[np.isfinite(losses)] for losses in curves]
    best = [losses.min() for losses in finite[:MOST_COLOURED] if len(losses)]
    if not best:
        return None
    lowest, highest = min(best), max(losses.max() for losses in finite if len(losses))
    top = lowest + BEYOND * (max(best) - lowest)
    return (lowest - 0.05 * (top - lowest), top) if lowest < top < highest else None
