"""Fits a model in this process, without a cluster; writes the checkpoint and fit.json."""

import argparse

from tfglm import command, fitting, tensorflow_setup
from tfglm.distribute.local import LocalExecutor
from tfglm.roles import ending


def main(arguments: argparse.Namespace) -> None:
    if arguments.parent:
        ending.end_with_parent(arguments.parent)
    fitting.fit(arguments, lambda progress: LocalExecutor())


if __name__ == "__main__":
    arguments = fitting.parser(__doc__).parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
