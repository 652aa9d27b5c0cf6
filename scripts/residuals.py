"""Write the fitted values and residuals of the rows of one ingested file, of the split that a regression was fitted to."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import SPLITS, ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.results import options, parquet_files, predict, read
from tfglm.results.residuals import residuals


def main(arguments: argparse.Namespace) -> None:
    fit = read.fit(arguments)
    design = read.fitted_design(arguments, fit)
    file, settings = IngestedFile.load(arguments.manifest), arguments.settings
    predict.check_identity(read.section(fit), file, settings.identity)
    if design.equations:
        raise UserError(
            f"{read.section(fit)}: a regression of classes has no residuals; its probabilities are predictions"
        )
    fitted = read.fitted(arguments, design, fit)
    tables = residuals(design, fitted, file, arguments.split, settings.identity, settings.leverage)
    rows = parquet_files.write(arguments.residuals, tables)
    command.log(f"{rows:,} rows")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifest", type=Path, required=True, help="that of the ingested file")
    parser.add_argument("--split", choices=SPLITS[:2], required=True, help="whose rows")
    add_settings(parser, ResultsConfig)
    parser.add_argument("--residuals", type=Path, required=True, help="Parquet file to write")
    command.run(main, parser.parse_args())
