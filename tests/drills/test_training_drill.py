"""Snakemake and the training of a network in one process are killed: the next run goes on to the same weights."""

import shutil

import pytest

from interruptions import running, step, wait_for
from runs import REPOSITORY, configure, succeed, write_asa

TARGET = "results/flights/models/one/fit.json"
NETWORK = {
    "formula": "late ~ carrier + origin + dest + C(month) + dep_hour + distance",
    "family": "binomial",
    "hidden": [16, 8],
    "dropout": 0.1,
    "epochs": 20,
    "batch_size": 100,
    "checkpoints": {"steps": 50, "seconds": 1000},
}


OWN = NETWORK | {
    "model": "residual.py:build",
    "hidden": [],
    "dropout": 0.0,
    "settings": {"units": 8, "blocks": 1, "dimensions": 3, "dropout": 0.1},
}
"""With batch normalisation, whose means have to continue too, and Keras' own dropout."""


@pytest.mark.drill
@pytest.mark.parametrize("network", [NETWORK, OWN], ids=["hidden layers", "own model"])
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path, network):
    write_asa(tmp_path, 2006, 12_000)
    shutil.copy(REPOSITORY / "config" / "examples" / "residual.py", tmp_path)

    def change(config: dict) -> None:
        config["data"].update(
            files=["2006.csv"],
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "day <= 22", "evaluate": "day > 22"},
            columns=["late", "carrier", "origin", "dest", "month", "dep_hour", "distance"],
        )
        config["models"], config["networks"] = {}, {"one": network}

    configure(tmp_path, change)
    with running(tmp_path, target=TARGET):
        wait_for(lambda: step(tmp_path, "one") >= 200, 120, "200 steps")
    model = tmp_path / "results" / "flights" / "models" / "one"
    assert not (model / "fit.json").exists()
    succeed(tmp_path, "--unlock", "--", TARGET)
    assert "continuing from step" in succeed(tmp_path, "--verbose", "--rerun-incomplete", "--", TARGET)
    made = [model / "fit.json", model / "checkpoint" / "network.data-00000-of-00001"]
    resumed = [path.read_bytes() for path in made]
    assert not (tmp_path / "results" / "flights" / "resume" / "one").exists()
    made[0].unlink()
    assert "continuing from" not in succeed(tmp_path, "--verbose", "--", TARGET)
    assert resumed == [path.read_bytes() for path in made]
