"""What the display of a run shows, fed with Snakemake's events."""

import io
import json
import logging
import os
import re
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from rich.console import Console
from snakemake_interface_logger_plugins.common import LogEvent

import snakemake_logger_plugin_tfglm as plugin
from runs import REPOSITORY
from snakemake_logger_plugin_tfglm.display import Bar, line
from snakemake_logger_plugin_tfglm.run import Run, stage_of
from tfglm import command

NOT_SHOWN = {"all", "score", "compare", "tables", "scaling", "tidy", "export", "init"}
"""Rules that collect what others make, or that run alone."""


def test_every_rule_is_of_a_stage():
    files = [REPOSITORY / "workflow" / "Snakefile", *(REPOSITORY / "workflow" / "rules").glob("*.smk")]
    rules = {rule for file in files for rule in re.findall(r"^\s*rule (\w+):", file.read_text(), re.MULTILINE)}
    assert {rule for rule in rules if stage_of(rule) is None} == NOT_SHOWN


@pytest.fixture
def fitting(tmp_path, monkeypatch) -> Run:
    """A run of four jobs, one done after 10 s, one fitting, half of it done."""
    now = iter([0.0, 10.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now, 15.0))
    run = Run({"ingest": 1, "fit": 1, "tabulate_coefficients": 1, "render_coefficients": 1, "all": 1, "total": 5})
    run.start(1, "ingest", "Reading x.csv", {}, ["logs/ingest.log"])
    assert run.stage() == "Reading data" and run.seconds_left() is None
    run.finish(1)
    run.start(2, "fit", "late: fitting", {"model": "late"}, [str(tmp_path / "fit.log")])
    facts = {"model": "late", "done": 5, "of": 10, "seconds_left": 7.0, "rows_a_second": 6_900_000}
    (tmp_path / "progress.json").write_text(json.dumps(facts))
    return run


def shown(run: Run, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(line(run, width))
    return console.file.getvalue()


def test_the_line_has_stage_jobs_speed_and_time_left(fitting, tmp_path):
    assert fitting.share() == (1 + 5 / 10) / 4
    # Three more jobs as long as the first, of which 5 s have passed.
    words = r"Fitting models: late +━+.? *1 of 4 jobs, 6\.9 M rows/s, 0:25 left\s*\n"
    assert re.fullmatch(words, shown(fitting, 100))
    os.utime(tmp_path / "progress.json", (0, 0))
    assert "rows/s" not in shown(fitting, 100), "what an earlier run has left"
    fitting.finish(2)
    assert "Choosing what to run" in shown(fitting, 100) and "2 of 4 jobs" in shown(fitting, 100)


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_the_line_is_one_line(fitting, width):
    fitting.start(3, "chief", None, {"model": "a_model_with_quite_a_long_name"}, [])
    text = shown(fitting, width)
    assert text.count("\n") == 1 and len(text) <= width


def test_on_a_terminal_what_is_said_stays_above_the_line(fitting):
    file = io.StringIO()
    bar = Bar(Console(file=file, force_terminal=True, width=80))
    bar.begin(fitting)
    bar.say("a warning [with brackets] " + "that is long " * 10)
    bar.end()
    bar.end()
    text = file.getvalue()
    assert "a warning [with brackets] " + "that is long " * 10 + "\n" in text
    assert text.endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), "the cursor is there, the line is not"


def handler(monkeypatch, capsys) -> Callable[..., str]:
    """A function that hands an event to the plugin, and returns what is then printed."""
    monkeypatch.setenv(command.DISPLAYED, "")  # which the plugin sets: so it is as before after the test
    handler = plugin.LogHandler(SimpleNamespace(dryrun=False), None)

    def tell(message="", level=logging.INFO, **facts) -> str:
        record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
        vars(record).update(facts)
        handler.emit(record)
        return capsys.readouterr().err

    return tell


def test_into_a_pipe_stages_and_what_failed_are_told_and_nothing_else(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    job = {"rule_name": "fit", "rule_msg": "late: fitting", "wildcards": {"model": "late"}, "log": ["logs/fit.log"]}
    assert tell("Building DAG of jobs...") == ""
    assert tell(event=LogEvent.RUN_INFO, stats={"fit": 2, "all": 1, "total": 3}) == ""
    assert tell(event=LogEvent.JOB_INFO, jobid=1, **job) == "Fitting models: 2 jobs\n"
    assert tell(event=LogEvent.JOB_INFO, jobid=2, **job) == ""
    assert tell("Waiting at most 20 seconds for missing files:\nx") == ""
    assert tell("a warning", logging.WARNING) == "a warning\n"
    assert tell(event=LogEvent.JOB_FINISHED, job_id=1) == tell(event=LogEvent.PROGRESS, done=1, total=3) == ""
    assert tell("Complete log(s): x") == ""
    of_job = {"event": LogEvent.ERROR, "exception": "RuleException"}
    assert tell("CalledProcessError in file x: Command 'exec python' returned 1", logging.ERROR, **of_job) == ""
    killed = "CalledProcessError in file x: Command 'exec python' died with <Signals.SIGKILL: 9>."
    assert tell(killed, logging.ERROR, **of_job) == "A job was ended by SIGKILL\n"
    failed = tell("Error in rule fit", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=2, **job)
    assert failed == "Failed: late: fitting; its log: logs/fit.log\n"
    assert tell("Complete log(s): x") == "Complete log(s): x\n"


def test_errors_of_the_workflow_are_told_in_full(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    message = "WorkflowError in file x, line 9:\nconfig.yaml: models.late.formula: no column `a`\n  add it"
    assert tell(message, logging.ERROR, event=LogEvent.ERROR, exception="WorkflowError") == message + "\n"


def test_after_control_c_no_job_is_said_to_have_failed(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    assert tell("Terminating processes on user request, this might take some time.").startswith("Terminating")
    assert tell("Error in rule fit", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1, log=["logs/fit.log"]) == ""
    assert tell("Complete log(s): x") == "Complete log(s): x\n"
