"""Parse R-style formulas into typed terms, and refuse by name what the engine cannot fit."""

import ast
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from tfglm.errors import Problems, UserError, short
from tfglm.formula import arithmetic
from tfglm.formula.functions import FUNCTIONS
from tfglm.formula.hints import example, hints
from tfglm.formula.names import without_class
from tfglm.formula.parts import event_study
from tfglm.formula.response import computed_response
from tfglm.formula.terms import (
    CODINGS,
    INTERCEPT,
    NONE,
    ONE,
    CategoricalFactor,
    Covariate,
    EventStudy,
    Formula,
    FunctionCall,
    Interaction,
    Intercept,
    RandomEffects,
    Smooth,
    Term,
    Transformed,
)
from tfglm.formula.text import MOST_TERMS, QUOTED, Product, TooManyTermsError, as_in_r, in_tree, products_of, words_of

NO_CALL = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises for text that is no expression."""

ALSO_CALLED = {"Sum": "contr.sum", "Helmert": "contr.helmert", "Poly": "contr.poly", "Diff": "contr.diff"}
"""Of patsy."""


def parse(formula: str, where: str, whole: bool = True, absorb: Collection[str] = ()) -> Formula:
    """Parse a formula. `where` is the config key that the errors name. One that is not the `whole` of a model's, as some of its
    terms that a key names, need not have what `i()` compares with; one with columns to `absorb` may have it there.

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
            if not absorb:
                check_indicators(parsed.terms, parsed.intercept, where)
            parsed = replace(parsed, terms=tuple(with_main_effect(term, parsed.terms) for term in parsed.terms))
            surface = next((term for term in parsed.terms if term.has_constant and not term.by), None)
            if surface and not parsed.intercept:
                raise UserError(f"{where}: `{surface.name}` needs the intercept; take the 0 or - 1 out of the formula")
        return parsed
    except UserError as error:
        raise UserError("\n  ".join([str(error), *hints(formula)])) from error


def _parsed(formula: str, where: str) -> Formula:
    shown = short(formula)
    try:
        computed = computed_response(formula)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    left, tilde, right = without_bars(formula, where).partition("~")
    response = computed.column if computed else left.strip(" `\t\n")
    try:
        words = words_of(right if tilde else left)
        if "|" in words:
            raise UserError(
                f"{where}: `{shown}` has several parts (`|`), which is not supported here; write `+` or `:`"
            )
        products = sorted(products_of([normalised(word) for word in words]), key=len)
    except TooManyTermsError:
        raise UserError(
            f"{where}: `{shown}` stands for more than {MOST_TERMS:,} terms; leave out interactions"
        ) from None
    except NO_CALL as error:
        raise UserError(f"{where}: not a formula: `{shown}`: {error}") from error
    if not response or not tilde:
        raise UserError(f"{where}: `{shown}` needs one response, {example(left, 'as in `y ~ {x}`')}")
    if not response.isidentifier():
        raise UserError(f"{where}: the response `{response}` must be a column")
    found: list[Term] = []
    problems = Problems()
    for product in filter(None, products):
        with problems.collected():
            found.append(parse_product(product, where))
            if found[-1].name == INTERCEPT:
                raise UserError(
                    f"{where}: `{INTERCEPT}` is what the constant is called in all tables; give the column another name in "
                    "its layout or under data.derive"
                )
    problems.check()
    terms, intercept = unique_terms(found, where), () in products
    if not (terms or intercept):
        raise UserError(f"{where}: `{shown}` has no terms; add a column, or write `{response} ~ 1`")
    return Formula(response, intercept, tuple(terms))


def normalised(word: str) -> str:
    """A call as Python writes it, and anything else as it is. Raises SyntaxError for what is no call."""
    return ast.unparse(in_tree(word)) if "(" in word[1:] else word


