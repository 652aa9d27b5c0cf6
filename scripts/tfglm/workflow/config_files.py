"""The files of the config, before Snakemake reads them."""

from pathlib import Path
from typing import Any

from tfglm.config.files import parse, read
from tfglm.workflow.values import refusing


def files_to_check(workflow: Any) -> list[Path]:
    """Return the files of the config."""
    files, default = [Path(path) for path in workflow.configfiles], Path("config/config.yaml")
    return files or [default] * (default.exists() and not workflow.modifier.skip_configfile)


def check(workflow: Any) -> None:
    """Raise Refusal for a config that repeats a key, repeats itself without end, or runs as Python."""
    with refusing():
        for path in files_to_check(workflow):
            read(path, may_run_code=workflow.modifier.skip_configfile)
        for entry in workflow.config_settings.config_args or []:
            key, _, value = str(entry).partition("=")
            parse(value, f"--config {key}")
