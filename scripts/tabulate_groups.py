"""Write the metrics by the values of columns as one table."""

import argparse
import json
from pathlib import Path

import pandas as pd

from tfglm import command


def main(arguments: argparse.Namespace) -> None:
    found = json.loads(arguments.metrics.read_text())["by"]
    rows = [{"column": column, **level} for column, levels in found.items() for level in levels]
    pd.DataFrame(rows).to_csv(arguments.table, index=False)
    command.log(f"{len(rows)} groups")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
