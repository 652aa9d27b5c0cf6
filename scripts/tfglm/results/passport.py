"""What is needed to get the same numbers again: inputs, shards, settings and versions."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

from tfglm.data.shards import IngestedFile

PACKAGES = ("snakemake", "tensorflow", "numpy", "scipy", "polars", "pyarrow", "formulaic")


def of(files: Sequence[IngestedFile], config: Mapping, engine: str) -> dict:
    """The passport of a fit; `config` is what the config says of the data and the model."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(json.dumps(asdict(file.manifest) | {"source": ""}, sort_keys=True).encode())
        digest.update(file.checksums.tobytes())
    inputs = [
        {
            "file": file.manifest.file,
            "source": file.manifest.source,
            "sha256": file.manifest.sha256,
            "layout": file.manifest.layout,
            "rows": file.manifest.read,
            "shards": len(file.manifest.shards),
        }
        for file in files
    ]
    versions = {"engine": engine, "python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {"inputs": inputs, "shards_sha256": digest.hexdigest(), **config, "versions": versions}