def parse_product(product: Product, where: str) -> Term:
    """The term of the texts that are multiplied. Raises UserError for a smooth in a product."""
    written = as_in_r(":".join(product))
    terms = [parse_term(text, written, where) for text in product]
    for term in terms if len(terms) > 1 else ():
        if term.is_smooth or term.is_random:
            raise UserError(
                f"{where}: `{written}`: a smooth is no factor of a product; for a curve at each level of a factor write "
                f"s({term.columns[0]}, by=factor)"
            )
    # `i(month, x)` and `x` may have a factor in common.
    factors = tuple({factor.name: factor for term in terms for factor in term.factors}.values())
    return terms[0] if len(terms) == 1 else factors[0] if len(factors) == 1 else Interaction(factors)


@lru_cache(maxsize=10_000)
def term_of(name: str) -> Term:
    """The term that a table names, without its class; a column of this name where no formula has such a term.

    >>> term_of("s(plane, hour, bs=re)")
    RandomEffects(group='plane', slope='hour', beside=())
    """
    bare = without_class(name)
    try:
        words = words_of(bare)
        factors = [parse_term(normalised(word), bare, bare) for word in words[::2]]
    except (*NO_CALL, UserError):
        words, factors = [], []
    if bare == INTERCEPT or not factors or {*words[1::2]} - {":"}:
        return Intercept() if bare == INTERCEPT else Covariate(bare)
    first, *others = factors
    if isinstance(first, Smooth) and others and isinstance(others[0], Covariate):
        return replace(first, by=others[0])
    return Interaction(tuple(factors)) if others else first


BAR = re.compile(r"(?<![\w.])\(((?:[^()|]|\([^()|]*\))*)(\|\|?)((?:[^()|]|\([^()|]*\))*)\)")
"""lme4's notation of random effects, as in `(1 | carrier)`."""


def without_bars(formula: str, where: str) -> str:
    """A formula with `s(g, bs=re)` for lme4's `(1 | g)`, `s(g, x, bs=re)` for `(0 + x | g)`, and both for `(x || g)`. In
    `(x | g)` the slopes stand `beside` what they are correlated with.

    Raises UserError for other terms with a bar in parentheses.

    >>> without_bars("late ~ hour + (1 | plane) + (hour || carrier)", "models.m.formula")
    'late ~ hour + s(plane, bs=re) + s(carrier, bs=re) + s(carrier, hour, bs=re)'
    >>> without_bars("late ~ (hour | carrier)", "models.m.formula")
    'late ~ s(carrier, bs=re) + s(carrier, hour, bs=re, beside="1")'
    >>> without_bars("late ~ (0 + hour + miles | carrier)", "models.m.formula")
    'late ~ s(carrier, hour, bs=re, beside="0") + s(carrier, miles, bs=re, beside="0 + hour")'
    """

    def in_s(match: re.Match[str]) -> str:
        effects, bars, group = (text.strip() for text in match.groups())
        names = [name.strip() for name in effects.split("+")]
        slopes = [name for name in names if name not in ("0", "1")]
        if not group.isidentifier() or not all(name.isidentifier() for name in slopes) or not effects:
            raise UserError(
                f"{where}: `{short(match[0])}`: random effects are written (1 | g), (0 + x | g), (x | g) or (x || g), with the "
                "names of a number x and a factor g; define other columns under data.derive"
            )
        names = [NONE if "0" in names else ONE, *dict.fromkeys(slopes)]
        is_correlated = bars == "|" and len(names) > (2 if names[0] == NONE else 1)
        terms = []
        for place, name in enumerate(names):
            if name == NONE:
                continue
            beside = f', beside="{" + ".join(names[:place])}"' if is_correlated and place else ""
            terms.append(f"s({', '.join([group, *[name] * (name != ONE)])}, bs=re{beside})")
        return " + ".join(terms)

    return re.sub(rf"{QUOTED.pattern}|{BAR.pattern}", lambda match: in_s(match) if match[2] else match[0], formula)


