"""What is said of fits whose numbers alone would mislead."""

import numpy as np
import pandas as pd
import pytest
import scipy.special

from pools import estimates_of, fit_files, fit_frame, ingest_frame, table_of
from tfglm import digests
from tfglm.config import ResultsConfig, SolverConfig
from tfglm.errors import UserError
from tfglm.report import home
from tfglm.report.model_results import ModelResults
from tfglm.report.pages import render
from tfglm.report.words import NO_WORDS
from tfglm.results import accuracy, coefficients, csv_files
from tfglm.results.joint import joint_tests


def warnings_of(frame: pd.DataFrame, formula: str, family: str, folder, **settings) -> list[str]:
    return fit_frame(frame, formula, family, folder, **settings)[1].summary["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("errors", ["classical", "robust", "cluster(g)"])
def test_an_exact_linear_regression_has_converged_and_has_no_standard_errors(tmp_path, errors):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=400), "g": random.choice(["a", "b", "c"], 400)})
    for name, y in {
        "decimals": 3 + 2 * frame["x"],
        "whole": 3.0 + 2 * np.arange(400),
        "far": 1e9 + 2 * frame["x"] - (frame["g"] == "b"),
    }.items():
        shown = frame.assign(y=y, x=np.arange(400) if name == "whole" else frame["x"])
        design, fitted = fit_frame(shown, "y ~ x + g", "gaussian", tmp_path / name, std_errors=errors)
        summary, table = fitted.summary, table_of(design, fitted)
        assert summary["converged"] and summary["perfect_fit"] and summary["std_errors"] == {"kind": "none"}
        assert any(line.startswith("the fit is exact: ") for line in summary["warnings"])
        assert table.loc[("x", ""), "estimate"] == pytest.approx(2, rel=1e-6 if name == "far" else 1e-12)
        assert table[["std_error", "t", "p_value", "ci_lower"]].isna().all(axis=None)
        assert (summary["log_likelihood"], summary["aic"], summary["bic"]) == (None, None, None)
        assert joint_tests(estimates_of(design, fitted))["p_value"].isna().all()
    noisy = frame.assign(y=3 + 2 * frame["x"] + 1e-7 * random.normal(size=400))
    _, fitted = fit_frame(noisy, "y ~ x + g", "gaussian", tmp_path / "noisy")
    assert fitted.summary["converged"] and not fitted.summary["perfect_fit"]


