"""Sweeps of networks: which of them continue, the table of all, and trainings in parts."""

import math

import numpy as np
import pandas as pd
import pytest
from test_networks import LINES, file, training, weights  # noqa: F401

from tfglm.config.networks import HalvingConfig
from tfglm.networks.job import checkpoint_folder
from tfglm.report.trainings import limits_of, losses_plot
from tfglm.results import sweeps


def fit(name: str, loss: float | None, epochs: float = 1.0) -> dict:
    return {"model": name, "smallest_held_out_loss": loss, "epoch_of_smallest_loss": 1, "epochs": epochs}


@pytest.mark.parametrize(
    ("keys", "networks", "epochs", "comparisons", "kept"),
    [
        ({}, 20, 27, [1, 3, 9], [7, 3, 1]),
        ({"min_epochs": 2, "factor": 2}, 8, 16, [2, 4, 8], [4, 2, 1]),
        ({"min_epochs": 2, "factor": 2}, 8, 9, [2, 4, 8], [4, 2, 1]),
        # One is left before the last epoch.
        ({"factor": 4}, 4, 1000, [1], [1]),
        ({}, 1, 10, [], []),
    ],
)
def test_networks_are_compared_until_one_is_left_or_the_epochs_are_over(keys, networks, epochs, comparisons, kept):
    halving = HalvingConfig(**keys)
    assert halving.comparisons(networks, epochs) == comparisons
    continuing = []
    for _ in comparisons:
        networks = halving.kept_of(networks)
        continuing.append(networks)
    assert continuing == kept


def test_the_smallest_losses_continue_whatever_the_order_of_equal_ones():
    fits = [fit("a", 0.5), fit("b", None), fit("c", 0.5), fit("d", math.nan), fit("e", 0.4)]
    assert sweeps.compare(fits, 2) == {"ranking": ["e", "a", "c", "b", "d"], "continuing": ["e", "a"]}


def test_the_table_says_why_each_training_ended(tmp_path):
    first = sweeps.compare([fit("a", 0.5), fit("b", 0.4), fit("c", 0.7), fit("d", 0.6)], 2)
    second = sweeps.compare([fit("a", 0.45), fit("b", 0.4)], 1)
    values = {name: {"hidden": [place]} for place, name in enumerate("abcd")}
    ended = [fit("a", 0.45, 2.0), fit("b", 0.3, 3.0), fit("c", 0.7), fit("d", 0.6)]
    table = sweeps.table(ended, values, {2: second, 1: first}, dict.fromkeys("abcd", 4)).set_index("network")
    assert table.index.tolist() == ["b", "a", "d", "c"] and table["hidden"].tolist() == [[1], [0], [3], [2]]
    assert table["end"].tolist() == [
        "patience, a callback or last_step",
        "halving after epoch 2: number 2 of 2, of which 1 continued",
        "halving after epoch 1: number 3 of 4, of which 2 continued",
        "halving after epoch 1: number 4 of 4, of which 2 continued",
    ]
    assert sweeps.end_of(fit("e", 0.1, 4.0), {}, 4) == "all epochs"

    history = pd.DataFrame(
        {"quantity": ["train/loss", *["evaluate/loss"] * 2], "step": [5, 10, 20], "value": [1, 2, 3]}
    )
    curve = sweeps.curve({"steps_of_an_epoch": 10}, history)
    assert curve.to_dict() == {1.0: 2, 2.0: 3}
    nothing = pd.Series(dtype=float)
    many = {f"n_{number}": curve + number for number in range(9)} | {"far": curve * 1e9, "none": nothing}
    losses_plot("n", many, [tmp_path / "losses.svg"])
    drawn = (tmp_path / "losses.svg").read_text()
    assert limits_of([*many.values()])[1] == 2 + 3 * 6 and limits_of([curve, nothing]) is limits_of([nothing]) is None
    assert "n_8: 11 after epoch 2" in drawn and ">n_0<" in drawn and ">n_8<" not in drawn


@pytest.mark.slow
def test_a_training_in_parts_is_that_in_one_piece(file, tmp_path):  # noqa: F811
    keys = {
        "epochs": 5,
        "patience": 2,
        "dropout": 0.1,
        "optimizer": {"name": "adam", "learning_rate": {"schedule": "cosine", "initial_learning_rate": 0.05}},
    }
    whole = training(file, tmp_path / "whole", **keys).run()
    begin = None
    for until in (1, 3, None):
        folder = checkpoint_folder(tmp_path / str(until), "key", begin, until)
        part = training(file, folder, **keys).run(until)
        begin = folder
        if until:
            assert part.summary["epochs"] == until
    assert part.summary == whole.summary
    for mine, theirs in zip(weights(part.network), weights(whole.network), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    # One that `patience` has ended in a part does not continue.
    rising = keys | {"optimizer": {"name": "sgd", "learning_rate": 3.0}, "epochs": 30, "patience": 1}
    ended = training(file, checkpoint_folder(tmp_path / "first", "key", None, 20), **rising).run(20)
    assert ended.summary["epochs"] < 20
    again = training(file, checkpoint_folder(tmp_path / "last", "key", tmp_path / "first"), **rising).run()
    assert again.summary == ended.summary
    # Parts of another training are passed over.
    assert not (checkpoint_folder(tmp_path / "other", "another key", tmp_path / "first") / "steps").exists()
