"""Networks side by side by the number of workers, from histories made by hand."""

import argparse

import numpy as np
import pandas as pd
import pytest

import compare
from tfglm import digests
from tfglm.config.pictures import PicturesConfig
from tfglm.errors import UserError
from tfglm.report.trainings import scaling_plot
from tfglm.results import scaling
from tfglm.results.scaling import TrainingRun


def run(name: str, workers: int, quantities: dict[str, dict[int, float]], **settings) -> TrainingRun:
    """A network of 10 steps an epoch; `quantities` by name have a value for some steps."""
    lines = [(0.1 * step, name, step, value) for name, values in quantities.items() for step, value in values.items()]
    history = pd.DataFrame(lines, columns=["seconds", "quantity", "step", "value"])
    model = {"formula": "label ~ image", **settings}
    fit = {
        "model": name,
        "strategy": settings.get("strategy", "one_device"),
        "synchronous": settings.get("synchronous", False),
        "steps_of_an_epoch": 10,
        "provenance": {"model": model, "inputs": [{"file": "digits", "xxh128": "0"}], "data": {}},
    }
    return TrainingRun(fit, history, workers, settings.get("batch_size", 100), settings.get("seed", 1))


ALONE = run(
    "alone",
    1,
    {
        "train/milliseconds a batch": {10: 3.0, 20: 1.0},
        "evaluate/loss": {10: 2.0, 20: 1.0},
        "evaluate/accuracy": {10: 0.25, 20: 0.5},
    },
)
# It says how far it is twice in an epoch, and stops in the middle of the third.
PAIR = run(
    "pair",
    2,
    {
        "train/milliseconds a batch": {4: 10.0, 10: 5.0, 14: 20.0, 20: 5.0, 24: 1.0},
        "train/staleness": {4: 0.5, 10: 0.0, 14: 1.0, 20: 0.5, 24: 9.0},
        "evaluate/loss": {10: 2.1, 20: 1.1},
        "evaluate/accuracy": {10: 0.2, 20: 0.4},
    },
    strategy="parameter_server",
    seed=7,
)


def test_the_table_counts_epochs_of_all_workers_and_of_each():
    table = scaling.table([ALONE, PAIR])
    assert table["network"].tolist() == ["alone", "alone", "pair", "pair"]
    assert table["strategy"].tolist() == ["one_device", "one_device", "parameter_server", "parameter_server"]
    assert table["epochs"].tolist() == [1, 2, 1, 2]
    assert table["epochs_of_worker"].tolist() == [1, 2, 0.5, 1]
    assert table["updates"].tolist() == [10, 20, 10, 20]
    assert table["accuracy"].tolist() == [0.25, 0.5, 0.2, 0.4]
    assert table["seed"].tolist() == [1, 1, 7, 7]


def test_staleness_and_seconds_are_those_of_the_steps_of_an_epoch():
    table = scaling.table([ALONE, PAIR]).set_index(["network", "epochs"])
    assert table.loc["alone", "staleness"].isna().all()
    np.testing.assert_allclose(table.loc["alone", "seconds"], [0.03, 0.01])
    np.testing.assert_allclose(table.loc["pair", "staleness"], [0.2, 0.7])
    np.testing.assert_allclose(table.loc["pair", "seconds"], [0.07, 0.11])


def test_a_response_without_classes_has_no_accuracy():
    table = scaling.table([run("alone", 1, {"train/milliseconds a batch": {10: 1.0}, "evaluate/loss": {10: 2.0}})])
    assert table["accuracy"].isna().all() and table["loss"].tolist() == [2.0]


def test_networks_that_differ_in_more_than_their_workers_are_refused():
    other = run("other", 3, {"evaluate/loss": {10: 2.0}}, hidden=[7], seed=2, epochs=9)
    with pytest.raises(UserError, match="`alone` and `other` differ in hidden, so that not only the workers"):
        scaling.table([ALONE, other])


@pytest.mark.slow
def test_the_picture_has_a_line_for_each_number_of_workers_and_rows_of_a_step(tmp_path):
    quantities = {"evaluate/loss": {10: 2.0, 20: 1.0}, "evaluate/accuracy": {10: 0.3, 20: 0.6}}
    larger = run("larger", 3, quantities, strategy="multi_worker_mirrored", batch_size=300)
    smaller = run("smaller", 3, quantities, strategy="multi_worker_mirrored")
    table = scaling.table([ALONE, PAIR, larger, smaller])
    paths = [tmp_path / "scaling.svg", tmp_path / "scaling.png"]
    scaling_plot(table, paths)
    drawn = paths[0].read_text()
    for text in (
        "asynchronous",
        "synchronous",
        "one device",
        "2 workers",
        "3 workers, batches of 300",
        "3 workers, batches of 100",
        "accuracy on the rows held out",
    ):
        assert f">{text}<" in drawn, text
    assert paths[1].stat().st_size > 10_000


def test_the_picture_of_a_response_without_classes_shows_its_loss(tmp_path):
    table = scaling.table([ALONE, PAIR]).assign(accuracy=np.nan)
    scaling_plot(table, [tmp_path / "scaling.svg"])
    assert ">loss on the rows held out<" in (tmp_path / "scaling.svg").read_text()


def test_the_script_knows_the_workers_of_each_strategy(tmp_path):
    runs = [
        ALONE,
        run("copies", 3, {"evaluate/loss": {10: 2.0}}, strategy="mirrored", devices=3),
        run("pair", 2, {"evaluate/loss": {10: 2.0}}, strategy="parameter_server", seed=7),
        run("peers", 4, {"evaluate/loss": {10: 2.0}}, strategy="multi_worker_mirrored", batch_size=400),
    ]
    # The two of the pair are the default, which fit.json leaves out.
    runs[-1].fit["provenance"]["model"]["workers"] = 4
    for each in runs:
        folder = tmp_path / each.name
        folder.mkdir()
        digests.write_json(folder / "fit.json", each.fit)
        each.history.to_csv(folder / "history.csv", index=False)
        digests.write_beside(folder / "history.csv", folder / "fit.json")
    table, plots = tmp_path / "scaling.csv", [tmp_path / "scaling.svg"]
    folders = [tmp_path / each.name for each in runs]
    compare.main(argparse.Namespace(models=folders, pictures=PicturesConfig(), files=[table, *plots]))
    written = pd.read_csv(table).drop_duplicates("network").set_index("network")
    assert written["workers"].to_dict() == {"alone": 1, "copies": 3, "pair": 2, "peers": 4}
    assert written["batch_size"].tolist() == [512, 512, 512, 400] and written["seed"].tolist() == [1, 1, 7, 1]
    assert plots[0].exists()


def test_epochs_counted_by_steps_are_refused():
    counted = run("counted", 2, {"evaluate/loss": {10: 2.0}}, steps_per_epoch=10)
    with pytest.raises(UserError, match="an epoch of network `counted` is not each row once"):
        scaling.table([ALONE, counted])


def test_workers_that_take_each_step_together_are_set_apart():
    looks = {"train/milliseconds a batch": {10: 3.0}, "evaluate/loss": {10: 2.0}}
    together = run("together", 2, looks, strategy="parameter_server", synchronous=True, backup_workers=1)
    assert scaling.table([ALONE, PAIR, together])["strategy"].iloc[-1] == "parameter_server, synchronous"
