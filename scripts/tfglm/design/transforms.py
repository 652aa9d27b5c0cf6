"""Functions of numbers in a formula. Some learn from the training rows: means, knots, orthogonal polynomials.

Functions learn from the distinct values and their frequencies. The dictionary has both exactly, so no function needs the
rows (docs/statistics.md: Functions of numbers). A learnt function is a dict that JSON can hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfglm.design import splines
from tfglm.errors import UserError
from tfglm.formula.arithmetic import COLUMN, COMPUTED
from tfglm.formula.functions import ELEMENTWISE
from tfglm.formula.terms import FunctionCall


@dataclass(frozen=True)
class Transform:
    """How a function of formulas is computed.

    `learn(values, rows, options)` returns what the function needs to know about the training rows: `rows[i]` rows have the
    value `values[i]` (sorted). `apply(xp, x, learnt)` returns the list of columns computed from `x`; `xp` is NumPy or
    TensorFlow's version of it. `slopes(x, learnt)` returns their derivatives by `x`.
    """

    learn: Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], dict]
    apply: Callable[[Any, Any, Mapping[str, Any]], list]
    slopes: Callable[[np.ndarray, Mapping[str, Any]], list[np.ndarray]]


def learn(
    calls: Sequence[FunctionCall],
    values: np.ndarray,
    rows: np.ndarray,
    where: str,
    moments: tuple[float, float, float] | None = None,
) -> tuple[list[dict], np.ndarray]:
    """Learn what functions of a number, the innermost first, need from its distinct values, sorted, and from how often each
    occurs, such as the knots of a spline. Return what each call has learnt, ready for JSON; and the transformed values,
    [distinct values, columns].

    If the values are a sample, `moments` are the number of all rows, their mean and their variance (divisor n). Raises
    UserError, which begins with `where`, if a value has no finite result, or an inner call returns more than one column.

    >>> factor = parse_factor("scale(log(x))", "scale(log(x))", "models.m.formula")
    >>> learnt, columns = learn(factor.calls, np.exp([1.0, 2.0, 3.0]), np.array([1, 1, 1]), "models.m.formula")
    >>> columns.ravel().round(9)
    array([-1.,  0.,  1.])
    """
    learnt: list[dict] = []
    columns = [values]
    for call in calls:
        if len(columns) > 1:
            raise UserError(f"{where}: {call.function}() cannot be applied to the several columns inside it")
        transform = TRANSFORMS[call.function]
        try:
            # An inner function need not be monotonic, and may have the same value twice.
            distinct, places = (columns[0], None) if not learnt else np.unique(columns[0], return_inverse=True)
            occurring = rows if places is None else np.bincount(places, rows)
            values_learnt = transform.learn(distinct, occurring, call.options)
            if moments and not learnt and call.function in ("scale", "center"):
                values_learnt = _scale(
                    *moments, {**call.options, **({"scale": False} if call.function == "center" else {})}
                )
            learnt.append({"function": call.function, **values_learnt})
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        with np.errstate(all="ignore"):
            following = transform.apply(np, columns[0], learnt[-1])
        bad = ~np.all(np.isfinite(following), axis=0)
        if bad.any():
            raise UserError(
                f"{where}: {call.function}() is not finite for the value {columns[0][bad][0]:g}, which "
                f"{int(rows[bad].sum()):,} training rows have\n  leave such rows out with a condition in data.where"
            )
        columns = following
    return learnt, np.stack(columns, axis=1)


def apply(xp, learnt: Sequence[Mapping[str, Any]], x) -> list:
    """The columns that `x` becomes; `xp` is NumPy or TensorFlow's version of it."""
    columns = [x]
    for function in learnt:
        columns = TRANSFORMS[function["function"]].apply(xp, columns[0], function)
    return columns


