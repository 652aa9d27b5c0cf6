"""Compare all levels of categorical terms with each other, with p-values that allow for so many comparisons."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import ResultsConfig, add_settings
from tfglm.results import csv_files, options, read
from tfglm.results.pairwise import pairwise


def main(arguments: argparse.Namespace) -> None:
    table = pairwise(read.estimates(arguments), arguments.settings.pairwise, arguments.settings.confidence)
    csv_files.write(table, arguments.table)
    command.log(f"{len(table)} pairs of levels")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
