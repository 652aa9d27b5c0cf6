"""profiles/generic as it is shipped, on a stand-in for the scheduler that runs the job scripts here."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import scheduler
from runs import REPOSITORY, planned, results
from slurm_runs import FIT, TABLE, checkout, snakemake

PROFILE = REPOSITORY / "profiles" / "generic"
# The stand-in is asked more often than a scheduler, and files are there at once.
AT_ONCE = ["--seconds-between-status-checks", "1", "--max-status-checks-per-second", "10", "--latency-wait", "20"]
DOWNLOAD = "results/data/fetched/spring.csv"
LINE = [sys.executable, "-m", "snakemake", "--verbose", "--profile", "profiles/generic", *AT_ONCE]


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """A model that was fitted by jobs of the stand-in to one file at an address: its folder, that of the scheduler, and what the
    run has printed."""
    folder = tmp_path_factory.mktemp("generic")
    jobs, run = folder / "jobs", checkout(folder / "run", ps=1, workers=2)
    environment = scheduler.install(jobs, "pbs")
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=run / "data"))
    config = yaml.safe_load((run / "config" / "config.yaml").read_text())
    config["data"]["files"] = [f"http://127.0.0.1:{web.server_port}/spring.csv"]
    (run / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    done = subprocess.run([*LINE, "--", FIT], cwd=run, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    yield SimpleNamespace(run=run, jobs=jobs, environment=environment, printed=done.stderr)
    web.shutdown()


def test_a_model_is_fitted_by_jobs_of_a_scheduler(ended):
    fit = json.loads((ended.run / FIT).read_text())
    assert fit["converged"] and (fit["rows"], fit["coefficients"]) == (3000, 4)


def fetching(ended: SimpleNamespace) -> list[str]:
    """The submitted jobs that fetch a file."""
    scripts = [Path(arguments[-1]).name for arguments in scheduler.submitted(ended.jobs)]
    return [script for script in scripts if "fetch" in script]


def test_the_submitting_host_fetches_files(ended):
    assert (ended.run / DOWNLOAD).exists() and not fetching(ended)


def test_servers_workers_and_chief_are_one_job_on_one_node(ended):
    asked = [" ".join(arguments) for arguments in scheduler.submitted(ended.jobs)]
    scripts = [Path(arguments[-1]).name for arguments in scheduler.submitted(ended.jobs)]
    fits = [words for words in asked if "ncpus=3" in words]
    assert len(fits) == 1 and "mem=8000mb" in fits[0] and "walltime=1800" in fits[0], asked
    assert len(scripts) == len(set(scripts)) >= 4
    # All the others ask for one node as well, and for what their rule says.
    assert all(re.search(r"-l select=1:ncpus=\d+:mem=\d+mb -l walltime=\d+ ", words) for words in asked), asked


def start(ended: SimpleNamespace, folder: Path) -> subprocess.Popen:
    """A run whose first jobs the scheduler holds back, when one has been submitted."""
    (ended.jobs / "hold").touch()
    with (folder / "out").open("w") as out:
        line = [*LINE, "--retries", "0", "--", TABLE]
        run = subprocess.Popen(line, cwd=ended.run, env=ended.environment, stdout=out, stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while "Submitted" not in (folder / "out").read_text():
        assert run.poll() is None and time.monotonic() < until, (folder / "out").read_text()
        time.sleep(0.1)
    return run


def held(ended: SimpleNamespace, before: int) -> list[int]:
    """The numbers of the jobs that have been submitted since there were so many."""
    return list(range(before + 1, len(scheduler.submitted(ended.jobs)) + 1))


def test_a_run_that_is_interrupted_cancels_its_jobs(ended, tmp_path):
    run = start(ended, tmp_path)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 1, (tmp_path / "out").read_text()
    # Snakemake cancels the jobs whose number it has read: not one whose `qsub` the signal has overtaken.
    numbers = re.findall(r"external jobid '(\d+)'", (tmp_path / "out").read_text())
    assert numbers and {(ended.jobs / f"{number}.exit").read_text() for number in numbers} == {"137"}


def test_after_an_interruption_it_goes_on_and_a_job_that_is_killed_ends_it(ended, tmp_path):
    before = len(scheduler.submitted(ended.jobs))
    run = start(ended, tmp_path)
    until = time.monotonic() + 60
    while run.poll() is None and time.monotonic() < until:
        for number in held(ended, before):
            subprocess.run(["qdel", str(number)], env=ended.environment, check=True)
        time.sleep(0.5)
    assert run.wait(1) == 1
    assert "At least one job did not complete successfully" in (tmp_path / "out").read_text()


def test_several_nodes_are_refused(ended):
    line = [*LINE, "--config", "cluster={nodes: 2}", "--forcerun", "chief", "--", FIT]
    done = subprocess.run(line, cwd=ended.run, env=ended.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "cluster.nodes: 2" in done.stderr, done.stderr


def test_a_job_fetches_files_if_the_config_says_so(ended):
    (ended.jobs / "hold").unlink(missing_ok=True)
    line = [*LINE, "--config", "cluster={fetch: job}", "--forcerun", "fetch", "--", DOWNLOAD]
    done = subprocess.run(line, cwd=ended.run, env=ended.environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and len(fetching(ended)) == 1, done.stderr


EDITS = {
    "confidence": 0.5,
    "threshold": 0.01,
    "reference": {"carrier": "UA"},
    "contrasts": {"UA against AA": {"carrier[UA]": 3}},
    "hypotheses": {"one": [{"distance": 1}]},
    "by": ["distance"],
    "adjusted_means": "balanced",
    "margins_at": {"far": {"distance": 2000}, "near": {"distance": 100}},
    "l2": 0.5,
    "formula": "late ~ carrier",
}
"""Another value of each of these keys of the model."""


@pytest.mark.drill
def test_edits_while_jobs_wait_change_nothing(tmp_path):
    """Before each job the user edits a key of the model, deletes the model, or has saved half of the file."""
    run, jobs = checkout(tmp_path / "run", strategy="one_device"), tmp_path / "jobs"
    environment = scheduler.install(jobs, "pbs")
    path = run / "config" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["data"]["split"] = {
        "train": "distance < 2000",
        "evaluate": "distance >= 2000",
        "predict": "distance >= 2900",
    }
    config["models"]["late"] |= {
        "contrasts": {"UA against DL": {"carrier[UA]": 1, "carrier[DL]": -1}},
        "hypotheses": {"alike": [{"carrier[UA]": 1}]},
        "by": ["carrier"],
        "margins_at": {"far": {"distance": 1000}, "near": {"distance": 500}},
        "export": True,
        "diagnostics": True,
    }
    path.write_text(yaml.safe_dump(config))
    undisturbed = shutil.copytree(run, tmp_path / "undisturbed")
    targets = ["all", "tables", "pictures"]

    (jobs / "edited").symlink_to(path)
    (jobs / "edits").mkdir()
    edits = [
        yaml.safe_dump(config | {"models": {"late": config["models"]["late"] | {key: EDITS[key]}}}) for key in EDITS
    ]
    edits += [yaml.safe_dump(config | {"models": {"other": config["models"]["late"]}}), "data: {files: [data/*.csv"]
    for number, edited in enumerate(edits):
        (jobs / "edits" / f"{number:02}").write_text(edited)
    line = [*LINE, "--retries", "0", "--", *targets]
    done = subprocess.run(line, cwd=run, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert len(scheduler.submitted(jobs)) >= len(edits)

    assert path.read_text() != yaml.safe_dump(config)
    path.write_text(yaml.safe_dump(config))
    assert planned(run, *targets) == {}
    code, printed = snakemake(undisturbed, "--cores", "2", *targets, environment=environment)
    assert code == 0, printed
    differing = {name for name, digest in results(run).items() if results(undisturbed)[name] != digest}
    # These have the time in them, or an order by chance.
    names = ("coefficients.xlsx", "coefficients.docx", "saved_model/fingerprint.pb", "saved_model/saved_model.pb")
    assert differing <= {f"models/late/{name}" for name in names}


def commands(name: str) -> dict[str, str]:
    """The settings of a scheduler in the profile, out of their comment if they stand in one."""
    text = (PROFILE / "config.yaml").read_text()
    title = {"pbs": "# PBS", "sge": "# Grid Engine", "lsf": "# LSF"}[name]
    block = text[text.index(title) :].split("\n\n")[0]
    lines = block[block.index("cluster-generic-submit-cmd") :].splitlines()
    return yaml.safe_load("\n".join(line.removeprefix("# ") for line in lines))


@pytest.mark.parametrize("name", scheduler.COMMANDS)
@pytest.mark.parametrize(("code", "status"), [(0, "success"), (3, "failed")])
def test_each_scheduler_takes_a_job_and_tells_what_became_of_it(name, code, status, tmp_path):
    environment = scheduler.install(tmp_path / "jobs", name)
    shutil.copytree(PROFILE, tmp_path / "profiles" / "generic")
    script = tmp_path / "a job.sh"
    script.write_text(f"#!/bin/sh\nwhile [ -e '{tmp_path}/wait' ]; do sleep 0.05; done\nexit {code}\n")
    script.chmod(0o755)
    (tmp_path / "wait").touch()
    settings = commands(name)

    def shell(line: str) -> str:
        return subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()

    resources = SimpleNamespace(mem_mb=6000, runtime=30)
    submit = settings["cluster-generic-submit-cmd"].format(threads=3, resources=resources)
    assert shell(f'{submit} "{script}"') == "1"
    ask = f"{settings['cluster-generic-status-cmd']} '1'"
    assert shell(ask) == "running"
    (tmp_path / "wait").unlink()
    until = time.monotonic() + 10
    while (answer := shell(ask)) == "running" and time.monotonic() < until:
        time.sleep(0.05)
    assert answer == status


def test_a_scheduler_that_does_not_answer_is_asked_again(tmp_path):
    line = ["sh", PROFILE / "status.sh", "pbs", "1"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "running\n")