def may_fail(learnt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are numbers without a finite result."""
    return any(function["function"] in ("I", "log", "log2", "log10", "log1p", "sqrt", "exp") for function in learnt)


def derivative(learnt: Sequence[Mapping[str, Any]], x: np.ndarray) -> list[np.ndarray]:
    """The derivatives by `x` of the columns that it becomes, by the chain rule. At a kink, as of abs() at 0, some number between
    the slopes on both sides."""
    inner, slopes = x, [np.ones_like(x)]
    for function in learnt:
        slopes = [slopes[0] * slope for slope in TRANSFORMS[function["function"]].slopes(inner, function)]
        inner = TRANSFORMS[function["function"]].apply(np, inner, function)[0]
    return slopes


def is_step(learnt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the columns change in steps, so that their derivative, 0, says nothing."""
    return any(function["function"] == "bs" and function["degree"] == 0 for function in learnt)


def is_outside(xp, learnt: Sequence[Mapping[str, Any]], x):
    """Return whether a value is outside the range that a spline has learnt."""
    first = splines.by_column(x)[0]
    outside = first != first + 0.0 * first
    for function in learnt:
        if splines.has_range(function):
            ends = zip(
                splines.by_column(x), np.atleast_1d(function["low"]), np.atleast_1d(function["high"]), strict=True
            )
            for number, low, high in ends:
                outside = xp.logical_or(outside, xp.logical_or(number < low, number > high))
        x = TRANSFORMS[function["function"]].apply(xp, x, function)[0]
    return outside


def learns_range(learnt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a spline has learnt a range, beyond which `bs` takes a value for the nearest in it, and `ns` is linear."""
    return any(splines.has_range(function) for function in learnt)


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


def _elementwise(name: str) -> Transform:
    return Transform(
        lambda values, rows, options: {},
        lambda xp, x, learnt: [getattr(xp, name)(x)],
        lambda x, learnt: [SLOPES[name](x)],
    )


# scale, center --------------------------------------------------------------------------------------------------------


def _learn_scale(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Learn as R's scale(): mean, and standard deviation with divisor n - 1."""
    mean = float(np.average(values, weights=rows))
    return _scale(float(rows.sum()), mean, float(np.average((values - mean) ** 2, weights=rows)), options)


def _scale(rows: float, mean: float, variance: float, options: Mapping[str, Any]) -> dict:
    center, divisor = mean if options.get("center", True) else 0.0, 1.0
    if options.get("scale", True):
        # As in R, the scale without centring is the root mean square.
        divisor = float(np.sqrt(rows / max(rows - 1, 1) * (variance + (mean - center) ** 2)))
    if divisor == 0:
        raise ValueError(
            "scale() needs a column that varies, and it has one value in the training rows; remove the term"
        )
    return {"mean": center, "divisor": divisor}


def _apply_scale(xp, x, learnt: Mapping[str, Any]) -> list:
    return [(x - learnt["mean"]) / learnt["divisor"]]


def _scale_slopes(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    return [np.full_like(x, 1.0 / learnt["divisor"])]


# poly -----------------------------------------------------------------------------------------------------------------


def _learn_poly(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """The three-term recurrence of orthogonal polynomials (Kennedy & Gentle, Statistical Computing, 1980, as R's poly())."""
    degree = options.get("degree", 1)
    if options.get("raw", False):
        return {"degree": degree}
    if degree >= len(values):
        raise ValueError(
            f"poly() of degree {degree} needs more than {degree} distinct values, and there are {len(values)}"
        )
    alpha, norm = [], [float(rows.sum())]
    before, now = np.zeros(len(values)), np.ones(len(values))
    for power in range(degree):
        alpha.append(float(np.sum(rows * values * now**2) / norm[-1]))
        following = (values - alpha[-1]) * now - (norm[-1] / norm[-2] * before if power else 0.0)
        before, now = now, following
        norm.append(float(np.sum(rows * now**2)))
    return {"degree": degree, "alpha": alpha, "norm": norm}


def _apply_poly(xp, x, learnt: Mapping[str, Any]) -> list:
    if "alpha" not in learnt:
        return [x**power for power in range(1, learnt["degree"] + 1)]
    norm, columns = learnt["norm"], []
    before, now = 0.0 * x, 0.0 * x + 1.0
    for power, alpha in enumerate(learnt["alpha"]):
        following = (x - alpha) * now - (norm[power] / norm[power - 1] * before if power else 0.0)
        before, now = now, following
        columns.append(now / norm[power + 1] ** 0.5)
    return columns


def _poly_slopes(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
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


# I --------------------------------------------------------------------------------------------------------------------


def value_of(xp: Any, tree: Any, x: Any) -> Any:
    """Evaluate an expression; `xp` is NumPy or TensorFlow's version of it."""
    if isinstance(tree, float | int):
        return float(tree)
    if tree == COLUMN:
        return x
    if len(tree) == 2:
        return getattr(xp, tree[0])(value_of(xp, tree[1], x))
    return COMPUTED[tree[0]](value_of(xp, tree[1], x), value_of(xp, tree[2], x))


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


TRANSFORMS: dict[str, Transform] = {
    **{name: _elementwise(name) for name in ELEMENTWISE},
    "scale": Transform(_learn_scale, _apply_scale, _scale_slopes),
    "center": Transform(
        lambda values, rows, _: _learn_scale(values, rows, {"scale": False}), _apply_scale, _scale_slopes
    ),
    "poly": Transform(_learn_poly, _apply_poly, _poly_slopes),
    "I": Transform(
        lambda values, rows, options: dict(options),
        lambda xp, x, learnt: [value_of(xp, learnt["expression"], x)],
        lambda x, learnt: [slope_of(learnt["expression"], x)],
    ),
    "bs": Transform(splines.learn_bs, splines.apply_bs, splines.slopes_of_bs),
    "ns": Transform(splines.learn_ns, splines.apply_ns, splines.slopes_of_ns),
    "cc": Transform(splines.learn_cc, splines.apply_cc, splines.slopes_of_cc),
    "s": Transform(splines.learn_s, splines.apply_s, splines.slopes_of_s),
    "te": Transform(splines.learn_te, splines.apply_te, splines.slopes_of_te),
    "ti": Transform(splines.learn_ti, splines.apply_s, splines.slopes_of_s),
}
