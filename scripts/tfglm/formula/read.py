"""Formulas whose grammar is checked later: the columns that they name, and the terms that can be read so far."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache

from tfglm.errors import UserError
from tfglm.formula.parse import NO_CALL, normalised, parse, parse_term, term_of, without_bars
from tfglm.formula.terms import CategoricalFactor, EventStudy, Term
from tfglm.formula.text import OPERATORS, QUOTED, words_of


def columns_of(text: str) -> list[str]:
    """The columns that a formula names, or a part of one; functions, their keywords and codings are none."""
    try:
        words = words_of(text)
    except ValueError:
        words = [text]
    return [name for word in words if word not in OPERATORS for name in _columns_in(word)]


@lru_cache(maxsize=10_000)
def _columns_in(word: str) -> Sequence[str]:
    try:
        return parse_term(normalised(word), word, "formula").columns
    except (*NO_CALL, UserError):
        return re.findall(r"\b(?!(?i:true|false)\b|None\b)[A-Za-z_]\w*\b(?!\s*[(=.])", QUOTED.sub(" ", word))


def covariates_in(formula: str) -> list[str]:
    """The columns right of the ~ of a formula."""
    return columns_of(right_side(formula))


def absorbed_too(formula: str, absorbed: Collection[str]) -> list[str]:
    """The absorbed columns that a formula has as a term. In `i(year, x)` and `C(year):x` years have slopes of x."""
    try:
        terms = parse(formula, "formula", whole=False).terms
    except UserError:
        return []  # the formula is refused later
    return [
        name
        for name in absorbed
        if any(name in term.columns and not has_slopes(term, name, absorbed) for term in terms)
    ]


def has_slopes(term: Term, column: str, absorbed: Collection[str]) -> bool:
    """Whether a term has slopes of another column, which is not absorbed, at the levels of a column."""
    has_levels = any(isinstance(factor, CategoricalFactor) and factor.columns == (column,) for factor in term.factors)
    return has_levels and not {*term.columns} <= {*absorbed}


def right_side(formula: str) -> str:
    """The sum of terms of a formula."""
    return formula.partition("~")[2]


@lru_cache(maxsize=1_000)
def factors_in(sum_: str) -> tuple[Term, ...]:
    """The factors in a sum of terms, such as the right-hand side of a formula, as far as they can be read."""
    found: list[Term] = []
    with suppress(ValueError, UserError):
        for word in words_of(without_bars(sum_, "formula")):
            with suppress(*NO_CALL, UserError):
                found += parse_term(normalised(word), word, "formula").factors if word not in OPERATORS else ()
    return tuple(found)


def has_curves(formula: str) -> bool:
    """Whether a number is inside a function, so that no single coefficient shows its effect."""
    return any(factor.is_nonlinear for factor in factors_in(right_side(formula)))


def has_event_study(formula: str) -> bool:
    """Whether a formula has an event study, `sunab()`."""
    return any(isinstance(factor, EventStudy) for factor in factors_in(right_side(formula)))


def has_smooths(formula: str) -> bool:
    """Whether a formula has smooth terms or random effects."""
    return any(factor.is_smooth or factor.is_random for factor in factors_in(right_side(formula)))


def has_random_effects_alone(formula: str) -> bool:
    """Whether a formula has random effects, and no smooth terms."""
    return has_smooths(formula) and not any(factor.is_smooth for factor in factors_in(right_side(formula)))


def has_term(formula: str, name: str) -> bool:
    """Whether a formula may have a term of this name: it names all factors, or their columns."""
    known = {*columns_of(formula), *(factor.name for factor in factors_in(right_side(formula)))}
    return {factor.name for factor in term_of(name).factors} <= known
