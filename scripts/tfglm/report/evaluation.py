"""Pictures of how well predictions fit the rows held out."""

from collections.abc import Iterable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from tfglm.errors import counted
from tfglm.report.confusion import draw_counts
from tfglm.report.drawing import GREY, MAIN, OTHERS, Panel, diagonal, grid, halfway, spread
from tfglm.results.digits import fixed, four_that_count
from tfglm.results.measures import wilson

FEWEST_PREDICTED = 100
"""Events that a threshold predicts: of fewer, precision is a matter of chance, and a single row at the top makes it 0 or 1."""

POINTED_AT = 40
"""Places along a curve that say their values."""

ALIKE = "all responses are alike"


def binomial_plot(metrics: dict, title: str, paths: Iterable[Path]) -> None:
    """ROC curve, precision and recall, both by threshold, calibration, what is predicted at the threshold, and lift."""
    picture, (roc, precision, by_threshold, calibration, confusion, lift) = grid(title, 6)
    if "curve" in metrics:
        curve = pd.DataFrame(metrics["curve"])
        draw_roc(roc, curve, metrics)
        # hits / precision are the events predicted.
        predicted = curve["recall"] * metrics["events"] / curve["precision"]
        enough = min(FEWEST_PREDICTED, predicted.iloc[-1] / 100)
        draw_precision(precision, curve[predicted >= enough], predicted[predicted >= enough], metrics)
        draw_by_threshold(by_threshold, curve[predicted >= enough], metrics)
        draw_lift(lift, pd.DataFrame(metrics["lift"]))
    else:
        for panel in (roc, precision, by_threshold, lift):
            panel.axes[0].text(0.5, 0.5, ALIKE, ha="center", transform=panel.axes[0].transAxes)
    draw_calibration(calibration, metrics["calibration"], "predicted probability", "share of events")
    slope = metrics["calibration_slope"]
    if slope is not None:
        error = metrics["calibration_slope_std_error"]
        calibration.axes[0].set_title(f"calibration, slope {fixed(slope, 3)} (std. error {fixed(error, 3)})")
    counts = np.array(
        [[metrics["true_negative"], metrics["false_positive"]], [metrics["false_negative"], metrics["true_positive"]]],
        float,
    )
    draw_counts(confusion, counts, ["no event", "event"])
    # Upright, as beside their length there is no room for what they are.
    confusion.axes[0].set_yticks([0.5, 1.5], ["no event", "event"], rotation=90, va="center")
    always = max(metrics["mean_response"], 1 - metrics["mean_response"])
    title = f"threshold {metrics['threshold']:g}: accuracy {metrics['accuracy']:.4f}"
    confusion.axes[0].set_title(f"{title}\n(with one answer for all rows {always:.4f})", fontsize=8)
    picture.write(paths)


