"""Responses that a formula computes, such as `log(charges)`, `I(stay > 3)` and `cbind(late, early)`, and the `.` for all other
columns.

The response becomes a derived column, which models read like any other. `logarithm` says how its means return to the scale of
the column.
"""

import ast
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tfglm.formula.functions import ELEMENTWISE, LOGARITHMS
from tfglm.formula.parts import parts_of
from tfglm.formula.text import LONGEST_NAME, in_tree

FUNCTIONS = {name: name.upper() for name in ELEMENTWISE} | {"log": "LN"}
"""In SQL."""

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "plus"),
    ast.Sub: ("-", "minus"),
    ast.Mult: ("*", "times"),
    ast.Div: ("/", "per"),
    ast.Gt: (">", "above"),
    ast.GtE: (">=", "at_least"),
    ast.Lt: ("<", "below"),
    ast.LtE: ("<=", "at_most"),
    ast.Eq: ("=", "is"),
    ast.NotEq: ("<>", "is_not"),
}
"""Of Python, each in SQL and as a word of a name."""

FINITE = {"log": "> 0", "log2": "> 0", "log10": "> 0", "log1p": "> -1", "sqrt": ">= 0"}
"""Where a function has a finite value."""


@dataclass(frozen=True)
class Logarithm:
    """The logarithm of a `quantity` as a response: `base` to the power of a mean is the geometric mean of the quantity."""

    base: float
    quantity: str

    @property
    def rate(self) -> float:
        """What a mean is multiplied by before the exponential."""
        return math.log(self.base)


@dataclass(frozen=True)
class ComputedResponse:
    """The response of a formula: its text there, its column, the columns to derive with their SQL, the columns in the text, and
    the conditions of rows with a finite response, by the function's text.

    `trials` is the column with the number of trials of `cbind`.
    """

    text: str
    column: str
    derive: Mapping[str, str]
    sources: frozenset[str]
    conditions: Mapping[str, str]
    logarithm: Logarithm | None = None
    trials: str | None = None


def computed_response(formula: str) -> ComputedResponse | None:
    """Return the response of a formula if it is an expression; None if it is a column, or missing.

    Raises ValueError if tfglm cannot compute it.

    >>> computed_response("log(charges) ~ age").derive
    {'log_charges': 'LN(charges)'}
    >>> computed_response("cbind(late, flights - late) ~ carrier").trials
    'flights'
    """
    text, tilde, _ = formula.partition("~")
    text = text.strip(" `\t\n")
    if not tilde or re.fullmatch(r"\w*", text):
        return None
    try:
        node = in_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"the response `{text}` is no expression that can be computed") from None
    sources = frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name)) - KNOWN
    if not sources:
        raise ValueError(f"the response `{text}` has no column in it")
    conditions: dict[str, str] = {}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "cbind":
        return count_response(text, node, sources, conditions)
    if isinstance(node, ast.BinOp):
        raise ValueError(f"the response `{text}` is arithmetic; write I({text}) for its result")
    while isinstance(node, ast.Call) and ast.unparse(node.func) == "I" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    sql, name = in_sql(node, conditions), name_of(node)
    logarithm = None
    if isinstance(node, ast.Call) and (function := ast.unparse(node.func).removeprefix("np.")) in LOGARITHMS:
        logarithm = Logarithm(LOGARITHMS[function], in_r(node.args[0]))
    return ComputedResponse(text, name, {name: sql}, sources, conditions, logarithm)


def response_text(formula: str) -> str:
    """The response as the formula has it."""
    return formula.partition("~")[0].strip()


def with_response(formula: str, response: str) -> str:
    """A formula with another response."""
    return f"{response} ~{formula.partition('~')[2]}"


def response_column(formula: str) -> str:
    """Return the column of the response; of one that is no expression tfglm can compute, its text."""
    try:
        computed = computed_response(formula)
    except ValueError:
        computed = None
    return computed.column if computed else response_text(formula).strip("`")


KNOWN = {*FUNCTIONS, "I", "cbind", "np"}


