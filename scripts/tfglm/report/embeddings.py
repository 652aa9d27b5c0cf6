"""The picture of the embeddings of a network."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.errors import counted, short
from tfglm.report.drawing import GREY, MAIN, Panel, grid, literal, nothing
from tfglm.results.digits import four_that_count

FEWEST_LEVELS, MOST_LEVELS = 3, 40
"""Fewest and most levels of a panel: two levels have a distance but no directions, and more levels would be illegible. The
levels with the most rows are shown."""


def embeddings_plot(table: pd.DataFrame, title: str, paths: Iterable[Path]) -> None:
    """Levels at the first two principal components of their embeddings, a panel a factor; `table` is that of
    `networks.embeddings`."""
    panels = [(factor, rows) for factor, rows in table.groupby("factor", sort=False) if len(rows) >= FEWEST_LEVELS]
    if not panels:
        reason = "the formula has no factor" if table.empty else f"no factor has {FEWEST_LEVELS} levels"
        nothing(f"{title}: {reason}", paths)
        return
    picture, places = grid(title, len(panels), cell=(4.2, 4.2))
    for panel, (factor, levels) in zip(places, panels, strict=True):
        draw(panel, str(factor), levels)
    picture.write(paths)


def draw(panel: Panel, factor: str, levels: pd.DataFrame) -> None:
    """Draw the levels of a factor; the components are computed from all of them, shown or not."""
    axis = panel.axes[0]
    points = levels.filter(like="dimension_").dropna(axis="columns").to_numpy(float)
    places, shares = principal_components(points)
    shown = np.sort(np.argsort(-levels["rows"].to_numpy(), kind="stable")[:MOST_LEVELS])
    axis.axhline(0.0, color=GREY, linewidth=0.5, linestyle=":")
    axis.axvline(0.0, color=GREY, linewidth=0.5, linestyle=":")
    axis.scatter(places[shown, 0], places[shown, 1], s=12, color=MAIN, zorder=3)
    for place, level in zip(places[shown], levels["level"].iloc[shown], strict=True):
        # On a line there is only room upwards.
        angle = 0 if points.shape[1] > 1 else 60
        axis.annotate(
            literal(short(level, 24)), place, xytext=(3, 3), textcoords="offset points", fontsize=7, rotation=angle
        )
    axis.margins(0.12)
    axis.set_aspect("equal", adjustable="datalim")
    axis.apply_aspect()
    for place, row in zip(places[shown], levels.iloc[shown].to_dict("records"), strict=True):
        at = ", ".join(map(four_that_count, place))
        panel.tip_around(axis, tuple(place), 4, f"{factor} {row['level']}: {at}; {counted(row['rows'], 'row')}")
    axis.set_xlabel(f"first component, {100 * shares[0]:.0f} % of the variance", fontsize=8)
    axis.set_ylabel(f"second component, {100 * shares[1]:.0f} %", fontsize=8)
    most = f", the {MOST_LEVELS} of {len(levels)} levels with the most rows" if len(levels) > MOST_LEVELS else ""
    axis.set_title(literal(f"{factor}{most}"))


def principal_components(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two principal components of points [points, dimensions]: the points on these two axes, [points, 2], and the
    share of each axis in the variance, [2]. The point farthest out on an axis is on its positive side, which the
    decomposition leaves open."""
    left, sizes, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    places, shares = np.zeros((len(points), 2)), np.zeros(2)
    axes = min(2, len(sizes))
    places[:, :axes] = (left * sizes)[:, :axes]
    shares[:axes] = sizes[:axes] ** 2 / max(np.sum(sizes**2), np.finfo(float).tiny)
    farthest = places[np.abs(places).argmax(axis=0), [0, 1]]
    return places * np.where(farthest < 0, -1.0, 1.0), shares
