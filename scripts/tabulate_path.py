"""Write the table of a path: what each penalty leaves, and how well it does."""

import argparse
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.results import csv_files


def main(arguments: argparse.Namespace) -> None:
    table = pd.DataFrame(digests.read_json(arguments.fit)["path"])
    # Without rows held out there is no such column.
    csv_files.write(table.dropna(axis=1, how="all"), arguments.table)
    command.log(f"{len(table)} penalties")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of a model with a path")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
