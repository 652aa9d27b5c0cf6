"""Marginal effects, adjusted means and comparisons of levels by class, against statsmodels and an oracle in NumPy."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from flights import drawn
from oracles import model_matrix
from pools import estimates_of, fit_files, ingest_frame, margins
from tfglm.errors import UserError
from tfglm.results import coefficients
from tfglm.results.pairwise import pairwise

LABELS = ["on time", "cancelled", "late"]
"""The reference class first."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random, rows = np.random.default_rng(3), 1500
    frame = pd.DataFrame({"carrier": random.choice(list("ABC"), rows), "origin": random.choice(["J", "K"], rows)})
    frame["x"], frame["w"] = random.normal(size=rows).round(3), random.integers(1, 4, rows)
    frame["day"] = random.integers(0, 120, rows)
    eta = np.stack([-0.5 + 0.4 * (frame["origin"] == "K"), 0.5 * frame["x"] + (frame["carrier"] == "B")], axis=1)
    odds = np.exp(np.column_stack([np.zeros(rows), eta]))
    return frame.assign(status=drawn(LABELS, odds, random))


def averaged(frame: pd.DataFrame, formula: str, folder, **settings):
    file = ingest_frame(frame, folder)
    design, fitted, _ = fit_files([file], formula, "multinomial", reference_class="on time", **settings)
    return design, fitted, margins(design, fitted, [file], {}, 0.95)


def of_class(table: pd.DataFrame, label: str) -> pd.DataFrame:
    return table[table["class"] == label].set_index(["term", "level"])


def test_effects_are_those_of_statsmodels(frame, tmp_path):
    formula = "status ~ origin + x"
    _, _, ours = averaged(frame, formula, tmp_path)
    matrix = model_matrix(frame, formula)
    model = sm.MNLogit(frame["status"].map(LABELS.index).to_numpy(), matrix.to_numpy())
    theirs = model.fit(method="newton", disp=0, tol=1e-14).get_margeff(at="overall", dummy=True)
    for place, label in enumerate(LABELS):
        table = of_class(ours.effects, label)
        for number, name in enumerate([("origin", "K"), ("x", "")]):
            assert table.loc[name, "estimate"] == pytest.approx(theirs.margeff[number, place], rel=1e-6)
            assert table.loc[name, "std_error"] == pytest.approx(theirs.margeff_se[number, place], rel=1e-5)
    by_term = ours.effects.groupby(["term", "level"])["estimate"].sum()
    assert np.all(np.abs(by_term) < 1e-14)
    assert np.allclose(ours.means.groupby("level")["mean"].sum(), 1, atol=1e-14)


@pytest.mark.slow
def test_means_and_effects_have_errors_by_the_delta_method(frame, tmp_path):
    """With an interaction, a curve, frequencies and errors by cluster."""
    formula = "status ~ carrier*x + origin + I(x^2)"
    design, fitted, ours = averaged(frame, formula, tmp_path, frequency="w", std_errors="cluster(day)")
    estimated = estimates_of(design, fitted)
    vcov = coefficients.covariance_table(estimated)
    table = coefficients.table(estimated, 0.95)
    b = table.loc[~(table["reference"].ne("") & (table["estimate"] == 0)), "estimate"].to_numpy()
    assert len(b) == len(vcov)

    def probabilities(changed: pd.DataFrame, b: np.ndarray) -> np.ndarray:
        x = np.column_stack(
            [
                np.ones(len(changed)),
                *(changed["carrier"] == level for level in "BC"),
                changed["x"],
                changed["origin"] == "K",
                changed["x"] ** 2,
                *((changed["carrier"] == level) * changed["x"] for level in "BC"),
            ]
        )
        names = [name.removeprefix("cancelled: ") for name in vcov.columns[: len(b) // 2]]
        expected = ["Intercept", "carrier[B]", "carrier[C]", "x", "origin[K]", "I(x^2)", "carrier:x[B]", "carrier:x[C]"]
        x = x[:, [expected.index(name) for name in names]]
        odds = np.exp(np.column_stack([np.zeros(len(x)), x @ b.reshape(2, -1).T]))
        return np.average(odds / odds.sum(axis=1, keepdims=True), axis=0, weights=changed["w"])

    def assert_agrees(row: pd.Series, value, place: int) -> None:
        step = 1e-5
        steps = step * np.eye(len(b))
        gradient = np.array([value(b + each)[place] - value(b - each)[place] for each in steps]) / (2 * step)
        assert row["std_error"] == pytest.approx(np.sqrt(gradient @ vcov.to_numpy() @ gradient), rel=1e-5)

    for place, label in enumerate(LABELS):
        means, effects = of_class(ours.means, label), of_class(ours.effects, label)
        for level in "ABC":
            row = means.loc[("carrier", level)]
            assert row["mean"] == pytest.approx(probabilities(frame.assign(carrier=level), b)[place], rel=1e-8)
            assert_agrees(row, lambda b, level=level: probabilities(frame.assign(carrier=level), b), place)

        def slope(b: np.ndarray) -> np.ndarray:
            up, down = (probabilities(frame.assign(x=frame["x"] + sign * 1e-4), b) for sign in (1, -1))
            return (up - down) / 2e-4

        row = effects.loc[("x", "")]
        assert row["estimate"] == pytest.approx(slope(b)[place], rel=1e-6)
        assert_agrees(row, slope, place)
        assert effects.loc[("carrier", "B"), "estimate"] == pytest.approx(
            means.loc[("carrier", "B"), "mean"] - means.loc[("carrier", "A"), "mean"], abs=1e-12
        )


@pytest.mark.slow
def test_levels_are_compared_in_each_class(frame, tmp_path):
    design, fitted, _ = averaged(frame, "status ~ carrier + x", tmp_path)
    estimated = estimates_of(design, fitted)
    table = pairwise(estimated, ["carrier"], 0.95).set_index(["class", "level", "against"])
    assert list(table.index.unique("class")) == ["cancelled", "late"] and len(table) == 6
    wanted = {"c": {"late: carrier[B]": 1.0, "late: carrier[C]": -1.0}}
    (row,) = coefficients.contrasts(estimated, wanted, 0.95).to_dict("records")
    for name in ("estimate", "std_error", "z", "p_value"):
        assert table.loc[("late", "B", "C"), name] == pytest.approx(row[name], rel=1e-8)
    with pytest.raises(UserError, match=r"m\.pairwise: no categorical term `status`"):
        pairwise(estimated, ["status"], 0.95)
