"""Ridge, lasso, elastic net and paths of regressions of classes, against R's glmnet and scikit-learn on the same rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from configs import ROOT
from pools import fit_files, fit_frame, ingest_frame, margins, table_of
from tfglm.engine.workload import Workload
from tfglm.results import metrics, predict

GOLDEN = json.loads((ROOT / "tests/golden/multinomial.json").read_text())
FORMULA = "status ~ carrier + C(origin) + hour + wind"
FACTORS = {"unpenalised": ["C(origin)"], "penalty_factors": {"hour": 0.5, "wind": 2}}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """The rows of multinomial.R."""
    rows = pd.read_csv(ROOT / "tests/golden/clustered.csv")
    near = np.where(rows["delay"] > rows["delay"].median(), "near", "early")
    return rows.assign(status=np.where(rows["late"] == 1, "late", near), origin=rows["day"] % 3)


def theirs(alpha: float, place: int) -> pd.DataFrame:
    """glmnet's coefficients, [columns, classes]."""
    beta = GOLDEN[f"{alpha:g}"]["beta"]
    return pd.DataFrame({label: [row[place] for row in beta[label]] for label in beta}, GOLDEN["columns"])


def centred(values: np.ndarray) -> np.ndarray:
    values = values - values.mean(axis=0)
    return values - values.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("place", [0, 2, 3])
@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_coefficients_are_those_of_glmnet(frame, alpha, place, tmp_path):
    penalty = GOLDEN["penalties"][place]
    penalties = {"l1": alpha * penalty, "l2": (1 - alpha) * penalty}
    design, fitted = fit_frame(frame, FORMULA, "multinomial", tmp_path, **penalties, **FACTORS)
    table, exact = table_of(design, fitted), theirs(alpha, place)
    assert fitted.summary["converged"] and "std_error" not in table.dropna(axis=1, how="all")
    assert fitted.summary["deviance"] == pytest.approx(GOLDEN[f"{alpha:g}"]["deviance"][place], rel=1e-8)
    carriers = table.xs("carrier", level="term")["estimate"].unstack("class")
    ours, known = carriers.to_numpy(), exact.loc[carriers.index, carriers.columns].to_numpy()
    if alpha == 1:
        # What a lasso may move from all levels to the intercept, or between classes, at no cost, is anybody's choice.
        assert np.abs(ours).sum() == pytest.approx(np.abs(known).sum(), abs=1e-6)
        ours, known = centred(ours), centred(known)
    np.testing.assert_allclose(ours, known, atol=1e-6)
    for label in GOLDEN["classes"]:
        for name in ("hour", "wind"):
            scaled = table.loc[(label, name, ""), "estimate"] * frame[name].std(ddof=0)
            assert scaled == pytest.approx(exact.loc[name, label], abs=1e-6)
    # Of a term without a penalty only what is compared with the reference class, and level, is anything.
    for level in ("1", "2"):
        for label in ("late", "near"):
            compared = exact.loc[f"origin{level}", label] - exact.loc[f"origin{level}", "early"]
            assert table.loc[(label, "C(origin)", level), "estimate"] == pytest.approx(compared, abs=2e-6)
    assert ("early", "C(origin)", "1") not in table.index


@pytest.mark.slow
def test_a_ridge_is_that_of_scikit_learn_whatever_the_reference_class(frame, tmp_path):
    l2 = 0.02
    matrix = pd.get_dummies(frame["carrier"]).astype(float)
    matrix["hour"] = (frame["hour"] - frame["hour"].mean()) / frame["hour"].std(ddof=0)
    exact = LogisticRegression(C=1 / (l2 * len(frame)), solver="newton-cg", tol=1e-12, max_iter=1000)
    exact.fit(matrix, frame["status"])
    file = ingest_frame(frame, tmp_path)
    for reference in ("early", "near"):
        design, fitted, _ = fit_files(
            [file], "status ~ carrier + hour", "multinomial", l2=l2, reference_class=reference
        )
        table = table_of(design, fitted)
        for number, label in enumerate(exact.classes_):
            ours = table.loc[label].drop("Intercept", errors="ignore")["estimate"].to_numpy(copy=True)
            ours[-1] *= frame["hour"].std(ddof=0)
            np.testing.assert_allclose(ours, exact.coef_[number], atol=1e-7)
        report = metrics.evaluate(design, predict.score(Workload(design, [file], "train"), fitted), 0.5, [])
        right = exact.predict_proba(matrix)[np.arange(len(frame)), np.searchsorted(exact.classes_, frame["status"])]
        assert report["log_loss"] == pytest.approx(-np.log(right).mean(), rel=1e-9)
        averages = margins(design, fitted, [file], {}, 0.95)
        assert np.allclose(averages.means.groupby("level")["mean"].sum(), 1)
        assert (averages.means["status"] == "estimate only: the fit is penalised").all()
        assert table["posterior_sd"].gt(0).any()


def test_means_of_a_term_without_a_penalty(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], FORMULA, "multinomial", l2=0.02, **FACTORS)
    means = margins(design, fitted, [file], {}, 0.95).means
    assert np.allclose(means.groupby(["term", "level"])["mean"].sum(), 1) and set(means["term"]) == {
        "carrier",
        "C(origin)",
    }


@pytest.mark.slow
def test_a_path_is_that_of_glmnet(frame, tmp_path):
    path = {"penalties": GOLDEN["penalties"], "l1_ratio": 0.5, "select": "aic"}
    design, fitted = fit_frame(frame, FORMULA, "multinomial", tmp_path, path=path, **FACTORS)
    for place, point in enumerate(fitted.path.coefficients):  # the largest penalty first, as in the file
        exact = theirs(0.5, place)
        for label in GOLDEN["classes"]:
            ours = point[design.slices[f"{label}: carrier"]]
            np.testing.assert_allclose(ours, exact.loc[["AA", "B6", "DL", "UA"], label], atol=1e-6)
            for name in ("hour", "wind"):
                np.testing.assert_allclose(point[design.slices[f"{label}: {name}"]], exact.loc[name, label], atol=1e-6)
    held_out = {"train": "day <= 20", "evaluate": "day > 20"}
    file = ingest_frame(frame, tmp_path / "split", split=held_out)
    chosen = []
    for select in ({"select": "held_out"}, {"select": "cross_validation", "folds": 4, "by": "day"}):
        _, fitted, _ = fit_files([file], FORMULA, "multinomial", path={"number": 8, **select}, **FACTORS)
        chosen.append(fitted.summary["l1"])
    assert all(penalty > 0 for penalty in chosen)


def test_a_penalty_keeps_coefficients_of_a_level_without_a_class_finite(frame, tmp_path):
    lacking = frame[(frame["carrier"] != "UA") | (frame["status"] != "late")]
    design, fitted = fit_frame(lacking, "status ~ carrier + hour", "multinomial", tmp_path, l2=0.01)
    table = table_of(design, fitted)
    assert np.isfinite(table["estimate"]).all() and table.loc[("late", "carrier", "UA"), "estimate"] < -0.5
