"""The columns of a file in an exported model: TensorFlow computes what polars computes of them."""

import re

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import sql_cases
from tfglm.config import Layout
from tfglm.data import sql
from tfglm.errors import UserError
from tfglm.raw_columns import RawColumns, agreed_columns

ROWS = 60
COLUMNS = {"a": "integer", "b": "integer", "x": "number", "s": "string", "d": "date", "clock": "clock"}
TYPES = {"a": pl.Int64(), "b": pl.Int64(), "x": pl.Float64(), "s": pl.String(), "d": pl.Date(), "clock": pl.Int64()}
EXPRESSIONS = [
    *("(clock // 100) % 24", "a + b * 2 - 3", "a // b", "a % b", "-a % 7", "a / b", "x / 3.5 + a", "x // 2", "x % 2"),
    *("a > 3 AND x < 0.5", "a > 3 OR x < 0.5", "NOT (a = 2)", "a <> b", "a BETWEEN -2 AND 5", "a IN (1, 2, 3)"),
    *("s IN ('AA', 'B6')", "s NOT IN ('AA')", "s = 'AA'", "s LIKE 'A%'", "x IS NULL OR a > 0", "x IS NOT NULL"),
    *("CASE WHEN a > 3 THEN 'many' WHEN a > 0 THEN 'few' ELSE s END", "CASE WHEN x > 0 THEN 1 ELSE 0 END"),
    *("IF(a > b, a, x)", "COALESCE(x, a, 0)", "NULLIF(a, 2)", "GREATEST(a, b)", "LEAST(x, 0.5)", "ABS(a)", "ABS(x)"),
    *("EXP(x)", "LN(ABS(a) + 1)", "LOG10(ABS(x) + 1)", "SQRT(ABS(x))", "POWER(x, 2)", "CEIL(x)", "FLOOR(x)"),
    *("CAST(a AS DOUBLE)", "CAST(x AS BIGINT)", "CAST(a AS VARCHAR)", "CAST(a > 2 AS BIGINT)", "s || '-' || a"),
    *("LOWER(s)", "UPPER(s)", "LENGTH(s)", "EXTRACT(YEAR FROM d)", "EXTRACT(MONTH FROM d)", "EXTRACT(DAY FROM d)"),
    *("EXTRACT(ISODOW FROM d)", "EXTRACT(DOY FROM d)", "EXTRACT(QUARTER FROM d)"),
    *("EXTRACT(YEAR FROM d) * 100 + EXTRACT(MONTH FROM d)", "d > DATE('2008-02-29', '%Y-%m-%d')"),
    *("DATE(EXTRACT(YEAR FROM d) || '-' || EXTRACT(MONTH FROM d) || '-1', '%Y-%m-%d')", "d"),
]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """Values at random, some missing; dates around leap days and before 1970."""
    random = np.random.default_rng(7)
    days = random.integers(-40_000, 60_000, ROWS)
    days[:4] = [11_016, 11_017, -25_510, 13_938]
    columns = {
        "a": random.integers(-5, 9, ROWS),
        "b": random.integers(-3, 4, ROWS),
        "x": np.round(random.normal(0, 2, ROWS), 3),
        "s": random.choice(["AA", "B6", "DL", "éß"], ROWS),
        "d": pl.Series(days).cast(pl.Int32).cast(pl.Date),
        "clock": random.integers(0, 24, ROWS) * 100 + random.integers(0, 60, ROWS),
    }
    made = pl.DataFrame(columns, schema=TYPES)
    holes = {name: pl.Series(random.random(ROWS) < 0.15) for name in made.columns}
    return made.with_columns(pl.when(~hole).then(pl.col(name)).alias(name) for name, hole in holes.items())


