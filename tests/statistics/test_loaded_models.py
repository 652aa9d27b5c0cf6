"""A fitted model in Python gives the numbers that the workflow writes."""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.inspection import partial_dependence, permutation_importance

import predict as predict_script
import tfglm
from pools import fit_files, ingest_frame, write_results
from tfglm.config import Layout, ResultsConfig, SelectionConfig, times_in
from tfglm.data.ingest import ingest
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.model import Model
from tfglm.results import csv_files

SCRIPTS = Path(__file__).parents[2] / "scripts"
PREDICTION = {"train": "FALSE", "predict": "TRUE"}


def rows_of(number: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"carrier": random.choice(["AA", "B6", "UA"], number), "month": random.integers(1, 4, number)})
    frame["distance"] = random.normal(1000, 300, number)
    frame["late"] = (random.random(number) < 0.2 + 0.3 * (frame["carrier"] == "B6")).astype(int)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The results of a regression, as the workflow writes them."""
    folder = tmp_path_factory.mktemp("loaded")
    file = ingest_frame(rows_of(2000, 1), folder / "data")
    design, fitted, _ = fit_files(
        [file], "late ~ carrier + C(month):poly(distance, 2)", "binomial", std_errors="robust"
    )
    fitted.summary["provenance"] = {"model": {}}
    write_results(fitted, design, folder)
    return folder


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Rows to predict, with an index of their own and what has no prediction."""
    frame = rows_of(300, 2).drop(columns="late").astype({"month": object})
    frame.loc[5, "carrier"], frame.loc[6, "carrier"], frame.loc[7, "month"] = "ZZ", None, None
    return frame.set_axis([f"row {number}" for number in range(300)])


def written_predictions(folder: Path, frame: pd.DataFrame, scratch: Path, policy: str) -> pd.DataFrame:
    """What the rule `predict` writes of these rows in a CSV file."""
    file = ingest_frame(frame.astype({"month": float}).astype({"month": "Int64"}), scratch, split=PREDICTION)
    names = {"design": "design.json", "checkpoint": "checkpoint", "fit": "fit.json", "reference": "reference.json"}
    arguments = argparse.Namespace(
        **{key: folder / name for key, name in names.items()},
        manifest=file.folder / "manifest.json",
        settings=ResultsConfig(unseen=policy, confidence=0.9),
        split="predict",
        output=scratch / "predictions.parquet",
    )
    predict_script.main(arguments)
    return pq.read_table(arguments.output).to_pandas()


@pytest.mark.parametrize("policy", ["missing", "reference"])
def test_predictions_of_a_frame_are_those_of_the_workflow(folder, frame, tmp_path, policy):
    expected = written_predictions(folder, frame, tmp_path, policy)
    actual = tfglm.load(folder).predict(frame, std_errors=True, interval=0.9, unseen=policy)
    assert actual.index.tolist() == frame.index.tolist()
    pd.testing.assert_frame_equal(
        actual.reset_index(drop=True), expected.drop(columns=["file", "row"]), check_exact=True
    )
    assert actual["probability"].isna().sum() == (2 if policy == "reference" else 3)
    assert actual.loc["row 5", "unseen"] == "carrier" and actual.loc["row 7", "remark"] == "missing value"


def test_what_is_not_asked_for_is_left_out(folder, frame):
    model = tfglm.load(folder)
    columns = ["linear_predictor", "probability", "unseen", "remark"]
    assert list(model.predict(frame[:5])) == columns
    assert list(model.predict(frame[:5], interval=0.9)) == [*columns[:2], "ci_lower", "ci_upper", *columns[2:]]
    assert "linear_predictor_std_error" in model.predict(frame[:5], std_errors=True)


def test_categories_and_whole_numbers_are_read_as_they_are_meant(folder, frame):
    model, good = tfglm.load(folder), frame.drop(["row 5", "row 6", "row 7"])
    other = good.assign(carrier=good["carrier"].astype("category"), month=good["month"].astype("Int64"))
    assert model.predict(other).equals(model.predict(good))
    columns = good.to_dict("list")
    for rows in (columns, pa.table({name: pa.array(values) for name, values in columns.items()})):
        assert model.predict(rows).equals(model.predict(good).reset_index(drop=True))


