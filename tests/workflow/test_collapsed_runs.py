"""Models that share rows which are collapsed, as a user runs them."""

import pytest
import yaml

from runs import dry_runs, jobs_in, noise_in, read_json, results, succeed

MODEL = {"family": "binomial", "std_errors": "cluster(date)", "collapse": True, "marginal_effects": False}
FORMULAS = ["late ~ origin + C(month)", "late ~ carrier + origin"]
TABLES = [f"results/few/models/few_{number}/coefficients.csv" for number in (1, 2)]
WRITTEN = "write_tables_without_marginal_effects_adjusted_means"
FITTED_ANEW = {"build_design": 1, "check_reference": 1, "fit": 1, WRITTEN: 1}
CHANGES = {
    "nothing": ({}, FORMULAS, {}),
    "a key of the metrics": ({"threshold": 0.3}, FORMULAS, {}),
    "a term of the same columns": ({}, [FORMULAS[0], "late ~ carrier * origin"], FITTED_ANEW),
    "errors of other clusters": ({"std_errors": "cluster(month)"}, FORMULAS, dict.fromkeys(FITTED_ANEW, 2)),
    "another column": (
        {}, [FORMULAS[0], "late ~ carrier + dep_hour"],
        {**FITTED_ANEW, "collapse_rows": 1, "fit": 2, WRITTEN: 2},
    ),
    "rows as they are": ({"collapse": False}, FORMULAS, {"fit": 2, WRITTEN: 2}),
}  # fmt: skip


def config_of(keys: dict, formulas: list[str]) -> str:
    model = {**MODEL, **keys, "sweep": {"formula": formulas}}
    return yaml.safe_dump(
        {"results": "results/few", "models": {"few": model}, "fit": ["few"], "cluster": {"strategy": "one_device"}}
    )


@pytest.fixture(scope="module")
def printed(finished) -> str:
    """What a run says."""
    (finished / "few.yaml").write_text(config_of({}, FORMULAS))
    return succeed(finished, *TABLES, "--verbose", "--configfile", "config/config.yaml", "few.yaml")


def test_models_of_a_sweep_read_rows_that_were_summed_once(finished, expected, printed):
    assert printed.count("Summing training rows that agree") == 1 and "into shards" not in printed
    account = read_json(finished, "data", "rows.json")["splits"]["train"]
    for number in (1, 2):
        fit = read_json(finished.joinpath("results", "few", "models", f"few_{number}"), "fit.json", results="")
        assert fit["rows"] == fit["collapsed"]["rows"] == account["used"] > 40 * fit["collapsed"]["distinct_rows"]
        assert f"few_{number}: {account['used']:,} training rows were summed into " in printed
        assert fit["std_errors"]["estimator"] == "CR2" and fit["std_errors"]["clusters"] > 250
    assert results(finished) == expected
    assert noise_in(finished / "logs" / "few") == []


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_runs_what_depends_on_it(plans, case):
    assert jobs_in(plans[case]) == CHANGES[case][2]


@pytest.fixture(scope="module")
def plans(finished, printed, tmp_path_factory) -> dict[str, str]:
    changes = {case: config_of(keys, formulas) for case, (keys, formulas, _) in CHANGES.items()}
    return dry_runs(changes, tmp_path_factory.mktemp("plans"), finished, *TABLES)
