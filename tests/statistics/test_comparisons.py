"""Joint tests of hypotheses, and all levels of a factor compared with each other, against R's car and emmeans."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from pools import CR1, design_of, estimates_of, fit_files, fit_frame, ingest_frame
from tfglm.config import ModelConfig
from tfglm.data.dictionary import IngestedFile, merge
from tfglm.design.references import check_pairwise
from tfglm.errors import UserError
from tfglm.results import coefficients, studentized_range
from tfglm.results.estimates import Estimates
from tfglm.results.hypotheses import adjusted, holm, hypotheses
from tfglm.results.joint import joint_tests
from tfglm.results.pairwise import pairwise

GOLDEN = Path(__file__).parents[1] / "golden"
EXACT = json.loads((GOLDEN / "comparisons.json").read_text())
ROWS = pd.read_csv(GOLDEN / "sandwich.csv")
ROWS["side"] = np.where(ROWS["plane"] % 3 == 0, "in", "out")
FITS = {
    "gaussian": "delay ~ carrier * side + hour + wind",
    "binomial": "late ~ carrier * side + hour + wind",
    "poisson": "count ~ carrier + side + hour + wind",
}
ALIKE = [{"carrier[B6]": 1}, {"carrier[DL]": 1, "carrier[UA]": -1}]
VALUED = [{"hour": 1, "=": 0.25}, {"carrier[B6]": 1, "wind": 2, "=": 0.1}, {"carrier[DL]": 1}]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return ingest_frame(ROWS, tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def fits(file) -> dict[str, Estimates]:
    """Those of FITS, and with errors that are robust."""
    made = {}
    for family, formula in FITS.items():
        for errors in ("classical", "HC1"):
            design, fitted, _ = fit_files([file], formula, family, std_errors=errors)
            made[family, errors] = estimates_of(design, fitted)
    return made


@pytest.mark.parametrize("family", FITS)
def test_joint_tests_of_hypotheses_are_those_of_car(fits, family):
    of_car = {"alike": ("classical", ALIKE), "valued": ("classical", VALUED), "robust": ("HC1", ALIKE)}
    for name, (errors, rows) in of_car.items():
        test = hypotheses(fits[family, errors], {"x": rows}).iloc[0]
        exact = EXACT[family][name]
        assert test["df"] == exact["Df"] == len(rows) and test["note"] == ""
        statistic, p = ("F", "Pr(>F)") if family == "gaussian" else ("Chisq", "Pr(>Chisq)")
        ours = "F" if family == "gaussian" else "chi_squared"
        assert test[ours] == pytest.approx(exact[statistic], rel=1e-6)
        assert test["p_value"] == pytest.approx(exact[p], rel=1e-5)
        assert test["neg_log10_p"] == pytest.approx(-np.log10(exact[p]), rel=1e-5)


def test_a_hypothesis_of_a_whole_term_is_its_joint_test(fits):
    estimates = fits["poisson", "HC1"]
    whole = [{f"carrier[{level}]": 1} for level in ("B6", "DL", "UA")]
    test = hypotheses(estimates, {"whole": whole}).iloc[0]
    term = joint_tests(estimates).set_index("term").loc["carrier"]
    assert test["chi_squared"] == pytest.approx(term["chi_squared"], rel=1e-10) and test["df"] == 3
    # Rows that say the same again take nothing from it, nor do others that follow from them.
    again = [*whole, whole[0], {"carrier[B6]": 2, "carrier[UA]": -1}, {"carrier[AA]": 1}]
    repeated = hypotheses(estimates, {"whole": again}).iloc[0]
    assert repeated["chi_squared"] == pytest.approx(term["chi_squared"], rel=1e-10)
    assert (repeated["df"], repeated["note"]) == (3, "3 of 6 rows follow from the others")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, IngestedFile]:
    """That of ROWS with a column of a rare level and one of classes, and the part of it that has seven weeks."""
    random = np.random.default_rng(11)
    rows = ROWS.assign(week=ROWS["day"] // 7, kind=np.where(np.arange(len(ROWS)) % 50 == 0, "rare", "common"))
    rows["grade"] = pd.cut(rows["delay"] + random.normal(0, 5, len(rows)), 3, labels=False)
    folder = tmp_path_factory.mktemp("single")
    return {"all": ingest_frame(rows, folder, "all"), "few": ingest_frame(rows[rows["week"] < 7], folder, "few")}


ERRORS = ("classical", "quasi", "HC1", "HC3", "cluster(day)", "cluster(day + plane)", "driscoll_kraay(day)")
SINGLE = [
    *(
        ("all", "gaussian", "delay ~ side + wind + kind", {"std_errors": errors}, None)
        for errors in ERRORS
        if errors != "quasi"
    ),
    *(("all", "binomial", "late ~ side + wind + kind", {"std_errors": errors}, None) for errors in ERRORS),
    ("all", "binomial", "late ~ side + wind + kind", {"std_errors": "cluster(day)"}, CR1),
    ("all", "gaussian", "delay ~ side + wind", {"std_errors": "cluster(day)", "absorb": ["carrier"]}, None),
    ("all", "ordinal", "grade ~ side + wind + kind", {"std_errors": "cluster(day)"}, None),
    ("few", "gaussian", "delay ~ side + wind + kind", {"std_errors": "cluster(week)"}, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "family", "formula", "settings", "limits"), SINGLE, ids=lambda value: str(value).replace(" ", "")
)
def test_one_hypothesis_has_one_p_value(files, rows, family, formula, settings, limits):
    design, fitted, _ = fit_files([files[rows]], formula, family, **settings, limits=limits)
    estimates = estimates_of(design, fitted)
    table = coefficients.table(estimates, 0.95)
    factors = [name for name in ("side", "kind") if name in formula]
    compared = pairwise(estimates, factors, 0.95).set_index("term")
    terms = joint_tests(estimates).set_index("term")
    for row in table[table["estimate"].ne(0) & table["term"].isin([*factors, "wind"])].to_dict("records"):
        name = f"{row['term']}[{row['level']}]" if row["level"] else row["term"]
        contrast = coefficients.contrasts(estimates, {"x": {name: -2.0}}, 0.95).iloc[0]
        tests = [hypotheses(estimates, {"x": [{name: 3.0}]}).iloc[0], terms.loc[row["term"]]]
        pair = [compared.loc[row["term"]]] if row["level"] else []
        for other in [contrast, *tests, *pair]:
            assert other["p_value"] == pytest.approx(row["p_value"], rel=1e-8, nan_ok=True), other
            assert other.get("note", "") == row.get("note", "")
        t = row.get("t", row.get("z"))
        for test in tests:
            # Of a test that is not made there is no statistic.
            assert test["chi_squared"] == pytest.approx(t**2, rel=1e-8) or np.isnan(row["p_value"])
            if "F" in test and np.isfinite(row["p_value"]):
                assert test["F"] == pytest.approx(t**2, rel=1e-8)
                if "df" in row and "bootstrap" not in row["note"]:
                    assert test["df_denominator"] == pytest.approx(row["df"], rel=1e-10)


def test_a_combination_with_a_rare_level_has_no_test_by_cluster(files):
    design, fitted, _ = fit_files([files["all"]], "late ~ carrier + kind", "binomial", std_errors="cluster(day)")
    test = hypotheses(estimates_of(design, fitted), {"x": [{"kind[rare]": 1, "carrier[B6]": 1}]}).iloc[0]
    assert np.isnan(test["p_value"]) and test["note"].startswith("fewer than 10 events")


@pytest.mark.parametrize("errors", ["classical", "cluster(day)"])
def test_of_a_reference_level_alone_there_is_nothing_to_test(file, errors):
    design, fitted, _ = fit_files([file], "delay ~ carrier + hour", "gaussian", std_errors=errors)
    estimates = estimates_of(design, fitted)
    reference = {f"carrier[{design.categorical_by_name['carrier'].levels[0]}]": 1.0}
    test = hypotheses(estimates, {"x": [reference]}).iloc[0]
    assert np.isnan(test["p_value"]) and test["note"] == "its rows are of reference levels alone, which are 0"
    contrast = coefficients.contrasts(estimates, {"x": reference}, 0.95).iloc[0]
    assert (contrast["estimate"], contrast["std_error"]) == (0, 0) and np.isnan(contrast["p_value"])
    assert contrast.get("note", "") == ("" if errors == "classical" else "nothing that was estimated has a part in it")


def test_hypotheses_that_cannot_be_are_refused_by_name(fits, file):
    estimates = fits["gaussian", "classical"]
    with pytest.raises(UserError, match=r"models.m.hypotheses.x.2: no coefficient `carrier\[XX\]`"):
        hypotheses(estimates, {"x": [{"hour": 1}, {"carrier[XX]": 1}]})
    contradict = "its rows contradict each other: the rows before row 2 imply 6 for it, and it says 1"
    with pytest.raises(UserError, match=rf"models.m.hypotheses.x: {contradict}"):
        hypotheses(estimates, {"x": [{"hour": 1, "=": 3}, {"hour": 2, "=": 1}]})
    with pytest.raises(UserError, match=r"models.m.hypotheses.x.2: it has only reference levels, .* is 0 and not 1"):
        hypotheses(estimates, {"x": [{"hour": 1}, {"carrier[AA]": 1, "=": 1}]})
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "UA", 0, ROWS["late"]))
    separated = estimates_of(*fit_frame(frame, "late ~ carrier", "binomial", file.folder.parent / "separated"))
    with pytest.raises(UserError, match=r"models.m.hypotheses.x.1: `carrier\[UA\]` is separated"):
        hypotheses(separated, {"x": [{"carrier[UA]": 1}]})


@pytest.mark.parametrize("family", FITS)
def test_comparisons_of_all_levels_are_those_of_emmeans(fits, family):
    table = pairwise(fits[family, "classical"], ["carrier"], 0.95)
    exact = EXACT[family]
    assert table[["level", "against"]].agg(" - ".join, axis=1).tolist() == [
        f"{first} - {second}"
        for first, second in [("AA", "B6"), ("AA", "DL"), ("AA", "UA"), ("B6", "DL"), ("B6", "UA"), ("DL", "UA")]
    ]
    statistic = "t" if family == "gaussian" else "z"
    ours = {
        "estimate": "estimate",
        "std_error": "std_error",
        "ci_lower": "ci_lower",
        "ci_upper": "ci_upper",
        "ratio": statistic,
    }
    for name, column in ours.items():
        np.testing.assert_allclose(table[column], exact["tukey"][name], rtol=2e-5)
    np.testing.assert_allclose(table["p_tukey"], exact["tukey"]["p"], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(table["p_value"], exact["none"], rtol=1e-5)
    np.testing.assert_allclose(table["p_holm"], exact["holm"], rtol=1e-5)
    assert (table["note"] == "").all()


@pytest.mark.slow
def test_levels_that_cannot_be_compared_are_told(tmp_path):
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "UA", 0, ROWS["late"]))
    estimates = estimates_of(*fit_frame(frame, "late ~ carrier + side + hour", "binomial", tmp_path / "separated"))
    table = pairwise(estimates, ["carrier", "side"], 0.95).set_index(["level", "against"])
    assert len(table) == 7
    assert table.loc[("AA", "UA"), "note"] == "UA is separated" and np.isnan(table.loc[("AA", "UA"), "p_tukey"])
    # Of three levels that are left: the range of three.
    pair = table.loc[("AA", "B6")]
    assert pair["p_tukey"] == pytest.approx(
        scipy.stats.studentized_range.sf(abs(pair["z"]) * 2**0.5, 3, np.inf), rel=1e-6
    )
    # Of two levels Tukey's are those of the pair alone.
    sides = table.loc[("in", "out")]
    assert sides["p_tukey"] == pytest.approx(sides["p_value"], rel=1e-9) == sides["p_holm"]
    some = ROWS[(ROWS["carrier"] != "UA") | (ROWS["side"] == "in")]
    estimates = estimates_of(*fit_frame(some, "delay ~ carrier * side", "gaussian", tmp_path / "empty"))
    table = pairwise(estimates, ["carrier"], 0.95).set_index(["level", "against"])
    assert table.loc[("B6", "UA"), "note"] == "UA has combinations of levels without rows"
    assert np.isfinite(table.loc[("B6", "DL"), "p_tukey"])


@pytest.mark.slow
def test_comparisons_by_cluster_have_the_tests_of_contrasts(file):
    design, fitted, _ = fit_files([file], "late ~ carrier + wind", "binomial", std_errors="cluster(day)")
    estimates = estimates_of(design, fitted)
    table = pairwise(estimates, ["carrier"], 0.95)
    pair = table[(table["level"] == "B6") & (table["against"] == "UA")].iloc[0]
    contrast = coefficients.contrasts(estimates, {"x": {"carrier[B6]": 1, "carrier[UA]": -1}}, 0.95).iloc[0]
    for column in ("estimate", "std_error", "t", "df", "p_value"):
        assert pair[column] == pytest.approx(contrast[column], rel=1e-8)
    exact = scipy.stats.studentized_range(4, pair["df"])
    assert pair["p_tukey"] == pytest.approx(exact.sf(abs(pair["t"]) * 2**0.5), rel=1e-6)
    assert pair["ci_upper"] - pair["estimate"] == pytest.approx(exact.ppf(0.95) / 2**0.5 * pair["std_error"], rel=1e-6)


@pytest.mark.slow
def test_the_studentized_range_is_that_of_r_and_of_scipy():
    q = np.array([0.5, 2, 4, 6, 9])
    for df, by_k in zip((8.0, 20.0, 1e6), EXACT["range_tails"], strict=True):
        for k, exact in zip((3, 12, 40), np.array(by_k).T, strict=True):
            np.testing.assert_allclose(studentized_range.tail(q, k, np.full(5, df)), exact, rtol=1e-4, atol=2e-6)
    assert studentized_range.tail(4.0, 12, 20.0) == pytest.approx(
        scipy.stats.studentized_range.sf(4.0, 12, 20), rel=1e-8
    )
    # Far out it is the tail of the pair that is farthest apart, one of k (k - 1) / 2.
    assert studentized_range.tail(20.0, 5, np.inf) == pytest.approx(20 * scipy.stats.norm.sf(20 / 2**0.5), rel=1e-9)
    df = np.linspace(8, 200, 40)
    found = studentized_range.quantile(0.95, 7, np.append(df, np.nan))
    np.testing.assert_allclose(studentized_range.tail(found[:-1], 7, df), 0.05, rtol=1e-7)
    assert np.isnan(found[-1])


def test_holms_p_values_are_those_of_p_adjust():
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.005, 0.5])
    # p.adjust(c(0.01, NA, 0.04, 0.03, 0.005, 0.5), "holm")
    np.testing.assert_allclose(holm(p), [0.04, np.nan, 0.09, 0.09, 0.025, 0.5])
    table = pd.DataFrame({"p_value": p, "neg_log10_p": -np.log10(p), "note": ""})
    assert list(adjusted(table.copy(), "holm")) == ["p_value", "neg_log10_p", "p_adjusted", "note"]
    assert list(adjusted(table, "none")) == ["p_value", "neg_log10_p", "note"]


def test_factors_that_cannot_be_compared_are_refused_before_training(tmp_path):
    frame = ROWS.assign(many=[f"p{number:03d}" for number in np.arange(len(ROWS)) % 301])
    file = ingest_frame(frame, tmp_path)
    design = design_of("delay ~ carrier * hour + many + side", "gaussian", merge([file]), [file])
    check_pairwise(design, ["side"], {})
    for name, message in {
        "carier": "no categorical term `carier`; did you mean `carrier`",
        "hour": "no categorical term `hour`",
        "many": "`many` has 301 levels, and all pairs of 300 at most",
        "carrier": "differ by an amount that depends on `hour`",
    }.items():
        with pytest.raises(UserError, match=message):
            check_pairwise(design, [name], {})


@pytest.mark.parametrize(
    "formula", ["delay ~ side + carrier + i(side, hour)", "delay ~ side + carrier + C(side):carrier"]
)
def test_levels_that_are_in_the_model_under_two_names_are_not_compared(tmp_path, formula):
    file = ingest_frame(ROWS, tmp_path)
    design = design_of(formula, "gaussian", merge([file]), [file])
    with pytest.raises(
        UserError, match=r"`side` are in the model as `side` and as `C\(side\)`, and differ by both\n  write `side`"
    ):
        check_pairwise(design, ["side"], {})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"hypotheses": {"x": []}}, "at least 1"),
        ({"hypotheses": {"x": [{"=": 1.0}]}}, "no coefficient with a weight"),
        ({"adjust": "bonferroni"}, "holm"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate({"formula": "y ~ g", "family": "gaussian"} | keys)


# Likelihood ratios -----------------------------------------------------------------------------------------------------

DROPPED = {
    "binomial": ("late ~ carrier * side + hour + wind", "binomial", {}),
    "poisson": ("count ~ carrier + side + hour + wind", "poisson", {}),
    "quasi": ("count ~ carrier + side + hour + wind", "poisson", {"std_errors": "quasi"}),
    "gaussian": ("delay ~ carrier * side + hour + wind", "gaussian", {}),
    "gamma": ("positive ~ carrier + hour", "gamma", {}),
    "one": ("late ~ carrier", "binomial", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DROPPED)
def test_terms_are_tested_as_drop1_and_anova_do(tmp_path, name):
    formula, family, settings = DROPPED[name]
    frame = ROWS.assign(positive=np.exp(ROWS["delay"] / 4))
    design, fitted = fit_frame(frame, formula, family, tmp_path, tests="likelihood_ratio", **settings)
    table = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    exact = EXACT["dropped"][name]
    tested = table[table["note"] == "likelihood ratio"]
    assert set(tested.index) == set(exact)
    for term, of_r in exact.items():
        ours = tested.loc[term]
        assert ours["df"] == of_r["df"]
        assert ours["deviance_without"] == pytest.approx(of_r["deviance"], rel=1e-9)
        assert ours["p_value"] == pytest.approx(of_r["p"], rel=1e-5)
        if name == "quasi":
            assert of_r["aic"] == "NA" and np.isnan(ours["aic_without"])
        elif family != "gamma":  # R's AIC of gamma takes another dispersion
            assert ours["aic_without"] == pytest.approx(of_r["aic"], rel=1e-9)
        if isinstance(of_r["f"], float):
            assert ours["F"] == pytest.approx(of_r["f"], rel=1e-6)
            # drop1 divides by the deviance over n - p, anova by Pearson's dispersion.
            by_deviance = fitted.summary["deviance"] / fitted.summary["df_residual"]
            of_drop1 = ours["F"] * fitted.summary["pearson_dispersion"] / by_deviance
            assert of_drop1 == pytest.approx(of_r["drop1_f"], rel=1e-6)
            assert (name == "gaussian") == (of_r["drop1_f"] == pytest.approx(of_r["f"], rel=1e-3))
    # What is inside an interaction stays as it was.
    inside = table.loc[[term for term in table.index if term not in exact]]
    assert inside["note"].str.startswith("depends on the reference levels").all() and inside["aic_without"].isna().all()


@pytest.mark.slow
def test_terms_with_separated_levels_have_likelihood_ratios_in_any_case(tmp_path):
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "UA", 0, ROWS["late"]))
    file = ingest_frame(frame, tmp_path)
    tables = []
    for tests in ("wald", "likelihood_ratio"):
        design, fitted, _ = fit_files([file], "late ~ carrier + hour", "binomial", tests=tests)
        tables.append(
            joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
        )
    for column in ("df", "chi_squared", "p_value"):
        assert tables[0].loc["carrier", column] == tables[1].loc["carrier", column]
    assert [table.loc["hour", "note"] for table in tables] == ["", "likelihood ratio"]
    assert tables[1].loc["carrier", "note"] == "likelihood ratio, as there are separated levels"


SEPARATED = {
    "binomial": ("late ~ carrier + hour", "binomial", {}),
    "one": ("late ~ carrier", "binomial", {}),
    "quasi": ("late ~ carrier + hour", "binomial", {"std_errors": "quasi"}),
    "poisson": ("count ~ carrier + hour", "poisson", {}),
    "negative_binomial": ("count ~ carrier + hour", "negative_binomial", {"theta": 2.0}),
    "tweedie": ("count ~ carrier + hour", "tweedie", {"power": 1.5}),
    "across": ("late ~ carrier + both + hour", "binomial", {}),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_terms_that_separate_rows_are_tested_as_drop1_does_with_these_rows(tmp_path, name):
    formula, family, settings = SEPARATED[name]
    none, both = ROWS["carrier"] == "UA", (ROWS["wind"] > 0.8) & (ROWS["carrier"] == "DL")
    late = np.where(both, 1, ROWS["late"]) if name == "across" else np.where(none, 0, ROWS["late"])
    frame = ROWS.assign(late=late, count=np.where(none, 0, ROWS["count"]), both=both.astype(float))
    design, fitted = fit_frame(frame, formula, family, tmp_path, **settings)
    table = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    golden = json.loads((GOLDEN / "separated.json").read_text())
    dispersion = golden["dispersion"].get(name)
    for term, of_r in golden[name].items():
        ours, statistic = table.loc[term], of_r["difference"] / (dispersion or 1.0)
        assert (ours["df"], ours["note"]) == (of_r["df"], "likelihood ratio, as there are separated levels")
        assert ours["chi_squared"] == pytest.approx(statistic, rel=1e-7)
        if dispersion:
            assert ours["F"] == pytest.approx(statistic / of_r["df"], rel=1e-7)
            p_value = scipy.stats.f.sf(ours["F"], of_r["df"], fitted.summary["df_residual"])
        else:
            p_value = scipy.stats.chi2.sf(ours["chi_squared"], of_r["df"])
        assert ours["p_value"] == pytest.approx(p_value, rel=1e-6)
    assert table.drop(index=list(golden[name]))["note"].eq("").all()


def test_with_robust_errors_a_wald_test_leaves_separated_levels_out(tmp_path):
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "UA", 0, ROWS["late"]))
    design, fitted = fit_frame(frame, "late ~ carrier + hour", "binomial", tmp_path, std_errors="HC1")
    table = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    assert (table.loc["carrier", "df"], table.loc["carrier", "note"]) == (2, "without 1 separated level")


@pytest.mark.slow
def test_comparisons_do_not_depend_on_how_a_factor_is_coded(tmp_path):
    file = ingest_frame(ROWS, tmp_path)
    tables = []
    for term in ("carrier", "C(carrier, contr.sum)", "C(carrier, contr.helmert)"):
        design, fitted, _ = fit_files([file], f"late ~ {term} + hour", "binomial")
        tables.append(pairwise(estimates_of(design, fitted), [design.categorical[0].name], 0.95))
    for table in tables[1:]:
        for column in ("estimate", "std_error", "p_tukey", "p_holm", "ci_lower"):
            np.testing.assert_allclose(table[column], tables[0][column], rtol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_a_term_that_is_made_of_others_has_no_likelihood_ratio(tmp_path, family):
    formula = f"{'delay' if family == 'gaussian' else 'count'} ~ scale(hour) + hour + carrier"
    design, fitted = fit_frame(ROWS, formula, family, tmp_path, tests="likelihood_ratio")
    table = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    scaled = table.loc["scale(hour)"]
    assert scaled["df"] == 0 and scaled["note"] == "likelihood ratio: without it the fit is the same"
    assert scaled[["chi_squared", *(["F"] if family == "gaussian" else []), "p_value"]].isna().all()
    assert np.isfinite(table.loc["carrier", "p_value"])
