"""Profile likelihood intervals, against those of R's glm with a coefficient held at a value."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

from pools import design_of, fit_files, fit_frame, ingest_frame
from tfglm.data.dictionary import merge
from tfglm.design.references import check_profile
from tfglm.errors import UserError

GOLDEN = Path(__file__).parents[1] / "golden"
EXACT = json.loads((GOLDEN / "profiles.json").read_text())
ROWS = pd.read_csv(GOLDEN / "sandwich.csv")
FEW = ROWS[:60].assign(positive=np.exp(ROWS["delay"] / 4))
FITS = {
    "binomial": ("late", "binomial", {}),
    "poisson": ("count", "poisson", {}),
    "weighted": ("count", "poisson", {"weights": "times"}),
    "probit": ("late", "binomial", {"link": "probit"}),
    "gaussian": ("delay", "gaussian", {}),
    "gamma": ("positive", "gamma", {}),
}
PROFILE = {"hour": {"hour": 1.0}, "levels": {"carrier[B6]": 1.0, "carrier[UA]": -1.0}}


def profiled(frame, folder, formula, family, **settings) -> pd.DataFrame:
    _, fitted = fit_frame(frame, formula, family, folder, **{"profile": PROFILE} | settings)
    return pd.DataFrame(fitted.summary["profile"]).set_index("name")


@pytest.mark.parametrize("name", FITS)
def test_profile_intervals_are_those_of_r(tmp_path, name):
    response, family, settings = FITS[name]
    table = profiled(FEW, tmp_path, f"{response} ~ carrier + hour + wind", family, **settings)
    for of, exact in EXACT[name].items():
        ours = table.loc[of]
        assert ours["estimate"] == pytest.approx(exact["estimate"], rel=1e-7)
        for end in ("lower", "upper"):
            assert abs(ours[f"ci_{end}"] - exact[end]) <= 2e-6 * ours["std_error"]
        assert ours["note"] == ""
        if family == "gaussian":
            assert ours["ci_lower"] == pytest.approx(ours["wald_lower"], rel=1e-6)
        else:
            assert abs(ours["ci_lower"] - ours["wald_lower"]) > 1e-4 * ours["std_error"]
    if name == "binomial":
        # confint interpolates.
        ends = table.loc["hour", ["ci_lower", "ci_upper"]].to_numpy(float)
        assert np.all(np.abs(ends - EXACT["confint"]) <= 5e-4 * table.loc["hour", "std_error"])


@pytest.mark.slow
def test_profiles_with_the_pearson_dispersion_and_of_another_coverage(tmp_path):
    formula = "count ~ carrier + hour + wind"
    plain = profiled(ROWS, tmp_path / "plain", formula, "poisson", profile_confidence=0.8)
    quasi = profiled(ROWS, tmp_path / "quasi", formula, "poisson", std_errors="quasi", profile_confidence=0.8)
    _, fitted = fit_frame(ROWS, formula, "poisson", tmp_path / "fit")
    dispersion = fitted.summary["pearson_dispersion"]
    assert quasi.loc["hour", "std_error"] == pytest.approx(plain.loc["hour", "std_error"] * dispersion**0.5, rel=1e-6)
    # Where the quantile of t times the root of the dispersion is another one of the normal distribution, both ends are the same.
    cut = scipy.stats.t.ppf(0.9, fitted.summary["df_residual"]) * dispersion**0.5
    same = profiled(ROWS, tmp_path / "same", formula, "poisson", profile_confidence=2 * scipy.stats.norm.cdf(cut) - 1)
    for end in ("ci_lower", "ci_upper"):
        assert quasi.loc["hour", end] == pytest.approx(same.loc["hour", end], rel=1e-6)


@pytest.mark.slow
def test_profiles_beside_separated_levels_and_with_an_offset(tmp_path):
    frame = ROWS.assign(late=np.where(ROWS["carrier"] == "DL", 0, ROWS["late"]), extra=ROWS["wind"] / 2)
    table = profiled(frame, tmp_path / "a", "late ~ carrier + hour", "binomial", offset="extra")
    left = frame[frame["carrier"] != "DL"]
    alone = profiled(left, tmp_path / "b", "late ~ carrier + hour", "binomial", offset="extra")
    for column in ("estimate", "ci_lower", "ci_upper"):
        np.testing.assert_allclose(table[column].astype(float), alone[column].astype(float), rtol=1e-6)
    with pytest.raises(UserError, match=r"models.m.profile.x: `carrier\[DL\]` has no finite estimate"):
        profiled(frame, tmp_path / "c", "late ~ carrier", "binomial", profile={"x": {"carrier[DL]": 1.0}})
    with pytest.raises(UserError, match=r"models.m.profile.x: its value depends on reference levels"):
        profiled(frame, tmp_path / "d", "late ~ carrier", "binomial", profile={"x": {"carrier[B6]": 1.0}})


def test_what_has_no_profile_is_refused_by_name(tmp_path):
    file = ingest_frame(ROWS, tmp_path)
    design = design_of("late ~ carrier + hour", "binomial", merge([file]), [file], profile={"x": {"houre": 1.0}})
    with pytest.raises(UserError, match=r"models.m.profile.x: no coefficient `houre`; did you mean `hour`"):
        check_profile(design)


@pytest.mark.slow
def test_a_profile_is_the_same_for_other_cuts_of_the_rows(tmp_path):
    files = [ingest_frame(ROWS[k::2], tmp_path, f"rows_{k}") for k in range(2)]
    _, fitted, _ = fit_files(files, "late ~ carrier + hour + wind", "binomial", profile=PROFILE)
    table = pd.DataFrame(fitted.summary["profile"]).set_index("name")
    whole = profiled(ROWS, tmp_path / "whole", "late ~ carrier + hour + wind", "binomial")
    np.testing.assert_allclose(table["ci_upper"].astype(float), whole["ci_upper"].astype(float), rtol=1e-7)


@pytest.mark.parametrize("family", ["poisson", "inverse_gaussian"])
def test_the_loss_of_large_means_is_negative_and_their_profiles_have_ends(tmp_path, family):
    random = np.random.default_rng(4)
    x = np.round(random.normal(size=5_000), 3)
    mean = np.exp((9 if family == "poisson" else 5) + 0.1 * x)
    y = random.poisson(mean) if family == "poisson" else np.round(random.wald(mean, 5 * mean), 3).clip(0.01)
    table = profiled(pd.DataFrame({"x": x, "y": y}), tmp_path, "y ~ x", family, profile={"x": {"x": 1.0}})
    ours = table.loc["x"]
    assert ours["note"] == ""
    of = {"poisson": sm.families.Poisson(), "inverse_gaussian": sm.families.InverseGaussian(sm.families.links.Log())}[
        family
    ]
    full = sm.GLM(y, sm.add_constant(x), of).fit(tol=1e-14)
    scale = 1.0 if family == "poisson" else full.pearson_chi2 / full.df_resid
    cut = scipy.stats.chi2.ppf(0.95, 1) if family == "poisson" else scipy.stats.f.ppf(0.95, 1, full.df_resid)
    for end in ("ci_lower", "ci_upper"):
        held = sm.GLM(y, np.ones(len(x)), of, offset=ours[end] * x).fit(tol=1e-14)
        assert (held.deviance - full.deviance) / scale == pytest.approx(cut, rel=1e-5)
