"""The wild cluster bootstrap: tests and intervals with few clusters, against a bootstrap of rows and by simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest

from pools import estimates_of, fit_frame
from tfglm.results import coefficients
from tfglm.results.hypotheses import hypotheses
from tfglm.results.joint import joint_tests

CLUSTERS, TREATED = 8, 4


def frame_of(random: np.random.Generator, clusters: int = CLUSTERS, treated: int = TREATED) -> pd.DataFrame:
    """Rows of few clusters: `group` is constant in a cluster, `x` varies."""
    cluster = np.repeat(np.arange(clusters), random.integers(8, 30, clusters))
    y = random.normal(size=clusters)[cluster] + random.normal(size=len(cluster))
    covariates = {"group": (cluster < treated).astype(int), "x": random.normal(size=len(cluster)).round(2)}
    return pd.DataFrame({"site": [f"s{each}" for each in cluster], "y": y.round(3)} | covariates)


def of_rows(frame: pd.DataFrame, column: str, value: float) -> float:
    """The p-value that the coefficient of a column is `value`, from restricted residuals of rows and all signs of clusters."""
    x = np.column_stack([np.ones(len(frame)), frame[["group", "x"]]])
    place = ["", "group", "x"].index(column)
    numbers = pd.factorize(frame["site"])[0]
    bread = np.linalg.inv(x.T @ x)

    def statistic(y: np.ndarray) -> float:
        b = bread @ x.T @ y
        parts = [(bread @ x[numbers == g].T @ (y - x @ b)[numbers == g])[place] for g in range(numbers.max() + 1)]
        return abs(b[place] - value) / np.sqrt(np.sum(np.square(parts)))

    others = np.delete(x, place, axis=1)
    moved = frame["y"].to_numpy() - value * x[:, place]
    fitted = others @ np.linalg.lstsq(others, moved, rcond=None)[0]
    draws = [
        statistic(fitted + value * x[:, place] + np.array(signs)[numbers] * (moved - fitted))
        for signs in itertools.product([1, -1], repeat=numbers.max() + 1)
    ]
    return float(np.mean(np.array(draws) >= statistic(frame["y"].to_numpy()) * (1 - 1e-9)))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    frame = frame_of(np.random.default_rng(4))
    folder = tmp_path_factory.mktemp("few")
    return frame, estimates_of(*fit_frame(frame, "y ~ group + x", "gaussian", folder, std_errors="cluster(site)"))


def test_a_p_value_is_that_of_restricted_residuals_of_rows(few):
    frame, estimates = few
    table = coefficients.table(estimates, 0.95).set_index("term")
    assert "wild cluster bootstrap" in table["note"]["group"] and 3 < float(table["df"]["group"]) < 8
    assert table["p_value"]["group"] == of_rows(frame, "group", 0.0)
    assert table["neg_log10_p"]["group"] == pytest.approx(-np.log10(table["p_value"]["group"]))


def test_an_interval_contains_the_values_that_are_not_rejected(few):
    frame, estimates = few
    row = coefficients.table(estimates, 0.9).set_index("term").loc["group"]
    for limit in (row["ci_lower"], row["ci_upper"]):
        inside = row["estimate"] + (limit - row["estimate"]) * (1 - 1e-6)
        outside = row["estimate"] + (limit - row["estimate"]) * (1 + 1e-6)
        assert of_rows(frame, "group", outside) <= 0.1 < of_rows(frame, "group", inside)


def test_terms_hypotheses_and_contrasts_have_the_same_p_value(few):
    frame, estimates = few
    terms = joint_tests(estimates).set_index("term").loc["group"]
    assert terms["p_value"] == of_rows(frame, "group", 0.0) and "wild cluster bootstrap" in terms["note"]
    tested = hypotheses(estimates, {"none": [{"group": 1.0}], "half": [{"group": 2.0, "=": 1.0}]})
    assert tested["p_value"].tolist() == [of_rows(frame, "group", 0.0), of_rows(frame, "group", 0.5)]
    contrast = coefficients.contrasts(estimates, {"less": {"group": -3.0}}, 0.95).iloc[0]
    assert contrast["p_value"] == terms["p_value"]


def test_units_order_and_names_of_clusters_change_nothing(few, tmp_path):
    frame, estimates = few
    other = frame.sample(frac=1, random_state=1).assign(group=frame["group"] * 1e6 + 5, y=frame["y"] * 1e-9)
    other["site"] = other["site"].map(lambda name: f"z{99 - int(name[1:])}")
    fitted = fit_frame(other, "y ~ group + x", "gaussian", tmp_path, std_errors="cluster(site)")
    before, after = (
        coefficients.table(each, 0.95).set_index("term").loc["group"] for each in (estimates, estimates_of(*fitted))
    )
    assert after["p_value"] == before["p_value"]
    for name in ("ci_lower", "ci_upper"):
        assert after[name] * 1e15 == pytest.approx(before[name], rel=1e-6)


def test_an_interval_that_no_p_value_can_end_is_infinite(few):
    # With 8 clusters the smallest p-value is 1 / 128.
    row = coefficients.table(few[1], 0.999).set_index("term").loc["group"]
    assert (row["ci_lower"], row["ci_upper"]) == (-np.inf, np.inf)


@pytest.mark.parametrize(("clusters", "treated"), [(5, 2), (8, 1), (12, 1)])
def test_too_few_clusters_or_a_single_one_with_the_covariate_have_no_test(clusters, treated, tmp_path):
    frame = frame_of(np.random.default_rng(5), clusters, treated)
    fitted = fit_frame(frame, "y ~ group + x", "gaussian", tmp_path, std_errors="cluster(site)")
    row = coefficients.table(estimates_of(*fitted), 0.95).set_index("term").loc["group"]
    assert np.isnan(row["p_value"]) and row["note"]


def test_many_clusters_draw_signs_from_a_seed(tmp_path):
    frame = frame_of(np.random.default_rng(6), 20, 4)
    fitted = fit_frame(frame, "y ~ group + x", "gaussian", tmp_path, std_errors="cluster(site)")
    first, again = (coefficients.table(estimates_of(*fitted), 0.95).set_index("term").loc["group"] for _ in range(2))
    assert "wild cluster bootstrap" in first["note"]
    assert (first["p_value"], first["ci_lower"]) == (again["p_value"], again["ci_lower"])
    assert (first["p_value"] * 10_000) == pytest.approx(round(first["p_value"] * 10_000), abs=1e-9)


def test_a_separated_or_rare_level_has_no_test_and_says_why(tmp_path):
    frame = frame_of(np.random.default_rng(7))
    frame["kind"] = np.where(np.arange(len(frame)) % 12 == 0, "b", "a")
    frame.loc[5:7, "kind"] = "c"
    frame["y"] = ((frame["y"] > 0.5) & (frame["kind"] != "c")).astype(int)
    fitted = fit_frame(frame, "y ~ group + kind", "binomial", tmp_path, std_errors="cluster(site)")
    table = coefficients.table(estimates_of(*fitted), 0.95).set_index(["term", "level"])
    assert table["p_value"]["group", ""] > 0
    separated, rare = table.loc["kind", "c"], table.loc["kind", "b"]
    assert separated["status"] == "separated" and np.isnan(separated["p_value"]) and np.isnan(separated["ci_lower"])
    assert np.isnan(rare["p_value"]) and "fewer than 10 events" in rare["note"]
