"""A worker: runs the tasks over the shards that the chief hands out."""

from pathlib import Path

from tfglm.roles import server


def prepare(folder: Path) -> None:
    """Answer the chief by the tasks that the engine registers, and by nothing else; load them while the others start too."""
    from tfglm.distribute import remote
    from tfglm.distribute.designs import Designs
    from tfglm.engine import cells, kernels, passes, updates  # noqa: F401  registers passes and updates
    from tfglm.networks import served  # noqa: F401  registers the rows of networks

    remote.serve(Designs.beside(folder))
    kernels.load()


if __name__ == "__main__":
    server.start("worker", __doc__, prepare)
