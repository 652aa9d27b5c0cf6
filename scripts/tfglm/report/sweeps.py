"""The picture of the networks of a sweep."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.report.drawing import COLOURS, GREY, grid

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
