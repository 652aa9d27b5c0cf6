"""A worker: runs the passes over the shards that the chief hands out."""

from tfglm.roles import server


def prepare() -> None:
    """Run the passes and updates that the chief sends, and nothing else; load them while the others start too."""
    from tfglm.distribute import remote
    from tfglm.engine import kernels, passes, updates

    remote.offer({passes.Pass.maker: passes.made, updates.Updates.maker: updates.made})
    kernels.load()


if __name__ == "__main__":
    server.start("worker", __doc__, prepare)
