"""How a file is written is told by a look at it: separators, decimals, dates, encodings, and numbers with more than digits."""

import csv
import io
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from configs import message
from flights import content
from surveys import surveyed_apart as surveyed
from tfglm.config import Dialect, Layout, LayoutColumn, SelectionConfig, words_of_columns
from tfglm.data.ingest import ingest
from tfglm.data.values import PLAIN, typed_values_of, values_of
from tfglm.survey.dialect import encoding_of, encoding_remark, separator_of
from tfglm.survey.init import Request, init
from tfglm.survey.layout import own_layout
from tfglm.survey.types import type_of
from tfglm.survey.written_numbers import numerals_of

ROWS = 400
RANDOM = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sales() -> list[list[str]]:
    """Rows of a table as texts, the header first."""
    days = [date(2013, 1, 1) + timedelta(int(day)) for day in RANDOM.integers(0, 100, ROWS)]
    towns = RANDOM.choice(["Köln", "Bonn, Rhein", 'Ulm "Mitte"'], ROWS).tolist()
    sizes = RANDOM.normal(17, 3, ROWS).round(2).tolist()
    sold = RANDOM.normal(50, 9, ROWS).round(1).tolist()
    rows = [
        [f"{day:%d.%m.%Y}", town, f"{size}", f"{number}"]
        for day, town, size, number in zip(days, towns, sizes, sold, strict=True)
    ]
    rows[7][2] = ""
    return [["Tag", "Ort", "Größe", "price"], *rows]


