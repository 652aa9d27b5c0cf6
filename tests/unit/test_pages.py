"""The pages: what is HTML in the data is shown as text, and tables come out as they are."""

import hashlib
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import compare as compare_script
from browser import broken_links, browser, faults, opened
from tfglm.report.coefficients import profiles, sheet, variance_components
from tfglm.report.combinations_page import combinations
from tfglm.report.drawn_means import means_by_class, means_of_factor
from tfglm.report.home import layers_table
from tfglm.report.inline import bars, part_of
from tfglm.report.lead import LeadEffect
from tfglm.report.model_pages import draw_groups, draw_metrics, metrics_page
from tfglm.report.pages import LONG, TEMPLATES, numbers_as_text, render
from tfglm.report.pairs import pairs_of
from tfglm.report.quality import measures
from tfglm.report.scenarios import Scenarios
from tfglm.report.scores_page import ScoredFile
from tfglm.report.sentences import TermSentences
from tfglm.report.strongest import short_table, strongest_effects
from tfglm.report.table_one import Characteristic, CountedLevel, DescribedColumn
from tfglm.report.words import NO_WORDS, Words
from tfglm.results import accuracy, compare, held_out, nested
from tfglm.results.digits import fixed, four_digits, four_that_count, minus, p_value, percent, statistic, two_digits
from tfglm.results.verdicts import VERDICTS, Check

HOSTILE = "<script>alert('1')</script> & \"x\" {{ 7 * 7 }}"

FIT = {"model": HOSTILE, "formula": f"y ~ {HOSTILE}", "family": "gaussian", "warnings": [HOSTILE], "rows": 1234}

FRAME = pd.DataFrame({"term": ["x"], "level": [HOSTILE], HOSTILE: [1.5]})

COEFFICIENTS = pd.DataFrame(
    {
        "term": ["Intercept", HOSTILE, HOSTILE],
        "level": ["", "a", HOSTILE],
        "reference": ["", "a", "a"],
        "estimate": [-1.5, 0.0, 0.25],
        "std_error": [0.1, float("nan"), 0.05],
        "p_value": [0.0, float("nan"), 0.5],
        "ci_lower": [-1.7, float("nan"), 0.15],
        "ci_upper": [-1.3, float("nan"), 0.35],
        "rows": [1234, 1000, 234],
        "status": "",
        "note": ["", "", HOSTILE],
    }
)

MEANS = pd.DataFrame(
    {
        "term": HOSTILE,
        "level": [HOSTILE, "b"],
        "rows": 9,
        "mean": 1.5,
        "std_error": 0.25,
        "ci_lower": 1.0,
        "ci_upper": 2.0,
    }
).assign(status="")
BY_CLASS = pd.concat([MEANS.assign(**{"class": label, "mean": 0.5}) for label in (HOSTILE, "other")])

PAIRS = pd.DataFrame({"term": HOSTILE, "at": HOSTILE, "level": HOSTILE, "against": ["a", "b"], "note": ["", HOSTILE]})
PAIRS = PAIRS.assign(
    **dict.fromkeys(["estimate", "std_error", "ci_lower", "ci_upper", "p_value", "p_tukey", "p_holm"], 0.1)
)
ENDS = dict.fromkeys(["estimate", "std_error", "ci_lower", "wald_lower", "wald_upper"], 0.5) | {"ci_upper": None}
PROFILED = {"name": HOSTILE, **ENDS, "note": HOSTILE}

SHOWN = {
    "fit": FIT,
    "response": HOSTILE,
    "column": HOSTILE,
    "unit": HOSTILE,
    "kind": HOSTILE,
    "explained": HOSTILE,
    "how_well": HOSTILE,
    "basis": HOSTILE,
    "lead": [LeadEffect(HOSTILE, part_of(0.5, 0.1))],
    "skill": HOSTILE,
    "limits": [HOSTILE],
    "checks": [Check(HOSTILE, verdict, HOSTILE, HOSTILE) for verdict in VERDICTS],
}
RANKED = {"rows": 9, "accuracy": 0.8, "mean_response": 0.3, "auc": 0.7, "events": 3}
RANKED |= {"true_positive": 2, "false_positive": 1}
SHOWN |= {"measures": measures(RANKED, HOSTILE, None)}
SHOWN |= {"folder": HOSTILE, "pages": [{"name": HOSTILE, "address": "a.html"}], "circumstances": [("Weights", HOSTILE)]}

