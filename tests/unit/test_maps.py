"""Maps of the levels of a factor."""

from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from test_pictures import table, texts

from tfglm.errors import UserError
from tfglm.report import forest
from tfglm.report.maps import Map, degrees_of, positions, without_jump
from tfglm.report.words import Words

PLACES = "level,latitude,longitude\nA,0,179\nB,10,-179\nC,-5,170\nD,2,-165\nE,1.5,175\nF,,\n"


def source(folder: Path, text: str = PLACES, **columns: str) -> dict[str, str]:
    (folder / "places.csv").write_text(text)
    names = {"level": "level", "latitude": "latitude", "longitude": "longitude"}
    return {"file": str(folder / "places.csv")} | names | columns


def levels(names: str) -> pd.DataFrame:
    return table([{"level": name, "estimate": place / 10} for place, name in enumerate(names)])


def in_words(column: str, folder) -> Words:
    return Words({}, {}, {column: source(folder)})


@pytest.mark.slow
def test_levels_are_where_the_file_says_with_what_is_said_of_them(tmp_path):
    paths = [tmp_path / "plot.svg", tmp_path / "plot.png", tmp_path / "plot.pdf"]
    forest.coefficient_plot(levels("ABCDEFG"), None, "title", "effect", "odds_ratio", paths, in_words("dest", tmp_path))
    svg = paths[0].read_text()
    remark = "larger with more rows, black edges where the interval tells a difference; 2 without coordinates"
    assert f"against A; {remark}" in texts(svg)
    # The Pacific is in the middle.
    assert {"170° E", "180° W", "170° W"} <= set(texts(svg)) and "0°" in texts(svg)
    told = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert [sum(tip.startswith(f"dest {name}: ") for tip in told[1:]) for name in "ABCDEFG"] == [2, 2, 2, 2, 2, 1, 1]
    assert {*"ABCDE"} <= {name for name in texts(svg) if texts(svg).count(name) == 2}
    forest.coefficient_plot(levels("ABCDEFG"), None, "title", "effect", None, paths[:1], in_words("dest", tmp_path))
    assert texts(paths[0].read_text()).count("effect") == 2


@pytest.mark.parametrize(("names", "column"), [("ABCD", "dest"), ("VWXYZ", "dest"), ("ABCDE", "origin")])
def test_few_levels_or_another_column_have_no_map(names, column, tmp_path):
    path, without = tmp_path / "plot.svg", tmp_path / "without.svg"
    forest.coefficient_plot(levels(names), None, "t", "effect", None, [path], in_words(column, tmp_path))
    forest.coefficient_plot(levels(names), None, "t", "effect", None, [without])
    assert path.read_text() == without.read_text()


def test_longitudes_begin_after_the_widest_gap():
    assert [position[1] for _, position in without_jump([(None, (0.0, x)) for x in (179.0, -179.0, 170.0)])] == [
        179.0,
        181.0,
        170.0,
    ]
    assert [position[1] for _, position in without_jump([(None, (0.0, x)) for x in (-74.0, -158.0)])] == [-74.0, -158.0]
    assert [degrees_of(degrees, "WE") for degrees in (-120, 0, 190.5, 360)] == ["120° W", "0°", "169.5° W", "0°"]


def test_one_place_alone_has_an_extent():
    west, east, south, north = Map("t", "", [(None, (40.0, -74.0))] * 5).extent()
    assert west < -74 < east and south < 40 < north


WRONG = {
    "no file": ({"file": "none.csv"}, PLACES, "cannot be read"),
    "no package": ({"file": "package:no_such/a.csv"}, PLACES, "no Python package `no_such` is installed"),
    "no column": ({"latitude": "lat"}, PLACES, "has no column `lat`; it has level, latitude, longitude"),
    "no number": (
        {},
        "level,latitude,longitude\nA,north,0\n",
        "`A` is at north, 0, which is no latitude and longitude",
    ),
    "no latitude": ({}, "level,latitude,longitude\nA,91,0\n", "`A` is at 91, 0, which is no latitude"),
    "one alone": ({}, "level,latitude,longitude\nA,9,\n", "`A` is at 9, , which is no latitude"),
    "two": ({}, "level,latitude,longitude\nA,9,0\nA,8,0\n", "two positions of `A`; keep one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_position_is_refused_with_its_file(case, tmp_path):
    columns, text, message = WRONG[case]
    with pytest.raises(UserError, match="the coordinates of `dest`") as refused:
        positions("dest", source(tmp_path, text, **columns))
    assert message in str(refused.value)
