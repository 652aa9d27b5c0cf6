"""The examples of config/examples/, as the documents say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import write_images
from runs import REPOSITORY, read_json, succeed

RESULTS = Path("results/digits")
pytestmark = pytest.mark.drill


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with the digits of scikit-learn."""
    images, labels = write_images.digits()
    np.savez_compressed(tmp_path / "digits.npz", images=images, labels=labels)
    return tmp_path


def test_the_networks_of_the_digits_learn_what_the_readme_says(digits):
    succeed(digits, "--configfile", str(REPOSITORY / "config" / "examples" / "digits.yaml"))
    names = ("sigmoid", "convolutional", "sigmoid_slow")
    accuracy = [read_json(digits, "models", name, "metrics.json", results=RESULTS)["accuracy"] for name in names]
    assert accuracy[0] >= 0.93 and accuracy[1] >= 0.97 and accuracy[2] < 0.3
    assert (
        "convolutions with 32, 64 filters of 3 x 3 pixels" in (digits / "results" / "digits" / "index.html").read_text()
    )


def test_more_workers_make_more_updates_and_nothing_else(digits):
    names = ["one_device_1", "asynchronous_1_1", "asynchronous_3_1", "synchronous_3"]
    example = str(REPOSITORY / "config" / "examples" / "scaling.yaml")
    succeed(digits, "--configfile", example, "--config", f"fit=[{','.join(names)}]", "--", "scaling")
    table = pd.read_csv(digits / "results" / "scaling" / "scaling.csv").set_index("network")
    loss = table[table["updates"] == 300]["loss"]
    assert set(loss.index) == set(names) and loss.max() - loss.min() < 0.01
    assert loss["synchronous_3"] == pytest.approx(loss["one_device_1"], abs=1e-5)
    of_each = table[table["epochs_of_worker"] == 20][["updates", "accuracy"]]
    assert of_each["updates"].to_dict() == dict(zip(names, [300, 300, 900, 900], strict=True))
    assert of_each.loc["asynchronous_3_1", "accuracy"] > of_each.loc["asynchronous_1_1", "accuracy"] + 0.1
    staleness = table["staleness"].groupby("network").mean()
    assert staleness["asynchronous_1_1"] == 0 and 0 < staleness["asynchronous_3_1"] < 3
