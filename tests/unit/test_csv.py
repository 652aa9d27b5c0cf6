"""CSV as it comes: the same rows as an independent reader finds, whichever parser reads them, or an error with its place."""

import contextlib
import multiprocessing
import re
import shutil
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import csv_cases
from tfglm.config import Layout, SelectionConfig
from tfglm.data.dictionary import account, merge
from tfglm.data.ingest import ingest
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.reader import uniform
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError


def rows_of(file: IngestedFile, split: str, names: list[str]) -> list[tuple]:
    """The rows of a split in the order in which they are stored."""
    columns = []
    for name in names:
        stored = file.column(name)
        shards = [shard for shard in file.manifest.shards if shard.split == split]
        codes = np.concatenate(
            [np.zeros(0), *(np.fromfile(file.folder / each.path / name, stored.dtype) for each in shards)]
        )
        meaning = [None, *file.values(name)]
        columns.append([plain(meaning[int(code)]) for code in codes])
    return list(zip(*columns, strict=True))


def plain(value):
    """-0.0 as 0.0, which is the same number."""
    return value + 0.0 if isinstance(value, float) else value


def check(case: csv_cases.Case, folder: Path, what: str) -> None:
    """Read a file with both parsers and both settings of bad_rows, and compare all with the independent reader."""
    expected = csv_cases.independently(case)
    path = folder / "flights.csv"
    path.write_bytes(case.data)
    limits = IngestLimits(block_bytes=case.block, few_bad_rows=1000)
    runs = [(True, "error"), (False, "drop")]
    # Where every line is read, bad_rows says nothing.
    for compiled, bad_rows in [*runs, (True, "drop"), (False, "error")] if expected.bad else runs:
        settings = SelectionConfig.model_validate(case.settings | {"bad_rows": bad_rows})
        where = f"{what}, compiled={compiled}, bad_rows={bad_rows}, bad lines {expected.bad}"
        try:
            layouts = {"layout": case.layout}
            ingest(path, "flights", layouts, settings, folder / "out", 2, compiled=compiled, limits=limits)
        except UserError as error:
            line = re.search(r"flights.csv, line (\d+): ", str(error))
            assert bad_rows == "error" and line and int(line[1]) in expected.bad, f"{where}: {error}"
            continue
        assert bad_rows == "drop" or not expected.bad, where
        file = IngestedFile.load(folder / "out" / "manifest.json")
        assert file.manifest.read == expected.read, where
        dropped = sum(n for reason, n in file.manifest.dropped.items() if reason.startswith("unreadable"))
        assert dropped == len(expected.bad), f"{where}: {file.manifest.dropped}"
        for split, rows in expected.rows.items():
            actual = rows_of(file, split, settings.columns)
            wanted = [tuple(map(plain, row)) for _, row in rows]
            assert sorted(map(repr, actual)) == sorted(map(repr, wanted)), f"{where}, {split}"
        places = [place for place, _ in expected.rows["predict"]]
        assert np.load(file.folder / "predicted_rows.npy").tolist() == places, where
        shutil.rmtree(folder / "out")


