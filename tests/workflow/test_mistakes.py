"""Mistakes in a config are found before a row is read, all at once, each told by its cause with its place and remedy."""

import copy
from collections.abc import Callable

import pytest

from config_cases import LAYOUT, VALID
from configs import message
from tfglm.config import Layout, SelectionConfig, column_problems, in_file, load
from tfglm.data.selection import selection
from tfglm.design.early import model_problems
from tfglm.errors import Problems
from tfglm.formula.names import coefficient_without_class

MINE = Layout.model_validate(LAYOUT)


def told(change: Callable[[dict], object], layout: Layout = MINE) -> list[str]:
    """What is said of a valid config, changed, whose files have this layout."""
    raw, problems = copy.deepcopy(VALID[0]), Problems()
    # Models that are compared agree in their weights, which some of the changes are of.
    raw.pop("compare")
    change(raw)
    config = load(raw, "c.yaml", problems)
    of_models = model_problems(config, {"mine.yaml": layout})
    return [*problems.messages, *column_problems(config, [layout], of_models.unparsed), *of_models.messages]


def model(**keys) -> Callable[[dict], object]:
    return lambda raw: raw["models"]["binary"].update(keys)


def data(**keys) -> Callable[[dict], object]:
    return lambda raw: raw["data"].update(keys)


def test_what_is_valid_is_not_refused():
    assert told(lambda raw: None) == []
    assert told(lambda raw: (raw.clear(), raw.update(copy.deepcopy(VALID[1])))) == []


def test_a_column_that_is_misspelt_where_columns_are_kept_is_told_once():
    columns = ["carier" if name == "carrier" else name for name in VALID[0]["data"]["columns"]]
    (problem,) = told(data(columns=columns))
    assert problem.startswith("data.columns: no column `carier`; did you mean `carrier`?\n")


def test_a_column_that_is_not_kept_is_told_once_with_all_that_need_it():
    kept = [name for name in VALID[0]["data"]["columns"] if name != "origin"]
    (problem,) = told(data(columns=kept, missing={}))
    assert problem == "data.columns: lacks `origin`, needed by models.binary.formula, models.linear.formula; add it"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            model(formula="LATE ~ carrier", reference={}, contrasts={}),
            "formula: no column `LATE`; did you mean `late`?",
        ),
        (model(std_errors="cluster(dya)"), "models.binary.std_errors: no column `dya`; did you mean `day`?"),
        (model(offset="log(seets)"), "models.binary.offset: no column `seets`; did you mean `seats`?"),
        (model(weights="seets"), "models.binary.weights: no column `seets`; did you mean `seats`?"),
        (model(by=["carier"]), "models.binary.by: no column `carier`; did you mean `carrier`?"),
        (model(identity=["flight"]), "models.binary.identity: no column `flight`; data.columns has late, delay"),
        (data(rare={"carier": 2}), "data.rare: no column `carier`; did you mean `carrier`?"),
        (data(missing={"dest": "level"}), "data.missing: no column `dest`; data.columns has late, delay"),
    ],
)
def test_a_column_that_there_is_not_is_told_with_its_place(change, expected):
    (problem,) = told(change)
    assert expected in problem


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            model(formula="carrier ~ origin", reference={}, contrasts={}),
            "models.binary: the response `carrier` is text",
        ),
        (
            model(formula="late ~ log(carrier)", reference={}, contrasts={}),
            "`carrier` is text, and log() takes numbers",
        ),
        (model(weights="carrier"), "models.binary.weights: `carrier` is text"),
        (model(trials="delay"), "models.binary.trials: `delay` must hold whole numbers"),
        (model(offset="carrier"), "models.binary.offset: `carrier` is no number"),
        (model(offset="seats + 1"), "models.binary.offset: `seats + 1` is not supported"),
        (
            model(by=["day"], formula="late ~ late + carrier", reference={}, contrasts={}),
            "cannot be on the right-hand side too",
        ),
        (data(missing={"seats": "level"}), "`scale(seats)` is used as a number, which has no level for missing values"),
        (model(reference={"carier": "AA"}), "reference: `carier` is no factor of the formula; did you mean `carrier`?"),
        (model(reference={"month": 1}), "reference: `month` is no factor of the formula; did you mean `C(month)`?"),
        (
            model(contrasts={"x": {"carier[UA]": 1}}),
            "contrasts.x: no coefficient `carier[UA]`; did you mean those of `carrier`",
        ),
        (
            model(contrasts={"x": {"month[2]": 1}}),
            "contrasts.x: no coefficient `month[2]`; did you mean those of `C(month)`",
        ),
        (model(contrasts={"x": {"carrier": 1}}), "`carrier` has a coefficient for each level; write `carrier[level]`"),
    ],
)
def test_a_column_of_another_kind_and_a_term_that_there_is_not_are_found_before_a_row_is_read(change, expected):
    problems = told(change)
    assert len(problems) == 1 or "missing" in expected
    assert expected in problems[0]


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"reference": {"carrier": "AA"}}, "reference: `carrier`"),
        ({"reference": {"C(month)": 1}}, "reference: `C(month)`"),
        ({"pairwise": ["C(month)"]}, "pairwise: `C(month)`"),
        ({"contrasts": {"x": {"carrier[UA]": 1}}}, "contrasts.x: `carrier[UA]`"),
        ({"hypotheses": {"x": [{"distance": 1}, {"month[2]": 1}]}}, "hypotheses.x.2: `month[2]`"),
    ],
)
def test_what_is_asked_of_an_absorbed_factor_is_told_as_that(keys, place):
    absorbing = {
        "formula": "late ~ origin + distance",
        "absorb": ["carrier", "month"],
        "reference": {},
        "contrasts": {},
    }

    def change(raw: dict, **more) -> None:
        del raw["tables"]
        model(**absorbing | more)(raw)

    (problem,) = told(lambda raw: change(raw, **keys))
    assert problem.startswith(f"models.binary.{place} is of an absorbed factor, whose coefficients are not reported\n")
    (problem,) = told(lambda raw: change(raw, contrasts={"x": {"Intercept": 1, "distance": 2}}))
    assert problem.startswith("models.binary.contrasts.x: there is no `Intercept` where factors are absorbed")


