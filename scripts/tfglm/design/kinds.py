"""Refuse models that use a column as something it is not, as soon as the kinds of columns are known."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tfglm.config import DesignConfig, RowsConfig
from tfglm.data.kinds import Kind
from tfglm.errors import Problems, UserError, closest, nearest, short
from tfglm.families import FAMILIES
from tfglm.formula.names import is_of_term, term_in
from tfglm.formula.parse import parse, parse_factor
from tfglm.formula.parts import absorbed_terms
from tfglm.formula.read import columns_of
from tfglm.formula.terms import INTERCEPT, CategoricalFactor, Formula, RandomEffects, Smooth, Term

MULTIPLICITIES = {"weights": False, "frequency": True, "trials": True}
"""Keys that name a column which counts a row, and whether it must hold whole numbers."""

EVENTS = ("yes", "y", "true", "t")
"""Texts that say that an event has happened."""


def check_kinds(
    where: str,
    settings: RowsConfig,
    formula: Formula,
    kinds: Mapping[str, Kind | None],
    with_level: Collection[str] = (),
    with_order: Collection[str] = (),
    levels: Sequence[str] = (),
) -> None:
    """Check that a model uses each column according to its kind. Columns that are absent or of unknown kind pass. Missing
    values of the columns `with_level` are a level (data.missing); the levels of those `with_order` have an order
    (data.order). `levels` are those of a response of text, if they are known. Raises UserError, which begins with `where` and
    lists all columns of a wrong kind."""
    problems = Problems()
    with problems.collected():
        check_response(where, settings, formula.response, kinds, with_level, with_order, levels)
    if FAMILIES[settings.family].is_ordered and not formula.intercept:
        problems.messages.append(
            f"{where}.formula: ordered classes have a threshold between each two of them, and an intercept is one of these; "
            "remove `- 1` or `0 +`"
        )
    of_margins = [margin for term in formula.terms if isinstance(term, Smooth) for margin in term.margins]
    for factor in (*(factor for factor in formula.factors.values() if not factor.is_smooth), *of_margins):
        for column in factor.columns:
            with problems.collected():
                check_column(f"{where}.formula", factor, column, formula.response, kinds, with_level)
    with problems.collected():
        check_codings(f"{where}.formula", settings, formula, kinds)
    for term in formula.terms:
        with problems.collected():
            check_penalised(f"{where}.formula", settings, term, formula.terms, kinds)
            check_overlap(f"{where}.formula", term, formula.terms, kinds)
    for key, whole in MULTIPLICITIES.items():
        name = getattr(settings, key)
        with problems.collected():
            if name is not None:
                check_multiplicity(f"{where}.{key}", name, whole, kinds, with_level)
    with problems.collected():
        check_offset(f"{where}.offset", settings.offset, kinds, with_level)
    with problems.collected():
        for factor in (factor for term in instruments_of(where, settings, formula)[1] for factor in term.factors):
            for column in factor.columns:
                check_column(f"{where}.instruments", factor, column, formula.response, kinds, with_level)
    for key in ("std_errors", "absorb", "path.by", "instruments"):
        for name in settings.roles.get(key, []):
            with problems.collected():
                refuse_image(f"{where}.{key}", name, kinds)
    for term in absorbed_terms(getattr(settings, "absorb", ())):
        if kinds.get(term.columns[-1]) == "text" and len(term.columns) > 1:
            problems.messages.append(
                f"{where}.absorb: `{term.name}`: `{term.columns[-1]}` is text, which has no slope; name a number"
            )
    problems.check()


def instruments_of(where: str, settings: RowsConfig, formula: Formula) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """The names of the endogenous terms, and the instruments; none without the key. Raises UserError for endogenous terms that
    the formula lacks, and for instruments that it has."""
    if not isinstance(settings, DesignConfig) or not settings.instruments:
        return (), ()
    key, names = f"{where}.instruments", [term.name for term in formula.terms]
    left, _, right = settings.instruments.partition("~")
    if not (left.strip() and right.strip()) or "~" in right:
        raise UserError(
            f"{key}: `{short(settings.instruments)}` lacks endogenous terms or instruments; write d ~ z1 + z2"
        )
    endogenous, terms = (parse(f"{formula.response} ~ {side}", key, whole=False).terms for side in (left, right))
    if lacking := next((term.name for term in endogenous if term.name not in names), None):
        raise UserError(f"{key}: the formula lacks the endogenous `{lacking}`{nearest(lacking, names)}; add it")
    if known := next((term.name for term in terms if term.name in names), None):
        raise UserError(
            f"{key}: `{known}` is a term of the formula, so it is no instrument for other terms; remove it from one of the two"
        )
    if absorbed := next((term.name for term in terms if {*term.columns} <= {*settings.absorbed_factors}), None):
        raise UserError(f"{key}: `{absorbed}` is absorbed, which leaves nothing of it; remove it")
    return tuple(term.name for term in endogenous), terms


def refuse_image(where: str, name: str, kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for an image where none can be."""
    if kinds.get(name) == "image":
        raise UserError(f"{where}: `{name}` is an image; write its plain name in the formula, right of the ~")