def draw_roc(panel: Panel, curve: pd.DataFrame, metrics: dict) -> None:
    axes = panel.axes[0]
    rate, recall = (np.r_[0.0, curve[name]] for name in ("false_positive_rate", "recall"))
    axes.plot(rate, recall, color=MAIN)
    diagonal(axes, 0, 1)
    at = at_threshold(curve, metrics)
    axes.plot(at["false_positive_rate"], at["recall"], "o", color=MAIN, markersize=4)
    axes.set(xlabel="false positive rate", ylabel="recall (true positive rate)", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_title(f"ROC curve, area {metrics['auc']:.4f}")
    add_tips(panel, curve, "false_positive_rate")


def draw_precision(panel: Panel, curve: pd.DataFrame, predicted: pd.Series, metrics: dict) -> None:
    """Precision with 95 % intervals."""
    axes = panel.axes[0]
    axes.fill_between(curve["recall"], *wilson(curve["precision"], predicted), color=MAIN, alpha=0.2, linewidth=0)
    axes.plot(curve["recall"], curve["precision"], color=MAIN)
    axes.axhline(metrics["mean_response"], color=GREY, linewidth=0.8, linestyle=":")
    at = at_threshold(curve, metrics)
    axes.plot(at["recall"], at["precision"], "o", color=MAIN, markersize=4)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_title(f"precision and recall, average {metrics['average_precision']:.4f}")
    add_tips(panel, curve, "recall")


def draw_by_threshold(panel: Panel, curve: pd.DataFrame, metrics: dict) -> None:
    axes = panel.axes[0]
    for name, style, colour in (("precision", "-", MAIN), ("recall", "--", OTHERS[0])):
        axes.plot(curve["threshold"], curve[name], style, color=colour, label=name)
    axes.axvline(metrics["threshold"], color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="threshold", ylabel="share", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_title("precision and recall by threshold")
    axes.legend()
    add_tips(panel, curve.iloc[::-1], "threshold")


def at_threshold(curve: pd.DataFrame, metrics: dict) -> pd.Series:
    """The point of a curve that is nearest to the threshold."""
    return curve.iloc[int((curve["threshold"] - metrics["threshold"]).abs().argmin())]


def add_tips(panel: Panel, curve: pd.DataFrame, across: str) -> None:
    """Say the values of a curve where one points at it; `across` ascends."""
    every = curve.iloc[spread(len(curve), POINTED_AT)]
    for ends, point in zip(halfway(every[across].to_numpy()), every.to_dict("records"), strict=True):
        tip = "threshold {threshold:.3f}: recall {recall:.3f}, precision {precision:.3f}, "
        tip += "false positive rate {false_positive_rate:.3f}"
        panel.tip(panel.axes[0], ends, (0, 1), tip.format(**point))


def draw_lift(panel: Panel, tenths: pd.DataFrame) -> None:
    axes = panel.axes[0]
    axes.bar(tenths["decile"], tenths["lift"], color=MAIN, width=0.7)
    axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="tenth of the rows, the most probable first", ylabel="events, times the average")
    axes.set(xticks=range(1, 11), xlim=(0.4, 10.6))
    axes.set_title("lift")
    for tenth in tenths.to_dict("records"):
        tip = "tenth {decile}: {lift:.2f} times the average share of events, {share_of_events:.1%} of all events so far"
        panel.tip(axes, (tenth["decile"] - 0.5, tenth["decile"] + 0.5), axes.get_ylim(), tip.format(**tenth))


def mean_plot(metrics: dict, title: str, paths: Iterable[Path]) -> None:
    """Draw the calibration of predicted means, and the quantiles of the residuals against those of a normal distribution with
    the same root mean square."""
    picture, (calibration, quantile) = grid(title, 2)
    draw_calibration(calibration, metrics["calibration"], "predicted mean", "observed mean")
    draw_quantiles(quantile, metrics["residual_quantiles"], metrics["rmse"])
    picture.write(paths)


def draw_calibration(panel: Panel, parts: list[dict], xlabel: str, ylabel: str) -> None:
    """Mean responses of equal shares of the rows against their mean predictions, with 95 % intervals."""
    axes, table = panel.axes[0], pd.DataFrame(parts)
    diagonal(axes, table["predicted"].min(), table["predicted"].max())
    axes.plot(table["predicted"], table["observed"], color=MAIN, linewidth=0.6, alpha=0.6)
    # A limit may be beyond the share itself by rounding, as that of no events is.
    errors = [(table["observed"] - table["lower"]).clip(0), (table["upper"] - table["observed"]).clip(0)]
    axes.errorbar(table["predicted"], table["observed"], yerr=errors, fmt="o", markersize=3, color=MAIN, elinewidth=1)
    for ends, group in zip(halfway(table["predicted"].to_numpy()), table.to_dict("records"), strict=True):
        tip = "{predicted} predicted, {observed} observed ({lower} to {upper}), "
        tip = tip.format_map({name: four_that_count(value) for name, value in group.items()})
        panel.tip(axes, ends, axes.get_ylim(), tip + counted(group["rows"], "row"))
    axes.set(xlabel=f"{xlabel}, {len(table)} groups of {table['rows'].median():,.0f} rows", ylabel=ylabel)
    axes.set_title("calibration")


def draw_quantiles(panel: Panel, quantiles: dict[str, float], rmse: float) -> None:
    axes = panel.axes[0]
    shares = [float(share) for share in quantiles]
    normal = [NormalDist().inv_cdf(share) * rmse for share in shares]
    axes.plot(normal, list(quantiles.values()), "o", markersize=3.5, color=MAIN)
    diagonal(axes, normal[0], normal[-1])
    axes.set(xlabel="if residuals were normal", ylabel="residual")
    axes.set_title("quantiles of the residuals")
    for x, y, share in zip(normal, quantiles.values(), shares, strict=True):
        side = {"xytext": (4, -7)} if share < 0.5 else {"xytext": (-4, 2), "ha": "right"}
        axes.annotate(f"{100 * share:g} %", (x, y), fontsize=7, textcoords="offset points", **side)
        tip = f"{100 * share:g} % of the residuals are below {four_that_count(y)}; of normal ones, below {four_that_count(x)}"
        panel.tip_around(axes, (x, y), 4, tip)
