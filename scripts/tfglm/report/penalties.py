"""The picture of a path of penalties."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.errors import short
from tfglm.report.coefficient_rows import is_constant
from tfglm.report.drawing import COLOURS, GREY, MAIN, STYLES, TITLE_HEIGHT, Picture, halfway, literal, spread
from tfglm.results.digits import four_that_count

WIDTH, ABOVE, BELOW = 6.8, 4.2, 1.9
"""Inches of the picture, and of the axes of the coefficients and of the deviances."""


def path_plot(
    table: pd.DataFrame, coefficients: np.ndarray, terms: list[str], title: str, paths: Iterable[Path]
) -> None:
    """Coefficients [penalties, p] against the penalty, a colour a term, and below the deviances of `table`."""
    named = [term for term in dict.fromkeys(terms) if not is_constant(term)]
    legend = 0.1 + 0.18 * -(-len(named) // 3)
    picture = Picture(short(title, 90), WIDTH, TITLE_HEIGHT + ABOVE + BELOW + 1.3 + legend)
    panel = picture.panel(0, TITLE_HEIGHT, WIDTH, ABOVE + BELOW + 1.3 + legend)
    above = panel.add_axes(0.75, 0.45 + legend, WIDTH - 0.95, ABOVE)
    below = panel.add_axes(0.75, 0.45 + legend + ABOVE + 0.25, WIDTH - 0.95, BELOW)
    penalty = table["penalty"]
    for number, term in enumerate(named):
        places = [place for place, other in enumerate(terms) if other == term and coefficients[:, place].any()]
        for first, place in enumerate(places):
            above.plot(
                penalty,
                coefficients[:, place],
                color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[number // len(COLOURS) % len(STYLES)],
                linewidth=0.8,
                label=literal(short(term, 30)) if not first else None,
            )
    above.set_ylabel("coefficient (numbers standardised)")
    above.legend(loc="lower left", bbox_to_anchor=(0, 1, 1, 0.1), borderaxespad=4.2, fontsize=7, ncols=3)
    chosen = penalty[table["chosen"]].iloc[0]
    for column, name, colour in (("deviance", "training rows", GREY), ("deviance_held_out", "rows held out", MAIN)):
        if column in table:
            below.plot(penalty, table[column] / table[column].max(), "o-", markersize=2.5, color=colour, label=name)
    if "deviance_cross_validated" in table:
        deviance, error = table["deviance_cross_validated"], table["cross_validation_std_error"]
        largest = deviance.max()
        bars = below.errorbar(penalty, deviance / largest, error / largest, fmt="o-", color=COLOURS[1], elinewidth=0.6)
        bars.lines[0].set(markersize=2.5, linewidth=0.8, label="folds held out, ± standard error")
    below.set(xlabel="penalty", ylabel="deviance\n(share of the largest)")
    below.legend()
    for axes in (above, below):
        axes.set_xscale("log")
        axes.set_xlim(penalty.max() * 1.1, penalty.min() / 1.1)
        axes.axvline(chosen, color=GREY, linewidth=0.8, linestyle="--")
    above.set_xticklabels([])
    told = table.sort_values("penalty").select_dtypes("number")
    for ends, row in zip(halfway(told["penalty"].to_numpy()), told.to_dict("records"), strict=True):
        tip = "; ".join(f"{name.replace('_', ' ')} {four_that_count(value)}" for name, value in row.items())
        panel.tip(above, ends, above.get_ylim(), tip)
    count = above.secondary_xaxis("top")
    labelled = spread(len(table), 7)
    count.set_xticks(penalty.iloc[labelled], table["coefficients_not_zero"].iloc[labelled].astype(str), fontsize=7)
    count.set_xticks([], minor=True)
    count.set_xlabel("coefficients that are not zero", fontsize=7)
    picture.write(paths)
