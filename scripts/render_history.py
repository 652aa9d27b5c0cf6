"""Draw how a fit went: convergence and throughput over time."""

import argparse
import io
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.report.drawing import use_colour
from tfglm.report.history import history_plot
from tfglm.results import options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    fit = digests.read_json(arguments.fit)
    history = digests.read_beside(arguments.history, arguments.fit)
    history_plot(pd.read_csv(io.BytesIO(history)), f"{fit['model']}: how the fit went", arguments.plots)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--history", type=Path, required=True, help="what the chief recorded")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
