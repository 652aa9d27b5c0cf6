"""What a script says where: in its log, on a terminal, into a pipe."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tfglm import command

pytestmark = pytest.mark.processes

SCRIPT = """
from tfglm import command
from tfglm.errors import UserError

def main(arguments):
    command.say("begins")
    command.live("iteration 1")
    command.live("iteration 2" + " and more" * 30)
    {ending}

command.run(main, command.parser("").parse_args())
"""


SCRIPTS = {"PYTHONPATH": str(Path(__file__).parents[2] / "scripts")}


def script(tmp_path: Path, ending: str) -> list[str]:
    """The command line of such a script."""
    return [sys.executable, "-c", SCRIPT.format(ending=ending), "--log", str(tmp_path / "log")]


def said(tmp_path: Path, ending: str, *, terminal: bool) -> tuple[str, list[str]]:
    """What such a script writes on its error stream, and the lines of its log without the time."""
    line = script(tmp_path, ending)
    reading, writing = pty.openpty() if terminal else os.pipe()
    if terminal:
        termios.tcsetwinsize(writing, (24, 40))
    done = subprocess.Popen(line, stderr=writing, env=os.environ | SCRIPTS)
    done.wait()
    os.close(writing)
    written = b""
    # A terminal hands on what was written piece by piece; once all is read it is an error (EIO), and of a pipe nothing.
    with contextlib.suppress(OSError):
        while piece := os.read(reading, 100_000):
            written += piece
    os.close(reading)
    text = written.decode().replace("\r\n", "\n")
    return text, [each.split(" ", 1)[1] for each in (tmp_path / "log").read_text().splitlines()]


LONG = "iteration 2" + " and more" * 30


def test_on_a_terminal_a_live_line_is_replaced(tmp_path):
    text, logged = said(tmp_path, 'command.say("ends")', terminal=True)
    assert text == f"begins\n\r\x1b[Kiteration 1\r\x1b[K{LONG[:39]}\nends\n"
    assert logged == ["begins", "iteration 1", LONG, "ends"]


@pytest.mark.parametrize(
    ("ending", "last"),
    [("pass", ""), ('raise UserError("mend this")', "error: mend this\n"), ("1 / 0", "error: ZeroDivisionError")],
)
def test_the_last_live_line_stands_however_the_script_ends(tmp_path, ending, last):
    text, _ = said(tmp_path, ending, terminal=True)
    assert text.partition(LONG[:39])[2].startswith(f"\n{last}")


def test_into_a_pipe_live_lines_go_one_by_one(tmp_path):
    text, _ = said(tmp_path, "pass", terminal=False)
    assert text == f"begins\niteration 1\n{LONG}\n"


@pytest.mark.parametrize(("terminal", "clear"), [(True, "\r\x1b[K"), (False, "")])
def test_beside_a_display_live_lines_and_errors_are_in_the_log_alone(tmp_path, monkeypatch, terminal, clear):
    monkeypatch.setenv(command.DISPLAYED, "1")
    text, logged = said(tmp_path, 'command.tell("waited"); raise UserError("mend this")', terminal=terminal)
    assert text == f"{clear}begins\n"
    assert logged == ["begins", "iteration 1", LONG, "waited", "error: mend this"]
    text, logged = said(tmp_path, "1 / 0", terminal=terminal)
    assert text == f"{clear}begins\n" and logged[-1] == "error: ZeroDivisionError: division by zero"


def test_beside_a_display_an_error_that_no_log_can_take_is_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv(command.DISPLAYED, "1")
    line = [*script(tmp_path, 'raise UserError("mend this")')[:-1], "/dev/full"]
    done = subprocess.run(line, env=os.environ | SCRIPTS, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr.endswith("error: mend this\n"), done.stderr


def test_where_a_library_crashes_is_in_the_log(tmp_path):
    line = script(tmp_path, "import ctypes; ctypes.string_at(0)")
    done = subprocess.run(line, env=os.environ | SCRIPTS, stderr=subprocess.DEVNULL, check=False)
    assert done.returncode == -signal.SIGSEGV
    logged = (tmp_path / "log").read_text()
    assert "Fatal Python error: Segmentation fault" in logged
    assert ' in string_at\n  File "<string>", line 9 in main' in logged
