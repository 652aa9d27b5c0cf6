"""Expressions of the config: a function of the row and nothing else, with numbers that are exact."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import merge_dictionary
import sql_cases
from configs import message
from pools import design_of, ingest_frame
from tfglm import digests
from tfglm.config import Layout, LevelsConfig, SelectionConfig
from tfglm.data.dictionary import merge
from tfglm.data.distinct import Distinct
from tfglm.data.selection import selection
from tfglm.data.sql import column_of, expression
from tfglm.report import row_account

FRAME = pl.DataFrame(
    {
        "distance": [1, 100, 2475, None],
        "delay": [15, -7, 3, 60],
        "share": [0.1, 0.25, None, 0.5],
        "carrier": ["UA", "Len", None, "AA"],
        "date": ["2006-12-31", "2006-01-02", None, "2008-02-29"],
        "random": [0.1, 0.2, 0.3, 0.4],
        "now": [1, 2, 3, 4],
    }
).with_columns(pl.col("date").str.to_date())
KNOWN = dict(FRAME.schema)


def evaluated(sql: str, frame: pl.DataFrame = FRAME) -> list:
    values, _ = column_of(expression(sql, "data.derive.x", KNOWN), "data.derive.x", KNOWN)
    return frame.with_columns(values.alias("x"))["x"].to_list()


EXACT = {
    "distance * 1.609": [1.609, 160.9, 2475 * 1.609, None],
    "delay / 60.0": [0.25, -7 / 60, 0.05, 1.0],
    "distance / 4": [0.25, 25.0, 618.75, None],
    "1.0": [1.0] * 4,
    "CASE WHEN delay >= 15 THEN 1.5 ELSE 0 END": [1.5, 0.0, 0.0, 1.5],
    "CASE WHEN delay >= 15 THEN 0.1 ELSE distance END": [0.1, 100.0, 2475.0, 0.1],
    "LEAST(delay, 3.5)": [3.5, -7.0, 3.0, 3.5],
    "CAST(delay AS DECIMAL(10, 2)) / 7": [15 / 7, -1.0, 3 / 7, 60 / 7],
    "(delay >= 15) + (distance > 50)": [1, 1, 1, None],
    "LENGTH(carrier) - 3": [-1, 0, None, -1],
    "EXTRACT(MONTH FROM date) * 100 + EXTRACT(DAY FROM date)": [1231, 102, None, 229],
    "CAST(delay AS TINYINT) * 100": [1500, -700, 300, 6000],
    "delay // 2": [7, -3, 1, 30],
    "POW(delay, 2)": [225.0, 49.0, 9.0, 3600.0],
    "delay + 9007199254740992": [9007199254741007, 9007199254740985, 9007199254740995, 9007199254741052],
    "distance > 1.5": [False, True, True, None],
    "random < 0.2": [True, False, False, False],
    "carrier = 'Len'": [False, True, None, False],
    "carrier <> 'Agg'": [True, True, None, True],
    "carrier = 'NOW()'": [False, False, None, False],
    "now + 1": [2, 3, 4, 5],
}


@pytest.mark.parametrize("sql", EXACT)
def test_numbers_are_exact_and_words_in_texts_mean_nothing(sql):
    assert evaluated(sql) == EXACT[sql]


def test_whole_numbers_that_leave_64_bits_are_an_error():
    for sql in ("delay * 2000000000000000000", "delay + 9223372036854775807", "0 - delay * 1000000000000000000 * 10"):
        with pytest.raises(pl.exceptions.PolarsError, match="conversion from `i128` to `i64` failed"):
            evaluated(sql)


REFUSED = {
    "distance > 1_000": "ends before `_000`, which SQL would take as a new name",
    "delay <= 24 junk": "ends before `junk`",
    "delay AS other": "ends before `other`",
    "delay > AVG(delay)": "is not a value computed from one row",
    "QUANTILE_CONT(delay, 0.5) > 1": "is not a value computed from one row",
    "QUANTILE_DISC(delay, 0.5) > 1": "is not a value computed from one row",
    "APPROX_QUANTILE(delay, 0.5) > 1": "is not a value computed from one row",
    "CORR(delay, distance) > 0": "is not a value computed from one row",
    "COVAR(delay, distance) > 0": "is not a value computed from one row",
    "FIRST(delay)": "is not a value computed from one row",
    "COUNT(*)": "is not a value computed from one row",
    "ROW_NUMBER() OVER (ORDER BY delay)": "is not a value computed from one row",
    "RANK() OVER (ORDER BY delay)": "is not a value computed from one row",
    "LAG(delay) OVER (ORDER BY distance)": "is not a value computed from one row",
    "SUM(delay) OVER (PARTITION BY carrier)": "is not a value computed from one row",
    "UNNEST(delay)": "is not a value computed from one row",
    "GENERATE_SERIES(1, delay)": "is not a value computed from one row",
    "(SELECT 1)": "is not a value computed from one row",
    "COLUMNS('delay')": "is not a value computed from one row",
    "NOW() > date": "depends on the time of the run (NOW)",
    "CURRENT_DATE > date": "depends on the time of the run (CURRENT_DATE)",
    "current_timestamp > date": "depends on the time of the run (CURRENT_TIMESTAMP)",
    "RANDOM() < 0.2": "not an SQL expression",
    "LEAST()": "not an SQL expression",
    "ARRAY[1, 2]": "is not a value computed from one row",
    "delay = ANY(ARRAY[1, 2])": "is not a value computed from one row",
    "date - DATE('2006-01-01')": "gives neither a number nor a text nor a date",
    "date > '2006-01-01'": "write DATE '2006-01-01' for the date",
    "delya > 1": "no column `delya` in `delya > 1`; did you mean `delay`?",
    "(delay > 1) IS TRUE": "has IS TRUE, which would be missing for a missing value",
    "delay > 1 IS NOT /* so */ FALSE": "has IS NOT FALSE, which would be missing",
    "LOG(2, delay)": "has LOG, the natural logarithm in R and numpy, to base 10 in DuckDB",
    "delay > 1 AND log /* b */ (delay) > 1": "write LN(number), LOG10(number)",
    "np.log(delay)": "has LOG",
    "delay = NULL": "write IS NULL or IS NOT NULL",
    "delay == NA": "no column `NA` in `delay == NA`; write IS NULL for a missing value",
    "1 < delay < 3": "write a < x AND x < b",
    "nchar(carrier)": "write LENGTH(carrier) for `nchar`",
    "paste0(carrier, 'x')": "write carrier || 'x' for `paste0`",
    "grepl('A', carrier)": "write REGEXP_LIKE(carrier, 'A') for `grepl`",
    "as.numeric(carrier)": "write TRY_CAST(carrier AS DOUBLE) for `as.numeric`",
    "np.where(delay > 1, 1, 0)": "write IF(delay > 1, 1, 0) for `np.where`",
    "carrier.isin(['UA'])": "write carrier IN (...) for `carrier.isin`",
    "delay - mean(delay)": "`mean` looks at other rows",
    "delay ^ 2 > 4": "write POWER(x, 2) for `^`",
    "delay is na": "write it as in `distance > 10 AND carrier IN ('a', 'b') AND distance IS NOT NULL`",
    "delay > 1 XOR distance > 1": "has XOR, and bits are not joined here",
    "delay & 4 > 0": "has & or | of numbers, and bits are not joined here",
    "delay | 4": "has & or | of numbers, and bits are not joined here",
    "BIT_AND(delay, 4)": "has BIT_AND, and bits are not joined here",
    "carrier IS DISTINCT FROM 'UA' AND delay > 1": "takes what follows AND or OR as part of the comparison",
    "+".join(["delay"] * 200): "is nested too deeply",
    " OR ".join(f"delay = {number}" for number in range(900)): "an expression of 1",
}


@pytest.mark.parametrize("sql", REFUSED, ids=[sql[:40] for sql in REFUSED])
def test_what_is_no_function_of_the_row_is_refused_with_its_place(sql):
    refused = message(evaluated, sql)
    assert refused.startswith("data.derive.x: ") and REFUSED[sql] in refused


OTHERS = {
    "delay > 1 & distance > 50 | is.na(carrier)": "delay > 1 AND distance > 50 OR carrier IS NULL",
    "(delay > 1) & ~(distance > 50)": "delay > 1 AND NOT distance > 50",
    "!is.na(share) && delay != 15": "share IS NOT NULL AND delay <> 15",
    "ifelse(share > 0.2, 'a', ifelse(delay > 9, 'b & c', carrier))": (
        "CASE WHEN share > 0.2 THEN 'a' WHEN share <= 0.2 THEN IF(delay > 9, 'b & c', carrier) END"
    ),
    "pd.notna(carrier) & !(UPPER(carrier) %in% c('UA', 'LEN'))": "COALESCE(UPPER(carrier) NOT IN ('UA', 'LEN'), FALSE)",
    "!carrier %in% c('UA')": "carrier IS NULL OR carrier <> 'UA'",
    "carrier = 'is.na(x) | y'": "carrier = 'is.na(x) | y'",
}


@pytest.mark.parametrize("sql", OTHERS)
def test_spellings_of_r_and_pandas_have_the_values_of_sql(sql):
    assert evaluated(sql) == evaluated(OTHERS[sql])


@pytest.fixture(scope="module")
def duckdb() -> sql_cases.DuckDB:
    return sql_cases.DuckDB()


@pytest.fixture(scope="module")
def operands() -> dict[str, Distinct]:
    oldest = pl.CompatLevel.oldest()
    return {column.name: Distinct.of(column.to_arrow(compat_level=oldest)) for column in sql_cases.frame()}


def selected(operands: dict[str, Distinct], **settings):
    """The derived column `v`, which rows are kept, and which train."""
    settings = SelectionConfig.model_validate({"columns": ["a"], "split": {"train": "TRUE"}} | settings)
    chosen = selection(Layout.model_validate({"columns": sql_cases.COLUMNS}), settings)
    computed, reason, split = chosen.select(operands, sql_cases.ROWS)
    values = computed["v"].decoded().to_list() if "v" in computed else None
    return values, reason == len(chosen.reasons), split == 0


def assert_as_in_duckdb(sql: str, expected: list, operands: dict[str, Distinct]) -> None:
    """In derive, and a condition in where and split, which a missing value does not meet."""
    values, _, _ = selected(operands, derive={"v": sql}, columns=["v"])
    sql_cases.assert_alike(values, expected)
    if {True, False} & {value for value in expected if isinstance(value, bool)}:
        met = [value is True for value in expected]
        _, kept, _ = selected(operands, where={"condition": sql})
        _, _, trains = selected(operands, split={"train": sql, "evaluate": "TRUE"})
        assert kept.tolist() == met and trains.tolist() == met


@pytest.mark.parametrize("sql", sql_cases.PAIRS)
def test_values_are_those_of_duckdb_and_what_is_no_finite_number_is_missing(sql, duckdb, operands):
    assert_as_in_duckdb(sql, duckdb.values(sql_cases.PAIRS[sql]), operands)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["number", "truth", "text"])
def test_nested_expressions_at_random_have_the_values_of_duckdb(what, duckdb, operands):
    pairs = sql_cases.Pairs(3)
    for number in range(40):
        sql, of_duckdb = getattr(pairs, what)(2 + number % 2)
        assert_as_in_duckdb(sql, duckdb.values(of_duckdb), operands)


@pytest.mark.processes
def test_a_panic_of_polars_leaves_the_terminal_clean():
    code = (
        "from tfglm.data.sql import expression\nfrom tfglm.errors import UserError\n"
        "try: expression('LEAST()', 'data.where.x', {})\nexcept UserError as error: print(error)"
    )
    scripts = Path(__file__).parents[2] / "scripts"
    done = subprocess.run([sys.executable, "-c", code], cwd=scripts, capture_output=True, text=True)
    assert done.stdout.startswith("data.where.x: not an SQL expression: `LEAST()`") and done.stderr == ""


CALLS = [
    *("ABS(delay)", "ACOS(share)", "ASIN(share)", "ATAN(delay)", "ATAN2(delay, distance)", "BIT_LENGTH(carrier)"),
    *(
        "CBRT(delay)",
        "CEIL(share)",
        "COALESCE(distance, 0)",
        "CONCAT(carrier, delay)",
        "CONCAT_WS('-', carrier, delay)",
    ),
    *("COS(delay)", "DAYOFWEEK(date)", "DEGREES(delay)", "ENDS_WITH(carrier, 'A')"),
    *("EXP(share)", "EXTRACT(ISODOW FROM date)", "EXTRACT(WEEK FROM date)", "FLOOR(share)", "GREATEST(delay, 2)"),
    *("IFNULL(carrier, 'x')", "INITCAP(carrier)", "LEFT(carrier, 1)", "LENGTH(carrier)", "LN(delay)", "LOG2(delay)"),
    *("LOG1P(delay)", "LOWER(carrier)", "LPAD(carrier, 4, '.')", "LTRIM(carrier)", "MOD(delay, 4)", "NULLIF(delay, 3)"),
    *("POSITION('A' IN carrier)", "QUARTER(date)", "REGEXP_LIKE(carrier, 'A$')", "REPLACE(carrier, 'A', 'B')"),
    *("REVERSE(carrier)", "RIGHT(carrier, 1)", "ROUND(share, 1)", "SIGN(delay)", "SPLIT_PART(carrier, 'e', 1)"),
    *("SQRT(delay)", "STARTS_WITH(carrier, 'U')", "STRFTIME(date, '%Y')", "SUBSTR(carrier, 2, 1)", "TAN(delay)"),
    *("TRUNC(share)", "UPPER(carrier)", "delay IN (3, 60)", "carrier LIKE 'U%'", "carrier IS NULL", "NOT delay > 3"),
    *("delay BETWEEN 0 AND 20", "delay IS DISTINCT FROM distance", "CASE delay WHEN 3 THEN 'a' ELSE 'b' END", "-share"),
    *("date + INTERVAL '1 day'", "date >= DATE('2006-06-01', '%Y-%m-%d')", "CAST(share AS TEXT)", "carrier || delay"),
]


@pytest.mark.parametrize("sql", CALLS)
def test_every_function_that_is_allowed_gives_a_row_the_same_beside_other_rows(sql):
    alone = [evaluated(sql, FRAME[row])[0] for row in range(FRAME.height)]
    np.testing.assert_equal(evaluated(sql), alone)
    np.testing.assert_equal(evaluated(sql, FRAME.reverse()), alone[::-1])


def test_a_derived_number_is_a_number_in_the_model_and_its_type_is_shown(tmp_path):
    frame = pd.DataFrame({"distance": np.arange(40), "carrier": ["AA", "UA"] * 20})
    derive = {"km": "distance * 1.609", "half": "CASE WHEN distance > 9 THEN 1.5 ELSE 0 END", "late": "distance >= 15"}
    file = ingest_frame(frame, tmp_path, derive=derive, columns=["late", "km", "half", "carrier"])
    kinds = [file.column(name).kind for name in ("late", "km", "half", "carrier")]
    assert kinds == ["integer", "number", "number", "text"]
    assert file.values("km").to_list() == [number * 1.609 for number in range(40)]
    design = design_of("late ~ carrier + km", "binomial", merge([file]), [file])
    assert [(term.categorical, term.numeric) for term in design.terms if term.name == "km"] == [((), ("km",))]
    merge_dictionary.main(
        merge_dictionary.argparse.Namespace(
            manifests=[tmp_path / "table" / "manifest.json"],
            subsets=[],
            settings=LevelsConfig(),
            dictionary=tmp_path / "dictionary.json",
            rows=tmp_path / "rows.json",
        )
    )
    rows = digests.read_json(tmp_path / "rows.json")
    assert rows["columns"] == {"late": "integer", "km": "number", "half": "number", "carrier": "text"}
    assert "whole numbers: late; numbers: km, half; text, a factor in a formula: carrier." in row_account.types(
        rows["columns"]
    )
