"""What all pictures share: fonts and colours, panels, places that say what they show when pointed at, and the files."""

import io
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter

from tfglm.command import visible
from tfglm.config.pictures import PicturesConfig
from tfglm.report.embedded import SVG, XLINK
from tfglm.results.digits import tick_labels

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

LETTERS, LARGEST_LETTERS = 8, 16
"""Points of the letters of a picture as it is laid out, and at most in a file."""

TITLE_HEIGHT = 0.34
"""Inches above the panels."""

# From the palette of Okabe and Ito, which the colour-blind can tell apart.
OTHERS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
COLOURS = tuple(f"C{number}" for number in range(1 + len(OTHERS)))
MAIN, GREY = "C0", "#555555"
STYLES = ("-", "--", ":")


LOOK = PicturesConfig()
"""How the pictures of this process look; `use_style` sets it."""


def use_style(look: PicturesConfig = LOOK) -> None:
    """Draw as these settings say, whatever matplotlibrc the reader of the pictures has."""
    global LOOK
    matplotlib.rcdefaults()
    matplotlib.rcParams |= STYLE | {"axes.prop_cycle": cycler(color=[look.colour, *OTHERS])}
    LOOK = look


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
    """Return text from the data or the config, by the name that `labels` give it, in a form that Matplotlib draws unchanged:
    dollars begin no formula, and control characters, which an SVG cannot hold, become escapes."""
    return visible(LOOK.labels.get(text, text)).replace("$", r"\$")


class TickNumbers(Formatter):
    """Ticks in millions or billions, with the unit beside the last one, and no powers of ten where they can be avoided."""

    def __init__(self, axis: Axis, before_unit: str) -> None:
        self.ends, self.before_unit = axis.get_view_interval, before_unit

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        low, high = sorted(self.ends())
        return tick_labels(values, low, high, self.before_unit)

    def __call__(self, value: float, place: int | None = None) -> str:
        return tick_labels([value], value, value)[0]


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
        axes.xaxis.set_major_formatter(TickNumbers(axes.xaxis, " "))
        axes.yaxis.set_major_formatter(TickNumbers(axes.yaxis, "\n"))
        self.axes.append(axes)
        return axes

    def tip(self, axes: Axes, across: tuple[float, float], along: tuple[float, float], text: str) -> None:
        """Say this where one points at a rectangle, in the coordinates of axes that have got their limits."""
        axes.get_xlim()  # settles both limits
        corners = axes.transData.transform([(across[0], along[0]), (across[1], along[1])]) * 72 / self.figure.dpi
        (left, right), (bottom, top) = sorted(corners[:, 0]), sorted(corners[:, 1])
        self.tips.append(((left, 72 * self.figure.get_figheight() - top, right - left, top - bottom), visible(text)))

    def tip_around(self, axes: Axes, centre: tuple[float, float], radius: float, text: str) -> None:
        """Say this where one points no farther than so many points from a place, in coordinates as in `tip`."""
        axes.get_xlim()
        x, y = axes.transData.transform(centre) * 72 / self.figure.dpi
        top = 72 * self.figure.get_figheight() - y - radius
        self.tips.append(((x - radius, top, 2 * radius, 2 * radius), visible(text)))


def fitting(width: float, height: float) -> float:
    """How many times larger a picture of so many inches may be in a file."""
    largest = (LOOK.font_size or LARGEST_LETTERS) / LETTERS
    return min(largest, LOOK.size[0] / width, LOOK.size[1] / height)


def most_fitting(most: int, shape: Callable[[int], tuple[float, float]]) -> int:
    """The number of columns, at most so many, whose width and height make the picture largest; the fewest of equal ones."""
    return max(range(1, most + 1), key=lambda columns: round(fitting(*shape(columns)), 6))


class Picture:
    """A title above panels that are laid out in so many inches, in the middle of what a file shows; `scale` is how many times
    larger they are there."""

    def __init__(self, title: str, width: float, height: float) -> None:
        self.scale = fitting(width, height)
        across, up = (inches / self.scale for inches in LOOK.size)
        self.figure = Figure(figsize=(across, up))
        self.left, self.top = (across - width) / 2, (up - height) / 2
        self.title, self.panels = title, list[Panel]()

    def panel(self, left: float, top: float, width: float, height: float) -> Panel:
        panel = Panel(self.figure, self.left + left, self.top + top, width, height)
        self.panels.append(panel)
        return panel

    def write(self, paths: Iterable[Path]) -> None:
        """Write the picture in the formats that the names of the files end with: .svg, .png or .pdf."""
        paths = list(paths)
        given = LOOK.title if isinstance(LOOK.title, str) else LOOK.title.get(paths[0].stem)
        self.title = self.title if given is None else given
        across, up = self.figure.get_size_inches()
        fits = (across - 0.24) / (LETTER * max(len(visible(self.title)), 1))
        self.figure.text(0.12 / across, 1 - 0.1 / up, literal(self.title), fontsize=min(10, 10 * fits), va="top")
        for path in paths:
            match path.suffix:
                case ".svg":
                    path.write_bytes(self._svg())
                case ".pdf":
                    self._write_pdf(path)
                case _:
                    self.figure.savefig(path, dpi=LOOK.dpi * self.scale * (1 + 1e-9))

    def _write_pdf(self, path: Path) -> None:
        """Write a page of the size of a file, which `savefig` would give the size of the layout."""
        file = PdfFile(path, metadata={"CreationDate": None})
        file.newPage(*LOOK.size)
        file.output(self.scale, 0, 0, self.scale, 0, 0, Op.concat_matrix)
        self.figure.dpi = 72
        renderer = RendererPdf(file, LOOK.dpi, *self.figure.get_size_inches()[::-1])
        self.figure.draw(renderer)
        renderer.finalize()
        file.finalize()
        file.close()

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
        root.attrib |= {"role": "img", "width": f"{72 * LOOK.size[0]:g}pt", "height": f"{72 * LOOK.size[1]:g}pt"}
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

LEFT = 0.74
"""Inches on the left of axes: for a title, and numbers in millions."""


LETTER = 0.08
"""The width of a letter of a title, inches."""


def grid(
    title: str, count: int, columns: int | None = None, cell: tuple[float, float] = CELL
) -> tuple[Picture, list[Panel]]:
    """A picture of so many panels, each with axes; at least one. At the right is room for half of a number such as 30,000."""
    width, height = cell

    def shape(columns: int) -> tuple[float, float]:
        return columns * width, TITLE_HEIGHT + math.ceil(count / columns) * height

    columns = columns or most_fitting(count, shape)
    picture = Picture(title, *shape(columns))
    panels = []
    for number in range(count):
        row, column = divmod(number, columns)
        panel = picture.panel(column * width, TITLE_HEIGHT + row * height, width, height)
        panel.add_axes(LEFT, 0.32, width - LEFT - 0.27, height - 0.32 - 0.5)
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
