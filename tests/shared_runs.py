"""Folders that are costly to fill and that several files of tests begin with."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def filled_once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """A folder that is filled once, by whichever process of the tests asks first; the others wait. Tests work on copies of it."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # a process of pytest-xdist has a folder of its own in that of the run
    folder, complete = shared / name, shared / f"{name}.complete"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a process that failed has left
            folder.mkdir()
            fill(folder)
            complete.touch()
    return folder
