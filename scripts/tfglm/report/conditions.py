"""What the coefficients of a term are compared with, and at which values of other columns they hold."""

import functools
import re
from collections.abc import Iterator, Mapping

import pandas as pd

from tfglm.design.terms import without_class
from tfglm.report.words import FACTOR, Words, plain

SMOOTH = re.compile(r"\b(?:s|te|cc)\(")
"""Functions whose curves have the mean 0 over the training rows."""


@functools.cache
def columns_in(term: str) -> list[str]:
    """The columns of a term: no functions, nor their arguments."""
    return re.findall(r"(?<!bs=)(?<!\.)\b(?!(?:True|False)\b)[^\W\d]\w*\b(?!\s*[(=.])", term)


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
    factors = term.split(":")
    for other in own:
        others = other.split(":")
        if other == term or "bs=re" in term + other:
            continue
        if set(factors) < set(others):
            at |= dict.fromkeys(values(set(others) - set(factors), other, own, words))
        elif any(a != b and set(columns_in(a)) & set(columns_in(b)) for a in factors for b in others):
            unchanged[other] = None
    said = [f"at {' and '.join(at)}"] * bool(at) + [f"with {' and '.join(unchanged)} unchanged"] * bool(unchanged)
    return ", ".join(said)


def values(factors: set[str], term: str, own: Mapping[str, pd.DataFrame], words: Words) -> Iterator[str]:
    """The values of some factors of a term at which it adds nothing: 0, the mean of a curve, the reference level, or the mean of
    the levels of a coded factor. `own` has the rows of all terms."""
    of_levels = [factor for factor in term.split(":") if not is_number(factor, own, words)]
    in_order = zip(of_levels, str(own[term]["reference"].iloc[0]).split(":"), strict=False)
    references = dict(in_order) | {name: str(own[name]["reference"].iloc[0]) for name in of_levels if name in own}
    for factor in (factor for factor in term.split(":") if factor in factors):
        name, coded = words.term(factor), FACTOR.fullmatch(factor)
        if factor not in of_levels:
            yield f"the mean of {name}" if SMOOTH.match(factor) else f"{name} = 0"
        elif coded and coded[2] and coded[2] != "contr.treatment":
            yield f"the mean of the levels of {words.column(plain(factor))}"
        elif is_difference(own[term]) and (reference := references.get(factor)):
            yield f"{words.column(plain(factor))} = {words.level(factor, reference)}"


def is_number(factor: str, own: Mapping[str, pd.DataFrame], words: Words) -> bool:
    """Whether a factor of a term is a number, or a function of some; without a term of its own, as the ranges of columns tell."""
    if FACTOR.fullmatch(factor) or not factor.isidentifier():
        return not FACTOR.fullmatch(factor)
    return bool((own[factor]["level"] == "").all()) if factor in own else factor in words.spans
