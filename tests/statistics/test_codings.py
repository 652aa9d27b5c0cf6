"""Sum, Helmert, polynomial and successive-difference coding of factors against R, and what else they must agree with."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from configs import message
from pools import design_of, estimates_of, fit_files, ingest_frame, margins, table_of
from tfglm import export
from tfglm.data.dictionary import merge
from tfglm.design.codings import contrasts
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.report.coefficient_rows import Heading, rows_and_scale
from tfglm.report.coefficients import sheet
from tfglm.report.words import Words
from tfglm.results import coefficients, effects
from tfglm.results.joint import joint_tests
from tfglm.results.pairwise import pairwise

GOLDEN = Path(__file__).parents[1] / "golden"
FITS = {
    "sum": ("late ~ C(carrier, contr.sum) + hour", "binomial"),
    "helmert": ("late ~ C(carrier, Helmert) + hour", "binomial"),
    "poly": ("delay ~ C(hours, contr.poly) + wind", "gaussian"),
    "diff": ("delay ~ C(hours, contr.diff()) + wind", "gaussian"),
    "both": ("delay ~ C(carrier, Sum) * C(origin, contr.helmert) + hour", "gaussian"),
    "mixed": ("delay ~ C(carrier, contr.sum) * C(origin) + hour", "gaussian"),
    "slopes": ("late ~ C(carrier, contr.sum) * hour", "binomial"),
    "slopes alone": ("delay ~ C(carrier, contr.sum) + C(carrier, contr.sum):hour", "gaussian"),
    "no intercept": ("delay ~ 0 + C(carrier, contr.sum) + C(origin, contr.helmert)", "gaussian"),
}
LEVELS = {"carrier": ["AA", "B6", "DL", "UA"], "origin": ["0", "1", "2"], "hours": ["-2", "-1", "0", "1", "2"]}


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "formulas.json").read_text())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = pd.read_csv(GOLDEN / "clustered.csv")
    hours = np.clip(np.round(frame["hour"]), -2, 2).astype(int)
    return frame.assign(origin=frame["day"] % 3, hours=hours)


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory) -> list:
    return [ingest_frame(frame, tmp_path_factory.mktemp("codings"))]


CODED = r"(?:C\((\w+), contr\.(\w+)\)|(origin))(.*)"


def in_formulaic(name: str) -> tuple[str, str]:
    """Term and level of a coefficient as formulaic names it, given R's name."""
    if name == "(Intercept)":
        return "Intercept", ""
    terms, levels = [], []
    for part in name.split(":"):
        number = re.fullmatch("hour|wind", part)
        coded, coding, plain, rest = ("", "", part, "") if number else re.fullmatch(CODED, part).groups()
        column = coded or plain
        if number:
            terms.append(column)
        elif not coding:
            terms.append(f"C({column})")
            levels.append(rest)
        else:
            coding = {"sdif": "diff"}.get(coding, coding)
            terms.append(f"C({column}, contr.{coding})")
            if coding == "poly" or rest in LEVELS["carrier"]:
                levels.append(rest)
            else:
                letter = {"sum": "S", "helmert": "H", "diff": "D"}[coding]
                levels.append(f"{letter}.{LEVELS[column][int(rest[0]) - (coding != 'helmert')]}")
    return ":".join(terms), ":".join(levels)


@pytest.mark.parametrize("name", FITS)
def test_coded_coefficients_and_their_errors_are_those_of_r(name, golden, files):
    formula, family = FITS[name]
    design, fitted, _ = fit_files(files, formula, family)
    assert Design.from_json(design.as_json) == design
    table, expected = table_of(design, fitted), golden["codings"][name]
    named = set()
    for theirs, estimate, error in zip(
        expected["names"], expected["coefficients"], expected["std_errors"], strict=True
    ):
        mine = table.loc[in_formulaic(theirs)]
        named.add(in_formulaic(theirs))
        assert mine["estimate"] == pytest.approx(estimate, rel=1e-6, abs=1e-6 * error), theirs
        assert mine["std_error"] == pytest.approx(error, rel=1e-5), theirs
    # What else is in the table is a reference level of another factor.
    others = table[[names not in named for names in table.index]]
    assert (others["estimate"] == 0).all() and others["std_error"].isna().all()
    assert all("C(origin)" in term for term, _ in others.index)


