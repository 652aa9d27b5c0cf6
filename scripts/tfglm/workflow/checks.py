"""Checks before Snakemake deletes earlier outputs or starts a job, and what the jobs of a run get from its main process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake.logging import logger

from tfglm.addresses import is_address
from tfglm.data.packages import located
from tfglm.errors import UserError, require
from tfglm.roles import memory, pending
from tfglm.workflow import kept, snapshot, substitutes
from tfglm.workflow.input_files import UNSAFE
from tfglm.workflow.plan import Plan
from tfglm.workflow.processes import Processes
from tfglm.workflow.values import Refusal, refusing

NEED_TENSORFLOW = {
    "chief": "a fit by several processes",
    "export_model": "a SavedModel",
    **dict.fromkeys(("train", "train_on_cluster", "train_part"), "a network"),
}
"""Rules whose jobs import TensorFlow, and what they make."""


def check_disk(plan: Plan) -> None:
    """Raise UserError for a disk that is too small."""
    needed = 0
    for name, file in plan.files.files.items():
        if not (is_address(file.source) or Path(plan.files.folders[name], "manifest.json").exists()):
            from tfglm.data.packing import estimated_csv_bytes
            from tfglm.data.shards import estimated_stored_bytes

            csv = estimated_csv_bytes(located(file.source))
            needed += estimated_stored_bytes(csv, len(plan.config.data.columns))
    free = shutil.disk_usage(".").free
    if needed > free:
        raise UserError(
            f"the shards need about {needed / 1e6:,.1f} MB, but only {free / 1e6:,.1f} MB are free in {Path.cwd()}\n"
            f"  make room, keep fewer columns, or run snakemake in a folder on a larger disk with --directory"
        )
    if needed > 1e9:
        where = f"in {plan.paths.data}/; {free / 1e9:.1f} GB are free."
        print(f"The shards need about {needed / 1e9:.1f} GB {where}", file=sys.stderr)


def hand_over_config(plan: Plan) -> None:
    """Give jobs on other nodes this config as it is now. Their Snakemake would read the files again, when they have been
    edited."""
    taken = snapshot.Snapshot(
        text=snapshot.text_of(plan.sections),
        configs=plan.config_paths,
        layouts=plan.layouts | plan.layouts_to_score,
        files=dict(plan.files.files),
        scored=dict(plan.scored.files),
        strategy=plan.strategy,
        digests={path: plan.digest(path) for path in sorted(plan.code_of_networks())},
    )
    settings = plan.workflow.config_settings
    of_others = [] if plan.workflow.modifier.is_main_snakefile() else settings.configfiles
    settings.configfiles = [*of_others, taken.save(kept.FOLDER.absolute(), plan.module)]


def check_machine(plan: Plan, processes: Processes, scripts: Path) -> None:
    """Before anything starts, refuse missing packages and devices, and more processes than this machine has memory for. Warn if
    others can reach the processes."""
    workflow, isolate = plan.workflow, plan.config.cluster.isolate
    if not workflow.local_exec:
        return
    jobs = list(workflow.dag.needrun_jobs())
    # The command `tfglm` and its jobs have the same packages; jobs of `snakemake` may have others.
    if plan.caller == "tfglm" and not workflow.deployment_settings.deployment_method:
        for job in (job for job in jobs if job.rule.name in NEED_TENSORFLOW):
            with refusing():
                require("tensorflow", "tensorflow", f"{job.wildcards.model}: {NEED_TENSORFLOW[job.rule.name]}")
    for job in jobs:
        if job.rule.name in ("train", "train_part", "train_on_cluster"):
            processes.check_devices(job.wildcards.model)
    chiefs = [job for job in jobs if job.rule.name in ("chief", "train_on_cluster")]
    for job in chiefs:
        with refusing():
            memory.check(*processes.roles(job.wildcards), memory.machine_memory())
    if not chiefs or isolate == "never":
        return
    # In a separate process, because Snakemake has threads.
    line = [sys.executable, str(scripts / "isolate.py"), "--try"]
    reason = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace").stdout.strip()
    if reason and isolate == "always":
        raise Refusal(
            f"`cluster: {{isolate: always}}`, but a fit cannot have a network of its own here: {reason}\n"
            f"  with `auto` it runs without one; README.md (Security) says what that means"
        )
    if reason:
        logger.warning(
            "While a fit runs, whoever reaches this machine's ports can read and write your files; all users of this machine "
            f"can: a network of its own is refused here ({reason}). README.md (Security) says more."
        )


def check_nodes(plan: Plan) -> None:
    """Refuse a fit on several nodes if nothing starts processes on the other nodes."""
    nodes, executor = plan.config.cluster.nodes, plan.workflow.executor_plugin.name
    if nodes > 1 and not (plan.workflow.local_exec or executor == pending.EXECUTOR):
        raise Refusal(
            f"cluster.nodes: {nodes}: with the executor `{executor}` all processes of a fit run on one node; "
            "remove the key, or write --config 'cluster={nodes: 1}'"
        )


def _comment(job: Any) -> str:
    """The comment of a job, or of a group of jobs, in the queue of SLURM."""
    jobs = job.jobs if job.is_group() else [job]
    names = {
        value: None
        for each in jobs
        for key, value in sorted(each.wildcards_dict.items())
        if key not in ("key", "columns")
    }
    return pending.comment({each.rule.name for each in jobs}, names)


def watch_queue(workflow: Any, given_up: list[str]) -> None:
    """End a run if the scheduler will never start one of its jobs, and fail a job that has ended in a way that the executor
    does not know. `given_up` receives the reasons."""
    if workflow.executor_plugin.name == pending.EXECUTOR:
        import snakemake_executor_plugin_slurm

        pending.watch(Path.cwd(), logger.error, given_up)
        states = pending.States(logger.error, requeued=not workflow.executor_settings.no_requeue)
        substitutes.label_jobs(snakemake_executor_plugin_slurm, _comment)
        substitutes.translate_states(snakemake_executor_plugin_slurm, states)


def paths_to_pack(plan: Plan, configs: Iterable[str]) -> dict[str, list[str]]:
    """Return the user's files, by their archive. Data is not sent again after an edit of the config. Raises Refusal
    for files that would have another path in the folder of the job, or that Snakemake cannot name."""
    layouts = [name for name in [*plan.layouts, *plan.layouts_to_score] if name.endswith((".yaml", ".yml"))]
    code = [os.path.relpath(path) for path in plan.code_of_networks()]
    files = [*plan.files.files.values(), *plan.scored.files.values()]
    packed = {
        "analysis": sorted({*configs, *layouts, *code}),
        "data": sorted({file.source for file in files if not file.fetched}),
    }
    for path in [path for paths in packed.values() for path in paths]:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise Refusal(
                f"`{path}`: a job without a shared file system has the files of {Path.cwd()} alone\n"
                "  move the file there, or make a link to it there, and write the path from there"
            )
        if UNSAFE.search(path):
            raise Refusal(f"`{path}`: Snakemake does not send a file with {{, }}, < or > in its name; rename it")
    return packed


def check_scripts(workflow: Any, scripts: Path) -> None:
    """Refuse scripts that the job would not get: Snakemake sends what git tracks in the folder of the run."""
    line = ["git", "ls-files", "--recurse-submodules", str(scripts / "forked.py")]
    is_sent = workflow.remote_execution_settings.job_deploy_sources
    if is_sent and not subprocess.run(line, capture_output=True).stdout:
        raise Refusal(
            f"{scripts}: Snakemake sends to its jobs what git tracks in {Path.cwd()}, and these files are not among them\n"
            "  run it in a clone of the repository, with your config and data below that folder"
        )
