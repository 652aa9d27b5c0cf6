"""Snakemake and the training of a network in one process are killed: the next run goes on to the same weights."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from processes import wait_until
from runs import ENVIRONMENT, command_line, configure, processes_in, succeed, write_asa

TARGET = "results/models/one/fit.json"
NETWORK = {
    "formula": "late ~ carrier + origin + dest + C(month) + dep_hour + distance",
    "family": "binomial",
    "hidden": [16, 8],
    "dropout": 0.1,
    "epochs": 20,
    "batch_size": 100,
    "checkpoints": {"steps": 50, "seconds": 1000},
}


def step(folder: Path) -> int:
    """The last step of which there is a checkpoint."""
    checkpoints = (folder / "results" / "resume" / "one" / "steps").glob("ckpt-*.index")
    return max((int(path.stem.partition("-")[2]) for path in checkpoints), default=0)


@pytest.mark.drill
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path):
    write_asa(tmp_path, 2006, 12_000)

    def change(config: dict) -> None:
        config["data"].update(
            files=["2006.csv"],
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "day <= 22", "evaluate": "day > 22"},
            columns=["late", "carrier", "origin", "dest", "month", "dep_hour", "distance"],
        )
        config["models"], config["networks"] = {}, {"one": NETWORK}

    configure(tmp_path, change)
    run = subprocess.Popen(
        command_line("--", TARGET),
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: step(tmp_path) >= 200, 120, "200 steps")
    for process in [psutil.Process(run.pid), *processes_in(tmp_path)]:
        os.kill(process.pid, signal.SIGKILL)
    run.wait()
    model = tmp_path / "results" / "models" / "one"
    assert not (model / "fit.json").exists()
    succeed(tmp_path, "--unlock", "--", TARGET)
    assert "going on from step" in succeed(tmp_path, "--rerun-incomplete", "--", TARGET)
    made = [model / "fit.json", model / "checkpoint" / "network.data-00000-of-00001"]
    resumed = [path.read_bytes() for path in made]
    assert not (tmp_path / "results" / "resume" / "one").exists()
    made[0].unlink()
    assert "going on" not in succeed(tmp_path, "--", TARGET)
    assert resumed == [path.read_bytes() for path in made]
