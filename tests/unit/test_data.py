"""From a file to shards and the dictionary: no row vanishes, no value changes, errors name the place."""

import bz2
import gzip
import re
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from configs import message
from flights import HEADER, SMALL_PIECES, content, decoded, flights, ingested, selection, write
from pools import ingest_frame, layout_of
from tfglm.config import Layout, load_layout, shipped_layouts
from tfglm.data import shards
from tfglm.data.blocks import SLACK
from tfglm.data.dictionary import account, merge
from tfglm.data.layouts import recognised
from tfglm.data.limits import IngestLimits
from tfglm.data.plain_csv import PlainCsv
from tfglm.data.reader import uniform
from tfglm.errors import UserError


@pytest.mark.slow
def test_every_value_survives_and_rows_stay_together(tmp_path):
    # Columns turn plain in the middle of the file.
    limits = replace(SMALL_PIECES, most_codes=20_000)
    frame = flights(50_000)
    file = ingest_frame(frame, tmp_path, limits=limits)
    assert file.manifest.capacity == shards.SMALLEST_CAPACITY
    assert [shard.rows for shard in file.manifest.shards] == pytest.approx([25_000] * 2, abs=20)
    assert [file.column(name).dtype for name in frame] == ["float32", "uint8", "uint8", "float64", "float64"]
    back = pd.DataFrame({name: decoded(file, "train", name) for name in frame.columns})
    order = back["number"].astype(int)
    assert sorted(order) == list(range(50_000))
    expected = frame.iloc[order].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        back.astype({"number": int, "small": int}), expected.astype({"text": object}), check_dtype=False
    )


