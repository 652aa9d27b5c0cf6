"""What the set-up of the environment says of what pip does."""

import pytest

from install import Display, follow

PIP = [
    "Collecting absl-py==2.4.0 (from -r requirements.txt (line 1))",
    "  Downloading absl_py-2.4.0-py3-none-any.whl (135 kB)",
    "Requirement already satisfied: numpy in lib (from -r requirements.txt (line 2))",
    *(f"Collecting other-{number}==1.0" for number in range(2, 41)),
    "Installing collected packages: absl-py, other-2",
    "Collecting is over",
]


@pytest.mark.parametrize("in_terminal", [True, False])
def test_every_package_is_named_on_a_terminal_and_every_tenth_part_elsewhere(capsys, in_terminal):
    display = Display(40, in_terminal)
    follow(PIP, display)
    display.show("unpacking", 50)
    display.end()
    printed = capsys.readouterr().out
    if in_terminal:
        assert printed.split("\r\x1b[K")[1:3] == ["  fetching: 1 of 40 absl-py", "  fetching: 2 of 40 other-2"]
        assert printed.count("\r") == 42 and printed.endswith("  unpacking: 40 of 40\r\x1b[K")
    else:
        lines = printed.splitlines()
        assert lines[:2] == ["  fetching: 1 of 40 absl-py", "  fetching: 4 of 40 other-4"] and len(lines) == 12
        assert "\r" not in printed and lines[-2:] == ["  fetching: 40 of 40 other-40", "  unpacking: 40 of 40"]
