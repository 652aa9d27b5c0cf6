"""Write the metrics by the values of columns as one table."""

import argparse
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.results import csv_files


def main(arguments: argparse.Namespace) -> None:
    groups = digests.read_json(arguments.metrics, fit=arguments.fit)["by"]
    rows = [{"column": column, **level} for column, levels in groups.items() for level in levels]
    csv_files.write(pd.DataFrame(rows), arguments.table)
    command.log(f"{len(rows)} groups")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
