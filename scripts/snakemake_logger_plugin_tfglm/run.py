"""What Snakemake's events tell of a run: the stage it is in, how much is done, how long the rest may take."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Stage(NamedTuple):
    name: str
    rules: str
    """A pattern of their names."""


FITTING = Stage("Fitting models", "ps|workers|peers|chief|fit|train|train_on_cluster")
STAGES = (
    Stage("Reading data", "fetch|ingest|merge_dictionary|render_rows"),
    Stage("Preparing models", "build_design|check_reference|collapse_rows"),
    FITTING,
    Stage("Writing tables", "tabulate_.*|evaluate|predict|residuals|export_.*|write_predictions_csv|compare_models"),
    Stage("Drawing pages", "render_.*"),
)


def stage_of(rule: str) -> Stage | None:
    """None of a rule that only collects what others make."""
    return next((stage for stage in STAGES if re.fullmatch(stage.rules, rule)), None)


class Job(NamedTuple):
    stage: Stage | None
    message: str
    """What it does, in the words of its rule."""
    model: str
    """Empty of a job that is for no model."""
    progress: Path
    """Where a fit writes how far it is (`tfglm.roles.progress`)."""
    started: float

    def told(self) -> dict[str, Any]:
        """What it has written there."""
        try:
            # What is older is of an earlier run. The clock of files may be a tick of the kernel behind.
            is_new = self.progress.stat().st_mtime >= self.started - 0.01
            return json.loads(self.progress.read_text()) if is_new else {}
        except (OSError, ValueError):
            return {}


class Run:
    """The jobs of a run, so many of each rule."""

    def __init__(self, jobs_of_rules: Mapping[str, int]) -> None:
        self.jobs_of_stages = dict.fromkeys(STAGES, 0)
        for rule, jobs in jobs_of_rules.items():
            if stage := stage_of(rule):
                self.jobs_of_stages[stage] += jobs
        self.jobs, self.done = sum(self.jobs_of_stages.values()), 0
        self._running: dict[int, Job] = {}
        self._began = time.monotonic()
        self._ends: float | None = None

    def start(
        self, jobid: int, rule: str, message: str | None, wildcards: Mapping[str, str], logs: Sequence[str]
    ) -> Stage | None:
        """A job begins; the stage that it is of."""
        progress = Path(logs[0]).with_name("progress.json") if logs else Path("progress.json")
        stage = stage_of(rule)
        self._running[jobid] = Job(stage, message or rule, wildcards.get("model", ""), progress, time.time())
        return stage

    def finish(self, jobid: int) -> None:
        """A job has ended well."""
        if (job := self._running.pop(jobid, None)) and job.stage:
            self.done += 1
            now = time.monotonic()
            self._ends = now + (now - self._began) * (self.jobs - self.done) / self.done

    def fail(self, jobid: int) -> str:
        """A job has failed; what it was at."""
        job = self._running.pop(jobid, None)
        return job.message if job else "a job"

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
        of_fits = [told["done"] / told["of"] for told in self._told() if told.get("of")]
        return min(1.0, (self.done + sum(of_fits)) / max(1, self.jobs))

    def rows_a_second(self) -> int:
        """Of all fits that run; 0 while none says it."""
        return sum({told["model"]: told.get("rows_a_second", 0) for told in self._told()}.values())

    def seconds_left(self) -> float | None:
        """By how long the finished jobs took, and no less than a fit says itself; None if neither is known, or it has passed."""
        left = [told.get("seconds_left", 0.0) for told in self._told()]
        if self._ends is not None:
            left.append(self._ends - time.monotonic())
        return longest if (longest := max(left, default=0.0)) > 0 else None

    def _told(self) -> list[dict[str, Any]]:
        """What the fits that run say of themselves, of each of their jobs."""
        return [told for job in self._now() if job.stage is FITTING and (told := job.told())]

    def _now(self) -> list[Job]:
        """The jobs that run; a copy, as the display asks in a thread of its own."""
        return list(self._running.values())
