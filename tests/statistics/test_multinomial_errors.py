"""Standard errors of regressions of classes that allow for rows being alike, against an oracle in NumPy and statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from flights import drawn
from oracles import model_matrix
from pools import estimates_of, fit_frame
from replicates import Replicates
from tfglm.results import coefficients, joint
from tfglm.results.events import rare_events

LABELS = ["on time", "cancelled", "late"]
"""The reference class first."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Rows of a day share their weather, and so do those of a plane."""
    random, rows = np.random.default_rng(5), 4000
    frame = pd.DataFrame({"carrier": random.choice(list("ABC"), rows), "day": random.integers(0, 90, rows)})
    frame["plane"], frame["w"] = random.integers(0, 70, rows), random.integers(1, 4, rows)
    frame["x"], frame["wind"] = random.normal(size=rows).round(3), random.normal(size=90).round(3)[frame["day"]]
    weather, wear = random.normal(size=(90, 2))[frame["day"]], random.normal(size=(70, 2))[frame["plane"]]
    eta = 0.6 * weather + 0.4 * wear + np.stack([-0.5 + 0.3 * frame["wind"], 0.4 * frame["x"]], axis=1)
    odds = np.exp(np.column_stack([np.zeros(rows), eta]))
    return frame.assign(status=drawn(LABELS, odds, random))


def fit(frame: pd.DataFrame, folder, std_errors: str, **settings):
    formula = "status ~ carrier + x + wind"
    return fit_frame(
        frame, formula, "multinomial", folder, reference_class="on time", std_errors=std_errors, **settings
    )


