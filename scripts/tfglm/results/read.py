"""What the scripts that show a fit have in common on the command line, and what they read first."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfglm import checkpoint, digests
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.results import coefficients, unseen
from tfglm.solvers.fitted import Fitted


def add_fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")


def add_reference(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The option for the reference levels; where they are not required, only `unseen: reference` needs them."""
    parser.add_argument("--reference", type=Path, nargs="?", required=required, help="what check_reference.py wrote")


def add_plots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--colour", required=True, help="that of points and lines")
    parser.add_argument("--plots", type=Path, nargs="+", required=True, help="pictures to write (.svg, .png)")


def estimates(arguments: argparse.Namespace) -> coefficients.Estimates:
    """The `Estimates` of the fit. Raises UserError if a reference level asked for has no finite estimate."""
    design, of_fit = Design.load(arguments.design), fit(arguments)
    reference = digests.read_json(arguments.reference)
    return coefficients.estimates(design, fitted(arguments, design, of_fit), reference, of_fit["df_residual"])


def fit(arguments: argparse.Namespace) -> dict:
    """fit.json. Raises UserError if it has changed since it was written."""
    return digests.read_json(arguments.fit)


def fitted(arguments: argparse.Namespace, design: Design, of_fit: Mapping) -> Fitted:
    """The `Fitted` model of fit.json. Raises UserError if the checkpoint has changed since the fit, or the design is not the one
    that was fitted."""
    digests.check(arguments.design, of_fit["design"], delete=arguments.fit)
    for name, digest in of_fit["checkpoint"].items():
        digests.check(arguments.checkpoint / name, digest, delete=arguments.fit)
    return checkpoint.load(design, arguments.checkpoint)


def substitutes(
    arguments: argparse.Namespace, design: Design, model: Fitted, files: Sequence[IngestedFile], split: str
) -> tuple[dict[str, dict], dict[str, int]]:
    """The levels that no training row has, and what stands for them in the `Fitted` model.

    Raises UserError if there are such levels and `unseen` is `error`.
    """
    levels = unseen.levels(design, files, split)
    if arguments.settings.unseen == "error":
        unseen.refuse(design, levels)
    reference = digests.read_json(arguments.reference) if arguments.reference else {}
    return levels, unseen.substitutes(design, model, arguments.settings.unseen, reference)
