"""Snakemake and the training of a network in one process are killed: the next run goes on to the same weights. So does a sweep
with halving, which is edited too."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from interruptions import running, step, wait_for
from runs import REPOSITORY, configure_flights, succeed, write_asa

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


def train_alone(folder: Path, networks: dict) -> None:
    """Write a config with these networks alone."""
    configure_flights(folder, "late carrier origin dest month dep_hour distance", 22, models={}, networks=networks)


@pytest.mark.drill
@pytest.mark.parametrize("network", [NETWORK, OWN], ids=["hidden layers", "own model"])
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path, network):
    write_asa(tmp_path, 2006, 12_000)
    shutil.copy(REPOSITORY / "config" / "examples" / "residual.py", tmp_path)

    train_alone(tmp_path, {"one": network})
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


HALVED = NETWORK | {
    "epochs": 4,
    "sweep": {"optimizer.learning_rate": {"low": 0.0001, "high": 0.1, "scale": "log"}},
    "halving": {"factor": 2},
}
SWEEP = "results/flights/sweeps/net/networks.csv"
WEIGHTS = Path("checkpoint", "network.data-00000-of-00001")


@pytest.mark.drill
def test_a_killed_and_edited_sweep_with_halving_ends_as_a_clean_one(tmp_path):
    folders = edited, clean = tmp_path / "edited", tmp_path / "clean"
    for folder in folders:
        folder.mkdir()
        write_asa(folder, 2006, 12_000)
    train_alone(edited, {"net": HALVED | {"search": {"networks": 3}}})
    models = edited / "results" / "flights" / "models"
    with running(edited, target=SWEEP):
        wait_for(lambda: any(step(edited, f"net_{k}") >= 50 for k in range(1, 4)), 200, "50 steps of some network")
    succeed(edited, "--unlock", "--", SWEEP)
    succeed(edited, "--rerun-incomplete", "--", SWEEP)
    before = {name: (models / name / "fit.json").stat().st_mtime_ns for name in ("net_1", "net_2", "net_3")}
    ended = pd.read_csv(edited / SWEEP).set_index("network")["end"]
    for folder, cores in zip(folders, ("4", "1"), strict=True):
        train_alone(folder, {"net": HALVED | {"search": {"networks": 4}}})
        succeed(folder, "--cores", cores, "--", SWEEP)
    table = pd.read_csv(edited / SWEEP).set_index("network")
    pd.testing.assert_frame_equal(table, pd.read_csv(clean / SWEEP).set_index("network"))
    # Only those are trained again that end elsewhere now.
    for name, time in before.items():
        is_kept = (models / name / "fit.json").stat().st_mtime_ns == time
        epochs = [end.partition(":")[0] for end in (ended[name], table.loc[name, "end"])]
        assert is_kept == (epochs[0] == epochs[1]), (name, epochs)
    for name in table.index:
        made = [Path("results", "flights", "models", name, file) for file in (WEIGHTS, "fit.json")]
        assert [(edited / file).read_bytes() for file in made] == [(clean / file).read_bytes() for file in made], name
    # The best one is as without `halving`.
    train_alone(
        clean, {"net": {key: value for key, value in HALVED.items() if key != "halving"} | {"search": {"networks": 4}}}
    )
    (best,) = table.index[table["end"] == "all epochs"]
    weights = clean / "results" / "flights" / "models" / best / WEIGHTS
    halved = weights.read_bytes()
    shutil.rmtree(weights.parents[1])
    succeed(clean, "--", f"results/flights/models/{best}/fit.json")
    assert weights.read_bytes() == halved