MODEL = SHOWN | {
    "fit": FIT | {"coefficients": 3},
    "is_network": False,
    "regression": "linear regression of",
    "fitted": HOSTILE,
}
MODEL |= {
    "effects": [TermSentences("x", [HOSTILE]), TermSentences(HOSTILE, [], HOSTILE)],
    "curves": [HOSTILE],
    "curves_drawn": [],
    "drawn": strongest_effects(COEFFICIENTS, "difference", None, 1.0, NO_WORDS),
    "short": short_table(COEFFICIENTS, 9.0, NO_WORDS),
    "means": [means_of_factor(HOSTILE, MEANS, False, NO_WORDS), *means_by_class(BY_CLASS, "y", NO_WORDS)],
    "what_means": HOSTILE,
    "population": HOSTILE,
    "scale": HOSTILE,
    "pairs": list(pairs_of(PAIRS, "odds ratio", 1.0, "y", NO_WORDS)),
    "scenarios": Scenarios([HOSTILE], means_of_factor(HOSTILE, MEANS, False, NO_WORDS), FRAME, FRAME),
    "confidence": 0.95,
    "tests": (FRAME, []),
    "parallel": (HOSTILE, FRAME),
    "instruments": (HOSTILE, FRAME),
    "errors": HOSTILE,
    "convergence": HOSTILE,
    "without_estimate": [HOSTILE],
}

NETWORK = SHOWN | {
    "lead": [],
    "fit": FIT | {"parameters": 7, "steps": 10, "epochs": 2.0, "strategy": HOSTILE},
    "is_network": True,
    "picture": HOSTILE,
    "layers": layers_table([{"name": "deep", "kind": "Dense", "output": ["rows", 1], "parameters": 9}]),
    "measures": [],
    "parts": [HOSTILE],
    "chosen": 2,
}


LEVELS = {"rows": 1000, "levels": [HOSTILE, "b"], "level_count": 3}

LINE = {"term": HOSTILE, "level": HOSTILE, "cells": [{"value": "0.5", "error": "0.25"}]}

STATISTICS = dict.fromkeys(compare.STATISTICS.values(), 17)

