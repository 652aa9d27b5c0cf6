"""Several files as one table: levels, rare and missing ones, the account of rows, and fits with them against statsmodels."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars import testing as pl_testing
from pyarrow import parquet

from oracles import assert_agrees, linear_regression, logistic_regression, treatment_contrasts
from pools import fit_files, ingest_frame, table_of
from tfglm.config import Layout, SelectionConfig
from tfglm.data import levels, parser
from tfglm.data.dictionary import Dictionary, account, merge
from tfglm.data.ingest import ingest
from tfglm.data.limits import IngestLimits
from tfglm.data.shards import LEVELS, MISSING, IngestedFile, Manifest, Shard, StoredColumn
from tfglm.design.checks import check_groups
from tfglm.errors import UserError
from tfglm.report import row_account

SPLIT = {"train": "day <= 20", "evaluate": "day BETWEEN 21 AND 26", "predict": "day > 26"}
COLUMNS = ["late", "carrier", "dest", "month"]


def flights(rows: int, seed: int, carriers: list[str], dests: int) -> pd.DataFrame:
    """Flights some of which lack the carrier, the month, the response or several of these."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "day": random.integers(1, 32, rows),
            "late": pd.array(random.integers(0, 2, rows), "Int64"),
            "carrier": random.choice(carriers, rows),
            # Squared, so that some destinations are rare.
            "dest": [f"D{number:02d}" for number in (dests * random.random(rows) ** 3).astype(int)],
            "month": pd.array(random.integers(1, 13, rows), "Int64"),
        }
    )
    for column, share in (("late", 0.01), ("carrier", 0.1), ("month", 0.05)):
        frame.loc[random.random(rows) < share, column] = None
    return frame


@pytest.fixture(scope="module")
def two_years(tmp_path_factory) -> tuple[list[IngestedFile], pd.DataFrame]:
    """Two ingested files with different levels, so different codes, and their rows."""
    folder = tmp_path_factory.mktemp("years")
    frames = {"2006": flights(9_000, 6, ["AA", "B6", "PA (1)"], 20), "2007": flights(12_000, 7, ["AA", "DL"], 40)}
    files = [ingest_frame(frame, folder, name, split=SPLIT, columns=COLUMNS) for name, frame in frames.items()]
    return files, pd.concat(frames.values(), keys=frames, names=["file", None]).reset_index("file")


def as_table(frame: pd.DataFrame, missing: dict[str, str], rare: dict[str, int]) -> pd.DataFrame:
    """The training rows in use as pandas makes them under the same policies, all but the response as text. The levels that
    are made are written ~rare and ~missing here, so that they sort last."""
    required = [column for column in COLUMNS if missing.get(column) != "level"]
    train = frame[frame["day"] <= 20].dropna(subset=required).copy()
    for column in ("carrier", "dest", "month"):
        counts = train[column].map(train[column].value_counts())
        train[column] = train[column].astype("string")
        train.loc[counts < rare.get(column, 0), column] = "~rare"
        train[column] = train[column].fillna("~missing")
    return train


POLICIES = {
    "drop all": ({}, {}),
    "a level of missing values": ({"carrier": "level"}, {}),
    "missing values of numbers too": ({"carrier": "level", "month": "level"}, {}),
    "rare": ({}, {"dest": 150}),
    "rare numbers, and missing": ({"carrier": "level", "month": "level"}, {"dest": 150, "month": 1055}),
}


# Levels ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_levels_and_counts_are_those_of_pandas(two_years, policy):
    files, frame = two_years
    missing, rare = POLICIES[policy]
    train = as_table(frame, missing, rare)
    merged = merge(files, missing, rare)
    assert merged.rows["train"] == len(train)
    for name in ("carrier", "dest", "month"):
        column = merged.columns[name]
        expected = train[name].value_counts().to_dict()
        labels = [level.replace("~", "(") + ")" for level in ("~rare", "~missing") if level in expected]
        ordinary = sorted(set(expected) - {"~rare", "~missing"}, key=float if name == "month" else str)
        assert column.labels == [*ordinary, *labels]
        counts = dict(zip([str(level) for level in column.levels], column.train_rows, strict=True))
        if name == "month":
            counts = {level.removesuffix(".0"): rows for level, rows in counts.items()}
        assert {level: counts[level] for level in ordinary} == {level: expected[level] for level in ordinary}
        assert column.rare_rows == expected.get("~rare", 0)
        assert (column.missing_rows or 0) == expected.get("~missing", 0)
    late = train["late"].astype(float)
    assert [merged.columns["late"].mean, merged.columns["late"].variance] == pytest.approx(
        [late.mean(), late.var(ddof=0)]
    )


