"""The names of terms and coefficients in tables: `term`, `term[level]`, and with a class of the response `class: term[level]`."""

from collections.abc import Collection, Iterable

BETWEEN = ": "
"""Between a class and a term."""


def with_class(label: str, term: str) -> str:
    """Return the name of a term in the linear predictor of a class; '' is no class."""
    return f"{label}{BETWEEN}{term}" if label else term


def class_and_term(name: str) -> tuple[str, str]:
    """The class of a term, '' if it has none, and its name in the formula: `JFK` and `C(month)` of `JFK: C(month)`."""
    label, _, term = name.rpartition(BETWEEN)
    return label, term


def without_class(name: str) -> str:
    """The name of a term in the formula."""
    return class_and_term(name)[1]


def terms_of_class(names: Iterable[str], label: str) -> set[str]:
    """Of terms with their class those of one class, without it."""
    start = with_class(label, "")
    return {name.removeprefix(start) for name in names if name.startswith(start)}


def coefficient_name(term: str, level: str) -> str:
    """Return the name of a coefficient in a config."""
    return f"{term}[{level}]" if level else term


def term_in(coefficient: str) -> str:
    """The term of a coefficient."""
    return coefficient.partition("[")[0].strip()


def is_of_term(coefficient: str, term: str) -> bool:
    """Whether a coefficient has the form of a term, `term` or `term[level]`."""
    return coefficient == term or (coefficient.startswith(f"{term}[") and coefficient.endswith("]"))


def coefficient_without_class(coefficient: str, terms: Collection[str]) -> str:
    """Return a coefficient of a multinomial regression without its class, which may contain colons and brackets too.

    `terms` are the terms of the formula and `Intercept`.
    """
    words = coefficient.split(BETWEEN)
    rests = [BETWEEN.join(words[place:]) for place in range(len(words))]
    found = (rest for rest in rests if any(is_of_term(rest, term) for term in terms))
    return next(found, rests[-1])
