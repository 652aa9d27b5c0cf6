"""A full disk and a busy terminal: processes end all the same, and work goes on without a log."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from chiefs import chief, wait_for_children
from processes import ENVIRONMENT, SCRIPTS, alive, stand_in_for_tensorflow, wait_until
from tfglm import bundle, digests
from tfglm.errors import UserError
from tfglm.roles import announce
from tfglm.roles.announce import Announcement


def full(path: Path) -> Path:
    """A log that accepts no byte."""
    path.symlink_to("/dev/full")
    return path


def full_pipe() -> tuple[int, int]:
    """A pipe that nobody reads, and that is full."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, bytes(4096))
    return reading, writing


@pytest.mark.parametrize("work", ["time.sleep(60)", "hold(60)"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_chief_ends_at_a_signal_whatever_it_does_and_its_log_is(tmp_path: Path, work: str, number: int) -> None:
    there = tmp_path / "there"
    reading, writing = full_pipe()
    more = ("--log", str(full(tmp_path / "log")))
    with chief(f"Path({str(there)!r}).touch(); {work}", *more, stderr=writing) as running:
        wait_until(there.exists, 20, "the chief")
        running.send_signal(number)
        assert running.wait(2) == -number
    for end in (reading, writing):
        os.close(end)


def test_the_watchdog_ends_the_chief_whatever_log_and_terminal_do(tmp_path: Path) -> None:
    reading, writing = full_pipe()
    more = ("--log", str(full(tmp_path / "log")))
    with chief("watched.over([gone]); time.sleep(60)", *more, stderr=writing, grace=1.0) as running:
        (dog,) = wait_for_children(running.pid)
        assert running.wait(20) == -signal.SIGKILL
        wait_until(lambda: not alive(dog), 5, "the end of the watchdog")
    for end in (reading, writing):
        os.close(end)


def test_a_full_disk_costs_the_log_and_not_the_work(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    more = ("--log", str(full(tmp_path / "log")))
    with chief("[command.say(f'step {i}') for i in range(3)]", *more, stderr=writing) as running:
        assert running.wait(20) == 0
    os.close(writing)
    with os.fdopen(reading) as terminal:
        text = terminal.read()
    assert text.splitlines() == [
        "warning: the log cannot be written, so lines are missing from it: No space left on device",
        *(f"step {i}" for i in range(3)),
    ]


def test_a_full_disk_at_any_other_write_is_told_with_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with chief("Path('/dev/full').write_text('x' * 9999)", "--log", str(log)) as running:
        assert running.wait(20) == 1
    text = log.read_text()
    assert "error: a file could not be written: No space left on device (" in text and "Traceback" not in text
    assert "MB are free on the disk at /" in text and "repeat the command to continue" in text


def test_a_full_disk_at_the_checkpoint_is_told_with_the_bytes_that_it_takes(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    values = {"x": np.arange(1e6)}
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        with pytest.raises(UserError) as error:
            bundle.write(values, tmp_path / "checkpoint" / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    text = str(error.value)
    assert (
        text.startswith(f"{tmp_path / 'checkpoint'}: File too large (")
        and ", and 8.0 MB are needed)" in text
        and "free some space" in text
    )
    bundle.write(values, tmp_path / "checkpoint" / "model")


def test_a_full_disk_at_a_json_file_is_told_with_its_name(tmp_path: Path) -> None:
    full(tmp_path / f"rows.json.{os.getpid()}.partial")
    with pytest.raises(UserError) as error:
        digests.write_json(tmp_path / "rows.json", {"read": 1})
    assert str(error.value).startswith(f"{tmp_path / 'rows.json'}: No space left on device (")


PAGE = """
from tfglm import command
from pathlib import Path
parser = command.parser("")
parser.add_argument("--page", type=Path)
command.run(lambda arguments: arguments.page.write_text("x" * 99_999), parser.parse_args())
"""


def test_the_disk_that_is_full_is_named(tmp_path: Path) -> None:
    """Not that of the log: an error of writing does not say which file it is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mount = f"mount -t tmpfs -o size=64k none {disk}"
    if subprocess.run([*own, mount], capture_output=True).returncode:
        pytest.skip("no disk of one's own can be mounted here")
    line = [sys.executable, "-c", PAGE, "--log", tmp_path / "log", "--page", disk / "page.html"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(
        [*own, f'{mount} && exec "$@"', "sh", *map(str, line)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert (
        f"error: a file could not be written: No space left on device (0.0 MB are free on the disk at {disk})"
        in done.stderr
    )


def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with chief("pass", "--log", str(tmp_path), stderr=writing) as running:
        assert running.wait(20) == 1
    os.close(writing)
    with os.fdopen(reading) as terminal:
        assert terminal.read() == f"error: the log {tmp_path} cannot be opened: Is a directory\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_roles_end_although_their_logs_are_full(tmp_path: Path, number: int) -> None:
    stand_in_for_tensorflow(tmp_path)
    path = tmp_path / "pss.json"
    for name in ("pss.log", "pss-0.log", "pss-0.restart1.log"):
        full(tmp_path / name)
    line = [sys.executable, SCRIPTS / "roles.py", "ps", "--count", "1", "--roster", path, "--log", tmp_path / "pss.log"]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{SCRIPTS}"}
    reading, writing = full_pipe()
    roles = subprocess.Popen(list(map(str, line)), env=environment, stderr=writing)

    def listening() -> Announcement | None:
        announced = announce.read(tmp_path / "pss-0.json")
        return announced if isinstance(announced, Announcement) and announced.state == "listening" else None

    try:
        wait_until(listening, 20, "the ps")
        (first := listening()) and os.kill(first.pid, signal.SIGTERM)
        wait_until(lambda: (announced := listening()) and announced.pid != first.pid, 20, "its restart")
        second = listening()
        begin = time.monotonic()
        roles.send_signal(number)
        assert roles.wait(10) == 0 and time.monotonic() - begin < 5
        assert not alive(second.pid)
    finally:
        roles.kill()
        roles.wait()
        for end in (reading, writing):
            os.close(end)
