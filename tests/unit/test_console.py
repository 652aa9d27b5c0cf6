"""What the command `tfglm` asks Snakemake to do, and what it refuses in one line."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from runs import REPOSITORY
from snakemake_logger_plugin_tfglm.run import RECORD, lock_holder
from tfglm import console
from tfglm.errors import UserError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder, and an environment that is as before after the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "TFGLM_CALLER", "TFGLM_PROFILES"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return tmp_path


TEXTS = {"list.yaml": "- data\n", "colon.yaml": "data:\n  files [a.csv]\n  columns: [b]\n"}


def write_configs(*names: str) -> None:
    Path("config").mkdir()
    for name in names:
        Path("config", name).write_text(TEXTS.get(name, "data: {}\n"))


@pytest.mark.parametrize(
    ("words", "configs", "message"),
    [
        ([], [], "required: command; `tfglm --help`"),
        (["rnu"], [], "invalid choice: 'rnu'"),
        (["run"], [], "no config: `tfglm init data.csv` writes one"),
        (["run"], ["a.layout.yaml"], "no config: `tfglm init data.csv` writes one"),
        (
            ["run"],
            ["a.yaml", "b.yml"],
            "2 configs in config/, config/a.yaml and config/b.yml: name one, as in `tfglm run c",
        ),
        (
            ["run", "config/a.yaml", "x.yaml"],
            ["a.yaml"],
            "2 configs, config/a.yaml and x.yaml: name one, as in `tfglm run c",
        ),
        (["run", "config/aa.yaml"], ["a.yaml"], "no file `config/aa.yaml`; did you mean `a.yaml`?"),
        (
            ["run", "--dry-run"],
            ["a.yaml"],
            "unrecognized arguments: --dry-run; `tfglm --help` lists commands and options; options",
        ),
        (["run", "--core", "2"], ["a.yaml"], "unrecognized arguments: --core"),
        (["report", "--cores"], ["a.yaml"], "--cores: expected one argument; `tfglm report --help`"),
        (["score", "a.yaml"], [], "no file of data, as in `tfglm score a.yaml new.csv`"),
        (["init"], [], "required: csv; `tfglm init --help`"),
        (["init", "a.csv", "--", "-n"], [], "`tfglm init` takes no options of Snakemake"),
        (["run"], ["list.yaml"], "config/list.yaml: a config has keys, such as `data` and `models`"),
        (["run"], ["colon.yaml"], "config/colon.yaml, line 2: this is not YAML: a key has no colon after it"),
        (["clean", "x.yaml"], [], "x.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(words, configs, message, monkeypatch, capsys):
    write_configs(*configs)
    monkeypatch.setattr(sys, "argv", ["tfglm", *words])
    with pytest.raises(SystemExit) as ended:
        console.main()
    printed = capsys.readouterr()
    assert ended.value.code == 2 and not printed.out
    assert (
        printed.err.startswith("error: ")
        and message in printed.err
        and printed.err.count("\n") == 1 + ("YAML" in message)
    ), printed.err


def test_a_folder_that_cannot_be_written_is_refused(monkeypatch):
    monkeypatch.chdir("/sys")  # not even by root
    with pytest.raises(UserError, match=r"^/sys: cannot be written \(.*\); run tfglm in a folder of your own$"):
        console.do(["run"])


@pytest.mark.parametrize(
    ("found", "refused"), [("9.26.9", True), ("8.30.0", True), ("9.27.0", False), ("10.0a1", False)]
)
def test_a_snakemake_that_is_too_old_is_refused(found, refused, monkeypatch):
    write_configs()
    monkeypatch.setattr(console, "version", lambda package: found)
    with pytest.raises(UserError) as error:
        console.do(["run"])
    message = f"Snakemake 9.27 or newer is needed, and .* has {found}: .* -m pip install 'snakemake>=9.27'"
    assert bool(re.fullmatch(message, str(error.value))) == refused
    # The workflow itself asks for the same.
    assert f'min_version("{console.OLDEST_SNAKEMAKE}")' in (REPOSITORY / "workflow" / "Snakefile").read_text()


def called(words: list[str], monkeypatch) -> list[str]:
    """The words that Snakemake is called with, after the Snakefile."""
    lines: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, line: lines.append(line))
    console.do(words)
    (line,) = lines
    assert line[:6] == [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]
    return line[6:]


def test_a_run_is_a_call_of_snakemake(monkeypatch):
    write_configs("sales of 2025.yaml")
    config = "config/sales of 2025.yaml"
    assert called(["run"], monkeypatch) == ["--configfile", config, "--cores", "all", "--rerun-incomplete"]
    line = called(["run", config, "--cores", "3", "--", "-n", "--forceall", "--", "tidy"], monkeypatch)
    assert line == ["--configfile", config, "--cores", "3", "--rerun-incomplete", "-n", "--forceall", "--", "tidy"]
    shipped = ["--profile", str(REPOSITORY / "profiles" / "slurm")]
    assert called(["run", "--profile", "slurm"], monkeypatch)[:-1] == ["--configfile", config, *shipped]
    assert called(["run", "--profile", "ours"], monkeypatch)[2:-1] == ["--profile", "ours"]
    Path("slurm").mkdir()
    assert called(["run", "--profile", "slurm"], monkeypatch)[2:-1] == ["--profile", "slurm"]


def test_other_commands_ask_for_a_target_of_the_workflow(monkeypatch, capsys):
    write_configs("a.yaml")
    before = ["--configfile", "config/a.yaml", "--cores", "all"]
    assert called(["resume"], monkeypatch) == [*before, "--rerun-incomplete"]
    assert called(["tidy"], monkeypatch) == [*before, "--rerun-incomplete", "tidy"]
    files = ["--config", 'score=["the new.csv"]', "--rerun-incomplete", "score"]
    for named in (["the new.csv", "--config", "config/a.yaml"], ["config/a.yaml", "the new.csv"]):
        assert called(["score", *named, "--", "-n"], monkeypatch) == [*before, *files, "-n"]
    answers = [
        SimpleNamespace(returncode=1, stdout="host: a\nerror:\na.yaml: models: missing\n"),
        SimpleNamespace(returncode=0),
    ]
    monkeypatch.setattr(console.subprocess, "run", lambda line, **keys: answers.pop(0))
    with pytest.raises(UserError, match=r"\Aa\.yaml: models: missing\Z"):
        console.do(["check"])
    assert console.do(["check"]) == 0 and "config/a.yaml: no mistake in it" in capsys.readouterr().out


@pytest.mark.processes
def test_a_run_after_one_that_was_killed_goes_on_and_never_beside_one_that_lives(monkeypatch, capsys):
    write_configs("a.yaml")
    lock, roster = console.LOCKS / "0.output.lock", Path("results/a/models/m/cluster/ps.json")
    for path in (lock, roster):
        path.parent.mkdir(parents=True)
        path.touch()

    def is_kept(words: str, *said: str) -> bool:
        called(["run"], monkeypatch)
        assert words in lock_holder()
        console.do(["status"])
        assert capsys.readouterr().out.startswith(said)
        return lock.exists() and roster.exists()

    assert is_kept(
        "left no record locks it; if none works here, on no machine, call snakemake once with --unlock", "Noth"
    )
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)", "snakemake"]) as other:
        record = {"host": socket.gethostname(), "process": [other.pid, 1.0], "counts": [0, 0], "times": [0, None]}
        RECORD.write_text(json.dumps(record | {"running": []}))
        assert is_kept(f"another run (process {other.pid})", "Nothing runs here.\n")
        record["process"][1] = psutil.Process(other.pid).create_time()
        RECORD.write_text(json.dumps(record | {"running": []}))
        assert is_kept(f"another run (process {other.pid})", "Running since ")
        other.kill()
    RECORD.write_text(json.dumps(record | {"host": "node7"}))
    with pytest.raises(UserError, match="began on node7"):
        is_kept("began on node7: ask there; if that machine is gone, call")
    RECORD.write_text(json.dumps(record))
    console.do(["status"])
    assert capsys.readouterr().out == "Nothing runs here. A run was killed; the same command resumes it.\n"
    called(["run"], monkeypatch)
    assert capsys.readouterr().err == "An earlier run here was killed; this one resumes it.\n"
    assert not lock.exists() and not roster.exists() and json.loads(RECORD.read_text())["process"][0] == os.getpid()


def test_clean_deletes_what_runs_have_made_and_nothing_else(here, capsys):
    write_configs("a.yaml", "b.yaml", "c.yaml")
    Path("config", "b.yaml").write_text("results: results/deep/er\n")
    Path("config", "c.yaml").write_text("results: data\n")
    made = [
        "results/a",
        "results/deep/er",
        "results/data",
        "logs/a",
        "logs/deep/er",
        "logs/data",
        "timings/a",
        ".snakemake",
    ]
    kept = ["results/mine/x", "data/c.csv", "logs/mine/x", "config/a.yaml", "config/b.yaml", "config/c.yaml"]
    for name in [*(f"{folder}/x" for folder in made), *kept]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path(".snakemake/locks").mkdir()
    Path(".snakemake/locks/0.input.lock").touch()
    with pytest.raises(UserError, match="nothing is deleted: a run that left no record locks it"):
        console.do(["clean"])
    Path(".snakemake/locks/0.input.lock").unlink()
    assert console.do(["clean"]) == 0
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()) == sorted(kept)
    assert "Not deleted: data, which is outside results/" in capsys.readouterr().out
    assert not Path("timings").exists() and console.do(["clean"]) == 0
    assert capsys.readouterr().out.startswith("There was nothing to delete.")
