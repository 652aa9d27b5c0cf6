"""Averages and tests beside random effects, for the population of their levels, against lmerTest, emmeans and mgcv
(tests/golden/population.R)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pools import average_rows, design_of, estimates_of, fit_files, fit_frame, ingest_frame, margins, table_of
from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.data.dictionary import merge
from tfglm.design.scenarios import scenarios
from tfglm.errors import UserError
from tfglm.report import home
from tfglm.report.model_results import ModelResults
from tfglm.report.words import Words
from tfglm.results import csv_files, joint
from tfglm.results.marginal_tables import Averaged
from tfglm.results.population import AT_ZERO, INTEGRATED, dimensions_of

GOLDEN = Path(__file__).parents[1] / "golden"
R = json.loads((GOLDEN / "population.json").read_text())
LINEAR = {
    "intercepts": "delay ~ wind + carrier + (1 | plane)",
    "slopes": "climb ~ hour + carrier + (hour || plane)",
    "few": "climb ~ hour + carrier + (hour || plane)",
    "none": "flat ~ hour + carrier + (1 | plane)",
}
CURVED = {
    "poisson": ("bumps ~ hour + carrier + (1 | plane)", "poisson"),
    "binomial": ("late ~ hour + carrier + (1 | plane)", "binomial"),
    "slopes": ("bumps ~ hour + carrier + (hour || plane)", "poisson"),
}


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population")
    rows = pd.read_csv(GOLDEN / "smooths.csv")
    few = rows[rows["plane"].isin(sorted(rows["plane"].unique())[:7])]
    return {"all": [ingest_frame(rows, folder)], "few": [ingest_frame(few, folder, "few")]}


def tables_of(design, fitted, files, **settings):
    return margins(design, fitted, files, {}, 0.95, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_linear_mixed_models_have_the_degrees_of_freedom_of_lmertest(name, pools):
    files, theirs = pools.get(name, pools["all"]), R["linear"][name]
    design, fitted, _ = fit_files(files, LINEAR[name], "gaussian")
    table = table_of(design, fitted)
    own = table[table["p_value"].notna()]
    assert len(own) == len(theirs["coefficients"]) == 4
    for (_, row), expected in zip(own.iterrows(), theirs["coefficients"], strict=True):
        found = row[["estimate", "std_error", "df"]].to_numpy(float)
        assert found == pytest.approx([expected[f"X{number}"] for number in (1, 2, 3)], rel=1e-3, abs=1e-6)
        assert row["p_value"] == pytest.approx(expected["X5"], rel=5e-3)
    term = joint.joint_tests(estimates_of(design, fitted), (), fitted.summary["smooths"]).set_index("term")
    joined = term.loc["carrier", ["F", "df_denominator", "p_value"]].to_numpy(float)
    assert joined == pytest.approx([theirs["joint"][key] for key in ("F", "df", "p")], rel=1e-3)
    number = own.index[1][0]
    one = term.loc[number, ["F", "df_denominator", "p_value"]].to_numpy(float)
    assert one == pytest.approx(own.iloc[1][["t", "df", "p_value"]].to_numpy(float) ** [2, 1, 1], rel=1e-8)
    tables = tables_of(design, fitted, files)
    slope = tables.effects.set_index("term").loc[number]
    assert slope["about"] == "population"
    for column in ("estimate", "std_error", "df", "p_value", "ci_lower", "ci_upper"):
        assert slope[column] == pytest.approx(own.iloc[1][column], rel=1e-8)
    means = tables.means[tables.means["term"] == "carrier"]
    balanced = tables_of(design, fitted, files, balanced=True).means
    for column, of_r in {"mean": "emmean", "std_error": "SE", "df": "df", "ci_lower": "lower.CL"}.items():
        expected = [row[of_r] for row in theirs["means"]]
        assert means[column].tolist() == pytest.approx(expected, rel=2e-3, abs=1e-5)
        assert balanced[column].to_numpy(float)[:3] == pytest.approx(expected, rel=2e-3, abs=1e-5)


@pytest.mark.parametrize("planes", ["aabc", "aabbc", "aabbcc", "aab"])
def test_a_term_between_few_groups_has_the_test_of_the_means_of_groups(planes, tmp_path):
    """With as many rows in each group, the analysis of variance of these means is exact."""
    random = np.random.default_rng(len(planes))
    group, rows = np.repeat(np.arange(len(planes)), 8), 8 * len(planes)
    frame = pd.DataFrame({"plane": [f"p{number}" for number in group], "f": [planes[number] for number in group]})
    frame["y"] = 2.0 * random.normal(size=len(planes))[group] + random.normal(size=rows)
    design, fitted = fit_frame(frame, "y ~ f + (1 | plane)", "gaussian", tmp_path)
    term = joint.joint_tests(estimates_of(design, fitted), (), fitted.summary["smooths"]).set_index("term").loc["f"]
    means = frame.groupby("plane").agg({"f": "first", "y": "mean"})
    exact = stats.f_oneway(*(of_level["y"] for _, of_level in means.groupby("f")))
    assert term["F"] == pytest.approx(exact.statistic, rel=1e-5)
    assert term["df_denominator"] == pytest.approx(len(planes) - len(set(planes)), rel=1e-4)
    assert term["p_value"] == pytest.approx(exact.pvalue, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["zero", "integrated"])
@pytest.mark.parametrize("name", CURVED)
def test_averages_of_curved_links_are_those_of_the_population(name, how, pools):
    formula, family = CURVED[name]
    design, fitted, _ = fit_files(pools["all"], formula, family, std_errors="unconditional")
    tables = tables_of(design, fitted, pools["all"], random_effects=how)
    assert (
        set(tables.effects["about"]) == set(tables.means["about"]) == {INTEGRATED if how == "integrated" else AT_ZERO}
    )
    found = pd.concat([tables.effects, tables.means.rename(columns={"mean": "estimate"})]).dropna(subset="estimate")
    expected = pd.DataFrame(R["curved"][name][how])
    assert found["estimate"].to_numpy(float) == pytest.approx(expected["estimate"].to_numpy(), rel=1e-4)
    assert found["std_error"].to_numpy(float) == pytest.approx(expected["std_error"].to_numpy(), rel=2e-3)


def test_means_beside_a_smooth_have_random_effects_at_zero(pools):
    design, fitted, _ = fit_files(pools["all"], "late ~ s(hour) + carrier + (1 | plane)", "binomial")
    means = tables_of(design, fitted, pools["all"]).means.dropna(subset="mean")
    expected = pd.DataFrame(R["beside"])
    assert means["mean"].tolist() == pytest.approx(expected["estimate"].tolist(), rel=1e-5)
    assert means["std_error"].tolist() == pytest.approx(expected["std_error"].tolist(), rel=1e-4)


def test_spellings_of_random_effects_are_one_model(pools):
    spelt = ("(hour || plane)", "(1 | plane) + (0 + hour | plane)", "s(plane, bs=re) + s(plane, hour, bs=re)")
    tables = []
    for random in spelt:
        design, fitted, _ = fit_files(pools["few"], f"climb ~ hour + carrier + {random}", "gaussian")
        of_model = tables_of(design, fitted, pools["few"], margins_at={"late": {"hour": "20"}})
        coefficients = table_of(design, fitted).reset_index()
        tables.append([coefficients, of_model.effects, of_model.means])
    for others in tables[1:]:
        for table, other in zip(tables[0], others, strict=True):
            pd.testing.assert_frame_equal(table, other)


def test_a_column_of_random_effects_has_no_average_of_its_own(pools):
    design, fitted, _ = fit_files(
        pools["few"], "climb ~ carrier + seats + (1 | seats) + (0 + hour | plane)", "gaussian"
    )
    effects = tables_of(design, fitted, pools["few"]).effects.set_index("term")["status"]
    assert effects["hour"] == "left out: its mean slope is 0, as it has random slopes alone"
    assert effects["s(plane, bs=re)"] == effects["s(seats, bs=re)"] == "left out: its levels have random effects"
    assert effects["seats"] == ""  # the slope of the mean
    with pytest.raises(UserError, match="the levels of `plane` have random effects, and averages are over all levels"):
        scenarios(design, {"one": {"plane": "N12"}})


def test_averages_are_integrated_over_few_numbers_with_random_slopes(pools):
    formula = "late ~ carrier + (hour || plane) + (0 + wind | plane) + (0 + miles | plane)"
    design = design_of(formula, "binomial", merge(pools["few"]), pools["few"], std_errors="unconditional")
    with pytest.raises(
        UserError, match="random_effects: averages can be integrated over random slopes of two numbers at"
    ):
        dimensions_of(design)


@pytest.mark.parametrize(
    ("family", "how", "said"),
    [
        ("gaussian", "zero", "Averages are about the population of the plane, not about its levels in these rows."),
        ("binomial", "zero", "averages are those of a typical level, not the mean over all levels"),
        ("binomial", "integrated", "Averages are over the normal distribution of the random effects of the plane"),
        ("binomial", "", ""),
    ],
)
def test_pages_say_what_averages_are_about(tmp_path, family, how, said):
    smooths = [{"term": f"s(plane{more}, bs=re)", "is_random": bool(how)} for more in ("", ", hour")]
    fit = {"family": family, "link": None, "smooths": smooths}
    words = Words({}, {}, names={"plane": "the plane"})
    digests.write_json(tmp_path / "fit.json", fit)
    settings = ResultsConfig().model_copy(update={"random_effects": how})
    found = home.population_in_words(ModelResults(tmp_path, settings, words))
    assert said in found and bool(found) == bool(how)


def test_pages_read_what_averages_are_about(pools, tmp_path):
    design, fitted, _ = fit_files(pools["few"], "bumps ~ carrier + (1 | plane)", "poisson")
    digests.write_json(tmp_path / "fit.json", {})
    means = tables_of(design, fitted, pools["few"]).means
    csv_files.write(means, tmp_path / "adjusted_means.csv")
    digests.write_beside(tmp_path / "adjusted_means.csv", tmp_path / "fit.json")
    read = csv_files.read(tmp_path / "adjusted_means.csv", tmp_path / "fit.json")
    assert read["about"].tolist() == [AT_ZERO] * 4


def test_stored_averages_keep_what_they_are_about(pools, tmp_path):
    design, fitted, _ = fit_files(pools["few"], "bumps ~ carrier + (1 | plane)", "poisson")
    averaged = average_rows(design, fitted, pools["few"])
    digests.write_json(tmp_path / "fit.json", {})
    averaged.write(tmp_path / "averages.npz", tmp_path / "fit.json")
    stored = Averaged.read(tmp_path / "averages.npz", tmp_path / "fit.json")
    assert stored.about == averaged.about == AT_ZERO
    assert np.array_equal(stored.averages["carrier"][0].derivative, averaged.averages["carrier"][0].derivative)
