"""Mixed models on the example data of lme4 and nlme: by REML and by ML as lme4 fits them (tests/golden/mixed.R)."""

import functools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tfglm
from tfglm.call.fitted import FittedModel
from tfglm.report.coefficients import shares_in_words
from tfglm.results.compare import ComparedModel
from tfglm.results.nested import likelihood_ratio_tests

R = json.loads((Path(__file__).parents[1] / "golden" / "mixed.json").read_text())
CASES = {name: case for name, case in R.items() if name != "anova"}


@functools.cache
def fit(name: str, method: str) -> FittedModel:
    case, rows = CASES[name], CASES[name].get("rows", R["sleepstudy"]["rows"])
    return tfglm.fit(case["formula"], pd.DataFrame(rows), case["family"], name=name, method=method)


@pytest.mark.parametrize(("name", "method"), [(name, method) for name in CASES for method in CASES[name]["fits"]])
def test_mixed_models_are_those_of_lme4(name, method):
    fitted, case, theirs = fit(name, method), CASES[name], CASES[name]["fits"][method]
    table, smooths = fitted.tidy(), fitted.fit["smooths"]
    if method == "ml":
        assert -2 * fitted.fit["marginal_log_likelihood"] == pytest.approx(theirs["criterion"], abs=1e-6)
    else:
        # lme4 has log|X'X| of the columns as they are; here numbers are divided by their standard deviations.
        rows = case.get("rows", R["sleepstudy"]["rows"])
        scale = sum(np.log(np.std(rows[number])) for number in ("Days", "age") if f"~ {number}" in case["formula"])
        assert 2 * (fitted.fit["reml"] + scale) == pytest.approx(theirs["criterion"], abs=1e-6)
    fixed = table[~table.term.str.contains("bs=re") & table["std.error"].notna()]
    np.testing.assert_allclose(fixed["estimate"], theirs["fixed"], rtol=1e-5)
    np.testing.assert_allclose(fixed["std.error"], theirs["errors"], rtol=1e-5)
    lines = table[table.term.str.contains("bs=re")].groupby("level", sort=False)["estimate"].apply(list)
    deviations = sorted(each["std_dev"] for each in smooths)
    assert sorted(lines["standard deviation"]) == deviations
    np.testing.assert_allclose(deviations, sorted(np.atleast_1d(theirs["deviations"])), rtol=1e-5)
    correlations = lines[lines.index.str.startswith("correlation with ")].sum() or []
    np.testing.assert_allclose(correlations, theirs["correlations"], rtol=1e-4)
    shares = [fitted.fit[f"r_squared_{name}"] for name in ("marginal", "conditional")]
    np.testing.assert_allclose(shares, [theirs["shares"][name] for name in ("marginal", "conditional")], atol=1e-6)
    within = sorted(each["value"] for each in fitted.fit["intraclass_correlations"])
    np.testing.assert_allclose(within, theirs["shares"]["within"], atol=1e-6)
    for factor, effects in theirs["effects"].items():
        for column in effects.keys() - {"levels"}:
            term = f"s({factor}, bs=re)" if column == "(Intercept)" else f"s({factor}, {column}, bs=re)"
            ours = fitted.coefficients.loc[term, "estimate"]
            np.testing.assert_allclose(ours[effects["levels"]], effects[column], atol=1e-5 * max(deviations))


def test_shares_of_the_variance_have_a_sentence():
    assert shares_in_words(fit("sleepstudy", "reml").fit) == (
        "The terms without random effects explain 27.8 % of the variance (marginal R²), and all terms 79.9 % (conditional R²). "
        "Of the variance that the former leave, 72.2 % belongs to intercepts by Subject and slopes of Days by Subject "
        "(intraclass correlation)."
    )


def test_likelihood_ratio_tests_are_those_of_anova():
    def compared(*fits: tuple[str, str]) -> list[ComparedModel]:
        models = [fit(name, method) for name, method in fits]
        return [ComparedModel(model.fit, {}, None, model._saved.design) for model in models]

    names = ("null", "intercepts", "sleepstudy")
    models = compared(*((name, "ml") for name in names))
    tests = [likelihood_ratio_tests(models[place : place + 2]).iloc[0] for place in (0, 1)]
    assert [test["chi_squared"] for test in tests] == pytest.approx(R["anova"]["chi_squared"], abs=1e-5)
    assert [test["df"] for test in tests] == R["anova"]["df"]
    assert [model.fit["marginal_aic"] for model in models] == pytest.approx(R["anova"]["aic"], abs=1e-5)
    # Restricted likelihoods are those of the responses less what the fixed effects explain.
    null, intercepts, slopes = compared(*((name, "reml") for name in names))
    (test,) = likelihood_ratio_tests([intercepts, slopes]).to_dict("records")
    criteria = [CASES[name]["fits"]["reml"]["criterion"] for name in names[1:]]
    assert test["chi_squared"] == pytest.approx(criteria[0] - criteria[1], abs=1e-5) and test["df"] == 2
    for pair in ([null, intercepts], [models[1], slopes]):
        (test,) = likelihood_ratio_tests(pair).to_dict("records")
        assert "write `method: ml` where there are random effects" in test["problem"] and np.isnan(test["chi_squared"])
