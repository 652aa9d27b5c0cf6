"""What the first page draws of a model: the strongest effects, a short table, adjusted means, and what shapes the fit."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tfglm.report.circumstances import circumstances
from tfglm.report.class_effects import classes_compared, sentences_of_order, with_labels_of_classes
from tfglm.report.coefficient_rows import Heading, rows_and_scale, steps_of, without_curves
from tfglm.report.coefficients import sheet
from tfglm.report.curves import random_effects_of
from tfglm.report.drawn_means import means_of_factor
from tfglm.report.inline import InlineAxis, bars, measure
from tfglm.report.lead import lead_effects, limits
from tfglm.report.pairs import pairs_of
from tfglm.report.quality import explains, measures, skill
from tfglm.report.ratios import round_values, scale_of
from tfglm.report.sentences import Effect, ModelFacts, TermSentences, effect_sentences
from tfglm.report.strongest import MOST_EFFECTS, short_table, strongest_effects
from tfglm.report.words import NO_WORDS, Words
from tfglm.results.digits import aligned

UNITS = Words({"smoker": {"1": "yes", "0": "no"}}, {"age": "years"})


def coefficients(levels: int = 30) -> pd.DataFrame:
    """A factor of many levels, a number and an intercept."""
    rows = [("Intercept", "", "", 1.0, 0.5), ("age", "", "", 0.02, 0.001), ("C(smoker)", "0", "0", 0.0, np.nan)]
    rows += [("C(smoker)", "1", "0", 1.5, 0.1), ("town", "t00", "t00", 0.0, np.nan)]
    rows += [("town", f"t{number:02d}", "t00", 0.1 * number, 0.05) for number in range(1, levels)]
    table = pd.DataFrame(rows, columns=["term", "level", "reference", "estimate", "std_error"])
    table = table.assign(ci_lower=table["estimate"] - 2 * table["std_error"], rows=50, status="")
    table = table.assign(ci_upper=table["estimate"] + 2 * table["std_error"], t=table["estimate"] / table["std_error"])
    return table.assign(p_value=np.where(table["std_error"].notna(), 0.01, np.nan))


def test_the_strongest_effects_have_each_term_and_say_what_they_compare():
    effects = strongest_effects(coefficients(), "log odds ratio", "odds_ratio", 1.0, UNITS)
    labels = [row.label for row in effects.rows]
    assert len(labels) == MOST_EFFECTS and effects.left_out == 31 - MOST_EFFECTS and effects.measure == "odds ratio"
    assert labels[0] == "smoker: yes vs no" and labels[-1].startswith("age, +10") and labels[-1].endswith(" years")
    assert labels[1:-1] == [f"town: t{number} vs t00" for number in range(18, 30)]
    assert (effects.rows[0].size, effects.rows[0].interval) == ("4.48", "3.67 to 5.47")


@pytest.mark.parametrize(
    ("span", "more"), [(0.0, "+100"), (8.0, "+1"), (10.0, "+10"), (0.04, "+0.01"), (500.0, "+100")]
)
def test_no_effect_is_of_more_than_the_range_of_a_number(span, more):
    effects = strongest_effects(
        coefficients(), "log odds ratio", "odds_ratio", 1.0, replace(UNITS, spans={"age": span})
    )
    assert effects.rows[-1].label == f"age, {more} {'year' if more == '+1' else 'years'}"


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_an_effect_has_one_scale_in_pictures_sentences_and_the_table(factor):
    table = coefficients(2)
    of_age = table["term"] == "age"
    numbers = ["estimate", "std_error", "ci_lower", "ci_upper"]
    table.loc[of_age, numbers] *= factor
    steps = steps_of(without_curves(table), UNITS)
    drawn = strongest_effects(table, "log odds ratio", "odds_ratio", 1.0, UNITS).rows[-1]
    more = drawn.label.removeprefix("age, +")
    cells = dict(short_table(table, None, UNITS, steps).rows)[f"age, +{more}"]
    assert float(drawn.size) == pytest.approx(np.exp(float(cells[0])), rel=0.01) and 1 < float(cells[0]) < 10
    facts = ModelFacts("late", None, "odds", 1.0, UNITS, {}, set(), steps=steps)
    (said,) = (each.sentences[0] for each in effect_sentences(table, facts) if each.term == "age")
    assert f"for each {more} more of age" in said


def test_the_first_screen_has_three_effects_by_their_evidence_and_what_limits_trust():
    sure, unsure, average = Effect(2.0, 1.9, 2.1), Effect(5.0, 0.5, 9.5), Effect(0.2, 0.1, 0.3)
    told = [
        TermSentences("unsure", ["unsure."], sizes=[unsure]),
        TermSentences("nothing", ["No level of nothing differs."]),
        TermSentences("C(sure)", ["weaker.", "sure."], sizes=[average, sure]),
        TermSentences("age", ["by age."], sizes=[average], of_response=True),
        TermSentences("random", [], "random effects"),
    ]
    tests = pd.DataFrame({"term": ["unsure", "sure", "age:town"], "chi_squared": [4.7, np.nan, 900.0], "df": [1, 2, 3]})
    tests = tests.assign(p_value=[0.03, np.nan, 1e-9])
    lead = lead_effects(told, tests)
    assert [each.sentence for each in lead] == ["sure.", "by age.", "unsure."]
    # One axis for those of one scale: the interval of the sure effect is a fiftieth of that of the other.
    widths = [
        float(end) - float(start)
        for each in lead
        for start, end in re.findall(r'class="reach" x1="([\d.]+)%" x2="([\d.]+)%"', each.picture)
    ]
    assert widths[0] / widths[2] == pytest.approx(0.2 / 9, rel=0.1) and widths[1] > 50
    fit = {"std_errors": {"kind": "cluster", "clusters": 8, "column": "town"}, "warnings": ["w" * 300]}
    said = " ".join(limits(fit, tests))
    assert "only 8 clusters of town" in said and "no joint test of sure:" in said and len(said) < 400
    assert limits(fit | {"std_errors": {"kind": "classical"}, "warnings": []}, tests[:1]) == [
        "Intervals are right if rows are independent and vary as the family says."
    ]
    # What is not clear is no strongest effect, and a curve without a clear slope has its shape.
    unclear = TermSentences("age", ["anything."], sizes=[Effect(0.1, -1.0, 1.2)])
    shown = lead_effects(
        [unclear, TermSentences("x", ["slope."], sizes=[sure])], tests, {"age": "rises.", "x": "falls."}
    )
    assert {each.sentence: bool(each.picture) for each in shown} == {"slope.": True, "rises.": False}
    assert lead_effects([unclear], tests[:0]) == []


def test_columns_have_their_labels():
    words = Words(UNITS.labels, UNITS.units, {"smoker": "Smoking status", "age": "Age at entry"})
    table = coefficients(2).replace({"term": {"town": "age:C(smoker):log(age)"}})
    labels = [row.label for row in strongest_effects(table, "log odds ratio", "odds_ratio", 1.0, words).rows]
    assert labels[0] == "Smoking status: yes vs no, at Age at entry = 0 and log(age) = 0"
    assert labels[-1].startswith("Age at entry, +10") and labels[-1].endswith(
        ", at Smoking status = no and log(age) = 0"
    )
    names = [label.partition(", at")[0] for label, _ in short_table(table, None, words).rows]
    assert names[:3] == ["Intercept", "Age at entry", "Smoking status: yes vs no"]
    headings = [item.shown for item in rows_and_scale(table, "odds_ratio", words)[0] if isinstance(item, Heading)]
    assert headings[0] == "Smoking status"
    shown = [(term.label, term.name) for term in sheet(table.assign(odds_ratio=1.0), "odds_ratio", 0.95, words).terms]
    assert ("Smoking status", "C(smoker)") in shown and ("Age at entry", "age") in shown
    assert words.term("2: age:C(smoker):log(age)") == "2: Age at entry:Smoking status:log(age)"


def test_random_slopes_are_drawn_and_listed_by_level():
    words = Words({"town": {"t01": "Ulm"}}, {}, spans={"age": 50.0})
    table = coefficients(2).replace({"term": {"town": "s(town, age, bs=re)"}, "reference": {"t00": ""}})
    (drawn,) = random_effects_of(table, [{"term": "s(town, age, bs=re)", "is_random": True}], 24, words)
    assert sorted(drawn.points["level"]) == ["Ulm", "t00"]
    slopes = next(term for term in sheet(table, None, 0.95, words).terms if term.name == "s(town, age, bs=re)")
    assert [(row.level, row.value) for row in slopes.rows] == [("t00", ""), ("Ulm", "t01")]
    # Their standard deviation says more than each of them.
    effects = strongest_effects(table, "difference", None, 1.0, words)
    assert not any("town" in row.label for row in effects.rows)


def test_classes_have_their_labels():
    words = Words({"vote": {"1": "no: never", "2: x": "yes"}}, {}, {"age": "Age at entry"})
    table = coefficients(2).replace({"term": {"age": "1: age", "C(smoker)": "2: x: C(smoker)"}})
    shown = with_labels_of_classes(table, "vote", words)
    assert shown["term"].unique().tolist() == ["Intercept", "no: never: age", "yes: C(smoker)", "town"]
    labels = [label for label, _ in short_table(shown, None, words).rows]
    assert labels[1:3] == ["no: never: Age at entry", "yes: smoker: 1 vs 0"]
    fit = {"formula": "vote ~ age", "reference_class": "1"}
    assert classes_compared(fit, words) == "each class against no: never"
    ordered = {"formula": "vote ~ age", "ordered": True, "classes": ["1", "2: x"]}
    assert classes_compared(ordered, words) == "classes in the order no: never, yes"


def test_sentences_about_ordered_classes_name_a_higher_and_the_highest_class():
    words = Words({"smoker": {"1": "yes", "0": "no"}, "grade": {"3": "three"}}, {})
    table = coefficients(2).replace({"term": {"Intercept": "(Threshold)", "town": "ns(town, df=3)"}})
    averages = pd.DataFrame({"class": ["2", "3"], "term": "C(smoker)", "level": "1", "reference": "0"})
    averages = averages.assign(estimate=[-0.1, 0.2], ci_lower=[-0.2, 0.1], ci_upper=[-0.05, 0.3])
    facts = ModelFacts("grade", None, "odds", 1.0, words, {}, set(), is_probability=True)
    told = {each.term: each.sentences for each in sentences_of_order(table, averages, facts, "grade", ["1", "2", "3"])}
    assert list(told) == ["age", "C(smoker)", "ns(town, df=3)"]
    assert told["C(smoker)"] == [
        "The odds of a higher class of grade are 4.5 times as high (3.7 to 5.5) with smoker yes than with no, and three is on "
        "average 20 percentage points more frequent (10 to 30 percentage points)."
    ]


def test_an_effect_of_a_logarithm_to_base_10_is_a_ratio_of_means():
    table = coefficients(2)
    effects = strongest_effects(table, "difference", "ratio of geometric means", np.log(10), UNITS)
    assert next(row.size for row in effects.rows if row.label.startswith("smoker")) == f"{10**1.5:.1f}"


def test_a_logarithm_is_drawn_for_ten_percent_more_of_its_column():
    table = coefficients(2).replace({"term": {"age": "log2(age)"}})
    table.loc[table["term"] == "log2(age)", ["estimate", "ci_lower", "ci_upper"]] = np.log(2) * np.array(
        [0.8, 0.7, 0.9]
    )
    drawn = strongest_effects(table, "log odds ratio", "odds_ratio", 1.0, UNITS).rows[-1]
    assert (drawn.label, drawn.size, drawn.interval) == ("age, +10 %", "1.08", "1.07 to 1.09")


def test_without_intervals_nothing_is_drawn():
    table = coefficients(3).assign(ci_lower=np.nan, ci_upper=np.nan)
    assert strongest_effects(table, "d", None, 1.0, NO_WORDS) is None
    assert short_table(table.assign(std_error=np.nan), None, NO_WORDS) is None


def test_the_short_table_has_two_digits_of_each_error_below_each_other():
    table = coefficients(2)
    table.loc[table["term"] == "age", ["estimate", "std_error"]] = [-24_295.6, 3605.56]
    short = short_table(table, 1054.0, UNITS)
    assert short.names == ["estimate", "std. error", "t", "df", "p"] and short.left_out == 0
    cells = dict(short.rows)
    assert [cell.strip() for cell in cells["age"][:2]] == ["−24,296", "3,606"] and cells["age"][3] == "1,054"
    assert cells["smoker: yes vs no"][0].strip("\u2007") == "1.50" and "smoker: no vs no" not in cells
    assert len({len(cells[0]) - re.search(r"[.\u2008]|$", cells[0]).start() for _, cells in short.rows}) == 1


def test_numbers_are_aligned_at_their_points():
    assert aligned(["1.25", "−30", "", "< 0.01"]) == ["1.25", "−30\u2008\u2007\u2007", "", "< 0.01"]
    assert aligned(["3", "12"]) == ["3", "12"]


def test_many_levels_are_drawn_from_both_ends_and_all_are_in_the_table():
    means = pd.DataFrame({"term": "town", "level": [f"t{number}" for number in range(40)], "rows": 1000, "status": ""})
    means = means.assign(mean=np.arange(40) / 50, std_error=0.01, ci_lower=np.arange(40) / 50 - 0.02)
    means = means.assign(ci_upper=means["mean"] + 0.02)
    drawn = means_of_factor("town", means, True, NO_WORDS)
    assert [row.level for row in drawn.rows] == [f"t{number}" for number in [*range(12), *range(28, 40)]]
    assert drawn.is_long and len(drawn.all) == 40 and drawn.rows[-1].mean == "78.0 %"
    assert drawn.rows[0].rows == "1,000" and "t0: 0.0 % (−2.0 % to 2.0 %)" in drawn.rows[0].picture


def test_means_of_a_logarithm_are_shown_as_geometric_means():
    means = pd.DataFrame({"term": "sex", "level": ["f", "m"], "rows": 5, "mean": 9.0, "std_error": 0.02, "status": ""})
    means = means.assign(ci_lower=8.9, ci_upper=9.1, geometric_mean=np.exp(9.0), geometric_ci_lower=np.exp(8.9))
    drawn = means_of_factor("sex", means.assign(geometric_ci_upper=np.exp(9.1)), False, NO_WORDS)
    assert drawn.measure == "geometric mean" and drawn.rows[0].mean == "8,103"


def test_pairs_of_levels_are_ratios_with_the_intervals_of_tukey():
    words = Words({"town": {"a": "Aachen"}}, {}, {"town": "Home town"})
    pairs = pd.DataFrame(
        {"term": "C(town)", "level": ["b", "c", "c"], "against": ["a", "a", "b"], "note": ["", "", "c is separated"]}
    )
    pairs = pairs.assign(estimate=[0.5, -1.0, np.nan], std_error=[0.05, 0.25, np.nan], ci_lower=[0.4, -1.5, np.nan])
    pairs = pairs.assign(ci_upper=[0.6, -0.5, np.nan], p_value=[1e-9, 1e-3, np.nan], p_tukey=[1e-8, 0.01, np.nan])
    (shown,) = pairs_of(pairs.assign(p_holm=[1e-8, 0.02, np.nan]), "odds ratio", 1.0, "late", words)
    assert shown.name == "Home town" and shown.is_open and not shown.left_out
    assert shown.table.columns.tolist() == ["levels", "odds ratio", "from", "to", "p (Tukey)", "p (Holm)", "note"]
    assert shown.table.iloc[0].tolist() == ["b vs Aachen", "1.649", "1.492", "1.822", "< 0.0001", "< 0.0001", ""]
    assert shown.table.iloc[2].tolist() == ["c vs b", "", "", "", "", "", "c is separated"]
    (shown,) = pairs_of(pairs.assign(p_holm=0.5), "difference", None, "late", words)
    assert shown.table["difference"].tolist()[:2] == ["0.500", "−1.000"]


def test_of_many_pairs_those_with_the_smallest_p_values_are_shown():
    levels = list(itertools.combinations(map(str, range(13)), 2))
    pairs = pd.DataFrame(levels, columns=["against", "level"]).assign(term="town", note="", std_error=0.1)
    pairs = pairs.assign(
        p_value=np.linspace(0.9, 0.0, len(pairs)), estimate=1.0, ci_lower=0.5, ci_upper=1.5, p_tukey=0.5
    )
    (shown,) = pairs_of(pairs.assign(p_holm=0.5), "difference", None, "y", NO_WORDS)
    assert shown.left_out == 12 and len(shown.table) == 66 and not shown.is_open
    assert shown.table["levels"].iloc[-1] == "12 vs 11" and shown.table["levels"].iloc[0] == "2 vs 1"


def test_what_is_beyond_the_axis_is_at_its_end():
    axis = InlineAxis.of(scale_of(np.array([1.0, 2.0]), np.array([0.5, 3.0]), False))
    assert (axis.place(1e9), axis.place(-1e9)) == (100, 0)
    picture = axis.interval(1.0, 0.5, 3.0, "<b>")
    assert "&lt;b&gt;" in picture and picture.count("<line") == 2
    assert axis.interval(1.0, np.nan, np.nan).count("<line") == 1
    assert [axis.interval(1.0, *ends).count("<path") for ends in ((0.5, 3.0), (-9.0, 3.0), (-9.0, 9.0))] == [0, 1, 2]
    assert 'x="-' not in bars([1, 2], ["a", "b"]) and bars([], []).startswith("<svg")


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(-1.2, 2.2, [-1, 0, 1, 2]), (0, 1e-9, None), (3, 3, [3]), (1e6, 1e6 + 1, None)]
)
def test_ticks_are_round(low, high, ticks):
    found = round_values(low, high, 6)
    assert 1 <= len(found) <= 6 and (ticks is None or found.tolist() == ticks)


def ranked(right: int, wrong: int) -> dict:
    """Metrics of 1,000 rows with 206 events, where the model says that so many are events, rightly and wrongly."""
    counts = {"true_positive": right, "false_positive": wrong, "rows": 1000, "events": 206, "mean_response": 0.206}
    return counts | {"accuracy": (794 + right - wrong) / 1000, "auc": 0.51, "threshold": 0.5}


RANKED = ranked(60, 5)


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [(60, 5, "better"), (1, 0, "not clearly better"), (0, 0, "no better"), (7, 7, "no better"), (5, 40, "worse")],
)
def test_a_model_is_better_than_one_answer_only_beyond_chance(right, wrong, verdict):
    accuracy, auc = measures(ranked(right, wrong), "y", None)
    assert accuracy.verdict == verdict and auc.verdict == "not clearly better"
    assert f"accuracy {accuracy.value}, {verdict} than 79.4 % (always “not y”)" in skill([accuracy, auc], 1000)
    matrix = {"confusion": [[794 - wrong, wrong], [206 - right, right]], "null_accuracy": 0.794}
    assert measures(ranked(right, wrong) | matrix, "y", None)[0].verdict == verdict
    assert explains(0.002, 1000) == "not clearly better" and explains(-0.2, 1000) == "worse"


def test_a_measure_is_drawn_beside_its_baseline():
    accuracy, auc = measures(RANKED, "y", None)
    assert accuracy.shares == (0.849, 0.794) and auc.shares == (0.51, 0.5)
    (root,) = measures({"rows": 9, "rmse": 2.0, "r_squared": 0.75}, "y", "m")
    assert root.shares[0] / root.shares[1] == pytest.approx(0.5) and 'width="45.5%"' in root.picture
    assert 'width="0.0%"' in measure(-0.5, 0.0)


SPLITS = {"train": {"used": 965, "dropped": {"missing: bmi": 10}}, "evaluate": {"used": 100}, "predict": {"used": 0}}
ACCOUNT = {"read": 1100, "dropped": {"where: adults": 25, "in no split": 0}, "splits": SPLITS}


def fit_of(**model) -> dict:
    data = {
        "where": {"adults": "age > 17"},
        "split": {"train": "day <= 24"},
        "derive": {"late": "delay > 15", "z": "1"},
    }
    formula = {"formula": "late ~ town + age", "family": "binomial"}
    return {"rows": 588, "rows_in_likelihood": 580, "provenance": {"data": data, "model": formula | model}}


def test_everything_that_shapes_a_fit_is_stated():
    column = {"rare_levels": 0, "rare_rows": 0, "fewest": 1, "train_rows": None}
    town = column | {"rare_levels": 7, "rare_rows": 90, "fewest": 20, "train_rows": []}
    facts = dict(
        circumstances(fit_of(weights="w", offset="log(n)"), ACCOUNT, {"late": column, "town": town, "age": column})
    )
    assert facts["Rows"] == (
        "588 of 1,100 read; 377 with weight 0, 100 kept back, 25 adults, 10 missing: bmi, 8 separated, so not in the likelihood"
    )
    assert facts["Only rows with"] == "age > 17 (adults)" and facts["Fitted to"] == "day <= 24"
    assert facts["Weights"].startswith("w, prior weights") and facts["Offset"].startswith("log(n), added")
    assert facts["Derived"] == "late = delay > 15"
    assert facts["Merged levels"] == "7 levels of town with fewer than 20 rows each became (rare): 90 rows, 9.3 %"


def test_a_derived_column_is_not_missing_beside_its_source():
    dropped = {"missing: delay,late": 4, "missing: delay": 1, "missing: bmi,delay,late": 2, "missing: late": 3}
    account = ACCOUNT | {"splits": SPLITS | {"train": {"used": 588, "dropped": dropped}}}
    facts = dict(circumstances(fit_of(), account, {}))
    assert "; 100 kept back, 25 adults, 8 separated, so not in the likelihood, 5 missing: delay" in facts["Rows"]
    assert facts["Rows"].endswith("3 missing: late, 2 missing: bmi and delay")


def test_rows_outside_a_subset_are_counted_for_its_model():
    fit = fit_of(subset="age < 60", frequency="subset_m", weights="w")
    for frequency, said in (
        ("1", "588 of 1,100 read; 300 not in the subset, "),
        ("n", "665 of 1,100 read, which stand "),
    ):
        fit["provenance"]["data"]["derive"]["subset_m"] = f"CASE WHEN (age < 60) THEN {frequency} ELSE 0 END"
        facts = dict(circumstances(fit, ACCOUNT | {"subsets": {"subset_m": 300}}, {}))
        assert facts["Rows"].startswith(said) and "300 not in the subset" in facts["Rows"]
        assert facts.get("Frequency", "1")[0] == frequency


def test_rows_that_stand_for_several_have_no_weight_of_zero():
    column = {"rare_levels": 0}
    fit = fit_of(frequency="n") | {"rows": 1681, "rows_in_likelihood": 1681}
    facts = dict(circumstances(fit, ACCOUNT, {"town": column}))
    assert facts["Rows"].startswith("965 of 1,100 read, which stand for 1,681; 100 kept back, ")
    assert "weight 0" not in facts["Rows"] and facts["Frequency"] == "n, each row stands for so many equal rows"
