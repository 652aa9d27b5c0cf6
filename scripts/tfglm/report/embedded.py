"""The panels of a picture as a page embeds them: beside each other where there is room, below each other on a telephone."""

import re
from copy import deepcopy
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

REFERENCE = re.compile(r"#([\w-]+)")


def panels(path: Path) -> list[Markup]:
    """Return each panel of an SVG that `drawing.Picture` wrote, as an SVG of its own with the texts under the pointer.

    All panels of a page share the names of one document. So only names with references remain; they are derived from their
    content.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(path.read_bytes())
    title = root.findtext(f"{{{SVG}}}title", "")
    groups = {group.get("id", ""): group for group in root.iter(f"{{{SVG}}}g")}
    shared = root.findall(f"{{{SVG}}}defs")
    embedded: list[Markup] = []
    for view in root.iter(f"{{{SVG}}}view"):
        name, box = view.attrib["id"], view.attrib["viewBox"]
        width = box.split()[2]
        panel = ElementTree.Element(f"{{{SVG}}}svg", {"viewBox": box, "width": f"{width}pt", "role": "img"})
        panel.set("aria-label", f"{title}, {name.replace('-', ' ')}")
        panel.set("class", "panel")
        panel.extend(deepcopy(part) for part in ([] if embedded else shared))
        panel.extend(deepcopy(group) for key, group in groups.items() if key.startswith(f"{name}-"))
        embedded.append(Markup(ElementTree.tostring(without_names(panel), encoding="unicode")))
    return embedded


def without_names(panel: ElementTree.Element) -> ElementTree.Element:
    """Names that nothing refers to removed; those of what all panels share stay."""
    used = {
        match for element in panel.iter() for value in element.attrib.values() for match in REFERENCE.findall(value)
    }
    for element in panel.iter():
        if element.get("id") not in used and element.tag not in (f"{{{SVG}}}clipPath", f"{{{SVG}}}path"):
            element.attrib.pop("id", None)
    return panel
