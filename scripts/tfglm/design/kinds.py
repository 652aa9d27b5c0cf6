"""Refuse models that use a column as something it is not, as soon as the kinds of columns are known."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tfglm.config import DesignConfig, RowsConfig
from tfglm.config.models import columns_of
from tfglm.data.kinds import Kind
from tfglm.design.formula import FormulaFactor, FormulaTerm, ParsedFormula, parse_factor
from tfglm.design.terms import INTERCEPT
from tfglm.design.transforms import SEVERAL
from tfglm.errors import Problems, UserError, closest, nearest
from tfglm.families import FAMILIES

MULTIPLICITIES = {"weights": False, "frequency": True, "trials": True}
"""Keys that name a column which counts a row, and whether it must hold whole numbers."""


def check_kinds(
    where: str,
    settings: RowsConfig,
    formula: ParsedFormula,
    kinds: Mapping[str, Kind | None],
    with_level: Collection[str] = (),
    with_order: Collection[str] = (),
) -> None:
    """Check that a model uses each column according to its kind.

    Parameters
    ----------
    where
        The place of the model in the config; messages begin with it.
    settings, formula
        Its keys, and its formula.
    kinds
        The kind of each column. Columns that are absent or of unknown kind pass.
    with_level
        The columns whose missing values are a level (data.missing).
    with_order
        The columns whose levels have an order (data.order).

    Raises
    ------
    UserError
        If columns have the wrong kind; the message lists them all.
    """
    problems = Problems()
    with problems.collected():
        check_response(where, settings, formula.response, kinds, with_level, with_order)
    if FAMILIES[settings.family].is_ordered and not formula.intercept:
        problems.messages.append(
            f"{where}.formula: ordered classes have a threshold between each two of them, and an intercept is one of these; "
            "remove `- 1` or `0 +`"
        )
    factors = {factor.name: factor for term in formula.terms for factor in term.factors}
    for factor in factors.values():
        for column in factor.columns:
            with problems.collected():
                own = replace(factor, column=column)
                check_factor(f"{where}.formula", own, formula.response, kinds, with_level)
    with problems.collected():
        check_codings(f"{where}.formula", settings, formula.terms, kinds)
    for term in formula.terms:
        with problems.collected():
            check_smooth(f"{where}.formula", settings, term, kinds)
            check_overlap(f"{where}.formula", term, formula.terms, kinds)
    for key, whole in MULTIPLICITIES.items():
        name = getattr(settings, key)
        with problems.collected():
            if name is not None:
                check_multiplicity(f"{where}.{key}", name, whole, kinds, with_level)
    with problems.collected():
        check_offset(f"{where}.offset", settings.offset, kinds, with_level)
    for key in ("std_errors", "absorb", "path.by"):
        for name in settings.roles.get(key, []):
            with problems.collected():
                refuse_image(f"{where}.{key}", name, kinds)
    problems.check()


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
) -> None:
    """Raise UserError for a response that the family cannot take, whatever its values are."""
    refuse_image(f"{where}.formula", name, kinds)
    if name in with_level:
        raise UserError(
            f"{where}: the response `{name}` cannot have missing values as a level; take it out of data.missing"
        )
    of_classes = FAMILIES[settings.family].of_classes
    if kinds.get(name) == "text" and not of_classes:
        raise UserError(
            f"{where}: the response `{name}` is text; derive a number from it under data.derive, as in "
            f"`derive: {{event: {name} = 'yes'}}`, or give its column the type integer or number in the layout"
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


def check_factor(
    where: str,
    factor: FormulaFactor,
    response: str,
    kinds: Mapping[str, Kind | None],
    with_level: Collection[str],
) -> None:
    """Raise UserError for a factor of the formula that its column cannot be."""
    kind = kinds.get(factor.column)
    if factor.calls or factor.categorical:
        refuse_image(where, factor.column, kinds)
    if factor.column == response:
        raise UserError(
            f"{where}: `{response}` is the response and cannot be on the right-hand side too; remove it there"
        )
    if factor.calls and kind == "text":
        raise UserError(
            f"{where}: `{factor.name}`: `{factor.column}` is text, and {factor.calls[0].function}() takes numbers; write "
            f"`{factor.column}` alone, a factor, or give it the type number in the layout"
        )
    if factor.column in with_level and not factor.categorical and kind in ("integer", "number"):
        raise UserError(
            f"{where}: `{factor.name}` is used as a number, which has no level for missing values\n"
            f"  write C({factor.column}), or take it out of data.missing"
        )


def check_codings(
    where: str, settings: RowsConfig, terms: Sequence[FormulaTerm], kinds: Mapping[str, Kind | None]
) -> None:
    """Raise UserError for a coding of levels where there are no reference levels either, for two codings of one column, and for a
    factor that is there under two names."""
    by_column: dict[str, FormulaFactor] = {}
    alone: dict[str, str] = {}
    for factor in {factor.name: factor for term in terms for factor in term.factors}.values():
        # Text is a factor without C() too.
        if not factor.categorical and (factor.calls or kinds.get(factor.column) != "text"):
            continue
        other = by_column.setdefault(factor.column, factor)
        # A text column may be C() in an interaction, as i() writes it, or alone, but not both.
        is_twice = FormulaTerm((factor,)) in terms and alone.setdefault(factor.column, factor.name) != factor.name
        if is_twice or other.coding != factor.coding:
            raise UserError(
                f"{where}: `{factor.column}` is coded in two ways, `{other.name}` and `{factor.name}`; choose one"
            )
        if factor.coding and not isinstance(settings, DesignConfig):
            raise UserError(
                f"{where}: `{factor.name}`: a network has no contrasts between levels; write C({factor.column})"
            )
        if factor.coding and isinstance(settings, DesignConfig) and (settings.l1 or settings.l2 or settings.path):
            raise UserError(
                f"{where}: `{factor.name}`: a penalised fit has a coefficient for each level, whatever the coding; write "
                f"C({factor.column})"
            )


def check_smooth(where: str, settings: RowsConfig, term: FormulaTerm, kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for a smooth term in a network, and for a `by` that the smooth cannot have."""
    if not any(factor.is_smooth or factor.is_random for factor in term.factors):
        return
    if not isinstance(settings, DesignConfig):
        raise UserError(f"{where}: `{term.name}`: a network has no smooth terms; write ns(column, df=5) or C(column)")
    if any(factor.is_random for factor in term.factors):
        for factor in term.factors:
            if not factor.is_random and has_levels([factor], kinds):
                raise UserError(
                    f"{where}: `{term.name}`: the levels of a factor come first and have random slopes of a number, and "
                    f"`{factor.column}` is text; write s({factor.column}, bs=re) for random effects of its levels"
                )
        return
    for by in (factor for factor in term.factors if not factor.is_smooth):
        refuse_image(where, by.column, kinds)
        is_factor = has_levels([by], kinds)
        if is_factor and term.factors[0].surface:
            raise UserError(
                f"{where}: `{term.name}`: by of te() is a number that multiplies the surface, and `{by.name}` is a factor; s() "
                "of two columns has a surface for each level"
            )
        if is_factor and by.is_by:
            raise UserError(
                f"{where}: `{term.name}`: the curve of each level of `{by.column}` has the mean 0, so their means differ by the "
                f"term `{by.column}`; add it to the formula"
            )