def test_every_block_is_a_fair_sample(tmp_path):
    file = ingest_frame(pd.DataFrame({"place": np.arange(100_000) // 100}), tmp_path, limits=SMALL_PIECES)
    places = np.array(decoded(file, "train", "place"))
    for start in range(0, 100_000, shards.BLOCK_ROWS):
        block = places[start : start + shards.BLOCK_ROWS]
        # The mean and the deciles of a uniform sample, within five standard errors.
        assert abs(block.mean() - 499.5) < 5 * 289 / np.sqrt(len(block))
        deciles = np.histogram(block, 10, (0, 1000))[0] / len(block)
        assert np.abs(deciles - 0.1).max() < 5 * np.sqrt(0.09 / len(block))
    # Neighbours in a shard are no neighbours in the file.
    assert np.corrcoef(places[:-1], places[1:])[0, 1] < 0.03


def test_rows_that_are_only_predicted_stay_in_the_order_of_the_file(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60_000)})
    file = ingest_frame(frame, tmp_path, split={"train": "x % 2 = 0", "predict": "TRUE"}, limits=SMALL_PIECES)
    assert decoded(file, "predict", "x") == list(range(1, 60_000, 2))


@pytest.mark.slow
def test_what_a_file_is_packed_in_changes_nothing(tmp_path):
    frame = flights(20_000)
    text = frame.to_csv(index=False).encode()
    packed = {"a.csv": text, "b.gz": gzip.compress(text), "c.bz2": bz2.compress(text), "no_ending": gzip.compress(text)}
    results = []
    settings = selection(columns=list(frame.columns))
    for name, data in packed.items():
        (tmp_path / name).mkdir()
        results.append(
            content(ingested(write(tmp_path / name, data, name), settings, layout_of(frame), limits=SMALL_PIECES))
        )
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("flights.csv", text)
    results.append(content(ingested(tmp_path / "d.zip", settings, layout_of(frame), limits=SMALL_PIECES)))
    assert results[1:] == results[:1] * 4


@pytest.mark.slow
def test_a_parquet_file_has_the_same_shards(tmp_path):
    frame = flights(20_000)
    frame["date"] = pd.Timestamp("2006-02-03") + pd.to_timedelta(frame["small"], "D")
    layout = Layout.model_validate(
        {"columns": {**layout_of(frame).model_dump()["columns"], "date": {"type": "date", "source": "date"}}}
    )
    frame.astype({"text": "category"}).to_parquet(tmp_path / "flights.parquet", row_group_size=3_000)
    keys = {
        "derive": {"half": "small / 2"},
        "where": {"month": "EXTRACT(MONTH FROM date) < 6"},
        "split": {"train": "random < 0.6", "predict": "random > 0.9"},
    }
    settings = selection(columns=[*frame.columns, "half"], **keys)
    from_parquet = ingested(tmp_path / "flights.parquet", settings, layout)
    (tmp_path / "csv").mkdir()
    frame.to_csv(tmp_path / "csv" / "flights.csv", index=False)
    from_csv = ingested(tmp_path / "csv" / "flights.csv", settings, layout)
    assert content(from_parquet) == content(from_csv)
    assert from_parquet.manifest.dropped == from_csv.manifest.dropped


def test_a_parquet_file_needs_no_layout(tmp_path):
    frame = flights(200).assign(day=pd.Timestamp("2006-02-03"), parts=[[1]] * 200)
    frame.to_parquet(tmp_path / "flights.parquet")
    shipped = {name: load_layout(name) for name in shipped_layouts()}
    known = recognised(tmp_path / "flights.parquet", shipped, selection(columns=["real", "text"]))
    types = {name: column.type for name, column in known.layout.columns.items()}
    assert types == {
        "number": "integer", "text": "string", "small": "integer", "real": "number", "many": "number", "day": "date",
    }  # fmt: skip
    with pytest.raises(UserError, match="no column `parts`"):
        recognised(tmp_path / "flights.parquet", shipped, selection(columns=["parts"]))
    with pytest.raises(UserError, match="the header fits no layout"):
        recognised(tmp_path / "flights.parquet", {"mine": shipped["asa2009"]}, selection(columns=["carrier"]))


def test_parquet_columns_of_other_types_are_named(tmp_path):
    pd.DataFrame({"day": [[1]], "carrier": ["a"], "delay": [pd.Timestamp("2006-01-02")]}).to_parquet(
        tmp_path / "flights.parquet"
    )
    text = message(ingested, tmp_path / "flights.parquet", selection(columns=["day", "delay"]))
    assert "flights.parquet: columns have other types than the layout gives them" in text
    assert re.search(r"`day`: list<.*> cannot be read as integer\n", text)
    assert re.search(r"`delay`: timestamp\[..\] cannot be read as number; it can be read as clock, date, string", text)


@pytest.mark.slow
def test_a_value_of_a_parquet_file_that_cannot_be_read_is_named_with_its_row_or_dropped(tmp_path):
    days = [str(day) for day in range(70_000)]
    days[69_000] = "soon"
    frame = pd.DataFrame({"day": days, "delay": np.arange(70_000) / 2})
    frame.loc[5, "delay"] = np.inf
    frame.to_parquet(tmp_path / "flights.parquet")
    settings = {"columns": ["day", "delay"]}
    with pytest.raises(UserError, match=r"flights.parquet, row 6: column `delay` is infinite"):
        ingested(tmp_path / "flights.parquet", selection(**settings))
    with pytest.raises(UserError, match="row 69001: column `day`: expected a whole number, found `soon`"):
        ingested(tmp_path / "flights.parquet", selection(columns=["day"]))
    file = ingested(tmp_path / "flights.parquet", selection(**settings, bad_rows="drop"))
    reasons = {"unreadable: value of day": 1, "unreadable: expression": 1}
    assert (file.manifest.read, file.manifest.dropped) == (70_000, {"in no split": 0, **reasons})
    assert set(range(70_000)) - set(decoded(file, "train", "day")) == {5, 69_000}


def test_numbers_with_very_many_values_are_stored_as_they_are(tmp_path):
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"single": random.integers(0, 1000, 5000) / 8, "double": random.normal(size=5000)})
    frame.loc[17, "double"] = None
    file = ingest_frame(frame, tmp_path, limits=IngestLimits(most_codes=100))
    assert [(file.column(name).coded, file.column(name).dtype) for name in frame] == [
        (False, "float32"),
        (False, "float64"),
    ]
    stored = pd.DataFrame({name: decoded(file, "train", name) for name in frame})
    assert sorted(stored["single"]) == sorted(frame["single"])
    assert merge([file]).columns["double"].levels is None


