"""Params and patterns as Snakemake takes them."""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from snakemake.exceptions import WorkflowError

from tfglm.config import in_file
from tfglm.errors import UserError

Wildcards = Any
"""The wildcards of a job: attributes that are text."""

ANY_MODEL = "[A-Za-z][A-Za-z0-9_]*"
"""The pattern of a model's name."""


class Refusal(WorkflowError):
    """A mistake of the user. Snakemake would add the places in the rules to an error that has a traceback."""

    __traceback__ = property(lambda error: None, lambda error, places: None)


Refusal.__name__ = "error"  # Snakemake shows the name above the message


@contextlib.contextmanager
def refusing(file: str = "") -> Iterator[None]:
    """Turn a UserError into a Refusal. `file` is the config that it is about."""
    try:
        yield
    except UserError as error:
        raise Refusal(in_file(file, str(error)) if file else str(error)) from None


def key_of(text: str) -> str:
    """Return the name of a folder, from everything that its content depends on."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def json_of(value: Any, sort_keys: bool = False) -> str:
    """Return JSON for a param, in ASCII and without `<`: a command line of any locale can hold it, and it cannot end the <script>
    of Snakemake's report that has the params."""
    return json.dumps(value, sort_keys=sort_keys).replace("<", "\\u003c")


class Unwatched:
    """A param that is no reason to run a job again, because Snakemake compares plain values only."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return str(self.value)


def unwatched(function: Callable[[Wildcards], Any]) -> Callable[[Wildcards], Unwatched]:
    """Return a params function whose value is no reason to run a job again."""
    return lambda wildcards: Unwatched(function(wildcards))


def literal(value: Any) -> Callable[[Wildcards], Any]:
    """Return a params function: this value. Snakemake would take braces in a plain text for wildcards, and text of the user may
    have any; what a function returns it leaves alone."""
    return lambda wildcards: value


def one_of(names: Iterable[str]) -> str:
    """Return a regular expression for just these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def any_but(names: Iterable[str]) -> str:
    """Return a regular expression for all models but these, also for a model that is not in the config: its name is refused."""
    return "".join(f"(?!{name}/)" for name in names) + ANY_MODEL
