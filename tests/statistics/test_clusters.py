"""Clusters of standard errors, and identifiers with very many values as clusters and as terms: against statsmodels and NumPy."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oracles import assert_agrees, linear_regression, logistic_regression, treatment_contrasts
from pools import CR1, design_of, fit_files, fit_frame, ingest_frame, table_of
from tfglm.config import Layout, SelectionConfig
from tfglm.data import shards
from tfglm.data.dictionary import account, merge
from tfglm.data.ingest import ingest
from tfglm.data.limits import MOST_CODES, IngestLimits
from tfglm.data.shards import IngestedFile
from tfglm.design.checks import check_groups
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.cutting import Cutting
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.results import predict


def flights(rows: int, seed: int, planes: int) -> pd.DataFrame:
    """Flights of planes that are late alike; most planes fly rarely."""
    random = np.random.default_rng(seed)
    plane = (planes * random.random(rows) ** 2).astype(int)
    effect = random.normal(0, 1, planes)[plane]
    frame = pd.DataFrame({"tail": [f"N{number:03d}" for number in plane], "hour": random.integers(5, 23, rows)})
    frame["carrier"] = np.array(["AA", "B6", "DL"])[plane % 3]
    frame["late"] = (random.random(rows) < 1 / (1 + np.exp(1 - 0.05 * frame["hour"] - effect))).astype(int)
    return frame


@pytest.mark.slow
def test_clusters_are_the_raw_values_whatever_is_rare_or_missing(tmp_path):
    frame = flights(6_000, 1, 400)
    other = flights(4_000, 2, 500)
    files = [ingest_frame(each, tmp_path, name) for name, each in (("a", frame), ("b", other))]
    both = pd.concat([frame, other])
    matrix = treatment_contrasts(both, {"carrier": "carrier"}, ["hour"])
    exact = logistic_regression(both["late"], matrix, both["tail"])
    counts = both["tail"].value_counts()
    assert (counts < 25).sum() > 100
    for policy in ({}, {"rare": {"tail": 25}}, {"rare": {"tail": 25}, "missing": {"tail": "level"}}):
        design, fitted, _ = fit_files(
            files, "late ~ carrier + hour", "binomial", **policy, std_errors="cluster(tail)", limits=CR1
        )
        assert_agrees(table_of(design, fitted), exact, list(matrix.columns))
        assert fitted.summary["std_errors"]["clusters"] == len(counts)


@pytest.mark.slow
def test_a_column_can_be_a_term_with_rare_levels_and_the_clusters(tmp_path):
    frame = flights(6_000, 3, 150)
    counts = frame["tail"].map(frame["tail"].value_counts())
    frame["lumped"] = frame["tail"].where(counts >= 40, "~rare")
    assert (counts < 40).any()
    file = ingest_frame(frame, tmp_path)
    rare = {"tail": 40}
    design, fitted, _ = fit_files(
        [file], "hour ~ tail + late", "gaussian", rare=rare, std_errors="cluster(tail)", limits=CR1
    )
    matrix = treatment_contrasts(frame, {"tail": "lumped"}, ["late"])
    exact = linear_regression(frame["hour"], matrix, frame["tail"])
    names = [(term, level.replace("~rare", "(rare)")) for term, level in matrix.columns]
    # A plane's own level and its cluster are one: its scores add up to zero, and no error of it can be estimated.
    estimated = [("late", ""), ("tail", "(rare)")]
    assert_agrees_on(table_of(design, fitted), exact, names, estimated)
    assert fitted.summary["std_errors"]["clusters"] == frame["tail"].nunique()


def assert_agrees_on(table: pd.DataFrame, exact, names: list[tuple[str, str]], chosen: list[tuple[str, str]]) -> None:
    places = [names.index(name) for name in chosen]
    actual = table.loc[chosen]
    np.testing.assert_allclose(actual["estimate"], np.asarray(exact.params)[places], rtol=1e-6)
    np.testing.assert_allclose(actual["std_error"], np.asarray(exact.bse)[places], rtol=1e-5)


@pytest.mark.slow
def test_rows_without_a_cluster_are_dropped_and_counted_or_refused(tmp_path):
    frame = flights(5_000, 4, 300)
    frame.loc[np.random.default_rng(5).random(len(frame)) < 0.1, "tail"] = None
    file = ingest_frame(frame, tmp_path)
    known = frame.dropna()
    matrix = treatment_contrasts(known, {"carrier": "carrier"}, ["hour"])
    design, fitted, dictionary = fit_files(
        [file], "late ~ carrier + hour", "binomial", std_errors="cluster(tail)", limits=CR1
    )
    assert_agrees(
        table_of(design, fitted), logistic_regression(known["late"], matrix, known["tail"]), list(matrix.columns)
    )
    absent = int(frame["tail"].isna().sum())
    assert account([file], dictionary)["splits"]["train"]["dropped"] == {"missing: tail": absent}
    assert fitted.summary["rows"] == len(known)
    kept = merge([file], {"tail": "level"})
    with pytest.raises(UserError, match=rf"models.m.std_errors: {absent} training rows have no value of `tail`"):
        design_of("late ~ carrier + hour", "binomial", kept, [file], std_errors="cluster(tail)")


def test_only_clusters_of_rows_that_take_part_count(tmp_path):
    frame = flights(3_000, 6, 60)
    # A carrier that is never late leaves the likelihood, and its planes with it.
    late = frame["late"].where(frame["carrier"] != "DL", 0)
    left = frame[frame["carrier"] != "DL"]
    matrix = treatment_contrasts(left, {"carrier": "carrier"}, ["hour"])
    design, fitted = fit_frame(
        frame.assign(late=late), "late ~ carrier + hour", "binomial", tmp_path, std_errors="cluster(tail)", limits=CR1
    )
    assert_agrees(
        table_of(design, fitted), logistic_regression(left["late"], matrix, left["tail"]), list(matrix.columns)
    )
    assert fitted.summary["std_errors"]["clusters"] == left["tail"].nunique() < frame["tail"].nunique()


# Identifiers ----------------------------------------------------------------------------------------------------------

FIRST = 2**60 + 1
"""Floats of this size are 256 apart."""


@pytest.fixture(scope="module")
def customers(tmp_path_factory):
    """Two files of purchases by 105,000 customers, with a third of whom both have to do, as a table too."""
    random = np.random.default_rng(7)
    frames = []
    for first in (0, 35_000):
        customer = first + np.append(np.arange(70_000), random.integers(0, 70_000, 40_000))
        frame = pd.DataFrame({"customer": FIRST + customer, "x": random.normal(size=len(customer)).round(3)})
        frame["region"] = random.choice(["north", "south", "west"], len(frame))
        frame["y"] = (frame["x"] + np.sin(customer) + random.normal(size=len(frame))).round(3)
        frames.append(frame)
    folder = tmp_path_factory.mktemp("customers")
    return [ingest_frame(frame, folder, f"part{k}") for k, frame in enumerate(frames)], pd.concat(frames)


def by_cluster(matrix: np.ndarray, y: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares, and standard errors by cluster with the factor G / (G - 1) * (n - 1) / (n - p)."""
    bread = np.linalg.inv(matrix.T @ matrix)
    estimate = bread @ matrix.T @ y
    scores = matrix * (y - matrix @ estimate)[:, None]
    numbers = np.unique(clusters, return_inverse=True)[1]
    sums = np.stack([np.bincount(numbers, score) for score in scores.T], axis=1)
    rows, size = matrix.shape
    factor = len(sums) / (len(sums) - 1) * (rows - 1) / (rows - size)
    return estimate, np.sqrt(factor * np.diag(bread @ sums.T @ sums @ bread))


