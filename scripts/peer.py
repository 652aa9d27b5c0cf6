"""A peer: trains a network together with the chief and other peers, each with its part of every batch."""

import argparse
import time
from dataclasses import replace

from tfglm import command, tensorflow_setup
from tfglm.roles import announce, ending, peers, server
from tfglm.roles.announce import Announcement


def main(arguments: argparse.Namespace) -> None:
    if arguments.parent:
        ending.end_with_parent(arguments.parent)
    log = str(arguments.log.resolve()) if arguments.log else ""
    announcement = Announcement("peer", arguments.index, arguments.run, "starting", log=log)
    announce.write(arguments.announce, announcement)
    command.log(f"{announcement.name} starting on {announcement.node}, pid {announcement.pid}")
    with tensorflow_setup.quiet():
        from tfglm.networks import cluster
    port = peers.Port()
    address = f"{arguments.host}:{port.number}"
    announce.write(arguments.announce, replace(announcement, state="listening", address=address))
    command.log(f"{announcement.name} will listen at {address}")
    order = peers.await_order(arguments.announce.parent, arguments.run)
    cluster.follow(order, arguments.index + 1, port)
    command.log("trained; waiting for the end")
    # It keeps answering: to the chief, who has results to write, one that is gone would be an error.
    while True:
        time.sleep(0.5)


if __name__ == "__main__":
    arguments = server.parser(__doc__).parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
