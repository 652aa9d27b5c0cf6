"""How peers find each other: processes that train a network or fit a model together, without a server among them.

Each must know the addresses of all before TensorFlow starts. So a peer holds a free port and announces it. The chief, which
is the first peer, gathers the announcements and writes an order: all addresses, and the work to do.

Only the standard library: this runs before TensorFlow is imported.
"""

import argparse
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from tfglm import command, digests, tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import announce, ending, server

NAME = "order.json"
"""The name of the order, beside the announcements."""


@dataclass(frozen=True)
class Order:
    """The order of the chief for the peers."""

    run: str  # the id of the start of their roster
    addresses: tuple[str, ...]  # of all, by their number; the chief has 0
    options: Mapping[str, Any]  # of the chief's command line, those that a peer needs; of a fit, none

    def write(self, folder: Path) -> None:
        """Write it where the peers look."""
        digests.replace(folder / NAME, json.dumps(asdict(self)) + "\n")


def await_order(folder: Path, run: str) -> Order:
    """The order of this run. Waits for ever: whoever has started this process ends it if no chief comes. Raises UserError
    for a file that is no order."""
    path = folder / NAME
    while True:
        try:
            order = Order(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            pass
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is no order of a chief: {error}; delete it") from error
        else:
            if order.run == run:
                return order
        time.sleep(0.1)


class Port:
    """A free port that is held until TensorFlow takes it: TensorFlow's server refuses a port that it would have to share."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Call this right before TensorFlow starts: from now on another process may take it."""
        self._socket.close()


def own_address_towards(addresses: Sequence[str]) -> str:
    """The address of this machine that processes at these addresses, `host:port`, reach."""
    host = addresses[0].rpartition(":")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it chooses the route, and with it the address of this end.
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


Follow = Callable[[Order, int, Port], None]
"""Does what an order says, as the process with this number, whose port is held until then."""


def work(
    parser: argparse.ArgumentParser,
    given: argparse.Namespace,
    load: Callable[[argparse.Namespace], object],
    prepare: Callable[[argparse.Namespace], Follow],
) -> NoReturn:
    """Run a peer from its first announcement to its end; `prepare` returns the work of the peer."""
    announcement = server.begin("peer", parser, given, lambda: load(given))
    follow = prepare(given)
    port = Port()
    address = f"{given.host}:{port.number}"
    announce.write(given.announce, replace(announcement, state="listening", address=address))
    command.log(f"{announcement.name} will listen at {address}")
    order = await_order(given.announce.parent, given.run)
    follow(order, given.index + 1, port)
    command.log("done; waiting for the end")
    # It keeps answering: the chief still writes results, and would treat a missing peer as an error.
    while True:
        time.sleep(0.5)


def start(
    description: str, load: Callable[[argparse.Namespace], object], prepare: Callable[[argparse.Namespace], Follow]
) -> None:
    """Run peer.py: `load` and `prepare` as in `server.start`, each with the command line."""
    parser = server.parser(description)
    parser.add_argument(
        "--work",
        choices=["network", "fit"],
        default="fit",
        help="what the peers do together: take the steps of a network in training, or make the sums of a fit",
    )
    arguments = parser.parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(lambda given: work(parser, given, load, prepare), arguments)
