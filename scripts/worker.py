"""A worker: runs the passes over the shards that the chief hands out."""

from tfglm.cluster import server

if __name__ == "__main__":
    server.start("worker", __doc__)
