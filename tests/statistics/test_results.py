"""Metrics where the rows do not determine them, what stands for unseen levels, and the picture's choice of levels."""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evaluate
from pools import fit_files, fit_frame, ingest_frame, table_of, write_fit
from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.rows import SEPARATED_LEVEL, UNSEEN_LEVEL
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted
from tfglm.results import metrics, predict, unseen


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"late": random.integers(0, 2, 500), "carrier": random.choice(["AA", "B6"], 500)})
    frame.loc[:3, ["late", "carrier"]] = [1, "XX"]
    return fit_frame(frame, "late ~ carrier", "binomial", tmp_path_factory.mktemp("fit"))


def test_rows_without_a_finite_prediction_are_counted_and_left_out(fitted, tmp_path):
    design, model = fitted
    rows = pd.DataFrame({"late": [0, 1, 1, 1, 0], "carrier": ["AA", "B6", "XX", "ZZ", "ZZ"]})
    file = ingest_frame(rows, tmp_path, split={"train": "FALSE", "evaluate": "TRUE"})
    report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), model), 0.5)
    assert (report["rows"], report["rows_with_unseen_level"], report["rows_with_separated_level"]) == (2, 2, 1)
    assert report["events"] == 1


def test_no_rows_to_evaluate_on_are_said_to_be_none(fitted, tmp_path):
    design, model = fitted
    file = ingest_frame(pd.DataFrame({"late": [0, 1], "carrier": ["AA", "B6"]}), tmp_path)
    report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), model), 0.5)
    counts = ("rows", *metrics.COUNTED)
    assert report == {"model": "m", **dict.fromkeys(counts, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson", "multinomial"])
def test_a_frequency_counts_as_often_as_repeated_rows(family, tmp_path):
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"g": random.choice(["a", "b", "c"], 600), "x": np.round(random.normal(size=600), 1)})
    frame["y"] = random.choice(["p", "q", "r"], 600) if family == "multinomial" else random.integers(0, 2, 600)
    frame["times"], frame["held"] = random.integers(0, 5, 600), np.arange(600) % 3 == 0
    frame.loc[30:90:3, "g"], frame.loc[0:600:45, "x"] = "new", 9.0
    reports = []
    for rows in (frame, frame.loc[frame.index.repeat(frame["times"])].assign(times=1)):
        split = {"train": "NOT held", "evaluate": "held"}
        file = ingest_frame(rows.astype({"held": int}), tmp_path / str(len(rows)), split=split)
        settings = {"frequency": "times"} if rows is frame else {}
        design, model, _ = fit_files([file], "y ~ g + bs(x, 4)", family, **settings)
        levels = unseen.levels(design, [file], "evaluate")
        report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), model), 0.5, ["g"])
        reports.append(report | {"levels": levels})
    once, often = reports
    held = frame[frame["held"]]
    assert once["rows"] == held.loc[held["g"] != "new", "times"].sum()
    assert once["rows_with_unseen_level"] == held.loc[held["g"] == "new", "times"].sum() == once["levels"]["g"]["rows"]
    assert {each["level"]: each["rows"] for each in once["by"]["g"]} == (
        held[held["g"] != "new"].groupby("g")["times"].sum().to_dict()
    )
    assert_alike(once, often)


def assert_alike(one: object, other: object) -> None:
    """The same report, numbers up to rounding."""
    assert type(one) is type(other)
    if isinstance(one, dict | list):
        assert len(one) == len(other) and (isinstance(one, list) or one.keys() == other.keys())
        for key in one if isinstance(one, dict) else range(len(one)):
            assert_alike(one[key], other[key])
    else:
        assert one == (other if isinstance(one, str | None) else pytest.approx(other, rel=1e-6, abs=1e-9))


