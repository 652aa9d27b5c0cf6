"""Checks of a fit: each against data that make it red and data that make it green, and against other implementations."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

from pools import fit_files, ingest_frame
from tfglm.results import checks
from tfglm.results.checks import inflation
from tfglm.results.verdicts import AMBER, GREEN, MISFIT, RED, Check, Deviation, held_out_calibration


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw, size = np.random.default_rng(8), 600
    frame = pd.DataFrame(
        {"x": draw.normal(50, 10, size), "z": draw.normal(size=size), "g": draw.choice(list("abc"), size)}
    )
    z, noise = frame["z"], draw.normal(size=size)
    frame["like_x"] = frame["x"] + draw.normal(0, 2, size)
    frame["right"] = frame["x"] / 10 + z + noise
    frame["curved"] = frame["right"] + z**2
    frame["fanned"] = frame["x"] / 10 + noise * np.exp(0.8 * z)
    frame["skewed"] = np.exp(frame["x"] / 20 + 1.2 * noise)
    frame["wild"] = frame["right"] + np.where(frame.index == 7, 80, 0)
    frame["far"] = np.where(frame.index == 7, 50, z)
    frame["moved"] = frame["right"] + np.where(frame.index == 7, 300, 0)
    frame["count"] = draw.poisson(np.exp(0.5 + 0.3 * z))
    frame["spread"] = draw.poisson(np.exp(0.5 + 0.3 * z + 0.9 * noise))
    frame["mixed"] = draw.negative_binomial(2, 2 / (2 + np.exp(0.5 + 0.3 * z)))
    frame["gaps"] = np.where(draw.random(size) < 0.4, 0, draw.poisson(np.exp(1.5 + 0.3 * z)))
    frame["squared"] = draw.poisson((2.5 + z) ** 2)
    frame["event"] = (draw.random(size) < 1 / (1 + np.exp(-0.5 * z))).astype(int)
    frame["bent"] = (draw.random(size) < 1 / (1 + np.exp(1 - 1.5 * z**2))).astype(int)
    frame["sure"] = frame["event"].where(frame["g"] != "c", 1)
    return frame


@pytest.fixture(scope="module")
def verdicts(frame, tmp_path_factory):
    file = ingest_frame(frame, tmp_path_factory.mktemp("rows"))

    def of(formula: str, family: str = "gaussian", **settings) -> dict[str, Check]:
        design, fitted, _ = fit_files([file], formula, family, **settings)
        found = checks.checks(design.as_fitted(fitted.summary), fitted, fitted.summary, [file])
        assert all(bool(each.remedy) == (each.verdict != GREEN) for each in found)
        return {each.check: each for each in found}

    return of


COUNTS, AMOUNTS = "overdispersion zeros residuals", "spread residuals"
MEANS = "collinearity curves calibration link influence"
GOOD = {
    "gaussian": ("right ~ x + z + g", f"{MEANS} {AMOUNTS} outliers"),
    "poisson": ("count ~ x + z + g", f"{MEANS} {COUNTS} outliers separation"),
    "negative_binomial": ("mixed ~ x + z + g", f"{MEANS} {COUNTS} outliers separation"),
    "binomial": ("event ~ x + z + g", f"{MEANS} separation"),
    "ordinal": ("g ~ x + z", "separation"),
    "multinomial": ("g ~ x + z", "separation"),
}


@pytest.mark.parametrize("family", GOOD)
def test_a_right_model_has_green_checks_that_apply(family, verdicts):
    formula, applies = GOOD[family]
    order = {"class_order": ["a", "b", "c"]} if family == "ordinal" else {}
    found = verdicts(formula, family, **order)
    assert set(applies.split()) == set(found)
    assert {each.verdict for each in found.values()} == {GREEN}


BAD = {
    "collinearity": ("right ~ x + like_x + z", "gaussian", "Leave out one"),
    "curves": ("curved ~ x + z", "gaussian", "`s(z)` in the formula"),
    "calibration": ("squared ~ z", "gaussian", "curve"),
    "link": ("squared ~ z", "gaussian", "`link`"),
    "spread": ("fanned ~ x + z", "gaussian", "`std_errors: robust`"),
    "residuals": ("skewed ~ z", "gaussian", "logarithm"),
    "outliers": ("wild ~ x + z", "gaussian", "`missing`"),
    "influence": ("moved ~ x + far", "gaussian", "`where`"),
    "overdispersion": ("spread ~ x + z", "poisson", "`family: negative_binomial`"),
    "zeros": ("gaps ~ z", "poisson", "`subset`"),
    "separation": ("sure ~ z + g", "binomial", "`firth: true`"),
}


@pytest.mark.parametrize("check", BAD)
def test_a_wrong_model_has_a_red_check_that_says_what_to_write(check, verdicts):
    formula, family, remedy = BAD[check]
    found = verdicts(formula, family)[check]
    assert found.verdict == RED and remedy in found.remedy


def test_robust_errors_allow_for_the_variance_and_a_curve_for_a_bend(verdicts):
    assert verdicts("fanned ~ x + z", std_errors="robust")["spread"].verdict == GREEN
    assert verdicts("spread ~ x + z", "poisson", std_errors="quasi")["overdispersion"].verdict == GREEN
    assert {each.verdict for each in verdicts("curved ~ x + s(z)").values()} == {GREEN}
    assert "residuals" not in verdicts("right ~ x + z", l1=0.01)
    assert "curves" in verdicts("right ~ x + z", absorb=["g"]) and "curves" in verdicts("right ~ x + z + (1 | g)")


def test_instruments_leave_the_means_unchecked(frame, tmp_path):
    """Residuals of two-stage least squares depend on the endogenous term."""
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], "curved ~ z", "gaussian")
    found = checks.checks(design, fitted, fitted.summary | {"instruments": {}}, [file])
    assert [each.check for each in found] == ["residuals", "outliers"]


def test_verdicts_and_findings_do_not_depend_on_units_origins_and_the_order_of_rows(frame, tmp_path, verdicts):
    formula = "curved ~ x + like_x + I(z**2) + z + g:z + g"
    other = frame.assign(x=frame["x"] * 1e3 - 7e5, z=32 + 1.8 * frame["z"], curved=frame["curved"] * 1e-4)
    file = ingest_frame(other.sample(frac=1, random_state=1), tmp_path)
    design, fitted, _ = fit_files([file], formula, "gaussian")
    found = {each.check: each for each in checks.checks(design, fitted, fitted.summary, [file])}
    before = verdicts(formula)
    assert {RED, GREEN} <= {each.verdict for each in found.values()}
    for check, each in found.items():
        assert (each.verdict, each.finding.partition(":")[0].partition(";")[0]) == (
            before[check].verdict,
            before[check].finding.partition(":")[0].partition(";")[0],
        )


def test_inflation_is_that_of_statsmodels_and_of_determinants(frame, tmp_path):
    design, fitted, _ = fit_files([ingest_frame(frame, tmp_path)], "right ~ x + like_x + z + g", "gaussian")
    found = inflation(design, fitted)
    matrix = np.column_stack(
        [np.ones(600), frame[["x", "like_x", "z"]], pd.get_dummies(frame["g"])[["b", "c"]]]
    ).astype(float)
    for place, name in enumerate(("x", "like_x", "z"), 1):
        assert found[name] == pytest.approx(variance_inflation_factor(matrix, place), rel=1e-8)
    correlation = np.corrcoef(matrix[:, 1:].T)
    whole, levels, others = (np.linalg.det(each) for each in (correlation, correlation[3:, 3:], correlation[:3, :3]))
    assert found["g"] == pytest.approx((levels * others / whole) ** 0.5, rel=1e-8)


def test_the_test_of_the_link_is_the_score_test_of_statsmodels(frame, verdicts):
    """Of the square of the predictions beside them, as in Stata's `linktest`."""
    x = sm.add_constant(frame[["x", "z"]])
    eta = np.asarray(x @ sm.GLM(frame["bent"], x, sm.families.Binomial()).fit(tol=1e-12).params)
    score = sm.GLM(frame["bent"], np.column_stack([np.ones(600), eta]), sm.families.Binomial())
    statistic, _, _ = score.score_test(np.array([0.0, 1.0]), exog_extra=eta[:, None] ** 2)
    size = np.sqrt(max(float(np.squeeze(statistic)) - 1, 0) / 600)
    said = verdicts("bent ~ x + z", "binomial")["link"].finding
    assert float(said.split()[-1]) == pytest.approx(size, rel=0.02)


def test_a_tiny_deviation_is_green_however_sure_it_is_and_chance_is_no_alarm():
    sizes = {0.05: GREEN, 0.15: AMBER, 0.3: RED}
    for size, verdict in sizes.items():
        deviation = Deviation("curves", MISFIT, size, "found", "do", 1e-300)
        assert deviation.line().verdict == verdict
        assert deviation._replace(p=0.02).line().verdict == GREEN == deviation._replace(p=0.002).line(10).verdict
    assert Deviation("curves", MISFIT, 0.3, "found", "do", 0.005).line().verdict == AMBER


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, GREEN), (0.3, RED)])
def test_calibration_of_rows_kept_back(shift, verdict):
    draw, parts = np.random.default_rng(2), []
    for predicted in np.linspace(0, 5, 20):
        rows = predicted + shift * (predicted - 2.5) + draw.normal(size=40)
        margin = 1.96 * rows.std() / np.sqrt(40)
        mean = rows.mean()
        parts.append(
            {"rows": 40, "predicted": predicted, "observed": mean, "lower": mean - margin, "upper": mean + margin}
        )
    (found,) = held_out_calibration({"calibration": parts})
    assert found.verdict == verdict and not held_out_calibration({"rows": 0})
