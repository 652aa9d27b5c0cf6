"""Write the rows of one ingested file with what a fitted model says of them: predictions, or fitted values and residuals."""

import argparse
from collections.abc import Iterator

import pyarrow as pa

from tfglm import command, tensorflow_setup
from tfglm.config import SPLITS, ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.results import classes, options, predict, row_files, unseen
from tfglm.results.residuals import residuals
from tfglm.results.saved_fit import SavedFit


def main(arguments: argparse.Namespace) -> None:
    saved, file = SavedFit(arguments), IngestedFile.load(arguments.manifest)
    predict.check_identity(saved.section, file, arguments.settings.identity)
    tables = (predicted if arguments.split == "predict" else with_residuals)(saved, file)
    command.log(f"{row_files.write(arguments.output, tables):,} rows")


def predicted(saved: SavedFit, file: IngestedFile) -> Iterator[pa.Table]:
    """The rows to predict, in the order of the file."""
    arguments, design, settings = saved.arguments, saved.design, saved.arguments.settings
    if saved.is_network:
        with tensorflow_setup.quiet():
            from tfglm.networks import stored
        without_rows = unseen.checked(design.to_predict, [file], "predict", settings.unseen, saved.section)
        tables = stored.predictions(arguments, design, saved.fit, file, settings.identity)
    else:
        without_rows, substitutes = unseen.resolved(
            design.to_predict, saved.fitted, [file], "predict", settings.unseen, saved.reference
        )
        tables = (
            classes.predictions(design, saved.fitted, file, substitutes, settings.identity)
            if design.equations
            else predict.predictions(
                *(design, saved.fitted, file, substitutes, settings.identity),
                *(settings.confidence, saved.fit.get("smooths", ()), settings.interval),
            )
        )
    for term, levels in without_rows.items():
        command.log(
            f"  levels of {term} that no training row has: {', '.join(levels['levels'])} ({levels['rows']:,} rows)"
        )
    return tables


def with_residuals(saved: SavedFit, file: IngestedFile) -> Iterator[pa.Table]:
    """The rows of a split with a response."""
    if saved.design.equations:
        raise UserError(f"{saved.section}: a regression of classes has no residuals; its probabilities are predictions")
    split, settings = saved.arguments.split, saved.arguments.settings
    return residuals(saved.design, saved.fitted, file, split, settings.identity, settings.leverage)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_file("--manifest", "that of the ingested file")
    parser.add_argument(
        "--split", default="predict", choices=SPLITS, help="its rows; others than `predict` have residuals"
    )
    add_settings(parser, ResultsConfig)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    parser.add_file("--output", "file to write (.parquet or .csv)")
    command.run(main, parser.parse_args())
