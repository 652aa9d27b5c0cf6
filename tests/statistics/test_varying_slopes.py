"""Curves that a number multiplies, `s(x, by=z)`: its slope, other units, and what pages say. Fits are compared with mgcv in
test_smooths.py."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pools import estimates_of, fit_files, ingest_frame, margins, predicted, to_predict
from tfglm.report.curves import effects_plot
from tfglm.report.shapes import shapes_in_words
from tfglm.report.words import NO_WORDS
from tfglm.results import effects, joint

GOLDEN = Path(__file__).parents[1] / "golden"
R = json.loads((GOLDEN / "smooths.json").read_text())
ROWS = pd.read_csv(GOLDEN / "smooths.csv")
FORMULA = "gain ~ s(hour) + s(hour, by=wind, k=8) + carrier"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [ingest_frame(ROWS, tmp_path_factory.mktemp("varying"))]


@pytest.fixture(scope="module")
def gain(files):
    return fit_files(files, FORMULA, "gaussian")


def slope_of(fit) -> pd.DataFrame:
    table = effects.curves(estimates_of(*fit[:2]), fit[2], 0.95)
    return table[table["slope_of"] != ""]


def eta_of(design, fitted, rows: pd.DataFrame, folder: Path) -> np.ndarray:
    return predicted(design, fitted, to_predict(rows, folder))["linear_predictor"].to_numpy()


def test_the_curve_is_the_slope_of_the_number_as_in_mgcv(gain, tmp_path):
    (design, fitted, _), theirs = gain, R["slope"]
    rows = effects.at_points(design, design.terms[-1], {"hour": np.array(theirs["hour"], float)})
    slope = effects.compared(estimates_of(design, fitted), rows, "std_error", 0.95)
    np.testing.assert_allclose(slope["effect"], theirs["effect"], rtol=0, atol=1e-6 * min(theirs["std_error"]))
    np.testing.assert_allclose(slope["std_error"], theirs["std_error"], rtol=1e-5)
    curve = slope_of(gain)
    assert curve["reference"].isna().all() and set(curve["slope_of"]) == {"wind"}
    assert set(curve["term"]) == {"s(hour, k=8):wind"} and set(curve["column"]) == {"hour"}
    at = pd.DataFrame({"hour": curve["value"], "carrier": "AA"})
    ends = [eta_of(design, fitted, at.assign(wind=wind), tmp_path / str(wind)) for wind in (3.0, 2.0)]
    np.testing.assert_allclose(curve["effect"], ends[0] - ends[1], atol=1e-10)


def test_the_curve_beside_it_is_the_effect_at_the_mean_of_the_number(gain, tmp_path):
    design, fitted, dictionary = gain
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    curve = table[table["slope_of"] == ""]
    assert set(curve["at"]) == {"wind at its mean"}
    hours = np.append(curve["value"], curve["reference"].iloc[0])
    rows = pd.DataFrame({"hour": hours, "wind": ROWS["wind"].mean(), "carrier": "AA"})
    eta = eta_of(design, fitted, rows, tmp_path)
    np.testing.assert_allclose(curve["effect"], eta[:-1] - eta[-1], atol=1e-10)


def test_marginal_effects_are_derivatives_in_the_number_and_in_the_column_of_the_curve(files, tmp_path):
    design, fitted, _ = fit_files(files, "slips ~ s(hour, by=wind) + carrier", "binomial")
    table = margins(design, fitted, files, {}, 0.95).effects.set_index("term")
    for name, step in (("wind", 1e-4), ("hour", 1e-4)):
        eta = [
            eta_of(design, fitted, ROWS.assign(**{name: ROWS[name] + way * step}), tmp_path / f"{name}{way}")
            for way in (1, -1)
        ]
        above, below = (1 / (1 + np.exp(-each)) for each in eta)
        inside = (ROWS[name] - step >= ROWS[name].min()) & (ROWS[name] + step <= ROWS[name].max())
        expected = np.mean((above - below) / (2 * step))
        assert inside.mean() > 0.99 and table.loc[name, "estimate"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "term", ["s(hour, by=wind, k=8)", "te(hour, miles, by=wind, k=3)", "s(hour, miles, by=wind, k=8)"]
)
def test_another_unit_of_the_number_scales_its_slope_alone(term, files, tmp_path):
    formula, unit = f"gain ~ {term} + carrier", 1e6
    plain = fit_files(files, formula, "gaussian")
    frame = ROWS.assign(wind=ROWS["wind"] * unit)
    scaled = fit_files([ingest_frame(frame, tmp_path)], formula, "gaussian")
    (before, after) = (slope_of(fit) for fit in (plain, scaled))
    error = before["std_error"].min()
    np.testing.assert_allclose(after["effect"] * unit, before["effect"], rtol=0, atol=1e-6 * error)
    np.testing.assert_allclose(after["std_error"] * unit, before["std_error"], rtol=1e-6)
    for key in ("reml", "deviance", "df_residual"):
        assert scaled[1].summary[key] == pytest.approx(plain[1].summary[key], rel=1e-8)
    tests = [joint.joint_tests(estimates_of(*fit[:2]), [], fit[1].summary["smooths"]) for fit in (plain, scaled)]
    np.testing.assert_allclose(tests[1]["neg_log10_p"], tests[0]["neg_log10_p"], rtol=1e-6)


def test_a_number_that_is_0_or_1_has_a_curve_for_its_rows(files, tmp_path):
    """As with a factor, but for the mean of the curve."""
    curve = slope_of(fit_files(files, "gain ~ s(hour) + s(hour, by=wet)", "gaussian"))
    assert set(curve["slope_of"]) == {"wet"} and np.ptp(curve["effect"]) > 1


def test_pages_call_it_the_slope(gain, tmp_path):
    table = effects.curves(estimates_of(*gain[:2]), gain[2], 0.95)
    effects_plot(table, "m: effects", "effect", "rate_ratio", [tmp_path / "effects.svg"])
    assert "slope of wind (log rate ratio)" in (tmp_path / "effects.svg").read_text()
    first, slope = shapes_in_words(table, "the mean of gain", False, NO_WORDS)
    assert first.startswith("hour (wind at its mean): the mean of gain ")
    assert slope.startswith("hour: the slope of wind falls until ")
    assert "; it is clearly above 0 until " in slope and ", and below 0 from " in slope
    note = joint.joint_tests(estimates_of(*gain[:2]), [], gain[1].summary["smooths"]).set_index("term")["note"]
    assert "effective degrees of freedom" in note["s(hour, k=8):wind"]
    assert [smooth.get("by") for smooth in gain[1].summary["smooths"]] == [None, "wind"]
