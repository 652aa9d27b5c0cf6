"""What `snakemake init` makes of a file: a layout and a config that run, or a message that says why not and what to do."""

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import polars as pl
import pytest
import yaml
from statsmodels.stats.outliers_influence import variance_inflation_factor

from configs import message
from runs import write_asa
from tfglm.config import Config, Layout, load, load_layout, shipped_layouts
from tfglm.data import sql
from tfglm.data.ingest import ingest
from tfglm.errors import UserError
from tfglm.survey.collinear import inflation
from tfglm.survey.init import init
from tfglm.survey.layout import flight_layout

ROWS = 400
RANDOM = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, **columns) -> str:
    """A CSV file of these columns."""
    pl.DataFrame(columns).write_csv(name)
    return name


def surveyed(source: str) -> tuple[Config, Layout, str]:
    """The config and the layout that are written for a file, all of whose rows they are used to read; and what is said of it."""
    said: list[str] = []
    path = init(source, Path("config"), said.append)
    config = load(yaml.safe_load(path.read_text()), str(path))
    (name,) = config.data.layout
    layout = load_layout(name)
    ingest(Path(source), path.stem, {name: layout}, config.data, Path("ingested"))
    return config, layout, "\n".join(said)


def formula(config: Config) -> str:
    (model,) = config.models.values()
    return model.formula


def chosen(rows: int, *values: object) -> list:
    return RANDOM.choice(np.array(values, object), rows).tolist()


# What is proposed --------------------------------------------------------------------------------------------------------


def test_flights_have_a_shipped_layout_and_the_question_which_are_late(folder):
    write_asa(folder, 2006, 3000)
    config, layout, said = surveyed("2006.csv")
    assert layout == load_layout("asa2009") and not Path("config/2006.layout.yaml").exists()
    assert formula(config) == "late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
    assert config.data.derive == {"late": "arr_delay >= 15"} and config.models["late"].std_errors == "cluster(date)"
    assert "All 3,000 rows of 2006.csv, layout asa2009:" in said


def test_flights_of_one_month_have_no_month_in_their_formula(folder):
    write_asa(folder, 2006, 20_000)
    pl.read_csv("2006.csv", infer_schema=False).filter(pl.col("Month") == "7").write_csv("july.csv")
    config, _, said = surveyed("july.csv")
    assert formula(config) == "late ~ carrier + origin + dest + C(weekday) + dep_hour + distance"
    assert "Left out: month: has the same value in all rows" in said


@pytest.mark.parametrize("name", sorted({*shipped_layouts()} - {"images"}))
def test_each_layout_of_flights_is_known_by_its_header(name):
    Path("x.csv").write_text(",".join(column.source for column in load_layout(name).columns.values()))
    assert flight_layout(Path("x.csv")).name == name


def test_columns_are_typed_by_their_values_and_named_so_that_formulas_can_hold_them():
    source = written(
        "customers.csv",
        **{
            "": range(ROWS),
            "Größe (cm)": RANDOM.normal(170, 9, ROWS).round(1),
            "group": chosen(ROWS, "a", "b"),
            "random": chosen(ROWS, "1", "2.50", "?"),
            "1st": chosen(ROWS, "15.00", "-"),
            "yes": chosen(ROWS, "None", "some", "?"),
            "Intercept": RANDOM.normal(0, 1, ROWS),
            "a b": chosen(ROWS, "31.12.2020", "01.02.2021"),
            "a-b": chosen(ROWS, "2020-12-31", "2021-02-01"),
            "plz": chosen(ROWS, "01234", "99999"),
            "bought": chosen(ROWS, 0, 1),
        },
    )
    config, layout, said = surveyed(source)
    assert "columns without a name, which are not read: 1" in said
    assert {name: (column.source, column.type) for name, column in layout.columns.items()} == {
        "Grosse_cm": ("Größe (cm)", "number"),
        "group_column": ("group", "string"),
        "random_column": ("random", "number"),
        "column_1st": ("1st", "integer"),
        "yes": ("yes", "string"),
        "Intercept_column": ("Intercept", "number"),
        "a_b": ("a b", "date"),
        "a_b_2": ("a-b", "date"),
        "plz": ("plz", "string"),
        "bought": ("bought", "integer"),
    }
    assert layout.columns["a_b"].format == "%d.%m.%Y" and layout.missing == ["", "NA", "?", "-"]
    assert formula(config).startswith("bought ~ Grosse_cm + group_column")