def test_groups_of_rows_without_predictions_have_no_metrics(fitted, tmp_path):
    design, model = fitted
    file = ingest_frame(
        pd.DataFrame({"late": [0, 1], "carrier": ["ZZ", "ZZ"]}), tmp_path, split={"evaluate": "TRUE", "train": "FALSE"}
    )
    report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), model), 0.5, ["carrier"])
    assert (report["rows"], report["rows_with_unseen_level"], report["by"]) == (0, 2, {"carrier": []})


def test_a_metric_that_the_rows_do_not_determine_is_none(fitted):
    design, _ = fitted
    rows = {
        "eta": np.array([-1.0, -2.0, 0.5]),
        "response": np.zeros(3),
        "flag": np.array([0, 0, SEPARATED_LEVEL]),
        "weight": np.ones(3),
        "frequency": np.ones(3),
        "outside": np.zeros(3, bool),
    }
    report = metrics.evaluate(design, [predict.Scored(None, None, rows)], 0.5)
    assert (report["auc"], report["average_precision"], report["precision"], report["recall"]) == (None,) * 4
    assert (report["accuracy"], report["true_negative"]) == (1.0, 2)
    new = predict.Scored(None, None, rows | {"flag": np.full(3, UNSEEN_LEVEL)})
    of_new = metrics.evaluate(design, [new], 0.5)
    assert of_new["rows"] == 0 and of_new["rows_with_unseen_level"] == 3


# Levels that training has not seen --------------------------------------------------------------------------------------


def flights() -> pd.DataFrame:
    """Rows to train on (2006) and to evaluate on (2007), of which some lack values or have levels of their own."""
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"year": np.repeat([2006, 2007], [3000, 800]), "late": random.integers(0, 2, 3800)})
    frame["carrier"] = random.choice(["AA", "B6", "C1", "C2", None], 3800, p=[0.5, 0.4, 0.02, 0.02, 0.06])
    frame["dest"] = random.choice(["X", "Y"], 3800)
    frame["hour"] = pd.array(random.integers(5, 24, 3800), "Int64")
    frame.loc[random.random(3800) < 0.02, "hour"] = None
    evaluated = frame.index[frame["year"] == 2007]
    frame.loc[evaluated[:40], "carrier"] = "ZZ"
    frame.loc[evaluated[20:70], "dest"] = "W"
    frame.loc[evaluated[65:75], "dest"] = "V"
    return frame


def fit_flights(frame: pd.DataFrame, folder: Path) -> tuple[IngestedFile, Design, Fitted]:
    """A fit with a level for missing carriers and one for those with fewer than 100 flights."""
    split = {"train": "year = 2006", "evaluate": "year = 2007"}
    file = ingest_frame(frame, folder, split=split, columns=["late", "carrier", "dest", "hour"])
    formula = "late ~ carrier + dest + hour"
    design, model, _ = fit_files([file], formula, "binomial", {"carrier": "level"}, {"carrier": 100})
    return file, design, model


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> tuple[pd.DataFrame, IngestedFile, Design, Fitted]:
    frame = flights()
    return frame, *fit_flights(frame, tmp_path_factory.mktemp("known"))


def run_evaluate(
    file: IngestedFile, design: Design, fitted: Fitted, folder: Path, unseen: str, reference: dict[str, str]
) -> dict:
    """metrics.json as scripts/evaluate.py writes it."""
    design.write(folder / "design.json")
    write_fit(fitted, design, folder)
    checked = {"levels": reference, "design": digests.sha256(folder / "design.json")}
    digests.write_json(folder / "reference.json", checked)
    arguments = argparse.Namespace(
        design=folder / "design.json",
        checkpoint=folder / "checkpoint",
        fit=folder / "fit.json",
        manifests=[file.folder / "manifest.json"],
        split="evaluate",
        settings=ResultsConfig(unseen=unseen),
        reference=folder / "reference.json" if unseen == "reference" else None,
        metrics=folder / "metrics.json",
        groups=None,
        checks=folder / "checks.json",
        averages=None,
    )
    evaluate.main(arguments)
    return json.loads((folder / "metrics.json").read_text())


