"""The families and links beside those of linear, logistic and Poisson regression, against R's glm on the same rows
(tests/golden/families.R), and together with everything else that a model can have."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from statsmodels.othermod.betareg import BetaModel

import tfglm
from pools import CR1, fit_files, ingest_frame, predicted, table_of, to_predict
from tfglm.errors import UserError
from tfglm.results import residuals

GOLDEN = Path(__file__).parents[1] / "golden"
GOLDEN_FITS = json.loads((GOLDEN / "families.json").read_text())
R, HURDLES = GOLDEN_FITS["fits"], GOLDEN_FITS["hurdles"]
TERMS = "carrier + hour"

FITS = {
    "probit": (f"late ~ {TERMS}", "binomial", {"link": "probit"}),
    "cloglog": (f"late ~ {TERMS}", "binomial", {"link": "cloglog"}),
    "probit_trials": (f"events ~ {TERMS}", "binomial", {"link": "probit", "trials": "seats"}),
    "cloglog_offset": (f"late ~ {TERMS}", "binomial", {"link": "cloglog", "offset": "log(miles)"}),
    "gamma_log": (f"cost ~ {TERMS}", "gamma", {}),
    "gamma_log_weights": (f"cost ~ {TERMS}", "gamma", {"weights": "trips"}),
    "gamma_log_offset": (f"cost ~ {TERMS}", "gamma", {"offset": "log(miles)"}),
    "gamma_inverse": (f"speed ~ {TERMS}", "gamma", {"link": "inverse"}),
    "gamma_inverse_levels": ("speed ~ 0 + carrier", "gamma", {"link": "inverse"}),
    "inverse_gaussian_log": (f"wait ~ {TERMS}", "inverse_gaussian", {}),
    "inverse_gaussian_canonical": (f"speed ~ {TERMS}", "inverse_gaussian", {"link": "1/mu^2"}),
    "inverse_gaussian_weights": (f"wait ~ {TERMS}", "inverse_gaussian", {"weights": "trips"}),
    "negative_binomial": (f"bumps ~ {TERMS}", "negative_binomial", {}),
    "negative_binomial_weights": (f"bumps ~ {TERMS}", "negative_binomial", {"weights": "trips"}),
    "negative_binomial_offset": (f"bumps ~ {TERMS}", "negative_binomial", {"offset": "log(miles)"}),
    "negative_binomial_given": (f"bumps ~ {TERMS}", "negative_binomial", {"theta": 2.5}),
    "tweedie_given": (f"fees ~ {TERMS}", "tweedie", {"power": 1.4}),
    "tweedie_given_weights": (f"fees ~ {TERMS}", "tweedie", {"power": 1.4, "weights": "trips"}),
    "tweedie": (f"fees ~ {TERMS}", "tweedie", {}),
    "tweedie_weights": (f"fees ~ {TERMS}", "tweedie", {"weights": "trips"}),
    "gaussian_log": (f"delay ~ {TERMS}", "gaussian", {"link": "log"}),
    "gaussian_log_weights": (f"delay ~ {TERMS}", "gaussian", {"link": "log", "weights": "trips"}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [ingest_frame(pd.read_csv(GOLDEN / "families.csv"), tmp_path_factory.mktemp("families"))]


@pytest.fixture(scope="module")
def first_rows(tmp_path_factory):
    """The first five, to predict."""
    return to_predict(pd.read_csv(GOLDEN / "families.csv").iloc[:5], tmp_path_factory.mktemp("first"))


def named(of_r: dict) -> dict[tuple[str, str], float]:
    """R's coefficients by term and level."""
    names = {"(Intercept)": ("Intercept", "")} | {
        f"carrier{name}": ("carrier", name) for name in ("AA", "B6", "DL", "UA")
    }
    return {names.get(name, (name, "")): value for name, value in of_r.items()}


