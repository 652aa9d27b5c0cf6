"""Thin plate regression splines of one number or two (Wood, Journal of the Royal Statistical Society B 65, 2003, 95-114).

A thin plate spline has a radial function around each distinct point. Its k largest eigenvectors stand for all of them, as in
mgcv's s(x, bs = "tp") and s(x, z). Numbers are sequences with an array for each column.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_CENTRES = 2000
"""Distinct points that have a radial function, as `max.knots` of mgcv."""

CHUNK = 256
"""Points whose distances from all centres are in memory together."""

TINY = 1e-300
"""A squared distance whose logarithm is finite; it is multiplied by the distance 0."""


def centres_of(points: np.ndarray) -> np.ndarray:
    """Choose the points that have a radial function, [centres, columns]: all of `points` [points, columns], which are distinct
    and in ascending order, or MOST_CENTRES of them.

    Those are evenly spaced along a curve that passes near points together (Morton order of the ranks of each number). So they
    depend neither on the order of rows nor on units.
    """
    if len(points) <= MOST_CENTRES:
        return points
    places = np.zeros(len(points), np.int64)
    for number, column in enumerate(points.T):
        ranks = np.unique(column, return_inverse=True)[1]
        for bit in range(31):
            places |= ((ranks >> bit) & 1) << (bit * points.shape[1] + number)
    chosen = np.round(np.linspace(0, len(points) - 1, MOST_CENTRES)).astype(int)
    return points[np.sort(np.argsort(places, kind="stable")[chosen])]


def basis_of(points: np.ndarray, share: np.ndarray, k: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """Return the truncated basis of k thin plate splines of order 2 for the distinct points of the training rows, [points,
    columns] with one column or two in ascending order, and the `share` of the rows at each.

    The result: what `apply` needs for the functions, first the constant, then a straight line for each column, which have
    the variance 1 and no correlation over the training rows, then the others; their values [points, k]; and their penalty
    [k, k], the integral of the squared second derivatives over all of space, in the units of the points.
    """
    centres, size = centres_of(points), points.shape[1] + 1
    shift = centres.mean(axis=0)
    unit = float(np.sqrt(((centres - shift) ** 2).sum(axis=1).mean()))
    scaled = (centres - shift) / unit
    sizes, vectors = np.linalg.eigh(radial(np, squares_of(list(scaled.T), scaled), size - 1))
    largest = np.argsort(-np.abs(sizes), kind="stable")[:k]
    inverse, vectors = 1 / sizes[largest], vectors[:, largest]
    # The integral is finite only if the weights sum to 0, and the weights times each number, too.
    polynomials = np.column_stack([np.ones(len(scaled)), scaled])
    free = np.linalg.qr((polynomials.T @ vectors * inverse).T, mode="complete")[0][:, size:]
    penalty = np.zeros((k, k))
    penalty[size:, size:] = free.T @ (inverse[:, None] * free) * unit ** (size - 5.0)
    every = (points - shift) / unit
    mean = share @ every
    # Lines without correlation are the columns times the inverse of the root of their covariance.
    root = np.linalg.cholesky((every - mean).T @ (share[:, None] * (every - mean)))
    lines = np.linalg.inv(root).T
    slopes, constant = np.zeros((size - 1, k)), np.zeros(k)
    slopes[:, 1:size], constant[0], constant[1:size] = lines, 1.0, -mean @ lines
    weights = np.column_stack([np.zeros((len(centres), size)), vectors * inverse @ free])
    learnt = {"shift": shift.tolist(), "unit": unit, "centres": scaled.tolist()}
    learnt |= {"weights": weights.tolist(), "slopes": slopes.tolist(), "constant": constant.tolist()}
    return learnt, np.stack(apply(np, list(points.T), learnt), axis=1), penalty


def combined(learnt: Mapping[str, Any], matrix: np.ndarray) -> dict[str, Any]:
    """The functions of `learnt` times a matrix, [functions, combinations]."""
    return {
        **learnt,
        **{name: (np.array(learnt[name]) @ matrix).tolist() for name in ("weights", "slopes", "constant")},
    }


def squares_of(scaled: Sequence, centres: Any) -> Any:
    """The squared distances of points from centres, [points, centres]."""
    return sum((each[:, None] - centres[:, number]) ** 2 for number, each in enumerate(scaled))


def radial(xp: Any, squares: Any, columns: int) -> Any:
    """The radial function of squared distances: r^3 / 12 of one number, and r^2 log r / (8 pi) of two (Wood 2003, 2.1)."""
    if columns == 1:
        return squares * xp.sqrt(squares) / 12
    return squares * xp.log(xp.maximum(squares, TINY)) / (16 * np.pi)


def apply(xp: Any, numbers: Sequence, learnt: Mapping[str, Any]) -> list:
    """The functions at points, given by column, [points] each. Far from the centres they are straight along each line."""
    arrays = {name: np.array(learnt[name], float) for name in ("centres", "weights", "slopes", "constant")}
    if xp is not np:
        columns = _columns(xp, numbers, learnt, arrays)
        return [columns[:, place] for place in range(len(learnt["constant"]))]
    columns = np.empty((len(arrays["constant"]), len(numbers[0])))
    for first in range(0, len(numbers[0]), CHUNK):
        some = slice(first, first + CHUNK)
        columns[:, some] = _columns(np, [each[some] for each in numbers], learnt, arrays).T
    return list(columns)


def _columns(xp: Any, numbers: Sequence, learnt: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    scaled = [(each - shift) / learnt["unit"] for each, shift in zip(numbers, learnt["shift"], strict=True)]
    around = radial(xp, squares_of(scaled, arrays["centres"]), len(scaled))
    lines = sum(each[:, None] * slope for each, slope in zip(scaled, arrays["slopes"], strict=True))
    return xp.matmul(around, arrays["weights"]) + lines + arrays["constant"]


def slopes(numbers: Sequence[np.ndarray], learnt: Mapping[str, Any], by: int) -> list[np.ndarray]:
    """The derivatives of the functions by the number `by`, at points as `apply` takes them."""
    centres, weights = np.array(learnt["centres"]), np.array(learnt["weights"])
    columns = np.empty((weights.shape[1], len(numbers[0])))
    for first in range(0, len(numbers[0]), CHUNK):
        some = slice(first, first + CHUNK)
        scaled = [(each[some] - shift) / learnt["unit"] for each, shift in zip(numbers, learnt["shift"], strict=True)]
        squares = squares_of(scaled, centres)
        along = scaled[by][:, None] - centres[:, by]
        if len(scaled) == 1:
            around = np.sqrt(squares) * along / 4
        else:
            around = (np.log(np.maximum(squares, TINY)) + 1) * along / (8 * np.pi)
        columns[:, some] = (around @ weights + np.array(learnt["slopes"])[by]).T / learnt["unit"]
    return list(columns)