@pytest.mark.slow
def test_an_integer_with_very_many_values_can_be_the_clusters(customers):
    files, frame = customers
    assert not files[0].column("customer").coded
    design, fitted, dictionary = fit_files(
        files, "y ~ region + x", "gaussian", std_errors="cluster(customer)", limits=CR1
    )
    assert dictionary.columns["customer"].distinct == frame["customer"].nunique() == 105_000
    matrix = treatment_contrasts(frame, {"region": "region"}, ["x"])
    estimate, error = by_cluster(matrix.to_numpy(), frame["y"].to_numpy(), frame["customer"].to_numpy())
    table = table_of(design, fitted).loc[list(matrix.columns)]
    np.testing.assert_allclose(table["estimate"], estimate, rtol=1e-9)
    np.testing.assert_allclose(table["std_error"], error, rtol=1e-9)
    assert fitted.summary["std_errors"]["clusters"] == 105_000


@pytest.mark.slow
def test_an_integer_with_very_many_values_can_be_a_term(customers):
    files, frame = customers
    design, fitted, _ = fit_files(files, "y ~ C(customer) + x", "gaussian", rare={"customer": 2})
    rows = frame.groupby("customer")["x"].transform("size")
    level = frame["customer"].astype(str).where(rows > 1, "(rare)")
    # Frisch, Waugh and Lovell: the slope within customers; then each customer's mean of what it leaves.
    within = frame[["x", "y"]] - frame[["x", "y"]].groupby(level).transform("mean")
    slope = (within["x"] @ within["y"]) / (within["x"] @ within["x"])
    effects = (frame["y"] - slope * frame["x"]).groupby(level).mean()
    df = len(frame) - len(effects) - 1
    error = np.sqrt(((within["y"] - slope * within["x"]) ** 2).sum() / df / (within["x"] @ within["x"]))
    table = table_of(design, fitted)
    assert fitted.summary["df_residual"] == df
    assert table.loc[("x", ""), "estimate"] == pytest.approx(slope, rel=1e-9)
    assert table.loc[("x", ""), "std_error"] == pytest.approx(error, rel=1e-9)
    actual = table.loc["C(customer)"]
    assert set(actual.index) == set(effects.index)
    intercept = table.loc[("Intercept", ""), "estimate"]
    np.testing.assert_allclose(actual["estimate"] + intercept, effects.loc[actual.index], rtol=1e-7, atol=1e-9)
    assert actual["rows"].to_dict() == level.value_counts().to_dict()


