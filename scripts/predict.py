"""Predict the rows of one ingested file, in order, with a fitted model."""

import argparse
from pathlib import Path

from tfglm import command, tensorflow_setup
from tfglm.config import ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.results import classes, options, parquet_files, predict, read, unseen


def main(arguments: argparse.Namespace) -> None:
    fit = read.fit(arguments)
    design = read.fitted_design(arguments, fit)
    file, settings = IngestedFile.load(arguments.manifest), arguments.settings
    where = read.section(fit)
    predict.check_identity(where, file, settings.identity)
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
                design, model, file, substitutes, settings.identity, fit["df_residual"], settings.confidence
            )
        )
    rows = parquet_files.write(arguments.predictions, tables)
    command.log(f"{rows:,} rows")
    for term, levels in without_rows.items():
        command.log(
            f"  levels of {term} that no training row has: {', '.join(levels['levels'])} ({levels['rows']:,} rows)"
        )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifest", type=Path, required=True, help="that of the ingested file")
    add_settings(parser, ResultsConfig)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    parser.add_argument("--predictions", type=Path, required=True, help="Parquet file to write")
    command.run(main, parser.parse_args())
