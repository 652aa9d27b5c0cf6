"""Combine a model's formula with the dictionary; refuse here, before any training, what cannot be fitted."""

import argparse

from tfglm import command
from tfglm.config import DesignConfig, ResultsConfig, add_settings
from tfglm.data.dictionary import Dictionary
from tfglm.design.build import build_design, check_settings


def main(arguments: argparse.Namespace) -> None:
    dictionary, files = Dictionary.with_files(arguments.dictionary, arguments.manifests)
    design = build_design(
        arguments.model, arguments.settings, dictionary, files, arguments.known_late, arguments.section
    )
    check_settings(design, arguments.to_check, files, f"{arguments.section}.{arguments.model}")
    design.write(arguments.design)
    for term in design.terms:
        size = design.slices[term.name].stop - design.slices[term.name].start
        command.log(f"{term.name}: {size:,} coefficients with all levels")
    for warning in design.warnings:
        command.say(f"{design.model}: warning: {warning}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--model", required=True, help="its name in the config")
    parser.add_argument("--section", choices=("models", "networks"), default="models", help="where in the config it is")
    add_settings(parser, DesignConfig)
    parser.add_argument("--known-late", nargs="*", default=[], help="columns that are known only after departure")
    add_settings(parser, ResultsConfig, "--to-check")
    parser.add_file("--dictionary", "what merge_dictionary.py wrote")
    parser.add_files("--manifests", "one of each ingested file, in order")
    parser.add_file("--design", "design to write (JSON)")
    command.run(main, parser.parse_args())
