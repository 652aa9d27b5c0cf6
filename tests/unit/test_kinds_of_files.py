"""Files that other programs write: each is read, by `init` and by ingest, or refused with what to do."""

import bz2
import gzip
import io
import lzma
import re
import shlex
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest
import yaml
from pyarrow import parquet

import surveys
from configs import message as refusal
from flights import content
from surveys import formula
from surveys import surveyed_apart as surveyed
from tfglm import console
from tfglm.config import Layout, SelectionConfig, SourceConfig, expand_files, load, words_of_columns
from tfglm.data import csv_lines, foreign, workbooks
from tfglm.data.dictionary import merge
from tfglm.data.foreign import Spool
from tfglm.data.ingest import ingest
from tfglm.data.layouts import recognised
from tfglm.data.packing import opened
from tfglm.data.parquet_files import partitions
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.survey.calendar import calendar_of
from tfglm.survey.columns import described
from tfglm.survey.dialect import dialect_of, is_row
from tfglm.survey.init import Request, init
from tfglm.survey.types import date_type

ROWS = 400

PLAIN = {"columns": {"age": "integer", "wage": "number"}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def people(seed: int = 1) -> pl.DataFrame:
    """Persons with a wage that depends on age and sex."""
    random = np.random.default_rng(seed)
    age, sex = random.integers(20, 65, ROWS), random.choice(["female", "male"], ROWS)
    wage = (1000 + 20 * age + 300 * (sex == "male") + random.normal(0, 100, ROWS)).round(2)
    return pl.DataFrame({"age": age, "sex": sex, "wage": wage})


def of_survey(name: str) -> str:
    """What `init` says of a file that it refuses."""
    return refusal(init, name, Path("config"), print)


def of_ingest(name: str, layout: dict | Layout = PLAIN, *columns: str) -> str:
    """What ingest says of a file that it refuses."""
    layouts = {"x": Layout.model_validate(layout)}
    return refusal(ingest, Path(name), "rows", layouts, settings_of(*columns or ("age", "wage")), Path("out"))


def settings_of(*columns: str, **keys) -> SelectionConfig:
    return SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": list(columns), **keys})


def shards_of(text: str, layout: dict, **keys) -> dict[str, bytes]:
    Path("rows.csv").write_bytes(text.encode())
    settings = settings_of(*keys.pop("columns", ("age", "wage")), **keys)
    ingest(Path("rows.csv"), "rows", {"x": Layout.model_validate(layout)}, settings, Path("out"))
    return content(IngestedFile.load(Path("out/manifest.json")))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_without_a_header_has_the_same_rows(end, mark):
    """The first row is one of them, also behind a byte order mark and in a file of that row alone."""
    rows = people().select("age", "wage")
    expected = shards_of(rows.write_csv(), PLAIN)
    bare = mark + rows.write_csv(include_header=False).replace("\n", end)
    assert shards_of(bare, PLAIN | {"header": ["age", "wage"]}) == expected
    numbered = {"age": {"source": "V1", "type": "integer"}, "wage": {"source": "V2", "type": "number"}}
    assert shards_of("\n\n" + bare.removeprefix(mark), {"header": False, "columns": numbered}) == expected
    single = shards_of("31,5.5", PLAIN | {"header": ["age", "wage"]})
    assert single == shards_of("age,wage\n31,5.5", PLAIN)


def test_a_bad_row_of_a_file_without_a_header_is_named_by_its_line():
    layout = PLAIN | {"header": ["age", "wage"], "comment": "#"}
    assert "rows.csv, line 4: column `age`: expected a whole number, found `x`" in refusal(
        shards_of, "# a\n\n31,5\nx,6\n", layout
    )
    assert "its first row has 3 fields, and `header` of the layout names 2 columns; name each" in refusal(
        shards_of, "31,5,6\n", layout
    )
    assert "holds 2 blank lines and comments and no others" in refusal(shards_of, "# a\n\n", layout)


def test_comments_above_the_header_are_skipped_and_counted():
    text = people().select("age", "wage").write_csv()
    commented = "\ufeff# made, by hand\n\n#\n# in 2020\n" + text
    assert shards_of(commented, PLAIN | {"comment": "#"}) == shards_of(text, PLAIN)
    Path("people.csv").write_text(commented)
    _, said, layout, file = surveyed("people.csv")
    assert (layout.comment, file.manifest.read) == ("#", ROWS)
    assert "blank lines or comments above the header, which are skipped: 4" in said


@pytest.mark.parametrize(
    ("lines", "comment", "header"),
    [
        (["# a, b", "age,sex", "31,f"], "#", True),
        (["#age,sex", "31,f", "32,m"], "#", ("age", "sex")),
        (["##made by x", "#age,sex", "31,f"], "#", ("age", "sex")),
        (["# made by x", "31,f", "32,m"], "#", False),
        (["31,f", "32,m"], "", False),
        (["31.5 , f", "32,m"], "", False),
        (["country,1952,1957", "Chad,1,2"], "", True),
        ([",0,1", "0,3,4", "1,5,6"], "", True),
        (["a,b", *["a,c", "c,b"] * 9], "", False),
        (["x,y", *["a,b", "b,a", "x,y"] * 9], "", True),
        (["#a", "#b"], "", True),
    ],
)
def test_comments_and_headers_are_told_from_rows(lines, comment, header):
    Path("x.csv").write_text("\n".join(lines) + "\n")
    dialect = dialect_of(Path("x.csv"))
    assert (dialect.comment, dialect.header) == (comment, header)


def test_the_first_line_is_a_row_only_if_it_looks_like_one():
    assert is_row(["1", "x"], []) and not is_row(["id", "x"], [["1", "y"]])


def test_a_file_without_names_is_surveyed_with_numbered_columns():
    people().write_csv("people.data", include_header=False)
    config, said, layout, file = surveyed("people.data")
    assert (layout.header, formula(config), file.manifest.read) == (False, "V3 ~ V1 + V2", ROWS)
    assert "the first line is a row and names no column" in said
    assert (
        "header: false # the file begins with a row" in Path("people.data-config/people_data.layout.yaml").read_text()
    )


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["04-Aug-17", "31-Dec-18", "01-Jan-99"], "%d-%b-%y"),
        (["Oct-07-2017", "Nov-30-2017"], "%b-%d-%Y"),
        (["04AUG2017", "31DEC2018"], "%d %b %Y"),
        (["04-August-2017", "31-May-2018"], "%d-%B-%Y"),
        (["2019-03-23 20:21:09", "2019-03-04 16:11:55"], "%Y-%m-%d %H:%M:%S"),
        (["23/03/2019 08:21:09 PM", "04/03/2019 04:11:55 AM"], "%d/%m/%Y %I:%M:%S %p"),
    ],
)
def test_dates_are_known_as_people_write_them(texts, form):
    assert date_type(pl.Series(texts)).format == form


