"""Write the table and the picture of a path: what each strength of the penalty leaves, and how well it does."""

import argparse
import json
from pathlib import Path

import pandas as pd

from tfglm import command, runtime
from tfglm.model.design import Design
from tfglm.results import read


def main(arguments: argparse.Namespace) -> None:
    with runtime.quiet():
        from tfglm.model import fitted
    from tfglm.results.plots import path_plot, use_colour

    use_colour(arguments.colour)
    design = Design.load(arguments.design)
    fit = json.loads(arguments.fit.read_text())
    table = pd.DataFrame(fit["path"])
    # Without rows held out there is no such column.
    table = table.dropna(axis=1, how="all")
    table.to_csv(arguments.table, index=False)
    found = fitted.load(design, arguments.checkpoint)
    terms = [term for term, _ in design.coefficients()]
    path_plot(table, found.path_coefficients, terms, f"{fit['model']}: {fit['formula']}", arguments.plots)
    command.log(f"{len(table)} strengths")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    read.add_fit(parser)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    read.add_plots(parser)
    command.run(main, parser.parse_args())
