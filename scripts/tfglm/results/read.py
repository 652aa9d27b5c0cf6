"""Read the inputs of the scripts that show a fit, by the options of `results.options`."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from tfglm import checkpoint, digests
from tfglm.design.design import Design
from tfglm.results.estimates import Estimates, estimated
from tfglm.solvers.fitted import Fitted


def estimates(arguments: argparse.Namespace) -> Estimates:
    """The `Estimates` of the fit. Raises UserError if a reference level asked for has no finite estimate."""
    of_fit = fit(arguments)
    design = fitted_design(arguments, of_fit)
    return estimates_of(arguments, design, fitted(arguments, design, of_fit), of_fit)


def estimates_of(arguments: argparse.Namespace, design: Design, model: Fitted, of_fit: Mapping) -> Estimates:
    """The same of a model that has been read."""
    return estimated(design, model, reference(arguments), of_fit["df_residual"])


def reference(arguments: argparse.Namespace) -> dict[str, str]:
    """The reference levels that the config asks for; none without the option. Raises UserError if they were checked against
    another design."""
    if not arguments.reference:
        return {}
    checked = digests.read_json(arguments.reference, needs=["levels", "design"])
    digests.check_origin(arguments.reference, checked["design"], arguments.design, "design")
    return checked["levels"]


def fit(arguments: argparse.Namespace) -> dict:
    """fit.json. Raises UserError if it has changed since it was written."""
    return digests.read_json(arguments.fit, needs=["model", "design", "checkpoint"])


def fitted_design(arguments: argparse.Namespace, of_fit: Mapping) -> Design:
    """The design, with the shape of the family that the fit has estimated. Raises UserError if it has changed since it was
    written."""
    return Design.load(arguments.design).as_fitted(of_fit)


def section(of_fit: Mapping) -> str:
    """The place of the model of fit.json in the config."""
    return f"{'networks' if of_fit.get('kind') == 'network' else 'models'}.{of_fit['model']}"


def fitted(arguments: argparse.Namespace, design: Design, of_fit: Mapping) -> Fitted:
    """The `Fitted` model of fit.json. Raises UserError as `check` does."""
    check(of_fit, arguments.design, arguments.checkpoint, arguments.fit)
    return checkpoint.load(design, arguments.checkpoint)


def check(of_fit: Mapping, design: Path, checkpoint: Path, fit: Path) -> None:
    """Raise UserError if the checkpoint has changed since the fit, or if the design is not the fitted design."""
    digests.check(design, of_fit["design"], delete=fit)
    for name, digest in of_fit["checkpoint"].items():
        digests.check(checkpoint / name, digest, delete=fit)
