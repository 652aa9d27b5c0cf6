"""Numbers do not move while the engine's version stays: golden_cases.py says how to make the file anew."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import golden_cases
from tfglm import ENGINE

GOLDEN = json.loads(golden_cases.GOLDEN.read_text())
SAME = 1e-9
"""In standard errors, or of a number's own size: other processors add in another order."""

SAME_ONLINE = 1e-5
"""The same where a fit ends with steps in float32 (`engine.updates`), which round after every addition: between processors of
two makers 1e-6 after the 120 steps of these cases. On one processor they are the same bit for bit."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return golden_cases.ingested(tmp_path_factory.mktemp("golden"))


def test_the_golden_file_is_that_of_this_engine_and_has_each_case():
    assert GOLDEN["engine"] == ENGINE, (
        "make it anew with `python tests/golden_cases.py --write`, and say in CHANGELOG what moved"
    )
    assert list(GOLDEN["cases"]) == list(golden_cases.CASES)


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_numbers_are_those_of_the_golden_file(files, name):
    *_, solver = golden_cases.CASES[name]
    tolerance = SAME_ONLINE if "online" in solver and "newton" not in solver["solver"] else SAME
    actual = golden_cases.numbers(golden_cases.tables(files, *golden_cases.CASES[name]))
    expected = GOLDEN["cases"][name]
    for table in ("coefficients", "terms"):
        same(*(pd.read_csv(io.StringIO(of_one[table])) for of_one in (actual, expected)), tolerance)
    for part in ("fit", "predicted"):
        assert actual[part] == pytest.approx(expected[part], rel=tolerance)


def same(actual: pd.DataFrame, expected: pd.DataFrame, tolerance: float) -> None:
    texts = expected.select_dtypes(exclude="number").columns
    pd.testing.assert_frame_equal(actual[texts], expected[texts])
    for name in expected.columns.difference(texts):
        scale = np.abs(expected[name])
        if name in ("estimate", "ci_lower", "ci_upper") and "std_error" in expected:
            scale = np.fmax(scale, expected["std_error"])
        near = np.abs(actual[name] - expected[name]) <= tolerance * np.fmax(scale, 1e-6)
        near |= (actual[name] == expected[name]) | (actual[name].isna() & expected[name].isna())
        assert near.all(), (name, actual[name][~near], expected[name][~near])