def log_loss(rows: pd.DataFrame, table: pd.DataFrame) -> float:
    """The log loss of rows from a coefficient table."""
    estimate = table["estimate"]
    eta = estimate["Intercept", ""] + estimate["hour", ""] * rows["hour"].astype(float)
    for term in ("carrier", "dest"):
        eta += rows[term].map(estimate[term])
    return float(np.mean(np.logaddexp(0, eta) - rows["late"] * eta))


STANDS_FOR = {
    "missing": ("missing", {}, {"ZZ": "(rare)"}, {}),
    "reference by default": ("reference", {}, {"ZZ": "AA"}, {"W": "X", "V": "X"}),
    "reference as asked": ("reference", {"carrier": "B6", "dest": "Y"}, {"ZZ": "B6"}, {"W": "Y", "V": "Y"}),
    "reference that is made": ("reference", {"carrier": "(rare)"}, {"ZZ": "(rare)"}, {"W": "X", "V": "X"}),
}


@pytest.mark.parametrize("policy", STANDS_FOR)
def test_an_unseen_level_counts_as_the_policy_says_and_is_counted(known, tmp_path, policy):
    frame, file, design, fitted = known
    unseen, reference, carriers, dests = STANDS_FOR[policy]
    report = run_evaluate(file, design, fitted, tmp_path, unseen, reference)
    rows = frame[frame["year"] == 2007].dropna(subset="hour").copy()
    new = rows["dest"].isin(["W", "V"])
    assert report["unseen"] == {
        "carrier": {"rows": (rows["carrier"] == "ZZ").sum(), "level_count": 1, "levels": ["ZZ"]},
        "dest": {"rows": new.sum(), "level_count": 2, "levels": ["V", "W"]},
    }
    predicted = rows if dests else rows[~new]
    assert report["rows"] == len(predicted)
    assert report["rows"] + report["rows_with_unseen_level"] == len(rows)
    lumped = {"C1": "(rare)", "C2": "(rare)", **carriers}
    predicted = predicted.assign(
        carrier=predicted["carrier"].replace(lumped).fillna("(missing)"), dest=predicted["dest"].replace(dests)
    )
    table = table_of(design, fitted, reference)
    assert table.loc["carrier"].index.tolist() == ["AA", "B6", "(rare)", "(missing)"]
    assert report["log_loss"] == pytest.approx(log_loss(predicted, table), rel=1e-12)


def test_unseen_levels_may_be_an_error_that_names_them(known, tmp_path):
    frame, file, design, fitted = known
    rows = frame[frame["year"] == 2007].dropna(subset="hour")
    with pytest.raises(
        UserError, match=r"models.m.unseen: evaluation rows have levels that no training row has"
    ) as error:
        run_evaluate(file, design, fitted, tmp_path, "error", {})
    assert f"\n  carrier: ZZ ({(rows['carrier'] == 'ZZ').sum()} rows)\n" in str(error.value)
    assert f"\n  dest: V, W ({rows['dest'].isin(['V', 'W']).sum()} rows)\n" in str(error.value)
    assert "set the key to `missing` or `reference`" in str(error.value)


def test_a_missing_value_is_unseen_if_no_training_row_lacks_it(tmp_path):
    frame = flights()
    frame.loc[frame["year"] == 2006, "carrier"] = frame["carrier"].fillna("AA")
    file, design, fitted = fit_flights(frame, tmp_path / "fit")
    assert design.categorical[0].levels == ("AA", "B6", "(rare)")
    report = run_evaluate(file, design, fitted, tmp_path, "missing", {})
    rows = frame[frame["year"] == 2007].dropna(subset="hour")
    carrier = rows["carrier"].fillna("(missing)").isin(["(missing)", "ZZ"])
    assert report["unseen"]["carrier"] == {"rows": carrier.sum(), "level_count": 2, "levels": ["(missing)", "ZZ"]}
    # Counted from the table of levels, and by the passes from the rows themselves.
    assert report["rows_with_unseen_level"] == rows["dest"].isin(["W", "V"]).sum()  # (rare) takes the others
