"""The config of a run for its jobs on other nodes. They wait in a queue, and the user may edit the config meanwhile."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

import tfglm
from tfglm.config.inputs import InputFile
from tfglm.config.layouts import Layout
from tfglm.errors import UserError

KEY = "tfglm_run"
"""The key of a snapshot in the config of a job."""


class _Dumper(yaml.SafeDumper):
    """Writes the subclasses of `dict` that Snakemake has for sections too."""


_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)


@dataclass(frozen=True)
class Snapshot:
    """What a run has read of its config: the YAML text of all sections, the layouts, the files that patterns match, the strategy,
    and the SHA-256 of further files. `configs` are the paths of the config files."""

    text: str
    configs: list[str]
    layouts: dict[str, Layout]
    files: dict[str, InputFile]
    scored: dict[str, InputFile]
    strategy: str
    digests: dict[str, str]
    engine: str = tfglm.ENGINE

    @property
    def config(self) -> dict[str, Any]:
        return yaml.safe_load(self.text)

    def save(self, folder: Path, module: str) -> Path:
        """Write a config file with this snapshot, named by its content. Only the user may read it: addresses may have secrets."""
        content = json.dumps({KEY: {module: json.loads(_ADAPTER.dump_json(self))}})
        path = folder / f"run_{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        # Renamed into place: jobs of an earlier run with this content may be reading it.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as stream:
            stream.write(content)
        return Path(stream.name).replace(path)

    def check(self, path: str, digest: str) -> None:
        """Raise UserError if a file has another content than at the start of the run."""
        if self.digests.get(path, digest) != digest:
            raise UserError(f"{path} has changed since the run began; repeat the command")


_ADAPTER = TypeAdapter(Snapshot)


def text_of(config: Mapping[str, Any]) -> str:
    """The sections of a config as YAML, which keeps dates and numbers as keys."""
    return yaml.dump(config, Dumper=_Dumper, sort_keys=False)


def load(config: Mapping[str, Any], module: str) -> Snapshot | None:
    """The snapshot in the config of a job; None if there is none. Raises UserError if the program is another one now."""
    given = config.get(KEY, {}).get(module)
    if given is None:
        return None
    snapshot = _ADAPTER.validate_json(json.dumps(given))
    if snapshot.engine != tfglm.ENGINE:
        raise UserError("tfglm has been upgraded or downgraded since the run began; repeat the command")
    return snapshot