def test_a_text_with_very_many_values_is_refused(tmp_path):
    with pytest.raises(UserError, match="column `text`: more than 100 different texts"):
        frame = pd.DataFrame({"text": [f"flight {number}" for number in range(101)]})
        ingest_frame(frame, tmp_path, limits=IngestLimits(most_levels=100))


# The compiled parser and pyarrow --------------------------------------------------------------------------------------

PLAIN = "1,AA,-5,X,0741\n2,,NA,NA,741\n3,äx,0012345,X,0\n"
NOT_PLAIN = {
    "a quote": '1,"AA",5,X,1\n',
    "decimals": "1,AA,5.0,X,1\n",
    "too long": "1,AAAAAAAAA,5,X,1\n",
    "too few fields": "1,AA,5,X\n",
    "too many fields": "1,AA,5,X,1,1\n",
    "a line too long and one too short": "1,AA,5,X,1,1\n1,AA,5,X\n",
    "a blank line": "1,AA,5,X,1\n\n",
    "a carriage return": "1,AA,5,X,1\r\n",
    "no line end": "1,AA,5,X,1",
    "not a number": "1,AA,x,X,1\n",
    "a lone sign": "1,AA,-,X,1\n",
    "blanks": "1,AA, 5,X,1\n",
}


def plain(text: str) -> list | None:
    lines = text.encode()
    parser = PlainCsv(5, [0, 1, 2, 3, 4], [True, False, True, False, True], ["NA", ""], "utf-8")
    columns = parser.parse(memoryview(bytearray(lines + b"\0" * SLACK))[: len(lines)])
    return columns and [list(map(str, column.decoded().to_list())) for column in columns]


def test_plain_lines_are_told_apart():
    assert plain(PLAIN) == [
        ["1", "2", "3"],
        ["AA", "None", "äx"],
        ["-5", "None", "12345"],
        ["X", "None", "X"],
        ["741", "741", "0"],
    ]


