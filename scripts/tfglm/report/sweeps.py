"""The picture of the networks of a sweep."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.report.drawing import COLOURS, GREY, grid

MOST_COLOURED = len(COLOURS)
"""Networks with a colour and a name; the others are grey."""

BEYOND = 3.0
"""Losses that are farther above the median of all than so many times its distance from the smallest are cut off."""


def losses_plot(sweep: str, curves: Mapping[str, pd.Series], paths: Sequence[Path]) -> None:
    """Draw the loss on the held-out rows by epoch. `curves` begins with the best network; the first ones have colours."""
    picture, (panel,) = grid(f"loss of the networks of {sweep} on the rows held out", 1, cell=(6.4, 4.0))
    (axes,) = panel.axes
    for place, (name, losses) in reversed(list(enumerate(curves.items()))):
        coloured = place < MOST_COLOURED
        # A training that ended early may have a single point.
        look = {"color": COLOURS[place], "label": name, "zorder": 3} if coloured else {"color": GREY, "alpha": 0.6}
        axes.plot(losses.index, losses, "o-", markersize=2.5, linewidth=1.2 if coloured else 0.8, **look)
    values = np.concatenate([*curves.values(), np.zeros(0)])
    if len(values := values[np.isfinite(values)]):
        lowest, middle = values.min(), np.median(values)
        limit = middle + BEYOND * (middle - lowest)
        if values.max() > limit > lowest:
            axes.set_ylim(top=limit)
    axes.set_xlabel("epochs")
    axes.set_ylabel("loss on the rows held out")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], fontsize=7)
    for name, losses in curves.items():
        if len(losses) and np.isfinite(losses.iloc[-1]):
            epochs, loss = losses.index[-1], losses.iloc[-1]
            panel.tip_around(axes, (epochs, loss), 4, f"{name}: {loss:.5g} after epoch {epochs:g}")
    picture.write(paths)