def test_what_is_no_covariate_is_left_out_with_the_reason():
    amount = RANDOM.normal(50, 9, ROWS).round(2)
    source = written(
        "x.csv",
        customer_id=chosen(ROWS, 5, 6, 7),
        serial=range(1000, 1000 + ROWS),
        constant=["DE"] * ROWS,
        empty=[None] * ROWS,
        sparse=[7 if row % 3 else None for row in range(ROWS)],
        day=chosen(ROWS, "2020-01-01", "2020-01-02"),
        note=[f"text {row % 300}" for row in range(ROWS)],
        size=chosen(ROWS, 1, 2, 3),
        amount=amount,
        outcome=RANDOM.normal(0, 1, ROWS),
    )
    config, _, said = surveyed(source)
    assert formula(config) == "outcome ~ size + amount + C(weekday)" and config.models["outcome"].family == "gaussian"
    assert [line.removeprefix("Left out: ") for line in said.splitlines() if line.startswith("Left out")] == [
        "customer_id: looks like an identifier",
        "serial: looks like an identifier",
        "constant: has the same value in all rows",
        "empty: has no values",
        "sparse: missing in 34% of the rows, which would be dropped",
        "day: a date; month and weekday are derived from it",
        "note: text with 300 different values; a factor of up to 50 is taken by itself",
        "month: has the same value in all rows",
    ]
    assert "# size is a number; C(size) makes a factor of it." in Path("config/x.yaml").read_text()


@pytest.mark.parametrize(
    ("values", "name", "sql"),
    [
        ((0, 1), "answer", None),
        (("Yes", "No"), "answer_yes", "answer = 'Yes'"),
        (("false", "true"), "answer_true", "answer = 'true'"),
        ((1, 2), "answer_2", "answer = 2"),
        ((0.5, 1.5), "answer_1_5", "answer = 1.5"),
        (("it's", "it's", "it's", "is # not: so"), "answer_is_not_so", "answer = 'is # not: so'"),
        (("so", "so", "so", "it's"), "answer_it_s", "answer = 'it''s'"),
    ],
)
def test_a_response_of_two_values_is_made_0_and_1(values, name, sql):
    source = written("x.csv", answer=chosen(ROWS, *values), amount=RANDOM.normal(50, 9, ROWS))
    config, _, _ = surveyed(source)
    assert formula(config) == f"{name} ~ amount" and config.models[name].family == "binomial"
    assert config.data.derive == ({name: sql} if sql else {})


def test_a_derived_response_takes_no_name_that_is_there():
    answer = chosen(ROWS, "Yes", "No")
    config, _, _ = surveyed(written("x.csv", answer_yes=RANDOM.normal(50, 9, ROWS), answer=answer))
    assert formula(config) == "answer_yes_is ~ answer_yes" and list(config.data.derive) == ["answer_yes_is"]


def test_a_factor_that_says_the_response_in_other_words_is_left_out():
    survived = np.array(chosen(ROWS, 0, 1), int)
    alive = np.where(survived, "yes", "no")
    config, _, said = surveyed(written("x.csv", survived=survived, alive=alive, age=RANDOM.normal(50, 9, ROWS)))
    assert formula(config) == "survived ~ age"
    assert "alive: tells survived by itself" in said


def test_a_number_that_separates_the_outcomes_is_left_out():
    visits = [row % 4 for row in range(ROWS)]
    doctor = [int(number > 0) for number in visits]
    some = [int(number > 1) for number in visits]
    config, _, said = surveyed(
        written("x.csv", visits=visits, some=some, age=RANDOM.normal(50, 9, ROWS), doctor=doctor)
    )
    assert formula(config) == "doctor ~ age"
    assert "visits: tells doctor by itself" in said and "some: tells doctor by itself" in said


def test_covariates_vary_in_the_rows_that_lack_no_value():
    engine = ["rear" if row < 20 else "front" for row in range(ROWS)]
    loss = [None if row < 20 else row % 7 for row in range(ROWS)]
    columns = {"engine": engine, "loss": loss, "doors": [2 if row < 3 else 4 for row in range(ROWS)]}
    config, _, said = surveyed(written("x.csv", **columns, price=RANDOM.normal(9, 1, ROWS)))
    assert formula(config) == "price ~ engine"
    assert "loss: with it, too few rows would be left that lack no value" in said
    assert "doors: has the same value in all but 3 rows" in said


def test_there_are_ten_rows_of_the_rarer_outcome_for_each_coefficient():
    late = [1] * 40 + [0] * (ROWS - 40)
    letters = {name: chosen(ROWS, "a", "b", "c") for name in ("first", "second", "third")}
    config, _, said = surveyed(written("x.csv", **letters, late=late))
    assert formula(config) == "late ~ first + second"
    assert "third: 40 rows of the rarer outcome are too few for 6 coefficients" in said


