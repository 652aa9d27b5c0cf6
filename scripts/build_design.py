"""Combine a model's formula with the dictionary; refuse here, before any training, what cannot be fitted."""

import argparse
import json
from pathlib import Path

from tfglm import command
from tfglm.config import DesignConfig
from tfglm.data.dictionary import Dictionary
from tfglm.data.shards import IngestedFile
from tfglm.design.build import build_design
from tfglm.design.checks import check_reference


def main(arguments: argparse.Namespace) -> None:
    dictionary = Dictionary.load(arguments.dictionary)
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    settings = DesignConfig.model_validate_json(arguments.settings)
    made = build_design(arguments.model, settings, dictionary, files, arguments.known_late)
    check_reference(made, json.loads(arguments.reference))
    made.write(arguments.design)
    for term in made.terms:
        size = made.slices[term.name].stop - made.slices[term.name].start
        command.log(f"{term.name}: {size:,} coefficients with all levels")
    for warning in made.warnings:
        command.say(f"{made.model}: warning: {warning}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--model", required=True, help="its name in the config")
    parser.add_argument("--settings", required=True, help="formula, family and what else the fit depends on, as JSON")
    parser.add_argument("--known-late", nargs="*", default=[], help="columns that are known only after departure")
    parser.add_argument("--reference", default="{}", help="reference levels to check, by term, as JSON")
    parser.add_argument("--dictionary", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--design", type=Path, required=True, help="design to write (JSON)")
    command.run(main, parser.parse_args())
