"""SQL expressions over the columns of one row: refuse unsafe expressions, and give the values of SQL.

polars translates SQL to its own expressions. This module checks the nodes of these expressions, and the words of the text
only where the nodes do not show them. Four things differ from polars:

- A number written with decimals is a float64 (polars uses decimals of a fixed number of digits, so that 7 / 60.0 is
  0.116667).
- Whole numbers are int64, and an overflow is an error (polars has whole numbers of 8 bits, which overflow silently:
  `EXTRACT(MONTH FROM date) * 100`).
- What is no finite number is missing: 0 / 0, 1 / 0, SQRT(-1), LN(0). In polars NaN is larger than all numbers.
- AND and OR join truths (polars joins the bits of numbers). STRPOS, RIGHT and SPLIT_PART are those of SQL (`AS_IN_SQL`).

`tests/unit/test_sql.py` compares the values with DuckDB's. Other libraries were tried on the cases of the tests. DuckDB
accepts 24 of the 29 expressions that this module refuses, and refuses 4 of the 60 calls. sqlglot parses 28 of the 29, and
does not know the types of polars. Both would need these checks.

`tree_of` and `read_tree` use the JSON of an expression, whose form polars may change; `tests/unit/test_sql.py` then fails.
To report upstream: "`Expr.meta` can neither list the nodes of an expression with their names and operands, nor replace some.
Programs that check an SQL expression before it runs need both in a stable form."
"""

import io
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl

from tfglm.data.spellings import DAYS_BETWEEN, FOREIGN, TOKENS, in_sql, remedies
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

EXACT = {"Plus": "Plus", "Minus": "Minus", "Multiply": "Multiply", "Mul": "Multiply"}
"""Operations on whole numbers that can leave int64, and what polars calls them in a BinaryExpr."""

HANDING_ON = {"Abs", "Ceil", "Floor", "Log", "Round", "Sqrt", "ToFloat"}
"""Functions that are no finite number if their first operand is none."""


def expression(sql: str, where: str, known: Mapping[str, pl.DataType]) -> pl.Expr:
    """A polars expression for `sql`, over columns of these types. Raises UserError, naming the config key `where`, for what
    is no SQL, names a column that is not there, looks at anything but the row, or cannot be evaluated with these types."""
    return _expression(sql, where, tuple(known.items()))


@lru_cache(1000)  # the same for each of many files, some milliseconds each
def _expression(sql: str, where: str, columns: tuple[tuple[str, pl.DataType], ...]) -> pl.Expr:
    known = dict(columns)
    parsed_sql = parsed(sql, where, known)
    check_columns(parsed_sql, sql, where, known)
    try:
        tree = tree_of(parsed_sql)
        check(tree, f"{where}: `{sql}`")
        frame = pl.DataFrame(schema=known)
        check_conditions(tree, frame, sql, where)
        with silenced():
            exact = finite(exact_tree(as_in_sql(tree), frame), frame)
            evaluated = parsed_sql if exact == tree else read_tree(exact)
            frame.lazy().select(evaluated.alias("value")).collect()
    except RecursionError as error:
        raise too_deep(sql, where) from error
    except FAILURES as error:
        if "could not deserialize" in str(error):
            raise too_deep(sql, where) from error
        problem = first_line(error)
        lines = [f"{where}: `{sql}` cannot be evaluated: {problem}", *remedies(sql, {})]
        if OF_A_DATE.search(problem):
            example_day, day = "'2024-01-31'", re.search(r"(?i)(?<!DATE )'\d{4}-\d\d-\d\d'", sql)
            lines = [
                f"{where}: `{sql}` has a text beside a date",
                f"write DATE {day[0] if day else example_day} for the date",
            ]
        raise UserError("\n  ".join(lines)) from error
    return evaluated


