"""What has been found out about headers and configs, kept from one start of Snakemake to the next."""

import contextlib
import functools
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tfglm
from tfglm import digests
from tfglm.workflow.values import key_of

FOLDER = Path(".snakemake", "tfglm")

READERS = [find_spec(name) for name in ("indexed_bzip2", "numpy", "polars", "pyarrow", "xxhash")]
"""The packages for headers and SQL, which Snakemake does not bring."""

READS_HEADERS = all(READERS)
"""Whether this process has them. If only the jobs have them, in their own environment, a file may have any layout that the config
allows, and its job chooses."""


@functools.cache
def program() -> str:
    """Return the digest of what reads headers and formulas: the code of this project, and the packages that it uses."""
    packages = [Path(package.origin) for package in READERS if package and package.origin]
    code = [*Path(tfglm.__file__).parent.rglob("*.py"), *packages]
    return key_of(json.dumps(sorted((str(path), path.stat().st_mtime_ns) for path in code)))


def remembered(find: Callable[[], Any], *depends_on: Any) -> Any:
    """Return what `find()` returns, as JSON has it. If that is true, it is kept, by what it depends on. Each start of Snakemake
    would otherwise import what reads headers and formulas, which takes a second."""
    path = FOLDER / key_of(json.dumps([program(), depends_on], default=str))
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    if found := find():
        with contextlib.suppress(OSError):
            digests.replace(path, json.dumps(found))
    return found