PAGES = {
    "coefficients": {
        "fit": FIT,
        "in_words": HOSTILE,
        "effect": HOSTILE,
        "ratio": "",
        "by_cluster": True,
        "shapes": [HOSTILE],
        "coded": True,
        "components": FRAME,
        "shares": HOSTILE,
        "absorbed": FRAME,
        "without_errors": None,
        "profiles": profiles({"profile": [PROFILED]}, "odds_ratio"),
        "sheet": sheet(COEFFICIENTS, None, 0.95, NO_WORDS),
        "picture": [HOSTILE],
    },
    "combinations": {"fit": FIT, "kind": HOSTILE, "table": FRAME, "confidence": 0.95, "has_intervals": True},
    "metrics": {
        "model": "m",
        "rows": 9,
        "title": HOSTILE,
        "picture": [HOSTILE],
        "unseen": {HOSTILE: LEVELS},
        "metrics": FRAME,
        "classes": FRAME,
        "by": {HOSTILE: FRAME},
    },
    "columns": {
        "rows": 9,
        "sampled": 5,
        "outcome": HOSTILE,
        "groups": ["all rows", HOSTILE],
        "characteristics": [Characteristic(HOSTILE, ["", HOSTILE]), Characteristic(HOSTILE, ["1.0 %", ""], True)],
        "columns": [
            DescribedColumn(
                HOSTILE, HOSTILE, "text", HOSTILE, HOSTILE, [CountedLevel(HOSTILE, part_of(0.5, 0.1), "5 %", "1 %")]
            ),
            DescribedColumn(
                "x", "", "numbers", "", "", picture=bars([1, 2], [HOSTILE, "b"], [0, 1]), low="1", high="2"
            ),
        ],
        "left_out": 3,
        "reading": HOSTILE,
    },
    "diagnostics": {
        "model": HOSTILE,
        "kind": HOSTILE,
        "sampled": 5,
        "rows": 9,
        "left_out": 2,
        "picture": [HOSTILE],
        "influential": FRAME,
    },
    "scores": {
        "scores": [
            ScoredFile(HOSTILE, HOSTILE, "a.parquet", 9, [HOSTILE], HOSTILE, bars([1], ["a"]), "0", "1", FRAME),
            ScoredFile("m", "b", "b.parquet", 9, [], "9 rows", None, "", "", FRAME),
        ]
    },
    "rows": {"sentences": [HOSTILE], "files": FRAME, "has_total": True, "picture": [HOSTILE]},
    "compare": {
        "models": [{"name": HOSTILE, "fit": FIT, "family": HOSTILE}],
        "responses": [HOSTILE, "y"],
        "coefficients": [LINE],
        "statistics": [LINE],
        "differences": [HOSTILE],
        "tests": [{"model": HOSTILE, "within": HOSTILE, "chi_squared": "1.00", "df": 1, "p_value": "0.5"}],
        "problems": [HOSTILE],
    },
    "model": {"summary": [HOSTILE, HOSTILE], "table": FRAME, "more": 1, "picture": "data:,", "below": [HOSTILE]},
    "home": {
        "title": HOSTILE,
        "data": HOSTILE,
        "models": [MODEL, MODEL | {"tests": (None, [HOSTILE])}, NETWORK],
        "pages": [{"name": HOSTILE, "address": "a.html"}],
        "inputs": FRAME,
        "versions": HOSTILE,
    }
    | {"by_chance": [HOSTILE], "command": HOSTILE, "config": HOSTILE},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_html_in_the_data_as_text(name):
    page = render(name, **PAGES[name])
    assert "<script>alert" not in page and ">49<" not in page
    assert page.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &#34;x&#34; {{ 7 * 7 }}") >= 3
    # Every element that is opened is closed, in order.
    stack = []
    own = r"<style>.*?</style>|<script>.*?</script>|<!DOCTYPE html>|<(br|wbr|meta|img|input)[^>]*>|<[^<>]*/>"
    body = re.sub(own, "", page, flags=re.S)
    for closing, element in re.findall(r"<(/?)(\w+)", body):
        if closing:
            assert stack.pop() == element
        else:
            stack.append(element)
    assert not stack


def test_a_page_says_that_no_row_can_be_predicted(tmp_path):
    metrics = {
        "model": "m",
        "split": "evaluate",
        "rows": 0,
        "rows_with_unseen_level": 803,
        "by": {"g": []},
        "unseen": {},
    }
    results, picture = SimpleNamespace(metrics=metrics, words=NO_WORDS), tmp_path / "metrics.svg"
    for draw in (draw_metrics, draw_groups):
        draw(results, [picture])
        assert "m: no row can be predicted of those to evaluate" in picture.read_text()
    page = metrics_page(results, picture)
    assert "The model can predict none of these rows" in page and ">803<" in page

    parts = {"base", "parts", "tables", "quotes", "tablesort.min.js", "tablesort.licence.txt"}
    assert {path.name.removesuffix(".html.j2") for path in TEMPLATES.iterdir()} == {*PAGES, *parts}


def test_a_word_is_explained_at_the_end_and_linked_where_it_first_stands_in_a_sentence():
    sentences = ["Separated levels have no AUC.", "The auc of clusters."]
    files = pd.DataFrame([["AIC", "RMSE"]], columns=["file", "VIF"])
    page = render("rows", picture=[], sentences=sentences, files=files, has_total=False)
    assert page.count("<a class=") == 1 + 3
    assert '<a class="word" href="#word-separated">Separated</a> levels have no' in page and "The auc of <a" in page
    terms = re.findall(r'<dt id="(.+?)">(.+?)</dt><dd>.+\.</dd>', page)
    assert terms == [
        ("word-AIC", "AIC, BIC"),
        ("word-AUC", "AUC"),
        ("word-cluster", "cluster (of rows)"),
        ("word-RMSE", "RMSE"),
        ("word-separated", "separated"),
        ("word-VIF", "VIF"),
    ]
    # Within a name of the user's a term means something else.
    own = ["plant with AUC & more", "carrier"]
    told = ["The rate is higher with plant with AUC & more than with other AUC."]
    page = render("rows", picture=[], sentences=told, files=files, has_total=False, own=own)
    assert 'plant with AUC &amp; more than with other <a class="word" href="#word-AUC">AUC</a>' in page
    # Nothing to explain, no list.
    assert "Words" not in render("rows", picture=[], sentences=[], files=FRAME[["term"]], has_total=False)


BAD = """<!DOCTYPE html><html lang="en"><title>Bad</title><style>p { color: #888 }
@media (prefers-color-scheme: dark) { p { color: #ccc; background: #222 } }</style>
<main><h1>Bad</h1><input><p>grey on white</p><table><tr><th>a<td>1</table><div style="width: 700px">wide</div></main>"""


@pytest.mark.processes
def test_the_faults_of_a_page_are_found(tmp_path):
    (tmp_path / "bad.html").write_text(BAD)
    found = {fault.split(", ", 1)[1] for fault in faults([tmp_path / "bad.html"])}
    everywhere = {"a <th> without scope", "critical: Form elements must have labels (label): <input>"}
    assert found == {
        f"{window}: {fault}" for window in ("narrow and light", "wide and dark") for fault in everywhere
    } | {
        "narrow and light: wider than the window",
        "narrow and light: serious: Elements must meet minimum color contrast ratio thresholds (color-contrast): "
        "<p>grey on white</p>",
    }
    (tmp_path / "bad.html").write_text(BAD.replace("<main>", "<main><script>nothing.there</script>"))
    with pytest.raises(AssertionError, match="nothing is not defined"):
        faults([tmp_path / "bad.html"])


def test_names_over_groups_of_columns_span_them_and_missing_values_are_empty():
    columns = pd.MultiIndex.from_tuples([("", "file"), ("", "read"), ("dropped", "a"), ("dropped", "b")])
    files = pd.DataFrame([["f.csv", "1,000", None, float("nan")]], columns=columns)
    page = render("rows", picture=[], sentences=[], files=files, has_total=False)
    assert '<tr><td colspan="2"></td><th scope="colgroup" colspan="2">dropped</th></tr>' in page
    assert (
        '<tr><th scope="col">file</th><th scope="col">read</th><th scope="col">a</th><th scope="col">b</th></tr>'
        in page
    )
    assert '<tr><th scope="row">f.csv</th><td>1,000</td><td></td><td></td></tr>' in page
    assert 'class="total"' not in page and 'class="total"' in render(
        "rows", picture=[], sentences=[], files=files, has_total=True
    )


def test_models_side_by_side_have_errors_below_estimates_and_statistics_last():
    # A term may be called as a statistic is.
    table = pd.DataFrame(
        {"term": ["n", "x"], "level": "", "estimate": [0.5, float("inf")], "std_error": [0.125, float("nan")]}
    )
    fit = {"model": "m", "formula": "y ~ n + x", "family": "gaussian", "provenance": {"model": {}}, **STATISTICS}
    models = [compare.ComparedModel(fit, {}, table.assign(reference="", status=""))]
    page = compare_script.page(models, held_out.differences(models), pd.DataFrame(columns=nested.COLUMNS))
    assert "<td>n</td><td></td><td>0.500<br>(0.125)</td>" in page and "<td>x</td><td></td><td>+inf</td>" in page
    coefficients, statistics = page.split("</tbody>")[:2]
    assert "<td>standard errors</td><td></td><td>none</td>" in statistics
    assert "<td>AIC</td><td></td><td>17</td>" in statistics and "AIC" not in coefficients
    assert "AUC" not in page  # no rows were held out


def test_coefficients_stand_by_term_with_aligned_decimals_labels_and_intervals_of_ratios():
    table = COEFFICIENTS.assign(
        term=["Intercept", "C(weekday)", "C(weekday)"], level=["", "1", "2"], reference=["", "1", "1"]
    )
    table["odds_ratio"] = [0.2231, 1.0, 1.2840]
    shown = sheet(table, "odds_ratio", 0.9, Words({"weekday": {"1": "Mon", "2": "Tue"}}, {"weekday": "days"}))
    assert shown.names == ["odds ratio", "from", "to", "estimate", "std. error", "p", "rows"]
    assert shown.groups[1] == ("90 % interval", 2)
    term = shown.terms[1]
    assert (term.name, term.unit, term.against) == ("C(weekday)", "in days", "Mon")
    monday, tuesday = term.rows
    assert (monday.level, monday.value, monday.status) == ("Mon", "1", "reference")
    assert monday.cells == ["1.000", "", "", "0.000", "", "", "1,000"]
    assert tuesday.cells == ["1.284", "1.162", "1.419", "0.250", "0.050", "0.5000", "234"]
    assert shown.terms[0].rows[0].cells[3] == "−1.50"
    # A curve is not told by its coefficients.
    curve = sheet(table.replace("C(weekday)", "carrier:bs(hour, df=4)"), "odds_ratio", 0.9, NO_WORDS).terms[1]
    assert (curve.name, curve.rows) == ("carrier:bs(hour, df=4)", [])
    # Without tests there are no columns for them.
    lasso = table.drop(columns=["p_value", "ci_lower", "ci_upper", "odds_ratio"]).assign(std_error=float("nan"))
    assert sheet(lasso, None, 0.95, NO_WORDS).names == ["estimate", "rows"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("-0.5", "−0.5"), ("-1,234", "−1,234"), ("-1.5e-07", "−1.5e-07"), ("-a", "-a"), ("2008-01-02", "2008-01-02")],
)
def test_a_negative_number_has_a_minus_sign(text, shown):
    assert minus(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-0.004, "−0.0040"),
        (-0.0, "0.00"),
        (-0.005001, "−0.0050"),
        (-5.24e-9, "−5.2e-09"),
        (-1234.5, "−1,234.50"),
        (0.0, "0.00"),
    ],
)
def test_a_number_shows_two_digits_of_itself_and_zero_has_no_minus(value, shown):
    assert fixed(value, 2) == shown


