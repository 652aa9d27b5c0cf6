"""Pictures of a fitted model."""

from pathlib import Path
from statistics import NormalDist

import matplotlib
import numpy as np
import pandas as pd

from tfglm.command import visible

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# With the date left out below, the same picture is the same file.
plt.rcParams["svg.hashsalt"] = "tfglm"


def literal(text: str) -> str:
    """Text from the data or the config, which Matplotlib is to draw as it is: dollars begin no formula, and a control character,
    which an SVG cannot hold, is an escape."""
    return visible(text).replace("$", r"\$")


MOST_LEVELS = 24
"""A panel with more levels shows half this many from each end."""

# From the palette of Okabe and Ito, which the colour-blind can tell apart.
OTHERS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
COLOURS = tuple(f"C{number}" for number in range(1 + len(OTHERS)))
MAIN, GREY = "C0", "#555555"
STYLES = ("-", "--", ":")


def use_colour(colour: str) -> None:
    """Have this one for MAIN, before any picture."""
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=[colour, *OTHERS])


use_colour("#0072B2")


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
    for column, subfigure in zip(left_heavy, figure.subfigures(1, columns, squeeze=False)[0], strict=True):
        axes = subfigure.subplots(len(column), 1, height_ratios=[heights[k] for k in column], squeeze=False)[:, 0]
        for panel, axis in zip(column, axes, strict=True):
            if names[panel] is None:
                draw_panel(axis, numeric, numeric["term"].tolist(), "per unit")
            else:
                rows = categorical[names[panel]]
                reference = rows["reference"].iloc[0] if len(rows) else ""
                name = names[panel] + (f", against {reference}" if reference else "")
                draw_panel(axis, rows, rows["level"].tolist(), name + omitted(table, names[panel], rows))
    figure.suptitle(literal(title), fontsize=11)
    figure.supxlabel(effect, fontsize=9)
    save(figure, paths)


def save(figure, paths: list[Path]) -> None:
    """Write a picture in several formats. It is laid out for the first one: that takes as long as to draw it."""
    for path in paths:
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
        figure.set_layout_engine("none")
    plt.close(figure)


def bare(axis) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def diagonal(axis, low: float, high: float) -> None:
    """The line on which both coordinates are the same."""
    axis.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=":")


LABELLED = 120
"""Of more ranked levels than these so many are named, at an even distance."""


def ranked_plot(table: pd.DataFrame, title: str, effect: str, paths: list[Path]) -> None:
    """Every level of each term that has levels by the size of its estimate, with its interval."""
    by_term = table[np.isfinite(table["estimate"])].groupby("term", sort=False)
    # Splines and polynomials have numbered columns, which are no levels.
    panels = {term: rows.sort_values("estimate") for term, rows in by_term if (rows["reference"] != "").any()}
    if not panels:
        panels = {term: rows.sort_values("estimate") for term, rows in by_term if (rows["level"] != "").any()}
    heights = [max(1.3, 0.13 * min(len(rows), LABELLED)) for rows in panels.values()] or [1.0]
    figure, axes = plt.subplots(
        len(heights),
        1,
        figsize=(7.5, sum(heights) + 0.8 * len(heights) + 0.6),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axis, (term, rows) in zip(axes[:, 0], panels.items(), strict=False):
        place = np.arange(len(rows))
        lower, upper = (rows["estimate"] - rows["ci_lower"]).fillna(0), (rows["ci_upper"] - rows["estimate"]).fillna(0)
        axis.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
        axis.errorbar(rows["estimate"], place, xerr=[lower, upper], fmt="none", ecolor=MAIN, elinewidth=0.7, alpha=0.6)
        axis.scatter(rows["estimate"], place, s=6, color=MAIN, zorder=3)
        labelled = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), LABELLED)).astype(int))
        axis.set_yticks(labelled, rows["level"].iloc[labelled].map(literal))
        bare(axis)
        axis.tick_params(axis="y", labelsize=4.5 if len(rows) > 60 else 7, length=1.5)
        axis.set_ylim(-1, len(rows))
        reference = rows["reference"].iloc[0]
        against = f", against {reference}" if reference else ""
        axis.set_title(literal(f"{term}, {len(rows)} levels{against}"), fontsize=9, loc="left")
        widest = rows["estimate"].abs().max()
        axis.set_xlim(*np.clip(axis.get_xlim(), -4 * widest, 4 * widest) if widest else (-1, 1))
    if not panels:
        axes[0, 0].text(0.5, 0.5, "no term has levels", ha="center", transform=axes[0, 0].transAxes)
        axes[0, 0].set_axis_off()
    figure.suptitle(literal(title), fontsize=11)
    figure.supxlabel(effect, fontsize=9)
    save(figure, paths)


