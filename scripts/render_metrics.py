"""Show the metrics of a model to a reader: a picture, and a page."""

import argparse
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.report.confusion import confusion_plot
from tfglm.report.drawing import nothing, use_colour
from tfglm.report.embedded import panels
from tfglm.report.evaluation import binomial_plot, mean_plot
from tfglm.report.groups import labelled
from tfglm.report.pages import four_digits, render
from tfglm.report.words import Words
from tfglm.results import options

NAMES = {
    "auc": "AUC",
    "auc_bound": "AUC, off by at most",
    "brier": "Brier score",
    "calibration_slope_std_error": "calibration slope, standard error",
    "calibration_in_the_large_std_error": "calibration in the large, standard error",
    "f1": "F1",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "r_squared": "R squared",
    "d_squared": "deviance explained",
    "null_accuracy": "accuracy of the most frequent class alone",
}
"""What readers call a metric; others have the name of their key."""


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    metrics = labelled(digests.read_json(arguments.metrics, fit=arguments.fit), Words.of_json(arguments.words))
    model, rows = metrics["model"], metrics["rows"]
    title = f"{model}: {rows:,} rows to {metrics['split']}"
    if not rows:
        nothing(f"{model}: no rows to {metrics['split']}", arguments.plots)
    elif "confusion" in metrics:
        confusion_plot(metrics, title, arguments.plots)
    elif "auc" in metrics:
        binomial_plot(metrics, title, arguments.plots)
    else:
        mean_plot(metrics, title, arguments.plots)
    numbers = [(name, value) for name, value in metrics.items() if isinstance(value, int | float)]
    groups = {column: readable(pd.DataFrame(levels)) for column, levels in metrics.get("by", {}).items()}
    table = readable(pd.DataFrame(numbers, columns=["metric", "value"], dtype=object))
    table["metric"] = [NAMES.get(name, name.replace("_", " ")) for name, _ in numbers]
    classes = readable(pd.DataFrame(metrics["classes"])) if "classes" in metrics else None
    page = render(
        "metrics",
        model=model,
        title=title,
        picture=panels(arguments.plots[0]),
        unseen=metrics["unseen"],
        metrics=table,
        classes=classes,
        by=groups,
    )
    arguments.page.write_text(page)


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table as a reader wants it."""
    return table.map(shown).rename(columns=lambda name: name.replace("_", " "))


def shown(value: str | float | None) -> str:
    """A number as a reader wants it; metrics.json has all digits."""
    match value:
        case None:
            return ""
        case str():
            return value
        case int():
            return f"{value:,}"
        case float():
            return (
                ""
                if pd.isna(value)
                else f"{value:,.0f}"
                if value == round(value) and abs(value) >= 10
                else four_digits(value)
            )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    options.add_plots(parser)
    options.add_words(parser)
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
