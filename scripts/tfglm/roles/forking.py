"""One import for all processes of a role on a machine: the first process imports what they need, and the others are forked
from it.

The import takes up to 1.5 s of a processor, and the forked processes share the memory of the imported modules. The first
process forks while it has a single thread. TensorFlow then computes nothing yet, and has drawn no random number, which
determines the identity of a server.

A forked process becomes a child of `roles.py`, like the first one: if the parent of a process ends, the nearest ancestor
that asks for such processes adopts it. So each process is watched and ended individually, and none needs the first process
any more.

Only the standard library: this runs before TensorFlow is imported.
"""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tfglm.roles import ending

PR_SET_CHILD_SUBREAPER = 36
"""The request to prctl(2) to become the parent of descendants whose parent has ended."""


def fork(lines: Sequence[Sequence[str]], parent: int, tell: int) -> Sequence[str] | None:
    """Fork a process for each of these command lines, which lack the interpreter and the script. Returns the command line in
    each forked process, and None in this process.

    As soon as a forked process is a child of `parent`, which has started this one and called `adopt`, it writes the position
    of its line and its process id to the descriptor `tell`, and closes it. The end of the file tells the reader that no more
    will come. If this process has several threads already, none comes.
    """
    try:
        if len(list(Path("/proc/self/task").iterdir())) == 1:
            gc.freeze()
            for place, line in enumerate(lines):
                if _forked(parent):
                    os.write(tell, f"{place} {os.getpid()}\n".encode())
                    show(line)
                    return line
    except OSError as error:
        # The first process cannot fork: memory or process numbers are exhausted. The other processes are then started
        # individually, and report it.
        print(f"cannot fork: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os.close(tell)
    # Show the command line without those of the other processes, which come last.
    show(sys.argv[1 : sys.argv.index("--fork")])
    return None


def _forked(parent: int) -> bool:
    """Fork an intermediate process and the wanted process, and end the intermediate one. Returns whether this is the wanted
    process."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    between = os.getpid()
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    while os.getppid() == between:
        time.sleep(0.001)
    ending.kill_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    return True


def show(line: Sequence[str]) -> None:
    """Show this command line of the running script in `ps` and `top`. It overwrites the command line of the first process
    in memory, from `arg_start` to `arg_end` (proc(5), /proc/PID/stat)."""
    start, end = map(int, Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[45:47])
    text = b"\0".join(map(os.fsencode, [sys.executable, sys.argv[0], *line]))
    if len(text) < end - start:
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def adopt() -> None:
    """Become the parent of processes that are forked by children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


class Adopted:
    """A process that was forked so, as its parent sees it: the part of `subprocess.Popen` that is used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float = float("inf")) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        # Until it is waited for, nobody else has its id.
        if self.poll() is None:
            os.kill(self.pid, number)


class Arriving:
    """The ids of processes that are being forked."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._text = ""

    def look(self) -> list[tuple[int, int]] | None:
        """(place, id) of those that have come since the last look; None once no more will."""
        try:
            read = os.read(self._reading, 4096)
        except BlockingIOError:
            return []
        if not read:
            os.close(self._reading)
            return None
        *lines, self._text = (self._text + read.decode()).split("\n")
        return [(int(place), int(pid)) for place, pid in map(str.split, lines)]
