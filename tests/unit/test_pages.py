"""The pages: what is HTML in the data is shown as text, and tables come out as they are."""

import re

import pandas as pd
import pytest

import compare as compare_script
from tfglm.report.pages import TEMPLATES, render
from tfglm.results import compare, held_out

HOSTILE = "<script>alert('1')</script> & \"x\" {{ 7 * 7 }}"

FIT = {"model": HOSTILE, "formula": f"y ~ {HOSTILE}", "family": "gaussian", "warnings": [HOSTILE], "rows": 1234}

FRAME = pd.DataFrame({"term": ["x"], "level": [HOSTILE], HOSTILE: [1.5]})

MODEL = {"fit": FIT | {"coefficients": 3}, "regression": "linear regression of", "response": HOSTILE, "tests": FRAME}
MODEL |= {
    "notes": [HOSTILE],
    "how_well": HOSTILE,
    "errors": HOSTILE,
    "convergence": HOSTILE,
    "without_estimate": [HOSTILE],
}

NETWORK = {
    "fit": FIT | {"parameters": 7, "steps": 10, "epochs": 2.0, "strategy": HOSTILE},
    "response": HOSTILE,
    "how_well": HOSTILE,
    "parts": [HOSTILE],
    "chosen": 2,
}

LEVELS = {"rows": 1000, "levels": [HOSTILE, "b"], "level_count": 3}

LINE = {"term": HOSTILE, "level": HOSTILE, "cells": [{"value": "0.5", "error": "0.25"}]}

STATISTICS = dict.fromkeys(compare.STATISTICS.values(), 17)

PAGES = {
    "coefficients": {"fit": FIT, "in_words": HOSTILE, "coefficients": FRAME},
    "metrics": {
        "title": HOSTILE,
        "unseen": {HOSTILE: LEVELS},
        "metrics": FRAME,
        "classes": FRAME,
        "by": {HOSTILE: FRAME},
    },
    "rows": {"sentences": [HOSTILE], "files": FRAME, "has_total": True},
    "compare": {
        "models": [{"name": HOSTILE, "fit": FIT}],
        "responses": [HOSTILE, "y"],
        "coefficients": [LINE],
        "statistics": [LINE],
        "differences": [HOSTILE],
    },
    "summary": {
        "data": HOSTILE,
        "models": [MODEL, MODEL | {"tests": None}, NETWORK],
        "inputs": FRAME,
        "versions": HOSTILE,
    }
    | {"by_chance": [HOSTILE], "commands": HOSTILE, "config": HOSTILE},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_html_in_the_data_as_text(name):
    page = render(name, **PAGES[name])
    assert "<script" not in page and "49" not in page
    assert page.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &#34;x&#34; {{ 7 * 7 }}") >= 3
    # Every element that is opened is closed, in order.
    stack = []
    body = re.sub(r"<style>.*?</style>|<!DOCTYPE html>|<(br|meta)[^>]*>", "", page, flags=re.S)
    for closing, element in re.findall(r"<(/?)(\w+)", body):
        if closing:
            assert stack.pop() == element
        else:
            stack.append(element)
    assert not stack


def test_every_template_of_a_page_is_tested():
    assert {path.name.removesuffix(".html.j2") for path in TEMPLATES.iterdir()} == {*PAGES, "base", "parts"}


def test_names_over_groups_of_columns_span_them_and_missing_values_are_empty():
    columns = pd.MultiIndex.from_tuples([("", "file"), ("", "read"), ("dropped", "a"), ("dropped", "b")])
    files = pd.DataFrame([["f.csv", "1,000", None, float("nan")]], columns=columns)
    page = render("rows", sentences=[], files=files, has_total=False)
    assert '<tr><th colspan="2"></th><th colspan="2">dropped</th></tr>' in page
    assert "<tr><th>file</th><th>read</th><th>a</th><th>b</th></tr>" in page
    assert "<tr><td>f.csv</td><td>1,000</td><td></td><td></td></tr>" in page
    assert 'class="total"' not in page and 'class="total"' in render("rows", sentences=[], files=files, has_total=True)


def test_models_side_by_side_have_errors_below_estimates_and_statistics_last():
    # A term may be called as a statistic is.
    table = pd.DataFrame(
        {"term": ["n", "x"], "level": "", "estimate": [0.5, float("inf")], "std_error": [0.125, float("nan")]}
    )
    fit = {"model": "m", "formula": "y ~ n + x", "family": "gaussian", "provenance": {"model": {}}, **STATISTICS}
    models = [compare.Model(fit, {}, table)]
    page = compare_script.page(models, compare.table(models), held_out.differences(models))
    assert "<td>n</td><td></td><td>0.5000<br>(0.1250)</td>" in page and "<td>x</td><td></td><td>+inf</td>" in page
    coefficients, statistics = page.split("</tbody>")[:2]
    assert "<td>AIC</td><td></td><td>17</td>" in statistics and "AIC" not in coefficients
    assert "AUC" not in page  # no rows were held out