def check_overlap(
    where: str, term: FormulaTerm, terms: Sequence[FormulaTerm], kinds: Mapping[str, Kind | None]
) -> None:
    """Raise UserError for a smooth that contains a straight line of another term."""
    if not term.is_smooth:
        return
    later = terms[terms.index(term) + 1 :]
    # A pair of smooths gets one message.
    for other in (other for other in terms if other is not term and not (other.is_smooth and other in later)):
        shared = min(lines_of(term, kinds) & lines_of(other, kinds), key=sorted, default=None)
        if shared:
            columns = " times ".join(f"`{column}`" for column, _ in sorted(shared))
            raise UserError(
                f"{where}: `{other.name}` and `{term.name}` are both of {columns}, and a smooth contains the straight line; keep "
                "one"
            )


def lines_of(term: FormulaTerm, kinds: Mapping[str, Kind | None]) -> set[frozenset[tuple[str, str]]]:
    """The straight lines that a term contains: of a column, or of the product of two, each after some functions. A curve that
    multiplies a number contains the lines of the number and of their product."""
    smooths = [factor for factor in term.factors if factor.is_smooth]
    others = [factor for factor in term.factors if not factor.is_smooth]
    multiplied = frozenset((factor.column, str(factor.calls)) for factor in others)
    is_of_levels = has_levels(others, kinds)
    if not smooths:
        return {multiplied} if len(others) == 1 or is_of_levels is False else set()
    if others and is_of_levels is None:
        return set()
    number: frozenset[tuple[str, str]] = frozenset() if is_of_levels else multiplied
    of_columns = {frozenset({(column, str(each.calls[:-1]))}) for each in smooths for column in each.columns}
    return {number | line for line in of_columns} | ({number} if number else set())


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
    if kinds.get(factor.column) == "text" or factor.categorical:
        raise UserError(f"{where}: `{factor.name}` is no number")
    check_factor(where, factor, "", kinds, with_level)