def as_csv(rows: list[list[str]], separator: str, decimal: str = ".", quoting: int = csv.QUOTE_MINIMAL) -> str:
    """The rows, the numbers of the last two columns with this decimal."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, quoting=quoting, lineterminator="\r\n")
    writer.writerows([*row[:2], *(number.replace(".", decimal) for number in row[2:])] for row in rows)
    return stream.getvalue()


@pytest.mark.slow
def test_a_table_has_the_same_config_and_shards_however_it_is_written():
    rows = sales()
    Path("commas.csv").write_text(as_csv(rows, ","), encoding="utf-8")
    config, _, _, file = surveyed("commas.csv")
    expected = content(file)
    (model,) = config.models.values()
    assert (model.formula, model.std_errors) == ("price ~ Ort + Grosse + C(month) + C(weekday)", "cluster(Tag)")
    texts = {
        "semicolons": as_csv(rows, ";", ",").encode("cp1252"),
        "quoted": as_csv(rows, ";", ",", csv.QUOTE_ALL).encode("utf-8-sig"),
        "tabs": as_csv(rows, "\t", ",").replace("\r", "").encode(),
        "bars": as_csv(rows, "|").encode() + b"\r\n",
    }
    for name, text in texts.items():
        Path(f"{name}.csv").write_bytes(text)
        _, said, _, file = surveyed(f"{name}.csv")
        assert content(file) == expected, f"{name}\n{said}"
    frame = pl.read_csv("commas.csv").with_columns(pl.col("Tag").str.to_date("%d.%m.%Y"))
    frame.write_parquet("columns.parquet", row_group_size=150)
    assert content(surveyed("columns.parquet").file) == expected


@pytest.mark.slow
def test_the_config_says_what_the_columns_hold_and_what_is_clustered():
    Path("x.csv").write_text(as_csv(sales(), ";", ","), encoding="utf-8")
    config, said, layout, *_ = surveyed("x.csv")
    assert (layout.separator, layout.decimal, layout.columns["Tag"].format) == (";", ",", "%d.%m.%Y")
    assert layout.derive == {"month": "EXTRACT(MONTH FROM Tag)", "weekday": "EXTRACT(ISODOW FROM Tag)"}
    assert words_of_columns([layout], config.data)["weekday"]["labels"]["7"] == "Sun" and not config.data.derive
    assert "columns are separated by semicolons\n  decimals are written with a comma" in said
    text = Path("x.csv-config/x.yaml").read_text()
    assert "#   Grosse  numbers                1  " in text and "2013-01-01 to 2013-04-1" in text
    assert "# Rows of one Tag may be alike" in text


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["a,b", "1,2"], ","),
        (["a;b", "1,5;2,5"], ";"),
        (["Größe, cm;Gewicht, kg", "1,5;2,5", "3,5;4,5"], ";"),
        (["name,tags", "x,a;b", "y,a;b;c"], ","),
        (["name\ttext", "x\ta, b; c|d", "y\te"], "tab"),
        (["a|b", "1|2"], "|"),
        (['"a;b",c', '"1;2",3', '"1",3'], ","),
        (["a;b;c", *["1;2;3"] * 30, "cut;"], ";"),
        (["one", "1"], ","),
    ],
)
def test_the_separator_is_the_one_that_gives_all_rows_the_fields_of_the_header(lines, separator):
    header, *rows = (line.encode() for line in lines)
    assert separator_of(header, rows) == separator


WORDS = {
    "utf-8": ["Łódź", "Москва", "北京"],
    "cp1252": ["5 €", "Köln"],
    "cp1250": ["Łódź", "Kraków"],
    "cp1251": ["Москва", "Ёлкино"],
    "gb18030": ["北京", "男", "女"],
    "shift_jis": ["東京", "カナ"],
}


@pytest.mark.parametrize("encoding", WORDS)
def test_the_remark_on_an_encoding_shows_the_right_one(encoding):
    """That of Western Europe is taken, and the text is shown as others read it."""
    lines = ["a,b", *(f'1,"{word}"' for word in WORDS[encoding])]
    raw = "\n".join(lines).encode(encoding)
    taken = encoding_of(raw)
    assert taken == ("utf-8" if encoding == "utf-8" else "cp1252")
    Path("x.csv").write_bytes(raw)
    if encoding != "utf-8":
        remark = encoding_remark(Path("x.csv"), Layout.model_validate({"columns": {"b": "string"}, "encoding": taken}))
        assert remark.startswith(f'encoding {taken}, as line 2 is not UTF-8: it has `"')
        assert f'`"{WORDS[encoding][0]}"` in {encoding}' in remark and "\ufffd" not in remark


@pytest.mark.slow
def test_a_file_of_utf_8_stays_so_with_bytes_that_are_not():
    """A single character of each kind is taken for UTF-8 too; then the line is named."""
    assert encoding_of("é".encode() + b"\xe9") == "utf-8" and encoding_of("é".encode() + b"\xe9\xe8") == "cp1252"
    assert encoding_of(b"no character of Windows-1252: \x81") == "latin-1"
    rows = [f"{name},{RANDOM.normal():.3f}" for name in RANDOM.choice(["Köln", "Bonn", "Łódź"], ROWS).tolist()]
    lines = ["city,y", *rows]
    raw = [line.encode() for line in lines]
    raw[7] = b"K\xf6ln,1.5"
    Path("x.csv").write_bytes(b"\n".join(raw))
    config, said, layout, file = surveyed("x.csv")
    assert layout.encoding == "utf-8" and config.data.bad_rows == "drop"
    assert "lines that cannot be read: 1; the config drops such lines" in said
    assert "x.csv, line 8: column `city`: bytes that are not UTF-8 (b'K\\xf6ln'); correct the line" in said
    assert file.manifest.dropped["unreadable: value of city"] == 1


QUOTES = {
    b'"he said \\"hi, you\\"",1.5': 'writes a quote within a text as `\\"`, where CSV has `""`',
    b'"ends with \\"",1.5': 'writes a quote within a text as `\\"`, where CSV has `""`',
    b"'Smith, John',1.5": "as it has texts in single quotes, where CSV has double ones",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", QUOTES)
def test_lines_with_other_quotes_are_counted_and_named_or_all_refused(line):
    rows = [f"{name},{RANDOM.normal():.3f}".encode() for name in RANDOM.choice(["a", "b"], ROWS).tolist()]
    rows[7:7] = [line]
    Path("x.csv").write_bytes(b"\n".join([b"city,y", *rows]))
    said = surveyed("x.csv").said
    assert "lines that cannot be read: 1" in said and "x.csv, line 9: " in said and QUOTES[line] in said
    Path("all.csv").write_bytes(b"\n".join([b"city,y", *[line] * ROWS]))
    assert QUOTES[line] in message(surveyed, "all.csv")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "2.00"], "integer"),
        (["1.5", "-2e3"], "number"),
        (["01", "2"], "string"),
        (["2013-12-31", "2013-01-01"], None),
        (["31.12.2013", "1.2.2013"], "%d.%m.%Y"),
        (["31.12.13", "1.2.13"], "%d.%m.%y"),
        (["12/31/2013", "1/2/2013"], "%m/%d/%Y"),
        (["31/12/2013", "1/2/2013"], "%d/%m/%Y"),
        (["1/1/2013", "1/2/2013", "1/12/2013"], "%m/%d/%Y"),
        (["1/1/2013", "2/1/2013", "12/1/2013"], "%d/%m/%Y"),
        (["16-01-09", "17-12-31", "18-02-19"], "%y-%m-%d"),
        (["09.01.16 7:05", "31.12.17 8:05", "19.02.18 9:05"], "%d.%m.%y %H:%M"),
        (["16/1/09 7:05", "17/12/31 8:05", "18/2/19 9:05"], "%y/%m/%d %H:%M"),
        (["10000000000000000003.0", "10000000000000000006.0"], "string"),
        (["05.00", "12.50"], "number"),
        (["20131231", "20130101", "20120229"], "%Y%m%d"),
        (["20131232", "20130101", "20120229"], "integer"),
        (["4/30/2021 12:00:00 AM"], "%m/%d/%Y %I:%M:%S %p"),
        (["2013-01-01T10:00:00Z"], "%Y-%m-%dT%H:%M:%SZ"),
        (["2013-01-01 10:00:00+01:00"], "%Y-%m-%d %H:%M:%S%:z"),
        (["05-Jan-2013", "5-Mar-2013"], "%d-%b-%Y"),
        (["10:30", "11:45"], "string"),
    ],
)
def test_types_and_formats_of_dates(texts, kind):
    column = type_of(pl.Series(texts))
    expected = ("date", kind) if kind is None or "%" in kind else (kind, None)
    assert (column.type, column.format) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("day", "remark"),
    [
        ("{0}/{0}/2013", "dates read as %d/%m/%Y, but they could be %m/%d/%Y as well; correct `format`"),
        ("{0}/{0}/2013 {0}:30", "dates read as %d/%m/%Y, but they could be %m/%d/%Y as well; correct `format`"),
        (
            "28.{0}.{0}5",
            "years of two digits, of which 65 is read as 2065; if that is wrong, write years with four digits",
        ),
    ],
)
def test_a_date_that_could_be_read_otherwise_is_said(day, remark):
    days = [1 + row % (11 if "/" in day else 6) for row in range(ROWS)]
    rows = [["day", "x", "y"], *([day.format(each), "1.5", f"{RANDOM.normal():.3f}"] for each in days)]
    Path("x.csv").write_text(as_csv(rows, ","))
    _, said, *_ = surveyed("x.csv")
    assert f"day: {remark}" in said and f"# {remark}" in Path("x.csv-config/x.layout.yaml").read_text()


@pytest.mark.parametrize(
    ("texts", "separator", "decimal"),
    [
        (["1,5", "2,25"], ";", ","),
        (["1,234", "0,5"], "tab", ","),
        (["1,234", "12,345"], "tab", "."),
        (["1,234", "12,345"], ";", ","),
        (["1,234,567", "12,345"], ";", "."),
        (["1.5", "2"], ";", "."),
    ],
)
def test_a_comma_is_a_decimal_one_where_it_cannot_part_thousands(texts, separator, decimal):
    assert numerals_of({"x": pl.Series(texts)}, separator)[0].decimal == decimal


@pytest.mark.parametrize(
    ("texts", "decimal", "values"),
    [
        (["1,234.5", "1,234,567", "12"], ".", [1234.5, 1234567, 12]),
        (["1.234,5", "1.234.567"], ",", [1234.5, 1234567]),
        (["12 %", "7.5%"], ".", [12, 7.5]),
        (["$1,200", "-$5.50", "$-3"], ".", [1200, -5.5, -3]),
        (["1'000 €", "5 €"], ".", [1000, 5]),
        (["1\u2019000.5", "2'000"], ".", [1000.5, 2000]),
        (["1 234,5"], ",", [1234.5]),
        (["1\u202f234,5", "1\u00a0000"], ",", [1234.5, 1000]),
        (["20.000", "5.000,00"], ",", [20000, 5000]),
        (["\u22122.5", "2.5"], ".", [-2.5, 2.5]),
        (["12.3.4", "1.2"], ".", None),
        (["12,34.5"], ".", None),
        (["1,2345", "1,234.5"], ".", None),
        (["$5.50", "5.50"], ".", None),
        (["$5.50", "€5.50"], ".", None),
        (["35%", "0.35"], ".", None),
        (["1E999", "2.5"], ".", None),
    ],
)
def test_numbers_with_thousands_per_cents_and_currencies(texts, decimal, values):
    numerals, _ = numerals_of({"x": pl.Series(texts)}, ",")
    column = type_of(pl.Series(texts), numerals)
    assert (column.type == "string") == (values is None)
    if values is not None:
        assert numerals.decimal == decimal and values_of(pa.array(texts), column, numerals)[0].to_pylist() == values


@pytest.mark.parametrize(
    ("columns", "marks", "said"),
    [
        ({"a": ["1.234", "20.000"], "b": ["5.000,00"]}, ",,.", {}),
        ({"a": ["1,234", "680"], "b": ["0.5", "1.25"]}, ";.,", {}),
        ({"a": ["1.234", "14.927"]}, ";.", {"a": "1.234 is read as 1.234, but could mean 1234"}),
        ({"a": ["0.123", "14.927"]}, ";.", {}),
        ({"a": ["680", "913", "12", *(f"{n}.{7 * n}" for n in range(20, 40))]}, ";,.", {"a": "could mean 20.14"}),
        ({"a": ["€ 680", "€ 913", "€ 12", *(f"€ {n},{7 * n}" for n in range(20, 90))]}, ",.,", {}),
        (
            {"a": ["1,234", "14,927"]},
            ",.,",
            {"a": "1,234 is read as 1234, but could mean 1.234; if so, ask again with "},
        ),
        ({"a": ["1.5", "2.5"], "b": ["1,5", "2,5"], "c": ["7.25"]}, ",.", {"b": "1,5, unlike those of other columns"}),
        ({"a": ["12", "7"]}, ";.", {}),
    ],
)
def test_a_file_has_one_convention_and_what_another_would_read_is_said(columns, marks, said):
    """The marks separate columns, decimals and thousands."""
    numerals, remarks = numerals_of({name: pl.Series(texts) for name, texts in columns.items()}, marks[0])
    assert f"{numerals.decimal}{numerals.thousands or ''}" == marks[1:] and remarks.keys() == said.keys()
    assert all(said[name] in remark for name, remark in remarks.items())


@pytest.mark.slow
@pytest.mark.parametrize("word", ["comma", "point"])
def test_the_user_says_what_a_tie_means(word):
    numbers = (20 + np.arange(ROWS) % 80).tolist()
    rows = [["x", "y"], *([f"{number}.{101 + number}", str(RANDOM.integers(0, 99))] for number in numbers)]
    Path("x.csv").write_text(as_csv(rows, ";"))
    _, said, layout, file = surveyed("x.csv", Request(decimal=word))
    mark = "" if word == "comma" else "."
    assert sorted(file.values("x")) == [float(f"{number}{mark}{101 + number}") for number in range(20, 100)]
    assert "could mean" not in said and layout.decimal == {"comma": ",", "point": "."}[word]
    assert "`dot` must be point or comma" in message(init, "x.csv", Path("other"), print, Request(decimal="dot"))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["1.5", "12", "1.2345", "$5", "7,1"])
def test_a_later_number_in_another_convention_is_refused_with_its_line(odd):
    """`init` sees the first part of a file: what comes later must not be read by removing marks."""
    layout = {
        "separator": ";",
        "decimal": ",",
        "thousands": ".",
        "columns": {"x": {"type": "number", "symbol": "€"}, "y": "number"},
    }
    Path("x.csv").write_text(f"x;y\n1.234,5 €;1\n{odd};2\n")
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["x", "y"]})
    refusal = message(ingest, Path("x.csv"), "x", {"l": Layout.model_validate(layout)}, settings, Path("shards"))
    expected = "a number with a comma before its decimals with thousands (`.`) with the symbol `€`"
    assert f"x.csv, line 3: column `x`: expected {expected}, found `{odd}`" in refusal


def test_such_numbers_are_covariates():
    incomes = [f"{number:,}" for number in RANDOM.integers(500, 9000, ROWS).tolist()]
    rows = [["income", "y"], *([income, f"{RANDOM.normal():.3f}"] for income in incomes)]
    Path("x.csv").write_text(as_csv(rows, ","))
    config, _, layout, *_ = surveyed("x.csv")
    assert layout.thousands == "," and layout.columns["income"].type == "integer"
    assert config.models["y"].formula == "y ~ income"


# Values that stand out ----------------------------------------------------------------------------------------------------

DAYS = [f"{date(1990, 1, 1) + timedelta(7 * row)}" for row in range(ROWS)]
NUMBERS = [f"{row / 8}" for row in range(1, ROWS + 1)]
STAND_OUT = {
    "a mark of a database": (NUMBERS, "(unknown)", "number"),
    "a word": (NUMBERS, "missing", "number"),
    "a mark of Hive": (NUMBERS, "\\N", "number"),
    "a date that is none": (DAYS, "0000-00-00", "date"),
    "a leap day that is none": (DAYS, "2019-02-29", "date"),
    "an hour that is none": ([f"{day} 10:30:00" for day in DAYS], "2019-07-19 24:00:00", "date"),
    "a censored number": (NUMBERS, "<5", "string"),
    "another unit": ([f"{number}%" for number in NUMBERS], "0.35", "string"),
    "another kind of date": (DAYS, "30/01/1999", "string"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", STAND_OUT)
def test_a_value_that_stands_out_is_said_with_its_rows(case):
    values, odd, kind = STAND_OUT[case]
    values = [odd if row % 100 == 7 else value for row, value in enumerate(values)]
    rows = [["x", "g", "y"], *([value, "ab"[row % 2], f"{RANDOM.normal():.3f}"] for row, value in enumerate(values))]
    Path("x.csv").write_text(as_csv(rows, ","))
    config, said, layout, file = surveyed("x.csv")
    text = Path("x.csv-config/x.layout.yaml").read_text()
    assert layout.columns["x"].type == kind and (odd in layout.missing) == (kind != "string")
    if odd != "\\N":  # which is a mark of a missing value in all columns
        expected = "two formats, 396 as %Y-%m-%d and 4 as %d/%m/%Y" if "/" in odd else f"`{odd}` in 4 rows"
        assert expected in said and expected in text
    assert file.manifest.read == ROWS and "y" in config.data.columns


def test_a_word_that_is_a_level_elsewhere_is_no_missing_value():
    rows = [["x", "g", "y"], *([NUMBERS[row], ["none so far", "some"][row % 2], "1"] for row in range(ROWS))]
    rows[9][0] = "none so far"
    Path("x.csv").write_text(as_csv(rows, ","))
    layout, remarks = own_layout(Path("x.csv"), rows[0], Dialect())
    assert layout.columns["x"].type == "string" and "none so far" not in layout.missing
    assert "as `none so far` in 1 row stand out from values of type number" in remarks["x"]


# Codes --------------------------------------------------------------------------------------------------------------------

LONG = [f"8931000000000{number:04d}000" for number in range(40)]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (LONG, "string"),
        (["1234567890123456", "7"], "string"),
        (["123456789012345", "7"], "integer"),
        (["1234567890123456.5", "7"], "number"),
        (["-007", "7"], "string"),
        (["1E5", "100000", "7"], "string"),
        (["1E5", "10E4"], "string"),
        (["1e+05", "100001"], "integer"),
        (["1E999", "2E999"], "string"),
    ],
)
def test_codes_are_text(texts, kind):
    assert type_of(pl.Series(texts)).type == kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "xlsx", "decimal", "uint64"])
def test_long_codes_are_as_many_levels_in_any_kind_of_file(kind):
    codes = (
        [LONG[row % 40] for row in range(ROWS)]
        if kind != "uint64"
        else [f"{2**64 - 1 - row % 40}" for row in range(ROWS)]
    )
    frame = pl.DataFrame({"sim": codes, "x": RANDOM.normal(size=ROWS).round(3), "y": RANDOM.normal(size=ROWS).round(3)})
    name = f"x.{kind if kind in ('csv', 'jsonl', 'xlsx') else 'parquet'}"
    if kind == "csv":
        frame.write_csv(name)
    elif kind == "jsonl":
        Path(name).write_text("".join(f'{{"sim": {sim}, "x": {x}, "y": {y}}}\n' for sim, x, y in frame.iter_rows()))
    elif kind == "xlsx":
        frame.to_pandas().to_excel(name, index=False)
    else:
        types = {"decimal": pa.decimal128(20, 0), "uint64": pa.uint64()}
        values = pa.array([Decimal(code) if kind == "decimal" else int(code) for code in codes], types[kind])
        parquet.write_table(pa.table({"sim": values, "x": frame["x"].to_numpy(), "y": frame["y"].to_numpy()}), name)
    *_, layout, file = surveyed(name, Request(formula="y ~ x + sim"))
    assert layout.columns["sim"].type == "string" and sorted(file.values("sim")) == sorted(set(codes))


def test_a_float32_is_the_shortest_decimal_that_it_stands_for(tmp_path):
    written = ["0.1", "0.2", "0.3", "16777216", "3.4e38", "1e-45"]
    values = pa.array(np.array(written, np.float32))
    column = LayoutColumn(type="number")
    read, wrong = typed_values_of(values, column, PLAIN)
    assert read.to_pylist() == [float(text) for text in written] and not wrong.any()
