"""The example of the handwritten digits through the workflow: its convolutional network, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import write_images
from runs import REPOSITORY, read_json, snakemake, succeed

pytestmark = pytest.mark.drill
EXAMPLE = REPOSITORY / "config" / "examples" / "digits.yaml"
RESULTS = Path("results/digits")
LINE = ("--configfile", str(EXAMPLE), "--", "results/digits/models/convolutional/metrics.html")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the convolutional network has been trained as the example says."""
    folder = tmp_path_factory.mktemp("digits")
    images, labels = write_images.digits()
    np.savez_compressed(folder / "digits.npz", images=images, labels=labels)
    succeed(folder, *LINE)
    return folder


def test_the_convolutional_network_knows_the_digits(folder):
    fit, metrics = (
        read_json(folder, "models", "convolutional", name, results=RESULTS) for name in ("fit.json", "metrics.json")
    )
    assert fit["classes"] == [str(digit) for digit in range(10)]
    assert fit["rows"] + metrics["rows"] == 1797 and 320 < metrics["rows"] < 400
    assert metrics["accuracy"] >= 0.97 and fit["held_out_accuracy"] == pytest.approx(metrics["accuracy"])
    assert np.trace(metrics["confusion"]) == pytest.approx(metrics["accuracy"] * metrics["rows"])
    assert "accuracy" in (folder / "results/digits/models/convolutional/metrics.svg").read_text()


STRATEGIES = {
    "one": {},
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "central": {"strategy": "central_storage", "devices": 2},
    "peers": {"strategy": "multi_worker_mirrored", "workers": 2},
    "servers": {"strategy": "parameter_server", "workers": 2, "synchronous": True},
}


def test_the_loss_of_the_convolutional_network_is_the_same_under_each_strategy(folder):
    config = yaml.safe_load(EXAMPLE.read_text())
    network = config["networks"]["convolutional"] | {"epochs": 2}
    config["networks"] = {name: network | keys for name, keys in STRATEGIES.items()}
    (folder / "strategies.yaml").write_text(yaml.safe_dump(config))
    targets = [f"results/strategies/models/{name}/fit.json" for name in STRATEGIES]
    succeed(folder, "--configfile", "strategies.yaml", "--", *targets)
    fits = [read_json(folder, "models", name, "fit.json", results=Path("results/strategies")) for name in STRATEGIES]
    assert {fit["steps"] for fit in fits} == {2 * 15}
    assert {fit["strategy"] for fit in fits} == {keys.get("strategy", "one_device") for keys in STRATEGIES.values()}
    losses = [fit["loss"] for fit in fits]
    assert max(losses) - min(losses) < 1e-5, losses


def test_images_of_another_size_are_not_scored(folder):
    np.savez(folder / "large.npz", images=np.zeros((3, 28, 28), np.uint8))
    config = yaml.safe_load(EXAMPLE.read_text()) | {
        "results": "results/digits",
        "score": ["large.npz"],
        "fit": ["convolutional"],
    }
    (folder / "score.yaml").write_text(yaml.safe_dump(config))
    done = snakemake(folder, "--configfile", "score.yaml", "--", "score")
    message = "large.npz: the images in `image` have 28 x 28 pixels, and network `convolutional` reads 8 x 8"
    assert done.returncode != 0 and message in done.stdout, done.stdout


def test_images_without_labels_are_scored(folder):
    images, labels = write_images.digits()
    np.savez(folder / "new.npz", images=images[:100])
    config = yaml.safe_load(EXAMPLE.read_text()) | {
        "results": "results/digits",
        "score": ["new.npz"],
        "fit": ["convolutional"],
    }
    (folder / "score.yaml").write_text(yaml.safe_dump(config))
    succeed(folder, "--configfile", "score.yaml", "--", "score")
    scores = pd.read_parquet(folder / "results/digits/models/convolutional/scores/new.parquet")
    assert len(scores) == 100 and (scores["predicted"].astype(int) == labels[:100]).mean() > 0.95
