"""The values at which coefficients hold, as pages state them, against predictions of statsmodels at these values."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from pools import fit_frame, table_of
from tfglm.report.coefficient_rows import Heading, rows_and_scale
from tfglm.report.conditions import conditions
from tfglm.report.strongest import short_table, strongest_effects
from tfglm.report.words import Words

RANDOM = np.random.default_rng(11)
ROWS = 400
FRAME = pd.DataFrame(
    {
        "x": RANDOM.uniform(50, 90, ROWS).round(1),
        "z": RANDOM.normal(3, 2, ROWS).round(2),
        "g": RANDOM.choice(["a", "b", "c"], ROWS),
        "h": RANDOM.choice(["u", "v"], ROWS),
        "k": RANDOM.integers(1, 4, ROWS),
    }
)
FRAME["y"] = 0.1 * FRAME["x"] * (1 + (FRAME["g"] == "b")) - FRAME["z"] + (FRAME["h"] == "v") + RANDOM.normal(size=ROWS)

STATED = {
    "y ~ x*z": {"x": "at z = 0", "z": "at x = 0"},
    "y ~ x*g + z": {"x": "at g = a", "g": "at x = 0"},
    "y ~ g*h + x": {"g": "at h = u", "h": "at g = a"},
    "y ~ C(k)*x": {"C(k)": "at x = 0", "x": "at k = 1"},
    "y ~ x*g*h": {
        "x": "at g = a and h = u",
        "g": "at x = 0 and h = u",
        "h": "at x = 0 and g = a",
        "x:g": "at h = u",
        "x:h": "at g = a",
        "g:h": "at x = 0",
    },
    "y ~ x + z:g": {},
    "y ~ x + x:g": {"x": "at g = a"},
    "y ~ g + g:x": {"g": "at x = 0"},
    "y ~ 0 + g + h:x + x": {"x": "at h = u"},
    "y ~ bs(x, df=4)*g": {"bs(x, df=4)": "at g = a", "g": "at bs(x, df=4) = 0"},
    "y ~ C(k, contr.sum)*x": {"C(k, contr.sum)": "at x = 0", "x": "at the mean of the levels of k"},
    "y ~ x + I(x**2) + z": {"x": "with I(x^2) unchanged", "I(x^2)": "with x unchanged"},
    "y ~ log(x) + x:z": {"log(x)": "with x:z unchanged", "x:z": "with log(x) unchanged"},
    "y ~ scale(x, center=False) + scale(z, center=False)": {},
    "y ~ s(x, by=g) + g": {"g": "at the mean of s(x)"},
    "y ~ x + s(g, bs=re) + s(g, x, bs=re)": {},
    "y ~ poly(x, 2)*z": {"poly(x, 2)": "at z = 0", "z": "at poly(x, 2) = 0"},
}


def coefficients(formula: str, folder, **settings) -> pd.DataFrame:
    return table_of(*fit_frame(FRAME, formula, "gaussian", folder, **settings)).reset_index()


@pytest.mark.parametrize("formula", STATED)
def test_a_coefficient_is_the_effect_at_the_values_that_its_name_states(formula, tmp_path):
    table = coefficients(formula, tmp_path)
    found = conditions(table, Words({}, {}, spans={"x": 40.0, "z": 9.0}))
    assert found == STATED[formula]
    if re.search(r"\b(s|poly|log)\(", formula):
        return
    model = smf.ols(formula.replace("contr.sum", "Sum"), FRAME).fit()
    for term, text in found.items():
        if ":" in term or "(" in term.replace("C(k)", "") or "unchanged" in text:
            continue
        column, levels = re.sub(r"C\((\w+)\)", r"\1", term), table.loc[(table["term"] == term), ["level", "estimate"]]
        base = {"x": 70.0, "z": 1.0, "g": "b", "h": "v", "k": 2} | {
            name: float(value) if value.isdigit() and name != "k" else int(value) if name == "k" else value
            for name, value in re.findall(r"(\w+) = (\w+)", text)
        }
        if "bs(" in text:
            base["x"] = FRAME["x"].min()
        rows = [base | {"k": k} for k in (1, 2, 3)] if "mean of the levels" in text else [base]

        def mean(value, rows=rows, column=column) -> float:
            return float(model.predict(pd.DataFrame([row | {column: value} for row in rows])).mean())

        for level, estimate in levels.itertuples(index=False):
            ends = (1.0, 0.0) if not level else (int(level), 1) if column == "k" else (level, levels["level"].iloc[0])
            assert estimate == pytest.approx(mean(ends[0]) - mean(ends[1]), abs=1e-8)


def test_pictures_and_tables_state_the_values(tmp_path):
    table = coefficients("y ~ x*g + z", tmp_path)
    items, _ = rows_and_scale(table, None)
    headings = {(item.term, item.remark) for item in items if isinstance(item, Heading)}
    assert ("numbers", "for so much more of each, at g = a") in headings
    assert ("numbers", "for so much more of each") in headings
    assert any(term == "g" and remark.endswith(", at x = 0") for term, remark in headings)
    labels = [row.label for row in strongest_effects(table, "d", None, 1.0, Words({}, {})).rows]
    assert "g: b vs a, at x = 0" in labels and any(re.fullmatch(r"x, \+\d+, at g = a", label) for label in labels)
    assert "x, at g = a" in [label for label, _ in short_table(table, None, Words({}, {})).rows]


def test_the_strongest_effects_are_average_effects_where_these_are_known(tmp_path):
    table = coefficients("y ~ x*g + z", tmp_path)
    model = smf.ols("y ~ x*g + z", FRAME).fit()
    design = np.zeros(len(model.params))
    design[[list(model.params.index).index(name) for name in ("x", "x:g[T.b]", "x:g[T.c]")]] = (
        1,
        (FRAME["g"] == "b").mean(),
        (FRAME["g"] == "c").mean(),
    )
    tested = model.t_test(design)
    lower, upper = tested.conf_int()[0]
    averages = pd.DataFrame(
        {
            "term": ["x", "z"],
            "level": "",
            "estimate": [tested.effect[0], 9.0],
            "ci_lower": [lower, 8.0],
            "ci_upper": [upper, 10.0],
        }
    ).assign(std_error=1.0, p_value=0.5)
    rows = {row.label: row for row in strongest_effects(table, "d", None, 1.0, Words({}, {}), averages).rows}
    step = next(label for label in rows if label.startswith("x, ") and label.endswith(", on average"))
    size = float(re.search(r"\+([\d,.]+)", step)[1].rstrip(",").replace(",", ""))
    assert rows[step].size.replace("−", "-") == f"{size * tested.effect[0]:#.3g}".rstrip(".")
    assert rows[step].interval.replace("−", "-") == f"{size * lower:#.3g} to {size * upper:#.3g}"
    assert any(label.startswith("g: b vs a, at x = 0") for label in rows)  # its average effect is not known
    assert not any("on average" in label for label in rows if label.startswith("z"))  # alone, it is what it is


def test_combinations_are_compared_with_one_only_where_their_term_stands_alone(tmp_path):
    beside, alone = (
        {
            row.label
            for row in strongest_effects(coefficients(formula, tmp_path / name), "d", None, 1.0, Words({}, {})).rows
        }
        for name, formula in (("beside", "y ~ g*h"), ("alone", "y ~ x + g:h"))
    )
    assert "g:h: b:v" in beside and "g: b vs a, at h = u" in beside and "g:h: b:v vs a:u" in alone


def test_levels_with_coefficients_of_their_own_have_average_effects_or_none(tmp_path):
    table = coefficients("y ~ 0 + g + x", tmp_path)
    (number,) = strongest_effects(table, "d", None, 1.0, Words({}, {})).rows
    assert number.label.startswith("x, +")
    averages = pd.DataFrame(
        {"term": "g", "level": ["b", "c"], "estimate": [3.0, 4.0], "ci_lower": 2.0, "ci_upper": 5.0}
    )
    averages = averages.assign(std_error=1.0, p_value=0.1)
    drawn = strongest_effects(table, "d", None, 1.0, Words({}, {}), averages).rows
    assert {row.label: row.size for row in drawn if row.label.startswith("g")} == {
        "g: b vs a, on average": "3.00",
        "g: c vs a, on average": "4.00",
    }


def test_a_penalised_number_holds_at_no_level_as_all_have_coefficients(tmp_path):
    assert conditions(coefficients("y ~ x*g + z", tmp_path, l2=0.1), Words({}, {})) == {"g": "at x = 0"}
