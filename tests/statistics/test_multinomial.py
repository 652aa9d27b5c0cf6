"""Regressions of classes against statsmodels' MNLogit on the same rows."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm

from flights import drawn
from oracles import flagged, model_matrix
from pools import estimates_of, fit_files, fit_frame, ingest_frame, table_of, to_predict
from tfglm.distribute import wire
from tfglm.engine import passes
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.results import classes, coefficients, joint, metrics, predict

LABELS = ["on time", "cancelled", "late"]
"""The reference class first, as statsmodels has it."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random, rows = np.random.default_rng(0), 2500
    frame = pd.DataFrame({"carrier": random.choice(list("ABCD"), rows), "origin": random.choice(["J", "K"], rows)})
    frame["x"], frame["w"] = random.normal(size=rows).round(3), random.integers(1, 4, rows)
    frame["dest"] = [f"D{number:02}" for number in random.integers(0, 12, rows)]
    frame["day"] = random.integers(1, 31, rows)
    late, cancelled = -0.5 + 0.5 * frame["x"] + (frame["carrier"] == "B"), -0.7 - 0.3 * frame["x"]
    odds = np.exp(np.stack([np.zeros(rows), cancelled + 0.7 * (frame["origin"] == "K"), late], axis=1))
    return frame.assign(status=drawn(LABELS, odds, random))


def theirs(frame: pd.DataFrame, formula: str, **settings):
    """statsmodels' fit, and the names of its coefficients."""
    matrix = model_matrix(frame, formula)
    model = sm.MNLogit(frame["status"].map(LABELS.index).to_numpy(), matrix.to_numpy())
    return model.fit(method="newton", disp=0, tol=1e-14, maxiter=100, **settings), list(matrix.columns)


def assert_agrees(table: pd.DataFrame, exact, names: list[tuple[str, str]], factor: float = 1.0) -> None:
    for place, label in enumerate(LABELS[1:]):
        ours = table.loc[[(label, *name) for name in names]]
        estimate, error = np.asarray(exact.params)[:, place], factor * np.asarray(exact.bse)[:, place]
        assert np.all(np.abs(ours["estimate"] - estimate) <= 1e-6 * np.maximum(np.abs(estimate), error))
        np.testing.assert_allclose(ours["std_error"], error, rtol=1e-5)


@pytest.mark.parametrize(
    "formula",
    [
        "status ~ carrier + origin + x",
        "status ~ origin + poly(x, 2)",
        "status ~ dest + carrier*origin + x",
        "status ~ x",
    ],
)
def test_estimates_and_errors_are_those_of_statsmodels(frame, formula, tmp_path):
    design, fitted = fit_frame(frame, formula, "multinomial", tmp_path, reference_class="on time")
    exact, names = theirs(frame, formula)
    table, summary = table_of(design, fitted), fitted.summary
    assert_agrees(table, exact, names)
    assert summary["coefficients"] == 2 * len(names)
    assert summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    # statsmodels' own `llnull` ends 4e-4 standard errors from its maximum.
    counts = frame["status"].value_counts()
    assert summary["null_deviance"] == pytest.approx(-2 * np.sum(counts * np.log(counts / len(frame))), rel=1e-12)
    assert summary["converged"] and summary["certificate"]["within_standard_errors"] < 1e-6
    assert (summary["classes"], summary["reference_class"]) == (["cancelled", "late", "on time"], "on time")
    late = frame["status"] == "late"
    if "carrier + origin" in formula:
        row = table.loc[("late", "carrier", "B")]
        of_b = frame["carrier"] == "B"
        assert (row["rows"], row["events"]) == (of_b.sum(), (of_b & late).sum())
        assert row["odds_ratio"] == pytest.approx(np.exp(row["estimate"])) and row["reference"] == "A"


