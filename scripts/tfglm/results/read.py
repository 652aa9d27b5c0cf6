"""What the scripts that show a fit have in common on the command line, and what they read first."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tfglm import runtime
from tfglm.data.shards import IngestedFile
from tfglm.model.design import Design


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")


def add_fit(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")


def add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reference", type=Path, required=True, help="what check_reference.py wrote")


def add_policy(parser: argparse.ArgumentParser) -> None:
    add_unseen(parser)
    parser.add_argument(
        "--reference", type=Path, nargs="?", help="what check_reference.py wrote, for --unseen reference"
    )


def add_unseen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unseen",
        default="missing",
        choices=["missing", "reference", "error"],
        help="what a level that no training row has counts as",
    )


def add_plots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--colour", required=True, help="that of points and lines")
    parser.add_argument("--plots", type=Path, nargs="+", required=True, help="pictures to write (.svg, .png)")


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


def substitutes(
    arguments: argparse.Namespace, design: Design, model, files: Sequence[IngestedFile], split: str
) -> tuple[dict[str, dict], dict[str, int]]:
    """The levels that no training row has, and what stands for them in the `Fitted` model.

    Raises UserError if there are such levels and `--unseen` is `error`.
    """
    from tfglm.results import metrics

    unseen = metrics.unseen_levels(design, files, split)
    if arguments.unseen == "error":
        metrics.refuse_unseen(design, unseen)
    reference = json.loads(arguments.reference.read_text()) if arguments.reference else {}
    return unseen, metrics.substitutes(design, model, arguments.unseen, reference)