def test_tables_are_those_of_the_files(folder):
    model = tfglm.load(folder)
    table = csv_files.read(folder / "coefficients.csv", folder / "fit.json")
    assert model.coefficients.loc[("carrier", "B6"), "estimate"] == table.set_index("level").loc["B6", "estimate"]
    kept = model.coefficients["std_error"].notna()
    names = [f"{term}[{level}]" if level else term for term, level in model.coefficients.index[kept]]
    vcov = model.vcov()
    assert list(vcov) == list(vcov.index) == names
    assert np.sqrt(np.diag(vcov)) == pytest.approx(model.coefficients["std_error"][kept].to_numpy(), rel=1e-12)
    assert model.terms.loc["carrier", "df"] == 2
    assert model.fit["rows"] == 2000 and "late ~ carrier" in repr(model) and "robust" in repr(model)
    page = model._repr_html_()
    assert "<td>B6</td>" in page and "2,000 rows" in page


def test_mistakes_are_named(folder, frame):
    model = tfglm.load(folder)
    for wrong, message in (
        (frame.drop(columns="carrier"), "no column `carrier`"),
        (frame.assign(carrier=1), "`carrier` is to hold text"),
        (frame.assign(month=1.5), "the frame, row 1: column `month`"),
        (frame.assign(distance=np.inf), "`distance` is infinite"),
        ("file.csv", r"^predict: a str is no table; give one, such as pandas\.read_csv\(file\)"),
        (frame["carrier"], r"^predict: a Series is no table; give one, such as pandas\.DataFrame\(rows\)"),
        ({"carrier": ["AA"], "month": [1, 2]}, "^predict: .*\n  give each column a list, all of the same length"),
    ):
        with pytest.raises(UserError, match=message):
            model.predict(wrong)
    for coverage in (95, 1, 0, -1, True, float("nan"), "0.9"):
        with pytest.raises(UserError, match=f"^interval: expected a number between 0 and 1, .* received {coverage!r}"):
            model.predict(frame, interval=coverage)
        with pytest.raises(UserError, match=r"^conf_level: expected a number between 0 and 1"):
            model.tidy(coverage)
    with pytest.raises(UserError, match=r"carrier: ZZ \(1 row\)"):
        model.predict(frame, unseen="error")
    with pytest.raises(UserError, match=r"metrics.json is not there"):
        _ = model.metrics
    with pytest.raises(UserError, match=r"no fitted model is here"):
        tfglm.load(folder / "data")


@pytest.mark.processes
def test_no_tensorflow_is_needed_and_nothing_slow_until_then(folder):
    line = (
        "import sys, tfglm; before = set(sys.modules); print('pandas' in before, end=' ')\n"
        f"tfglm.load({str(folder)!r}).vcov(); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", line], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_columns_that_the_frame_lacks_are_derived_as_the_workflow_does(tmp_path):
    rows = rows_of(400, 3).assign(departure=np.random.default_rng(4).integers(0, 2400, 400))
    derive = {"hour": "departure // 100 % 24", "far": "distance > 1000", "far_late": "far * hour"}
    file = ingest_frame(rows, tmp_path / "data", derive=derive, columns=["late", "carrier", "hour", "far_late"])
    design, fitted, _ = fit_files([file], "late ~ carrier + hour + far_late", "binomial")
    layouts = {"other": {"hour": "hhmm // 100"}, "own": {"hour": derive["hour"]}}
    of_config = {name: derive[name] for name in ("far", "far_late")}
    fitted.summary["provenance"] = {"model": {}, "data": {"derive": of_config}, "derived_in_layouts": layouts}
    write_results(fitted, design, tmp_path)
    model = tfglm.load(tmp_path)
    hour = rows["departure"] // 100 % 24
    computed = rows.assign(hour=hour, far_late=(rows["distance"] > 1000) * hour)
    expected = model.predict(computed[["carrier", "hour", "far_late"]])
    pd.testing.assert_frame_equal(model.predict(rows[["carrier", "departure", "distance"]]), expected)
    # A column that is there is not derived again.
    given = rows.assign(hour=3)[["carrier", "departure", "distance", "hour"]]
    assert not np.allclose(model.predict(given)["linear_predictor"], expected["linear_predictor"])
    with pytest.raises(UserError, match="the frame has no column `hour`, `far_late`"):
        model.predict(rows[["carrier", "departure"]])


