"""Standard errors that are robust to a wrong variance, to rows that are alike and to serial correlation, against R's sandwich."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.signal
import scipy.stats
import statsmodels.api as sm

from oracles import model_matrix
from pools import CR1, design_of, estimates_of, fit_files, fit_frame, ingest_frame
from replicates import Replicates
from tfglm import checkpoint
from tfglm.config import DesignConfig
from tfglm.data.dictionary import merge
from tfglm.design import clusters
from tfglm.errors import UserError
from tfglm.inference import serial
from tfglm.inference.reference import NOT_POSITIVE, Fewest
from tfglm.results import accuracy, coefficients
from tfglm.results.estimates import Estimates
from tfglm.results.joint import joint_tests
from tfglm.results.paper import errors_of
from tfglm.solvers.report import standard_errors

GOLDEN = Path(__file__).parents[1] / "golden"
EXACT = json.loads((GOLDEN / "sandwich.json").read_text())
ROWS = pd.read_csv(GOLDEN / "sandwich.csv")
ROWS["positive"] = np.exp(ROWS["delay"] / 4)
FORMULA = "carrier + hour + wind"
FITS = {
    "gaussian": ("delay", "gaussian", {}),
    "binomial": ("late", "binomial", {}),
    "poisson": ("count", "poisson", {}),
    "gamma": ("positive", "gamma", {}),
    "probit": ("late", "binomial", {"link": "probit"}),
    "weighted": ("delay", "gaussian", {"weights": "weight"}),
    "repeated": ("delay", "gaussian", {"frequency": "times"}),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return ingest_frame(ROWS, tmp_path_factory.mktemp("rows"))


ANY = Fewest(df=0, df_joint=0, clusters=0, clusters_per_coefficient=0, dates=0, dates_joint=0)
"""Let every test be shown."""


def fitted_as(file, name: str, std_errors: str, **settings) -> tuple[np.ndarray, Estimates]:
    """The coefficients of a fit of FITS, and their covariance."""
    response, family, keys = FITS[name]
    design, fitted, _ = fit_files([file], f"{response} ~ {FORMULA}", family, **keys, **settings, std_errors=std_errors)
    estimates = estimates_of(design, fitted)
    return coefficients.covariance_table(estimates).to_numpy(), estimates


def fitted_frame(frame, folder, formula: str, std_errors: str, family: str = "gaussian") -> Estimates:
    return estimates_of(*fit_frame(frame, formula, family, folder, std_errors=std_errors))


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("name", FITS)
def test_covariances_that_are_robust_to_a_wrong_variance_are_those_of_r(file, name, kind):
    covariance, _ = fitted_as(file, name, kind)
    np.testing.assert_allclose(covariance, EXACT[name][kind], rtol=1e-6, atol=1e-10)
    if kind == "HC1":
        np.testing.assert_array_equal(covariance, fitted_as(file, name, "robust")[0])


@pytest.mark.slow
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


@pytest.mark.slow
def test_leverages_of_one_are_refused_by_name(tmp_path):
    frame = ROWS.assign(port=["Z", *["A", "B", "C"] * 199, "A", "B"])
    file = ingest_frame(frame, tmp_path)
    with pytest.raises(UserError, match=r"models.m.std_errors: HC3 divides .* only training row of `port\[Z\]`\n.*HC1"):
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


CROSSED = {"two_HC1": "cluster(day + plane)", "three": "cluster(day + plane + carrier)"}


@pytest.mark.parametrize("key", CROSSED)
@pytest.mark.parametrize("name", FITS)
def test_covariances_by_clusters_of_several_columns_are_those_of_r(file, name, key):
    covariance, estimates = fitted_as(file, name, CROSSED[key])
    np.testing.assert_allclose(covariance, EXACT[name][key], rtol=1e-6, atol=1e-10)
    errors = standard_errors(estimates.design, estimates.fitted.covariance)
    assert errors["clusters_by_column"] == {
        column: ROWS[column].nunique() for column in ("day", "plane", "carrier")[: 2 + (key == "three")]
    }
    assert errors["clusters"] == min(errors["clusters_by_column"].values())
    # The degrees of freedom are those of the column with the fewest clusters that count.
    if key == "two_HC1":
        of_each = [fitted_as(file, name, f"cluster({column})", limits=CR1)[1] for column in ("day", "plane")]
        df = [coefficients.table(each, 0.95)["df"][each.kept] for each in of_each]
        np.testing.assert_allclose(coefficients.table(estimates, 0.95)["df"][estimates.kept], np.min(df, axis=0))


@pytest.mark.slow
def test_the_smallest_share_tells_whether_a_covariance_by_clusters_of_several_columns_is_one(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": np.repeat(range(8), 8), "b": list(range(8)) * 8, "x": random.normal(size=64)})
    frame = pd.concat([frame.assign(g=g) for g in "klmn"], ignore_index=True)
    found = []
    for seed in range(20):
        frame["y"] = np.random.default_rng(seed).normal(size=len(frame))
        estimates = fitted_frame(frame, tmp_path / str(seed), "y ~ x + g", "cluster(a + b)")
        covariance = coefficients.covariance_table(estimates).to_numpy()
        classical = estimates.fitted.covariance.classical(estimates.transform[np.flatnonzero(estimates.kept)])
        least = scipy.linalg.eigh(covariance, classical, eigvals_only=True)[0]
        share = standard_errors(estimates.design, estimates.fitted.covariance)["smallest_share"]
        assert share == pytest.approx(max(least, 0) if least > -1e-9 else least, rel=1e-6, abs=1e-9)
        warned = any("not positive semidefinite" in warning for warning in estimates.fitted.summary["warnings"])
        assert warned == (share < 0)
        found.append(share < 0)
        table = coefficients.table(estimates, 0.95)[estimates.kept]
        negative = np.diag(covariance) <= 0
        assert table["std_error"].isna().to_numpy()[negative].all()
        assert (table["note"][negative] == NOT_POSITIVE).all()
        joint = joint_tests(replace(estimates, fewest=ANY)).set_index("term")
        of_g = covariance[2:, 2:]
        if np.linalg.eigvalsh(of_g)[0] < 0 and (np.diag(of_g) > 0).all():
            assert np.isnan(joint.loc["g", "p_value"]) and "positive" in joint.loc["g", "note"]
    assert any(found) and not all(found)


@pytest.mark.parametrize("lags", [0, 1, 4])
@pytest.mark.parametrize("name", FITS)
def test_covariances_of_driscoll_and_kraay_are_those_of_r(file, name, lags):
    covariance, estimates = fitted_as(file, name, f"driscoll_kraay(day, lags={lags})")
    seen = serial.share_seen(60, lags)
    np.testing.assert_allclose(covariance * seen, EXACT[name][f"driscoll_kraay_{lags}"], rtol=1e-6, atol=1e-10)
    errors = standard_errors(estimates.design, estimates.fitted.covariance)
    assert (errors["dates"], errors["lags"]) == (60, lags)


@pytest.mark.parametrize("lags", [0, 1, 4])
@pytest.mark.parametrize(("family", "response"), [("gaussian", "delay"), ("poisson", "count")])
def test_covariances_of_newey_and_west_are_those_of_r(tmp_path, family, response, lags):
    exact = EXACT[f"daily_{family}"]
    daily = ROWS.drop_duplicates("day")
    estimates = fitted_frame(daily, tmp_path, f"{response} ~ {FORMULA}", f"newey_west(day, lags={lags})", family)
    np.testing.assert_allclose(estimates.values[estimates.kept], exact["coefficients"], rtol=1e-6)
    covariance = coefficients.covariance_table(estimates).to_numpy() * serial.share_seen(60, lags)
    np.testing.assert_allclose(covariance, exact[f"newey_west_{lags}"], rtol=1e-6, atol=1e-8)


def test_tests_of_dates_that_are_alike(file):
    estimates = fitted_as(file, "gaussian", "driscoll_kraay(day)")[1]
    fitted, lags = estimates.fitted, 10  # 1.3 times the root of 60
    assert fitted.summary["std_errors"]["lags"] == lags == serial.default_lags(60)
    # The sums over dates of what each adds to an estimate, from the rows.
    x, y = model_matrix(ROWS, f"y ~ {FORMULA}").to_numpy(), ROWS["delay"].to_numpy()
    inverse = np.linalg.inv(x.T @ x)
    scores = x * (y - x @ inverse @ x.T @ y)[:, None]
    by_date = np.array([scores[ROWS["day"] == day].sum(0) for day in range(1, 61)]) @ inverse
    squares = by_date**2
    weights = np.maximum(1 - np.abs(np.subtract.outer(range(60), range(60))) / (lags + 1), 0) ** 2 * (
        1 - 2 / 3 * np.eye(60)
    )
    most = 59 / sum((1 - abs(lag) / (lags + 1)) ** 2 for lag in range(-lags, lags + 1))
    expected = np.minimum(squares.sum(0) ** 2 / np.einsum("ti,ts,si->i", squares, weights, squares), most)
    table = coefficients.table(replace(estimates, fewest=ANY), 0.9)[estimates.kept]
    np.testing.assert_allclose(table["df"], expected, rtol=1e-6)
    np.testing.assert_allclose(table["p_value"], 2 * scipy.stats.t.sf(table["t"].abs(), table["df"]), rtol=1e-9)
    noted = coefficients.table(estimates, 0.95)["note"]
    assert noted.str.contains("too few dates: the ").any()
    term = joint_tests(replace(estimates, fewest=ANY)).set_index("term").loc["carrier"]
    chosen = by_date[:, 1:4]
    chosen = chosen @ np.linalg.inv(np.linalg.cholesky(chosen.T @ chosen)).T
    gram = chosen @ chosen.T
    variances = np.outer(np.diag(gram), np.diag(gram)) + gram**2
    np.fill_diagonal(variances, 3 * np.diag(gram) ** 2)
    eta = min(12 / np.sum(weights * variances), most)
    assert term["df_denominator"] == pytest.approx(eta - 2, rel=1e-6)
    assert term["F"] == pytest.approx((eta - 2) / eta * term["chi_squared"] / 3, rel=1e-6)


def test_degrees_of_freedom_of_dates_come_near_the_critical_values_of_kiefer_and_vogelsang():
    dates = 100_000
    for share in (0.02, 0.05, 0.1, 0.2):
        lags = int(share * dates) - 1
        df = dates / serial.dates_alike(lags)
        ours = scipy.stats.t.ppf(0.975, df) / np.sqrt(serial.share_seen(dates, lags))
        # Their formula for the Bartlett kernel, Econometric Theory 21, 2005, table 1.
        theirs = 1.9600 + 2.9694 * share + 0.4160 * share**2 - 0.5324 * share**3
        assert ours == pytest.approx(theirs, rel=0.012)


def test_a_checkpoint_keeps_clusters_of_several_columns_and_lags(file, tmp_path):
    for kind in ("cluster(day + plane)", "driscoll_kraay(day)"):
        estimates = fitted_as(file, "gaussian", kind)[1]
        checkpoint.save(estimates.fitted, estimates.design, tmp_path / kind[:4])
        again = checkpoint.load(estimates.design, tmp_path / kind[:4])
        np.testing.assert_array_equal(
            again.covariance.of(estimates.transform), estimates.fitted.covariance.of(estimates.transform)
        )
        assert again.covariance.lags == estimates.fitted.covariance.lags


@pytest.mark.slow
def test_predictions_and_averages_have_errors_by_clusters_of_several_columns(file):
    estimates = fitted_as(file, "binomial", "cluster(day + plane)")[1]
    frame = coefficients.contrasts(estimates, {"x": {"hour": 1}}, 0.95).iloc[0]
    assert frame["std_error"] == pytest.approx(np.sqrt(EXACT["binomial"]["two_HC1"][4][4]), rel=1e-6)


@pytest.mark.parametrize(
    ("std_errors", "message"),
    [
        ("driscoll_kraay(day, lags=59)", r"59 lags, but `day` has 60 values .* up to 59 apart\n.* fewer lags"),
        (
            "newey_west(day)",
            r"newey_west is for one row of each date, and 600 .* share 60 .*\n  use `driscoll_kraay\(day\)`",
        ),
        ("driscoll_kraay(carrier)", r"`carrier` has the value `AA`, and only text such as `2013-01-31`"),
        ("cluster(day + one)", r"`one` has only the value `1` .* only one cluster"),
    ],
)
def test_what_cannot_tell_which_rows_are_alike_is_refused_before_training(tmp_path, std_errors, message):
    file = ingest_frame(ROWS.assign(one=1), tmp_path)
    with pytest.raises(UserError, match=rf"models.m.std_errors: {message}"):
        design_of("delay ~ hour", "gaussian", merge([file]), [file], std_errors=std_errors)


def test_too_many_combinations_of_clusters_are_refused(file, monkeypatch):
    monkeypatch.setattr(clusters, "MOST_CELLS", 500)
    with pytest.raises(UserError, match=r"models.m.std_errors: `day` and `plane` have more than 500 combinations"):
        design_of("delay ~ hour", "gaussian", merge([file]), [file], std_errors="cluster(day + plane)")


def test_rows_that_stand_for_several_are_no_series(tmp_path):
    file = ingest_frame(ROWS.drop_duplicates("day"), tmp_path)
    with pytest.raises(UserError, match=r"newey_west is for one row of each date, and a date has 3\n"):
        fit_files([file], "delay ~ hour", "gaussian", frequency="times", std_errors="newey_west(day)")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        *((kind, "std_errors") for kind in ("HC4", "hc3", "HC", "robust(HC3)", "newey_west(day, 4)", "cluster()")),
        ("cluster(a, b)", r"write `cluster\(a \+ b\)`"),
        ("cluster(a + a)", "names a column twice"),
        ("cluster(a + b + c + d)", "4 columns; errors can be clustered by at most 3"),
    ],
)
def test_other_kinds_are_refused(kind, message):
    with pytest.raises(ValueError, match=message):
        DesignConfig(formula="y ~ x", family="gaussian", std_errors=kind)


def test_pages_say_how_errors_were_estimated(file):
    said = {
        "HC3": ("robust to a wrong variance (HC3)", "HC3"),
        "cluster(day + plane)": (
            "robust to rows with the same day or plane being alike (45 clusters; as Cameron, Gelbach and Miller add them up, "
            "tests by t and F with the effective number of clusters)",
            "by day + plane (45 clusters)",
        ),
        "driscoll_kraay(day, lags=3)": (
            "robust to rows being alike whose day is up to 3 apart (60 dates; Driscoll and Kraay, tests by t and F with the "
            "effective number of dates)",
            "Driscoll and Kraay by day (3 lags)",
        ),
    }
    for std_errors, (sentence, words) in said.items():
        fit = fitted_as(file, "gaussian", std_errors)[1].fitted.summary
        assert accuracy.errors(fit) == f"Standard errors: {sentence}."
        assert errors_of(fit) == words


@pytest.mark.slow
def test_tests_by_date_keep_their_level(tmp_path):
    """A small one of `make bench-errors`."""
    random, dates = np.random.default_rng(4), 400

    def series() -> np.ndarray:
        steps = random.normal(size=dates)
        return scipy.signal.lfilter([0.75**0.5], [1, -0.5], steps)

    frame = pd.DataFrame({"date": np.arange(dates), "x": random.normal(size=dates).round(3), "wind": series().round(3)})
    replicates = Replicates(frame, "x + wind", "gaussian", tmp_path, std_errors="newey_west(date)")
    tables = [coefficients.table(replicates.estimates(series()), 0.95)[1:] for _ in range(250)]
    rejected = np.mean([table["p_value"] < 0.05 for table in tables], axis=0)
    classical = np.mean([table["estimate"].abs() > 1.96 * table["classical_std_error"] for table in tables], axis=0)
    low, high = scipy.stats.binom.ppf([0.001, 0.999], 250, 0.05) / 250
    assert np.all((rejected >= low) & (rejected <= high))
    assert classical[1] > high  # of wind, which is as autocorrelated as the errors
