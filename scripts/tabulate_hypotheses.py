"""Test whether several linear combinations of coefficients are what hypotheses say."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import ResultsConfig, add_settings
from tfglm.results import csv_files, options, read
from tfglm.results.hypotheses import adjusted, hypotheses


def main(arguments: argparse.Namespace) -> None:
    table = hypotheses(read.estimates(arguments), arguments.settings.hypotheses)
    csv_files.write(adjusted(table, arguments.settings.adjust), arguments.table)
    command.log(f"{len(table)} hypotheses")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
