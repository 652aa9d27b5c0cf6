"""A worker: runs the tasks over the shards that the chief hands out."""

from pathlib import Path

from tfglm.roles import server


def load() -> None:
    """Load the tasks that the engine registers, while the others start too."""
    from tensorflow.python.ops import script_ops  # noqa: F401  for `answers`, which starts a thread itself

    from tfglm.engine import cells, kernels, updates  # noqa: F401  registers passes and updates
    from tfglm.networks import served  # noqa: F401  registers the rows of networks

    kernels.load()


def prepare(folder: Path) -> None:
    """Answer the chief by these tasks, and by nothing else."""
    from tfglm.distribute import answers
    from tfglm.distribute.designs import Designs

    answers.serve(Designs.beside(folder))


if __name__ == "__main__":
    server.start("worker", __doc__, load, prepare)
