"""Find processes of a fit that are frozen, or that will never come, before the chief has its watchdog. From then on the
chief and its roles see each other's signs of life.

A start may be slow: a disk, a conda environment, many imports on few processors. So this module uses no timeout. The kernel
shows which processes are stopped, and which processes Snakemake has started. Snakemake starts the jobs of a fit together;
the chief comes last, once the rosters of the others exist, or never.

Only the standard library: this runs before TensorFlow is imported.
"""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from tfglm import command
from tfglm.roles.lease import TERM, Silence

STOPPED = 30.0
"""Seconds after which a process that is stopped is killed: whoever waits for its end would wait for ever."""

PERIOD = 1.0
"""Seconds between two looks at what Snakemake has started."""


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or the like (proc(5), /proc/PID/stat)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


class Frozen:
    """Return the processes that have been stopped for so many `seconds`, by default STOPPED."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds, self._silences = seconds or STOPPED, dict[int, Silence]()

    def among(self, pids: Iterable[int]) -> list[int]:
        """Look at these processes again. Call this often."""
        self._silences = {pid: self._silences.get(pid) or Silence() for pid in pids}
        sign = {pid: "stopped" if is_stopped(pid) else object() for pid in self._silences}
        return [pid for pid, silence in self._silences.items() if silence.seconds(sign[pid]) >= self._seconds]


def kill_when_frozen(starter: int, seconds: float = TERM + STOPPED) -> None:
    """From now on, kill the process that started this one, and so this one, when it has been stopped for so many seconds.
    Snakemake would wait for it without end. While the chief works, its watchdog is faster, and says more."""

    def watch() -> None:
        frozen = Frozen(seconds)
        while not frozen.among([starter]):
            time.sleep(PERIOD)
        command.log(f"ending: the parent process has been stopped for {seconds:.0f} s; it is killed")
        os.kill(starter, signal.SIGKILL)

    threading.Thread(target=watch, name="kill_when_frozen", daemon=True).start()


class Beside:
    """The processes that the parent of this process, such as Snakemake, has started for the same chief. They have the path
    of the chief's lease on their command line. `within` are the seconds from now within which the parent starts the chief or
    gives it up."""

    def __init__(self, parent: int, lease: Path, within: float) -> None:
        self._parent, self._within = parent, within
        self._lease = re.compile(rb"(^|[\0 ])%s([\0 ]|$)" % re.escape(os.fsencode(lease)))
        self._began, self._next, self._frozen = time.monotonic(), 0.0, Frozen()

    def trouble(self) -> str:
        """Return why no chief will come, or ''. Kills frozen processes. Call this often, until the chief has given a sign."""
        now = time.monotonic()
        if now < self._next:
            return ""
        self._next = now + PERIOD
        lines = self._lines()
        if os.getpid() not in lines:
            return ""  # the kernel, or a way to start this process that is not known here, hides them
        for pid in self._frozen.among(lines):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reason = f"{script_in(lines[pid])} (pid {pid}) has been stopped for {STOPPED:.0f} s, by SIGSTOP or the like"
            command.say(f"error: {reason}; it is killed")
            return reason
        if now - self._began > self._within and all(script_in(line) == "roles.py" for line in lines.values()):
            return (
                f"no chief has been started within {self._within:.0f} s, as one of the processes that work for it has not begun; "
                "Snakemake's messages say which"
            )
        return ""

    def _lines(self) -> dict[int, bytes]:
        """Their command lines, by their ids."""
        lines = {}
        for children in Path(f"/proc/{self._parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for pid in map(int, children.read_text(encoding="utf-8").split()):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if self._lease.search(line):
                        lines[pid] = line
        return lines


def script_in(line: bytes) -> str:
    """Return the script that a command line finally runs: the second one for a shell's `isolate.py ... chief.py ...`."""
    scripts = re.findall(rb"(?:^|[\0 /\"])(\w+\.py)(?=[\0 \"]|$)", line.partition(b"--lease")[0])
    return scripts[-1].decode() if scripts else "a process"