@pytest.mark.parametrize("name", FITS)
def test_the_fit_is_that_of_r(name, files):
    formula, family, settings = FITS[name]
    design, fitted, _ = fit_files(files, formula, family, **settings)
    theirs, summary, table = R[name], fitted.summary, table_of(design, fitted)
    assert summary["converged"], summary["certificate"]
    b, errors = named(theirs["coefficients"]), named(theirs["std_errors"])
    for key in b:
        assert table.loc[key, "estimate"] == pytest.approx(b[key], abs=1e-6 * max(abs(b[key]), errors[key])), key
        assert table.loc[key, "std_error"] == pytest.approx(errors[key], rel=1e-5)
    # R's search for a power ends at about 1e-8 of it, which moves the deviance, but not its maximal likelihood.
    precise = 1e-10 if summary["log_likelihood"] is None or "dispersion_of_likelihood" not in summary else 1e-6
    for key in ("log_likelihood", "deviance", "aic"):
        if theirs[key] == "NA":
            assert summary[key] is None
        else:
            assert summary[key] == pytest.approx(theirs[key], rel=precise if key == "deviance" else 1e-10)
    if theirs["null_deviance"] in ("NaN", None):
        assert summary["null_deviance"] is None
    else:
        assert summary["null_deviance"] == pytest.approx(theirs["null_deviance"], rel=1e-9)
    if theirs["theta"]:
        assert summary["theta"] == pytest.approx(theirs["theta"], rel=1e-7)
        assert summary["theta_std_error"] == pytest.approx(theirs["theta_std_error"], rel=1e-6)
    if theirs["power"]:
        assert summary["power"] == pytest.approx(theirs["power"], abs=1e-6 * theirs["power_std_error"])
        assert summary["power_std_error"] == pytest.approx(theirs["power_std_error"], rel=1e-3)
        dispersion = theirs["dispersion_of_likelihood"]
        assert summary["dispersion_of_likelihood"] == pytest.approx(dispersion, rel=1e-6)
    assert fitted.covariance.dispersion == pytest.approx(theirs["dispersion"], rel=1e-6)


@pytest.mark.parametrize("family", HURDLES)
def test_a_hurdle_has_the_counts_of_pscl(family, tmp_path):
    rows = pd.read_csv(GOLDEN / "families.csv").query("bumps > 0")
    design, fitted, _ = fit_files([ingest_frame(rows, tmp_path)], f"bumps ~ {TERMS}", family)
    theirs, summary, table = HURDLES[family], fitted.summary, table_of(design, fitted)
    for key, estimate in named(theirs["coefficients"]).items():
        assert table.loc[key, "estimate"] == pytest.approx(estimate, abs=1e-7)
        assert table.loc[key, "std_error"] == pytest.approx(named(theirs["std_errors"])[key], rel=1e-6)
    assert summary["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-10)
    if theirs["theta"]:
        assert summary["theta"] == pytest.approx(theirs["theta"], rel=1e-6)
        relative = summary["theta_std_error"] / summary["theta"]
        assert relative == pytest.approx(theirs["log_theta_std_error"], rel=1e-6)


def proportions() -> pd.DataFrame:
    """Whose precision is 4, which the estimates of coefficients depend on."""
    random = np.random.default_rng(1)
    rows = pd.DataFrame({"x": random.normal(size=400), "g": random.choice(list("abc"), 400)})
    mean = expit(-2 + 0.5 * rows["x"] + 0.8 * (rows["g"] == "b"))
    return rows.assign(y=random.beta(4 * mean, 4 * (1 - mean)))


def test_beta_regression_is_that_of_statsmodels(tmp_path):
    rows = proportions()
    design, fitted, _ = fit_files([ingest_frame(rows, tmp_path)], "y ~ x + g", "beta", tests="likelihood_ratio")
    columns = np.column_stack([np.ones(400), rows["x"], rows["g"] == "b", rows["g"] == "c"]).astype(float)
    table, summary = table_of(design, fitted), fitted.summary
    ours = table.drop(("g", "a"))
    model = BetaModel(rows["y"].to_numpy(), columns, exog_precision=np.ones((400, 1)))
    at = np.append(ours["estimate"], np.log(summary["theta"]))
    errors = np.sqrt(np.diag(-np.linalg.inv(model.hessian(at, observed=False))))
    np.testing.assert_allclose(model.score(at), 0.0, atol=1e-7)
    np.testing.assert_allclose(ours["std_error"], errors[:-1], rtol=1e-8)
    assert summary["theta_std_error"] == pytest.approx(errors[-1] * summary["theta"], rel=1e-8)
    assert summary["log_likelihood"] == pytest.approx(model.loglike(at), rel=1e-12)
    with pytest.raises(UserError, match=r"above 0 and below 1.*\n.*family: binomial with `weights`"):
        fit_files([ingest_frame(rows.assign(y=rows["y"].round(1)), tmp_path / "ends")], "y ~ x", "beta")
    # The likelihood ratio test estimates theta again.
    alone = BetaModel(rows["y"].to_numpy(), columns[:, :2], exog_precision=np.ones((400, 1)))
    less = minimize(lambda at: -alone.loglike(at), [*at[:2], at[-1]], jac=lambda at: -alone.score(at), tol=1e-10)
    [of_g] = [test for test in summary["likelihood_ratio_tests"] if test["term"] == "g"]
    assert of_g["chi_squared"] == pytest.approx(2 * (model.loglike(at) + less.fun), abs=1e-6)


def fitted_as(name: str, files: list, **settings):
    formula, family, of_fit = FITS[name]
    design, fitted, _ = fit_files(files, formula, family, **of_fit, **settings)
    return design.as_fitted(fitted.summary), fitted


@pytest.mark.parametrize("name", FITS)
def test_predictions_and_residuals_are_those_of_r(name, files, first_rows):
    design, fitted = fitted_as(name, files)
    theirs = R[name]
    rows = predicted(design, fitted, first_rows)
    mean = rows[design.distribution.predicted]
    np.testing.assert_allclose(mean, theirs["mean"], rtol=1e-6)
    np.testing.assert_allclose(rows["std_error"], theirs["mean_std_error"], rtol=1e-5)
    assert np.all((rows["ci_lower"] < mean) & (mean < rows["ci_upper"]))
    shards = list(residuals.residuals(design, fitted, files[0], "train", ["miles", "hour"], leverage=True))
    of_rows = pd.concat([table.to_pandas() for table in shards]).set_index(["miles", "hour"])
    frame = pd.read_csv(GOLDEN / "families.csv").iloc[:5]
    ours = of_rows.loc[list(zip(frame["miles"], frame["hour"], strict=True))]
    for column, of_r in {
        "pearson_residual": "pearson",
        "deviance_residual": "deviance_residual",
        "leverage": "leverage",
    }.items():
        np.testing.assert_allclose(ours[column], theirs[of_r], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["probit", "cloglog", "gamma_log", "inverse_gaussian_log", "gaussian_log"])
@pytest.mark.parametrize("kind", ["robust", "cluster(day)"])
def test_robust_errors_are_those_of_sandwich(name, kind, files):
    design, fitted = fitted_as(name, files, std_errors=kind, limits=CR1)
    expected = named(R[name]["robust" if kind == "robust" else "clustered"])
    table = table_of(design, fitted)
    for key, error in expected.items():
        assert table.loc[key, "std_error"] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "binomial", "beta"])
