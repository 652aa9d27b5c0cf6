"""From a CSV file to shards and the dictionary: no row vanishes, no value changes, errors name the place."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pools import ingest_frame
from tfglm.config import Layout, SelectionConfig
from tfglm.data import shards
from tfglm.data.dictionary import account, merge
from tfglm.data.ingest import ingest
from tfglm.data.shards import MISSING, IngestedFile
from tfglm.errors import UserError

LAYOUT = Layout.model_validate(
    {"columns": {"day": "integer", "carrier": "string", "delay": "number", "dest": "string"}}
)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "flights.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def selection(**keys) -> SelectionConfig:
    return SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["delay", "carrier"]} | keys)


def ingested(source: Path, settings: SelectionConfig) -> IngestedFile:
    ingest(source, "flights", LAYOUT, settings, source.parent / "out")
    return IngestedFile.load(source.parent / "out" / "manifest.json")


def decoded(file: IngestedFile, split: str, column: str) -> list:
    """The values of a column in the order in which they are stored."""
    stored = file.column(column)
    parts = [
        np.fromfile(file.folder / shard.path / column, stored.dtype)
        for shard in file.manifest.shards
        if shard.split == split
    ]
    values = np.concatenate(parts)
    if not stored.coded:
        return [None if np.isnan(value) else value for value in values.tolist()]
    meaning = [None, *file.values(column)]
    return [meaning[code] for code in values]


def test_every_value_survives_and_rows_stay_together(tmp_path):
    random = np.random.default_rng(1)
    rows = 30_000
    frame = pd.DataFrame(
        {
            "number": np.arange(rows),
            "text": random.choice(["a", "b", "ü", "NA, Ltd"], rows),
            "small": random.integers(-3, 200, rows),
            "real": random.normal(size=rows),
            "many": random.permutation(10 * rows)[:rows] + 2.0**24,
        }
    )
    frame.loc[::7, "real"] = np.nan
    frame.loc[::11, "text"] = None
    file = ingest_frame(frame, tmp_path)
    assert file.manifest.capacity == shards.BLOCK_ROWS
    assert len(file.manifest.shards) == 4
    back = pd.DataFrame({name: decoded(file, "train", name) for name in frame.columns})
    order = back["number"].astype(int)
    assert not order.is_monotonic_increasing
    expected = frame.iloc[order].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        back.astype({"number": int, "small": int}), expected.astype({"text": object}), check_dtype=False
    )


def test_numbers_with_very_many_values_are_stored_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MOST_CODES", 100)
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"single": random.integers(0, 1000, 5000) / 8, "double": random.normal(size=5000)})
    frame.loc[17, "double"] = None
    file = ingest_frame(frame, tmp_path)
    assert [(file.column(name).coded, file.column(name).dtype) for name in frame] == [
        (False, "float32"),
        (False, "float64"),
    ]
    stored = pd.DataFrame({name: decoded(file, "train", name) for name in frame})
    assert sorted(stored["single"]) == sorted(frame["single"])
    column = merge([file]).columns["double"]
    complete = frame.dropna()["double"]
    assert column.levels is None
    assert [column.mean, column.variance] == pytest.approx([complete.mean(), complete.var(ddof=0)], rel=1e-12)
    assert [column.minimum, column.maximum] == [complete.min(), complete.max()]


def test_the_account_says_where_every_row_went(tmp_path):
    source = write(
        tmp_path,
        "day,carrier,delay,dest\n1,AA,5,X\n2,AA,NA,X\n3,,7,X\n4,,,Y\n9,B6,8,Y\n20,B6,9,Y\n25,DL,1,Y\n31,DL,2,NA\n",
    )
    settings = selection(
        where={"known day": "day <> 9"}, split={"train": "day <= 10", "evaluate": "day BETWEEN 11 AND 30"}
    )
    file = ingested(source, settings)
    expected = {
        "read": 8,
        "train": 1,
        "evaluate": 2,
        "dropped": {
            "where: known day": 1,
            "in no split": 1,
            "missing: delay": 1,
            "missing: carrier": 1,
            "missing: delay,carrier": 1,
        },
    }
    assert account([file]) == {**expected, "files": {"flights": expected}}
    assert expected["train"] + expected["evaluate"] + sum(expected["dropped"].values()) == expected["read"]
    assert merge([file]).rows == {"train": 1, "evaluate": 2}


def test_a_condition_that_is_missing_is_not_met(tmp_path):
    source = write(tmp_path, "day,carrier,delay,dest\n1,AA,5,X\n2,AA,NA,X\n")
    file = ingested(source, selection(where={"late": "delay >= 0"}))
    assert file.manifest.dropped == {"where: late": 1, "in no split": 0}


def test_the_dictionary_learns_from_complete_training_rows_alone(tmp_path):
    source = write(tmp_path, "day,carrier,delay,dest\n1,B6,5,X\n1,AA,6,X\n1,AA,7,X\n1,ZZ,NA,X\n30,DL,1,X\n")
    file = ingested(source, selection(split={"train": "day < 20", "evaluate": "day >= 20"}))
    carrier = merge([file]).columns["carrier"]
    assert (carrier.levels, carrier.train_rows) == (["AA", "B6"], [2, 1])


def test_levels_are_sorted_as_numbers_and_as_text(tmp_path):
    frame = pd.DataFrame({"month": [10, 2, 1, 2], "text": ["b", "B", "a", "10"]})
    columns = merge([ingest_frame(frame, tmp_path)]).columns
    assert columns["month"].labels == ["1", "2", "10"]
    assert columns["text"].labels == ["10", "B", "a", "b"]


def test_a_file_without_rows_counts_as_none(tmp_path):
    file = ingested(write(tmp_path, "day,carrier,delay,dest\n"), selection())
    assert account([file])["read"] == 0
    assert merge([file]).rows == {"train": 0, "evaluate": 0}


def test_derived_columns_may_use_earlier_ones(tmp_path):
    source = write(tmp_path, "day,carrier,delay,dest\n1,AA,5,X\n2,AA,20,X\n")
    file = ingested(source, selection(derive={"late": "delay >= 15", "double": "late * 2"}, columns=["late", "double"]))
    assert sorted(decoded(file, "train", "late")) == [0.0, 1.0]
    assert sorted(decoded(file, "train", "double")) == [0.0, 2.0]


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    frame = pd.DataFrame({"x": np.arange(1000)})
    first, second = (ingest_frame(frame, tmp_path / name) for name in "ab")
    other = ingest_frame(frame, tmp_path / "c", seed=2)
    assert first.manifest.shards == second.manifest.shards != other.manifest.shards


def test_the_checksum_sees_every_flipped_bit():
    values = np.random.default_rng(3).integers(0, 256, 1001).astype(np.uint8)
    expected = shards.checksum(values)
    for place in range(0, 1001, 13):
        for bit in range(8):
            changed = values.copy()
            changed[place] ^= 1 << bit
            assert shards.checksum(changed) != expected


BROKEN = {
    "day,carrier,delay,dest\n1,AA,5,X\n2,AA,x7,X\n": "flights.csv, line 3, column `delay`: expected a number, found `x7`",
    "day,carrier,delay,dest\n1,AA,5,X\n2,AA,7,X,9\n": "flights.csv, line 3: 5 fields where the header has 4",
    "": "flights.csv: is empty; a CSV file begins with a line of column names",
    "day,carrier,dest\n1,AA,X\n": "flights.csv: the header lacks columns of the layout (data.layout):\n  `delay`",
    b"day,carrier,delay,dest\n1,AA,5,X\n2,\xe4\xe5,7,X\n": "flights.csv, line 3: bytes that are not UTF-8",
    b"\x00\x01\x02\x03\n": "flights.csv: is not a CSV file (its first line holds binary data)",
}


@pytest.mark.parametrize("text", BROKEN, ids=["not a number", "too long", "empty", "no column", "not UTF-8", "binary"])
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_left_behind(tmp_path, text):
    source = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        ingest(source, "flights", LAYOUT, selection(), tmp_path / "out")
    assert BROKEN[text] in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["flights.csv"]


def test_an_earlier_result_survives_a_failed_ingest(tmp_path):
    source = write(tmp_path, "day,carrier,delay,dest\n1,AA,5,X\n")
    ingested(source, selection())
    before = (tmp_path / "out" / "manifest.json").read_text()
    write(tmp_path, "day,carrier,delay,dest\n1,AA,bad,X\n")
    with pytest.raises(UserError):
        ingest(source, "flights", LAYOUT, selection(), tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").read_text() == before


WRONG_SETTINGS = {
    "data.columns: no column `carier`; did you mean `carrier`?": {"columns": ["carier"]},
    "data.where.x: no column `dely` in `dely > 0`; did you mean `delay`?": {"where": {"x": "dely > 0"}},
    "data.split.train: not an SQL expression: `day <<= 4`": {"split": {"train": "day <<= 4"}},
    "data.where.x: `delay > AVG(delay)` looks at other rows": {"where": {"x": "delay > AVG(delay)"}},
    "data.derive.d: no column `dayy`": {"derive": {"d": "dayy + 1"}},
    "column `ratio` holds infinite values": {"derive": {"ratio": "delay / (day - 1)"}, "columns": ["ratio"]},
}


@pytest.mark.parametrize("message", WRONG_SETTINGS)
def test_a_wrong_setting_is_named(tmp_path, message):
    source = write(tmp_path, "day,carrier,delay,dest\n1,AA,5,X\n")
    with pytest.raises(UserError) as error:
        ingest(source, "flights", LAYOUT, selection(**WRONG_SETTINGS[message]), tmp_path / "out")
    assert message in str(error.value)


def test_a_column_of_text_here_and_numbers_there_is_refused(tmp_path):
    first = ingest_frame(pd.DataFrame({"x": [1, 2]}), tmp_path, "first")
    second = ingest_frame(pd.DataFrame({"x": ["a", "b"]}), tmp_path, "second")
    with pytest.raises(UserError, match=r"column `x` is text in .*second.csv but integer in .*first.csv"):
        merge([first, second])


def test_the_manifest_reads_back_as_it_was_written(tmp_path):
    file = ingest_frame(pd.DataFrame({"x": [1, 2, None], "y": ["a", "b", "c"]}), tmp_path)
    file.manifest.write(tmp_path / "again.json")
    assert shards.Manifest.load(tmp_path / "again.json") == file.manifest
    assert json.loads((tmp_path / "again.json").read_text())["read"] == 3
    assert file.values(MISSING) == ["", "x"]
