"""Small pictures inside the tables of a page: intervals on one axis, shares, and bars.

They are SVG with places in percent. So they are as wide as the page lets them be, and take its colours, light or dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tfglm.report.ratios import Scale
from tfglm.results.digits import percent

HUES = 7
"""How many colours the style sheet has for classes."""


@dataclass(frozen=True)
class InlineAxis:
    """An axis of intervals: from `low` to `high`, with `ticks` and their labels, and a line at `zero` if that is on it."""

    low: float
    high: float
    ticks: Sequence[float]
    labels: Sequence[str]
    zero: float | None = None

    @classmethod
    def of(cls, scale: Scale, has_zero: bool = True) -> "InlineAxis":
        """The axis of a picture of coefficients."""
        ticks, labels = scale.ticks()
        return cls(scale.low, scale.high, [float(tick) for tick in ticks], labels, 0.0 if has_zero else None)

    def place(self, value: float) -> float:
        """Where a value is, in percent; values beyond the ends are at the ends."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def interval(self, estimate: float, lower: float, upper: float, tip: str = "") -> Markup:
        """A point with its interval; without a finite interval the point alone."""
        line = Markup('<line class="none" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>')
        parts = [line.format(self.place(self.zero))] if self.zero is not None else []
        if lower == lower and upper == upper:
            start, end = self.place(lower), self.place(upper)
            parts.append(Markup('<line class="reach" x1="{}%" x2="{}%" y1="50%" y2="50%"/>').format(start, end))
            # An arrow shows that an interval continues beyond the axis. A picture inside has its place in percent.
            arrow = Markup('<svg x="{}%" y="50%" overflow="visible"><path class="mark" d="M0 0L{} -4V4z"/></svg>')
            ends = ((0, 7, lower < self.low), (100, -7, upper > self.high))
            parts += [arrow.format(place, reach) for place, reach, continues in ends if continues]
        parts.append(Markup('<circle class="mark" cx="{}%" cy="50%" r="4"/>').format(self.place(estimate)))
        return drawn(parts, "interval", tip)

    def scale_line(self) -> Markup:
        """The ticks with their labels, as a picture of its own below the intervals; labels that would overlap are left out."""
        parts, free = [Markup('<line class="rule" x1="0" x2="100%" y1="1" y2="1"/>')], -100.0
        for tick, label in zip(self.ticks, self.labels, strict=True):
            place = self.place(tick)
            parts.append(Markup('<line class="rule" x1="{0}%" x2="{0}%" y1="1" y2="5"/>').format(place))
            if place - free >= 8 + 6 * len(label):
                anchor = "start" if place < 6 else "end" if place > 94 else "middle"
                text = '<text x="{}%" y="17" text-anchor="{}">{}</text>'
                parts.append(Markup(text).format(place, anchor, label))
                free = place
        return drawn(parts, "ticks")


def drawn(parts: Sequence[Markup], name: str, tip: str = "") -> Markup:
    """An SVG; numbers beside it say the same, so that readers of the screen skip it."""
    title = Markup("<title>{}</title>").format(tip) if tip else ""
    return Markup('<svg class="{}" aria-hidden="true">{}{}</svg>').format(name, title, Markup("").join(parts))


def measure(share: float, baseline: float) -> Markup:
    """The share of an axis that a measure takes, with a mark where the baseline is."""
    ends = [100 * min(max(value, 0.0), 1.0) for value in (share, baseline)]
    return drawn(
        [
            Markup('<rect class="track" x="0" width="100%" y="25%" height="50%"/>'),
            Markup('<rect class="bar" x="0" width="{:.1f}%" y="25%" height="50%"/>').format(ends[0]),
            Markup('<line class="baseline" x1="{0:.1f}%" x2="{0:.1f}%" y1="0" y2="100%"/>').format(ends[1]),
        ],
        "measure",
    )


def part_of(share: float, part: float) -> Markup:
    """A share of an axis, with a part of it in another colour."""
    rects = [Markup('<rect class="track" x="0" width="100%" y="20%" height="60%"/>')]
    for name, size in (("bar", share), ("event", part)):
        rects.append(Markup('<rect class="{}" x="0" width="{:.1f}%" y="20%" height="60%"/>').format(name, 100 * size))
    return drawn(rects, "interval")


def stacked(shares: Sequence[float], labels: Sequence[str]) -> Markup:
    """Shares of one bar, each in the colour of its class."""
    parts, start = [], 0.0
    for number, (share, label) in enumerate(zip(shares, labels, strict=True)):
        bar = '<rect class="class-{}" x="{:.2f}%" width="{:.2f}%" y="10%" height="80%"><title>{}: {}</title></rect>'
        parts.append(Markup(bar).format(number % HUES, 100 * start, 100 * share, label, percent(share)))
        start += share
    return drawn(parts, "interval")


def bars(heights: Sequence[float], tips: Sequence[str], others: Sequence[float] = ()) -> Markup:
    """Bars beside each other, as high as shares of the highest; `others` is the part of each that has the event."""
    highest, width = max([*heights, 1e-300]), 100 / max(len(heights), 1)
    parts = []
    for number, (height, tip) in enumerate(zip(heights, tips, strict=True)):
        share = 100 * height / highest
        of_event = 100 * others[number] / highest if others else 0.0
        for name, size in (("bar", share), ("event", of_event)):
            if size or name == "bar":
                rect = (
                    '<rect class="{}" x="{:.2f}%" width="{:.2f}%" y="{:.2f}%" height="{:.2f}%"><title>{}</title></rect>'
                )
                parts.append(Markup(rect).format(name, number * width, 0.9 * width, 100 - size, size, tip))
    return drawn(parts, "bars")