def nothing_plot(title: str, paths: list[Path]) -> None:
    """A picture that says that there is none."""
    figure, axis = plt.subplots(figsize=(6, 1), layout="constrained")
    axis.set_axis_off()
    figure.suptitle(literal(title), fontsize=11)
    save(figure, paths)


def binomial_plot(metrics: dict, title: str, paths: list[Path]) -> None:
    """ROC curve, precision and recall, calibration and lift."""
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 8), layout="constrained")
    (roc, precision), (calibration, lift) = axes
    if "curve" in metrics:
        curve = pd.DataFrame(metrics["curve"])
        rate, recall = (np.r_[0.0, curve[name]] for name in ("false_positive_rate", "recall"))
        roc.plot(rate, recall, color=MAIN)
        diagonal(roc, 0, 1)
        roc.set(xlabel="false positive rate", ylabel="recall (true positive rate)")
        roc.set_title(f"ROC curve, area {metrics['auc']:.4f}", fontsize=9, loc="left")
        precision.plot(curve["recall"], curve["precision"], color=MAIN)
        precision.axhline(metrics["mean_response"], color=GREY, linewidth=0.8, linestyle=":")
        precision.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.02))
        average = metrics["average_precision"]
        precision.set_title(f"precision and recall, average precision {average:.4f}", fontsize=9, loc="left")
        tenths = pd.DataFrame(metrics["lift"])
        lift.bar(tenths["decile"], tenths["lift"], color=MAIN, width=0.7)
        lift.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        lift.set(
            xlabel="tenth of the rows, the most probable first", ylabel="events, times the average", xticks=range(1, 11)
        )
        lift.set_title("lift", fontsize=9, loc="left")
    else:
        for axis in (roc, precision, lift):
            axis.text(0.5, 0.5, "all responses are alike", ha="center", transform=axis.transAxes)
    draw_calibration(calibration, metrics["calibration"], "predicted probability", "observed share of events")
    slope = metrics["calibration_slope"]
    calibration.set_title(
        "calibration"
        + (f", slope {slope:.3f} ({metrics['calibration_slope_std_error']:.3f})" if slope is not None else ""),
        fontsize=9,
        loc="left",
    )
    for axis in axes.flat:
        bare(axis)
    figure.suptitle(literal(title), fontsize=11)
    save(figure, paths)


