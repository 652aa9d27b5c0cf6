"""YAML and JSON files without what is lost, multiplied or run in silence: keys given twice, aliases without end, code."""

import itertools
import json
import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml

from tfglm.errors import UserError, nearest, short

LARGEST_FILE = 2_000_000
"""Bytes: twice what 10,000 files of a hundred characters each need."""

MOST_VALUES = 100_000
"""Most values of a file. Values behind aliases count each time they are used."""

RUNS_CODE = "__use_yte__"
"""The key that makes Snakemake run expressions in a config as Python."""


def read(path: Path, may_run_code: bool = False) -> Any:
    """Return the content of a YAML or JSON file; with `may_run_code`, also of a file with code for Snakemake to run.

    Raises UserError, with the line if it is known. Reasons are a file that cannot be read, a key that occurs twice in a
    section, aliases that expand beyond MOST_VALUES or without end, and code to run.
    """
    value = parse(_text(path), str(path))
    if isinstance(value, dict) and RUNS_CODE in value and not may_run_code:
        raise UserError(
            f"{path}: `{RUNS_CODE}` lets Snakemake run what the file says as Python, so whoever writes the file could run "
            "anything; remove the key, and write the values themselves"
        )
    return value


def parse(text: str, where: str) -> Any:
    """Return the content of a YAML or JSON text. Raises UserError, which begins with `where`, as `read` does."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except _Twice as error:
        raise UserError(f"{where}: {error}") from None
    except (ValueError, RecursionError):
        return _from_yaml(text, where)


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise UserError(f"{path}: {size:,} bytes, and a file of settings may have {LARGEST_FILE:,} at most")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start + 1:,} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


class _Twice(Exception):
    """A key that occurs twice in one section of a JSON file."""


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    section: dict[str, Any] = {}
    for key, value in pairs:
        if key in section:
            raise _Twice(f"the key `{key}` is given twice in one section, and only the last would count; keep one")
        section[key] = value
    return section


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice in one mapping. Keys from a merge key (`<<`) may be overridden: that is its
    purpose."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            first: dict[Hashable, yaml.Node] = {}
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    continue
                # Compare keys as Python does: `1`, `01` and `true` are the same key.
                value = self.construct_object(key, deep=True)
                if isinstance(value, Hashable) and first.setdefault(value, key) is not key:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key `{value}` is in line {first[value].start_mark.line + 1} already, and only "
                        "the last would count; keep one of them",
                        problem_mark=key.start_mark,
                    )
        return super().construct_mapping(node, deep)


def _from_yaml(text: str, where: str) -> Any:
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, where)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise UserError(f"{where}{_problem(error, text)}") from None
    except RecursionError:
        raise UserError(f"{where}: its sections are nested too deeply; write it flatter") from None
    except ValueError as error:
        # The text is a date that does not exist, or a number with thousands of digits.
        raise UserError(f"{where}: a value cannot be read: {error}; put it in quotes if it is meant as text") from None
    finally:
        if loader:
            loader.dispose()


TAG = re.compile("could not determine a constructor for the tag '(?:tag:yaml.org,2002:)?!?(.*)'")

COLON = "a key has no colon after it; write `key: value`"

MISTAKES = {
    "could not find expected ':'": ("context", COLON),
    "mapping values are not allowed": (
        "problem",
        "a second colon, or a deeper indentation than that of the key before; put a text with `: ` in quotes",
    ),
    "expected <block end>": ("problem", "the line is not indented like the others of its section"),
    "expected ',' or": ("context", "a list or mapping that begins here lacks a comma, a quote or its end"),
    "unexpected end of stream": ("context", "a text that begins here with a quote has no closing quote"),
    "expected the node content": ("problem", "a value is missing here, or a list or mapping before has no end"),
    "expected '<document start>'": ("problem", "the line is not indented like the others of its section"),
    "sequence entries are not allowed": ("problem", "an entry of a list (`- ...`) needs a line of its own"),
    "cannot start any token": ("problem", "a text that begins with this sign must be in quotes"),
}
"""PyYAML's messages about common mistakes: which of its two marks has the line, and our words."""


def _problem(error: yaml.YAMLError, text: str) -> str:
    """The line of the mistake, what it is, and the text of the line."""
    said = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    if not mark:
        return f": this is not YAML: {said}"
    lines = text.splitlines()
    # Where the text ends, the mark is behind its last line.
    number = min(mark.line, len(lines) - 1)
    words = f"this is not YAML: {said}"
    if isinstance(error, yaml.constructor.ConstructorError):
        tag = TAG.match(said)
        words = f"`!{tag[1]}` is a tag of YAML, which config files do not have; put a text in quotes" if tag else said
    elif "\t" in lines[number][: mark.column + 1] and not lines[number][: mark.column].strip():
        words = "this is not YAML: a tab, where YAML takes blanks alone; replace it with blanks"
    elif known := next((MISTAKES[key] for key in MISTAKES if key in said), None):
        which, of_user = known
        context, before = getattr(error, "context_mark", None), next(filter(str.strip, reversed(lines[:number])), ":")
        if which == "context" and context:
            number = context.line
        elif "mapping" in said and ":" not in before:
            number, of_user = len(lines[:number]) - 1 - lines[:number][::-1].index(before), COLON
        elif "block end" in said and lines[number][: mark.column].strip():
            of_user = "text follows a text in quotes; put the whole value in quotes"
        words = f"this is not YAML: {of_user}"
    return f", line {number + 1}: {words}\n  {short(lines[number].strip())}"


def _check_size(root: yaml.Node, where: str) -> None:
    """Raise UserError if the values under `root`, each counted as often as aliases repeat it, are too many or have no end."""
    sizes: dict[int, int | None] = {}  # None inside of the node

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = None
            is_mapping = isinstance(node, yaml.MappingNode)
            children = itertools.chain(*node.value) if is_mapping else node.value
            number = 1 if isinstance(node, yaml.ScalarNode) else 1 + sum(map(size, children))
            if number > MOST_VALUES:
                raise UserError(
                    f"{where}, line {node.start_mark.line + 1}: {number:,} values, with those that aliases (`*...`) repeat, and "
                    f"a file of settings may have {MOST_VALUES:,}"
                )
            sizes[id(node)] = number
        if (known := sizes[id(node)]) is None:
            line = node.start_mark.line + 1
            raise UserError(f"{where}, line {line}: an alias (`*...`) is inside of what it repeats; write it out")
        return known

    size(root)


def no_such_file(path: Path) -> str:
    """Names the nearest file in its folder, and the folder that relative paths start from."""
    try:
        there = [file.name for file in path.parent.iterdir()]
    except OSError:
        there = []
    relative = "" if path.is_absolute() else f" Paths are relative to this folder, {Path.cwd()}"
    return f"there is no file `{short(str(path))}`{nearest(path.name, there) or '.'}{relative}"