def test_as_a_number_an_integer_with_very_many_values_is_what_it_was(tmp_path):
    random = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"cents": random.integers(0, 100_000, 5_000).astype(object), "g": random.choice(["a", "b"], 5_000)}
    )
    frame["y"] = (frame["cents"] > 40_000).astype(float) + random.normal(size=5_000).round(2)
    frame.loc[[3, 17], "cents"] = None
    file = ingest_frame(frame.astype({"cents": "Int64"}), tmp_path, limits=IngestLimits(most_codes=1000))
    complete = frame.dropna().astype({"cents": float})
    assert (file.column("cents").dtype, file.column("cents.codes").dtype) == ("float32", "uint16")
    column = merge([file]).columns["cents"]
    assert (column.levels, column.distinct) == (None, complete["cents"].nunique())
    assert [column.mean, column.variance] == pytest.approx([complete["cents"].mean(), complete["cents"].var(ddof=0)])
    design, fitted, _ = fit_files([file], "y ~ cents + g", "gaussian", std_errors="cluster(cents)", limits=CR1)
    matrix = treatment_contrasts(complete, {"g": "g"}, ["cents"])
    assert_agrees(
        table_of(design, fitted), linear_regression(complete["y"], matrix, complete["cents"]), list(matrix.columns)
    )


CODES = {
    "beyond 64 bits": [f"8931000000000{number:04d}000" for number in range(12)],
    "zeros before": ["007", "7", "07", *map(str, range(21, 30))],
    "exponents": ["1E5", "100000", "1e+05", *map(str, range(21, 30))],
}


