"""Standard errors, tests and intervals by cluster, against rows x rows matrices and R."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats

import tfglm
from oracles import MatricesOfRows, model_matrix
from pools import CR1, estimates_of, fit_files, fit_frame, ingest_frame, table_of
from replicates import Replicates
from tfglm import checkpoint
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.cr2 import CR2, ClusterModel
from tfglm.inference.reference import FEWEST, UNRELIABLE, Fewest, Reference
from tfglm.results import coefficients, effects
from tfglm.results.joint import joint_tests
from tfglm.solvers.report import standard_errors

GOLDEN = Path(__file__).parents[1] / "golden"


def rows_of_clusters(clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Design matrix, weights, residuals and clusters: one column is constant in clusters, one is 1 in a single cluster."""
    random = np.random.default_rng(0)
    cluster = np.sort(random.integers(0, clusters, 200))
    x = np.c_[np.ones(200), random.normal(size=(200, 3)), random.normal(size=clusters)[cluster], cluster == 3]
    weight, y = random.random(200) + 0.2, random.normal(size=200)
    return x, weight, y - x @ np.linalg.solve(x.T @ (weight[:, None] * x), x.T @ (weight * y)), cluster


def parts_of(
    x: np.ndarray, weight: np.ndarray, residual: np.ndarray, cluster: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The information and the score of each cluster."""
    rows = [cluster == number for number in range(cluster.max() + 1)]
    information = np.stack([x[each].T @ (weight[each, None] * x[each]) for each in rows])
    return information, np.stack([x[each].T @ (weight * residual)[each] for each in rows])


@pytest.mark.parametrize("clusters", [12, 30])
@pytest.mark.parametrize("rho", [0.0, 0.3, 5.0])
def test_cr2_and_its_degrees_of_freedom_are_those_of_matrices_of_rows(rho, clusters):
    x, weight, residual, cluster = rows_of_clusters(clusters)
    exact = MatricesOfRows(x, weight, residual, cluster, rho)
    information, scores = parts_of(x, weight, residual, cluster)
    actual = ClusterModel(information, np.eye(6)[0], rho)
    half = actual.adjusted(scores) @ exact.bread
    np.testing.assert_allclose(half.T @ half, exact.covariance, rtol=1e-8, atol=1e-12 * exact.covariance.max())
    df, share = actual.satterthwaite(np.eye(6))
    np.testing.assert_allclose(df, [exact.satterthwaite(each) for each in np.eye(6)], rtol=1e-8)
    # All but that of the column which one cluster alone determines, whose variance cannot be seen.
    np.testing.assert_allclose(share[:5], 1.0, rtol=1e-8)
    assert share[5] < 0.2
    for chosen in ([1], [1, 2], [1, 4], [0, 1, 2, 3, 4]):
        spread = actual.hotelling(np.eye(6)[chosen])
        assert spread.df == pytest.approx(exact.hotelling(np.eye(6)[chosen]), rel=1e-8)
        assert spread.share == pytest.approx(1.0)
    assert actual.hotelling(np.eye(6)[[4, 5]]).share < 0.2
    # A bound that is enough is as good as the number, and a number that is not is exact.
    for enough in (df[:5].min() / 3, df[1], 1.1 * df[1]):
        bound, _ = actual.satterthwaite(np.eye(6), enough)
        np.testing.assert_array_equal(bound[:5] >= enough, df[:5] >= enough)
        assert np.all((bound <= df)[:5]) and np.array_equal(bound[:5][df[:5] < enough], df[:5][df[:5] < enough])
    eta = actual.hotelling(np.eye(6)[[1, 2, 3]]).df
    assert 3 <= actual.hotelling(np.eye(6)[[1, 2, 3]], enough=3).df < eta
    assert actual.hotelling(np.eye(6)[[1, 2, 3]], enough=1.1 * eta).df == pytest.approx(eta, rel=1e-12)
    # A cluster whose rows have no weight changes nothing.
    empty = np.zeros((1, 6, 6))
    also = ClusterModel(np.concatenate([empty, information]), np.eye(6)[0], rho)
    np.testing.assert_array_equal(also.adjusted(np.concatenate([empty[0, :1], scores]))[0], 0.0)
    np.testing.assert_allclose(also.satterthwaite(np.eye(6))[0], df, rtol=1e-12)
    assert also.hotelling(np.eye(6)[[1, 4]]).df == pytest.approx(actual.hotelling(np.eye(6)[[1, 4]]).df, rel=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_a_penalty_is_as_rows_with_a_known_variance(rho):
    x, weight, residual, cluster = rows_of_clusters(12)
    penalty = np.array([0.0, 30.0, 200.0, 0.0, 0.0, 4.0])
    exact = MatricesOfRows(x, weight, residual, cluster, rho, penalty)
    information, scores = parts_of(x, weight, residual, cluster)
    actual = ClusterModel(information, np.eye(6)[0], rho, penalty)
    half = actual.adjusted(scores) @ exact.bread
    np.testing.assert_allclose(half.T @ half, exact.covariance, rtol=1e-8, atol=1e-12 * exact.covariance.max())
    df, share = actual.satterthwaite(np.eye(6))
    np.testing.assert_allclose(df, [exact.satterthwaite(each) for each in np.eye(6)], rtol=1e-8)
    np.testing.assert_allclose(share, 1.0, rtol=1e-8)  # a penalty leaves no direction to a single cluster
    for chosen in ([2], [1, 2], [1, 4], range(6)):
        spread = actual.hotelling(np.eye(6)[chosen])
        assert spread.df == pytest.approx(exact.hotelling(np.eye(6)[chosen]), rel=1e-8)
        assert spread.share == pytest.approx(1.0)


@pytest.mark.slow
def test_rho_is_found_where_clusters_share_something():
    random = np.random.default_rng(3)
    cluster = np.repeat(np.arange(300), random.integers(1, 40, 300))
    x = np.c_[np.ones(len(cluster)), random.normal(size=len(cluster))]
    rhos = []
    for _ in range(40):
        y = 0.5 * random.normal(size=300)[cluster] + random.normal(size=len(cluster))
        residual = y - x @ np.linalg.lstsq(x, y)[0]
        information, scores = parts_of(x, np.ones(len(y)), residual, cluster)
        rhos.append(ClusterModel(information, np.eye(2)[0]).with_rho(scores, 1.0).rho)
    assert np.mean(rhos) == pytest.approx(0.25, abs=0.02)


# Fits -------------------------------------------------------------------------------------------------------------------

ROWS = pd.read_csv(GOLDEN / "clustered.csv")
FORMULA = "carrier + hour + wind"
FAMILIES = {"gaussian": "delay", "binomial": "late"}


def matrix_of(frame: pd.DataFrame) -> np.ndarray:
    carriers = [(frame["carrier"] == each).to_numpy(float) for each in sorted(frame["carrier"].unique())[1:]]
    return np.stack([np.ones(len(frame)), *carriers, frame["hour"], frame["wind"]], axis=1)


def working(
    frame: pd.DataFrame, family: str, estimates: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Working weights and residuals of the linear predictor."""
    eta, y = matrix_of(frame) @ estimates, frame[FAMILIES[family]].to_numpy(float)
    if family == "gaussian":
        return weight, y - eta
    mean = 1 / (1 + np.exp(-eta))
    return weight * mean * (1 - mean), (y - mean) / (mean * (1 - mean))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights", [None, "weight"])
def test_the_table_of_a_fit_has_cr2_errors_satterthwaite_tests_and_an_aht_test(tmp_path, family, weights):
    frame = ROWS.assign(weight=1 + ROWS.index % 3)
    formula = f"{FAMILIES[family]} ~ {FORMULA}"
    design, fitted = fit_frame(frame, formula, family, tmp_path, std_errors="cluster(day)", weights=weights)
    estimated = replace(estimates_of(design, fitted), fewest=Fewest(df=2, df_joint=2))
    table = coefficients.table(estimated, 0.9)
    kept = table[estimated.kept]
    used = frame["weight"].to_numpy(float) if weights else np.ones(len(frame))
    weight, residual = working(frame, family, kept["estimate"].to_numpy(), used)
    exact = MatricesOfRows(matrix_of(frame), weight, residual, frame["day"].to_numpy(), fitted.covariance.rho)
    assert fitted.covariance.rho > 0.2
    np.testing.assert_allclose(kept["std_error"], np.sqrt(np.diag(exact.covariance)), rtol=1e-6)
    np.testing.assert_allclose(kept["df"], [exact.satterthwaite(each) for each in np.eye(6)], rtol=1e-6)
    distribution = scipy.stats.t(kept["df"])
    np.testing.assert_allclose(kept["t"], kept["estimate"] / kept["std_error"])
    np.testing.assert_allclose(kept["p_value"], 2 * distribution.sf(kept["t"].abs()), rtol=1e-9)
    np.testing.assert_allclose(kept["neg_log10_p"], -np.log10(kept["p_value"]), rtol=1e-9)
    np.testing.assert_allclose(
        kept["ci_upper"] - kept["estimate"], distribution.ppf(0.95) * kept["std_error"], rtol=1e-9
    )
    assert (kept["note"] == "").all()

    term = joint_tests(estimated).set_index("term").loc["carrier"]
    chosen = np.eye(6)[1:4]
    estimates = chosen @ kept["estimate"].to_numpy()
    statistic = estimates @ np.linalg.solve(chosen @ exact.covariance @ chosen.T, estimates)
    eta = exact.hotelling(chosen)
    assert term["chi_squared"] == pytest.approx(statistic, rel=1e-5)
    assert term["df"] == 3 and term["df_denominator"] == pytest.approx(eta - 2, rel=1e-6)
    assert term["F"] == pytest.approx((eta - 2) / eta * statistic / 3, rel=1e-5)
    assert term["p_value"] == pytest.approx(scipy.stats.f.sf(term["F"], 3, eta - 2), rel=1e-8)

    contrast = coefficients.contrasts(estimated, {"x": {"carrier[DL]": 1, "carrier[UA]": -1}}, 0.9).iloc[0]
    weights = np.array([0, 0, 1, -1, 0, 0.0])
    assert contrast["std_error"] == pytest.approx(np.sqrt(weights @ exact.covariance @ weights), rel=1e-6)
    assert contrast["df"] == pytest.approx(exact.satterthwaite(weights), rel=1e-6)
    errors = standard_errors(design, fitted.covariance)
    assert errors["clusters"] == frame["day"].nunique() and errors["estimator"] == "CR2"


def test_a_checkpoint_keeps_what_degrees_of_freedom_need(tmp_path):
    design, fitted = fit_frame(ROWS, f"late ~ {FORMULA}", "binomial", tmp_path, std_errors="cluster(day)")
    checkpoint.save(fitted, design, tmp_path / "checkpoint")
    again = replace(checkpoint.load(design, tmp_path / "checkpoint"), summary=fitted.summary)
    pd.testing.assert_frame_equal(table_of(design, again), table_of(design, fitted))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_covariances_by_cluster_are_those_of_r(tmp_path, family, monkeypatch):
    exact = json.loads((GOLDEN / "clustered.json").read_text())[family]
    formula = f"{FAMILIES[family]} ~ {FORMULA}"
    if family == "gaussian":
        # sandwich's HC2 by cluster is CR2 with independent rows as the working model; that of a glm is another one.
        monkeypatch.setattr(ClusterModel, "with_rho", lambda self, scores, dispersion: self)
        design, fitted = fit_frame(ROWS, formula, family, tmp_path / "cr2", std_errors="cluster(day)")
        np.testing.assert_allclose(coefficients.covariance_table(estimates_of(design, fitted)), exact["HC2"], rtol=1e-8)
    design, fitted = fit_frame(ROWS, formula, family, tmp_path / "cr1", std_errors="cluster(day)", limits=CR1)
    covariance = coefficients.covariance_table(estimates_of(design, fitted))
    np.testing.assert_allclose(covariance, exact["HC1"], rtol=1e-7, atol=1e-9)
    assert not isinstance(fitted.covariance, CR2)


def test_without_cr2_the_effective_clusters_are_the_degrees_of_freedom(tmp_path):
    formula = f"delay ~ {FORMULA}"
    design, fitted = fit_frame(ROWS, formula, "gaussian", tmp_path, std_errors="cluster(day)", limits=CR1)
    table = table_of(design, fitted)
    kept = table[table["std_error"].notna()]
    x, y = matrix_of(ROWS), ROWS["delay"].to_numpy()
    residual = y - x @ np.linalg.lstsq(x, y)[0]
    scores = np.stack([(x * residual[:, None])[ROWS["day"] == day].sum(0) for day in ROWS["day"].unique()])
    squares = (scores @ np.linalg.inv(x.T @ x)) ** 2
    np.testing.assert_allclose(kept["df"], np.minimum(3 * squares.sum(0) ** 2 / (squares**2).sum(0), 24), rtol=1e-6)
    # Fewer than 40 clusters: no test.
    assert kept["p_value"].isna().all() and kept["note"].str.startswith("too few clusters: the ").all()


def test_what_single_clusters_determine_has_no_error_and_no_test(tmp_path):
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"weekday": random.integers(1, 8, 3000), "x": random.normal(size=3000)})
    frame["y"] = random.normal(size=3000) + random.normal(size=8)[frame["weekday"]]
    design, fitted = fit_frame(frame, "y ~ C(weekday) + x", "gaussian", tmp_path, std_errors="cluster(weekday)")
    table = table_of(design, fitted)
    weekday = table.loc["C(weekday)"].iloc[1:]
    assert weekday["std_error"].isna().all() and weekday["p_value"].isna().all() and weekday["ci_lower"].isna().all()
    assert weekday["note"].str.startswith("determined within single clusters").all()
    contrasts = fitted.covariance.bread.on_free(estimates_of(design, fitted).transform)
    share = dict(zip(table.index, fitted.covariance.model.determined_share(contrasts), strict=True))
    assert all(share[name] > 0.5 for name in [("C(weekday)", str(day)) for day in range(2, 8)])
    assert share["x", ""] < 1e-6
    # Of x there are seven clusters, too few for CR2.
    x = table.loc["x", ""]
    assert x["std_error"] > 0 and x["df"] < 7 and x["p_value"] > 0 and "wild cluster bootstrap" in x["note"]
    terms = joint_tests(estimates_of(design, fitted)).set_index("term")
    assert np.isnan(terms["p_value"]["C(weekday)"]) and np.isnan(terms["chi_squared"]["C(weekday)"])
    assert terms["p_value"]["x"] == x["p_value"] and (terms["note"] != "").all()


