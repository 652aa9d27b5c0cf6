"""Parse R-style formulas with formulaic, and refuse by name what the engine cannot fit."""

import ast
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

from tfglm.config.responses import computed_response
from tfglm.design import arithmetic
from tfglm.design.hints import QUOTED, hints
from tfglm.design.splines import SMOOTH
from tfglm.design.terms import INTERCEPT
from tfglm.design.transforms import TRANSFORMS, FormulaCall
from tfglm.errors import Problems, UserError, short

MOST_TERMS, MOST_PRODUCTS = 1_000, 100_000
"""Most terms of a formula while products are multiplied out, before equal terms are merged."""

CODINGS = ("contr.sum", "contr.helmert", "contr.poly", "contr.diff")
"""Contrasts of the levels of a factor (design.codings)."""

ALSO_CALLED = {"Sum": "contr.sum", "Helmert": "contr.helmert", "Poly": "contr.poly", "Diff": "contr.diff"}
"""Of patsy."""


@dataclass(frozen=True)
class FormulaFactor:
    """One factor of a term: `name` as it was written, its column, and what is done with the column's values.

    `categorical` if `C()` asks for levels, then `reference` may name one, or `coding` contrasts of CODINGS; `calls` are the
    functions applied to numbers, the innermost first. `is_indicator` if fixest's `i()` names the reference. The levels of
    `s(g, bs=re)` have random effects, `is_random`; they multiply the number of `s(g, x, bs=re)`. `is_by` is
    the factor or the number of `s(x, by=z)`. `surface` is the name of the `te(x, z)` that the factor is one column of.
    """

    name: str
    column: str
    categorical: bool = False
    reference: str | None = None
    calls: tuple[FormulaCall, ...] = ()
    coding: str | None = None
    is_indicator: bool = field(default=False, compare=False)
    is_random: bool = False
    is_by: bool = field(default=False, compare=False)
    surface: str = ""
    beside: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Its column, and the other one of `s(x, z)`, `beside` it."""
        return (self.column, *self.beside)

    @property
    def is_smooth(self) -> bool:
        """Whether it is a penalised spline."""
        return bool(self.calls) and self.calls[-1].function in SMOOTH


@dataclass(frozen=True)
class FormulaTerm:
    """A product of factors; with one factor, a main effect."""

    factors: tuple[FormulaFactor, ...]

    @property
    def name(self) -> str:
        random = [factor.name for factor in self.factors if factor.is_random]
        return ":".join(random[:1] or self.multiplied)

    @property
    def is_smooth(self) -> bool:
        """Whether it is a penalised curve or surface."""
        return any(factor.is_smooth for factor in self.factors)

    @property
    def multiplied(self) -> list[str]:
        """What the formula multiplies: a tensor product is one factor there."""
        return list(dict.fromkeys(factor.surface or factor.name for factor in self.factors))


@dataclass(frozen=True)
class ParsedFormula:
    """The response column, whether there is an intercept, and the terms: main effects first, then by the number of factors, as
    R orders them."""

    response: str
    intercept: bool
    terms: tuple[FormulaTerm, ...]


def parse(formula: str, where: str, whole: bool = True) -> ParsedFormula:
    """Parse a formula. `where` is the config key that the errors name. One that is not the `whole` of a model's, as some of its
    terms that a key names, need not have what `i()` compares with.

    Raises UserError for what is not a formula, and for what the engine cannot fit, with what to write for what other programs
    would take.

    >>> [term.name for term in parse("late ~ carrier * origin + log(distance)", "models.m.formula").terms]
    ['carrier', 'origin', 'log(distance)', 'carrier:origin']
    >>> parse("late ~ 0 + C(month)", "models.m.formula").intercept
    False
    """
    try:
        parsed = _parsed(formula, where)
        if whole:
            check_indicators(parsed.terms, parsed.intercept, where)
            parsed = replace(parsed, terms=tuple(smooth_terms(parsed.terms, where)))
            centred = (term for term in parsed.terms if not any(factor.is_by for factor in term.factors))
            surface = next((factor.surface for term in centred for factor in term.factors if factor.surface), None)
            if surface and not parsed.intercept:
                raise UserError(f"{where}: `{surface}` needs the intercept; take the 0 or - 1 out of the formula")
        return parsed
    except UserError as error:
        raise UserError("\n  ".join([str(error), *hints(formula)])) from error


def _parsed(formula: str, where: str) -> ParsedFormula:
    parser = formulaic_parser()
    shown = short(formula)
    try:
        computed = computed_response(formula)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    if computed:
        formula = f"{computed.column} ~{formula.partition('~')[2]}"
    formula = without_bars(formula, where)
    # Before formulaic formats calls as Python, where ^ binds weaker than + and loses the parentheses of (x - 1)^2.
    formula = in_python(formula)
    try:
        products = most_products(parser.get_ast(formula))
        parsed = parser.get_terms(formula) if products <= MOST_PRODUCTS else None
    # The parser answers what is no formula by whatever happens to it, such as TypeError or RecursionError.
    except Exception as error:
        line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        sentence, _, _ = line.partition(". ")
        raise UserError(f"{where}: not a formula: `{shown}`: {sentence}") from error
    if parsed is None or len(getattr(parsed, "rhs", ())) > MOST_TERMS:
        raise UserError(f"{where}: `{shown}` stands for more than {MOST_TERMS:,} terms; leave out interactions")
    if isinstance(getattr(parsed, "rhs", parsed), tuple):
        raise UserError(f"{where}: `{shown}` has several parts (`|`), which is not supported; write `+` or `:`")
    if not hasattr(parsed, "lhs") or len(parsed.lhs) != 1:
        raise UserError(f"{where}: `{shown}` needs one response, as in `late ~ carrier + distance`")
    (left,) = parsed.lhs
    if len(left.factors) != 1 or left.factors[0].eval_method.value != "lookup":
        raise UserError(f"{where}: the response `{left}` must be a column")
    intercept = "1" in map(str, parsed.rhs)
    terms: list[FormulaTerm] = []
    problems = Problems()
    for term in sorted(parsed.rhs, key=lambda term: term.degree):
        with problems.collected():
            if str(term) != "1":
                factors = [
                    each for factor in term.factors for each in parse_factors(factor.expr, as_in_r(str(term)), where)
                ]
                # `i(month, x)` and `x` may have a factor in common.
                terms.append(FormulaTerm(tuple({factor.name: factor for factor in factors}.values())))
                if terms[-1].name == INTERCEPT:
                    raise UserError(
                        f"{where}: `{INTERCEPT}` is what the constant is called in all tables; give the column another name in "
                        "its layout or under data.derive"
                    )
    problems.check()
    terms = unique_terms(terms, where)
    if not (terms or intercept):
        raise UserError(f"{where}: `{shown}` has no terms; add a column, as in `late ~ carrier`, or write `late ~ 1`")
    return ParsedFormula(left.factors[0].expr, intercept, tuple(terms))


@cache
def formulaic_parser() -> Any:
    """The parser of formulaic. The package itself would also import pandas, SciPy and PyArrow to build matrices: 0.6 s for each
    process that parses."""
    if "formulaic" in sys.modules:
        return import_module("formulaic.parser").DefaultFormulaParser()
    spec = find_spec("formulaic")
    assert spec
    sys.modules["formulaic"] = module_from_spec(spec)
    try:
        return import_module("formulaic.parser").DefaultFormulaParser()
    finally:
        del sys.modules["formulaic"]  # whoever imports it later gets the whole package


BAR = re.compile(r"\(([^()|]*)(\|\|?)([^()|]*)\)")
"""lme4's notation of random effects, as in `(1 | carrier)`."""


