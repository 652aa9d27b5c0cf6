"""Lists of terms under a name: what formulas become of them, and which names are refused."""

import copy

import pytest

from configs import MINIMAL, message
from tfglm.config import column_problems, load, load_layout
from tfglm.formula.functions import FUNCTIONS
from tfglm.formula.parse import parse, without_bars
from tfglm.formula.read import columns_of, has_curves

TERMS = {"calendar": "C(month) + C(weekday)", "known_before": "carrier + calendar"}


def config_of(terms, formula="late ~ known_before * distance - calendar:distance + bs(dep_hour, df=4)", **sections):
    raw = copy.deepcopy(MINIMAL) | {"terms": terms} | sections
    raw["models"]["late_arrival"]["formula"] = formula
    raw["models"]["late_arrival"].pop("reference", None)
    return raw


def test_a_formula_has_the_terms_of_their_name():
    config = load(config_of(TERMS), "c.yaml")
    formula = config.models["late_arrival"].formula
    assert formula == (
        "late ~ (carrier + (C(month) + C(weekday))) * distance - (C(month) + C(weekday)):distance + bs(dep_hour, df=4)"
    )
    terms = [term.name for term in parse(formula, "f").terms]
    assert terms == ["carrier", "C(month)", "C(weekday)", "distance", "bs(dep_hour, df=4)", "carrier:distance"]
    assert set(config.covariates_of("late_arrival")) == {"carrier", "month", "weekday", "distance", "dep_hour"}


def test_sweeps_and_networks_use_them_too_and_another_config_without_them_is_the_same():
    raw = config_of(TERMS)
    raw["models"]["late_arrival"]["sweep"] = {"formula": ["late ~ calendar", "late ~ known_before"]}
    raw["networks"] = {"net": {"formula": "late ~ calendar", "family": "binomial"}}
    config = load(raw, "c.yaml")
    assert config.models["late_arrival_1"].formula == config.networks["net"].formula == "late ~ (C(month) + C(weekday))"
    assert config.models["late_arrival_2"].formula == "late ~ (carrier + (C(month) + C(weekday)))"


def test_a_name_may_not_be_that_of_a_column_of_the_layout_either():
    problems = column_problems(
        load(config_of({"carrier": "dest"}, "late ~ carrier"), "c.yaml"), [load_layout("asa2009")]
    )
    assert (
        "terms.carrier: the layout has a column of this name, so that a formula could mean either; rename the terms"
        in problems
    )


def test_functions_of_numbers_have_curves_and_codings_have_none():
    options = {
        "bs": "x, df=4",
        "ns": "x, df=4",
        "cc": "x, df=4, lower_bound=0, upper_bound=1",
        "te": "x, z",
        "ti": "x, z",
    }
    calls = {name: f"{name}({options.get(name, 'x')})" for name in FUNCTIONS}
    assert {name for name, call in calls.items() if not has_curves(f"y ~ a + {call}")} == {"scale", "center"}
    assert has_curves("y ~ np.log(x)")
    assert has_curves("y ~ s(x, bs=cr) + s(g, bs=re)") and has_curves("y ~ bs(x, df=4) + (0 + x | g)")
    assert not has_curves('log(y) ~ C(a, contr.poly()) + C(b, Treatment("1")) + i(c, ref=1) + scale(d) + logs:e')


@pytest.mark.parametrize("effects", ["1 | g", "0 + x | g", "x || g", "0 + x + z || g"])
def test_random_effects_have_no_curves_however_they_are_written(effects):
    written = f"y ~ x + ({effects})"
    assert not has_curves(written) and not has_curves(without_bars(written, "f"))
    assert not has_curves(without_bars(written, "f").replace("bs=re", 'bs = "re"'))


def test_codings_and_functions_are_no_columns():
    formula = (
        "y ~ C(a, contr.sum) + C(b, Sum) + C(c, contr.poly()) + I(d^2) + log(e / 2 + 1) + i(f, g, ref=1) + ns(h, df=3)"
    )
    assert columns_of(formula) == ["y", *"abcdefgh"]


@pytest.mark.parametrize(
    "formula", ["late ~ calendar(month)", "late ~ bs(x, calendar=4)", "late ~ C(x, Treatment('calendar'))"]
)
def test_what_only_looks_like_a_name_of_terms_stays(formula):
    assert load(config_of(TERMS, formula), "c.yaml").models["late_arrival"].formula == formula


@pytest.mark.parametrize(
    ("terms", "formula", "expected"),
    [
        ({"dest": "C(month)"}, "late ~ dest", "terms.dest: data.columns has a column of this name"),
        ({"None": "C(month)"}, "late ~ carrier", "terms.None: formulas have a word `None` already"),
        ({"a": "b + carrier", "b": "a"}, "late ~ a", "terms.a: `a -> b -> a` refers to itself"),
        ({"late2": "carrier"}, "late2 ~ carrier", "terms.late2: it stands for terms, and cannot be a response"),
        ({"a": "late ~ carrier"}, "late ~ a", "terms.a: `late ~ carrier` is no list of terms"),
        ({"a": "(carrier"}, "late ~ distance", "terms.a: `(carrier` is no list of terms"),
        ({"a": ["carrier"]}, "late ~ distance", "terms.a: expected text"),
        ({"2a": "carrier"}, "late ~ distance", "terms.2a: expected a name"),
        ({f"a{k}": " + ".join([f"a{k + 1}"] * 9) for k in range(9)}, "late ~ a0", "has more than 10,000 characters"),
    ],
)
def test_names_that_cannot_be_are_refused(terms, formula, expected):
    refused = message(load, config_of(terms, formula), "c.yaml")
    assert refused.startswith("c.yaml: ") and expected in refused


def test_tables_may_name_a_factor_by_its_column_however_the_formula_writes_it():
    raw = config_of({}, 'late ~ i(month, ref=1) + C(weekday, Treatment("6")) + distance')
    raw["tables"] = {"controls": ["C(month)"], "labels": {"C(weekday)": "day of the week"}}
    assert load(raw, "c.yaml").tables.controls == ["C(month)"]
    raw["tables"] = {"controls": ["C(hour)"]}
    assert "tables.controls: no formula has the term `C(hour)`" in message(load, raw, "c.yaml")
