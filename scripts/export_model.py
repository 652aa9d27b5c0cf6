"""Write a fitted model as a SavedModel, which TensorFlow loads without tfglm, and as JSON."""

import argparse
import functools
import json
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from tfglm import command, tensorflow_setup
from tfglm.config import Layout, PredictionConfig, add_settings
from tfglm.results import estimates, options, unseen
from tfglm.results.saved_fit import SavedFit

with tensorflow_setup.quiet():
    from tfglm import export, raw_columns

Exported = tuple[Any, Callable[[Mapping[str, str]], dict[str, Any]]]
"""The model with its function `predict`, and what describes it, given the SQL of derived columns."""


def main(arguments: argparse.Namespace) -> None:
    saved = SavedFit(arguments)
    model, describe = (network if saved.is_network else regression)(saved)
    layouts = {name: Layout.model_validate(layout) for name, layout in json.loads(arguments.layouts).items()}
    raw = raw_columns.agreed_columns(layouts, json.loads(arguments.derive), model.kinds, f"{saved.section}.export")
    shutil.rmtree(arguments.saved_model, ignore_errors=True)
    export.save(export.Served(model, raw), raw.kinds, arguments.saved_model, model.covariates.shapes)
    description = {"inputs": raw.described} | describe(raw.computed)
    arguments.description.write_text(json.dumps(description, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def regression(saved: SavedFit) -> Exported:
    estimated, reference, policy = saved.estimates, saved.reference, saved.arguments.settings.unseen
    substitutes = unseen.substitutes(estimated.design, estimated.fitted, policy, reference)
    exported = export.ExportedRegression(estimated.design, estimated.fitted, substitutes)
    # A reader adds up coefficients of levels, whatever the coding of tables.
    by_levels = estimates.estimated(estimated.design.by_levels, estimated.fitted, reference)
    return exported, functools.partial(export.description, estimated.design, by_levels, saved.fit)


def network(saved: SavedFit) -> Exported:
    with tensorflow_setup.quiet():
        from tfglm.networks import stored
        from tfglm.networks.export import ExportedNetwork
    arguments, design, fit = saved.arguments, saved.design, saved.fit
    substitutes = unseen.collective_levels(design) if arguments.settings.unseen == "missing" else {}
    trained, under = stored.load_checked(arguments, design, fit)
    exported = ExportedNetwork(trained, design, substitutes, under)
    return exported, functools.partial(exported.description, fit)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    add_settings(parser, PredictionConfig)
    parser.add_argument("--layouts", required=True, help="the layouts of the files by name, as JSON")
    parser.add_argument("--derive", default="{}", help="the SQL expressions of the config by column, as JSON")
    parser.add_file("--saved-model", "folder for the SavedModel")
    parser.add_file("--description", "JSON file to write")
    command.run(main, parser.parse_args())
