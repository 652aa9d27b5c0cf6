"""What `make run` shows: `snakemake --logger tfglm`, which finds this package by its name on the Python path.

The stage, a bar, the time left; warnings and errors in full; what the workflow prints itself; and nothing else of what Snakemake
says, which is in the log that it keeps in any case.
"""

import logging
import os
import re
import sys
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tfglm.display import Bar, Display, Lines
from snakemake_logger_plugin_tfglm.run import Run
from tfglm import command

# How the remarks of Snakemake begin that are shown though they are no warnings.
INTERRUPTED = "Terminating processes on user request"
REMARKS = (INTERRUPTED, "Nothing to be done", "Will exit after", "Trying to restart job", "Report created")
# What its errors say besides, once a job has failed.
REPEATED = ("Exiting because a job execution failed", "At least one job did not complete successfully")


class LogHandler(LogHandlerBase):
    """Hands each event of Snakemake to the display."""

    def __post_init__(self) -> None:
        in_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._display: Display = Bar() if in_terminal else Lines()
        self._run = Run({})
        self._has_failed = self._is_interrupted = False
        self._entered: set[str] = set()
        # Jobs leave out their own lines of progress.
        os.environ[command.DISPLAYED] = "1"

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.common_settings.dryrun:
                self._say(self.format(record))
            else:
                self._handle(getattr(record, "event", None), record)
        except Exception:
            self.handleError(record)

    def _handle(self, event: LogEvent | None, record: Any) -> None:
        match event:
            case LogEvent.RUN_INFO:
                self._run = Run(record.stats)
                self._display.begin(self._run)
            case LogEvent.JOB_INFO:
                stage = self._run.start(record.jobid, record.rule_name, record.rule_msg, record.wildcards, record.log)
                if stage and stage.name not in self._entered:
                    self._entered.add(stage.name)
                    self._display.enter(stage)
            case LogEvent.JOB_FINISHED:
                self._run.finish(record.job_id)
            case LogEvent.ERROR if record.exception == "RuleException" and "CalledProcessError" in record.msg:
                # The job has said why, if it could. The rest of this message is its command.
                if (signal := re.search(r"died with <Signals\.(\w+)", record.msg)) and not self._is_interrupted:
                    self._say(f"A job was ended by {signal[1]}")
            case LogEvent.JOB_ERROR:
                self._has_failed = True
                failed, logs = self._run.fail(record.jobid), ", ".join(record.log)
                if not self._is_interrupted:
                    self._say(f"Failed: {failed}" + (f"; its log: {logs}" if logs else ""))
            case LogEvent.ERROR | None:
                self._remark(record)

    def _remark(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self._is_interrupted |= text.startswith(INTERRUPTED)
        if record.levelno >= logging.WARNING:
            is_shown = not any(words in text for words in REPEATED)
        else:
            is_shown = text.startswith(REMARKS) or (self._has_failed and text.startswith("Complete log"))
        if is_shown:
            self._say(text)

    def _say(self, text: str) -> None:
        if text:
            self._display.say(text)

    def close(self) -> None:
        self._display.end()
        super().close()