@pytest.mark.slow
def test_the_hour_is_derived_from_a_time_behind_a_date():
    random = np.random.default_rng(2)
    hours = random.integers(6, 22, ROWS)
    when = [f"2019-03-{1 + row % 28:02} {hour:02}:21:09" for row, hour in enumerate(hours)]
    frame = pl.DataFrame(
        {"pickup": when, "day": [text[:10] + " 00:00:00" for text in when], "fare": hours + random.normal(0, 1, ROWS)}
    )
    frame.write_csv("taxis.csv")
    config, _, layout, file = surveyed("taxis.csv")
    assert formula(config) == "fare ~ C(weekday) + C(hour)"
    assert layout.columns["pickup_time"].type == "clock" and "day_time" not in layout.columns
    assert layout.derive["hour"] == "(pickup_time // 100) % 24"
    frame.with_columns(pl.col("pickup", "day").str.to_datetime()).write_parquet("taxis.parquet")
    of_parquet, _, _, same = surveyed("taxis.parquet")
    assert formula(of_parquet) == formula(config) and content(same) == content(file)


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("%H:%M", ["7:05", "20:21"]),
        ("%I:%M %p", ["07:05 AM", "8:21 pm"]),
        ("%Y-%m-%dT%H:%M:%S%:z", ["2019-03-23T07:05:09+02:00", "2019-03-23T20:21:09-05:00"]),
        ("%d.%m.%y %H:%M", ["23.3.19 07:05", "24.3.19 20:21"]),
    ],
)
def test_times_of_day_are_read_as_they_are_written(form, texts):
    layout = {"columns": {"age": {"type": "clock", "format": form}, "wage": "number"}}
    plain = {"columns": {"age": "clock", "wage": "number"}}
    text = "".join(f"{each},1\n" for each in texts)
    assert shards_of(f"age,wage\n{text}", layout) == shards_of("age,wage\n705,1\n2021,1\n", plain)
    assert f"column `age`: expected a time of day ({form}), found `25:99`" in refusal(
        shards_of, f"age,wage\n{text}25:99,1\n", layout
    )


def as_bytes(frame: pl.DataFrame, *columns: str) -> pa.Table:
    """A table whose texts do not say that they are texts."""
    table = frame.to_arrow()
    for name in columns:
        place = table.column_names.index(name)
        table = table.set_column(
            place, name, table[name].cast(pa.large_string()).cast(pa.large_binary()).cast(pa.binary())
        )
    return table


@pytest.mark.slow
def test_parquet_text_that_is_not_called_text_is_read():
    frame = people().with_columns(pl.when(pl.col("age") > 60).then(None).otherwise(pl.col("sex")).alias("sex"))
    frame.write_parquet("named.parquet")
    parquet.write_table(as_bytes(frame, "sex"), "bytes.parquet", row_group_size=150)
    _, _, layout, file = surveyed("bytes.parquet")
    assert layout.columns["sex"].type == "string"
    assert content(file) == content(surveyed("named.parquet").file)


