"""The one exception that a user is meant to read."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right: the message names what was wrong, where, and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean `x`?' for the known word closest to `word`, or '' if none is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""
