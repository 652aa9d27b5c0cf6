"""Formulas and designs: what the engine can fit is laid out, and the rest refused by name before training."""

from pathlib import Path

import pandas as pd
import pytest

from configs import message
from pools import design_of, ingest_frame
from tfglm.config import Layout, SelectionConfig, columns_from, load_layout
from tfglm.data.dictionary import Dictionary, merge
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.design.references import check_contrasts, check_reference
from tfglm.errors import UserError
from tfglm.formula.parse import parse
from tfglm.formula.terms import CategoricalFactor, Covariate, FunctionCall, Interaction, Transformed

OF_FLIGHTS = sorted(
    path for path in (Path(__file__).parents[2] / "config" / "layouts").glob("*.yaml") if path.stem != "images"
)

FRAME = pd.DataFrame(
    {
        "late": [0, 1, 0, 1, 1, 0],
        "delay": [1.5, 20, 3, 30, 40, 5],
        "carrier": ["B6", "AA", "AA", "DL", "B6", "DL"],
        "month": [1, 2, 10, 1, 2, 10],
        "only": ["x"] * 6,
        "same": [7] * 6,
        "zero": [0, 0, 1, 2, 3, 4],
        "negative": [-1, 0, 1, 2, 3, 4],
        "passengers": [120, 90, 310, 45, 150, 200],
    }
)


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory) -> Dictionary:
    return merge([ingest_frame(FRAME, tmp_path_factory.mktemp("design"))])


def test_a_formula_is_read_main_effects_first():
    parsed = parse('late ~ a:log(x) + C(month, Treatment("6")) + carrier + bs(scale(hour), df=6) - 1', "f")
    assert (parsed.response, parsed.intercept) == ("late", False)
    spline = Transformed("hour", "bs(scale(hour), df=6)", (FunctionCall("scale", {}), FunctionCall("bs", {"df": 6})))
    logarithm = Transformed("x", "log(x)", (FunctionCall("log", {}),))
    assert parsed.terms == (
        CategoricalFactor("month", "6"),
        Covariate("carrier"),
        spline,
        Interaction((Covariate("a"), logarithm)),
    )
    assert [term.name for term in parse("y ~ a*b", "f").terms] == ["a", "b", "a:b"]


