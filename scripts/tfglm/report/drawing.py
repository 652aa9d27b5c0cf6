"""What all pictures share: fonts and colours, panels, places that say what they show when pointed at, and the files."""

import io
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

from tfglm.command import visible
from tfglm.report.embedded import SVG, XLINK

STYLE: dict[Any, Any] = {
    # Text of an SVG can be searched, and edited for a paper; its glyphs would be most of the file.
    "svg.fonttype": "none",
    # With this and no date, the same picture is the same file.
    "svg.hashsalt": "tfglm",
    # TrueType, as journals ask for; the glyphs that are used are in the file.
    "pdf.fonttype": 42,
    # Of these Matplotlib brings the first; an SVG names them all for each text.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
}

DPI = 120
"""Of a PNG."""

TITLE_HEIGHT = 0.34
"""Inches above the panels."""

# From the palette of Okabe and Ito, which the colour-blind can tell apart.
OTHERS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
COLOURS = tuple(f"C{number}" for number in range(1 + len(OTHERS)))
MAIN, GREY = "C0", "#555555"
STYLES = ("-", "--", ":")


def use_colour(colour: str) -> None:
    """Set this style for MAIN, before drawing any picture."""
    matplotlib.rcParams["axes.prop_cycle"] = cycler(color=[colour, *OTHERS])


def use_style() -> None:
    """Draw as pages have pictures, whatever matplotlibrc their reader has."""
    matplotlib.rcdefaults()
    matplotlib.rcParams |= STYLE
    use_colour("#0072B2")


use_style()


def two_colours() -> LinearSegmentedColormap:
    """From lower to higher than what others are compared with, which is nearly white."""
    return LinearSegmentedColormap.from_list("estimates", [OTHERS[0], "#f2f2f2", to_hex(MAIN)])


def spread(count: int, most: int) -> np.ndarray:
    """At most so many numbers from 0 to a count - 1, evenly, with both ends."""
    return np.unique(np.linspace(0, count - 1, most).astype(int))


def halfway(values: np.ndarray) -> list[tuple[float, float]]:
    """The part of an axis that is nearer to each of these ascending values than to the others."""
    ends = [values[0], *((values[1:] + values[:-1]) / 2), values[-1]]
    return list(itertools.pairwise(ends))


def literal(text: str) -> str:
    """Return text from the data or the config in a form that Matplotlib draws unchanged: dollars begin no formula, and
    control characters, which an SVG cannot hold, become escapes."""
    return visible(text).replace("$", r"\$")


