"""Links of the throw-away SLURM that are as slow as real ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import link_rates
import slurm_cluster

MEGABYTES = 20
# Prints the seconds from the first byte to the last one, the receiver's word that all has come.
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5001)) as other:
    other.sendall(bytes(1 << 20))  # what may pass at once is gone
    began = time.monotonic()
    for _ in range(int(sys.argv[2])):
        other.sendall(bytes(1_000_000))
    other.shutdown(socket.SHUT_WR)
    other.recv(1)
    print(time.monotonic() - began)
"""
RECEIVE = """
import socket
with socket.create_server(("0.0.0.0", 5001)) as server:
    print("listening", flush=True)
    other, _ = server.accept()
    while other.recv(1 << 20):
        pass
    other.send(b".")
"""


@pytest.fixture
def two_nodes() -> Iterator[list[tuple[str, str, str]]]:
    """Namespace, cable and address of each of two nodes that hang on one bridge."""
    if lacking := slurm_cluster.missing():
        (pytest.fail if os.environ.get("TFGLM_REQUIRE_SLURM") == "1" else pytest.skip)(lacking)
    bridge, network = f"tl{os.getpid()}", f"10.78.{os.getpid() % 250}"
    nodes = [(f"{bridge}-{number}", f"{bridge}v{number}", f"{network}.{number}") for number in (1, 2)]
    with ExitStack() as stack:
        slurm_cluster.run("ip", "link", "add", bridge, "type", "bridge")
        stack.callback(slurm_cluster.run, "ip", "link", "delete", bridge)
        slurm_cluster.run("ip", "link", "set", bridge, "up")
        for name, cable, address in nodes:
            stack.enter_context(slurm_cluster.namespace(name, address, bridge, cable))
        yield nodes


def gigabits(sender: str, receiver: str, address: str) -> float:
    """The rate of one TCP stream between two namespaces, in Gbit/s."""
    there = ["nsenter", f"--net=/run/netns/{receiver}", sys.executable, "-c", RECEIVE]
    here = ["nsenter", f"--net=/run/netns/{sender}", sys.executable, "-c", SEND, address, str(MEGABYTES)]
    with subprocess.Popen(there, stdout=subprocess.PIPE, text=True) as receiving:
        assert receiving.stdout and receiving.stdout.readline()
        seconds = float(subprocess.run(here, check=True, capture_output=True, text=True, timeout=60).stdout)
    return MEGABYTES * 8e-3 / seconds


def test_a_stream_gets_the_rate_of_the_slower_end_either_way(two_nodes: list[tuple[str, str, str]]):
    (one, cable, address), (other, other_cable, other_address) = two_nodes
    link_rates.shape(one, cable, 0.5)
    link_rates.shape(other, other_cable, 4)
    # Of what is sent a twentieth is headers and waiting; on a busy machine more is lost, but never won.
    assert 0.2 < gigabits(one, other, other_address) < 0.51
    assert 0.2 < gigabits(other, one, address) < 0.51
    link_rates.shape(one, cable, None)
    link_rates.shape(other, other_cable, None)
    assert gigabits(one, other, other_address) > 0.6