@pytest.mark.slow
def test_numbers_that_are_stored_as_they_are_are_described_without_the_dropped_rows(tmp_path):
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"x": random.normal(5, 2, 30_000), "g": random.choice(["a", "b"], 30_000).astype(object)})
    frame.loc[random.random(30_000) < 0.3, "g"] = None
    frame.loc[random.random(30_000) < 0.1, "x"] = None
    halves = (frame[:20_000], frame[20_000:])
    limits = IngestLimits(most_codes=50)
    files = [ingest_frame(half, tmp_path, f"part{number}", limits) for number, half in enumerate(halves)]
    assert not files[0].column("x").coded
    for policy, rows in (("drop", frame.dropna()), ("level", frame.dropna(subset="x"))):
        x = merge(files, {"g": policy}).columns["x"]
        expected = [rows["x"].mean(), rows["x"].var(ddof=0), rows["x"].min(), rows["x"].max()]
        assert [x.mean, x.variance, x.minimum, x.maximum] == pytest.approx(expected, rel=1e-12)


def test_missing_values_are_a_level_only_if_training_has_them(tmp_path):
    frame = pd.DataFrame({"day": [1, 1, 25], "carrier": ["AA", "DL", None]})
    file = ingest_frame(frame, tmp_path, split=SPLIT, columns=["carrier"])
    assert merge([file], {"carrier": "level"}).columns["carrier"].labels == ["AA", "DL"]


@pytest.mark.parametrize(
    ("texts", "twice"),
    [
        (["7 8", "007 8"], "`007` in 1.csv and `7` in 0.csv"),
        (["007 8", "8 10", "7"], "`007` in 0.csv and `7` in 2.csv"),
        (["1e2 8", "100"], "`1e2` in 0.csv and `100` in 1.csv"),
        (["007 8", "07"], "`07` in 1.csv and `007` in 0.csv"),
        (["007 8", "010 8", "007 010 11"], ""),
        (["007 8", "8 9"], ""),
    ],
)
def test_codes_that_files_write_otherwise_are_no_levels(texts, twice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = Layout.model_validate({"columns": {"g": "integer"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["g"]})

    def ingested(number: int) -> IngestedFile:
        Path(f"{number}.csv").write_text("\n".join(["g", *texts[number].split()]), encoding="utf-8")
        ingest(Path(f"{number}.csv"), str(number), {"own": layout}, settings, Path(f"shards{number}"))
        return IngestedFile.load(Path(f"shards{number}/manifest.json"))

    files = [ingested(number) for number in range(len(texts))]
    assert merge(files).columns["g"].twice == twice
    if twice:
        with pytest.raises(UserError, match="cannot tell all its values in"):
            check_groups("m", files, ["g"])
    # Of so many texts none is looked at.
    monkeypatch.setattr(parser, "MOST_CODES", 1)
    assert not merge([ingested(number) for number in range(len(texts))]).columns["g"].twice


def test_without_a_rare_level_there_is_no_level_for_them(tmp_path):
    file = ingest_frame(pd.DataFrame({"carrier": ["AA", "AA", "DL", "DL"]}), tmp_path)
    assert merge([file], rare={"carrier": 2}).columns["carrier"].labels == ["AA", "DL"]
    assert merge([file], rare={"carrier": 3}).columns["carrier"].labels == ["(rare)"]


def test_levels_have_the_order_of_the_config(tmp_path):
    frame = pd.DataFrame({"size": ["small", "large", "small", "large", "tiny", None], "month": [10, 9, 9, 9, 10, 10]})
    files = [ingest_frame(frame, tmp_path, columns=["size", "month"])]
    order = {"size": ["tiny", "small", "large"], "month": ["10", "9"]}
    merged = merge(files, {"size": "level"}, {"size": 2}, order)
    assert merged.columns["size"].labels == ["small", "large", "(rare)", "(missing)"]
    assert merged.columns["month"].labels == ["10", "9"] and merged.columns["month"].levels == [9, 10]
    merged.write(tmp_path / "dictionary.json")
    assert Dictionary.load(tmp_path / "dictionary.json", merged.data, tmp_path) == merged


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            {"size": ["smal", "large", "tiny"]},
            r"data.order.size: no training row has the level `smal`; did you mean `small`\?",
        ),
        ({"size": ["small", "large"]}, "data.order.size: `tiny` has no place in it; name each level once"),
        ({"month": ["9"]}, "data.order.month: `10` has no place in it"),
        ({"x": ["0.5", "1.5"]}, "data.order.x: `x` has too many different numbers, which are no levels"),
    ],
)
def test_an_order_that_is_not_that_of_all_levels_is_refused_by_name(tmp_path, order, message):
    frame = pd.DataFrame({"size": ["small", "large", "tiny"] * 100, "month": [10, 9] * 150})
    frame["x"] = np.arange(len(frame)) / 7
    files = [ingest_frame(frame, tmp_path, limits=IngestLimits(most_codes=50))]
    with pytest.raises(UserError, match=message):
        merge(files, order=order)


