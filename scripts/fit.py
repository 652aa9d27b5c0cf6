"""Fits a model in this process, or trains a network under one of TensorFlow's strategies; writes the checkpoint and fit.json."""

import argparse
import sys
from collections.abc import Iterator
from functools import partial

from tfglm import command, fitting, tensorflow_setup
from tfglm.distribute.local import LocalExecutor
from tfglm.networks import code
from tfglm.roles import ending


def prepare() -> Iterator[None]:
    """Import what a fit of a regression needs, in a fork server."""
    from tfglm.engine import workload  # noqa: F401

    yield
    from tfglm.solvers import fit  # noqa: F401

    yield
    from tfglm import checkpoint, resume  # noqa: F401


def fit(arguments: argparse.Namespace) -> fitting.Work:
    """How to fit a regression."""
    return partial(fitting.fit, executor=LocalExecutor())


def network(arguments: argparse.Namespace) -> fitting.Work:
    """How to train a network."""
    arguments.settings = code.read(arguments)
    with tensorflow_setup.quiet(gpus=arguments.settings.gpus > 0):
        from tfglm.networks import job
    return job.train_here


WORK = {"fit": fit, "network": network}


def main(arguments: argparse.Namespace) -> None:
    is_job = "--serve" in sys.orig_argv  # of a fork server, with which it ends
    if arguments.parent and not is_job:
        ending.end_with_parent(arguments.parent)
    fitting.watched(arguments, WORK[arguments.work](arguments))


if __name__ == "__main__":
    parser = fitting.parser(__doc__)
    code.add_options(parser)
    arguments = fitting.parsed(parser)
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
