"""Merge the levels of all ingested files into one dictionary, and account for every row."""

import argparse
import json
from pathlib import Path

from tfglm import command, digests
from tfglm.data.dictionary import account, merge
from tfglm.data.shards import MEANINGS, IngestedFile


def main(arguments: argparse.Namespace) -> None:
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    dictionary = merge(files, json.loads(arguments.missing), json.loads(arguments.rare))
    kinds = {name: column.kind for name, column in dictionary.columns.items()}
    rows = account(files, dictionary) | {"columns": kinds}
    dictionary.write(arguments.dictionary)
    digests.write_json(arguments.rows, rows, indent=2)
    command.log(f"{rows['read']:,} rows read, {dictionary.rows['train']:,} to train on")
    for name, kind in kinds.items():
        command.log(f"  column {name}: {MEANINGS[kind]}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--missing", default="{}", help="data.missing of the config, as JSON")
    parser.add_argument("--rare", default="{}", help="data.rare of the config, as JSON")
    parser.add_argument("--dictionary", type=Path, required=True, help="dictionary to write (JSON)")
    parser.add_argument("--rows", type=Path, required=True, help="account of the rows to write (JSON)")
    command.run(main, parser.parse_args())
