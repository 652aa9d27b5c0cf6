"""Write the embeddings of a network by the names of the levels."""

import argparse
from pathlib import Path

from tfglm import checkpoint, command, digests
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.networks import embeddings
from tfglm.results import csv_files, options, read


def main(arguments: argparse.Namespace) -> None:
    design = Design.load(arguments.design)
    read.check(read.fit(arguments), arguments.design, arguments.checkpoint, arguments.fit)
    weights = checkpoint.read(arguments.checkpoint / checkpoint.NETWORK)
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    table = embeddings.table(design, weights, files)
    csv_files.write(table, arguments.table)
    digests.write_beside(arguments.table, arguments.fit)
    command.log(f"{len(table):,} levels" if len(table) else "the formula has no factor, so there are no embeddings")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
