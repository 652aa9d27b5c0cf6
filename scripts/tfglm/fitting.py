"""The fit as a job: its input, its progress, and the files that it writes, with any executor."""

import argparse
import csv
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tfglm
from tfglm import command, digests, provenance, tensorflow_setup
from tfglm.config import Section, SolverConfig, TrainingConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.executor import Call, Executor
from tfglm.errors import writing
from tfglm.results import options
from tfglm.roles import curves
from tfglm.roles.progress import Progress
from tfglm.solvers.run import Reporter, Run


@dataclass(frozen=True)
class Job:
    """A job that fits a model: its command line, the design, the files with the rows, and the progress that it reports."""

    arguments: argparse.Namespace
    design: Design
    files: Sequence[IngestedFile]
    progress: Progress


Work = Callable[[Job], None]
"""Fits a model, and writes what it says."""

SECTIONS: dict[str, type[Section]] = {"fit": SolverConfig, "network": TrainingConfig}
"""The kinds of work, and what their settings are."""


def parser(description: str) -> command.ScriptParser:
    """The command line of the jobs that fit a model; `parsed` reads it."""
    parser = command.parser(description)
    parser.add_argument(
        "--work", choices=SECTIONS, default="fit", help="what to do: fit a regression, or train a network"
    )
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--collapsed", type=Path, nargs="?", help="manifest of the training rows, collapsed")
    options.add_offset(parser)
    parser.add_argument("--settings", required=True, help="how to fit or train, as JSON; without keys at their default")
    parser.add_argument("--config", default="{}", help="the config of data and model, as JSON, for the provenance")
    parser.add_argument("--history", type=Path, required=True, help="CSV for the convergence of the fit")
    parser.add_argument("--journal", type=Path, required=True, help="folder for what an interrupted fit resumes from")
    parser.add_argument("--begin", type=Path, help="checkpoints of an earlier part of the training, to continue from")
    parser.add_argument("--until", type=int, help="epoch after which to end the training or this part of it")
    parser.add_argument("--keep", type=Path, help="folder for the checkpoints at the end, for the next part")
    parser.add_argument("--progress", type=Path, help="file for the progress of the fit")
    parser.add_argument("--events", type=Path, help="folder for curves that TensorBoard shows")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json to write, last of all")
    parser.add_argument("--parent", type=int, help="id of the process that starts this process; the two end together")
    return parser


def parsed(parser: argparse.ArgumentParser, line: Sequence[str] | None = None) -> argparse.Namespace:
    """A command line, by default that of this process, with the settings of its kind of work."""
    arguments = parser.parse_args(line)
    try:
        arguments.settings = SECTIONS[arguments.work].model_validate_json(arguments.settings)
    except ValueError as error:
        parser.error(f"argument --settings: {error}")
    return arguments


def watched(arguments: argparse.Namespace, work: Work, meanwhile: Callable[[Design], object] | None = None) -> None:
    """Do the work of a command line; the file of its progress says how far it is, or why it failed. `meanwhile` runs in a
    thread while the work begins. Raises UserError if the design was made for other shards, and what `work` raises."""
    design = Design.load(arguments.design)
    progress = Progress(arguments.progress, design.model)
    try:
        files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
        if design.data != tuple(file.manifest.digest for file in files):
            raise digests.changed(arguments.design, "it was made for other shards", delete=arguments.design)
        if meanwhile:
            threading.Thread(target=meanwhile, args=(design,), daemon=True).start()
        work(Job(arguments, design, files, progress))
    except Exception as error:
        progress.update(state="failed", reason=str(error))
        raise


MOST_TOUCHED = 1 << 30
"""Bytes."""


def take_memory(design: Design) -> None:
    """Allocate the memory of the information matrix, in the forms that a fit has at the same time: two as received, one
    assembled, the blocks of two steps, and their results."""
    eliminated = 0 if design.absorbed else sum(design.parts[k].size for k in design.eliminated_parts)
    tensorflow_setup.touch(min(6 * 8 * (design.reported_size - eliminated) * design.reported_size, MOST_TOUCHED))


