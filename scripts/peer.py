"""A peer: trains a network or fits a model together with the chief and other peers, each with its part of every batch or sum."""

import argparse
import functools

from tfglm import tensorflow_setup
from tfglm.roles import peers


def load(arguments: argparse.Namespace) -> None:
    """Load what the work needs and what starts no thread, while the others start too."""
    # The order of the chief says how many GPUs it has.
    with tensorflow_setup.quiet(gpus=arguments.work == "network"):
        import tensorflow as tf  # noqa: F401
    if arguments.work == "fit":
        from tfglm.engine import cells, kernels, updates  # noqa: F401  registers passes and updates

        kernels.load()


def prepare(arguments: argparse.Namespace) -> peers.Follow:
    """What to do once the chief has given its order."""
    if arguments.work == "network":
        from tfglm.networks import cluster  # Keras starts a thread

        return cluster.follow
    from tfglm.distribute import multi_worker_mirrored
    from tfglm.distribute.designs import Designs

    return functools.partial(multi_worker_mirrored.follow, designs=Designs.beside(arguments.announce.parent))


if __name__ == "__main__":
    peers.start(__doc__, load, prepare)
