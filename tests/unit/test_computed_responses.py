"""Responses that are expressions become columns, and `.` is written out, before anything is read."""

import pytest

from configs import message
from tfglm.config import load
from tfglm.errors import UserError
from tfglm.formula.response import computed_response

COLUMNS = {
    "log(charges) ~ x": ("log_charges", "LN(charges)"),
    "log10(y + 1) ~ x": ("log10_y_plus_1", "LOG10((y + 1))"),
    "I(stay > 3) ~ x": ("stay_above_3", "stay > 3"),
    'I(carrier == "it\'s") ~ x': ("carrier_is_it_s", "carrier = 'it''s'"),
    "I(-y^2 / 1e-7) ~ x": ("minus_y_to_the_2_per_1e_minus_07", "((0 - POWER(y, 2)) / 0.0000001)"),
    "x >= 0.5 ~ z": ("x_at_least_0_point_5", "x >= 0.5"),
}


@pytest.mark.parametrize("formula", [formula for formula, column in COLUMNS.items() if column])
def test_an_expression_is_a_column_in_sql(formula):
    name, sql = COLUMNS[formula]
    assert computed_response(formula).derive == {name: sql}
    assert computed_response(formula).column == name


@pytest.mark.parametrize("formula", ["late ~ x", "`late` ~ x", "carrier + x", "~ x", " ~ x"])
def test_a_column_is_no_expression(formula):
    assert computed_response(formula) is None


REFUSED = {
    "gamma(y) ~ x": "the response has `gamma(y)`",
    "log(y, 3) ~ x": "the response has `log(y, 3)`",
    "log(2) ~ x": "has no column in it",
    "I(y > 3 & z < 2) ~ x": "define a column for anything else under data.derive",
    "cbind(events) ~ x": "cbind() takes two counts",
    "cbind(events, trials) ~ x": "the second count is of trials without the event; write cbind(events, trials - events)",
    "a + b ~ x": "is arithmetic; write I(a + b)",
    "log(y ~ x": "is no expression",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_cannot_be_computed_is_refused(formula):
    with pytest.raises(ValueError) as error:
        computed_response(formula)
    assert REFUSED[formula] in str(error.value)


def config(formula: str, data: dict | None = None, **model) -> dict:
    columns = ["y", "late", "delay", "carrier", "day", "n", "w"]
    of_data = {"files": ["a.csv"], "split": {"train": "TRUE"}, "columns": columns, "derive": {"late": "delay > 15"}}
    of_data |= data or {}
    return {"data": of_data, "models": {"m": {"formula": formula, "family": "gaussian"} | model}}


def test_the_response_is_derived_and_its_rows_are_checked():
    loaded = load(config("log(y) ~ carrier", {"where": "day > 1"}), "config")
    assert loaded.data.derive["log_y"] == "LN(y)" and loaded.data.columns[-1] == "log_y"
    assert loaded.models["m"].response == "log_y" and loaded.models["m"].formula == "log(y) ~ carrier"
    assert loaded.data.where == {
        "day > 1": "day > 1",
        "the response has a value: log(y)": "(y) > 0 OR NOT (y IS NOT NULL)",
    }


def test_counts_of_two_outcomes_have_trials():
    loaded = load(config("cbind(n, w - n) ~ carrier", family="binomial"), "config")
    assert (loaded.models["m"].response, loaded.models["m"].trials) == ("n", "w")
    loaded = load(config("cbind(n, w) ~ carrier", family="binomial"), "config")
    assert (loaded.models["m"].trials, loaded.data.derive["n_plus_w"]) == ("n_plus_w", "(n + w)")
    with pytest.raises(UserError, match="has the number of trials in it; remove the key `trials`"):
        load(config("cbind(n, w - n) ~ carrier", family="binomial", trials="day"), "config")


@pytest.mark.parametrize(
    ("formula", "settings", "written"),
    [
        ("y ~ . - late", {}, "y ~ delay + carrier + day + n + w"),
        ("log(delay) ~ . - late", {}, "log(delay) ~ y + carrier + day + n + w"),
        ("y ~ (. - late)^2", {"weights": "w", "offset": "log(n)"}, "y ~ ((delay + carrier + day) )^2"),
        ("y ~ . - late + I(day^2)", {"std_errors": "cluster(day)"}, "y ~ (delay + carrier + n + w)  + I(day^2)"),
        ("y ~ log(.5 * n)", {}, "y ~ log(.5 * n)"),
    ],
)
def test_a_dot_is_all_columns_without_another_part(formula, settings, written):
    model = load(config(formula, **settings), "config").models["m"]
    assert model.formula.split() == written.split()


def test_columns_that_the_formula_names_are_no_part_of_the_dot():
    assert load(config("y ~ . + carrier - late"), "config").models["m"].dot == ["delay", "day", "n", "w"]


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("late ~ .", "`.` includes `delay`, from which the response `late` is computed; write `. - delay`"),
        ("delay ~ .", "`.` includes `late`, which is computed from the response `delay`; write `. - late`"),
        ("log(y) ~ carrier", "`log(y)` becomes the column `log_y`, and another column has that name; rename it"),
    ],
)
def test_the_answer_among_the_covariates_is_refused(formula, said):
    assert said in message(load, config(formula, {"derive": {"late": "delay > 15", "log_y": "LN(y + 1)"}}), "config")


