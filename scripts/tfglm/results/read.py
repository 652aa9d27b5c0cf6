"""What the scripts that tabulate a fit have in common: its files on the command line, and the estimates in them."""

import argparse
import json
from pathlib import Path

from tfglm import runtime
from tfglm.model.design import Design


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    parser.add_argument("--reference", type=Path, required=True, help="what check_reference.py wrote")


def add_unseen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unseen",
        default="missing",
        choices=["missing", "reference", "error"],
        help="what a level that no training row has counts as",
    )


def estimates(arguments: argparse.Namespace):
    """The `Estimates` of the fit. Raises UserError if a reference level asked for has no finite estimate."""
    with runtime.quiet():
        from tfglm.model import fitted
        from tfglm.results import coefficients

    design = Design.load(arguments.design)
    checkpoint = fitted.load(design, arguments.checkpoint)
    reference = json.loads(arguments.reference.read_text())
    df_residual = json.loads(arguments.fit.read_text())["df_residual"]
    return coefficients.estimates(design, checkpoint, reference, df_residual)
