"""What runs again after a change of the config."""

import os
import re
import shutil

import pytest
import yaml

from default_run import MODELS
from runs import (
    REPOSITORY,
    configure,
    configure_few,
    contents,
    dry_runs,
    jobs_in,
    planned,
    read_json,
    read_table,
    snakemake,
    succeed,
)
from tfglm.config.inputs import FEWEST_SMALL

FITTED_ANEW = {
    "build_design": 1, "check_reference": 1, "ps": 1, "workers": 1, "chief": 1,
    "write_tables": 1, "evaluate": 1, "write_pages": 1, "write_home": 1,
}  # fmt: skip
# One job makes all tables of a model, so a further one makes the others again. No row is read.
NEW_TABLE = {"write_pages": 1, "write_home": 1}
# One that a fit may refuse has a job of its own.
NEW_TABLE_ALONE = {"write_one_table": 1, "write_combinations": 1, "write_home": 1}
# One job reads the rows for the metrics and for the averages that tables are made of.
WRITTEN_ANEW = {"write_tables": 1, "write_pages": 1, "write_home": 1}
EVALUATED_ANEW = {"evaluate": 1, **WRITTEN_ANEW}
OF_THE_SAME_DESIGN = {name: n for name, n in FITTED_ANEW.items() if name not in ("build_design", "check_reference")}
RERUNS = {
    "formula": ("late ~ carrier + distance", FITTED_ANEW),
    "std_errors": ("robust", FITTED_ANEW),
    "contrasts": ({"JFK against LGA": {"origin[JFK]": 1, "origin[LGA]": -1}}, NEW_TABLE_ALONE),
    "hypotheses": ({"alike": [{"origin[JFK]": 1}, {"origin[LGA]": 1}]}, NEW_TABLE_ALONE),
    "pairwise": (["origin"], {**NEW_TABLE, "write_tables_pairwise": 1}),
    "vcov": (True, {**NEW_TABLE, "write_tables_vcov": 1}),
    "solver": (["adagrad", "newton"], OF_THE_SAME_DESIGN),
    "collapse": (True, {"collapse_rows": 1, **OF_THE_SAME_DESIGN}),
    "threshold": (0.3, EVALUATED_ANEW),
    "unseen": ("error", EVALUATED_ANEW),
    "by": (["carrier"], {"evaluate_metrics_by": 1, "write_tables": 1, "write_pages_metrics_by": 1, "write_home": 1}),
    "export": (True, {"export_model": 1}),
    "confidence": (0.9, WRITTEN_ANEW),
    "adjusted_means": ("balanced", EVALUATED_ANEW),
    "margins_at": (
        {"far": {"distance": 2000}, "near": {"distance": 500}},
        {"evaluate": 1, "write_tables_margins_at": 1, "write_pages": 1, "write_home": 1},
    ),
    "reference": ({"origin": "LGA"}, {"check_reference": 1, **WRITTEN_ANEW}),
}
"""Another value of each key of a model, and what runs again."""


ALL_FITTED_ANEW = {
    "merge_dictionary": 1,
    "write_rows": 1,
    **{rule: len(MODELS) * jobs for rule, jobs in FITTED_ANEW.items()},
    "write_home": 1,
}
READ_ANEW = {"ingest": 1, **ALL_FITTED_ANEW}
CHANGES = {
    **{key: ({"models": {"late_arrival": {key: value}}}, expected) for key, (value, expected) in RERUNS.items()},
    "l2": ({"models": {"late_arrival": {"l2": 0.01, "std_errors": "classical"}}}, FITTED_ANEW),
    # No file is read again.
    "rare": ({"data": {"rare": {"dest": 100}}}, ALL_FITTED_ANEW),
    "missing": ({"data": {"missing": {"dest": "level"}}}, ALL_FITTED_ANEW),
    "order": ({"data": {"order": {"origin": ["LGA", "JFK", "EWR"]}}}, ALL_FITTED_ANEW),
    "where": ({"data": {"where": {"long": "distance > 200"}}}, READ_ANEW),
    "derive": ({"data": {"derive": {"late": "arr_delay >= 30"}}}, READ_ANEW),
    "layout": ({"data": {"layout": ["asa2009", "nycflights13"]}}, {}),
    "colour": ({"pictures": {"colour": "#000000"}}, {"write_rows": 1, "write_pages": 2}),
    "compare": ({"compare": ["late_arrival", "arrival_delay"]}, {"compare_models": 1, "write_home": 1}),
}


DOCUMENTED = {
    "the fit of that model (`ps`, `workers`, `chief`) and what shows it": set(FITTED_ANEW)
    - {"build_design", "check_reference"},
    "the design and the fit of that model, and what shows them": set(FITTED_ANEW),
    "the dictionary, and all designs and fits; no file is read again": set(ALL_FITTED_ANEW),
    "everything": set(READ_ANEW),
    "nothing, if the files still have the same one": set(),
}