def test_joint_tests_with_sums_are_those_of_type_three(golden, files):
    design, fitted, _ = fit_files(files, "delay ~ C(carrier, contr.sum) * C(origin, contr.sum)", "gaussian")
    tests = joint_tests(estimates_of(design, fitted)).set_index("term")
    for term, df, value, p in zip(*(golden["type3"][key] for key in ("term", "df", "F", "p")), strict=True):
        assert tests.loc[term, "df"] == df
        assert tests.loc[term, ["F", "p_value"]].tolist() == pytest.approx([value, p], rel=1e-8)


def test_contrasts_are_those_of_r_for_many_levels():
    for size in (2, 5, 24, 95):
        poly = contrasts("contr.poly", size)
        np.testing.assert_allclose(poly.T @ poly, np.eye(size - 1), atol=1e-13)
        np.testing.assert_allclose(poly.sum(0), 0, atol=1e-13)
        assert (poly[-1, :20] > 0).all()  # a leading coefficient above 0
    np.testing.assert_array_equal(contrasts("contr.helmert", 4), [[-1, -1, -1], [1, -1, -1], [0, 2, -1], [0, 0, 3]])
    inverse = np.linalg.inv(np.column_stack([np.ones(4), contrasts("contr.diff", 4)]))
    np.testing.assert_allclose(inverse[1:], np.eye(4)[1:] - np.eye(4)[:-1], atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("std_errors", ["classical", "robust", "cluster(day)"])
def test_whatever_the_coding_the_model_is_the_same(std_errors, files, frame):
    """The effects of levels, curves, the exported coefficients, and sums of a table with those of another."""
    tables, estimates = {}, {}
    for coding in ("", ", contr.sum", ", contr.poly"):
        formula = f"late ~ C(hours{coding}) + bs(wind, df=4) + carrier"
        design, fitted, dictionary = fit_files(files, formula, "binomial", std_errors=std_errors)
        tables[coding] = margins(design, fitted, files, {}, 0.95)
        estimates[coding] = estimates_of(design, fitted)
        plain = export.description(design, estimates_of(design.by_levels, fitted), fitted.summary, {})
        assert [each["level"] for each in plain["coefficients"] if "hours" in each["term"]] == LEVELS["hours"]
        curves = effects.curves(estimates[coding], dictionary, 0.95)
        assert curves["effect"].to_numpy() == pytest.approx(effects.curves(estimates[""], dictionary, 0.95)["effect"])
        vcov = coefficients.covariance_table(estimates[coding])
        assert len(vcov) == 1 + 4 + 4 + 3 and np.linalg.eigvalsh(vcov.to_numpy()).min() > 0
    numbers = ["estimate", "std_error", "ci_lower", "ci_upper"]
    for coding in (", contr.sum", ", contr.poly"):
        for mine, theirs in zip(
            tables[coding].effects[numbers].to_numpy(), tables[""].effects[numbers].to_numpy(), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)
    treatment = coefficients.table(estimates[""], 0.95).set_index(["term", "level"])["estimate"].loc["C(hours)"]
    weights = {"C(hours, contr.sum)[S.1]": 1, "C(hours, contr.sum)[S.-1]": -1}
    difference = coefficients.contrasts(estimates[", contr.sum"], {"1 - -1": weights}, 0.95)["estimate"][0]
    assert difference == pytest.approx(treatment["1"] - treatment["-1"], rel=1e-8)
    with pytest.raises(UserError, match=r"`C\(hours, contr.sum\)\[S.2\]` is left out by its coding"):
        coefficients.contrasts(estimates[", contr.sum"], {"last": {"C(hours, contr.sum)[S.2]": 1}}, 0.95)


def test_a_sum_leaves_out_the_level_that_is_asked_for(files):
    design, fitted, _ = fit_files(files, "late ~ C(carrier, contr.sum) + hour", "binomial")
    last, first = (table_of(design, fitted, reference) for reference in ({}, {"C(carrier, contr.sum)": "AA"}))
    term = "C(carrier, contr.sum)"
    assert list(last.loc[term].index) == ["S.AA", "S.B6", "S.DL"] and list(first.loc[term].index) == [
        "S.B6",
        "S.DL",
        "S.UA",
    ]
    assert first.loc[(term, "S.UA"), "estimate"] == pytest.approx(-last.loc[term]["estimate"].sum(), rel=1e-9)
    assert first.loc[(term, "S.B6"), "std_error"] == pytest.approx(last.loc[(term, "S.B6"), "std_error"], rel=1e-9)


@pytest.mark.slow
def test_contrasts_are_without_separated_levels(frame, tmp_path):
    """As in a fit without their rows."""
    separated = frame.assign(late=np.where(frame["carrier"] == "DL", 1, frame["late"]))
    for coding in ("contr.sum", "contr.helmert", "contr.diff"):
        formula = f"late ~ C(carrier, {coding}) + hour"
        design, fitted, _ = fit_files([ingest_frame(separated, tmp_path / coding)], formula, "binomial")
        rest = ingest_frame(separated[separated["carrier"] != "DL"], tmp_path / f"{coding} rest")
        without = table_of(*fit_files([rest], formula, "binomial")[:2])
        table = table_of(design, fitted)
        level = f"{coding[6].upper()}.DL"
        assert table.loc[(f"C(carrier, {coding})", level), "status"] == "separated"
        table = table.drop(index=(f"C(carrier, {coding})", level))
        assert list(table.index) == list(without.index)
        np.testing.assert_allclose(table["estimate"], without["estimate"], rtol=1e-6)
        np.testing.assert_allclose(table["std_error"], without["std_error"], rtol=1e-6)
    design, fitted, _ = fit_files(
        [ingest_frame(separated, tmp_path / "poly")], "late ~ C(carrier, contr.poly) + hour", "binomial"
    )
    assert "in the order of their names: AA, B6, DL, UA" in design.warnings[0]
    with pytest.raises(UserError, match="the level `DL` has no finite coefficient, so there is no polynomial"):
        table_of(design, fitted)


@pytest.mark.parametrize(
    "formula", ["late ~ C(carrier, contr.poly) * hour", "late ~ carrier + hour", "late ~ 0 + carrier:wind"]
)
def test_levels_in_an_order_are_as_levels_whose_names_sort(frame, tmp_path, formula):
    order = ["UA", "AA", "DL", "B6"]
    renamed = frame.assign(
        carrier=frame["carrier"].map({level: f"{place}{level}" for place, level in enumerate(order)})
    )
    pair = []
    for name, rows, of_carrier in (("ordered", frame, {"carrier": order}), ("renamed", renamed, {})):
        files = [ingest_frame(rows, tmp_path / name)]
        design, fitted, _ = fit_files(files, formula, "binomial", order=of_carrier)
        means = margins(design, fitted, files, {}, 0.95)
        tables = coefficients.table(estimates_of(design, fitted), 0.95), means.means, means.effects
        if "wind" not in formula and "poly" not in formula:
            tables += (pairwise(estimates_of(design, fitted), ["carrier"], 0.95),)
        assert bool(design.warnings) == ("poly" in formula and name == "renamed")
        pair.append(tables)
    for mine, theirs in zip(*pair, strict=True):
        pd.testing.assert_frame_equal(mine, theirs.replace(r"^\d(?=[A-Z])", "", regex=True), rtol=1e-7, atol=1e-10)
    assert pair[0][1]["level"].tolist() == order


def test_a_redundant_column_is_dropped_as_r_drops_it(frame, tmp_path):
    files = [ingest_frame(frame.assign(state=(frame["carrier"] == "AA").astype(int)), tmp_path)]
    design, fitted, _ = fit_files(files, "delay ~ C(carrier, contr.sum) + C(state, contr.sum)", "gaussian")
    table = table_of(design, fitted)
    assert table["status"].tolist() == ["", "", "", "", "aliased"]
    alone = table_of(*fit_files(files, "delay ~ C(carrier, contr.sum)", "gaussian")[:2])
    np.testing.assert_allclose(table["estimate"].iloc[:4], alone["estimate"], rtol=1e-8)


REFUSED = {
    "late ~ C(carrier, contr.sum) + C(carrier):hour": "`carrier` is coded in two ways",
    "late ~ carrier + C(carrier, contr.sum)": "is coded in two ways, `carrier` and `C(carrier, contr.sum)`; choose one",
    "late ~ carrier + hour + C(carrier)": "`carrier` is coded in two ways, `carrier` and `C(carrier)`",
    "late ~ C(carrier, contr.SAS)": "or one of contr.sum, contr.helmert, contr.poly, contr.diff",
    "late ~ C(carrier, contr.poly(scores=[1, 2, 5, 6]))": "or one of contr.sum, contr.helmert",
    "late ~ C(day, contr.sum) * C(carrier)": "combinations of levels have no training rows",
    "late ~ C(number, contr.sum)": "has 400 levels, and contr.poly takes 95 at most",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_codings_that_cannot_be_are_refused(formula, frame, tmp_path):
    file = ingest_frame(frame.assign(number=range(len(frame))), tmp_path)
    formula = formula.replace("number, contr.sum", "number, contr.poly") if "number" in formula else formula
    assert REFUSED[formula.replace("number, contr.poly", "number, contr.sum")] in message(
        design_of, formula, "binomial", merge([file]), [file]
    )


def test_codings_are_refused_where_levels_are_rare_or_penalised(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    with pytest.raises(UserError, match="levels for rare or missing values have no place in this order"):
        design_of("late ~ C(day, contr.poly)", "binomial", merge([file], rare={"day": 10}), [file])
    design_of("late ~ C(day, contr.sum)", "binomial", merge([file], rare={"day": 10}), [file])
    with pytest.raises(UserError, match="a penalised fit has a coefficient for each level, whatever the coding"):
        design_of("late ~ C(carrier, contr.sum)", "binomial", merge([file]), [file], l2=0.1)


@pytest.mark.slow
def test_a_coding_beside_absorbed_factors_and_pairs_of_levels(files):
    plain, coded = (
        fit_files(files, f"late ~ C(carrier{coding}) + hour", "binomial", absorb=["origin"])[:2]
        for coding in ("", ", contr.sum")
    )
    treatment, sums = (table_of(*each) for each in (plain, coded))
    levels = treatment.loc["C(carrier)"]["estimate"]
    assert sums.loc["C(carrier, contr.sum)"]["estimate"].to_numpy() == pytest.approx(
        (levels - levels.mean())[:3], rel=1e-9
    )
    pairs = [
        pairwise(estimates_of(*fit_files(files, f"late ~ {term} + hour", "binomial")[:2]), [term], 0.95)
        for term in ("C(carrier)", "C(carrier, contr.helmert)")
    ]
    for column in ("estimate", "std_error", "p_tukey"):
        np.testing.assert_allclose(pairs[1][column], pairs[0][column], rtol=1e-9)


def test_pages_say_what_contrasts_compare(files):
    words = Words({"origin": {"0": "EWR", "1": "JFK", "2": "LGA"}}, {})
    formula = "late ~ C(origin, contr.sum) + C(carrier, contr.helmert) + C(hours, contr.poly) + C(origin, contr.sum):hour + hour"
    design, fitted, _ = fit_files(files, formula, "binomial")
    table = coefficients.table(estimates_of(design, fitted), 0.95)
    items, _ = rows_and_scale(table, "odds_ratio", words)
    headings = {item.term: item.remark for item in items if isinstance(item, Heading)}
    assert headings["C(origin, contr.sum)"] == "against the mean of the levels, at hour = 0"
    assert headings["C(carrier, contr.helmert)"] == "against the mean of the levels before"
    assert headings["C(hours, contr.poly)"] == "" and headings["C(origin, contr.sum):hour"].startswith("for +")
    labels = [item.label for item in items if not isinstance(item, Heading)]
    assert labels[:4] == ["S.EWR", "S.JFK", "H.B6", "H.DL"]
    terms = {term.name: term.against for term in sheet(table, "odds_ratio", 0.95, words).terms}
    assert terms["C(origin, contr.sum)"] == "the mean of the levels"
