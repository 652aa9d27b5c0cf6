"""Formulas and designs: what the engine can fit is laid out, and the rest refused by name before training."""

from pathlib import Path

import pandas as pd
import pytest

from pools import ingest_frame
from tfglm.config import Layout, SelectionConfig, load_layout
from tfglm.data.dictionary import Dictionary, merge
from tfglm.data.selection import columns_from
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.model.design import Design, check_reference, design
from tfglm.model.formula import FormulaTerm, parse

LAYOUTS = sorted((Path(__file__).parents[1] / "config" / "layouts").glob("*.yaml"))

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


MADE = pd.DataFrame(
    {
        "late": pd.array([0, 1, 0, 1, 1, 0, 1, None], "Int64"),
        "carrier": ["B6", "AA", "AA", "DL", None, "B6", "AA", "B6"],
        "month": pd.array([1, 2, None, 1, 2, 10, 1, 1], "Int64"),
        "delay": [5.0, 10.0, None, 7.0, 8.0, 9.0, 1.0, 2.0],
    }
)


@pytest.fixture(scope="module")
def made_file(tmp_path_factory) -> IngestedFile:
    return ingest_frame(MADE, tmp_path_factory.mktemp("made"))


def test_a_term_knows_what_its_made_levels_stand_for(made_file, tmp_path):
    dictionary = merge([made_file], {"carrier": "level", "month": "level"}, {"carrier": 2, "month": 2})
    made = design("m", "late ~ carrier + C(month)", "binomial", dictionary)
    carrier, month = made.categorical
    assert carrier.levels == ("AA", "B6", "(rare)", "(missing)")
    assert carrier.numbers == {"AA": 0, "B6": 1, "DL": 2, None: 3}
    # The row without a month lacks the delay too, and so does not count.
    assert month.levels == ("1", "2", "(rare)")
    assert month.numbers == {"1": 0, "2": 1, "10": 2}
    assert made.required == ("late", "delay")
    made.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == made
    check_reference(made, {"carrier": "(missing)", "C(month)": "(rare)"})


def test_a_value_written_like_a_made_level_is_a_value_where_there_is_none(tmp_path):
    frame = pd.DataFrame({"late": [0, 1, 1], "carrier": ["(missing)", "AA", "(rare)"]})
    made = design("m", "late ~ carrier", "binomial", merge([ingest_frame(frame, tmp_path)]))
    assert made.categorical[0].numbers == {"(missing)": 0, "(rare)": 1, "AA": 2}


MISSING_REFUSED = {
    "late ~ month": r"models.m.formula: `month` is used as a number, .*\n  write C\(month\), or take it out of data.missing",
    "month ~ carrier": r"models.m: the response `month` cannot have missing values as a level; take it out of data.missing",
}


@pytest.mark.parametrize("formula", MISSING_REFUSED)
def test_missing_values_of_a_number_cannot_be_a_level(made_file, formula):
    dictionary = merge([made_file], {"month": "level"})
    with pytest.raises(UserError, match=MISSING_REFUSED[formula]):
        design("m", formula, "gaussian", dictionary)


def test_a_model_that_uses_what_is_known_only_after_departure_says_so(dictionary, tmp_path):
    made = design("m", "late ~ delay + C(month) + carrier", "binomial", dictionary, ["late", "delay", "month"])
    assert made.known_after_departure == ("delay", "C(month)")
    assert made.warnings[0].startswith("the model uses `delay`, `C(month)`, known only after departure")
    made.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == made
    # The response is what is to be predicted, so it is known late by its nature.
    assert design("m", "late ~ carrier", "binomial", dictionary, ["late"]).warnings == []


def test_columns_derived_from_late_ones_are_late_too():
    layout = Layout.model_validate(
        {
            "columns": {"arr_delay": "integer", "sched": "clock", "air_time": "integer"},
            "derive": {"speed": "sched / air_time", "hour": "sched // 100"},
            "after_departure": ["arr_delay", "air_time"],
        }
    )
    settings = SelectionConfig.model_validate(
        {
            "derive": {
                "late": "arr_delay >= 15",
                "fast": "CASE WHEN speed > 8 THEN 1 ELSE 0 END",
                "early": "hour < 9 AND NOT sched IS NULL",
                # A new column of an old name is judged by what it is made of.
                "speed": "hour * 2",
                "broken": "(((",
            },
            "columns": ["late"],
            "split": {"train": "TRUE"},
        }
    )
    found = columns_from(layout, settings, layout.after_departure)
    assert found == {"arr_delay", "air_time", "late", "fast"}


@pytest.mark.parametrize("path", LAYOUTS, ids=lambda path: path.stem)
def test_the_delays_are_late_in_every_layout_and_the_schedule_is_not(path):
    layout = load_layout(str(path))
    assert {"arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"} <= set(layout.after_departure)
    settings = SelectionConfig.model_validate({"columns": ["carrier"], "split": {"train": "TRUE"}})
    late = columns_from(layout, settings, layout.after_departure)
    assert late.isdisjoint({"carrier", "origin", "dest", "distance", "dep_hour", "date", "month", "weekday", "flight"})