def mean_plot(metrics: dict, title: str, paths: list[Path]) -> None:
    """Calibration of predicted means, residuals against them, and the quantiles of the residuals beside those of a normal
    distribution with the same root mean square."""
    figure, (calibration, residual, quantile) = plt.subplots(1, 3, figsize=(11.5, 4), layout="constrained")
    draw_calibration(calibration, metrics["calibration"], "predicted mean", "observed mean")
    calibration.set_title("calibration", fontsize=9, loc="left")
    table = pd.DataFrame(metrics["calibration"])
    errors = [table["observed"] - table["lower"], table["upper"] - table["observed"]]
    residual.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    residual.errorbar(
        table["predicted"],
        table["observed"] - table["predicted"],
        yerr=errors,
        fmt="o",
        markersize=3,
        color=MAIN,
        elinewidth=1,
    )
    residual.set(xlabel="predicted mean", ylabel="mean residual")
    residual.set_title("residuals", fontsize=9, loc="left")
    shares = [float(share) for share in metrics["residual_quantiles"]]
    normal = [NormalDist().inv_cdf(share) * metrics["rmse"] for share in shares]
    values = list(metrics["residual_quantiles"].values())
    quantile.plot(normal, values, "o", markersize=3.5, color=MAIN)
    diagonal(quantile, normal[0], normal[-1])
    for x, y, share in zip(normal, values, shares, strict=True):
        quantile.annotate(f"{100 * share:g} %", (x, y), fontsize=6, xytext=(3, -7), textcoords="offset points")
    quantile.set(xlabel="if residuals were normal", ylabel="residual")
    quantile.set_title("quantiles of the residuals", fontsize=9, loc="left")
    for axis in (calibration, residual, quantile):
        bare(axis)
    figure.suptitle(literal(title), fontsize=11)
    save(figure, paths)


def draw_calibration(axis, parts: list[dict], xlabel: str, ylabel: str) -> None:
    """Mean responses of equal shares of the rows against their mean predictions, with a band for 95 % intervals."""
    table = pd.DataFrame(parts)
    axis.fill_between(table["predicted"], table["lower"], table["upper"], color=MAIN, alpha=0.2, linewidth=0)
    axis.plot(table["predicted"], table["observed"], "o-", markersize=3, color=MAIN, linewidth=1)
    diagonal(axis, table["predicted"].min(), table["predicted"].max())
    axis.set(xlabel=xlabel, ylabel=ylabel)


def effects_plot(table: pd.DataFrame, title: str, effect: str, paths: list[Path]) -> None:
    """Curves with bands, a panel for each term of `table` (term, column, value, effect, ci_lower, ci_upper)."""
    panels = list(table.groupby("term", sort=False))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.4 * rows), squeeze=False, layout="constrained")
    for axis, (term, curve) in zip(axes.flat, panels, strict=False):
        axis.axhline(0.0, color=GREY, linewidth=0.8, linestyle=":")
        axis.fill_between(curve["value"], curve["ci_lower"], curve["ci_upper"], color=MAIN, alpha=0.2, linewidth=0)
        axis.plot(curve["value"], curve["effect"], color=MAIN)
        axis.set_xlabel(curve["column"].iloc[0], fontsize=9)
        axis.set_title(term, fontsize=9, loc="left")
        bare(axis)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle(literal(title), fontsize=11)
    figure.supylabel(effect, fontsize=9)
    save(figure, paths)


def history_plot(history: pd.DataFrame, title: str, paths: list[Path]) -> None:
    """What a fit recorded (seconds, quantity, step, value) against time: a panel a quantity, what falls towards 0 on a
    logarithmic scale."""
    panels = list(history.groupby("quantity", sort=False))
    figure, axes = plt.subplots(
        max(len(panels), 1),
        1,
        figsize=(7, 2.2 * max(len(panels), 1) + 0.5),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, (name, points) in zip(axes[:, 0], panels, strict=False):
        axis.plot(points["seconds"], points["value"], "o-", markersize=3, color=MAIN, linewidth=1)
        axis.set_ylabel(name.partition("/")[2], fontsize=8)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}" if value < 1e6 else f"{value / 1e6:g} million")
        if "squared" in name or "violation" in name:
            axis.set_yscale("log")
        elif "second" in name:
            axis.set_ylim(bottom=0)
        bare(axis)
    axes[-1, 0].set_xlabel("seconds since the first pass", fontsize=9)
    figure.suptitle(literal(title), fontsize=11)
    save(figure, paths)


