"""What every script does around its work: a log file for all output, one readable line for an error the user can mend."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tfglm.errors import UserError

terminal = sys.stderr
"""Where the person who started the run looks, even while stdout and stderr go to the log."""


def log(message: str) -> None:
    """One line in the log, with the time of day."""
    print(time.strftime("%H:%M:%S"), message, flush=True)


def say(message: str) -> None:
    """One line in the log and on the terminal."""
    log(message)
    if terminal.fileno() != sys.stderr.fileno():
        end_live()
        print(message, file=terminal, flush=True)


def live(message: str) -> None:
    """One line in the log. On a terminal it takes the place of the one before it; into a file or a pipe they go one by one."""
    global _is_live
    if terminal.fileno() == sys.stderr.fileno() or not terminal.isatty():
        say(message)
        return
    log(message)
    # A longer one would take two lines, of which only the second would be replaced.
    shown = message[: (os.get_terminal_size(terminal.fileno()).columns or 80) - 1]
    print(f"\r\x1b[K{shown}", end="", file=terminal, flush=True)
    _is_live = True


_is_live = False


def end_live() -> None:
    """Let the line that `live` wrote last stand."""
    global _is_live
    if _is_live:
        print(file=terminal, flush=True)
    _is_live = False


def parser(description: str) -> argparse.ArgumentParser:
    """A command line with the `--log` that all scripts share."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--log", type=Path, help="file that takes all output; without it, the terminal does")
    return made


def run(main: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Run `main`; exit with 1 and one message on the terminal if it raises UserError, with 2 and a traceback otherwise.

    With `--log` the file descriptors 1 and 2 themselves are turned to the file, so that what C++ libraries print lands
    there too.
    """
    global terminal
    if arguments.log:
        arguments.log.parent.mkdir(parents=True, exist_ok=True)
        terminal = os.fdopen(os.dup(2), "w")
        opened = os.open(arguments.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for descriptor in (1, 2):
            os.dup2(opened, descriptor)
        os.close(opened)
    try:
        main(arguments)
        end_live()
    except UserError as error:
        say(f"error: {error}")
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        end_live()
        where = f" (details: {arguments.log})" if arguments.log else ""
        print(f"error: {type(error).__name__}: {error}{where}", file=terminal, flush=True)
        sys.exit(2)
