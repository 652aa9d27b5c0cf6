"""Quantile residuals, binned means and influence: against R's or statsmodels' formulas, and standard normal for a right model."""

import argparse

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import write_pages
from pools import fit_files, ingest_frame, write_results
from tfglm.config import ModelConfig, ResultsConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.results.diagnostics import binned, diagnosed, influential, normal_quantile

CASES = {
    "gaussian": ("amount ~ x + group", {}, "quantile residuals"),
    "gamma": ("size ~ x + group", {"link": "log"}, "quantile residuals"),
    "poisson": ("count ~ x + group", {}, "randomised quantile residuals"),
    "binomial": ("events ~ x + group", {"trials": "trials"}, "randomised quantile residuals"),
    "negative_binomial": ("spread ~ x + group", {"theta": 2.0}, "randomised quantile residuals"),
    "tweedie": ("size ~ x + group", {"power": 1.5}, "deviance residuals"),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw, size = np.random.default_rng(5), 3000
    frame = pd.DataFrame({"id": np.arange(size), "x": draw.normal(size=size), "group": draw.choice(["a", "b"], size)})
    eta = 0.5 + 0.4 * frame["x"] + 0.3 * (frame["group"] == "b")
    frame["amount"] = eta + draw.normal(0, 2, size)
    frame["size"] = draw.gamma(3, np.exp(eta) / 3)
    frame["count"] = draw.poisson(np.exp(eta))
    frame["trials"] = draw.integers(1, 8, size)
    frame["events"] = draw.binomial(frame["trials"], 1 / (1 + np.exp(-eta)))
    frame["spread"] = draw.negative_binomial(2, 2 / (2 + np.exp(eta)))
    return frame


@pytest.mark.parametrize("family", CASES)
def test_residuals_of_a_right_model_are_standard_normal(frame, family, tmp_path):
    formula, settings, kind = CASES[family]
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], formula, family, **settings)
    found = diagnosed(design, fitted, [file], ["id"])
    assert found.kind == kind and found.numbers == ["x"] and sorted(found.rows["id"]) == list(range(3000))
    if kind != "deviance residuals":
        assert stats.kstest(found.rows["quantile_residual"], "norm").pvalue > 0.01


def test_residuals_of_a_linear_regression_are_its_standardised_ones_and_cooks_distance_is_that_of_statsmodels(
    frame, tmp_path
):
    few = frame.head(80)
    file = ingest_frame(few, tmp_path)
    design, fitted, _ = fit_files([file], "amount ~ x + group", "gaussian")
    found = diagnosed(design, fitted, [file], ["id"])
    rows = found.rows.sort_values("id")
    matrix = np.column_stack([np.ones(80), few["x"], few["group"] == "b"])
    theirs = sm.OLS(few["amount"], matrix).fit()
    scale = np.sqrt(theirs.scale)
    assert rows["quantile_residual"].to_numpy() == pytest.approx(theirs.resid.to_numpy() / scale, rel=1e-7, abs=1e-9)
    distances = theirs.get_influence().cooks_distance[0]
    assert rows["cook"].to_numpy() == pytest.approx(distances, rel=1e-6)
    table = influential(found, ["id"])
    assert table["id"].tolist() == np.argsort(-distances)[:10].tolist() and "Cook's distance" in table


def test_a_wrong_model_shows_in_the_bins(frame, tmp_path):
    curved = frame.assign(amount=frame["amount"] + frame["x"] ** 2)
    file = ingest_frame(curved, tmp_path)
    design, fitted, _ = fit_files([file], "amount ~ x", "gaussian")
    found = diagnosed(design, fitted, [file], [])
    table = binned(found.rows["x"].to_numpy(), found.rows["quantile_residual"].to_numpy())
    assert table["rows"].sum() == 3000 and len(table) == 25 and (table["lower"].iloc[[0, -1]] > 0).all()
    assert table["upper"].iloc[12] < 0


def test_bins_of_few_values_are_these_values():
    table = binned(np.array([1.0, 1, 2, np.nan]), np.array([1.0, 3, 5, 7]))
    assert table[["x", "mean", "rows"]].to_numpy().tolist() == [[1, 2, 2], [2, 5, 1]] and np.isnan(
        table["lower"].iloc[1]
    )


def test_far_residuals_are_finite_in_either_tail():
    assert normal_quantile(np.array([1e-300, 1.0]), np.array([1.0, 1e-300])) == pytest.approx(
        [-37.0471, 37.0471], rel=1e-5
    )


@pytest.mark.slow
def test_the_page_has_pictures_and_influential_rows(frame, tmp_path):
    file = ingest_frame(frame.head(300), tmp_path / "data")
    design, fitted, _ = fit_files([file], "count ~ x + group", "poisson")
    fitted.summary["provenance"] = {"model": {}}
    write_results(fitted, design, tmp_path)
    files = {"design": "design.json", "checkpoint": "checkpoint", "fit": "fit.json"}
    arguments = argparse.Namespace(
        **{key: tmp_path / name for key, name in files.items()},
        manifests=[file.folder / "manifest.json"],
        settings=ResultsConfig(identity=["id"]),
        pictures=PicturesConfig(),
        page=tmp_path / "diagnostics.html",
    )
    write_pages.diagnostics(arguments)
    page = (tmp_path / "diagnostics.html").read_text()
    assert page.count('class="panel"') == 5 and "The randomised quantile residuals of 300 training rows" in page
    assert "Most influential rows" in page and ">id</th>" in page


def test_classes_have_no_residuals():
    with pytest.raises(ValueError, match="diagnostics: a regression of classes has no residuals; remove the key"):
        ModelConfig(formula="y ~ x", family="multinomial", diagnostics=True)
