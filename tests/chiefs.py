"""A chief that a test has do something, with its watchdog."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from processes import ENVIRONMENT, wait_until
from tfglm.roles import watchdog

CHIEF = """
import ctypes, json, os, sys, time
from pathlib import Path
from tfglm import command
from tfglm.roles import ending
from tfglm.roles.announce import Announcement
from tfglm.roles.watched import Watched

def hold(seconds):
    # With Python's lock, which a PyDLL keeps, as LAPACK does and TensorFlow before a ps that is stopped.
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))

def work(arguments):
    watched = Watched(**json.loads(os.environ["SETTINGS"]))
    gone = Announcement("ps", 0, "now", "listening", "127.0.0.1:1", "n1", 7, "ps.log")
    {work}

if __name__ == "__main__":
    with ending.exit_at_once():
        command.run(work, command.parser("").parse_args())
"""


@contextlib.contextmanager
def chief(work: str, *more: str, stderr: int | None = None, **settings: object) -> Iterator[subprocess.Popen]:
    """A chief that does this, with these settings of its watchdog."""
    line = [sys.executable, "-c", CHIEF.replace("{work}", work), *more]
    environment = {**ENVIRONMENT, "SETTINGS": watchdog.json.dumps(settings)}
    running = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_children(pid: int) -> list[int]:
    wait_until(lambda: children(pid), 20, "the watchdog")
    return children(pid)
