"""A fit as its files have it, by the options of `results.options`."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfglm import checkpoint, digests
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.inference.fitted import Fitted
from tfglm.results.estimates import Estimates, estimated

if TYPE_CHECKING:
    from tfglm.results.marginal_tables import Averaged, Margins


class SavedFit:
    """A fit, named by the options of a script, of which each file is read once, when something first needs it. Raises
    UserError for a file that has changed since it was written."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments

    @cached_property
    def fit(self) -> dict[str, Any]:
        """The content of fit.json."""
        return digests.read_json(self.arguments.fit, needs=["model", "design", "checkpoint"])

    @property
    def is_network(self) -> bool:
        return self.fit.get("kind") == "network"

    @property
    def section(self) -> str:
        """The place of the model in the config."""
        return section(self.fit)

    @cached_property
    def design(self) -> Design:
        """The design, with the shape of the family that the fit has estimated."""
        return Design.load(self.arguments.design).as_fitted(self.fit)

    @cached_property
    def fitted(self) -> Fitted:
        """The model of a regression. Raises UserError as `check` does."""
        check(self.fit, self.arguments.design, self.arguments.checkpoint, self.arguments.fit)
        return replace(checkpoint.load(self.design, self.arguments.checkpoint), summary=self.fit)

    @cached_property
    def reference(self) -> dict[str, str]:
        """The reference levels that the config asks for; none without the option. Raises UserError if they were checked against
        another design."""
        path = self.arguments.reference
        if not path:
            return {}
        checked = digests.read_json(path, needs=["levels", "design"])
        digests.check_origin(path, checked["design"], self.arguments.design, "design")
        return checked["levels"]

    @cached_property
    def estimates(self) -> Estimates:
        """The coefficients of tables. Raises UserError if a reference level asked for has no finite estimate."""
        return estimated(self.design, self.fitted, self.reference)

    @cached_property
    def averaged(self) -> "Averaged":
        """What evaluate.py has averaged."""
        from tfglm.results.marginal_tables import Averaged  # with pandas, which predictions do without

        return Averaged.read(self.arguments.averages, self.arguments.fit)

    @cached_property
    def margins(self) -> "Margins":
        """Average marginal effects and adjusted means."""
        from tfglm.results.marginal_tables import marginal_tables

        settings = self.arguments.settings
        numbers = settings.confidence, None, settings.comparison
        return marginal_tables(self.design, self.fitted, self.averaged, self.reference, *numbers)

    @cached_property
    def files(self) -> list[IngestedFile]:
        return [IngestedFile.load(manifest) for manifest in self.arguments.manifests]


def section(fit: Mapping) -> str:
    """The place of the model of fit.json in the config."""
    return f"{'networks' if fit.get('kind') == 'network' else 'models'}.{fit['model']}"


def check(of_fit: Mapping, design: Path, checkpoint: Path, fit: Path) -> None:
    """Raise UserError if the checkpoint has changed since the fit, or if the design is not the fitted design."""
    digests.check(design, of_fit["design"], delete=fit)
    for name, digest in of_fit["checkpoint"].items():
        digests.check(checkpoint / name, digest, delete=fit)