@pytest.mark.parametrize(
    ("factor", "unit"), [(1e-6, "per 1,000,000 miles"), (1.0, "in miles"), (1e9, "per 0.001 miles")]
)
def test_a_slope_of_any_size_has_a_unit_with_which_it_is_readable(factor, unit):
    rows = [("Intercept", "", "", 11.2, 0.03), ("x", "", "", -0.524, 0.081)]
    table = pd.DataFrame(rows, columns=["term", "level", "reference", "estimate", "std_error"])
    table[["estimate", "std_error"]] *= np.array([[1.0], [factor]])
    ends = {
        "ci_lower": table["estimate"] - 2 * table["std_error"],
        "ci_upper": table["estimate"] + 2 * table["std_error"],
    }
    table = table.assign(**ends, p_value=0.01, rows=9, status="")
    of_x = sheet(table, None, 0.95, Words({}, {"x": "miles"})).terms[1]
    cells = of_x.rows[0].cells
    assert of_x.unit == unit and not any("e" in cell for cell in cells)
    estimate, error = (float(cell.replace(",", "").replace("−", "-")) for cell in cells[:2])
    assert error / estimate == pytest.approx(-0.081 / 0.524, rel=0.02)


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_numbers_of_any_size_have_two_digits_and_a_column_has_one_notation(factor):
    table = pd.DataFrame({"estimate": [1.7741, -0.0524, 0.71632], "std_error": [0.21, 0.018, 0.094]}) * factor
    texts = numbers_as_text(table, table["std_error"])
    read = texts.map(lambda text: float(text.replace(",", "").replace("−", "-")))
    assert ((read / table - 1).abs() < 0.05).all(axis=None)
    assert len({"e" in text for text in texts.stack()}) == 1
    for value in table.stack():
        for text in (two_digits(value), four_that_count(value), four_digits(value), statistic(value)):
            assert float(text.replace(",", "").replace("−", "-")) == pytest.approx(value, rel=0.05)


