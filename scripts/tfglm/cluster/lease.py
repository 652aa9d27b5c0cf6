"""The chief's sign of life, by which the roles know that somebody still needs them.

Snakemake ends the roles when the chief has ended. But a chief that never comes, because Snakemake gave up before it or its node
is gone, would leave them waiting for ever, and Snakemake for them. So the chief touches a file from its start on, and who no
longer sees that ends. Touching needs no room on a disk that is full.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

PERIOD = 5.0
"""Seconds from one sign to the next."""

TERM = 120.0
"""Seconds without one after which the chief is held to be gone: longer than a shared file system or an import may take."""


def keep(path: Path) -> None:
    """Touch the file at `path` as long as this process lives."""

    def run() -> None:
        while True:
            with contextlib.suppress(OSError):
                path.touch()
            time.sleep(PERIOD)

    path.parent.mkdir(parents=True, exist_ok=True)
    threading.Thread(target=run, name="lease", daemon=True).start()


class Lease:
    """The same file, seen by a role that waits `patience` seconds for a first sign."""

    def __init__(self, path: Path, patience: float) -> None:
        self.path, self.patience = path, patience
        # What is there now may be of an earlier chief.
        self._seen, self._since, self._came = self._stamp(), time.monotonic(), False

    def expired(self) -> str:
        """Why nobody needs this role any more, or ''. Differences count, as the clocks of two nodes may differ."""
        stamp, now = self._stamp(), time.monotonic()
        if stamp != self._seen:
            self._seen, self._since, self._came = stamp, now, True
        if self._came and now - self._since > TERM:
            return f"the chief has given no sign for {TERM:.0f} s, so this role ends; its log may say why"
        if not self._came and now - self._since > self.patience:
            return f"no chief has started within {self.patience:.0f} s, so this role ends; what Snakemake said before tells why"
        return ""

    def _stamp(self) -> int:
        # Opened, because a network file system asks the server then, and may answer a mere stat from memory.
        try:
            with self.path.open("rb") as file:
                return os.fstat(file.fileno()).st_mtime_ns
        except OSError:
            return 0
