"""Splines of formulas: `bs`, `ns`, `cc`, and the penalised splines `s`, `te` and `ti`.

All use B-splines. `bs` uses them unchanged. The others multiply them by a matrix: splines that are linear beyond the outer
knots (`ns`, `s`), or periodic (`cc`), are a subspace of the cubic splines on the same knots.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfglm.design import thin_plates
from tfglm.formula.functions import SMOOTH

SEEN_ABOVE = 1e-12
"""The share that the training rows have in the length of a column of `s`. Below it only the penalty tells of the column, which
keeps this length."""


ON_A_LINE = 1e-8
"""Size of the distances of points from a line, as a share of those along it, below which they are rounding errors."""


def quantiles(values: np.ndarray, rows: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Quantiles (type 7, NumPy's and R's default) of values (sorted) that occur `rows` times."""
    ends = np.cumsum(rows)
    place = probabilities * (ends[-1] - 1)
    below, above = (values[np.searchsorted(ends, rank, side="right")] for rank in (np.floor(place), np.ceil(place)))
    return below + (above - below) * (place - np.floor(place))


def inner_probabilities(number: int) -> np.ndarray:
    """The evenly spaced probabilities whose quantiles are the inner knots."""
    return np.linspace(0, 1, number + 2)[1:-1]


def bounds(function: str, values: np.ndarray, options: Mapping[str, Any]) -> tuple[float, float]:
    """The outer knots: those asked for, else the ends of the training rows."""
    low = float(options.get("lower_bound", values[0]))
    high = float(options.get("upper_bound", values[-1]))
    if not low < high:
        raise ValueError(
            f"{function}() needs a range of values, and its range is from {low:g} to {high:g}; remove the term, or correct its "
            "bounds"
        )
    return low, high


def checked(function: str, inner: list[float], low: float, high: float) -> list[float]:
    """Return the inner knots. Raises ValueError for a knot outside the range of the outer knots."""
    if inner and not low < inner[0] <= inner[-1] < high:
        raise ValueError(
            f"the inner knots of {function}(), {inner}, must be between {low:g} and {high:g}; choose a smaller df"
        )
    return inner