def test_dates_of_a_frame_may_be_text_as_in_the_files(tmp_path):
    rows = rows_of(400, 8)
    days = pd.Series(pd.Timestamp("2019-01-01") + pd.to_timedelta(np.arange(400) % 90, "D"))
    hours = np.arange(400) % 24
    rows["departure"] = [f"{day:%d.%m.%Y} {hour:02d}:30" for day, hour in zip(days, hours, strict=True)]
    layout = Layout.model_validate(
        {
            "columns": {
                **dict.fromkeys(("late", "month", "distance"), "integer"),
                "carrier": "string",
                "day": {"type": "date", "source": "departure", "format": "%d.%m.%Y %H:%M"},
                "time": {"type": "clock", "source": "departure", "format": "%d.%m.%Y %H:%M"},
            }
        }
    )
    times = times_in([layout])
    assert times == {
        "day": {"type": "date", "format": ["%d.%m.%Y %H:%M", "%Y-%m-%d"], "missing": ["NA", ""]},
        "time": {"type": "clock", "format": ["%d.%m.%Y %H:%M"], "missing": ["NA", ""]},
    }
    rows.to_csv(tmp_path / "x.csv", index=False)
    derive = {"weekday": "EXTRACT(ISODOW FROM day)", "hour": "time // 100"}
    keys = {"split": {"train": "TRUE"}, "derive": derive, "columns": ["late", "weekday", "hour", "day"]}
    ingest(tmp_path / "x.csv", "x", {"l": layout}, SelectionConfig.model_validate(keys), tmp_path / "shards")
    file = IngestedFile.load(tmp_path / "shards" / "manifest.json")
    expected = pd.DataFrame({"weekday": days.dt.day_of_week + 1, "hour": hours})
    stamps = days + pd.to_timedelta(hours * 60 + 30, "min")
    frames = {
        "as in the files": {"day": rows["departure"], "time": rows["departure"]},
        "ISO": {"day": days.dt.strftime("%Y-%m-%d"), "time": rows["departure"]},
        "pandas": {"day": days, "time": stamps},
        "Python": {"day": days.dt.date, "time": stamps.dt.to_pydatetime()},
        "whole numbers": {"day": days, "time": 100 * hours + 30},
    }
    levels = pd.DataFrame({"day": days.dt.strftime("%Y-%m-%d")})
    for number, (formula, shown) in enumerate((("late ~ C(weekday) + hour", expected), ("late ~ day", levels))):
        folder = tmp_path / str(number)
        folder.mkdir()
        design, fitted, _ = fit_files([file], formula, "gaussian")
        fitted.summary["provenance"] = {"model": {}, "data": {"derive": derive}, "times_in_layouts": times}
        write_results(fitted, design, folder)
        model = tfglm.load(folder)
        for name, columns in frames.items():
            predicted = model.predict(pd.DataFrame(columns))
            assert predicted["mean"].notna().all(), name
            pd.testing.assert_frame_equal(predicted, model.predict(shown))
    refusal = "row 1: column `day`: expected a date .%d.%m.%Y %H:%M or %Y-%m-%d., found `tomorrow`"
    with pytest.raises(UserError, match=refusal):
        model.predict(pd.DataFrame({"day": ["tomorrow"]}))
    assert model.predict(pd.DataFrame({"day": ["NA", None]}))["remark"].tolist() == ["missing value"] * 2