def test_folders_give_parquet_files_columns():
    """As DuckDB writes them."""
    years = pl.Series("year", [2007, 2008] * (ROWS // 2))
    frame = people().with_columns(years, pl.when(years == 2008).then(pl.lit("a b/c")).alias("site"))
    duckdb.sql("COPY frame TO 'parts' (FORMAT parquet, PARTITION_BY (year, site))")
    files = expand_files(SourceConfig.model_validate({"files": ["parts/**/*.parquet"]}))
    assert list(files) == ["year_2007_site___HIVE_DEFAULT_PARTITION___data_0", "year_2008_site_a_20b_2Fc_data_0"]
    empty, other = (Path(file.source) for file in files.values())
    assert partitions(empty) == {"year": pa.scalar(2007), "site": pa.scalar(None, pa.string())}
    assert partitions(other) == {"year": pa.scalar(2008), "site": pa.scalar("a b/c")}
    assert partitions(other.absolute()) == partitions(other)
    frame.filter(pl.col("year") == 2008).write_parquet("whole.parquet")
    whole = content(surveyed("whole.parquet").file)
    assert content(surveyed(str(other)).file) == whole
    # A column of the file itself is not replaced.
    Path("year=1999").mkdir()
    shutil.copy("whole.parquet", "year=1999/whole.parquet")
    assert content(surveyed("year=1999/whole.parquet").file) == whole


def test_bytes_that_are_no_text_are_said_and_named():
    table = as_bytes(people(), "sex").append_column("shape", pa.array([b"\xff\xfe"] * ROWS))
    table = table.append_column("tags", pa.array([["a"]] * ROWS))
    parquet.write_table(table, "shapes.parquet")
    _, said, layout, *_ = surveyed("shapes.parquet")
    assert "shape" not in layout.columns
    assert "shape: not read, as a layout has no type for binary" in said and "tags: not read" in said
    whole = Layout.model_validate({"columns": {"shape": "string", "age": "integer"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["shape", "age"]})
    assert "row 1: column `shape`: bytes that are not UTF-8" in refusal(
        ingest, Path("shapes.parquet"), "rows", {"x": whole}, settings, Path("out")
    )


@pytest.mark.parametrize(
    ("beside", "name"),
    [
        (["readme.txt", "__MACOSX/._people.csv", "pictures/a.png"], "people.csv"),
        (["README.md", "LICENSE"], "data/people.tsv"),
        (["readme.txt", "people.names.txt"], "people.txt"),
        (["codebook.pdf", ".DS_Store"], "people.data"),
    ],
)
def test_the_data_file_of_an_archive_is_found_beside_others(beside, name):
    text = people().write_csv(separator="\t" if name.endswith("tsv") else ",")
    with zipfile.ZipFile("people.zip", "w") as archive:
        for other in beside:
            archive.writestr(other, "nothing")
        archive.writestr(name, text)
    config, said, _, file = surveyed("people.zip")
    assert (formula(config), file.manifest.read) == ("wage ~ age + sex", ROWS)
    assert f"files of the archive that are not read: {beside[0]}" in said


def test_an_archive_of_two_tables_is_refused_with_the_command():
    with zipfile.ZipFile("both.zip", "w") as archive:
        archive.writestr("train.csv", "a,b\n1,2\n")
        archive.writestr("test.csv", "a,b\n1,2\n")
    refused = of_survey("both.zip")
    assert "holds 2 files (train.csv, test.csv); unpack it" in refused
    assert "unzip both.zip train.csv" in refused


def test_blanks_between_columns_are_refused_with_the_command():
    Path("cars.data").write_text('18.0   8   307.0  "chevrolet"\n15.0   8   350.0  "buick"\n')
    refused = of_survey("cars.data")
    assert "awk '{$1 = $1} 1' OFS=, < cars.data > cars-converted.csv" in refused


def test_a_layout_is_chosen_by_the_header_that_it_gives_the_file():
    Path("x.csv").write_text("31,5.5\n")
    layouts = {
        "named": Layout.model_validate(PLAIN),
        "bare": Layout.model_validate(PLAIN | {"header": ["age", "wage"]}),
    }
    assert recognised(Path("x.csv"), layouts, settings_of("age", "wage")).name == "bare"


def write_workbook(path: str, *sheets: tuple[str, list[list]], formats: dict[str, str] | None = None) -> None:
    """A workbook of some sheets with their rows; `formats` are those of cells of the first one."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    for cell, form in (formats or {}).items():
        book.worksheets[0][cell].number_format = form
    book.save(path)


def table(frame: pl.DataFrame) -> list[list]:
    return [frame.columns, *map(list, frame.rows())]


FOREIGN = ["people.xlsx", "people.jsonl", "people.jsonl.gz", "people.dta", "people.sav", "people.zsav"]


def write_foreign(frame: pl.DataFrame, name: str) -> None:
    if name.endswith("xlsx"):
        write_workbook(name, ("People", table(frame)))
    elif "jsonl" in name:
        text = frame.write_ndjson().encode()
        Path(name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    elif name.endswith("dta"):
        pyreadstat.write_dta(frame.to_pandas(), name)
    else:
        pyreadstat.write_sav(frame.to_pandas(), name, compress=name.endswith("zsav"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_a_table_has_the_same_config_and_shards_whatever_wrote_it(name):
    frame = people().with_columns(when=pl.Series([date(2020, 1, 1) + timedelta(row % 100) for row in range(ROWS)]))
    frame = frame.with_columns(pl.when(pl.col("age") > 60).then(None).otherwise(pl.col("age")).alias("age"))
    frame = frame.with_columns(sex=pl.col("sex").replace("male", 'mäle, "x"'))
    frame.write_csv("people.csv")
    write_foreign(frame, name)
    expected, _, _, rows = surveyed("people.csv")
    config, said, _, file = surveyed(name)
    assert formula(config) == formula(expected), said
    assert content(file) == content(rows) and file.manifest.dropped == rows.manifest.dropped


@pytest.mark.parametrize("name", FOREIGN)
def test_a_value_of_the_wrong_type_is_named_by_its_row(name):
    write_foreign(pl.DataFrame({"age": ["31", "x", "33"], "wage": [1.0, 2.0, 3.0]}), name)
    layout = {"x": Layout.model_validate(PLAIN)}
    place = {"xlsx": "line 3", "dta": "row 2", "sav": "row 2", "zsav": "row 2"}.get(name.split(".")[-1], "line 2")
    expected = f"{name}, {place}: column `age`: expected a whole number, found `x`"
    assert expected in refusal(ingest, Path(name), "rows", layout, settings_of("age", "wage"), Path("out"))
    log: list[str] = []
    kept = settings_of("age", "wage", bad_rows="drop")
    ingest(Path(name), "rows", layout, kept, Path("out"), log=log.append)
    manifest = IngestedFile.load(Path("out/manifest.json")).manifest
    assert (manifest.read, manifest.dropped["unreadable: value of age"]) == (3, 1)
    assert any(expected in line for line in log)


@pytest.mark.slow
def test_conditions_and_random_numbers_are_those_of_the_same_csv():
    frame = people()
    frame.write_csv("people.csv")
    layout = {"x": Layout.model_validate(PLAIN)}
    settings = settings_of("age", "wage", split={"train": "random < 0.5", "evaluate": "TRUE"})
    of_kind = {}
    for name in ("people.csv", *FOREIGN):
        if name != "people.csv":
            write_foreign(frame, name)
        ingest(Path(name), "rows", layout, settings, Path("out"))
        of_kind[name] = content(IngestedFile.load(Path("out/manifest.json")))
    assert all(shards == of_kind["people.csv"] for shards in of_kind.values())


@pytest.mark.parametrize("package, suffix", [("openpyxl", "xlsx"), ("pyreadstat", "dta"), ("pyreadstat", "sav")])
def test_a_missing_package_is_named_with_its_extra(package, suffix, tmp_path, monkeypatch):
    frame, path = pd.DataFrame({"sold": [1.5, 2.5]}), tmp_path / f"sales.{suffix}"
    write = {"xlsx": frame.to_excel, "dta": frame.to_stata, "sav": partial(pyreadstat.write_sav, frame)}
    write[suffix](path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"sales.{suffix}: .* needs {package}, .* -m pip install 'tfglm\[files\]'$"):
        surveyed(str(path))


def test_cells_are_read_as_excel_shows_them():
    rows = [
        ["code", "day", "when", "size", "yes", "note"],
        ["007", datetime(2020, 1, 2), datetime(2020, 1, 2, 20, 21, 9), 1.5, True, "a_x000A_b_x000D_"],
        [None, None, None, None, None, None],
        ["010", datetime(2020, 3, 4), datetime(2020, 3, 4), None, False, "#N/A"],
    ]
    formats = {"B2": "dd/mm/yyyy", "B4": "dd/mm/yyyy", "C2": "yyyy-mm-dd hh:mm", "C4": "yyyy-mm-dd hh:mm"}
    write_workbook("cells.xlsx", ("Cells", rows), formats=formats)
    with opened(Path("cells.xlsx").rename("cells.xls")) as stream:
        assert stream.read().decode().splitlines() == [
            "code,day,when,size,yes,note",
            "007,2020-01-02,2020-01-02 20:21:09,1.5,TRUE,a b",
            "",
            "010,2020-03-04,2020-03-04 00:00:00,,FALSE,#N/A",
        ]


@pytest.mark.slow
def test_the_sheet_is_chosen_or_named():
    rows = table(people())
    write_workbook("one.xlsx", ("Empty", []), ("People", rows))
    assert surveyed("one.xlsx").layout.sheet == "People"
    write_workbook("two.xlsx", ("People", rows), ("Other", [["a", "b"], [1, 2]]))
    _, said, layout, *_ = surveyed("two.xlsx")
    assert layout.sheet == "People" and "sheet People; others with values: Other" in said
    expected = "two.xlsx: has the sheets People, Other; name one in the layout, as in `sheet: People`"
    assert expected in of_ingest("two.xlsx")
    misspelt = PLAIN | {"sheet": "Peple"}
    assert "has no sheet `Peple`; did you mean `People`?" in of_ingest("two.xlsx", misspelt)


def test_error_cells_are_named_or_missing_as_the_layout_says():
    frame = people()
    rows = table(frame)
    rows[5][0] = "#DIV/0!"
    write_workbook("errors.xlsx", ("People", rows))
    assert "errors.xlsx, line 6: column `age`: expected a whole number, found `#DIV/0!`" in of_ingest("errors.xlsx")
    _, _, layout, file = surveyed("errors.xlsx")
    assert "#DIV/0!" in layout.missing and lacking(file) == 1


def lacking(file: IngestedFile) -> int:
    """How many rows lack a value."""
    return file.manifest.read - sum(merge([file]).rows.values())


def formula_without_value(sheet) -> None:
    sheet["C3"] = "=A3*2"


def merged_cells(sheet) -> None:
    sheet.merge_cells("B2:B4")


def title(sheet) -> None:
    sheet.insert_rows(1, 2)
    sheet["A1"] = "People of 2020"


CELLS = {
    formula_without_value: "the formula in C3 of the sheet `People` has no stored value; open the file in Excel",
    merged_cells: "merged cells (B2:B4) in the sheet `People`: their value would belong to the first row alone; unmerge them",
    title: "the first row of the sheet `People` with a value, `People of 2020`, names fewer columns than row 3 has values",
}


@pytest.mark.parametrize("change", CELLS)
def test_cells_whose_value_is_elsewhere_are_refused(change):
    write_workbook("odd.xlsx", ("People", table(people())))
    book = openpyxl.load_workbook("odd.xlsx")
    change(book["People"])
    book.save("odd.xlsx")
    assert CELLS[change] in of_survey("odd.xlsx")


def some_workbook(random: np.random.Generator) -> list[list]:
    """Names, and rows of cells of all kinds, some of them empty."""
    day = datetime(2020, 1, 1) + timedelta(int(random.integers(900)), seconds=int(random.integers(86400)))
    cells = [
        *(None, True, 7, 12.5, -0.1, 1e20, 5.0, "x", " a < b & 'c' \"d\" ", "ä\nü", "007", "#N/A", ""),
        *(day, day.date(), day.time(), timedelta(hours=26, minutes=3), timedelta(minutes=90)),
    ]
    width = int(random.integers(2, 7))
    drawn = random.integers(len(cells), size=(int(random.integers(2, 12)), width))
    return [[f"name{column}" for column in range(width)], *([cells[place] for place in row] for row in drawn)]


def spelled(element: ElementTree.Element, random: np.random.Generator, prefix: str, bare: bool) -> str:
    """XML in another spelling: with a prefix, other quotes and order of attributes, and `bare` of places that can be counted."""
    name = prefix + element.tag.partition("}")[2]
    attributes = [
        (key.replace("{http://www.w3.org/XML/1998/namespace}", "xml:"), value) for key, value in element.items()
    ]
    random.shuffle(attributes)
    if bare and "r" in element.attrib:
        attributes = [(key, value) for key, value in attributes if key != "r"]
    quote = random.choice(["'", '"'])
    opening = "".join(f"\n {key} = {quote}{escape(value)}{quote}" for key, value in attributes)
    below, after = [], (0, 0)
    for child in element:
        at = tuple(map(int, (re.sub("[^0-9]", "", child.get("r", "")) or 0, ord(child.get("r", "@")[0]) - 64)))
        follows = at[1] == after[1] + 1 if child.tag.endswith("}c") else at[0] == after[0] + 1
        below.append(spelled(child, random, prefix, bare=bool(follows and random.random() < 0.7)))
        after = at
    text = escape(element.text or "") + "".join(below)
    return f"<{name}{opening}>{text}</{name}>" if text or random.random() < 0.5 else f"<{name}{opening}/>"


def change_parts(source: str, path: str, change: Callable[[str, bytes], bytes]) -> None:
    """Write a workbook whose parts are those of another one, changed."""
    with zipfile.ZipFile(source) as archive:
        parts = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def respelled(path: str, random: np.random.Generator) -> None:
    """Write the sheet of a workbook anew, with a wrong size or none."""
    with zipfile.ZipFile(path) as archive:
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    prefix = str(random.choice(["", "x:"]))
    for part in list(sheet):
        kind = part.tag.partition("}")[2]
        if kind == "dimension":
            part.set("ref", str(random.choice(["A1", "A1:B3", "B2:C3", "A1:ZZ900"])))
        if kind not in ("dimension", "sheetData", "mergeCells") or (kind == "dimension" and random.random() < 0.3):
            sheet.remove(part)
    space = sheet.tag.partition("}")[0][1:]
    sheet.set(f"xmlns:{prefix[:-1]}" if prefix else "xmlns", space)
    anew = spelled(sheet, random, prefix, bare=False).encode()
    change_parts(path, path, lambda name, part: anew if name == "xl/worksheets/sheet1.xml" else part)


def as_excel_has_it(value) -> str:
    """The text of a cell that openpyxl has read."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" if value.time() != datetime.min.time() else f"{value:%Y-%m-%d}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds() / 3600:g}"
    if isinstance(value, float) and value == 5:
        return "5"
    return "" if value is None else str(value).strip() if not isinstance(value, bool) else str(value).upper()


@pytest.mark.slow
def test_workbooks_have_the_cells_that_openpyxl_finds_however_their_xml_is_spelled():
    """Without any cell whose value is not in the file; one such is refused in each spelling."""
    random = np.random.default_rng(45)
    for number in range(80):
        cells = some_workbook(random)
        write_workbook("book.xlsx", ("Cells", cells))
        respelled("book.xlsx", random)
        sheet = openpyxl.load_workbook("book.xlsx", data_only=True)["Cells"]
        expected = [list(map(as_excel_has_it, row)) for row in sheet.iter_rows(values_only=True)]
        read = list(workbooks.rows(Path("book.xlsx"), ""))
        assert [row or [""] * len(cells[0]) for row in read] == expected[: len(read)], number
        assert not any(map(any, expected[len(read) :])) and len(read) >= len(cells) - 1, number
        if number % 4 > 1:
            continue
        book = openpyxl.load_workbook("book.xlsx")
        place = book["Cells"].cell(int(random.integers(2, 5)), int(random.integers(1, 3)))
        if number % 2:
            place.value = "=1+1"
            refused = f"the formula in {place.coordinate} of the sheet `Cells` has no stored value"
        else:
            merged = f"{place.coordinate}:{place.offset(2, 1).coordinate}"
            book["Cells"].merge_cells(merged)
            refused = f"merged cells ({merged}) in the sheet `Cells`"
        book.save("book.xlsx")
        respelled("book.xlsx", random)
        assert refused in refusal(lambda: list(workbooks.rows(Path("book.xlsx"), ""))), number


def test_rows_of_a_sheet_that_are_there_twice_are_refused():
    write_workbook("twice.xlsx", ("People", table(people())))
    change_parts("twice.xlsx", "twice.xlsx", lambda name, part: part.replace(b'<row r="9">', b'<row r="8">'))
    assert (
        "twice.xlsx: is damaged, or no Excel file that can be read: row 8 of the sheet `People`, or a cell in it, is there twice"
        in of_survey("twice.xlsx")
    )


def test_a_workbook_without_values_or_of_another_kind_is_refused_with_what_to_do():
    write_workbook("empty.xlsx", ("Table", []), ("Other", [[None]]))
    assert "empty.xlsx: its visible sheets have no values (Table, Other); write the table into one" in of_survey(
        "empty.xlsx"
    )
    book = openpyxl.load_workbook("empty.xlsx")
    book["Other"].append([1, 2])
    book["Other"].sheet_state = "hidden"
    book.save("hidden.xlsx")
    assert "unhide the sheet with the table (hidden: Other)" in of_survey("hidden.xlsx")
    spaces = rb"http://schemas.openxmlformats.org/(\w+)/2006/", rb"http://purl.oclc.org/ooxml/\1/"
    change_parts("hidden.xlsx", "strict.xlsx", lambda name, part: re.sub(*spaces, part))
    assert (
        "is a Strict Open XML spreadsheet, which cannot be read; save it as an Excel workbook (.xlsx), or run "
        in of_survey("strict.xlsx")
    )


def test_a_table_may_begin_far_below_the_first_row():
    write_workbook("low.xlsx", ("People", [*[[]] * 159, *table(people())]))
    assert dialect_of(Path("low.xlsx")).sheet == "People"
    with opened(Path("low.xlsx")) as stream:
        assert pl.read_csv(stream.read().lstrip()).equals(people())


def test_a_workbook_is_converted_once_for_several_readers_and_anew_if_it_changes():
    write_workbook("people.xlsx", ("People", table(people())))
    with opened(Path("people.xlsx")) as first, opened(Path("people.xlsx")) as second:
        assert first.readline() == second.readline() == b"age,sex,wage\n"
        assert second.read() == first.read()
    write_workbook("people.xlsx", ("People", [["other", "b"], [1, 2]]))
    with opened(Path("people.xlsx")) as stream:
        assert stream.read() == b"other,b\n1,2\n"


def test_what_stops_a_conversion_stops_each_reader():
    spool = Spool(iter(pieces_then_error()))
    for _ in range(2):
        pieces = spool.pieces()
        assert next(pieces) == b"a\n"
        with pytest.raises(UserError, match="stopped"):
            next(pieces)


def pieces_then_error():
    yield b"a\n"
    raise UserError("stopped")


@pytest.mark.slow
def test_labels_make_factors_and_reach_the_pages():
    """Codes stay the values: formulas and tables have them, and pages their labels."""
    frame = people().with_columns(
        sex=pl.col("sex").replace_strict({"male": 1, "female": 2}),
        answer=pl.Series(np.arange(ROWS) % 5 + 1),
        age=pl.when(pl.int_range(ROWS) % 40 == 0).then(97).otherwise(pl.col("age")),
    )
    labels = {"sex": {1: "male", 2: "fe\nmale: x"}, "answer": dict(enumerate("abcde", start=1)), "age": {97: "refused"}}
    names = {"wage": "Hourly  wage: in\nthousands", "sex": "sex", "age": ""}
    pyreadstat.write_dta(frame.to_pandas(), "people.dta", column_labels=names, variable_value_labels=labels)
    config, said, layout, *_ = surveyed("people.dta")
    assert formula(config) == "wage ~ age + C(sex) + C(answer)"
    assert words_of_columns([layout], config.data)["sex"]["labels"] == {"1": "male", "2": "fe male: x"}
    assert {name: column.label for name, column in layout.columns.items() if column.label} == {
        "wage": "Hourly wage: in thousands"
    }
    assert words_of_columns([layout], config.data)["wage"]["label"] == "Hourly wage: in thousands"
    assert (
        "age: a number of which some values have labels: 97 is refused; if they mean no value, add them to missing"
        in said
    )
    by_label = surveys.surveyed("people.dta", Request(response="sex"), Path("other"))
    assert by_label.config.data.derive == {"sex_fe_male_x": "sex = 2"}


@pytest.mark.slow
def test_variable_labels_tell_the_response():
    """Half of the wages may be missing, and the sex in the last column explains."""
    draws = np.random.default_rng(8)
    frame = pl.DataFrame(
        {
            "v1": np.where(np.arange(ROWS) % 5 < 2, np.nan, draws.normal(20, 3, ROWS)),
            "v2": draws.normal(12, 3, ROWS),
            "v3": draws.integers(1, 3, ROWS),
        }
    )
    names = {"v1": "Hourly wage (dollars)", "v2": "Years of schooling", "v3": "Sex of respondent"}
    pyreadstat.write_dta(frame.to_pandas(), "people.dta", column_labels=names)
    config, said, *_ = surveyed("people.dta")
    assert formula(config) == "v1 ~ v2 + v3" and "Response: v1, labelled as a response often is" in said


@pytest.mark.slow
def test_missing_values_of_stata_and_spss_are_missing():
    frame = people().to_pandas()
    frame["age"] = frame["age"].astype(float)
    frame.loc[:9, "age"] = 99.0
    frame.loc[10:14, "age"] = np.nan
    pyreadstat.write_sav(frame, "people.sav", missing_ranges={"age": [{"lo": 90, "hi": 99}]})
    assert lacking(surveyed("people.sav").file) == 15
    frame["age"] = frame["age"].astype(object)
    frame.loc[:9, "age"] = "a"
    pyreadstat.write_dta(frame, "people.dta", missing_user_values={"age": ["a"]})
    assert lacking(surveyed("people.dta").file) == 15


@pytest.mark.slow
def test_labels_of_numbers_stay_beside_those_of_missing_values():
    """Of values that do not occur, too; a column whose only labels are those of `.a` has none."""
    frame = people().with_columns(region=pl.int_range(ROWS) % 4 + 1).to_pandas()
    for name in ("region", "wage"):
        frame[name] = frame[name].astype(object)
        frame.loc[::50, name] = "a"
    regions = {1: "North", 2: "South", 3: "East", 4: "West"}
    missing = {"region": ["a", "b"], "wage": ["a"]}
    labels = {"region": {**regions, "a": "refused", "b": "no answer"}, "wage": {"a": "refused"}}
    pyreadstat.write_dta(frame, "people.dta", missing_user_values=missing, variable_value_labels=labels)
    config, _, layout, file = surveyed("people.dta")
    assert formula(config) == "wage ~ age + sex + C(region)" and lacking(file) == 8
    assert layout.columns["region"].labels == {str(code): label for code, label in regions.items()}
    assert not layout.columns["wage"].labels


def test_periods_of_stata_are_dates_as_pandas_has_them():
    counts = np.array([-53.0, -1, 0, 5, 51, 52, 700, np.nan])
    formats = {"week": "%tw", "month": "%tm", "shown": "%tmMon_CCYY", "quarter": "%tq", "half": "%th", "day": "%td"}
    frame = pd.DataFrame(dict.fromkeys(formats, counts))
    pyreadstat.write_dta(frame, "periods.dta", variable_format=formats)
    with opened(Path("periods.dta")) as stream:
        read = pl.read_csv(stream.read(), try_parse_dates=True)
    expected = pl.from_pandas(pd.read_stata("periods.dta"))
    assert read.equals(expected.select(pl.all().cast(pl.Date)))
    pyreadstat.write_dta(frame * 1e9, "periods.dta", variable_format={"month": "%tm"})
    assert "cannot be read as a Stata file: Invalid date" in of_survey("periods.dta")


def test_floats_of_stata_are_the_decimals_that_they_stand_for():
    numbers = [0.1, 0.2, 16777216.5, None, -1e-30]
    dose = pd.Series(numbers, dtype="float32")
    pd.DataFrame({"dose": dose}).to_stata("dose.dta", write_index=False)
    with opened(Path("dose.dta")) as stream:
        read = pl.read_csv(stream.read())
    assert read["dose"].to_list() == [0.1, 0.2, 16777216.0, None, -1e-30]


def test_durations_and_months_of_spss_are_hours_and_dates(monkeypatch):
    monkeypatch.setattr(foreign, "CHUNK_VALUES", 6)
    days = [date(2013, 1, 1), date(2020, 2, 29), date(1583, 12, 1)]
    seconds = [float((day - date(1582, 10, 14)).days * 86400) for day in days]
    formats = {
        "time": "TIME8",
        "days": "DTIME12.2",
        "minutes": "MTIME8",
        "month": "MOYR8",
        "quarter": "QYR6",
        "week": "WKYR10",
    }
    durations = [90000.0, -1800.0, 60.0]
    columns = {name: durations if "TIME" in form else seconds for name, form in formats.items()}
    pyreadstat.write_sav(pd.DataFrame(columns), "times.sav", variable_format=formats)
    with opened(Path("times.sav")) as stream:
        read = pl.read_csv(stream.read(), try_parse_dates=True)
    hours, dates = pl.Series([25.0, -0.5, 1 / 60]), pl.Series(days)
    assert all(read[name].equals(hours if "TIME" in form else dates) for name, form in formats.items())


def test_the_first_days_of_months_have_no_weekday():
    random = np.random.default_rng(3)
    days = [date(2010 + row // 12 % 10, 1 + row % 12, 1) for row in range(ROWS)]
    rows = pl.DataFrame({"day": days, "y": random.normal(size=ROWS)})
    columns = [described(series) for series in rows]
    assert calendar_of(columns, rows, True, derives=True).derive == {"month": "EXTRACT(MONTH FROM day)"}


def test_stata_files_longer_than_a_piece_are_read_whole(monkeypatch):
    monkeypatch.setattr(foreign, "CHUNK_VALUES", 300)
    write_foreign(people(), "people.dta")
    with opened(Path("people.dta")) as stream:
        assert pl.read_csv(stream.read()).equals(people())


def test_json_objects_may_be_nested_and_lack_keys():
    Path("x.jsonl").write_text(
        '\ufeff{"a": {"b": 1, "c": "x"}, "d": [1, 2]}\n\n{"d": null, "e": true, "a": {"b": 1e3}}\r\n{}\n'
    )
    with opened(Path("x.jsonl")) as stream:
        assert stream.read().decode().splitlines() == ["a.b,a.c,d,e", '1,x,"[1, 2]",', "", "1000.0,,,true", ",,,"]


JSON = {
    '{\n  "a": 1\n}\n': "`jq -c .` writes each object on one line",
    '{"a": ' * 2000: "x.jsonl, line 1: is no JSON",
    '[{"a": 1}]': "holds JSON lists, and can be read as JSON objects or CSV:\n  jq -c '.[]' x.jsonl > x-converted.jsonl",
    "[\n  {": "jq -c '.[]' x.jsonl > x-converted.jsonl",
    "[[1, 2],\n[3, 4]]\n": "jq -r '.[] | @csv' x.jsonl > x-converted.csv",
    '[1.5, "a"]\n[2, "b"]\n': "jq -r @csv x.jsonl > x-converted.csv",
    '["x", "g"]\n[2, "b"]\n': "jq -r @csv x.jsonl > x-converted.csv",
    " [null, true]\n[2, false]\n": "jq -r @csv x.jsonl > x-converted.csv",
    '{"a.b": 1, "a": {"b": 2}}\n' * 9: "x.jsonl: has two columns called `a.b`; rename one",
    '{"a.b": 1}\n{"a": {"b": 2}}\n': "x.jsonl: has two columns called `a.b`; rename one",
    '{"a": 1}\n' * 10_000
    + '{"c": {"d": {"e": 1}}}\n': 'has the key `c.d.e`, and none of the first 10,000 lines has; add `"c": {"d": {"e": null}}` to',
    '{"a": 1}\n' * 10_000
    + '{"b": 1}\n': 'has the key `b`, and none of the first 10,000 lines has; add `"b": null` to the first',
}


@pytest.mark.parametrize("text", JSON, ids=list(map(str, range(len(JSON)))))
def test_what_is_no_table_of_objects_is_refused_with_what_to_do(text):
    Path("x.jsonl").write_text(text)
    assert JSON[text] in of_survey("x.jsonl")


DAMAGED_JSON = {
    "[1]": "is no JSON object; each line must hold one object",
    '{"a": 1, "b"': "is no JSON (Expecting ':' delimiter: column 13 (char 12)); each line must hold one object",
    '{"a": 1}{"b": 2}': "is no JSON (Extra data",
    '{"a": 1, "b": "x", "a": 2}': "holds an object with the same key twice; each line must hold one object",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", DAMAGED_JSON)
@pytest.mark.parametrize("place", [2, 10_002], ids=str)
def test_a_damaged_line_of_json_is_refused_or_counted_as_that_of_a_csv(line, place):
    """The line is one of those that name the columns, or one behind these."""
    lines = ['{"a": 1, "b": "x, y\\n\\u0000"}'] * 10_003
    lines[place - 1] = line
    Path("x.jsonl").write_text("\n".join(lines) + "\n")
    expected = f"x.jsonl, line {place}: {DAMAGED_JSON[line]}"
    layout = {"x": Layout.model_validate({"columns": {"a": "integer", "b": "string"}})}
    problem = refusal(ingest, Path("x.jsonl"), "x", layout, settings_of("a", "b"), Path("out"))
    assert expected in problem and "correct or remove the line" in problem and "data.bad_rows to `drop`" in problem
    log: list[str] = []
    ingest(Path("x.jsonl"), "x", layout, settings_of("a", "b", bad_rows="drop"), Path("out"), log=log.append)
    manifest = IngestedFile.load(Path("out/manifest.json")).manifest
    assert (manifest.read, manifest.dropped["unreadable: damaged line"]) == (10_003, 1)
    assert any(f"dropped {expected}" in said for said in log)


def test_init_counts_damaged_lines_of_json():
    people().write_ndjson("people.jsonl")
    with Path("people.jsonl").open("a") as file:
        file.write('{"age": 31, "se')
    config, said, _, file = surveyed("people.jsonl")
    assert config.data.bad_rows == "drop" and "lines that cannot be read: 1" in said
    assert file.manifest.read == ROWS + 1


OTHERS = {
    "old.xls": (
        b"\xd0\xcf\x11\xe0\xa1\xb1",
        "an Excel file of the old kind (.xls), or one with a password; save it as .xlsx",
    ),
    "page.csv": (b"<!doctype html><html>", "a web page and no data; fetch the file that the page links to"),
    "x.db": (b"SQLite format 3\0", "an SQLite database"),
    "x.sas7bdat": (bytes(12) + b"\xc2\xea\x81\x60", "a SAS file; write it as CSV (PROC EXPORT)"),
    "x.rds": (gzip.compress(b"RDX3\nX\n"), "an R file; in R: write.csv("),
    "x.dta.gz": (gzip.compress(b"<stata_dta><header>"), "holds a file that is read unpacked only"),
    "cut.sav": (b"$FL2@(#) SPSS", "cut.sav: cannot be read as a SPSS file"),
    "cut.dta": (b"<stata_dta><header>", "cut.dta: cannot be read as a Stata file"),
}


def packed(kind: str, data: bytes, name: str = "d.csv") -> bytes:
    """An archive with one file."""
    stream = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=stream, mode="w") as archive:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    else:
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr(name, data)
    return stream.getvalue()


TABLE = b"a,b\n" + b"1,2\n" * 99
LOCKED = bytearray(packed("zip", TABLE))
LOCKED[6] |= 1  # says in both places that a password is needed
LOCKED[LOCKED.find(b"PK\1\2") + 8] |= 1
ODD = packed("zip", TABLE).replace(b"PK\1\2\x14\x03\x14\0\0\0\0\0", b"PK\1\2\x14\x03\x14\0\0\0\x09\0")
ARCHIVES = {
    "d.tar": (
        packed("tar", TABLE),
        "is a tar archive; unpack it, and name the file to read in data.files\n  tar -xf d.tar",
    ),
    "d.tar.gz": (gzip.compress(packed("tar", TABLE)), "is a tar archive; unpack it"),
    "d.csv.gz": (gzip.compress(packed("tar", TABLE)), "is a tar archive; unpack it"),
    "d.tgz": (bz2.compress(packed("tar", TABLE)), "is a tar archive; unpack it"),
    "tar.zip": (packed("zip", packed("tar", TABLE), "d.tar"), "is a tar archive; unpack it"),
    "gz.zip": (packed("zip", gzip.compress(TABLE), "d.csv.gz"), "holds a file that is read unpacked only"),
    "twice.csv.gz": (gzip.compress(gzip.compress(TABLE)), "holds a file that is read unpacked only"),
    "xz.csv.bz2": (bz2.compress(lzma.compress(TABLE)), "is compressed with xz, which cannot be read; unpack it"),
    "pdf.zip": (packed("zip", b"%PDF-1.4", "d.txt"), "is a PDF; look for the data behind its tables"),
    "locked.zip": (bytes(LOCKED), "(File 'd.csv' is encrypted, password required for extraction); unpack it, and name"),
    "deflate64.zip": (ODD, "(That compression method is not supported); unpack it, and name the file to read"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_of_other_kinds_are_refused_by_init_and_a_run(name):
    raw, expected = ARCHIVES[name]
    Path(name).write_bytes(raw)
    assert expected in of_survey(name)
    assert expected in of_ingest(name, {"columns": {"a": "integer", "b": "integer"}}, "a", "b")


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_refused_with_the_next_step(name):
    raw, expected = OTHERS[name]
    Path(name).write_bytes(raw)
    assert expected in of_survey(name)


def test_a_damaged_workbook_is_refused():
    write_workbook("people.xlsx", ("People", table(people())))
    change_parts("people.xlsx", "cut.xlsx", lambda name, part: part[: len(part) // 2] if "worksheets" in name else part)
    assert "cut.xlsx: is damaged" in of_survey("cut.xlsx")
    with zipfile.ZipFile("bare.xlsx", "w") as bare:
        bare.writestr("xl/workbook.xml", "<workbook")
    assert "bare.xlsx: is damaged" in of_survey("bare.xlsx")


def test_the_first_format_that_fits_a_date_or_time_is_taken():
    forms = ["%m/%d/%Y", "%Y-%m-%d"]
    layout = {"columns": {"age": {"type": "date", "format": forms}, "wage": "number"}}
    mixed = shards_of("age,wage\n2/1/2019,1\n2019-03-04,2\n", layout)
    assert mixed == shards_of("age,wage\n2019-02-01,1\n2019-03-04,2\n", {"columns": {"age": "date", "wage": "number"}})
    assert "expected a date (%m/%d/%Y or %Y-%m-%d), found `4.3.19`" in refusal(
        shards_of, "age,wage\n4.3.19,1\n", layout
    )
    layout = {"columns": {"age": {"type": "clock", "format": ["%H:%M", "%I:%M %p"]}, "wage": "number"}}
    clocks = shards_of("age,wage\n20:21,1\n08:21 PM,2\n", layout)
    assert clocks == shards_of("age,wage\n2021,1\n2021,2\n", {"columns": {"age": "clock", "wage": "number"}})


@pytest.mark.parametrize("version", [8, 10, 12, 13, 14, 15])
def test_stata_files_of_all_versions_are_read(version):
    pyreadstat.write_dta(people().to_pandas(), "people.dta", version=version)
    with opened(Path("people.dta")) as stream:
        assert pl.read_csv(stream.read()).equals(people())


def test_columns_of_a_sheet_with_the_same_name_are_refused():
    write_workbook("twice.xlsx", ("People", [["age", "age", "wage"], [1, 2, 3]]))
    assert "twice.xlsx: has two columns called `age`; rename one" in of_survey("twice.xlsx")


def test_a_row_with_more_cells_than_names_is_named():
    rows = table(people())
    rows[9] = [*rows[9], None, "remark"]
    write_workbook("wide.xlsx", ("People", rows))
    assert "wide.xlsx, line 10: 5 fields where the header has 3" in of_ingest("wide.xlsx")


@pytest.mark.slow
def test_a_sheet_without_names_is_read():
    rows = table(people())[1:]
    write_workbook("bare.xlsx", ("People", rows))
    config, _, layout, file = surveyed("bare.xlsx")
    assert (formula(config), layout.header, file.manifest.read) == ("V3 ~ V1 + V2", False, ROWS)


def test_a_label_that_lists_what_values_mean_becomes_their_labels():
    """Also of values that are labelled with the codes that the list has."""
    random = np.random.default_rng(7)
    frame = pl.DataFrame({name: random.integers(1, 3, ROWS) for name in ("sex", "school", "died")})
    names = ["0: MALE 1: FEMALE", "SCHOOL BY 1971: 1: GRADE 8 OR LESS, 2:HS", "DIED BY 1992,  2:YES (any), 1:NO"]
    codes = {"sex": {1: "0", 2: "1"}}
    pyreadstat.write_dta(frame.to_pandas(), "people.dta", column_labels=names, variable_value_labels=codes)
    columns = surveyed("people.dta").layout.columns
    assert columns["sex"].label is None and columns["sex"].labels == {"1": "MALE", "2": "FEMALE"}
    assert columns["school"].label == "SCHOOL BY 1971" and columns["school"].labels["1"] == "GRADE 8 OR LESS"
    assert columns["died"].label == "DIED BY 1992" and columns["died"].labels["1"] == "NO"


# Blanks around fields -----------------------------------------------------------------------------------------------------

PEOPLE = {"columns": {"age": "integer", "name": "string", "wage": "number"}, "missing": ["", "?"]}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blanks_around_fields_do_not_count_and_those_in_quotes_stay(end):
    """As with `strip.white` in R: also before quotes, and for marks of missing values. Other layouts keep them."""
    keys = {"columns": ["age", "name", "wage"]}
    clean = 'age,name,wage\n31,ann,5\n32,"b, c ",6\n33,?,7\n34,"d ""e""",8\n'
    padded = 'age, name ,"wage"\n 31 ,\tann  , 5\n32, "b, c " ,6 \n33 , ?,7\n34,  "d ""e""", 8\n  '.replace("\n", end)
    expected = shards_of(clean, PEOPLE, **keys)
    assert shards_of(padded, PEOPLE | {"strip_blanks": True}, **keys) == expected
    assert shards_of(clean.replace("ann", " ann"), PEOPLE, **keys) != expected


def test_blocks_and_single_lines_lose_the_same_blanks():
    random = np.random.default_rng(4)
    lines = ["".join(random.choice(list(' \t,";ax'), random.integers(1, 14))).encode() for _ in range(3000)]
    for separator in (b",", b"\t"):
        regular = [line for line in lines if csv_lines.fields_of(line, separator, True) is not None]
        without = bytes(csv_lines.without_blanks(memoryview(b"\n".join(regular)), separator)).split(b"\n")
        for before, line in zip(regular, without, strict=True):
            assert csv_lines.fields_of(line, separator) == csv_lines.fields_of(before, separator, True), before


def census(file: str) -> None:
    """A file as that of the census income: no header, blanks behind commas, ` ?` for a missing text, a blank last line."""
    random = np.random.default_rng(3)
    age, work = random.integers(17, 90, ROWS), random.choice(["Private", "State-gov", "?"], ROWS, p=[0.5, 0.4, 0.1])
    rich = random.random(ROWS) < 1 / (1 + np.exp(3 - 0.05 * age))
    rows = zip(age, work, np.where(rich, ">50K", "<=50K"), strict=True)
    Path(file).write_text("\n".join(", ".join(map(str, row)) for row in rows) + "\n\n")


def test_a_file_padded_with_blanks_and_without_a_header_is_read_as_its_values_say():
    census("adult.data")
    config, said, layout, *_ = surveyed("adult.data")
    assert layout.strip_blanks and layout.header is False and "?" in layout.missing
    assert "  blanks around values are removed, except in quotes" in said and "  read as missing: ?" in said
    (lacking,) = re.findall("V2 +text +([0-9]+)  2 different", said)
    assert int(lacking) == Path("adult.data").read_text().count("?")
    assert formula(config) == "V3_over_50k ~ V1 + V2" and config.data.derive == {"V3_over_50k": "V3 = '>50K'"}


def test_names_for_a_file_without_a_header_are_taken_and_come_again_in_the_commands():
    census("adult.data")
    said: list[str] = []
    path = init("adult.data", Path("config"), said.append, Request(header="age, work, income"), "tfglm")
    config = load(yaml.safe_load(path.read_text()), str(path))
    assert formula(config) == "income_over_50k ~ age + work"
    (command,) = re.findall(r"tfglm init (.*--response=age.*)", "\n".join(said))
    asked = console.parser().parse_args(["init", *shlex.split(command)])
    assert (asked.csv, asked.header, asked.response) == ("adult.data", "age, work, income", "age")
    init("adult.data", Path("other"), said.append, Request(asked.response, header=asked.header))
    for wrong, message in {
        "age,,income": "header: `age,,income` must be true, false, or a different name for each column",
        "age,work": "its first row has 3 fields, and `header` of the layout names 2 columns",
    }.items():
        assert message in refusal(init, "adult.data", Path("bad"), said.append, Request(header=wrong))
    people().write_parquet("p.parquet")
    assert "leave header out" in refusal(init, "p.parquet", Path("bad"), said.append, Request(header="false"))


def test_numbers_as_names_of_columns_are_taken_if_asked_for():
    people().rename({"age": "1.5", "wage": "2.5"}).write_csv("p.csv")
    said: list[str] = []
    init("p.csv", Path("config"), said.append, Request(header="true"))
    assert any("All 400 rows" in line for line in said)
