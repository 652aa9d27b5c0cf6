"""A worker: runs the passes over the shards that the chief hands out."""

from tfglm.cluster import server


def prepare() -> None:
    """Run what the chief sends; and load what it will ask for, while the others start too."""
    from tfglm.cluster import remote
    from tfglm.model import kernels, passes, updates  # noqa: F401

    remote.offer()
    kernels.load()


if __name__ == "__main__":
    server.start("worker", __doc__, prepare)