def count_response(text: str, node: ast.Call, sources: frozenset[str], conditions: dict[str, str]) -> ComputedResponse:
    """The response of `cbind(events, others)`: as in R, the second count is of the trials without the event."""
    if len(node.args) != 2 or node.keywords:
        raise ValueError(f"`{text}`: cbind() takes two counts, as in cbind(late, flights - late)")
    events, others = node.args
    if isinstance(others, ast.Name) and re.fullmatch(r"(?i)n|.*(trials?|totals?|size)", others.id):
        raise ValueError(
            f"`{text}`: as in R, the second count is of trials without the event; write cbind({in_r(events)}, {others.id} - "
            f"{in_r(events)}), or name the events as response and `trials: {others.id}`"
        )
    derive: dict[str, str] = {}

    def column(each: ast.expr) -> str:
        if isinstance(each, ast.Name):
            return each.id
        derive[name_of(each)] = in_sql(each, conditions)
        return name_of(each)

    for each in (events, others):
        conditions[in_r(each)] = f"({in_sql(each, {})}) >= 0"
    response = column(events)
    match others:
        case ast.BinOp(ast.Name(total), ast.Sub(), taken) if ast.dump(taken) == ast.dump(events):
            trials = total
        case _:
            both = ast.BinOp(events, ast.Add(), others)
            trials = column(both)
    return ComputedResponse(text, response, derive, sources, conditions, trials=trials)


def in_sql(node: ast.expr, conditions: dict[str, str]) -> str:
    """An expression as SQL; adds where it has a finite value to the `conditions`. Raises ValueError if it cannot be computed."""
    match node:
        case ast.Constant(bool()):
            pass
        case ast.Constant(int() | float() as value) if math.isfinite(value) and abs(value) < 1e300:
            return format(Decimal(repr(value)), "f")
        case ast.Constant(str(value)):
            return "'{}'".format(value.replace("'", "''"))
        case ast.Name(name):
            return name
        case ast.UnaryOp(ast.USub(), operand):
            return f"(0 - {in_sql(operand, conditions)})"
        case ast.BinOp(left, ast.Pow(), right):
            return f"POWER({in_sql(left, conditions)}, {in_sql(right, conditions)})"
        case ast.BinOp(left, symbol, right) if type(symbol) in OPERATORS:
            return f"({in_sql(left, conditions)} {OPERATORS[type(symbol)][0]} {in_sql(right, conditions)})"
        case ast.Compare(left, [symbol], [right]) if type(symbol) in OPERATORS:
            return f"{in_sql(left, conditions)} {OPERATORS[type(symbol)][0]} {in_sql(right, conditions)}"
        case ast.Call(ast.Name("I"), [argument], []):
            return in_sql(argument, conditions)
        case ast.Call(function, [argument], []):
            name = ast.unparse(function).removeprefix("np.")
            if name in FUNCTIONS:
                inner = in_sql(argument, conditions)
                if name in FINITE:
                    conditions[in_r(node)] = f"({inner}) {FINITE[name]}"
                return f"{FUNCTIONS[name]}({inner})"
    functions = ", ".join(FUNCTIONS)
    raise ValueError(
        f"the response has `{in_r(node)}`, and a response is made of columns, numbers, + - * / ^, comparisons as in I(stay > 3), "
        f"cbind(), and the functions {functions}; define a column for anything else under data.derive"
    )


def in_r(node: ast.expr) -> str:
    """An expression as the user writes it."""
    return ast.unparse(node).replace(" ** ", "^")


def name_of(node: ast.expr) -> str:
    """The name of the column of an expression: `log_charges`, `stay_above_3`."""
    words = " ".join(words_of(node))
    name = re.sub(r"\W+", "_", words).strip("_")[:LONGEST_NAME]
    return name if re.match("[A-Za-z]", name) else f"of_{name}"[:LONGEST_NAME]


