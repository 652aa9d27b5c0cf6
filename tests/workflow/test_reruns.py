"""What runs again after a change of the config."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from default_run import MODELS
from runs import REPOSITORY, configure, contents, jobs_in, planned, read_json, read_table, succeed

FITTED_ANEW = {
    "build_design": 1, "check_reference": 1, "ps": 1, "workers": 1, "chief": 1,
    "tabulate_coefficients": 1, "tabulate_margins": 1, "evaluate": 1, "render_coefficients": 1, "render_metrics": 1,
    "render_history": 1, "render_home": 1,
}  # fmt: skip
EVALUATED_ANEW = {"evaluate": 1, "render_metrics": 1, "render_home": 1}
RERUNS = {
    "formula": ("formula", "late ~ carrier + distance", FITTED_ANEW),
    "std_errors": ("std_errors", "robust", FITTED_ANEW),
    "contrasts": (
        "contrasts",
        {"JFK against LGA": {"origin[JFK]": 1, "origin[LGA]": -1}},
        {"tabulate_contrasts": 1, "render_home": 1},
    ),
    "hypotheses": (
        "hypotheses",
        {"alike": [{"origin[JFK]": 1}, {"origin[LGA]": 1}]},
        {"tabulate_hypotheses": 1, "render_home": 1},
    ),
    "pairwise": ("pairwise", ["origin"], {"tabulate_pairwise": 1, "render_home": 1}),
    "vcov": ("vcov", True, {"export_vcov": 1, "render_home": 1}),
    "solver": (
        "solver",
        ["adagrad", "newton"],
        {name: n for name, n in FITTED_ANEW.items() if name not in ("build_design", "check_reference")},
    ),
    "collapse": (
        "collapse",
        True,
        {"collapse_rows": 1}
        | {name: n for name, n in FITTED_ANEW.items() if name not in ("build_design", "check_reference")},
    ),
    "threshold": ("threshold", 0.3, EVALUATED_ANEW),
    "unseen": ("unseen", "error", EVALUATED_ANEW),
    "by": ("by", ["carrier"], {**EVALUATED_ANEW, "tabulate_groups": 1, "render_groups": 1}),
    "export": ("export", True, {"export_model": 1}),
    "confidence": (
        "confidence",
        0.9,
        {"tabulate_coefficients": 1, "tabulate_margins": 1, "render_coefficients": 1, "render_home": 1},
    ),
    "adjusted_means": ("adjusted_means", "balanced", {"tabulate_margins": 1, "render_home": 1}),
    "reference": (
        "reference",
        {"origin": "LGA"},
        {
            "check_reference": 1,
            "tabulate_coefficients": 1,
            "tabulate_margins": 1,
            "render_coefficients": 1,
            "render_home": 1,
        },
    ),
}


ALL_FITTED_ANEW = {
    "merge_dictionary": 1,
    "render_rows": 1,
    **{rule: len(MODELS) * jobs for rule, jobs in FITTED_ANEW.items()},
    "render_home": 1,
}
READ_ANEW = {"ingest": 1, **ALL_FITTED_ANEW}
CHANGES = {
    **{case: ({"models": {"late_arrival": {key: value}}}, expected) for case, (key, value, expected) in RERUNS.items()},
    "l2": ({"models": {"late_arrival": {"l2": 0.01, "std_errors": "classical"}}}, FITTED_ANEW),
    # No file is read again.
    "rare": ({"data": {"rare": {"dest": 100}}}, ALL_FITTED_ANEW),
    "missing": ({"data": {"missing": {"dest": "level"}}}, ALL_FITTED_ANEW),
    "where": ({"data": {"where": {"long": "distance > 200"}}}, READ_ANEW),
    "derive": ({"data": {"derive": {"late": "arr_delay >= 30"}}}, READ_ANEW),
    "layout": ({"data": {"layout": ["asa2009", "nycflights13"]}}, {}),
    "colour": (
        {"pictures": {"colour": "#000000"}},
        {"render_rows": 1, "render_coefficients": 2, "render_metrics": 2, "render_history": 2},
    ),
    "compare": ({"compare": ["late_arrival", "arrival_delay"]}, {"compare_models": 1, "render_home": 1}),
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
    """What a dry run prints for each change of the config; two are asked for at a time."""
    folder = tmp_path_factory.mktemp("changes")

    def plan(case: str) -> str:
        path = folder / f"{case}.yaml"
        path.write_text(yaml.safe_dump(CHANGES[case][0]))
        return succeed(finished, "--dry-run", "--configfile", "config/config.yaml", str(path))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CHANGES, pool.map(plan, CHANGES), strict=True))


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_config_reruns_what_depends_on_it(plans, case):
    assert jobs_in(plans[case]) == CHANGES[case][1]
    models = set(re.findall(r"^Job \d+: (\w+): ", plans[case], re.MULTILINE))
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


ROWS = ("results/few/data/rows.json", "--configfile", "few.yaml")


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


def test_the_content_of_an_input_file_decides_whether_it_is_read_again(tmp_path):
    """The files have more than 1 MB: Snakemake takes no checksum of them."""
    text = "delay,carrier,remark\n" + "".join(f"{row % 97}.5,{'AB'[row % 2]},{'x' * 90}\n" for row in range(12_000))
    contents = {"same": text, "other": text.replace(",A,", ",C,"), "shorter": text[: text.rindex("\n", 0, 600_000)]}
    for name in BROUGHT:
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "table.yaml").write_text("columns: {delay: number, carrier: string}\n")
    data = {"layout": ["table.yaml"], "split": {"train": "TRUE"}, "columns": ["delay", "carrier"]}
    config = {
        "data": {"files": [f"{name}.csv" for name in BROUGHT], **data},
        "models": {"m": {"formula": "delay ~ carrier", "family": "gaussian"}},
        "cluster": {"strategy": "one_device"},
        "results": "results/few",
    }
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(config))
    succeed(tmp_path, *ROWS)
    for name, (brings, content) in BROUGHT.items():
        (tmp_path / f"{name}.brought").write_text(contents[content])
        brings(tmp_path / f"{name}.brought", tmp_path / f"{name}.csv")
    printed = succeed(tmp_path, "--dry-run", *ROWS)
    assert jobs_in(printed) == {"ingest": len(CHANGED), "merge_dictionary": 1}
    assert re.findall(r"^(\w+)\.csv: the content has changed since it was read; it is read", printed, re.M) == CHANGED
    succeed(tmp_path, *ROWS)
    expected = sum(contents[content].count(",x") for _, content in BROUGHT.values())
    assert read_json(tmp_path, "data", "rows.json", results="results/few")["read"] == expected
    assert planned(tmp_path, *ROWS) == {}
