"""The ready analyses of config/examples, as far as a plan."""

import numpy as np
import yaml

import write_images
from runs import REPOSITORY, configure, planned, snakemake, write_asa

RULES = ("chief", "check_network", "train", "train_on_cluster", "evaluate", "compare_models")
PLANS = {
    "aliasing": (2, 0, 0, 0, 2, 1),
    "wide_and_deep": (1, 0, 2, 0, 3, 1),
    "residual": (1, 1, 1, 0, 2, 1),
    "two_towers": (1, 1, 1, 0, 2, 1),
    "mixer": (0, 1, 1, 0, 1, 0),
    "digits": (0, 0, 3, 0, 3, 0),
    "scaling": (0, 0, 2, 13, 15, 0),
}
"""How many jobs of each of these rules an example has."""
MINE = {
    "data": {"files": ["2006.csv"], "split": {"train": "TRUE"}, "columns": ["arr_delay", "carrier"]},
    "models": {"mine": {"formula": "arr_delay ~ carrier", "family": "gaussian"}},
}


def test_each_example_has_a_plan(tmp_path):
    flights, digits = tmp_path / "flights", tmp_path / "digits"
    for folder in (flights, digits):
        folder.mkdir()
    configure(flights)
    images, labels = write_images.digits()
    np.savez(digits / "digits.npz", images=images, labels=labels)
    on_flights, on_digits = ("aliasing", "wide_and_deep", "residual", "two_towers"), ("digits", "scaling", "mixer")
    folders = dict.fromkeys(on_flights, flights) | dict.fromkeys(on_digits, digits)
    examples = {path.stem: path for path in (REPOSITORY / "config" / "examples").glob("*.yaml")}
    assert examples.keys() == folders.keys()
    below = {name: ["config/config.yaml"] for name in on_flights}
    plans = {
        name: planned(folder, "--configfile", *below.get(name, []), str(examples[name]))
        for name, folder in folders.items()
    }
    for plan in plans.values():
        plan["evaluate"] = sum(count for rule, count in plan.items() if rule.startswith("evaluate"))
    assert {name: {rule: plan.get(rule, 0) for rule in RULES} for name, plan in plans.items()} == {
        name: dict(zip(RULES, counts, strict=True)) for name, counts in PLANS.items()
    }


def test_a_config_of_ones_own_stands_alone(tmp_path):
    """None of the default's models and conditions, whose columns another file lacks, stay."""
    configure(tmp_path)
    (tmp_path / "config" / "mine.yaml").write_text(yaml.safe_dump(MINE))
    write_asa(tmp_path, 2006, 100)
    plan = planned(tmp_path, "--configfile", "config/mine.yaml")
    assert plan["fit"] == plan["build_design"] == 1
    both = snakemake(tmp_path, "--dry-run", "--configfile", "config/config.yaml", "config/mine.yaml").stdout
    assert "config/mine.yaml: data.columns: lacks `late`, needed by models.late_arrival.formula; add it" in both


def test_the_workers_of_an_example_are_compared_without_more(tmp_path):
    images, labels = write_images.digits()
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    line = ("--configfile", str(REPOSITORY / "config" / "examples" / "scaling.yaml"), "--", "scaling")
    plan = planned(tmp_path, *line)
    assert plan.pop("tabulate_scaling") == 1 and plan["train"] == 2 and plan["ps"] == 7 and plan["peers"] == 6
    assert not plan.keys() & {"evaluate_network", "write_pages_network", "write_home"}


def test_workers_of_no_network_cannot_be_compared(tmp_path):
    configure(tmp_path)
    done = snakemake(tmp_path, "--dry-run", "--", "scaling")
    assert done.returncode != 0 and "the config trains no networks" in done.stdout, done.stdout
