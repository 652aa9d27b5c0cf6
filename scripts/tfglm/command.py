"""What every script does around its work: a log file for all output, one readable line for an error the user can mend."""

import argparse
import contextlib
import faulthandler
import gc
import io
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tfglm.errors import UserError, is_full_disk, unwritten

terminal = sys.stderr
"""Where the person who started the run looks, even while stdout and stderr go to the log."""


DISPLAYED = "TFGLM_DISPLAY"
"""The environment variable that tells a job that Snakemake shows its progress (`snakemake_logger_plugin_tfglm`)."""


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them, and those that turn the direction of writing: all control characters
but tab and line feed."""


def visible(message: str) -> str:
    """The message with such characters as escapes: levels and file names come from whoever wrote the data."""
    return HIDDEN.sub(lambda character: character[0].encode("unicode_escape").decode(), message)


def log(message: str) -> None:
    """One line in the log, with the time of day. A log that cannot be written, as on a full disk, is no reason to stop; the
    terminal is told once."""
    global _is_lost
    try:
        # At once, as the watchdog of a chief writes to the same file.
        print(f"{time.strftime('%H:%M:%S')} {visible(message)}\n", end="", flush=True)
    except OSError as error:
        if not _is_lost and _has_terminal():
            _is_lost = True
            # Not for long, as whoever logs may have to look after others.
            warning = f"warning: the log cannot be written, so lines are missing from it: {error.strerror}"
            showing = threading.Thread(target=_show, args=(warning,), daemon=True)
            showing.start()
            showing.join(1.0)


_is_lost = False


def aside(message: str) -> None:
    """`log` for a thread that must not wait: for a disk that is away, or for whoever should read what is said."""
    threading.Thread(target=log, args=(message,), daemon=True).start()


def say(message: str) -> None:
    """One line in the log and on the terminal."""
    log(message)
    if _has_terminal():
        end_live()
        _show(visible(message))


def _has_terminal() -> bool:
    """Whether there is one besides the log."""
    return terminal.fileno() != sys.stderr.fileno()


def _show(text: str, end: str = "\n") -> None:
    """On the terminal; it may be gone."""
    with contextlib.suppress(OSError):
        # In place of the display, which is drawn again below.
        clear = "\r\x1b[K" if DISPLAYED in os.environ and terminal.isatty() else ""
        print(clear, text, sep="", end=end, file=terminal, flush=True)


def tell(message: str) -> None:
    """`say`, for whoever waits: where Snakemake shows progress itself, the line is in the log alone."""
    (log if DISPLAYED in os.environ else say)(message)


def live(message: str) -> None:
    """One line in the log. On a terminal it takes the place of the one before it; into a file or a pipe they go one by one."""
    global _is_live
    if DISPLAYED in os.environ or not _has_terminal() or not terminal.isatty():
        tell(message)
        return
    log(message)
    # A longer one would take two lines, of which only the second would be replaced.
    shown = visible(message)[: (os.get_terminal_size(terminal.fileno()).columns or 80) - 1]
    _show(f"\r\x1b[K{shown}", end="")
    _is_live = True


_is_live = False


def end_live() -> None:
    """Let the line that `live` wrote last stand."""
    global _is_live
    if _is_live:
        _show("")
    _is_live = False


def parser(description: str) -> argparse.ArgumentParser:
    """A command line with the `--log` that all scripts share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--log", type=Path, help="file that takes all output; without it, the terminal does")
    return parser


def write_to(log: Path) -> None:
    """Turn the file descriptors 1 and 2 to a log. Exits with 1 if it cannot be opened."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        _show(f"error: the log {log} cannot be opened: {error.strerror}")
        sys.exit(1)
    for descriptor in (1, 2):
        os.dup2(opened, descriptor)
    os.close(opened)


def run(main: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Run `main`; exit with 1 and one message on the terminal if it raises UserError, with 2 and a traceback otherwise.

    With `--log` the file descriptors 1 and 2 themselves are turned to the file, so that what C++ libraries print lands
    there too.
    """
    global terminal
    # What the imports have made is no garbage. Else the interpreter looks through it again and again, and once more at its end:
    # 0.3 s of a job that draws a picture.
    gc.freeze()
    if arguments.log:
        terminal = os.fdopen(os.dup(2), "w")
        write_to(arguments.log)
        # Not buffered: what a full disk has refused would be tried again at the end, and make it a failure.
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), errors="backslashreplace", write_through=True)
            for descriptor in (1, 2)
        )
    # Of a crash in a library nothing else would say where it was. To the descriptor 2, as a test may have taken sys.stderr.
    faulthandler.enable(2)
    try:
        main(arguments)
        end_live()
    except UserError as error:
        say(f"error: {error}")
        sys.exit(1)
    except Exception as error:
        if is_full_disk(error):
            where = getattr(error, "filename", None) or arguments.log or Path.cwd() / "log"
            say(f"error: a file could not be written: {unwritten(error, Path(where))}")
            sys.exit(1)
        with contextlib.suppress(OSError):
            print(visible(traceback.format_exc()), end="", file=sys.stderr, flush=True)
        end_live()
        where = f" (details: {arguments.log})" if arguments.log else ""
        _show(visible(f"error: {type(error).__name__}: {error}{where}"))
        sys.exit(2)
