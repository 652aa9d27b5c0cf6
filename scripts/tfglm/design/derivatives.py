"""The derivatives of the functions of numbers in a formula (`design.transforms`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfglm.design import arithmetic, splines
from tfglm.design.transforms import TRANSFORMS

Learnt = Mapping[str, Any]


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
    return lambda x, _: [arithmetic.SLOPES[name](x)]


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


DERIVATIVES: dict[str, Callable[[np.ndarray, Learnt], list[np.ndarray]]] = {
    **{name: _elementwise(name) for name in arithmetic.FUNCTIONS},
    "I": lambda x, learnt: [arithmetic.slope(learnt["expression"], x)],
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