def without_bars(formula: str, where: str) -> str:
    """A formula with `s(g, bs=re)` for lme4's `(1 | g)`, `s(g, x, bs=re)` for `(0 + x | g)`, and both for `(x || g)`.

    Raises UserError for correlated random effects, and for other terms with a bar in parentheses.

    >>> without_bars("late ~ hour + (1 | plane) + (hour || carrier)", "models.m.formula")
    'late ~ hour + s(plane, bs=re) + s(carrier, bs=re) + s(carrier, hour, bs=re)'
    """

    def in_s(match: re.Match[str]) -> str:
        effects, bars, group = (text.strip() for text in match.groups())
        names = [name.strip() for name in effects.split("+")]
        slopes = [name for name in names if name not in ("0", "1")]
        if not group.isidentifier() or not all(name.isidentifier() for name in slopes) or not effects:
            raise UserError(
                f"{where}: `{short(match[0])}`: random effects are written (1 | carrier), (0 + hour | carrier) or (hour || "
                "carrier), with the names of columns"
            )
        has_intercept = "0" not in names
        if bars == "|" and slopes and (has_intercept or len(slopes) > 1):
            raise UserError(
                f"{where}: `{short(match[0])}` has correlated random effects, which cannot be fitted; write "
                f"({effects} || {group}) for independent ones"
            )
        terms = [f"s({group}, bs=re)"] * has_intercept + [f"s({group}, {name}, bs=re)" for name in slopes]
        return " + ".join(terms)

    return re.sub(rf"{QUOTED.pattern}|{BAR.pattern}", lambda match: in_s(match) if match[2] else match[0], formula)


