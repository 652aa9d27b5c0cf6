"""What is frozen or never comes before the chief has its watchdog is noticed, and what is slow is waited for: real processes,
with a stand-in for TensorFlow."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from processes import ENVIRONMENT, SCRIPTS, alive, end, stand_in_for_tensorflow, wait_until
from tfglm import command
from tfglm.errors import UserError
from tfglm.roles import announce

HASTY = """
import runpy, sys
from tfglm.roles import beside
beside.STOPPED = 1.0
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that gives up what is stopped for a second."""


@contextmanager
def roles(folder: Path, role: str, count: int, *more: object) -> Iterator[subprocess.Popen]:
    """So many processes of a role, whose import of TensorFlow takes 3 s: longer than one may be stopped."""
    server = stand_in_for_tensorflow(folder / "stand_in")
    server.write_text(f"import time\ntime.sleep(3)\n{server.read_text()}")
    line = [sys.executable, "-c", HASTY, SCRIPTS / "roles.py", role, "--count", count]
    line += ["--roster", folder / "roster.json", "--log", folder / "roles.log", "--parent", os.getpid(), *more]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{folder / 'stand_in'}:{SCRIPTS}"}
    running = subprocess.Popen(list(map(str, line)), env=environment)
    try:
        yield running
    finally:
        end(running)


def starting(folder: Path, index: int) -> announce.Announcement:
    announced: list[announce.Announcement] = []

    def found() -> bool:
        announced[:] = [each for each in [announce.read(folder / f"roster-{index}.json")] if each]
        return bool(announced)

    wait_until(found, 20, "the first word of a process")
    return announced[0]


def test_a_process_that_is_frozen_before_it_listens_is_started_again(tmp_path: Path) -> None:
    with roles(tmp_path, "worker", 2):
        first = starting(tmp_path, 0)
        os.kill(first.pid, signal.SIGSTOP)
        members = announce.gather([tmp_path / "roster.json"], 40, command.log)
        assert first.pid not in {each.pid for each in members} and not alive(first.pid)
        log = (tmp_path / "roles.log").read_text()
        assert f"worker 0 (pid {first.pid}) has been stopped for 1 s" in log
        assert log.count("restarting it") == 1  # nobody who was only slow


def test_a_peer_that_is_frozen_before_it_listens_ends_the_run(tmp_path: Path) -> None:
    """The others cannot continue with a new one."""
    with roles(tmp_path, "peer", 2, "--restarts", 0) as running:
        os.kill(starting(tmp_path, 0).pid, signal.SIGSTOP)
        assert running.wait(20) == 1
    with pytest.raises(UserError, match=r"peer 0 .* was killed by SIGKILL"):
        announce.gather([tmp_path / "roster.json"], 0, command.log)


def test_who_listens_is_left_to_the_chief(tmp_path: Path) -> None:
    with roles(tmp_path, "worker", 1) as running:
        (member,) = announce.gather([tmp_path / "roster.json"], 40, command.log)
        os.kill(member.pid, signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(3)
        assert alive(member.pid)


def chief(lease: Path) -> subprocess.Popen:
    """What Snakemake starts, of which a shell or an import takes its time."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "chief.py", "--lease", str(lease)])


def test_roles_end_if_their_parent_has_started_no_chief(tmp_path: Path) -> None:
    lease = tmp_path / "chief.lease"
    other = chief(tmp_path / "of another model" / "chief.lease")
    with roles(tmp_path, "ps", 1, "--lease", lease, "--within", 4) as running:
        assert running.wait(20) == 1
    other.kill()
    other.wait()
    with pytest.raises(
        UserError, match="no chief has been started within 4 s, as one of the processes that work for it"
    ):
        announce.gather([tmp_path / "roster.json"], 0, command.log)


def test_a_chief_that_is_slow_is_waited_for_and_one_that_is_frozen_is_not(tmp_path: Path) -> None:
    lease = tmp_path / "chief.lease"
    slow = chief(lease)
    with roles(tmp_path, "ps", 1, "--lease", lease, "--within", 2) as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(6)
        slow.send_signal(signal.SIGSTOP)
        assert slow.wait(10) == -signal.SIGKILL
        assert running.wait(10) == 1
    with pytest.raises(UserError, match=rf"chief.py \(pid {slow.pid}\) has been stopped for 1 s"):
        announce.gather([tmp_path / "roster.json"], 0, command.log)
