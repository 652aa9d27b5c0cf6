"""Install the packages that a file pins, and say how far it is: pip itself is silent for minutes, or prints hundreds of lines."""

import argparse
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path

# What pip says of the file of a package, with the size of what it downloads.
FILE = re.compile(
    r"\s*(?:Processing|Downloading|Using cached) (?:\S*/)?(\w\S*?)-\d\S*\.(?:whl|tar\.gz|zip)(?=\s)(?: (\([\d.]+ [kMG]?B\)))?"
)


class Display:
    """How many packages are fetched or unpacked: on a terminal a line that is replaced, elsewhere ten lines."""

    def __init__(self, total: int, in_terminal: bool) -> None:
        self._total, self._in_terminal, self._shown = total, in_terminal, ("", -1)

    def show(self, doing: str, done: int, name: str = "") -> None:
        """So many are done, `name` is the last of them."""
        done = min(done, self._total)
        shown = doing, done if self._in_terminal else 10 * done // self._total
        if shown == self._shown:
            return
        self._shown = shown
        line = f"  {doing}: {done} of {self._total} {name}".rstrip()
        print(*["\r\x1b[K", line] if self._in_terminal else [line, "\n"], sep="", end="", flush=True)

    def end(self) -> None:
        """Leave no half line."""
        if self._in_terminal:
            print("\r\x1b[K", end="", flush=True)


def follow(lines: Iterable[str], display: Display) -> None:
    """Show which packages pip fetches, until it has all, or ends."""
    looked_up = fetched = 0
    for line in lines:
        if match := FILE.match(line):
            fetched += 1
            display.show("fetching", fetched, f"{match[1]} {match[2] or ''}")
        elif line.startswith("Collecting ") and not fetched:
            # If an index provides the requirements of packages separately, all files are downloaded afterwards.
            looked_up += 1
            display.show("looking up", looked_up)
        elif line.startswith("Installing collected packages"):
            return


def installed() -> int:
    """Packages that are there now: pip does not say how many it has unpacked."""
    return len(list(Path(sysconfig.get_path("purelib")).glob("*.dist-info")))


def main(arguments: argparse.Namespace) -> int:
    """The exit status of pip, which prints its errors itself."""
    pins = [line for line in arguments.requirement.read_text().splitlines() if "==" in line]
    # Flushed before pip says anything.
    print(f"Installing {len(pins)} packages of {arguments.requirement}; VERBOSE=1 shows all that pip says", flush=True)
    display = Display(len(pins), sys.stdout.isatty())
    before = installed()
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--progress-bar",
        "off",
        "--requirement",
        str(arguments.requirement),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        follow(pip.stdout, display)
        while pip.poll() is None:
            display.show("unpacking", max(0, installed() - before))
            time.sleep(0.5)
    display.end()
    return pip.returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requirement", type=Path, required=True, help="file with a pinned package a line")
    sys.exit(main(parser.parse_args()))
