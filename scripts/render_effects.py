"""Draw the curves of numbers that stand in the formula inside a function."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.families import family_of_fit
from tfglm.report.class_effects import effect_and_ratio
from tfglm.report.curves import effects_plot
from tfglm.report.drawing import use_colour
from tfglm.results import csv_files, options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    fit = digests.read_json(arguments.fit)
    table = csv_files.read(arguments.table, arguments.fit, ("term", "column", "at"))
    title = f"{fit['model']}: difference to the mean, with {100 * arguments.settings.confidence:g} % intervals"
    family = family_of_fit(fit)
    effects_plot(table, title, *effect_and_ratio(fit, family.effect, family.ratio), arguments.plots)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="what tabulate_effects.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    add_settings(parser, ResultsConfig)
    options.add_plots(parser)
    command.run(main, parser.parse_args())