REFUSED = {
    "late ~ lag(delay)": "`lag(delay)` is not supported; define a column for it under data.derive",
    "late ~ carrier:{delay + 1}": "is not supported; define a column for it under data.derive",
    'late ~ C(month, Treatment("3"))': "`C(month)`: no level `3` in the training rows",
    "late ~ C(month, contr.SAS)": "C() takes a column, and a reference level as in",
    "late ~ log(C(month))": "C() takes a column and must be a factor of its own",
    "late ~ poly(delay, 0)": "the degree of poly() must be a whole number from 1 to 20",
    "late ~ poly(month, 3)": "poly() of degree 3 needs more than 3 distinct values, and there are 3",
    "late ~ bs(delay)": "bs() takes df or knots",
    "late ~ bs(delay, df=2)": "df of bs() must be a whole number of at least 3",
    "late ~ ns(delay, df=0)": "df of ns() must be a whole number of at least 1, received 0",
    "late ~ cc(delay, df=4)": "cc() takes lower_bound and upper_bound, where a period begins and ends, as the same point",
    "late ~ cc(delay, df=1, lower_bound=0, upper_bound=60)": "df of cc() must be a whole number of at least 2",
    "late ~ cc(delay, knots=[10], lower_bound=0, upper_bound=60)": "cc() takes two knots at least within a period",
    "late ~ cc(month, df=3, lower_bound=0, upper_bound=1.5)": "must differ; choose a smaller df",
    "late ~ ns(delay, df=3, lower_bound=100, upper_bound=200)": "no training row has a value from 100 to 200",
    "late ~ I(delay * month)": "arithmetic is of one column, not of delay, month; write delay:month for a product",
    "late ~ I(delay, 2)": "I() takes one expression, as in I(delay^2)",
    "late ~ I(3)": "arithmetic needs a column",
    "late ~ log(2 * 3)": "arithmetic needs a column",
    "late ~ I(1/0 + delay)": "1 / 0 is no finite number",
    "late ~ I(poly(delay, 2))": "`poly(delay, 2)` is no arithmetic",
    "late ~ I(1/zero)": "`I(1/zero)`: I() is not finite for the value 0, which 2 training rows have",
    "late ~ I(carrier^2)": "`I(carrier^2)`: `carrier` is text, and I() takes numbers",
    "late ~ I(" + "-" * 3000 + "delay)": "not a formula",
    "late ~ scale(delay, 3, 4, 5)": "scale() takes the arguments center, scale",
    "late ~ log(late_minutes)": "no column `late_minutes`",
    "late ~ log(zero)": "`log(zero)`: log() is not finite for the value 0, which 2 training rows have",
    "late ~ log(poly(delay, 2))": "log() cannot be applied to the several columns inside it",
    "late ~ log(carrier)": "`log(carrier)`: `carrier` is text",
    "late ~ carrier + Intercept": "`Intercept` is what the constant is called in all tables; give the column another name",
    "late ~ carrier | month": "has several parts (`|`), which is not supported",
    "late ~ carrier**1000000000": "stands for more than 1,000 terms; leave out interactions",
    "late ~ (carrier + month + delay + zero)**30": "stands for more than 1,000 terms; leave out interactions",
    "late ~ carrier**(1 + 1)": "the exponent of `**` must be a whole number",
    "late ~ " + "(" * 5000: "not a formula: `late ~ ((",
    "late ~ " + "log(" * 500 + "delay" + ")" * 500: "not a formula: `late ~ log(",
    "late ~ log(" + "1+" * 3000 + "delay)": "not a formula: `late ~ log(1+1+",
    "late ~ .": "not a formula: `late ~ .`",
    "late ~ bs(delay, df=1e9)": "df of bs() must be a whole number of at least 3 for degree 3",
    "late ~ bs(delay, df=1000000000)": "df of bs() is at most 203 for degree 3, received 1000000000",
    "late ~ bs(delay, df=True)": "df of bs() must be a whole number",
    "late ~ bs(delay, knots=[None])": "the knots of bs() must be a list of numbers",
    "late ~ bs(delay, knots=['a'])": "the knots of bs() must be a list of numbers",
    "late ~ bs(delay, knots=5)": "the knots of bs() must be a list of numbers",
    "late ~ bs(delay, df=4, lower_bound=1e999)": "the lower_bound of bs() must be a number",
    "late ~ bs(delay, 4, df=5)": "bs() takes the arguments df, knots, degree, include_intercept, lower_bound, upper_bound, each",
    "late ~ bs(delay, {[]: 1})": "the arguments of bs() must be numbers or lists of numbers, True or False",
    "late ~ poly(delay, True)": "the degree of poly() must be a whole number from 1 to 20",
    "late ~ poly(delay, 2, raw='x')": "raw of poly() must be True or False",
    "late ~ scale(delay, 3)": "center of scale() must be True or False",
    "carrier + month": "needs one response",
    "gamma(delay) ~ carrier": "the response has `gamma(delay)`",
    "late ~ 0": "has no terms; add a column, or write `late ~ 1`",
    "late ~ (carrier": "not a formula: `late ~ (carrier`",
    "late ~ carier": "no column `carier`; did you mean `carrier`?",
    "late ~ late + carrier": "`late` is the response and cannot be on the right-hand side too",
    "late ~ only": "`only` has only the level `x` in the training rows",
    "same ~ carrier": "the response `same` is 7 in all training rows",
    "carrier ~ month": "the response `carrier` is text",
    "delay ~ carrier": "family binomial needs a response of 0 and 1, but `delay` runs from 1.5 to 40",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_cannot_be_fitted_is_refused_by_name(dictionary, formula):
    refused = message(design_of, formula, "binomial", dictionary)
    assert REFUSED[formula] in refused
    assert refused.startswith("models.m")


KEYS_REFUSED = {
    "negative weights": ({"weights": "negative"}, "models.m.weights: `negative` has the negative value -1"),
    "weights are text": ({"weights": "carrier"}, "models.m.weights: `carrier` is text"),
    "no such weights": ({"weights": "wieght"}, "models.m.weights: no column `wieght`"),
    "no such frequency": (
        {"frequency": "times", "formula": "late ~ scale(delay)"},
        "models.m.frequency: no column `times`",
    ),
    "frequencies with fractions": ({"frequency": "delay"}, "models.m.frequency: `delay` must hold whole numbers"),
    "offset is text": ({"offset": "carrier"}, "models.m.offset: `carrier` is no number"),
    "offset is several": ({"offset": "poly(delay, 2)"}, "models.m.offset: `poly(delay, 2)` is more than one number"),
    "offset without its logarithm": (
        {"offset": "passengers", "family": "poisson"},
        "models.m.offset: `passengers` is added to the linear predictor unchanged, and its standard deviation, ",
    ),
    "one cluster": ({"std_errors": "cluster(same)"}, "models.m.std_errors: `same` has only the value `7`"),
    "counts below zero": (
        {"family": "poisson", "formula": "negative ~ carrier"},
        "poisson needs a response of 0 or more",
    ),
    "events below zero": ({"trials": "month", "formula": "negative ~ carrier"}, "needs a response that counts events"),
}


@pytest.mark.parametrize("case", KEYS_REFUSED)
def test_columns_that_cannot_be_what_a_key_says_are_refused(dictionary, case):
    keys, message = KEYS_REFUSED[case]
    with pytest.raises(UserError) as error:
        design_of(**{"formula": "late ~ carrier", "family": "binomial", "dictionary": dictionary} | keys)
    assert message in str(error.value)


@pytest.fixture(scope="module")
def many_levels_file(tmp_path_factory) -> IngestedFile:
    """Two columns of 20,000 values each."""
    number = pd.Series(range(20_000))
    frame = pd.DataFrame({"late": number % 2, "tail": "N" + number.astype(str), "flight": "F" + number.astype(str)})
    return ingest_frame(frame, tmp_path_factory.mktemp("wide"))


@pytest.mark.slow
def test_a_model_too_wide_for_memory_is_refused_with_the_size_that_it_needs(many_levels_file):
    dictionary = merge([many_levels_file])
    assert design_of("late ~ tail", "binomial", dictionary, [many_levels_file]).size == 20_001
    with pytest.raises(
        UserError, match=r"models.m.formula: the model has 40,001 coefficients, all dense except the 20,000 of `tail`"
    ) as error:
        design_of("late ~ tail + flight", "binomial", dictionary, [many_levels_file])
    assert "needs 6.4 GB; the limit is 4.0 GB (about 22,360 dense coefficients)" in str(error.value)


def test_scores_too_large_to_hold_are_refused_with_their_size(many_levels_file):
    keys = {"family": "binomial", "dictionary": merge([many_levels_file]), "files": [many_levels_file]}
    with pytest.raises(UserError, match=r"20,000 clusters of `tail` times 20,001 coeff.* 3.2 GB"):
        design_of("late ~ flight", **keys, std_errors="cluster(tail)")


def test_levels_that_contrasts_name_are_checked_with_the_design(dictionary):
    design = design_of("late ~ carrier + delay", "binomial", dictionary)
    check_contrasts(design, {"known": {"carrier[AA]": 1, "delay": -1, "Intercept": 1}})
    text = message(check_contrasts, design, {"x": {"carrier[AAA]": 1}, "y": {"month[1]": 1, "carrier[B6]": -1}})
    assert text.splitlines() == [
        "models.m.contrasts.x: no coefficient `carrier[AAA]`; did you mean `carrier[AA]`?",
        "models.m.contrasts.y: no coefficient `month[1]`",
    ]


def test_no_training_rows_is_an_error_that_says_where_they_went(dictionary):
    with pytest.raises(UserError, match=r"no training rows are left; data/rows.json in the folder of results tells"):
        design_of("late ~ carrier", "binomial", Dictionary(dictionary.columns, [], {"train": 0, "evaluate": 5}, []))


def test_a_design_lays_out_the_coefficient_vector_and_reads_back(dictionary, tmp_path):
    design = design_of("late ~ C(month) + delay + carrier", "binomial", dictionary)
    assert list(design.coefficients()) == [
        ("Intercept", ""),
        ("C(month)", "1"),
        ("C(month)", "2"),
        ("C(month)", "10"),
        ("delay", ""),
        ("carrier", "AA"),
        ("carrier", "B6"),
        ("carrier", "DL"),
    ]
    assert design.slices["carrier"] == slice(5, 8)
    (delay,) = design.numeric
    assert [*delay.center, *delay.scale] == pytest.approx([FRAME["delay"].mean(), FRAME["delay"].std(ddof=0)])
    design.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == design


def test_reference_levels_are_checked_before_training(dictionary):
    design = design_of("late ~ carrier + C(month)", "binomial", dictionary)
    check_reference(design, {"carrier": "DL", "C(month)": "10"})
    with pytest.raises(UserError, match=r"models.m.reference.carrier: no level `DLL` .*did you mean `DL`"):
        check_reference(design, {"carrier": "DLL"})
    with pytest.raises(UserError, match=r"models.m.reference: no categorical term `month`; did you mean `C\(month\)`"):
        check_reference(design, {"month": "1"})


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
    design = design_of("late ~ carrier + C(month)", "binomial", dictionary)
    carrier, month = design.categorical
    assert carrier.levels == ("AA", "B6", "(rare)", "(missing)")
    assert carrier.numbers == {"AA": 0, "B6": 1, "DL": 2, None: 3}
    # The row without a month lacks the delay too, and so does not count.
    assert month.levels == ("1", "2", "(rare)")
    assert month.numbers == {"1": 0, "2": 1, "10": 2}
    assert design.roles.required == ("late", "delay")
    design.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == design
    check_reference(design, {"carrier": "(missing)", "C(month)": "(rare)"})


def test_a_value_written_like_a_made_level_is_a_value_where_there_is_none(tmp_path):
    frame = pd.DataFrame({"late": [0, 1, 1], "carrier": ["(missing)", "AA", "(rare)"]})
    design = design_of("late ~ carrier", "binomial", merge([ingest_frame(frame, tmp_path)]))
    assert design.categorical[0].numbers == {"(missing)": 0, "(rare)": 1, "AA": 2}


MISSING_REFUSED = {
    "late ~ month": r"models.m.formula: `month` is used as a number, .*\n  write C\(month\), or take it out of data.missing",
    "month ~ carrier": r"models.m: the response `month` cannot have missing values as a level; take it out of data.missing",
}


@pytest.mark.parametrize("formula", MISSING_REFUSED)
def test_missing_values_of_a_number_cannot_be_a_level(made_file, formula):
    dictionary = merge([made_file], {"month": "level"})
    with pytest.raises(UserError, match=MISSING_REFUSED[formula]):
        design_of(formula, "gaussian", dictionary)


def test_a_model_that_uses_what_is_known_only_after_departure_says_so(dictionary, tmp_path):
    design = design_of(
        "late ~ delay + C(month) + carrier", "binomial", dictionary, known_late=["late", "delay", "month"]
    )
    assert design.known_after_departure == ("month", "delay")
    assert design.warnings[0].startswith("the model uses `month`, `delay`, known only after departure")
    design.write(tmp_path / "design.json")
    assert Design.load(tmp_path / "design.json") == design
    # The response is what is to be predicted, so it is known late by its nature.
    assert design_of("late ~ carrier", "binomial", dictionary, known_late=["late"]).warnings == []


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
    actual = columns_from(layout, settings, layout.after_departure)
    assert actual == {"arr_delay", "air_time", "late", "fast"}


@pytest.mark.parametrize("path", OF_FLIGHTS, ids=lambda path: path.stem)
def test_the_delays_are_late_in_every_layout_of_flights_and_the_schedule_is_not(path):
    layout = load_layout(str(path))
    assert {"arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"} <= set(layout.after_departure)
    settings = SelectionConfig.model_validate({"columns": ["carrier"], "split": {"train": "TRUE"}})
    late = columns_from(layout, settings, layout.after_departure)
    assert late.isdisjoint(
        {"carrier", "origin", "dest", "distance", "sched_dep_time", "dep_hour", "month", "weekday", "flight"}
    )
