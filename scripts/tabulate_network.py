"""Write the named coefficients of a network without hidden layers."""

import argparse
from pathlib import Path

from tfglm import checkpoint, command, digests
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.networks import linear
from tfglm.results import coefficients, csv_files, estimates, options, read


def main(arguments: argparse.Namespace) -> None:
    design, fit = Design.load(arguments.design), read.fit(arguments)
    read.check(fit, arguments.design, arguments.checkpoint, arguments.fit)
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    weights = checkpoint.read(arguments.checkpoint / checkpoint.NETWORK)
    fitted = linear.fitted(weights, fit["start"], fit["unit"], design, files)
    named = estimates.estimated(design, fitted, {}, float("nan"))
    csv_files.write(coefficients.table(named, 0.95), arguments.table)
    digests.write_beside(arguments.table, arguments.fit)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--table", type=Path, required=True, help="CSV of coefficients to write")
    command.run(main, parser.parse_args())
