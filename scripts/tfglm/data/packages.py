"""Data files that come inside of Python packages."""

import importlib.util
from pathlib import Path

from tfglm.errors import UserError


def located(source: str) -> Path:
    """Return the path of a source: a path, or `package:<python package>/<path inside it>`. Raises UserError
    if the package or its file does not exist."""
    if not source.startswith("package:"):
        return Path(source)
    package, _, inside = source.removeprefix("package:").partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        # The parent package is missing, or a module has no location.
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"data.files: `{source}`: no Python package `{package}` is installed; pip install it")
    path = Path(spec.submodule_search_locations[0]) / inside
    if not path.is_file():
        there = ", ".join(sorted(str(each.relative_to(path.parent)) for each in path.parent.glob("*.*")))
        raise UserError(f"data.files: `{source}`: the package has no such file; its folder has: {there or 'nothing'}")
    return path
