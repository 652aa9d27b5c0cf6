"""The columns of a CSV file as an exported model takes them, and the columns of a formula computed from these in TensorFlow.

`data.sql` translates SQL to expressions of polars. This module computes the same expressions with TensorFlow's operations,
and refuses those that it cannot compute. A value that is missing, or cannot be computed in a row, makes all missing that is
computed from it, as in SQL. What is no finite number is missing.
"""

import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import tensorflow as tf

from tfglm.config import FILE, RANDOM, Layout
from tfglm.data import sql
from tfglm.data.selection import columns_of, on_the_way
from tfglm.errors import Problems, UserError

Tree = dict[str, Any]

WHOLE, NUMBER, TRUTH, TEXT, DATE, NOTHING = "whole number", "number", "truth", "text", "date", "nothing"
TENSORS = {
    WHOLE: tf.int64,
    NUMBER: tf.float64,
    TRUTH: tf.bool,
    TEXT: tf.string,
    # Days since 1970.
    DATE: tf.int64,
    NOTHING: tf.int64,
}


MISSING = {"text": "", "number": "NaN", "image": None}
"""How an exported model receives a missing value, by the kind of the column."""


class Value(NamedTuple):
    """A value in each row, or the same in all; anything where it is not known."""

    tensor: tf.Tensor
    known: tf.Tensor
    kind: str


class Refused(Exception):
    """What cannot be computed."""


