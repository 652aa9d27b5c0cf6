"""The display of a run: stages, a bar and the time left; warnings; at the end the results, or the errors and their logs.

`tfglm.workflow.substitutes` replaces the output of Snakemake by it. `snakemake --logger tfglm` has it from the start: Snakemake
finds the package on the Python path by its name. All messages of Snakemake are in its own log; `--verbose` shows them.
"""

import logging
import os
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tfglm.display import Bar, Lines
from snakemake_logger_plugin_tfglm.run import RunningJob, RunProgress, lock_holder
from tfglm import command

INTERRUPTED = "Terminating processes on user request"
REMARKS = (INTERRUPTED, "Nothing to be done", "Will exit after", "Trying to restart job", "Report created")
"""How the remarks of Snakemake begin that are shown though they are no warnings."""

NEEDLESS = ("Assuming unrestricted shared filesystem usage",)
"""How those begin that are not shown, of what it says before a run starts: answers to options such as `--unlock`."""

REPEATED = ("Exiting because a job execution failed", "At least one job did not complete successfully")
"""What its errors say besides, once a job has failed."""

KILLED = "a run was killed: call snakemake once with --unlock, then with --rerun-incomplete; `tfglm run` needs neither"
"""What is said of locks that no run has."""

RESUME = "interrupted; run the same command to resume"
"""The last line after Ctrl-C."""

LONGEST_END = 100_000
"""Bytes at the end of a log in which an error is searched."""


def end_by_exception(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    """Say the same for a Ctrl-C while Snakemake plans the run: it knows no more than a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print(RESUME, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, place)


class Failure(NamedTuple):
    """A job that has failed."""

    job: RunningJob | None
    logs: list[str]

    def reason(self) -> str:
        """The last error in the log, as `tfglm.command` writes it; empty if the job could say none."""
        for log in self.logs:
            try:
                with Path(log).open("rb") as file:
                    file.seek(max(0, Path(log).stat().st_size - LONGEST_END))
                    text = file.read().decode(errors="replace")
            except OSError:
                continue
            if errors := re.findall(r"^[\d:]{8} (error: .*(?:\n(?![\d:]{8} ).*)*)", text, re.MULTILINE):
                return errors[-1].rstrip()
        return ""

    def sentence(self) -> str:
        """What failed, and its log."""
        logs = f"; its log: {', '.join(self.logs)}" if self.logs else ""
        return f"Failed: {self.job.message if self.job else 'a job'}{logs}"


class LogHandler(LogHandlerBase):
    """Hands each event of Snakemake to the display."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._shows_all = settings.dryrun or settings.verbose or settings.printshellcmds
        in_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._display: Bar | Lines = Bar() if in_terminal and not self._shows_all else Lines()
        self._run = RunProgress({})
        self._has_begun = self._is_interrupted = False
        self._failures: dict[int, Failure] = {}
        self._entered: set[str] = set()
        if not self._shows_all:
            # Jobs leave out their own lines of progress, and their errors, which `close` shows.
            os.environ[command.DISPLAYED] = "1"
            sys.excepthook = end_by_exception

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._shows_all:
                self._say(self.format(record))
            else:
                self._handle(getattr(record, "event", None), record)
        except Exception:
            self.handleError(record)

    def _handle(self, event: LogEvent | None, record: Any) -> None:
        match event:
            case LogEvent.WORKFLOW_STARTED:
                self._has_begun = True
            case LogEvent.RUN_INFO:
                self._run = RunProgress(record.stats)
                self._display.begin(self._run)
                self._run.write()
            case LogEvent.JOB_INFO:
                stage = self._run.start(record.jobid, record.rule_name, record.rule_msg, record.wildcards, record.log)
                self._failures.pop(record.jobid, None)
                if stage and stage.name not in self._entered:
                    self._entered.add(stage.name)
                    self._display.enter(stage)
                self._run.write()
            case LogEvent.JOB_FINISHED:
                self._run.finish(record.job_id)
                self._run.write()
            case LogEvent.ERROR if record.exception == "RuleException" and "CalledProcessError" in record.msg:
                # The job has said why, if it could. The rest of this message is its command.
                if (signal := re.search(r"died with <Signals\.(\w+)", record.msg)) and not self._is_interrupted:
                    self._say(f"A job was ended by {signal[1]}")
            case LogEvent.JOB_ERROR:
                logs = [log.removesuffix(" (send to storage)") for log in record.log]
                failure = Failure(self._run.fail(record.jobid), logs)
                self._failures[record.jobid] = failure
                if self._run.is_busy_without(failure.job) and not self._is_interrupted:
                    self._say(f"{failure.sentence()}. Other jobs end first.")
                self._run.write()
            case LogEvent.ERROR:
                self._say_error(self.format(record))
            case None:
                self._remark(record)

    def _say_error(self, text: str) -> None:
        """An error of Snakemake. If it is one of the user's, the places in the rules are left out."""
        if text.startswith("LockException"):
            self._say(f"error: {Path.cwd()}: {lock_holder() or KILLED}")
        elif not any(words in text for words in REPEATED):
            text, places = re.subn(r"\A(?:WorkflowError in file .*, line \d+|error):\n", "error: ", text)
            self._say(re.sub(r'\n  File ".*", line \d+, in .*', "", text) if places else text)

    def _remark(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._is_interrupted |= text.startswith(INTERRUPTED)
        if record.levelno >= logging.WARNING:
            is_shown = not any(words in text for words in REPEATED)
        else:
            is_shown = text.startswith(REMARKS) or not (self._has_begun or text.startswith(NEEDLESS))
        if is_shown:
            self._say(text)

    def _say(self, text: str) -> None:
        if text:
            self._display.say(text)

    def _conclude(self) -> None:
        """Say why the run has failed, last."""
        if self._is_interrupted:
            self._say(RESUME)
            return
        reasons = {jobid: failure.reason() for jobid, failure in self._failures.items()}
        # Of the processes of one fit, those that know no reason were ended with the others.
        known = {failure.job and failure.job.group for jobid, failure in self._failures.items() if reasons[jobid]}
        for jobid, failure in sorted(self._failures.items(), key=lambda item: bool(reasons[item[0]])):
            if reasons[jobid] or (failure.job and failure.job.group) not in known:
                self._say("\n".join(filter(None, [reasons[jobid], failure.sentence()])))

    def close(self) -> None:
        if not self._shows_all:
            self._conclude()
            self._failures, self._is_interrupted = {}, False
        self._display.end()
        self._run.forget()
        super().close()
