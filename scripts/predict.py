"""Write the rows of one ingested file with what a fitted model says of them: predictions, or fitted values and residuals."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tfglm import command, tensorflow_setup
from tfglm.config import SPLITS, ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.results import classes, options, predict, read, row_files, unseen
from tfglm.results.residuals import residuals


def main(arguments: argparse.Namespace) -> None:
    fit = read.fit(arguments)
    design = read.fitted_design(arguments, fit)
    file = IngestedFile.load(arguments.manifest)
    predict.check_identity(read.section(fit), file, arguments.settings.identity)
    tables = (predicted if arguments.split == "predict" else with_residuals)(arguments, fit, design, file)
    command.log(f"{row_files.write(arguments.output, tables):,} rows")


def predicted(
    arguments: argparse.Namespace, fit: dict[str, Any], design: Design, file: IngestedFile
) -> Iterator[pa.Table]:
    """The rows to predict, in the order of the file."""
    settings, where = arguments.settings, read.section(fit)
    if fit.get("kind") == "network":
        with tensorflow_setup.quiet():
            from tfglm.networks import stored
        without_rows = unseen.checked(design.to_predict, [file], "predict", settings.unseen, where)
        tables = stored.predictions(arguments, design, fit, file, settings.identity)
    else:
        model = read.fitted(arguments, design, fit)
        without_rows, substitutes = unseen.resolved(
            design.to_predict, model, [file], "predict", settings.unseen, read.reference(arguments)
        )
        tables = (
            classes.predictions(design, model, file, substitutes, settings.identity)
            if design.equations
            else predict.predictions(
                *(design, model, file, substitutes, settings.identity, fit["df_residual"], settings.confidence),
                fit.get("smooths", ()),
            )
        )
    for term, levels in without_rows.items():
        command.log(
            f"  levels of {term} that no training row has: {', '.join(levels['levels'])} ({levels['rows']:,} rows)"
        )
    return tables


def with_residuals(
    arguments: argparse.Namespace, fit: dict[str, Any], design: Design, file: IngestedFile
) -> Iterator[pa.Table]:
    """The rows of a split with a response."""
    if design.equations:
        raise UserError(
            f"{read.section(fit)}: a regression of classes has no residuals; its probabilities are predictions"
        )
    fitted, settings = read.fitted(arguments, design, fit), arguments.settings
    return residuals(design, fitted, file, arguments.split, settings.identity, settings.leverage)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifest", type=Path, required=True, help="that of the ingested file")
    parser.add_argument(
        "--split", default="predict", choices=SPLITS, help="its rows; others than `predict` have residuals"
    )
    add_settings(parser, ResultsConfig)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    parser.add_argument("--output", type=Path, required=True, help="file to write (.parquet or .csv)")
    command.run(main, parser.parse_args())