def test_p_values_and_shares_are_neither_0_nor_1_by_rounding():
    assert [p_value(p) for p in (0.00012, 0.0312, 0.9, 9e-5, float("nan"))] == [
        "0.00012",
        "0.0312",
        "0.9000",
        "< 0.0001",
        "",
    ]
    assert [percent(share) for share in (0.99962, 0.0004, 0.0, 1.0)] == ["99.96 %", "0.040 %", "0 %", "100 %"]


def test_profile_intervals_stand_beside_those_of_wald_and_have_ratios():
    entry = {"name": "UA - AA", "estimate": 0.5, "std_error": 0.2, "ci_lower": 0.1, "ci_upper": None}
    fit = {"profile": [entry | {"wald_lower": 0.108, "wald_upper": 0.892, "note": "the likelihood does not fall"}]}
    shown = profiles(fit, "odds_ratio")
    assert shown is not None
    assert shown.columns.get_level_values(1).tolist() == [
        *["combination", "odds ratio", "from", "to", "estimate", "from", "to", "from", "to", "note"]
    ]
    cells = ["UA - AA", "1.65", "1.11", "", "0.50", "0.10", "", "0.11", "0.89", "the likelihood does not fall"]
    assert shown.iloc[0].tolist() == cells
    shown = profiles({"profile": [entry | {"wald_lower": 0.1, "wald_upper": 0.9, "note": ""}]}, None)
    assert shown is not None and len(shown.columns) == 6 and profiles({}, None) is None


