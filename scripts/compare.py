"""Set several models side by side: a table, and a page."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.report.pages import four_digits, read_table, render
from tfglm.results import compare, csv_files, held_out


def main(arguments: argparse.Namespace) -> None:
    models = []
    for folder in arguments.models:
        fit, metrics = (folder / name for name in ("fit.json", "metrics.json"))
        of_held_out = digests.read_json(metrics) if arguments.held_out else {}
        content = digests.read_json(fit)
        table = read_table(folder / "coefficients.csv") if folder in arguments.with_coefficients else None
        models.append(compare.Model(content, of_held_out, table))
    compare.refuse_other_rows(models)
    table = compare.table(models)
    csv_files.write(table.dropna(how="all", subset=table.columns[2:]), arguments.table)
    differences = held_out.differences(models)
    csv_files.write(differences, arguments.differences)
    arguments.page.write_text(page(models, table, differences))


def page(models: list[compare.Model], table: pd.DataFrame, differences: pd.DataFrame) -> str:
    """The page with the table as papers have it: the standard error in parentheses under the estimate."""
    below = len(compare.STATISTICS) + len(compare.HELD_OUT)
    names = [model.name for model in models]
    return render(
        "compare",
        models=models,
        responses=compare.responses(models),
        coefficients=lines(table[:-below], names, coefficient),
        statistics=lines(table[-below:], names, statistic),
        differences=[difference(line) for line in differences.to_dict("records")],
    )


def lines(table: pd.DataFrame, models: list[str], value: Callable[[float], str]) -> list[dict]:
    """The lines of a table that have a number of some model, with a cell for each model."""
    shown = []
    for line in table.to_dict("records"):
        numbers = [(line[model], line[f"{model} std_error"]) for model in models]
        cells = [
            {
                "value": "" if pd.isna(estimate) else value(estimate),
                "error": "" if pd.isna(estimate) or pd.isna(error) else four_digits(error),
            }
            for estimate, error in numbers
        ]
        if any(cell["value"] for cell in cells):
            shown.append({"term": line["term"], "level": line["level"], "cells": cells})
    return shown


def difference(line: dict) -> str:
    """A sentence about which of two models predicts better."""
    size = f"{abs(line['difference']):.4g}"
    which = "smaller" if line["difference"] < 0 else "larger"
    text = f"The {line['metric']} of {line['model']} is {size} {which} than that of {line['against']}"
    if pd.isna(line["ci_lower"]):
        return f"{text}; {line['groups']} values of {line['resampled_by']} are too few for an interval."
    decided = line["ci_lower"] * line["ci_upper"] > 0
    return (
        f"{text} (95 % interval of the difference {line['ci_lower']:+.4g} to {line['ci_upper']:+.4g}, by the bootstrap of "
        f"{line['groups']} values of {line['resampled_by']}): "
        f"{line['model' if line['difference'] < 0 else 'against']} {'predicts better' if decided else 'may be better by chance'}."
    )


def coefficient(estimate: float) -> str:
    """An estimate as a reader wants it."""
    return four_digits(estimate) if math.isfinite(estimate) else f"{estimate:+}"


def statistic(value: float) -> str:
    """A statistic of a model as a reader wants it."""
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) > 100 else f"{value:.4f}"


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders under results/models")
    parser.add_argument("--with-coefficients", type=Path, nargs="*", default=[], help="those that have a table of them")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    parser.add_argument("--differences", type=Path, required=True, help="CSV of how much better they predict, to write")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
