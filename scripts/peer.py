"""A peer: trains a network or fits a model together with the chief and other peers, each with its part of every batch or sum."""

import argparse
import functools

from tfglm import tensorflow_setup
from tfglm.roles import peers


def prepare(arguments: argparse.Namespace) -> peers.Follow:
    """Load what the work needs, while the others start too; what to do once the chief has given its order."""
    if arguments.work == "network":
        with tensorflow_setup.quiet():
            from tfglm.networks import cluster
        return cluster.follow
    from tfglm.distribute import multi_worker_mirrored
    from tfglm.distribute.designs import Designs
    from tfglm.engine import cells, kernels, passes, updates  # noqa: F401  registers passes and updates

    kernels.load()
    return functools.partial(multi_worker_mirrored.follow, designs=Designs.beside(arguments.announce.parent))


if __name__ == "__main__":
    peers.start(__doc__, prepare)
