"""Write linear combinations of coefficients with their standard errors."""

import argparse
import json
from pathlib import Path

from tfglm import command
from tfglm.results import coefficients, csv_files, read


def main(arguments: argparse.Namespace) -> None:
    found = read.estimates(arguments)
    table = coefficients.contrasts(found, json.loads(arguments.contrasts), arguments.confidence)
    csv_files.write(table, arguments.table)
    command.log(f"{len(table)} contrasts")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    read.add_fit(parser)
    read.add_reference(parser)
    parser.add_argument("--contrasts", required=True, help="weights by `term[level]`, by name, as JSON")
    parser.add_argument("--confidence", type=float, required=True, help="coverage of the intervals, e.g. 0.95")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
