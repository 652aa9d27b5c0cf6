"""Merge the levels of all ingested files into one dictionary, and account for every row."""

import argparse

from tfglm import command, digests
from tfglm.config import LevelsConfig, add_settings
from tfglm.data.dictionary import account, merge, rows_of_zero
from tfglm.data.kinds import MEANINGS
from tfglm.data.shards import IngestedFile


def main(arguments: argparse.Namespace) -> None:
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    settings = arguments.settings
    dictionary = merge(files, settings.missing, settings.rare, settings.order)
    rows = account(files, dictionary)
    if arguments.subsets:
        # Columns that no user has.
        rows["subsets"] = {name: rows_of_zero(files, dictionary, name) for name in arguments.subsets}
        rows["columns"] = {name: kind for name, kind in rows["columns"].items() if name not in arguments.subsets}
    dictionary.write(arguments.dictionary)
    digests.write_json(arguments.rows, rows, indent=2)
    command.log(f"{rows['read']:,} rows read, {dictionary.rows['train']:,} to train on")
    for name, kind in rows["columns"].items():
        command.log(f"  column {name}: {MEANINGS[kind]}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_files("--manifests", "one of each ingested file, in order")
    add_settings(parser, LevelsConfig)
    parser.add_argument("--subsets", nargs="*", default=[], help="columns that are 0 outside the subset of a model")
    parser.add_file("--dictionary", "dictionary to write (JSON)")
    parser.add_file("--rows", "account of the rows to write (JSON)")
    command.run(main, parser.parse_args())
