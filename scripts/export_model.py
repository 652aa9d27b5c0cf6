"""Write a fitted model as a SavedModel, which TensorFlow loads without tfglm, and as JSON."""

import argparse
import json
import shutil
from pathlib import Path

from tfglm import command, digests, tensorflow_setup
from tfglm.config import ResultsConfig, add_settings
from tfglm.results import options, read, unseen

with tensorflow_setup.quiet():
    from tfglm.results import export


def main(arguments: argparse.Namespace) -> None:
    estimated = read.estimates(arguments)
    reference = digests.read_json(arguments.reference)
    substitutes = unseen.substitutes(estimated.design, estimated.fitted, arguments.settings.unseen, reference)
    shutil.rmtree(arguments.saved_model, ignore_errors=True)
    export.Exported(estimated.design, estimated.fitted, substitutes).save(str(arguments.saved_model))
    fit = read.fit(arguments)
    description = export.description(estimated.design, estimated, fit, json.loads(arguments.derived))
    arguments.description.write_text(json.dumps(description, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    options.add_reference(parser)
    add_settings(parser, ResultsConfig)
    parser.add_argument("--derived", default="{}", help="the SQL expressions of derived columns, as JSON")
    parser.add_argument("--saved-model", type=Path, required=True, help="folder for the SavedModel")
    parser.add_argument("--description", type=Path, required=True, help="JSON file to write")
    command.run(main, parser.parse_args())
