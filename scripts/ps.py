"""A parameter server: keeps the variables that the workers read."""

from tfglm.roles import server

if __name__ == "__main__":
    server.start("ps", __doc__)
