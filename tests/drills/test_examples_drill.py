"""The examples of config/examples/, whole, as the README says."""

from pathlib import Path

import numpy as np
import pytest

import write_images
from runs import REPOSITORY, read_json, succeed

pytestmark = pytest.mark.drill


def test_the_networks_of_the_digits_learn_what_the_readme_says(tmp_path: Path):
    images, labels = write_images.digits()
    np.savez_compressed(tmp_path / "digits.npz", images=images, labels=labels)
    succeed(tmp_path, "--configfile", str(REPOSITORY / "config" / "examples" / "digits.yaml"))
    names = ("sigmoid", "convolutional", "sigmoid_slow")
    accuracy = [read_json(tmp_path, "models", name, "metrics.json")["accuracy"] for name in names]
    assert accuracy[0] >= 0.93 and accuracy[1] >= 0.97 and accuracy[2] < 0.3
    assert "convolutions with 32, 64 filters of 3 x 3 pixels" in (tmp_path / "results" / "summary.html").read_text()
