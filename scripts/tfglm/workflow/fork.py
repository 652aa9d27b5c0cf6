"""The fork server of a run."""

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tfglm.roles import fork_server
from tfglm.workflow import kept

ADDRESS = "TFGLM_FORK_SERVER"
"""The environment variable with the path of the server's socket (`scripts/forked.py`). Any value prevents a server."""

FORKED = re.compile(r'forked[.]py" (\w+[.]py)')
"""How a rule calls a script that the server may run."""


class RunServer:
    """The process that imports what jobs need, and forks the jobs, if they run on this machine with the packages of this
    Python."""

    def __init__(self, workflow: Any, scripts: Path) -> None:
        self._workflow, self._scripts, self._started = workflow, scripts, None  # type: Any, Path, fork_server.Started | None

    def start(self) -> None:
        """Start it. Before this process makes the same imports to check the config is a good time."""
        workflow = self._workflow
        cores_here = workflow.resource_settings.nodes is None and workflow.resource_settings.cores
        is_run = workflow.is_main_process and cores_here and not workflow.logger_manager.settings.dryrun
        in_one_job = workflow.storage_settings.default_storage_provider  # whose Snakemake has a fork server of its own
        if self._started or not is_run or in_one_job or workflow.deployment_settings.deployment_method:
            return
        if hasattr(os, "pidfd_open") and ADDRESS not in os.environ and workflow.modifier.is_main_snakefile():
            with contextlib.suppress(OSError):  # such as a full disk: the jobs then run without it
                self._started = fork_server.Started(self._scripts, ["build_design.py"])

    def start_for(self, configs: Iterable[Path]) -> None:
        """Start it at once if one of these files is newer than the last config that was checked: jobs will follow."""
        with contextlib.suppress(FileNotFoundError):
            checked = kept.FOLDER.stat().st_mtime_ns
            if all(config.stat().st_mtime_ns < checked for config in configs):
                return
        self.start()

    def prepare(self, scripts: Sequence[str]) -> None:
        """Let it import next what these scripts need, unless it has none to serve."""
        if self._started:
            self._started.prepare(scripts)

    def serve(self, has_networks: bool) -> None:
        """Let it fork the jobs of this run."""
        self.start()
        workflow = self._workflow
        if self._started and workflow.local_exec:
            jobs = [job for level in workflow.dag.toposorted() for job in level if workflow.dag.needrun(job)]
            scripts = dict.fromkeys(script for job in jobs for script in FORKED.findall(job.rule.shellcmd or ""))
            # Jobs of networks import all of TensorFlow, which is impossible after an import of its parts.
            ahead = [script for script in scripts if script != "fit.py" or not has_networks]
            # No other job waits for pages, not even for those of the rows, which come early.
            ahead.sort(key="write_pages.py".__eq__)
            self._started.prepare(ahead)
            os.environ[ADDRESS] = self._started.address
        elif self._started:
            self._started.stop()