def parse_term(expression: str, term: str, where: str) -> Term:
    """A factor of a product, or what s(), te() or fixest's i() stand for. Raises UserError, which names `term`, for anything
    else."""
    if expression.startswith("s("):
        return parse_smooth(call_of(expression, term, where), term, where)
    if expression.startswith(("te(", "ti(")):
        return parse_tensor_product(call_of(expression, term, where), term, where)
    if expression.startswith("sunab("):
        return parse_event_study(call_of(expression, term, where), term, where)
    if not expression.startswith("i("):
        return parse_factor(expression, term, where)
    match call_of(expression, term, where):
        case ast.Call(args=[ast.Name(column), *others], keywords=keywords) if len(others) + len(keywords) <= 2 and all(
            keyword.arg == "ref" for keyword in keywords
        ):
            references = [*others[1:], *(keyword.value for keyword in keywords)]
            reference = level_of(references[0], term, where) if references else None
            levels = CategoricalFactor(column, reference, is_indicator=reference is not None)
            match others:
                case []:
                    return levels
                case [ast.Attribute(ast.Name("i"), other), *_]:
                    return Interaction((levels, CategoricalFactor(other)))
            return Interaction((levels, parse_factor(ast.unparse(others[0]), term, where)))
    raise UserError(
        f"{where}: `{short(term)}`: i() takes a column, a number or factor that it multiplies, and ref, "
        + example(expression, "as in i({x}, {z}, ref='level')")
    )


def parse_event_study(node: ast.expr, term: str, where: str) -> EventStudy:
    """The term of fixest's `sunab(cohort, period, ref.p=-1)`."""
    match node:
        case ast.Call(args=[ast.Name(cohort), ast.Name(period)], keywords=[] | [ast.keyword("ref_p")] as keywords):
            before = [] if keywords else [-1]
            if keywords and ast.unparse(keywords[0].value) == "before":
                return EventStudy(event_study(cohort, period)[0], cohort=cohort, period=period, before=())
            with suppress(*NO_CALL, TypeError):
                before = ast.literal_eval(keywords[0].value) if keywords else before
                before = before if isinstance(before, list | tuple) else [before]
            if before and all(type(each) is int for each in before):
                return EventStudy(event_study(cohort, period)[0], cohort=cohort, period=period, before=tuple(before))
    raise UserError(
        f"{where}: `{short(term)}`: sunab() takes the columns of a cohort (when its units are first treated) and of a "
        "period, and as ref.p whole numbers of periods since the treatment or `before`, "
        + example(term.partition("(")[2], "as in sunab({x}, {z}, ref.p=-1)")
        + "; the table event_study has the average effect too, so there is no `att`"
    )


def call_of(expression: str, term: str, where: str) -> ast.expr:
    """An expression as Python has it. Raises UserError, which names `term`, for what is none."""
    try:
        return in_tree(expression)
    except NO_CALL:
        raise not_supported(term, where) from None


def written(node: ast.AST) -> str:
    """A call as tables name it."""
    return as_in_r(ast.unparse(node)).replace("'", "")


def parse_smooth(node: ast.expr, term: str, where: str) -> Term:
    """The term of `s(x, k=20, bs=cr)`, `s(x, z)`, `s(x, by=g)`, `s(g, bs=re)` or `s(g, x, bs=re)`."""
    if not isinstance(node, ast.Call) or not 1 <= len(node.args) <= 2:
        several = f"; for a smooth of more write te{written(node)[1:]}"
        raise UserError(
            f"{where}: `{short(term)}`: s() takes one column or two, and k, bs and by, "
            f"{example(term, 'as in s({x}, k=20, bs=cr)')}{several if isinstance(node, ast.Call) and len(node.args) > 1 else ''}"
        )
    options = {keyword.arg: written(keyword.value) for keyword in node.keywords if keyword.arg != "k"}
    if options.pop("bs", "") == "re" and options.keys() <= {"beside"}:  # which has no k in mgcv either
        if not all(isinstance(each, ast.Name) for each in node.args):
            raise UserError(
                f"{where}: `{short(term)}`: s() with bs=re takes the name of one column, "
                + example(term, "as in s({x}, bs=re), or of a factor and a number, as in s({x}, {z}, bs=re)")
            )
        group, slope = [*map(ast.unparse, node.args), ""][:2]
        return RandomEffects(group, slope, tuple(filter(None, options.get("beside", "").split(" + "))))
    by = without_by(node)
    name = written(node)
    for keyword in node.keywords:
        if keyword.arg == "bs" and isinstance(keyword.value, ast.Name):
            keyword.value = ast.Constant(keyword.value.id)
    beside = in_the_plane(node, f"{where}: `{short(term)}`")
    margin = parse_factor(ast.unparse(node), term, where)
    assert isinstance(margin, Transformed)
    return multiplied(Smooth(name, (replace(margin, written=name, beside=beside),)), by, f"{where}: `{short(term)}`")


