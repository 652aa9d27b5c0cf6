"""What `snakemake init` makes of a file: a layout and a config that run, or a message that says why not and what to do."""

import gzip
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import polars as pl
import pytest
import yaml
from statsmodels.stats.outliers_influence import variance_inflation_factor

from configs import message
from runs import REPOSITORY, write_asa
from surveys import formula, surveyed
from tfglm.config import Layout, LayoutColumn, load_layout, shipped_layouts
from tfglm.config.files import parse
from tfglm.data import sql
from tfglm.errors import UserError
from tfglm.families.gaussian import Gaussian
from tfglm.survey.calendar import Calendar
from tfglm.survey.collinear import inflation
from tfglm.survey.columns import ColumnSummary
from tfglm.survey.conversions import conversion_of
from tfglm.survey.dialect import dialect_of
from tfglm.survey.flights import flights_in
from tfglm.survey.init import Request, init
from tfglm.survey.proposal import Proposal
from tfglm.survey.responses import ProposedResponse
from tfglm.survey.screening import separates
from tfglm.survey.writing import config_text, layout_text

ROWS = 400
RANDOM = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, **columns) -> str:
    """A CSV file of these columns."""
    pl.DataFrame(columns).write_csv(name)
    return name


def chosen(rows: int, *values: object) -> list:
    return RANDOM.choice(np.array(values, object), rows).tolist()


# What is proposed --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_flights_have_a_shipped_layout_and_the_question_which_are_late(folder):
    write_asa(folder, 2006, 3000)
    config, said, layout, *_ = surveyed("2006.csv")
    assert layout == load_layout("asa2009") and not Path("config/2006.layout.yaml").exists()
    assert formula(config) == "late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
    assert config.data.derive == {"late": "arr_delay >= 15"} and config.models["late"].std_errors == "cluster(date)"
    assert "All 3,000 rows of 2006.csv, layout asa2009:" in said


def table_of_counts(name: str, counted: str, **levels: list[str]) -> str:
    """A CSV file with a row for each combination of levels, as R's `as.data.frame(table)` makes it."""
    combined = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    combined[counted] = RANDOM.integers(0, 400, len(combined))
    combined.to_csv(name, index=False)
    return name


def test_a_table_of_counts_has_its_counts_as_frequencies():
    levels = {"Admit": ["Admitted", "Rejected"], "Gender": ["Male", "Female"], "Dept": list("ABCDEF")}
    config, said, *_ = surveyed(table_of_counts("ucb.csv", "Freq", **levels))
    (model,) = config.models.values()
    assert model.formula == "Admit_rejected ~ Gender + Dept" or model.formula == "Admit_admitted ~ Gender + Dept"
    assert model.frequency == "Freq" and not config.data.rare and config.data.split.evaluate is None
    assert "Freq" in config.data.columns and "frequency: Freq" in said and "24 rows of ucb.csv" in said
    # Who asks for the counts has them explained.
    for number, request in enumerate((Request("Freq"), Request(formula="Freq ~ Gender * Admit"))):
        config, said, *_ = surveyed("ucb.csv", request, Path(f"config{number}"))
        assert list(config.models) == ["Freq"] and config.models["Freq"].frequency is None


def test_a_table_whose_columns_all_explain_has_its_counts_as_response():
    config, *_ = surveyed(table_of_counts("eyes.csv", "n", region=list("abcd"), color=list("xyz"), sex=["F", "M"]))
    (model,) = config.models.values()
    assert model.formula.startswith("n ~ ") and model.frequency is None and model.family == "negative_binomial"


@pytest.mark.slow
def test_flights_of_one_month_have_no_month_in_their_formula(folder):
    write_asa(folder, 2006, 20_000)
    pl.read_csv("2006.csv", infer_schema=False).filter(pl.col("Month") == "7").write_csv("july.csv")
    config, said, *_ = surveyed("july.csv")
    assert formula(config) == "late ~ carrier + origin + dest + C(weekday) + dep_hour + distance"
    assert "Left out: month: has the same value in all rows" in said


@pytest.mark.parametrize("name", sorted({*shipped_layouts()} - {"images"}))
def test_each_layout_of_flights_is_known_by_its_header(name):
    Path("x.csv").write_text(",".join(column.source for column in load_layout(name).columns.values()))
    assert flights_in(Path("x.csv")).recognition.name == name


def test_columns_are_typed_by_their_values_and_named_so_that_formulas_can_hold_them():
    source = written(
        "customers.csv",
        **{
            "": range(ROWS),
            "Größe (cm)": RANDOM.normal(170, 9, ROWS).round(1),
            "group": chosen(ROWS, "a", "b"),
            "random": chosen(ROWS, "1", "2.50", "?"),
            "1st": chosen(ROWS, "15.00", "-"),
            "yes": chosen(ROWS, "None", "some", "?"),
            "Intercept": RANDOM.normal(0, 1, ROWS),
            "a b": chosen(ROWS, "31.12.2020", "01.02.2021"),
            "a-b": chosen(ROWS, "2020-12-31", "2021-02-01"),
            "plz": chosen(ROWS, "01234", "99999"),
            "bought": chosen(ROWS, 0, 1),
        },
    )
    config, said, layout, *_ = surveyed(source)
    assert "columns without a name, which are not read: 1" in said
    assert {name: (column.source, column.type) for name, column in layout.columns.items()} == {
        "Grosse_cm": ("Größe (cm)", "number"),
        "group_column": ("group", "string"),
        "random_column": ("random", "number"),
        "column_1st": ("1st", "integer"),
        "yes": ("yes", "string"),
        "Intercept_column": ("Intercept", "number"),
        "a_b": ("a b", "date"),
        "a_b_2": ("a-b", "date"),
        "plz": ("plz", "string"),
        "bought": ("bought", "integer"),
    }
    assert layout.columns["a_b"].format == "%d.%m.%Y" and layout.missing == ["", "NA", "?", "-"]
    assert formula(config).startswith("bought ~ Grosse_cm + group_column")