def within(values: np.ndarray, rows: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the values between the outer knots; the inner knots are their quantiles."""
    inside = (values >= low) & (values <= high)
    if not inside.any():
        raise ValueError(f"no training row has a value from {low:g} to {high:g}")
    return values[inside], rows[inside]


def learn_bs(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Return knots as in R's bs(): the inner knots at quantiles (type 7) of the training rows, the outer knots at the
    extremes."""
    degree, intercept = options.get("degree", 3), bool(options.get("include_intercept", False))
    low, high = bounds("bs", values, options)
    if options.get("knots") is not None:
        inner = sorted(float(knot) for knot in options["knots"])
    else:
        inner = quantiles(values, rows, inner_probabilities(options["df"] - degree - intercept)).tolist()
    inner = checked("bs", inner, low, high)
    return {"degree": degree, "include_intercept": intercept, "low": low, "high": high, "knots": inner}


def apply_bs(xp: Any, x: Any, learnt: Mapping[str, Any]) -> list:
    """The recursion of de Boor and Cox; values outside the learnt range are taken for its ends.

    SciPy's BSpline is no faster and cannot be exported: a SavedModel needs the recursion in TensorFlow, and its predictions
    agree with ours because it is this same one. In float64 the two differ by 6e-16 at most.
    """
    columns = splines(xp, x, learnt, learnt["degree"])
    return columns if learnt["include_intercept"] else columns[1:]


def slopes_of_bs(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    """0 outside the learnt range, where x is taken for its ends."""
    inside = (x >= learnt["low"]) & (x <= learnt["high"])
    columns = [np.where(inside, column, 0.0) for column in spline_slopes(x, learnt)]
    return columns if learnt["include_intercept"] else columns[1:]


def learn_ns(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Return knots and basis of R's ns(). The basis is cubic B-splines times the Q of the QR decomposition of their second
    derivatives at the outer knots; these derivatives are zero in its last columns (R's splines package)."""
    intercept = bool(options.get("include_intercept", False))
    low, high = bounds("ns", values, options)
    if options.get("knots") is not None:
        inner = sorted(float(knot) for knot in options["knots"])
    else:
        inside = within(values, rows, low, high)
        inner = quantiles(*inside, inner_probabilities(options["df"] - 1 - intercept)).tolist()
    learnt = {"degree": 3, "low": low, "high": high, "knots": checked("ns", inner, low, high)}
    ends = np.array([low, high])
    curvature = np.stack(spline_slopes(ends, learnt, order=2), axis=1)
    matrix = np.eye(curvature.shape[1])
    if not intercept:
        curvature, matrix = curvature[:, 1:], matrix[:, 1:]
    orthogonal = np.linalg.qr(curvature.T, mode="complete")[0]
    matrix = matrix @ orthogonal[:, 2:]
    return {**learnt, "matrix": matrix.tolist(), **slopes_at_ends(learnt, matrix)}


def apply_ns(xp: Any, x: Any, learnt: Mapping[str, Any]) -> list:
    """Outside the learnt range the basis is linear, as in R."""
    below, above = xp.minimum(x - learnt["low"], 0.0), xp.maximum(x - learnt["high"], 0.0)
    ends = zip(learnt["slope_below"], learnt["slope_above"], strict=True)
    inside = combined(splines(xp, x, learnt, 3), learnt["matrix"])
    return [column + first * below + last * above for column, (first, last) in zip(inside, ends, strict=True)]


def slopes_of_ns(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    inside = np.clip(x, learnt["low"], learnt["high"])
    return combined(spline_slopes(inside, learnt), learnt["matrix"])


def learn_cc(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Learn the periodic cubic splines of mgcv's "cc" and formulaic's cc(): each is 1 at one knot and 0 at the others.

    Inner knots are quantiles of the distinct values. Without an intercept, multiplying by the last columns of the Q of
    their means gives every spline the mean 0 over the training rows (Wood, Generalized Additive Models, 2017, 5.3.2)."""
    intercept = bool(options.get("include_intercept", False))
    low, high = bounds("cc", values, options)
    wrapped = wrap(values, {"low": low, "high": high})
    if options.get("knots") is not None:
        inner = sorted(set(map(float, options["knots"])))
    else:
        distinct = np.unique(within(values, rows, low, high)[0])
        inner = quantiles(distinct, np.ones(len(distinct)), inner_probabilities(options["df"] - intercept)).tolist()
    checked("cc", inner, low, high)
    knots = np.array([low, *inner, high])
    if not np.all(np.diff(knots) > 0):
        raise ValueError(f"the knots of cc(), {knots.tolist()}, must differ; choose a smaller df")
    learnt = {"degree": 3, "low": low, "high": high, "knots": inner}
    matrix = np.linalg.solve(_at_points(learnt), periodic(_points(learnt), knots))
    if not intercept:
        mean = np.average(np.stack(splines(np, wrapped, learnt, 3), axis=1), axis=0, weights=rows) @ matrix
        matrix = matrix @ np.linalg.qr(mean[:, None], mode="complete")[0][:, 1:]
    return {**learnt, "matrix": matrix.tolist()}


def periodic(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """The periodic cubic splines that are 1 at one knot, [x, knots - 1], by their second derivatives at the knots (Wood 2017)."""
    length, count = np.diff(knots), len(knots) - 1
    before = np.roll(length, 1)
    each, following = np.arange(count), np.roll(np.arange(count), -1)
    curved, differences = np.zeros((count, count)), np.zeros((count, count))
    np.add.at(curved, (each, each), (before + length) / 3)
    np.add.at(differences, (each, each), -1 / length - 1 / before)
    for rows, columns in ((each, following), (following, each)):
        np.add.at(curved, (rows, columns), length / 6)
        np.add.at(differences, (rows, columns), 1 / length)
    second = np.linalg.solve(curved, differences)
    j = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, count - 1)
    step, left, right = length[j], x - knots[j], knots[j + 1] - x
    unit = np.eye(count)
    values = (right / step)[:, None] * unit[j] + (left / step)[:, None] * unit[following[j]]
    values += ((right**3 / step - step * right) / 6)[:, None] * second[j]
    return values + ((left**3 / step - step * left) / 6)[:, None] * second[following[j]]


def wrap(x: Any, learnt: Mapping[str, Any]) -> Any:
    """Return the same point in the first period."""
    return (x - learnt["low"]) % (learnt["high"] - learnt["low"]) + learnt["low"]


def apply_cc(xp: Any, x: Any, learnt: Mapping[str, Any]) -> list:
    return combined(splines(xp, wrap(x, learnt), learnt, 3), learnt["matrix"])


def slopes_of_cc(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    return combined(spline_slopes(wrap(x, learnt), learnt), learnt["matrix"])


def learn_s(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Learn a penalised spline with mean 0 over the training rows (docs/statistics.md: Smooth terms).

    The space and the penalty are those of mgcv's s(x, bs = "cr"), "ps" and "cc". Its columns have the mean 0, the variance 1 and
    no correlation over the training rows, and their penalty is diagonal (Demmler & Reinsch, Numerische Mathematik 24, 1975). The
    first column is linear, with penalty 0, unless the smooth is periodic; `penalty` has those of all columns. With the option
    `by`, a number that multiplies the curve, a constant comes before them.

    Raises ValueError for a column with fewer than k distinct values.
    """
    basis, k = options.get("bs", "cr"), options.get("k", 10)
    check_distinct("s", values, k)
    share = rows / rows.sum()
    if basis == "tp":
        return learn_thin_plates(values[:, None], share, k, options)
    learnt, matrix, penalty = BASES[basis](values, k, options)
    inside = wrap(values, learnt) if basis == "cc" else values
    columns = np.stack(splines(np, inside, learnt, 3), axis=1) @ matrix
    constant, line = np.linalg.lstsq(_at_points(learnt) @ matrix, _lines(learnt), rcond=None)[0].T
    plain = np.stack([constant] if basis == "cc" else [constant, line - constant * (share @ values)])
    diagonal, learnt["penalty"] = diagonalised(columns, plain, penalty, share)
    matrix = matrix @ diagonal
    if "sp" in options:
        learnt["sp"] = float(options["sp"])
    ends = np.array([learnt["low"], learnt["high"]])
    if basis != "cc":
        matrix = matrix * np.where((np.stack(splines(np, ends, learnt, 3), axis=1) @ matrix)[1] < 0, -1.0, 1.0)
    if "by" in options:
        # B-splines sum to 1.
        learnt["penalty"], matrix = [0.0, *learnt["penalty"]], np.column_stack([np.ones(len(matrix)), matrix])
    if basis == "cc":
        return {**learnt, "periodic": True, "matrix": matrix.tolist()}
    return {**learnt, "matrix": matrix.tolist(), **slopes_at_ends(learnt, matrix)}


def learn_thin_plates(points: np.ndarray, share: np.ndarray, k: int, options: Mapping[str, Any]) -> dict:
    """Learn a thin plate regression spline of the distinct `points` [points, columns] with these shares of the rows; its columns
    and their penalty have the properties that `learn_s` describes, with a linear column for each number."""
    learnt, columns, penalty = thin_plates.basis_of(points, share, k)
    matrix, penalties = diagonalised(columns, np.eye(k)[: points.shape[1] + 1], penalty, share)
    matrix = matrix * np.where((columns[-1] @ matrix) < 0, -1.0, 1.0)
    if "by" in options:
        penalties, matrix = [0.0, *penalties], np.column_stack([np.eye(k)[0], matrix])
    learnt = thin_plates.combined(learnt, matrix)
    low, high = points.min(axis=0), points.max(axis=0)
    learnt |= {"low": low.tolist(), "high": high.tolist(), "penalty": penalties}
    return learnt | ({"sp": float(options["sp"])} if "sp" in options else {})


def diagonalised(
    columns: np.ndarray, plain: np.ndarray, penalty: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """Return the matrix that makes the columns of a smooth of those of a basis at the distinct values of the training rows,
    [values, basis], and their penalties. `plain` [1 + lines, basis] makes the constant and straight lines, which have the
    mean 0 over the training rows and no correlation. `penalty` is [basis, basis]; `share` is the share of the rows at each
    value."""
    moments = columns.T @ (share[:, None] * columns)
    # The complement of constants and lines, orthogonal to both over the training rows.
    wiggly = np.linalg.qr((plain @ moments).T, mode="complete")[0][:, len(plain) :]
    moments, penalty = (wiggly.T @ each @ wiggly for each in (moments, penalty))
    # Both are diagonal in the coordinates where a mix of them is the identity. It is positive definite, though no row may
    # tell anything of a P-spline between two values.
    mix = np.trace(moments) / np.trace(penalty)
    root = np.linalg.inv(np.linalg.cholesky(moments + mix * penalty))
    sizes, vectors = np.linalg.eigh(root @ penalty @ root.T)
    variances = 1.0 - mix * sizes
    variances = np.where(variances > SEEN_ABOVE, variances, 1.0)
    vectors = root.T @ vectors / np.sqrt(variances)
    lines = plain[1:].T / np.sqrt(share @ (columns @ plain[1:].T) ** 2)
    return np.column_stack([lines, wiggly @ vectors]), [*[0.0] * lines.shape[1], *(sizes / variances).tolist()]


def check_distinct(function: str, values: np.ndarray, k: int) -> None:
    """Raise ValueError for fewer distinct values than coefficients."""
    if len(values) == 1:
        raise ValueError(
            f"{function}() needs a column that varies, and it has one value in the training rows; leave it out"
        )
    if len(values) < k:
        raise ValueError(
            f"{function}() has k={k} coefficients, and the training rows have {len(values):,} distinct values; choose a k of at "
            f"most {len(values)}"
        )


def check_points(points: np.ndarray, k: int) -> None:
    """Raise ValueError for fewer distinct points [points, columns] than coefficients, and for points on a line."""
    if len(points) < k:
        raise ValueError(
            f"s() has k={k} coefficients, and the training rows have {len(points):,} distinct pairs of values; choose a k of at "
            f"most {len(points)}"
        )
    spread = points - points.mean(axis=0)
    sizes = np.sqrt((spread**2).sum(axis=0))
    if not sizes.all() or np.linalg.matrix_rank(spread / sizes, ON_A_LINE) < points.shape[1]:
        raise ValueError(
            "s() of two columns needs points that are not on one line, and those of the training rows are; leave one column out"
        )


def slopes_at_ends(learnt: Mapping[str, Any], matrix: np.ndarray) -> dict[str, list[float]]:
    """The slopes of splines at the ends of their range, by which they go on beyond."""
    slopes = np.stack(spline_slopes(np.array([learnt["low"], learnt["high"]]), learnt), axis=1) @ matrix
    return {"slope_below": slopes[0].tolist(), "slope_above": slopes[1].tolist()}


def by_column(x: Any) -> tuple:
    """The numbers of each column that a factor is made of: `x` is a tuple of them, or the numbers of a single column."""
    return x if isinstance(x, tuple) else (x,)


def apply_s(xp: Any, x: Any, learnt: Mapping[str, Any]) -> list:
    if "centres" in learnt:
        return thin_plates.apply(xp, by_column(x), learnt)
    return apply_cc(xp, x, learnt) if learnt.get("periodic") else apply_ns(xp, x, learnt)


def slopes_of_s(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    if "centres" in learnt:
        return thin_plates.slopes([x], learnt, by=0)
    return slopes_of_cc(x, learnt) if learnt.get("periodic") else slopes_of_ns(x, learnt)


def learn_te(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Learn the splines of one column in a tensor product (docs/statistics.md: Tensor products).

    The space is that of s(). A spline is given by its values at k points, as in mgcv's te(): the knots of "cr" and "cc", and k
    evenly spaced points for "ps". The values of each column are an eigenvector of the penalty of these values, whose largest
    eigenvalue is made 1; `penalty` has the eigenvalues. The first column is the `constant`. The second is linear, with penalty
    0, unless the spline is periodic.

    Raises ValueError for a column with fewer than k distinct values.
    """
    learnt, matrix, penalty, points = by_values_at_points("te", values, options)
    size = len(points)
    plain = np.full((size, 1), size**-0.5)
    if options.get("bs") != "cc":
        line = points - points.mean()
        plain = np.column_stack([plain, line / np.linalg.norm(line)])
    learnt["constant"] = size**-0.5
    return by_eigenvectors(learnt, matrix, penalty, plain, options)


def learn_ti(values: np.ndarray, rows: np.ndarray, options: Mapping[str, Any]) -> dict:
    """Learn the splines of one column in mgcv's ti(), which have the mean 0 over the training rows, and so no constant. Otherwise
    they are those of `learn_te`; "ps" has one point fewer."""
    basis = options.get("bs", "cr")
    learnt, matrix, penalty, points = by_values_at_points("ti", values, options)
    share = rows / rows.sum()
    inside = wrap(values, learnt) if basis == "cc" else values
    means = share @ (np.stack(splines(np, inside, learnt, 3), axis=1) @ matrix)
    centred = np.linalg.qr(means[:, None], mode="complete")[0][:, 1:]
    line = centred.T @ (points - share @ values)
    matrix, penalty = matrix @ centred, centred.T @ penalty @ centred
    if basis == "ps":
        points = np.linspace(values[0], values[-1], len(points) - 1)
        matrix, penalty = in_values(points, learnt, matrix, penalty)
        line = points - share @ values
    plain = line[:, None] / np.linalg.norm(line)
    return by_eigenvectors(learnt, matrix, penalty, plain[:, :0] if basis == "cc" else plain, options)


def by_values_at_points(
    function: str, values: np.ndarray, options: Mapping[str, Any]
) -> tuple[dict, np.ndarray, np.ndarray, np.ndarray]:
    """What a spline has learnt, the matrix that makes functions of B-splines that are 1 at one of some points and 0 at the
    others, the penalty of their coefficients, and the points."""
    basis, k = options.get("bs", "cr"), options.get("k", 5)
    check_distinct(function, values, k)
    learnt, matrix, penalty = BASES[basis](values, k, options)
    points = np.array([learnt["low"], *learnt["knots"], learnt["high"]])
    if basis == "cc":
        points = points[:-1]
    elif basis == "ps":
        points = np.linspace(values[0], values[-1], k)
    return learnt, *in_values(points, learnt, matrix, penalty), points


def in_values(
    points: np.ndarray, learnt: Mapping[str, Any], matrix: np.ndarray, penalty: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and the penalty of the functions that are 1 at one of the points and 0 at the others."""
    by_value = np.linalg.inv(np.stack(splines(np, points, learnt, 3), axis=1) @ matrix)
    return matrix @ by_value, by_value.T @ penalty @ by_value


def by_eigenvectors(
    learnt: dict, matrix: np.ndarray, penalty: np.ndarray, plain: np.ndarray, options: Mapping[str, Any]
) -> dict:
    """What is learnt of a margin whose columns are those that are `plain`, without a penalty, and eigenvectors of the penalty."""
    # Signs of eigenvectors are arbitrary: the last value is made positive.
    rest = np.linalg.qr(plain, mode="complete")[0][:, plain.shape[1] :] if plain.size else np.eye(len(plain))
    sizes, vectors = np.linalg.eigh(rest.T @ penalty @ rest)
    vectors = rest @ vectors
    vectors = vectors * np.where(vectors[-1] < 0, -1.0, 1.0)
    matrix = matrix @ np.column_stack([plain[:, "constant" in learnt :], vectors])
    learnt |= {"penalty": [*[0.0] * plain.shape[1], *(sizes / sizes[-1]).tolist()]}
    if "sp" in options:
        learnt["sp"] = float(options["sp"])
    ends = {"periodic": True} if options.get("bs") == "cc" else slopes_at_ends(learnt, matrix)
    return {**learnt, "matrix": matrix.tolist(), **ends}


def apply_te(xp: Any, x: Any, learnt: Mapping[str, Any]) -> list:
    return [0.0 * x + learnt["constant"], *apply_s(xp, x, learnt)]


def slopes_of_te(x: np.ndarray, learnt: Mapping[str, Any]) -> list[np.ndarray]:
    return [np.zeros_like(x), *slopes_of_s(x, learnt)]


def _cubic(values: np.ndarray, k: int, _: Mapping[str, Any]) -> tuple[dict, np.ndarray, np.ndarray]:
    """Natural cubic splines with knots at quantiles of the distinct values, by B-splines, and the integral of the squared
    second derivative (Wood, Generalized Additive Models, 2017, 5.3.1)."""
    knots = quantiles(values, np.ones(len(values)), np.linspace(0, 1, k))
    learnt = {"degree": 3, "low": float(knots[0]), "high": float(knots[-1]), "knots": knots[1:-1].tolist()}
    ends = np.stack(spline_slopes(knots[[0, -1]], learnt, order=2), axis=1)
    matrix = np.linalg.qr(ends.T, mode="complete")[0][:, 2:]
    return learnt, matrix, _bending(knots, learnt, matrix)


def _periodic_cubic(values: np.ndarray, k: int, options: Mapping[str, Any]) -> tuple[dict, np.ndarray, np.ndarray]:
    """Periodic cubic splines, with knots at quantiles of the distinct values and the ends of the period, and the same penalty."""
    low, high = bounds("s", values, options)
    distinct = np.unique([low, high, *wrap(values, {"low": low, "high": high})])
    knots = quantiles(distinct, np.ones(len(distinct)), np.linspace(0, 1, k))
    learnt = {"degree": 3, "low": low, "high": high, "knots": knots[1:-1].tolist()}
    matrix = np.linalg.solve(_at_points(learnt), periodic(_points(learnt), knots))
    return learnt, matrix, _bending(knots, learnt, matrix)


def _bending(knots: np.ndarray, learnt: Mapping[str, Any], matrix: np.ndarray) -> np.ndarray:
    """The integrals of the products of the second derivatives of splines."""
    # The second derivative is linear between knots, so Gauss's two points integrate its square exactly.
    middle, half = (knots[1:] + knots[:-1]) / 2, np.diff(knots) / 2
    points = np.concatenate([middle - half / np.sqrt(3), middle + half / np.sqrt(3)])
    second = np.stack(spline_slopes(points, learnt, order=2), axis=1) @ matrix
    return second.T @ (np.concatenate([half, half])[:, None] * second)


def _p_splines(values: np.ndarray, k: int, _: Mapping[str, Any]) -> tuple[dict, np.ndarray, np.ndarray]:
    """Cubic B-splines on equidistant knots, and the squared second differences of their coefficients (Eilers & Marx,
    Statistical Science 11, 1996), with the knots of mgcv."""
    from scipy.interpolate import BSpline  # slow to import

    margin = 0.001 * (values[-1] - values[0])
    inside = np.linspace(values[0] - margin, values[-1] + margin, k - 2)
    length = (inside[-1] - inside[0]) / (k - 3)
    knots = np.concatenate([inside[0] - length * np.arange(3, 0, -1), inside, inside[-1] + length * np.arange(1, 4)])
    learnt = {"degree": 3, "low": float(inside[0]), "high": float(inside[-1]), "knots": inside[1:-1].tolist()}
    values_there = BSpline.design_matrix(_points(learnt), knots, 3).toarray()
    differences = np.diff(np.eye(k), 2, axis=0)
    return learnt, np.linalg.solve(_at_points(learnt), values_there), differences.T @ differences


BASES = {"cr": _cubic, "ps": _p_splines, "cc": _periodic_cubic}
"""The bases of `s`: what they have learnt, the matrix that makes them of B-splines, and their penalty."""


def has_range(learnt: Mapping[str, Any]) -> bool:
    """Whether a function has a learnt range; beyond it nothing is known about it."""
    return learnt["function"] in ("bs", "ns", *SMOOTH) and not learnt.get("periodic")


def _points(learnt: Mapping[str, Any]) -> np.ndarray:
    """As many points as there are B-splines, which determine a spline (de Boor 1978, chapter XIII)."""
    knots = np.array(knots_of(learnt))
    points = np.stack([knots[first : len(knots) - 4 + first] for first in (1, 2, 3)]).mean(0)
    return np.clip(points, learnt["low"], learnt["high"])


def _at_points(learnt: Mapping[str, Any]) -> np.ndarray:
    return np.stack(splines(np, _points(learnt), learnt, 3), axis=1)


def _lines(learnt: Mapping[str, Any]) -> np.ndarray:
    """1 and x at these points."""
    return np.stack([np.ones(len(_points(learnt))), _points(learnt)], axis=1)


def combined(columns: list, matrix: Any) -> list:
    """Columns times a matrix, [columns, combinations]."""
    return [
        sum(weight * column for weight, column in zip(weights, columns, strict=True) if weight)
        for weights in zip(*matrix, strict=True)
    ]


def knots_of(learnt: Mapping[str, Any]) -> list[float]:
    """All knots of a spline: each outer one as often as it has coefficients at a place."""
    order = learnt["degree"] + 1
    return [learnt["low"]] * order + list(learnt["knots"]) + [learnt["high"]] * order


def splines(xp: Any, x: Any, learnt: Mapping[str, Any], degree: int) -> list:
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


def spline_slopes(x: np.ndarray, learnt: Mapping[str, Any], order: int = 1) -> list[np.ndarray]:
    """The derivatives of the B-splines, of this order, by the splines of as many degrees less (de Boor, A Practical Guide to
    Splines, 1978, chapter X)."""
    knots, degree = knots_of(learnt), learnt["degree"]
    columns = splines(np, x, learnt, degree - order)
    for above in range(degree - order + 1, degree + 1):
        following = []
        for k in range(len(knots) - 1 - above):
            slope = np.zeros_like(x)
            for place, sign in ((k, 1.0), (k + 1, -1.0)):
                length = knots[place + above] - knots[place]
                if length > 0:
                    slope += sign * above / length * columns[place]
            following.append(slope)
        columns = following
    return columns