@pytest.mark.parametrize("day", [1, 25])
def test_a_value_written_like_a_level_that_is_made_is_refused(tmp_path, day):
    frame = pd.DataFrame(
        {"day": [1, 1, 1, day], "carrier": ["AA", "AA", None, "(missing)"], "dest": ["X", "X", "X", "(rare)"]}
    )
    file = ingest_frame(frame, tmp_path, split=SPLIT, columns=["carrier", "dest"])
    with pytest.raises(
        UserError, match=r"(?s)column `carrier` holds the value `\(missing\)`.* take `carrier` out of data.missing"
    ) as error:
        merge([file], {"carrier": "level"})
    assert "data.derive" in str(error.value)
    with pytest.raises(UserError, match=r"(?s)column `dest` holds the value `\(rare\)`.* data.rare"):
        merge([file], {}, {"dest": 5})
    # In a column without such a level it is a value like any other.
    assert merge([file]).rows["train"] == 2 + (day == 1)


# Files that do not agree ----------------------------------------------------------------------------------------------


def test_text_in_one_file_and_numbers_in_another_are_refused(tmp_path):
    files = [
        ingest_frame(pd.DataFrame({"gate": gates}), tmp_path, name)
        for name, gates in (("a", [1, 2]), ("b", ["C", "D"]))
    ]
    with pytest.raises(UserError, match=r"column `gate` is text in .*b.csv but integer in .*a.csv"):
        merge(files)


@pytest.mark.parametrize("values", [[1, 2], [1.5, 2.0], ["AA", "B6"]])
@pytest.mark.parametrize("other", [int, float, str])
def test_a_column_that_a_file_has_no_value_of_takes_its_type_from_the_others(tmp_path, values, other):
    nothing = pd.DataFrame({"day": [1, 2], "gate": [None, None]})
    types = {int: "CAST(NULL AS INT)", float: "CAST(NULL AS DOUBLE)", str: "CAST(NULL AS VARCHAR)"}
    empty = ingest_frame(nothing[["day"]], tmp_path, "empty", derive={"gate": types[other]}, columns=["gate"])
    full = ingest_frame(pd.DataFrame({"gate": values}), tmp_path, "full")
    for files in ([empty, full], [full, empty]):
        gate = merge(files).columns["gate"]
        assert gate.levels == values
        assert gate.labels == [str(value) for value in values]
        both = merge(files, {"gate": "level"}).columns["gate"]
        assert both.labels == [*map(str, values), "(missing)"]
        assert both.missing_rows == 2


