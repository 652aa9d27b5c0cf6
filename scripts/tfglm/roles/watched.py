"""The chief's side of its watchdog."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfglm import command
from tfglm.roles import ending, page
from tfglm.roles.announce import Announcement
from tfglm.roles.watchdog import Settings

SCRIPT = Path(__file__).parents[2] / "watchdog.py"


class Watched:
    """Has a watchdog look after this process, the chief: see `watchdog.Settings` for what it is told, but for descriptors and
    ids, which are known here.

    Made in the main thread, and early: signs of life begin with it. A chief whose watchdog ends, ends.
    """

    def __init__(self, **settings: Any) -> None:
        descriptor = page.make()
        self._page = page.Page(descriptor)
        terminal = command.terminal.fileno()
        told = Settings(chief=os.getpid(), page=descriptor, terminal=terminal, **settings)
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, told.text()],
            stdin=subprocess.PIPE,
            pass_fds=(descriptor, terminal),
            preexec_fn=ending.kill_with_parent,
        )
        os.close(descriptor)
        threading.Thread(target=self._end_with_it, name="watched", daemon=True).start()

    def _end_with_it(self) -> None:
        code = self._process.wait()
        ending.leave(1, lambda: command.say(f"error: the watchdog of this process has ended, with code {code}"))

    def over(self, members: Sequence[Announcement]) -> None:
        """From now on have it look after these, too."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([asdict(member) for member in members]).encode() + b"\n")
        self._process.stdin.flush()

    def workers_alive(self) -> int:
        """How many workers have answered last."""
        return self._page.workers_alive

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Each call that may wait for the cluster is made inside this."""
        self._page.begin()
        try:
            yield
        finally:
            self._page.end()
