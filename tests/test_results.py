"""Metrics where the rows do not determine them, and the picture's choice of levels."""

import numpy as np
import pandas as pd
import pytest

from pools import fit_frame, ingest_frame
from tfglm.model.passes import SEPARATED, UNSEEN, Workload
from tfglm.results import metrics, plots


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
    found = metrics.evaluate(design, metrics.predict(Workload(design, [file], "evaluate"), model), 0.5)
    assert (found["rows"], found["rows_with_unseen_level"], found["rows_with_separated_level"]) == (2, 2, 1)
    assert found["events"] == 1


def test_no_rows_to_evaluate_on_are_said_to_be_none(fitted, tmp_path):
    design, model = fitted
    file = ingest_frame(pd.DataFrame({"late": [0, 1], "carrier": ["AA", "B6"]}), tmp_path)
    found = metrics.evaluate(design, metrics.predict(Workload(design, [file], "evaluate"), model), 0.5)
    assert found == {"model": "m", "rows": 0, "rows_with_unseen_level": 0, "rows_with_separated_level": 0}


def test_a_metric_that_the_rows_do_not_determine_is_none(fitted):
    design, _ = fitted
    rows = {"eta": np.array([-1.0, -2.0, 0.5]), "response": np.zeros(3), "flag": np.array([0, 0, SEPARATED])}
    found = metrics.evaluate(design, rows, 0.5)
    assert (found["auc"], found["average_precision"], found["precision"], found["recall"]) == (None,) * 4
    assert (found["accuracy"], found["true_negative"]) == (1.0, 2)
    unseen = metrics.evaluate(design, rows | {"flag": np.full(3, UNSEEN)}, 0.5)
    assert unseen["rows"] == 0 and unseen["rows_with_unseen_level"] == 3


def test_a_picture_of_many_levels_shows_both_ends_and_says_so(tmp_path):
    levels = [f"L{number:03d}" for number in range(350)]
    random = np.random.default_rng(1)
    table = pd.DataFrame({"term": "dest", "level": levels, "reference": "L000", "estimate": random.normal(size=350)})
    table["std_error"] = 0.1
    table["ci_lower"], table["ci_upper"] = table["estimate"] - 0.2, table["estimate"] + 0.2
    table.loc[5, "estimate"] = np.inf
    shown = plots.shown_levels(table)
    finite = table.drop(index=5)["estimate"].sort_values()
    assert shown["estimate"].tolist() == [*finite[:12], *finite[-12:]]
    assert plots.omitted(table, "dest", shown) == "\n(the 12 lowest and highest of 349)"
    paths = [tmp_path / "plot.svg", tmp_path / "plot.png"]
    plots.coefficient_plot(table, "title", "effect", paths)
    first = paths[0].read_bytes()
    plots.coefficient_plot(table, "title", "effect", paths)
    assert paths[0].read_bytes() == first
    assert paths[1].read_bytes().startswith(b"\x89PNG")