@pytest.mark.parametrize("missing", [{}, {"tailnum": "level"}])
def test_a_column_without_any_value_is_named_with_the_files_and_the_way_out(tmp_path, missing):
    frame = pd.DataFrame({"carrier": ["AA", "B6"], "tailnum": [None, None]})
    files = [ingest_frame(frame, tmp_path, name) for name in ("1987", "1988")]
    with pytest.raises(UserError, match=r"column `tailnum`: no kept row .* has a value .*1987.csv.*1988.csv") as error:
        merge(files, missing)
    assert "take it out of data.columns, or choose files that have it" in str(error.value)


# A table of levels made by hand ---------------------------------------------------------------------------------------


def by_hand(folder: Path, rows: list[dict], shards: tuple[Shard, ...], read: int) -> IngestedFile:
    """A file with a text column `g`, a number column `x` that is not coded, and these rows of levels.parquet."""
    columns = (
        StoredColumn(MISSING, "text", "uint8", True),
        StoredColumn("g", "text", "uint8", True),
        StoredColumn("x", "number", "float64", False),
    )
    manifest = Manifest("hand", "hand.csv", "0" * 64, "own", 8192, columns, shards, read, {"where: flown": 2})
    table = pl.DataFrame(rows, levels.LEVELS_SCHEMA)
    levels.write(folder / LEVELS, [table.filter(pl.col("column") == column.name).to_arrow() for column in columns])
    return IngestedFile(folder, manifest, np.zeros((0, 3), np.int64))


HAND = [
    # Codes in no particular order; two shards; the patterns are 1: nothing missing, 2: g, 3: x.
    {"column": MISSING, "code": 2, "split": "train", "pattern": 2, "rows": 3, "text": "g"},
    {"column": MISSING, "code": 1, "split": "train", "pattern": 1, "rows": 6, "text": ""},
    {"column": MISSING, "code": 3, "split": "predict", "pattern": 3, "rows": 2, "text": "x"},
    {"column": "g", "code": 2, "split": "train", "pattern": 1, "rows": 4, "text": "a"},
    {"column": "g", "code": 0, "split": "train", "pattern": 2, "rows": 3},
    {"column": "g", "code": 1, "split": "train", "pattern": 1, "rows": 2, "text": "b"},
    {"column": "g", "code": 1, "split": "predict", "pattern": 3, "rows": 2, "text": "b"},
    *(
        {"column": "x", "code": 0, "split": "train", "pattern": pattern, "rows": rows}
        | {"mean": mean, "variance": 0.25, "minimum": mean - 1, "maximum": mean + 1}
        for pattern, rows, mean in ((1, 4, 1.0), (1, 2, 4.0), (2, 3, 10.0))
    ),
]  # fmt: skip
TWO_SPLITS = (Shard("shards/train-00000", "train", 9), Shard("shards/predict-00000", "predict", 2))


def test_a_number_column_is_summed_over_shards_and_patterns(tmp_path):
    file = by_hand(tmp_path, HAND, TWO_SPLITS, 13)
    x = merge([file]).columns["x"]
    assert [x.mean, x.variance, x.minimum, x.maximum] == pytest.approx([2.0, 0.25 + 2.0, 0.0, 5.0])
    merged = merge([file], {"g": "level"})
    x, g = merged.columns["x"], merged.columns["g"]
    assert [x.mean, x.maximum] == pytest.approx([(4 + 8 + 30) / 9, 11.0])
    assert (g.levels, g.train_rows, g.missing_rows, g.labels) == (["a", "b"], [4, 2], 3, ["a", "b", "(missing)"])
    assert merged.rows == {"train": 9, "evaluate": 0, "predict": 2}


