"""Pictures of a fitted model."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# With the date left out below, the same picture is the same file.
plt.rcParams["svg.hashsalt"] = "tfglm"

MOST_LEVELS = 24
"""A panel with more levels shows half this many from each end."""

# From the palette of Okabe and Ito, which the colour-blind can tell apart.
BLUE, GREY = "#0072B2", "#555555"
COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":")


def coefficient_plot(table: pd.DataFrame, title: str, effect: str, paths: list[Path]) -> None:
    """Estimates with confidence intervals, a panel a term; `effect` names the scale. Written to every one of `paths`."""
    table = table[table["term"] != "Intercept"]
    panels = {term: shown_levels(rows) for term, rows in table.groupby("term", sort=False)}
    numeric = pd.concat([rows for rows in panels.values() if (rows["level"] == "").all()] or [table.iloc[:0]])
    categorical = {term: rows for term, rows in panels.items() if (rows["level"] != "").any()}
    heights = [max(len(rows), 2) for rows in categorical.values()] + ([max(len(numeric), 2)] if len(numeric) else [])
    columns = 2 if len(heights) > 1 else 1
    left_heavy = arrange(heights, columns)
    figure_height = 0.9 + max(sum(0.19 * heights[k] + 0.75 for k in column) for column in left_heavy)
    figure = plt.figure(figsize=(5.4 * columns, figure_height), layout="constrained")
    names = [*categorical, *([None] if len(numeric) else [])]
    for column, subfigure in zip(left_heavy, np.atleast_1d(figure.subfigures(1, columns)), strict=True):
        axes = subfigure.subplots(len(column), 1, height_ratios=[heights[k] for k in column], squeeze=False)[:, 0]
        for which, axis in zip(column, axes, strict=True):
            if names[which] is None:
                draw_panel(axis, numeric, numeric["term"].tolist(), "per unit")
            else:
                rows = categorical[names[which]]
                reference = rows["reference"].iloc[0] if len(rows) else ""
                name = names[which] + (f", against {reference}" if reference else "")
                draw_panel(axis, rows, rows["level"].tolist(), name + omitted(table, names[which], rows))
    figure.suptitle(title, fontsize=11)
    figure.supxlabel(effect, fontsize=9)
    for path in paths:
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def path_plot(table: pd.DataFrame, coefficients: np.ndarray, terms: list[str], title: str, paths: list[Path]) -> None:
    """Coefficients [strengths, p] against the strength of the penalty, a colour a term, and below the deviances of `table`."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.5, 7), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    strength = table["strength"]
    named = [term for term in dict.fromkeys(terms) if term != "Intercept"]
    for number, term in enumerate(named):
        places = [place for place, one in enumerate(terms) if one == term and coefficients[:, place].any()]
        for first, place in enumerate(places):
            above.plot(
                strength,
                coefficients[:, place],
                color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[number // len(COLOURS) % len(STYLES)],
                linewidth=0.8,
                label=term if not first else None,
            )
    above.set_ylabel("coefficient (numbers standardised)")
    above.legend(fontsize=7, frameon=False, loc="upper left", ncols=2)
    chosen = strength[table["chosen"]].iloc[0]
    for column, name, colour in (("deviance", "training rows", GREY), ("deviance_held_out", "rows held out", BLUE)):
        if column in table:
            below.plot(strength, table[column] / table[column].max(), "o-", markersize=2.5, color=colour, label=name)
    below.set(xlabel="strength of the penalty", ylabel="deviance\n(share of the largest)", xscale="log")
    below.legend(fontsize=8, frameon=False)
    count = above.secondary_xaxis("top")
    which = np.unique(np.linspace(0, len(table) - 1, 7).astype(int))
    count.set_xticks(
        strength.iloc[which], table["coefficients_not_zero"].iloc[which].astype(str), fontsize=7, minor=False
    )
    count.set_xticks([], minor=True)
    count.set_xlabel("coefficients that are not zero", fontsize=8)
    for axis in (above, below):
        axis.axvline(chosen, color=GREY, linewidth=0.8, linestyle="--")
        axis.invert_xaxis() if axis is above else None
        axis.spines["right"].set_visible(False)
    figure.suptitle(title, fontsize=10)
    for path in paths:
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def shown_levels(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a term that have an estimate: all if they fit, else the lowest and the highest."""
    rows = rows[np.isfinite(rows["estimate"])]
    if len(rows) <= MOST_LEVELS:
        return rows
    ordered = rows.sort_values("estimate")
    return pd.concat([ordered.head(MOST_LEVELS // 2), ordered.tail(MOST_LEVELS // 2)])


def omitted(table: pd.DataFrame, term: str, shown: pd.DataFrame) -> str:
    """What the title of a panel says about the levels that are not in it."""
    finite = table[(table["term"] == term) & np.isfinite(table["estimate"])]
    return f"\n(the {MOST_LEVELS // 2} lowest and highest of {len(finite)})" if len(finite) > len(shown) else ""


def arrange(heights: list[int], columns: int) -> list[list[int]]:
    """Panels to columns: each next panel, in order, to the shorter column."""
    filled = [[] for _ in range(columns)]
    for which in range(len(heights)):
        shortest = min(filled, key=lambda column: sum(heights[k] + 4 for k in column))
        shortest.append(which)
    return filled


def draw_panel(axis, rows: pd.DataFrame, labels: list[str], title: str) -> None:
    """Points with intervals, the first row on top."""
    y = np.arange(len(rows))[::-1]
    axis.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    lower = (rows["estimate"] - rows["ci_lower"]).fillna(0.0)
    upper = (rows["ci_upper"] - rows["estimate"]).fillna(0.0)
    axis.errorbar(rows["estimate"], y, xerr=[lower, upper], fmt="none", ecolor=BLUE, elinewidth=1.2)
    held = (rows["std_error"].isna() & (rows["estimate"] == 0)).to_numpy()
    axis.scatter(
        rows["estimate"], y, s=16, color=[("white" if one else BLUE) for one in held], edgecolors=BLUE, zorder=3
    )
    axis.set_yticks(y, labels, fontsize=7)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_ylim(-0.8, len(rows) - 0.2)
    axis.set_title(title, fontsize=9, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
