"""Set several models side by side: a table, and a page."""

import argparse
import html
import math
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.report.pages import four_digits, page, read_table
from tfglm.results import compare, csv_files


def main(arguments: argparse.Namespace) -> None:
    models = []
    for folder in arguments.models:
        fit, metrics = (folder / name for name in ("fit.json", "metrics.json"))
        said = digests.read_json(metrics) if arguments.held_out else {}
        models.append(compare.Model(digests.read_json(fit), said, read_table(folder / "coefficients.csv")))
    compare.refuse_other_rows(models)
    table = compare.table(models)
    csv_files.write(table.dropna(how="all", subset=table.columns[2:]), arguments.table)
    arguments.page.write_text(page("Models side by side", text(models), readable(table, models), text_columns=2))


def text(models: list[compare.Model]) -> str:
    """What is compared, and what cannot be."""
    formulas = "".join(
        f"<li><b>{html.escape(one.name)}</b>: <code>{html.escape(one.fit['formula'])}</code>, {one.fit['family']}</li>"
        for one in models
    )
    said = f"<ul>{formulas}</ul><p>Estimates, with standard errors (posterior standard deviations of penalised fits) below.</p>"
    responses = compare.responses(models)
    if len(responses) > 1:
        said += (
            f'<p class="warning">Log-likelihood, deviance, AIC and BIC of different responses cannot be compared: '
            f"{html.escape(', '.join(responses))}.</p>"
        )
    return said


def readable(table: pd.DataFrame, models: list[compare.Model]) -> str:
    """The table as papers have it: the standard error in parentheses under the estimate."""
    fixed = {*compare.STATISTICS, *compare.HELD_OUT}
    rows = []
    for line in table.to_dict("records"):
        cells = []
        for model in models:
            estimate, error = line[model.name], line[f"{model.name} std_error"]
            cells.append(cell(estimate, error, line["term"] in fixed))
        if any(cells):
            ends = ' class="rule"' if line["term"] == next(iter(compare.STATISTICS)) else ""
            names = "".join(f"<td>{html.escape(str(line[key]))}</td>" for key in ("term", "level"))
            rows.append(f"<tr{ends}>{names}{''.join(f'<td>{one}</td>' for one in cells)}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("term", "level", *(one.name for one in models)))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def cell(estimate: float, error: float, is_statistic: bool) -> str:
    if estimate is None or math.isnan(estimate):
        return ""
    if is_statistic:
        return (
            f"{estimate:,.0f}"
            if estimate == round(estimate)
            else f"{estimate:,.2f}"
            if abs(estimate) > 100
            else f"{estimate:.4f}"
        )
    shown = four_digits(estimate) if math.isfinite(estimate) else f"{estimate:+}"
    return shown if error is None or math.isnan(error) else f"{shown}<br>({four_digits(error)})"


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders under results/models")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of rows kept back")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