def fuzz(seeds: range, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for seed in seeds:
        check(csv_cases.case(seed), folder, f"seed {seed}")


@pytest.mark.slow
def test_files_of_all_kinds_are_read_as_an_independent_reader_does(tmp_path):
    fuzz(range(60), tmp_path)


@pytest.mark.drill
@pytest.mark.processes
def test_two_thousand_files_are_read_as_an_independent_reader_does(tmp_path):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        halves = [executor.submit(fuzz, range(start, start + 1000), tmp_path / str(start)) for start in (1000, 2000)]
        for half in halves:
            half.result()


# One by one -----------------------------------------------------------------------------------------------------------

LAYOUT = Layout.model_validate(
    {"columns": {"day": "integer", "carrier": "string", "tail": "string", "miles": "integer"}}
)
HEADER = "day,carrier,tail,miles\n"


def ingested(folder: Path, text: str | bytes, layout: Layout = LAYOUT, log=lambda line: None, **keys) -> IngestedFile:
    path = folder / "flights.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    compiled, limits = keys.pop("compiled", False), keys.pop("limits", DEFAULT_LIMITS)
    executor = keys.pop("executor", None)
    settings = {"split": {"train": "TRUE"}, "columns": list(layout.columns)} | keys
    settings = SelectionConfig.model_validate(settings)
    ingest(path, "flights", {"layout": layout}, settings, folder / "out", 2, log, compiled, limits, executor=executor)
    return IngestedFile.load(folder / "out" / "manifest.json")


def test_files_that_share_threads_have_the_shards_of_each_alone(tmp_path):
    """The second file lacks values of the first, and has others; the third is no plain CSV."""
    rows = "7,AA,N1,1\n07,B6,N2,2\n", "7,DL,N3,NA\n5,B6,NA,2\n", '7,"DL, x",N3,1\n5,AA,N1,2\n'
    layout = LAYOUT.model_copy(update={"missing": ["NA"]})
    with ThreadPoolExecutor(1) as executor:
        digests = [
            [
                ingested(tmp_path, HEADER + text, layout, compiled=True, executor=given).manifest.digest
                for text in (*rows, rows[0])
            ]
            for given in (None, executor)
        ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3


def days(file: IngestedFile, split: str = "train") -> list:
    return sorted(day for (day,) in rows_of(file, split, ["day"]))


CUT = HEADER + '5,"DL","N1",7\n6,"A\n7,"UA","N2",77\n8,"UA","N3",78\n'


def test_a_line_cut_in_quotes_is_no_row_with_the_next_one(tmp_path):
    with pytest.raises(UserError, match=r"line 3: a quoted text is not closed in its line, which may have been cut"):
        ingested(tmp_path, CUT)
    file = ingested(tmp_path, CUT, bad_rows="drop")
    assert (days(file), file.manifest.dropped["unreadable: open quote"]) == ([5, 7, 8], 1)


@pytest.mark.slow
def test_a_record_of_several_lines_is_left_out_whole_and_no_other_row(tmp_path):
    lines = [f'{number},"A, ""B""",N{number},5' for number in range(100)]
    lines[40] = '40,"two\n1,A,N,1\nends",N40,5'
    lines[70] = '70,"x'
    with pytest.raises(UserError, match="line 42: begins a quoted text of 3 lines, but a row is one line"):
        ingested(tmp_path, HEADER + "\n".join(lines) + "\n")
    limits = IngestLimits(block_bytes=200)
    file = ingested(tmp_path, HEADER + "\n".join(lines) + "\n", bad_rows="drop", limits=limits)
    assert days(file) == [number for number in range(100) if number not in (40, 70)]
    reasons = {"unreadable: row of several lines": 3, "unreadable: open quote": 1}
    assert file.manifest.dropped == {"in no split": 0, **reasons}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("entry", ["1\0", "\0", "\0" * 8, "0x1F", "nan", "1_0", "9223372036854775808"])
def test_what_is_no_whole_number_is_refused_by_both_parsers(tmp_path, compiled, entry):
    with pytest.raises(UserError, match="line 3: "):
        ingested(tmp_path, f"{HEADER}5,DL,N1,7\n6,DL,N2,{entry}\n7,DL,N2,2\n", compiled=compiled)


@pytest.mark.slow
def test_thousands_of_bad_lines_take_no_longer_and_too_many_stop_the_run(tmp_path):
    lines = [f'{number},"A",N{number % 7},5' for number in range(60_000)]
    for number in range(0, 60_000, 20):
        lines[number] = f"{number},A,N"
    began = time.perf_counter()
    log = []
    file = ingested(tmp_path, HEADER + "\n".join(lines), bad_rows="drop", log=log.append)
    assert time.perf_counter() - began < 5  # it took 7, and grew with the number of bad lines
    assert file.manifest.dropped["unreadable: wrong number of fields"] == 3000
    assert days(file) == [number for number in range(60_000) if number % 20]
    assert sum(line.startswith("dropped") for line in log) == 10
    for number in range(1, 60_000, 15):
        lines[number] = f"{number},A,N,x"
    with pytest.raises(
        UserError,
        match=r"flights.csv: [\d,]+ of the first 60,000 rows cannot be read, and `bad_rows: drop` allows fewer",
    ):
        ingested(tmp_path, HEADER + "\n".join(lines), bad_rows="drop")
    few = [f"{number},A,N" for number in range(90)] + ["1,A,N,5"]
    assert days(ingested(tmp_path, HEADER + "\n".join(few), bad_rows="drop")) == [1]


@pytest.mark.slow
def test_rows_of_which_an_expression_has_no_value_are_dropped_in_one_go(tmp_path):
    """A whole number that is too large; of what is divided by 0 the value is missing."""
    lines = [f"{number % 12},A,N,5" for number in range(3_000)]
    keys = {
        "derive": {"ratio": "miles / day", "wide": "9223372036854775753 + miles * day"},
        "columns": ["day", "ratio", "wide"],
    }
    file = ingested(tmp_path, HEADER + "\n".join(lines), bad_rows="drop", **keys)
    assert file.manifest.dropped["unreadable: expression"] == 250
    assert sorted(file.values("ratio")) == pytest.approx([5 / day for day in range(10, 0, -1)])
    kept = account([file], merge([file]))["splits"]["train"]
    assert kept["dropped"] == {"missing: ratio": 250} and kept["used"] == 2_500
    for first in (0, 8):
        with pytest.raises(UserError, match=f"line {13 - first}: conversion from `i128` to `i64` failed"):
            ingested(tmp_path, HEADER + "\n".join(lines[first:20]), **keys)


@pytest.mark.slow
def test_a_field_of_any_size_is_read_or_named(tmp_path):
    text = "x" * 200_000
    assert ingested(tmp_path, f'{HEADER}5,"{text}",N1,7\n').values("carrier")[0] == text
    with pytest.raises(UserError, match="line 2: 3 fields where the header has 4"):
        ingested(tmp_path, f'{HEADER}5,"{text}",N1\n')
    with pytest.raises(UserError, match="line 2: a quoted text is not closed"):
        ingested(tmp_path, f'{HEADER}5,A,N1,"{text}', Layout.model_validate({"columns": {"day": "integer"}}))
    with pytest.raises(UserError, match=r"line 2: column `miles`: expected a whole number, found `x{100}\.\.\.`"):
        ingested(tmp_path, f'{HEADER}5,A,N1,"{text}"\n')


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("encoding", "raw"), [("cp1252", b"\x81"), ("ascii", b"\xe4"), ("shift_jis", b"\x83"), ("utf-8", b"\xe4")]
)
def test_an_encoding_that_does_not_fit_is_named_with_its_line(tmp_path, compiled, encoding, raw):
    layout = Layout.model_validate(LAYOUT.model_dump() | {"encoding": encoding})
    data = f"{HEADER}5,A,N1,7\n".encode() + b"6," + raw + b",N1,7\n7,A,N1,7\n"
    with pytest.raises(UserError, match=rf"line 3: column `carrier`: bytes that are not {encoding.upper()}"):
        ingested(tmp_path, data, layout, compiled=compiled)
    assert days(ingested(tmp_path, data, layout, compiled=compiled, bad_rows="drop")) == [5, 7]


def test_a_decimal_point_where_the_layout_has_a_comma_is_refused(tmp_path):
    layout = LAYOUT.model_dump() | {"separator": ";", "decimal": ","}
    layout["columns"] |= {"miles": {"type": "number", "source": "miles"}}
    with pytest.raises(UserError, match="line 2: column `miles`: expected a number with a comma before its decimals"):
        ingested(tmp_path, "day;carrier;tail;miles\n1;A;N;1.5\n", Layout.model_validate(layout))


def test_a_header_in_the_encoding_of_the_file_is_read_and_known_when_it_comes_again(tmp_path):
    columns = {"size": {"source": "Größe", "type": "string"}, "day": {"source": "Tag", "type": "integer"}}
    layout = Layout.model_validate({"columns": columns, "encoding": "latin-1", "separator": ";"})
    text = "Größe;Tag\nA;5\nGröße;Tag\n".encode("latin-1")
    with pytest.raises(UserError, match="line 3: repeats the header"):
        ingested(tmp_path, text, layout)
    assert days(ingested(tmp_path, text, layout, bad_rows="drop")) == [5]


def test_a_separator_that_is_half_a_character_is_refused():
    with pytest.raises(ValueError, match=r"separator: `\|` is a part of other characters in `shift_jis`"):
        Layout.model_validate(LAYOUT.model_dump() | {"encoding": "shift_jis", "separator": "|"})


def test_keys_at_their_default_ingest_no_file_again():
    shards = LAYOUT.model_copy(update={"separator": ",", "decimal": "."}).shard_settings()
    assert not {"separator", "decimal", "derive", "encoding"} & shards.keys()
    assert LAYOUT.model_copy(update={"separator": ";"}).shard_settings() == shards | {"separator": ";"}


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-7", "iso2022_jp", "hz", "raw_unicode_escape", "cp037", "base64", "no such"]
)
def test_an_encoding_that_writes_commas_otherwise_is_refused(encoding):
    with pytest.raises(ValueError, match="CSV cannot be read as"):
        Layout.model_validate(LAYOUT.model_dump() | {"encoding": encoding})