class RawColumns:
    """Computes the columns `needed` by a model, with their kinds as `export.kinds` has them, from those of a layout and the
    SQL expressions that the config derives. `kinds` are the columns that it takes: `text`, also for a date or a time in a
    format; `number`, NaN if missing; `image`. Raises UserError, which begins with the key `where`, if a column is computed
    from something that TensorFlow does not compute alike."""

    def __init__(self, layout: Layout, derive: Mapping[str, str], needed: Mapping[str, str], where: str) -> None:
        self._layout, self._needed, self._where = layout, dict(needed), where
        self._sql = layout.derive | dict(derive)
        self._columns = columns_of(layout, derive, where, Problems())
        self._trees: dict[str, Tree] = {name: sql.tree_of(value) for name, value in self._columns.derived.items()}
        used = {column: self._columns.roots[column] for column in needed}
        for column, of_column in used.items():
            for special in {FILE, RANDOM} & of_column:
                raise UserError(
                    f"{where}: `{column}` needs `{special}`, which is no column of a file, so that no SavedModel can compute it; "
                    "remove `export`, or the column from the formula"
                )
        raw = set().union(*used.values())
        self.kinds = {name: self._kind(name) for name in layout.columns if name in raw}
        self._check()

    @property
    def described(self) -> list[dict[str, Any]]:
        """What an exported model takes: columns by their name in the layout, with their name in the header of the file if that
        differs, and the formats of dates and times."""
        described = []
        for name, kind in self.kinds.items():
            column = self._layout.columns[name]
            formats = column.formats or (["%Y-%m-%d"] if column.type == "date" else [])
            described.append(
                {"name": name, "type": kind, "missing": MISSING[kind]}
                | ({"header": column.source} if column.source and column.source != name else {})
                | ({"formats": formats} if formats else {})
            )
        return described

    @property
    def computed(self) -> dict[str, str]:
        """The expressions of the needed columns and of those on the way to them, by name."""
        needed = on_the_way([pl.col(name) for name in self._needed], self._columns.derived)
        names = {value.meta.output_name() for value in needed}
        return {name: text for name, text in self._sql.items() if name in names}

    def _kind(self, name: str) -> str:
        column = self._layout.columns[name]
        if column.type in ("string", "date") or column.formats:
            return "text"
        return "image" if column.type == "image" else "number"

    def _check(self) -> None:
        """Compute all once, for no rows."""
        types = {"text": tf.string, "number": tf.float64}
        self.columns({name: tf.zeros([0], types[kind]) for name, kind in self.kinds.items() if kind != "image"})

    def columns(self, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The needed columns of rows, given by the columns of their file."""
        values = {name: self._read(name, column) for name, column in raw.items() if self.kinds[name] != "image"}
        rows = tf.shape(next(iter(raw.values())))[0] if raw else tf.constant(0)
        columns = {}
        for name, kind in self._needed.items():
            if self.kinds.get(name) == "image" and kind == "image":
                if name in raw:
                    columns[name] = raw[name]
                continue
            try:
                value = self._value(name, values)
            except Refused as error:
                raise UserError(
                    f"{self._where}: `{name}` is `{self._sql.get(name, name)}`, and no SavedModel can compute {error} as tfglm "
                    "does; remove `export`, or write the expression in another way"
                ) from None
            written = cast(value, TEXT if kind == "text" else NUMBER)
            missing = "" if kind == "text" else tf.constant(float("nan"), tf.float64)
            columns[name] = tf.broadcast_to(tf.where(written.known, written.tensor, missing), [rows])
        return columns

    def _value(self, name: str, values: dict[str, Value]) -> Value:
        if name not in values:
            tree = self._trees[name]
            for column in self._columns.derived[name].meta.root_names():
                self._value(column, values)
            values[name] = computed(tree, values)
        return values[name]

    def _read(self, name: str, column: tf.Tensor) -> Value:
        """A column of the layout, whose texts for missing values are missing."""
        of_layout = self._layout.columns[name]
        if self.kinds[name] == "number":
            known = tf.math.is_finite(column)
            if of_layout.type == "number":
                return Value(column, known, NUMBER)
            return Value(tf.cast(tf.where(known, column, 0.0), tf.int64), known, WHOLE)
        known = tf.fill(tf.shape(column), True)
        for text in {*self._layout.missing, ""}:
            known &= column != text
        if of_layout.type == "string":
            return Value(column, known, TEXT)
        forms = of_layout.formats or ["%Y-%m-%d"]
        read = [parsed(Value(column, known, TEXT), form, clock=of_layout.type == "clock") for form in forms]
        return first_known(read)


def agreed_columns(
    layouts: Mapping[str, Layout], derive: Mapping[str, str], needed: Mapping[str, str], where: str
) -> RawColumns:
    """The columns of the files that a model was fitted to. Raises UserError, as RawColumns does, and if the layouts of the files
    compute the columns in different ways."""
    made = {name: RawColumns(layout, derive, needed, where) for name, layout in layouts.items()}
    (first, raw), *others = made.items()
    for name, other in others:
        if (other.described, other.computed) != (raw.described, raw.computed):
            raise UserError(
                f"{where}: files with the layouts `{first}` and `{name}` give the columns {', '.join(needed)} in different ways, "
                "and a SavedModel takes one kind of files; remove `export`"
            )
    return raw


def computed(tree: Tree, columns: Mapping[str, Value]) -> Value:
    """The value of an expression of polars. Raises Refused."""
    value = unchecked(tree, columns)
    return value._replace(known=value.known & tf.math.is_finite(value.tensor)) if value.kind == NUMBER else value


def unchecked(tree: Tree, columns: Mapping[str, Value]) -> Value:
    """The value of a node of polars; any number where it is no finite one."""
    node, content = next(iter(tree.items()))
    match node:
        case "Alias":
            return computed(content[0], columns)
        case "Column":
            return columns[content]
        case "Literal":
            return literal(content)
        case "BinaryExpr":
            return binary(content["op"], computed(content["left"], columns), computed(content["right"], columns))
        case "Cast":
            name = content["dtype"].get("Literal") if isinstance(content["dtype"], dict) else None
            if name not in CASTS:
                raise Refused(f"a cast to {name or content['dtype']}")
            return cast(computed(content["expr"], columns), CASTS[name])
        case "Ternary":
            condition = cast(computed(content["predicate"], columns), TRUTH)
            then, other = alike(computed(content["truthy"], columns), computed(content["falsy"], columns))
            chosen = condition.known & condition.tensor
            return Value(
                tf.where(chosen, then.tensor, other.tensor), tf.where(chosen, then.known, other.known), then.kind
            )
        case "StructEval":  # which makes missing what is no finite number
            return computed(content["expr"]["Function"]["input"][0], columns)
        case "Function":
            return function(content["function"], content["input"], columns)
    raise Refused(node)


CASTS = {"Int64": WHOLE, "Int128": WHOLE, "Float64": NUMBER, "String": TEXT, "Boolean": TRUTH, "Date": DATE}


def literal(content: Any) -> Value:
    """A literal as polars writes it."""
    if isinstance(content, dict) and "Series" in content:
        raise Refused("a list of values")
    scalar = content.get("Dyn") or content.get("Scalar")
    kind, value = next(iter(scalar.items()))
    kinds = {"Float": NUMBER, "Float64": NUMBER, "String": TEXT, "Boolean": TRUTH, "Null": NOTHING}
    if not kind.startswith("Int") and kind not in kinds:
        raise Refused(f"a literal of type {kind}")
    kind = kinds.get(kind, WHOLE)
    if kind == NOTHING:
        return Value(tf.constant(0, tf.int64), tf.constant(False), NOTHING)
    return Value(tf.constant(value, TENSORS[kind]), tf.constant(True), kind)


def cast(value: Value, kind: str) -> Value:
    """A value as another kind; missing if it is none. Raises Refused."""
    tensor, known, given = value
    if given == kind:
        return value
    if given == NOTHING:
        return Value(tf.fill([], "") if kind == TEXT else tf.cast(tensor, TENSORS[kind]), known, kind)
    match given, kind:
        case "whole number" | "truth", "whole number" | "number":
            return Value(tf.cast(tensor, TENSORS[kind]), known, kind)
        case "number", "whole number":
            return Value(tf.cast(tensor, tf.int64), known & (tf.abs(tensor) < 2.0**63), kind)
        case "whole number" | "number", "truth":
            return Value(tensor != 0, known, kind)
        case "whole number", "text":
            return Value(tf.strings.as_string(tensor), known, kind)
        case "truth", "text":
            return Value(tf.where(tensor, "true", "false"), known, kind)
        case "date", "text":
            parts = zip(civil(tensor), (4, 2, 2), strict=True)
            texts = [tf.strings.as_string(part, width=width, fill="0") for part, width in parts]
            return Value(tf.strings.join(texts, "-"), known, kind)
        case "text", "whole number" | "number":
            pattern = r"[+-]?[0-9]{1,18}" if kind == WHOLE else r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
            known &= tf.strings.regex_full_match(tensor, pattern)
            return Value(tf.strings.to_number(tf.where(known, tensor, "0"), TENSORS[kind]), known, kind)
    raise Refused(f"a {given} as a {kind}")


def alike(*values: Value) -> list[Value]:
    """The values with one kind, as SQL compares and joins them. Raises Refused."""
    kinds = {value.kind for value in values} - {NOTHING}
    if len(kinds) > 1:
        if not kinds <= {WHOLE, NUMBER, TRUTH}:
            raise Refused(f"a {' and a '.join(sorted(kinds))} together")
        kinds = {NUMBER if NUMBER in kinds else WHOLE}
    (kind,) = kinds or {NOTHING}
    return [cast(value, kind) for value in values]


def first_known(values: Sequence[Value]) -> Value:
    first, *others = alike(*values)
    for other in others:
        first = Value(tf.where(first.known, first.tensor, other.tensor), first.known | other.known, first.kind)
    return first


COMPARED: dict[str, Callable[[Any, Any], tf.Tensor]] = {
    "Eq": tf.equal,
    "NotEq": tf.not_equal,
    "Lt": tf.less,
    "LtEq": tf.less_equal,
    "Gt": tf.greater,
    "GtEq": tf.greater_equal,
}
ADDED: dict[str, Callable[[Any, Any], tf.Tensor]] = {"Plus": tf.add, "Minus": tf.subtract, "Multiply": tf.multiply}


def binary(operation: str, left: Value, right: Value) -> Value:
    """The value of an operation on two. Raises Refused."""
    if operation in ("And", "Or"):
        one, two = cast(left, TRUTH), cast(right, TRUTH)
        # One false decides AND, and one true decides OR, whether the other is known or not.
        decides = operation == "Or"
        decided = (one.known & (one.tensor == decides)) | (two.known & (two.tensor == decides))
        return Value(tf.where(decided, decides, not decides), decided | (one.known & two.known), TRUTH)
    if operation in ("Div", "TrueDivide"):
        left, right = cast(left, NUMBER), cast(right, NUMBER)
        return Value(left.tensor / right.tensor, left.known & right.known, NUMBER)
    left, right = alike(left, right)
    known = left.known & right.known
    if operation in COMPARED:
        if left.kind == TEXT and operation not in ("Eq", "NotEq"):
            raise Refused("the order of texts")
        return Value(COMPARED[operation](left.tensor, right.tensor), known, TRUTH)
    if operation == "Plus" and left.kind == TEXT:
        return Value(tf.strings.join([left.tensor, right.tensor]), known, TEXT)
    if left.kind not in (WHOLE, NUMBER, TRUTH, NOTHING):
        raise Refused(f"`{operation}` of a {left.kind}")
    if left.kind == TRUTH:
        left, right = cast(left, WHOLE), cast(right, WHOLE)
    if operation in ADDED:
        return Value(ADDED[operation](left.tensor, right.tensor), known, left.kind)
    if operation in ("IntDiv", "Rem"):
        divisor = right.tensor
        if left.kind == WHOLE:
            known &= divisor != 0
            divisor = tf.where(divisor == 0, tf.ones([], tf.int64), divisor)
        divided = tf.truncatemod if operation == "Rem" else tf.truncatediv
        return Value(divided(left.tensor, divisor), known, left.kind)
    raise Refused(f"`{operation}`")


FUNCTIONS: dict[tuple[str, str], tuple[str, Callable[..., tf.Tensor], str]] = {
    ("", "Exp"): (NUMBER, tf.exp, NUMBER),
    ("", "Log"): (NUMBER, lambda number, base: tf.math.log(number) / tf.math.log(base), NUMBER),
    ("", "Log1p"): (NUMBER, tf.math.log1p, NUMBER),
    ("", "Ceil"): (NUMBER, tf.math.ceil, NUMBER),
    ("", "Floor"): (NUMBER, tf.math.floor, NUMBER),
    ("Pow", "Generic"): (NUMBER, tf.pow, NUMBER),
    ("Pow", "Sqrt"): (NUMBER, tf.sqrt, NUMBER),
    ("Sql", "ToFloat"): (NUMBER, tf.identity, NUMBER),
    ("Trigonometry", "Sin"): (NUMBER, tf.sin, NUMBER),
    ("Trigonometry", "Cos"): (NUMBER, tf.cos, NUMBER),
    ("Trigonometry", "Tan"): (NUMBER, tf.tan, NUMBER),
    ("Trigonometry", "Radians"): (NUMBER, lambda degrees: degrees * (3.141592653589793 / 180), NUMBER),
    ("Boolean", "Not"): (TRUTH, tf.logical_not, TRUTH),
    ("StringExpr", "Lowercase"): (TEXT, lambda text: tf.strings.lower(text, "utf-8"), TEXT),
    ("StringExpr", "Uppercase"): (TEXT, lambda text: tf.strings.upper(text, "utf-8"), TEXT),
    ("StringExpr", "LenChars"): (TEXT, lambda text: tf.cast(tf.strings.length(text, "UTF8_CHAR"), tf.int64), WHOLE),
}
"""Functions whose value is known where all of their arguments are: the kind of these, the function, and the kind of its value."""


def function(named: Any, inputs: Sequence[Tree], columns: Mapping[str, Value]) -> Value:
    """The value of a function of polars. Raises Refused."""
    family, name = sql.function_of(named)
    if (family, name) == ("Sql", "Binary"):
        operation = {"Mul": "Multiply"}.get(named["Sql"]["Binary"], named["Sql"]["Binary"])
        return binary(operation, *(computed(tree, columns) for tree in inputs))
    if (family, name) == ("Sql", "IsIn"):
        return is_in(computed(inputs[0], columns), inputs[1])
    if (family, name) == ("StringExpr", "Strptime"):
        kind, options = named["StringExpr"]["Strptime"]
        if kind != {"Literal": "Date"}:
            raise Refused("a time")
        return parsed(cast(computed(inputs[0], columns), TEXT), options["format"] or "%Y-%m-%d")
    values = [computed(tree, columns) for tree in inputs]
    first = values[0]
    match family, name:
        case "", "StructExpr":
            return first
        case "Boolean", "IsNull":
            return Value(~first.known, tf.constant(True), TRUTH)
        case "Boolean", "IsNotNull":
            return Value(first.known, tf.constant(True), TRUTH)
        case "", "Abs" if first.kind in (WHOLE, NUMBER):
            return first._replace(tensor=tf.abs(first.tensor))
        case "", "Coalesce" | "FillNull":
            return first_known(values)
        case "", "MaxHorizontal" | "MinHorizontal":
            return extreme(alike(*values), name == "MaxHorizontal")
        case ("", "Ceil" | "Floor") if first.kind == WHOLE:
            return first
        case "TemporalExpr", part if first.kind == DATE:
            return Value(part_of_date(first.tensor, part), first.known, WHOLE)
        case "StringExpr", "StripChars" if values[1].kind == NOTHING:
            text = cast(first, TEXT)
            return text._replace(tensor=tf.strings.strip(text.tensor))
        case "StringExpr", "StartsWith" | "EndsWith":
            affix = inputs[1].get("Literal", {}).get("Scalar", {}).get("String")
            if affix is None:
                raise Refused(f"`{name}` of a column")
            text, literal_affix = cast(first, TEXT), re.escape(affix)
            pattern = f"(?s){literal_affix}.*" if name == "StartsWith" else f"(?s).*{literal_affix}"
            return Value(tf.strings.regex_full_match(text.tensor, pattern), text.known, TRUTH)
    if (family, name) not in FUNCTIONS:
        raise Refused(f"`{name}`")
    given, compute, kind = FUNCTIONS[family, name]
    values = [cast(value, given) for value in values]
    known = functools.reduce(operator.and_, (value.known for value in values))
    return Value(compute(*(value.tensor for value in values)), known, kind)


def is_in(value: Value, listed: Tree) -> Value:
    """Whether a value is in a list of literals."""
    series = listed.get("Literal", {}).get("Series")
    if series is None:
        raise Refused("a list of columns")
    members = sql.read_tree({"Literal": {"Series": series}})
    found = pl.select(members).to_series().explode()
    kinds = {int: WHOLE, float: NUMBER, str: TEXT, bool: TRUTH}
    met = tf.constant(False)
    for member in found.drop_nulls().to_list():
        if type(member) not in kinds:
            raise Refused(f"a list of {type(member).__name__}")
        one, other = alike(
            value, Value(tf.constant(member, TENSORS[kinds[type(member)]]), tf.constant(True), kinds[type(member)])
        )
        met |= one.tensor == other.tensor
    return Value(met, value.known, TRUTH)


def extreme(values: Sequence[Value], largest: bool) -> Value:
    """The largest or smallest of the values that are known."""
    found = values[0]
    if found.kind not in (WHOLE, NUMBER):
        raise Refused(f"the extreme of a {found.kind}")
    for value in values[1:]:
        better = value.tensor > found.tensor if largest else value.tensor < found.tensor
        taken = value.known & (better | ~found.known)
        found = Value(tf.where(taken, value.tensor, found.tensor), found.known | value.known, found.kind)
    return found


# Dates ----------------------------------------------------------------------------------------------------------------

DIRECTIVES = {"Y": "[0-9]{4}", "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "H": "[0-9]{1,2}", "M": "[0-9]{1,2}"} | {
    "S": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "p": "[AaPp][Mm]",
}
"""The parts of a date or a time that are read, and what each looks like."""


def parsed(text: Value, form: str, clock: bool = False) -> Value:
    """A text as a date, or with `clock` as a time of day, hours and minutes (741 is 07:41). Raises Refused for parts of the
    format that are not read."""
    pattern, places = "", dict[str, int]()
    words = re.findall(r"%.|[^%]+", form)
    for word in words:
        if word.startswith("%"):
            if word[1] not in DIRECTIVES:
                raise Refused(f"`{word}` in the format `{form}`")
            places[word[1]] = len(places) + 1
            pattern += f"({DIRECTIVES[word[1]]})"
        else:
            pattern += re.escape(word)
    lacking = [
        part for part in ("HM" if clock else "Ymd") if part not in places and not (part == "H" and "I" in places)
    ]
    if lacking:
        raise Refused(f"the format `{form}`, which lacks `%{lacking[0]}`,")
    known = text.known & tf.strings.regex_full_match(text.tensor, pattern)
    safe = tf.where(known, text.tensor, "")

    def part(name: str) -> tf.Tensor:
        found = tf.strings.regex_replace(safe, f"^{pattern}$", rf"\{places[name]}")
        return tf.strings.to_number(tf.where(known, found, "1"), tf.int64)

    if clock:
        minutes = part("M")
        hours = part("H") if "H" in places else part("I") % 12
        if "H" not in places and "p" in places:
            half = tf.strings.regex_replace(safe, f"^{pattern}$", rf"\{places['p']}")
            hours += 12 * tf.cast(tf.strings.lower(half) == "pm", tf.int64)
        known &= (hours < 24) & (minutes < 60)
        return Value(100 * hours + minutes, known, WHOLE)
    year, month, day = (part(name) for name in "Ymd")
    days = days_of(year, month, day)
    same = tf.reduce_all(tf.stack([a == b for a, b in zip(civil(days), (year, month, day), strict=True)]), axis=0)
    return Value(days, known & same, DATE)


def days_of(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Days since 1970, by Hinnant's `days_from_civil` (howardhinnant.github.io/date_algorithms.html)."""
    year -= tf.cast(month <= 2, tf.int64)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + tf.where(month > 2, tf.constant(-3, tf.int64), 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil(days: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Year, month and day, by Hinnant's `civil_from_days`."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    place = (5 * of_year + 2) // 153
    day = of_year - (153 * place + 2) // 5 + 1
    month = tf.where(place < 10, place + 3, place - 9)
    return year + era * 400 + tf.cast(month <= 2, tf.int64), month, day


def part_of_date(days: tf.Tensor, part: str) -> tf.Tensor:
    """A part of a date by its name in polars. Raises Refused."""
    year, month, day = civil(days)
    parts = {"Year": year, "Month": month, "Day": day, "Quarter": (month + 2) // 3, "WeekDay": (days + 3) % 7 + 1}
    parts["OrdinalDay"] = days - days_of(year, tf.ones_like(month), tf.ones_like(day)) + 1
    if part not in parts:
        raise Refused(f"`{part}` of a date")
    return parts[part]
