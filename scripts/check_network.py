"""Builds a network with code of the user's once, before earlier results of its training are deleted."""

import argparse
from pathlib import Path

from tfglm import command, tensorflow_setup
from tfglm.config import TrainingConfig, add_settings
from tfglm.design.design import Design
from tfglm.networks import code


def main(arguments: argparse.Namespace) -> None:
    settings = code.read(arguments)
    with tensorflow_setup.quiet():
        from tfglm.networks import check
    check.check(Design.load(arguments.design), settings, arguments.checked)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    add_settings(parser, TrainingConfig)
    code.add_options(parser)
    parser.add_argument("--checked", type=Path, required=True, help="JSON file to write")
    tensorflow_setup.set_environment()
    command.run(main, parser.parse_args())
