"""The matrix of a work as scikit-learn takes it: a column for each level but the first of a factor, numbers standardised."""

from collections.abc import Iterator

import numpy as np
from common import Work
from scipy.sparse import csr_matrix, hstack
from sklearn.preprocessing import OneHotEncoder, StandardScaler


class Matrix:
    """`x` (sparse, [rows, columns]) and `y` of the table, and the way back from its coefficients."""

    def __init__(self, work: Work):
        frame = work.frame()
        self.work, self.encoder, self.scaler = work, OneHotEncoder(drop="first"), StandardScaler()
        parts = [self.encoder.fit_transform(frame[work.factors])]
        parts.append(csr_matrix(self.scaler.fit_transform(frame[work.numbers].astype(float))))
        self.x, self.y = hstack(parts).tocsr(), frame[work.response].to_numpy(float)

    def rows(self, coefficients: np.ndarray, intercept: float) -> Iterator[tuple]:
        """(term, level, estimate) in the units of the data."""
        work, numbers = self.work, len(self.work.numbers)
        slopes = coefficients[len(coefficients) - numbers :] / self.scaler.scale_
        yield "Intercept", "", intercept - float(slopes @ self.scaler.mean_)
        yield from zip(work.numbers, [""] * numbers, slopes, strict=True)
        kept = [
            (name, level)
            for name, levels in zip(work.factors, self.encoder.categories_, strict=True)
            for level in levels[1:]
        ]
        for (name, level), estimate in zip(kept, coefficients, strict=False):
            yield name, level, estimate
