"""Averages over many rows with a factor at each of its levels, in a time that does not depend on how many it has.

Where a factor stands alone in one part of the design, the mean of a row at level l is mu(r + b_l), with the coefficient b_l and
with r what its other parts add up to. Over a short interval of r it is a polynomial, but for rounding errors, and so is its
derivative. So the rows are summed once, by intervals ("bins") of r: with the center c of a bin of width 2h, t = (r - c) / h and
the Chebyshev polynomials T_k, the sums of m T_k(t) and of m T_k(t) x say all that there is to know of the rows.

Interpolation in 8 Chebyshev points is off by about rho^-8, where mu has no singularity within the ellipse with foci at the ends
of the bin whose semi-axes are rho h together (Trefethen, Approximation Theory and Approximation Practice, 2013, theorem 8.2).
The logistic function has its poles at distance pi of all bins: with h = 1/8 rho is 50, and rho^-8 2e-14.
"""

from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate

from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.engine import moment_kernels
from tfglm.engine.averages import Block, LevelMeans
from tfglm.engine.moment_kernels import MOMENTS

BINS_A_UNIT = 4
"""Of the linear predictor."""

FARTHEST = 64.0
"""Rows with a linear predictor beyond are added by themselves: there are few, and bins for them would take too much memory."""

LEVELS = 4
"""Which take as long one by one."""


class BinnedMeans(LevelMeans):
    """The means of `LevelMeans`, for a factor that `is_alone`; the same but for rounding errors."""

    def __init__(self, design: Design, factor: Categorical, coefficients: np.ndarray):
        super().__init__(design, factor, coefficients)
        (self._own,) = self._changed
        self._lowest = 0
        # What multiplies the coefficient of an intercept is 1 in all rows.
        self._summed = self._unchanged[np.any(self._unchanged[:, 1:] >= 0, axis=1)]
        # By coefficient, and last of all rows.
        self._moments = moment_kernels.zeros((design.size + 1, 0, MOMENTS))

    def add(self, block: Block) -> None:
        rest = block.linear_predictor(self._finite, self._unchanged)
        lowest, highest = rest.min(initial=0.0), rest.max(initial=0.0)
        if not -FARTHEST < lowest <= highest < FARTHEST:
            super().add(block)
            return
        self._weight += float(block.weight.sum())
        self._make_room(int(np.floor(lowest * BINS_A_UNIT)), int(np.floor(highest * BINS_A_UNIT)))
        rest *= BINS_A_UNIT
        rest -= self._lowest
        moment_kernels.add_moments(self._moments, rest, block.weight, self._summed, block.groups, block.numbers)

    def _make_room(self, lowest: int, highest: int) -> None:
        """Have bins for a range of the linear predictor, in units of their width."""
        bins = self._moments.shape[1]
        before, after = max(0, self._lowest - lowest), max(0, highest + 1 - bins - self._lowest)
        if before or after:
            wider = moment_kernels.zeros((len(self._moments), before + bins + after, MOMENTS))
            wider[:, before : before + bins] = self._moments
            self._moments = wider
            self._lowest -= before

    def finish(self) -> None:
        bins = self._moments.shape[1]
        if not bins:
            return
        center = (self._lowest + np.arange(bins) + 0.5)[:, None] / BINS_A_UNIT
        at_level = center + self._tables[self._own]

        def mean_and_slope(t: np.ndarray) -> Any:
            eta = at_level + t[:, None, None] / (2 * BINS_A_UNIT)
            mean = self._family.mean(eta)
            return np.concatenate([mean, self._family.slope(eta, mean)], axis=2).reshape(len(t), -1)

        polynomials = chebinterpolate(mean_and_slope, MOMENTS - 1).reshape(MOMENTS, bins, -1)
        sums: np.ndarray = np.tensordot(self._moments, polynomials, axes=((2, 1), (0, 1)))
        self._total += sums[-1:, : self._levels]
        for number, part in enumerate(self._design.parts):
            of_all = number == self._own or not (part.grouping or part.multiplier)
            self._derivative[number] += sums[slice(-1, None) if of_all else part.where, self._levels :]
        self._moments = self._moments[:, :0]


def is_alone(design: Design, factor: Categorical) -> bool:
    """Whether `BinnedMeans` has the averages of a factor: it stands alone in one part, and the mean has no singularity."""
    family, parts = design.distribution, [part for part in design.parts if factor.name in part.grouping]
    return (
        [(part.grouping, part.multiplier) for part in parts] == [((factor.name,), ())]
        and not design.equations
        and not family.quadratic
        and not family.positive_predictor
    )