@pytest.mark.parametrize("what", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_pyarrow(what):
    assert plain(NOT_PLAIN[what]) is None
    assert plain(PLAIN + NOT_PLAIN[what]) is None


@pytest.mark.parametrize("fields", [2, 29, 64, 5000])
def test_every_entry_is_told_apart_wherever_its_line_begins(fields):
    random = np.random.default_rng(fields)
    entries = np.array(["", "NA", "7", "12345678", "ab", "é", *map(str, range(3000))])
    lines = [",".join(random.choice(entries, fields)) for _ in range(20_000 // fields + 3)]
    wanted = [0, fields // 2, fields - 1]
    parser = PlainCsv(fields, wanted, [False] * 3, ["NA"], "utf-8")
    for first in (0, 2):  # the second time, entries are known from the first
        text = "".join(f"{line}\n" for line in lines[first:]).encode()
        columns = parser.parse(memoryview(bytearray(text + b"," * SLACK))[: len(text)])
        for field, column in zip(wanted, columns, strict=True):
            expected = [line.split(",")[field] for line in lines[first:]]
            assert column.decoded().to_list() == [None if entry == "NA" else entry for entry in expected]


def test_a_field_of_too_many_distinct_entries_is_left_to_pyarrow():
    for rows in (2**16, 2**16 + 1):
        text = "".join(f"{row},{row % 7}\n" for row in range(rows)).encode()
        columns = PlainCsv(2, [0, 1], [True, True], [], "utf-8").parse(
            memoryview(bytearray(text + b"\0" * SLACK))[: len(text)]
        )
        assert (columns is None) == (rows > 2**16)
    assert columns is None


@pytest.mark.parametrize("compiled", [True, False])
def test_blank_lines_of_a_single_column_are_no_rows(tmp_path, compiled):
    path = write(tmp_path, "day\n1\n\n2\n\n")
    layout = Layout.model_validate({"columns": {"day": "integer"}, "missing": [""]})
    file = ingested(path, selection(columns=["day"], split={"train": "TRUE"}), layout, compiled=compiled)
    assert file.manifest.read == 2


@pytest.mark.slow
def test_the_compiled_parser_and_pyarrow_give_the_same_bytes(tmp_path, monkeypatch):
    random = np.random.default_rng(5)
    rows = 30_000
    texts = np.array(["", "NA", "AA", "PA (1)", "12345678", "é"])
    columns = {
        "day": np.where(random.random(rows) < 0.02, "NA", random.integers(-99, 10**6, rows).astype(str)),
        "carrier": random.choice(texts, rows),
        "dest": random.choice(texts, rows),
        "time": random.choice(["0", "0659", "2400", "7", ""], rows),
    }
    lines = list(map(",".join, zip(*columns.values(), strict=True)))
    lines[12_345] = '5,"AA",NA,100'  # one block that is not plain
    path = write(tmp_path, ",".join(columns) + "\n" + "\n".join(lines) + "\n")
    layout = Layout.model_validate(
        {"columns": {"day": "integer", "carrier": "string", "dest": "string", "time": "clock"}, "encoding": "utf-8"}
    )
    # Expressions of one column, of several with few combinations, and of several with many.
    derived = {"hour": "time // 100", "both": "carrier || dest", "sum": "day + time"}
    where = {"days": "day > 0", "one": "carrier <> 'AA' OR dest IS NULL", "early": "day < 800000 OR time < 700"}
    settings = selection(columns=[*columns, *derived], derive=derived, where=where)
    by_pyarrow = content(ingested(path, settings, layout, limits=SMALL_PIECES))
    blocks = []
    parse = PlainCsv.parse
    monkeypatch.setattr(PlainCsv, "parse", lambda self, lines: blocks.append(parse(self, lines)) or blocks[-1])
    assert content(ingested(path, settings, layout, limits=SMALL_PIECES, compiled=True)) == by_pyarrow
    assert len(blocks) > 3 and sum(columns is None for columns in blocks) == 1


# Rows -----------------------------------------------------------------------------------------------------------------


def test_the_account_says_where_every_row_went(tmp_path):
    text = (
        "1,AA,5,X,\n2,AA,NA,X,\n3,,7,X,\n4,,,Y,\n9,B6,8,Y,\n20,B6,9,Y,\n25,DL,1,Y,\n28,DL,,Y,\n29,DL,,Y,\n31,DL,2,NA,\n"
    )
    file = ingested(
        write(tmp_path, HEADER + text),
        selection(
            where={"known day": "day <> 9"},
            split={"train": "day <= 10", "evaluate": "day BETWEEN 11 AND 28", "predict": "day = 29"},
        ),
    )
    expected = {
        "read": 10,
        "dropped": {"where: known day": 1, "in no split": 1},
        "splits": {
            "train": {
                "rows": 4,
                "dropped": {"missing: delay": 1, "missing: carrier": 1, "missing: delay,carrier": 1},
                "used": 1,
            },
            "evaluate": {"rows": 3, "dropped": {"missing: delay": 1}, "used": 2},
            "predict": {"rows": 1, "dropped": {}, "used": 1},
        },
    }
    merged = merge([file])
    known = {"columns": {"carrier": "text", "delay": "number"}, "data": merged.data}
    told = {**expected, "rare": {}, "alike": {}, "files": {"flights": expected}}
    assert account([file], merged) == told | known
    assert merge([file]).rows == {"train": 1, "evaluate": 2, "predict": 1}


def test_a_condition_that_is_missing_is_not_met(tmp_path):
    file = ingested(write(tmp_path, HEADER + "1,AA,5,X,\n2,AA,NA,X,\n"), selection(where={"late": "delay >= 0"}))
    assert file.manifest.dropped == {"where: late": 1, "in no split": 0}


@pytest.mark.slow
def test_a_seeded_fraction_depends_on_seed_file_and_line_alone(tmp_path):
    frame = pd.DataFrame({"x": np.arange(20_000)})
    split = {"train": "random >= 0.2", "evaluate": "random < 0.2"}
    evaluated = []
    for folder, seed, block in (("a", 1, 100_000), ("b", 1, 30_000), ("c", 2, 30_000)):
        limits = IngestLimits(block_bytes=block, chunk_bytes=100_000)
        file = ingest_frame(frame, tmp_path / folder, limits=limits, split=split, seed=seed)
        evaluated.append(set(decoded(file, "evaluate", "x")))
    assert evaluated[0] == evaluated[1] != evaluated[2]
    assert len(evaluated[0]) == pytest.approx(4000, abs=5 * np.sqrt(20_000 * 0.16))
    assert evaluated[0] == {float(row) for row in np.flatnonzero(uniform(1, "table", 2, 20_000) < 0.2)}
    other = ingest_frame(frame, tmp_path / "d", "other", split=split)
    assert set(decoded(other, "evaluate", "x")) != evaluated[0]


def test_a_split_may_go_by_file(tmp_path):
    split = {"train": "file = 'first'", "evaluate": "file <> 'first'"}
    files = [ingest_frame(pd.DataFrame({"x": [1, 2, 3]}), tmp_path, name, split=split) for name in ("first", "second")]
    assert merge(files).rows == {"train": 3, "evaluate": 3, "predict": 0}


def test_the_dictionary_learns_from_complete_training_rows_alone(tmp_path):
    file = ingested(
        write(tmp_path, HEADER + "1,B6,5,X,\n1,AA,6,X,\n1,AA,7,X,\n1,ZZ,NA,X,\n30,DL,1,X,\n"),
        selection(split={"train": "day < 20", "evaluate": "day >= 20"}),
    )
    carrier = merge([file]).columns["carrier"]
    assert (carrier.levels, carrier.train_rows) == (["AA", "B6"], [2, 1])


def test_levels_are_sorted_as_numbers_and_as_text(tmp_path):
    frame = pd.DataFrame({"month": [10, 2, 1, 2], "text": ["b", "B", "a", "10"]})
    columns = merge([ingest_frame(frame, tmp_path)]).columns
    assert columns["month"].labels == ["1", "2", "10"]
    assert columns["text"].labels == ["10", "B", "a", "b"]


def test_a_file_without_rows_counts_as_none(tmp_path):
    file = ingested(write(tmp_path, HEADER), selection())
    assert account([file], merge([file]))["read"] == 0
    assert merge([file]).rows == {"train": 0, "evaluate": 0, "predict": 0}


def test_derived_columns_may_use_earlier_ones(tmp_path):
    file = ingested(
        write(tmp_path, HEADER + "1,AA,5,X,\n2,AA,20,X,\n"),
        selection(derive={"late": "delay >= 15", "double": "late * 2"}, columns=["late", "double"]),
    )
    assert sorted(decoded(file, "train", "late")) == [0.0, 1.0]
    assert sorted(decoded(file, "train", "double")) == [0.0, 2.0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(tmp_path):
    frame = flights(20_000)
    first, second, other = (
        ingest_frame(frame, tmp_path / name, seed=seed, limits=SMALL_PIECES)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert content(first) == content(second)
    assert not np.array_equal(first.checksums, other.checksums)


def test_the_checksum_sees_every_flipped_bit_and_names_the_block():
    values = np.random.default_rng(3).integers(0, 256, 20_000).astype(np.uint8)
    expected = shards.checksums(values)
    assert len(expected) == 3
    for place in range(0, 20_000, 131):
        for bit in range(8):
            changed = values.copy()
            changed[place] ^= 1 << bit
            assert (shards.checksums(changed) != expected).nonzero()[0].tolist() == [place // shards.BLOCK_ROWS]