def test_parts_of_a_formula_are_keys_of_the_model():
    loaded = load(config("log(y) ~ day + offset(log(n)) | carrier + carrier^day + w"), "config")
    model = loaded.models["m"]
    assert (model.formula, model.offset) == ("log(y) ~ day", "log(n)")
    assert model.absorb == ["carrier", "carrier_day", "w"] and {"carrier_day", "log_y"} <= {*loaded.data.columns}
    assert loaded.data.derive["carrier_day"] == "carrier || ' × ' || day"
    nested = load(config("y ~ n + (1 | carrier/day)"), "config")
    assert nested.models["m"].formula == "y ~ n + (1 | carrier) + (1 | carrier_day)"
    assert "carrier_day" in nested.data.columns
    assert load(config("y ~ n | 0"), "config").models["m"].absorb == []
    sloped = load(config("y ~ n | w + carrier^day[[n]] + w[ n , day ]"), "config").models["m"]
    assert sloped.absorb == ["w", "w[[n]]", "w[[day]]", "carrier_day[[n]]"]
    assert sloped.roles["absorb"] == ["w", "n", "day", "carrier_day"] and sloped.absorbed_factors == ["w"]
    instrumented = load(config("y ~ n | carrier | day + n ~ w"), "config").models["m"]
    assert (instrumented.formula, instrumented.absorb) == ("y ~ n + day", ["carrier"])
    assert instrumented.instruments == "day + n ~ w"


@pytest.mark.parametrize(
    ("formula", "stands_for"),
    [
        (
            "c(y, n) ~ day + csw0(carrier, w) | 0",
            [f"{y} ~ day{x}" for y in "yn" for x in ("", " + carrier", " + carrier + w")],
        ),
        ("y ~ sw0(day, w:n) + carrier", ["y ~ carrier", "y ~ day + carrier", "y ~ w:n + carrier"]),
        ("y ~ sw0(n)", ["y ~ 1", "y ~ n"]),
        ("c(y) ~ n", ["y ~ n"]),
    ],
)
def test_several_responses_and_lists_of_terms_are_models(formula, stands_for):
    loaded = load(config(formula) | {"fit": ["m"]}, "config")
    assert [model.formula.replace("  ", " ") for model in loaded.models.values()] == stands_for
    names = ["m"] if len(stands_for) == 1 else [f"m_{number}" for number in range(1, len(stands_for) + 1)]
    assert [*loaded.models] == names and loaded.fit == names


def test_absorbed_steps_and_lists_within_a_term():
    models = load(config("y ~ n | csw0(carrier, w[day])"), "config").models
    assert [model.absorb for model in models.values()] == [[], ["carrier"], ["carrier", "w", "w[[day]]"]]
    for formula in ("y ~ n:sw(day, w)", "y ~ n + sw(day, )", "y ~ (1 | sw(day, w))"):
        assert "m.formula: `" in message(load, config(formula), "config")
    assert "m.formula: it stands for more models than" in message(
        load, config(f"y ~ {' + '.join(['sw(n, w)'] * 10)}"), "config"
    )


PARTS = {
    "y ~ n | w ~ day | carrier": "has too many parts; write absorbed factors and then instruments",
    "y ~ n | carrier | ~ w": "names instruments of no term; write them as in y ~ x | d ~ w",
    "y ~ n | carrier[day": "`carrier[day` cannot be absorbed; name a column g, or slopes of numbers at its levels too",
    "y ~ n |": "`nothing` after the `|` cannot be absorbed",
    "y ~ n * offset(w)": "one offset, which is a term of its own",
    "y ~ n | carrier^w": "a combination of columns becomes the column `carrier_w`, and another column has that name",
    "y ~ 1 | carrier": "the formula has no term beside the absorbed factors",
    "y ~ n + offset(w)": "the formula has what the key `offset` has too",
}


@pytest.mark.parametrize("formula", PARTS)
def test_parts_that_are_no_keys_are_refused(formula):
    derive = {"late": "delay > 15", "carrier_w": "w + 1"}
    offset = {"offset": "day"} if "offset(w)" in formula else {}
    assert PARTS[formula] in message(load, config(formula, {"derive": derive}, **offset), "config")


def test_a_subset_is_a_frequency_that_models_of_the_same_rows_share():
    raw = config("y ~ n", subset="day > 1")
    raw["models"] |= {"other": raw["models"]["m"], "counted": raw["models"]["m"] | {"frequency": "w"}}
    loaded = load(raw | {"compare": ["m", "other"]}, "config")
    assert [model.frequency for model in loaded.models.values()] == ["subset_m", "subset_m", "subset_counted"]
    assert loaded.data.derive["subset_counted"] == "CASE WHEN (day > 1) THEN w ELSE 0 END"
    assert "not of the same rows, as their `subset`" in message(
        load,
        raw | {"models": raw["models"] | {"m": raw["models"]["m"] | {"subset": "day > 2"}}, "compare": ["m", "other"]},
        "c",
    )
