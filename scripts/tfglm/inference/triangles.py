"""Symmetric matrices as their lower triangles, which take half of the memory."""

import math

import numpy as np


def triangles(matrices: np.ndarray) -> np.ndarray:
    """The lower triangles of symmetric matrices [matrices, n, n], row by row, [matrices, n (n + 1) / 2]."""
    return matrices[:, *np.tril_indices(matrices.shape[1])]


def square(triangles: np.ndarray) -> np.ndarray:
    """Build symmetric matrices [matrices, n, n] from their lower triangles [matrices, n (n + 1) / 2].

    >>> square(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """
    size = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2
    places = np.zeros((size, size), int)
    rows, columns = np.tril_indices(size)
    places[rows, columns] = places[columns, rows] = np.arange(triangles.shape[1])
    return triangles[:, places]