def raw_of(frame: pl.DataFrame, kinds: dict[str, str]) -> dict[str, tf.Tensor]:
    """The columns as an exported model takes them."""
    columns = {}
    for name, kind in kinds.items():
        if kind == "text":
            columns[name] = tf.constant(frame[name].cast(pl.String).fill_null("").to_list())
        else:
            columns[name] = tf.constant(frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return columns


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_tensorflow_computes_what_polars_does(frame, expression):
    value, dtype = sql.column_of(sql.expression(expression, "derive.y", TYPES), "derive.y", TYPES)
    expected = frame.select(value.alias("y"))["y"]
    kind = "text" if dtype in (pl.String, pl.Date) else "number"
    raw = RawColumns(Layout.model_validate({"columns": COLUMNS}), {"y": expression}, {"y": kind}, "models.m.export")
    assert set(raw.kinds) == set(value.meta.root_names())
    # In a graph, as a SavedModel has it.
    actual = tf.function(raw.columns)(raw_of(frame, raw.kinds))["y"].numpy()
    if kind == "text":
        assert [text.decode() for text in actual.tolist()] == expected.cast(pl.String).fill_null("").to_list()
    else:
        np.testing.assert_allclose(actual, expected.cast(pl.Float64).fill_null(float("nan")), rtol=1e-14, atol=0)


@pytest.fixture(scope="module")
def duckdb() -> sql_cases.DuckDB:
    return sql_cases.DuckDB()


@pytest.mark.slow
def test_values_are_those_of_duckdb_and_what_is_no_finite_number_is_missing(duckdb):
    of_rows, pairs = sql_cases.frame(), sql_cases.Pairs(4)
    cases = {sql: other for sql, other in sql_cases.PAIRS.items() if not re.search(r"\b[std]\b", sql)} | dict(
        getattr(pairs, what)(3) for what in ("number", "truth") for _ in range(20)
    )
    # A text that is empty is missing in a model that was exported.
    rows = ((of_rows["s"] != "") & (of_rows["t"] != "")).fill_null(True)
    layout, compared = Layout.model_validate({"columns": sql_cases.COLUMNS}), 0
    for expression, of_duckdb in cases.items():
        expected = [value for value, kept in zip(duckdb.values(of_duckdb), rows, strict=True) if kept]
        if not any(isinstance(value, bool | int | float) for value in expected):
            continue
        try:
            raw = RawColumns(layout, {"made": expression}, {"made": "number", "a": "number"}, "models.m.export")
        except UserError:  # what cannot be computed
            continue
        actual = raw.columns(raw_of(of_rows.filter(rows), raw.kinds))["made"].numpy().tolist()
        sql_cases.assert_alike([None if np.isnan(number) else number for number in actual], expected)
        compared += 1
    assert compared > 100


def test_texts_for_missing_values_and_formats_are_those_of_the_layout():
    columns = {
        "d": {"type": "date", "format": ["%m/%d/%Y", "%Y-%m-%d"]},
        "left": {"type": "clock", "format": "%Y-%m-%d %H:%M:%S"},
        "half": {"type": "clock", "format": "%I:%M %p"},
        "s": "string",
    }
    layout = Layout.model_validate({"columns": columns, "missing": ["NA", "-"]})
    needed = {"d": "text", "left": "number", "half": "number", "s": "text", "month": "number"}
    raw = RawColumns(layout, {"month": "EXTRACT(MONTH FROM d)"}, needed, "models.m.export")
    given = {
        "d": ["2/29/2008", "2008-12-01", "2007-02-29", "NA", "13/1/2008"],
        "left": ["2008-01-01 07:41:00", "2008-01-01 23:05:59", "-", "", "2008-01-01 24:00:00"],
        "half": ["12:05 AM", "12:05 pm", "7:41 AM", "11:59 PM", "NA"],
        "s": ["NA", "-", "", "N", "JFK"],
    }
    made = {name: column.numpy().tolist() for name, column in raw.columns(tf.nest.map_structure(tf.constant, {
        name: np.array(texts, object) for name, texts in given.items()
    })).items()}  # fmt: skip
    nan = float("nan")
    assert made["d"] == [b"2008-02-29", b"2008-12-01", b"", b"", b""]
    np.testing.assert_array_equal(made["month"], [2, 12, nan, nan, nan])
    np.testing.assert_array_equal(made["left"], [741, 2305, nan, nan, nan])
    np.testing.assert_array_equal(made["half"], [5, 1205, 741, 2359, nan])
    assert made["s"] == [b"", b"", b"", b"N", b"JFK"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "REPLACE(s, 'A', 'B') = 'x'",
            "`y` is `REPLACE.*no SavedModel can compute `Replace` as tfglm does; remove `export`",
        ),
        ("s > 'A'", "`y` is `s > 'A'`, and no SavedModel can compute the order of texts as"),
        ("file = 'a'", "`y` needs `file`, which is no column of a file"),
        ("random < 0.5", "`y` needs `random`"),
        ("EXTRACT(WEEK FROM d)", ".*no SavedModel can compute `Week` of a date"),
        ("DATE(s, '%d %B %Y')", ".*no SavedModel can compute `%B` in the format `%d %B %Y`"),
        ("CAST(x AS VARCHAR)", ".*no SavedModel can compute a number as a text"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(expression, message):
    layout = Layout.model_validate({"columns": COLUMNS})
    with pytest.raises(UserError, match=rf"(?s)^models.m.export: {message}"):
        RawColumns(layout, {"y": expression}, {"y": "number"}, "models.m.export")


def test_files_of_several_layouts_have_to_agree():
    layouts = {
        "old": Layout.model_validate({"columns": {"s": "string", "hour": {"type": "clock", "source": "Hour"}}}),
        "new": Layout.model_validate({"columns": {"s": "string", "at": "clock"}, "derive": {"hour": "at // 100"}}),
    }
    assert agreed_columns(layouts, {}, {"s": "text"}, "models.m.export").kinds == {"s": "text"}
    with pytest.raises(
        UserError, match="files with the layouts `old` and `new` give the columns s, hour in different ways"
    ):
        agreed_columns(layouts, {}, {"s": "text", "hour": "number"}, "models.m.export")
    raw = agreed_columns({"old": layouts["old"]}, {"late": "hour > 1200"}, {"late": "number"}, "models.m.export")
    assert raw.described == [{"name": "hour", "type": "number", "missing": "NaN", "header": "Hour"}]
    assert raw.computed == {"late": "hour > 1200"}