def test_kinds_in_which_layouts_differ_are_not_judged():
    as_text = Layout.model_validate({"columns": LAYOUT["columns"] | {"seats": "string"}})
    config = load(VALID[0], "c.yaml")
    assert "`seats` is text" in "".join(model_problems(config, {"b": as_text}).messages)
    assert model_problems(config, {"a": MINE, "b": as_text}).messages == []


def test_what_is_not_to_be_made_is_in_nobodys_way():
    def change(raw: dict) -> None:
        other = {"formula": "lat ~ nix + (", "family": "binomial", "by": ["nix"], "path": {}}
        raw["models"]["other"] = other
        del raw["data"]["split"]["evaluate"]
        raw.update(fit=["linear"])

    assert told(change) == []
    assert "models.other.path.select: there are no rows to evaluate on" in message(
        told, lambda raw: (change(raw), raw.update(fit=["other"]))
    )


def test_the_regression_under_a_network_is_to_be_made_too():
    def change(raw: dict) -> None:
        raw["models"]["under"] = {"formula": "late ~ nix", "family": "binomial"}
        raw["networks"] = {"over": {"formula": "late ~ carrier", "family": "binomial", "offset_from": "under"}}
        raw.update(fit=["over"])

    (problem,) = told(change)
    assert problem.startswith("models.under.formula: no column `nix`")


def test_mistakes_within_a_model_do_not_hide_those_of_others():
    def change(raw: dict) -> None:
        raw["models"]["binary"] |= {"family": "logistic"}
        raw["models"]["linear"] |= {"formula": "delay ~ orgin", "weights": "carrier"}

    problems = told(change)
    assert [problem.partition(": ")[0] for problem in problems] == [
        "c.yaml",
        "models.linear.formula",
        "models.linear.weights",
    ]
    assert problems[0].startswith("c.yaml: models.binary.family: expected `gaussian`")


def test_a_mistake_in_a_sweep_is_told_where_it_stands_and_once():
    sweep = {"l2": [0.1, -1], "max_iterations": [5, 6, 7]}
    problems = told(model(sweep=sweep, std_errors="classical"))
    assert problems == ["c.yaml: models.binary.sweep.l2: expected a number >= 0 and <= 1000000000, received -1"]
    (problem,) = told(model(sweep={"l2": [0.1, 0.2, 0.3]}, std_errors="classical", formula="late ~ carrier + foo(day)"))
    assert problem.startswith("models.binary_1.formula: `foo(day)` is not supported")
    assert problem.endswith("the same in models.binary_2, models.binary_3")


def test_all_expressions_that_are_wrong_are_told_by_their_place():
    layout = Layout.model_validate({**LAYOUT, "derive": {"half": "distnce / 2"}})
    settings = SelectionConfig.model_validate(
        {
            "derive": {"far": "half > 100", "near": "NOT far"},
            "where": {"flown": "dely > 1", "known": 'carrier = "UA"', "far": "far"},
            "split": {"train": "day <=", "evaluate": "carrier"},
            "columns": ["far", "dest"],
        }
    )
    lines = message(selection, layout, settings, "mine.yaml").splitlines()
    assert [line.partition(" ")[0] for line in lines if not line.startswith(" ")] == [
        "mine.yaml:",
        "data.columns:",
        "data.where.flown:",
        "data.where.known:",
        "data.split.train:",
        "data.split.evaluate:",
    ]
    assert lines[0].startswith("mine.yaml: derive.half: no column `distnce`")
    assert "text stands in single quotes: 'UA'" in "\n".join(lines)


def test_the_file_of_the_config_is_named_where_a_message_names_a_key_alone():
    assert (
        in_file("c.yaml", "models.m: a\n  b\nmine.yaml: derive.q: c")
        == "c.yaml: models.m: a\n  b\nmine.yaml: derive.q: c"
    )


def test_clusters_of_two_columns_are_written_with_a_plus():
    (problem,) = told(model(std_errors="cluster(day, origin)"))
    assert "models.binary.std_errors: `cluster(day, origin)`: write `cluster(day + origin)`" in problem
    (problem,) = told(model(std_errors="cluster(day + orgin)"))
    assert "models.binary.std_errors: no column `orgin`; did you mean `origin`?" in problem


@pytest.mark.parametrize(
    ("coefficient", "bare"),
    [
        ("distance", "distance"),
        ("late: distance", "distance"),
        ("on time: late: carrier[UA]", "carrier[UA]"),
        ("late: carrier[a: b]", "carrier[a: b]"),
        ("carrier:origin[UA: JFK]", "carrier:origin[UA: JFK]"),
        ("[late] x: distance", "distance"),
        ("a: [b]: carrier[UA]", "carrier[UA]"),
        ("[a]: carrier[b: c]", "carrier[b: c]"),
        ("carrier[a: b]", "carrier[a: b]"),
        ("late: distanc", "distanc"),
        ("distanc", "distanc"),
    ],
)
def test_a_coefficient_of_a_class_is_known_without_it(coefficient, bare):
    assert coefficient_without_class(coefficient, ["distance", "carrier", "carrier:origin", "Intercept"]) == bare
