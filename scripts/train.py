"""Trains a network in this process, under one of TensorFlow's strategies; writes the checkpoint and fit.json."""

import argparse

from tfglm import command, fitting, tensorflow_setup
from tfglm.config import TrainingConfig
from tfglm.results import options
from tfglm.roles import ending


def main(arguments: argparse.Namespace) -> None:
    if arguments.parent:
        ending.end_with_parent(arguments.parent)
    with tensorflow_setup.quiet(gpus=arguments.settings.gpus > 0):
        from tfglm.networks import job
    fitting.watched(arguments, lambda *of_fit: job.train_here(arguments, *of_fit))


if __name__ == "__main__":
    parser = fitting.parser(__doc__, TrainingConfig)
    options.add_offset(parser)
    arguments = parser.parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
