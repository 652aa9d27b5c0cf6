"""Fitted values, residuals and leverages of training rows against statsmodels."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic import model_matrix
from pydantic import ValidationError

from pools import fit_files, ingest_frame
from tfglm.config import NetworkConfig
from tfglm.results.residuals import residuals
from tfglm.solvers.descent import FRESH

CASES = {
    "gaussian": ("delay ~ x + carrier", {"weights": "w"}),
    "binomial": ("late ~ x + carrier", {"frequency": "w"}),
    "poisson": ("count ~ x + carrier", {}),
}
FAMILIES = {"gaussian": sm.families.Gaussian, "binomial": sm.families.Binomial, "poisson": sm.families.Poisson}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(9)
    frame = pd.DataFrame({"id": np.arange(1500), "carrier": random.choice(["AA", "B6"], 1500)})
    frame["x"], frame["w"] = random.normal(size=1500), random.integers(1, 4, 1500)
    frame["delay"] = frame["x"] + random.normal(size=1500)
    frame["late"] = (frame["delay"] > 0.5).astype(int)
    frame["count"] = random.poisson(np.exp(0.3 * frame["x"]))
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_residuals_are_those_of_statsmodels(frame, family, tmp_path):
    formula, settings = CASES[family]
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], formula, family, **settings)
    table = pa.concat_tables(residuals(design, fitted, file, "train", ["id", "carrier"])).to_pandas()
    assert sorted(table["id"]) == list(range(1500)) and table["remark"].isna().all()
    table = table.sort_values("id", ignore_index=True)
    assert (table["carrier"] == frame["carrier"]).all()
    weights = {"weights": "var_weights", "frequency": "freq_weights"}
    theirs = {weights[key]: frame[column] for key, column in settings.items()}
    done = smf.glm(formula, frame, family=FAMILIES[family](), **theirs).fit(tol=1e-14)
    for mine, expected in {
        "fitted": done.fittedvalues,
        "residual": done.resid_response,
        "pearson_residual": done.resid_pearson,
        "deviance_residual": done.resid_deviance,
    }.items():
        assert table[mine].to_numpy() == pytest.approx(np.asarray(expected), rel=1e-7, abs=1e-8), mine
    frequency = frame["w"] if "frequency" in settings else 1
    assert (frequency * table["deviance_residual"] ** 2).sum() == pytest.approx(fitted.summary["deviance"], rel=1e-10)


def table_of(design, fitted, file) -> pd.DataFrame:
    """The training rows with their leverages, by `id`."""
    return pa.concat_tables(residuals(design, fitted, file, "train", ["id"], leverage=True)).to_pandas().set_index("id")


INFLUENTIAL = CASES | {
    "binomial with weights": ("late ~ x * carrier + C(w)", {"weights": "w"}),
    "poisson by cluster": ("count ~ bs(x, df=4) + carrier", {"std_errors": "cluster(w)"}),
}


@pytest.mark.parametrize("case", INFLUENTIAL)
def test_leverages_are_those_of_statsmodels(frame, case, tmp_path):
    (formula, settings), family = INFLUENTIAL[case], case.split()[0]
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], formula, family, **settings)
    table = table_of(design, fitted, file).sort_index()
    names = {"weights": "var_weights", "frequency": "freq_weights"}
    theirs = {names[key]: frame[column] for key, column in settings.items() if key in names}
    design_matrix = formula.split(" ~ ")[1]
    done = sm.GLM(frame[design.roles.response], model_matrix(design_matrix, frame), FAMILIES[family](), **theirs).fit(
        tol=1e-15
    )
    influence = done.get_influence()
    # Theirs is that of all rows that a row stands for.
    frequency = frame["w"].to_numpy() if "frequency" in settings else np.ones(len(frame))
    expected = influence.hat_matrix_diag / frequency
    # The working weights in the information matrix may differ by a share of FRESH, as rows in the tail of the spline show.
    exact = 2 * FRESH if "bs(" in formula else 1e-8
    assert table["leverage"].to_numpy() == pytest.approx(expected, rel=exact, abs=1e-12)
    assert (frequency * table["leverage"]).sum() == pytest.approx(fitted.summary["coefficients"], rel=exact)
    standardised = done.resid_pearson / np.sqrt(done.scale * (1 - expected))
    assert table["standardised_pearson_residual"].to_numpy() == pytest.approx(
        np.asarray(standardised), rel=1e-7, abs=1e-8
    )


@pytest.mark.slow
def test_leverages_of_a_ridge_add_up_to_the_effective_number_of_coefficients(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], "late ~ x + carrier", "binomial", l2=0.1)
    table = table_of(design, fitted, file)
    assert table["leverage"].sum() == pytest.approx(fitted.summary["effective_coefficients"], rel=1e-8)
    assert table["standardised_pearson_residual"].isna().all()


def test_a_row_that_takes_no_part_has_no_residual_and_says_why(frame, tmp_path):
    rows = frame.copy()
    rows.loc[3, "carrier"] = None
    rows.loc[rows["id"] == 7, ["carrier", "late"]] = ["ZZ", 1]
    file = ingest_frame(rows, tmp_path)
    design, fitted, _ = fit_files([file], "late ~ carrier", "binomial")
    table = table_of(design, fitted, file)
    assert table.loc[[3, 7], "remark"].tolist() == ["missing value", "separated level"]
    assert table.loc[[3, 7], ["fitted", "residual", "deviance_residual"]].isna().all(axis=None)
    assert table.drop([3, 7])["residual"].notna().all() and table["leverage"].isna().sum() == 2
    # It has a finite mean, which it alone determines.
    design, fitted, _ = fit_files([file], "delay ~ carrier", "gaussian")
    table = table_of(design, fitted, file)
    assert table.loc[7, "leverage"] == pytest.approx(1) and np.isnan(table.loc[7, "standardised_pearson_residual"])
    assert table.drop([3, 7])["standardised_pearson_residual"].notna().all()


def test_a_network_has_no_leverages():
    with pytest.raises(ValidationError, match="leverage: a network has no information matrix"):
        NetworkConfig(formula="y ~ x", family="binomial", leverage=True)
