"""SQL expressions with the values that DuckDB gives them, on rows with missing values, NaN, infinities, -0 and empty texts."""

import datetime
import math
from typing import Any

import duckdb
import numpy as np
import polars as pl

INF, NAN = math.inf, math.nan
COLUMNS = {"x": "number", "y": "number", "a": "integer", "b": "integer", "s": "string", "t": "string", "d": "date"}
VALUES = {
    "x": [None, NAN, 0.0, -0.0, 1.0, -1.0, 2.25, -2.25, 0.25, 1e306, -1e306, INF, -INF],
    "y": [None, 0.0, 1.0, -2.0, 0.5, INF],
    "a": [None, 0, 1, -1, 7, -7],
    "b": [None, 0, 2, -2, 1],
    "s": [None, "", "a", "Ab", "éx", "a.b", " x ", "abcabc", "2008"],
    "t": [None, "", "a", "x", "."],
    "d": [None, datetime.date(2008, 2, 29), datetime.date(1969, 12, 28), datetime.date(2006, 1, 1)],
}
"""All values of x with all of y, of a with all of b, and of s with all of t, in ROWS rows."""

ROWS = 390
TYPES = {"number": pl.Float64, "integer": pl.Int64, "string": pl.String, "date": pl.Date}
PARTNERS = {"y": "x", "b": "a", "t": "s"}


def frame() -> pl.DataFrame:
    """The rows."""
    columns = {}
    for name, values in VALUES.items():
        rows = np.arange(ROWS) // (len(VALUES[PARTNERS[name]]) if name in PARTNERS else 1)
        columns[name] = pl.Series([values[row % len(values)] for row in rows], dtype=TYPES[COLUMNS[name]], strict=False)
    return pl.DataFrame(columns)


