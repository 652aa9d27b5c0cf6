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
from tfglm.roles import ending, watchdog
from tfglm.roles.announce import Announcement

SCRIPTS = Path(__file__).parents[2]
"""The folder that has the package `tfglm`."""


class Watched:
    """Starts a watchdog for this process, the chief. See `watchdog.Settings` for its settings; descriptors and ids are
    filled in here.

    Create it in the main thread, and early: signs of life begin with it. If its watchdog ends, the chief ends.
    """

    def __init__(self, **settings: Any) -> None:
        descriptor = watchdog.Page.make()
        self._page = watchdog.Page(descriptor)
        terminal = command.terminal.fileno()
        told = watchdog.Settings(chief=os.getpid(), page=descriptor, terminal=terminal, **settings)
        self._process = subprocess.Popen(
            [sys.executable, "-P", watchdog.__file__, told.text()],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            pass_fds=(descriptor, terminal),
            preexec_fn=ending.kill_with_parent,
        )
        os.close(descriptor)

        def end_with_it() -> None:
            code = self._process.wait()
            ending.leave(1, lambda: command.say(f"error: the watchdog of this process has ended, with code {code}"))

        threading.Thread(target=end_with_it, name="watched", daemon=True).start()

    def over(self, members: Sequence[Announcement]) -> None:
        """Let the watchdog watch these members too."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([asdict(member) for member in members]).encode() + b"\n")
        self._process.stdin.flush()

    def workers_alive(self) -> int:
        """The number of workers that answered last."""
        return self._page.workers_alive

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A context for each call that may wait for the cluster."""
        self._page.begin()
        try:
            yield
        finally:
            self._page.end()
