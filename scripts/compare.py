"""Set several models side by side: a table, and a page."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tfglm import command
from tfglm.report.models import add_models, read_models
from tfglm.report.pages import four_digits, p_value, render, statistic
from tfglm.results import compare, csv_files, held_out
from tfglm.results.nested import likelihood_ratio_tests


def main(arguments: argparse.Namespace) -> None:
    models = read_models(arguments)
    compare.refuse_other_rows(models)
    table = compare.table(models)
    csv_files.write(table.dropna(how="all", subset=table.columns[2:]), arguments.table)
    differences = held_out.differences(models)
    csv_files.write(differences, arguments.differences)
    tests = likelihood_ratio_tests(models)
    csv_files.write(tests, arguments.tests)
    arguments.page.write_text(page(models, table, differences, tests))


def page(models: list[compare.Model], table: pd.DataFrame, differences: pd.DataFrame, tests: pd.DataFrame) -> str:
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
        tests=[
            test | {"chi_squared": f"{test['chi_squared']:,.2f}", "p_value": p_value(test["p_value"])}
            for test in tests[tests["problem"] == ""].to_dict("records")
        ],
        problems=list(dict.fromkeys(tests["problem"][tests["problem"] != ""])),
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


if __name__ == "__main__":
    parser = command.parser(__doc__)
    add_models(parser)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    parser.add_argument("--differences", type=Path, required=True, help="CSV of how much better they predict, to write")
    parser.add_argument("--tests", type=Path, required=True, help="CSV of likelihood-ratio tests to write")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