WRONG_HEADERS = {
    "a million names": (
        ",".join(f"c{number}" for number in range(10**6)),
        "is not a CSV file of at most 10,000 columns",
    ),
    "many short names": ("a," * 20_000, "is not a CSV file of at most 10,000 columns"),
    "an open quote": ('day,"carrier,tail,miles', "its first line holds a quote that is not closed"),
    "a carriage return": ("day,carrier\rtail,miles", "its first line holds a carriage return"),
    "separators alone": (" ,,,\nday,carrier,tail,miles", "its first line names no column"),
    "blank lines and separators": ("\n\n,,,\nday,carrier,tail,miles", "its line 3 names no column"),
    "latin-1": ("day,carrier,t\udce4il,miles", "is not a CSV file whose header is UTF-8"),
    "semicolons": ("day;carrier;tail;miles", "give the separator of the columns in the layout"),
    "xz": ("\udcfd7zXZ", "is compressed with xz, which cannot be read"),
}


@pytest.mark.parametrize("what", WRONG_HEADERS)
def test_a_first_line_that_names_no_columns_is_refused(tmp_path, what):
    header, message = WRONG_HEADERS[what]
    with pytest.raises(UserError) as error:
        ingested(tmp_path, (header + "\n5,A,N1,7\n").encode("utf-8", "surrogateescape"))
    assert str(error.value).startswith(f"{tmp_path / 'flights.csv'}: ") and message in str(error.value)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("block", [9, 30, 1 << 20])
