"""The state of a run, from Snakemake's events: its stage, the finished jobs, and the time left."""

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tfglm import digests
from tfglm.errors import UserError
from tfglm.roles import pending


class RunStage(NamedTuple):
    name: str
    rules: str
    """A pattern of their names."""


FITTING = RunStage("Fitting models", "ps|workers|peers|chief|fit|train|train_part|train_on_cluster")
STAGES = (
    RunStage("Reading data", "fetch.*|copy_from_package|ingest.*|merge_dictionary|write_rows"),
    RunStage("Preparing models", "build_design|check_.*|collapse_rows"),
    FITTING,
    RunStage(
        "Writing tables",
        "write_.*table.*|tabulate_.*|evaluate.*|predict|score_file|residuals|export_.*|write_predictions_csv|compare_(models|parts)",
    ),
    RunStage("Drawing pages", "write_(pages.*|diagnostics|combinations|scores|home)|draw_.*"),
    RunStage("Sending files", "pack"),
    RunStage("Running in one job", "run_in_one_job"),
)


def stage_of(rule: str) -> RunStage | None:
    """None of a rule that only collects what others make."""
    return next((stage for stage in STAGES if re.fullmatch(stage.rules, rule)), None)


class RunningJob(NamedTuple):
    stage: RunStage | None
    message: str
    """The message of its rule."""
    model: str
    """Empty of a job that is for no model."""
    progress: Path
    """The file with the progress of a fit (`tfglm.roles.progress`)."""
    started: float

    @property
    def group(self) -> tuple[str, RunStage | None]:
        """The same for all processes of one fit."""
        return self.model, self.stage

    def read_progress(self) -> dict[str, Any]:
        try:
            # Older content belongs to an earlier run. The clock of files may be a tick of the kernel behind.
            is_new = self.progress.stat().st_mtime >= self.started - 0.01
            return json.loads(self.progress.read_text(encoding="utf-8")) if is_new else {}
        except (OSError, ValueError):
            return {}


