"""A worker, a ps or the chief of a network on parameter servers is killed: training goes on, or the same command completes it."""

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from interruptions import A_MINUTE_OR_SO, ends, pids, running, step, wait_for, workers
from runs import REPOSITORY, configure_flights, processes_in, read_json, succeed, write_asa

NETWORK = {
    "formula": "late ~ carrier + dest + dep_hour",
    "family": "binomial",
    "strategy": "parameter_server",
    "hidden": [8],
    "batch_size": 20,
    "epochs": 12,
    "checkpoints": {"steps": 100, "seconds": 1000},
}
OWN = NETWORK | {
    "model": "residual.py:build",
    "hidden": [],
    "settings": {"units": 8, "blocks": 1, "dimensions": 3, "dropout": 0.1},
}
"""With batch normalisation, whose means are on the servers too."""
TOGETHER = {"synchronous": True, "workers": 3, "backup_workers": 1, "epochs": 3, "report_every": 10}


def target(name: str) -> str:
    return f"results/flights/models/{name}/fit.json"


def fit(folder: Path) -> dict:
    return read_json(folder, "models", "served", "fit.json")


def together(folder: Path) -> list[bytes]:
    """What has to be the same each time."""
    model = folder / "results" / "flights" / "models" / "together"
    return [(model / "fit.json").read_bytes(), (model / "checkpoint" / "network.data-00000-of-00001").read_bytes()]


def reported(folder: Path) -> list[str]:
    """The lines of the log of `together` that name a step."""
    text = (folder / "logs" / "flights" / "models" / "together" / "train.log").read_text()
    return [line for line in text.splitlines() if "together: step" in line]


def steps_in(folder: Path, seconds: float) -> int:
    """The steps that `together` reports in so many seconds, or until there are 30."""
    before, deadline = len(reported(folder)), time.monotonic() + seconds
    while (lines := len(reported(folder)) - before) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    return 10 * lines


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, dict, list[bytes]]:
    """Where two networks have been trained without interruption, and what came of it."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copy(REPOSITORY / "config" / "examples" / "residual.py", folder)
    write_asa(folder, 2006, 6_000)
    networks, cluster = {"served": OWN, "together": NETWORK | TOGETHER}, {"patience": 120, "stall": 45}
    configure_flights(folder, "late carrier dest dep_hour", models={}, networks=networks, cluster=cluster)
    succeed(folder, "--", target("served"), target("together"))
    return folder, fit(folder), together(folder)


@contextlib.contextmanager
def in_training(folder: Path, name: str, steps: int = 300) -> Iterator:
    """A run that trains a network again, after so many steps."""
    (folder / target(name)).unlink(missing_ok=True)  # a test that failed has left none
    with running(folder, target=target(name)) as run:
        wait_for(lambda: step(folder, name) >= steps, 180, f"{steps} steps")
        yield run


def is_complete(folder: Path, expected: dict) -> None:
    """As many steps, and about what they come to: no two runs are the same."""
    again = fit(folder)
    assert (again["steps"], again["epochs"]) == (expected["steps"], expected["epochs"])
    assert again["loss"] == pytest.approx(expected["loss"], abs=0.03)
    assert (
        json.loads((folder / "logs" / "flights" / "models" / "served" / "progress.json").read_text())["state"]
        == "finished"
    )
    assert processes_in(folder) == []


@pytest.mark.drill
def test_a_worker_of_a_network_is_killed_and_training_goes_on(trained):
    folder, expected, _ = trained
    with in_training(folder, "served") as run:
        psutil.Process(workers(folder)[0]).kill()
        assert run.wait(240) == 0, (folder / "said").read_text()
    assert (
        "restarting it (2 restarts left)"
        in (folder / "logs" / "flights" / "models" / "served" / "workers.log").read_text()
    )
    is_complete(folder, expected)


@pytest.mark.drill
@pytest.mark.parametrize("script", ["/ps.py", "/chief.py"])
def test_the_ps_or_the_chief_of_a_network_is_killed(trained, script):
    folder, expected, _ = trained
    with in_training(folder, "served") as run:
        (process,) = pids(folder, script)
        psutil.Process(process).kill()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert script != "/ps.py" or "is lost, with the state that it held" in text or "ps 0 at" in text
    assert "from the last sum" not in text
    assert "served: continuing from step" in succeed(folder, "--verbose", "--", target("served"))
    is_complete(folder, expected)


@pytest.mark.drill
def test_a_backup_stands_in_for_a_slow_worker(trained):
    folder, _, expected = trained
    with in_training(folder, "together", 100) as run:
        slow = psutil.Process(workers(folder)[0])
        # It answers now and then, as TensorFlow has to reach all workers for a checkpoint and at the end of an epoch.
        ahead = 0
        while run.poll() is None and ahead < 30:
            slow.suspend()
            ahead = steps_in(folder, 10)
            slow.resume()
            time.sleep(0.2)
        assert run.wait(240) == 0, (folder / "said").read_text()
    assert ahead >= 30, "workers without which a step cannot be taken"
    assert together(folder) == expected
    assert processes_in(folder) == []


@pytest.mark.drill
@pytest.mark.parametrize("script", ["/ps.py", "/chief.py"])
def test_workers_in_step_go_on_to_the_same_weights(trained, script):
    folder, _, expected = trained
    with in_training(folder, "together", 100) as run:
        (process,) = pids(folder, script)
        psutil.Process(process).kill()
        ends(folder, run, A_MINUTE_OR_SO)
    assert "together: continuing from step" in succeed(folder, "--verbose", "--", target("together"))
    assert together(folder) == expected
    assert processes_in(folder) == []
