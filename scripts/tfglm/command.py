"""What every script does around its work: a log file for all output, one readable line for an error the user can mend."""

import argparse
import contextlib
import contextvars
import faulthandler
import gc
import io
import os
import re
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tfglm.errors import UserError, folder_of, is_full_disk, unwritten

terminal = sys.stderr
"""The terminal of the person who started the run, even while stdout and stderr go to the log."""


DISPLAYED = "TFGLM_DISPLAY"
"""The environment variable that tells a job that Snakemake shows its progress (`snakemake_logger_plugin_tfglm`)."""


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them, and those that turn the direction of writing: all control characters
but tab and line feed."""


def visible(message: str) -> str:
    """The message with such characters as escapes: levels and file names come from whoever wrote the data."""
    return HIDDEN.sub(lambda character: character[0].encode("unicode_escape").decode(), message)


_is_heard = contextvars.ContextVar("is_heard", default=True)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Write no line meanwhile, in this thread."""
    before = _is_heard.set(False)
    try:
        yield
    finally:
        _is_heard.reset(before)


def log(message: str) -> None:
    """Write one line to the log, with the time of day. A failed write, as on a full disk, is no reason to stop; the
    terminal gets one message."""
    global _is_lost
    if not _is_heard.get():
        return
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
    """`log` for a thread that must not wait: the disk may be gone, or the reader may be busy."""
    threading.Thread(target=log, args=(message,), daemon=True).start()


def say(message: str) -> None:
    """One line in the log and on the terminal."""
    log(message)
    if _has_terminal():
        end_live()
        _show(visible(message))


def _has_terminal() -> bool:
    """Whether there is one besides the log."""
    return _is_heard.get() and terminal.fileno() != sys.stderr.fileno()


def _show(text: str, end: str = "\n") -> None:
    """Write to the terminal, which may be gone."""
    with contextlib.suppress(OSError):
        # The message overwrites the display, which is drawn again below.
        clear = "\r\x1b[K" if DISPLAYED in os.environ and terminal.isatty() else ""
        print(clear, text, sep="", end=end, file=terminal, flush=True)


def tell(message: str) -> None:
    """`say`, for whoever waits: where Snakemake shows progress itself, the line is in the log alone."""
    (log if DISPLAYED in os.environ else say)(message)


def fail(message: str) -> None:
    """Log why the script fails. The terminal has it too, unless a display shows it at the end of the run: it reads the log."""
    line = f"error: {message}"
    log(line)
    end_live()
    if _has_terminal() and (DISPLAYED not in os.environ or _is_lost):
        _show(visible(line))


def live(message: str) -> None:
    """Write one line to the log. On a terminal it replaces the previous line; in a file or a pipe lines follow each other."""
    global _is_live
    if DISPLAYED in os.environ or not _has_terminal() or not terminal.isatty():
        tell(message)
        return
    log(message)
    # A longer line would wrap, and only its second part would be replaced.
    shown = visible(message)[: (os.get_terminal_size(terminal.fileno()).columns or 80) - 1]
    _show(f"\r\x1b[K{shown}", end="")
    _is_live = True


_is_live = False


def end_live() -> None:
    """Keep the line that `live` wrote last."""
    global _is_live
    if _is_live:
        _show("")
    _is_live = False


class ScriptParser(argparse.ArgumentParser):
    """A parser with options for paths."""

    def add_file(self, option: str, words: str, optional: bool = False) -> None:
        """Add an option for the path of a file or folder. An optional one may lack its path, and is None then."""
        self.add_argument(option, type=Path, nargs="?" if optional else None, required=not optional, help=words)

    def add_files(self, option: str, words: str, optional: bool = False) -> None:
        """Add an option for several paths; an optional one may have none."""
        usual = {"nargs": "*", "default": []} if optional else {"nargs": "+", "required": True}
        self.add_argument(option, type=Path, help=words, **usual)


def parser(description: str) -> ScriptParser:
    """A command line with the `--log` that all scripts share."""
    parser = ScriptParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_file("--log", "file that takes all output; without it, the terminal does", optional=True)
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


def _on_the_fullest_disk(error: Exception, arguments: argparse.Namespace) -> Path:
    """Return the file that the error names. If it names none, return the script's file whose disk has the least free space."""
    if named := getattr(error, "filename", None):
        return Path(named)
    scratch = Path(os.environ.get("TMPDIR", "/tmp"), "file")  # `tempfile` finds no folder on a full disk
    files = [scratch, *(path for path in vars(arguments).values() if isinstance(path, Path))]
    return min(files, key=lambda path: shutil.disk_usage(folder_of(path)).free)


def run(main: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Run `main`; exit with 1 and one message on the terminal if it raises UserError, with 2 and a traceback otherwise.

    With `--log` the file descriptors 1 and 2 themselves are turned to the file, so that what C++ libraries print lands
    there too.
    """
    global terminal
    # Objects from imports are not garbage. Otherwise the interpreter scans them repeatedly, and once more at its end: 0.3 s
    # of a job that draws a picture.
    gc.freeze()
    if arguments.log:
        terminal = os.fdopen(os.dup(2), "w", encoding=sys.stderr.encoding, errors="backslashreplace")
        write_to(arguments.log)
        # Not buffered: what a full disk has refused would be tried again at the end, and make it a failure.
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(
                io.FileIO(descriptor, "w", closefd=False),
                encoding="utf-8",
                errors="backslashreplace",
                write_through=True,
            )
            for descriptor in (1, 2)
        )
    # After a crash in a library, nothing else would show where it was. Use descriptor 2, because a test may have replaced
    # sys.stderr.
    faulthandler.enable(2)
    try:
        main(arguments)
        end_live()
    except UserError as error:
        fail(str(error))
        sys.exit(1)
    except Exception as error:
        if is_full_disk(error):
            fail(f"a file could not be written: {unwritten(error, _on_the_fullest_disk(error, arguments))}")
            sys.exit(1)
        with contextlib.suppress(OSError):
            print(visible(traceback.format_exc()), end="", file=sys.stderr, flush=True)
        where = f" (details: {arguments.log})" if arguments.log and DISPLAYED not in os.environ else ""
        fail(f"{type(error).__name__}: {error}{where}")
        sys.exit(2)
