"""Functions of numbers in a formula. Some learn from the training rows: means, knots, orthogonal polynomials.

What is learnt depends on the distinct values and how often each occurs, which the dictionary knows exactly, so no function
ever needs the rows themselves (docs/statistics.md: Functions of numbers). A learnt function is a dict that JSON can hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfglm.errors import UserError


@dataclass(frozen=True)
class Call:
    """A function with its options, as a formula has it."""

    function: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Transform:
    """A function that formulas may use.

    `learn(values, rows, options)` gives what it needs to know of the training rows, of which `rows[i]` have the value
    `values[i]` (sorted); `apply(xp, x, learnt)` the list of columns that `x` becomes, where `xp` is NumPy or TensorFlow's
    version of it. `problem` says what is wrong with options, if anything is.
    """

    options: tuple[str, ...]
    learn: Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], dict]
    apply: Callable[[Any, Any, Mapping[str, Any]], list]
    problem: Callable[[Mapping[str, Any]], str | None] = lambda options: None


def learn(
    calls: Sequence[Call],
    values: np.ndarray,
    rows: np.ndarray,
    where: str,
    moments: tuple[float, float, float] | None = None,
) -> tuple[list[dict], np.ndarray]:
    """Learn from the data what functions of a number need, as the knots of a spline.

    Parameters
    ----------
    calls
        The functions, the innermost first.
    values
        The distinct values of the number, sorted.
    rows
        How often each occurs.
    where
        What the message of an error begins with.
    moments
        If the values are a sample: the number of all rows, their mean and their variance (divisor n).

    Returns
    -------
    What each call has learnt, as JSON can have it; and the values as they are then, [distinct values, columns].

    Raises
    ------
    UserError
        For a value without a finite result, and for more than one column inside another call.
    """
    learnt: list[dict] = []
    columns = [values]
    for call in calls:
        if len(columns) > 1:
            raise UserError(f"{where}: {call.function}() cannot be applied to the several columns inside it")
        transform = TRANSFORMS[call.function]
        try:
            values_learnt = transform.learn(columns[0], rows, call.options)
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


def width(learnt: Sequence[Mapping[str, Any]]) -> int:
    """The number of those columns."""
    with np.errstate(all="ignore"):
        return len(apply(np, learnt, np.ones(1)))


def may_fail(learnt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are numbers without a finite result."""
    return any(function["function"] in ("log", "log2", "log10", "log1p", "sqrt", "exp") for function in learnt)


def is_outside(xp, learnt: Sequence[Mapping[str, Any]], x):
    """Whether a value lies outside the range that a spline has learnt."""
    outside = x != x + 0.0 * x
    for function in learnt:
        if function["function"] == "bs":
            outside = xp.logical_or(outside, xp.logical_or(x < function["low"], x > function["high"]))
        x = TRANSFORMS[function["function"]].apply(xp, x, function)[0]
    return outside


