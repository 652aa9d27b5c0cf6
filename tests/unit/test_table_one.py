"""The page of the data: types, missing values and distributions, and all of it by outcome."""

import re

import numpy as np
import pandas as pd
import pytest

from browser import faults
from pools import ingest_frame
from tfglm.data.dictionary import account, merge
from tfglm.data.training_rows import sampled_rows
from tfglm.report.table_one import histogram, page
from tfglm.report.words import Words

WORDS = Words({"grade": {"1": "first", "2": "second", "3": "third"}}, {"fare": "pounds"}, {"age": "Age at departure"})
HOSTILE = "<script>alert('1')</script>"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    size = 600
    frame = pd.DataFrame({"survived": draw.integers(0, 2, size), "sex": draw.choice(["f", HOSTILE], size)})
    frame["town"] = draw.choice([f"t{number}" for number in range(40)], size)
    frame["grade"] = draw.integers(1, 4, size)
    frame["fare"] = np.round(np.exp(draw.normal(3, 1, size)) + 30 * frame["survived"], 2)
    frame["age"] = draw.normal(30, 10, size)
    frame.loc[:19, "age"] = np.nan
    return frame


def page_of(frame: pd.DataFrame, folder, responses=("fare", "survived"), order=None, **options) -> str:
    files = [ingest_frame(frame, folder)]
    dictionary = merge(files, order=order)
    return page(account(files, dictionary), dictionary, files, responses, WORDS, **options)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.partition("<body>")[2])).replace("\N{NO-BREAK SPACE}", " ")


def test_means_and_shares_are_those_of_the_rows_by_outcome(frame, tmp_path):
    html = page_of(frame, tmp_path, reading="Missing values are empty.")
    shown = text_of(html)
    used = frame.dropna()
    share = used["survived"].mean()
    assert "580 training rows" in shown and "survived = 1. Missing values are empty." in shown
    # By outcome are the levels of sex, town and grade, and not those of the outcome itself.
    assert html.count('class="outcome"') == 3
    assert f"survived = 1 ({100 * share:.1f} %)" in shown
    cells = [
        f"{rows['fare'].mean():.4g} ({rows['fare'].std(ddof=0):.4g})"
        for rows in (used, used[used["survived"] == 0], used[used["survived"] == 1])
    ]
    assert f"fare, pounds, mean (standard deviation) {' '.join(cells)}" in shown
    cells = [f"{100 * (used['grade'][used['survived'] == value] == 1).mean():.1f} %" for value in (0, 1)]
    assert re.search(rf"first [\d.]+ % {' '.join(cells)}", shown)
    assert "Age at departure, mean (standard deviation)" in shown and "Age at departure (age)" in shown
    assert "town, the 6 most frequent of 40 levels" in shown
    assert "numbers; 20 rows without a value, dropped; mean" in shown and "40 values; the 6 most frequent" in shown


def test_text_of_the_data_is_shown_as_text_and_nothing_is_wrong_with_the_page(frame, tmp_path):
    html = page_of(frame, tmp_path)
    assert "<script>alert" not in html and html.count("&lt;script&gt;") >= 2


@pytest.mark.processes
def test_browsers_find_no_fault_with_the_page(frame, tmp_path):
    (tmp_path / "columns.html").write_text(page_of(frame, tmp_path / "data"))
    assert faults([tmp_path / "columns.html"]) == []


def test_without_a_binary_response_there_is_one_group(frame, tmp_path):
    shown = text_of(page_of(frame, tmp_path, responses=["fare"]))
    assert "characteristic all rows" in shown and "survived = 1" not in shown
    assert re.search(r"survived, share of 1 [\d.]+ %", shown)


def test_levels_are_in_the_order_of_the_config_with_their_own_shares(frame, tmp_path):
    names = ["weak", "fair", "good"]
    named = frame.assign(grade=frame["grade"].map(dict(enumerate(names, 1))))
    shown = text_of(page_of(named, tmp_path, responses=["fare"], order={"grade": names}))
    grades = named.dropna()["grade"]
    shares = [f"{name} {100 * (grades == name).mean():.1f} %" for name in names]
    assert " ".join(shares) in shown


def test_a_sample_has_the_same_rows_of_all_columns_and_the_page_says_so(frame, tmp_path):
    files = [ingest_frame(frame, tmp_path / "files")]
    rows = sampled_rows(files, ["fare", "town", "survived"], merge(files).required, 100)
    known = set(zip(frame["fare"], frame["town"], frame["survived"], strict=True))
    assert 90 <= len(rows["fare"]) <= 100 and set(zip(*rows.values(), strict=True)) <= known
    assert "a sample of" in text_of(page_of(frame, tmp_path, most_rows=100))


def test_a_histogram_counts_every_row_and_far_values_share_its_ends():
    values = np.append(np.arange(1000) / 100, [1e6, -1e6])
    picture, low, high = histogram(values, values > 5)
    counts = [int(count.replace(",", "")) for count in re.findall(r'class="bar".*?: ([\d,]+) rows', picture)]
    assert sum(counts) == 1002 and (low, high) == ("≤ 0", "≥ 10")
    assert histogram(np.zeros(3), None)[0].count("<rect") == 1