def test_a_byte_order_mark_in_the_middle_belongs_to_the_value_wherever_blocks_begin(tmp_path, compiled, block):
    layout = Layout.model_validate({"columns": {"carrier": "string", "day": "integer"}})
    text = "\ufeffcarrier,day\n" + "AA,1\n\ufeffAA,2\n\ufeff\ufeffA,3\n" * 4
    file = ingested(tmp_path, text, layout, compiled=compiled, limits=IngestLimits(block_bytes=block))
    rows = [("AA", 1), ("\ufeffAA", 2), ("\ufeff\ufeffA", 3)]
    assert sorted(rows_of(file, "train", ["carrier", "day"])) == sorted(rows * 4)
    with pytest.raises(UserError, match="line 3: repeats the header"):
        ingested(tmp_path, "carrier,day\nAA,1\n\ufeffcarrier,day\n", layout, columns=["carrier"], compiled=compiled)


@pytest.mark.slow
def test_a_damaged_archive_is_refused_by_name_or_read_as_it_was(tmp_path):
    random = np.random.default_rng(4)
    text = (HEADER + "".join(f"{number},A,N{random.integers(10**6)},7\n" for number in range(2000))).encode()
    for name, whole in csv_cases.packed(text).items():
        assert days(ingested(tmp_path, whole)) == list(range(2000)), name
        for _ in range(12):
            data, at = bytearray(whole), int(random.integers(4, len(whole) - 4))
            match random.integers(3):
                case 0:
                    del data[at:]
                case 1:
                    data[at] ^= 1 << int(random.integers(8))
                case _:
                    del data[at : at + 30]
            with contextlib.suppress(UserError):
                assert days(ingested(tmp_path, bytes(data))) == list(range(2000)), name


def test_decimals_of_a_parquet_file_are_the_numbers_that_they_are_written_as(tmp_path):
    prices = [Decimal("0.10"), Decimal("1.61"), None, Decimal("123456789.99")]
    frame = pl.DataFrame(
        {"price": pl.Series(prices, dtype=pl.Decimal(12, 2)), "count": pl.Series([1, 2, 3, 4], dtype=pl.Decimal(5, 0))}
    )
    frame.write_parquet(tmp_path / "flights.parquet")
    layout = Layout.model_validate({"columns": {"price": "number", "count": "integer"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["price", "count"]})
    ingest(tmp_path / "flights.parquet", "flights", {"layout": layout}, settings, tmp_path / "out")
    file = IngestedFile.load(tmp_path / "out" / "manifest.json")
    assert [file.column(name).kind for name in ("price", "count")] == ["number", "integer"]
    assert [list(file.values(name)) for name in ("price", "count")] == [[0.1, 1.61, 123456789.99], [1, 2, 3, 4]]


@pytest.mark.slow
def test_any_expression_of_random_is_evaluated_row_by_row(tmp_path):
    """Conditions with and without missing results, constants, and derived numbers and texts."""
    derive = {
        "fold": "FLOOR(random * 5)",
        "half": "random < 0.5",
        "some": "CASE WHEN random < 0.25 THEN random END",
        "arm": "CASE WHEN random < 0.1 THEN 'a' WHEN random < 0.2 THEN 'b' END",
    }
    keys = {
        "derive": derive,
        "where": {"low": "CASE WHEN random < 0.9 THEN random > -1 END", "any": "random = random"},
        "split": {"train": "random >= 0.3", "predict": "fold < 5"},
        "columns": ["day", *derive],
        "limits": IngestLimits(block_bytes=300),
    }
    file = ingested(tmp_path, HEADER + "".join(f"{number},A,N,5\n" for number in range(1000)), **keys)
    drawn = uniform(1, "flights", 2, 1000).tolist()
    expected = [
        (
            day,
            number * 5 // 1,
            int(number < 0.5),
            number if number < 0.25 else None,
            "a" if number < 0.1 else "b" if number < 0.2 else None,
        )
        for day, number in enumerate(drawn)
    ]
    assert file.manifest.dropped["where: low"] == sum(number >= 0.9 for number in drawn)
    for split, (least, most) in {"train": (0.3, 0.9), "predict": (0, 0.3)}.items():
        wanted = [row for row, number in zip(expected, drawn, strict=True) if least <= number < most]
        assert sorted(rows_of(file, split, ["day", *derive])) == wanted