def words_of(node: ast.expr) -> list[str]:
    match node:
        case ast.Name(name):
            return [name]
        case ast.Constant(value):
            return [str(value).replace(".", " point ").replace("-", " minus ")]
        case ast.UnaryOp(_, operand):
            return ["minus", *words_of(operand)]
        case ast.BinOp(left, symbol, right):
            word = OPERATORS[type(symbol)][1] if type(symbol) in OPERATORS else "to_the"
            return [*words_of(left), word, *words_of(right)]
        case ast.Compare(left, [symbol], [right]):
            return [*words_of(left), OPERATORS[type(symbol)][1], *words_of(right)]
        case ast.Call(function, arguments):
            name = ast.unparse(function).removeprefix("np.")
            return [*([] if name == "I" else [name]), *(word for each in arguments for word in words_of(each))]
    return ["expression"]


FINITE_RESPONSE = "the response has a value"
"""The beginning of the names of such conditions."""


def reason_of(function: str) -> str:
    """The name under `data.where` of the rows that have a finite value of a function of the response."""
    return f"{FINITE_RESPONSE}: {function}"


SUBSET = "subset_"
"""The beginning of the names of the columns that are 0 outside the subset of a model."""

OTHER_PARTS = ("weights", "frequency", "trials", "offset", "std_errors", "absorb", "identity", "path", "instruments")
"""Keys of a model whose columns are not among those of `.`."""

DOT = re.compile(r"(?<![\w.)\]])\.(?![\w.(\[])")
"""The `.` of a formula, among decimal points and names with dots."""


def has_dot(formula: str) -> bool:
    """Whether a formula has the `.` for all other columns."""
    return DOT.search(formula.partition("~")[2]) is not None


def with_computed_responses(raw: Any) -> Any:
    """Return the sections of a config with the columns of computed responses, and with `.` written out.

    Anything that is not valid stays unchanged, as later checks report it. Raises ValueError if a column to derive has another
    meaning already, and for a `.` that includes the answer.
    """
    data = raw.get("data") if isinstance(raw, dict) else None
    columns = data.get("columns") if isinstance(data, dict) else None
    if (
        not isinstance(data, dict)
        or not isinstance(columns, list)
        or not all(isinstance(name, str) for name in columns)
    ):
        return raw
    derive = data.get("derive") or {}
    if not isinstance(derive, dict):
        return raw
    sections = {key: raw[key] for key in ("models", "networks") if isinstance(raw.get(key), dict)}
    added = Added(dict(derive), {}, list(columns))
    changed: dict[str, dict[str, Any]] = {}
    for key, models in sections.items():
        changed[key] = {}
        for name, model in models.items():
            where = f"{key}.{name}.formula"
            formula = model.get("formula") if isinstance(model, dict) else None
            if isinstance(formula, str):
                model = added.subset(added.model(model, formula, columns, where), str(name), columns)
            changed[key][name] = model
    if added.derive == derive and not added.where and added.columns == columns:
        return {**raw, **changed}
    conditions = data.get("where") or {}
    conditions = {conditions: conditions} if isinstance(conditions, str) else conditions
    conditions = {**conditions, **added.where} if isinstance(conditions, dict) else conditions
    new = {"derive": added.derive, "columns": added.columns, **({"where": conditions} if added.where else {})}
    return {**raw, **changed, "data": {**data, **new}}


def requested_frequency(model: Mapping[str, Any], derive: Mapping[str, Any]) -> str | None:
    """The frequency that a user gave a model, in whose section it may have become one with its subset."""
    column = model.get("frequency")
    of_subset = re.search(r"THEN (\w+) ELSE 0 END$", str(derive.get(str(column), ""))) if model.get("subset") else None
    return (of_subset[1] if of_subset[1] != "1" else None) if of_subset else column