def scores_and_bread(frame: pd.DataFrame, design, fitted, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of all rows, [rows, 2 p], and the inverse information matrix, by class and then in the order of the formula."""
    x = model_matrix(frame, "status ~ carrier + x + wind").to_numpy()
    table = coefficients.table(estimates_of(design, fitted), 0.95)
    b = table.loc[table["level"] != "A", "estimate"].to_numpy().reshape(2, -1)
    odds = np.exp(np.column_stack([np.zeros(len(x)), x @ b.T]))
    p = (odds / odds.sum(axis=1, keepdims=True))[:, 1:]
    y = frame["status"].to_numpy()[:, None] == np.array(LABELS[1:])
    scores = np.hstack([((y - p)[:, [k]] * weight[:, None]) * x for k in range(2)])
    blocks = [[(x * (weight * p[:, k] * ((k == m) - p[:, m]))[:, None]).T @ x for m in range(2)] for k in range(2)]
    return scores, np.linalg.inv(np.block(blocks))


def by(scores: np.ndarray, keys: pd.Series) -> np.ndarray:
    return pd.DataFrame(scores).groupby(np.asarray(keys)).sum().to_numpy()


def cr1(scores: np.ndarray, bread: np.ndarray, keys: pd.Series, rows: float) -> np.ndarray:
    sums = by(scores, keys)
    clusters, free = len(sums), bread.shape[0]
    return clusters / (clusters - 1) * (rows - 1) / (rows - free) * bread @ sums.T @ sums @ bread


def assert_covariances(ours: np.ndarray, exact: np.ndarray) -> None:
    """In units of the standard errors: those of the fit are at its last iterate but one."""
    errors = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(ours / errors / errors[:, None], exact / errors / errors[:, None], atol=1e-7, rtol=0)


def covariance_of(design, fitted) -> np.ndarray:
    return coefficients.covariance_table(estimates_of(design, fitted)).to_numpy()


@pytest.mark.parametrize("settings", [{}, {"frequency": "w"}, {"weights": "w"}])
def test_clusters_are_those_of_the_sums_of_scores(frame, settings, tmp_path):
    weight = (frame["w"] if settings else pd.Series(1.0, frame.index)).to_numpy(float)
    rows = weight.sum() if "frequency" in settings else len(frame)
    design, fitted = fit(frame, tmp_path, "cluster(day)", **settings)
    scores, bread = scores_and_bread(frame, design, fitted, weight)
    assert_covariances(covariance_of(design, fitted), cr1(scores, bread, frame["day"], rows))
    table = coefficients.table(estimates_of(design, fitted), 0.95)
    few = table["note"].str.startswith("too few clusters: the ")
    assert (few == (table["term"] == "wind")).all()
    assert table.loc[table["term"] == "x", "p_value"].notna().all()


def test_clusters_are_those_of_statsmodels(frame, tmp_path):
    matrix = model_matrix(frame, "status ~ carrier + x + wind")
    model = sm.MNLogit(frame["status"].map(LABELS.index).to_numpy(), matrix.to_numpy())
    settings = {"method": "newton", "disp": 0, "tol": 1e-14}
    exact = model.fit(**settings, cov_type="cluster", cov_kwds={"groups": frame["day"].to_numpy()})
    design, fitted = fit(frame, tmp_path, "cluster(day)")
    errors = np.sqrt(np.diag(covariance_of(design, fitted))).reshape(2, -1).T
    np.testing.assert_allclose(errors, np.asarray(exact.bse), rtol=1e-6)


@pytest.mark.slow
def test_several_columns_of_clusters_and_dates_close_to_each_other(frame, tmp_path):
    design, fitted = fit(frame, tmp_path, "cluster(day + plane)")
    ones, rows = np.ones(len(frame)), len(frame)
    scores, bread = scores_and_bread(frame, design, fitted, ones)
    both = frame["day"] * 1000 + frame["plane"]
    exact = sum(
        sign * cr1(scores, bread, keys, rows) for sign, keys in ((1, frame["day"]), (1, frame["plane"]), (-1, both))
    )
    assert_covariances(covariance_of(design, fitted), exact)
    design, fitted = fit(frame, tmp_path / "dates", "driscoll_kraay(day, lags=2)")
    sums = by(scores, frame["day"])
    meat, days, unseen = sums.T @ sums, len(sums), 1 / len(sums)
    for lag, weight in ((1, 2 / 3), (2, 1 / 3)):
        crossed = sums[lag:].T @ sums[:-lag]
        meat += weight * (crossed + crossed.T)
        unseen += 2 * weight * (1 - lag / days) / days
    factor = rows / (rows - len(bread)) / (1 - unseen)
    assert_covariances(covariance_of(design, fitted), factor * bread @ meat @ bread)


@pytest.mark.slow
def test_terms_are_tested_over_all_classes_by_clusters(frame, tmp_path):
    design, fitted = fit(frame, tmp_path, "cluster(day)")
    estimated = estimates_of(design, fitted)
    vcov = coefficients.covariance_table(estimated)
    values = coefficients.table(estimated, 0.95).set_index(["class", "term"])["estimate"]
    names = ["cancelled: x", "late: x"]
    b = np.array([values["cancelled", "x"], values["late", "x"]])
    (test,) = joint.joint_tests(estimated).query("term == 'x'").to_dict("records")
    scaled = b @ np.linalg.solve(vcov.loc[names, names], b) / 2
    eta = test["df_denominator"] + 1
    assert test["df"] == 2 and 40 <= eta <= 89
    assert test["F"] == pytest.approx(scaled * (eta - 1) / eta, rel=1e-10)


def test_a_class_of_few_rows_in_a_level_has_no_test_by_cluster(frame, tmp_path):
    few = frame.drop(index=frame.index[frame["carrier"].eq("C")][25:])
    design, fitted = fit(few, tmp_path, "cluster(day)")
    table = coefficients.table(estimates_of(design, fitted), 0.95)
    of_c = table["level"] == "C"
    assert table.loc[of_c, "p_value"].isna().all() and rare_events(design, fitted)[of_c].all()
    assert table.loc[table["level"] == "B", "p_value"].notna().all() and not rare_events(design, fitted)[~of_c].any()


@pytest.mark.slow
def test_intervals_by_cluster_cover_the_truth(tmp_path):
    """Responses without any effect, with what a day has in common; 95 % intervals and the joint tests of 5 %."""
    random, rows, days = np.random.default_rng(8), 3000, 250
    day = random.integers(0, days, rows)
    frame = pd.DataFrame({"carrier": random.choice(list("ABC"), rows), "day": day, "x": random.normal(size=rows)})
    frame["wind"] = random.normal(size=days)[day]
    replicates = Replicates(frame, "carrier + x + wind", "multinomial", tmp_path, 3, std_errors="cluster(day)")
    rejected, tested, sizes = [], [], []
    for _ in range(200):
        eta = np.column_stack([np.zeros(rows), 0.9 * random.normal(size=(days, 2))[day]])
        estimated = replicates.estimates((eta + random.gumbel(size=(rows, 3))).argmax(axis=1))
        table = coefficients.table(estimated, 0.95)
        table = table[
            (table["term"] != "Intercept") & ((table["reference"] != table["level"]) | (table["level"] == ""))
        ]
        rejected.append(table["p_value"].to_numpy())
        sizes.append(np.abs(table["estimate"] / table["classical_std_error"]).to_numpy())
        tested.append(joint.joint_tests(estimated)["p_value"].to_numpy())
    for p_values in (np.array(rejected), np.array(tested)):
        printed = np.isfinite(p_values)
        share = np.nanmean(np.where(printed, p_values < 0.05, np.nan), axis=0)
        assert np.all(printed.mean(0) > 0.8) and np.all((share >= 0.01) & (share <= 0.1)), share
    # Of the wind, which a day has in common, classical ones reject far too often.
    classical = (np.array(sizes) > 1.96).mean(0)
    assert np.all(classical[[3, 7]] > 0.12), classical
