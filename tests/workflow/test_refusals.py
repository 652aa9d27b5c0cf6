"""Configs and targets that are wrong are refused with a message that says what to change."""

import subprocess
from pathlib import Path

import pytest

from runs import ENVIRONMENT, REPOSITORY, RESULTS, configure, planned, results, snakemake


def with_model(**keys):
    return lambda config: config["models"]["late_arrival"].update(keys)


def with_data(**keys):
    return lambda config: config["data"].update(keys)


REFUSED = {
    "unknown key": (lambda config: config["models"]["late_arrival"].update(famly="x"), "did you mean `family`?"),
    "missing file": (with_data(files=["flihgts.csv"]), "flihgts.csv"),
    "missing layout": (with_data(layout="nycflights"), "nycflights13"),
    "unknown model": (lambda config: config.update(fit=["late_arival"]), "did you mean `late_arrival`?"),
    "missing column in a formula": (
        with_model(formula="late ~ carier + C(month)"),
        "models.late_arrival.formula: no column `carier`; did you mean `carrier`?",
    ),
    "missing column in data.columns": (
        lambda config: config["data"]["columns"].append("tailnumber"),
        "data.columns: no column `tailnumber`; did you mean `tailnum`?",
    ),
    "missing column in an expression": (
        with_data(derive={"late": "arr_dely >= 15"}),
        "data.derive.late: no column `arr_dely` in `arr_dely >= 15`; did you mean `arr_delay`?",
    ),
    "missing level": (
        with_model(reference={"origin": "LGB"}),
        "no level `LGB` in the training rows; did you mean `LGA`?",
    ),
    "wrong response": (with_model(formula="distance ~ carrier"), "family binomial needs a response of 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_config_is_refused_before_training_and_leaves_earlier_results_untouched(finished, case):
    change, message = REFUSED[case]
    before = results(finished)
    configure(finished, change)
    done = snakemake(finished)
    configure(finished)
    assert done.returncode != 0
    assert message in done.stdout
    assert "Traceback" not in done.stdout
    assert results(finished) == before


def test_a_model_that_is_not_in_the_config_is_named(finished):
    done = snakemake(finished, "results/flights/models/late_arival/coefficients.csv")
    assert done.returncode != 0
    assert "no model `late_arival` in the config; did you mean `late_arrival`?" in done.stdout


@pytest.mark.parametrize(
    ("target", "message"), [("score", "names no files to score"), ("compare", "names no models to set side by side")]
)
def test_a_target_that_the_config_has_nothing_for_says_what_to_add(finished, target, message):
    asked = snakemake(finished, "--dry-run", target)
    assert asked.returncode == 1
    assert message in asked.stdout and "Traceback (most recent call last)" not in asked.stdout


def make_run(folder: Path) -> subprocess.CompletedProcess:
    """The command of `make run` with the environment of the tests, for the config in `folder`."""
    environment = {
        name: value for name, value in ENVIRONMENT.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "VERBOSE")
    }
    asking = ["make", "--dry-run", "--old-file", ".venv/bin/.ready", "run"]
    command = subprocess.run(asking, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout
    line = f"{command.strip()} --snakefile {REPOSITORY / 'Snakefile'}"
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(line, shell=True, cwd=folder, env=environment, text=True, **pipe)


def test_all_mistakes_are_told_at_once_and_those_of_models_that_are_not_fitted_are_not(tmp_path):
    def change(config):
        config["models"]["late_arrival"] |= {"formula": "late ~ factor(month) + dset", "std_errors": "cluster(dat)"}
        config["models"]["arrival_delay"] |= {"family": "normal"}
        config["models"]["alone"] = {"formula": "late ~ 1", "family": "binomial"}
        config["models"]["other"] = {"formula": "nothing ~ nix +", "family": "binomial"}
        config["models"]["mine"] = {"formula": "late ~ distance", "family": "binomial"}
        config["data"]["where"] = {"arrived": "arr_dely IS NOT NULL"}
        config["fit"] = ["late_arrival", "arrival_delay", "alone", "mine"]

    configure(tmp_path, change)
    done = make_run(tmp_path)
    assert done.stdout.startswith("WorkflowError in file ") and done.stdout.replace("\n", "").isprintable()
    for message in (
        "models.late_arrival.formula: `factor(month)` is not supported",
        "models.late_arrival.formula: no column `dset`; did you mean `dest`?",
        "models.late_arrival.std_errors: no column `dat`; did you mean `date`?",
        "models.arrival_delay.family: expected `gaussian`",
        "models.alone.formula: `late ~ 1` has no terms besides the intercept",
        "data.where.arrived: no column `arr_dely`",
    ):
        assert f"config/config.yaml: {message}" in done.stdout, message
    assert done.returncode != 0 and "models.other" not in done.stdout

    def only_mine(config):
        change(config)
        del config["models"]["arrival_delay"], config["data"]["where"]
        config["fit"] = ["mine"]

    configure(tmp_path, only_mine)
    assert planned(tmp_path)["chief"] == 1
    asked = snakemake(tmp_path, "--dry-run", str(RESULTS / "models" / "other" / "fit.json"))
    assert asked.returncode != 0
    assert "config/config.yaml: models.other.formula: not a formula: `nothing ~ nix +`" in asked.stdout