@dataclass
class Added:
    """What computed responses add to the section `data`."""

    derive: dict[str, Any]
    where: dict[str, str]
    columns: list[str]

    def add(self, name: str, sql: str, columns: Collection[str], subject: str) -> None:
        """Derive a column. Raises ValueError, which begins with the `subject`, if another column has its name."""
        if self.derive.get(name, sql) != sql or (name in columns and name not in self.derive):
            raise ValueError(f"{subject} becomes the column `{name}`, and another column has that name; rename it")
        self.derive[name] = sql

    def subset(self, model: dict[str, Any], name: str, columns: Collection[str]) -> dict[str, Any]:
        """The section of a model with its subset as a frequency: 0 outside, and else that of the model, or 1."""
        condition, frequency = model.get("subset"), model.get("frequency") or 1
        if not isinstance(condition, str) or str(frequency).startswith(SUBSET):
            return model
        sql = f"CASE WHEN ({condition}) THEN {frequency} ELSE 0 END"
        column = next((each for each, known in self.derive.items() if known == sql), f"{SUBSET}{name}")
        self.add(column, sql, columns, f"subset of {name}")
        self.columns += [column] if column not in self.columns else []
        return {**model, "frequency": column}

    def model(self, model: dict[str, Any], formula: str, columns: Collection[str], where: str) -> dict[str, Any]:
        """The section of a model, with the keys of its formula's parts, its trials, and its `.` written out."""
        try:
            parts = parts_of(formula)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        given = {"absorb": list(parts.absorb), "offset": parts.offset, "instruments": parts.instruments}
        for key, value in given.items():
            if value and model.get(key) not in (None, [], value):
                raise ValueError(f"{where}: the formula has what the key `{key}` has too; remove one of the two")
            model = {**model, key: value} if value else model
        for name, sql in parts.derive:
            self.add(name, sql, columns, f"{where}: a combination of columns")
            self.columns += [name] if name not in self.columns else []
        model, formula = {**model, "formula": parts.formula}, parts.formula
        try:
            response = computed_response(formula)
        except ValueError:
            return model
        if response:
            for name, sql in response.derive.items():
                self.add(name, sql, columns, f"{where}: `{response.text}`")
            for function, condition in response.conditions.items():
                known = " AND ".join(f"{name} IS NOT NULL" for name in sorted(response.sources))
                self.where[reason_of(function)] = f"{condition} OR NOT ({known})"
            needed = [response.column, *([response.trials] if response.trials else [])]
            self.columns += [name for name in needed if name not in self.columns]
            if response.trials and model.get("trials") not in (None, response.trials):
                raise ValueError(f"{where}: `{response.text}` has the number of trials in it; remove the key `trials`")
            if response.trials:
                model = {**model, "trials": response.trials}
        if not has_dot(formula):
            return model
        return {**model, **dot_written_out(model, response, columns, self.derive, where)}


def dot_written_out(
    model: Mapping[str, Any],
    response: ComputedResponse | None,
    columns: Collection[str],
    derive: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """The formula of a model with `.` written out, and the columns that it stands for: all that have no other part in the model.

    Raises ValueError for a `.` that stands for no column, and for one that includes the answer.
    """
    left, _, right = model["formula"].partition("~")
    explicit = set(re.findall(r"\w+", DOT.sub("", right)))
    answer = {response.column, *response.sources} if response else {left.strip(" `\t\n")}
    others = " ".join(str(model.get(key) or "") for key in OTHER_PARTS)
    taken = answer | set(re.findall(r"\w+", others))
    removed = set(re.findall(r"-\s*(\w+)", right))
    stands_for = [name for name in columns if name not in taken and name not in removed]
    for name in stands_for:
        if known_from := answer & set(re.findall(r"\w+", str(derive.get(name, "")))):
            raise ValueError(
                f"{where}: `.` includes `{name}`, which is computed from the response `{min(known_from)}`; write `. - {name}`"
            )
    for column in answer:
        for name in re.findall(r"\w+", str(derive.get(column, ""))):
            if name in stands_for:
                raise ValueError(
                    f"{where}: `.` includes `{name}`, from which the response `{column}` is computed; write `. - {name}`"
                )
    if not stands_for:
        raise ValueError(f"{where}: `.` stands for no column, as data.columns has no other; write the terms out")
    for name in removed & set(columns):
        right = re.sub(rf"-\s*{name}\b", "", right)
    written = " + ".join(stands_for)
    is_alone = right.strip() == "."
    right = DOT.sub(written if is_alone else f"({written})", right)
    return {"formula": f"{left}~{right}", "dot": [name for name in stands_for if name not in explicit]}