def check_response(
    where: str,
    settings: RowsConfig,
    name: str,
    kinds: Mapping[str, Kind | None],
    with_level: Collection[str],
    with_order: Collection[str],
    levels: Sequence[str],
) -> None:
    """Raise UserError for a response that the family cannot take, whatever its values are."""
    refuse_image(f"{where}.formula", name, kinds)
    if name in with_level:
        raise UserError(
            f"{where}: the response `{name}` cannot have missing values as a level; take it out of data.missing"
        )
    of_classes = FAMILIES[settings.family].of_classes
    if kinds.get(name) == "text" and not of_classes:
        event = next((level for level in levels if level.lower() in EVENTS), levels[-1] if levels else "VALUE")
        text = event.replace("'", "''")
        raise UserError(
            f"{where}: the response `{name}` is text; derive a number from it under data.derive, as in "
            f"`derive: {{event: {name} = '{text}'}}`{'' if levels else ' with one of its values'}, or give its column the type "
            "integer or number in the layout"
        )
    lacks_order = name not in with_order and isinstance(settings, DesignConfig) and not settings.class_order
    if kinds.get(name) == "text" and FAMILIES[settings.family].is_ordered and lacks_order:
        raise UserError(
            f"{where}: the response `{name}` is text, whose classes have no order of their own; write all of them under "
            "`class_order`, or under data.order, the lowest first"
        )
    if kinds.get(name) == "number" and of_classes:
        raise UserError(
            f"{where}: the response `{name}` is a number, and classes are text or whole numbers; derive one under "
            f"data.derive, e.g. `class: floor({name})`, or use family: gaussian"
        )


def check_column(
    where: str, factor: Term, column: str, response: str, kinds: Mapping[str, Kind | None], with_level: Collection[str]
) -> None:
    """Raise UserError for a factor of the formula that one of its columns cannot be."""
    kind, calls = kinds.get(column), factor.calls
    has_levels = isinstance(factor, CategoricalFactor) or (isinstance(factor, RandomEffects) and column == factor.group)
    if calls or has_levels:
        refuse_image(where, column, kinds)
    if column == response:
        raise UserError(
            f"{where}: `{response}` is the response and cannot be on the right-hand side too; remove it there"
        )
    if calls and kind == "text":
        raise UserError(
            f"{where}: `{factor.name}`: `{column}` is text, and {calls[0].function}() takes numbers; write `{column}` alone, a "
            f"factor, give it the type number in the layout, or derive a number: CAST({column} AS BIGINT) has the days of a date"
        )
    if column in with_level and not has_levels and kind in ("integer", "number"):
        raise UserError(
            f"{where}: `{factor.name}` is used as a number, which has no level for missing values\n"
            f"  write C({column}), or take it out of data.missing"
        )