@dataclass
class Panel:
    """A part of a picture that can be shown alone: the area between these inches from the left and the top."""

    figure: Figure
    left: float
    top: float
    width: float
    height: float
    axes: list[Axes] = field(default_factory=list)
    tips: list[tuple[tuple[float, float, float, float], str]] = field(default_factory=list)

    def add_axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes in a rectangle given in inches from the left and the top of the panel."""
        across, up = self.figure.get_size_inches()
        bottom = up - self.top - top - height
        axes = self.figure.add_axes(((self.left + left) / across, bottom / up, width / across, height / up))
        self.axes.append(axes)
        return axes

    def tip(self, axes: Axes, across: tuple[float, float], along: tuple[float, float], text: str) -> None:
        """Say this where one points at a rectangle, in the coordinates of axes that have got their limits."""
        corners = axes.transData.transform([(across[0], along[0]), (across[1], along[1])]) * 72 / self.figure.dpi
        (left, right), (bottom, top) = sorted(corners[:, 0]), sorted(corners[:, 1])
        self.tips.append(((left, 72 * self.figure.get_figheight() - top, right - left, top - bottom), visible(text)))

    def tip_around(self, axes: Axes, centre: tuple[float, float], radius: float, text: str) -> None:
        """Say this where one points no farther than so many points from a place, in coordinates as in `tip`."""
        x, y = axes.transData.transform(centre) * 72 / self.figure.dpi
        top = 72 * self.figure.get_figheight() - y - radius
        self.tips.append(((x - radius, top, 2 * radius, 2 * radius), visible(text)))


class Picture:
    """A title above panels, so many inches wide and high."""

    def __init__(self, title: str, width: float, height: float) -> None:
        self.figure = Figure(figsize=(width, height))
        self.title, self.panels = title, list[Panel]()
        self.figure.text(0.12 / width, 1 - 0.1 / height, literal(title), fontsize=10, va="top")

    def panel(self, left: float, top: float, width: float, height: float) -> Panel:
        panel = Panel(self.figure, left, top, width, height)
        self.panels.append(panel)
        return panel

    def write(self, paths: Iterable[Path]) -> None:
        """Write the picture in the formats that the names of the files end with: .svg, .png or .pdf."""
        for path in paths:
            match path.suffix:
                case ".svg":
                    path.write_bytes(self._svg())
                case ".pdf":
                    self.figure.savefig(path, metadata={"CreationDate": None})
                case _:
                    self.figure.savefig(path, dpi=DPI)

    def _svg(self) -> bytes:
        """The SVG, which tells what is pointed at, and where its panels are (a `view` each, and their axes by name)."""
        for number, panel in enumerate(self.panels, 1):
            for place, axes in enumerate(panel.axes):
                axes.set_gid(f"panel-{number}-{place}")
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="svg", metadata={"Date": None})
        ElementTree.register_namespace("", SVG)
        ElementTree.register_namespace("xlink", XLINK)
        root = ElementTree.fromstring(drawn.getvalue())
        root.set("role", "img")
        title = ElementTree.Element(f"{{{SVG}}}title")
        title.text = visible(self.title)
        root.insert(0, title)
        for number, panel in enumerate(self.panels, 1):
            corner = (panel.left, panel.top, panel.width, panel.height)
            box = " ".join(f"{72 * inches:g}" for inches in corner)
            ElementTree.SubElement(root, f"{{{SVG}}}view", id=f"panel-{number}", viewBox=box)
            group = ElementTree.SubElement(root, f"{{{SVG}}}g", id=f"panel-{number}-tips")
            group.attrib |= {"fill": "none", "pointer-events": "all"}
            for (left, top, width, height), text in panel.tips:
                sizes = {"x": left, "y": top, "width": width, "height": height}
                area = ElementTree.SubElement(
                    group, f"{{{SVG}}}rect", {key: f"{size:.1f}" for key, size in sizes.items()}
                )
                ElementTree.SubElement(area, f"{{{SVG}}}title").text = text
        return ElementTree.tostring(root, xml_declaration=True, encoding="utf-8")


CELL = (3.4, 3.0)
"""Width and height of a panel in a grid: as wide as a small telephone shows it."""


LETTER = 0.08
"""The width of a letter of a title, inches."""


def grid(title: str, count: int, columns: int = 3, cell: tuple[float, float] = CELL) -> tuple[Picture, list[Panel]]:
    """A picture of so many panels, each with axes; at least one. At the right is room for half of a number such as 30,000."""
    width, height = cell
    columns = max(min(columns, count), 1)
    rows = max(math.ceil(count / columns), 1)
    for_title = 0.24 + LETTER * len(visible(title))
    picture = Picture(title, max(columns * width, for_title), TITLE_HEIGHT + rows * height)
    panels = []
    for number in range(count):
        row, column = divmod(number, columns)
        panel = picture.panel(column * width, TITLE_HEIGHT + row * height, width, height)
        panel.add_axes(0.62, 0.32, width - 0.62 - 0.27, height - 0.32 - 0.5)
        panels.append(panel)
    return picture, panels


def warm_up() -> None:
    """Find fonts, and what reads the powers of ten on an axis, for this process and those that are forked from it: 0.2 s of a
    processor."""
    picture, (panel,) = grid("", 1)
    panel.axes[0].set_xscale("log")
    picture._svg()


def nothing(title: str, paths: Iterable[Path]) -> None:
    """A picture that says that there is none."""
    Picture(title, 6, TITLE_HEIGHT).write(paths)


def diagonal(axes: Axes, low: float, high: float) -> None:
    """Draw the line on which both coordinates are equal."""
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=":")
