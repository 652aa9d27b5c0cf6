"""One TensorFlow server process, a ps or a worker, from its first announcement to its end.

A TensorFlow server, and the chief has one too, listens on all interfaces, whatever host is announced, and speaks unauthenticated
gRPC: whoever reaches its port can read and write the files of its user. On one machine `network` keeps others away.
"""

import argparse
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tfglm import command, tensorflow_setup
from tfglm.roles import announce, ending
from tfglm.roles.announce import Announcement, Role


def _end(reason: str) -> NoReturn:
    """End now: a TensorFlow server cannot be shut down, and the interpreter's own way out waits for its threads."""
    ending.leave(0, lambda: command.log(f"ending: {reason}"))


def serve(
    role: Role,
    index: int,
    announcement_path: Path,
    run: str,
    host: str,
    port: int,
    parent: int | None,
    log: Path | None = None,
    prepare: Callable[[Path], None] = lambda folder: None,
) -> NoReturn:
    """Serve as task `index` of `role` until SIGTERM, SIGINT or SIGUSR1 (the one that srun passes on), then exit with 0.

    `host` is the name or number by which the others reach this machine; port 0 takes a free one. With a `parent`,
    it also ends within a second of its parent's end. It calls `prepare` with the folder of its announcement before it listens.
    """
    if parent:
        ending.end_with_parent(parent)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: _end(signal.Signals(number).name))

    announcement = Announcement(role, index, run, "starting", log=str(log.resolve()) if log else "")
    # A restarted role must come back to its port; should it die again before it listens, this still tells which.
    announce.write(announcement_path, replace(announcement, address=f"{host}:{port}" if port else ""))
    command.log(f"{announcement.name} starting on {announcement.node}, pid {announcement.pid}")

    begin = time.monotonic()
    with tensorflow_setup.quiet():
        import tensorflow as tf
    prepare(announcement_path.parent)
    # Kept in a variable: the server dies with the object.
    server = tf.distribute.Server(
        {role: {index: f"{host}:{port}"}},
        job_name=role,
        task_index=index,
        protocol="grpc",
        config=tensorflow_setup.limit_threads(),
    )
    address = server.target.removeprefix("grpc://")
    announce.write(announcement_path, replace(announcement, state="listening", address=address))
    command.log(f"{announcement.name} listening at {address} after {time.monotonic() - begin:.1f} s")

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
    parser.add_argument("--announce", type=Path, required=True, help="file in which to announce itself to the chief")
    parser.add_argument("--run", default="by-hand", help="id of this start of the cluster")
    parser.add_argument("--host", default="127.0.0.1", help="name or number by which the others reach this machine")
    parser.add_argument("--port", type=int, default=0, help="port to listen at, 0 for a free one")
    parser.add_argument("--parent", type=int, help="id of the process that starts this one, which ends with it")
    return parser


def start(role: Role, description: str, prepare: Callable[[Path], None] = lambda folder: None) -> None:
    """What ps.py and worker.py do; `prepare` is called with the folder of the announcement before the process listens."""
    arguments = parser(description).parse_args()
    tensorflow_setup.set_environment()
    command.run(
        lambda given: serve(
            role,
            given.index,
            given.announce,
            given.run,
            given.host,
            given.port,
            given.parent,
            given.log,
            prepare,
        ),
        arguments,
    )
