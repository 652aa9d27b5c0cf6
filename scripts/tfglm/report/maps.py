"""Maps of the levels of a factor: each level at its coordinates, coloured by its estimate, with a text under the pointer."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tfglm.data.packages import located
from tfglm.errors import UserError, short
from tfglm.report.coefficient_rows import Heading, PictureRow
from tfglm.report.drawing import GREY, Panel, literal, two_colours
from tfglm.report.ratios import Scale
from tfglm.report.words import plain

FEWEST = 5
"""Levels of a factor that has a map: fewer say more in a row."""

FLATTEST, STEEPEST = 0.35, 0.9
"""Of a map: its height over its width."""

PAD = 0.05
"""Of the extent of the levels, on each side."""

SMALLEST, LARGEST = 7.0, 130.0
"""Square points of the level with the fewest and the most rows."""

MOST_NAMES, LETTER, LINE = 30, 0.055, 0.11
"""Names beside levels, and the inches of a letter and a line of them."""

ABOVE, BELOW, BESIDE = 0.42, 0.78, 0.5
"""Inches for the heading, for ticks and colours, and for the ticks on the left."""

SHADES = 60
"""Of the bar that tells the colours."""

Position = tuple[float, float]
"""Latitude and longitude, in degrees."""


@dataclass(frozen=True)
class Map:
    """The levels of a term with their positions, longitudes without a jump; `remark` says what stands for what."""

    term: str
    remark: str
    levels: Sequence[tuple[PictureRow, Position]]

    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south, north of what is shown."""
        latitudes, longitudes = np.array([position for _, position in self.levels]).T
        south, north = _padded(latitudes)
        west, east = _padded(longitudes)
        shrunk = _shrunk(south, north)
        ratio = (north - south) / ((east - west) * shrunk)
        if ratio < FLATTEST:
            south, north = _widened(south, north, FLATTEST / ratio)
        elif ratio > STEEPEST:
            west, east = _widened(west, east, ratio / STEEPEST)
        return west, east, south, north

    @property
    def most_rows(self) -> float:
        return max(1.0, *(row.rows for row, _ in self.levels))

    def reach(self) -> float:
        """The size that nine estimates in ten stay below, where the colours end."""
        sizes = [abs(row.estimate) for row, _ in self.levels if math.isfinite(row.estimate) and row.estimate]
        return float(np.quantile(sizes, 0.9)) if sizes else 1.0

    def height(self, width: float) -> float:
        """Inches of a panel of that width."""
        west, east, south, north = self.extent()
        across = (east - west) * _shrunk(south, north)
        return ABOVE + BELOW + (width - BESIDE - 0.14) * (north - south) / across


def positions(column: str, source: Mapping[str, str]) -> dict[str, Position]:
    """Latitude and longitude by level of a column, from a CSV file with a row for each: `source` has the `file`, and the
    names of its columns with the `level`, its `latitude` and its `longitude`. Raises UserError if it has no such file or
    column, or for what is no position, or two of one level."""
    where = f"the coordinates of `{column}`"
    path, names = located(source["file"], where), [source[key] for key in ("level", "latitude", "longitude")]
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: {path} cannot be read: {error}") from None
    for name in names:
        if name not in table:
            raise UserError(f"{where}: {path} has no column `{name}`; it has {short(', '.join(table), 200)}")
    found: dict[str, Position] = {}
    for level, *texts in table[names].itertuples(index=False, name=None):
        if not any(texts):
            continue
        try:
            latitude, longitude = map(float, texts)
        except ValueError:
            latitude = longitude = math.nan
        if not (abs(latitude) <= 90 and abs(longitude) <= 360):
            raise UserError(
                f"{where}: {path}: `{level}` is at {', '.join(texts)}, which is no latitude and longitude; correct this row"
            )
        if found.setdefault(level, (latitude, longitude)) != (latitude, longitude):
            raise UserError(f"{where}: {path} has two positions of `{level}`; keep one")
    return found


def maps_of(items: Sequence[Heading | PictureRow], sources: Mapping[str, Mapping[str, str]]) -> Iterator[Map]:
    """The maps of what a picture shows, `coefficient_rows.rows_and_scale`, of the terms whose columns have coordinates."""
    of_terms: list[tuple[Heading, list[PictureRow]]] = []
    for item in items:
        if isinstance(item, Heading):
            of_terms.append((item, []))
        else:
            of_terms[-1][1].append(item)
    for heading, rows in of_terms:
        column = plain(heading.term)
        if column not in sources:
            continue
        known = positions(column, sources[column])
        there = [(row, known[row.level]) for row in rows if row.level in known]
        if len(there) < FEWEST:
            continue
        lacking = f"; {len(rows) - len(there)} without coordinates" if len(there) < len(rows) else ""
        remark = re.sub(r", [\d,]+ levels by size$", "", heading.remark)
        remark += f"; larger with more rows, black edges where the interval tells a difference{lacking}"
        yield Map(heading.shown, remark, without_jump(there))


def without_jump(levels: Sequence[tuple[PictureRow, Position]]) -> list[tuple[PictureRow, Position]]:
    """The same with longitudes that begin after the widest empty part of the globe, so that the Pacific may be in the middle."""
    longitudes = np.unique([longitude % 360 for _, (_, longitude) in levels])
    gaps = np.diff(longitudes, append=longitudes[0] + 360)
    first = float(longitudes[(int(np.argmax(gaps)) + 1) % len(longitudes)])
    first -= 360 if first > 180 else 0
    return [(row, (latitude, first + (longitude - first) % 360)) for row, (latitude, longitude) in levels]