def check_tables(where: str, by: Sequence[str], identity: Sequence[str], kinds: Mapping[str, Kind | None]) -> None:
    """Raise UserError for a column that tables of metrics or predictions cannot have."""
    for key, columns in (("by", by), ("identity", identity)):
        for name in columns:
            if kinds.get(name) == "image":
                raise UserError(f"{where}.{key}: `{name}` is an image, which no table can hold; take it out")


def check_names(
    where: str,
    formula: ParsedFormula,
    kinds: Mapping[str, Kind | None],
    reference: Mapping[str, str],
    combinations: Mapping[str, Mapping[str, float]],
    constants: Mapping[str, bool],
) -> None:
    """Raise UserError for terms of reference levels, contrasts and hypotheses that the formula has not. Their levels are not
    known before the rows are. `constants` are terms beside those of the formula, and whether they have levels."""
    problems = Problems()
    ordered = {
        factor.name: factor
        for term in formula.terms
        for factor in term.factors
        if factor.coding not in (None, "contr.sum")
    }
    for name in reference:
        if name in ordered:
            problems.messages.append(
                f"{where}.reference: `{name}` has contrasts of levels, and no reference level; write C({ordered[name].column})"
            )
        elif problem := without_levels(name, formula, kinds):
            problems.messages.append(f"{where}.reference: {problem}")
    terms = {**{term.name: has_levels(term.factors, kinds) for term in formula.terms}, **constants}
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
            term = name.partition("[")[0]
            if term == INTERCEPT:
                problems.messages.append(
                    f"{where}.{key}: there is no `{INTERCEPT}` where factors are absorbed, which take its place; take it out"
                )
            elif not set(columns_of(term)).isdisjoint(absorbed):
                problems.messages.append(
                    f"{where}.{key}: `{name}` is of an absorbed factor, whose coefficients are not reported\n"
                    f"  write the factor into the formula, or take it out of {where}.{key}"
                )
    problems.check()


def check_not_smooth(where: str, formula: ParsedFormula, named: Mapping[str, Iterable[str]]) -> None:
    """Raise UserError for coefficients and levels of smooth terms, whose penalties leave no test of single ones; `named` are
    those that each key names."""
    smooth = [
        term.name for term in formula.terms if any(factor.is_smooth or factor.is_random for factor in term.factors)
    ]
    problems = Problems()
    for key, names in named.items():
        for name in names:
            if any(name == term or name.startswith(f"{term}[") for term in smooth):
                problems.messages.append(
                    f"{where}.{key}: `{name}` is of a smooth term or random effects, which have no tests of single coefficients "
                    f"and no reference level\n  take it out, or write ns() or C() in the formula"
                )
    problems.check()


def check_compared(
    where: str, formula: ParsedFormula, kinds: Mapping[str, Kind | None], pairwise: Sequence[str]
) -> None:
    """Raise UserError for factors whose levels are to be compared that the formula has not, or that have none."""
    for name in pairwise:
        if problem := without_levels(name, formula, kinds):
            raise UserError(f"{where}.pairwise: {problem}")


def without_levels(name: str, formula: ParsedFormula, kinds: Mapping[str, Kind | None]) -> str | None:
    """Return why no factor of the formula with this name has levels; None if one has, or if it is unknown."""
    factors = {factor.name: has_levels([factor], kinds) for term in formula.terms for factor in term.factors}
    categorical = [other for other, levels in factors.items() if levels is not False]
    if name in categorical:
        return None
    what = "is a number, which has no levels" if name in factors else "is no factor of the formula"
    return f"`{name}` {what}{nearest(name, categorical)}\n  {listed('there are', categorical)}"


def has_levels(factors: Sequence[FormulaFactor], kinds: Mapping[str, Kind | None]) -> bool | None:
    """Return whether a product of factors has a coefficient for each level of something; None if unknown."""
    if any(factor.categorical or kinds.get(factor.column) == "text" for factor in factors):
        return True
    plain = all(kinds.get(factor.column) in ("integer", "number") for factor in factors)
    several = any(call.function in SEVERAL for factor in factors for call in factor.calls)
    return False if plain and not several else None


def check_coefficient(where: str, coefficient: str, terms: Mapping[str, bool | None]) -> None:
    """Raise UserError unless a coefficient has the form of the terms, `term` or `term[level]`."""
    if coefficient in terms:
        if terms[coefficient] is True:
            raise UserError(f"{where}: `{coefficient}` has a coefficient for each level; write `{coefficient}[level]`")
        return
    of_level = [term for term in terms if coefficient.startswith(f"{term}[") and coefficient.endswith("]")]
    if not of_level:
        term = coefficient.partition("[")[0].strip()
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
