"""One TensorFlow server process, a ps or a worker, from its first announcement to its end.

A TensorFlow server listens on all interfaces, whatever host is announced, and speaks unauthenticated gRPC: whoever
reaches its port can run code in it. Keep the ports inside the cluster's own network.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tfglm import command
from tfglm.cluster import announce
from tfglm.cluster.announce import Announcement, Role

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""Environment that makes glibc keep what is freed instead of returning it to the kernel. Page faults are dear on
virtual machines: large temporaries, mapped and unmapped at every block, took 5 to 10 times as long without it. glibc
reads these before the program begins, so they must be set by whoever starts the process."""

NOISE = ("absl::InitializeLog() is called", "cudart_stub.cc")
"""What libtensorflow_framework says at every import without a GPU. It is said from static initialisers, before any
setting can be read: TF_CPP_MIN_LOG_LEVEL does not reach it (TensorFlow 2.21)."""


def keep_memory() -> None:
    """Start this program once more, in this process, with ALLOCATOR in its environment, unless it is there already."""
    if ALLOCATOR.items() - os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ALLOCATOR})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Import TensorFlow inside this, so that a log without errors holds nothing of it.

    `grep`, another process, does the filtering: what a crash during the import says still comes through.
    Set TF_CPP_MIN_LOG_LEVEL=0 yourself to hear everything later on.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules:
        yield
        return
    patterns = [word for noise in NOISE for word in ("-e", noise)]
    with subprocess.Popen(["grep", "-vF", "--line-buffered", *patterns], stdin=subprocess.PIPE, stdout=2) as grep:
        assert grep.stdin
        heard = os.dup(2)
        os.dup2(grep.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(heard, 2)
            os.close(heard)


def limit_threads() -> Any:
    """Give this process one thread an operation, two operations at a time; return the same as a ConfigProto.

    Parallelism comes from the number of workers. And the order in which several threads add is not determined, so a
    second one could change the last bits of a sum.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    return tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


def _end(reason: str) -> NoReturn:
    """End now: a TensorFlow server cannot be shut down, and the interpreter's own way out waits for its threads."""
    try:
        command.log(f"ending: {reason}")
    finally:
        os._exit(0)


def serve(
    role: Role,
    index: int,
    announcement_path: Path,
    run: str,
    host: str,
    port: int,
    die_with_parent: bool,
    log: Path | None = None,
) -> NoReturn:
    """Serve as task `index` of `role` until SIGTERM, SIGINT or SIGUSR1 (the one that srun passes on), then exit with 0.

    `host` is the name or number by which the others reach this machine; port 0 takes a free one. With `die_with_parent`
    it also ends within a second of its parent's end, but for the import, which is not interrupted.
    """
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: _end(signal.Signals(number).name))

    said = Announcement(role, index, run, "starting", log=str(log.resolve()) if log else "")
    # A restarted role must come back to its port; should it die again before it listens, this still tells which.
    announce.write(announcement_path, replace(said, address=f"{host}:{port}" if port else ""))
    command.log(f"{said.name} starting on {said.node}, pid {said.pid}")

    begin = time.monotonic()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with quiet():
        import tensorflow as tf
    # Kept in a variable: the server dies with the object.
    server = tf.distribute.Server(
        {role: {index: f"{host}:{port}"}}, job_name=role, task_index=index, protocol="grpc", config=limit_threads()
    )
    address = server.target.removeprefix("grpc://")
    announce.write(announcement_path, replace(said, state="listening", address=address))
    command.log(f"{said.name} listening at {address} after {time.monotonic() - begin:.1f} s")

    # Not server.join(): it never returns, and Python's signal handlers never run beneath it.
    while not die_with_parent or os.getppid() == parent:
        time.sleep(0.5)
    _end("the process that started this one is gone")


EXAMPLE = """
To start a cluster by hand, in a folder that all machines share: `ps.py --index 0 --announce run/ps-0.json --host
ADDRESS` on the first, `worker.py --index 0 --announce run/worker-0.json --host ADDRESS` on the second, `--index 1` and
`run/worker-1.json` on the third, where ADDRESS is that machine's own; then give these files to the chief.
The port is open to whoever reaches the machine, and lets him run code: use a private network.
"""


def parser(description: str) -> argparse.ArgumentParser:
    """The command line that ps.py and worker.py share."""
    made = command.parser(description)
    made.epilog = EXAMPLE
    made.add_argument("--index", type=int, required=True, help="number among the processes of this role, from 0")
    made.add_argument("--announce", type=Path, required=True, help="file in which to announce itself to the chief")
    made.add_argument("--run", default="by-hand", help="id of this start of the cluster")
    made.add_argument("--host", default="127.0.0.1", help="name or number by which the others reach this machine")
    made.add_argument("--port", type=int, default=0, help="port to listen at, 0 for a free one")
    made.add_argument("--die-with-parent", action="store_true", help="end when the process that started this one ends")
    return made


def start(role: Role, description: str) -> None:
    """What ps.py and worker.py do."""
    arguments = parser(description).parse_args()
    keep_memory()
    command.run(
        lambda given: serve(
            role,
            given.index,
            given.announce,
            given.run,
            given.host,
            given.port,
            given.die_with_parent,
            given.log,
        ),
        arguments,
    )
