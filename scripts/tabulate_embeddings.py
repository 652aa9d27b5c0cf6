"""Write the embeddings of a network by the names of the levels: a table and a picture."""

import argparse
from pathlib import Path

from tfglm import checkpoint, command
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.networks import embeddings
from tfglm.report.embeddings import embeddings_plot
from tfglm.report.plots import use_colour
from tfglm.results import csv_files, options, read


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    design = Design.load(arguments.design)
    read.check(read.fit(arguments), arguments.design, arguments.checkpoint, arguments.fit)
    weights = checkpoint.read(arguments.checkpoint / checkpoint.NETWORK)
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    table = embeddings.table(design, weights, files)
    csv_files.write(table, arguments.table)
    embeddings_plot(table, f"{design.model}: embeddings of levels", arguments.plots)
    command.log(f"{len(table):,} levels" if len(table) else "the formula has no factor, so there are no embeddings")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
