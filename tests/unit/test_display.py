"""What the display of a run shows, fed with Snakemake's events."""

import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from snakemake_interface_logger_plugins.common import LogEvent

import snakemake_logger_plugin_tfglm as plugin
from runs import REPOSITORY
from snakemake_logger_plugin_tfglm.display import Bar, line
from snakemake_logger_plugin_tfglm.run import RECORD, RunProgress, stage_of
from tfglm import command
from tfglm.errors import UserError

NOT_SHOWN = {"all", "score", "compare", "tables", "pictures", "scaling", "tidy", "export", "init"}
"""Rules that collect what others make, or that run alone."""


def test_every_rule_is_of_a_stage():
    files = [REPOSITORY / "workflow" / "Snakefile", *(REPOSITORY / "workflow" / "rules").glob("*.smk")]
    rules = {
        rule
        for file in files
        for rule in re.findall(r"^\s*(?:use rule \w+ as|rule) (\w+)(?: with)?:", file.read_text(), re.MULTILINE)
    }
    assert {rule for rule in rules if stage_of(rule) is None} == NOT_SHOWN


@pytest.fixture
def fitting(tmp_path, monkeypatch) -> RunProgress:
    """A run of four jobs, one done after 10 s, one fitting, half of it done."""
    now = iter([0.0, 10.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now, 15.0))
    run = RunProgress({"ingest": 1, "fit": 1, "write_tables": 1, "write_pages": 1, "all": 1, "total": 5})
    run.start(1, "ingest", "Reading x.csv", {}, ["logs/ingest.log"])
    assert run.stage() == "Reading data" and run.seconds_left() is None
    run.finish(1)
    run.start(2, "fit", "late: fitting", {"model": "late"}, [str(tmp_path / "fit.log")])
    facts = {"model": "late", "done": 5, "of": 10, "seconds_left": 7.0, "rows_a_second": 6_900_000}
    (tmp_path / "progress.json").write_text(json.dumps(facts))
    return run


def shown(run: RunProgress, width: int) -> str:
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


def handler(monkeypatch, capsys, **options) -> Callable[..., str]:
    """A function that hands an event to the plugin, or ends the run, and returns what is then printed."""
    monkeypatch.setenv(command.DISPLAYED, "")  # which the plugin sets: so it is as before after the test
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    settings = {"dryrun": False, "verbose": False, "printshellcmds": False} | options
    handler = plugin.LogHandler(SimpleNamespace(**settings), None)

    def tell(message="", level=logging.INFO, **facts) -> str:
        if message == "end":
            handler.close()
            return capsys.readouterr().err
        record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
        vars(record).update(facts)
        handler.emit(record)
        return capsys.readouterr().err

    return tell