@pytest.mark.slow
def test_the_default_reference_class_is_the_first_and_another_is_the_same_model(frame, tmp_path):
    formula = "status ~ carrier + x"
    first = table_of(*fit_frame(frame, formula, "multinomial", tmp_path / "first"))
    other = table_of(*fit_frame(frame, formula, "multinomial", tmp_path / "other", reference_class="late"))
    assert list(first.index.unique("class")) == ["late", "on time"]
    np.testing.assert_allclose(first.loc["late", "estimate"], -other.loc["cancelled", "estimate"], atol=1e-9)
    difference = other.loc["on time", "estimate"] - other.loc["cancelled", "estimate"]
    np.testing.assert_allclose(first.loc["on time", "estimate"], difference, atol=1e-9)
    with pytest.raises(UserError, match=r"m\.reference_class: `status` has no class `early` in the training rows"):
        fit_frame(frame, formula, "multinomial", tmp_path / "none", reference_class="early")


@pytest.mark.slow
def test_rows_that_stand_for_several_and_robust_errors(frame, tmp_path):
    formula = "status ~ carrier + x"
    repeated = frame.loc[frame.index.repeat(frame["w"])]
    exact, names = theirs(repeated, formula)
    for number, settings in enumerate([{"frequency": "w"}, {"weights": "w"}]):
        design, fitted = fit_frame(
            frame, formula, "multinomial", tmp_path / str(number), reference_class="on time", **settings
        )
        assert_agrees(table_of(design, fitted), exact, names)
    robust, _ = theirs(frame, formula, cov_type="HC0")
    design, fitted = fit_frame(frame, formula, "multinomial", tmp_path, reference_class="on time", std_errors="HC0")
    assert_agrees(table_of(design, fitted), robust, names)
    design, fitted = fit_frame(
        frame, formula, "multinomial", tmp_path / "1", reference_class="on time", std_errors="HC1"
    )
    free = 2 * len(names)
    assert_agrees(table_of(design, fitted), robust, names, np.sqrt(len(frame) / (len(frame) - free)))


def test_terms_are_tested_over_all_classes_and_coefficients_are_combined(frame, tmp_path):
    design, fitted = fit_frame(frame, "status ~ carrier + x", "multinomial", tmp_path, reference_class="on time")
    estimated = estimates_of(design, fitted)
    tests = joint.joint_tests(estimated).set_index("term")
    exact, names = theirs(frame, "status ~ carrier + x")
    for term, df in (("carrier", 6), ("x", 2)):
        tested = [place for place, name in enumerate(names) if name[0] == term]
        of_all = np.array([place + len(names) * number for number in range(2) for place in tested])
        values, covariance = (
            np.asarray(exact.params).T.ravel()[of_all],
            np.asarray(exact.cov_params())[np.ix_(of_all, of_all)],
        )
        assert tests.loc[term, "df"] == df
        assert tests.loc[term, "chi_squared"] == pytest.approx(values @ np.linalg.solve(covariance, values), rel=1e-6)
    wanted = {"late less cancelled": {"late: carrier[B]": 1.0, "cancelled: carrier[B]": -1.0}}
    (row,) = coefficients.contrasts(estimated, wanted, 0.95).to_dict("records")
    place = names.index(("carrier", "B"))
    assert row["estimate"] == pytest.approx(exact.params[place, 1] - exact.params[place, 0], abs=1e-8)
    vcov = coefficients.covariance_table(estimated)
    assert vcov.loc["late: x", "cancelled: x"] == pytest.approx(
        np.asarray(exact.cov_params())[names.index(("x", "")), names.index(("x", "")) + len(names)], rel=1e-5
    )


