"""Write the table and the picture of a path: what each penalty leaves, and how well it does."""

import argparse
from pathlib import Path

import pandas as pd

from tfglm import command
from tfglm.design.design import Design
from tfglm.report.plots import path_plot, use_colour
from tfglm.results import csv_files, options, read


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    design = Design.load(arguments.design)
    fit = read.fit(arguments)
    table = pd.DataFrame(fit["path"])
    # Without rows held out there is no such column.
    table = table.dropna(axis=1, how="all")
    csv_files.write(table, arguments.table)
    fitted = read.fitted(arguments, design, fit)
    terms = [term for term, _ in design.coefficients()]
    path_plot(table, fitted.path_coefficients, terms, f"{fit['model']}: {fit['formula']}", arguments.plots)
    command.log(f"{len(table)} penalties")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
