"""Wald statistics of a rank that need not be whole."""

import numpy as np


def statistics(b: np.ndarray, covariance: np.ndarray, rank: float) -> tuple[list[float], float]:
    """b' C^- b with the pseudoinverse of a covariance matrix C, whose `rank` need not be whole (Wood 2013). Returns both values,
    and the rank, which is at most the rank of C."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    values, along = values[::-1], vectors.T[::-1] @ b
    whole = int(np.count_nonzero(values > values[0] * np.finfo(float).eps ** 0.9))
    k = int(rank)
    share = rank - k
    if whole < (k + 1 if share else k):
        k, share, rank = whole, 0.0, float(whole)
    if k == 0:
        return [float(along[0] ** 2 / values[0])] * 2, 1.0
    if not share:
        return [float(np.sum(along[:k] ** 2 / values[:k]))] * 2, rank
    before = float(np.sum(along[: k - 1] ** 2 / values[: k - 1]))
    last = slice(k - 1, k + 1)
    beside = np.sqrt(0.5 * share * (1 - share))
    middle = np.array([[1.0, beside], [beside, share]]) / np.sqrt(np.outer(values[last], values[last]))
    both = [along[last] * np.array([sign, 1.0]) for sign in (1.0, -1.0)]
    return [before + float(each @ middle @ each) for each in both], rank