def test_tables_read_together_are_those_read_one_by_one(tmp_path, monkeypatch):
    frame = pd.DataFrame({"g": ["a", None, "b", "a"], "n": [7, 8, 8, None], "x": [0.5, 1.5, None, 2.5]})
    halves = [(frame, "first"), (frame[:2], "second"), (frame[:0], "none")]
    together = [ingest_frame(half, tmp_path / "together", name) for half, name in halves]
    monkeypatch.setattr(levels, "MOST_TOGETHER", 0)
    apart = [ingest_frame(half, tmp_path / "apart", name) for half, name in halves]
    groups = [
        [parquet.read_metadata(file.folder / LEVELS).num_row_groups for file in files] for files in (together, apart)
    ]
    assert groups == [[1, 1, 4], [4, 4, 4]]
    for one, other in zip(together, apart, strict=True):
        for name in (MISSING, *frame):
            pl_testing.assert_frame_equal(one.levels(name), other.levels(name))
            assert one.values(name).to_list() == other.values(name).to_list()
    assert asdict(merge(together))["columns"] == asdict(merge(apart))["columns"]


# The account ----------------------------------------------------------------------------------------------------------


def assert_adds_up(each: dict) -> None:
    splits = each["splits"].values()
    assert each["read"] == sum(each["dropped"].values()) + sum(split["rows"] for split in splits)
    for split in splits:
        assert split["rows"] == sum(split["dropped"].values()) + split["used"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_account_adds_up_by_file_and_split_and_agrees_with_pandas(two_years, policy):
    files, frame = two_years
    missing, rare = POLICIES[policy]
    merged = merge(files, missing, rare)
    accounted = account(files, merged)
    assert list(accounted["files"]) == ["2006", "2007"]
    for each in (accounted, *accounted["files"].values()):
        assert_adds_up(each)
    assert accounted["read"] == len(frame)
    for name, each in accounted["files"].items():
        rows = frame[(frame["file"] == name) & (frame["day"] <= 20)]
        lacking = rows[merged.required].isna()
        reasons = lacking[lacking.any(axis=1)].apply(lambda row: "missing: " + ",".join(row.index[row]), axis=1)
        assert each["splits"]["train"]["dropped"] == reasons.value_counts().to_dict()
    assert accounted["splits"]["predict"] == {"rows": (used := (frame["day"] > 26).sum()), "dropped": {}, "used": used}
    lumped = as_table(frame, missing, rare).isin(["~rare"]).sum().to_dict()
    assert {name: each["rows"] for name, each in accounted["rare"].items()} == {name: lumped[name] for name in rare}
    for name, each in accounted["rare"].items():
        assert each["levels"] == len(merged.columns[name].rare) > 1


def test_an_account_that_does_not_add_up_is_not_written(tmp_path):
    good = by_hand(tmp_path, HAND, TWO_SPLITS, 13)
    assert_adds_up(account([good], merge([good])))
    lost = replace(good, manifest=replace(good.manifest, read=14))
    with pytest.raises(RuntimeError, match=r"hand.csv: rows read, used and dropped do not add up"):
        account([lost], merge([lost]))
    shorter = replace(good, manifest=replace(good.manifest, shards=TWO_SPLITS[:1]))
    with pytest.raises(RuntimeError, match=r"hand.csv: shards and levels.parquet do not have the same rows to predict"):
        account([shorter], merge([shorter]))


def test_the_page_of_the_account_has_a_line_for_each_file_and_all_rows(two_years):
    files, _ = two_years
    accounted = account(files, merge(files, {"carrier": "level"}, {"dest": 150}))
    lines = row_account.table({**accounted["files"], "all files": accounted})
    assert lines["", "file"].tolist() == ["2006", "2007", "all files"]
    numbers = lines.drop(columns=[("", "file")]).map(lambda text: int(text.replace(",", "").replace("–", "0")))
    assert (numbers["", "read"] == numbers[["dropped", "used to"]].sum(axis=1)).all()
    for split, rows in numbers["used to"].items():
        assert rows.tolist()[-1] == rows.tolist()[0] + rows.tolist()[1] == accounted["splits"][split]["used"]
    rare = accounted["rare"]["dest"]
    assert f"The {rare['levels']} rarest levels of dest, {rare['rows']:,} training rows" in " ".join(
        row_account.text(accounted)
    )


def test_levels_that_look_the_same_are_named_on_the_page(tmp_path):
    """Composed and decomposed letters, blanks at the ends, and a byte order mark; not another case."""
    levels = ["caf\u00e9", "cafe\u0301", " caf\u00e9 ", "tea", "tea ", "Tea", "milk", "mi\ufefflk", "water"]
    frame = pd.DataFrame({"drink": levels * 2 + ["water"], "y": np.arange(19) % 3})
    files = [ingest_frame(frame, tmp_path)]
    accounted = account(files, merge(files))
    assert sorted(map(sorted, accounted["alike"]["drink"])) == [
        [(" caf\u00e9 ", 2), ("cafe\u0301", 2), ("caf\u00e9", 2)],
        [("milk", 2), ("mi\ufefflk", 2)],
        [("tea", 2), ("tea ", 2)],
    ]
    said = " ".join(row_account.text(accounted))
    for shown in (
        "'cafe\\u0301' (2 training rows)",
        "'caf\u00e9' (2",
        "'tea ' (2",
        "'mi\\ufefflk' (2",
        "NORMALIZE(TRIM(drink))",
    ):
        assert shown in said
    derived = {"derive": {"same": "NORMALIZE(TRIM(drink))"}, "columns": ["same", "y"]}
    merged = [ingest_frame(frame, tmp_path / "merged", **derived)]
    assert [group[0][0] for group in account(merged, merge(merged))["alike"]["same"]] == ["milk"]


def test_many_reasons_share_a_column_of_the_page():
    splits = {split: {"rows": 0, "dropped": {}, "used": 0} for split in ("train", "evaluate", "predict")}
    dropped = {f"where: {number}": number for number in range(1, 12)}
    lines = row_account.table({"2006": {"read": 66, "dropped": dropped, "splits": splits}})
    assert lines["dropped"].columns.tolist() == [
        *(f"where: {number}" for number in range(11, 3, -1)),
        "3 other reasons",
    ]
    assert lines["dropped", "3 other reasons"].tolist() == ["6"]


# Fits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["missing values of numbers too", "rare numbers, and missing"])
def test_a_fit_agrees_with_statsmodels_on_the_same_levels_and_leaves_the_shards_alone(two_years, policy):
    files, frame = two_years
    missing, rare = POLICIES[policy]
    before = stored(files)
    train = as_table(frame, missing, rare)
    design, fitted, _ = fit_files(files, "late ~ carrier + dest + C(month)", "binomial", missing, rare)
    reference = {"C(month)": sorted(set(train["month"]))[0]}  # the oracle sorts months as text
    matrix = treatment_contrasts(train, {"carrier": "carrier", "dest": "dest", "C(month)": "month"}, [])
    exact = logistic_regression(train["late"].astype(int), matrix)
    written = {"~rare": "(rare)", "~missing": "(missing)"}
    names = [(term, written.get(level, level)) for term, level in matrix.columns]
    table = table_of(design, fitted, reference)
    assert_agrees(table, exact, names)
    assert len(table) == len(names) + 3
    assert fitted.summary["rows"] == len(train)
    for term, column in (("carrier", "carrier"), ("dest", "dest"), ("C(month)", "month")):
        counts = train[column].replace(written).value_counts().to_dict()
        assert table.loc[term, "rows"].to_dict() == counts
    assert stored(files) == before


def stored(files: list[IngestedFile]) -> dict[str, tuple[bytes, int]]:
    """All that was written of the files, and when."""
    paths = [path for file in files for path in file.folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_a_number_may_be_used_as_it_is_while_it_is_lumped_as_levels(two_years):
    files, frame = two_years
    design, fitted, _ = fit_files(files, "late ~ month + dest", "gaussian", {}, {"month": 900, "dest": 150})
    train = as_table(frame, {}, {"dest": 150})
    matrix = treatment_contrasts(train, {"dest": "dest"}, ["month"])
    names = [(term, level.replace("~rare", "(rare)")) for term, level in matrix.columns]
    assert_agrees(table_of(design, fitted), linear_regression(train["late"].astype(float), matrix), names)
