"""A worker: runs the passes over the shards that the chief hands out."""

from tfglm.cluster import server


def prepare() -> None:
    """Load what the chief will ask for, while the others start too."""
    from tfglm.model import kernels, passes, updates  # noqa: F401

    kernels.load()


if __name__ == "__main__":
    server.start("worker", __doc__, prepare)
