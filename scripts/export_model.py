"""Write a fitted model as a SavedModel, which TensorFlow loads without tfglm, and as JSON."""

import argparse
import functools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfglm import command, tensorflow_setup
from tfglm.config import Layout, PredictionConfig, add_settings
from tfglm.results import estimates, options, read, unseen

with tensorflow_setup.quiet():
    from tfglm import export, raw_columns

Exported = tuple[Any, Callable[[Mapping[str, str]], dict[str, Any]]]
"""The model with its function `predict`, and what describes it, given the SQL of derived columns."""


def main(arguments: argparse.Namespace) -> None:
    fit = read.fit(arguments)
    section = "networks" if fit.get("kind") == "network" else "models"
    of_kind = network if section == "networks" else regression
    model, describe = of_kind(arguments, fit)
    layouts = {name: Layout.model_validate(layout) for name, layout in json.loads(arguments.layouts).items()}
    where = f"{section}.{fit['model']}.export"
    raw = raw_columns.agreed_columns(layouts, json.loads(arguments.derive), model.kinds, where)
    shutil.rmtree(arguments.saved_model, ignore_errors=True)
    export.save(export.Served(model, raw), raw.kinds, arguments.saved_model, model.covariates.shapes)
    description = {"inputs": raw.described} | describe(raw.computed)
    arguments.description.write_text(json.dumps(description, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def regression(arguments: argparse.Namespace, fit: Mapping[str, Any]) -> Exported:
    estimated = read.estimates(arguments)
    reference = read.reference(arguments)
    substitutes = unseen.substitutes(estimated.design, estimated.fitted, arguments.settings.unseen, reference)
    exported = export.ExportedRegression(estimated.design, estimated.fitted, substitutes)
    # A reader adds up coefficients of levels, whatever the coding of tables.
    by_levels = estimates.estimated(estimated.design.by_levels, estimated.fitted, reference, estimated.df_residual)
    return exported, functools.partial(export.description, estimated.design, by_levels, fit)


def network(arguments: argparse.Namespace, fit: Mapping[str, Any]) -> Exported:
    with tensorflow_setup.quiet():
        from tfglm.networks import stored
        from tfglm.networks.export import ExportedNetwork
    design = read.fitted_design(arguments, fit)
    substitutes = unseen.missing_levels(design) if arguments.settings.unseen == "missing" else {}
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
    parser.add_argument("--saved-model", type=Path, required=True, help="folder for the SavedModel")
    parser.add_argument("--description", type=Path, required=True, help="JSON file to write")
    command.run(main, parser.parse_args())
