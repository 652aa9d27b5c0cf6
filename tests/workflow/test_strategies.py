"""A model fitted in one process, or by peers, is the model fitted on parameter servers, byte for byte; one process that was
killed goes on where it was."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

import path_run
from processes import wait_until
from runs import (
    ENVIRONMENT,
    command_line,
    configure,
    planned,
    processes_in,
    results_of_models,
    snakemake,
    succeed,
    write_asa,
)
from shared_runs import filled_once
from tfglm.config.cluster import LARGEST_FOR_ONE_PROCESS
from tfglm.roles import announce

TARGETS = [
    f"results/flights/models/{model}/{name}"
    for model in path_run.MODELS
    for name in ("coefficients.csv", "metrics.json")
]
ONE_DEVICE = ["--config", "cluster={strategy: one_device}"]
AUTO = ["--config", "cluster={strategy: auto}"]
PEERS = ["--config", "cluster={strategy: multi_worker_mirrored, workers: 3}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the models have been fitted on a cluster."""
    folder = tmp_path_factory.mktemp("strategies") / "run"
    shutil.copytree(filled_once(tmp_path_factory, "path", path_run.run), folder)
    succeed(folder, "--", *TARGETS)
    return folder


def passes(folder: Path, model: str) -> int:
    """How many sums the fit of a model in one process has made so far."""
    try:
        progress = json.loads((folder / "logs" / "flights" / "models" / model / "progress.json").read_text())
    except FileNotFoundError:
        return 0
    return progress["passes"] if progress["state"] == "fitting" else 0


def test_one_process_comes_to_the_same_bytes_after_it_was_killed_too(folder: Path) -> None:
    on_cluster = results_of_models(folder)
    assert {"path/fit.json", "learnt/coefficients.csv"} <= set(on_cluster)
    plan = planned(folder, *ONE_DEVICE, "--", *TARGETS)
    assert plan["fit"] == len(path_run.MODELS) and not plan.keys() & {"ps", "workers", "chief"}

    line = command_line(*ONE_DEVICE, "--", "results/flights/models/path/coefficients.csv")
    (folder / "logs" / "flights" / "models" / "path" / "progress.json").unlink()
    run = subprocess.Popen(
        line, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(lambda: passes(folder, "path") >= 10, 60, "ten sums")
    for process in [psutil.Process(run.pid), *processes_in(folder)]:
        os.kill(process.pid, signal.SIGKILL)
    run.wait()
    done = snakemake(folder, "--unlock")
    assert done.returncode == 0, done.stdout

    done = snakemake(folder, *ONE_DEVICE, "--rerun-incomplete", "--", *TARGETS)
    assert done.returncode == 0, done.stdout
    assert (
        json.loads((folder / "logs" / "flights" / "models" / "path" / "progress.json").read_text())["passes_recalled"]
        >= 9
    )
    assert results_of_models(folder) == on_cluster
    assert planned(folder, *ONE_DEVICE, "--", *TARGETS) == {}
    # The file is small.
    assert planned(folder, *AUTO, "--", *TARGETS) == {}


def test_auto_is_one_process_for_small_files_and_a_cluster_for_large_ones(tmp_path: Path) -> None:
    write_asa(tmp_path, 2006, 200)
    shutil.copy(tmp_path / "2006.csv", tmp_path / "2007.csv")

    def change(config: dict) -> None:
        config["data"] = {"files": ["*.csv"], "derive": {"late": "arr_delay >= 15"}}
        config["data"] |= {"split": {"train": "true"}, "columns": ["late", "carrier"]}
        config["models"] = {"late": {"formula": "late ~ carrier", "family": "binomial"}}
        config["cluster"] = {"strategy": "auto", "workers": 3}

    configure(tmp_path, change)
    target = "results/flights/models/late/fit.json"
    plan = planned(tmp_path, target)
    assert plan["fit"] == 1 and not plan.keys() & {"ps", "workers", "chief"}
    # Without the disk space that it would need.
    with (tmp_path / "2007.csv").open("r+b") as file:
        file.truncate(LARGEST_FOR_ONE_PROCESS)
    plan = planned(tmp_path, target)
    assert plan["ps"] == plan["workers"] == plan["chief"] == 1 and "fit" not in plan


def test_three_peers_come_to_the_same_bytes(folder: Path) -> None:
    on_cluster = results_of_models(folder)
    plan = planned(folder, *PEERS, "--", *TARGETS)
    assert plan["chief"] == plan["peers"] == len(path_run.MODELS) and not plan.keys() & {"ps", "workers", "fit"}
    succeed(folder, *PEERS, "--", *TARGETS)
    assert results_of_models(folder) == on_cluster
    rosters = sorted((folder / "results" / "flights" / "models" / "learnt" / "cluster").glob("peers-*.json"))
    assert [announce.read(path).name for path in rosters] == ["peer 0", "peer 1"]
    assert processes_in(folder) == []
    # How many there are changes nothing, and so is no reason to fit again.
    assert planned(folder, "--config", "cluster={strategy: multi_worker_mirrored, workers: 2}", "--", *TARGETS) == {}