def check_codings(where: str, settings: RowsConfig, formula: Formula, kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for a coding of levels where there are no reference levels either, for two codings of one column, and for a
    factor that is there under two names."""
    by_column: dict[str, Term] = {}
    alone: dict[str, str] = {}
    for factor in formula.factors.values():
        # Text is a factor without C() too.
        if factor.calls or not factor.has_levels(kinds):
            continue
        column = factor.columns[0]
        other = by_column.setdefault(column, factor)
        # A text column may be C() in an interaction, as i() writes it, or alone, but not both.
        is_alone = factor in formula.terms and factor.degree == 1
        is_twice = is_alone and alone.setdefault(column, factor.name) != factor.name
        if is_twice and factor.is_random != other.is_random:
            raise UserError(
                f"{where}: the levels of `{column}` have fixed and random effects, which cannot be told apart; choose one"
            )
        if is_twice or other.coding != factor.coding:
            raise UserError(f"{where}: `{column}` is coded in two ways, `{other.name}` and `{factor.name}`; choose one")
        if factor.coding and not isinstance(settings, DesignConfig):
            raise UserError(f"{where}: `{factor.name}`: a network has no contrasts between levels; write C({column})")
        if factor.coding and isinstance(settings, DesignConfig) and (settings.l1 or settings.l2 or settings.path):
            raise UserError(
                f"{where}: `{factor.name}`: a penalised fit has a coefficient for each level, whatever the coding; write "
                f"C({column})"
            )


def check_penalised(
    where: str, settings: RowsConfig, term: Term, terms: Sequence[Term], kinds: Mapping[str, Kind | None]
) -> None:
    """Raise UserError for a smooth term in a network, for a `by` that the smooth cannot have, and for random slopes of text."""
    if not (term.is_smooth or term.is_random):
        return
    if not isinstance(settings, DesignConfig):
        raise UserError(f"{where}: `{term.name}`: a network has no smooth terms; write ns(column, df=5) or C(column)")
    if isinstance(term, RandomEffects) and kinds.get(term.slope) == "text":
        raise UserError(
            f"{where}: `{term.name}`: the levels of a factor come first and have random slopes of a number, and "
            f"`{term.slope}` is text; write s({term.slope}, bs=re) for random effects of its levels, or, for effects of each of "
            f"them that are correlated, (0 + a + b | {term.group}) with numbers a and b that are 1 at a level, else 0"
        )
    if not term.by:
        return
    (column,) = term.by.columns
    refuse_image(where, column, kinds)
    if term.by.has_levels(kinds) and term.is_tensor_product:
        raise UserError(
            f"{where}: `{term.name}`: by of te() is a number that multiplies the surface, and `{term.by.name}` is a factor; s() "
            "of two columns has a surface for each level"
        )
    if term.by.has_levels(kinds) and term.by not in terms:
        raise UserError(
            f"{where}: `{term.name}`: the curve of each level of `{column}` has the mean 0, so their means differ by the "
            f"term `{column}`; add it to the formula"
        )


def penalty_factors(where: str, settings: DesignConfig, formula: Formula) -> tuple[tuple[str, float], ...]:
    """By what the penalties of terms are multiplied, where that is not 1: 0 for those that are left alone. Raises UserError,
    which begins with `where`, for a term that the formula has not, or that is named twice; and if no term is left to
    penalise."""
    names = [term.name for term in formula.terms]
    asked = [("unpenalised", text, 0.0) for text in settings.unpenalised]
    asked += [("penalty_factors", text, factor) for text, factor in settings.penalty_factors.items()]
    factors: dict[str, float] = {}
    problems = Problems()
    for key, text, factor in asked:
        with problems.collected():
            for term in parse(f"y ~ 0 + {text}", f"{where}.{key}", whole=False).terms:
                if term.name not in names:
                    raise UserError(
                        f"{where}.{key}: the formula has no term `{term.name}`{nearest(term.name, names)}\n"
                        f"  the terms are: {', '.join(names)}"
                    )
                if term.name in factors:
                    raise UserError(f"{where}.{key}: the penalty of `{term.name}` is given twice; keep one")
                factors[term.name] = factor
    problems.check()
    if factors and all(factors.get(name, 1.0) == 0 for name in names):
        raise UserError(
            f"{where}.unpenalised: no term is left that penalties act on; leave one out, or remove the penalty"
        )
    return tuple((name, factors[name]) for name in names if factors.get(name, 1.0) != 1.0)


def check_overlap(where: str, term: Term, terms: Sequence[Term], kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for a smooth that contains a straight line of another term."""
    if not term.is_smooth:
        return
    later = terms[terms.index(term) + 1 :]
    # A pair of smooths gets one message.
    for other in (other for other in terms if other is not term and not (other.is_smooth and other in later)):
        shared = min(term.lines(kinds) & other.lines(kinds), key=sorted, default=None)
        if shared:
            columns = " times ".join(f"`{column}`" for column, _ in sorted(shared))
            raise UserError(
                f"{where}: `{other.name}` and `{term.name}` are both of {columns}, and a smooth contains the straight line; keep "
                "one"
            )


def check_multiplicity(
    where: str, name: str, whole: bool, kinds: Mapping[str, Kind | None], with_level: Collection[str]
) -> None:
    """Raise UserError for a column that cannot count a row; `whole` if it must hold whole numbers."""
    refuse_image(where, name, kinds)
    if kinds.get(name) == "text":
        problem = "is text"
    elif name in with_level:
        problem = "has missing values as a level; take it out of data.missing"
    elif whole and kinds.get(name) == "number":
        problem = "must hold whole numbers"
    else:
        return
    raise UserError(
        f"{where}: `{name}` {problem}\n  correct it under data.derive, or leave such rows out in data.where"
    )


def check_offset(where: str, offset: str | None, kinds: Mapping[str, Kind | None], with_level: Collection[str]) -> None:
    """Raise UserError for an offset that is no number."""
    if offset is None:
        return
    factor = parse_factor(offset, offset, where)
    refuse_image(where, factor.column, kinds)
    if factor.has_levels(kinds):
        raise UserError(f"{where}: `{factor.name}` is no number")
    check_column(where, factor, factor.column, "", kinds, with_level)


def check_tables(where: str, by: Sequence[str], identity: Sequence[str], kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for a column that tables of metrics or predictions cannot have."""
    for key, columns in (("by", by), ("identity", identity)):
        for name in columns:
            if kinds.get(name) == "image":
                raise UserError(f"{where}.{key}: `{name}` is an image, which no table can hold; take it out")


def check_names(
    where: str,
    formula: Formula,
    kinds: Mapping[str, Kind | None],
    reference: Mapping[str, str],
    combinations: Mapping[str, Mapping[str, float]],
    constants: Mapping[str, bool],
) -> None:
    """Raise UserError for terms of reference levels, contrasts and hypotheses that the formula has not. Their levels are not
    known before the rows are. `constants` are terms beside those of the formula, and whether they have levels."""
    problems = Problems()
    for name in reference:
        if (factor := formula.factors.get(name)) and factor.coding not in (None, "contr.sum"):
            problems.messages.append(
                f"{where}.reference: `{name}` has contrasts of levels, and no reference level; write C({factor.columns[0]})"
            )
        elif problem := without_levels(name, formula, kinds):
            problems.messages.append(f"{where}.reference: {problem}")
    terms = {**{term.name: term.has_levels(kinds) for term in formula.terms}, **constants}
    for place, weights in combinations.items():
        for coefficient in weights:
            with problems.collected():
                check_coefficient(f"{where}.{place}", coefficient, terms)
    problems.check()


def check_absorbed(where: str, absorbed: Collection[str], named: Mapping[str, Iterable[str]]) -> None:
    """Raise UserError for coefficients and factors of absorbed columns; `named` are those that each key names."""
    if not absorbed:
        return
    problems = Problems()
    for key, names in named.items():
        for name in names:
            term = term_in(name)
            if term == INTERCEPT:
                problems.messages.append(
                    f"{where}.{key}: there is no `{INTERCEPT}` where factors are absorbed, which take its place; take it out"
                )
            elif {*columns_of(term)} <= {*absorbed}:
                problems.messages.append(
                    f"{where}.{key}: `{name}` is of an absorbed factor, whose coefficients are not reported\n"
                    f"  write the factor into the formula, or take it out of {where}.{key}"
                )
    problems.check()


def check_not_smooth(where: str, formula: Formula, named: Mapping[str, Iterable[str]]) -> None:
    """Raise UserError for coefficients and levels of smooth terms, whose penalties leave no test of single ones; `named` are
    those that each key names."""
    smooth = [term.name for term in formula.terms if term.is_smooth or term.is_random]
    problems = Problems()
    for key, names in named.items():
        for name in names:
            if any(is_of_term(name, term) for term in smooth):
                problems.messages.append(
                    f"{where}.{key}: `{name}` is of a smooth term or random effects, which have no tests of single coefficients "
                    f"and no reference level\n  take it out, or write ns() or C() in the formula"
                )
    problems.check()


def check_compared(where: str, formula: Formula, kinds: Mapping[str, Kind | None], pairwise: Sequence[str]) -> None:
    """Raise UserError for factors whose levels are to be compared that the formula has not, or that have none."""
    for name in pairwise:
        if problem := without_levels(name, formula, kinds):
            raise UserError(f"{where}.pairwise: {problem}")


def without_levels(name: str, formula: Formula, kinds: Mapping[str, Kind | None]) -> str | None:
    """Return why no factor of the formula with this name has levels; None if one has, or if it is unknown."""
    factors = {name: factor.has_levels(kinds) for name, factor in formula.factors.items()}
    categorical = [other for other, levels in factors.items() if levels is not False]
    if name in categorical:
        return None
    what = "is a number, which has no levels" if name in factors else "is no factor of the formula"
    return f"`{name}` {what}{nearest(name, categorical)}\n  {listed('there are', categorical)}"


def check_coefficient(where: str, coefficient: str, terms: Mapping[str, bool | None]) -> None:
    """Raise UserError unless a coefficient has the form of the terms, `term` or `term[level]`."""
    if coefficient in terms:
        if terms[coefficient] is True:
            raise UserError(f"{where}: `{coefficient}` has a coefficient for each level; write `{coefficient}[level]`")
        return
    of_level = [term for term in terms if is_of_term(coefficient, term)]
    if not of_level:
        term = term_in(coefficient)
        close = closest(term, [other for other in terms if other != term])
        raise UserError(
            f"{where}: no coefficient `{coefficient}`{f'; did you mean those of `{close}`?' if close else ''}\n"
            f"  a coefficient is written `term` or `term[level]`; {listed('the terms are', terms)}"
        )
    if all(terms[term] is False for term in of_level):
        raise UserError(
            f"{where}: `{of_level[0]}` has one coefficient, `{of_level[0]}`, and no levels; write that, or "
            f"C({of_level[0]}) in the formula for a coefficient of each value"
        )


def listed(words: str, names: Collection[str]) -> str:
    """Say in a message which names exist."""
    return f"{words}: {', '.join(names)}" if names else f"{words} none"
