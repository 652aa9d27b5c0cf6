"""Write the table of named coefficients with their standard errors from a checkpoint."""

import argparse
import json
from pathlib import Path

from tfglm import command, runtime
from tfglm.model.design import Design


def main(arguments: argparse.Namespace) -> None:
    with runtime.quiet():
        from tfglm.model import fitted
        from tfglm.results import coefficients

    design = Design.load(arguments.design)
    summary = json.loads(arguments.fit.read_text())
    table = coefficients.table(
        design,
        fitted.load(design, arguments.checkpoint),
        json.loads(arguments.reference.read_text()),
        arguments.confidence,
        summary["df_residual"],
    )
    table.to_csv(arguments.table, index=False)
    command.log(f"{len(table)} coefficients")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    parser.add_argument("--reference", type=Path, required=True, help="what check_reference.py wrote")
    parser.add_argument("--confidence", type=float, required=True, help="coverage of the intervals, e.g. 0.95")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    command.run(main, parser.parse_args())