def most_products(tree: Any) -> float:
    """How many terms a parsed formula stands for at most, before they are multiplied out: `(a + b)**30` would be a thousand
    million. Raises ValueError for an exponent that is no whole number, and for a power of a single term."""
    if tree is None:
        return 0
    # Parents before their operands, without recursion, which a long sum would end.
    nodes = [tree]
    for node in nodes:
        nodes.extend(getattr(node, "args", ()))
    counts: dict[int, float] = {}
    for node in reversed(nodes):
        symbol = node.operator.symbol if hasattr(node, "operator") else None
        operands = [counts[id(operand)] for operand in getattr(node, "args", ())]
        if symbol in ("*", ":", "%in%", "/"):
            counts[id(node)] = sum(operands) + math.prod(operands)
        elif symbol in ("**", "^"):
            counts[id(node)] = power(operands[0], str(node.args[1]))
            base = node.args[0]
            if not hasattr(base, "operator") and counts[id(node)] <= MOST_PRODUCTS:
                raise ValueError(
                    f"`{base}^{node.args[1]}` would be `{base}`, which crossed with itself is no other term; a power is "
                    f"`I({base}^{node.args[1]})`"
                )
        else:
            counts[id(node)] = sum(operands) if symbol else 1
    return counts[id(tree)]


def power(terms: float, exponent: str) -> float:
    """Return the number of products of so many terms; one term has as many factors."""
    if not exponent.isdecimal():
        raise ValueError(f"the exponent of `**` must be a whole number, not `{exponent}`")
    try:
        return max(terms ** float(exponent), float(exponent))
    except OverflowError:
        return math.inf


def parse_factors(expression: str, term: str, where: str) -> list[FormulaFactor]:
    """One factor, or those that fixest's `i(month, distance, ref=1)`, `s(distance, by=carrier)` and `te(hour, distance)` stand
    for."""
    if expression.startswith("s("):
        return parse_smooth(expression, term, where)
    if expression.startswith("te("):
        return parse_tensor_product(expression, term, where)
    if not expression.startswith("i("):
        return [parse_factor(expression, term, where)]
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise not_supported(term, where) from None
    match node:
        case ast.Call(args=[ast.Name(column), *others], keywords=keywords) if len(others) <= 1 and all(
            keyword.arg == "ref" for keyword in keywords
        ):
            reference = level_of(keywords[0].value, term, where) if keywords else None
            levels = FormulaFactor(f"C({column})", column, True, reference, is_indicator=reference is not None)
            return [levels, *(parse_factor(ast.unparse(other), term, where) for other in others)]
    raise UserError(
        f"{where}: `{short(term)}`: i() takes a column, a number that it multiplies, and ref, as in i(month, distance, ref=1)"
    )