def test_intervals_of_new_responses_have_their_share_of_the_predictive_distribution(family, tmp_path):
    rows = proportions().assign(n=8).head(60)
    rows["y"] = {"poisson": np.ceil(9 * rows["y"]), "binomial": np.round(8 * rows["y"])}.get(family, rows["y"])
    rows["y"] = rows["y"].astype(int) if family in ("poisson", "binomial") else rows["y"]
    trials = {"trials": "n"} if family == "binomial" else {}
    design, fitted, _ = fit_files([ingest_frame(rows, tmp_path)], "y ~ x", family, **trials)
    design = design.as_fitted(fitted.summary)
    table = predicted(design, fitted, to_predict(rows.head(3), tmp_path / "new"), (), "prediction")
    if family == "gaussian":
        r = sm.OLS(rows["y"], sm.add_constant(rows[["x"]])).fit().get_prediction().summary_frame().head(3)
        np.testing.assert_allclose(table["prediction_lower"], r["obs_ci_lower"], rtol=1e-9)
        np.testing.assert_allclose(table["prediction_upper"], r["obs_ci_upper"], rtol=1e-9)
        model = tfglm.fit("y ~ x", rows.assign(w=1.0), weights="w", family=family)
        limits = model.predict(rows.head(3).assign(w=[1.0, 0.0, np.nan]), interval=0.95, new_response=True)
        assert limits["prediction_upper"].isna().tolist() == [False, True, True]
        return
    z = np.linspace(-8, 8, 2001)
    for row in table.itertuples():
        eta = row.linear_predictor + row.linear_predictor_std_error * z
        mean, weight = design.distribution.mean(eta), np.full(len(z), 8.0 if trials else 1.0)
        law = design.distribution.law(mean, mean, weight, fitted.covariance.dispersion)
        for limit, tail in ((row.prediction_lower, 0.025), (row.prediction_upper, 0.975)):
            below, before = (np.average(law.distribution.cdf(limit - less), weights=norm.pdf(z)) for less in (0, 1))
            assert before < tail <= below if law.steps else below == pytest.approx(tail, abs=1e-5)
    if family == "poisson":
        model = tfglm.fit("y ~ x", rows, family, std_errors="quasi")
        with pytest.raises(UserError, match="no intervals of new responses with family tweedie, a quasi-likelihood"):
            model.predict(rows.head(3), new_response=True)