def check_columns(value: pl.Expr, sql: str, where: str, known: Collection[str], unlisted: Collection[str] = ()) -> None:
    """Raise UserError for an expression of a column that is neither `known` nor `unlisted`; the message lists the known."""
    for absent in (name for name in value.meta.root_names() if name not in known and name not in unlisted):
        is_text = f'"{absent}"' in sql and not nearest(absent, known)
        hint = f"; text stands in single quotes: '{absent}'" if is_text else nearest(absent, known)
        hint = "; write IS NULL for a missing value" if absent.lower() in ("na", "nan", "none") else hint
        raise UserError(f"{where}: no column `{absent}` in `{sql}`{hint}\n  there are: {', '.join(known)}")


def parsed(sql: str, where: str, known: Mapping[str, pl.DataType] | None = None) -> pl.Expr:
    """Return polars' expressions for `sql`. Raises UserError if it is no SQL, with an example of the `known` columns."""
    if len(sql) > LONGEST:
        raise UserError(
            f"{where}: an expression of {len(sql):,} characters; {LONGEST:,} are the most\n"
            "  write lists of values with IN (...), or define parts of it under derive"
        )
    try:
        with silenced():
            return pl.sql_expr(in_sql(sql, where))
    except FAILURES as error:
        lines = [f"{where}: not an SQL expression: `{sql}`: {first_line(error)}", *remedies(sql, known or {})]
        raise UserError("\n  ".join(lines)) from error


def too_deep(sql: str, where: str) -> UserError:
    shown = sql if len(sql) <= 100 else sql[:97] + "..."
    return UserError(
        f"{where}: `{shown}` is nested too deeply (about 50 operations one within the other)\n"
        "  define parts of it as columns under derive, or write lists of values with IN (...)"
    )


OF_A_DATE = re.compile(
    "cannot compare 'date.*' to a string|cannot check for Date values in List.String|not allowed on date and str"
)
"""What polars says where a text stands for a date."""

CONVERSION = re.compile(
    r"conversion from `(?!i128)\w+` to `(f|i|date)\w*` failed in column '([^']*)' for .*?: \[(.*)\]"
)
CONVERTED = {
    "f": "a number; TRY_CAST makes such values missing",
    "i": "a whole number; TRY_CAST makes such values missing",
    "date": "a date",
}


def failure(error: BaseException) -> str:
    """What polars says of an expression that it cannot evaluate for a row, in the words of SQL.

    >>> failure(ValueError("conversion from `str` to `f64` failed in column 'x' for 1 out of 9 values: [7a]"))
    '`x` is 7a, which cannot become a number; TRY_CAST makes such values missing'
    """
    if found := CONVERSION.match(first_line(error)):
        what = "a value" if found[2] == "expression" else f"`{found[2]}`"
        return f"{what} is {found[3]}, which cannot become {CONVERTED[found[1]]}"
    return first_line(error)


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
        if node == "BinaryExpr" and "Validity" in content["op"] and joins(content["right"]):
            raise UserError(
                f"{subject} takes what follows AND or OR as part of the comparison IS DISTINCT FROM\n"
                "  put the comparison in parentheses: (a IS DISTINCT FROM b) AND ..."
            )
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


COMPARISONS = ("Lt", "LtEq", "Gt", "GtEq")


def check_conditions(tree: dict, frame: pl.DataFrame, sql: str, where: str) -> None:
    """Raise UserError for `1 < x < 3`, and where & and | would join numbers, not conditions."""
    has_signs = FOREIGN.search(sql) and {"&", "&&", "|"} & {*TOKENS.findall(sql)}
    for node, content in nodes_of(tree):
        if node != "BinaryExpr":
            continue
        left = content["left"].get("BinaryExpr", {}) if isinstance(content["left"], dict) else {}
        if content["op"] in COMPARISONS and left.get("op") in COMPARISONS:
            raise UserError(f"{where}: `{sql}` compares a condition with a value\n  write a < x AND x < b")
        if content["op"] in ("And", "Or") and has_signs:
            for operand in (content["left"], content["right"]):
                if not joins(operand) and type_of(operand, frame).is_numeric():
                    raise UserError(
                        f"{where}: `{sql}` has & or | of numbers, and bits are not joined here\n"
                        "  write AND and OR for conditions, and flags // 4 % 2 = 1 for the third bit of a number"
                    )