def test_contrasts_have_ratios_and_hypotheses_their_statistics():
    fit = {"model": "m", "formula": "y ~ x", "family": "binomial", "std_errors": {"kind": "classical"}}
    contrasts = pd.DataFrame({"contrast": ["UA - AA"], "estimate": 0.5, "std_error": 0.2, "p_value": 0.0124})
    shown = combinations(contrasts.assign(p_adjusted=0.03, ci_lower=0.108, ci_upper=0.892, note=""), fit)
    assert shown.columns.tolist() == ["contrast", "odds ratio", "from", "to", "estimate", "std. error", "p", "p (Holm)"]
    assert shown.iloc[0].tolist() == ["UA - AA", "1.65", "1.11", "2.44", "0.50", "0.20", "0.0124", "0.0300"]
    # A penalised fit has no tests, and a lasso no errors.
    lasso = combinations(contrasts[["contrast", "estimate"]], fit)
    assert lasso.iloc[0].tolist()[0] == "UA - AA" and lasso.columns.tolist() == ["contrast", "odds ratio", "estimate"]
    tests = pd.DataFrame(
        {"hypothesis": ["alike"], "df": [2.0], "chi_squared": [7.25], "p_value": [0.0266], "note": ["-"]}
    )
    shown = combinations(tests, fit)
    assert shown.columns.tolist() == ["hypothesis", "df", "chi-squared", "p", "note"]
    assert shown.iloc[0].tolist() == ["alike", "2", "7.2", "0.0266", "-"]


def test_random_effects_have_their_standard_deviations_and_those_of_the_residuals():
    effects = {
        "term": "s(g, bs=re)",
        "is_random": True,
        "std_dev": 1.83033,
        "std_dev_lower": 1.3376,
        "std_dev_upper": 2.50454,
    }
    none = {"term": "s(h, bs=re)", "is_random": True}
    fit = {"smooths": [effects, none, {"term": "s(x)", "is_random": False}], "sigma": 1.31004}
    words = Words({}, {}, names={"g": "School"})
    assert variance_components(fit, words).to_numpy().tolist() == [
        ["School", "1.830", "1.338 to 2.505"],
        ["s(h, bs=re)", "0", ""],
        ["residuals", "1.310", ""],
    ]
    assert variance_components({"smooths": [{"term": "s(x)", "is_random": False}]}, words) is None
    said = accuracy.errors(fit | {"std_errors": {"kind": "classical"}})
    assert "right if rows are independent given the random effects and the family's variance is true." in said