class DuckDB:
    """DuckDB with the rows, in which what is no finite number is missing."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        rows = frame().with_columns(
            pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in ("x", "y")
        )
        self._connection.register("grid", rows.to_arrow())
        self._connection.sql("SET error_on_division_by_zero = false; CREATE TABLE rows AS SELECT * FROM grid")
        # An error of SQRT(-1) or LN(0) is a missing value, too.
        self._connection.sql("CREATE MACRO fin(v) AS CASE WHEN isfinite(v) THEN v END")
        self._connection.sql("CREATE MACRO truth(v) AS CAST(v AS BOOLEAN)")

    def values(self, sql: str) -> list:
        return [value for (value,) in self._connection.execute(f"SELECT ({sql}) FROM rows").fetchall()]


def assert_alike(values: list, of_duckdb: list) -> None:
    """The same values, numbers up to rounding, and missing values at the same places."""
    assert [value is None for value in values] == [value is None for value in of_duckdb]
    known = [pair for pair in zip(values, of_duckdb, strict=True) if pair[0] is not None]
    for value, other in known:
        if isinstance(other, str | datetime.date):
            assert value == other
        else:
            np.testing.assert_allclose(float(value), float(other), rtol=1e-12)


SAME = [
    *("x > y", "x <> y", "x IN (NULL)", "x IN (y, 1)", "x NOT IN (y, NULL)", "x IN (1, NULL)"),
    *("x BETWEEN y AND 1", "x NOT BETWEEN y AND 1", "x IS NULL", "(x > 0) IS NULL", "x IS DISTINCT FROM y"),
    *("(x IS DISTINCT FROM y) AND x > 0", "(x > 0) = (y > 0)", "NOT (x > 0 AND y > 0)", "x > 0 OR y > 0"),
    *("COALESCE(x, y)", "GREATEST(x, y)", "LEAST(x, y, 0)", "GREATEST(x, NULL)", "NULLIF(x, 0)", "-x", "ABS(x)"),
    *("CASE WHEN x > 0 THEN 1 END", "CASE x WHEN NULL THEN 1 ELSE 0 END", "CASE WHEN NOT x > y THEN 'a' ELSE 'b' END"),
    *("SIGN(x)", "ROUND(x)", "TRUNC(x)", "CEIL(x)", "FLOOR(x)", "CBRT(x)", "SIN(x)", "COS(x)", "TAN(x)", "ATAN(x)"),
    *("ATAN2(x, y)", "RADIANS(x)", "a % b", "MOD(a, b)", "a + b", "a - b", "a * b", "-a", "ABS(a)", "SIGN(a)"),
    *("ROUND(a)", "CEIL(a)", "FLOOR(a)", "TRUNC(a)", "CBRT(a)", "EXP(a)", "BIT_COUNT(a)", "a IN (1, 7)"),
    *("a NOT IN (1, NULL)", "a IN (b, 1)", "a BETWEEN b AND 5", "a NOT BETWEEN b AND 5", "a = b", "a <> b"),
    *("a IS DISTINCT FROM b", "NULLIF(a, b)", "COALESCE(a, b)", "GREATEST(a, b)", "LEAST(a, b, 0)", "IF(a > b, a, b)"),
    *("CASE a WHEN b THEN 1 ELSE 0 END", "CAST(a AS DOUBLE)", "CAST(a AS VARCHAR)", "CAST(a AS BOOLEAN)", "a || b"),
    *("CAST(a > b AS BIGINT)", "CAST(a > b AS VARCHAR)", "CONCAT(a, b)", "STRPOS(s, t)", "STRPOS(s, 'x') = 0"),
    *("POSITION('x' IN s)", "POSITION('.' IN s) > 0", "s || t", "CONCAT(s, t)", "CONCAT(s, NULL)", "LENGTH(s || t)"),
    *("CONCAT_WS('-', s, t)", "s = t", "s <> t", "s < t", "s >= t", "s IN ('a', 'x')", "s NOT IN ('a', NULL)"),
    *("s IN (t, 'a')", "s BETWEEN 'a' AND 'b'", "s IS NULL", "s IS NOT DISTINCT FROM t", "s LIKE 'a%'", "s LIKE '%b'"),
    *("s LIKE '%.%'", "s LIKE '_b'", "s NOT LIKE 'a%'", "s LIKE ''", "s LIKE 'é_'", "s LIKE 'a.b'", "s ILIKE 'AB%'"),
    *("s NOT ILIKE 'A%'", "REGEXP_REPLACE(s, '[a-b]', 'z')", "REGEXP_REPLACE(s, '[a-b]', 'z', 'g')", "s ^@ t"),
    *("REPLACE(s, 'a', 'z')", "REPLACE(s, '.', 'z')", "STARTS_WITH(s, t)", "ENDS_WITH(s, t)", "UPPER(s)", "LOWER(s)"),
    *("LENGTH(s)", "BIT_LENGTH(s)", "LEFT(s, 2)", "LEFT(s, -1)", "LEFT(s, a)", "RIGHT(s, 2)", "RIGHT(s, -1)"),
    *("RIGHT(s, 9)", "RIGHT(s, a)", "SUBSTR(s, 2)", "SUBSTR(s, 1, 1)", "SUBSTR(s, 0)", "SUBSTR(s, 9)"),
    *("SUBSTRING(s, 2, 3)", "SUBSTRING(s FROM 2 FOR 1)", "LPAD(s, 4, '.')", "RPAD(s, 2, '.')", "LTRIM(s)", "RTRIM(s)"),
    *("TRIM(s)", "LTRIM(s, 'a')", "RTRIM(s, 'bc')", "REVERSE(s)", "SPLIT_PART(s, '.', 1)", "SPLIT_PART(s, 'b', 3)"),
    *("SPLIT_PART(s, 'b', -1)", "COALESCE(s, t)", "IFNULL(s, 'z')", "NULLIF(s, '')", "NULLIF(s, t)", "GREATEST(s, t)"),
    *("LEAST(s, t)", "CASE WHEN s = 'a' THEN t ELSE s END", "IF(s = 'a', t, s)", "TRY_CAST(s AS DOUBLE)"),
    *("TRY_CAST(s AS BIGINT)", "EXTRACT(YEAR FROM d)", "EXTRACT(MONTH FROM d)", "EXTRACT(DAY FROM d)", "QUARTER(d)"),
    *("EXTRACT(DOW FROM d)", "EXTRACT(ISODOW FROM d)", "EXTRACT(DOY FROM d)", "EXTRACT(WEEK FROM d)"),
    *("EXTRACT(ISOYEAR FROM d)", "EXTRACT(CENTURY FROM d)", "EXTRACT(DECADE FROM d)", "EXTRACT(MILLENNIUM FROM d)"),
    *("STRFTIME(d, '%Y-%m')", "CAST(d AS VARCHAR)", "d + INTERVAL '1 day' > d", "d IS NULL"),
    *("x IS NOT NULL AND s <> t", "a > 0 AND (b > 0 OR s IS NULL)", "(x > 0) IS NULL OR NOT a = b"),
]
"""Expressions that DuckDB reads as they are. What it has not: ERF, INITCAP, NORMALIZE. What differs: ROUND, where a half goes to
the even number, and SUBSTR from a place below 1, which Postgres has too."""

OTHERWISE = {
    "x / y": "fin(x / y)",
    "x / y > 0.5": "fin(x / y) > 0.5",
    "x / y >= 0.5 OR x > 1": "fin(x / y) >= 0.5 OR x > 1",
    "NOT x / y > 0.5": "NOT fin(x / y) > 0.5",
    "x / y = y / x": "fin(x / y) = fin(y / x)",
    "x / y <> 1": "fin(x / y) <> 1",
    "x / y IN (1, 2)": "fin(x / y) IN (1, 2)",
    "x / y NOT IN (1, 2)": "fin(x / y) NOT IN (1, 2)",
    "x / y BETWEEN 0 AND 1": "fin(x / y) BETWEEN 0 AND 1",
    "x / y NOT BETWEEN 0 AND 1": "fin(x / y) NOT BETWEEN 0 AND 1",
    "1 BETWEEN x / y AND y / x": "1 BETWEEN fin(x / y) AND fin(y / x)",
    "x / y IS NULL": "fin(x / y) IS NULL",
    "x / y IS DISTINCT FROM y": "fin(x / y) IS DISTINCT FROM y",
    "x / y <=> y": "fin(x / y) IS NOT DISTINCT FROM y",
    "COALESCE(x / y, -1)": "COALESCE(fin(x / y), -1)",
    "NULLIF(x / y, 1)": "NULLIF(fin(x / y), 1)",
    "GREATEST(x / y, 0)": "GREATEST(fin(x / y), 0)",
    "GREATEST(x / y, y / x)": "GREATEST(fin(x / y), fin(y / x))",
    "LEAST(x, y, x / y)": "LEAST(x, y, fin(x / y))",
    "CASE WHEN x / y > 1 THEN 'many' WHEN x / y <= 1 THEN 'few' END": (
        "CASE WHEN fin(x / y) > 1 THEN 'many' WHEN fin(x / y) <= 1 THEN 'few' END"
    ),
    "CASE WHEN x / y > 1 THEN x / y ELSE y END": "CASE WHEN fin(x / y) > 1 THEN fin(x / y) ELSE y END",
    "CASE x / y WHEN 1 THEN 'one' ELSE 'other' END": "CASE fin(x / y) WHEN 1 THEN 'one' ELSE 'other' END",
    "IF(x / y > 1, 1, 0)": "IF(fin(x / y) > 1, 1, 0)",
    "x / (1 / y)": "fin(x / fin(1 / y))",
    "x / y * 0": "fin(fin(x / y) * 0)",
    "x / y - x / y": "fin(fin(x / y) - fin(x / y))",
    "-(x / y)": "-fin(x / y)",
    "x * 1000 > 5": "fin(x * 1000) > 5",
    "1 / (x * 1000)": "fin(1 / fin(x * 1000))",
    "1 / (1 / (1 / (x / y)))": "fin(1 / fin(1 / fin(1 / fin(x / y))))",
    "EXP(-(x * 1000))": "fin(EXP(-fin(x * 1000)))",
    "1 / EXP(x * 300)": "fin(1 / fin(EXP(fin(x * 300))))",
    "SQRT(x) > 1": "fin(TRY(SQRT(x))) > 1",
    "SQRT(x) IS NULL": "fin(TRY(SQRT(x))) IS NULL",
    "LN(x) > 0": "fin(TRY(LN(x))) > 0",
    "LN(x) < 0": "fin(TRY(LN(x))) < 0",
    "LOG10(x / y) > 0 AND x < 1": "fin(TRY(LOG10(fin(x / y)))) > 0 AND x < 1",
    "LOG2(x)": "fin(TRY(LOG2(x)))",
    "LN(x) / LN(y)": "fin(fin(TRY(LN(x))) / fin(TRY(LN(y))))",
    "LOG1P(x)": "fin(TRY(LN(1 + x)))",
    "POW(x, y)": "fin(TRY(POW(x, y)))",
    "POWER(x / y, 0)": "fin(TRY(POW(fin(x / y), 0)))",
    "POWER(1, x / y)": "fin(TRY(POW(1, fin(x / y))))",
    "ABS(x / y)": "ABS(fin(x / y))",
    "SIGN(x / y)": "SIGN(fin(x / y))",
    "CEIL(x / y)": "CEIL(fin(x / y))",
    "FLOOR(x / y)": "FLOOR(fin(x / y))",
    "COT(x)": "fin(TRY(COT(x)))",
    "ASIN(x)": "fin(TRY(ASIN(x)))",
    "ACOSD(x)": "DEGREES(fin(TRY(ACOS(x))))",
    "ATAN(x / y)": "ATAN(fin(x / y))",
    "ATAN2(x / y, y)": "ATAN2(fin(x / y), y)",
    "COTD(x)": "fin(TRY(1 / TAN(RADIANS(x))))",
    "DEGREES(x)": "fin(DEGREES(x))",
    "x % y": "fin(x % y)",
    "x / 1e300 // y": "CAST(trunc(fin(x / 1e300 / y)) AS BIGINT)",
    "CAST(x / 1e300 / y AS BIGINT)": "CAST(trunc(fin(x / 1e300 / y)) AS BIGINT)",
    "CAST(x / y AS BOOLEAN)": "CAST(fin(x / y) AS BOOLEAN)",
    "CAST(a / b AS VARCHAR)": "CAST(fin(a / b) AS VARCHAR)",
    "a / b || 'a'": "fin(a / b) || 'a'",
    "CAST(x AS REAL) > 1": "TRY_CAST(x AS REAL) > 1",
    "a / b > 0.5": "fin(a / b) > 0.5",
    "a // b": "CASE WHEN b <> 0 THEN CAST(trunc(a / b) AS BIGINT) END",
    "POW(a, b)": "fin(POW(a, b))",
    "LN(a)": "fin(TRY(LN(a)))",
    "1 / 0 IS NULL": "TRUE",
    "0 / 0 > 1": "NULL",
    "GREATEST(1 / 0, 1)": "1",
    "a AND b": "truth(a) AND truth(b)",
    "x > 0 AND a": "x > 0 AND truth(a)",
    "NOT (a OR b)": "NOT (truth(a) OR truth(b))",
    "(x > 0) + (y > 0)": "(x > 0)::INT + (y > 0)::INT",
    "OCTET_LENGTH(s)": "strlen(s)",
    "s ~ 'b$'": "regexp_matches(s, 'b$')",
    "s !~* 'B$'": "NOT regexp_matches(s, 'B$', 'i')",
    "REGEXP_LIKE(s, 'b$')": "regexp_matches(s, 'b$')",
    "TRIM(BOTH 'a' FROM s)": "TRIM(s, 'a')",
    "SUBSTR(s, a)": "CASE WHEN a IS NOT NULL THEN SUBSTR(s, greatest(a, 1)) END",
    "SUBSTR(s, b, 2)": ("CASE WHEN b IS NOT NULL THEN SUBSTR(s, greatest(b, 1), greatest(2 + least(b - 1, 0), 0)) END"),
    "SPLIT_PART(s, NULLIF(t, ''), 1)": "SPLIT_PART(s, NULLIF(t, ''), 1)",
    "d > DATE('2006-06-01')": "d > DATE '2006-06-01'",
    "d = DATE('2008-02-29', '%Y-%m-%d')": "d = DATE '2008-02-29'",
    "NULLIF(d, DATE('2008-02-29'))": "NULLIF(d, DATE '2008-02-29')",
    "CAST(d - DATE('2006-01-01') AS BIGINT)": "(d - DATE '2006-01-01') * 86400000000",
}
"""Expressions with what DuckDB takes for them: `fin` makes missing what is no finite number, and TRY what is an error."""

PAIRS = {**{sql: sql for sql in SAME}, **OTHERWISE}


class Pairs:
    """Expressions at random, nested as deep as asked for, each with what DuckDB takes for it."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def _one_of(self, choices: list) -> Any:
        return choices[self._random.integers(len(choices))]

    def _either(self, forms: list[str | tuple[str, str]], *parts: tuple[str, str]) -> tuple[str, str]:
        """One of some forms, with these parts in it; a pair has a form of its own for DuckDB."""
        form = self._one_of(forms)
        mine, theirs = (form, form) if isinstance(form, str) else form
        return mine.format(*(part for part, _ in parts)), theirs.format(*(part for _, part in parts))

    def number(self, depth: int) -> tuple[str, str]:
        if depth == 0:
            return self._either(["x", "y", "a", "b", "0", "1", "2.5", "-3", "NULLIF(1, 1)"])
        if self._random.random() < 0.15:
            parts = self.truth(depth - 1), self.number(depth - 1), self.number(depth - 1), self.text(depth - 1)
            cases = ["CASE WHEN {0} THEN {1} ELSE {2} END", "IF({0}, {1}, {2})", "LENGTH({3})", "STRPOS({3}, 'a')"]
            return self._either(cases, *parts)
        forms = [
            *[("({0} / {1})", "fin(CAST({0} AS DOUBLE) / {1})")] * 3,
            *((f"({{0}} {sign} {{1}})", f"fin(CAST({{0}} AS DOUBLE) {sign} {{1}})") for sign in "+-*"),
            ("SQRT({0})", "fin(CASE WHEN {0} >= 0 THEN SQRT({0}) END)"),
            ("LN({0})", "fin(CASE WHEN {0} > 0 THEN LN({0}) END)"),
            *("ABS({0})", "FLOOR({0})", "GREATEST({0}, {1})", "LEAST({0}, {1})", "COALESCE({0}, {1})"),
            "NULLIF({0}, {1})",
        ]
        return self._either(forms, self.number(depth - 1), self.number(depth - 1))

    def truth(self, depth: int) -> tuple[str, str]:
        below = max(depth - 1, 0)
        if depth and self._random.random() < 0.4:
            forms = ["(({0}) AND ({1}))", "(({0}) OR ({1}))", "NOT ({0})", "({0}) IS NULL"]
            return self._either(forms, self.truth(below), self.truth(below))
        if self._random.random() < 0.2:
            forms = ["{0} = {1}", "{0} <> {1}", "{0} IS NULL", "{0} IN ('a', 'Ab')", "{0} LIKE 'a%'"]
            return self._either(forms, self.text(below), self.text(0))
        forms = [
            *("{0} > {1}", "{0} <= {1}", "{0} = {1}", "{0} <> {1}", "{0} IS NULL", "{0} IS NOT NULL", "{0} IN (1, 2)"),
            *("{0} NOT IN (0, NULL)", "{0} BETWEEN {1} AND 2", "{0} NOT BETWEEN 0 AND {1}"),
            "({0} IS DISTINCT FROM {1})",
        ]
        return self._either(forms, self.number(depth), self.number(below))

    def text(self, depth: int) -> tuple[str, str]:
        if depth == 0:
            return self._either(["s", "t", "'a'", "''"])
        forms = ["({1} || {2})", "CASE WHEN {0} THEN {1} ELSE {2} END", "COALESCE({1}, {2})", "UPPER({1})"]
        return self._either([*forms, "NULLIF({1}, {2})"], self.truth(depth - 1), self.text(depth - 1), self.text(0))
