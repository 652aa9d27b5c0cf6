"""The picture of a network: layers as boxes, from the inputs to the output, in the colours of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tfglm.errors import short

WIDTH, HEIGHT, ACROSS, DOWN, ASIDE = 200, 42, 16, 30, 60
"""Pixels of a box, between boxes, and for lines on the right."""

MOST_CHARACTERS = 31
"""Of a line in a box."""


@dataclass
class Box:
    """A layer, or several alike that read and feed the same: the embeddings of ten factors are one box."""

    layers: list[Mapping[str, Any]]
    before: set[int]
    row: int = 0
    place: float = 0.0

    @property
    def lines(self) -> tuple[str, str]:
        """What is written in the box."""
        first, count = self.layers[0], len(self.layers)
        names = ", ".join(layer.get("of") or layer["name"] for layer in self.layers)
        weights = sum(layer["parameters"] for layer in self.layers)
        size = " x ".join(map(str, first["output"][1:])) or "1"
        many = f"{count} " if count > 1 else ""
        return names, f"{many}{first['kind']}, {size}" + (f", {weights:,} weights" if weights else "")

    @property
    def left(self) -> float:
        return self.place * (WIDTH + ACROSS)

    @property
    def top(self) -> float:
        return self.row * (HEIGHT + DOWN)


def boxes_of(layers: Sequence[Mapping[str, Any]]) -> list[Box]:
    """The boxes of the layers of fit.json, each after the boxes that it reads, with their places."""
    numbers = {layer["name"]: number for number, layer in enumerate(layers)}
    readers: dict[int, set[int]] = {number: set() for number in numbers.values()}
    for number, layer in enumerate(layers):
        for name in layer["from"]:
            readers[numbers[name]].add(number)
    # From the output: layers of a kind that feed the same boxes are one box.
    box_of: dict[int, int] = {}
    groups: dict[tuple, list[int]] = {}
    for number in reversed(range(len(layers))):
        fed = frozenset(box_of[reader] for reader in readers[number])
        key = (layers[number]["kind"], fed) if fed else (number,)
        groups.setdefault(key, []).append(number)
        box_of[number] = groups[key][0]
    boxes: dict[int, Box] = {}
    for number, layer in enumerate(layers):
        box = boxes.setdefault(box_of[number], Box([], set()))
        box.layers.append(layer)
        box.before |= {box_of[numbers[name]] for name in layer["from"]}
    order = sorted(boxes)
    for _ in order:
        for number in order:
            boxes[number].row = max((1 + boxes[each].row for each in boxes[number].before), default=0)
    return placed(boxes)


def placed(boxes: Mapping[int, Box]) -> list[Box]:
    """The boxes with their places in each row, near those that they read."""
    rows: dict[int, list[Box]] = {}
    for key in sorted(boxes):
        rows.setdefault(boxes[key].row, []).append(boxes[key])
    widest = max(map(len, rows.values()))
    for _, row in sorted(rows.items()):
        if row[0].row:
            row.sort(key=lambda box: sum(boxes[key].place for key in box.before) / max(len(box.before), 1))
        for number, box in enumerate(row):
            box.place = number + (widest - len(row)) / 2
    return [box for _, row in sorted(rows.items()) for box in row]


def layer_graph(layers: Sequence[Mapping[str, Any]], title: str) -> Markup:
    """The layers of fit.json as an SVG with this title."""
    boxes = boxes_of(layers)
    of_layer = {layer["name"]: box for box in boxes for layer in box.layers}
    width = max(box.left for box in boxes) + WIDTH + ASIDE
    height = max(box.top for box in boxes) + HEIGHT
    parts = []
    for box in boxes:
        for above in {id(of_layer[name]): of_layer[name] for layer in box.layers for name in layer["from"]}.values():
            parts.append(arrow(above, box))
    for box in boxes:
        names, kind = box.lines
        middle = box.left + WIDTH / 2
        parts.append(
            Markup(
                '<g><title>{}: {}</title><rect x="{:g}" y="{:g}" width="{}" height="{}" rx="4"/>'
                '<text class="name" x="{:g}" y="{:g}">{}</text><text x="{:g}" y="{:g}">{}</text></g>'
            ).format(
                names, kind, box.left, box.top, WIDTH, HEIGHT, middle, box.top + 17, short(names, MOST_CHARACTERS),
                middle, box.top + 33, short(kind, MOST_CHARACTERS),
            )
        )  # fmt: skip
    return Markup(
        '<svg class="layers" role="img" aria-label="{}" viewBox="-4 -4 {:g} {:g}" width="{:g}">{}</svg>'
    ).format(title, width, height + 8, width, Markup("").join(parts))


def arrow(above: Box, below: Box) -> Markup:
    """A line between two boxes, on the right of those that are between."""
    if below.row - above.row == 1:
        start, end = (above.left + WIDTH / 2, above.top + HEIGHT), (below.left + WIDTH / 2, below.top)
        bends = (start[0], start[1] + DOWN / 2), (end[0], end[1] - DOWN / 2)
    else:
        start, end = ((box.left + WIDTH, box.top + HEIGHT / 2) for box in (above, below))
        right = max(start[0], end[0]) + ASIDE
        bends = (right, start[1] + HEIGHT), (right, end[1] - HEIGHT)
    return Markup('<path d="M{:g} {:g}C{:g} {:g} {:g} {:g} {:g} {:g}"/>').format(*start, *bends[0], *bends[1], *end)
