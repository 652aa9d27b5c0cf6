"""Write the curves of numbers that stand in the formula inside a function."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.data.dictionary import Dictionary
from tfglm.results import csv_files, effects, options, read


def main(arguments: argparse.Namespace) -> None:
    dictionary = Dictionary.load(arguments.dictionary)
    table = effects.curves(read.estimates(arguments), dictionary, arguments.settings.confidence)
    csv_files.write(table, arguments.table)
    digests.write_beside(arguments.table, arguments.fit)
    command.log(f"{table['term'].nunique()} curves")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    parser.add_argument("--dictionary", type=Path, required=True, help="what merge_dictionary.py wrote")
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