def written_with(codes: list[str], kind: str, folder: Path) -> tuple[IngestedFile, pd.DataFrame]:
    """Rows of units with such codes, whose column the layout gives this type."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"id": random.choice(codes, 600), "x": random.normal(size=600).round(3)})
    effects = dict(zip(codes, random.normal(size=len(codes)), strict=True))
    frame["y"] = (frame["x"] + 3 * frame["id"].map(effects) + random.normal(size=600)).round(3)
    frame.to_csv(folder / "codes.csv", index=False)
    layout = Layout.model_validate({"columns": {"id": kind, "x": "number", "y": "number"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["id", "x", "y"]})
    ingest(folder / "codes.csv", "codes", {"own": layout}, settings, folder / "shards")
    return IngestedFile.load(folder / "shards" / "manifest.json"), frame


@pytest.mark.slow
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("kind", ["string", "integer", "number"])
def test_codes_that_numbers_do_not_tell_apart_are_no_levels_of_numbers(tmp_path, codes, kind):
    if kind == "integer" and codes == "beyond 64 bits":
        with pytest.raises(UserError, match=r"codes\.csv, line 2: column `id`: expected a whole number, found `8931"):
            written_with(CODES[codes], kind, tmp_path)
        return
    file, frame = written_with(CODES[codes], kind, tmp_path)
    if kind == "string":
        design, fitted, _ = fit_files([file], "y ~ C(id) + x", "gaussian")
        matrix = treatment_contrasts(frame, {"C(id)": "id"}, ["x"])
        assert_agrees(table_of(design, fitted), linear_regression(frame["y"], matrix), list(matrix.columns))
        _, fitted, _ = fit_files([file], "y ~ x", "gaussian", std_errors="cluster(id)", limits=CR1)
        assert fitted.summary["std_errors"]["clusters"] == len(CODES[codes])
        return
    fit_files([file], "y ~ id + x", "gaussian")
    for formula, settings in (
        ("y ~ C(id) + x", {}),
        ("y ~ x + (1 | id)", {}),
        ("y ~ x", {"std_errors": "cluster(id)"}),
    ):
        with pytest.raises(UserError, match=r"`id` is read as .*\n? *give it `type: string` in the layout"):
            fit_files([file], formula, "gaussian", **settings)
    with pytest.raises(UserError, match="by: `id` is read as numbers, which cannot tell"):
        check_groups("models.m", [file], ["id"])


@pytest.mark.parametrize("texts", [["01", "02", "10"], ["7.0", "7", "+7"], ["1e5", "2e5"]])
def test_one_writing_of_each_number_may_be_a_level(tmp_path, texts):
    file, _ = written_with(texts, "integer", tmp_path)
    fit_files([file], "y ~ C(id) + x" if len({float(text) for text in texts}) > 1 else "y ~ x + id", "gaussian")


@pytest.mark.parametrize("most_codes", [3, MOST_CODES])
def test_identifiers_beyond_two_to_the_53_stay_apart(tmp_path, most_codes):
    limits = IngestLimits(most_codes=most_codes)
    random = np.random.default_rng(9)
    frame = pd.DataFrame({"id": 2**53 + np.arange(3_000) % 7, "x": random.normal(size=3_000).round(3)})
    frame["day"] = np.arange(3_000) % 10
    frame["y"] = frame["x"] + frame["id"] % 7 + random.normal(size=3_000).round(3)
    split = {"train": "day < 9", "predict": "day = 9"}
    file = ingest_frame(frame, tmp_path, limits=limits, split=split, columns=["id", "x", "y"])
    train = frame[frame["day"] < 9]
    design, fitted, _ = fit_files([file], "y ~ C(id) + x", "gaussian")
    matrix = treatment_contrasts(train, {"C(id)": "id"}, ["x"])
    assert [level for term, level in matrix.columns if term == "C(id)"][-1] == "9007199254740998"
    assert_agrees(table_of(design, fitted), linear_regression(train["y"], matrix), list(matrix.columns))
    design, fitted, _ = fit_files([file], "y ~ x", "gaussian", std_errors="cluster(id)", limits=CR1)
    assert fitted.summary["std_errors"]["clusters"] == 7
    tables = list(predict.predictions(design, fitted, file, {}, ["id"], 0.95))
    assert [each for table in tables for each in table["id"].to_pylist()] == frame.loc[
        frame["day"] == 9, "id"
    ].to_list()


@pytest.mark.slow
def test_what_cannot_be_told_apart_is_refused_by_name(tmp_path):
    limits = IngestLimits(most_codes=100, most_levels=1000)
    frame = pd.DataFrame({"real": np.arange(2_000) / 4, "many": np.arange(2_000), "y": np.arange(2_000) % 2})
    file = ingest_frame(frame, tmp_path / "a", limits=limits)
    for column, message in {"real": "is a number with more than", "many": "has more than .* distinct values"}.items():
        for keys in (
            {"formula": f"y ~ C({column})"},
            {"formula": "y ~ many + real", "std_errors": f"cluster({column})"},
        ):
            with pytest.raises(UserError, match=rf"models.m.*`{column}` {message}"):
                design_of(family="binomial", dictionary=merge([file]), files=[file], **keys)
    with pytest.raises(
        UserError, match=r"column `many`: more than 1,000 different integers in one file, some of them beyond 2\^53"
    ):
        ingest_frame(frame.assign(many=frame["many"] + 2**60), tmp_path / "b", limits=limits)
    small = frame.head(50)
    mixed = [
        ingest_frame(small.assign(many=small["many"] + shift), tmp_path, f"f{shift}", limits) for shift in (2**60, 0.5)
    ]
    with pytest.raises(UserError, match=r"column `many` is integer in .*, with values beyond 2\^53, but number in"):
        merge(mixed)


@pytest.mark.slow
def test_a_pass_with_very_many_sums_is_cut_into_fewer_calls(tmp_path):
    frame = flights(70_000, 11, 20_000)
    files = [ingest_frame(each, tmp_path, name) for name, each in (("a", frame[:40_000]), ("b", frame[40_000:]))]
    design = design_of("late ~ carrier + hour", "binomial", merge(files), files, std_errors="cluster(tail)")

    class Counting(LocalExecutor):
        calls = ()

        def sum(self, task, calls, state):
            self.calls = (*self.calls, (json.loads(task.settings)["name"], len(calls)))
            return super().sum(task, calls, state)

    executor, whole = Counting(), Workload(design, files, "train", cutting=Cutting(fewest_rows=shards.BLOCK_ROWS))
    zero = design.by_term(np.zeros(design.size))
    gradient, scores = (whole.sum(executor, name, zero) for name in ("gradient", "scores"))
    assert executor.calls == (("gradient", 4), ("scores", 2))
    numbers = np.unique(frame["tail"], return_inverse=True)[1]
    residual = 0.5 - frame["late"]
    np.testing.assert_allclose(scores["part", 0, 0], np.bincount(numbers, residual))
    np.testing.assert_array_equal(scores["rows", 0], np.bincount(numbers))
    assert scores["part", 0, 0].sum() == pytest.approx(gradient["part", 0], rel=1e-12)
