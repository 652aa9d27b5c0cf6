"""Which of two models predicts better: the difference against its definition, and the coverage of its interval."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from tfglm.results import compare, held_out
from tfglm.results.compare import ComparedModel


def model(name: str, metrics: dict, response: str = "late", **keys) -> ComparedModel:
    fit = {"model": name, "formula": f"{response} ~ x", "family": "binomial", "provenance": {"model": keys}}
    return ComparedModel(fit, metrics, None)


def metrics(y: np.ndarray, p: np.ndarray, date: np.ndarray) -> dict:
    groups = [
        {
            "level": str(day),
            "rows": int((date == day).sum()),
            "log_loss": log_loss(y[date == day], p[date == day], labels=[0, 1]),
        }
        for day in np.unique(date)
    ]
    return {"rows": len(y), "log_loss": log_loss(y, p), "by": {"date": groups}}


def test_the_difference_is_that_of_all_rows():
    random = np.random.default_rng(1)
    date, p = random.integers(0, 30, 3000), random.uniform(0.1, 0.9, 3000)
    y = (random.random(3000) < p).astype(int)
    good, bad = metrics(y, p, date), metrics(y, np.full(3000, 0.5), date)
    (line,) = held_out.differences([model("good", good), model("bad", bad)]).to_dict("records")
    assert (line["model"], line["against"], line["metric"], line["resampled_by"]) == ("bad", "good", "log loss", "date")
    assert line["difference"] == pytest.approx(bad["log_loss"] - good["log_loss"])
    assert 0 < line["ci_lower"] < line["difference"] < line["ci_upper"]
    assert line["groups"] == 30


def test_rmse_is_compared_as_a_mean_over_rows():
    def of(errors: list[float]) -> dict:
        groups = [{"level": str(k), "rows": 10, "rmse": error} for k, error in enumerate(errors)]
        return {"rows": 10 * len(errors), "rmse": float(np.sqrt(np.mean(np.square(errors)))), "by": {"date": groups}}

    table = held_out.differences([model("a", of([3.0, 4.0])), model("b", of([1.0, 2.0]))])
    assert table["difference"].tolist() == [pytest.approx((1 + 4 - 9 - 16) / 2)]
    assert table["ci_lower"].isna().all()  # two groups are too few


def test_nothing_is_said_of_weights_other_rows_and_other_responses():
    one = {"rows": 10, "log_loss": 0.5, "by": {"date": [{"level": "1", "rows": 10, "log_loss": 0.5}]}}
    other = {"rows": 9, "log_loss": 0.4, "by": {"date": [{"level": "1", "rows": 9, "log_loss": 0.4}]}}
    assert len(held_out.differences([model("a", one), model("b", one)])) == 1
    assert held_out.differences([model("a", one), model("b", other)]).empty
    assert held_out.differences([model("a", one), model("b", one, response="early")]).empty
    assert held_out.differences([model("a", one, weights="w"), model("b", one, weights="w")]).empty
    assert list(held_out.differences([model("a", one)])) == list(held_out.COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [20, 60])
def test_the_interval_covers_the_true_difference(groups):
    """Groups of unequal sizes, with a difference of their own each and rows that share it: 95 % within four standard errors of
    the simulation, less the two points that percentiles lose with 20 groups."""
    random, times, covered = np.random.default_rng(groups), 1000, 0
    for _ in range(times):
        rows = random.poisson(random.lognormal(4, 0.5, groups)) + 1.0
        sums = rows * (0.02 + 0.05 * random.normal(size=groups)) + np.sqrt(rows) * 0.3 * random.normal(size=groups)
        lower, upper = held_out.interval(rows, sums, resamples=1000)
        covered += lower <= 0.02 <= upper
    error = np.sqrt(0.95 * 0.05 / times)
    assert covered / times == pytest.approx(0.95 - 0.4 / groups, abs=4 * error + 0.01)
    assert isinstance(held_out.differences([model("a", {})]), pd.DataFrame)


def test_models_without_coefficients_stand_side_by_side_with_their_metrics():
    models = [model(name, {"log_loss": loss}) for name, loss in (("a", 0.5), ("b", 0.4))]
    table = compare.table(models).set_index("term")
    assert table.loc["log loss (rows kept back)", ["a", "b"]].tolist() == [0.5, 0.4]
    assert len(table) == len(compare.STATISTICS) + len(compare.HELD_OUT)
