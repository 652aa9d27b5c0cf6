"""Write average marginal effects and adjusted means, on the scale of the response."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.results import csv_files, options, read
from tfglm.results.margins import margins


def main(arguments: argparse.Namespace) -> None:
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    fit = read.fit(arguments)
    design = read.fitted_design(arguments, fit)
    model = read.fitted(arguments, design, fit)
    reference, settings = read.reference(arguments), arguments.settings
    balanced = settings.adjusted_means == "balanced"
    collapsed = IngestedFile.load(arguments.collapsed) if arguments.collapsed else None
    numbers = fit["df_residual"], settings.confidence
    tables = margins(
        design, model, files, reference, *numbers, balanced, of_collapsed=collapsed, threads=arguments.threads
    )
    for table, path in ((tables.effects, arguments.effects), (tables.means, arguments.means)):
        csv_files.write(table, path)
        digests.write_beside(path, arguments.fit)
    command.log(f"{len(tables.effects)} marginal effects, {len(tables.means)} adjusted means")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--collapsed", type=Path, nargs="?", help="manifest of the training rows, collapsed")
    parser.add_argument("--threads", type=int, default=1, help="threads that read the rows")
    add_settings(parser, ResultsConfig)
    parser.add_argument("--effects", type=Path, required=True, help="CSV of average marginal effects to write")
    parser.add_argument("--means", type=Path, required=True, help="CSV of adjusted means to write")
    command.run(main, parser.parse_args())