def rows_plot(parts: pd.DataFrame, paths: list[Path]) -> None:
    """Where the rows of each file went: a bar a file of `parts` [files, what became of rows], in millions or so."""
    figure, axis = plt.subplots(figsize=(8, 1.6 + 0.3 * len(parts)), layout="constrained")
    left = np.zeros(len(parts))
    place = np.arange(len(parts))[::-1]
    hatches = ("", "//", "..", "xx", "\\\\", "++", "oo")
    for number, name in enumerate(parts):
        width = parts[name].to_numpy(float)
        axis.barh(
            place,
            width,
            left=left,
            height=0.7,
            label=literal(name),
            color=COLOURS[number % len(COLOURS)],
            hatch=hatches[number // len(COLOURS) % len(hatches)],
            edgecolor="white",
            linewidth=0.5,
        )
        left += width
    axis.set_yticks(place, parts.index.map(literal), fontsize=8)
    axis.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axis.set_xlabel("rows", fontsize=9)
    axis.legend(fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    bare(axis)
    save(figure, paths)


def path_plot(table: pd.DataFrame, coefficients: np.ndarray, terms: list[str], title: str, paths: list[Path]) -> None:
    """Coefficients [penalties, p] against the penalty, a colour a term, and below the deviances of `table`."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.5, 7), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    penalty = table["penalty"]
    named = [term for term in dict.fromkeys(terms) if term != "Intercept"]
    for number, term in enumerate(named):
        places = [place for place, other in enumerate(terms) if other == term and coefficients[:, place].any()]
        for first, place in enumerate(places):
            above.plot(
                penalty,
                coefficients[:, place],
                color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[number // len(COLOURS) % len(STYLES)],
                linewidth=0.8,
                label=term if not first else None,
            )
    above.set_ylabel("coefficient (numbers standardised)")
    above.legend(fontsize=7, frameon=False, loc="upper left", ncols=2)
    chosen = penalty[table["chosen"]].iloc[0]
    for column, name, colour in (("deviance", "training rows", GREY), ("deviance_held_out", "rows held out", MAIN)):
        if column in table:
            below.plot(penalty, table[column] / table[column].max(), "o-", markersize=2.5, color=colour, label=name)
    below.set(xlabel="penalty", ylabel="deviance\n(share of the largest)", xscale="log")
    below.legend(fontsize=8, frameon=False)
    count = above.secondary_xaxis("top")
    labelled = np.unique(np.linspace(0, len(table) - 1, 7).astype(int))
    count.set_xticks(
        penalty.iloc[labelled], table["coefficients_not_zero"].iloc[labelled].astype(str), fontsize=7, minor=False
    )
    count.set_xticks([], minor=True)
    count.set_xlabel("coefficients that are not zero", fontsize=8)
    for axis in (above, below):
        axis.axvline(chosen, color=GREY, linewidth=0.8, linestyle="--")
        axis.invert_xaxis() if axis is above else None
        axis.spines["right"].set_visible(False)
    figure.suptitle(literal(title), fontsize=10)
    save(figure, paths)


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
    filled: list[list[int]] = [[] for _ in range(columns)]
    for panel in range(len(heights)):
        shortest = min(filled, key=lambda column: sum(heights[k] + 4 for k in column))
        shortest.append(panel)
    return filled


def draw_panel(axis, rows: pd.DataFrame, labels: list[str], title: str) -> None:
    """Points with intervals, the first row on top."""
    y = np.arange(len(rows))[::-1]
    axis.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    lower = (rows["estimate"] - rows["ci_lower"]).fillna(0.0)
    upper = (rows["ci_upper"] - rows["estimate"]).fillna(0.0)
    axis.errorbar(rows["estimate"], y, xerr=[lower, upper], fmt="none", ecolor=MAIN, elinewidth=1.2)
    held = (rows["std_error"].isna() & (rows["estimate"] == 0)).to_numpy()
    axis.scatter(
        rows["estimate"], y, s=16, color=[("white" if is_held else MAIN) for is_held in held], edgecolors=MAIN, zorder=3
    )
    axis.set_yticks(y, [literal(label) for label in labels], fontsize=7)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_ylim(-0.8, len(rows) - 0.2)
    axis.set_title(literal(title), fontsize=9, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
