"""Formulas and designs: what the engine can fit is laid out, and the rest refused by name before training."""

import pandas as pd
import pytest

from pools import ingest_frame
from tfglm.data.dictionary import Dictionary, merge
from tfglm.errors import UserError
from tfglm.model.design import Design, check_reference, design
from tfglm.model.formula import FormulaTerm, parse

FRAME = pd.DataFrame(
    {
        "late": [0, 1, 0, 1, 1, 0],
        "delay": [1.5, 20, 3, 30, 40, 5],
        "carrier": ["B6", "AA", "AA", "DL", "B6", "DL"],
        "month": [1, 2, 10, 1, 2, 10],
        "only": ["x"] * 6,
        "same": [7] * 6,
    }
)


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory) -> Dictionary:
    return merge([ingest_frame(FRAME, tmp_path_factory.mktemp("design"))])


def test_a_formula_is_read_in_the_order_written():
    response, terms = parse("late ~ distance + C(month) + carrier", "f")
    assert response == "late"
    assert terms == (
        FormulaTerm("distance", "distance", False),
        FormulaTerm("C(month)", "month", True),
        FormulaTerm("carrier", "carrier", False),
    )


REFUSED = {
    "late ~ carrier:month": "the interaction `carrier:month` is not supported",
    "late ~ log(delay)": "`log(delay)` is not supported; define a column for it under data.derive",
    "late ~ carrier - 1": "leaves out the intercept, which is not supported",
    "late ~ 0 + carrier": "leaves out the intercept, which is not supported",
    'late ~ C(month, Treatment("2"))': "C() takes one column; choose its reference level with the key `reference`",
    "carrier + month": "needs one response",
    "log(delay) ~ carrier": "the response `log(delay)` must be a column",
    "late ~ 1": "has no terms besides the intercept",
    "late ~ (carrier": "not a formula: `late ~ (carrier`",
    "late ~ carier": "no column `carier`; did you mean `carrier`?",
    "late ~ late + carrier": "`late` is the response and stands on the right-hand side too",
    "late ~ only": "`only` has the one level `x` in the training rows",
    "same ~ carrier": "the response `same` is 7 in all training rows",
    "carrier ~ month": "the response `carrier` is text",
    "delay ~ carrier": "family binomial needs a response of 0 and 1, but `delay` runs from 1.5 to 40",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_cannot_be_fitted_is_refused_by_name(dictionary, formula):
    with pytest.raises(UserError) as error:
        design("m", formula, "binomial", dictionary)
    assert REFUSED[formula] in str(error.value)
    assert str(error.value).startswith("models.m")


def test_no_training_rows_is_an_error_that_says_where_they_went(dictionary):
    with pytest.raises(UserError, match=r"no training rows are left; results/data/rows.json tells"):
        design("m", "late ~ carrier", "binomial", Dictionary(dictionary.columns, [], {"train": 0, "evaluate": 5}))


def test_a_design_lays_out_the_coefficient_vector_and_reads_back(dictionary, tmp_path):
    made = design("m", "late ~ C(month) + delay + carrier", "binomial", dictionary)
    assert [(term.name, level) for term, level in made.coefficients()] == [
        ("Intercept", ""),
        ("C(month)", "1"),
        ("C(month)", "2"),
        ("C(month)", "10"),
        ("delay", ""),
        ("carrier", "AA"),
        ("carrier", "B6"),
        ("carrier", "DL"),
    ]
    assert made.slices["carrier"] == slice(5, 8)
    delay = made.numeric[1]
    assert [delay.center, delay.scale] == pytest.approx([FRAME["delay"].mean(), FRAME["delay"].std(ddof=0)])
    made.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == made


def test_reference_levels_are_checked_before_training(dictionary):
    made = design("m", "late ~ carrier + C(month)", "binomial", dictionary)
    check_reference(made, {"carrier": "DL", "C(month)": "10"})
    with pytest.raises(UserError, match=r"models.m.reference.carrier: no level `DLL` .*did you mean `DL`"):
        check_reference(made, {"carrier": "DLL"})
    with pytest.raises(UserError, match=r"models.m.reference: no categorical term `month`; did you mean `C\(month\)`"):
        check_reference(made, {"month": "1"})
