"""Configs and targets that are wrong are refused with a message that says what to change."""

import re
import subprocess
from pathlib import Path

import pytest

from runs import ENVIRONMENT, REPOSITORY, RESULTS, configure, configure_few, planned, results, snakemake


def with_model(**keys):
    return lambda config: config["models"]["late_arrival"].update(keys)


def with_data(**keys):
    return lambda config: config["data"].update(keys)


REFUSED = {
    "missing file": (with_data(files=["flihgts.csv"]), "flihgts.csv"),
    "missing level": (
        with_model(reference={"origin": "LGB"}),
        "no level `LGB` in the training rows; did you mean `LGA`?",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_config_is_refused_before_training_and_leaves_earlier_results_untouched(finished, expected, case):
    change, message = REFUSED[case]
    configure(finished, change)
    done = snakemake(finished)
    configure(finished)
    assert done.returncode != 0 and message in done.stdout and "Traceback" not in done.stdout, done.stdout
    assert results(finished) == expected


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
        config["models"]["late_arrival"] |= {"formula": "late ~ rollmean(month) + dset", "std_errors": "cluster(dat)"}
        config["models"]["arrival_delay"] |= {"family": "normal"}
        config["models"]["other"] = {"formula": "nothing ~ nix +", "family": "binomial"}
        config["models"]["mine"] = {"formula": "late ~ distance", "family": "binomial"}
        config["data"]["where"] = {"arrived": "arr_dely IS NOT NULL"}
        config["fit"] = ["late_arrival", "arrival_delay", "mine"]

    configure(tmp_path, change)
    done = make_run(tmp_path)
    assert done.stdout.startswith("error: config/config.yaml: ") and done.stdout.replace("\n", "").isprintable()
    for message in (
        "models.late_arrival.formula: `rollmean(month)` is not supported",
        "models.late_arrival.formula: no column `dset`; did you mean `dest`?",
        "models.late_arrival.std_errors: no column `dat`; did you mean `date`?",
        "models.arrival_delay.family: expected `gaussian`",
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


def test_a_tab_in_a_config_is_told_with_its_line_where_tfglm_reads_it_first(tmp_path):
    """A file of --configfile is read by Snakemake before, as docs/failures.md says."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("data:\n  files: [a.csv]\n\tlayout: x\n")
    done = snakemake(tmp_path, "--dry-run")
    assert "config/config.yaml, line 3: this is not YAML: a tab, where YAML takes blanks alone" in done.stdout
    done = snakemake(tmp_path, "--dry-run", "--configfile", "config/config.yaml")
    assert "Config file is not valid JSON or YAML" in done.stdout
    assert '"Config file is not valid JSON or YAML"' in (REPOSITORY / "docs" / "failures.md").read_text()


def test_a_contrast_of_a_coefficient_without_an_estimate_leaves_the_other_tables_and_pages(tmp_path):
    """Only the fit shows that level C is separated."""
    rows = "".join(f"{int(n % 3 == 0 or n % 10 == 2)},{'ABC'[n % 10 // 4]}\n" for n in range(200))
    rows = re.sub(r"^\d,C$", "1,C", rows, flags=re.MULTILINE)
    (tmp_path / "table.csv").write_text("late,carrier\n" + rows)
    model = {"formula": "late ~ carrier", "family": "binomial", "contrasts": {"x": {"carrier[C]": 1}}}
    configure_few(tmp_path, ["table.csv"], {"late": "integer", "carrier": "string"}, model)
    done = snakemake(tmp_path, "--configfile", "few.yaml")
    assert done.returncode == 1
    message = "error: models.m.contrasts.x: `carrier[C]` is separated, so it has no estimate to combine"
    assert message in done.stdout
    folder = tmp_path / "results" / "few"
    written = {path.name for path in (folder / "models" / "m").iterdir()}
    assert {"coefficients.csv", "terms.csv", "marginal_effects.csv", "coefficients.html"} <= written
    assert "contrasts.csv" not in written
