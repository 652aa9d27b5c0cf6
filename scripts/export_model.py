"""Write a fitted model as a SavedModel, which TensorFlow loads without tfglm, and as JSON."""

import argparse
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfglm import command, digests, tensorflow_setup
from tfglm.config import PredictionConfig, add_settings
from tfglm.results import estimates, options, read, unseen

with tensorflow_setup.quiet():
    from tfglm import export

Exporting = tuple[Callable[[Path], None], dict[str, Any]]
"""What writes the SavedModel into a folder, and the description of the model."""


def main(arguments: argparse.Namespace) -> None:
    fit = read.fit(arguments)
    of_kind = network if fit.get("kind") == "network" else regression
    save, description = of_kind(arguments, fit, json.loads(arguments.derived))
    shutil.rmtree(arguments.saved_model, ignore_errors=True)
    save(arguments.saved_model)
    arguments.description.write_text(json.dumps(description, indent=1, allow_nan=False) + "\n")


def regression(arguments: argparse.Namespace, fit: Mapping[str, Any], derived: Mapping[str, str]) -> Exporting:
    estimated = read.estimates(arguments)
    reference = digests.read_json(arguments.reference)
    substitutes = unseen.substitutes(estimated.design, estimated.fitted, arguments.settings.unseen, reference)
    exported = export.Exported(estimated.design, estimated.fitted, substitutes)
    # A reader adds up coefficients of levels, whatever the coding of tables.
    by_levels = estimates.estimated(estimated.design.by_levels, estimated.fitted, reference, estimated.df_residual)
    return exported.save, export.description(estimated.design, by_levels, fit, derived)


def network(arguments: argparse.Namespace, fit: Mapping[str, Any], derived: Mapping[str, str]) -> Exporting:
    with tensorflow_setup.quiet():
        from tfglm.networks import stored
        from tfglm.networks.export import Exported
    design = read.fitted_design(arguments, fit)
    substitutes = unseen.of_missing(design) if arguments.settings.unseen == "missing" else {}
    trained, under = stored.of_command_line(arguments, design, fit)
    exported = Exported(trained, design, substitutes, under)
    return exported.save, exported.description(fit, derived)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    add_settings(parser, PredictionConfig)
    parser.add_argument("--derived", default="{}", help="the SQL expressions of derived columns, as JSON")
    parser.add_argument("--saved-model", type=Path, required=True, help="folder for the SavedModel")
    parser.add_argument("--description", type=Path, required=True, help="JSON file to write")
    command.run(main, parser.parse_args())
