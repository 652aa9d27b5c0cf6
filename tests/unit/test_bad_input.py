"""Lines, files and settings that no shards can be made of: each is named, and nothing is left behind."""

import bz2
import contextlib
import gzip
import json
import resource
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from csv_cases import packed
from flights import HEADER, SMALL_PIECES, content, decoded, ingested, selection, write
from pools import ingest_frame
from tfglm.config import Layout, SelectionConfig
from tfglm.data import editions, shards
from tfglm.data.dictionary import account, merge
from tfglm.data.ingest import ingest
from tfglm.data.packing import estimated_csv_bytes
from tfglm.data.shards import MISSING, IngestedFile
from tfglm.errors import UserError

GOOD = HEADER + "1,AA,5,X,100\n"
BAD_LINES = {
    "not a number": ("2,AA,x7,X,1", "column `delay`: expected a number, found `x7`", "value of delay"),
    "not a whole number": ("1.5,AA,7,X,1", "column `day`: expected a whole number, found `1.5`", "value of day"),
    "too long": ("2,AA,7,X,1,9", "6 fields where the header has 5", "wrong number of fields"),
    "time out of range": ("2,AA,7,X,2460", "column `time`: expected a time of day", "value of time"),
    "not UTF-8": (b"2,\xe4\xe5,7,X,1", "column `carrier`: bytes that are not UTF-8", "value of carrier"),
    "header again": ("day,carrier,delay,dest,time", "repeats the header", "repeated header"),
    "cut short": ("2,AA,7", "3 fields where the header has 5", "wrong number of fields"),
    "infinite": ("2,AA,inf,X,1", "column `delay` is infinite", "expression"),
}
ALL = ["day", "carrier", "delay", "time"]


@pytest.mark.parametrize("what", BAD_LINES)
@pytest.mark.parametrize("place", ["in the middle", "at the end"])
def test_a_bad_line_is_named_and_nothing_is_left_behind(tmp_path, what, place):
    line, message, _ = BAD_LINES[what]
    line = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path, GOOD.encode() + line + (b"\n3,DL,7,X,1\n" if place == "in the middle" else b""))
    with pytest.raises(UserError) as error:
        ingested(path, selection(columns=ALL))
    assert str(error.value).startswith(f"{path}, line 3: {message}")
    assert "data.bad_rows" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["flights.csv"]


@pytest.mark.slow
def test_bad_lines_are_dropped_and_counted_if_the_config_says_so(tmp_path):
    good = [f"{number},AA,7,X,{number % 24 * 100}".encode() for number in range(20_000)]
    lines = list(good)
    for number, (line, _, _) in enumerate(BAD_LINES.values()):
        lines.insert(2_000 * number + 7, line if isinstance(line, bytes) else line.encode())
    log = []
    path = write(tmp_path, HEADER.encode() + b"\n".join(lines))
    file = ingested(path, selection(columns=ALL, bad_rows="drop"), log=log.append, limits=SMALL_PIECES)
    counted = {f"unreadable: {reason}": 0 for _, _, reason in BAD_LINES.values()}
    for _, _, reason in BAD_LINES.values():
        counted[f"unreadable: {reason}"] += 1
    assert file.manifest.dropped == {"in no split": 0, **counted}
    assert sorted(decoded(file, "train", "day")) == list(range(20_000))
    assert account([file], merge([file]))["read"] == 20_008
    assert [message for message in log if message.startswith(f"dropped {path}, line 9: ")]


def test_a_header_in_the_middle_is_seen_where_all_columns_are_texts(tmp_path):
    path = write(tmp_path, GOOD + HEADER + "1,AA,5,carrier,100\n")
    with pytest.raises(UserError, match="line 3: repeats the header"):
        ingested(path, selection(columns=["carrier", "dest"]))
    path = write(tmp_path, GOOD + "1,AA,5,carrier,100\n1,dest,5,dest,100\n")
    assert ingested(path, selection(columns=["carrier", "dest"])).manifest.read == 3


