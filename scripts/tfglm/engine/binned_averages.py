"""Averages over many rows with a factor set to each of its levels, in a time independent of the number of levels.

Let a factor be the only one in one part of the design. Then the mean of a row at level l is mu(r + b_l), with the
coefficient b_l and the sum r of the other parts. Over a short interval of r this is a polynomial, up to rounding errors,
and so is its derivative. So the rows are summed once, by intervals ("bins") of r. For a bin with center c and width 2h, let
t = (r - c) / h, and let T_k be the Chebyshev polynomials. Then the sums of m T_k(t) and of m T_k(t) x contain all the
information about the rows.

Interpolation in 8 Chebyshev points has an error of about rho^-8. Here mu has no singularity within the ellipse whose foci
are the ends of the bin, and whose semi-axes sum to rho h (Trefethen, Approximation Theory and Approximation Practice, 2013,
theorem 8.2). The poles of the logistic function are at distance pi from all bins: with h = 1/8, rho is 50 and rho^-8 is
2e-14.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate

from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.engine import moment_kernels
from tfglm.engine.averages import AveragedBlock, LevelMeans, MeanSums
from tfglm.engine.moment_kernels import MOMENTS

BINS_A_UNIT = 4
"""Of the linear predictor."""

FARTHEST = 64.0
"""Rows with a larger linear predictor are added individually: they are few, and bins for them would take too much memory."""

LEVELS = 4
"""Levels that take as long individually as with bins."""


@dataclass
class BinnedSums(MeanSums):
    """Also the moments by bin, of each coefficient and last of all rows, and the number of the first bin; there are none once the
    sums are closed."""

    moments: np.ndarray = field(kw_only=True)
    lowest: int = 0

    def make_room(self, lowest: int, highest: int) -> None:
        """Have bins for a range of the linear predictor, in units of their width."""
        bins = self.moments.shape[1]
        before, after = max(0, self.lowest - lowest), max(0, highest + 1 - bins - self.lowest)
        if before or after:
            wider = moment_kernels.zeros((len(self.moments), before + bins + after, MOMENTS))
            wider[:, before : before + bins] = self.moments
            self.moments = wider
            self.lowest -= before


class BinnedMeans(LevelMeans):
    """The means of `LevelMeans` for a factor that `is_alone`; the same up to rounding errors."""

    def __init__(self, design: Design, factor: Categorical, coefficients: np.ndarray):
        super().__init__(design, factor, coefficients)
        (self._own,) = self._changed
        unchanged = np.delete(self._parts, self._own, axis=0)
        # The multiplier of the coefficient of an intercept is 1 in all rows.
        self._summed = unchanged[np.any(unchanged[:, 1:] >= 0, axis=1)]

    def start(self) -> BinnedSums:
        return BinnedSums(**vars(super().start()), moments=self._no_moments())

    def _no_moments(self) -> np.ndarray:
        return moment_kernels.zeros((self._design.size + 1, 0, MOMENTS))

    def map(self, block: AveragedBlock, partial: MeanSums) -> None:
        assert isinstance(partial, BinnedSums)
        (own,) = self._predictors.values()
        rest = self._rest(block, own)
        lowest, highest = rest.min(initial=0.0), rest.max(initial=0.0)
        if not -FARTHEST < lowest <= highest < FARTHEST:
            super().map(block, partial)
            return
        partial.weight += float(block.weight.sum())
        partial.make_room(int(np.floor(lowest * BINS_A_UNIT)), int(np.floor(highest * BINS_A_UNIT)))
        rest *= BINS_A_UNIT
        rest -= partial.lowest
        moment_kernels.add_moments(partial.moments, rest, block.weight, self._summed, block.groups, block.numbers)

    def close(self, partial: BinnedSums) -> None:
        bins = partial.moments.shape[1]
        if not bins:
            return
        center = (partial.lowest + np.arange(bins) + 0.5)[:, None] / BINS_A_UNIT
        at_level = center + self._tables[self._own]

        def mean_and_slope(t: np.ndarray) -> Any:
            eta = at_level + t[:, None, None] / (2 * BINS_A_UNIT)
            mean = self._family.mean(eta)
            return np.concatenate([mean, self._family.slope(eta, mean)], axis=2).reshape(len(t), -1)

        polynomials = chebinterpolate(mean_and_slope, MOMENTS - 1).reshape(MOMENTS, bins, -1)
        sums: np.ndarray = np.tensordot(partial.moments, polynomials, axes=((2, 1), (0, 1)))
        partial.totals += sums[-1:, : self._levels]
        for number, (part, derivative) in enumerate(zip(self._design.parts, partial.derivatives[0], strict=True)):
            of_all = number == self._own or not (part.grouping or part.multiplier)
            derivative += sums[slice(-1, None) if of_all else part.where, self._levels :]
        partial.moments, partial.lowest = self._no_moments(), 0


def is_alone(design: Design, factor: Categorical) -> bool:
    """Return whether `BinnedMeans` can average a factor: it is the only factor in one part, and the mean has no
    singularity."""
    family, parts = design.distribution, [part for part in design.parts if factor.name in part.grouping]
    return (
        [(part.grouping, part.multiplier) for part in parts] == [((factor.name,), ())]
        and not design.equations
        and not family.quadratic
        and not family.positive_predictor
    )
