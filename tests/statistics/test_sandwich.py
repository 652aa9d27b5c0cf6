"""Standard errors that are robust to a wrong variance, to rows that are alike and to serial correlation, against R's sandwich."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from oracles import model_matrix
from pools import design_of, estimates_of, fit_files, fit_frame, ingest_frame
from tfglm.config import DesignConfig
from tfglm.data.dictionary import merge
from tfglm.errors import UserError
from tfglm.results import coefficients

GOLDEN = Path(__file__).parents[1] / "golden"
EXACT = json.loads((GOLDEN / "sandwich.json").read_text())
ROWS = pd.read_csv(GOLDEN / "sandwich.csv")
FORMULA = "carrier + hour + wind"
FITS = {
    "gaussian": ("delay", "gaussian", {}),
    "binomial": ("late", "binomial", {}),
    "poisson": ("count", "poisson", {}),
    "weighted": ("delay", "gaussian", {"weights": "weight"}),
    "repeated": ("delay", "gaussian", {"frequency": "times"}),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return ingest_frame(ROWS, tmp_path_factory.mktemp("rows"))


def covariance(file, name: str, std_errors: str) -> np.ndarray:
    """That of the coefficients of a fit of FITS."""
    response, family, settings = FITS[name]
    design, fitted, _ = fit_files([file], f"{response} ~ {FORMULA}", family, **settings, std_errors=std_errors)
    return coefficients.covariance_table(estimates_of(design, fitted)).to_numpy()


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("name", FITS)
def test_covariances_that_are_robust_to_a_wrong_variance_are_those_of_r(file, name, kind):
    np.testing.assert_allclose(covariance(file, name, kind), EXACT[name][kind], rtol=1e-6, atol=1e-10)
    if kind == "HC1":
        np.testing.assert_array_equal(covariance(file, name, kind), covariance(file, name, "robust"))


def test_leverages_of_interactions_curves_and_separated_levels(tmp_path):
    random = np.random.default_rng(3)
    frame = ROWS.assign(port=random.choice(list("ABCDE"), len(ROWS)), side=random.choice(list("xy"), len(ROWS)))
    frame["late"] = np.where(frame["port"] == "E", 0, frame["late"])
    design, fitted = fit_frame(
        frame, "late ~ carrier * side + port + poly(hour, 3) + wind:side", "binomial", tmp_path, std_errors="HC3"
    )
    estimates = estimates_of(design, fitted)
    oracle = hc3(frame, estimates)
    table = coefficients.table(estimates, 0.95)
    errors = table.loc[table["status"] == "", "std_error"].dropna()
    np.testing.assert_allclose(errors, oracle, rtol=1e-6)


def hc3(frame: pd.DataFrame, estimates) -> np.ndarray:
    """HC3 standard errors of a logistic regression of late, by statsmodels' matrices."""
    kept = (frame["port"] != "E").to_numpy()
    matrix = model_matrix(frame, "late ~ carrier * side + port + poly(hour, 3) + wind:side")
    names = [
        (term, level)
        for (term, level), kept in zip(estimates.design.coefficients(), estimates.kept, strict=True)
        if kept
    ]
    x, y = matrix[names].to_numpy()[kept], frame["late"].to_numpy(float)[kept]
    model = sm.GLM(y, x, sm.families.Binomial()).fit(tol=1e-14, maxiter=50)
    weight = model.mu * (1 - model.mu)
    inverse = np.linalg.inv(x.T @ (weight[:, None] * x))
    leverage = weight * np.einsum("ij,jk,ik->i", x, inverse, x)
    score = x * ((y - model.mu) / (1 - leverage))[:, None]
    return np.sqrt(np.diag(inverse @ (score.T @ score) @ inverse))


def test_leverages_of_one_are_refused_by_name(tmp_path):
    frame = ROWS.assign(port=["Z", *["A", "B", "C"] * 199, "A", "B"])
    file = ingest_frame(frame, tmp_path)
    with pytest.raises(UserError, match=r"models.m.std_errors: HC3 divides .* one training row of `port\[Z\]`\n.*HC1"):
        design_of("delay ~ port", "gaussian", merge([file]), [file], std_errors="HC3")
    # What only the fit can tell.
    frame = frame.assign(pair=["p", *["q", "r"] * 299, "q"], count=frame["count"] + 1)
    file = ingest_frame(frame, tmp_path / "count")
    for formula, named in (
        ("count ~ port", r", those of port\[Z\]"),
        ("delay ~ port:pair", r", those of .*port:pair\[Z:p\]"),
    ):
        family = "poisson" if formula.startswith("count") else "gaussian"
        with pytest.raises(UserError, match=rf"HC2 divides .* 0 for a training row: each alone .*{named}\n"):
            fit_files([file], formula, family, std_errors="HC2")
    fit_files([file], "count ~ port", "poisson", std_errors="HC1")


@pytest.mark.parametrize("kind", ["HC4", "hc3", "HC", "robust(HC3)"])
def test_other_kinds_are_refused(kind):
    with pytest.raises(ValueError, match="std_errors"):
        DesignConfig(formula="y ~ x", family="gaussian", std_errors=kind)