def learns_range(learnt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether values outside those of the training rows are taken for the nearest of them."""
    return any(function["function"] == "bs" for function in learnt)


def _elementwise(name: str) -> Transform:
    return Transform((), lambda values, rows, options: {}, lambda xp, x, learnt: [getattr(xp, name)(x)])


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _no_flag(options: Mapping[str, Any], function: str, *names: str) -> str | None:
    """What is wrong with options that switch something."""
    wrong = next((name for name in names if type(options.get(name, False)) is not bool), None)
    return f"{wrong} of {function}() must be True or False" if wrong else None


# scale, center --------------------------------------------------------------------------------------------------------


def _learn_scale(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """As R's scale(): mean, and standard deviation with divisor n - 1."""
    mean = float(np.average(values, weights=rows))
    return _scale(float(rows.sum()), mean, float(np.average((values - mean) ** 2, weights=rows)), options)


def _scale(rows: float, mean: float, variance: float, options: Mapping[str, Any]) -> dict:
    center, divisor = mean if options.get("center", True) else 0.0, 1.0
    if options.get("scale", True):
        # As in R, without centring it is the root mean square.
        divisor = float(np.sqrt(rows / max(rows - 1, 1) * (variance + (mean - center) ** 2)))
    if divisor == 0:
        raise ValueError("scale() of a column that does not vary")
    return {"mean": center, "divisor": divisor}


def _apply_scale(xp, x, learnt: Mapping[str, Any]) -> list:
    return [(x - learnt["mean"]) / learnt["divisor"]]


# poly -----------------------------------------------------------------------------------------------------------------


def _problem_of_poly(options: Mapping[str, Any]) -> str | None:
    degree = options.get("degree", 1)
    if not _is_whole(degree) or not 1 <= degree <= 20:
        return "the degree of poly() must be a whole number from 1 to 20"
    return _no_flag(options, "poly", "raw")


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


# bs -------------------------------------------------------------------------------------------------------------------


MOST_KNOTS = 200
"""Inner knots of a spline. Each is a coefficient, and a function to be evaluated for every row."""


def _problem_of_bs(options: Mapping[str, Any]) -> str | None:
    df, knots, degree = options.get("df"), options.get("knots"), options.get("degree", 3)
    if (df is None) == (knots is None):
        return "bs() takes df or knots"
    if not _is_whole(degree) or not 0 <= degree <= 10:
        return "the degree of bs() must be a whole number from 0 to 10"
    no_flag = _no_flag(options, "bs", "include_intercept")
    if no_flag:
        return no_flag
    fewest = max(degree + options.get("include_intercept", False), 1)
    if df is not None and (not _is_whole(df) or df < fewest):
        return f"df of bs() must be a whole number of at least {fewest} for degree {degree}"
    if df is not None and df > fewest + MOST_KNOTS:
        return f"df of bs() is at most {fewest + MOST_KNOTS} for degree {degree}, received {df}"
    if knots is not None and not (isinstance(knots, list | tuple) and all(map(_is_finite, knots))):
        return "the knots of bs() must be a list of numbers"
    if knots is not None and len(knots) > MOST_KNOTS:
        return f"bs() takes at most {MOST_KNOTS} knots, received {len(knots):,}"
    for bound in ("lower_bound", "upper_bound"):
        if bound in options and not _is_finite(options[bound]):
            return f"the {bound} of bs() must be a number"
    return None


def _learn_bs(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Knots as in R's bs(): the inner ones at the quantiles (type 7) of the training rows, the outer ones at their ends."""
    degree, intercept = options.get("degree", 3), bool(options.get("include_intercept", False))
    low = float(options.get("lower_bound", values[0]))
    high = float(options.get("upper_bound", values[-1]))
    if not low < high:
        raise ValueError("bs() of a column that does not vary")
    if options.get("knots") is not None:
        inner = sorted(float(knot) for knot in options["knots"])
    else:
        number = options["df"] - degree - intercept
        inner = quantiles(values, rows, np.linspace(0, 1, number + 2)[1:-1]).tolist()
    if inner and not low < inner[0] <= inner[-1] < high:
        raise ValueError(
            f"the inner knots of bs(), {inner}, must lie between {low:g} and {high:g}; choose a smaller df"
        )
    return {"degree": degree, "include_intercept": intercept, "low": low, "high": high, "knots": inner}


def quantiles(values: np.ndarray, rows: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Quantiles (type 7, NumPy's and R's default) of values (sorted) that occur `rows` times."""
    ends = np.cumsum(rows)
    place = probabilities * (ends[-1] - 1)
    below, above = (values[np.searchsorted(ends, rank, side="right")] for rank in (np.floor(place), np.ceil(place)))
    return below + (above - below) * (place - np.floor(place))


def _apply_bs(xp, x, learnt: Mapping[str, Any]) -> list:
    """The recursion of de Boor and Cox; values outside the learnt range are taken for its ends.

    SciPy's BSpline is no faster and cannot be exported: a SavedModel needs the recursion in TensorFlow, and its predictions
    agree with ours because it is this same one. In float64 the two differ by 6e-16 at most.
    """
    columns = splines(xp, x, learnt, learnt["degree"])
    return columns if learnt["include_intercept"] else columns[1:]


def knots_of(learnt: Mapping[str, Any]) -> list[float]:
    """All knots of a spline: each outer one as often as it has coefficients at a place."""
    order = learnt["degree"] + 1
    return [learnt["low"]] * order + list(learnt["knots"]) + [learnt["high"]] * order


def splines(xp, x, learnt: Mapping[str, Any], degree: int) -> list:
    """The B-splines on the knots of a spline, of its own degree or a smaller one."""
    knots = knots_of(learnt)
    x = xp.minimum(xp.maximum(x, learnt["low"]), learnt["high"])
    last = max(k for k in range(len(knots) - 1) if knots[k] < knots[k + 1])
    columns = []
    for k in range(len(knots) - 1):
        inside = xp.logical_and(x >= knots[k], (x <= knots[k + 1]) if k == last else (x < knots[k + 1]))
        columns.append(xp.where(inside, 0.0 * x + 1.0, 0.0 * x))
    for order in range(1, degree + 1):
        following = []
        for k in range(len(knots) - 1 - order):
            left, right = knots[k + order] - knots[k], knots[k + order + 1] - knots[k + 1]
            value = 0.0 * x
            if left > 0:
                value = value + (x - knots[k]) / left * columns[k]
            if right > 0:
                value = value + (knots[k + order + 1] - x) / right * columns[k + 1]
            following.append(value)
        columns = following
    return columns


TRANSFORMS: dict[str, Transform] = {
    **{name: _elementwise(name) for name in ("log", "log2", "log10", "log1p", "exp", "sqrt", "abs")},
    "scale": Transform(
        ("center", "scale"), _learn_scale, _apply_scale, lambda options: _no_flag(options, "scale", "center", "scale")
    ),
    "center": Transform((), lambda values, rows, _: _learn_scale(values, rows, {"scale": False}), _apply_scale),
    "poly": Transform(("degree", "raw"), _learn_poly, _apply_poly, _problem_of_poly),
    "bs": Transform(
        ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
        _learn_bs,
        _apply_bs,
        _problem_of_bs,
    ),
}

LEARNING = ("scale", "center", "poly", "bs")
"""The functions that learn from the training rows."""