@pytest.mark.processes
def test_a_long_note_makes_no_page_wider_than_the_window(tmp_path):
    made_of = " - ".join(f"manufacturer[MCDONNELL DOUGLAS {number}]" for number in range(20))
    noted = COEFFICIENTS.assign(status=["", "", "aliased"], aliased_with=["", "", made_of])
    noted = noted.loc[[0, *[1] * 15, *[2] * 15]]  # long enough to be sorted, filtered and folded
    values = PAGES["coefficients"] | {"picture": [], "sheet": sheet(noted, None, 0.95, NO_WORDS)}
    (tmp_path / "coefficients.html").write_text(render("coefficients", **values))
    assert faults([tmp_path / "coefficients.html"]) == []


SIZES = ["1.2 million", "−0.5", "< 0.0001", "0.0001", "12 %", "1,250", "3 (0.2)", "7e-07", "∞", "0.2 to 0.5", "n/a", ""]
IN_ORDER = [
    "−0.5",
    "7e-07",
    "< 0.0001",
    "0.0001",
    "0.2 to 0.5",
    "3 (0.2)",
    "12 %",
    "1,250",
    "1.2 million",
    "∞",
    "n/a",
    "",
]


@pytest.mark.processes
def test_a_long_table_sorts_by_the_numbers_it_shows_filters_and_folds(tmp_path):
    files = pd.DataFrame({"file": [f"f{place}" for place in range(35)], HOSTILE: [*SIZES, *["9"] * 22, "total"]})
    page, path = render("rows", sentences=[], files=files, has_total=True, picture=[]), tmp_path / "rows.html"
    path.write_text(page)
    with browser() as started:
        with opened(started, path, viewport={"width": 1280, "height": 800}) as shown:
            rows, visible = shown.locator("tbody tr:not(.more)"), shown.locator("tbody tr:visible:not(.more)")
            assert visible.count() == 11 and visible.last.inner_text() == "f34\ttotal"
            heads = [shown.get_by_role("button", name=name) for name in ("file", HOSTILE)]
            heads[1].focus()
            shown.keyboard.press("Enter")
            assert shown.locator("th[aria-sort=ascending]").inner_text() == HOSTILE
            texts = rows.locator("td").all_inner_texts()
            assert [text for text in texts if text not in ("9", "total")] == IN_ORDER and texts[-1] == "total"
            shown.keyboard.press("Space")
            texts = [text for text in rows.locator("td").all_inner_texts() if text not in ("9", "total")]
            assert texts == [*IN_ORDER[-3::-1], "n/a", ""]
            heads[0].click()
            assert visible.locator("th").all_inner_texts() == [f"f{place}" for place in range(10)] + ["f34"]
            shown.get_by_label("Show only").fill("F1")
            assert visible.count() == 11 and shown.get_by_text("11 of 35 rows").is_visible()
            shown.emulate_media(media="print")
            assert visible.count() == 35 and not shown.get_by_role("button", name="Show all").is_visible()
            shown.emulate_media(media="screen")
            shown.get_by_label("Show only").fill("")
            shown.get_by_role("button", name="Show all 35 rows").click()
            assert visible.count() == 35
        with opened(started, path, java_script_enabled=False) as plain:
            assert plain.locator("tbody tr:visible").count() == 35
            assert plain.locator("button, input").count() == 0
    # Nothing is shipped in a page without a long table.
    assert "Tablesort" in page and "Tablesort" not in render(
        "rows", sentences=[], files=files[:LONG], has_total=True, picture=[]
    )
    # The version and checksum that the template states are those of the file.
    digest = hashlib.sha256((TEMPLATES / "tablesort.min.js").read_bytes()).hexdigest()
    assert digest in (TEMPLATES / "tables.html.j2").read_text()


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "there.html").write_text('<h1 id="place">x</h1>')
    links = ("there.html", "there.html#place", "#own", "there.html#gone", "gone.html", "#gone", "https://a.example/")
    page = tmp_path / "page.html"
    page.write_text('<p id="own"><img src="data:,"><img src="x.png">' + "".join(f'<a href="{link}">' for link in links))
    assert list(broken_links([page])) == [f"{page}: {link}" for link in ("x.png", *links[3:])]
