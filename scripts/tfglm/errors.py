"""The one exception that a user is meant to read."""

import difflib
import itertools
import unicodedata
from collections.abc import Iterable

from tfglm.addresses import without_secrets

LONGEST_WORD, MOST_KNOWN = 200, 10_000
"""Of longer words, and of more known ones, the nearest takes too long to find."""


class UserError(Exception):
    """Something the user can put right: the message names what was wrong, where, and what to do. It shows no password of an
    address, and nothing that a terminal would obey."""

    def __init__(self, message: str):
        super().__init__(printable(without_secrets(message)))


def printable(text: str) -> str:
    """A text with control characters and half characters written out, the ends of lines left as they are."""
    return "".join(
        letter if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs") else ascii(letter)[1:-1]
        for letter in text
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean `x`?' for the known word closest to `word`, or '' if none is close."""
    if len(word) > LONGEST_WORD:
        return ""
    close = difflib.get_close_matches(word, list(itertools.islice(known, MOST_KNOWN)), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def short(text: str, most: int = 200) -> str:
    """A text from the config as a message quotes it, cut where it is long."""
    return text if len(text) <= most else f"{text[:most]}..."
