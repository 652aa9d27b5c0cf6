"""Write the curves of numbers that stand in the formula inside a function: a table and a picture."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import ResultsConfig, add_settings
from tfglm.data.dictionary import Dictionary
from tfglm.design.design import Design
from tfglm.families import FAMILIES
from tfglm.report.plots import effects_plot, use_colour
from tfglm.results import csv_files, effects, options, read


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    design = Design.load(arguments.design)
    fit = read.fit(arguments)
    dictionary = Dictionary.load(arguments.dictionary)
    model = read.fitted(arguments, design, fit)
    table = effects.curves(design, model, dictionary, fit["df_residual"], arguments.settings.confidence)
    csv_files.write(table, arguments.table)
    title = f"{design.model}: difference to the mean, with {100 * arguments.settings.confidence:g} % intervals"
    effects_plot(table, title, FAMILIES[design.family].effect, arguments.plots)
    command.log(f"{table['term'].nunique()} curves")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--dictionary", type=Path, required=True, help="what merge_dictionary.py wrote")
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