def clock(seconds: float) -> str:
    """The local time of day of seconds since 1970; with the date unless it is today."""
    then = time.localtime(seconds)
    return time.strftime("%H:%M:%S" if then[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M:%S", then)


RECORD = Path(".snakemake", "tfglm.json")
"""The state of the run in this folder, for `tfglm status`."""


def processes_here(is_one: Callable[[str], bool]) -> list[int]:
    """The other processes in this folder with such a word on their command line."""
    here, own = str(Path.cwd()), os.getpid()
    return [
        process.pid
        for process in psutil.process_iter(["cwd", "cmdline"])
        if process.info["cwd"] == here and process.pid != own and any(map(is_one, process.info["cmdline"] or []))
    ]


def lock_holder() -> str:
    """Say who locks this folder, and how to go on; empty if it is a run of this machine that was killed."""
    unlock = "call snakemake once with --unlock, or `tfglm run` with `-- --unlock`"
    if running := processes_here(lambda word: Path(word).name == "snakemake"):
        return f"another run (process {running[0]}) works on the same files: wait for its end, or end it"
    try:
        if RunProgress.recorded():
            return "another run works on the same files: wait for its end; `tfglm status` shows it"
    except UserError as error:
        return f"{error}; if that machine is gone, {unlock}"
    if not RECORD.is_file():
        return f"a run that left no record locks it; if none works here, on no machine, {unlock}"
    jobs = pending.accounts(Path.cwd())
    return f"a run was killed, and {jobs[0]}: end its jobs with scancel, and repeat the command" if jobs else ""


class RunProgress:
    """The jobs of a run, so many of each rule."""

    def __init__(self, jobs_of_rules: Mapping[str, int]) -> None:
        self.jobs_of_stages = dict.fromkeys(STAGES, 0)
        for rule, jobs in jobs_of_rules.items():
            if stage := stage_of(rule):
                self.jobs_of_stages[stage] += jobs
        self.jobs, self.done = sum(self.jobs_of_stages.values()), 0
        self._running: dict[int, RunningJob] = {}
        self._began = time.monotonic()
        self._ends: float | None = None

    def write(self) -> None:
        """Write the state to RECORD; a disk that refuses it costs no more than `tfglm status`."""
        process = psutil.Process()
        state = {
            "host": socket.gethostname(),
            "process": [process.pid, process.create_time()],
            "counts": [self.jobs, self.done],
            "times": [self._began, self._ends],
            "running": [
                (job.stage and job.stage.name, job.message, job.model, str(job.progress), job.started)
                for job in self._now()
            ],
        }
        with contextlib.suppress(OSError):
            digests.replace(RECORD, json.dumps(state))

    def forget(self) -> None:
        """Delete RECORD, if it is of this process: the run has ended."""
        with contextlib.suppress(OSError, ValueError):
            if json.loads(RECORD.read_text(encoding="utf-8"))["process"][0] == os.getpid():
                RECORD.unlink()

    @classmethod
    def recorded(cls) -> "RunProgress | None":
        """Return the run that is under way in this folder; None if there is none. Raises UserError for one on another machine."""
        try:
            state = json.loads(RECORD.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if state["host"] != socket.gethostname():
            raise UserError(f"a run in this folder began on {state['host']}: ask there")
        pid, created = state["process"]
        try:
            process = psutil.Process(pid)
            if process.create_time() != created or process.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.NoSuchProcess:
            return None
        run = cls({})
        run.jobs, run.done = state["counts"]
        run._began, run._ends = state["times"]
        stages = {stage.name: stage for stage in STAGES}
        for number, (stage, message, model, progress, started) in enumerate(state["running"]):
            run._running[number] = RunningJob(stages.get(stage), message, model, Path(progress), started)
        return run

    def account(self) -> str:
        """What runs, since when, and the seconds left, in lines."""
        since = time.time() - (time.monotonic() - self._began)
        if not self.jobs:
            return f"Running since {clock(since)}: choosing what to run"
        left = self.seconds_left()
        about = f", about {left:,.0f} s left" if left is not None else ""
        jobs = [f"  {job.message}, since {clock(job.started)}" for job in self._now()]
        return "\n".join([f"Running since {clock(since)}: {self.done} of {self.jobs} jobs are done{about}", *jobs])

    def start(
        self, jobid: int, rule: str, message: str | None, wildcards: Mapping[str, str], logs: Sequence[str]
    ) -> RunStage | None:
        """A job begins; the stage that it is of."""
        progress = Path(logs[0]).with_name("progress.json") if logs else Path("progress.json")
        stage = stage_of(rule)
        self._running[jobid] = RunningJob(stage, message or rule, wildcards.get("model", ""), progress, time.time())
        return stage

    def finish(self, jobid: int) -> None:
        """A job has ended well."""
        if (job := self._running.pop(jobid, None)) and job.stage:
            self.done += 1
            now = time.monotonic()
            self._ends = now + (now - self._began) * (self.jobs - self.done) / self.done

    def fail(self, jobid: int) -> RunningJob | None:
        """A job has failed."""
        return self._running.pop(jobid, None)

    def is_busy_without(self, failed: RunningJob | None) -> bool:
        """Whether jobs run that need not end with one that has failed, as the processes of one fit do."""
        return any(failed is None or job.group != failed.group for job in self._now())

    def stage(self) -> str:
        """The first stage that something runs of, with the models that it runs for."""
        now = self._now()
        for stage in STAGES:
            if running := [job for job in now if job.stage is stage]:
                models = sorted({job.model for job in running} - {""})
                return f"{stage.name}: {', '.join(models)}" if models else stage.name
        return "Choosing what to run"

    def share(self) -> float:
        """How much of the run is done, from 0 to 1; of a fit as much as it says itself."""
        of_fits = [told["done"] / told["of"] for told in self._fit_progress() if told.get("of")]
        return min(1.0, (self.done + sum(of_fits)) / max(1, self.jobs))

    def rows_a_second(self) -> int:
        """The sum over all running fits; 0 if none reports it."""
        return sum({told["model"]: told.get("rows_a_second", 0) for told in self._fit_progress()}.values())

    def seconds_left(self) -> float | None:
        """Estimate the time left from the duration of the finished jobs, but at least the estimate of a running fit; None
        if neither is known, or if it has passed."""
        left = [told.get("seconds_left", 0.0) for told in self._fit_progress()]
        if self._ends is not None:
            left.append(self._ends - time.monotonic())
        return longest if (longest := max(left, default=0.0)) > 0 else None

    def _fit_progress(self) -> list[dict[str, Any]]:
        return [told for job in self._now() if job.stage is FITTING and (told := job.read_progress())]

    def _now(self) -> list[RunningJob]:
        """The jobs that run; a copy, as the display asks in a thread of its own."""
        return list(self._running.values())
