"""Fitted values and residuals of training rows against statsmodels."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from pools import fit_files, ingest_frame
from tfglm.results.residuals import residuals

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


def test_a_row_that_takes_no_part_has_no_residual_and_says_why(frame, tmp_path):
    rows = frame.copy()
    rows.loc[3, "carrier"] = None
    rows.loc[rows["id"] == 7, ["carrier", "late"]] = ["ZZ", 1]
    file = ingest_frame(rows, tmp_path)
    design, fitted, _ = fit_files([file], "late ~ carrier", "binomial")
    table = pa.concat_tables(residuals(design, fitted, file, "train", ["id"])).to_pandas().set_index("id")
    assert table.loc[[3, 7], "remark"].tolist() == ["missing value", "separated level"]
    assert table.loc[[3, 7], ["fitted", "residual", "deviance_residual"]].isna().all(axis=None)
    assert table.drop([3, 7])["residual"].notna().all()
