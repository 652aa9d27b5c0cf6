"""A peer of a network in training or of a fit, or its chief, is killed or frozen: the run ends in time, and the same command
completes it."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from interruptions import A_MINUTE_OR_SO, ends, fitting, goes_on, pids, running, step, wait_for
from path_run import PASSES
from runs import REPOSITORY, configure_flights, processes_in, succeed, write_asa

TARGET = "results/flights/models/ring/fit.json"
RESULTS = ("fit.json", "checkpoint/network.data-00000-of-00001")


def results(folder: Path) -> list[bytes]:
    return [(folder / "results" / "flights" / "models" / "ring" / name).read_bytes() for name in RESULTS]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, list[bytes]]:
    """Where a network has been trained without interruption, and what became of it."""
    folder = tmp_path_factory.mktemp("ring")
    shutil.copy(REPOSITORY / "config" / "examples" / "residual.py", folder)
    write_asa(folder, 2006, 6_000)
    network = {
        "formula": "late ~ carrier + dest + dep_hour",
        "family": "binomial",
        "strategy": "multi_worker_mirrored",
        "workers": 3,
        # With batch normalisation, whose means continue too.
        "model": "residual.py:build",
        "settings": {"units": 8, "blocks": 1, "dimensions": 3, "dropout": 0.1},
        "batch_size": 100,
        "epochs": 20,
        "patience": 20,
        "checkpoints": {"steps": 40, "seconds": 1000},
    }
    cluster = {"patience": 120, "stall": 45}
    configure_flights(folder, "late carrier dest dep_hour", models={}, networks={"ring": network}, cluster=cluster)
    succeed(folder, "--", TARGET)
    return folder, results(folder)


@contextlib.contextmanager
def in_training(folder: Path) -> Iterator:
    """A run that trains the network again, after a few checkpoints."""
    (folder / TARGET).unlink()
    with running(folder, target=TARGET) as run:
        wait_for(lambda: step(folder, "ring") >= 160, 180, "160 steps")
        yield run


def completes(folder: Path, expected: list[bytes]) -> None:
    """The same command goes on from the last checkpoint to the same weights."""
    assert "ring: continuing from step" in succeed(folder, "--verbose", "--", TARGET)
    assert results(folder) == expected
    assert (
        json.loads((folder / "logs" / "flights" / "models" / "ring" / "progress.json").read_text())["state"]
        == "finished"
    )
    assert processes_in(folder) == []


@pytest.mark.drill
def test_a_peer_is_killed(trained):
    folder, expected = trained
    with in_training(folder) as run:
        psutil.Process(pids(folder, "/peer.py")[0]).kill()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "networks.ring: training cannot continue without all its peers (peer 0 at" in text and "peers-0.log" in text
    completes(folder, expected)


@pytest.mark.drill
def test_a_peer_is_frozen(trained):
    folder, expected = trained
    with in_training(folder) as run:
        psutil.Process(pids(folder, "/peer.py")[1]).suspend()
        text = ends(folder, run, A_MINUTE_OR_SO)
    # By whoever notices first: TensorFlow's heartbeats, or the watchdog of the chief.
    assert "training cannot continue without all its peers" in text or "so the run cannot continue: peer 1 at" in text
    completes(folder, expected)


@pytest.mark.drill
def test_a_peer_is_frozen_before_it_listens(trained):
    folder, expected = trained
    (folder / TARGET).unlink()
    with running(folder, target=TARGET) as run:
        wait_for(lambda: pids(folder, "/peer.py"), 120, "a peer that starts")
        psutil.Process(pids(folder, "/peer.py")[0]).suspend()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "was killed by SIGKILL, after 0 restarts of this role" in text
    succeed(folder, "--", TARGET)
    assert results(folder) == expected


@pytest.mark.drill
def test_the_chief_of_peers_is_killed(trained):
    folder, expected = trained
    with in_training(folder) as run:
        (chief,) = pids(folder, "/chief.py", "--progress")
        psutil.Process(chief).kill()
        ends(folder, run, A_MINUTE_OR_SO)
    completes(folder, expected)


@pytest.mark.drill
@pytest.mark.parametrize(
    ("accident", "reason"),
    [("kill", r"\(peer 1 \(pid \d+\) was killed by SIGKILL"), ("suspend", r"\(peer 1 at [^;]*\)\.")],
)
def test_a_peer_of_a_fit_is_lost(folder, reference, accident, reason):
    config = folder / "config" / "config.yaml"
    content = yaml.safe_load(config.read_text())
    content["cluster"] |= {"strategy": "multi_worker_mirrored", "workers": 3}
    config.write_text(yaml.safe_dump(content))
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 180, "fitting")
        (lost,) = pids(folder, "/peer.py", "peers-1.json")
        getattr(psutil.Process(lost), accident)()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert re.search(f"the fit cannot continue without all its peers {reason}", text), text
    goes_on(folder, reference, at_least=PASSES)