def parse_smooth(expression: str, term: str, where: str) -> list[FormulaFactor]:
    """The factors of `s(x, k=20, bs=cr)`, `s(x, z)`, `s(x, by=g)`, `s(g, bs=re)` or `s(g, x, bs=re)`."""
    try:
        node = ast.parse(in_python(expression), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise not_supported(term, where) from None
    is_random = isinstance(node, ast.Call) and [ast.unparse(each) for each in node.keywords] in (["bs='re'"], ["bs=re"])
    if not isinstance(node, ast.Call) or not 1 <= len(node.args) <= 2:
        several = "; for a smooth of more write te(hour, distance, month)"
        raise UserError(
            f"{where}: `{short(term)}`: s() takes one column or two, and k, bs and by, as in s(distance, k=20, bs=cr)"
            f"{several if isinstance(node, ast.Call) and len(node.args) > 1 else ''}"
        )
    name = as_in_r(ast.unparse(node)).replace("'", "")
    if is_random:
        if not all(isinstance(each, ast.Name) for each in node.args):
            raise UserError(
                f"{where}: `{short(term)}`: s() with bs=re takes the name of one column, as in s(carrier, bs=re), or of a factor "
                "and a number, as in s(carrier, distance, bs=re)"
            )
        group, *slope = [ast.unparse(each) for each in node.args]
        levels = FormulaFactor(name, group, categorical=True, is_random=True)
        return [levels, *(FormulaFactor(number, number) for number in slope)]
    by = [keyword.value for keyword in node.keywords if keyword.arg == "by"]
    node.keywords = [keyword for keyword in node.keywords if keyword.arg != "by"]
    name = as_in_r(ast.unparse(node)).replace("'", "")
    for keyword in node.keywords:
        if keyword.arg == "bs" and isinstance(keyword.value, ast.Name):
            keyword.value = ast.Constant(keyword.value.id)
    beside = in_the_plane(node, f"{where}: `{short(term)}`")
    factor = replace(parse_factor(ast.unparse(node), term, where), name=name, beside=beside)
    if not by:
        return [factor]
    return [factor, multiplier_of(by[0], factor.columns, f"{where}: `{short(term)}`")]


def multiplier_of(node: ast.expr, columns: Sequence[str], place: str) -> FormulaFactor:
    """The column `by` of a smooth of these columns. Raises UserError, which begins with `place`, for what is no other column."""
    if not isinstance(node, ast.Name) or node.id in columns:
        raise UserError(
            f"{place}: by is another column: a factor, as in s(distance, by=carrier), or a number that multiplies the curve; "
            "define others under data.derive"
        )
    return FormulaFactor(node.id, node.id, is_by=True)


def in_the_plane(node: ast.Call, place: str) -> tuple[str, ...]:
    """Take the second column out of `s(x, z)`, whose options become explicit, and return it; none of `s(x)`.

    Raises UserError, which begins with `place`, for what is no name of a column, and for a basis of one column."""
    if len(node.args) == 1:
        return ()
    names = [each.id if isinstance(each, ast.Name) else "" for each in node.args]
    if not all(names) or names[0] == names[1]:
        raise UserError(
            f"{place}: s() of two columns takes the names of two, as in s(lon, lat); define other columns under data.derive"
        )
    given = {each.arg: ast.unparse(each.value).strip("'\"") for each in node.keywords}
    if given.get("bs", "tp") != "tp":
        raise UserError(f"{place}: s() of two columns has bs=tp alone; for other bases write te({', '.join(names)})")
    if given.get("k", "30").isdecimal() and int(given.get("k", "30")) < LEAST_IN_THE_PLANE:
        raise UserError(f"{place}: k of s() of two columns must be a whole number from {LEAST_IN_THE_PLANE}")
    defaults = {"bs": ast.Constant("tp"), "k": ast.Constant(30)}
    node.keywords += [ast.keyword(key, value) for key, value in defaults.items() if key not in given]
    return (names[1],) if node.args.pop() else ()


LEAST_IN_THE_PLANE = 4
"""The smallest k of `s(x, z)`."""

OF_MARGINS = ("k", "bs", "sp", "lower_bound", "upper_bound")
"""The options of `te`."""

MOST_OF_SURFACE = 1_000
"""Coefficients of a tensor product. Each is a number to be computed for every row."""


def parse_tensor_product(expression: str, term: str, where: str) -> list[FormulaFactor]:
    """The factors of `te(x, z, k=[5, 8], bs=cr)`, one for each column. Bounds belong to the columns with bs=cc."""
    try:
        node = ast.parse(in_python(expression), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise not_supported(term, where) from None
    place = f"{where}: `{short(term)}`"
    keywords = {each.arg: each.value for each in node.keywords} if isinstance(node, ast.Call) else {}
    by = keywords.pop("by", None)
    if not isinstance(node, ast.Call) or len(node.args) < 2 or not set(keywords) <= set(OF_MARGINS):
        raise UserError(
            f"{place}: te() takes two columns or more, by, and {', '.join(OF_MARGINS)}, each as one value or as a list with one "
            "for each column, as in te(hour, distance, k=[5, 8])"
        )
    node.keywords = [keyword for keyword in node.keywords if keyword.arg != "by"]
    name, size = as_in_r(ast.unparse(node)).replace("'", ""), len(node.args)

    def in_turn(key: str) -> list[ast.expr]:
        """The values of an option: of each column, or a bound of each with bs=cc."""
        value, number = keywords[key], periodic.count(True) if key.endswith("bound") else size
        values = value.elts if isinstance(value, ast.List | ast.Tuple) else [value] * number
        if not number:
            raise UserError(f"{place}: te() takes {key} with bs=cc alone")
        if len(values) != number:
            of_columns = f"column{'' if number == 1 else 's'}{' with bs=cc' if key.endswith('bound') else ''}"
            raise UserError(f"{place}: {key} is a list of {len(values)} for {number} {of_columns}")
        return [ast.Constant(each.id) if isinstance(each, ast.Name) else each for each in values]

    options: list[dict[str, ast.expr]] = [{} for _ in range(size)]
    bases = in_turn("bs") if "bs" in keywords else [ast.Constant("cr")] * size
    periodic = [isinstance(basis, ast.Constant) and basis.value == "cc" for basis in bases]
    for key in (key for key in OF_MARGINS if key in keywords):
        bounded = [each for each, is_periodic in zip(options, periodic, strict=True) if is_periodic]
        for each, value in zip(bounded if key.endswith("bound") else options, in_turn(key), strict=True):
            each[key] = value
    factors, width = [], 1
    for column, own in zip(node.args, options, strict=True):
        call = ast.Call(ast.Name("te"), [column], [ast.keyword(key, value) for key, value in own.items()])
        factor = parse_factor(ast.unparse(call), term, where)
        factors.append(replace(factor, name=f"{as_in_r(ast.unparse(column))} in {name}", surface=name))
        asked = factor.calls[-1].options
        width *= asked.get("k", 5) - (asked.get("bs") == "cc")
    names = [factor.column for factor in factors]
    if repeated := [column for column in names if names.count(column) > 1]:
        raise UserError(f"{place}: te() takes different columns, and `{repeated[0]}` is there twice; take one out")
    if width - 1 > MOST_OF_SURFACE:
        raise UserError(
            f"{place} has {width - 1:,} coefficients, of {MOST_OF_SURFACE:,} at most: k of all columns are multiplied; choose "
            "smaller ones"
        )
    return factors if by is None else [*factors, multiplier_of(by, names, place)]


def smooth_terms(terms: Sequence[FormulaTerm], where: str) -> list[FormulaTerm]:
    """The terms, with the factor of each `by` under the name of its own term. A `by` without one may be a number
    (kinds.check_smooths).

    Raises UserError for a smooth in a product.
    """
    alone = [term.factors[0] for term in terms if len(term.factors) == 1]
    result = {term.name: term for term in terms}
    for term in terms:
        smooth = next((factor for factor in term.factors if factor.is_smooth), None)
        if not smooth:
            continue
        own = [
            factor
            for factor in term.factors
            if factor is smooth or (smooth.surface and factor.surface == smooth.surface)
        ]
        others = [factor for factor in term.factors if factor not in own]
        if len(others) > 1 or any(not factor.is_by for factor in others):
            raise UserError(
                f"{where}: `{term.name}`: a smooth is no factor of a product; for a curve at each level of a factor write "
                f"s({smooth.column}, by=factor)"
            )
        for by in others:
            is_main = (other for other in alone if other.column == by.column and not (other.calls or other.is_random))
            result[term.name] = FormulaTerm((*own, next(is_main, by)))
    return list(result.values())


def level_of(node: ast.expr, term: str, where: str) -> str:
    """A level that a formula names."""
    try:
        level = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        level = None
    if type(level) not in (int, str):
        raise UserError(f"{where}: `{short(term)}`: ref is one level, as in i(month, ref=1) or i(carrier, ref='AA')")
    return str(level)


def unique_terms(terms: Sequence[FormulaTerm], where: str) -> list[FormulaTerm]:
    """Terms by the number of their factors, each once: `C(month) + i(month, ref=1)` are one. Raises UserError for one with two
    reference levels."""
    by_name: dict[str, FormulaTerm] = {}
    for term in sorted(terms, key=lambda term: len(term.multiplied)):
        before = by_name.setdefault(term.name, term)
        for factor, other in zip(before.factors, term.factors, strict=True):
            if factor.reference and other.reference and factor.reference != other.reference:
                raise UserError(
                    f"{where}: `{factor.name}` has two reference levels, {factor.reference} and {other.reference}"
                )
        if any(factor.reference for factor in term.factors):
            by_name[term.name] = term
    return list(by_name.values())


def check_indicators(terms: Sequence[FormulaTerm], intercept: bool, where: str) -> None:
    """Raise UserError for `i(month, distance, ref=1)` where no other term has the effect at the reference level: it would be held
    at zero there, which a coefficient for each level does not do."""
    names = [{factor.name for factor in term.factors} for term in terms]
    for term in terms:
        for factor in (factor for factor in term.factors if factor.is_indicator):
            others = [other.name for other in term.factors if other.name != factor.name]
            # Without an intercept, the first factor has a coefficient for every level.
            has_constant = intercept or (len(terms[0].factors) == 1 and terms[0] is not term)
            if set(others) not in names and not (has_constant and not others):
                effect = ":".join(others) or "1"
                raise UserError(
                    f"{where}: `{term.name}`: i() with ref={factor.reference} compares with the effect at that level, "
                    f"which needs the term `{effect}`; add `{effect}`, or leave ref out for an effect at each level"
                )


def parse_factor(expression: str, term: str, where: str) -> FormulaFactor:
    """One factor, a column or nested calls around a column. Raises UserError, which names `term`, for anything else."""
    if not expression.startswith(tuple("0123456789(")) and expression.isidentifier():
        return FormulaFactor(expression, expression)
    try:
        node = ast.parse(in_python(expression), mode="eval").body
        name = as_in_r(ast.unparse(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise not_supported(term, where) from None
    calls: list[FormulaCall] = []
    while isinstance(node, ast.Call):
        function, arguments = called(node, term, where)
        if function == "C":
            if calls or not isinstance(node.args[0], ast.Name):
                raise UserError(f"{where}: `{short(term)}`: C() takes a column and must be a factor of its own")
            return parse_factor_call(node, node.args[0].id, term, where)
        node = node.args[0]
        if function != "I" and not arithmetic.is_arithmetic(node):
            calls.append(arguments)
            continue
        computed, node = arithmetic_of(node, term, where)
        calls += [computed] if function == "I" else [arguments, computed]
    if not isinstance(node, ast.Name) or not calls:
        raise not_supported(term, where)
    return FormulaFactor(name, node.id, calls=tuple(reversed(calls)))


def in_python(formula: str) -> str:
    """A formula with `**` for R's `^`, except in quotes."""
    return re.sub(rf"{QUOTED.pattern}|\^", lambda match: "**" if match[0] == "^" else match[0], formula)


def as_in_r(name: str) -> str:
    """A factor as R writes it: `I((x - 1)/10)`, `I(x^2)`."""
    return name.replace(" ** ", "^").replace(" / ", "/")


def arithmetic_of(node: ast.expr, term: str, where: str) -> tuple[FormulaCall, ast.Name]:
    """Arithmetic as a function of its column, and the column. Raises UserError for anything else."""
    try:
        tree, columns = arithmetic.tree_of(node)
    except ValueError as error:
        raise UserError(f"{where}: `{short(term)}`: {error}; define a column for it under data.derive") from None
    if len(columns) != 1:
        several = (
            f"is of one column, not of {', '.join(sorted(columns))}; write a:b for a product of columns, and define a column "
            "under data.derive for all else"
        )
        raise UserError(f"{where}: `{short(term)}`: arithmetic {several if columns else 'needs a column'}")
    return FormulaCall("I", {"expression": tree}), ast.Name(columns.pop())


def called(node: ast.Call, term: str, where: str) -> tuple[str, FormulaCall]:
    """The name of the function that is called, and the call without its first argument, which is what it is applied to."""
    name = ast.unparse(node.func).removeprefix("np.")
    if name in ("C", "I") and node.args:
        if name == "I" and (len(node.args) > 1 or node.keywords):
            raise UserError(f"{where}: `{short(term)}`: I() takes one expression, as in I(distance^2)")
        return name, FormulaCall(name, {})
    if name not in TRANSFORMS:
        lower = name.lower()
        raise not_supported(term, where, f"; did you mean `{lower}`?" if lower in TRANSFORMS else "")
    if not node.args:
        raise UserError(f"{where}: `{short(term)}`: {name}() takes a column")
    known = TRANSFORMS[name].options
    named = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    placed = dict(zip(known, node.args[1:], strict=False))
    if len(node.args) - 1 > len(known) or set(named) - set(known) or set(named) & set(placed):
        raise UserError(
            f"{where}: `{short(term)}`: {name}() takes "
            + (f"the arguments {', '.join(known)}, each once" if known else "one column")
        )
    try:
        given: dict[str, Any] = {key: ast.literal_eval(value) for key, value in (placed | named).items()}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise UserError(
            f"{where}: `{short(term)}`: the arguments of {name}() must be numbers or lists of numbers, True or False"
        ) from None
    problem = TRANSFORMS[name].problem(given)
    if problem:
        raise UserError(f"{where}: `{short(term)}`: {problem}")
    return name, FormulaCall(name, given)


def parse_factor_call(node: ast.Call, column: str, term: str, where: str) -> FormulaFactor:
    """The factor of `C(column)`, `C(column, Treatment("level"))` or `C(column, contr.sum)`. Raises UserError for any other."""
    match node:
        case ast.Call(args=[_], keywords=[]):
            return FormulaFactor(f"C({column})", column, True)
        case (
            ast.Call(args=[_, ast.Call(func=function, args=[ast.Constant(value)], keywords=[])], keywords=[])
            | ast.Call(
                args=[_, ast.Call(func=function, args=[], keywords=[ast.keyword("base", ast.Constant(value))])],
                keywords=[],
            )
        ) if ast.unparse(function) in ("Treatment", "contr.treatment"):
            return FormulaFactor(f"C({column})", column, True, str(value))
        case ast.Call(args=[_, ast.Call(func=function, args=[], keywords=[]) | function], keywords=[]):
            coding = ast.unparse(function)
            coding = ALSO_CALLED.get(coding, coding)
            if coding in CODINGS:
                return FormulaFactor(f"C({column}, {coding})", column, True, coding=coding)
            if coding in ("Treatment", "contr.treatment"):
                return FormulaFactor(f"C({column})", column, True)
    raise UserError(
        f'{where}: `{short(term)}`: C() takes a column, and a reference level as in C(month, Treatment("6")), or one of '
        f"{', '.join(CODINGS)}"
    )


def not_supported(term: str, where: str, remedy: str = "") -> UserError:
    return UserError(
        f"{where}: `{short(term)}` is not supported{remedy}; define a column for it under data.derive\n"
        f"  the functions are: C, i, {', '.join(TRANSFORMS)}"
    )
