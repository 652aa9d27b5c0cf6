"""The functions that a formula may have: their options, and what is wrong with some. design.transforms computes them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_KNOTS = 200
"""Inner knots of a spline. Each is a coefficient, and a function to be evaluated for every row."""

LOGARITHMS = {"log": math.e, "log2": 2.0, "log10": 10.0}
"""The base of each logarithm."""

ELEMENTWISE = (*LOGARITHMS, "log1p", "exp", "sqrt", "abs")

TENSOR_PRODUCTS = ("te", "ti")

SMOOTH = ("s", *TENSOR_PRODUCTS)
"""The penalised splines."""

SPLINES = ("bs", "ns", "cc", *SMOOTH)

SEVERAL = ("poly", *SPLINES)
"""The functions that may make several columns of one."""

LEARNING = ("scale", "center", *SEVERAL)
"""The functions that learn from the training rows."""

LINEAR = ("scale", "center")
"""The functions that change the unit of a number, and its origin."""


@dataclass(frozen=True)
class Function:
    """The names of its options in order, and what returns what is wrong with them, if anything."""

    options: tuple[str, ...] = ()
    problem: Callable[[Mapping[str, Any]], str | None] = lambda options: None


def is_whole(value: Any) -> bool:
    return type(value) is int


def is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def no_flag(options: Mapping[str, Any], function: str, *names: str) -> str | None:
    """Return what is wrong with options that are true or false."""
    wrong = next((name for name in names if type(options.get(name, False)) is not bool), None)
    return f"{wrong} of {function}() must be True or False" if wrong else None


def problem_of(function: str, fewest: Callable[[int, bool], int]) -> Callable[[Mapping[str, Any]], str | None]:
    """Return what is wrong with the options of a spline; `fewest` is the smallest df for a degree, with or without an
    intercept."""

    def problem(options: Mapping[str, Any]) -> str | None:
        df, knots, degree = options.get("df"), options.get("knots"), options.get("degree", 3)
        if (df is None) == (knots is None):
            return f"{function}() takes df or knots"
        if not is_whole(degree) or not 0 <= degree <= 10:
            return f"the degree of {function}() must be a whole number from 0 to 10"
        if wrong := no_flag(options, function, "include_intercept"):
            return wrong
        least = fewest(degree, options.get("include_intercept", False))
        of_degree = f" for degree {degree}" if function == "bs" else ""
        if df is not None and (not is_whole(df) or df < least):
            return f"df of {function}() must be a whole number of at least {least}{of_degree}, received {df}"
        if df is not None and df > least + MOST_KNOTS:
            return f"df of {function}() is at most {least + MOST_KNOTS}{of_degree}, received {df}"
        if knots is not None and not (isinstance(knots, list | tuple) and all(map(is_finite, knots))):
            return f"the knots of {function}() must be a list of numbers"
        if knots is not None and len(knots) > MOST_KNOTS:
            return f"{function}() takes at most {MOST_KNOTS} knots, received {len(knots):,}"
        for bound in ("lower_bound", "upper_bound"):
            if bound in options and not is_finite(options[bound]):
                return f"the {bound} of {function}() must be a number"
        return None

    return problem


def problem_of_cc(options: Mapping[str, Any]) -> str | None:
    if not {"lower_bound", "upper_bound"} <= set(options):
        return (
            "cc() takes lower_bound and upper_bound, where a period begins and ends, as the same point: for hours from 0 to 23 "
            "cc({x}, df=6, lower_bound=0, upper_bound=24)"
        )
    if len(set(options.get("knots") or (1, 2))) < 2:
        return "cc() takes two knots at least within a period"
    return problem_of("cc", lambda _, intercept: 2 + intercept)(options)


FEWEST_COEFFICIENTS = {"cr": 3, "ps": 4, "cc": 4, "tp": 3}
"""The smallest k of the bases of `s`."""


def problem_of_smooth(function: str, k: int, example: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Return what is wrong with the options of a smooth of one column, or of one column of several. `k` is the default, and
    `example` a periodic smooth of the hours of a day."""

    def problem(options: Mapping[str, Any]) -> str | None:
        basis, size = options.get("bs", "cr"), options.get("k", k)
        if basis not in FEWEST_COEFFICIENTS or (basis == "tp" and function != "s"):
            known = "cr, ps, cc or tp for a number, and re for a factor" if function == "s" else "cr, ps or cc"
            return f"bs of {function}() is {known}, received {basis}"
        least = FEWEST_COEFFICIENTS[basis]
        if not is_whole(size) or not least <= size <= MOST_KNOTS:
            return f"k of {function}() must be a whole number from {least} to {MOST_KNOTS} with bs={basis}, received {size}"
        sp = options.get("sp", 1.0)
        if not is_finite(sp) or not sp > 0:
            return f"sp of {function}() is the smoothing parameter, a number above 0, received {sp}"
        limits = [name for name in ("lower_bound", "upper_bound") if name in options]
        if basis != "cc" and limits:
            return f"{function}() takes {limits[0]} with bs=cc alone"
        if basis == "cc" and not (len(limits) == 2 and all(is_finite(options[name]) for name in limits)):
            return (
                f"{function}() with bs=cc takes lower_bound and upper_bound, where a period begins and ends, as the same point: "
                f"for hours from 0 to 23 {example}"
            )
        return None

    return problem


def problem_of_poly(options: Mapping[str, Any]) -> str | None:
    degree = options.get("degree", 1)
    if not is_whole(degree) or not 1 <= degree <= 20:
        return "the degree of poly() must be a whole number from 1 to 20"
    return no_flag(options, "poly", "raw")


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(ELEMENTWISE, Function()),
    "scale": Function(("center", "scale"), lambda options: no_flag(options, "scale", "center", "scale")),
    "center": Function(),
    "poly": Function(("degree", "raw"), problem_of_poly),
    "I": Function(("expression",)),
    "bs": Function(
        ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
        problem_of("bs", lambda degree, intercept: max(degree + intercept, 1)),
    ),
    "ns": Function(
        ("df", "knots", "include_intercept", "lower_bound", "upper_bound"),
        problem_of("ns", lambda _, intercept: 1 + intercept),
    ),
    "cc": Function(("df", "knots", "lower_bound", "upper_bound", "include_intercept"), problem_of_cc),
    "s": Function(
        ("k", "bs", "lower_bound", "upper_bound", "sp"),
        problem_of_smooth("s", 10, "s({x}, bs=cc, lower_bound=0, upper_bound=24)"),
    ),
    **{
        name: Function(
            ("k", "bs", "lower_bound", "upper_bound", "sp"),
            problem_of_smooth(name, 5, f"{name}({{x}}, z, bs=[cc, cr], lower_bound=0, upper_bound=24)"),
        )
        for name in TENSOR_PRODUCTS
    },
}
