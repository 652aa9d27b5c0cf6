"""The progress of a fit, in a small file that is replaced as a whole: for people who wait, and for processes that watch the
fit."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfglm import digests


class Progress:
    """Facts about a fit, as JSON in `path`; without a path they are not written.

    `state` is `waiting for the cluster`, `fitting`, `finished` or `failed`; `passes` are the sums over the data so far, of
    which `passes_recalled` come from the journal of an earlier run; `seconds_left` is an estimate. `workers_alive` is
    called at each writing.
    """

    def __init__(self, path: Path | None, model: str) -> None:
        self._path, self._began = path, time.monotonic()
        self._fitting = self._began
        self._facts: dict[str, Any] = {"model": model, "state": "starting", "passes": 0, "passes_recalled": 0}
        self.workers_alive: Callable[[], int] = lambda: 0

    def update(self, **facts: Any) -> None:
        """Set these facts and write all. A failed write is no reason to stop."""
        self._facts |= facts
        if self._path is None:
            return
        content = self._facts | {
            "workers_alive": self.workers_alive(),
            "seconds": round(time.monotonic() - self._began, 1),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
        }
        _write(self._path, content)

    def fitting(self) -> None:
        """The cluster is complete."""
        self._fitting = time.monotonic()
        self.update(state="fitting")

    def passed(self, recalled: bool, seconds: float, rows: int) -> None:
        """One more sum over the data is there."""
        speed = {} if recalled or not seconds else {"rows_a_second": round(rows / seconds)}
        facts = self._facts
        self.update(passes=facts["passes"] + 1, passes_recalled=facts["passes_recalled"] + recalled, **speed)

    def advance(self, done: int, of: int) -> None:
        """So many of the iterations, epochs or penalties are done, of about so many."""
        seconds = time.monotonic() - self._fitting
        self.update(done=done, of=of, seconds_left=round(seconds * (of - done) / done, 1))


def failed(path: Path, reason: str) -> None:
    """Write the same file, if another process has ended the fit."""
    facts = json.loads(path.read_text(encoding="utf-8")) | {"state": "failed", "reason": reason}
    _write(path, facts)


def _write(path: Path, facts: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        digests.replace(path, json.dumps(facts, indent=1) + "\n")
