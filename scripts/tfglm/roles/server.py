"""One TensorFlow server process, a ps or a worker, from its first announcement to its end.

A TensorFlow server (the chief has one too) listens on all interfaces, whatever host is announced, and speaks
unauthenticated gRPC. Whoever reaches its port can read and write the files of its user. On one machine `network` isolates
it.
"""

import argparse
import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tfglm import command, tensorflow_setup
from tfglm.roles import announce, beside, cards, ending, forking
from tfglm.roles.announce import Announcement, Role


def _end(reason: str) -> NoReturn:
    """End now: a TensorFlow server cannot be shut down, and the interpreter's own way out waits for its threads."""
    ending.leave(0, lambda: command.log(f"ending: {reason}"))


def begin(
    role: Role, parser: argparse.ArgumentParser, given: argparse.Namespace, load: Callable[[], object]
) -> Announcement:
    """Announce that this process starts, and load what the role needs, for this process and for the processes that are then
    forked from it. It returns in each of them, with the command line of the process in `given`.

    With a `parent`, the process ends within a second of the parent's end from then on. Until then the kernel ensures it, if
    `roles.py` started the process.
    """
    announcement = _starting(role, given)
    load()
    lines, given.fork = given.fork, []
    if lines and (line := forking.fork(lines, given.parent, given.tell)) is not None:
        vars(given).update(vars(parser.parse_args(line)))
        if given.log:
            command.write_to(given.log)
        announcement = _starting(role, given)
    if given.parent:
        ending.end_with_parent(given.parent)
        beside.kill_when_frozen(given.parent)
    return announcement


def _starting(role: Role, given: argparse.Namespace) -> Announcement:
    log = str(given.log.resolve()) if given.log else ""
    announcement = Announcement(role, given.index, given.run, "starting", log=log)
    # A restarted role must come back to its port; should it die again before it listens, this still tells which.
    announce.write(given.announce, replace(announcement, address=f"{given.host}:{given.port}" if given.port else ""))
    command.log(f"{announcement.name} starting on {announcement.node}, pid {announcement.pid}")
    return announcement


def serve(
    role: Role,
    parser: argparse.ArgumentParser,
    given: argparse.Namespace,
    load: Callable[[], object],
    prepare: Callable[[Path], object],
) -> NoReturn:
    """Serve as a task of `role` until SIGTERM, SIGINT or SIGUSR1 (which srun passes on), then exit with 0."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: _end(signal.Signals(number).name))
    begun = time.monotonic()

    def load_all() -> None:
        with tensorflow_setup.quiet(gpus=given.gpus > 0):
            # For it serves in C++: what it needs takes 0.4 s of a processor to import, and all of TensorFlow 1.5 s.
            tensorflow_setup.in_parts()
            from tensorflow.python.training import server_lib  # noqa: F401

            load()

    announcement = begin(role, parser, given, load_all)
    from tensorflow.core.protobuf.config_pb2 import ConfigProto, GPUOptions
    from tensorflow.python.training.server_lib import Server  # tf.distribute.Server

    prepare(given.announce.parent)
    if found := cards.take(given.gpus, f"{announcement.name}: --gpus"):
        command.log(f"{announcement.name} has the GPUs {', '.join(found)}")
    # Kept in a variable: the server dies with the object.
    server = Server(
        {role: {given.index: f"{given.host}:{given.port}"}},
        job_name=role,
        task_index=given.index,
        protocol="grpc",
        config=ConfigProto(**tensorflow_setup.THREADS, gpu_options=GPUOptions(allow_growth=True)),
    )
    address = server.target.removeprefix("grpc://")
    announce.write(given.announce, replace(announcement, state="listening", address=address))
    command.log(f"{announcement.name} listening at {address} after {time.monotonic() - begun:.1f} s")

    # Not server.join(): it never returns, and Python's signal handlers never run beneath it.
    while True:
        time.sleep(0.5)


EXAMPLE = """
To start a cluster by hand, in a folder that all machines share: `ps.py --index 0 --announce run/ps-0.json --host
ADDRESS` on the first, `worker.py --index 0 --announce run/worker-0.json --host ADDRESS` on the second, `--index 1` and
`run/worker-1.json` on the third, where ADDRESS is that machine's own; then give these files to the chief.
The ports, the chief's too, are open to whoever reaches the machine, and let him read and write your files: use a private network.
"""


def parser(description: str) -> argparse.ArgumentParser:
    """The command line that ps.py and worker.py share."""
    parser = command.parser(description)
    parser.epilog = EXAMPLE
    parser.add_argument("--index", type=int, required=True, help="number among the processes of this role, from 0")
    parser.add_file("--announce", "file for the announcement of this process to the chief")
    parser.add_argument("--run", default="by-hand", help="id of this start of the cluster")
    parser.add_argument("--host", default="127.0.0.1", help="name or number at which the others reach this machine")
    parser.add_argument("--port", type=int, default=0, help="port to listen at, 0 for a free one")
    parser.add_argument("--parent", type=int, help="id of the process that starts this process; the two end together")
    parser.add_argument("--gpus", type=int, default=0, help="how many GPUs a worker computes on, and no other process")
    parser.add_argument(
        "--fork", type=json.loads, default=[], help="set by roles.py: command lines of the processes to fork, as JSON"
    )
    parser.add_argument("--tell", type=int, help="set by roles.py: the descriptor for the ids of forked processes")
    return parser


def start(
    role: Role,
    description: str,
    load: Callable[[], object] = lambda: None,
    prepare: Callable[[Path], object] = lambda folder: None,
) -> None:
    """Run ps.py or worker.py. `load` is called once for this process and the processes forked from it: it loads modules that
    start no thread. `prepare` gets the folder of the announcement before the process listens."""
    arguments = parser(description).parse_args()
    tensorflow_setup.set_environment()
    command.run(lambda given: serve(role, parser(description), given, load, prepare), arguments)
