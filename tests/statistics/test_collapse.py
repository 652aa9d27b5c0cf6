"""Fits to rows that are collapsed, against those to the rows as they are."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from configs import message
from pools import estimates_of, fit_design, ingest_frame, margins
from tfglm.config import CollapseConfig, ModelConfig, collapse_of
from tfglm.data.collapse import collapse
from tfglm.data.collapsed import ROWS
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design.build import build_design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine import collapsed
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted
from tfglm.results import coefficients
from tfglm.results.joint import joint_tests
from tfglm.solvers.fit import fit
from tfglm.solvers.run import Run

ROWS_OF_FILES = (1100, 2900)
PATH = {"select": "cross_validation", "l1_ratio": 0.5, "folds": 3, "number": 4}
MODELS = {
    "logistic": ("late ~ carrier + C(month) + hour", "binomial", {}),
    "HC1": ("late ~ carrier * C(month) + hour", "binomial", {"std_errors": "HC1"}),
    "HC3 and a spline": ("late ~ carrier + bs(hour, 4)", "binomial", {"std_errors": "HC3", "frequency": "times"}),
    "clusters": ("late ~ carrier + ns(hour, 3)", "binomial", {"std_errors": "cluster(date)", "weights": "weight"}),
    "clusters of a covariate": ("late ~ carrier + hour", "binomial", {"std_errors": "cluster(hour)"}),
    "clusters of two columns": ("count ~ carrier + hour", "poisson", {"std_errors": "cluster(date + month)"}),
    "dates": ("count ~ carrier + hour", "poisson", {"std_errors": "driscoll_kraay(date, lags=2)"}),
    "offset": ("count ~ carrier + carrier:hour", "poisson", {"offset": "log(seats)", "std_errors": "quasi"}),
    "trials": ("events ~ carrier + hour", "binomial", {"trials": "seats", "link": "cloglog"}),
    "theta": ("count ~ carrier + hour", "negative_binomial", {}),
    "gamma": ("seats ~ carrier + C(month)", "gamma", {"link": "log"}),
    "linear": ("delay ~ carrier + C(month) * hour", "gaussian", {"std_errors": "HC2", "weights": "weight"}),
    "linear, repeated": ("delay ~ carrier + hour", "gaussian", {"frequency": "times", "std_errors": "cluster(date)"}),
    "log of a mean": ("positive ~ carrier + hour", "gaussian", {"link": "log", "std_errors": "HC0"}),
    "classes": ("carrier ~ C(month) + hour", "multinomial", {"std_errors": "HC0"}),
    "ordered classes": ("carrier ~ C(month) + hour", "ordinal", {"class_order": list("BADC"), "std_errors": "HC1"}),
    "clusters of classes": ("carrier ~ C(month) + hour", "multinomial", {"std_errors": "cluster(date)"}),
    "elastic net of classes": ("carrier ~ C(month) + hour", "multinomial", {"l1": 0.01, "l2": 0.01}),
    "missing values": ("late ~ kind + hour", "binomial", {}),
    "separated": ("late ~ sure + carrier", "binomial", {"tests": "likelihood_ratio"}),
    "separated across terms": ("late ~ early + C(month)", "binomial", {}),
    "Firth": ("late ~ sure + hour", "binomial", {"firth": True}),
    "ridge": ("late ~ carrier + hour", "binomial", {"l2": 0.01, "weights": "weight", "frequency": "times"}),
    "lasso": ("delay ~ carrier + hour", "gaussian", {"l1": 0.05}),
    "absorbed": ("count ~ hour", "negative_binomial", {"absorb": ["carrier"], "std_errors": "cluster(month)"}),
    "folds": ("late ~ carrier + hour", "binomial", {"path": PATH}),
    "folds of a column": ("delay ~ carrier + hour", "gaussian", {"path": {**PATH, "by": "month"}}),
    "folds of classes": ("carrier ~ C(month) + hour", "multinomial", {"path": {**PATH, "l1_ratio": 0}}),
    "theta without a term": ("count ~ carrier + hour", "negative_binomial", {"tests": "likelihood_ratio"}),
    "theta and clusters": ("count ~ hour", "negative_binomial", {"std_errors": "cluster(date)", "frequency": "times"}),
    "power and clusters": ("amount ~ carrier", "tweedie", {"std_errors": "cluster(date)"}),
    "profile of moments": ("delay ~ carrier + hour", "gaussian", {"profile": {"of": {"hour": 1}}, "weights": "weight"}),
    "profile of Firth": ("late ~ sure + hour", "binomial", {"firth": True, "profile": {"of": {"hour": 1}}}),
    "dates of classes": ("carrier ~ hour", "multinomial", {"std_errors": "driscoll_kraay(date, lags=2)"}),
    "absorbed moments": (
        "delay ~ hour", "gaussian", {"absorb": ["carrier", "kind"], "std_errors": "HC1", "frequency": "times"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[IngestedFile]:
    """Two files whose codes differ, as the second has other levels; the rows of two dates are kept back."""
    random, rows = np.random.default_rng(5), sum(ROWS_OF_FILES)
    carrier = random.choice(list("ABCD"), rows)
    carrier[: ROWS_OF_FILES[0]] = random.choice(list("BD"), ROWS_OF_FILES[0])
    hour, month, seats = random.integers(0, 8, rows), random.integers(1, 4, rows), random.integers(2, 5, rows)
    effect = pd.Series({"A": 0.3, "B": -0.4, "C": 0.1, "D": 0.0})[carrier].to_numpy() + (hour - 4) / 6
    date = random.integers(0, 25, rows)
    shared = random.normal(0, 0.4, 25)[date]
    frame = pd.DataFrame(
        {
            "late": (random.uniform(size=rows) < 1 / (1 + np.exp(-effect - shared))).astype(int),
            "count": random.poisson(np.exp(effect + shared) * random.gamma(2, 0.5, rows)),
            "events": random.binomial(seats, 1 / (1 + np.exp(-effect))),
            "delay": np.round(effect + shared + random.normal(size=rows), 6),
            "carrier": carrier,
            "month": month,
            "hour": hour,
            "seats": seats,
            "date": date,
            "weight": random.choice([0.0, 1.0, 2.5], rows),
            "times": random.integers(0, 4, rows),
            "kind": random.choice(["x", "y", None], rows),
            "sure": random.choice(["p", "q", "r"], rows),
        }
    )
    frame["positive"] = np.exp(frame["delay"] / 3)
    amounts = np.round(random.gamma(2, 1, rows) * np.exp((hour - 4) / 8), 0) + 0.5
    frame["amount"] = np.where(random.uniform(size=rows) < 0.4, 0.0, amounts)
    frame.loc[frame["sure"] == "r", "late"] = 1
    frame["port"] = "s"
    frame["early"] = np.where(frame["late"] == 1, frame["hour"] % 2, -1)
    frame.loc[frame.index % 7 == 0, "early"] = -1
    frame.loc[frame.index % 40 == 3, "port"] = None
    parts = frame[: ROWS_OF_FILES[0]], frame[ROWS_OF_FILES[0] :]
    folder = tmp_path_factory.mktemp("rows")
    split = {"train": "date < 23", "evaluate": "date >= 23"}
    return [ingest_frame(part, folder, f"part{number}", split=split) for number, part in enumerate(parts)]


@pytest.fixture(scope="module")
def dictionary(files):
    return merge(files, {"kind": "level"})


def collapsed_file(files, dictionary, settings: CollapseConfig, folder) -> IngestedFile:
    collapse(files, dictionary, settings, folder)
    return IngestedFile.load(folder / "manifest.json")


def fit_to(workload: Workload, rows: Workload | None, held_out: Workload) -> Fitted:
    return fit(workload, Run(LocalExecutor()), held_out, rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_estimates_errors_and_tests_are_those_of_the_rows(files, dictionary, tmp_path, name):
    formula, family, keys = MODELS[name]
    model = ModelConfig(formula=formula, family=family, collapse=True, **keys)
    design = build_design("m", model, dictionary, files)
    rows = Workload(design, files, "train")
    few = collapsed_file(files, dictionary, collapse_of([model]), tmp_path / "collapsed")
    workload = collapsed.over(few, rows)
    assert workload.rows < 0.5 * rows.rows and collapsed.account(few)["rows"] == dictionary.rows["train"] < sum(
        ROWS_OF_FILES
    )
    # Only clusters that are no covariates need the rows.
    by_rows = len(workload.design.inference.clusters) < len(design.inference.clusters)
    assert by_rows == ("date" in keys.get("std_errors", ""))
    held_out = Workload(design, files, "evaluate")
    exact, fitted = fit_to(rows, None, held_out), fit_to(workload, rows if by_rows else None, held_out)
    check_alike(exact.summary, fitted.summary)
    np.testing.assert_array_equal(fitted.status, exact.status)
    np.testing.assert_array_equal(fitted.rows, exact.rows)
    np.testing.assert_allclose(fitted.responses, exact.responses, rtol=1e-12, atol=1e-9)
    if design.penalty.l1 or design.penalty.path:
        np.testing.assert_allclose(fitted.coefficients, exact.coefficients, rtol=0, atol=1e-6)
        return
    expected, actual = estimates_of(design, exact), estimates_of(design, fitted)
    (table, other), (terms, same) = (
        [make(each, *arguments) for each in (expected, actual)]
        for make, arguments in ((coefficients.table, (0.95,)), (joint_tests, ()))
    )
    errors = table["posterior_sd" if design.penalty.l2 else "std_error"].to_numpy(float)
    finite = np.isfinite(errors) & (errors > 0)
    difference = (other["estimate"] - table["estimate"]).to_numpy(float)[finite]
    assert finite.any() and np.abs(difference / errors[finite]).max() < 1e-9
    pd.testing.assert_frame_equal(other, table, check_exact=False, rtol=1e-7, atol=1e-9)
    pd.testing.assert_frame_equal(same, terms, check_exact=False, rtol=1e-7, atol=1e-9)
    for balanced in (False, True) if name in AVERAGED else ():
        if balanced and design.equations:
            continue
        averages, of_few = (
            margins(design, each, files, {}, 0.95, balanced=balanced, of_collapsed=of_collapsed)
            for each, of_collapsed in ((exact, None), (fitted, few))
        )
        pd.testing.assert_frame_equal(of_few.effects, averages.effects, check_exact=False, rtol=1e-7, atol=1e-9)
        pd.testing.assert_frame_equal(of_few.means, averages.means, check_exact=False, rtol=1e-7, atol=1e-9)


AVERAGED = (
    *("logistic", "classes", "ordered classes", "HC3 and a spline", "clusters", "offset", "linear", "missing values"),
    *("separated", "theta"),
)
NUMERICAL = ("certificate", "largest_kkt_violation", "iterations", "nearly_aliased", "path", "warnings")
"""What of a summary rounding errors decide, or numbers in texts."""


def check_alike(expected: dict, actual: dict) -> None:
    """Rows, likelihood, deviance, degrees of freedom, dispersion: those of the rows."""
    assert actual.keys() == expected.keys()
    for key in expected.keys() - set(NUMERICAL):
        if isinstance(expected[key], float):
            assert actual[key] == pytest.approx(expected[key], rel=1e-7 if "std_error" in key else 1e-9), key
        elif isinstance(expected[key], dict | list):
            for mine, theirs in zip(numbers_in(actual[key]), numbers_in(expected[key]), strict=True):
                number = isinstance(theirs, float | int)
                assert mine == (pytest.approx(theirs, rel=1e-7, abs=1e-9) if number else theirs), key
        else:
            assert actual[key] == expected[key], key
    for mine, theirs in zip(actual.get("path", ()), expected.get("path", ()), strict=True):
        for key in ("penalty", "deviance", "coefficients_not_zero", "deviance_cross_validated", "deviance_fold_2"):
            assert mine[key] == pytest.approx(theirs[key], rel=1e-9), key


def numbers_in(value) -> list:
    """The entries of lists and dicts inside one another."""
    if isinstance(value, dict | list):
        return [each for entry in (value.values() if isinstance(value, dict) else value) for each in numbers_in(entry)]
    return [value]


def models(*formulas: str, **keys) -> list[ModelConfig]:
    return [ModelConfig(formula=formula, **{"family": "gaussian", "collapse": True, **keys}) for formula in formulas]


def test_what_rows_have_to_agree_in():
    two = models("delay ~ carrier + C(month)", "delay ~ bs(hour, 4)", std_errors="cluster(date)")
    expected = CollapseConfig(columns=["carrier", "hour", "month"], responses=["delay"])
    assert collapse_of(two) == expected
    # A response of another family too, or a covariate elsewhere, has to be equal; and moments are of one kind of counts.
    for other in (
        models("delay ~ hour", family="poisson"),
        models("late ~ delay"),
        models("delay ~ hour", frequency="times"),
    ):
        assert "delay" in collapse_of([*two, *other]).columns and "delay" not in collapse_of([*two, *other]).responses
    assert collapse_of(models("y ~ x", frequency="times", weights="w", offset="log(seats)")) == CollapseConfig(
        columns=["seats", "w", "x"], frequencies=["times"], responses=["y"]
    )
    path = {"select": "cross_validation", "folds": 5}
    assert collapse_of(models("y ~ x", path=path)).folds == {"y": [5]}
    by_date = collapse_of(models("y ~ x", path={**path, "by": "date"}))
    assert not by_date.folds and by_date.columns == ["date", "x"]
    assert collapse_of(models("y ~ x", absorb=["plane"], std_errors="cluster(date)")).columns == ["date", "plane", "x"]


@pytest.mark.slow
def test_several_models_share_rows_whose_order_is_a_fair_sample(files, dictionary, tmp_path):
    sweep = [*models("late ~ carrier + hour", family="binomial"), *models("late ~ C(month)", frequency="times")]
    settings = collapse_of(sweep)
    few = collapsed_file(files, dictionary, settings, tmp_path / "one")
    again = collapsed_file(files, dictionary, settings, tmp_path / "two")
    assert few.manifest.digest == again.manifest.digest
    (shard,) = few.manifest.shards
    counts = few.stored(shard, ROWS)
    assert counts.sum() == dictionary.rows["train"] and counts.dtype == np.uint8
    hours = few.stored(shard, "hour")
    # The rows are in no order of the keys: a half of them has half of each value.
    for hour in np.unique(hours):
        assert 0.35 < (hours[: len(hours) // 2] == hour).sum() / (hours == hour).sum() < 0.65
    for model in sweep:
        design = build_design("m", model, dictionary, files)
        workload = collapsed.over(few, Workload(design, files, "train"))
        assert fit_to(workload, None, Workload(design, files, "evaluate")).coefficients == pytest.approx(
            fit_design(design, files).coefficients, abs=1e-9
        )


def test_keys_of_more_combinations_than_a_word_holds(tmp_path):
    random, rows = np.random.default_rng(2), 4000
    different = np.where(np.arange(rows) % 4 == 0, 2000 + np.arange(rows), random.integers(0, 5, rows))
    names = [f"x{number}" for number in range(8)]
    frame = pd.DataFrame({name: different * 3 + number for number, name in enumerate(names)})
    frame["x7"] += random.integers(0, 2, rows)
    frame["y"] = random.integers(0, 2, rows)
    files = [ingest_frame(frame, tmp_path)]
    (model,) = models(f"y ~ {' + '.join(names)}", family="binomial")
    few = collapsed_file(files, merge(files), collapse_of([model]), tmp_path / "collapsed")
    (shard,) = few.manifest.shards
    known = {name: np.append(np.nan, few.values(name).to_numpy())[few.stored(shard, name)] for name in [*names, "y"]}
    left = pd.DataFrame(known).astype(int).assign(rows=few.stored(shard, ROWS)).sort_values([*names, "y"])
    expected = frame.value_counts([*names, "y"], sort=False).sort_index().reset_index(name="rows")
    pd.testing.assert_frame_equal(left.reset_index(drop=True), expected, check_dtype=False)


def test_a_response_far_from_0_is_read_row_by_row(tmp_path):
    rows = pd.DataFrame({"y": 1e9 + np.arange(40) % 5, "x": np.arange(40) % 2})
    files = [ingest_frame(rows, tmp_path)]
    few = collapsed_file(files, merge(files), CollapseConfig(columns=["x"], responses=["y"]), tmp_path / "collapsed")
    assert not few.manifest.shards and "`y` has a mean so far from 0" in collapsed.in_words(few)


def test_where_it_does_not_pay_the_rows_are_read(files, dictionary, tmp_path):
    (model,) = models("late ~ delay", family="binomial")
    few = collapsed_file(files, dictionary, collapse_of([model]), tmp_path / "many")
    rows = Workload(build_design("m", model, dictionary, files), files, "train")
    assert collapsed.over(few, rows) is rows
    total = dictionary.rows["train"]
    assert collapsed.account(few) == {
        "rows": total, "distinct_rows": None, "reason": f"more than {total // 2:,} of {total:,} training rows differ",
    }  # fmt: skip
    plain = replace(
        dictionary, columns={**dictionary.columns, "hour": replace(dictionary.columns["hour"], distinct=None)}
    )
    few = collapsed_file(files, plain, CollapseConfig(columns=["hour"]), tmp_path / "plain")
    assert collapsed.in_words(few) == (
        "the fit reads the original rows, because collapsing them does not pay: `hour` has too many different numbers"
    )


@pytest.mark.slow
def test_rows_of_other_data_or_another_model_are_refused(files, dictionary, tmp_path):
    one, other = models("delay ~ carrier", "delay ~ hour")
    few = collapsed_file(files, dictionary, collapse_of([one]), tmp_path / "few")
    of_first = collapsed_file(files[:1], merge(files[:1], {"kind": "level"}), collapse_of([one]), tmp_path / "first")
    for model, rows in ((other, few), (one, of_first)):
        workload = Workload(build_design("m", model, dictionary, files), files, "train")
        with pytest.raises(UserError, match="collapsed for other data or another model than `m`"):
            collapsed.over(rows, workload)


def test_impossible_responses_are_counted_as_rows(files, dictionary, tmp_path):
    (wrong,) = models("count ~ carrier", family="binomial", trials="seats")
    few = collapsed_file(files, dictionary, collapse_of([wrong]), tmp_path / "few")
    rows = Workload(build_design("m", wrong, dictionary, files), files, "train")
    messages = []
    for workload in (rows, collapsed.over(few, rows)):
        messages.append(message(fit_to, workload, None, Workload(rows.design, files, "evaluate")))
    assert messages[0] == messages[1] and "training rows have more events in `count` than trials" in messages[0]