def test_the_documentation_says_what_runs_again():
    text = (REPOSITORY / "docs" / "config" / "running.md").read_text()
    table = text.partition("<!-- reruns:begin -->")[2].partition("<!-- reruns:end -->")[0]
    actual = {}
    for changes, rules in re.findall(r"^\| (`.+?) \| (.+) \|$", table, re.MULTILINE):
        for change in re.findall(r"`(\w+)`", changes):
            actual[change] = DOCUMENTED.get(rules) if rules in DOCUMENTED else set(re.findall(r"`(\w+)`", rules))
    assert actual == {case: set(expected) for case, (_, expected) in CHANGES.items()}


@pytest.fixture(scope="module")
def plans(finished, tmp_path_factory) -> dict[str, str]:
    """What a dry run prints for each change of the config."""
    changes = {case: yaml.safe_dump(change) for case, (change, *_) in CHANGES.items()}
    return dry_runs(changes, tmp_path_factory.mktemp("changes"), finished)


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_config_reruns_what_depends_on_it(plans, case):
    assert jobs_in(plans[case]) == CHANGES[case][1]
    models = set(re.findall(r"^ *Job \d+: (\w+): ", plans[case], re.MULTILINE))
    if case in RERUNS:
        assert models == {"late_arrival"}


def test_another_reference_level_is_reported_from_the_same_fit(finished):
    fit = contents(finished / "results" / "flights" / "models" / "late_arrival" / "checkpoint")
    before = read_table(finished, "late_arrival")
    configure(finished, lambda config: config["models"]["late_arrival"].update(reference={"origin": "LGA"}))
    succeed(finished)
    after = read_table(finished, "late_arrival")
    assert after.loc[("origin", "LGA"), "estimate"] == 0.0
    assert after.loc[("origin", "EWR"), "estimate"] == pytest.approx(
        -before.loc[("origin", "LGA"), "estimate"], rel=1e-9
    )
    assert after.loc[("origin", "EWR"), "std_error"] == pytest.approx(
        before.loc[("origin", "LGA"), "std_error"], rel=1e-9
    )
    assert contents(finished / "results" / "flights" / "models" / "late_arrival" / "checkpoint") == fit
    assert planned(finished) == {}
    configure(finished)


def everything(config: dict) -> None:
    """A default config that asks for every optional file of the models."""
    config["data"]["split"]["predict"] = "day > 30"
    config["models"]["late_arrival"] |= {
        "contrasts": RERUNS["contrasts"][0],
        "hypotheses": RERUNS["hypotheses"][0],
        "pairwise": ["origin"],
        "margins_at": {"far": {"distance": 2000}, "near": {"distance": 500}},
        "formula": "late ~ carrier + origin + bs(dep_hour, df=4) + distance",
        "by": ["carrier"],
        "predictions": "csv",
    } | dict.fromkeys(["vcov", "diagnostics", "export"], True)
    config["models"]["arrival_delay"]["marginal_effects"] = False
    config["networks"] = {"deep": {"formula": "late ~ carrier + distance", "family": "binomial", "hidden": [4]}}
    config["compare"] = ["late_arrival", "arrival_delay"]


def test_every_file_that_a_run_makes_for_its_models_is_one_that_it_is_asked_for(tmp_path):
    """Snakemake does not make a deleted file again that only the job that makes it knows."""
    configure(tmp_path, everything)
    summary = succeed(tmp_path, "--summary")
    made = {line.partition("\t")[0] for line in summary.splitlines() if line.startswith("results/")}
    printed = succeed(tmp_path, "--dry-run", "--forceall")
    asked = set(re.search(r"^rule all:\n +input: (.*)$", printed, re.MULTILINE)[1].split(", "))
    on_the_way = {name for name in made if name.startswith("results/data/") or "/cluster/" in name}
    assert made - on_the_way == asked


TARGETS = ("compare", "export", "scaling", "score")


def test_a_target_asks_for_every_file_of_its_jobs(tmp_path):
    configure(tmp_path, lambda config: (everything(config), config.update(score=config["data"]["files"])))
    printed = succeed(tmp_path, "--dry-run", "--forceall", *TARGETS)
    made = {}
    for line in succeed(tmp_path, *TARGETS, "--summary").splitlines()[1:]:
        file, _, rule, *_ = line.split("\t")
        made.setdefault(rule, set()).add(file)
    for target in TARGETS:
        asked = set(re.search(rf"^rule {target}:\n +input: (.*)$", printed, re.MULTILINE)[1].split(", "))
        whole = [rule for rule, files in made.items() if files & asked]
        assert whole and all(made[rule] <= asked for rule in whole), target


