"""Write linear combinations of coefficients with their standard errors."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import ResultsConfig, add_settings
from tfglm.results import coefficients, csv_files, options, read
from tfglm.results.hypotheses import adjusted


def main(arguments: argparse.Namespace) -> None:
    estimated = read.estimates(arguments)
    table = coefficients.contrasts(estimated, arguments.settings.contrasts, arguments.settings.confidence)
    csv_files.write(adjusted(table, arguments.settings.adjust), arguments.table)
    command.log(f"{len(table)} contrasts")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
