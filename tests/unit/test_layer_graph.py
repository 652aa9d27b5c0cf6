"""The picture of a network: which layers are one box, where boxes are, and what is written in them."""

from xml.etree import ElementTree

from tfglm.report.layer_graph import boxes_of, layer_graph


def layer(name: str, kind: str, before: list[str], parameters: int = 0, **more: str) -> dict:
    return {"name": name, "kind": kind, "from": before, "output": ["rows", 8], "parameters": parameters} | more


FACTORS = ["carrier", "origin & dest", "<month>"]
LAYERS = [
    layer("groups", "InputLayer", []),
    layer("numbers", "InputLayer", []),
    *(layer(f"level_{place}", "LevelOf", ["groups"], of=name) for place, name in enumerate(FACTORS)),
    *(layer(f"embedding_{place}", "Embedding", [f"level_{place}"], 10, of=name) for place, name in enumerate(FACTORS)),
    layer("inputs", "Concatenate", ["numbers", *(f"embedding_{place}" for place in range(3))]),
    layer("first", "Dense", ["inputs"], 100),
    layer("block", "Dense", ["first"], 100),
    layer("sum", "Add", ["first", "block"]),
]


def test_layers_alike_are_one_box_and_others_are_below_what_they_read():
    boxes = boxes_of(LAYERS)
    names = [[each["name"] for each in box.layers] for box in boxes]
    assert [f"embedding_{place}" for place in range(3)] in names and [f"level_{place}" for place in range(3)] in names
    assert ["first"] in names and ["block"] in names
    rows = {each["name"]: box.row for box in boxes for each in box.layers}
    for each in LAYERS:
        assert rows[each["name"]] == max((1 + rows[name] for name in each["from"]), default=0)
    assert len({(box.row, box.place) for box in boxes}) == len(boxes)
    (embeddings,) = [box for box in boxes if box.layers[0]["kind"] == "Embedding"]
    assert embeddings.lines == (", ".join(FACTORS), "3 Embedding, 8, 30 weights")


def test_the_picture_is_an_svg_with_a_box_for_each_and_a_line_for_each_link():
    root = ElementTree.fromstring(layer_graph(LAYERS, 'Layers of "m" & co'))
    assert root.get("aria-label") == 'Layers of "m" & co'
    assert len(root.findall("g")) == len(boxes_of(LAYERS)) == 8
    assert len(root.findall("path")) == 8
    assert any("carrier, origin & dest" in text.text for text in root.iter("text"))