@pytest.mark.slow
def test_a_level_of_one_cluster_leaves_the_joint_test_of_the_others(tmp_path):
    """As where one airport had a single flight: the others are tested as if its rows were not there."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"port": random.choice(list("abcd"), 4000), "day": random.integers(0, 200, 4000)})
    frame["y"] = random.normal(size=4000) + random.normal(size=200)[frame["day"]]
    lonely = pd.DataFrame({"port": ["z"], "day": [7], "y": [1.5]})
    terms = {}
    for name, rows in {"with": pd.concat([frame, lonely]), "without": frame}.items():
        folder = tmp_path / name
        folder.mkdir()
        design, fitted = fit_frame(rows, "y ~ port", "gaussian", folder, std_errors="cluster(day)")
        terms[name] = joint_tests(estimates_of(design, fitted)).set_index("term").loc["port"]
    assert terms["with"]["df"] == terms["without"]["df"] == 3
    assert "without 1 of its coefficients" in terms["with"]["note"] and not terms["without"]["note"]
    for name in ("F", "df_denominator", "p_value"):
        np.testing.assert_allclose(terms["with"][name], terms["without"][name], rtol=1e-2)


def test_a_rank_deficient_joint_test_is_empty(tmp_path):
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"origin": random.choice(["A", "B", "C", "D"], 2000), "day": random.integers(0, 60, 2000)})
    frame["port"] = frame["origin"] + (frame["day"] % 15).astype(str)
    frame["y"] = random.normal(size=2000) + random.normal(size=4)[frame["origin"].map(ord) - 65]
    design, fitted = fit_frame(frame, "y ~ origin", "gaussian", tmp_path, std_errors="cluster(origin)")
    term = joint_tests(estimates_of(design, fitted)).set_index("term").loc["origin"]
    assert np.isnan(term["p_value"]) and np.isnan(term["F"]) and "too few" in term["note"]


@pytest.mark.slow
def test_the_information_of_all_clusters_is_the_information(tmp_path):
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"a": random.choice(list("xyz"), 900), "b": random.choice(list("pq"), 900)})
    frame["x"], frame["g"] = random.normal(size=900), random.integers(0, 9, 900)
    frame["y"] = random.integers(0, 2, 900)
    files = [ingest_frame(frame[:500], tmp_path, "one"), ingest_frame(frame[500:], tmp_path, "two")]
    design, fitted, _ = fit_files(files, "y ~ a * b + x:a + poly(x, 2)", "binomial", std_errors="cluster(g)")
    workload, state = Workload(design, files, "train"), design.by_term(fitted.coefficients)
    by_cluster = workload.sum(LocalExecutor(), "cluster_information", state)
    whole = workload.sum(LocalExecutor(3), "information", state)
    for name, value in by_cluster.items():
        np.testing.assert_allclose(value.sum(0), whole[name[:-1]], rtol=1e-10, atol=1e-10)
    # Of one cluster: that of a fit's rows alone.
    rows = frame["g"] == 4
    exact = np.sum(fitted.covariance.model.information[4]) if rows.any() else 0.0
    assert np.isfinite(exact) and fitted.covariance.model.information.shape[0] == 9
    bread = fitted.covariance.bread
    np.testing.assert_allclose(
        np.linalg.inv(fitted.covariance.model.information.sum(0))[: len(bread.dense), : len(bread.dense)],
        bread.schur_inverse,
        rtol=1e-6,
        atol=1e-10,
    )


@pytest.mark.slow
def test_curves_and_predictions_use_the_same_degrees_of_freedom_or_fewer(tmp_path):
    files = [ingest_frame(ROWS, tmp_path)]
    design, fitted, dictionary = fit_files(files, "delay ~ poly(hour, 2) + wind", "gaussian", std_errors="cluster(day)")
    curve = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    away = curve[curve["std_error"] > 0]
    below, above = away["effect"] - away["ci_lower"], away["ci_upper"] - away["effect"]
    by_t = np.isclose(below, above, rtol=1e-9)  # a bootstrap's interval is not symmetric
    margins = (above / away["std_error"])[by_t]
    df = np.array([scipy.stats.t(number).ppf(0.975) for number in (FEWEST.df, 24)])
    assert margins.between(df[1] - 1e-9, df[0] + 1e-9).all() and by_t.any()


@pytest.mark.slow
def test_a_level_of_which_few_events_or_few_rows_without_one_are_expected_has_an_error_and_no_test(tmp_path):
    random = np.random.default_rng(29)
    day = random.integers(0, 80, 4000)
    frame = pd.DataFrame({"day": day, "carrier": random.choice(list("AB"), 4000)})
    frame.loc[:119, "carrier"] = ["C"] * 30 + ["D"] * 90
    frame["late"] = random.random(4000) < 0.3
    # 9 events are expected of C, which has 15, and 27 of D, which has 3.
    frame.loc[:119, "late"] = [True, False] * 15 + [True] * 3 + [False] * 87
    frame["late"] = frame["late"].astype(int)
    frame["on_time"] = 1 - frame["late"]
    files = [ingest_frame(frame, tmp_path)]
    for response in ("late", "on_time"):
        design, fitted, _ = fit_files(files, f"{response} ~ carrier", "binomial", std_errors="cluster(day)")
        table = table_of(design, fitted).loc["carrier"]
        assert table["std_error"][1:].notna().all()
        assert table["p_value"].isna().tolist() == table["ci_lower"].isna().tolist() == [True, False, True, False]
        assert "fewer than 10 events" in table.loc["C", "note"] and table.loc["D", "note"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_what_is_tested_depends_on_the_design_and_not_on_the_response(tmp_path, family):
    """Degrees of freedom of `group` are above 4 with some responses, and below with others."""
    random = np.random.default_rng(2)
    sizes = np.maximum(3, random.lognormal(np.log(20), 1.0, 60)).astype(int)
    cluster = np.repeat(np.arange(60), sizes)
    frame = pd.DataFrame(
        {"cluster": cluster, "group": (cluster < 12).astype(int), "x": random.normal(size=len(cluster))}
    )
    replicates = Replicates(frame, "group + x", family, tmp_path, std_errors="cluster(cluster)")
    tested, df = [], []
    for shared in (0.0, 0.1, 0.4, 1.5):
        effect = shared * random.normal(size=60)[cluster]
        response = {
            "gaussian": effect + random.normal(size=len(cluster)),
            "binomial": (random.random(len(cluster)) < scipy.special.expit(effect - 1)).astype(float),
            "poisson": random.poisson(np.exp(effect)).astype(float),
        }[family]
        actual = replicates.estimates(response)
        table = coefficients.table(actual, 0.95)
        joint = joint_tests(actual)
        tested.append([*table["p_value"].notna(), *table["ci_lower"].notna(), *joint["p_value"].notna()])
        df.append(table.loc[table["term"] == "group", "df"].item())
        wald = table.loc[table["term"] == "group"].iloc[0]
        assert wald["std_error"] > 0
        assert re.match(
            r"too few clusters: the 60 count as \d\.\d equal ones for this estimate, and a test needs 4; ", wald["note"]
        )
        # On demand they are printed, and marked.
        every = coefficients.table(replace(actual, fewest=replace(FEWEST, prints_all=True)), 0.95)
        assert every["p_value"].notna().equals(every["std_error"].notna())
        assert every["note"].str.startswith(UNRELIABLE).equals(table["p_value"].isna() & every["std_error"].notna())
    assert all(each == tested[0] for each in tested) and any(tested[0]) and min(df) < FEWEST.df_many < max(df)


# Without CR2 ------------------------------------------------------------------------------------------------------------


def unequal_clusters(seed: int) -> pd.DataFrame:
    """90 clusters of unequal sizes, with covariates that vary within them, between them, or within 20 of them alone."""
    random = np.random.default_rng(seed)
    sizes = random.lognormal(sigma=0.8, size=90)
    cluster = np.unique(random.choice(90, 3000, p=sizes / sizes.sum()), return_inverse=True)[1]
    frame = pd.DataFrame({"cluster": cluster, "plane": random.integers(0, 70, 3000), "few": (cluster < 55).astype(int)})
    frame["x"], frame["wind"] = random.normal(size=3000).round(3), random.normal(size=90).round(3)[cluster]
    frame["g"] = random.choice(list("abcd"), 3000, p=[0.5, 0.3, 0.15, 0.05])
    frame["inside"] = ((cluster < 20) & (random.random(3000) < 0.5)).astype(int)
    frame["w"] = random.integers(1, 4, 3000)
    return frame.assign(delay=random.normal(size=3000).round(3), late=(random.random(3000) < 0.3).astype(int))


@pytest.mark.parametrize("is_exact", [True, False])
def test_effective_clusters_by_the_design_are_those_of_the_rows(is_exact, tmp_path):
    frame, formula = unequal_clusters(1), "x + wind + few + g + inside"
    repeated = frame.loc[frame.index.repeat(frame["w"])]
    limits = CR1 if is_exact else replace(CR1, largest_products=0)
    settings = {"std_errors": "cluster(cluster)", "limits": limits}
    plain, other, frequency, again = (
        fit_frame(rows, f"{response} ~ {formula}", family, tmp_path / name, **settings, **more)
        for name, rows, response, family, more in (
            ("plain", frame, "delay", "gaussian", {}),
            ("other", frame, "late", "binomial", {}),
            ("frequency", frame, "late", "binomial", {"frequency": "w"}),
            ("again", repeated, "late", "binomial", {}),
        )
    )
    found = []
    for design, fitted in (plain, other, frequency, again):
        estimates = estimates_of(design, fitted)
        rows = estimates.transform[estimates.kept]
        clustered = fitted.covariance
        args = clustered.columns, clustered.lags, clustered.penalty
        degrees = clustered.by_design.degrees_of_freedom(rows, *args)
        found.append([*degrees, clustered.by_design.joint_degrees(rows[4:7], *args)])
    # Neither the response nor the family has a part in them, and a row of frequency f is f rows.
    assert found[1] == pytest.approx(found[0], rel=1e-8) and found[3] == pytest.approx(found[2], rel=1e-8)
    matrix = model_matrix(frame, f"y ~ {formula}").to_numpy()
    each = matrix @ np.linalg.inv(matrix.T @ matrix)
    variances = np.zeros((90, 8, 8))
    for cluster in range(90):
        own = each[frame["cluster"] == cluster]
        variances[cluster] = own.T @ own + np.outer(own.sum(0), own.sum(0)) / 9
    alone = np.einsum("gii->gi", variances)
    expected = np.minimum(alone.sum(0) ** 2 / np.sum(alone**2, axis=0), 89)
    # With too many coefficients, how clusters share the parts within clusters is approximated.
    assert found[0][:-1] == pytest.approx(expected, rel=1e-8 if is_exact else 0.02)
    assert found[0][2:4] == pytest.approx(expected[2:4], rel=1e-3)
    whitening = np.linalg.inv(np.linalg.cholesky(variances[:, 4:7, 4:7].sum(0)))
    joint = whitening @ variances[:, 4:7, 4:7] @ whitening.T
    squares = np.einsum("gii->g", joint) ** 2 + np.sum(joint**2, axis=(1, 2))
    assert found[0][-1] == pytest.approx(12 / squares.sum(), rel=1e-8 if is_exact else 0.1)


SETTINGS = {
    "cr1": {"std_errors": "cluster(cluster)", "limits": CR1},
    "cr1 of many coefficients": {"std_errors": "cluster(cluster)", "limits": replace(CR1, largest_products=0)},
    "two columns": {"std_errors": "cluster(cluster + plane)"},
    "dates": {"std_errors": "driscoll_kraay(cluster, lags=3)"},
    "absorbed": {"std_errors": "cluster(cluster)", "absorb": ["plane"], "limits": CR1},
    "classes": {"std_errors": "cluster(cluster)", "classes": 3},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_without_cr2_which_tests_are_printed_does_not_depend_on_the_response(kind, tmp_path):
    frame, settings, random = unequal_clusters(2), SETTINGS[kind], np.random.default_rng(3)
    formula = "x + wind + few + inside" if kind == "absorbed" else "x + wind + few + g + inside"
    replicates = Replicates(frame, formula, "multinomial" if kind == "classes" else "binomial", tmp_path, **settings)
    found = []
    for _ in range(4):
        shared = np.exp(random.normal(size=90)[frame["cluster"]])
        response = (random.random(3000) < 0.1 * shared).astype(float)
        if kind == "classes":
            response = np.where(response == 1, 2, random.integers(0, 2, 3000))
        estimates = replicates.estimates(response)
        estimates = replace(
            estimates, design=estimates.design.reported, fitted=estimates.fitted.reported(estimates.design)
        )
        printed = coefficients.table(estimates, 0.95)["p_value"].notna().tolist()
        notes = coefficients.table(estimates, 0.95)["note"].tolist()
        if kind == "classes":
            notes = [note.split(":")[0] for note in notes]  # the numbers depend a little on the shares of the classes
        found.append([*printed, *notes, *joint_tests(estimates)["p_value"].notna()])
    assert all(each == found[0] for each in found)
    assert True in found[0] and any(note.startswith("too few") for note in notes)


# Simulation -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tests_by_cluster_keep_their_level_where_clusters_are_few_and_unequal(tmp_path):
    """benchmarks/clustered_inference.py on small data: 250 replications of no effect, with 50 clusters of unequal sizes."""
    random = np.random.default_rng(11)
    sizes = np.maximum(2, random.lognormal(2.7, 0.5, 50)).astype(int)
    day = np.repeat(np.arange(50), sizes)
    frame = pd.DataFrame({"carrier": random.choice(list("ABCDEF"), len(day)), "day": day})
    frame["wind"], frame["hour"] = random.normal(size=50)[day], random.normal(size=len(day))
    replicates = Replicates(frame, "carrier + hour + wind", "gaussian", tmp_path, std_errors="cluster(day)")
    p_values, joint = [], []
    for _ in range(250):
        actual = replicates.estimates(0.7 * random.normal(size=50)[day] + random.normal(size=len(day)))
        p_values.append(coefficients.table(actual, 0.95)["p_value"].to_numpy()[actual.kept])
        joint.append(joint_tests(actual)["p_value"].to_numpy())
    rates = np.concatenate([np.mean(np.array(p_values) < 0.05, axis=0), np.mean(np.array(joint) < 0.05, axis=0)])
    low, high = scipy.stats.binom.ppf([0.0005, 0.9995], 250, 0.05) / 250
    assert np.all((rates >= low) & (rates <= high)), rates
    assert 0.035 <= rates.mean() <= 0.065


def test_rounding_errors_do_not_choose_the_test():
    """A balanced design has whole degrees of freedom, such as the fewest that are needed."""
    reference = Reference(np.array([8.0, 8 - 2e-15, 8 + 2e-15, 7.99]), True, fewest=8.0)
    assert np.isfinite(reference.usable).tolist() == [True, True, True, False]
    assert [bool(note) for note in reference.notes()] == [False, False, False, True]


def test_errors_of_a_survey_are_those_of_svyglm():
    """survey 4.1: svydesign(id=~unit, strata=~carrier, weights=~w, fpc=~N, nest=TRUE), its subset(keep == 1), and for a unit
    alone in its stratum survey.lonely.psu="adjust"."""
    rows = pd.read_csv(GOLDEN / "clustered.csv")
    rows = rows.assign(w=1 + rows["wind"] ** 2, unit=rows["day"] % 5, N=np.where(rows["carrier"] == "AA", 9, 30))
    is_left_out = (rows["hour"] <= 0) | ((rows["unit"] == 2) & (rows["carrier"] == "AA"))
    rows["w0"] = np.where(is_left_out, 0.0, rows["w"])
    alone = rows.assign(unit=np.where(rows["carrier"] == "UA", 1, rows["unit"]))
    kinds = "survey(unit, strata=carrier, fpc=N)", "survey(unit, strata=carrier, lonely=adjust)"
    fits = [
        tfglm.fit("late ~ hour + wind", rows, "binomial", weights="w", std_errors=kinds[0]),
        tfglm.fit("late ~ hour + wind", rows, "binomial", weights="w0", std_errors=kinds[0]),
        tfglm.fit("delay ~ hour + wind", alone, weights="w", std_errors=kinds[1]),
    ]
    expected = [
        (0.243107996564, 0.124675348240, 0.142505988306, 16),
        (0.428344599745, 0.290219441317, 0.172885579725, 15),
        (0.236465709843, 0.076104172747, 0.134026958205, 12),
    ]
    for fit, (*errors, df) in zip(fits, expected, strict=True):
        assert np.allclose(fit.coefficients["std_error"], errors, rtol=1e-7)
        assert (fit.coefficients["df"] == df).all()
        assert fit.fit["log_likelihood"] is None
    joint = fits[0].terms.loc["hour"]
    assert np.isclose(joint["p_value"], fits[0].coefficients.loc[("hour", ""), "p_value"])
    of_units = tfglm.fit("delay ~ C(unit)", rows, std_errors="survey(unit)")  # rounding is no error
    assert of_units.coefficients["std_error"].isna().all()


@pytest.mark.parametrize(
    ("kind", "message"),
    {
        "survey(unit, strata=carrier)": "stratum UA has a single sampling unit",
        "survey(unit, strata=carrier, fpc=hour, lonely=certainty)": "`hour` has to be above 0, and the same in all rows",
        "survey(day, fpc=few)": "the sample has more sampling units than `few` says",
        "survey(day, lonely=no)": 'received "survey(day, lonely=no)"',
    }.items(),
)
def test_a_survey_that_has_no_variance_is_refused(kind, message):
    rows = pd.read_csv(GOLDEN / "clustered.csv").assign(few=2)
    rows["unit"] = np.where(rows["carrier"] == "UA", 1, rows["day"] % 5)
    with pytest.raises(UserError, match=re.escape(message)):
        tfglm.fit("delay ~ wind", rows, std_errors=kind)
