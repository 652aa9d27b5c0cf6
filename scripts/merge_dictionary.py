"""Merge the levels of all ingested files into one dictionary, and account for every row."""

import argparse

from tfglm import command, digests
from tfglm.config import LevelsConfig, add_settings
from tfglm.data.dictionary import account, merge
from tfglm.data.kinds import MEANINGS
from tfglm.data.shards import IngestedFile


def main(arguments: argparse.Namespace) -> None:
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    settings = arguments.settings
    dictionary = merge(files, settings.missing, settings.rare, settings.order)
    rows = account(files, dictionary)
    dictionary.write(arguments.dictionary)
    digests.write_json(arguments.rows, rows, indent=2)
    command.log(f"{rows['read']:,} rows read, {dictionary.rows['train']:,} to train on")
    for name, kind in rows["columns"].items():
        command.log(f"  column {name}: {MEANINGS[kind]}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_files("--manifests", "one of each ingested file, in order")
    add_settings(parser, LevelsConfig)
    parser.add_file("--dictionary", "dictionary to write (JSON)")
    parser.add_file("--rows", "account of the rows to write (JSON)")
    command.run(main, parser.parse_args())
