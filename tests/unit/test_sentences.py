"""Effects in words: what is said, and what is not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.report import home
from tfglm.report.class_effects import sentences_by_class
from tfglm.report.drawn_means import means_by_class
from tfglm.report.model_results import ModelResults
from tfglm.report.sentences import NO_NUMBER, Effect, ModelFacts, Slope, effect_sentences, slopes
from tfglm.report.shapes import shapes_in_words
from tfglm.report.words import Words, plain
from tfglm.results import csv_files

WORDS = Words(
    {"month": {"1": "Jan", "2": "Feb"}},
    {"hour": "hours", "distance": "miles"},
    spans={"hour": 23, "distance": 4900, "smoker": 1},
    zero_one=frozenset(["smoker"]),
)


def model(**keys) -> ModelFacts:
    known = {
        "response": "late",
        "unit": None,
        "ratio": "odds",
        "is_probability": True,
        "deviation": 1.0,
        "words": WORDS,
    }
    known |= keys
    known |= {"is_probability": known["ratio"] == "odds"} | keys
    return ModelFacts(**{"slopes": {}, "nearly_aliased": []} | known)


def table(*rows: tuple, error: float = 0.05) -> pd.DataFrame:
    """Coefficients of 1,000 rows each from (term, level, reference, estimate, ...), the last of them their statuses."""
    frame = pd.DataFrame(rows, columns=["term", "level", "reference", "estimate", "status"])
    of_reference = (frame["level"] == frame["reference"]) & (frame["level"] != "")
    errors = np.where(of_reference | (frame["status"] != ""), np.nan, error)
    ends = {"ci_lower": frame["estimate"] - 2 * errors, "ci_upper": frame["estimate"] + 2 * errors}
    return frame.assign(std_error=errors, p_value=errors, rows=1000, events=300, **ends)


def told(coefficients: pd.DataFrame, **keys) -> list[str]:
    return [
        sentence
        for each in effect_sentences(coefficients, model(**keys))
        for sentence in each.sentences or [each.because]
    ]


CARRIERS = [("Intercept", "", "", -1.0, ""), ("carrier", "9E", "9E", 0.0, ""), ("carrier", "EV", "9E", 0.4, "")]


def test_the_strongest_of_each_direction_is_told_in_percent_or_as_a_multiple():
    weak, low = ("carrier", "AA", "9E", 0.2, ""), ("carrier", "DL", "9E", -0.5, "")
    assert told(table(*CARRIERS, weak, low)) == [
        "The odds of late are 49 % higher (35 to 65 %) with carrier EV than with 9E.",
        "The odds of late are 39 % lower (33 to 45 %) with carrier DL than with 9E.",
    ]
    assert told(table(*CARRIERS, ("carrier", "HA", "9E", 1.5, "")))[0] == (
        "The odds of late are 4.5 times as high (4.1 to 5.0) with carrier HA than with 9E."
    )


def test_columns_have_their_labels():
    words = Words({"sex": {"1": "women", "2": "men"}}, {}, {"sex": "Sex", "hour": "Hour of the day"})
    rows = table(("C(sex)", "1", "1", 0.0, ""), ("C(sex)", "2", "1", 0.4, ""), ("hour", "", "", 0.2, ""))
    assert told(rows, words=words) == [
        "The odds of late are 49 % higher (35 to 65 %) with Sex men than with women.",
        "The odds of late are 22 % higher (11 to 35 %) for each unit more of Hour of the day.",
    ]


def test_what_is_separated_or_has_no_test_is_not_told():
    separated = ("carrier", "XX", "9E", -np.inf, "separated")
    (sentence,) = told(table(*CARRIERS, separated))
    assert "carrier EV" in sentence
    partly = table(*CARRIERS, ("hour", "", "", 0.1, ""))
    partly.loc[partly["term"] == "carrier", "p_value"] = np.nan
    assert told(partly)[0] == "none of its levels has a test"
    assert told(partly.assign(p_value=np.nan)) == []
    assert told(table(*CARRIERS).drop(columns="p_value")) == []
    assert told(table(*CARRIERS, error=0.3)) == ["carrier EV does not differ clearly from 9E."]
    others = ("carrier", "AA", "9E", 0.2, "")
    assert told(table(*CARRIERS, others, error=0.3)) == ["No level of carrier differs clearly from 9E."]


def test_a_number_within_a_range_below_1_is_told_for_less_than_a_unit():
    share = table(("share", "", "", 0.4, ""))
    narrow = replace(WORDS, spans={"share": 0.95})
    assert told(share, words=narrow) == ["The odds of late are 4.1 % higher (3.0 to 5.1 %) for each 0.1 more of share."]


def test_a_number_that_is_0_or_1_is_told_as_a_factor():
    smoker = table(("smoker", "", "", 0.4, ""))
    assert told(smoker) == ["The odds of late are 49 % higher (35 to 65 %) with smoker 1 than with 0."]
    labelled = replace(WORDS, labels={"smoker": {"0": "no", "1": "yes"}}, names={"smoker": "Smoker"})
    assert told(smoker, words=labelled)[0].endswith("with Smoker yes than with no.")


def test_what_other_terms_nearly_determine_is_not_told():
    assert "nearly determine" in told(table(*CARRIERS[:2], ("carrier", "EV", "9E", 9.0, ""), error=2.0))[0]
    assert "nearly determine" in told(table(("distance", "", "", 0.1, "")), nearly_aliased=["distance"])[0]


def test_a_number_is_told_by_as_many_units_as_make_it_visible():
    assert told(table(("hour", "", "", 0.1, ""), error=0.005)) == [
        "The odds of late are 11 % higher (9.4 to 12 %) for each hour more of hour."
    ]
    (sentence,) = told(table(("distance", "", "", -0.0003, ""), error=0.0002))
    assert sentence == (
        "The odds of late are 3.0 % lower (anything from 6.8 % lower to 1.0 % higher) for each 100 miles more of distance."
    )


def test_a_logarithm_is_told_by_ten_percent_more_of_its_column():
    doubled = ("log2(hour)", "", "", np.log(2) * 0.8, "")
    rows = table(("log(distance)", "", "", 0.8, ""), doubled, ("log10(size)", "", "", -1.0, ""), error=0.0)
    assert told(rows) == [
        "The odds of late are 7.9 % higher (7.9 to 7.9 %) for each 10 % more of distance.",  # 1.1^0.8
        "The odds of late are 7.9 % higher (7.9 to 7.9 %) for each 10 % more of hour.",
        "The odds of late are 4.1 % lower (4.1 to 4.1 %) for each 10 % more of size.",
    ]
    settings = {"response": "delay", "unit": "minutes", "ratio": None, "deviation": 40.0}
    assert told(table(("np.log(hour)", "", "", 20.0, ""), error=1.0), **settings) == [
        "delay is 1.9 minutes higher (1.7 to 2.1 minutes) for each 10 % more of hour."
    ]
    both = table(("log(hour)", "", "", 0.8, ""), ("hour", "", "", 0.1, ""))
    assert [each.because for each in effect_sentences(both, model())] == [NO_NUMBER, NO_NUMBER]


def test_a_difference_has_the_unit_of_the_response_and_levels_their_labels():
    months = [("C(month)", "1", "1", 0.0, ""), ("C(month)", "2", "1", -4.2, "")]
    settings = {"response": "delay", "unit": "minutes", "ratio": None, "deviation": 40.0}
    assert told(table(*months, error=0.5), **settings) == [
        "delay is 4.2 minutes lower (3.2 to 5.2 minutes) with month Feb than with Jan."
    ]


def averages(*rows: tuple) -> dict:
    """Average marginal effects from (term, level, reference, estimate), with intervals of 0.02 to both sides."""
    frame = pd.DataFrame(rows, columns=["term", "level", "reference", "estimate"])
    return slopes(frame.assign(ci_lower=frame["estimate"] - 0.02, ci_upper=frame["estimate"] + 0.02))


def test_a_column_may_have_the_name_of_a_function_or_an_argument():
    rows = [("C", "9E", "9E", 0.0, ""), ("C", "EV", "9E", 0.4, ""), ("df", "", "", 0.1, "")]
    others = [("C(month)", "1", "1", 0.0, ""), ("C(month)", "2", "1", 0.4, ""), ("bs(hour, df=6)", "1", "", 0.3, "")]
    of_c, of_df, *_ = effect_sentences(table(*rows, *others), model())
    assert "with C EV than with 9E" in of_c.sentences[0] and "for each unit more of df" in of_df.sentences[0]


def test_the_merged_rare_levels_are_told_only_if_no_other_level_differs():
    rare = ("carrier", "(rare)", "9E", 0.9, "")
    assert told(table(*CARRIERS, rare)) == told(table(*CARRIERS))
    assert "with carrier (rare) than" in told(table(*CARRIERS[:2], rare))[0]


@pytest.mark.parametrize("other", ["carrier:hour", "carrier:C(month)"])
def test_a_column_that_stands_in_several_terms_has_no_single_effect(other):
    coefficients = table(*CARRIERS, (other, "EV", "9E", 0.3, ""))
    assert all(
        not each.sentences and "no single number" in each.because for each in effect_sentences(coefficients, model())
    )
    of_levels = averages(("carrier", "EV", "9E", 0.081), ("carrier", "AA", "9E", 0.05), ("carrier", "DL", "9E", -0.01))
    (carrier,) = effect_sentences(coefficients, model(slopes=of_levels))
    assert carrier.sentences == [
        "The probability of late is on average 8.1 percentage points higher (6.1 to 10 percentage points) with carrier EV "
        "than with 9E."
    ]
    (unclear,) = effect_sentences(coefficients, model(slopes=averages(("carrier", "DL", "9E", -0.01))))
    assert unclear.sentences == ["On average carrier DL does not differ clearly from 9E."]


def test_levels_without_a_reference_level_are_told_by_their_average_effects():
    levels = table(("carrier", "9E", "9E", 2.0, ""), ("carrier", "EV", "9E", 2.4, "")).assign(
        std_error=0.05, p_value=0.05
    )
    settings = {"response": "delay", "unit": "minutes", "ratio": None, "slopes": averages(("carrier", "EV", "9E", 0.4))}
    (sentence,) = told(levels, **settings)
    assert sentence.startswith("delay is on average 0.40 minutes higher") and "with carrier EV than with 9E" in sentence


def test_a_curve_is_told_by_its_average_slope():
    curve = [("bs(distance, df=4)", str(number), "", 0.1, "") for number in (1, 2)]
    of_distance = averages(("distance", "", "", 0.0))
    of_distance["distance", ""] = Slope(Effect(-3e-5, -5e-5, -1e-5), "")
    (told_once,) = effect_sentences(table(*curve), model(slopes=of_distance))
    assert told_once.sentences == [
        "The probability of late is on average 3.0 percentage points lower (1.0 to 5.0 percentage points) for each "
        "1,000 miles more of distance."
    ]
    settings = {"response": "delay", "unit": "minutes", "ratio": None, "deviation": 40.0, "slopes": of_distance}
    assert told(table(*curve), **settings) == [
        "delay is on average 0.030 minutes lower (0.010 to 0.050 minutes) for each 1,000 miles more of distance."
    ]


def test_a_periodic_curve_has_no_average_slope_to_tell():
    curve = [("cc(hour, df=3, lower_bound=0, upper_bound=24)", str(number), "", 0.1, "") for number in (1, 2, 3)]
    of_hour = averages(("hour", "", "", 0.0))
    (periodic,) = effect_sentences(table(*curve), model(slopes=of_hour))
    assert (periodic.term, periodic.sentences) == ("hour", []) and periodic.because.startswith("its curve is periodic")
    by_origin = ("cc(hour, df=3, lower_bound=0, upper_bound=24):origin", "1:JFK", "", 0.1, "")
    of_both = of_hour | averages(("origin", "JFK", "EWR", 0.05))
    hour, origin = effect_sentences(table(*curve, by_origin), model(slopes=of_both))
    assert not hour.sentences and "with origin JFK than with EWR" in origin.sentences[0]
    (trend,) = effect_sentences(table(("hour", "", "", 0.1, ""), *curve), model(slopes=of_hour))
    assert "for each" in trend.sentences[0]


def test_marginal_effects_add_percentage_points():
    of_binomial = averages(("carrier", "EV", "9E", 0.08), ("carrier", "XX", "9E", np.nan))
    assert set(of_binomial) == {("carrier", "EV")}
    assert told(table(*CARRIERS), slopes=of_binomial)[0].endswith(
        "with carrier EV than with 9E, on average 8.0 percentage points more (6.0 to 10 percentage points)."
    )
    assert "on average" not in told(table(*CARRIERS), slopes=of_binomial, ratio=None)[0]
    assert Effect(1.0, 0.5, 1.5).times(2.0) == Effect(2.0, 1.0, 3.0)


def test_the_average_slope_of_a_number_of_zero_and_one_is_no_difference():
    of_smoker = averages(("smoker", "", "", -0.19))
    (sentence,) = told(table(("smoker", "", "", -0.4, "")), slopes=of_smoker)
    assert sentence.endswith(
        "with smoker 1 than with 0; the average slope is 19 percentage points downward (17 to 21 percentage points)."
    )
    product = [("smoker", "", "", -0.4, ""), ("smoker:hour", "", "", 0.1, "")]
    assert told(table(*product), slopes=of_smoker)[0] == (
        "The probability of late is on average 19 percentage points lower (17 to 21 percentage points) for each unit more of "
        "smoker (an average slope)."
    )
    linear = told(table(*product), slopes=of_smoker, ratio=None)[0]
    assert linear == "late is on average 0.19 lower (0.17 to 0.21) with smoker 1 than with 0."


def test_terms_of_a_class_have_the_labels_and_units_of_the_others():
    assert (WORDS.level("New: York: C(month)", "1"), WORDS.level("C(month)", "1")) == ("Jan", "Jan")
    assert WORDS.level("JFK: carrier:C(month)", "EV:2") == "EV:Feb" and WORDS.against("JFK: C(month)", "2") == "Feb"
    assert (plain("JFK: hour"), plain("JFK: C(month)"), plain("hour")) == ("hour", "month", "hour")


def test_each_class_is_told_against_the_reference_class():
    of_class = {"late": table(*CARRIERS), "off": table(*CARRIERS[:2], ("carrier", "EV", "9E", -0.5, ""))}
    frame = pd.concat([rows.assign(**{"class": label}) for label, rows in of_class.items()], ignore_index=True)
    effects = pd.DataFrame(
        [("late", "carrier", "EV", "9E", 0.05, 0.04, 0.06), ("off", "carrier", "EV", "9E", -0.02, -0.03, -0.01)],
        columns=["class", "term", "level", "reference", "estimate", "ci_lower", "ci_upper"],
    )
    words = Words({"status": {"off": "cancelled", "ok": "on time"}}, {})
    facts = model(words=words, nearly_aliased={"off: hour"})
    told = sentences_by_class(frame, effects, facts, "status", "ok")
    assert [each.term for each in told] == ["late: carrier", "cancelled: carrier"]
    assert [sentence for each in told for sentence in each.sentences] == [
        "The odds of late rather than on time are 49 % higher (35 to 65 %) with carrier EV than with 9E, and late is on average "
        "5.0 percentage points more frequent (4.0 to 6.0 percentage points).",
        "The odds of cancelled rather than on time are 39 % lower (33 to 45 %) with carrier EV than with 9E, and cancelled is on "
        "average 2.0 percentage points less frequent (1.0 to 3.0 percentage points).",
    ]
    alike = table(*CARRIERS[:2], ("carrier", "EV", "9E", 0.01, "")).assign(**{"class": "off"})
    (unclear,) = sentences_by_class(alike, effects[:0], model(words=words), "status", "ok")
    assert unclear.sentences == [
        "carrier EV does not differ clearly from 9E in the odds of cancelled rather than on time."
    ]


def test_the_test_of_a_coefficient_decides_what_differs_where_its_average_effect_is_less_sure():
    # Near a pole of the link 1/mu^2 the averages of levels EV, DL have wide intervals, though t is -14 and 12.
    others = [("carrier", "DL", "9E", 0.6, ""), ("carrier", "AA", "9E", 0.01, ""), ("hour", "", "", -0.7, "")]
    rows = table(*CARRIERS[:2], ("carrier", "EV", "9E", -0.7, ""), *others)
    wide, narrow = Slope(Effect(1.5, -25.0, 28.0), "9E"), Slope(Effect(-0.1, -0.15, -0.05), "9E")
    stronger = Slope(narrow.effect.times(2.0), "9E")
    known = {("carrier", "EV"): wide, ("carrier", "DL"): narrow, ("carrier", "AA"): stronger, ("hour", ""): wide}
    facts = {"slopes": known, "ratio": None, "only_averages": True, "deviation": 10.0}
    assert told(rows, **facts) == [
        "late is on average 0.10 lower (0.050 to 0.15) with carrier DL than with 9E.",
        "late is higher with carrier EV than with 9E, but how much on average is not clear.",
        "late is higher for each hour more of hour, but how much on average is not clear.",
    ]
    # Beside an interaction a coefficient has the test of another hypothesis.
    (sentence, *_) = told(pd.concat([rows, table(("carrier:hour", "EV", "9E", 0.1, ""))]), **facts)
    assert "with carrier AA than with 9E" in sentence


def test_adjusted_means_have_a_column_for_each_class():
    rows = [
        ("late", "C(month)", "1", 100, 0.25, 0.2, 0.3, ""),
        ("late", "C(month)", "2", 90, 0.5, np.nan, np.nan, "few"),
    ]
    columns = ["class", "term", "level", "rows", "mean", "ci_lower", "ci_upper", "status"]
    frame = pd.DataFrame(rows, columns=columns)
    both = pd.concat([frame, frame.assign(**{"class": "ok", "mean": 1 - frame["mean"]})])
    (means,) = means_by_class(both, "status", WORDS)
    shown = means.all
    assert means.name == "month" and means.classes == ["late", "ok"] and shown["level"].tolist() == ["Jan", "Feb"]
    assert shown["late"].tolist() == ["25.0 % (20.0 to 30.0)", "50.0 %"] and shown["rows"].tolist() == ["100", "90"]


def curve(effect: np.ndarray, half: float, at: str = "") -> pd.DataFrame:
    """A curve of 24 hours whose intervals reach so far."""
    value = np.linspace(0, 24, len(effect))
    names = {"term": "s(hour)", "column": "hour", "at": at, "value": value, "reference": 12.0, "effect": effect}
    return pd.DataFrame(names).assign(ci_lower=effect - half, ci_upper=effect + half)


def test_shapes_of_curves_are_told_where_they_are_clear():
    hours = np.linspace(0, 24, 97)
    table = pd.concat(
        [
            curve(np.sin(hours / 4), 0.2, "carrier AA"),
            curve(0.1 * np.sin(hours / 4), 0.2, "carrier B6"),
            curve(np.sin(2 * hours), 0.1, "carrier DL"),
            curve(-hours, 0.1, "carrier UA"),
        ]
    )
    words = Words({}, {"hour": "h"}, names={"hour": "hour of day"})
    assert shapes_in_words(table, "the odds of late", True, words) == [
        "hour of day (carrier AA): the odds of late rise until 6.25 h, then fall until 18.75 h, then rise.",
        "hour of day (carrier B6): no clear change of the odds of late.",
        "hour of day (carrier DL): the odds of late rise until 0.75 h, then fall until 2.25 h, then rise until 4 h, "
        "then fall until 5.5 h, and turn again.",
        "hour of day (carrier UA): the odds of late fall.",
    ]
    (told,) = shapes_in_words(curve(hours, 0.1), "the mean of delay", False, words)
    assert told == "hour of day: the mean of delay rises."
    assert shapes_in_words(curve(hours, np.nan), "the mean of delay", False, words) == []


def test_the_first_page_has_the_curves_of_a_model(tmp_path):
    fit, folder = {"formula": "late ~ s(hour)", "family": "binomial"}, tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    digests.write_json(folder / "fit.json", fit)
    table = curve(-np.linspace(0, 24, 97), 0.1).assign(std_error=0.05)
    csv_files.write(table, folder / "effects.csv")
    digests.write_beside(folder / "effects.csv", folder / "fit.json")
    assert home.curves(ModelResults(folder, ResultsConfig(), WORDS, has_curves=True)) == [
        "hour: the odds of late fall."
    ]
    assert home.curves(ModelResults(folder, ResultsConfig(), WORDS)) is None