def fit(job: Job, executor: Executor) -> None:
    """Fit the model of a job with an executor, and write what it says. Raises what a solver or the executor raises."""
    from tfglm import checkpoint, resume
    from tfglm.engine import collapsed
    from tfglm.engine.passes import rows_in
    from tfglm.engine.workload import Workload
    from tfglm.results.estimates import absent_estimates
    from tfglm.solvers.fit import fit as fit_design

    arguments, design, progress = job.arguments, job.design, job.progress
    progress.fitting()
    rows = workload = Workload(design, job.files, "train")
    of_collapsed = IngestedFile.load(arguments.collapsed) if arguments.collapsed else None
    if of_collapsed:
        workload = collapsed.over(of_collapsed, rows)
        command.say(f"{design.model}: {collapsed.in_words(of_collapsed)}")
    history = History(arguments.events, design.model, progress)

    def passed(recalled: bool, seconds: float, calls: Sequence[Call]) -> None:
        history.passed(recalled, seconds, rows_in(calls) if calls else workload.rows)

    journal = resume.Journal(arguments.journal, key(arguments), command.log) if arguments.journal else None
    resuming = resume.ResumingExecutor(executor, journal, passed) if journal else executor
    lacks_clusters = len(workload.design.inference.clusters) < len(design.inference.clusters)
    fitted = fit_design(
        workload,
        Run(resuming, arguments.settings, history.reporter()),
        held_out=Workload(design, job.files, "evaluate"),
        rows_of_errors=rows if lacks_clusters else None,
    )
    command.log(f"fitted in {history.seconds():.3f} s")
    checkpoint.save(fitted, design, arguments.checkpoint)
    content = fitted.summary | absent_estimates(design, fitted)
    content |= {"collapsed": collapsed.account(of_collapsed)} if of_collapsed else {}
    content |= provenance.identity(arguments.design, arguments.checkpoint)
    content |= {"provenance": provenance.of(job.files, json.loads(arguments.config), tfglm.ENGINE)}
    digests.write_json(arguments.fit, content, indent=2)
    history.write(arguments.history, arguments.fit)
    if journal:
        journal.remove()
    progress.update(state="finished", seconds_left=0.0)
    if fitted.summary["exact"] and not fitted.summary["converged"]:
        command.say(
            f"{design.model}: warning: not converged after {fitted.summary['iterations']} iterations: perhaps "
            "`max_iterations` is too small, rounding errors are too large, or a coefficient has no finite estimate. "
            "The summary page says how far it is from the maximum"
        )


class History:
    """The record of a fit over time: rows of a CSV file, curves for TensorBoard, facts of its progress."""

    def __init__(self, events: Path | None, model: str, progress: Progress) -> None:
        self.curves, self._model, self._progress = curves.Curves(events), model, progress
        self._lines: list[tuple] = [("seconds", "quantity", "step", "value")]
        self._passes = itertools.count(1)
        self._started = time.perf_counter()

    def seconds(self) -> float:
        """Since the fit began."""
        return time.perf_counter() - self._started

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Quantities by name, such as `newton/deviance`, after so many steps."""
        self.curves.record(step, values)
        self._lines.extend((self.seconds(), name, step, value) for name, value in values.items())
        self._progress.update(**{name.split("/")[1].replace(" ", "_"): value for name, value in values.items()})

    def passed(self, recalled: bool, seconds: float, rows: int) -> None:
        """One more sum is there, over so many rows."""
        self._progress.passed(recalled, seconds, rows)
        if seconds and not recalled:
            self._lines.append((self.seconds(), "pass/rows a second", next(self._passes), rows / seconds))

    def reporter(self) -> Reporter:
        """Forwards the reports of a solver to the log and to the terminal."""
        return Reporter(
            lambda message: command.tell(f"{self._model}: {message}"),
            lambda message: command.live(f"{self._model}: {message}"),
            command.log,
            self.record,
            self._progress.advance,
        )

    def write(self, path: Path, fit: Path) -> None:
        """Write the CSV file, and beside it its digest and that of `fit`, which is there already."""
        with writing(path):
            with path.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows(self._lines)
            digests.write_beside(path, fit)


def key(arguments: argparse.Namespace, *others: Path) -> str:
    """Return the identity of a fit's inputs: manifests have the content of the shards; `others` are further inputs."""
    digest = hashlib.sha256(f"{provenance.versions(tfglm.ENGINE)} {arguments.settings.model_dump_json()}".encode())
    collapsed = [arguments.collapsed] if arguments.collapsed else []
    for path in (arguments.design, *arguments.manifests, *collapsed, *others):
        digest.update(digests.sha256(path).encode())
    return digest.hexdigest()
