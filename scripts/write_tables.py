"""Write the tables of a fit: coefficients, joint tests, contrasts, curves and whatever else the config asks for."""

import argparse
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.errors import Problems
from tfglm.results import csv_files, options
from tfglm.results.fit_tables import TABLES
from tfglm.results.saved_fit import SavedFit


def main(arguments: argparse.Namespace) -> None:
    saved, known = SavedFit(arguments), TABLES
    if saved.is_network:
        from tfglm.networks import network_tables

        known = network_tables.TABLES

    problems = Problems()
    for name, files in groupby(arguments.tables, lambda path: path.stem):
        with problems.collected():
            write(known[name](saved, arguments.settings), files, arguments.fit)
    problems.check()


def write(table: pd.DataFrame, files: Iterable[Path], fit: Path) -> None:
    """Write a table in the formats of these files; .sha256 is the digest of the CSV file before it."""
    for path in files:
        match path.suffix:
            case ".csv":
                csv_files.write(table, path)
                command.log(f"{path.name}: {len(table):,} rows")
            case ".parquet":
                table.to_parquet(path, index=False)
            case digests.SUFFIX:
                digests.write_beside(path.with_suffix(".csv"), fit)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser, required=False)
    parser.add_file("--dictionary", "what merge_dictionary.py wrote, for curves", optional=True)
    parser.add_files("--manifests", "one of each ingested file, of a network", optional=True)
    parser.add_file("--averages", "what evaluate.py wrote, for marginal effects", optional=True)
    add_settings(parser, ResultsConfig)
    parser.add_files(
        "--tables",
        f"files to write: <table>.csv or .parquet, and after it .sha256 with its digest ({', '.join(TABLES)}; of a "
        "network coefficients, embeddings)",
    )
    command.run(main, parser.parse_args())