def test_what_is_no_covariate_is_left_out_with_the_reason():
    amount = RANDOM.normal(50, 9, ROWS).round(2)
    source = written(
        "x.csv",
        customer_id=chosen(ROWS, 5, 6, 7),
        serial=range(1000, 1000 + ROWS),
        constant=["DE"] * ROWS,
        empty=[None] * ROWS,
        sparse=[7 if row % 3 else None for row in range(ROWS)],
        day=chosen(ROWS, "2020-01-01", "2020-01-02"),
        note=[f"text {row % 300}" for row in range(ROWS)],
        size=chosen(ROWS, 1, 2, 3),
        amount=amount,
        outcome=RANDOM.normal(0, 1, ROWS),
    )
    config, said, *_ = surveyed(source)
    assert formula(config) == "outcome ~ size + amount + C(weekday)" and config.models["outcome"].family == "gaussian"
    assert [line.removeprefix("Left out: ") for line in said.splitlines() if line.startswith("Left out")] == [
        "customer_id: looks like an identifier",
        "serial: looks like an identifier",
        "constant: has the same value in all rows",
        "empty: has no values",
        "sparse: missing in 34% of the rows, which would be dropped",
        "day: a date; month and weekday are derived from it",
        "note: text with 300 different values; `init` proposes factors of up to 50",
        "month: has the same value in all rows",
    ]
    assert "# size is a number; C(size) makes a factor of it." in Path("config/x.yaml").read_text()


@pytest.mark.parametrize(
    ("values", "name", "sql"),
    [
        ((0, 1), "answer", None),
        (("Yes", "No"), "answer_yes", "answer = 'Yes'"),
        (("false", "true"), "answer_true", "answer = 'true'"),
        ((1, 2), "answer_2", "answer = 2"),
        ((0.5, 1.5), "answer_1_5", "answer = 1.5"),
        (("it's", "it's", "it's", "is # not: so"), "answer_is_not_so", "answer = 'is # not: so'"),
        (("so", "so", "so", "it's"), "answer_it_s", "answer = 'it''s'"),
    ],
)
def test_a_response_of_two_values_is_made_0_and_1(values, name, sql):
    source = written("x.csv", amount=RANDOM.normal(50, 9, ROWS), answer=chosen(ROWS, *values))
    config, *_ = surveyed(source)
    assert formula(config) == f"{name} ~ amount" and config.models[name].family == "binomial"
    assert config.data.derive == ({name: sql} if sql else {})


def test_a_derived_response_takes_no_name_that_is_there():
    answer = chosen(ROWS, "Yes", "No")
    config, *_ = surveyed(written("x.csv", answer_yes=RANDOM.normal(50, 9, ROWS), answer=answer))
    assert formula(config) == "answer_yes_is ~ answer_yes" and list(config.data.derive) == ["answer_yes_is"]


def test_a_factor_that_says_the_response_in_other_words_is_left_out():
    survived = np.array(chosen(ROWS, 0, 1), int)
    alive = np.where(survived, "yes", "no")
    config, said, *_ = surveyed(written("x.csv", survived=survived, alive=alive, age=RANDOM.normal(50, 9, ROWS)))
    assert formula(config) == "survived ~ age"
    assert "alive: a leak: it tells survived by itself" in said


@pytest.mark.slow
def test_a_number_that_separates_the_outcomes_is_left_out():
    calls = [row % 4 for row in range(ROWS)]
    doctor = [int(number > 0) for number in calls]
    some = [int(number > 1) for number in calls]
    config, said, *_ = surveyed(written("x.csv", calls=calls, some=some, age=RANDOM.normal(50, 9, ROWS), doctor=doctor))
    assert formula(config) == "doctor ~ age"
    assert "calls: a leak: it tells doctor by itself" in said and "some: a leak: it tells doctor by itself" in said


def test_covariates_vary_in_the_rows_that_lack_no_value():
    engine = ["rear" if row < 20 else "front" for row in range(ROWS)]
    loss = [None if row < 20 else row % 7 for row in range(ROWS)]
    columns = {"engine": engine, "loss": loss, "doors": [2 if row < 3 else 4 for row in range(ROWS)]}
    config, said, *_ = surveyed(written("x.csv", **columns, price=RANDOM.normal(9, 1, ROWS)))
    assert formula(config) == "price ~ engine"
    assert "loss: with it, too few rows would be left that lack no value" in said
    assert "doors: has the same value in all but 3 rows" in said


def test_there_are_ten_rows_of_the_rarer_outcome_for_each_coefficient():
    late = [1] * 40 + [0] * (ROWS - 40)
    letters = {name: chosen(ROWS, "a", "b", "c") for name in ("first", "second", "third")}
    config, said, *_ = surveyed(written("x.csv", **letters, late=late))
    assert formula(config) == "late ~ first + second"
    assert "third: 40 rows of the rarer outcome are too few for 6 coefficients" in said


