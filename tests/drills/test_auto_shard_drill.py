"""Two processes train a network with `auto_shard: file`: they take the steps of `data` where a step has the same rows, and a
training whose peer is killed goes on to the same weights."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from interruptions import A_MINUTE_OR_SO, ends, pids, running, step, wait_for
from runs import configure, processes_in, read_json, succeed, write_asa

WEIGHTS = "checkpoint/network.data-00000-of-00001"
NETWORK = {
    "formula": "late ~ carrier + dest + dep_hour",
    "family": "binomial",
    "strategy": "multi_worker_mirrored",
    "workers": 2,
    "hidden": [8],
}


def prepare(folder: Path, split: str, **networks: dict) -> list[str]:
    """Write a config with these networks; what to run."""

    def change(config: dict) -> None:
        config["data"].update(
            files=["2006.csv", "2007.csv"],
            where={},
            split={"train": split, "evaluate": f"NOT ({split})"},
            columns=["late", "carrier", "dest", "dep_hour", "distance"],
        )
        config["models"] = {}
        config["networks"] = {name: NETWORK | keys for name, keys in networks.items()}

    configure(folder, change)
    return ["--", *(f"results/flights/models/{name}/fit.json" for name in networks)]


def curve(folder: Path, name: str, quantity: str) -> np.ndarray:
    history = pd.read_csv(folder / "results" / "flights" / "models" / name / "history.csv").set_index("quantity")
    return history.loc[[quantity], "value"].to_numpy()


@pytest.mark.drill
def test_steps_of_all_rows_are_those_of_auto_shard_data(tmp_path):
    # Two files with as many rows, one for each process, of which those of the second weigh four times as much.
    frame = write_asa(tmp_path, 2006, 3_000)
    later = write_asa(tmp_path, 2007, 3_000)
    later["Cancelled"], later["Distance"] = frame["Cancelled"], 4 * later["Distance"]
    later["ArrDelay"] = later["ArrDelay"].fillna(40).where(frame["Cancelled"] == 0)
    later["DayofMonth"] = frame["DayofMonth"]
    later.to_csv(tmp_path / "2007.csv", index=False, na_rep="NA")
    lines = 2 * int(((frame["Cancelled"] == 0) & (frame["DayofMonth"] <= 24)).sum())
    keys = {
        "weights": "distance",
        "batch_size": lines,
        "epochs": 30,
        "report_every": 1,
        "optimizer": {"learning_rate": 0.01},
    }
    succeed(tmp_path, *prepare(tmp_path, "day <= 24", whole=keys, divided=keys | {"auto_shard": "file"}))
    fits = [read_json(tmp_path, "models", name, "fit.json") for name in ("whole", "divided")]
    assert [fit["steps"] for fit in fits] == [30, 30]
    assert fits[0]["weight_sum"] == pytest.approx(fits[1]["weight_sum"])
    whole, divided = (curve(tmp_path, name, "train/loss") for name in ("whole", "divided"))
    assert whole[0] - whole[-1] > 0.01
    np.testing.assert_allclose(divided, whole, rtol=1e-5)


@pytest.mark.drill
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path):
    write_asa(tmp_path, 2006, 3_000)
    write_asa(tmp_path, 2007, 2_700)
    keys = {"batch_size": 100, "epochs": 8, "dropout": 0.1, "checkpoints": {"steps": 20, "seconds": 1000}}
    target = prepare(tmp_path, "day <= 24", whole=keys, divided=keys | {"auto_shard": "file"})
    succeed(tmp_path, *target)
    model = tmp_path / "results" / "flights" / "models" / "divided"
    fit, expected = read_json(tmp_path, "models", "divided", "fit.json"), (model / WEIGHTS).read_bytes()
    whole = read_json(tmp_path, "models", "whole", "fit.json")
    assert fit["rows"] == whole["rows"] and fit["weight_sum"] == whole["weight_sum"]
    assert whole["steps"] < fit["steps"] < 1.1 * whole["steps"]
    held_out = [curve(tmp_path, name, "evaluate/loss")[-1] for name in ("whole", "divided")]
    assert held_out[1] == pytest.approx(held_out[0], abs=0.02)

    (model / "fit.json").unlink()
    # In the middle of an epoch.
    begun = 2 * fit["steps_of_an_epoch"] + 10
    with running(tmp_path, target=target[-1]) as run:
        wait_for(lambda: step(tmp_path, "divided") > begun, 180, "steps")
        psutil.Process(pids(tmp_path, "/peer.py")[0]).kill()
        ends(tmp_path, run, A_MINUTE_OR_SO)
    taken = step(tmp_path, "divided")
    assert taken % fit["steps_of_an_epoch"] > 0
    assert f"divided: continuing from step {taken}" in succeed(tmp_path, "--verbose", *target).replace(",", "")
    assert (model / WEIGHTS).read_bytes() == expected
    assert json.loads((model / "fit.json").read_text()) == fit
    assert processes_in(tmp_path) == []
