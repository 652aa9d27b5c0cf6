"""An axis of differences or ratios: how far it reaches, and where its ticks are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfglm.results.digits import power_of_ten, significant, tick_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 7

MANTISSAS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Of the ticks of ratios, from fine to coarse."""

OUTLYING = 3.0
"""The axis ends at this multiple of the range of nine estimates in ten, so that a few estimates do not squeeze all the
others."""


SEEN = 0.75
"""Share of the ends of intervals that are on the axis, at least."""


@dataclass(frozen=True)
class Scale:
    """The axis that coefficients are drawn on: they are differences, or with `ratio` the logarithms of ratios, whose ticks tell
    the ratios."""

    low: float
    high: float
    ratio: bool

    def apply(self, axes: "Axes", along: str = "x") -> None:
        """Give axes these limits and ticks, and mark where there is no effect."""
        ticks, labels = self.ticks()
        if not self.ratio:
            labels = tick_labels(ticks.tolist(), self.low, self.high, "\n" if along == "y" else " ")
        if along == "x":
            axes.set_xlim(self.low, self.high)
            axes.set_xticks(ticks, labels)
            axes.axvline(0.0, color="#999999", linewidth=0.8, zorder=0.5)
        else:
            axes.set_yticks(ticks, labels)
            axes.set_ylim(self.low, self.high)
            axes.axhline(0.0, color="#999999", linewidth=0.8, zorder=0.5)

    def ticks(self) -> tuple[np.ndarray, list[str]]:
        """Return the positions of the ticks, and their labels."""
        if not self.ratio:
            values = round_values(self.low, self.high, MOST_TICKS - 1)
            return values, [f"{value:,.10g}".replace("-", "\N{MINUS SIGN}") for value in values]
        values = ratios(self.low, self.high)
        return np.log(values), [ratio_label(value) for value in values]

    def written(self, value: float) -> str:
        """An estimate as the axis counts it, with three digits."""
        if self.ratio and value > LARGEST_EXPONENT:
            return "infinite"
        return significant(math.exp(value) if self.ratio else value, 3)


LARGEST_EXPONENT = 700.0
"""The exponential of larger numbers is no float64."""


def ratio_label(ratio: float) -> str:
    """A ratio as a tick tells it: far from 1, powers of ten."""
    power = round(math.log10(ratio))
    if abs(power) > 3 and math.isclose(ratio, 10.0**power):
        return power_of_ten(power)
    return f"{ratio:,g}"


def scale_of(estimates: np.ndarray, limits: np.ndarray, ratio: bool) -> Scale:
    """Return the axis for finite estimates with these confidence limits, some of which may exceed it."""
    values = np.abs(np.asarray(estimates, float))
    values = values[values > 0]
    if not len(values):
        values = np.array([1.0])
    bulk = OUTLYING * float(np.quantile(values, 0.9))
    shown = np.clip([0.0, *estimates], -bulk, bulk)
    # An interval as wide as the axis says that nothing is known; its end need not be seen, unless most intervals are so wide.
    usual = float(np.quantile(np.abs(limits), SEEN)) if len(limits) else 0.0
    lowest, highest = min(2 * shown.min(), -bulk / 3, -usual), max(2 * shown.max(), bulk / 3, usual)
    ends = np.clip([*shown, *limits], lowest, highest)
    # Where there is none, arrows need some room.
    low, high = (float(ends.min()), float(ends.max())) if ends.min() < ends.max() else (-bulk / 3, bulk / 3)
    margin = 0.06 * (high - low)
    return Scale(low - margin, high + margin, ratio)


def ratios(low: float, high: float) -> np.ndarray:
    """Return a few round ratios between the exponentials of two numbers."""
    lowest, highest = np.exp(np.clip([low, high], -LARGEST_EXPONENT, LARGEST_EXPONENT))
    if high - low < 1:
        return round_values(float(lowest), float(highest), MOST_TICKS - 1)
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    for mantissas in MANTISSAS:
        values = inside([mantissa * 10.0**decade for decade in decades for mantissa in mantissas], lowest, highest)
        if len(values) <= MOST_TICKS:
            return values
    every = math.ceil(len(values) / MOST_TICKS)
    return np.array([value for value in values if round(math.log10(value)) % every == 0])


def round_values(low: float, high: float, most: int) -> np.ndarray:
    """Return at most so many multiples of a round number from low to high."""
    if not high > low:
        return np.array([low])
    exact = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= exact * (1 - 1e-9))
    return inside(step * np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1), low, high)


def inside(values: Sequence[float] | np.ndarray, low: float, high: float) -> np.ndarray:
    """Those between two numbers, without the noise of floating point."""
    rounded = np.array([float(f"{value:.10g}") for value in values])
    return rounded[(rounded >= low) & (rounded <= high)]
