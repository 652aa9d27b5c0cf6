"""Write the table of profile likelihood intervals."""

import argparse
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.results import csv_files


def main(arguments: argparse.Namespace) -> None:
    table = pd.DataFrame(digests.read_json(arguments.fit)["profile"])
    csv_files.write(table, arguments.table)
    command.log(f"{len(table)} profile likelihood intervals")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of a model with profiles")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
