"""Firth's penalised likelihood against R's brglm2, and its tests against a search for the maximum."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats

from oracles import flagged, least_penalised, model_matrix, penalised
from pools import estimates_of, fit_files, fit_frame, ingest_frame, table_of
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.results import joint, predict

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "firth.json").read_text())
ROWS = pd.DataFrame(GOLDEN["rows"])
CASES = {
    "binomial": ("late ~ carrier + hour + both", {}),
    "interaction": ("late ~ carrier * hour", {}),
    "trials": ("events ~ carrier + hour + both", {"trials": "n"}),
    "frequency": ("late ~ carrier + hour + both", {"frequency": "n"}),
    "offset": ("late ~ carrier + hour + both", {"offset": "wind"}),
    "poisson": ("flights ~ carrier + hour + both", {}),
    "exposure": ("flights ~ carrier + hour + both", {"offset": "log(seats)"}),
}


def name_of(coefficient: str) -> tuple[str, str]:
    """R's name of a coefficient as ours."""
    term = coefficient.replace("(Intercept)", "Intercept")
    return re.sub(r"carrier..", "carrier", term), next(iter(re.findall(r"carrier(..)", term)), "")


@pytest.mark.parametrize("name", CASES)
def test_estimates_and_errors_are_those_of_brglm2(name, tmp_path):
    formula, settings = CASES[name]
    family = "poisson" if formula.startswith("flights") else "binomial"
    design, fitted = fit_frame(ROWS, formula, family, tmp_path, firth=True, **settings)
    table, theirs, summary = table_of(design, fitted), GOLDEN["said"][name], fitted.summary
    assert summary["converged"] and summary["firth"] and flagged(table) == {}
    estimate, error = (
        np.array([theirs[what][each] for each in theirs["coefficients"]]) for what in ("coefficients", "std_errors")
    )
    ours = table.loc[[name_of(each) for each in theirs["coefficients"]]]
    assert np.all(np.abs(ours["estimate"] - estimate) <= 1e-6 * np.maximum(np.abs(estimate), error))
    np.testing.assert_allclose(ours["std_error"], error, rtol=1e-5)
    np.testing.assert_allclose(ours["z"], estimate / error, rtol=1e-4, atol=1e-5)
    assert summary["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-7)
    assert summary["aic"] == pytest.approx(theirs["aic"], rel=1e-7)


def ratio(frame: pd.DataFrame, formula: str, term: str) -> float:
    """Twice what the greatest penalised log-likelihood falls without a term."""
    matrix, y = model_matrix(frame, formula), frame["late"].to_numpy(float)
    others = np.eye(matrix.shape[1])[:, matrix.columns.get_level_values(0) != term]
    return 2 * np.subtract(*(least_penalised(matrix.to_numpy(), y, inside=inside) for inside in (others, None)))


def test_terms_are_tested_by_the_penalised_likelihood_with_the_prior_of_the_whole_model(tmp_path):
    design, fitted = fit_frame(ROWS, "late ~ carrier + hour + both", "binomial", tmp_path, firth=True)
    tests = joint.joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    for term, df in (("carrier", 3), ("hour", 1), ("both", 1)):
        row, expected = tests.loc[term], ratio(ROWS, "late ~ carrier + hour + both", term)
        assert (row["df"], row["note"]) == (df, "penalised likelihood ratio (Firth)")
        assert row["chi_squared"] == pytest.approx(expected, abs=1e-6)
        assert row["p_value"] == pytest.approx(scipy.stats.chi2.sf(row["chi_squared"], df), rel=1e-8)


def without_last(columns: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The least minus penalised log-likelihood of a logistic regression, and the same with the last coefficient at zero.

    The steps are Newton's without the curvature of the prior, in orthonormal columns.
    """
    basis, found = np.linalg.qr(columns)[0], []
    for kept in (columns.shape[1], columns.shape[1] - 1):
        b = np.zeros(columns.shape[1])
        for _ in range(500):
            mean = 1 / (1 + np.exp(-basis @ b))
            information = basis.T @ (mean * (1 - mean) * basis.T).T
            leverage = np.einsum("ij,jk,ik->i", basis, np.linalg.inv(information), basis) * mean * (1 - mean)
            slope = basis.T @ (mean - y - leverage * (0.5 - mean))
            b[:kept] -= np.linalg.solve(information[:kept, :kept], slope[:kept])
        found.append(penalised(basis, y, b))
    return found[0], found[1]


def test_powers_of_years_are_tested_though_each_nearly_determines_the_next(tmp_path):
    random = np.random.default_rng(4)
    year = random.integers(1987, 2009, 300)
    t = (year - 1997.5) / 10
    frame = pd.DataFrame({"yr": year, "x": random.normal(size=300).round(3)})
    frame["late"] = (random.random(300) < 1 / (1 + np.exp(0.5 - t + t**2 - 2 * t**3 - 0.3 * frame["x"]))).astype(int)
    design, fitted = fit_frame(frame, "late ~ yr + I(yr^2) + I(yr^3) + x", "binomial", tmp_path, firth=True)
    tests = joint.joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    # Of centred and scaled years, 1, yr^2 and yr^3 span u^2 + 2 c u and u^3 - 3 c^2 u with c the mean.
    u, c, y = (year - 1998) / 6, 1998 / 6, frame["late"].to_numpy(float)
    spans = {
        "yr": [u**2 / (2 * c) + u, u**3 - 3 * c * c * u, u],
        "I(yr^2)": [u, u**3 + 3 * c * u**2, u**2],
        "I(yr^3)": [u, u**2, u**3],
    }
    for term, columns in spans.items():
        full, less = without_last(np.stack([np.ones(300), frame["x"], *columns], axis=1), y)
        assert (tests.loc[term, "df"], tests.loc[term, "note"]) == (1, "penalised likelihood ratio (Firth)")
        assert tests.loc[term, "chi_squared"] == pytest.approx(2 * (less - full), abs=1e-6), term


@pytest.mark.parametrize(
    ("formula", "term", "matrix"),
    [
        ("late ~ carrier", "carrier", "late ~ carrier"),
        # What is redundant without an intercept is held at zero in another term than the one that is tested.
        ("late ~ 0 + carrier + hourly", "carrier", "late ~ 0 + hourly + carrier"),
    ],
)
def test_the_model_without_a_term_is_that_of_the_other_terms(tmp_path, formula, term, matrix):
    frame = ROWS.assign(hourly=np.where(ROWS["hour"] > ROWS["hour"].median(), "late", "early"))
    _, fitted = fit_frame(frame, formula, "binomial", tmp_path, firth=True)
    (test,) = [test for test in fitted.summary["likelihood_ratio_tests"] if test["term"] == term]
    assert test["df"] == 3 and test["chi_squared"] == pytest.approx(ratio(frame, matrix, term), abs=1e-6)


def test_responses_that_are_all_alike_once_rows_of_weight_0_are_left_out_are_refused(tmp_path):
    frame = ROWS.assign(times=1 - ROWS["late"])
    said = "the mean of the response `late` is 0, an end of the range of family binomial, so there is nothing to fit"
    with pytest.raises(UserError, match=said):
        fit_frame(frame, "late ~ hour", "binomial", tmp_path, firth=True, frequency="times")


def test_levels_and_terms_that_separate_rows_have_finite_estimates_and_predictions(tmp_path):
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "B6", 0, ROWS["late"]))
    file = ingest_frame(frame, tmp_path, split={"train": "TRUE"})
    told: list[str] = []
    design, fitted, _ = fit_files([file], "late ~ carrier + hour + both", "binomial", tell=told.append, firth=True)
    table, summary = table_of(design, fitted), fitted.summary
    assert flagged(table) == {} and not [line for line in told if "separated" in line]
    assert summary["rows_of_separated_levels"] == summary["rows_separated_across_terms"] == 0
    assert -6 < table.loc[("carrier", "B6"), "estimate"] < -1 and table["std_error"].max() < 5
    # All levels coded by another reference: the same model (Jeffreys' prior is invariant).
    other = table_of(design, fitted, {"carrier": "UA"})
    renamed = frame.replace({"carrier": {"UA": "00"}})
    same = table_of(*fit_frame(renamed, "late ~ carrier + hour + both", "binomial", tmp_path / "00", firth=True))
    np.testing.assert_allclose(other.loc["carrier", "estimate"][:3], same.loc["carrier", "estimate"][1:], atol=1e-7)
    (scored,) = predict.score(Workload(design, [file], "train"), fitted)
    assert (scored.rows["flag"] == 0).all()


def test_the_largest_factor_is_eliminated_and_aliased_columns_are_dropped(tmp_path):
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"g": random.integers(0, 40, 400).astype(str), "x": random.normal(size=400)})
    frame["twice"] = 2 * frame["x"]
    frame["late"] = (random.random(400) < 1 / (1 + np.exp(-frame["x"]))).astype(int)
    design, fitted = fit_frame(frame, "late ~ g + x + twice", "binomial", tmp_path, firth=True)
    table = table_of(design, fitted)
    assert flagged(table) == {("twice", ""): "aliased"} and fitted.summary["converged"]
    matrix = model_matrix(frame, "late ~ g + x")
    ours, y = table.loc[list(matrix.columns), "estimate"].to_numpy(), frame["late"].to_numpy(float)
    # The modified score is zero.
    x = matrix.to_numpy()
    mean = 1 / (1 + np.exp(-x @ ours))
    weight = mean * (1 - mean)
    inverse = np.linalg.inv(x.T @ (weight[:, None] * x))
    score = x.T @ (y - mean + weight * np.einsum("ij,jk,ik->i", x, inverse, x) * (0.5 - mean))
    assert np.abs(score).max() < 1e-6
    np.testing.assert_allclose(table.loc[list(matrix.columns), "std_error"], np.sqrt(np.diag(inverse)), rtol=1e-6)
