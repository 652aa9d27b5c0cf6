"""The models that a comparison shows."""

import argparse

from tfglm import digests
from tfglm.design.design import Design
from tfglm.report.pages import read_table
from tfglm.results.compare import ComparedModel


def read_models(arguments: argparse.Namespace) -> list[ComparedModel]:
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
        models.append(ComparedModel(fit, metrics, table, design))
    return models
