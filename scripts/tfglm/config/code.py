"""The Python files that networks name: where they are, and whether they define what is named, without running them."""

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfglm.config.files import no_such_file
from tfglm.config.networks import TrainingConfig
from tfglm.errors import UserError, nearest

LARGEST_CODE = 1_000_000
"""Bytes of a file; fit.json has its text."""

ARGUMENTS = {"model": ("inputs", "settings"), "loss": ("eta", "response"), "metrics": ("eta", "response")}
"""What functions are called with, by the key that names them."""


def located_code(file: str, folders: Iterable[Path]) -> Path:
    """Return the file in the folder of the run, or else in the first of the `folders` that has it. Raises UserError if there is
    none."""
    for path in (Path(file), *(folder / file for folder in folders)):
        if path.is_file():
            return path
    raise UserError(f"{no_such_file(Path(file))}; the folder of the config has none either")


def check_functions(network: TrainingConfig, where: str, folders: Sequence[Path]) -> None:
    """Raise UserError, which begins with `where`, the section of the network, for a file or a function that is not there."""
    for key, places in network.functions.items():
        for place in places:
            file, _, name = place.rpartition(":")
            try:
                _check(located_code(file, folders), name, ARGUMENTS.get(key, ()))
            except UserError as error:
                raise UserError(f"{where}.{key}: {error}") from None


def _check(path: Path, name: str, arguments: Sequence[str]) -> None:
    if path.stat().st_size > LARGEST_CODE:
        raise UserError(f"{path}: {path.stat().st_size:,} bytes, and a file of code may have {LARGEST_CODE:,} at most")
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        line = f"\n    {error.text.strip()}" if error.text else ""
        raise UserError(f"{path}, line {error.lineno}: SyntaxError: {error.msg}{line}") from None
    except ValueError as error:
        raise UserError(f"{path}: this is not Python: {error}") from None
    defined: dict[str, ast.AST] = {}
    for statement in tree.body:
        defined |= dict.fromkeys(_names(statement), statement)
    if name not in defined and "*" not in defined:
        known = [each for each in defined if not each.startswith("_")]
        raise UserError(f"{path} has no function `{name}`{nearest(name, known)}")
    function = defined.get(name)
    if isinstance(function, ast.FunctionDef) and arguments and not _takes(function.args, len(arguments)):
        raise UserError(
            f"{path}, line {function.lineno}: `{name}` has to take {len(arguments)} arguments: "
            f"def {name}({', '.join(arguments)})"
        )


def _names(statement: ast.stmt) -> list[str]:
    """The names that a statement of a file may define."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _takes(arguments: ast.arguments, count: int) -> bool:
    """Whether a function can be called with so many arguments, by position."""
    by_place = len(arguments.posonlyargs) + len(arguments.args)
    required = by_place - len(arguments.defaults)
    named = any(default is None for default in arguments.kw_defaults)
    return required <= count and (by_place >= count or arguments.vararg is not None) and not named
