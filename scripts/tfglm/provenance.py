"""What is needed to get the same numbers again: inputs, shards, settings and versions."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tfglm import digests
from tfglm.data.shards import IngestedFile

PACKAGES = ("snakemake", "tensorflow", "numpy", "scipy", "numba", "polars", "pyarrow", "formulaic")


def of(files: Sequence[IngestedFile], config: Mapping, engine: str) -> dict:
    """The provenance of a fit; `config` is what the config says of the data and the model."""
    digest = hashlib.sha256("".join(file.manifest.digest for file in files).encode())
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
    return {"inputs": inputs, "shards_sha256": digest.hexdigest(), **config, "versions": versions(engine)}


def identity(design: Path, checkpoint: Path) -> dict:
    """The digests of the design that was fitted and of the files of the checkpoint, which `read.fitted` checks."""
    return {"design": digests.of(design), "checkpoint": digests.of_folder(checkpoint)}


def versions(engine: str) -> dict[str, str]:
    """Those of this workflow, of Python, and of the packages that the numbers depend on."""
    return {"engine": engine, "python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