@pytest.mark.slow
def test_a_file_of_many_columns_starts_with_eight_covariates():
    numbers = {f"x{number}": RANDOM.normal(0, 1, ROWS) for number in range(10)}
    config, said, *_ = surveyed(written("x.csv", **numbers, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7"
    assert "x8, x9: further covariates; 8 are enough to begin with" in said


@pytest.mark.slow
def test_parts_of_dates_are_factors_and_numbers_called_id_are_left_out():
    days = [f"2014{1 + row % 12:02d}{1 + row % 28:02d}T000000" for row in range(ROWS)]
    hour, weekday = RANDOM.integers(0, 24, ROWS), RANDOM.integers(0, 7, ROWS)
    noise = RANDOM.normal(0, 1, ROWS)
    price = 100 + 3 * (hour % 12) + 2 * weekday + noise
    pid, paid = 526_301_100 + 997 * RANDOM.permutation(ROWS), 1000 + 97 * RANDOM.permutation(ROWS)
    columns = {"PID": pid, "paid": paid, "sold": days, "hr": hour, "weekday": weekday, "price": price}
    config, said, *_ = surveyed(written("x.csv", **columns))
    assert formula(config).startswith("price ~ paid + C(hr) + C(weekday) + ")
    assert re.search("sold +dates", said) and left_out(said)["PID"] == "looks like an identifier"


@pytest.mark.slow
def test_levels_of_few_rows_are_merged():
    town = ["a small town"] * 3 + ["a village"] * 9 + chosen(ROWS - 12, "Bonn", "Ulm")
    config, *_ = surveyed(written("x.csv", town=town, size=chosen(ROWS, "s", "m"), y=RANDOM.normal(0, 1, ROWS)))
    assert config.data.rare == {"town": 10} and formula(config) == "y ~ town + size"


@pytest.mark.slow
def test_the_event_is_what_says_yes_in_other_languages_too(folder):
    x = RANDOM.normal(size=ROWS)
    for name, yes, no in (("de", "Ja", "Nein"), ("fr", "oui", "non"), ("es", "Sí", "No")):
        bought = np.where(np.arange(ROWS) % 3 == 0, no, yes).tolist()
        (response,) = surveyed(written(f"{name}.csv", x=x, bought=bought)).config.models
        assert response == f"bought_{yes.lower()}".replace("í", "")
        assert "named as a response often is" in Path(f"config/{name}.yaml").read_text()


def test_text_of_which_every_value_is_rare_is_no_factor(folder):
    """Merged, its levels would be one, which has no effect to estimate: the config would not run."""
    blocks = [f"block {number % 12}" for number in range(ROWS // 4)]
    size, y = RANDOM.normal(size=ROWS // 4), RANDOM.normal(size=ROWS // 4)
    config, said, *_ = surveyed(written("blocks.csv", block=blocks, size=size, y=y))
    assert formula(config) == "y ~ size" and not config.data.rare
    assert "Left out: block: text of which no value has more than 9 rows, too few to be informative" in said


@pytest.mark.slow
def test_covariates_that_determine_each_other_are_not_taken_together():
    state = np.array(chosen(ROWS, *"abcdef"))
    height = np.array([ord(each) for each in state]) ** 2.0
    columns = {
        "state": state,
        "country": np.where(state < "d", "north", "south"),
        "district": np.char.add(state, chosen(ROWS, "1", "2")),
        "height": height + RANDOM.normal(0, 0.1, ROWS),
        "metres": height,
        "feet": RANDOM.normal(0, 1, ROWS),
    }
    config, said, *_ = surveyed(written("x.csv", **columns, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ state + feet"
    assert "Left out: country: determined by state" in said
    assert (
        "Left out: district: each of its values has the same state, so their effects could not be distinguished" in said
    )
    assert re.search(r"Left out: height: nearly determined by the other terms \(VIF [0-9,]+\)", said)
    assert "Left out: metres: determined by the other terms" in said


@pytest.mark.slow
def test_a_factor_that_determines_a_number_comes_too_late():
    town = np.array(chosen(ROWS, *"abcdef"))
    latitude = np.array([ord(each) for each in town]) ** 2
    config, said, *_ = surveyed(written("x.csv", latitude=latitude, town=town, y=RANDOM.normal(0, 1, ROWS)))
    assert formula(config) == "y ~ latitude"
    assert "Left out: town: with it latitude would be determined by the other terms" in said


def test_inflation_factors_are_those_of_regressions_on_the_others():
    rows = 500
    x = RANDOM.normal(0, 1, rows)
    frame = pl.DataFrame(
        {"x": 1e6 + x, "letter": chosen(rows, *"abc"), "z": x + RANDOM.normal(0, 0.5, rows), "w": np.ones(rows)}
    )
    covariates = patsy.dmatrix("x + C(letter) + z", frame.to_pandas())
    names = covariates.design_info.column_names
    expected = {name: variance_inflation_factor(np.asarray(covariates), names.index(name)) for name in ("x", "z")}
    assert inflation(frame, {"letter"}) == pytest.approx(expected | {"w": 1.0}, rel=1e-8)
    assert inflation(frame.select("x", y=2 * pl.col("x")), set()) == {"x": np.inf, "y": np.inf}


def left_out(said: str) -> dict[str, str]:
    """What was left out, with the reason."""
    lines = [line.removeprefix("Left out: ") for line in said.splitlines() if line.startswith("Left out: ")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.slow
def test_the_strongest_covariates_are_taken_and_leaks_are_told_before_the_cap():
    numbers = {f"x{number}": RANDOM.normal(0, 1, ROWS) for number in range(12)}
    survived = (numbers["x11"] + 0.5 * RANDOM.normal(0, 1, ROWS) > 0).astype(int)
    columns = numbers | {"alive": np.where(survived, "yes", "no"), "survived": survived}
    config, said, *_ = surveyed(written("x.csv", **columns))
    assert formula(config) == "survived ~ x0 + x1 + x2 + x3 + x4 + x5 + x6 + x11"
    assert left_out(said)["alive"] == "a leak: it tells survived by itself"
    assert left_out(said)["x7, x8, x9, x10"] == "further covariates; 8 are enough to begin with"


def test_a_column_that_two_others_determine_is_left_out():
    sex, age = np.array(chosen(ROWS, "male", "female")), RANDOM.integers(1, 40, ROWS)
    who = np.where(age < 16, "child", np.where(sex == "male", "man", "woman"))
    columns = {"sex": sex, "age": age, "who": who, "survived": RANDOM.integers(0, 2, ROWS)}
    config, said, *_ = surveyed(written("x.csv", **columns))
    assert formula(config) == "survived ~ sex + age" and left_out(said) == {"who": "determined by sex and age"}


@pytest.mark.slow
def test_an_overdispersed_count_is_said_and_fitted_as_one():
    visits = RANDOM.negative_binomial(0.8, 0.2, ROWS)
    config, said, *_ = surveyed(written("x.csv", visits=visits, age=RANDOM.normal(0, 1, ROWS)))
    assert config.models["visits"].family == "negative_binomial"
    assert re.search(r"^Response: visits, .*variance is [0-9.]+ times its mean; negative_binomial$", said, re.MULTILINE)


def test_parts_of_a_sum_with_the_response_are_leaks():
    fare, tip, tolls = (RANDOM.gamma(2, 3, ROWS).round(2) for _ in range(3))
    columns = {"fare": fare, "tolls": tolls, "total": (fare + tip + tolls).round(2), "cents": (100 * tip).round()}
    columns |= {"log_tip": np.log(tip), "miles": RANDOM.normal(5, 1, ROWS), "tip": tip}
    config, said, *_ = surveyed(written("taxis.csv", **columns))
    assert formula(config) == "tip ~ fare + tolls + miles"
    assert left_out(said) == {
        "total": "a leak: with fare, tolls it gives the response exactly",
        "cents": "a leak: it rises with the response everywhere",
        "log_tip": "a leak: it rises with the response everywhere",
    }


def test_a_sum_is_found_beside_parts_that_are_no_covariate():
    """`instant` numbers the rows; casual and registered add up to the count."""
    casual, registered = RANDOM.poisson(30, ROWS), RANDOM.poisson(90, ROWS)
    columns = {
        "casual": casual,
        "registered": registered,
        "heat": RANDOM.normal(0, 1, ROWS),
        "cnt": casual + registered,
    }
    config, said, *_ = surveyed(written("bikes.csv", instant=range(ROWS), **columns))
    assert formula(config) == "cnt ~ heat"
    assert left_out(said)["casual"] == "a leak: with registered it gives the response exactly"
    assert left_out(said)["instant"] == "looks like an identifier"


@pytest.mark.parametrize("name", ["CLIENTNUM", "individual", "Sample_Number", "PassengerId", "customerNumber", "ID"])
def test_identifiers_have_names_of_their_own(name):
    numbers = (RANDOM.permutation(9 * ROWS)[:ROWS] // 2) * 1000
    config, said, *_ = surveyed(
        written("x.csv", **{name: numbers, "size": RANDOM.normal(0, 1, ROWS), "y": numbers % 7})
    )
    assert formula(config) == "y ~ size" and left_out(said) == {name: "looks like an identifier"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state", "patient_id", "ID"])
def test_errors_are_clustered_by_the_unit_that_repeats(name):
    unit = np.arange(ROWS) // 10
    columns = {
        name: [f"unit {number}" for number in unit],
        "continent": np.where(unit < 20, "east", "west"),
        "island": np.where(unit < 2, "yes", "no"),
        "pop": RANDOM.normal(0, 1, ROWS),
        "day": [f"2020-01-{1 + row % 25:02}" for row in range(ROWS)],
        "lifeExp": RANDOM.normal(60, 9, ROWS),
    }
    config, said, *_ = surveyed(written("x.csv", **columns))
    assert config.models["lifeExp"].std_errors == f"cluster({name})" and name in config.data.columns
    assert formula(config) == "lifeExp ~ continent + pop + C(weekday)"
    assert left_out(said)[name] == "it repeats, so standard errors are clustered by it"
    too_few = f"yes has 2 different {name}, too few for errors by {name} to test it; 10 are needed"
    assert left_out(said)["island"] == too_few
    text = Path("config/x.yaml").read_text()
    assert f"# Rows of one {name} may be alike, as it repeats; there are 40 different ones." in text


def test_a_text_of_blanks_is_a_missing_value():
    draws = np.random.default_rng(6)
    sex = draws.choice(["female", "male", "  ", "\u00a0 "], ROWS)
    source = written("x.csv", sex=sex, age=draws.normal(0, 1, ROWS), y=draws.normal(0, 1, ROWS))
    _, said, layout, *_ = surveyed(source)
    assert layout.missing == ["", "NA", "\u00a0"] and layout.strip_blanks
    assert re.search(rf"sex +text +{sum(not text.strip() for text in sex)}  2 different: ", said)


@pytest.mark.parametrize(
    "name, other, response", [("Was released?", "citizen", "Was_released_yes"), ("dose", "group", "dose")]
)
def test_a_question_is_a_response_and_a_group_is_none(name, other, response):
    """The other column comes last, and `group` is a word of SQL."""
    draws = np.random.default_rng(7)
    values = draws.choice(["No", "Yes"], ROWS) if name.endswith("?") else draws.normal(0, 1, ROWS)
    columns = {"age": draws.normal(0, 1, ROWS), name: values, other: draws.choice(["No", "Yes"], ROWS)}
    config, *_ = surveyed(written("x.csv", **columns))
    assert formula(config).startswith(f"{response} ~ ")


def test_a_unit_with_most_of_the_rows_is_no_cluster():
    country = ["US"] * (ROWS // 2) + [f"land {row % 30}" for row in range(ROWS // 2)]
    columns = {"country": country, "age": RANDOM.normal(0, 1, ROWS), "y": RANDOM.normal(0, 1, ROWS)}
    config, *_ = surveyed(written("x.csv", **columns))
    assert config.models["y"].std_errors == "robust"


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["€1.1M", "€90K", "€7"], [1.1e6, 90e3, 7]),
        (["1,000+", "500+", "10+"], [1000, 500, 10]),
        (["1.37kg", "2 kg"], [1.37, 2]),
        (["83 m2", "70 m2", "on request"], [83, 70, None]),
        ([f"{feet}'{inch}" for feet in (5, 6) for inch in range(12)], [*range(60, 84)]),
        (["4.1/5", "3.9/5", "NEW"], [4.1, 3.9, None]),
        (["1056", "2100 - 2850", "34.46Sq. Meter", "1200"], [1056, 2475, None, 1200]),
        (["555 1234", "555-1234"], None),
        (["5", "0.35%", "0.5%"], None),
        (["A12", "B13"], None),
    ],
)
def test_numbers_are_made_of_texts(texts, numbers):
    """With more texts of the first kind, as few of a column may be unread."""
    more = [re.sub("^[0-9]+", str(number), texts[0].replace("€", "")) for number in range(3, 30)]
    more = [f"€{text}" if "€" in texts[0] else text for text in more] if numbers else texts * 20
    more = [] if "'" in texts[0] else more
    found = conversion_of(pl.Series("x", [*texts, *more, None]))
    assert (found and found[1].to_list()[: len(texts)]) == numbers
    if found and None in numbers:
        assert (
            f"1 of {len(texts + more)} cannot be read and are missing: `{texts[numbers.index(None)]}` in 1 row"
            in found[2]
        )


def test_codes_are_missing_values_and_a_suspect_0_is_asked_about(folder):
    sensor, other = (RANDOM.normal(50, 9, ROWS).round().clip(20, 80).astype(int) for _ in range(2))
    sensor[:9], other[9:14] = -999, 0
    config, said, layout, *_ = surveyed(written("x.csv", sensor=sensor, other=other, y=RANDOM.normal(0, 1, ROWS)))
    assert "-999" in layout.missing and "sensor: -999 in 9 rows read as missing" in said
    assert "0 in 5 rows, far below all others" in said and formula(config) == "y ~ sensor + other"


def test_what_is_known_only_afterwards_is_left_out():
    planned = RANDOM.integers(6, 22, ROWS) * 100
    columns = {"crs_dep_time": planned, "dep_time": planned + RANDOM.integers(0, 50, ROWS), "flight": planned // 7}
    config, said, *_ = surveyed(written("x.csv", **columns, rain=RANDOM.normal(0, 1, ROWS), late=chosen(ROWS, 0, 1)))
    assert formula(config) == "late ~ crs_dep_time + rain"
    assert left_out(said)["dep_time"].startswith("known only afterwards, beside crs_dep_time")
    arms = {"version": chosen(ROWS, "a", "b"), "rounds": RANDOM.poisson(9, ROWS), "retention_7": chosen(ROWS, 0, 1)}
    config, said, *_ = surveyed(written("y.csv", age=RANDOM.normal(40, 9, ROWS), **arms), folder=Path("y"))
    assert (
        formula(config) == "retention_7 ~ age + version" and "perhaps an outcome of version" in left_out(said)["rounds"]
    )


def test_large_factors_and_skewed_numbers_join():
    draws = np.random.default_rng(3)
    town = [f"town {number % 60}" for number in range(ROWS)]
    size, noise = np.exp(draws.normal(0, 2, (2, ROWS)))
    source = written("x.csv", town=town, size=size, paid=size * noise * (np.arange(ROWS) % 9 > 0))
    config, said, *_ = surveyed(source)
    assert formula(config) == "log(paid + 1) ~ (1 | town) + log(size)"
    assert "(1 | town): random effects, as it has 60 levels" in said and "log(size): skewed (" in said


def test_a_header_may_have_numbers_beside_a_word(folder):
    Path("x.csv").write_text("id,0.5,25,target\n" + "1,2,3,4\n" * 12)
    assert dialect_of(Path("x.csv")).header is True
    Path("x.csv").write_text("1,2,3,a\n" + "1,2,3,b\n" * 12)
    assert dialect_of(Path("x.csv")).header is False


# What the user asks for ---------------------------------------------------------------------------------------------------


def insurance() -> str:
    """A CSV file of people with what their insurance charges."""
    columns = {
        "age": RANDOM.integers(18, 65, ROWS),
        "sex": chosen(ROWS, "female", "male"),
        "Body mass": RANDOM.normal(30, 6, ROWS).round(2),
        "smoker": chosen(ROWS, "no", "yes"),
        "region": chosen(ROWS, "northeast", "southwest"),
        "charges": RANDOM.gamma(2, 6000, ROWS).round(2),
    }
    return written("insurance.csv", **columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (Request("charges"), "charges ~ age + sex + Body_mass + smoker + region"),
        (Request("Body mass"), "Body_mass ~ age + sex + smoker + region + charges"),
        (Request("Body_mass"), "Body_mass ~ age + sex + smoker + region + charges"),
        (Request("smoker"), "smoker_yes ~ age + sex + Body_mass + region + charges"),
        (Request(formula="charges ~ age * smoker"), "charges ~ age * smoker"),
        (Request("smoker", "smoker ~ C(age)"), "smoker_yes ~ C(age)"),
        (Request(formula="log(charges) ~ age * smoker"), "log(charges) ~ age * smoker"),
        (Request("charges", "I(charges > 9000) ~ age"), "I(charges > 9000) ~ age"),
        (Request(formula="sqrt(charges) ~ ."), "sqrt(charges) ~ age + sex + Body_mass + smoker + region"),
        (Request(formula="charges ~ . - sex"), "charges ~ age + Body_mass + smoker + region"),
    ],
)
def test_the_user_names_the_response_or_the_formula(request_of, expected):
    config, said, *_ = surveyed(insurance(), request_of)
    assert formula(config) == expected and "as requested" in said and "Other responses" not in said


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (
            Request("charge"),
            "response: no column `charge`; did you mean `charges`?\n  the columns: age, sex, Body_mass",
        ),
        (Request("sex", "charges ~ age"), "response: `sex` is not that of the formula, `charges`; give one of them"),
        (Request(formula="charges ~ agee"), "no column `agee`; did you mean `age`?"),
        (Request(formula="charges"), "formula: `charges` needs one response"),
        (Request(formula="charge ~ age"), "response: no column `charge`; did you mean `charges`?"),
        (Request(formula="log(charge) ~ age"), "formula: no column `charge`; did you mean `charges`?"),
        (Request(formula="log(Body mass) ~ age"), "`log(Body mass)` is no expression that can be computed"),
        (Request(formula="log(sex) ~ age"), "formula: `log(sex)`: `LN(sex)` cannot be evaluated"),
        (Request(formula="log(charges - 1e9) ~ age"), "formula: `log(charges - 1e9)` has no value"),
        (Request("age", "log(charges) ~ sex"), "response: `age` is not in `log(charges)`, that of the formula"),
        (Request(output="config"), "output: `config` must end with .yaml, as in config/insurance.yaml"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_and_nothing_is_written(request_of, expected):
    assert expected in message(init, insurance(), Path("config"), print, request_of)
    assert not Path("config").exists()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["a", "b", "c"] * 5, "holds text with 3 different values; `init` takes numbers, and texts of up to 7 values"),
        (["a"] * 14 + ["b"], "response: `x` is b in 1 row only; 10 are needed"),
        ([1] * 15, "response: `x` has a single value, so nothing explains it"),
    ],
)
def test_a_column_that_no_regression_explains_is_no_response(column, expected):
    assert expected in message(init, written("x.csv", x=column, z=range(15)), Path("config"), print, Request("x"))


@pytest.mark.slow
def test_other_responses_are_shown_with_commands_that_work():
    source = insurance()
    said = surveyed(source).said
    commands = re.findall(r"^  (\w+) \(.+\): (snakemake --cores 1 init --config .+)$", said, re.MULTILINE)
    assert 2 <= len(commands) <= 3
    for column, command in commands:
        entries = dict(entry.split("=", 1) for entry in shlex.split(command.partition("--config ")[2]))
        assert entries.pop("csv") == source and entries["response"] == column
        config, _, layout, *_ = surveyed(source, Request(**entries))
        assert formula(config).startswith(column) and Path(entries["output"]).exists() and column in layout.columns


@pytest.mark.slow
def test_flights_have_other_responses_too(folder):
    write_asa(folder, 2006, 3000)
    said = surveyed("2006.csv").said
    assert "  arr_delay (numbers): snakemake --cores 1 init --config csv=2006.csv response=arr_delay" in said
    config = surveyed("2006.csv", Request("arr_delay", output="config/arrival.yaml")).config
    assert formula(config) == "arr_delay ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"


# Kinds of files -----------------------------------------------------------------------------------------------------------


def test_a_parquet_file_has_the_types_that_it_says():
    frame = pl.DataFrame(
        {
            "at": pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2021, 1, 1), "1d", eager=True)[:300],
            "kind": pl.Series(chosen(300, "a", "b", "c"), dtype=pl.Categorical),
            "parts": [[1, 2]] * 300,
            "price": RANDOM.normal(10, 1, 300),
            "sold": chosen(300, True, False),
        }
    )
    frame.write_parquet("x.parquet")
    config, _, layout, *_ = surveyed("x.parquet")
    assert {name: column.type for name, column in layout.columns.items()} == {
        "at": "date",
        "kind": "string",
        "price": "number",
        "sold": "integer",
    }
    assert formula(config) == "price ~ kind + sold + C(month) + C(weekday)"


def test_a_packed_file_in_another_encoding_with_lines_that_cannot_be_read():
    lines = [f"{name},{RANDOM.normal():.3f}\n" for name in chosen(ROWS, "Köln", "Ulm")]
    lines[7] = "cut\n"
    Path("x.csv.gz").write_bytes(gzip.compress("".join(["city,y\n", *lines]).encode("latin-1")))
    config, said, layout, *_ = surveyed("x.csv.gz")
    assert layout.encoding == "cp1252" and config.data.bad_rows == "drop"
    assert "lines that cannot be read: 1;" in said and "Köln" in said and formula(config) == "y ~ city"


REFUSED = {
    "empty file": (b"", "x.csv: is empty; a CSV file begins with a line of column names"),
    "no rows": (b"a,b\n", "x.csv: has a header and no rows that can be read"),
    "note for Excel": (b"sep=;\na;b\n1;2\n", "its first line, `sep=;`, is a note for Excel"),
    "names of rows": (b"a;b\n" + b"1;2;3\n" * 20, "its rows have one field more than its header names"),
    "no names": (b",\n1,2\n", "its first line names no column; a CSV file begins with a line of column names"),
    "no response": (b"a,b\n" + b"x,1\ny,2\nz,3\n" * 20, "no column could be a response"),
    "no covariate": (b"y,x\n" + b"0,a\n1,a\n" * 20, "no column could explain `y`"),
    "blanks": (b"a b\n1 2\n", "has a single column, `a b`; write commas, semicolons or tabs between columns"),
    "only a year": (b"year,x\n" + b"".join(b"%d,a\n" % (1900 + row // 2) for row in range(99)), "no column could be a"),
    "few flights": (None, "flights only 0 are late, or not late"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_with_nothing_to_fit_is_refused_and_nothing_is_written(folder, case):
    content, expected = REFUSED[case]
    if content is None:
        write_asa(folder, 2006, 200)
        flights = pl.read_csv("2006.csv", infer_schema=False).with_columns(ArrDelay=pl.lit("3"))
        content = flights.write_csv().encode()
    Path("x.csv").write_bytes(content)
    assert expected in message(init, "x.csv", Path("config"), print)
    assert not Path("config").exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("flihgts.csv", "csv: there is no file `flihgts.csv`; did you mean `flights.csv`?"),
        ("*.csv", "csv: 2 files match `*.csv`; give one of them"),
        (".", "csv: `.` is a folder"),
        ("https://a.org/x.csv", "csv: `https://a.org/x.csv` is an address"),
        ("x.npz", "x.npz: holds images"),
    ],
)
def test_what_is_no_single_table_is_refused_in_words(source, expected):
    for name in ("flights.csv", "other.csv"):
        Path(name).write_text("a,b\n1,2\n")
    np.savez("x.npz", images=np.zeros((2, 4, 4), np.uint8), labels=np.array([0, 1]))
    assert expected in message(init, source, Path("config"), print)


@pytest.mark.parametrize("name", ["config/x.yaml", "config/x.layout.yaml"])
def test_a_config_or_layout_that_is_there_is_left_as_it_is(name):
    source = written("x.csv", size=chosen(ROWS, 1, 2, 3), y=RANDOM.normal(0, 1, ROWS))
    Path("config").mkdir()
    Path(name).write_text("mine")
    for request in (Request(), Request(response="y")):
        with pytest.raises(UserError, match=f"^{name} would be overwritten; .*: output=config/x_2.yaml$"):
            init(source, Path("config"), print, request)
    with pytest.raises(UserError, match="response: no column `z`"):
        init(source, Path("config"), print, Request(response="z"))
    assert [(path.name, path.read_text()) for path in Path("config").iterdir()] == [(Path(name).name, "mine")]


@pytest.mark.slow
def test_dates_of_two_formats_are_told_with_what_reads_all(folder):
    """2 % of the dates come from another program."""
    days = pd.date_range("2019-01-01", periods=300)
    texts = [f"{day:%m/%d/%Y}" if number % 50 == 20 else f"{day:%Y-%m-%d}" for number, day in enumerate(days)]
    frame = pd.DataFrame({"when": texts, "g": ["a", "b", "c"] * 100, "price": np.arange(300) % 17})
    frame.to_csv("prices.csv", index=False)
    said: list[str] = []
    init("prices.csv", Path("config"), said.append)
    (remark,) = (line for line in said if "two formats" in line)
    assert remark.startswith(
        "  when: dates in two formats, 294 as %Y-%m-%d and 6 as %m/%d/%Y, so read as text; to read all, "
    )
    assert remark.strip().removeprefix("when: ") in Path("config/prices.layout.yaml").read_text()
    value = sql.expression(remark.partition("derive ")[2], "derive", {"when": pl.String()})
    assert frame.pipe(pl.from_pandas).select(value.alias("day"))["day"].to_list() == [day.date() for day in days]


# Files of flights ---------------------------------------------------------------------------------------------------------


def bts_selection(rows: int = 3000) -> pl.DataFrame:
    """Columns that somebody chose at the Bureau of Transportation Statistics, without the delay at arrival."""
    late = RANDOM.random(rows) < 0.2
    delay = np.where(late, RANDOM.integers(15, 120, rows), 0)
    days = [f"{1 + row % 6}/{1 + row % 28}/2019 12:00:00 AM" for row in range(rows)]
    cancelled = np.arange(rows) % 180 == 0
    columns = {
        "FL_DATE": days,
        "OP_UNIQUE_CARRIER": chosen(rows, "AA", "UA", "DL"),
        "OP_CARRIER_FL_NUM": RANDOM.integers(1, 6000, rows),
        "ORIGIN": chosen(rows, "JFK", "LGA", "EWR"),
        "DEST": chosen(rows, "BOS", "ORD", "SFO"),
        "CRS_DEP_TIME": RANDOM.integers(6, 22, rows) * 100 + 5,
        "DEP_DELAY_NEW": pl.Series(delay.astype(float)),
        "CANCELLED": cancelled.astype(float),
        "DISTANCE": RANDOM.integers(100, 3000, rows).astype(float),
    }
    frame = pl.DataFrame(columns)
    return frame.with_columns(
        DEP_DELAY_NEW=pl.when(pl.col("CANCELLED") == 1).then(None).otherwise(pl.col("DEP_DELAY_NEW"))
    )


LATE_DEPARTURE = "late_departure ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"


@pytest.mark.slow
def test_a_selection_without_arrivals_asks_for_late_departures():
    bts_selection().write_csv("mine.csv")
    config, said, layout, *_ = surveyed("mine.csv")
    assert layout == load_layout("bts_custom") and formula(config) == LATE_DEPARTURE
    assert config.data.derive == {"late_departure": "dep_delay_new >= 15"}
    assert config.data.where == {"departed": "dep_delay_new IS NOT NULL"}
    assert "departs 15 minutes late or more" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"FL_DATE": pl.lit("2019-03-04")}, "late_departure ~ carrier + origin + dest + dep_hour + distance"),
        ({"DEP_DEL15": (pl.col("DEP_DELAY_NEW") >= 15).cast(pl.Float64), "DEP_DELAY_NEW": None}, LATE_DEPARTURE),
        ({"CRS_DEP_TIME": None, "DISTANCE": None}, LATE_DEPARTURE.replace(" + dep_hour + distance", "")),
        ({"ARR_DELAY": pl.col("DEP_DELAY_NEW")}, LATE_DEPARTURE.replace("late_departure", "late")),
    ],
)
def test_a_layout_of_flights_needs_no_column_that_the_file_lacks(changes, expected):
    frame = bts_selection()
    for name, value in changes.items():
        frame = frame.drop(name) if value is None else frame.with_columns(value.alias(name))
    frame.write_csv("mine.csv")
    assert formula(surveyed("mine.csv").config) == expected


@pytest.mark.slow
def test_the_other_question_about_flights_is_shown_and_can_be_asked():
    bts_selection().with_columns(ARR_DELAY=pl.col("DEP_DELAY_NEW") + 1).write_csv("mine.csv")
    said = surveyed("mine.csv").said
    assert "late_departure (departs 15 minutes late or more, the official definition): snakemake" in said
    config = surveyed("mine.csv", Request("late_departure", output="config/departures.yaml")).config
    assert config.data.derive == {"late_departure": "dep_delay_new >= 15"}


def test_two_columns_that_flights_have_make_no_file_of_flights():
    frame = bts_selection().select("ORIGIN", "DEP_DELAY_NEW", "DISTANCE").rename({"ORIGIN": "place"})
    frame.write_csv("mine.csv")
    assert flights_in(Path("mine.csv")) is None


# Sums, exposures, classes and long tails ----------------------------------------------------------------------------------


def taxi_rides(rows: int = 2000) -> pl.DataFrame:
    """Rides whose total has fees that no column has, as in New York's trip records."""
    distance = RANDOM.gamma(2, 2, rows)
    fare = (3 + 2.5 * distance + RANDOM.normal(0, 1, rows)).clip(2.5).round(1)
    tolls = np.where(RANDOM.random(rows) < 0.06, 6.55, 0.0)
    tip = np.where(RANDOM.random(rows) < 0.6, 0.2 * fare + RANDOM.normal(0, 0.8, rows), 0.0).clip(0).round(2)
    total = fare + tolls + tip + RANDOM.choice([0.3, 0.8, 1.3, 3.3], rows)
    return pl.DataFrame(
        {"distance": distance.round(2), "fare": fare, "tolls": tolls, "total": total.round(2), "tip": tip}
    )


@pytest.mark.parametrize("response", ["tip", "fare"])
def test_a_total_with_fees_that_the_file_lacks_is_a_leak(response):
    taxi_rides().write_csv("taxis.csv")
    config, said, *_ = surveyed("taxis.csv", Request(response))
    assert "total" not in formula(config) and left_out(said)["total"].startswith("a leak: nearly the sum ")
    assert "distance" in formula(config)


def test_the_parts_of_a_total_are_leaks():
    taxi_rides().write_csv("taxis.csv")
    config, said, *_ = surveyed("taxis.csv", Request("total"))
    assert formula(config) == "total ~ distance"
    assert left_out(said)["fare"] == "a leak: fare + tolls + tip is nearly the response"


def test_numbers_that_go_together_make_no_sum():
    frame = taxi_rides().with_columns(total=pl.col("fare") * 1.5 + RANDOM.normal(0, 1, 2000))
    frame.write_csv("taxis.csv")
    assert "nearly the sum" not in surveyed("taxis.csv", Request("tip")).said


@pytest.mark.parametrize(("name", "factor"), [("person_years", 1.0), ("population", 1000.0), ("Exposure", 0.001)])
def test_the_exposure_of_a_count_is_its_offset(name, factor):
    years = RANDOM.gamma(2, 1, ROWS).clip(0.2)
    age = RANDOM.integers(30, 80, ROWS)
    deaths = RANDOM.poisson(years * np.exp(-1 + 0.03 * (age - 50)))
    source = written("cohort.csv", age=age, **{name: (factor * years).round(6)}, deaths=deaths)
    config, said, *_ = surveyed(source)
    model = config.models["deaths"]
    assert (model.formula, model.family, model.offset) == ("deaths ~ age", "poisson", f"log({name})"), said
    assert name in config.data.columns and f"deaths ~ age; offset: log({name}); standard errors: robust" in said


@pytest.mark.slow
def test_an_exposure_of_0_or_of_no_count_is_no_offset():
    size, years = RANDOM.normal(9, 2, ROWS), RANDOM.gamma(2, 1, ROWS)
    source = written("x.csv", person_years=years, price=size + years)
    assert surveyed(source).config.models["price"].offset is None
    years[3] = 0.0
    source = written("y.csv", person_years=years, visits=RANDOM.poisson(2, ROWS), size=size)
    model = surveyed(source).config.models["visits"]
    assert model.offset is None and "person_years" in model.formula


def flowers(apart: float) -> pl.DataFrame:
    """Three species; the first is so many standard deviations apart by its petals."""
    species = np.repeat(["setosa", "versicolor", "virginica"], 100)
    place = np.repeat([0.0, apart, apart + 1.0], 100)
    columns = {
        "sepal": RANDOM.normal(5, 1, 300) + 0.3 * place,
        "petal": RANDOM.normal(0, 1, 300) + place,
        "species": species,
    }
    return pl.DataFrame(columns)


@pytest.mark.slow
def test_a_text_of_three_values_in_the_last_column_is_a_response_of_classes():
    flowers(1.0).write_csv("iris.csv")
    config, said, *_ = surveyed("iris.csv")
    model = config.models["species"]
    assert (model.formula, model.family) == ("species ~ sepal + petal", "multinomial")
    assert model.std_errors == "robust" and not model.l2
    assert "Response: species, the last column that could be one; one of 3 classes; multinomial" in said
    assert "If the classes have an order: family: ordinal" in Path("config/iris.yaml").read_text()


def test_classes_that_covariates_tell_apart_get_a_ridge():
    flowers(12.0).write_csv("iris.csv")
    config, said, *_ = surveyed("iris.csv")
    assert config.models["species"].l2 == 0.001 and "sepal + petal; a ridge, so no standard errors" in said
    assert "The covariates tell some classes apart" in Path("config/iris.yaml").read_text()


def test_separated_classes_are_found_as_a_fit_would_find_them():
    """Neither class is beyond the others in one covariate; a line parts them. One row across the line, and none does."""
    x = RANDOM.normal(0, 1, (300, 2))
    group = np.where(x.sum(1) > 0, "a", np.where(x[:, 0] > 0, "b", "c"))
    rows = pl.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": group})
    assert separates(rows, (), "y")
    mixed = rows.with_columns(y=pl.Series(RANDOM.permutation(group)))
    assert not separates(mixed, (), "y")
    assert separates(mixed.with_columns(g=pl.col("y").replace({"b": "a"})), ("g",), "y")


def test_a_factor_with_a_level_that_lacks_a_class_is_left_out():
    frame = flowers(1.0).with_columns(
        island=pl.when(pl.col("species") == "setosa").then(pl.lit("x")).otherwise(pl.lit("y"))
    )
    frame.select("island", "sepal", "petal", "species").write_csv("iris.csv")
    assert "x has fewer than 5 rows of versicolor, so its effect" in left_out(surveyed("iris.csv").said)["island"]


def test_a_number_that_two_units_have_most_of_joins_as_its_logarithm():
    units = 40
    size = np.exp(RANDOM.normal(0, 2.5, units)) * 1e6
    country = np.repeat(np.arange(units), 10)
    frame = pl.DataFrame(
        {
            "country": [f"country {number}" for number in country],
            "population": (size[country] * RANDOM.uniform(0.9, 1.1, 400)).round(0),
            "rain": RANDOM.normal(9, 2, 400),
            "expectancy": 60 + np.log(size[country]) + RANDOM.normal(0, 1, 400),
        }
    )
    frame.write_csv("countries.csv")
    config, said, *_ = surveyed("countries.csv")
    assert formula(config) == "expectancy ~ log(population) + rain", said
    assert config.models["expectancy"].std_errors == "cluster(country)"


def test_departure_delay_explains_no_arrival_delay_in_any_file():
    early, wind = RANDOM.normal(0, 10, ROWS), RANDOM.normal(9, 2, ROWS)
    source = written("mine.csv", Departure_Delay=early, wind=wind, Arrival_Delay=early + RANDOM.normal(0, 3, ROWS))
    config, said, *_ = surveyed(source)
    assert formula(config) == "Arrival_Delay ~ wind" and "once the flight has left" in left_out(said)["Departure_Delay"]


# What data can write into a config ---------------------------------------------------------------------------------------

ODD = [
    chr(code)
    for code in (*range(1, 0xA1), 0xAD, 0x200B, 0x200E, 0x2028, 0x2029, 0x202E, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF)
]
ODD += [
    *("\ud800", "\udcff", "\U0001f6eb", "\U0001f469\u200d\U0001f4bb", "\U000e0041"),
    *(": ", " #", "- ", "'", '"', "\\", "{", "]", "&a", "*a", "!t"),
]
NASTY = (
    [f"a{odd}b" for odd in ODD]
    + [f"a{odd}score: [q.csv] #" for odd in ODD]
    + [f"{odd}\n---\nscore: 1\n" for odd in ODD]
)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, len(NASTY), 40))
def test_nothing_of_the_data_becomes_a_key_of_a_config(number):
    """Names, values, labels, paths and remarks of any characters, through YAML and the loader of a run."""
    nasty = NASTY[number : number + 40]
    columns = [
        ColumnSummary(f"c{place}", "text", 0, 3, text, text, ((text, 2), ("x", 1)), label=text)
        for place, text in enumerate(nasty)
    ]
    for text in nasty:
        layout = Layout.model_construct(
            missing=[*nasty],
            header=[text],
            sheet=text,
            comment=text,
            columns={"c": LayoutColumn.model_construct(type="integer", source=text, label=text, labels={"1": text})},
        )
        written = layout_text(text, layout, {"c": text}, {"d": text}, {})
        for read in (yaml.safe_load(written), parse(written, "x")):
            assert read["missing"] == nasty and read["columns"]["c"]["source"] == read["sheet"] == text
            assert (
                read["columns"]["c"]["labels"] == {1: text}
                and read["header"] == [text]
                and read["derive"] == {"d": text}
            )
            assert set(read) == {"missing", "header", "sheet", "comment", "columns", "derive"}
        response = ProposedResponse("r", "r", Gaussian(), text, pl.Series([1.0]), {"r": text}, {text: text})
        proposal = Proposal(response, {"c": "c"}, {text: text})
        written = config_text(text, text, text, True, proposal, Calendar(), columns)
        for read in (yaml.safe_load(written), parse(written, "x")):
            assert set(read) == {"data", "models"} and read["data"]["files"] == [text]
            assert read["data"]["derive"] == {"r": text} and read["data"]["where"] == {text: text}


@pytest.mark.parametrize(
    "odd", ["\x07", "\x85", "\u2028", "\u2029score: [q.csv] #", "\x9b", "\ufeff", "\u200b", ": ", " #"]
)
def test_odd_characters_of_a_file_end_in_a_config_that_reads_it(odd):
    value, other = f"a{odd}b", "c"
    columns = {
        f"size{odd}cm": RANDOM.normal(0, 1, ROWS),
        "city": chosen(ROWS, value, other),
        "hit": chosen(ROWS, value, other),
    }
    config, *_, layout, file = surveyed(written("x.csv", **columns), Request("hit"))
    (model,) = config.models.values()
    assert config.score == [] and "city" in model.formula and config.data.derive
    assert {column.source for column in layout.columns.values()} == columns.keys()
    assert sorted(file.values("city")) == sorted([value, other])


def test_the_tutorial_shows_what_init_prints(folder):
    """`...` stands for lines that the page leaves out."""
    page = (REPOSITORY / "docs" / "tutorial-lettings.md").read_text(encoding="utf-8")
    Path("docs").symlink_to(REPOSITORY / "docs")
    blocks = re.findall(r"^```\n\$ tfglm init ([^\n]*)\n(.*?)```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for command, printed in blocks:
        source, *options = shlex.split(command)
        request = Request(**dict(option.removeprefix("--").split("=", 1) for option in options))
        said: list[str] = []
        init(source, Path("config"), said.append, request, "tfglm")
        parts = [re.escape(part.strip("\n")) for part in re.split(r"^\.\.\.$", printed, flags=re.MULTILINE)]
        assert re.fullmatch(r"(.*\n)*?".join(part + r"\n?" for part in parts), "\n".join(said) + "\n"), "\n".join(said)
