"""What has to replace something private of Snakemake. `tests/workflow/test_substitutes.py` fails when Snakemake changes there.

Each function says what Snakemake offers no other way for. These would make them needless, as reports to write upstream:

- `own_prefix`: "A module's `prefix` moves the files of rules. A workflow that passes a path as a param, or names data of its
  user as an input, cannot ask for the moved path, nor exempt a file. Please offer `workflow.modifier.placed(path)`, and a flag
  for files that stay."
- `look_often`: "`wait_for_files` sleeps a tenth of `latency-wait`, and `run_group_job` a second, between two looks for files.
  On a local disk a group with service jobs waits seconds for files that are there. Please let a setting name the period."
- `make_room_for_groups`: "The pool of the local executor has `cores + 5` threads, and a group of service jobs takes one and one
  for each job. With several such groups at a time, jobs that others wait for never start. Please size the pool by the jobs of
  groups."
- `end_at_once`: "The scheduler leaves a `threading.Timer` of a second behind, which delays the end of the process. Please make
  it a daemon, or cancel it."
- `explain_failed_groups`: "`GroupJob.log_error` drops the message that the executor gives, which single jobs show
  (snakemake-executor-plugin-slurm issue 456). Please show it."
- `translate_states`, `label_jobs` (snakemake-executor-plugin-slurm): "A job that was preempted, cancelled by an administrator or
  forgotten counts as running without end. Please treat these states as failures, and let a workflow set the comment of a job."
- `refuse_in_functions`: "A WorkflowError of an input function is shown as one of Snakemake, with its place in the rules. Please
  show its message, as for those outside of functions."
- `show_stages`: "A workflow cannot choose a logger plugin; only the command line can. Please let a Snakefile name the default."
"""

import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import snakemake.executors.local
import snakemake.io
import snakemake.rules
from snakemake.jobs import GroupJob
from snakemake.logging import logger
from snakemake.path_modifier import PathModifier

from tfglm.roles import pending
from tfglm.workflow.values import Refusal

PERIOD = 0.05
"""Seconds between two looks for files."""

MOST_JOBS = 4
"""Threads for a group: one for itself, and one for each of its three jobs."""


def own_prefix(workflow: Any) -> Callable[[str], str]:
    """Return what puts a folder below the prefix of a workflow that uses this one as a module, and let Snakemake move
    nothing. It would move the files of rules alone: not journals and leases, which are params, and the user's own data too."""
    modifier = workflow.modifier
    moved = modifier.path_modifier
    modifier.path_modifier = PathModifier(None, None, workflow)
    return lambda folder: str(moved.replace_prefix(Path(folder).as_posix()))


def look_often() -> None:
    """Let Snakemake look every twentieth of a second for the rosters of a fit, and for the end of its chief.

    It would look every two seconds for the rosters, a tenth of `latency-wait`, and every second for the end. On SLURM a fit
    has its own Snakemake, which keeps these periods: the files are on a shared disk there.
    """
    often = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: time.sleep(min(seconds, PERIOD))})
    snakemake.io.time = snakemake.executors.local.time = often


def make_room_for_groups(workflow: Any) -> None:
    """Let Snakemake start all jobs of as many groups as there are cores. With too few threads, the last chief would wait until
    its roles give up."""
    workflow.scheduler._executor.pool._max_workers += MOST_JOBS * workflow.resource_settings.cores


def end_at_once() -> None:
    """Cancel the timer of Snakemake's scheduler. It would let the end of a run wait for a second."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()


def explain_failed_groups(given_up: list[str]) -> None:
    """Make Snakemake say why a group of jobs has failed, as it does for single jobs, and add the reasons to `given_up`. It
    drops the executor's words, such as those of an sbatch that refuses the job."""
    log_error = GroupJob.log_error

    def log_error_with_reason(group: Any, msg: str | None = None, **further: Any) -> None:
        if msg:
            rules = sorted({job.rule.name for job in group.jobs})
            names = sorted({value for job in group.jobs for value in job.wildcards})
            reason = f"{', '.join(rules)} ({', '.join(names)}): {msg.partition('    sbatch call:')[0].strip()}"
            logger.error(reason)
            if reason not in given_up:
                given_up.append(reason)
        log_error(group, msg, **further)

    GroupJob.log_error = log_error_with_reason


class InputFunctionException(snakemake.rules.InputFunctionException):
    """That of Snakemake, or the mistake of the user that an input function has found."""

    def __new__(cls, error: Any, **place: Any) -> Any:
        return error if isinstance(error, Refusal) else super().__new__(cls)


def refuse_in_functions() -> None:
    """Let Snakemake show a Refusal of a function as it shows others."""
    snakemake.rules.InputFunctionException = InputFunctionException


def show_stages(workflow: Any, checkout: Path) -> None:
    """Replace Snakemake's output by that of `snakemake_logger_plugin_tfglm`. Options that ask for Snakemake's own keep it, and so
    does a workflow that uses this one as a module."""
    settings = workflow.logger_manager.settings
    asked = settings.dryrun or settings.verbose or settings.printshellcmds or settings.quiet or settings.debug_dag
    own = [(checkout / name).resolve() for name in ("Snakefile", "workflow/Snakefile")]
    is_module = Path(workflow.main_snakefile).resolve() not in own
    replaced = [handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"]
    if not workflow.is_main_process or asked or is_module or not replaced or not find_spec("rich"):
        return
    from snakemake_logger_plugin_tfglm import LogHandler

    shown = LogHandler(settings, None)
    for handler in replaced:
        shown.setFormatter(handler.formatter)
        for each in handler.filters:
            shown.addFilter(each)
        logger.removeHandler(handler)
    logger.addHandler(shown)


def translate_states(executor: Any, states: pending.States) -> None:
    """Have the executor, the module of the plugin, see the states as `states` translates them."""
    ask = executor.query_job_status

    async def query_job_status(command: str, logger: Any) -> tuple[dict[str, str] | None, float | None]:
        answer, seconds = await ask(command, logger)
        return (None if answer is None else states.known(answer)), seconds

    executor.query_job_status = query_job_status


def label_jobs(executor: Any, words: Callable[[Any], str]) -> None:
    """Have the executor submit jobs with the comments that `words` has for them."""
    submit = executor.get_submit_command

    def get_submit_command(job: Any, params: dict[str, Any], *rest: Any, **further: Any) -> str:
        return submit(job, {**params, "comment_str": words(job)}, *rest, **further)

    executor.get_submit_command = get_submit_command