def test_predictions_and_metrics_have_a_probability_of_each_class(frame, tmp_path):
    split = {"train": "day <= 20", "evaluate": "day > 20 AND day <= 25", "predict": "day > 25"}
    file = ingest_frame(frame, tmp_path, split=split)
    design, fitted, _ = fit_files([file], "status ~ carrier + x", "multinomial")
    exact, _ = theirs(frame[frame["day"] <= 20], "status ~ carrier + x")
    later = frame[frame["day"] > 25]
    expected = exact.predict(model_matrix(later, "status ~ carrier + x").to_numpy())
    # Of rows whose class nobody knows.
    new = to_predict(later.drop(columns="status"), tmp_path / "new")
    table = pa.concat_tables(classes.predictions(design, fitted, new, {}, ["carrier"])).to_pandas()
    for place, label in enumerate(LABELS):
        np.testing.assert_allclose(table[f"probability[{label}]"], expected[:, place], atol=1e-9)
    assert table["predicted"].tolist() == [LABELS[place] for place in expected.argmax(axis=1)]
    # By the delta method, with the covariance of statsmodels, whose first class is the reference.
    x, vcov = model_matrix(later, "status ~ carrier + x").to_numpy(), np.asarray(exact.cov_params())
    for place, label in enumerate(LABELS):
        by_eta = expected[:, [place]] * (np.eye(len(LABELS))[place] - expected)[:, 1:]
        gradient = (by_eta[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        errors = np.sqrt(np.einsum("ip,pq,iq->i", gradient, vcov, gradient))
        np.testing.assert_allclose(table[f"std_error[{label}]"], errors, rtol=1e-5)
    evaluated = frame[frame["day"].between(21, 25)]
    p = exact.predict(model_matrix(evaluated, "status ~ carrier + x").to_numpy())
    number = evaluated["status"].map(LABELS.index).to_numpy()
    report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), fitted), 0.5, ["carrier"])
    assert report["log_loss"] == pytest.approx(-np.log(p[np.arange(len(p)), number]).mean(), rel=1e-8)
    assert report["accuracy"] == pytest.approx((p.argmax(axis=1) == number).mean())
    assert [each["level"] for each in report["by"]["carrier"]] == list("ABCD")


def test_what_is_redundant_is_aliased_in_each_class(frame, tmp_path):
    design, fitted = fit_frame(frame.assign(twice=2 * frame["x"]), "status ~ x + twice", "multinomial", tmp_path)
    table = table_of(design, fitted)
    assert flagged(table) == {("late", "twice", ""): "aliased", ("on time", "twice", ""): "aliased"}
    assert table.loc[("late", "twice", ""), "aliased_with"] == "2 late: x"


@pytest.mark.slow
def test_what_has_no_finite_estimate_is_refused_by_name(frame, tmp_path):
    lacking = frame.assign(
        status=frame["status"].where((frame["carrier"] != "D") | (frame["status"] != "cancelled"), "late")
    )
    with pytest.raises(
        UserError, match="levels lack a class: carrier D has no row of class cancelled\n  merge rare levels"
    ):
        fit_frame(lacking, "status ~ carrier + x", "multinomial", tmp_path)
    for times, absent in ((frame["status"] != "late", "late"), (frame["status"] == "late", "cancelled, on time")):
        with pytest.raises(UserError, match=f"no training row of class {absent} of `status` has a weight above 0"):
            fit_frame(frame.assign(times=times.astype(int)), "status ~ x", "multinomial", tmp_path, frequency="times")
    apart = frame.assign(status=np.where(frame["x"] > 0.5, "late", np.where(frame["day"] > 15, "on time", "cancelled")))
    with pytest.raises(UserError, match=r"run off to infinity: the terms .*`late: x`.* separate classes"):
        fit_frame(apart, "status ~ carrier + x", "multinomial", tmp_path)


def test_a_worker_makes_the_same_of_what_it_is_sent(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], "status ~ carrier*origin + x", "multinomial")
    workload = Workload(design, [file], "train")
    ((signature, (call, *_)),) = workload.calls.items()
    for name in ("counts", "information", "squares", "magnitudes"):
        ours = workload.passes(signature).named(name)
        worker = passes.pass_of(ours.task.design.text, json.loads(ours.task.settings))
        sent = wire.unpack(wire.kinds(call), wire.pack(call))
        state = workload.state(fitted.coefficients)
        np.testing.assert_array_equal(worker(state, *sent), ours(state, *call))
