"""Signs of life in a shared folder: one process touches a file from time to time, and others measure for how long it has
not changed.

The chief gives signs for its roles. Snakemake ends the roles when the chief has ended. But a chief may never come, because
Snakemake gave up before it or its node is gone; then the roles would wait for ever, and Snakemake for them. `roles.py`
gives signs for the chief, because nobody else would notice that it is gone. Touching a file needs no space on a full disk.
"""

import contextlib
import os
import time
from collections.abc import Hashable
from pathlib import Path

PERIOD = 5.0
"""Seconds from one sign to the next."""

TERM = 60.0
"""Seconds without a sign after which a process counts as gone. The process that gives signs computes nothing else, but a
busy or shared file system may be slow."""

LONGEST_STEP = 10.0
"""Seconds between two looks that are believed; what is longer, this process has spent frozen."""


class Silence:
    """For how long a sign has not changed, in seconds in which this process itself could look. So after Control-Z and `fg`,
    or after a suspended machine, no process counts as gone."""

    def __init__(self) -> None:
        self._sign: Hashable = None
        self._seconds, self._looked = 0.0, time.monotonic()

    def seconds(self, sign: Hashable) -> float:
        """Look at the sign now. Returns 0 if it has changed since the last look."""
        now = time.monotonic()
        self._seconds = self._seconds + min(now - self._looked, LONGEST_STEP) if sign == self._sign else 0.0
        self._sign, self._looked = sign, now
        return self._seconds


class Signs:
    """Signs that this process gives."""

    def __init__(self, path: Path, period: float = PERIOD) -> None:
        self._path, self._period, self._next = path, period, 0.0
        path.parent.mkdir(parents=True, exist_ok=True)

    def give(self) -> None:
        """Give one if it is time. Call this often."""
        if time.monotonic() >= self._next:
            with contextlib.suppress(OSError):
                self._path.touch()
            self._next = time.monotonic() + self._period


class Seen:
    """Signs of another process. Differences count, as the clocks of two nodes may differ."""

    def __init__(self, path: Path) -> None:
        self._path, self._silence = path, Silence()
        # An existing file may belong to an earlier process.
        self._first, self.came = self._stamp(), False
        self._silence.seconds(self._first)

    def silent_seconds(self) -> float:
        """Return the seconds since the last sign; since the start of this object, if no sign has come."""
        stamp = self._stamp()
        self.came = self.came or stamp != self._first
        return self._silence.seconds(stamp)

    def _stamp(self) -> int:
        # Opened, because a network file system asks the server then, and may answer a mere stat from memory.
        try:
            with self._path.open("rb") as file:
                return os.fstat(file.fileno()).st_mtime_ns
        except OSError:
            return 0


class Lease:
    """The chief's signs, seen by a role that waits `patience` seconds for the first."""

    def __init__(self, path: Path, patience: float, term: float = TERM) -> None:
        self.signs, self.patience, self.term = Seen(path), patience, term

    def expired(self) -> str:
        """Why nobody needs this role any more, or ''."""
        silent = self.signs.silent_seconds()
        if self.signs.came and silent > self.term:
            return (
                f"the chief has given no sign of life for {self.term:.0f} s, so this role ends; the chief's log "
                "may say why"
            )
        if not self.signs.came and silent > self.patience:
            return f"no chief has started within {self.patience:.0f} s, so this role ends; Snakemake's messages say why"
        return ""
