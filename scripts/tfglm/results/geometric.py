"""Means of the logarithm of a quantity as geometric means of the quantity itself, and their differences as ratios."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfglm.families import family_of
from tfglm.formula.response import Logarithm, computed_response

RETRANSFORMED = {"mean": "geometric_mean", "ci_lower": "geometric_ci_lower", "ci_upper": "geometric_ci_upper"}
"""Columns of means and predictions of a logarithm, each with its power of the base beside it."""

RATIOS = {"estimate": "ratio", "ci_lower": "ratio_ci_lower", "ci_upper": "ratio_ci_upper"}
"""Columns of differences of such means, each with the ratio of geometric means beside it."""


def logarithm_of(formula: str, family: str, link: str | None) -> Logarithm | None:
    """The logarithm that a linear regression has as its response; None of any other regression."""
    computed = computed_response(formula) if family_of(family, link).quadratic else None
    return computed.logarithm if computed else None


def with_geometric_means(columns: Mapping[str, Any], logarithm: Logarithm | None) -> dict[str, Any]:
    """Return columns of a table of means with those of RETRANSFORMED.

    A power of the base of a mean of logarithms is a geometric mean, and as the power is monotone, one of an interval is an
    interval of it. It is no arithmetic mean, which is larger.
    """
    of_responses = {f"prediction_{end}": f"geometric_prediction_{end}" for end in ("lower", "upper")}
    return {**columns, **(powers(columns, logarithm, RETRANSFORMED | of_responses) if logarithm else {})}


def powers(columns: Mapping[Any, Any], logarithm: Logarithm, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the powers of the base of the columns that are there, by their own `names`."""
    with np.errstate(over="ignore"):
        return {
            power: np.exp(logarithm.rate * np.asarray(columns[name], float))
            for name, power in names.items()
            if name in columns
        }