def test_into_a_pipe_stages_and_what_failed_are_told_and_nothing_else(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    job = {"rule_name": "fit", "rule_msg": "late: fitting", "wildcards": {"model": "late"}, "log": ["logs/fit.log"]}
    assert tell("Workflow has started!", event=LogEvent.WORKFLOW_STARTED) == tell("Building DAG of jobs...") == ""
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
    assert tell("Error in rule fit", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=2, **job) == ""
    assert tell("At least one job did not complete successfully.", logging.ERROR, **of_job) == ""
    assert tell("Complete log(s): x") == ""
    assert tell("end") == "Failed: late: fitting; its log: logs/fit.log\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder, which takes the record of the run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


JOB = {"wildcards": {"model": "late"}, "rule_msg": None}
FAILED = {"level": logging.ERROR, "event": LogEvent.JOB_ERROR}


def write_log(name: str, text: str) -> list[str]:
    Path(name).write_text(text)
    return [name]


def test_the_last_lines_are_the_error_in_the_log_and_its_path(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    noise = "W0000 error: of a library\n10:00:00 a line\n"
    first = "10:00:01 error: the first, which was followed by another\n"
    log = write_log("fit.log", noise + first + "10:00:02 error: no column `a`\n  add it\nor not\n10:00:03 the end\n")
    tell(event=LogEvent.RUN_INFO, stats={"fit": 1})
    job = JOB | {"rule_name": "fit", "rule_msg": "late: fitting", "log": log}
    tell(event=LogEvent.JOB_INFO, jobid=1, **job)
    assert tell(jobid=1, **FAILED, **job) == ""
    # What the workflow says of failures comes before.
    assert tell("why the scheduler gave it up", logging.ERROR, event=LogEvent.ERROR, exception="x").startswith("why")
    assert tell("end") == "error: no column `a`\n  add it\nor not\nFailed: late: fitting; its log: fit.log\n"
    assert tell("end") == "", "close is called more than once"


def test_of_the_processes_of_a_fit_the_one_that_knows_the_reason_is_shown(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    tell(event=LogEvent.RUN_INFO, stats={"ps": 1, "chief": 1, "ingest": 2})
    error = "10:00:00 error: ps 0 is lost\n"
    logs = {
        "ps": write_log("ps.log", "10:00:00 killed\n"),
        "chief": write_log("chief.log", error),
        "ingest": ["none.log"],
    }
    for number, (rule, log) in enumerate(logs.items()):
        model = {} if rule == "ingest" else JOB["wildcards"]
        tell(event=LogEvent.JOB_INFO, jobid=number, rule_name=rule, rule_msg=f"{rule} works", wildcards=model, log=log)
    at_once = "Failed: ps works; its log: ps.log. Other jobs end first.\n"
    assert tell(jobid=0, log=logs["ps"], **FAILED) == at_once
    tell(jobid=1, log=logs["chief"], **FAILED)
    assert tell(jobid=2, log=logs["ingest"], **FAILED) == ""
    lines = [
        "Failed: ingest works; its log: none.log",
        "error: ps 0 is lost",
        "Failed: chief works; its log: chief.log",
    ]
    assert tell("end").splitlines() == lines


def test_a_job_that_succeeds_at_the_second_attempt_has_not_failed(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    job = JOB | {"rule_name": "fetch", "log": write_log("fetch.log", "10:00:00 error: no network\n")}
    tell(event=LogEvent.JOB_INFO, jobid=1, **job)
    tell(jobid=1, **FAILED, **job)
    assert tell("Trying to restart job 1.") == "Trying to restart job 1.\n"
    tell(event=LogEvent.JOB_INFO, jobid=1, **job)
    tell(event=LogEvent.JOB_FINISHED, job_id=1)
    assert tell("end") == ""


def test_errors_of_the_user_are_told_in_full_without_the_places_in_the_rules(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    message = "config.yaml: models.late.formula: no column `a`\n  add it"
    text = f'WorkflowError in file x y.smk, line 9:\n{message}\n  File "x y.smk", line 9, in <module>'
    of_workflow = {"event": LogEvent.ERROR, "exception": "WorkflowError"}
    assert tell(text, logging.ERROR, **of_workflow) == f"error: {message}\n"
    other = 'NameError in file x.smk, line 9:\nno name\n  File "x.smk", line 9, in <module>'
    assert tell(other, logging.ERROR, event=LogEvent.ERROR, exception="NameError") == other + "\n"


def test_a_locked_folder_says_who_locks_it(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    lock = ("LockException:\nError: Directory cannot be locked.", logging.ERROR)
    lock_of = {"event": LogEvent.ERROR, "exception": "LockException"}
    assert f"error: {Path.cwd()}: a run that left no record locks it" in tell(*lock, **lock_of)
    RunProgress({}).write()
    assert "another run works on the same files: wait for its end" in tell(*lock, **lock_of)


def test_before_the_run_starts_answers_of_snakemake_are_shown(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    assert tell("Assuming unrestricted shared filesystem usage.") == ""
    assert tell("Unlocked working directory.") == "Unlocked working directory.\n"
    tell("Workflow has started!", event=LogEvent.WORKFLOW_STARTED)
    assert tell("Building DAG of jobs...") == ""


@pytest.mark.parametrize("option", ["dryrun", "verbose", "printshellcmds"])
def test_with_an_option_that_asks_for_it_all_is_shown(option, monkeypatch, capsys):
    tell = handler(monkeypatch, capsys, **{option: True})
    assert tell("Building DAG of jobs...") == "Building DAG of jobs...\n"
    assert not os.environ[command.DISPLAYED], "jobs show their own lines"


def test_after_control_c_the_last_line_says_how_to_resume(monkeypatch, capsys):
    tell = handler(monkeypatch, capsys)
    assert tell("Terminating processes on user request, this might take some time.").startswith("Terminating")
    assert tell("Error in rule fit", jobid=1, log=["logs/fit.log"], **FAILED) == ""
    assert tell("end") == "interrupted; run the same command to resume\n"
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == "interrupted; run the same command to resume\n"
    sys.excepthook(ValueError, ValueError("x"), None)
    assert capsys.readouterr().err == "ValueError: x\n"


def test_the_record_of_a_run_says_what_runs_since_when_and_how_long(monkeypatch, fitting):
    assert RunProgress.recorded() is None
    fitting.write()
    words = r"Running since [\d:]+: 1 of 4 jobs are done, about 25 s left\n  late: fitting, since [\d:]+"
    assert re.fullmatch(words, RunProgress.recorded().account())
    record = json.loads(RECORD.read_text())
    RECORD.write_text(json.dumps(record | {"process": [os.getpid(), 1.0]}))
    assert RunProgress.recorded() is None, "a process that has its number now"
    RECORD.write_text(json.dumps(record | {"host": "node7"}))
    with pytest.raises(UserError, match="began on node7: ask there"):
        RunProgress.recorded()
    fitting.forget()
    assert RunProgress.recorded() is None
