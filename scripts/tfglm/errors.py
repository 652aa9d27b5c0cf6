"""The only exception meant for users, and a collection of several of them."""

import difflib
import importlib.util
import itertools
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tfglm.addresses import without_secrets

LONGEST_WORD, MOST_KNOWN = 200, 10_000
"""For longer words, or more known words, finding the nearest takes too long."""


class UserError(Exception):
    """Something the user can put right: the message names what was wrong, where, and what to do. It shows no password of an
    address, and nothing that a terminal would obey."""

    def __init__(self, message: str):
        super().__init__(printable(without_secrets(message)))


def require(package: str, extra: str, what: str) -> None:
    """Raise UserError if a package is missing that an extra of tfglm (pyproject.toml) installs; `what` needs it."""
    if importlib.util.find_spec(package) is None:
        raise UserError(
            f"{what} needs {package}, which {sys.prefix} lacks: {sys.executable} -m pip install 'tfglm[{extra}]'"
        )


class Problems:
    """Mistakes in several places, reported together."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a UserError that is raised within the block, and continue."""
        try:
            yield
        except UserError as error:
            self.messages.append(str(error))

    def check(self) -> None:
        """Raise UserError with all that was collected, each message once."""
        if self.messages:
            raise UserError("\n".join(dict.fromkeys(self.messages)))


@contextmanager
def writing(path: Path, needed: int = 0) -> Iterator[None]:
    """Errors of writing a file, or a folder, as UserErrors that name it. `needed` are the bytes to write, if they are known."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: {unwritten(error, path, needed)}") from error


def unwritten(error: Exception, path: Path, needed: int = 0) -> str:
    """Return the message for a file that could not be written: the reason, the free space of its disk, and what to do."""
    folder = folder_of(path)
    disk = next(folder for folder in (folder, *folder.parents) if os.path.ismount(folder))
    free = f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB are free on the disk at {disk}"
    more = f", and {needed / 1e6:,.1f} MB are needed" if needed else ""
    return (
        f"{getattr(error, 'strerror', None) or error} ({free}{more})\n"
        "  free some space, or run snakemake in a folder on a larger disk with --directory; repeat the command to "
        "continue"
    )


def counted(number: float, noun: str) -> str:
    """A number of things: `1 row`, `2,000 rows`."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def folder_of(path: Path) -> Path:
    """Return the folder of a file, or the nearest existing folder above it."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())


def is_full_disk(error: Exception) -> bool:
    """Whether an error of any library says that a disk, or somebody's share of it, is full."""
    return any(text in str(error) for text in ("No space left on device", "Disk quota exceeded"))


def printable(text: str) -> str:
    """Return a text with control characters and surrogates written out, and line ends unchanged."""
    return "".join(
        letter if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs") else ascii(letter)[1:-1]
        for letter in text
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean `x`?' for the known word closest to `word`, or '' if none is close."""
    close = closest(word, known)
    return f"; did you mean `{close}`?" if close else ""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is `word` in other case, or else the closest one; None if none is close."""
    if len(word) > LONGEST_WORD:
        return None
    candidates = list(itertools.islice(known, MOST_KNOWN))
    folded = {candidate.casefold(): candidate for candidate in candidates}
    if word.casefold() in folded:
        return folded[word.casefold()]
    return next(iter(difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)), None)


def short(text: str, most: int = 200) -> str:
    """A text from the config as a message quotes it, cut where it is long."""
    return text if len(text) <= most else f"{text[:most]}..."
