"""The ready analyses of config/examples, as far as a plan."""

import numpy as np

import write_images
from runs import REPOSITORY, configure, planned


def test_each_example_has_a_plan(tmp_path):
    flights, digits = tmp_path / "flights", tmp_path / "digits"
    for folder in (flights, digits):
        folder.mkdir()
    configure(flights)
    images, labels = write_images.digits()
    np.savez(digits / "digits.npz", images=images, labels=labels)
    folders = {"wide_and_deep": flights, "digits": digits}
    examples = {path.stem: path for path in (REPOSITORY / "config" / "examples").glob("*.yaml")}
    assert examples.keys() == folders.keys()
    plans = {name: planned(folder, "--configfile", str(examples[name])) for name, folder in folders.items()}
    assert {
        name: {rule: plan.get(rule, 0) for rule in ("chief", "train", "evaluate", "compare_models")}
        for name, plan in plans.items()
    } == {
        "wide_and_deep": {"chief": 1, "train": 2, "evaluate": 3, "compare_models": 1},
        "digits": {"chief": 0, "train": 3, "evaluate": 3, "compare_models": 0},
    }
