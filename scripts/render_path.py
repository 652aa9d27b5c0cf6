"""Draw a path: the coefficients and the deviance at each penalty."""

import argparse

import pandas as pd

from tfglm import command
from tfglm.design.design import Design
from tfglm.report.drawing import use_colour
from tfglm.report.penalties import path_plot
from tfglm.results import options, read


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    design, fit = Design.load(arguments.design), read.fit(arguments)
    table = pd.DataFrame(fit["path"]).dropna(axis=1, how="all")
    fitted = read.fitted(arguments, design, fit)
    terms = [term for term, _ in design.coefficients()]
    path_plot(table, fitted.path_coefficients, terms, f"{fit['model']}: {fit['formula']}", arguments.plots)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_plots(parser)
    command.run(main, parser.parse_args())
