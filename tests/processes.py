"""Processes that a test starts, seen from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SCRIPTS = TESTS.parent / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}


def start_roles(
    folder: Path, role: str, count: int, *more: str, environment=ENVIRONMENT, scripts: Path = SCRIPTS
) -> subprocess.Popen:
    """Start so many processes of a role, with its roster `<role>s.json` and its logs in the folder."""
    line = [sys.executable, scripts / "roles.py", role, "--count", count, "--roster", folder / f"{role}s.json"]
    return subprocess.Popen([*map(str, line), "--log", str(folder / f"{role}s.log"), *more], env=environment)


def end(process: subprocess.Popen) -> int:
    """Ask a process to end; its exit code."""
    process.terminate()
    return process.wait(10)


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