def counts(rows: int, dispersion: float) -> pd.DataFrame:
    """Counts, and events among 20 trials, whose variance is about so many times that of the family."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"x": random.normal(size=rows), "trials": 20})
    mean = np.exp(3 + 0.1 * frame["x"])
    shape = mean / max(dispersion - 1, 1e-12)
    frame["count"] = random.poisson(random.gamma(shape, mean / shape) if dispersion > 1 else mean)
    p, spread = scipy.special.expit(0.2 * frame["x"]), 19 / max(dispersion - 1, 1e-12) - 1
    p = random.beta(p * spread, (1 - p) * spread) if dispersion > 1 else p
    frame["events"] = random.binomial(20, p)
    frame["share"] = frame["events"] / 20
    frame["late"] = (frame["events"] > 10).astype(int)
    return frame


OF_COUNTS = {
    "poisson": ("count ~ x", {}),
    "binomial": ("events ~ x", {"trials": "trials"}),
    "binomial, by weights": ("share ~ x", {"weights": "trials"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_COUNTS)
def test_a_response_that_varies_more_than_the_family_says_is_warned_of(tmp_path, case):
    formula, settings = OF_COUNTS[case]
    family = case.partition(",")[0]
    large = counts(2000, 9.0)
    (warning,) = warnings_of(large, formula, family, tmp_path / "large", **settings)
    assert warning.startswith(("the Pearson dispersion is 9", "the Pearson dispersion is 8."))
    assert "too small by a factor of about 3" in warning and "`std_errors: quasi`" in warning
    for errors in ("quasi", "robust"):
        assert not warnings_of(large, formula, family, tmp_path / errors, std_errors=errors, **settings)
    # Its errors are those of the information matrix alone.
    (warning,) = warnings_of(large, formula, family, tmp_path / "firth", firth=True, **settings)
    assert "too small by a factor" in warning and "std_errors" not in warning
    assert not warnings_of(counts(2000, 1.0), formula, family, tmp_path / "small", **settings)
    # A few rows vary by chance.
    assert not warnings_of(counts(12, 1.4), formula, family, tmp_path / "few", **settings)
    assert not warnings_of(large, "late ~ x", "binomial", tmp_path / "zero or one")


@pytest.mark.slow
def test_a_logistic_regression_with_few_rows_a_level_is_warned_of(tmp_path):
    random = np.random.default_rng(6)
    biased = {}
    for rows_a_level in (2, 40):
        levels = 4000 // rows_a_level
        plane = np.repeat(np.arange(levels), rows_a_level)
        frame = pd.DataFrame({"plane": [f"N{each}" for each in plane], "x": random.normal(size=4000)})
        eta = frame["x"] + random.normal(size=levels)[plane]
        frame["late"] = (random.random(4000) < scipy.special.expit(eta)).astype(int)
        design, fitted = fit_frame(frame, "late ~ plane + x", "binomial", tmp_path / str(rows_a_level))
        warned = [line for line in fitted.summary["warnings"] if "incidental parameters" in line]
        biased[rows_a_level] = table_of(design, fitted).loc[("x", ""), "estimate"], warned
        linear = warnings_of(frame, "x ~ plane + late", "gaussian", tmp_path / f"linear {rows_a_level}")
        assert not any("incidental" in line for line in linear)
    slope, (warning,) = biased[2]
    # The slope of 1 comes out as 2, as the warning says (Andersen 1970; with 2 rows a level the factor is exact).
    assert 1.6 < slope < 2.6
    assert (
        warning.startswith("`plane` has ") and "2 rows for each of them" in warning and "a factor of about 2" in warning
    )
    assert biased[40] == (pytest.approx(1.0, abs=0.15), [])
    assert not warnings_of(frame, "late ~ plane + x", "binomial", tmp_path / "ridge", l2=0.01)


def test_penalised_fits_have_no_tests(tmp_path):
    random = np.random.default_rng(7)
    frame = pd.DataFrame({"x": random.normal(size=500), "g": random.choice(["a", "b", "c"], 500)})
    frame["late"] = (random.random(500) < scipy.special.expit(frame["x"])).astype(int)
    for name, penalty in {"ridge": {"l2": 0.01}, "lasso": {"l1": 0.001}}.items():
        design, fitted, _ = fit_files([ingest_frame(frame, tmp_path / name)], "late ~ x + g", "binomial", **penalty)
        estimated = estimates_of(design, fitted)
        terms = joint_tests(estimated)
        assert terms["term"].tolist() == ["x", "g"]
        assert terms[["df", "chi_squared", "p_value", "neg_log10_p"]].isna().all(axis=None)
        assert set(terms["note"]) == {"the fit is penalised, so there are no tests"}
        contrasts = coefficients.contrasts(estimated, {"b against a": {"g[b]": 1, "g[a]": -1}}, 0.95)
        shown = ["posterior_sd"] if name == "ridge" else []
        assert list(contrasts.columns) == ["contrast", "estimate", *shown]


@pytest.mark.slow
def test_the_summary_claims_no_more_than_is_known(tmp_path):
    random = np.random.default_rng(9)
    frame = pd.DataFrame({"x": random.normal(size=500), "g": random.choice(["a", "b", "c"], 500)})
    frame["late"] = (random.random(500) < scipy.special.expit(frame["x"])).astype(int)
    frame["y"] = 3 + 2 * frame["x"]
    file = ingest_frame(frame, tmp_path)

    def said(formula: str, family: str, solver: dict | None = None, **settings) -> str:
        fit = fit_files([file], formula, family, solver=SolverConfig(**(solver or {})), **settings)[1].summary
        return f"{accuracy.errors(fit)} {accuracy.convergence(fit)}", fit

    text, fit = said("late ~ x + g", "binomial")
    assert text.startswith("Standard errors: classical: ") and "The fit converged: no estimate is further" in text
    claimed = float(text.split(" than ")[1].split()[0])
    assert fit["certificate"]["within_standard_errors"] <= claimed < 1e-9
    text, _ = said("late ~ x + g", "binomial", l2=0.01)
    assert text.startswith("The fit is penalised, so there are no standard errors and no tests")
    assert "maximum of the penalised likelihood" in text and "classical" not in text
    text, _ = said("late ~ x + g", "binomial", firth=True)
    assert "maximum of the penalised likelihood than" in text and "classical standard errors" in text
    text, _ = said("late ~ x + g", "binomial", l1=0.01)
    assert "no standard errors and no tests." in text and "of the penalty" in text
    text, _ = said("y ~ x + g", "gaussian")
    assert "converged: it leaves no residuals but rounding errors" in text
    text, _ = said("late ~ x + g", "binomial", {"max_iterations": 1})
    assert "did NOT converge: the warning says how far" in text
    online = {"solver": "sgd", "online": {"epochs": 1, "learning_rate": 1e-4}}
    text, fit = said("late ~ x + g", "binomial", online)
    assert "stopped before the maximum of the likelihood: the warning says how far" in text and "converge" not in text
    (warning,) = fit["warnings"]
    assert warning.startswith("sgd has stopped far from the maximum") and "close" not in warning
    near = {"solver": "adagrad", "online": {"epochs": 200, "batch_size": 500, "learning_rate": 0.5}}
    text, fit = said("late ~ x + g", "binomial", near)
    assert not fit["gap"]["unreliable"]
    exact = said("late ~ x + g", "binomial")[1]["log_likelihood"]
    assert fit["gap"]["log_likelihood"] == pytest.approx(exact - fit["log_likelihood"], rel=0.1, abs=1e-9)
    assert fit["gap"]["standard_errors"] == pytest.approx(np.sqrt(2 * fit["gap"]["each_coefficient"]))


def test_the_summary_shows_notes_and_lists_aliased_levels_apart(tmp_path):
    notes = ["depends on the reference levels & more", "", "without 1 separated level"]
    terms = pd.DataFrame({"term": ["x", "g", "h"], "df": [1, 2, 3], "chi_squared": [1.0, 2.0, 3.0]})
    path, fit = tmp_path / "terms.csv", tmp_path / "fit.json"
    digests.write_json(fit, {})

    def joint_tests(table: pd.DataFrame) -> tuple[pd.DataFrame | None, list[str]]:
        csv_files.write(table, path)
        digests.write_beside(path, fit)
        return home.joint_tests(ModelResults(tmp_path, ResultsConfig(), NO_WORDS))

    shown, _ = joint_tests(terms.assign(p_value=[0.3, 0.4, np.nan], note=notes))
    assert shown["note"].tolist() == notes and shown["p"].tolist() == ["0.3000", "0.4000", ""]
    reason = "the fit is penalised"
    assert joint_tests(terms.assign(p_value=np.nan, note=reason)) == (None, [reason])
    # Reasons that differ stand beside their terms.
    assert joint_tests(terms.assign(p_value=np.nan, note=notes))[0]["term"].tolist() == ["x", "g", "h"]
    table = pd.DataFrame({"term": "g", "level": ["<a>", "b", "c"], "status": ["separated", "aliased", "aliased"]})
    table["aliased_with"] = ["", "x - g[<a>]", "no rows in the likelihood"]
    assert home.without_estimate(table) == [
        "Without a finite estimate, because all rows have the same outcome (separated): g <a>.",
        "Aliased: a combination of other columns, so without a coefficient of their own: g b (= x - g[<a>]); "
        "g c (no rows in the likelihood).",
    ]


def test_a_mean_without_an_interval_has_the_reason_beside_it(tmp_path):
    means = pd.DataFrame({"term": ["g", "g", "h"], "level": ["a", "b", "c"], "rows": 9, "mean": 1.5, "std_error": 0.25})
    means = means.assign(ci_lower=[1.0, np.nan, 1.0], ci_upper=[2.0, np.nan, 2.0], status=["", "too few clusters", ""])
    csv_files.write(means, tmp_path / "adjusted_means.csv")
    digests.write_json(tmp_path / "fit.json", {"model": "m", "family": "gaussian"})
    digests.write_beside(tmp_path / "adjusted_means.csv", tmp_path / "fit.json")
    model = ModelResults(tmp_path, ResultsConfig(), NO_WORDS)
    of_g, of_h = (means.all for means in home.adjusted_means(model))
    assert of_g["note"].tolist() == ["", "too few clusters"] and "note" not in of_h


def test_a_loose_bound_is_no_distance():
    certificate = {"within_standard_errors": 0.75, "lambda_squared": 1e-20}
    fit = {"certificate": certificate, "perfect_fit": False, "exact": True, "converged": True}
    said = accuracy.convergence(fit)
    assert "no estimate by more than 1e-10 classical" in said and "further from" not in said and "8e-01" not in said
    tight = {"within_standard_errors": 1e-9, "lambda_squared": 1e-20}
    assert "further from the maximum of the likelihood than 1e-09" in accuracy.convergence(fit | {"certificate": tight})


def test_a_bound_is_rounded_up():
    assert [accuracy.rounded_up(value) for value in (1.01e-9, 1e-9, 9.5e-13, 0.0)] == ["2e-09", "1e-09", "1e-12", "0"]


def test_the_summary_promises_the_same_digits_only_where_they_come_again():
    provenance = {"inputs": [{"file": "x", "rows": 1}], "versions": {}, "data": {}, "model": {}}
    exact = {"model": "exact", "provenance": provenance}

    def page(*fits: dict) -> str:
        return " ".join(
            render("home", title="", data="", models=[], pages=[], command="", **home.provenance(fits)).split()
        )

    assert "the same digits on a similar processor:" in page(exact)
    online = {"model": "learnt", "provenance": provenance, "online": {"synchronous": False}}
    assert "on a similar processor, except for learnt: " in page(exact, online)
    assert "except for" not in page(online | {"online": {"synchronous": True}})


def test_a_response_of_counts_with_fractions_is_remarked_on(tmp_path):
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"x": random.normal(size=300), "count": random.poisson(2, 300)})
    frame["half"] = frame["count"] + 0.5
    for family, response, settings, example in [
        ("poisson", "half", {}, "0.5"),
        ("negative_binomial", "half", {"theta": 2.0}, "0.5"),
    ]:
        warnings = warnings_of(frame, f"{response} ~ x", family, tmp_path / family, **settings)
        assert any(f"`{response}` has values that are no whole numbers, such as {example}" in line for line in warnings)
    for family, response, kind in [("poisson", "count", float), ("poisson", "count", int), ("gamma", "half", float)]:
        shown = frame.astype({response: kind})
        warnings = warnings_of(shown, f"{response} ~ x", family, tmp_path / f"{family}{kind.__name__}")
        assert not any("whole numbers" in line for line in warnings)


@pytest.mark.parametrize("size", [1e200, 1e-200])
@pytest.mark.parametrize("name", ["x", "y"])
def test_numbers_whose_squares_float64_cannot_hold_are_refused(tmp_path, size, name):
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"x": random.gamma(2, size=300), "y": random.gamma(2, size=300)})
    frame[name] *= size
    for family in ("gaussian", "gamma", "poisson", "inverse_gaussian"):
        with pytest.raises(
            UserError, match=rf"`{name}` has values as (large|small) as [\d.]+e[-+]\d+, and float64"
        ) as refusal:
            fit_frame(frame, "y ~ x", family, tmp_path / family)
        assert str(refusal.value).startswith("models.m.formula: ") and "data.derive" in str(refusal.value)
