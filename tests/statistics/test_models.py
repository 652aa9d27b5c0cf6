"""Formulas, families, weights and standard errors against statsmodels on formulaic's design matrix of the very same rows."""

import formulaic
import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

from oracles import assert_agrees, flagged, model_matrix
from pools import CR1, estimates_of, fit_design, fit_files, fit_frame, ingest_frame, table_of
from tfglm.config import DesignConfig
from tfglm.data.dictionary import merge
from tfglm.data.limits import MOST_CODES, IngestLimits
from tfglm.design.build import build_design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.reference import Reference
from tfglm.results import coefficients, joint, metrics, predict
from tfglm.solvers.run import Limits


def flights(rows: int = 6000, seed: int = 0) -> pd.DataFrame:
    """A table with several kinds of responses, and dates that rows of like responses share."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "carrier": random.choice(["AA", "B6", "DL", "UA"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "origin": random.choice(["EWR", "JFK", "LGA"], rows),
            "month": random.integers(1, 7, rows),
            "hour": random.integers(5, 24, rows),
            "distance": np.round(random.gamma(4, 250, rows), 1) + 80,
            "seats": random.integers(50, 300, rows),
            "weight": np.round(random.uniform(0.5, 3, rows), 2),
            "times": random.integers(0, 4, rows),
            "flights": random.integers(1, 9, rows),
            "date": random.integers(100, 160, rows),
        }
    )
    weather = dict(zip(range(100, 160), random.normal(0, 0.5, 60), strict=True))
    eta = -0.6 + 0.3 * (frame["carrier"] == "B6") + 0.06 * (frame["hour"] - 13) + 0.1 * (frame["month"] == 2)
    eta += 0.2 * np.sin(frame["distance"] / 300) + frame["date"].map(weather)
    eta += 0.3 * (frame["carrier"] == "UA") * (frame["origin"] == "LGA")
    frame["late"] = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["delay"] = np.round(12 * eta + 20 * random.normal(size=rows), 1)
    frame["bags"] = random.poisson(np.exp(0.3 * eta) * frame["seats"] / 100)
    frame["late_flights"] = random.binomial(frame["flights"], 1 / (1 + np.exp(-eta)))
    return frame


FRAME = flights()


def test_interactions_of_factors_and_of_factors_and_numbers(tmp_path):
    formula = 'late ~ carrier*origin + carrier:hour + hour + C(month, Treatment("3"))'
    design, fitted = fit_frame(FRAME, formula, "binomial", tmp_path)
    matrix = model_matrix(FRAME.assign(month=FRAME["month"].astype(str)), formula)
    exact = sm.GLM(FRAME["late"], matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    table = table_of(design, fitted)
    assert_agrees(table, exact, list(matrix.columns))
    assert flagged(table) == {}
    assert set(table.loc["C(month)", "reference"]) == {"3"}
    assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert fitted.summary["df_residual"] == exact.df_resid
    # Only the coefficients of the oracle are estimated; the others are held at zero as reference levels.
    assert (table.drop(index=list(matrix.columns))["estimate"] == 0).all()


def test_products_of_numbers_without_an_intercept_and_interactions_without_main_effects(tmp_path):
    formula = "delay ~ carrier + hour*distance + origin:hour:distance + carrier:C(month) - 1"
    design, fitted = fit_frame(FRAME, formula, "gaussian", tmp_path)
    matrix = model_matrix(FRAME, formula)
    exact = sm.OLS(FRAME["delay"], matrix.to_numpy()).fit(method="qr")
    table = table_of(design, fitted)
    assert_agrees(table, exact, list(matrix.columns))
    assert ("Intercept", "") not in table.index
    assert fitted.summary["deviance"] == pytest.approx(exact.ssr, rel=1e-10)


TRANSFORMS = "poly(hour, 3) + bs(distance, df=5) + log(seats) + carrier:scale(seats) + center(weight):origin + carrier"


@pytest.mark.parametrize("most_codes", [MOST_CODES, 1000], ids=["coded", "plain"])
def test_functions_of_numbers_learn_as_formulaic_does(tmp_path, most_codes):
    # `distance` has more than 1000 values: it is then stored as plain numbers, and functions of it are part of the pass.
    file = ingest_frame(FRAME, tmp_path, limits=IngestLimits(most_codes=most_codes))
    design, fitted, _ = fit_files([file], f"bags ~ {TRANSFORMS}", "poisson", offset="log(seats)")
    matrix = model_matrix(FRAME, f"bags ~ {TRANSFORMS}")
    exact = sm.GLM(FRAME["bags"], matrix.to_numpy(), sm.families.Poisson(), offset=np.log(FRAME["seats"])).fit(
        method="newton"
    )
    assert_agrees(table_of(design, fitted), exact, list(matrix.columns))
    summary = fitted.summary
    assert summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert summary["deviance"] == pytest.approx(exact.deviance, rel=1e-10)
    assert summary["pearson_dispersion"] == pytest.approx(exact.pearson_chi2 / exact.df_resid, rel=1e-9)
    null = sm.GLM(FRAME["bags"], np.ones(len(FRAME)), sm.families.Poisson(), offset=np.log(FRAME["seats"])).fit()
    assert summary["null_deviance"] == pytest.approx(null.deviance, rel=1e-9)


@pytest.mark.slow
def test_prior_weights_and_frequencies_are_different(tmp_path):
    rows = FRAME[FRAME["times"] > 0]
    formula = "delay ~ carrier + scale(hour)"
    matrix = model_matrix(rows, formula)
    weighted = sm.WLS(rows["delay"], matrix.to_numpy(), weights=rows["weight"] * rows["times"]).fit()
    design, fitted = fit_frame(rows, formula, "gaussian", tmp_path / "w", weights="weight")
    exact = sm.WLS(rows["delay"], matrix.to_numpy(), weights=rows["weight"]).fit()
    assert_agrees(table_of(design, fitted), exact, list(matrix.columns))
    assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    # Each row as often as it says, one after another; those of frequency 0 are not there.
    repeated = rows.loc[rows.index.repeat(rows["times"])]
    exact = sm.WLS(repeated["delay"], model_matrix(repeated, formula).to_numpy(), weights=repeated["weight"]).fit()
    design, fitted = fit_frame(FRAME, formula, "gaussian", tmp_path / "f", weights="weight", frequency="times")
    table = table_of(design, fitted)
    assert_agrees(table, exact, list(matrix.columns))
    assert fitted.summary["rows"] == len(repeated)
    assert fitted.summary["df_residual"] == exact.df_resid
    assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    carriers = slice(1, 4)  # the other coefficients are on the scale of other rows
    assert np.allclose(weighted.params.iloc[carriers], exact.params.iloc[carriers])
    assert not np.allclose(weighted.bse.iloc[carriers], exact.bse.iloc[carriers])


def test_events_of_trials(tmp_path):
    formula = "late_flights ~ carrier + hour"
    matrix = model_matrix(FRAME, formula)
    response = np.stack([FRAME["late_flights"], FRAME["flights"] - FRAME["late_flights"]], 1)
    exact = sm.GLM(response, matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    design, fitted = fit_frame(FRAME, formula, "binomial", tmp_path, trials="flights", std_errors="quasi")
    table = table_of(design, fitted)
    dispersion = exact.pearson_chi2 / exact.df_resid
    np.testing.assert_allclose(table.loc[list(matrix.columns), "classical_std_error"], exact.bse, rtol=1e-5)
    np.testing.assert_allclose(table.loc[list(matrix.columns), "std_error"], exact.bse * np.sqrt(dispersion), rtol=1e-5)
    np.testing.assert_allclose(table.loc[list(matrix.columns), "estimate"], exact.params, rtol=1e-6)
    assert [fitted.summary[key] for key in ("log_likelihood", "aic", "bic")] == [None, None, None]
    assert fitted.summary["deviance"] == pytest.approx(exact.deviance, rel=1e-10)
    assert fitted.summary["pearson_dispersion"] == pytest.approx(dispersion, rel=1e-9)


ROBUST = {
    "robust": {"cov_type": "HC0"},
    "cluster(date)": {"cov_type": "cluster", "cov_kwds": {"groups": FRAME["date"]}},
}


@pytest.mark.parametrize("kind", ROBUST)
def test_robust_errors_joint_tests_contrasts_and_their_covariance(tmp_path, kind):
    by_cluster = kind != "robust"
    formula = "late ~ carrier*hour + C(month)"
    matrix = model_matrix(FRAME, formula)
    exact = sm.GLM(FRAME["late"], matrix.to_numpy(), sm.families.Binomial()).fit(
        method="newton", tol=1e-12, **ROBUST[kind]
    )
    design, fitted = fit_frame(FRAME, formula, "binomial", tmp_path, std_errors=kind, limits=CR1)
    estimated = estimates_of(design, fitted)
    table = coefficients.table(estimated, 0.9).set_index(["term", "level"])
    # HC1 is HC0 times n / (n - p); statsmodels' HC1 of a GLM is without it in some versions.
    factor = 1.0 if by_cluster else np.sqrt(len(FRAME) / exact.df_resid)
    ours = table.loc[list(matrix.columns)]
    np.testing.assert_allclose(ours["std_error"], exact.bse * factor, rtol=1e-5)
    interval = np.asarray(exact.conf_int(0.1))
    margin = (interval[:, 1] - np.asarray(exact.params)) * factor
    if by_cluster:
        margin *= scipy.stats.t(ours["df"]).ppf(0.95) / scipy.stats.norm.ppf(0.95)
        assert ours["ci_upper"].notna().sum() >= len(ours) / 2
    tested = ours["ci_upper"].notna() if by_cluster else np.ones(len(ours), bool)
    np.testing.assert_allclose((ours["ci_upper"] - ours["estimate"])[tested], margin[tested], rtol=1e-5)
    classical = sm.GLM(FRAME["late"], matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    np.testing.assert_allclose(ours["classical_std_error"], classical.bse, rtol=1e-5)

    covariance = coefficients.covariance_table(estimated)
    np.testing.assert_allclose(
        covariance,
        np.asarray(exact.cov_params()) * factor**2,
        rtol=1e-4,
        atol=1e-9 * np.asarray(exact.cov_params()).max(),
    )
    terms = joint.joint_tests(estimated).set_index("term")
    pick = np.eye(len(matrix.columns))[[name[0] == "C(month)" for name in matrix.columns]]
    wald = exact.wald_test(pick, scalar=True, use_f=False)
    places = np.flatnonzero(estimated.kept & (np.array([term for term, _ in design.coefficients()]) == "C(month)"))
    value, df, problem = joint.wald(estimated, places, False)
    assert (value, df, problem) == (pytest.approx(wald.statistic / factor**2, rel=1e-5), 5, "")
    assert terms.loc["C(month)", "df"] == 5
    if by_cluster:
        # By the design, more than 50 of 60 clusters say something of the five coefficients.
        month = terms.loc["C(month)"]
        expected = scipy.stats.f.sf(month["F"], 5, month["df_denominator"])
        assert month["p_value"] == pytest.approx(expected, rel=1e-9) and month["note"] == ""
    else:
        assert terms.loc["C(month)", "chi_squared"] == value
        assert terms.loc["C(month)", "p_value"] == pytest.approx(
            scipy.stats.chi2.sf(wald.statistic / factor**2, 5), rel=1e-3
        )
        assert terms.loc["C(month)", "note"] == ""
    assert terms.loc["carrier", "note"].startswith("depends on the reference")

    contrast = {
        "DL against UA at noon": {"carrier[DL]": 1, "carrier[UA]": -1, "carrier:hour[DL]": 12, "carrier:hour[UA]": -12}
    }
    row = coefficients.contrasts(estimated, contrast, 0.9).iloc[0]
    names = [f"{term}[{level}]" if level else term for term, level in matrix.columns]
    weights = np.array([contrast["DL against UA at noon"].get(name, 0.0) for name in names])
    test = exact.t_test(weights)
    assert row["estimate"] == pytest.approx(test.effect.item(), rel=1e-6)
    assert row["std_error"] == pytest.approx(test.sd.item() * factor, rel=1e-5)
    with pytest.raises(UserError, match=r"no coefficient `carrier\[DX\]`; did you mean `carrier\[DL\]`"):
        coefficients.contrasts(estimated, {"x": {"carrier[DX]": 1}}, 0.9)


@pytest.mark.slow
def test_robust_errors_of_a_linear_regression_with_a_large_eliminated_part(tmp_path):
    random = np.random.default_rng(1)
    frame = FRAME.assign(plane=[f"N{number:03d}" for number in random.integers(0, 150, len(FRAME))])
    formula = "delay ~ carrier + plane + hour"
    matrix = model_matrix(frame, formula)
    model = sm.OLS(frame["delay"], matrix.to_numpy())
    for kind, exact in (("robust", model.fit(cov_type="HC1")), ("classical", model.fit())):
        design, fitted = fit_frame(frame, formula, "gaussian", tmp_path / kind, std_errors=kind)
        estimated = estimates_of(design, fitted)
        table = coefficients.table(estimated, 0.95).set_index(["term", "level"])
        assert_agrees(table, exact, list(matrix.columns))
        terms = joint.joint_tests(estimated).set_index("term")
        pick = np.eye(len(matrix.columns))[[name[0] == "plane" for name in matrix.columns]]
        wald = exact.wald_test(pick, scalar=True, use_f=True)
        assert terms.loc["plane", "F"] == pytest.approx(wald.statistic, rel=1e-6)
        assert (
            terms.loc["plane", "p_value"]
            == pytest.approx(exact.wald_test(pick, scalar=True, use_f=True).pvalue, rel=1e-4)
            or kind == "robust"
        )
    # The same from the information that is left of the eliminated part, without its covariance.
    assert fitted.covariance.eliminated_wald(fitted.coefficients) == pytest.approx(
        149 * terms.loc["plane", "F"], rel=1e-9
    )


def test_ridge_does_not_depend_on_reference_levels_and_has_no_standard_errors(tmp_path):
    formula, l2 = "late ~ carrier + origin + hour", 0.01
    design, fitted = fit_frame(FRAME, formula, "binomial", tmp_path, l2=l2)
    columns = [np.ones(len(FRAME))]
    columns += [FRAME["carrier"] == level for level in sorted(FRAME["carrier"].unique())]
    columns += [FRAME["origin"] == level for level in sorted(FRAME["origin"].unique())]
    columns += [(FRAME["hour"] - FRAME["hour"].mean()) / FRAME["hour"].std(ddof=0)]
    x, y = np.stack(columns, 1).astype(float), FRAME["late"].to_numpy(float)
    penalty = len(y) * l2 * np.diag([0.0] + [1.0] * (x.shape[1] - 1))
    b = np.zeros(x.shape[1])
    for _ in range(30):
        mean = 1 / (1 + np.exp(-x @ b))
        information = x.T @ (x * (mean * (1 - mean))[:, None])
        b -= np.linalg.solve(information + penalty, x.T @ (mean - y) + penalty @ b)
    np.testing.assert_allclose(fitted.coefficients, b, rtol=1e-8, atol=1e-10)
    table = table_of(design, fitted)
    inverse = np.linalg.inv(information + penalty)
    np.testing.assert_allclose(table["posterior_sd"].iloc[1:-1], np.sqrt(np.diag(inverse))[1:-1], rtol=1e-8)
    assert table["std_error"].isna().all() and "p_value" not in table
    assert fitted.summary["effective_coefficients"] == pytest.approx(np.trace(inverse @ information), rel=1e-9)
    assert fitted.summary["largest_kkt_violation"] < 1e-6 * l2
    assert fitted.summary["std_errors"] == {"kind": "none"}


def test_a_factor_nested_in_another_is_aliased_as_in_r_and_empty_combinations_have_no_coefficient(tmp_path):
    random = np.random.default_rng(2)
    frame = FRAME[~((FRAME["carrier"] == "UA") & (FRAME["origin"] == "JFK"))].copy()
    frame["flight"] = frame["carrier"] + random.integers(10, 15, len(frame)).astype(str)
    design, fitted = fit_frame(frame, "delay ~ carrier + flight + carrier:origin + origin", "gaussian", tmp_path)
    table = table_of(design, fitted)
    assert ("carrier:origin", "UA:JFK") not in table.index
    # Of UA only LGA is left to differ from EWR; what R cannot estimate it drops from the end.
    assert flagged(table) == {("flight", f"{carrier}14"): "aliased" for carrier in ("B6", "DL", "UA")}
    kept = table[(table["status"] == "") & table["std_error"].notna()]
    groups = frame["flight"] + frame["origin"]
    columns = {name: np.ones(len(frame)) for name in kept.index if name[0] == "Intercept"}
    for term, level in kept.index:
        if term in ("carrier", "flight", "origin"):
            columns[term, level] = (frame[term] == level).to_numpy(float)
        elif term == "carrier:origin":
            carrier, origin = level.split(":")
            columns[term, level] = ((frame["carrier"] == carrier) & (frame["origin"] == origin)).to_numpy(float)
    matrix = pd.DataFrame(columns)
    assert np.linalg.matrix_rank(matrix) == len(matrix.columns) and groups.nunique() > len(matrix.columns)
    assert_agrees(table, sm.OLS(frame["delay"].to_numpy(), matrix.to_numpy()).fit(method="qr"), list(matrix.columns))


def test_combinations_whose_responses_are_all_alike_are_separated(tmp_path):
    frame = FRAME.copy()
    both = (frame["carrier"] == "UA") & (frame["origin"] == "JFK")
    frame.loc[both, "late"] = 1
    design, fitted = fit_frame(frame, "late ~ carrier + origin + carrier:origin", "binomial", tmp_path)
    table = table_of(design, fitted)
    assert flagged(table) == {("carrier:origin", "UA:JFK"): "separated"}
    assert table.loc[("carrier:origin", "UA:JFK"), "estimate"] == np.inf
    assert fitted.summary["rows_of_separated_levels"] == both.sum()
    rest = frame[~both]
    matrix = model_matrix(rest, "late ~ carrier*origin").drop(columns=[("carrier:origin", "UA:JFK")])
    exact = sm.GLM(rest["late"], matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    assert_agrees(table, exact, list(matrix.columns))


def test_a_term_with_separated_levels_is_tested_by_its_likelihood_ratio(tmp_path):
    frame = FRAME.assign(dest=[f"D{number}" for number in np.random.default_rng(4).integers(0, 8, len(FRAME))])
    frame.loc[frame["dest"] == "D3", "late"] = 0
    design, fitted = fit_frame(frame, "late ~ dest + carrier + hour", "binomial", tmp_path)
    terms = joint.joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"])
    row = terms.set_index("term").loc["dest"]
    less = sm.GLM(frame["late"], model_matrix(frame, "late ~ carrier + hour").to_numpy(), sm.families.Binomial()).fit()
    rest = frame[frame["dest"] != "D3"]
    matrix = model_matrix(rest, "late ~ dest + carrier + hour")
    more = sm.GLM(rest["late"], matrix.to_numpy(), sm.families.Binomial()).fit()
    assert row["chi_squared"] == pytest.approx(2 * (more.llf - less.llf), rel=1e-8)
    assert (row["df"], row["note"]) == (7, "likelihood ratio, as there are separated levels")


@pytest.mark.slow
def test_values_that_training_has_not_seen(tmp_path):
    train, later = FRAME.assign(year=1), flights(400, seed=1).assign(year=2)
    later.loc[:9, "distance"] = [5000.0] * 6 + [1.0] * 4
    later.loc[10:12, "seats"] = 0
    frame = pd.concat([train, later], ignore_index=True)
    split = {"split": {"train": "year = 1", "evaluate": "year = 2"}}
    actual = {}
    for most_codes in (MOST_CODES, 1000):
        limits = IngestLimits(most_codes=most_codes)
        file = ingest_frame(frame, tmp_path / str(most_codes), limits=limits, **split)
        design, fitted, _ = fit_files([file], "late ~ bs(distance, df=4) + log(seats)", "binomial")
        scored = predict.score(Workload(design, [file], "evaluate"), fitted)
        actual[most_codes] = metrics.evaluate(design, scored, 0.5)
        limits = FRAME["distance"].agg(["min", "max"])
        outside = ~later["distance"].between(*limits)
        assert actual[most_codes]["rows_outside_spline_range"] == outside.sum() >= 10
        assert actual[most_codes]["rows_without_finite_value"] == 3
        assert actual[most_codes]["rows"] == len(later) - 3
    matrix = model_matrix(FRAME, "late ~ bs(distance, df=4) + log(seats)")
    exact = sm.GLM(FRAME["late"].to_numpy(), matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    spec = formulaic.ModelSpec.from_spec(formulaic.model_matrix("bs(distance, df=4) + log(seats)", FRAME).model_spec)
    kept = later[later["seats"] > 0].assign(distance=later["distance"].clip(*limits))
    eta = spec.get_model_matrix(kept).to_numpy() @ exact.params
    log_loss = np.mean(np.logaddexp(0, eta) - kept["late"] * eta)
    assert [each["log_loss"] for each in actual.values()] == pytest.approx([log_loss] * 2, rel=1e-8)


def test_a_function_that_is_not_finite_for_a_training_row_stops_the_fit(tmp_path):
    # Of a column of plain numbers the design sees a sample alone, so it is the fit that meets such a row.
    frame = FRAME.assign(distance=FRAME["distance"].where(FRAME.index != 5000, 0.0))
    file = ingest_frame(frame, tmp_path, limits=IngestLimits(most_codes=1000))
    settings = DesignConfig(formula="late ~ log(distance)", family="binomial")
    design = build_design("m", settings, merge([file]), [file], most_sampled=100)
    with pytest.raises(
        UserError, match=r"a function has no finite value for 1 training rows, for example the logarithm of 0"
    ):
        fit_design(design, [file])


def test_impossible_responses_and_rows_without_weight_are_refused(tmp_path):
    frame = FRAME.assign(none=0, events=FRAME["flights"] + (FRAME.index < 7))
    file = ingest_frame(frame, tmp_path)
    with pytest.raises(UserError, match=r"7 training rows have more events in `events` than trials in `flights`"):
        fit_files([file], "events ~ carrier", "binomial", trials="flights")
    with pytest.raises(UserError, match=r"models.m.weights: `none` is 0 in all training rows"):
        fit_files([file], "late ~ carrier", "binomial", weights="none")


def test_nearly_determined_columns_are_named_with_their_inflation(tmp_path):
    random = np.random.default_rng(3)
    frame = FRAME.assign(miles=FRAME["distance"] + random.normal(0, 0.5, len(FRAME)))
    _, fitted = fit_frame(frame, "delay ~ carrier + distance + miles", "gaussian", tmp_path)
    (near,) = fitted.summary["nearly_aliased"]
    matrix = model_matrix(frame, "delay ~ carrier + distance + miles")
    place = list(matrix.columns).index(("miles", ""))
    assert near["term"] == "miles" and near["pivot"] < 1e-3
    assert near["vif"] == pytest.approx(variance_inflation_factor(matrix.to_numpy(), place), rel=1e-6)
    assert near["with"] == [{"term": "distance", "level": ""}]
    assert fitted.summary["warnings"][0].endswith(f"miles (VIF {near['vif']:,.0f}, with distance)")


def test_the_logarithm_of_a_p_value_goes_on_where_the_p_value_is_zero():
    def of(df, values):
        return Reference(np.array(np.inf if df is None else df)).neg_log10_p(np.array(values), np.ones(len(values)))

    far = (50.0**2 / 2 - np.log(scipy.special.erfcx(50 / np.sqrt(2)))) / np.log(10)
    # p = erfc(z / sqrt(2)), of which the scaled function does not underflow.
    assert of(None, [1.959963984540054, 50.0]) == pytest.approx([-np.log10(0.05), far], rel=1e-9)
    assert of(1e5, [10.0])[0] == pytest.approx(-np.log10(2 * scipy.stats.t.sf(10.0, 1e5)), rel=1e-12)
    assert of(1e5, [60.0])[0] == pytest.approx(log10_p_of_t(60.0, 1e5), rel=1e-4)
    far = joint.log_chi2_sf(np.array([1200.0, 300.0]), np.array([5.0, 12.0]))
    assert far == pytest.approx(scipy.stats.chi2.logsf([1200.0, 300.0], [5.0, 12.0]), rel=1e-9)


def log10_p_of_t(value: float, df: float) -> float:
    """-log10 of the two-sided p-value of t by numerical integration of its density, scaled so that nothing underflows."""
    logs = lambda t: scipy.stats.t.logpdf(t, df) - scipy.stats.t.logpdf(value, df)  # noqa: E731
    integral, _ = scipy.integrate.quad(lambda t: np.exp(logs(t)), value, value + 5)
    return -(np.log(2 * integral) + scipy.stats.t.logpdf(value, df)) / np.log(10)


def test_many_rows_start_from_a_sample_and_end_at_the_same_place(tmp_path):
    limits = Limits(sample_share=0.1, sample_rows=100, sample_rows_per_coefficient=1)
    told = []
    formula = "late ~ carrier + origin + hour"
    design, fitted = fit_frame(FRAME, formula, "binomial", tmp_path, tell=told.append, limits=limits)
    assert any("on 10% of the rows, iteration 1" in line for line in told)
    matrix = model_matrix(FRAME, formula)
    exact = sm.GLM(FRAME["late"], matrix.to_numpy(), sm.families.Binomial()).fit(method="newton")
    assert_agrees(table_of(design, fitted), exact, list(matrix.columns))
    assert fitted.summary["null_deviance"] == pytest.approx(exact.null_deviance, rel=1e-10)
