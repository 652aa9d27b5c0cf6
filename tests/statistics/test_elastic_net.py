"""Lasso and elastic net against scikit-learn and the KKT conditions in NumPy, on the same rows."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression
from test_models import flights

from pools import fit_files, ingest_frame, table_of
from tfglm.config import SolverConfig
from tfglm.distribute.local import LocalExecutor
from tfglm.errors import UserError
from tfglm.report.penalties import path_plot
from tfglm.solvers import quadratic
from tfglm.solvers.information import Blocks

FRAME = flights(6_000, seed=9)
FRAME["held_out"] = (np.arange(len(FRAME)) % 3 == 0).astype(int)
TRAIN, REST = FRAME[FRAME["held_out"] == 0], FRAME[FRAME["held_out"] == 1]
FACTORS, NUMBERS = ("carrier", "origin", "month"), ("hour", "distance")
TERMS = "carrier + origin + C(month) + hour + distance"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    split = {"train": "held_out = 0", "evaluate": "held_out = 1"}
    return ingest_frame(FRAME, tmp_path_factory.mktemp("lasso"), split=split)


def columns(frame: pd.DataFrame) -> np.ndarray:
    """Indicators of all levels and standardised numbers, in the order of our coefficients, without the intercept."""
    columns = [frame[name] == level for name in FACTORS for level in sorted(TRAIN[name].unique(), key=str)]
    columns += [(frame[name] - TRAIN[name].mean()) / TRAIN[name].std(ddof=0) for name in NUMBERS]
    return np.stack(columns, 1).astype(float)


def losses(family: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    if family == "gaussian":
        return 0.5 * (y - eta) ** 2
    return np.logaddexp(0, eta) - y * eta if family == "binomial" else np.exp(eta) - y * eta


def mean_of(family: str, eta: np.ndarray) -> np.ndarray:
    return {"gaussian": eta, "binomial": 1 / (1 + np.exp(-eta)), "poisson": np.exp(eta)}[family]


def objective(family: str, b: np.ndarray, y: np.ndarray, l1: float, l2: float) -> float:
    eta = b[0] + columns(TRAIN) @ b[1:]
    return losses(family, eta, y).mean() + l1 * np.abs(b[1:]).sum() + l2 / 2 * (b[1:] ** 2).sum()


def largest_violation(family: str, b: np.ndarray, y: np.ndarray, l1: float, l2: float) -> float:
    """Of the KKT conditions of that objective."""
    x = columns(TRAIN)
    residual = mean_of(family, b[0] + x @ b[1:]) - y
    slope = x.T @ residual / len(y) + l2 * b[1:]
    of_each = np.where(b[1:] == 0, np.maximum(np.abs(slope) - l1, 0), np.abs(slope + l1 * np.sign(b[1:])))
    return max(abs(residual.mean()), of_each.max())


RESPONSES = {"binomial": "late", "gaussian": "delay", "poisson": "bags"}


@pytest.mark.parametrize(
    "family, l1, l2",
    [
        ("binomial", 0.004, 0.0),
        ("binomial", 0.002, 0.01),
        ("gaussian", 0.3, 0.0),
        ("gaussian", 0.2, 0.4),
        ("poisson", 0.03, 0.02),
    ],
)
def test_it_has_the_least_objective_and_meets_the_kkt_conditions(file, family, l1, l2):
    y = TRAIN[RESPONSES[family]].to_numpy(float)
    design, fitted, _ = fit_files([file], f"{RESPONSES[family]} ~ {TERMS}", family, l1=l1, l2=l2)
    b, x = fitted.coefficients, columns(TRAIN)
    violation = largest_violation(family, b, y, l1, l2)
    assert violation <= 1e-6 * l1
    assert fitted.summary["largest_kkt_violation"] == pytest.approx(violation, abs=1e-9 * l1)
    assert fitted.summary["converged"]
    assert 0 < np.count_nonzero(b[1:]) < len(b) - 1
    if family == "gaussian":
        theirs = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-12, max_iter=100_000).fit(x, y)
        other = np.r_[theirs.intercept_, theirs.coef_]
    elif family == "binomial":
        inverse_penalty = 1 / (len(y) * (l1 + l2))
        theirs = LogisticRegression(
            C=inverse_penalty, l1_ratio=l1 / (l1 + l2), solver="saga", max_iter=5000, tol=1e-10
        ).fit(x, y)
        other = np.r_[theirs.intercept_, theirs.coef_[0]]
    else:
        return
    # Where solvers disagree, the lower objective decides.
    assert objective(family, b, y, l1, l2) <= objective(family, other, y, l1, l2) + 1e-12
    np.testing.assert_array_equal(b[1:] != 0, np.abs(other[1:]) > 1e-7)
    table = table_of(design, fitted)
    assert (table["status"] == np.where(b == 0, "zero", "")).all()
    assert table["std_error"].isna().all() and "p_value" not in table and "posterior_sd" not in table


@pytest.fixture(scope="module")
def path(file):
    return fit_files(
        [file], f"late ~ {TERMS}", "binomial", path={"number": 25, "l1_ratio": 0.8}, executor=LocalExecutor()
    )[1]


def test_every_penalty_of_a_path_meets_the_kkt_conditions_in_few_passes(path):
    steps = pd.DataFrame(path.summary["path"])
    y = TRAIN["late"].to_numpy(float)
    assert len(steps) == 25
    for b, step in zip(path.path.coefficients, path.summary["path"], strict=True):
        assert (step["l1"], step["l2"]) == pytest.approx((0.8 * step["penalty"], 0.2 * step["penalty"]))
        assert largest_violation("binomial", b, y, step["l1"], step["l2"]) <= 1.001e-6 * step["penalty"]
        assert step["coefficients_not_zero"] == np.count_nonzero(b)
        loss = losses("binomial", b[0] + columns(TRAIN) @ b[1:], y).sum()
        assert step["deviance"] == pytest.approx(2 * loss, rel=1e-10)
        held_out = losses("binomial", b[0] + columns(REST) @ b[1:], REST["late"].to_numpy(float)).sum()
        assert step["deviance_held_out"] == pytest.approx(2 * held_out, rel=1e-10)
    assert steps["coefficients_not_zero"].iloc[0] <= 2 < steps["coefficients_not_zero"].iloc[-1]
    assert steps["penalty"].iloc[-1] == pytest.approx(1e-3 * steps["penalty"].iloc[0])
    # A pass for the information tells the gradient too.
    assert steps["information_passes"].mean() <= 2
    assert (steps["information_passes"] + steps["gradient_passes"]).mean() <= 3


def test_the_penalty_with_the_least_deviance_held_out_is_reported(path):
    steps = pd.DataFrame(path.summary["path"])
    (chosen,) = np.flatnonzero(steps["chosen"])
    assert chosen == steps["deviance_held_out"].argmin()
    assert path.summary["l1"] == steps["l1"][chosen]
    np.testing.assert_array_equal(path.coefficients, path.path.coefficients[chosen])
    assert path.path.penalties.tolist() == steps["penalty"].tolist()


def test_aic_of_a_lasso_counts_what_is_not_zero_and_of_a_ridge_the_trace(file):
    penalties = [0.05, 0.01, 0.002]
    for l1_ratio in (1.0, 0.0):
        options = {"penalties": penalties[::-1], "l1_ratio": l1_ratio, "select": "aic"}
        _, fitted, _ = fit_files([file], f"late ~ {TERMS}", "binomial", path=options)
        steps = pd.DataFrame(fitted.summary["path"])
        assert steps["penalty"].tolist() == penalties
        assert steps["chosen"].tolist() == (steps["aic"] == steps["aic"].min()).tolist()
        x = np.c_[np.ones(len(TRAIN)), columns(TRAIN)]
        for b, step in zip(fitted.path.coefficients, fitted.summary["path"], strict=True):
            mean = mean_of("binomial", x @ b)
            active = np.flatnonzero(b)
            information = x[:, active].T @ (x[:, active] * (mean * (1 - mean))[:, None])
            penalty = step["l2"] * len(TRAIN) * np.diag((active > 0).astype(float))
            df = np.trace(np.linalg.pinv(information + penalty) @ information)
            # The information of an earlier step is good enough to compare penalties by; of the one chosen it is summed anew.
            assert step["effective_coefficients"] == pytest.approx(df, rel=1e-3)
            assert step["aic"] == pytest.approx(step["deviance"] + 2 * df, rel=1e-5)
            if step["chosen"]:
                assert fitted.summary["effective_coefficients"] == pytest.approx(df, rel=1e-7)
                assert fitted.summary["aic"] == pytest.approx(step["deviance"] + 2 * df, rel=1e-10)
    assert np.isfinite(table_of(*fit_files([file], f"late ~ {TERMS}", "binomial", l2=0.01)[:2])["posterior_sd"]).all()


def test_columns_that_are_the_same_are_no_obstacle(tmp_path):
    frame = TRAIN.assign(again=TRAIN["carrier"], twice=2 * TRAIN["hour"])
    file = ingest_frame(frame, tmp_path)
    options = {"l1": 0.002, "solver": SolverConfig()}
    _, once, _ = fit_files([file], "late ~ carrier + hour", "binomial", **options)
    _, twice, _ = fit_files([file], "late ~ carrier + again + hour + twice", "binomial", **options)
    assert twice.summary["converged"]
    assert twice.summary["log_likelihood"] == pytest.approx(once.summary["log_likelihood"], rel=1e-9)
    assert np.abs(twice.coefficients[1:]).sum() == pytest.approx(np.abs(once.coefficients[1:]).sum(), rel=1e-6)


def test_ftrl_comes_close_to_the_lasso_and_newton_goes_on_from_there(file):
    l1, formula, y = 0.01, f"late ~ {TERMS}", TRAIN["late"].to_numpy(float)
    best = fit_files([file], formula, "binomial", l1=l1)[1]
    online = {"epochs": 20, "batch_size": 128}
    near = fit_files([file], formula, "binomial", l1=l1, solver=SolverConfig(solver="ftrl", online=online))[1]
    least = objective("binomial", best.coefficients, y, l1, 0)
    assert least <= objective("binomial", near.coefficients, y, l1, 0) <= least + 2e-3
    assert np.count_nonzero(near.coefficients == 0) > 0
    assert not near.summary["converged"] and near.summary["largest_kkt_violation"] > 0
    solver = SolverConfig(solver=["ftrl", "newton"], online=online)
    again = fit_files([file], formula, "binomial", l1=l1, solver=solver)[1]
    np.testing.assert_allclose(again.coefficients, best.coefficients, atol=1e-5)


def test_a_path_without_an_effect_is_refused(tmp_path):
    frame = pd.DataFrame({"y": [0, 1] * 50, "x": [1, 1, 2, 2] * 25})
    with pytest.raises(UserError, match=r"models\.m\.path: all penalised coefficients are 0 at any penalty"):
        fit_files([ingest_frame(frame, tmp_path)], "y ~ x", "binomial", path={"select": "aic"})


def test_a_choice_by_rows_held_out_needs_such(tmp_path):
    frame = pd.DataFrame({"y": [0, 1] * 50, "x": [1, 1, 2, 2] * 25})
    with pytest.raises(UserError, match=r"models\.m\.path\.select: held_out: there are no rows to evaluate on"):
        fit_files([ingest_frame(frame, tmp_path)], "y ~ x", "binomial", path={})


def test_rows_held_out_that_have_no_prediction_choose_no_penalty(tmp_path):
    frame = pd.DataFrame({"y": [0, 1] * 50, "x": [1, 1, 2, 2] * 25, "d": np.arange(100) // 10})
    file = ingest_frame(frame, tmp_path, split={"train": "d < 8", "evaluate": "d >= 8"})
    with pytest.raises(
        UserError, match=r"models\.m\.path\.select: held_out: the model can predict none of the 20 rows"
    ):
        fit_files([file], "y ~ x + C(d)", "binomial", path={})


def test_the_quadratic_problem_is_solved_for_any_start():
    random = np.random.default_rng(3)
    x = random.normal(size=(60, 12))
    x[:, 11] = x[:, 0] + x[:, 1]
    target = x @ np.r_[2.0, -1.0, np.zeros(10)] + random.normal(size=60)
    information, slope = x.T @ x, -x.T @ target
    blocks = Blocks(np.arange(12), np.zeros(0, int), information, np.zeros((12, 0)), np.zeros(0))
    threshold = np.full(12, 25.0)
    actual = []
    for start in (np.zeros(12), random.normal(size=12)):
        step = quadratic.solve(blocks, slope + information @ start, start, threshold, 1e-8)
        b = start + step
        residual = slope + information @ b
        assert np.all(np.abs(residual + threshold * np.sign(b))[b != 0] < 1e-7)
        assert np.all(np.abs(residual)[b == 0] <= 25.0 + 1e-7)
        actual.append(slope @ b + b @ information @ b / 2 + threshold @ np.abs(b))
    assert actual[0] == pytest.approx(actual[1], rel=1e-12)


@pytest.mark.slow
def test_the_picture_of_a_path_is_drawn(path, tmp_path):
    terms = json.loads(
        json.dumps(["Intercept", *["carrier"] * 4, *["origin"] * 3, *["C(month)"] * 6, "hour", "distance"])
    )
    table = pd.DataFrame(path.summary["path"])
    path_plot(table, path.path.coefficients, terms, "a path", [tmp_path / "path.svg", tmp_path / "path.png"])
    svg = (tmp_path / "path.svg").read_text()
    drawn = set(re.findall(r"<text.*?>(.*?)</text>", svg))
    assert {"a path", "carrier", "C(month)", "distance", "training rows", "rows held out"} <= drawn
    assert "Intercept" not in drawn
    pixels = plt.imread(tmp_path / "path.png")
    assert pixels.std() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("family", "response"), [("gaussian", "delay"), ("binomial", "late")])
def test_the_order_of_rows_chooses_no_minimum(family, response, tmp_path):
    random = np.random.default_rng(23)
    frame = FRAME.assign(
        half=np.where(random.random(len(FRAME)) < 0.3, "a", "b"), side=random.choice(list("pqrs"), len(FRAME))
    )
    frame["delay"] += 30 * (frame["half"] == "a") + 20 * frame["side"].map({"p": -1, "q": -0.8, "r": 0.7, "s": 1.2})
    frame["late"] = (frame["delay"] > frame["delay"].mean()).astype(int)
    shuffled = frame.sample(frac=1.0, random_state=5).assign(distance=1000 * frame["distance"])
    parts = {"rows": [frame], "shuffled": [shuffled], "reversed": [frame[::-1][:2_500], frame[::-1][2_500:]]}
    tables = {}
    for name, frames in parts.items():
        files = [ingest_frame(each, tmp_path, f"{name}{place}") for place, each in enumerate(frames)]
        design, fitted, _ = fit_files(files, f"{response} ~ half + side + month + distance", family, l1=0.02)
        tables[name] = table_of(design, fitted)["estimate"]
    for name in ("shuffled", "reversed"):
        other = tables[name].where(tables[name].index.get_level_values("term") != "distance", tables["rows"])
        np.testing.assert_allclose(other, tables["rows"], rtol=1e-5, atol=1e-6)
        assert list(other == 0) == list(tables["rows"] == 0)
    # A factor of two levels has coefficients of opposite sign. With four, two are on either side of 0, and their mean is as close
    # to 0 as that allows.
    half, side = (tables["rows"][term].to_numpy() for term in ("half", "side"))
    assert half[0] == pytest.approx(-half[1], rel=1e-9) and half[0] != 0
    low, high = np.sort(side)[1:3]
    assert low <= 0 <= high and (abs(side.mean()) < 1e-9 or (high if side.mean() > 0 else low) == 0)
