"""The derivatives of the functions of numbers in a formula (`design.transforms`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfglm.design import splines
from tfglm.design.transforms import TRANSFORMS, value_of
from tfglm.formula.arithmetic import COLUMN, COMPUTED
from tfglm.formula.functions import ELEMENTWISE

Learnt = Mapping[str, Any]


SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": lambda x: 1.0 / x,
    "log2": lambda x: 1.0 / (x * np.log(2.0)),
    "log10": lambda x: 1.0 / (x * np.log(10.0)),
    "log1p": lambda x: 1.0 / (1.0 + x),
    "exp": np.exp,
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "abs": np.sign,
}
"""The derivatives of ELEMENTWISE."""


def derivative(learnt: Sequence[Learnt], x: np.ndarray) -> list[np.ndarray]:
    """The derivatives by `x` of the columns that it becomes, by the chain rule. At a kink, as of abs() at 0, some number between
    the slopes on both sides."""
    inner, slopes = x, [np.ones_like(x)]
    for function in learnt:
        slopes = [slopes[0] * slope for slope in DERIVATIVES[function["function"]](inner, function)]
        inner = TRANSFORMS[function["function"]].apply(np, inner, function)[0]
    return slopes


def is_step(learnt: Sequence[Learnt]) -> bool:
    """Whether the columns change in steps, so that their derivative, 0, says nothing."""
    return any(function["function"] == "bs" and function["degree"] == 0 for function in learnt)


def _elementwise(name: str) -> Callable[[np.ndarray, Learnt], list[np.ndarray]]:
    return lambda x, _: [SLOPES[name](x)]


def _poly_slopes(x: np.ndarray, learnt: Learnt) -> list[np.ndarray]:
    """Differentiate the recurrence, step by step."""
    if "alpha" not in learnt:
        return [power * x ** (power - 1) for power in range(1, learnt["degree"] + 1)]
    norm, columns = learnt["norm"], []
    before, now = np.zeros_like(x), np.ones_like(x)
    slope_before, slope = np.zeros_like(x), np.zeros_like(x)
    for power, alpha in enumerate(learnt["alpha"]):
        ratio = norm[power] / norm[power - 1] if power else 0.0
        following = (x - alpha) * now - ratio * before
        slope_before, slope = slope, now + (x - alpha) * slope - ratio * slope_before
        before, now = now, following
        columns.append(slope / norm[power + 1] ** 0.5)
    return columns


def _scale_slopes(x: np.ndarray, learnt: Learnt) -> list[np.ndarray]:
    return [np.full_like(x, 1.0 / learnt["divisor"])]


def slope_of(tree: Any, x: np.ndarray) -> np.ndarray:
    """The derivative of an expression by the column, by the chain rule."""
    if isinstance(tree, float | int):
        return np.zeros_like(x)
    if tree == COLUMN:
        return np.ones_like(x)
    if len(tree) == 2:
        return SLOPES[tree[0]](value_of(np, tree[1], x)) * slope_of(tree[1], x)
    symbol, first, second = tree
    u, v = value_of(np, first, x), value_of(np, second, x)
    du, dv = slope_of(first, x), slope_of(second, x)
    if symbol in "+-":
        return COMPUTED[symbol](du, dv)
    if symbol == "*":
        return du * v + u * dv
    if symbol == "/":
        return du / v - u / v * (dv / v)
    from scipy.special import xlogy  # slow to import, and the Snakefile checks formulas

    # What does not change has no part, though the logarithm of a negative base, or a root's slope at 0, is not finite.
    with np.errstate(all="ignore"):
        of_base = np.where(du == 0, 0.0, v * u ** (v - 1) * du)
        return of_base + np.where(dv == 0, 0.0, xlogy(u**v, u) * dv)


DERIVATIVES: dict[str, Callable[[np.ndarray, Learnt], list[np.ndarray]]] = {
    **{name: _elementwise(name) for name in ELEMENTWISE},
    "I": lambda x, learnt: [slope_of(learnt["expression"], x)],
    "scale": _scale_slopes,
    "center": _scale_slopes,
    "poly": _poly_slopes,
    "bs": splines.slopes_of_bs,
    "ns": splines.slopes_of_ns,
    "cc": splines.slopes_of_cc,
    "s": splines.slopes_of_s,
    "te": splines.slopes_of_te,
}
"""The derivatives of the columns of each function in TRANSFORMS, from numbers and what the function has learnt."""
