"""The facts needed to reproduce the numbers: inputs, shards, settings and versions."""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfglm import digests
from tfglm.data.shards import IngestedFile

PACKAGES = ("snakemake", "tensorflow", "numpy", "scipy", "numba", "polars", "pyarrow")


def of(files: Sequence[IngestedFile], config: Mapping, engine: str) -> dict:
    """The provenance of a fit; `config` is what the config says of the data and the model."""
    inputs = [
        {
            "file": file.manifest.file,
            "source": file.manifest.source,
            "xxh128": file.manifest.xxh128,
            "layout": file.manifest.layout,
            "rows": file.manifest.read,
            "shards": len(file.manifest.shards),
        }
        for file in files
    ]
    return {
        "inputs": inputs,
        "shards_sha256": digests.joined_sha256(file.manifest.digest for file in files),
        **config,
        "versions": versions(engine),
    }


def identity(design: Path, checkpoint: Path) -> dict:
    """The digests of the design that was fitted and of the files of the checkpoint, which `SavedFit.fitted` checks."""
    files = {path.name: digests.sha256(path) for path in sorted(checkpoint.iterdir())}
    return {"design": digests.sha256(design), "checkpoint": files}


def versions(engine: str) -> dict[str, str]:
    """Return the versions of this workflow, of Python, and of the packages that the numbers depend on, as far as they are
    installed."""
    found = {"engine": engine, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
