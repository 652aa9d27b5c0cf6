"""Penalty factors, terms without a penalty and cross-validation against glmnet and loops of fits of their own."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pools import design_of, estimates_of, fit_files, ingest_frame, table_of
from tfglm.config import ModelConfig
from tfglm.data.dictionary import merge
from tfglm.errors import UserError
from tfglm.results import coefficients
from tfglm.solvers.elastic_net import CONVERGED_BELOW

GOLDEN = Path(__file__).parents[1] / "golden"
RESPONSES = {"gaussian": "delay", "binomial": "late", "poisson": "late"}
FORMULA = "{} ~ carrier + C(origin) + hour + wind"
FACTORS = {"unpenalised": ["C(origin)"], "penalty_factors": {"hour": 0.5, "wind": 2}}
EACH = {"carrier": 1.0, "C(origin)": 0.0, "hour": 0.5, "wind": 2.0, "Intercept": 0.0}


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "penalties.json").read_text())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = pd.read_csv(GOLDEN / "clustered.csv")
    return frame.assign(origin=frame["day"] % 3)


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory) -> list:
    return [ingest_frame(frame, tmp_path_factory.mktemp("penalties"))]


def standardised(table: pd.DataFrame, frame: pd.DataFrame) -> pd.Series:
    """Coefficients of numbers by their standard deviations."""
    scale = {name: frame[name].std(ddof=0) for name in ("hour", "wind")}
    return table["estimate"] * [scale.get(term, 1.0) for term, _ in table.index]


@pytest.mark.parametrize(
    "case", ["gaussian 1", "gaussian 0.6", "binomial 1", "binomial 0.6", "poisson 1", "poisson 0.6"]
)
def test_a_path_with_penalty_factors_is_that_of_glmnet(case, golden, files, frame):
    family, l1_ratio = case.split()
    expected = golden["fits"][case]
    path = {"penalties": golden["penalties"], "l1_ratio": float(l1_ratio), "select": "aic"}
    design, fitted, _ = fit_files(files, FORMULA.format(RESPONSES[family]), family, path=path, **FACTORS)
    assert fitted.summary["converged"]
    names = list(design.coefficients())
    origin = [place for place, (term, _) in enumerate(names) if term == "C(origin)"]
    for point, b, intercept, beta in zip(
        fitted.summary["path"],
        fitted.path_coefficients,
        expected["intercept"],
        np.array(expected["beta"]).T,
        strict=True,
    ):
        assert point["largest_kkt_violation"] <= 1.001 * CONVERGED_BELOW * point["penalty"]
        ours = np.r_[b[0] + b[origin[0]], b[1:5], b[origin[1:]] - b[origin[0]], b[8:]]
        theirs = np.r_[intercept, beta]
        # Of as many positive as negative levels a lasso has a range of solutions, which differ by a constant.
        for each in (ours, theirs):
            each[0] += each[1:5].mean()
            each[1:5] -= each[1:5].mean()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6, err_msg=str(point["penalty"]))


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.05), (0.02, 0.0)])
def test_a_fit_with_penalty_factors_has_the_least_objective_and_tables_say_what_is_compared(l1, l2, files, frame):
    design, fitted, _ = fit_files(files, FORMULA.format("late"), "binomial", l1=l1, l2=l2, **FACTORS)
    table = table_of(design, fitted)
    b = standardised(table, frame)
    factors = np.array([EACH[term] for term, _ in table.index])
    eta = table.loc[("Intercept", ""), "estimate"] + frame["hour"] * table.loc[("hour", ""), "estimate"]
    eta += frame["wind"] * table.loc[("wind", ""), "estimate"]
    eta += table.loc["carrier"]["estimate"].reindex(frame["carrier"]).to_numpy()
    eta += table.loc["C(origin)"]["estimate"].reindex(frame["origin"].astype(str)).to_numpy()
    residual = 1 / (1 + np.exp(-eta)) - frame["late"]
    columns = [np.ones(len(frame))] + [frame["carrier"] == level for level in ("AA", "B6", "DL", "UA")]
    columns += [frame["origin"] == level for level in range(3)]
    columns += [(frame[name] - frame[name].mean()) / frame[name].std(ddof=0) for name in ("hour", "wind")]
    slope = np.array([np.mean(residual * column) for column in columns]) + l2 * factors * b
    broken = np.where(b == 0, np.maximum(np.abs(slope) - l1 * factors, 0), np.abs(slope + l1 * factors * np.sign(b)))
    assert broken.max() <= max(1e-6 * l1, 1e-12)
    assert table.loc["C(origin)"]["reference"].tolist() == ["0"] * 3 and (table.loc["carrier"]["reference"] == "").all()
    assert table.loc[("C(origin)", "0"), "estimate"] == 0 and table["std_error"].isna().all()
    if l2:
        # The posterior with a flat prior for what is not penalised: that of the Hessian.
        x = np.stack(columns, 1).astype(float)[:, [0, 1, 2, 3, 4, 6, 7, 8, 9]]
        weight = (1 / (1 + np.exp(-eta)) * (1 - 1 / (1 + np.exp(-eta)))).to_numpy()
        hessian = (x * weight[:, None]).T @ x + np.diag(l2 * len(frame) * factors[[0, 1, 2, 3, 4, 6, 7, 8, 9]])
        deviation = np.sqrt(np.diag(np.linalg.inv(hessian)))
        ours = table["posterior_sd"].to_numpy()[[0, 1, 2, 3, 4, 6, 7, 8, 9]]
        ours[7:] *= [frame["hour"].std(ddof=0), frame["wind"].std(ddof=0)]
        assert ours[1:] == pytest.approx(deviation[1:], rel=1e-6)
        other = table_of(design, fitted, {"C(origin)": "2"}).loc["C(origin)"]
        assert other.loc["0", "estimate"] == pytest.approx(-table.loc[("C(origin)", "2"), "estimate"], rel=1e-9)
        contrast = {"2 - 1": {"C(origin)[2]": 1, "C(origin)[1]": -1}}
        assert coefficients.contrasts(estimates_of(design, fitted), contrast, 0.95)["posterior_sd"][0] > 0


def test_a_separated_level_of_an_unpenalised_term_is_infinite_and_of_another_not(frame, tmp_path):
    separated = frame.assign(late=np.where((frame["origin"] == 1) | (frame["carrier"] == "DL"), 1, frame["late"]))
    settings = {"family": "binomial", "l2": 0.01, "unpenalised": ["C(origin)"]}
    table = table_of(*fit_files([ingest_frame(separated, tmp_path)], FORMULA.format("late"), **settings)[:2])
    assert table.loc[("C(origin)", "1"), "status"] == "separated" and np.isposinf(
        table.loc[("C(origin)", "1"), "estimate"]
    )
    assert np.isfinite(table.loc[("carrier", "DL"), "estimate"])
    rest = ingest_frame(separated[separated["origin"] != 1], tmp_path / "rest")
    settings["l2"] = 0.01
    without = table_of(*fit_files([rest], FORMULA.format("late"), **settings)[:2])
    assert list(without.index) == [name for name in table.index if name != ("C(origin)", "1")]


def test_a_redundant_column_among_unpenalised_ones_is_aliased(frame, tmp_path):
    files = [ingest_frame(frame.assign(km=frame["hour"] * 1.5), tmp_path)]
    formula = "late ~ carrier + hour + km + wind"
    for l1, l2 in ((0.0, 0.02), (0.01, 0.0)):
        design, fitted, _ = fit_files(files, formula, "binomial", l1=l1, l2=l2, unpenalised=["hour + km"])
        table = table_of(design, fitted)
        assert table["status"].loc[[("hour", ""), ("km", "")]].tolist() == ["", "aliased"]


REFUSED = {
    "unpenalised: no such term": ({"unpenalised": ["month"]}, "models.m.unpenalised: the formula has no term `month`"),
    "said twice": (
        {"unpenalised": ["hour"], "penalty_factors": {"hour + wind": 2}},
        "models.m.penalty_factors: the penalty of `hour` is said twice",
    ),
    "nothing left": ({"unpenalised": ["carrier", "hour", "wind"]}, "no term is left that penalties act on"),
    "no formula": ({"penalty_factors": {"log(": 2}}, "models.m.penalty_factors: not a formula"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_terms_that_are_not_there_are_refused(case, files):
    keys, expected = REFUSED[case]
    with pytest.raises(UserError) as error:
        design_of("late ~ carrier + hour + wind", "binomial", merge(files), files, l2=0.1, **keys)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"unpenalised": ["hour"]}, "unpenalised: the fit has no penalty"),
        ({"penalty_factors": {"hour": 2}, "l2": 0.1, "solver": ["sgd"]}, "penalises all terms alike"),
        ({"penalty_factors": {"hour": 2}, "unpenalised": ["hour"], "l2": 0.1}, "is in `unpenalised` too"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, expected):
    with pytest.raises(ValueError, match=expected):
        ModelConfig(formula="late ~ hour", family="binomial", **keys)