def joins(tree: dict) -> bool:
    """Whether an expression is a condition made by AND or OR."""
    return tree.get("BinaryExpr", {}).get("op") in ("And", "Or")


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


def exact_tree(tree: dict, frame: pl.DataFrame) -> dict:
    """The expression with the values of SQL, as the head of this module says; `frame` has the columns, and no row. A value
    that is no finite number may stand for a missing one in what it returns."""
    kind, content = next(iter(tree.items()))
    if kind == "Literal":
        scalar = content.get("Scalar")
        if isinstance(scalar, dict) and "Decimal" in scalar:
            digits, _, scale = scalar["Decimal"]
            return {"Literal": {"Scalar": {"Float64": float(Decimal(digits).scaleb(-scale))}}}
        return tree
    children = {key: exact_tree(child, frame) for key, child in children_of(kind, content)}
    handed_on = handing_on(kind, content)
    children = {key: child if key in handed_on else finite(child, frame) for key, child in children.items()}
    if kind == "Function" and content["function"] == {"Pow": "Generic"}:
        children = {key: cast(child, "Float64") for key, child in children.items()}
    content = with_operands(kind, content, children)
    tree = {kind: content}
    if kind == "BinaryExpr" and content["op"] in ("And", "Or"):
        truths = {
            side: cast(operand, "Boolean")
            for side, operand in children.items()
            if not joins(operand) and type_of(operand, frame).is_numeric()
        }
        return {kind: content | truths}
    if kind == "BinaryExpr" and content["op"] in EXACT:
        return exact_operation(tree, content["op"], content["left"], content["right"], frame)
    if kind == "Function" and function_of(content["function"]) == ("Sql", "Binary"):
        operation, (left, right) = content["function"]["Sql"]["Binary"], content["input"]
        if operation in EXACT:
            return exact_operation(tree, operation, left, right, frame)
        if operation == "IntDiv" and any(type_of(operand, frame).is_float() for operand in (left, right)):
            divided = {"Function": content | {"function": {"Sql": {"Binary": "Div"}}}}
            return cast(finite(divided, frame), "Int64")
    dtype = type_of(tree, frame) if kind in ("Function", "Cast") else pl.Int64()
    if dtype.is_integer() and dtype != pl.Int64:
        return cast(tree, "Int64")
    return cast(tree, "Float64") if dtype.is_numeric() and dtype not in (pl.Int64, pl.Float64) else tree


def as_in_sql(tree: dict) -> dict:
    """An expression as polars translates it, with what SQL understands by some functions."""
    kind, content = next(iter(tree.items()))
    tree = {kind: with_operands(kind, content, {key: as_in_sql(child) for key, child in children_of(kind, content)})}
    match tree.get("Function"):
        # STRPOS and POSITION: of a text, not of a pattern; in characters, not in bytes; missing if an operand is.
        case {"function": "FillNull", "input": [{"BinaryExpr": {"left": {"Function": {"input": operands}}}}, _]}:
            text, sought = map(read_tree, operands)
            before = pl.when(sought == "").then(0).otherwise(text.str.split(sought).list.first().str.len_chars())
            there = text.str.contains(sought, literal=True)
            return tree_of(pl.when(there).then(before.cast(pl.Int64) + 1).otherwise(there.cast(pl.Int64)))
        # SPLIT_PART: missing if the separator is.
        case {"function": "FillNull", "input": [{"Function": {"input": [{"Function": split}, _]}}, _]}:
            return tree_of(pl.when(read_tree(split["input"][1]).is_not_null()).then(read_tree(tree)))
        # LEFT, RIGHT and SUBSTR: a place before the text is not counted from its end; missing if an operand is.
        case {"function": {"StringExpr": "Slice"}, "input": [text, *places]}:
            known = [read_tree(place).is_not_null() for place in places if "Literal" not in place]
            if known:
                start, length = map(read_tree, places)
                kept = (length + start.clip(upper_bound=0)).clip(lower_bound=0)
                return tree_of(pl.when(known).then(read_tree(text).str.slice(start.clip(lower_bound=0), kept)))
    return tree


