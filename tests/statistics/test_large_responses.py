"""A linear regression moves with the response, whatever its size; and a fit that has not converged has no tests."""

from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest

from pools import estimates_of, fit_files, ingest_frame, margins, table_of
from tfglm.config import SolverConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import Fitted
from tfglm.results import coefficients
from tfglm.results.hypotheses import hypotheses
from tfglm.results.joint import joint_tests
from tfglm.results.metrics import evaluate
from tfglm.results.pairwise import pairwise
from tfglm.results.predict import score

MODELS = {
    "weights": {"weights": "w", "std_errors": "HC1"},
    "clusters": {"std_errors": "cluster(date)", "frequency": "f"},
    "offset": {"offset": "o", "std_errors": "HC3"},
    "absorbed": {"absorb": ["h"], "std_errors": "cluster(date)"},
    "likelihood ratio": {"tests": "likelihood_ratio", "profile": {"x": {"x": 1}}},
    "ridge": {"l2": 0.1},
    "path": {"path": {"l1_ratio": 0.5, "number": 3, "select": "aic"}},
    "no intercept": {"formula": "y ~ 0 + g + h + x"},
}
MOVED = [(1e9, 1.0), (-1e12, 1.0), (0.0, 1e-9), (0.0, 1e12), (3e7, -(2.0**-4))]
"""Responses a + b y. Those of `frame` are multiples of 2^-10, so that a + b y is exact."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw, rows = np.random.default_rng(1), 900
    frame = pd.DataFrame(
        {"x": draw.normal(3, 2, rows), "g": draw.choice(list("abc"), rows), "h": draw.choice(list("pqrst"), rows)}
    )
    frame = frame.assign(
        w=draw.choice([0.0, 0.5, 2.0], rows), f=draw.integers(0, 3, rows), date=draw.integers(0, 60, rows)
    )
    frame["o"] = np.round(draw.normal(size=rows) * 1024) / 1024
    effect = 0.3 * frame["x"] - 0.4 * (frame["g"] == "b") + 0.4 * draw.normal(size=60)[frame["date"]]
    frame["y"] = np.round((effect + draw.normal(size=rows)) * 1024) / 1024
    frame["part"] = np.where(np.arange(rows) % 4 == 0, "evaluate", "train")
    return frame


def moved(frame: pd.DataFrame, a: float, b: float, with_offset: bool) -> pd.DataFrame:
    """The rows with another response; half of what is added is in the offset, if there is one."""
    return frame.assign(y=a + b * frame["y"], o=a / 2 + b * frame["o"] if with_offset else frame["o"])


def fit_moved(
    frame: pd.DataFrame, a: float, b: float, folder: Path, keys: dict
) -> tuple[Design, Fitted, list[IngestedFile]]:
    keys = dict(keys)
    formula = keys.pop("formula", "y ~ x + g")
    split = {"train": "part = 'train'", "evaluate": "part = 'evaluate'"}
    files = [ingest_frame(moved(frame, a, b, "offset" in keys), folder, split=split)]
    design, fitted, _ = fit_files(files, formula, "gaussian", **keys)
    assert fitted.summary["converged"]
    return design, fitted, files


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_estimates_errors_tests_and_metrics_move_with_the_response(model, frame, tmp_path):
    keys = MODELS[model]
    design, fitted, files = fit_moved(frame, 0.0, 1.0, tmp_path / "as_is", keys)
    expected, terms = table_of(design.reported, fitted.reported(design)), joint_tests(estimates_of(design, fitted))
    metrics = evaluate(design, score(Workload(design, files, "evaluate"), fitted), 0.5) if model != "absorbed" else {}
    for number, (a, b) in enumerate(MOVED):
        if b != 1.0 and (model in ("path", "ridge") or (a and model == "offset")):
            continue  # the loss has another unit than the penalty
        other, end, others_of = fit_moved(frame, a, b, tmp_path / str(number), keys)
        table = table_of(other.reported, end.reported(other))
        constants = [name in (("Intercept", ""), *(("g", level) for level in "abc")) for name in expected.index]
        added = np.where(constants if model == "no intercept" else expected.index == ("Intercept", ""), a, 0.0)
        if "offset" in keys:
            added = added / 2
        # Of a large constant the last digits are lost; of all else nothing.
        errors = abs(b) * expected["std_error"].fillna(1.0)
        allowed = np.where(added == 0, 1e-9 * errors, 1e-9 * errors + 4 * np.spacing(abs(a)))
        assert (np.abs(table["estimate"] - added - b * expected["estimate"]) <= allowed).all(), (a, b)
        np.testing.assert_allclose(table["std_error"], abs(b) * expected["std_error"], rtol=1e-9)
        if "t" in table:
            exact = added == 0
            np.testing.assert_allclose(table["t"][exact], np.sign(b) * expected["t"][exact], rtol=1e-8)
        others = joint_tests(estimates_of(other, end))
        # Without an intercept the first term says where 0 is.
        same = slice(1, None) if model == "no intercept" else slice(None)
        np.testing.assert_allclose(others["p_value"][same], terms["p_value"][same], rtol=1e-7)
        for name in ("deviance", "null_deviance") if model != "no intercept" else ("deviance",):
            assert end.summary[name] == pytest.approx(b**2 * fitted.summary[name], rel=1e-9), (a, b)
        for ours, theirs in zip(end.summary.get("profile", []), fitted.summary.get("profile", []), strict=True):
            ends = sorted(b * theirs[key] for key in ("ci_lower", "ci_upper"))
            assert [ours["ci_lower"], ours["ci_upper"]] == pytest.approx(ends, rel=1e-7)
        if metrics:
            found = evaluate(other, score(Workload(other, others_of, "evaluate"), end), 0.5)
            precise = 1e-9 + 4 * np.spacing(abs(a)) / abs(b)
            for key in ("rmse", "mae"):
                assert found[key] == pytest.approx(abs(b) * metrics[key], rel=precise), (key, a, b)
            assert found["r_squared"] == pytest.approx(metrics["r_squared"], abs=precise)
            spread = [part["upper"] - part["lower"] for part in found["calibration"]]
            if b > 0 and abs(a) < 1e12:
                as_is = [b * (part["upper"] - part["lower"]) for part in metrics["calibration"]]
                assert spread == pytest.approx(as_is, rel=1e-6)


LOG_LINKED = {
    "weights": {"weights": "w", "std_errors": "HC1"},
    "clusters": {"std_errors": "cluster(date)", "frequency": "f"},
    "leverages": {"std_errors": "HC3"},
    "offset": {"offset": "o"},
    "likelihood ratio": {"tests": "likelihood_ratio", "profile": {"x": {"x": 1}}},
    "no intercept": {"formula": "y ~ 0 + g + h + x"},
}


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
@pytest.mark.parametrize("model", LOG_LINKED)
def test_far_from_0_a_log_link_says_what_the_identity_link_says(model, family, frame, tmp_path):
    """For y = m + e the logarithm of the mean is log(m) + mean of e / m, up to the square of e / m."""
    m, keys = 1e8, dict(LOG_LINKED[model])
    formula = keys.pop("formula", "y ~ x + g")
    found = {}
    for link in ("identity", "log"):
        rows = frame.assign(y=m + frame["y"], o=frame["o"] / (1 if link == "identity" else m))
        settings = dict(keys)
        if "profile" in settings and link == "log":
            settings["profile"] = {"x": {"x": m}}
        files = [ingest_frame(rows, tmp_path / link)]
        of_link = family if link == "log" else "gaussian"
        design, fitted, _ = fit_files(files, formula, of_link, link=link, **settings)
        assert fitted.summary["converged"]
        estimates = estimates_of(design.reported, fitted.reported(design))
        table, terms = table_of(design.reported, fitted.reported(design)), joint_tests(estimates)
        slopes = table.loc[[name for name in table.index if name[0] == "x" or name[1] in ("b", "c")]]
        if model == "no intercept":
            slopes = slopes.loc[[("x", "")]]
        unit = 1.0 if family == "gaussian" or link == "identity" else m**2
        profile = [entry[end] for entry in fitted.summary.get("profile", []) for end in ("ci_lower", "ci_upper")]
        found[link] = np.concatenate(
            [
                slopes["t"],
                slopes["estimate"] * (m if link == "log" else 1),
                slopes.get("df", []),
                terms["F"][1:] if model == "no intercept" else terms["F"],
                [unit * fitted.summary["deviance"], fitted.summary["df_residual"]],
                [unit * fitted.summary["null_deviance"]] if model != "no intercept" else [],
                profile,
            ]
        )
    assert len(found["log"]) >= 5
    assert found["log"] == pytest.approx(found["identity"], rel=1e-5, nan_ok=True)


def exact_log_linked(family: str, columns: list[list[float]], y: list[float]) -> tuple[list, list, Any]:
    """Estimates, standard errors and AIC of a regression with link log, in 50 digits."""
    size, rows = len(columns), range(len(y))
    y = [mpmath.mpf(value) for value in y]
    b = mpmath.matrix([mpmath.log(sum(y) / len(y)), *[0] * (size - 1)])
    for _ in range(8):
        slope, hessian, information = mpmath.matrix(size, 1), mpmath.matrix(size), mpmath.matrix(size)
        means = [mpmath.exp(sum(columns[j][i] * b[j] for j in range(size))) for i in rows]
        for i, mean in zip(rows, means, strict=True):
            square = mean**2 if family == "gaussian" else mpmath.mpf(1)
            score = (mean - y[i]) * square / mean
            curvature = square + (mean - y[i]) * mean if family == "gaussian" else y[i] / mean
            for j in range(size):
                slope[j] += score * columns[j][i]
                for k in range(size):
                    hessian[j, k] += curvature * columns[j][i] * columns[k][i]
                    information[j, k] += square * columns[j][i] * columns[k][i]
        b -= mpmath.lu_solve(hessian, slope)
    scale = [mpmath.mpf(1) if family == "gaussian" else mean for mean in means]
    pearson = sum(((each - mean) / unit) ** 2 for each, mean, unit in zip(y, means, scale, strict=True))
    inverse = information**-1
    errors = [mpmath.sqrt(pearson / (len(y) - size) * inverse[j, j]) for j in range(size)]
    n = len(y)
    if family == "gaussian":
        log_likelihood = -mpmath.mpf(n) / 2 * (mpmath.log(2 * mpmath.pi * pearson / n) + 1)
    else:
        ratios = [each / mean for each, mean in zip(y, means, strict=True)]
        k = n / (2 * sum(ratio - 1 - mpmath.log(ratio) for ratio in ratios))
        log_likelihood = sum(k * mpmath.log(k * ratio) - k * ratio - mpmath.loggamma(k) for ratio in ratios)
        log_likelihood -= sum(mpmath.log(each) for each in y)
    return list(b), errors, -2 * log_likelihood + 2 * (size + 1)


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
@pytest.mark.parametrize("a", [1e5, 1e6, 1e10])
def test_with_a_log_link_estimates_are_exact_however_far_the_response_is_from_0(family, a, frame, tmp_path):
    rows = frame.iloc[:40].assign(y=a + frame["y"])
    design, fitted, _ = fit_files([ingest_frame(rows, tmp_path)], "y ~ x + g", family, link="log")
    table = table_of(design, fitted).drop(("g", "a"))
    columns = [[1.0] * 40, rows["x"].tolist(), *((rows["g"] == level).astype(float).tolist() for level in "bc")]
    with mpmath.workdps(50):
        estimates, errors, aic = exact_log_linked(family, columns, rows["y"].tolist())
        off = [float((ours - b) / error) for ours, b, error in zip(table["estimate"], estimates, errors, strict=True)]
    assert fitted.summary["converged"]
    # The intercept is rounded to a float64 of its size.
    intercept = float(np.spacing(np.log(a)) / errors[0])
    assert np.abs(off).max() <= 1e-9 + intercept and np.abs(off[1:]).max() <= 1e-9
    assert table["std_error"].to_numpy() == pytest.approx(np.array(errors, float), rel=1e-7)
    assert fitted.summary["aic"] == pytest.approx(float(aic), rel=1e-9)


def test_a_response_too_far_from_0_is_named_with_a_remedy(frame, tmp_path):
    files = [ingest_frame(frame.assign(y=1e9 + frame["y"]), tmp_path)]
    _, fitted, _ = fit_files(files, "y ~ x + g", "inverse_gaussian", link="log")
    (warning,) = (each for each in fitted.summary["warnings"] if "not converged" in each)
    assert "mean of `y` is 1e+09 standard deviations of its residuals from 0" in warning
    assert (
        "subtract a number near the mean from `y` under data.derive, and use family gaussian with link identity"
        in warning
    )


@pytest.mark.slow
def test_what_has_not_converged_has_no_errors_tests_and_intervals(frame, tmp_path):
    rows = frame.assign(late=(frame["y"] > frame["x"] / 2 - 1).astype(int))
    keys = {"profile": {"x": {"x": 1}}, "tests": "likelihood_ratio"}
    for number, of_errors in enumerate(({}, {"std_errors": "cluster(date)"}, {"std_errors": "HC1"}, {"absorb": ["h"]})):
        files = [ingest_frame(rows, tmp_path / str(number))]
        settings = of_errors if "absorb" in of_errors or "std_errors" in of_errors else keys
        formula, solver = "late ~ x + g", SolverConfig(max_iterations=1)
        design, fitted, _ = fit_files(files, formula, "binomial", solver=solver, **settings)
        summary = fitted.summary
        assert not summary["converged"] and summary["certificate"]["lambda_squared"] > 1e-12
        assert summary["std_errors"] == {"kind": "none"} and not summary["likelihood_ratio_tests"]
        assert not summary.get("profile")
        fitted, estimated = fitted.reported(design), estimates_of(design.reported, fitted.reported(design))
        contrast = {"c": {"g[b]": 1, "g[c]": -1}}
        tables = {
            "coefficients": coefficients.table(estimated, 0.95, converged=False),
            "terms": joint_tests(estimated),
            "contrasts": coefficients.contrasts(estimated, contrast, 0.95),
            "hypotheses": hypotheses(estimated, {"h": [{"x": 1.0}]}),
            "pairwise": pairwise(estimated, ["g"], 0.95),
        }
        if "absorb" not in of_errors:
            tables["margins"] = margins(design, fitted, files, {}, 0.95).effects
        uncertain = ["std_error", "classical_std_error", "p_value", "neg_log10_p", "ci_lower", "ci_upper"]
        uncertain += ["z", "statistic", "p_tukey"]
        for name, table in tables.items():
            shown = [column for column in uncertain if column in table]
            assert shown or name == "margins"
            assert table[shown].isna().all(axis=None), (name, of_errors)
        status = tables["coefficients"].set_index(["term", "level"])["status"]
        assert status[("x", "")] == status[("g", "b")] == "not converged"
        assert np.isfinite(tables["coefficients"]["estimate"]).all()
