"""Correlated random effects against lme4 1.1-31 and lmerTest 3.1-3, and what else they must agree with."""

import numpy as np
import pandas as pd
import pytest

import tfglm
from tfglm.errors import UserError


def rows(effects: list[list[float]], seed: int) -> pd.DataFrame:
    """Rows of 20 levels, whose effects of 1, x and z are these combinations of normal variables."""
    rng = np.random.default_rng(seed)
    n = 400
    g, x, z = rng.integers(0, 20, n), rng.normal(5, 2, n).round(3), rng.uniform(-100, 300, n).round(1)
    numbers = np.stack([np.ones(n), x, z], axis=1)[:, : len(effects)]
    u = rng.normal(size=(20, len(effects))) @ np.array(effects).T
    y = 3 + 0.5 * x + 0.01 * z + (numbers * u[g]).sum(axis=1) + 1.5 * rng.normal(size=n)
    return pd.DataFrame({"y": y.round(4), "x": x, "z": z, "g": [f"g{level:02d}" for level in g]})


CASES = {
    # lmer(..., control = lmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-11, maxfun = 1e6))): the formula, the rows,
    # REMLcrit, the fixed effects with errors and degrees of freedom, standard deviations, correlations, effects of two levels
    "three effects": (
        "y ~ x + z + (1 + x + z | g)",
        ([[2, 0, 0], [0.5, 0.8, 0], [-0.01, 0.004, 0.02]], 1),
        1733.245212651,
        [
            [1.7784265, 0.616729057, 19.4493127],
            [0.243749297, 0.280698643, 18.9496914],
            [0.0159088547, 0.00469522477, 18.9762818],
        ],
        [2.516152, 1.238243, 0.02074165],
        [0.5983897, -0.5003353, -0.05995303],
        [[1.210246, -0.6679524, -0.02608677], [5.285901, 2.294201, -0.01388917]],
    ),
    "two effects": (
        "y ~ x + z + (x | g)",
        ([[1, 0], [0.5, 0.0]], 2),
        1580.506639317,
        [
            [2.93901089, 0.370041487, 20.7221117],
            [0.324494404, 0.117113466, 18.328901],
            [0.0105096623, 0.000696949693, 378.261011],
        ],
        [1.362069, 0.4944257],
        [0.9561546],
        [[0.2422234, 0.04231057], [2.443122, 0.9519932]],
    ),
    "slopes alone": (
        "y ~ x + z + (0 + x + z | g)",
        ([[2, 0, 0], [0.5, 0.8, 0], [-0.01, 0.004, 0.02]], 1),
        1812.377980341,
        [
            [1.4488175779, 0.2743824598, 359.8751031],
            [0.3104610206, 0.3462463816, 19.6215459],
            [0.0158321799, 0.0045241502, 19.0934276],
        ],
        [1.53198587, 0.01989279],
        [-0.11957939],
        [[-0.50390918, -0.024439852], [3.24318149, -0.010504051]],
    ),
    # Independent slopes would have no variance here; the minimum has a correlation of -1.
    "a singular covariance": (
        "y ~ x + z + (1 + x | g)",
        ([[1.3, 0], [0, 0.0]], 6),
        1534.456203506,
        [
            [3.08250835, 0.469429445, 21.2529568],
            [0.488669524, 0.0406310099, 77.0348836],
            [0.0104780175, 0.000695898337, 380.023917],
        ],
        [1.863955, 0.06257944],
        [-1.0],
        [[0.871862, -0.02927143], [-1.242109, 0.0417019]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_linear_mixed_models_agree_with_lme4(name):
    formula, drawn, criterion, fixed, deviations, correlations, effects = CASES[name]
    data = rows(*drawn)
    fitted = tfglm.fit(formula, data)
    table, smooths = fitted.tidy(), fitted.fit["smooths"]
    # lme4 has log|X'X| of the columns as they are; here they are divided by their standard deviations.
    scale = np.log(data.x.std(ddof=0) * data.z.std(ddof=0))
    assert 2 * (fitted.fit["reml"] + scale) == pytest.approx(criterion, abs=1e-6)
    found = table[["estimate", "std.error", "df"]].to_numpy()[:3]
    np.testing.assert_allclose(found, fixed, rtol=5e-5)
    assert [each["std_dev"] for each in smooths] == pytest.approx(deviations, rel=1e-5)
    assert [pair["correlation"] for each in smooths for pair in each["correlations"]] == pytest.approx(
        correlations, rel=1e-5
    )
    of_levels = fitted.coefficients["estimate"].unstack("term").loc[["g00", "g01"]]
    np.testing.assert_allclose(of_levels[[each["term"] for each in smooths]], effects, rtol=1e-5)
    assert sum(each["edf"] for each in smooths) == pytest.approx(fitted.fit["effective_coefficients"] - 3)
    assert any("singular" in warning for warning in fitted.fit["warnings"]) == (name == "a singular covariance")
    # From a far origin, the same effects have another correlation; its interval and degrees of freedom stay possible.
    if name in ("slopes alone", "a singular covariance"):
        return
    far = tfglm.fit(formula, data.assign(x=data.x + 1e6)).fit["smooths"]
    assert [each["edf"] for each in far] == pytest.approx([each["edf"] for each in smooths], rel=1e-4)
    (pair,) = (
        pair
        for each in far
        for pair in each["correlations"]
        if {each["term"], pair["term"]} == {"s(g, bs=re)", "s(g, x, bs=re)"}
    )
    assert -1 < pair["correlation_lower"] < pair["correlation"] < pair["correlation_upper"] < -0.99


def test_effects_of_many_levels_are_eliminated():
    rng = np.random.default_rng(7)
    g, x = np.repeat(np.arange(3_100), 4), rng.normal(2, 1, 12_400).round(2)
    u = rng.normal(size=(3_100, 2)) @ np.array([[1.0, 0.4], [0.0, 0.6]])
    y = (1 + 0.5 * x + u[g, 0] + u[g, 1] * x + rng.normal(size=len(x))).round(3)
    data = pd.DataFrame({"y": y, "x": x, "g": [f"g{level:04d}" for level in g]})
    fitted = tfglm.fit("y ~ x + (x | g)", data)
    # As lme4, REMLcrit and the standard deviations and correlation of VarCorr.
    assert 2 * (fitted.fit["reml"] + np.log(x.std())) == pytest.approx(44969.15097669, abs=1e-6)
    first, second = fitted.fit["smooths"]
    found = first["std_dev"], second["std_dev"], second["correlations"][0]["correlation"]
    assert found == pytest.approx((1.00816784, 0.70127563, 0.540146), rel=1e-6)


@pytest.mark.parametrize(
    ("family", "link"), [("binomial", None), ("poisson", None), ("gamma", "log"), ("negative_binomial", None)]
)
def test_effects_are_independent_at_the_origin_of_the_fit_alone(family, link):
    """With x measured from the origin, the model of independent effects is the same; from elsewhere its V is higher."""
    rng = np.random.default_rng(3)
    n = 1500
    g, x = rng.integers(0, 30, n), rng.normal(4, 2, n)
    u = rng.multivariate_normal([0, 0], [[0.5, -0.12], [-0.12, 0.08]], 30)
    eta = -0.5 + 0.2 * x + u[g, 0] + u[g, 1] * x
    y = {
        "binomial": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": lambda: rng.poisson(np.exp(0.4 * eta)),
        "gamma": lambda: rng.gamma(2, np.exp(0.4 * eta) / 2),
        "negative_binomial": lambda: rng.negative_binomial(3, 3 / (3 + np.exp(0.4 * eta))),
    }[family]()
    data = pd.DataFrame({"y": y, "x": x, "g": [f"g{level}" for level in g]})
    shape = {"family": family} | ({"link": link} if link else {})
    together = tfglm.fit("y ~ x + (x | g)", data, **shape)
    (origin,) = together.fit["origins"]["x in s(g, x, bs=re)"]

    def apart(at):
        return tfglm.fit("y ~ x + (1 | g) + (0 + moved | g)", data.assign(moved=x - at), **shape)

    same = apart(origin)
    assert same.fit["reml"] == pytest.approx(together.fit["reml"], abs=1e-7)
    assert same.fit["log_likelihood"] == pytest.approx(together.fit["log_likelihood"], abs=1e-6)
    first, second = (apart(origin + step).fit["reml"] - together.fit["reml"] for step in (-0.05, 0.05))
    assert 0.001 < first < 0.02 and first == pytest.approx(second, rel=0.05)
    # Predictions have the origin of the fit, and those of a new level are at the mean.
    new = pd.DataFrame({"x": [1.0, 5.0, 9.0], "g": ["g1", "g2", "new"], "moved": np.array([1.0, 5.0, 9.0]) - origin})
    ours, theirs = together.predict(new, std_errors=True), same.predict(new, std_errors=True)
    np.testing.assert_allclose(ours["linear_predictor"], theirs["linear_predictor"], rtol=1e-5)
    column = "linear_predictor_std_error"
    np.testing.assert_allclose(ours[column], theirs[column], rtol=1e-4)


def test_averages_are_those_of_terms_whose_numbers_depend_on_other_columns():
    """The number of z is less a multiple of that of x, whose slope counts too."""
    formula, drawn, *_ = CASES["three effects"]
    fitted = tfglm.fit(formula, rows(*drawn))
    averages, table = fitted.margins().set_index("term"), fitted.tidy().set_index("term")
    for term in ("x", "z"):
        assert averages.estimate[term] == pytest.approx(table.estimate[term], rel=1e-9)


def test_other_units_and_origins_of_the_number_give_the_same_model():
    data = rows([[1, 0], [0.5, 0.6]], 4)
    moved = data.assign(x=1000 - 20 * data.x)
    first, second = (tfglm.fit("y ~ x + (x | g)", each) for each in (data, moved))
    np.testing.assert_allclose(first.predict(data)["mean"], second.predict(moved)["mean"], rtol=1e-7)
    before, after = (each.fit["smooths"] for each in (first, second))
    assert after[1]["std_dev"] == pytest.approx(before[1]["std_dev"] / 20, rel=1e-6)
    # The intercept at x = 1000 is that at 50 before.
    slope, r = before[1]["std_dev"], before[1]["correlations"][0]["correlation"]
    at_50 = before[0]["std_dev"] ** 2 + 2 * 50 * r * before[0]["std_dev"] * slope + (50 * slope) ** 2
    assert after[0]["std_dev"] ** 2 == pytest.approx(at_50, rel=1e-6)


def test_what_cannot_be_fitted_is_refused_in_words():
    data = rows([[1, 0], [0.5, 0.6]], 5)
    with pytest.raises(UserError, match="one of 400 correlated random effects, and there are only 400 rows"):
        tfglm.fit("y ~ x + z + (x + z | g)", data.assign(g=[f"g{row // 2}" for row in range(400)]))
    with pytest.raises(UserError, match="the levels of `g` have fixed and random effects"):
        tfglm.fit("y ~ x + g + (x | g)", data)
    with pytest.raises(UserError, match="random slopes of a number"):
        tfglm.fit("y ~ x + (kind | g)", data.assign(kind=np.where(data.z > 0, "a", "b")))
    with pytest.raises(UserError, match=r"`\(log\(x\) \| g\)`: random effects are written .* define other columns"):
        tfglm.fit("y ~ x + (log(x) | g)", data)
    for effects in ("(x | g) + (z | g)", "(0 + z | g) + (x + z | g)"):
        with pytest.raises(UserError, match=r"are correlated in one term .* as in \(1 \+ (x \+ )?z \| g\)"):
            tfglm.fit(f"y ~ x + z + {effects}", data)
    with pytest.raises(UserError, match="the number that multiplies it is the same in all"):
        tfglm.fit("y ~ z + (x | g)", data.assign(x=1.0))


def test_another_effect_has_the_test_that_it_has_beside_independent_effects_of_the_origin():
    table = rows([[2, 0], [0.5, 0.8]], 1)
    table["h"] = np.random.default_rng(1).integers(0, 8, len(table))
    table["y"] += np.cos(table["h"])
    fit = tfglm.fit("y ~ x + (1 + x | g) + (1 | h)", table)
    values = fit.tidy().set_index(["term", "level"])["estimate"]
    slope = values["s(g, x, bs=re)"]
    origin = (
        -slope["correlation with s(g, bs=re)"]
        * values["s(g, bs=re)", "standard deviation"]
        / slope["standard deviation"]
    )
    independent = tfglm.fit("y ~ x + (1 + x || g) + (1 | h)", table.assign(x=table["x"] - origin))
    columns = ["F", "p_value"]
    expected = independent.terms.loc["s(h, bs=re)", columns].astype(float)
    assert np.allclose(fit.terms.loc["s(h, bs=re)", columns].astype(float), expected, rtol=1e-5)
