"""Write the tables of a fit: named coefficients with their standard errors, and a joint test for each term."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.results import coefficients, csv_files, options, read
from tfglm.results.joint import joint_tests


def main(arguments: argparse.Namespace) -> None:
    estimated = read.estimates(arguments)
    fit = read.fit(arguments)
    table = coefficients.table(estimated, arguments.settings.confidence, fit["converged"] or not fit["exact"])
    terms = joint_tests(estimated, fit["likelihood_ratio_tests"])
    csv_files.write(table, arguments.table)
    table.to_parquet(arguments.parquet, index=False)
    csv_files.write(terms, arguments.terms)
    for path in (arguments.table, arguments.terms):
        digests.write_beside(path, arguments.fit)
    command.log(f"{len(table)} coefficients in {len(terms)} terms")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    add_settings(parser, ResultsConfig)
    parser.add_argument("--table", type=Path, required=True, help="CSV of coefficients to write")
    parser.add_argument("--parquet", type=Path, required=True, help="the same as Parquet")
    parser.add_argument("--terms", type=Path, required=True, help="CSV of joint tests to write")
    command.run(main, parser.parse_args())
