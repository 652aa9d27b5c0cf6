"""Write the covariance matrix of the coefficients."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.results import coefficients, csv_files, options, read


def main(arguments: argparse.Namespace) -> None:
    estimated = read.estimates(arguments)
    table = coefficients.covariance_table(estimated)
    csv_files.write(table.rename_axis("").reset_index(), arguments.table)
    command.log(f"{len(table)} coefficients")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    parser.add_argument(
        "--table", type=Path, required=True, help="CSV to write, with names in the first row and column"
    )
    command.run(main, parser.parse_args())