def without_by(node: ast.Call) -> ast.expr | None:
    """Take `by` out of a call, and return it."""
    by = next((keyword.value for keyword in node.keywords if keyword.arg == "by"), None)
    node.keywords = [keyword for keyword in node.keywords if keyword.arg != "by"]
    return by


def multiplied(smooth: Smooth, by: ast.expr | None, place: str) -> Smooth:
    """A smooth with the column `by`. Raises UserError, which begins with `place`, for what is no other column."""
    if by is None:
        return smooth
    column = by.args[0] if isinstance(by, ast.Call) and ast.unparse(by.func) == "C" and len(by.args) == 1 else by
    if not isinstance(column, ast.Name) or column.id in smooth.smoothed:
        raise UserError(
            f"{place}: by is another column: a factor, or a number that multiplies the curve, as in "
            f"s({smooth.smoothed[0]}, by=g); define others under data.derive"
        )
    return replace(smooth, by=Covariate(column.id) if column is by else CategoricalFactor(column.id))


def in_the_plane(node: ast.Call, place: str) -> tuple[str, ...]:
    """Take the second column out of `s(x, z)`, whose options become explicit, and return it; none of `s(x)`.

    Raises UserError, which begins with `place`, for what is no name of a column, and for a basis of one column."""
    if len(node.args) == 1:
        return ()
    names = [each.id if isinstance(each, ast.Name) else "" for each in node.args]
    if not all(names) or names[0] == names[1]:
        raise UserError(
            f"{place}: s() of two columns takes the names of two, as in s(x, z); define other columns under data.derive"
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


def parse_tensor_product(node: ast.expr, term: str, where: str) -> Smooth:
    """The smooth of `te(x, z, k=[5, 8], bs=cr)` or `ti(x, z)`, with a margin for each column. Bounds belong to the columns with
    bs=cc."""
    place, function = f"{where}: `{short(term)}`", written(node)[:2]
    by = without_by(node) if isinstance(node, ast.Call) else None
    keywords = {each.arg: each.value for each in node.keywords} if isinstance(node, ast.Call) else {}
    if not isinstance(node, ast.Call) or len(node.args) < 2 or not set(keywords) <= set(OF_MARGINS):
        raise UserError(
            f"{place}: {function}() takes two columns or more, by, and {', '.join(OF_MARGINS)}, each as one value or as a list "
            f"with one for each column, as in {function}({example(term.partition('(')[2], '{x}, {z}')}, k=[5, 8])"
        )
    name, size = written(node), len(node.args)

    def in_turn(key: str) -> list[ast.expr]:
        """The values of an option: of each column, or a bound of each with bs=cc."""
        value, number = keywords[key], periodic.count(True) if key.endswith("bound") else size
        values = value.elts if isinstance(value, ast.List | ast.Tuple) else [value] * number
        if not number:
            raise UserError(f"{place}: {function}() takes {key} with bs=cc alone")
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
    margins, width, constant = [], 1, 1 if function == "te" else 0
    for column, own in zip(node.args, options, strict=True):
        call = ast.Call(ast.Name(function), [column], [ast.keyword(key, value) for key, value in own.items()])
        margin = parse_factor(ast.unparse(call), term, where)
        assert isinstance(margin, Transformed)
        margins.append(replace(margin, written=f"{as_in_r(ast.unparse(column))} in {name}"))
        given = margin.calls[-1].options
        width *= given.get("k", 5) - (given.get("bs") == "cc") - (not constant)
    names = [margin.column for margin in margins]
    if repeated := [column for column in names if names.count(column) > 1]:
        raise UserError(
            f"{place}: {function}() takes different columns, and `{repeated[0]}` is there twice; take one out"
        )
    if width - constant > MOST_OF_SURFACE:
        raise UserError(
            f"{place} has {width - constant:,} coefficients, of {MOST_OF_SURFACE:,} at most: k of all columns are multiplied; "
            "choose smaller ones"
        )
    return multiplied(Smooth(name, tuple(margins)), by, place)


def with_main_effect(term: Term, terms: Sequence[Term]) -> Term:
    """A smooth with its `by` as the term of its own is written. A `by` without one may be a number (kinds.check_smooth), unless
    it is written as a factor."""
    if not isinstance(term, Smooth) or not term.by:
        return term
    kind = type(term.by)
    main = (other for other in terms if isinstance(other, kind) and not other.calls and other.column == term.by.column)
    return replace(term, by=next(main, term.by))


def level_of(node: ast.expr, term: str, where: str) -> str:
    """A level that a formula names."""
    try:
        level = ast.literal_eval(node)
    except (*NO_CALL, TypeError):
        level = None
    if type(level) not in (int, str):
        raise UserError(f"{where}: `{short(term)}`: ref is one level, such as ref=1 or ref='a'")
    return str(level)


def unique_terms(terms: Sequence[Term], where: str) -> list[Term]:
    """Terms by the number of their factors, each once: `C(month) + i(month, ref=1)` are one. Raises UserError for one with two
    reference levels, for random effects of a column that are correlated in two ways, and for interactions of an event study."""
    by_name: dict[str, Term] = {}
    by_correlated: dict[tuple[str, ...], RandomEffects] = {}
    for term in sorted(terms, key=lambda term: term.degree):
        if term.degree > 1 and any(isinstance(factor, EventStudy) for factor in term.factors):
            raise UserError(
                f"{where}: `{short(term.name)}`: sunab() has no interactions; fit a model for each part of the rows with `subset`"
            )
        before = by_name.setdefault(term.name, term)
        if isinstance(term, RandomEffects) and isinstance(before, RandomEffects):
            alike = by_correlated.setdefault(term.correlated, term) if term.correlated else before
            if alike.name != term.name or before.beside != term.beside:
                effects = dict.fromkeys([*(before.beside or term.beside), alike.slope, term.slope])
                raise UserError(
                    f"{where}: random effects of `{term.group}` are correlated in one term and independent in another; write "
                    f"them once, as in ({' + '.join(effects)} | {term.group}), or with || if they are independent"
                )
        for factor, other in zip(before.factors, term.factors, strict=True):
            if factor.reference and other.reference and factor.reference != other.reference:
                raise UserError(
                    f"{where}: `{factor.name}` has two reference levels, {factor.reference} and {other.reference}"
                )
        if any(factor.reference for factor in term.factors):
            by_name[term.name] = term
    return list(by_name.values())


def check_indicators(terms: Sequence[Term], intercept: bool, where: str) -> None:
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


def parse_factor(expression: str, term: str, where: str) -> Covariate:
    """One factor, a column or nested calls around a column. Raises UserError, which names `term`, for anything else."""
    if not expression.startswith(tuple("0123456789(")) and expression.isidentifier():
        return Covariate(expression)
    node = call_of(expression, term, where)
    name, calls = as_in_r(ast.unparse(node)), list[FunctionCall]()
    while isinstance(node, ast.Call):
        function, arguments = called(node, term, where)
        if function == "C":
            if calls or not isinstance(node.args[0], ast.Name):
                raise UserError(f"{where}: `{short(term)}`: C() takes a column and must be a factor of its own")
            return parse_levels(node, node.args[0].id, term, where)
        node = node.args[0]
        if function != "I" and not arithmetic.is_arithmetic(node):
            calls.append(arguments)
            continue
        computed, node = arithmetic_of(node, term, where)
        calls += [computed] if function == "I" else [arguments, computed]
    if not isinstance(node, ast.Name) or not calls:
        raise not_supported(term, where)
    return Transformed(node.id, name, tuple(reversed(calls)))


def arithmetic_of(node: ast.expr, term: str, where: str) -> tuple[FunctionCall, ast.Name]:
    """Arithmetic as a function of its column, and the column. Raises UserError for anything else."""
    try:
        tree, columns = arithmetic.tree_of(node)
    except ValueError as error:
        raise UserError(f"{where}: `{short(term)}`: {error}; define a column for it under data.derive") from None
    if len(columns) != 1:
        several = (
            f"is of one column, not of {', '.join(sorted(columns))}; write {':'.join(sorted(columns))} for a product, and define "
            "a column under data.derive for all else"
        )
        raise UserError(f"{where}: `{short(term)}`: arithmetic {several if columns else 'needs a column'}")
    return FunctionCall("I", {"expression": tree}), ast.Name(columns.pop())


def called(node: ast.Call, term: str, where: str) -> tuple[str, FunctionCall]:
    """The name of the function that is called, and the call without its first argument, which is what it is applied to."""
    name = ast.unparse(node.func).removeprefix("np.")
    if name in ("C", "I") and node.args:
        if name == "I" and (len(node.args) > 1 or node.keywords):
            raise UserError(f"{where}: `{short(term)}`: I() takes one expression, {example(term, 'as in I({x}^2)')}")
        return name, FunctionCall(name, {})
    if name not in FUNCTIONS:
        lower = name.lower()
        raise not_supported(term, where, f"; did you mean `{lower}`?" if lower in FUNCTIONS else "")
    if not node.args:
        raise UserError(f"{where}: `{short(term)}`: {name}() takes a column")
    known = FUNCTIONS[name].options
    named = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    placed = dict(zip(known, node.args[1:], strict=False))
    if len(node.args) - 1 > len(known) or set(named) - set(known) or set(named) & set(placed):
        raise UserError(
            f"{where}: `{short(term)}`: {name}() takes "
            + (f"the arguments {', '.join(known)}, each once" if known else "one column")
        )
    try:
        given = {key: ast.literal_eval(value) for key, value in (placed | named).items()}
    except (*NO_CALL, TypeError):
        raise UserError(
            f"{where}: `{short(term)}`: the arguments of {name}() must be numbers or lists of numbers, True or False"
        ) from None
    problem = FUNCTIONS[name].problem(given)
    if problem:
        raise UserError(f"{where}: `{short(term)}`: {problem.replace('{x}', ast.unparse(node.args[0]))}")
    return name, FunctionCall(
        name, {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    )


def parse_levels(node: ast.Call, column: str, term: str, where: str) -> CategoricalFactor:
    """The factor of `C(column)`, `C(column, Treatment("level"))` or `C(column, contr.sum)`. Raises UserError for any other."""
    match node:
        case ast.Call(args=[_], keywords=[]):
            return CategoricalFactor(column)
        case (
            ast.Call(args=[_, ast.Call(func=function, args=[ast.Constant(value)], keywords=[])], keywords=[])
            | ast.Call(
                args=[
                    _,
                    ast.Call(func=function, args=[], keywords=[ast.keyword("base" | "reference", ast.Constant(value))]),
                ],
                keywords=[],
            )
        ) if ast.unparse(function) in ("Treatment", "contr.treatment"):
            if type(value) is int and ast.unparse(function) == "contr.treatment":
                raise UserError(
                    f"{where}: `{short(term)}`: {value} is the place of a level for R, and a level for others; write C({column}, "
                    f'Treatment("{value}")) for the level {value}'
                )
            return CategoricalFactor(column, str(value))
        case ast.Call(args=[_, ast.Call(func=function, args=[], keywords=[]) | function], keywords=[]):
            coding = ast.unparse(function)
            coding = ALSO_CALLED.get(coding, coding)
            if coding in CODINGS:
                return CategoricalFactor(column, coding=coding)
            if coding in ("Treatment", "contr.treatment"):
                return CategoricalFactor(column)
    raise UserError(
        f'{where}: `{short(term)}`: C() takes a column, and a reference level as in C({column}, Treatment("level")), or one of '
        f"{', '.join(CODINGS)}"
    )


def not_supported(term: str, where: str, remedy: str = "") -> UserError:
    return UserError(
        f"{where}: `{short(term)}` is not supported{remedy}; define a column for it under data.derive\n"
        f"  the functions are: C, i, sunab, {', '.join(FUNCTIONS)}"
    )