def with_operands(kind: str, content: Any, operands: dict) -> Any:
    """A node with other operands, by the keys that `children_of` has."""
    if not operands:
        return content
    return content | ({"input": list(operands.values())} if kind == "Function" else operands)


def handing_on(kind: str, content: dict) -> Collection[str | int]:
    """The operands for which a node is no finite number if they are none."""
    if kind == "Ternary":
        return ("truthy", "falsy")
    if kind == "BinaryExpr" and content["op"] in EXACT:
        return ("left", "right")
    hands_on = kind == "Function" and (
        content["function"] == {"Sql": {"Binary": "Div"}} or function_of(content["function"])[1] in HANDING_ON
    )
    return (0,) if hands_on else ()


def finite(tree: dict, frame: pl.DataFrame) -> dict:
    """The same values; what is no finite number is missing."""
    if not may_be_infinite(tree) or not type_of(tree, frame).is_float():
        return tree
    # As a field of a struct, so that the expression occurs once.
    number = pl.field("expression")
    of_struct = pl.struct(read_tree(tree).alias("expression"))
    return tree_of(of_struct.struct.with_fields(pl.when(number.is_finite()).then(number)).struct.field("expression"))


def may_be_infinite(tree: dict) -> bool:
    """Whether an expression, if it gives numbers, may give others than finite ones. Columns have none."""
    kind, content = next(iter(tree.items()))
    if kind == "Ternary":
        return may_be_infinite(content["truthy"]) or may_be_infinite(content["falsy"])
    if kind == "BinaryExpr":
        return content["op"] in EXACT
    if kind == "Function":
        return function_of(content["function"])[1] not in ("Coalesce", "MaxHorizontal", "MinHorizontal", "StructExpr")
    return kind not in ("Column", "Literal")


def exact_operation(tree: dict, operation: str, left: dict, right: dict, frame: pl.DataFrame) -> dict:
    """Addition, subtraction and multiplication of whole numbers with 128 bits, which hold any result of two of 64."""
    if not type_of(tree, frame).is_integer():
        return tree
    wide = {"left": cast(left, "Int128"), "op": EXACT[operation], "right": cast(right, "Int128")}
    return cast({"BinaryExpr": wide}, "Int64")


def cast(tree: dict, dtype: str) -> dict:
    return {"Cast": {"expr": tree, "dtype": {"Literal": dtype}, "options": "Strict"}}


def type_of(tree: dict, frame: pl.DataFrame) -> pl.DataType:
    """The type of what an expression gives."""
    return dtype_of(read_tree(tree), frame.schema)


def dtype_of(value: pl.Expr, known: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of what an expression gives, of columns of these types."""
    return pl.LazyFrame(schema=dict(known)).select(value.alias("value")).collect_schema()["value"]


def column_of(value: pl.Expr, where: str, known: Mapping[str, pl.DataType]) -> tuple[pl.Expr, pl.DataType]:
    """What an expression gives as a column: text, a date or a time, or a number; and its type. Raises UserError for a value
    that is neither."""
    dtype = dtype_of(value, known)
    if dtype in (pl.String, pl.Boolean, pl.Int64, pl.Float64, pl.Date, pl.Time, pl.Null) or dtype == pl.Datetime:
        return value, dtype
    if dtype.is_numeric():
        dtype = pl.Int64() if dtype.is_integer() else pl.Float64()
        return value.cast(dtype), dtype
    if dtype in (pl.Categorical, pl.Enum):
        return value.cast(pl.String), pl.String()
    remedy = f"write {DAYS_BETWEEN} for a difference of dates" if dtype == pl.Duration else "take a part of it"
    raise UserError(f"{where}: gives neither a number nor a text nor a date, but {dtype}\n  {remedy}")


def read_tree(tree: dict) -> pl.Expr:
    """The expression that polars wrote as JSON."""
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def tree_of(value: pl.Expr) -> dict:
    """The expression as polars writes it as JSON."""
    return json.loads(value.meta.serialize(format="json"))
