# The folder of the scripts that the rules run.

import atexit
import contextlib
import gc
import io
import os
import re
import shlex
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import snakemake.executors.local
import snakemake.io
from snakemake.exceptions import WorkflowError
from snakemake.sourcecache import HostingProviderFile, LocalGitFile, LocalSourceFile

# Python looks for garbage among all objects, again and again and once more at its end. Imports leave none, and at the end the
# kernel takes all: 0.3 s of each start.
gc.freeze()
atexit.register(gc.freeze)


def folder_of_workflow():
    """The folder above `workflow/` and `scripts/`. This file is in workflow/rules, also if another workflow uses this one as a
    module. From a git repository Snakemake then fetches the rules alone, so the scripts of the same commit are put beside its
    cache."""
    rules = workflow.current_basedir
    if isinstance(rules, LocalSourceFile):
        return Path(rules.get_path_or_uri(secret_free=False)).parents[1]
    if isinstance(rules, HostingProviderFile):
        return checked_out(rules.hosted_repo.repo, rules.ref)
    if isinstance(rules, LocalGitFile):
        from git import Repo

        return checked_out(Repo(rules.repo_path), rules.ref)
    raise WorkflowError(
        f"{rules}: the scripts of this workflow cannot be fetched from there\n"
        '  name a checkout, or a repository: snakefile: github("owner/tfglm", path="workflow/Snakefile", tag="...")'
    )


def checked_out(repository, ref):
    """The folder with the scripts of a commit, and the layouts that they read. It is made once, as a whole or not at all."""
    commit = repository.commit(ref).hexsha
    folder = Path(workflow.sourcecache.cache_path, "tfglm", commit)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.parent.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise WorkflowError(
            f"{folder.parent}: other users can write to this folder, and scripts from there would run\n"
            "  delete it, or set XDG_CACHE_HOME to a folder of your own"
        )
    if folder.exists():
        return folder
    packed = repository.git.archive(commit, "scripts", "config/layouts", stdout_as_string=False)
    with tempfile.TemporaryDirectory(dir=folder.parent) as new, tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(Path(new, commit), filter="data")
        try:
            Path(new, commit).rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
    return folder


SCRIPTS = folder_of_workflow() / "scripts"
# The rules call `python "$TFGLM_SCRIPTS/..."`: of the ways tried, only this one works from a module and from a moved checkout.
os.environ.update(TFGLM_SCRIPTS=str(SCRIPTS))

HERE = [Path(name).resolve() for name in ("Snakefile", "workflow/Snakefile")]
ELSEWHERE = "" if Path(workflow.main_snakefile).resolve() in HERE else f" --snakefile {workflow.main_snakefile}"
# Who calls this workflow: `snakemake`, or the command `tfglm`, which names itself (`tfglm.console`).
CALLER = os.environ.get("TFGLM_CALLER", f"snakemake --cores 4{ELSEWHERE}")


def run_of(*configs, options=()):
    """The user's command for a run of some configs."""
    if CALLER == "tfglm":
        words = ["tfglm", "run", *configs, *(["--", *options] if options else [])]
    else:
        words = [*shlex.split(CALLER), *(["--configfile", *configs] if configs else []), *options]
    return shlex.join(words)


sys.path.insert(0, str(SCRIPTS))

import forked
from tfglm.roles import fork_server


include: "display.smk"


# What has been found out about headers and configs (`remembered`).
CHECKED = ".snakemake/tfglm"

FORKED = re.compile(r'forked[.]py" (\w+[.]py)')


class ForkServer:
    """The process that imports what jobs need, and forks the jobs, if they run on this machine with the packages of this Python. Any
    value of TFGLM_FORK_SERVER prevents it."""

    def __init__(self):
        self.started = None

    def start(self):
        """Start it. Before this process makes the same imports to check the config is a good time."""
        cores_here = workflow.resource_settings.nodes is None and workflow.resource_settings.cores
        is_run = workflow.is_main_process and cores_here and not workflow.logger_manager.settings.dryrun
        in_one_job = workflow.storage_settings.default_storage_provider  # whose Snakemake has a fork server of its own
        if self.started or not is_run or in_one_job or workflow.deployment_settings.deployment_method:
            return
        if hasattr(os, "pidfd_open") and forked.ADDRESS not in os.environ and workflow.modifier.is_main_snakefile():
            with contextlib.suppress(OSError):  # such as a full disk: the jobs then run without it
                self.started = fork_server.Started(SCRIPTS, ["build_design.py"])

    def start_for(self, configs):
        """Start it at once if one of these files is newer than the last config that was checked: jobs will follow."""
        with contextlib.suppress(FileNotFoundError):
            checked = Path(CHECKED).stat().st_mtime_ns
            if all(Path(config).stat().st_mtime_ns < checked for config in configs):
                return
        self.start()

    def prepare(self, scripts):
        """Let it import next what these scripts need, unless it has none to serve."""
        if self.started:
            self.started.prepare(scripts)

    def serve(self):
        """Let it fork the jobs of this run."""
        self.start()
        if self.started and workflow.local_exec:
            jobs = [job for level in workflow.dag.toposorted() for job in level if workflow.dag.needrun(job)]
            scripts = dict.fromkeys(script for job in jobs for script in FORKED.findall(job.rule.shellcmd or ""))
            # Jobs of networks import all of TensorFlow, which is impossible after an import of its parts.
            ahead = [script for script in scripts if script != "fit.py" or not NETWORKS]
            # No other job waits for pages, not even for those of the rows, which come early.
            ahead.sort(key="write_pages.py".__eq__)
            self.started.prepare(ahead)
            os.environ[forked.ADDRESS] = self.started.address
        elif self.started:
            self.started.stop()


FORK_SERVER = ForkServer()


def look_often():
    """Let Snakemake look every twentieth of a second for the rosters of a fit, and for the end of its chief. It would look every
    two seconds for the rosters, a tenth of `latency-wait`, and every second for the end. On SLURM a fit has its own Snakemake,
    which keeps these periods: the files are on a shared disk there."""
    if workflow.local_exec:
        often = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: time.sleep(min(seconds, 0.05))})
        snakemake.io.time = snakemake.executors.local.time = often


def make_room_for_groups():
    """Let Snakemake start all jobs of as many groups as there are cores. It has five threads more than cores, and a group takes one
    and one for each of its three jobs. With too few, the last chief would wait until its roles give up."""
    if workflow.local_exec:
        workflow.scheduler._executor.pool._max_workers += 4 * workflow.resource_settings.cores


def end_at_once():
    """Cancel the timer of Snakemake's scheduler. It would let the end of a run wait for a second."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()