@pytest.mark.parametrize("name", ["models/late_arrival/coefficients.parquet", "data/rows.svg"])
def test_a_deleted_file_that_no_other_job_reads_is_made_again(finished, name):
    deleted = finished / "results" / "flights" / name
    kept = deleted.rename(deleted.with_name("kept"))
    assert f"Missing output files: results/flights/{name}" in succeed(finished, "--dry-run")
    kept.rename(deleted)


ROWS = ("results/few/data/rows.json", "--configfile", "few.yaml")
DELAYS = {"delay": "number", "carrier": "string"}, {"formula": "delay ~ carrier", "family": "gaussian"}


def moved(source, target):
    os.utime(source, (0, 0))
    source.replace(target)


def copied(source, target):
    os.utime(source, (0, 0))
    shutil.copy2(source, target)


def linked(source, target):
    os.utime(source, (0, 0))
    target.unlink()
    target.symlink_to(source.name)


def newer(source, target):
    target.write_bytes(source.read_bytes())


BROUGHT = {
    "moved_same": (moved, "same"),
    "copied_same": (copied, "same"),
    "newer_same": (newer, "same"),
    "moved_other": (moved, "other"),
    "linked_other": (linked, "other"),
    "copied_shorter": (copied, "shorter"),
}
CHANGED = [name for name, (_, content) in BROUGHT.items() if content != "same"]


@pytest.mark.parametrize("names", [list(BROUGHT)[1:], list(BROUGHT)], ids=["a job each", "two jobs"])
def test_the_content_of_an_input_file_decides_whether_it_is_read_again(tmp_path, names):
    """The files have more than 1 MB: Snakemake takes no checksum of them."""
    text = "delay,carrier,remark\n" + "".join(f"{row % 97}.5,{'AB'[row % 2]},{'x' * 90}\n" for row in range(12_000))
    contents = {"same": text, "other": text.replace(",A,", ",C,"), "shorter": text[: text.rindex("\n", 0, 600_000)]}
    for name in names:
        (tmp_path / f"{name}.csv").write_text(text)
    configure_few(tmp_path, [f"{name}.csv" for name in names], *DELAYS)
    succeed(tmp_path, *ROWS)
    for name in names:
        brings, content = BROUGHT[name]
        (tmp_path / f"{name}.brought").write_text(contents[content])
        brings(tmp_path / f"{name}.brought", tmp_path / f"{name}.csv")
    printed = succeed(tmp_path, "--dry-run", *ROWS)
    jobs = [jobs for rule, jobs in jobs_in(printed).items() if rule.startswith("ingest")]
    assert jobs == ([len(CHANGED)] if len(names) < FEWEST_SMALL else [1, 1])
    noted = re.findall(r"^(\w+)\.csv: the content has changed since it was read; it is read", printed, re.M)
    assert sorted(noted) == sorted(CHANGED)
    succeed(tmp_path, *ROWS)
    expected = sum(contents[BROUGHT[name][1]].count(",x") for name in names)
    assert read_json(tmp_path, "data", "rows.json", results="results/few")["read"] == expected
    assert planned(tmp_path, *ROWS) == {}


def test_small_files_share_jobs_and_a_change_reads_those_of_one_job_again(tmp_path):
    configure_few(tmp_path, ["data/*.csv"], *DELAYS)
    (tmp_path / "data").mkdir()

    def write(name: str, rows: int) -> None:
        (tmp_path / "data" / f"{name}.csv").write_text("delay,carrier\n" + "1.5,A\n-2,B\n" * rows)

    def ingesting() -> list[int]:
        """The number of files of each job that reads some."""
        printed = succeed(tmp_path, "--dry-run", *ROWS)
        return sorted(map(int, re.findall(r"Reading (\d+) small files", printed)))

    for number in range(7):
        write(f"{number} {{x}}", number + 3)
    assert ingesting() == [3, 4]
    succeed(tmp_path, *ROWS)
    assert planned(tmp_path, *ROWS) == {}
    assert read_json(tmp_path, "data", "rows.json", results="results/few")["read"] == 2 * sum(range(3, 10))
    write("3 {x}", 50)
    assert ingesting() == [3]
    succeed(tmp_path, *ROWS)
    assert read_json(tmp_path, "data", "rows.json", results="results/few")["read"] == 2 * (sum(range(3, 10)) + 44)
    write("9", 5)
    assert ingesting() == [4], "a further file"
    # A job that fails names the file, and the next run goes on.
    write("4 {x}", 6)
    (tmp_path / "data" / "5 {x}.csv").write_text("delay,carrier\n1,A\nmany,B\n")
    failed = snakemake(tmp_path, *ROWS)
    assert failed.returncode == 1 and "error: data/5 {x}.csv, line 3" in failed.stdout, failed.stdout
    write("5 {x}", 8)
    succeed(tmp_path, *ROWS)
    assert planned(tmp_path, *ROWS) == {}