BROKEN = {
    "empty": (b"", "flights.csv: is empty; a CSV file begins with a line of column names"),
    "no column": (b"day,carrier,dest\n1,AA,X\n", "the header fits no layout; the nearest is `layout`"),
    "column twice": (b"day,carrier,delay,delay\n1,AA,1,2\n", "flights.csv: has two columns called `delay`; rename one"),
    "binary": (b"\x00\x01\x02\x03\n", "flights.csv: is not a CSV file (its first line holds binary data)"),
    "no text": (b"\x89PNG\r\n\x1a\n\xff\xff", "flights.csv: is not a CSV file"),
    "gzip cut short": (gzip.compress(GOOD.encode() * 100)[:-9], "flights.csv: is damaged or cut short"),
    "gzip with a wrong checksum": (
        gzip.compress(GOOD.encode())[:-8] + bytes(8),
        "(Error -6 Incorrect checksum found, after byte 0)",
    ),
    "gzip and something else": (
        gzip.compress(GOOD.encode()) + b"some text",
        f"(something else follows its compressed data, after byte {len(gzip.compress(GOOD.encode()))})",
    ),
    "nothing, as gzip": (gzip.compress(b""), "flights.csv: is empty; a CSV file begins with a line of column names"),
    "nothing, as bzip2": (bz2.compress(b""), "flights.csv: is empty; a CSV file begins with a line of column names"),
    "half a zip": (b"PK\x03\x04" + b"x" * 100, "flights.csv: is damaged or cut short"),
    "half a Parquet file": (b"PAR1" + b"x" * 100, "it may have been cut short; fetch or write it again"),
    "UTF-16": ("day,carrier\n1,AA\n".encode("utf-16"), "flights.csv: is encoded as UTF-16\n"),
    "UTF-16 without a mark": ("day,carrier\n1,AA\n".encode("utf-16-le"), "convert it: iconv -f UTF-16LE -t UTF-8"),
    "UTF-16, great end first": ("day,carrier\n1,AA\n".encode("utf-16-be"), "convert it: iconv -f UTF-16BE -t UTF-8"),
    "UTF-32": ("day,carrier\n1,AA\n".encode("utf-32"), "convert it: iconv -f UTF-32 -t UTF-8"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_left_behind(tmp_path, what):
    data, message = BROKEN[what]
    path = write(tmp_path, data)
    with pytest.raises(UserError) as error:
        ingested(path, selection())
    assert message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["flights.csv"]


BLANK = {"\n": 1, "\r\n": 1, " \t\n\n": 2, "\ufeff\n\n\n": 3, "\n\ufeff": 1}


@pytest.mark.parametrize("before", BLANK)
def test_blank_lines_before_the_header_are_skipped_and_said(tmp_path, before):
    log: list[str] = []
    path = write(tmp_path, before + HEADER + "5,A,1,X,100\n\n6,A,1,X,100\n")
    assert sorted(decoded(ingested(path, selection(columns=["day"]), log=log.append), "train", "day")) == [5, 6]
    assert f"{path}: blank lines before the header, which are skipped: {BLANK[before]}" in log
    with pytest.raises(UserError, match=f"flights.csv, line {BLANK[before] + 3}: column `day`"):
        ingested(write(tmp_path, before + HEADER + "5,A,1,X,100\nx,A,1,X,100\n"), selection(columns=["day"]))


def test_blank_lines_alone_are_told_as_what_they_are(tmp_path):
    with pytest.raises(UserError, match=r"flights.csv: holds 3 blank lines and no others; a CSV file begins with"):
        ingested(write(tmp_path, "\n\r\n  \n"), selection())
    with pytest.raises(UserError, match=r"flights.csv: begins with more than 1,000 blank lines"):
        ingested(write(tmp_path, "\n" * 5000 + HEADER), selection())


CONVERTED = {"two returns": "\r\r\n", "old Mac": "\r"}


@pytest.mark.processes
@pytest.mark.parametrize("end", CONVERTED)
@pytest.mark.parametrize("kind", ["none", "gzip", "bz2", "zip"])
def test_the_command_that_a_message_names_makes_a_file_that_is_read(tmp_path, end, kind):
    text = (HEADER + "5,A,1,X,100\n6,A,1,X,100\n" * 60_000).replace("\n", CONVERTED[end]).encode()
    with pytest.raises(UserError, match="its first line holds a carriage return") as error:
        ingested(write(tmp_path, ({"none": text} | packed(text))[kind]), selection())
    if kind == "zip" and not shutil.which("unzip"):
        pytest.skip("there is no unzip")
    subprocess.run(["bash", "-ec", str(error.value).splitlines()[-1]], check=True)
    assert ingested(tmp_path / "flights-converted.csv", selection()).manifest.read == 120_000


def test_a_parquet_file_that_is_none_is_refused(tmp_path):
    path = write(tmp_path, HEADER + "1,AA,5,X,1\n", "flights.parquet")
    with pytest.raises(UserError, match=r"flights.parquet: is no Parquet file, although its name says so"):
        ingested(path, selection())


BESIDE = {
    "a readme": ["readme.html"],
    "what macOS adds": ["__MACOSX/._flights.csv", "__MACOSX/flights.csv", ".DS_Store", "._flights.csv"],
    "folders and notes": ["docs/", "docs/notes.txt", "LICENSE"],
}


@pytest.mark.parametrize("what", BESIDE)
def test_the_one_csv_file_of_an_archive_is_read(tmp_path, what):
    alone, log = ingested(write(tmp_path, GOOD), selection()), []
    with zipfile.ZipFile(tmp_path / "flights.zip", "w") as archive:
        for name in BESIDE[what]:
            archive.writestr(name, b"" if name.endswith("/") else GOOD * 1000)
        archive.writestr("months/flights.CSV", GOOD)
    shutil.rmtree(alone.folder)
    file = ingested(tmp_path / "flights.zip", selection(), log=log.append)
    assert file.manifest.read == 1 and estimated_csv_bytes(tmp_path / "flights.zip") == len(GOOD)
    told = [line for line in log if "files of the archive that are not read" in line]
    assert bool(told) == (what != "what macOS adds") and all(name in told[0] for name in BESIDE[what][1:] if told)


@contextlib.contextmanager
def files_of_at_most(size: int):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("write_array", [shards.write_values, shards.save])
def test_the_last_bytes_of_an_array_are_not_lost_on_a_full_disk(tmp_path, write_array):
    """C keeps 4,096 bytes in a buffer, and NumPy does not ask whether they could be written."""
    values = np.random.default_rng(1).normal(size=500)
    with files_of_at_most(3999), pytest.raises(OSError):
        write_array(tmp_path / "full", values)
    write_array(tmp_path / "whole", values)
    read = np.load if write_array is shards.save else np.fromfile
    np.testing.assert_array_equal(read(tmp_path / "whole"), values)


def test_files_are_whole_or_refused_wherever_the_disk_is_full(tmp_path):
    pd.DataFrame({"x": np.random.default_rng(1).normal(size=500)}).to_csv(tmp_path / "flights.csv", index=False)
    layout = Layout.model_validate({"columns": {"x": "number"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["x"]})

    def written(folder: Path) -> dict[Path, bytes]:
        ingest(tmp_path / "flights.csv", "flights", {"layout": layout}, settings, folder)
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != editions.RECORD]
        return {path.relative_to(folder): path.read_bytes() for path in files}

    whole = written(tmp_path / "whole")
    largest = max(map(len, whole.values()))
    for limit in (1, 100, 1000, 3000, 3999, largest - 1):
        told = r"MB are free on the disk at /.*\n  free some space, or run snakemake in a folder on a larger disk"
        with files_of_at_most(limit), pytest.raises(UserError, match=told):
            written(tmp_path / f"of{limit}")
        assert not (tmp_path / f"of{limit}").exists()
    with files_of_at_most(largest):
        assert written(tmp_path / "enough") == whole


def test_an_earlier_result_survives_a_failed_ingest(tmp_path):
    path = write(tmp_path, GOOD)
    before = content(ingested(path, selection()))
    write(tmp_path, GOOD + "1,AA,bad,X,1\n")
    with pytest.raises(UserError):
        ingested(path, selection())
    assert content(IngestedFile.load(tmp_path / "out" / "manifest.json")) == before


WRONG_SETTINGS = {
    "data.columns: no column `carier`; did you mean `carrier`?": {"columns": ["carier"]},
    "data.where.x: no column `dely` in `dely > 0`; did you mean `delay`?": {"where": {"x": "dely > 0"}},
    "data.split.train: not an SQL expression: `day <<= 4`": {"split": {"train": "day <<= 4"}},
    "data.derive.d: no column `dayy`": {"derive": {"d": "dayy + 1"}},
    "data.where.x: `carrier` is neither true nor false": {"where": {"x": "carrier"}},
}


@pytest.mark.parametrize("message", WRONG_SETTINGS)
def test_a_wrong_setting_is_named(tmp_path, message):
    with pytest.raises(UserError) as error:
        ingested(write(tmp_path, GOOD), selection(**WRONG_SETTINGS[message]))
    assert message in str(error.value)


def test_the_manifest_reads_back_as_it_was_written(tmp_path):
    file = ingest_frame(pd.DataFrame({"x": [1, 2, None], "y": ["a", "b", "c"]}), tmp_path)
    file.manifest.write(tmp_path / "again.json")
    assert shards.Manifest.load(tmp_path / "again.json") == file.manifest
    assert json.loads((tmp_path / "again.json").read_text())["read"] == 3
    assert file.values(MISSING).to_list() == ["", "x"]
