"""A whole run as one job, which sees no file of this machine: what it is sent."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from tfglm.workflow.input_files import UNSAFE
from tfglm.workflow.plan import Plan


def paths_to_pack(plan: Plan, configs: Iterable[str]) -> dict[str, list[str]]:
    """Return the user's files, by their archive. Data is not sent again after an edit of the config.

    Raises WorkflowError for files that would have another path in the folder of the job, or that Snakemake cannot name.
    """
    layouts = [name for name in [*plan.layouts, *plan.layouts_to_score] if name.endswith((".yaml", ".yml"))]
    code = [os.path.relpath(path) for path in plan.code_of_networks()]
    files = [*plan.files.files.values(), *plan.scored.files.values()]
    packed = {
        "analysis": sorted({*configs, *layouts, *plan.coordinates.values(), *code}),
        "data": sorted({file.source for file in files if not file.fetched}),
    }
    for path in [path for paths in packed.values() for path in paths]:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise WorkflowError(
                f"`{path}`: a job without a shared file system has the files of {Path.cwd()} alone\n"
                "  move the file there, or make a link to it there, and write the path from there"
            )
        if UNSAFE.search(path):
            raise WorkflowError(f"`{path}`: Snakemake does not send a file with {{, }}, < or > in its name; rename it")
    return packed


def check_scripts(workflow: Any, scripts: Path) -> None:
    """Refuse scripts that the job would not get: Snakemake sends what git tracks in the folder of the run."""
    line = ["git", "ls-files", "--recurse-submodules", str(scripts / "forked.py")]
    is_sent = workflow.remote_execution_settings.job_deploy_sources
    if is_sent and not subprocess.run(line, capture_output=True).stdout:
        raise WorkflowError(
            f"{scripts}: Snakemake sends to its jobs what git tracks in {Path.cwd()}, and these files are not among them\n"
            "  run it in a clone of the repository, with your config and data below that folder"
        )
