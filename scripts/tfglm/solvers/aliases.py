"""Columns that others nearly determine: scaled pivots and variance inflation factors."""

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from tfglm.design.design import Design
from tfglm.design.parametrisation import APART, form_of, to_data_scale, to_fit_scale
from tfglm.solvers.information import Factored

NEARLY_ALIASED_BELOW = 1e-3
"""Scaled pivot: 1 - R^2 in a regression on the columns before."""


MOST_PARTNERS = 3
"""Columns that are named beside one that they nearly determine."""


@dataclass(frozen=True)
class Near:
    """Columns that others nearly determine: their positions in the coefficient vector, scaled pivots, variance inflation
    factors, and the positions of those that have the largest part in each."""

    places: np.ndarray
    pivots: np.ndarray
    inflation: np.ndarray
    partners: list[list[int]]


def nearly_aliased(factored: Factored, design: Design) -> Near:
    """The nearly aliased columns: columns of the dense part that other columns nearly determine."""
    blocks = factored.blocks
    scale = np.diag(blocks.a)
    schur = np.diag(factored.factor) ** 2
    pivots, inflation = schur / scale, {}
    of_dense = {place: number for number, place in enumerate(blocks.dense.tolist())}
    for place, ours, theirs in together_with(design, of_dense):
        number, size = of_dense[place], float(ours @ blocks.times(ours))
        pivots[number] = schur[number] * ours[place] ** 2 / size
        inflation[number] = size * float(theirs @ factored.solve(theirs))
    near = np.flatnonzero(pivots < NEARLY_ALIASED_BELOW)
    inverse = scipy.linalg.cho_solve((factored.factor, True), np.eye(len(scale))[:, near])
    plain = scale[near] * inverse[near, np.arange(len(near))]
    inflated = [inflation.get(number, value) for number, value in zip(near.tolist(), plain, strict=True)]
    # A regression of a column on the others has the coefficients -inverse[other, column] / inverse[column, column].
    parts = np.abs(inverse) * np.sqrt(scale)[:, None]
    parts[near, np.arange(len(near))] = 0.0
    parts[blocks.dense == (-1 if design.intercept is None else design.intercept)] = 0.0
    chosen = [np.argsort(-part, kind="stable")[: np.sum(part > part.max() / 2)][:MOST_PARTNERS] for part in parts.T]
    return Near(
        blocks.dense[near], pivots[near], np.array(inflated), [np.sort(blocks.dense[some]).tolist() for some in chosen]
    )


def together_with(design: Design, among: Container[int]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the columns of the data, `among` these positions, that the fit has as residuals from earlier columns.

    For each, yield the position of its coefficient and two vectors [p]. The first vector combines the columns of the fit to
    the centred column of the data. The second combines the coefficients of the fit to the coefficient of the data.
    """
    if not any(factor.earlier for factor in design.numeric):
        return
    columns, rows = to_fit_scale(design).tocsc(), to_data_scale(design)
    numbers = np.concatenate([np.full(part.size, len(part.multiplier)) for part in design.parts])
    for part in design.parts:
        if form_of(design, part) == APART:
            for place in filter(among.__contains__, range(part.where.start, part.where.stop)):
                alike = numbers == len(part.multiplier)
                ours, theirs = (matrix.toarray().ravel() * alike for matrix in (columns[:, [place]], rows[[place]]))
                yield place, ours, theirs
