"""Python of the user: functions from the files that a network names, and their errors as the user's own."""

import argparse
import functools
import json
import linecache
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfglm import digests
from tfglm.config import LayersConfig
from tfglm.errors import UserError

ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""Codes that colour a terminal."""

LONGEST_ERROR = 3_000
"""Characters of an error of the user's code that a message repeats."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options for the Python files that a network names."""
    parser.add_argument("--code", type=Path, nargs="*", default=[], help="the Python files that the network names")
    parser.add_argument("--code-digests", type=json.loads, default={}, help="SHA-256 of these files, by name, as JSON")


def read(arguments: argparse.Namespace) -> Any:
    """Return the settings of a command line with the text of the files that they name. Raises UserError if a file has
    changed since the run began."""
    settings: LayersConfig = arguments.settings
    code = {}
    for file, path in zip(settings.files_of_code, arguments.code, strict=True):
        if digests.sha256(path) != arguments.code_digests[file]:
            raise UserError(f"{path} has changed since the run began; repeat the command")
        code[file] = path.read_text(encoding="utf-8")
    return settings.model_copy(update={"code": code})


def function(settings: LayersConfig, key: str, place: str, where: str) -> Callable[..., Any]:
    """Return what a `place` such as `my_model.py:build` names, so that its errors are shown as the user's own. Raises
    UserError, which begins with `where`, the section of the network, and names the `key` of the config."""
    file, _, name = place.rpartition(":")
    label = f"{where}.{key}"
    with shown(label, file):
        found = getattr(_module(file, settings.code[file]), name, None)
    if not callable(found):
        raise UserError(f"{label}: {file} has no function `{name}`; define it there, or correct its name here")

    @functools.wraps(found, updated=())
    def call(*arguments: Any, **named: Any) -> Any:
        with shown(label, file):
            return found(*arguments, **named)

    return call


@functools.lru_cache(maxsize=16)
def _module(file: str, text: str) -> types.ModuleType:
    """Run a file of the user's once."""
    module = types.ModuleType(f"code_of_{Path(file).stem}")
    module.__file__ = file
    # Tracebacks and dataclasses look here.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


@contextmanager
def shown(label: str, file: str) -> Iterator[None]:
    """Turn an exception of the user's code into a UserError with file, line and text. It begins with `label`."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{label}: {_in_words(error, file)}") from error


@contextmanager
def warnings_held_back() -> Iterator[None]:
    """Show the warnings of the user's code when it has ended. After an error they are left out: Keras warns of the error itself
    before it raises it."""
    with warnings.catch_warnings(record=True) as held:
        yield
    for warning in held:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _in_words(error: BaseException, file: str) -> str:
    # Keras adds lines to a KeyError, whose text is then one line in quotes; and it writes bold.
    has_lines = isinstance(error, KeyError) and any("\n" in str(each) for each in error.args)
    text = ANSI.sub("", str(error.args[0] if has_lines else error)).strip()
    text = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}..."
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}\n    {(error.text or '').strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return f"{file}: {said}"
    last = frames[-1]
    inside = "" if last.name == "<module>" else f", in {last.name}"
    return f"{file}, line {last.lineno}{inside}: {said}\n    {(last.line or '').strip()}"