def test_a_file_of_many_columns_starts_with_eight_covariates():
    numbers = {f"x{number}": RANDOM.normal(0, 1, ROWS) for number in range(10)}
    config, _, said = surveyed(written("x.csv", **numbers, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7"
    assert "x9: a further covariate; 8 are enough to begin with" in said


def test_levels_of_few_rows_are_merged():
    town = ["a small town"] * 3 + ["a village"] * 9 + chosen(ROWS - 12, "Bonn", "Ulm")
    config, _, _ = surveyed(written("x.csv", town=town, size=chosen(ROWS, "s", "m"), y=RANDOM.normal(0, 1, ROWS)))
    assert config.data.rare == {"town": 10} and formula(config) == "y ~ town + size"


def test_the_event_is_what_says_yes_in_other_languages_too(folder):
    x = RANDOM.normal(size=ROWS)
    for name, yes, no in (("de", "Ja", "Nein"), ("fr", "oui", "non"), ("es", "Sí", "No")):
        bought = np.where(np.arange(ROWS) % 3 == 0, no, yes).tolist()
        (response,) = surveyed(written(f"{name}.csv", x=x, bought=bought))[0].models
        assert response == f"bought_{yes.lower()}".replace("í", "")
        assert "two-valued, yes or no" in Path(f"config/{name}.yaml").read_text()


def test_text_of_which_every_value_is_rare_is_no_factor(folder):
    """Merged, its levels would be one, which has no effect to estimate: the config would not run."""
    blocks = [f"block {number % 12}" for number in range(ROWS // 4)]
    size, y = RANDOM.normal(size=ROWS // 4), RANDOM.normal(size=ROWS // 4)
    config, _, said = surveyed(written("blocks.csv", block=blocks, size=size, y=y))
    assert formula(config) == "y ~ size" and not config.data.rare
    assert "Left out: block: text of which no value has more than 9 rows, too few to tell anything" in said


def test_covariates_that_determine_each_other_are_not_taken_together():
    state = np.array(chosen(ROWS, *"abcdef"))
    height = np.array([ord(each) for each in state]) ** 2.0
    columns = {
        "state": state,
        "country": np.where(state < "d", "north", "south"),
        "district": np.char.add(state, chosen(ROWS, "1", "2")),
        "height": height + RANDOM.normal(0, 0.1, ROWS),
        "metres": height,
        "feet": RANDOM.normal(0, 1, ROWS),
    }
    config, _, said = surveyed(written("x.csv", **columns, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ state + feet"
    assert "Left out: country: determined by state" in said
    assert (
        "Left out: district: each of its values has one and the same state, so their effects could not be told" in said
    )
    assert re.search(r"Left out: height: nearly determined by the other terms \(VIF [0-9,]+\)", said)
    assert "Left out: metres: determined by the other terms" in said


def test_a_factor_that_determines_a_number_comes_too_late():
    town = np.array(chosen(ROWS, *"abcdef"))
    latitude = np.array([ord(each) for each in town]) ** 2
    config, _, said = surveyed(written("x.csv", latitude=latitude, town=town, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ latitude"
    assert "Left out: town: with it latitude would be determined by the other terms" in said


def test_inflation_factors_are_those_of_regressions_on_the_others():
    rows = 500
    x = RANDOM.normal(0, 1, rows)
    frame = pl.DataFrame(
        {"x": 1e6 + x, "letter": chosen(rows, *"abc"), "z": x + RANDOM.normal(0, 0.5, rows), "w": np.ones(rows)}
    )
    covariates = patsy.dmatrix("x + C(letter) + z", frame.to_pandas())
    names = covariates.design_info.column_names
    expected = {name: variance_inflation_factor(np.asarray(covariates), names.index(name)) for name in ("x", "z")}
    assert inflation(frame, {"letter"}) == pytest.approx(expected | {"w": 1.0}, rel=1e-8)
    assert inflation(frame.select("x", y=2 * pl.col("x")), set()) == {"x": np.inf, "y": np.inf}


# Kinds of files -----------------------------------------------------------------------------------------------------------


def test_a_parquet_file_has_the_types_that_it_says():
    frame = pl.DataFrame(
        {
            "at": pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2021, 1, 1), "1d", eager=True)[:300],
            "kind": pl.Series(chosen(300, "a", "b", "c"), dtype=pl.Categorical),
            "parts": [[1, 2]] * 300,
            "price": RANDOM.normal(10, 1, 300),
            "sold": chosen(300, True, False),
        }
    )
    frame.write_parquet("x.parquet")
    config, layout, _ = surveyed("x.parquet")
    assert {name: column.type for name, column in layout.columns.items()} == {
        "at": "date",
        "kind": "string",
        "price": "number",
        "sold": "integer",
    }
    assert formula(config) == "price ~ kind + sold + C(month) + C(weekday)"


def test_a_packed_file_in_another_encoding_with_lines_that_cannot_be_read():
    lines = [f"{name},{RANDOM.normal():.3f}\n" for name in chosen(ROWS, "Köln", "Ulm")]
    lines[7] = "cut\n"
    Path("x.csv.gz").write_bytes(gzip.compress("".join(["city,y\n", *lines]).encode("latin-1")))
    config, layout, said = surveyed("x.csv.gz")
    assert layout.encoding == "latin-1" and config.data.bad_rows == "drop"
    assert "lines that cannot be read: 1;" in said and "Köln" in said and formula(config) == "y ~ city"


REFUSED = {
    "empty file": (b"", "x.csv: is empty; a CSV file begins with a line of column names"),
    "no rows": (b"a,b\n", "x.csv: has a header and no rows that can be read"),
    "no header": (b"AA,12.5,BOS\nUA,9.0,JFK\n", "its first line holds `12.5`, a number and no name of a column"),
    "note for Excel": (b"sep=;\na;b\n1;2\n", "its first line, `sep=;`, is a note for Excel"),
    "names of rows": (b"a;b\n" + b"1;2;3\n" * 20, "its rows have one field more than its header names"),
    "no names": (b",\n1,2\n", "its first line names no column; a CSV file begins with a line of column names"),
    "no response": (b"a,b\n" + b"x,1\ny,2\nz,3\n" * 20, "no column could be a response"),
    "no covariate": (b"y,x\n" + b"0,a\n1,a\n" * 20, "no column could explain `y`"),
    "blanks": (b"a b\n1 2\n", "has a single column, `a b`; write commas, semicolons or tabs between columns"),
    "only a year": (b"year,x\n" + b"".join(b"%d,a\n" % (1900 + row // 2) for row in range(99)), "no column could be a"),
    "few flights": (None, "flights only 0 are late, or not late"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_with_nothing_to_fit_is_refused_and_nothing_is_written(folder, case):
    content, expected = REFUSED[case]
    if content is None:
        write_asa(folder, 2006, 200)
        flights = pl.read_csv("2006.csv", infer_schema=False).with_columns(ArrDelay=pl.lit("3"))
        content = flights.write_csv().encode()
    Path("x.csv").write_bytes(content)
    assert expected in message(init, "x.csv", Path("config"), print)
    assert not Path("config").exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("flihgts.csv", "csv: there is no file `flihgts.csv`; did you mean `flights.csv`?"),
        ("*.csv", "csv: 2 files match `*.csv`; give one of them"),
        (".", "csv: `.` is a folder"),
        ("https://a.org/x.csv", "csv: `https://a.org/x.csv` is an address"),
        ("x.npz", "x.npz: holds images"),
    ],
)
def test_what_is_no_single_table_is_refused_in_words(source, expected):
    for name in ("flights.csv", "other.csv"):
        Path(name).write_text("a,b\n1,2\n")
    np.savez("x.npz", images=np.zeros((2, 4, 4), np.uint8), labels=np.array([0, 1]))
    assert expected in message(init, source, Path("config"), print)


@pytest.mark.parametrize("name", ["config/x.yaml", "config/x.layout.yaml"])
def test_a_config_or_layout_that_is_there_is_left_as_it_is(name):
    source = written("x.csv", size=chosen(ROWS, 1, 2, 3), y=RANDOM.normal(0, 1, ROWS))
    Path("config").mkdir()
    Path(name).write_text("mine")
    with pytest.raises(UserError, match=f"^{name} would be overwritten"):
        init(source, Path("config"), print)
    assert [(path.name, path.read_text()) for path in Path("config").iterdir()] == [(Path(name).name, "mine")]


def test_dates_of_two_formats_are_told_with_what_reads_all(folder):
    """2 % of the dates come from another program."""
    days = pd.date_range("2019-01-01", periods=300)
    texts = [f"{day:%m/%d/%Y}" if number % 50 == 20 else f"{day:%Y-%m-%d}" for number, day in enumerate(days)]
    frame = pd.DataFrame({"when": texts, "g": ["a", "b", "c"] * 100, "price": np.arange(300) % 17})
    frame.to_csv("prices.csv", index=False)
    said: list[str] = []
    init("prices.csv", Path("config"), said.append)
    (remark,) = (line for line in said if "two formats" in line)
    assert remark.startswith(
        "  when: dates in two formats, 294 as %Y-%m-%d and 6 as %m/%d/%Y, so read as text; to read all, "
    )
    assert remark.strip().removeprefix("when: ") in Path("config/prices.layout.yaml").read_text()
    value = sql.expression(remark.partition("derive ")[2], "derive", {"when": pl.String()})
    assert frame.pipe(pl.from_pandas).select(value.alias("day"))["day"].to_list() == [day.date() for day in days]
