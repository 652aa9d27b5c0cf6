"""Curves of numbers against differences of statsmodels' predictions on the same rows."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from formulaic import model_matrix
from scipy.special import expit

from pools import estimates_of, fit_files, ingest_frame
from tfglm.report.curves import curves_of, effects_plot
from tfglm.results import effects


@pytest.fixture(scope="module")
def train():
    random, rows = np.random.default_rng(1), 3000
    frame = pd.DataFrame({"carrier": random.choice(list("ABCD"), rows), "hour": random.choice([6, 12, 18], rows)})
    frame["distance"] = random.choice([200.0, 500.0, 750.5, 1000.0, 2500.0], rows)
    eta = -1 + 0.3 * (frame["carrier"] == "C") + 0.4 * (frame["hour"] == 18) + 2e-4 * frame["distance"]
    frame["late"] = (random.random(rows) < expit(eta)).astype(int)
    return frame


@pytest.mark.parametrize(
    ("formula", "reference", "at"),
    [
        ("late ~ bs(distance, df=4) + carrier", {}, ""),
        ("late ~ carrier * bs(distance, df=4)", {"carrier": "C"}, "carrier C"),
        ("late ~ carrier * poly(distance, 2) * hour", {"carrier": "B"}, "carrier B; hour at its mean"),
        ("late ~ poly(distance, 2) + poly(distance, 2):hour + carrier", {}, "hour at its mean"),
    ],
)
def test_curves_are_differences_of_predictions(train, tmp_path, formula, reference, at):
    design, model, dictionary = fit_files([ingest_frame(train, tmp_path)], formula, "binomial")
    curves = effects.curves(estimates_of(design, model, reference), dictionary, 0.95)
    actual = curves[curves["column"] == "distance"]
    assert actual["value"].tolist() == sorted(train["distance"].unique()) and set(actual["at"]) == {at}
    matrix = model_matrix(formula.partition("~")[2], train)
    done = sm.GLM(train["late"], matrix.to_numpy(), sm.families.Binomial()).fit(method="newton", tol=1e-14)
    rows = pd.DataFrame({"distance": [*actual["value"], actual["reference"].iloc[0]], "hour": train["hour"].mean()})
    predicted = matrix.model_spec.get_model_matrix(rows.assign(carrier=reference.get("carrier", "A"))).to_numpy()
    test = done.t_test(predicted[:-1] - predicted[-1])
    assert actual["effect"].to_numpy() == pytest.approx(test.effect, abs=1e-7)
    away = actual["value"] != actual["reference"]
    assert actual["std_error"][away].to_numpy() == pytest.approx(np.ravel(test.sd)[away], rel=1e-5)
    assert actual["std_error"][~away].to_numpy() == pytest.approx(0, abs=1e-12)


def test_a_curve_at_a_level_without_rows_of_its_own_is_missing(train, tmp_path):
    train = train.assign(distance=np.where(train["carrier"] == "C", 500, train["distance"]))
    design, model, dictionary = fit_files(
        [ingest_frame(train, tmp_path)], "late ~ carrier * poly(distance, 2)", "binomial"
    )
    by_reference = {
        level: effects.curves(estimates_of(design, model, {"carrier": level}), dictionary, 0.95) for level in "AC"
    }
    assert by_reference["A"]["effect"].notna().all() and by_reference["A"]["ci_lower"].notna().all()
    away = by_reference["C"]["value"] != by_reference["C"]["reference"]
    assert by_reference["C"][["effect", "std_error", "ci_lower"]][away].isna().all(axis=None)
    assert len(curves_of(by_reference["A"])) == 1 and not curves_of(by_reference["C"])
    effects_plot(by_reference["C"], "c", "log-odds", "odds_ratio", [tmp_path / "c.svg"])
    assert "none that can be estimated" in (tmp_path / "c.svg").read_text()
