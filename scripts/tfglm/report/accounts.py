"""The picture of where the rows of the files went."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.errors import short
from tfglm.report.drawing import COLOURS, TITLE_HEIGHT, Picture, literal

HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")

LONGEST_NAME, LETTER = 30, 0.068
"""Letters of the name of a file, and inches per letter."""

WIDTH, LEGEND_COLUMNS = 6.8, 3


def rows_plot(parts: pd.DataFrame, paths: Iterable[Path]) -> None:
    """Draw what became of the rows of each file: a bar for each file with its `parts` [files, outcomes]."""
    names = [short(str(name), LONGEST_NAME) for name in parts.index]
    margin = 0.25 + LETTER * max(map(len, names))
    legend = 0.2 * -(-parts.shape[1] // LEGEND_COLUMNS) + 0.1
    height = 0.3 + 0.28 * len(parts)
    picture = Picture("Where the rows went", WIDTH, TITLE_HEIGHT + legend + height + 0.5)
    panel = picture.panel(0, TITLE_HEIGHT, WIDTH, legend + height + 0.5)
    axes = panel.add_axes(margin, legend, WIDTH - margin - 0.3, height)
    left = np.zeros(len(parts))
    place = np.arange(len(parts))
    for number, name in enumerate(parts):
        width = parts[name].to_numpy(float)
        axes.barh(
            place,
            width,
            left=left,
            height=0.7,
            label=literal(name),
            color=COLOURS[number % len(COLOURS)],
            hatch=HATCHES[number // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            linewidth=0.5,
        )
        left = left + width
    axes.set_yticks(place, [literal(name) for name in names])
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axes.set_xlabel("rows")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0.1 / WIDTH, 1 - TITLE_HEIGHT / picture.figure.get_figheight()),
        bbox_transform=picture.figure.transFigure,
        ncols=LEGEND_COLUMNS,
        borderaxespad=0,
    )
    for row, (name, counts) in enumerate(parts.iterrows()):
        told = "; ".join(f"{what}: {rows:,.0f}" for what, rows in counts.items() if rows)
        panel.tip(axes, (0, axes.get_xlim()[1]), (row - 0.5, row + 0.5), f"{name}: {told}")
    picture.write(paths)
