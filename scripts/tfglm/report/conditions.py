"""What the coefficients of a term are compared with, and at which values of other columns they hold."""

from collections.abc import Collection, Iterator, Mapping

import pandas as pd

from tfglm.formula.names import without_class
from tfglm.formula.parse import term_of
from tfglm.formula.terms import CategoricalFactor, Covariate, Term
from tfglm.report.words import Words


def is_difference(rows: pd.DataFrame) -> bool:
    """Whether the coefficients of a term are differences from its reference level: not if that has a coefficient of its own, as
    without an intercept."""
    at_reference = rows[(rows["level"] == rows["reference"]) & (rows["reference"] != "")]
    return not (at_reference["estimate"] != 0).any()


def against(term: str, rows: pd.DataFrame, words: Words) -> str:
    """What the levels of a term are compared with, as `Words.against` says it; '' if with nothing. An interaction beside its
    parts compares no two combinations: all with a reference level are 0."""
    reference = str(rows["reference"].iloc[0])
    at_zero = (rows["estimate"] == 0) & rows["std_error"].isna() & (rows["status"] == "")
    is_compared = is_difference(rows) and not (":" in reference and at_zero.sum() > 1)
    return words.against(term, reference) if is_compared else ""


def conditions(table: pd.DataFrame, words: Words) -> dict[str, str]:
    """The values of other columns at which the coefficients of terms hold.

    Parameters
    ----------
    table
        All coefficients: term, level, reference and estimate.
    words
        Labels of columns and levels.

    Returns
    -------
    By term, for those with a column that other terms have too.

    Examples
    --------
    >>> rows = [("x", "", ""), ("g", "a", "a"), ("g", "b", "a"), ("x:g", "a", "a"), ("x:g", "b", "a")]
    >>> conditions(pd.DataFrame(rows, columns=["term", "level", "reference"]).assign(estimate=0.0), Words({}, {}))
    {'x': 'at g = a', 'g': 'at x = 0'}
    """
    by_term = {str(term): rows for term, rows in table.groupby("term", sort=False)}
    own = {without_class(term): rows for term, rows in by_term.items()}
    found = {term: condition(term, own, words) for term in own}
    return {term: found[without_class(term)] for term in by_term if found[without_class(term)]}


def condition(term: str, own: Mapping[str, pd.DataFrame], words: Words) -> str:
    """That of a term; '' if none. `own` has the rows of each term, of any class."""
    at, unchanged = dict[str, None](), dict[str, None]()
    kind, names = term_of(term), {factor.name for factor in term_of(term).factors}
    for other in own:
        others = {factor.name: factor for factor in term_of(other).factors}
        if other == term or kind.is_random or term_of(other).is_random:
            continue
        if names < others.keys():
            at |= dict.fromkeys(values(others.keys() - names, other, own, words))
        elif any(a.name != b.name and set(a.columns) & set(b.columns) for a in kind.factors for b in others.values()):
            unchanged[other] = None
    said = [f"at {' and '.join(at)}"] * bool(at) + [f"with {' and '.join(unchanged)} unchanged"] * bool(unchanged)
    return ", ".join(said)


def values(factors: Collection[str], term: str, own: Mapping[str, pd.DataFrame], words: Words) -> Iterator[str]:
    """The values of some factors of a term at which it adds nothing: 0, the mean of a curve, the reference level, or the mean of
    the levels of a coded factor. `own` has the rows of all terms."""
    of_levels = [factor.name for factor in term_of(term).factors if not is_number(factor, own, words)]
    in_order = zip(of_levels, str(own[term]["reference"].iloc[0]).split(":"), strict=False)
    references = dict(in_order) | {name: str(own[name]["reference"].iloc[0]) for name in of_levels if name in own}
    for factor in (factor for factor in term_of(term).factors if factor.name in factors):
        if factor.name not in of_levels:
            name = words.term(factor.name)
            yield f"the mean of {name}" if factor.is_centred else f"{name} = 0"
        elif factor.coding:
            yield f"the mean of the levels of {words.column(factor.bare)}"
        elif is_difference(own[term]) and (reference := references.get(factor.name)):
            yield f"{words.column(factor.bare)} = {words.level(factor.name, reference)}"


def is_number(factor: Term, own: Mapping[str, pd.DataFrame], words: Words) -> bool:
    """Whether a factor of a term is a number, or a function of some; without a term of its own, as the ranges of columns tell."""
    if type(factor) is not Covariate:
        return not isinstance(factor, CategoricalFactor)
    return bool((own[factor.name]["level"] == "").all()) if factor.name in own else factor.name in words.spans