def test_tidy_glance_and_summary_are_those_of_the_tables(folder):
    model = tfglm.load(folder)
    tidy, glance = model.tidy(), model.glance()
    assert tidy.columns.tolist() == [
        *("term", "level", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
    ]
    assert tidy.loc[tidy["term"] == "carrier", "level"].tolist() == ["B6", "UA"]
    assert tidy["statistic"].to_numpy() == pytest.approx(tidy["estimate"] / tidy["std.error"])
    assert len(glance) == 1 and glance["nobs"].item() == 2000 and glance["std_errors"].item() == "robust"
    assert glance["AIC"].item() == model.fit["aic"] and "r.squared" not in glance
    text = repr(model.summary())
    assert text.splitlines()[0] == "m: late ~ carrier + C(month):poly(distance, 2)"
    assert f"{tidy['estimate'].iloc[0]:.5g}" in text and "nobs 2,000" in text and "df.residual 1,9" in text


def test_tests_by_t_have_their_degrees_of_freedom(tmp_path):
    design, fitted, _ = fit_files([ingest_frame(rows_of(50, 5), tmp_path / "data")], "distance ~ carrier", "gaussian")
    fitted.summary["provenance"] = {"model": {}}
    write_results(fitted, design, tmp_path)
    assert tfglm.load(tmp_path).tidy()["df"].tolist() == [47.0] * 3


def loaded(folder: Path, rows: pd.DataFrame, formula: str, family: str, **keys) -> Model:
    design, fitted, _ = fit_files([ingest_frame(rows, folder / "data")], formula, family, **keys)
    fitted.summary["provenance"] = {"model": {}}
    write_results(fitted, design, folder)
    return tfglm.load(folder)


def test_tools_of_scikit_learn_take_the_estimator_of_two_classes(folder):
    model, rows = tfglm.load(folder), rows_of(500, 6)
    estimator, covariates = model.estimator(), rows[["carrier", "month", "distance"]]
    probability = model.predict(rows)["probability"].to_numpy()
    assert is_classifier(estimator) and set(estimator.feature_names_in_) == set(covariates)
    assert np.array_equal(estimator.predict_proba(covariates), np.column_stack([1 - probability, probability]))
    assert estimator.score(covariates, rows["late"]) == ((probability > 0.5) == rows["late"]).mean()
    # scikit-learn's averages are those of predictions with the value in every row.
    curve = partial_dependence(estimator, covariates.astype({"distance": float}), ["distance"], grid_resolution=4)
    means = [model.predict(rows.assign(distance=value))["probability"].mean() for value in curve["grid_values"][0]]
    assert curve["average"][0] == pytest.approx(means, rel=1e-12)
    importance = permutation_importance(estimator, covariates, rows["late"], n_repeats=2, random_state=0)
    assert importance.importances.shape == (3, 2)
    # A copy is fitted by the call, to any rows.
    copy = clone(estimator).fit(covariates, rows["late"])
    expected = tfglm.fit(model.fit["formula"], rows, "binomial", std_errors="robust").predict(rows)["probability"]
    assert np.array_equal(copy.predict_proba(covariates)[:, 1], expected)


def test_estimators_of_numbers_and_classes_predict_as_the_model_does(tmp_path):
    rows = rows_of(600, 7)
    rows["kind"] = np.where(rows["distance"] > 1100, "long", np.where(rows["late"] == 1, "late", "other"))
    rows["seats"], rows["taken"] = 50 + rows["month"], 20 + rows["late"]
    number = loaded(tmp_path / "number", rows, "distance ~ carrier", "gaussian")
    assert is_regressor(number.estimator())
    assert np.array_equal(number.estimator().predict(rows), number.predict(rows)["mean"])
    classes = loaded(tmp_path / "classes", rows, "kind ~ carrier", "multinomial")
    assert classes.estimator().classes_.tolist() == ["late", "long", "other"]
    assert classes.estimator().predict(rows).tolist() == classes.predict(rows)["predicted"].tolist()
    shares = classes.estimator().predict_proba(rows)
    assert shares.shape == (600, 3) and shares.sum(axis=1) == pytest.approx(np.ones(600))
    events = loaded(tmp_path / "events", rows, "taken ~ carrier", "binomial", trials="seats")
    assert is_regressor(events.estimator())
    assert np.array_equal(events.estimator().predict(rows), events.predict(rows)["probability"])


def test_what_an_estimator_cannot_do_is_refused(folder, frame):
    estimator = tfglm.load(folder).estimator()
    with pytest.raises(UserError, match="3 rows have no prediction, the first: unseen level"):
        estimator.predict(frame)
    assert len(tfglm.load(folder).estimator("reference").predict(frame.drop(["row 6", "row 7"]))) == 298
    with pytest.raises(UserError, match="give a pandas DataFrame"):
        estimator.predict(frame.to_numpy())
    with pytest.raises(NotFittedError):
        clone(estimator).predict(frame)
    for computed in ({"formula": "log(distance) ~ carrier"}, {"trials": "seats"}):
        with pytest.raises(UserError, match=r"so y cannot be its response; fit it by `tfglm.fit`"):
            clone(estimator).set_params(**computed).fit(frame, np.arange(len(frame)) % 2)
