"""SQL expressions over the columns of one row: refuse unsafe expressions, and keep numbers exact.

polars translates SQL to its own expressions. This module checks the nodes of these expressions, never the words of the
text. Two things differ from polars:

- A number written with decimals is a float64 (polars uses decimals of a fixed number of digits, so that 7 / 60.0 is
  0.116667).
- Whole numbers are int64, and an overflow is an error (polars has whole numbers of 8 bits, which overflow silently:
  `EXTRACT(MONTH FROM date) * 100`).

Other libraries were tried on the cases of the tests. DuckDB accepts 24 of the 29 expressions that this module refuses, and
refuses 4 of the 60 calls. sqlglot parses 28 of the 29, and does not know the types of polars. Both would need these checks.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache

import polars as pl

from tfglm.errors import UserError, nearest

LONGEST = 10_000
"""Characters of an expression. A condition of that length is a list of values, which IN (...) takes."""

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""The errors of polars. A panic is no Exception."""

# Nodes whose value in a row depends on this row alone. All others are refused.
NODES = {"Column", "Literal", "BinaryExpr", "Cast", "Ternary", "Function"}
FUNCTIONS = {
    *("Abs", "Atan2", "Ceil", "Clip", "Coalesce", "Erf", "Exp", "FillNull", "Floor", "Log", "Log1p", "MaxHorizontal"),
    *("MinHorizontal", "Sign", "Truncate"),
}
FAMILIES = {
    "Bitwise": {"CountOnes"},
    "Boolean": {"IsNotNull", "IsNull", "Not"},
    "ListExpr": {"Get", "Length"},  # of SPLIT_PART; no column holds a list
    "Pow": {"Cbrt", "Generic", "Sqrt"},
    "Sql": {"Binary", "IsIn", "Round", "ToFloat"},
    "StringExpr": {
        *(
            "ConcatHorizontal",
            "Contains",
            "EndsWith",
            "Find",
            "LenBytes",
            "LenChars",
            "Lowercase",
            "Normalize",
            "PadEnd",
        ),
        *("PadStart", "Replace", "Reverse", "Slice", "Split", "StartsWith", "StripChars", "StripCharsEnd"),
        *("StripCharsStart", "Strptime", "Titlecase", "Uppercase"),
    },
    "TemporalExpr": {
        *("BaseUtcOffset", "Century", "Day", "Hour", "IsoYear", "Millennium", "Minute", "Month", "Nanosecond"),
        *("OffsetBy", "OrdinalDay", "Quarter", "Second", "Time", "TimeStamp", "ToString", "TotalSeconds", "Week"),
        *("WeekDay", "Year"),
    },
    "Trigonometry": {"ArcCos", "ArcSin", "ArcTan", "Cos", "Cot", "Degrees", "Radians", "Sin", "Tan"},
}

TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\w+\s*\(?|.""", re.DOTALL)
CLOCKS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "now("}
"""Functions that polars replaces by their value immediately, so that its expression does not show them."""

EXACT = {"Plus": "Plus", "Minus": "Minus", "Multiply": "Multiply", "Mul": "Multiply"}
"""Operations on whole numbers that can leave int64, and what polars calls them in a BinaryExpr."""


def expression(sql: str, where: str, known: Mapping[str, pl.DataType]) -> pl.Expr:
    """A polars expression for `sql`, over columns of these types.

    Raises UserError, naming the config key `where`, for what is no SQL, names a column that is not there, looks at anything
    but the row, or cannot be evaluated with these types.
    """
    return _expression(sql, where, tuple(known.items()))


@lru_cache(1000)  # the same for each of many files, some milliseconds each
def _expression(sql: str, where: str, columns: tuple[tuple[str, pl.DataType], ...]) -> pl.Expr:
    known = dict(columns)
    parsed_sql = parsed(sql, where)
    absent = next((name for name in parsed_sql.meta.root_names() if name not in known), None)
    if absent is not None:
        is_text = f'"{absent}"' in sql and not nearest(absent, known)
        hint = f"; text stands in single quotes: '{absent}'" if is_text else nearest(absent, known)
        raise UserError(f"{where}: no column `{absent}` in `{sql}`{hint}\n  there are: {', '.join(known)}")
    try:
        tree = json.loads(parsed_sql.meta.serialize(format="json"))
        check(tree, f"{where}: `{sql}`")
        check_clock(sql, where)
        frame = pl.DataFrame(schema=known)
        with silenced():
            exact = exact_tree(tree, frame)
            evaluated = parsed_sql if exact == tree else read_tree(exact)
            frame.lazy().select(evaluated.alias("value")).collect()
    except RecursionError as error:
        raise too_deep(sql, where) from error
    except FAILURES as error:
        if "could not deserialize" in str(error):
            raise too_deep(sql, where) from error
        raise UserError(f"{where}: `{sql}` cannot be evaluated: {first_line(error)}") from error
    return evaluated


def parsed(sql: str, where: str) -> pl.Expr:
    """Return polars' expressions for `sql`. Raises UserError if it is no SQL."""
    if len(sql) > LONGEST:
        raise UserError(
            f"{where}: an expression of {len(sql):,} characters; {LONGEST:,} are the most\n"
            "  write lists of values with IN (...), or define parts of it under derive"
        )
    try:
        with silenced():
            return pl.sql_expr(sql)
    except FAILURES as error:
        raise UserError(
            f"{where}: not an SQL expression: `{sql}`: {first_line(error)}\n"
            "  write it as in `distance > 1000 AND carrier IN ('AA', 'UA') AND delay IS NOT NULL`"
        ) from error


def too_deep(sql: str, where: str) -> UserError:
    shown = sql if len(sql) <= 100 else sql[:97] + "..."
    return UserError(
        f"{where}: `{shown}` is nested too deeply (about 50 operations one within the other)\n"
        "  define parts of it as columns under derive, or write lists of values with IN (...)"
    )


def first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextmanager
def silenced() -> Iterator[None]:
    """A panic of polars writes a backtrace on the terminal before it is raised: not here, where it becomes a UserError."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def check(tree: dict | str, subject: str) -> None:
    """Raise UserError if an expression is more than a function of one row."""
    if isinstance(tree, dict) and "Alias" in tree and tree["Alias"][1]:
        raise UserError(
            f"{subject} ends before `{tree['Alias'][1]}`, which SQL would take as a new name for it\n"
            "  write numbers without _, and join conditions by AND or OR"
        )
    for node, content in nodes_of(tree):
        if node == "Function":
            family, name = function_of(content["function"])
            allowed = name in FAMILIES.get(family, FUNCTIONS)
        else:
            name, allowed = node, node in NODES
        if node == "Literal" and "List" in json.dumps(content)[:40]:
            name, allowed = "ARRAY", False
        if not allowed:
            raise UserError(
                f"{subject} is not a value computed from one row ({name}): aggregates, windows, subqueries and "
                "arrays are not allowed; use the columns of the row only"
            )


def nodes_of(tree: dict | str) -> Iterator[tuple[str, dict]]:
    """The kind and the content of each node of an expression."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        kind, content = (node, {}) if isinstance(node, str) else next(iter(node.items()))
        yield kind, content
        waiting += [child for _, child in children_of(kind, content)]


def children_of(kind: str, content: dict) -> list[tuple[str | int, dict]]:
    """The operands of a node that is allowed."""
    if kind == "Function":
        return list(enumerate(content["input"]))
    if kind in ("BinaryExpr", "Cast", "Ternary"):
        return [(key, child) for key, child in content.items() if key not in ("op", "dtype", "options")]
    return []


def function_of(function: str | dict) -> tuple[str, str]:
    """The family and the name of a function as polars has it: `Floor`, `{"StringExpr": "Lowercase"}`, ..."""
    if isinstance(function, str):
        return "", function
    family, name = next(iter(function.items()))
    if family not in FAMILIES:
        return "", family
    return family, name if isinstance(name, str) else next(iter(name))


def check_clock(sql: str, where: str) -> None:
    """Raise UserError for a function that returns the current time."""
    for token in TOKENS.findall(sql):
        word = "".join(token.split()).lower()
        if word in CLOCKS or word.removesuffix("(") in CLOCKS:
            raise UserError(
                f"{where}: `{sql}` depends on the time of the run ({word.removesuffix('(').upper()}), so no two runs "
                "would agree\n"
                "  write the date itself, as in DATE('2008-06-01', '%Y-%m-%d')"
            )


def exact_tree(tree: dict, frame: pl.DataFrame) -> dict:
    """The expression with float64 for decimals and int64 for whole numbers; `frame` has the columns, and no row."""
    kind, content = next(iter(tree.items()))
    if kind == "Literal":
        scalar = content.get("Scalar")
        if isinstance(scalar, dict) and "Decimal" in scalar:
            digits, _, scale = scalar["Decimal"]
            return {"Literal": {"Scalar": {"Float64": float(Decimal(digits).scaleb(-scale))}}}
        return tree
    children = {key: exact_tree(child, frame) for key, child in children_of(kind, content)}
    if kind == "Function":
        content = content | {"input": list(children.values())}
        if content["function"] == {"Pow": "Generic"}:
            content["input"] = [cast(operand, "Float64") for operand in content["input"]]
    elif children:
        content = content | children
    tree = {kind: content}
    if kind == "BinaryExpr" and content["op"] in EXACT:
        return exact_operation(tree, content["op"], content["left"], content["right"], frame)
    if kind == "Function" and function_of(content["function"]) == ("Sql", "Binary"):
        operation = content["function"]["Sql"]["Binary"]
        if operation in EXACT:
            left, right = content["input"]
            return exact_operation(tree, operation, left, right, frame)
    if kind in ("Function", "Cast"):
        return widened(tree, type_of(tree, frame))
    return tree


def exact_operation(tree: dict, operation: str, left: dict, right: dict, frame: pl.DataFrame) -> dict:
    """Addition, subtraction and multiplication of whole numbers with 128 bits, which hold any result of two of 64."""
    if not type_of(tree, frame).is_integer():
        return tree
    wide = {"left": cast(left, "Int128"), "op": EXACT[operation], "right": cast(right, "Int128")}
    return cast({"BinaryExpr": wide}, "Int64")


def widened(tree: dict, dtype: pl.DataType) -> dict:
    """Return the same values; numbers become int64 or float64."""
    if dtype.is_integer() and dtype != pl.Int64:
        return cast(tree, "Int64")
    return cast(tree, "Float64") if dtype.is_numeric() and dtype not in (pl.Int64, pl.Float64) else tree


def cast(tree: dict, dtype: str) -> dict:
    return {"Cast": {"expr": tree, "dtype": {"Literal": dtype}, "options": "Strict"}}


def type_of(tree: dict, frame: pl.DataFrame) -> pl.DataType:
    """The type of what an expression gives."""
    return dtype_of(read_tree(tree), frame.schema)


def dtype_of(value: pl.Expr, known: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of what an expression gives, of columns of these types."""
    return pl.LazyFrame(schema=dict(known)).select(value.alias("value")).collect_schema()["value"]


def column_of(value: pl.Expr, where: str, known: Mapping[str, pl.DataType]) -> tuple[pl.Expr, pl.DataType]:
    """What an expression gives as a column: text, a date or a time, or a number; and its type.

    Raises UserError for a value that is neither.
    """
    dtype = dtype_of(value, known)
    if dtype in (pl.String, pl.Boolean, pl.Int64, pl.Float64, pl.Date, pl.Time, pl.Null) or dtype == pl.Datetime:
        return value, dtype
    if dtype.is_numeric():
        dtype = pl.Int64() if dtype.is_integer() else pl.Float64()
        return value.cast(dtype), dtype
    if dtype in (pl.Categorical, pl.Enum):
        return value.cast(pl.String), pl.String()
    remedy = (
        "say in which unit: CAST(... AS BIGINT) counts microseconds" if dtype == pl.Duration else "take a part of it"
    )
    raise UserError(f"{where}: gives neither a number nor a text nor a date, but {dtype}\n  {remedy}")


def read_tree(tree: dict) -> pl.Expr:
    """The expression that polars wrote as JSON."""
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")
