"""What pictures show: which rows, which ticks, what is said of a place that is pointed at."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup

from tfglm.config.pictures import PicturesConfig
from tfglm.report import coefficient_rows, confusion, drawing, evaluation, forest, groups, history
from tfglm.report.coefficient_rows import Heading, PictureRow, rows_and_scale
from tfglm.report.curves import random_effects_of
from tfglm.report.embedded import panels
from tfglm.report.ratios import Scale, ratio_label, ratios, scale_of
from tfglm.report.words import Words


def table(rows: list[dict]) -> pd.DataFrame:
    """A table of coefficients with the columns that pictures need."""
    filled = {"term": "dest", "level": "", "reference": "A", "std_error": 0.1, "status": "", "note": "", "rows": 9}
    made = pd.DataFrame([filled | row for row in rows])
    for name, sign in (("ci_lower", -2), ("ci_upper", 2)):
        made[name] = made["estimate"] + sign * made["std_error"]
    return made


def texts(svg: str) -> list[str]:
    return re.findall(r"<text.*?>(.*?)</text>", svg)


KINDS = table(
    [
        {"term": "Intercept", "estimate": -2.0, "reference": ""},
        {"level": "A", "estimate": 0.0, "std_error": np.nan},
        {"level": "B", "estimate": 0.4},
        {"level": "C", "estimate": -0.5},
        {"level": "D", "estimate": -np.inf, "std_error": np.nan, "status": "separated"},
        {"level": "E", "estimate": np.nan, "std_error": np.nan, "status": "aliased", "aliased_with": "B"},
        {"level": "F", "estimate": 0.3, "std_error": np.nan, "note": "one cluster"},
        *({"level": f"L{number}", "estimate": 0.1 * number} for number in range(-5, 6)),
        {"level": "G", "estimate": 8.0},
        {"term": "distance", "reference": "", "estimate": 0.0005, "std_error": 0.0001},
        {"term": "bs(hour, df=5)", "level": "1", "reference": "", "estimate": 3.0},
    ]
)


def test_each_level_is_drawn_as_what_it_is():
    items, scale = rows_and_scale(KINDS, "odds_ratio")
    rows = {row.label: row for row in items if isinstance(row, PictureRow)}
    kinds = {label: rows[label].kind for label in "ABCDEFG"}
    assert kinds == {
        "A": "reference", "B": "estimate", "C": "estimate", "D": "separated", "E": "aliased", "F": "without interval",
        "G": "beyond",
    }  # fmt: skip
    # One far away does not squeeze the others.
    assert scale.high < 4 and rows["G"].remark == "2,981"
    assert rows["B"].tip == "dest B: odds ratio 1.49 (1.22 to 1.82); 9 rows"
    assert "one cluster" in rows["F"].tip and "aliased with B" in rows["E"].tip
    headings = [item for item in items if isinstance(item, Heading)]
    assert headings[0] == Heading("dest", "against A")
    items, _ = rows_and_scale(KINDS, "odds_ratio", Words({"dest": {"A": "Albany", "B": "Boston"}}, {}))
    assert items[0] == Heading("dest", "against Albany")
    (boston,) = (item for item in items if isinstance(item, PictureRow) and item.level == "B")
    assert boston.label == "Boston" and boston.tip.startswith("dest Boston: odds ratio 1.49")


def test_a_number_is_shown_for_as_much_more_as_can_be_seen_and_a_spline_has_no_coefficients():
    items, scale = rows_and_scale(KINDS, "odds_ratio")
    rows = {row.label: row for row in items if isinstance(row, PictureRow)}
    number = rows["distance, +1,000"]
    assert number.estimate == pytest.approx(0.5) and scale.low < number.lower < number.upper < scale.high
    assert not any("bs(" in label for label in rows)
    # At most for what the number reaches over; one that is 0 or 1 is a comparison.
    reaching = Words({}, {}, spans={"distance": 300})
    assert "distance, +100" in {item.label for item in rows_and_scale(KINDS, "odds_ratio", reaching)[0][1:]}
    yes_or_no = Words({}, {}, spans={"distance": 1}, zero_one=frozenset(["distance"]))
    assert "distance: 1 vs 0" in {item.label for item in rows_and_scale(KINDS, "odds_ratio", yes_or_no)[0][1:]}
    slopes = [{"term": "dest:distance", "level": level, "estimate": 0.0004, "std_error": 0.0001} for level in "BC"]
    items, _ = rows_and_scale(pd.concat([KINDS, table(slopes)]), "odds_ratio")
    assert Heading("dest:distance", "against A, for +1,000", more=", for +1,000") in items
    assert [row.estimate for row in items if isinstance(row, PictureRow) and "dest:distance" in row.tip] == [0.4, 0.4]


def test_a_function_of_a_number_is_shown_for_no_more_than_it_reaches_over():
    # The largest less the smallest value for pct from 0 to 100: log(101), 100², 10; sqrt(x) of a uniform x is 3.46 deviations.
    words = Words({}, {}, spans={"center": 9e9, "pct": 100.0})
    terms = {"log(pct + 1)": 1, "I(pct^2)": 10000, "sqrt(pct)": 10, "scale(pct, center=False)": 1, "log(pct)": 1}
    rows = [{"term": term, "estimate": 1e-6, "std_error": 1e-7, "reference": "", "level": ""} for term in terms]
    for row, (term, most) in zip(rows, terms.items(), strict=True):
        items, _ = rows_and_scale(table([{"level": "A", "reference": "A"}, {"level": "B"}, row]), None, words)
        more = "+10 %" if term == "log(pct)" else f"+{most:,}"
        assert [item.label for item in items if isinstance(item, PictureRow)][
            -1
        ] == f"{term.replace('log(pct)', 'pct')}, {more}"
    # Slopes in levels of a factor are of so much more of a number, whether it has a term of its own or not.
    slopes = [{"term": "g:log(pct + 1)", "level": level, "reference": "", "estimate": 1e-6} for level in "AB"]
    items, _ = rows_and_scale(table([{"level": "A", "reference": "A"}, {"level": "B"}, *slopes]), None, words)
    assert Heading("g:log(pct + 1)", "for +1", more=", for +1") in items


@pytest.mark.slow
@pytest.mark.parametrize("levels", [24, 320])
def test_every_level_has_its_name_many_by_size(levels, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "LOOK", PicturesConfig(levels=400))
    random = np.random.default_rng(1)
    many = table([{"level": f"L{number:03d}", "estimate": random.normal()} for number in range(levels)])
    paths = [tmp_path / "plot.svg", tmp_path / "plot.png", tmp_path / "plot.pdf"]
    forest.coefficient_plot(many, None, "title", "effect", None, paths)
    svg = paths[0].read_text()
    order = many if levels <= coefficient_rows.UNSORTED else many.sort_values("estimate")
    assert [text for text in texts(svg) if re.fullmatch(r"L\d\d\d", text)] == order["level"].tolist()
    forest.coefficient_plot(many, None, "title", "effect", None, paths[:1])
    assert paths[0].read_text() == svg
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    # The fonts are in the file, as TrueType.
    content = paths[2].read_bytes()
    assert content.startswith(b"%PDF") and b"/FontFile2" in content and b"/Type3" not in content


@pytest.mark.parametrize("ratio", ["rate_ratio", None])
def test_tables_of_a_few_coefficients_of_any_size_are_drawn(ratio, tmp_path):
    intercept, number = {"term": "Intercept", "estimate": 2.0}, {"term": "x", "reference": "", "estimate": 2e5}
    separated = [{"level": "A", "estimate": 0.0, "std_error": np.nan}, {"level": "B", "estimate": np.inf}]
    for rows in ([intercept], [intercept, number], separated, [{"level": "C", "estimate": 500.0, "std_error": 900.0}]):
        forest.coefficient_plot(table(rows), None, "title", "effect", ratio, [tmp_path / "plot.svg"])
    assert "C" in texts((tmp_path / "plot.svg").read_text())


def test_the_most_different_levels_are_shown_and_the_others_in_a_line():
    sizes = [*np.linspace(-0.5, 0.9, 995), 3.0, -2.0, 5.0, 9.0]
    many = table([{"level": f"L{number:03d}", "estimate": size} for number, size in enumerate(sizes)])
    # The largest estimate is too imprecise to differ clearly.
    many.loc[998, ["ci_lower", "ci_upper"]] = [-90.0, 108.0]
    reference = table([{"level": "A", "estimate": 0.0, "std_error": np.nan}])
    items, scale = rows_and_scale(pd.concat([reference, many], ignore_index=True), None, most=None)
    assert items[0] == Heading("dest", "against A, the 10 most different of 1,000 levels")
    assert [row.label for row in items[1:]] == ["L996", "A", *(f"L{n}" for n in range(988, 996)), "L997", "989 others"]
    others = items[-1]
    assert (others.lower, others.upper, others.rows) == (-0.5, 9.0, 9 * 989) and scale.high < 9
    assert others.tip == "dest, 989 levels that are not shown: estimate −0.500 to 9.00; 8,901 rows"
    # One other has a row of its own, and hours are a shape; a number of the config holds for all.
    for levels, most, count in (
        ("ABCDEFGHIJK", None, 11),
        (range(24), None, 24),
        (range(24), 3, 4),
        ("ABCDEFGHIJKL", None, 11),
    ):
        few = table([{"level": str(level), "estimate": place, "reference": ""} for place, level in enumerate(levels)])
        items, _ = rows_and_scale(few, None, most=most)
        assert len(items) == 1 + count, levels
    assert [row.level for row in rows_and_scale(few, None, most=2, order="table")[0][1:3]] == ["K", "L"]


def test_a_file_has_the_size_the_title_and_the_names_that_the_config_gives(tmp_path, monkeypatch):
    look = {
        "size": [6, 4],
        "dpi": 100,
        "title": {"coefficients": "<b>Mine</b>"},
        "labels": {"dest": "to <where>", "A": "Albany"},
    }
    monkeypatch.setattr(drawing, "LOOK", PicturesConfig(**look))
    paths = [tmp_path / f"coefficients.{kind}" for kind in ("svg", "png", "pdf")]
    forest.coefficient_plot(KINDS, None, "usual", "effect", None, paths)
    root = ElementTree.parse(paths[0]).getroot()
    drawn = {element.text for element in root.iter() if element.text}
    assert {"<b>Mine</b>", "to <where>", "Albany"} <= drawn and not {"usual", "dest"} & drawn
    assert (root.get("width"), root.get("height")) == ("432pt", "288pt")
    across, up = map(float, root.get("viewBox").split()[2:])
    assert across / up == pytest.approx(1.5)
    assert struct.unpack(">II", paths[1].read_bytes()[16:24]) == (600, 400)
    assert b"/MediaBox [ 0 0 432 288 ]" in paths[2].read_bytes()


def test_an_axis_says_millions_in_words(tmp_path):
    picture, (panel,) = drawing.grid("", 1)
    panel.axes[0].plot([0, 1_300_000], [0, 3e-9])
    picture.write([tmp_path / "plot.svg"])
    shown = texts((tmp_path / "plot.svg").read_text())
    assert "1.25 million" in shown and "× 10⁻⁹" in shown and not {text for text in shown if re.search(r"\de", text)}


def test_a_picture_draws_levels_as_they_are(tmp_path):
    levels = ["$x$", "$\\bad{", "a$b", "<b>&", "=1", "\x1b[31m", "two\x00"]
    strange = table(
        [{"level": level, "reference": "$\\worse{$", "estimate": place} for place, level in enumerate(levels)]
    )
    forest.coefficient_plot(strange, None, "$\\title{ of $y$", "effect", None, [tmp_path / "plot.svg"])
    drawn = [element.text for element in ElementTree.parse(tmp_path / "plot.svg").iter() if element.text]
    assert {"$x$", "$\\bad{", "a$b", "<b>&", "=1", "\\x1b[31m", "two\\x00", "$\\title{ of $y$"} <= set(drawn)


def test_a_page_has_the_panels_of_a_picture_and_what_is_said_of_places(tmp_path):
    forest.coefficient_plot(KINDS, None, "<title>", "effect", "odds_ratio", [tmp_path / "plot.svg"])
    (panel,) = panels(tmp_path / "plot.svg")
    assert isinstance(panel, Markup)
    root = ElementTree.fromstring(panel)
    told = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "dest B: odds ratio 1.49 (1.22 to 1.82); 9 rows" in told
    assert root.attrib["aria-label"].startswith("<title>") and "B" in texts(panel)


def test_the_last_number_below_a_panel_is_inside_of_it():
    picture, (panel,) = drawing.grid("", 1)
    (axes,) = panel.axes
    axes.set(xlim=(0, 30_000), xticks=[0, 30_000], xticklabels=["0", "30,000"])
    picture.figure.draw_without_rendering()
    right = axes.get_xticklabels()[-1].get_window_extent().x1 / picture.figure.dpi
    assert right <= panel.left + panel.width


def test_ticks_of_ratios_are_round_and_few():
    for low, high in ((-0.05, 0.04), (-0.4, 0.9), (-2, 3), (-9, 12), (-200, 30), (0.0, 1e-3)):
        values = ratios(low, high)
        assert 2 <= len(values) <= 7 and np.exp(low) <= values.min() and values.max() <= np.exp(high)
        assert len({ratio_label(value) for value in values}) == len(values)
    assert ratios(-2, 3).tolist() == [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    assert ratio_label(1e-6) == "10\N{SUPERSCRIPT MINUS}\N{SUPERSCRIPT SIX}"
    assert Scale(-1.0, 1.0, ratio=True).written(800.0) == "infinite"


@pytest.mark.slow
def test_precision_begins_where_enough_events_are_predicted(tmp_path):
    recall = np.linspace(0.001, 1, 100)
    precision = np.r_[1.0, np.full(99, 0.3)]
    curve = pd.DataFrame(
        {"threshold": recall[::-1], "recall": recall, "precision": precision, "false_positive_rate": recall}
    )
    metrics = {
        "curve": curve.to_dict("list"), "events": 1000, "mean_response": 0.2, "auc": 0.6, "average_precision": 0.3,
        "threshold": 0.5, "accuracy": 0.79, "lift": [{"decile": 1, "lift": 2.0, "share_of_events": 0.2}],
        "calibration": [
            {"rows": 10, "predicted": 0.1, "observed": 0.2, "lower": 0.1, "upper": 0.3},
            {"rows": 9, "predicted": 0.1, "observed": 0.0, "lower": 2.8e-17, "upper": 0.3},  # by rounding
        ],
        "calibration_slope": None, "true_negative": 4, "false_positive": 3, "false_negative": 2, "true_positive": 1,
    }  # fmt: skip
    evaluation.binomial_plot(metrics, "title", [tmp_path / "plot.svg"])
    drawn = (tmp_path / "plot.svg").read_text()
    told = [element.text for element in ElementTree.parse(tmp_path / "plot.svg").iter() if element.text]
    assert "(with one answer for all rows 0.8000)" in texts(drawn)
    assert sum("precision 1.000" in text for text in told) == 1  # of the ROC curve alone
    assert "true event, predicted no event: 2 rows, 66.7 % of true event" in told


def test_a_confusion_matrix_of_many_classes_names_them(tmp_path):
    names = [f"c{number}" for number in range(30)]
    classes = [{"class": name, "support": 4, "precision": None, "recall": 0.5} for name in names]
    metrics = {"classes": classes, "confusion": np.eye(30).tolist(), "accuracy": 1.0, "null_accuracy": 0.1}
    confusion.confusion_plot(metrics, "title", [tmp_path / "plot.svg"])
    assert sorted(set(names)) == sorted(set(names) & set(texts((tmp_path / "plot.svg").read_text())))


def test_groups_have_a_row_each_numbers_by_size(tmp_path):
    def group(level: str) -> dict:
        return {"level": level, "rows": 50, "events": 10, "mean_response": 0.2, "mean_prediction": 0.25, "auc": None}

    metrics = {"mean_response": 0.2, "auc": 0.7, "by": {"month": [group(level) for level in ("1", "10", "2")]}}
    shown = groups.labelled(metrics, Words({"month": {"2": "Feb"}}, {}))
    groups.groups_plot(shown, "title", [tmp_path / "plot.svg"])
    drawn = texts((tmp_path / "plot.svg").read_text())
    assert [text for text in drawn if text in ("1", "Feb", "10")] == ["1", "Feb", "10"] and "AUC" in drawn
    assert groups.labelled({"auc": 0.7}, Words({}, {})) == {"auc": 0.7}
    ordered = groups.labelled(metrics, Words({}, {}, orders={"month": ["10", "1"]}))
    assert [level["level"] for level in ordered["by"]["month"]] == ["10", "1", "2"]


def test_the_loss_of_training_rows_is_beside_that_of_rows_held_out(tmp_path):
    lines = [
        *((step, "train/recent loss", 1 / step) for step in range(1, 40)),
        *((step, name, 0.1) for step in (20, 39) for name in ("train/loss", "evaluate/loss", "pass/rows a second")),
    ]
    recorded = pd.DataFrame(lines, columns=["step", "quantity", "value"]).assign(seconds=1.0)
    history.history_plot(recorded, "title", [tmp_path / "plot.svg"])
    drawn = texts((tmp_path / "plot.svg").read_text())
    assert "loss of rows held out" in drawn and "loss of training rows" not in drawn
    assert len(panels(tmp_path / "plot.svg")) == 2


def test_an_axis_holds_most_ends_of_intervals():
    """A single wide interval is cut, and one of few is not."""
    alone = scale_of(np.array([0.03]), np.array([-0.13, 0.19]), False)
    assert alone.low < -0.13 and alone.high > 0.19
    estimates = np.linspace(-1.0, 1.0, 20)
    limits = np.concatenate([estimates - 0.2, estimates + 0.2, [-50.0, 50.0]])
    among = scale_of(np.append(estimates, 0.0), limits, False)
    assert -3 < among.low < -1.2 and 1.2 < among.high < 3


@pytest.mark.processes
def test_a_picture_is_the_same_whatever_matplotlib_is_told(tmp_path):
    draw = """if True:
        from pathlib import Path
        from tfglm.report import drawing, forest
        picture, (panel,) = drawing.grid("carrier, $ and %", 1)
        panel.axes[0].plot([1, 20], [3, 4])
        picture.write([Path("picture.svg"), Path("picture.png"), Path("picture.pdf")])
    """
    styled = "text.usetex: True\nfigure.facecolor: black\nsvg.fonttype: path\nfont.size: 30\nsavefig.bbox: tight"
    for folder, style in (("plain", ""), ("styled", styled)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "matplotlibrc").write_text(style)
        scripts = {"PYTHONPATH": str(Path(drawing.__file__).parents[2]), "MPLBACKEND": "Qt4Agg"}  # no longer known
        subprocess.run([sys.executable, "-c", draw], check=True, cwd=tmp_path / folder, env=os.environ | scripts)
    for name in ("picture.svg", "picture.png", "picture.pdf"):
        assert (tmp_path / "styled" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_random_effects_are_drawn_from_the_lowest_to_the_highest_and_in_pairs(tmp_path):
    rows = [{"term": "s(g, bs=re)", "level": f"l{place}", "estimate": np.cos(place)} for place in range(9)]
    rows += [row | {"term": "s(g, x, bs=re)", "estimate": place} for place, row in enumerate(rows[:-1])]
    effects = table(rows)
    smooths = [
        {"term": "s(g, bs=re)", "is_random": True},
        {"term": "s(g, x, bs=re)", "is_random": True, "correlations": [{"term": "s(g, bs=re)", "correlation": -0.4}]},
    ]
    intercepts, slopes, pairs = random_effects_of(effects, smooths, 4)
    assert intercepts.points["level"].tolist() == ["l3", "l4", "l6", "l0"] and intercepts.others == 5
    assert slopes.title == "slopes of x by g" and slopes.others == 4
    assert pairs.points["level"].tolist() == [f"l{place}" for place in range(8)]
    assert np.allclose(pairs.points["other"], np.cos(np.arange(8)))
    path = tmp_path / "plot.svg"
    forest.coefficient_plot(effects, None, "title", "effect", "odds_ratio", [path], smooths=smooths)
    text = path.read_text()
    assert all(each in text for each in ("intercepts by g", "slope of x (log odds ratio)", "correlation −0.40", "l3: "))
