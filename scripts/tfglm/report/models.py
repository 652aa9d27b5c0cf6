"""What the scripts that show several models have in common: options, and what they read first."""

import argparse
from pathlib import Path

from tfglm import digests
from tfglm.design.design import Design
from tfglm.report.pages import read_table
from tfglm.results.compare import Model


def add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders")
    parser.add_argument("--with-coefficients", type=Path, nargs="*", default=[], help="those that have a table of them")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")


def read_models(arguments: argparse.Namespace) -> list[Model]:
    """The models of a command line. Raises UserError for a file that has changed since it was written, or is of another
    fit."""
    models = []
    for folder in arguments.models:
        path = folder / "fit.json"
        fit = digests.read_json(path)
        metrics = digests.read_json(folder / "metrics.json", fit=path) if arguments.held_out else {}
        table = read_table(folder / "coefficients.csv", path) if folder in arguments.with_coefficients else None
        digests.check(folder / "design.json", fit["design"], delete=path)
        design = None if fit.get("kind") == "network" else Design.load(folder / "design.json")
        models.append(Model(fit, metrics, table, design))
    return models
