"""Lists of terms under a name, which formulas use by it."""

import re
from collections.abc import Mapping
from typing import Any

from tfglm.errors import short
from tfglm.formula.text import LONGEST_TEXT

WORD = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|%in%|(?<![\w.])[A-Za-z_]\w*(?!\s*[(=.]|\w)")
"""Possible names of terms in a formula, among other words: not functions, argument names or quoted text."""

RESERVED = ("True", "False", "None", "Intercept")


def expanded(formula: str, terms: Mapping[str, Any], within: tuple[str, ...] = ()) -> str:
    """A formula, or a part of one, with each name of terms replaced by these, in parentheses.

    Raises ValueError for names that stand for each other, and for a formula that becomes too long.
    """

    def put(match: re.Match) -> str:
        name = match[0]
        if not isinstance(terms.get(name), str):
            return name
        if name in within:
            raise ValueError(f"terms.{name}: `{' -> '.join([*within, name])}` refers to itself; write its terms out")
        return f"({expanded(terms[name], terms, (*within, name))})"

    result = WORD.sub(put, formula)
    if len(result) > LONGEST_TEXT:
        raise ValueError(
            f"terms: `{short(formula)}` has more than {LONGEST_TEXT:,} characters with its terms written out; shorten it"
        )
    return result


def expanded_model(model: Any, terms: Mapping[str, Any]) -> Any:
    """Return the keys of a model with its names of terms replaced. Anything else is returned unchanged, so that later
    checks report it."""
    if not isinstance(model, dict) or not isinstance(model.get("formula"), str):
        return model
    response, tilde, rest = model["formula"].partition("~")
    if tilde and response.strip() in terms:
        raise ValueError(f"terms.{response.strip()}: it stands for terms, and cannot be a response; rename it")
    of_penalties: dict[str, Any] = {}
    if isinstance(model.get("unpenalised"), list):
        of_penalties["unpenalised"] = [
            expanded(term, terms) if isinstance(term, str) else term for term in model["unpenalised"]
        ]
    if isinstance(model.get("penalty_factors"), dict):
        of_penalties["penalty_factors"] = {
            expanded(term, terms) if isinstance(term, str) else term: factor
            for term, factor in model["penalty_factors"].items()
        }
    formula = f"{response}{tilde}{expanded(rest, terms)}" if tilde else model["formula"]
    return {**model, **of_penalties, "formula": formula}


def check_terms(terms: Mapping[str, str], columns: Mapping[str, str]) -> None:
    """Raise ValueError for terms that no formula can use. `columns` are the names that there are, each with the key that has
    it."""
    for name, text in terms.items():
        if name in columns:
            raise ValueError(
                f"terms.{name}: {columns[name]} has a column of this name, so that a formula could mean either; rename the terms"
            )
        if name in RESERVED:
            raise ValueError(f"terms.{name}: formulas have a word `{name}` already; rename the terms")
        if "~" in text or text.count("(") != text.count(")"):
            raise ValueError(
                f"terms.{name}: `{short(text)}` is no list of terms, which are joined by +, and has no ~, and a ) for "
                "each ("
            )
