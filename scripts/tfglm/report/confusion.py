"""The picture of true and predicted classes."""

from pathlib import Path

import numpy as np

from tfglm.errors import short
from tfglm.report.plots import GREY, MAIN, bare, literal, plt, save

MOST_NUMBERED, MOST_NAMED = 20, 50
"""Of more classes the numbers in the cells, and the names, could not be read."""


def confusion_plot(metrics: dict, title: str, paths: list[Path]) -> None:
    """The confusion matrix of metrics.json, each row as shares of a true class, beside precision and recall of each class."""
    classes = metrics["classes"]
    names = [short(each["class"], 24) for each in classes]
    counts = np.array(metrics["confusion"], float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    side = float(np.clip(0.42 * len(names), 3.2, 9))
    figure, (matrix, of_classes) = plt.subplots(
        1, 2, figsize=(side + 5, side + 1), width_ratios=[side, 3.2], sharey=True, layout="constrained"
    )
    colours = plt.matplotlib.colors.LinearSegmentedColormap.from_list("shares", ["white", MAIN])
    matrix.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="auto")
    if len(names) <= MOST_NUMBERED:
        for (row, column), number in np.ndenumerate(counts):
            if number:
                colour = "white" if shares[row, column] > 0.6 else "black"
                matrix.text(column, row, f"{number:,.6g}", ha="center", va="center", fontsize=7, color=colour)
    places = range(len(names)) if len(names) <= MOST_NAMED else []
    shown = [literal(names[place]) for place in places]
    upright = max(map(len, names)) > 3
    matrix.set_xticks(places, shown, rotation=90 if upright else 0)
    matrix.set_yticks(places, shown)
    matrix.set_xlabel("predicted", fontsize=9)
    matrix.set_ylabel("true", fontsize=9)
    for key, marker, colour in (("precision", "o", MAIN), ("recall", "s", GREY)):
        values = [np.nan if each[key] is None else each[key] for each in classes]
        of_classes.plot(values, range(len(names)), marker, color=colour, markersize=4, label=key, clip_on=False)
    of_classes.set_xlim(right=1)
    of_classes.legend(fontsize=8, loc="best")
    bare(matrix)
    bare(of_classes)
    accuracy, null = metrics["accuracy"], metrics["null_accuracy"]
    subtitle = f"accuracy {accuracy:.4f}, of the most frequent class alone {null:.4f}"
    figure.suptitle(f"{literal(title)}\n{subtitle}", fontsize=11)
    save(figure, paths)