def _padded(degrees: np.ndarray) -> tuple[float, float]:
    low, high = float(degrees.min()), float(degrees.max())
    pad = max(PAD * (high - low), 0.05)
    return low - pad, high + pad


def _widened(low: float, high: float, factor: float) -> tuple[float, float]:
    middle, half = (low + high) / 2, factor * (high - low) / 2
    return middle - half, middle + half


def _shrunk(south: float, north: float) -> float:
    """The length of a degree of longitude relative to a degree of latitude in the middle of the map, where the
    equirectangular projection is true to scale."""
    return max(math.cos(math.radians((south + north) / 2)), 0.1)


def draw_map(panel: Panel, shown: Map, ratio: bool, label: str) -> None:
    """Draw a map into a panel of the height that it asks for, with a graticule, and below it the axis that tells its colours."""
    width, height = panel.width - BESIDE - 0.14, panel.height - ABOVE - BELOW
    axes = panel.add_axes(BESIDE, ABOVE, width, height)
    graticule(axes, shown.extent())
    left = (0.08 - BESIDE) / width
    for text, above, size, colour in ((shown.term, 0.22, 9.5, "black"), (shown.remark, 0.07, 7, GREY)):
        axes.text(
            left, 1 + above / height, literal(short(text, 140)), fontsize=size, color=colour, transform=axes.transAxes
        )
    colours = two_colours()
    reach = shown.reach()
    draw_levels(panel, axes, shown, colours, Normalize(-reach, reach))
    west, east, south, north = shown.extent()
    name_levels(axes, shown, width / (east - west), height / (north - south))
    bar = panel.add_axes(BESIDE + width / 4, panel.height - 0.42, width / 2, 0.08)
    edges = np.linspace(-reach, reach, SHADES + 1)
    bar.pcolormesh(edges, [0, 1], [(edges[1:] + edges[:-1]) / 2], cmap=colours, edgecolors="face")
    Scale(-reach, reach, ratio).apply(bar)
    bar.set_yticks([])
    bar.set_xlabel(label)
    bar.tick_params(labelsize=7, length=2.5)


def graticule(axes: Axes, extent: tuple[float, float, float, float]) -> None:
    """Meridians and parallels at round degrees."""
    west, east, south, north = extent
    axes.set(xlim=(west, east), ylim=(south, north))
    for axis, signs in ((axes.xaxis, "WE"), (axes.yaxis, "SN")):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 1.5, 2, 3, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda degrees, _, signs=signs: degrees_of(degrees, signs)))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7, length=0, labelcolor=GREY)
    for spine in axes.spines.values():
        spine.set(visible=True, color="#bbbbbb")


def degrees_of(degrees: float, signs: str) -> str:
    """Return degrees with the letter of their hemisphere; `signs` are the letters for negative and positive degrees."""
    degrees = (degrees + 180) % 360 - 180
    return f"{abs(degrees):g}°" + (f" {signs[int(degrees > 0)]}" if degrees else "")


def draw_levels(panel: Panel, axes: Axes, shown: Map, colours: Colormap, colour_of: Normalize) -> None:
    """Draw a point for each level, the smallest points last, so that none is hidden; levels without an estimate are a cross
    or a square."""
    points: dict[str, list[tuple]] = defaultdict(list)
    fill: Any
    for row, (latitude, longitude) in sorted(shown.levels, key=lambda level: -level[0].rows):
        size = area(row, shown.most_rows)
        if row.kind in ("reference", "separated", "aliased", "not identified"):
            marker, fill, edge = "s" if row.kind == "reference" else "X", "white", GREY
        else:
            marker, fill = "o", colours(colour_of(row.estimate))
            edge = "black" if row.lower > 0 or row.upper < 0 else "#999999"
        points[marker].append((longitude, latitude, size, fill, edge))
        panel.tip_around(axes, (longitude, latitude), max(math.sqrt(size) / 2, 4), row.tip)
    for marker, places in points.items():
        longitudes, latitudes, sizes, fills, edges = zip(*places, strict=True)
        axes.scatter(
            longitudes, latitudes, sizes, marker=marker, facecolors=fills, edgecolors=edges, linewidths=0.6, zorder=3
        )


def area(row: PictureRow, most_rows: float) -> float:
    """Square points of the point of a level."""
    return SMALLEST + (LARGEST - SMALLEST) * row.rows / most_rows


def name_levels(axes: Axes, shown: Map, across: float, along: float) -> None:
    """Write the names of the levels with the most rows, if they do not overlap; `across` and `along` are the inches of a
    degree."""
    taken: list[tuple[float, float, float]] = []
    for row, (latitude, longitude) in sorted(shown.levels, key=lambda level: -level[0].rows):
        if len(taken) == MOST_NAMES:
            return
        name, beside = short(row.label, 16), math.sqrt(area(row, shown.most_rows)) / 2 + 2
        x, y, length = longitude * across + beside / 72, latitude * along, LETTER * len(name)
        if any(abs(y - high) < LINE and x < right and left < x + length for left, right, high in taken):
            continue
        taken.append((x - 2 * beside / 72, x + length, y))
        axes.annotate(
            literal(name),
            (longitude, latitude),
            (beside, 0),
            textcoords="offset points",
            fontsize=6.5,
            va="center",
            zorder=4,
        )
