"""The picture of true and predicted classes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from tfglm.errors import counted, short
from tfglm.report.drawing import MAIN, OTHERS, TITLE_HEIGHT, Panel, Picture, literal
from tfglm.results.digits import percent

MOST_NUMBERED, MOST_NAMED = 20, 50
"""Of more classes the numbers in the cells, and the names, could not be read."""

LEAST_TOLD = 0.01
"""Smaller shares of a class say nothing when pointed at: they would be most of the file."""

LONGEST_NAME, LETTER = 20, 0.075
"""Letters of the name of a class, and inches per letter."""


def confusion_plot(metrics: dict, title: str, paths: Iterable[Path]) -> None:
    """The confusion matrix of metrics.json, each row as shares of a true class, beside precision and recall of each class."""
    classes = metrics["classes"]
    names = [short(each["class"], LONGEST_NAME) for each in classes]
    side = float(np.clip(0.42 * len(names), 2.2, 9))
    margin = 0.5 + LETTER * max(map(len, names))
    height = 0.4 + side + margin
    picture = Picture(title, 2 * margin + side + 2.6, TITLE_HEIGHT + height)
    matrix = picture.panel(0, TITLE_HEIGHT, margin + side + 0.1, height)
    matrix.add_axes(margin, 0.35, side, side)
    draw_counts(matrix, np.array(metrics["confusion"], float), names)
    accuracy, null = metrics["accuracy"], metrics["null_accuracy"]
    matrix.axes[0].set_title(
        f"accuracy {accuracy:.4f}\n(of the most frequent class alone {null:.4f})", fontsize=8, x=(0.1 - margin) / side
    )
    beside = picture.panel(margin + side + 0.1, TITLE_HEIGHT, margin + 2.5, height)
    of_classes = beside.add_axes(margin, 0.35, 2.3, side)
    named = names if len(names) <= MOST_NAMED else []
    of_classes.set_yticks(range(len(named)), [literal(name) for name in named])
    of_classes.set_ylim(len(names) - 0.5, -0.5)
    for key, marker, colour in (("precision", "o", MAIN), ("recall", "s", OTHERS[0])):
        values = [np.nan if each[key] is None else each[key] for each in classes]
        of_classes.plot(values, range(len(names)), marker, color=colour, markersize=4.5, label=key, clip_on=False)
    of_classes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
    of_classes.set_xlim(0, 1)
    of_classes.set_xlabel("share")
    of_classes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1)
    for place, each in enumerate(classes):
        rates = f"precision {percent_or_none(each['precision'])}, recall {percent_or_none(each['recall'])}"
        tip = f"{each['class']}: {rates}, {counted(each['support'], 'row')}"
        beside.tip(of_classes, (0, 1), (place - 0.5, place + 0.5), tip)
    picture.write(paths)


def draw_counts(panel: Panel, counts: np.ndarray, names: Sequence[str]) -> None:
    """Rows by true and predicted class, coloured by their share in the true class."""
    axes = panel.axes[0]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    colours = LinearSegmentedColormap.from_list("shares", ["white", MAIN])
    axes.pcolormesh(shares, cmap=colours, vmin=0, vmax=1, edgecolors="#cccccc", linewidth=0.4)
    axes.set(xlim=(0, len(names)), ylim=(len(names), 0))
    for (row, column), number in np.ndenumerate(counts):
        share = percent(shares[row, column])
        if len(names) <= MOST_NUMBERED and number:
            written = f"{number:,.6g}\n{share}" if len(names) < 4 else f"{number:,.6g}"
            colour = "white" if shares[row, column] > 0.6 else "black"
            size = 8 if len(names) < 4 else 7
            axes.text(column + 0.5, row + 0.5, written, ha="center", va="center", fontsize=size, color=colour)
        if len(names) <= MOST_NAMED and shares[row, column] >= LEAST_TOLD:
            tip = f"true {names[row]}, predicted {names[column]}: {number:,.6g} rows, {share} of true {names[row]}"
            panel.tip(axes, (column, column + 1), (row, row + 1), tip)
    if len(names) <= MOST_NAMED:
        upright = len(names) > 3 and max(map(len, names)) > 3
        places = np.arange(len(names)) + 0.5
        axes.set_xticks(places, [literal(name) for name in names], rotation=90 if upright else 0)
        axes.set_yticks(places, [literal(name) for name in names])
    axes.tick_params(length=0)
    axes.set(xlabel="predicted", ylabel="true")


def percent_or_none(share: float | None) -> str:
    return "none" if share is None else percent(share)
