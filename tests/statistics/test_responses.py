"""Responses that a formula computes, and formulas without terms, against R (tests/golden/responses.R)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from configs import message
from pools import average_rows, estimates_of, fit_files, ingest_frame, margins, predicted, table_of, to_predict
from tfglm.errors import UserError
from tfglm.formula.response import with_computed_responses
from tfglm.report import sentences
from tfglm.report.words import NO_WORDS
from tfglm.results import coefficients
from tfglm.results.geometric import logarithm_of
from tfglm.results.scenario_table import scenario_table

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "responses.json").read_text())
FAMILIES = {"cbind(": "binomial", "I(delay >": "binomial", "late": "binomial", "day": "poisson"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = pd.read_csv(GOLDEN / "clustered.csv")
    return frame.assign(amount=np.exp(frame["delay"]), events=np.minimum(frame["day"], 3 * frame["late"] + 1))


def fit_formula(frame: pd.DataFrame, formula: str, folder: Path, split: dict[str, str] | None = None):
    """Fit a formula as a config with it would be."""
    family = next((family for start, family in FAMILIES.items() if formula.startswith(start)), "gaussian")
    columns = ["amount", "hour", "carrier", "wind"] if formula.endswith(".") else list(frame.columns)
    model = {"formula": formula, "family": family}
    config = with_computed_responses(
        {"data": {"columns": columns, "split": split or {"train": "TRUE"}}, "models": {"m": model}}
    )
    file = ingest_frame(frame, folder, **config["data"])
    return file, *fit_files([file], **config["models"]["m"])


@pytest.mark.parametrize("formula", EXPECTED)
def test_coefficients_are_those_of_r(frame, tmp_path, formula):
    _, design, fitted, _ = fit_formula(frame, formula, tmp_path)
    table, expected = table_of(design, fitted), EXPECTED[formula]
    names = ["Intercept" if name == "(Intercept)" else name for name in np.atleast_1d(expected["names"])]
    found = {f"{term}{level}": row for (term, level), row in table.iterrows()}
    # R's errors of a GLM are those of its last step but one.
    for column, values, tolerance in (("estimate", "coefficients", 1e-9), ("std_error", "std_errors", 1e-6)):
        assert [found[name][column] for name in names] == pytest.approx(np.atleast_1d(expected[values]), rel=tolerance)
    assert fitted.summary["deviance"] == pytest.approx(expected["deviance"], rel=1e-9)
    assert fitted.summary["formula"] == design.formula


@pytest.mark.parametrize("formula", [formula for formula, expected in EXPECTED.items() if "means" in expected])
def test_means_of_a_logarithm_are_geometric_means(frame, tmp_path, formula):
    file, design, fitted, _ = fit_formula(frame, formula, tmp_path)
    means = margins(design, fitted, [file], {}, 0.95).means
    shown = means[["geometric_mean", "geometric_ci_lower", "geometric_ci_upper"]]
    assert shown.to_numpy(float) == pytest.approx(np.array(EXPECTED[formula]["means"]), rel=1e-9)


def test_scenarios_of_a_logarithm_are_geometric_means_and_ratios(frame, tmp_path):
    """Against least squares of the logarithm by NumPy."""
    file, design, fitted, _ = fit_formula(frame, "log10(amount) ~ hour * carrier", tmp_path)
    scenarios = {"early": {"hour": "6"}, "late": {"hour": "18"}}
    averaged = average_rows(design, fitted, [file], margins_at=scenarios)
    halves = {
        "half": {"early": 0.5, "late": 0.5},
        "later": {"late": 1.0, "early": -1.0},
        "sum": {"early": 1.0, "late": 1.0},
    }
    table = scenario_table(design, fitted, averaged, {}, 0.95, halves)
    table = table.set_index(["at", "against", "term", "level"])
    carriers = pd.get_dummies(frame["carrier"], dtype=float).to_numpy()
    x = np.column_stack([carriers, carriers * frame[["hour"]].to_numpy()])
    b = np.linalg.lstsq(x, np.log10(frame["amount"]), rcond=None)[0]
    early, late = (np.mean(np.column_stack([carriers, carriers * hour]) @ b) for hour in (6, 18))
    means, ratios = table["geometric_mean"], table["ratio"]
    assert means["early", "", "", ""] == pytest.approx(10**early, rel=1e-9)
    assert means["half", "", "", ""] == pytest.approx(10 ** ((early + late) / 2), rel=1e-9)
    assert ratios["later", "", "", ""] == pytest.approx(10 ** (late - early), rel=1e-9)
    assert means.notna().sum() == 3 and np.isnan(ratios["early", "", "", ""]) and np.isnan(ratios["sum", "", "", ""])
    interval = table.loc[("later", "", "", ""), ["ci_lower", "ci_upper"]].to_numpy(float)
    shown = table.loc[("later", "", "", ""), ["ratio_ci_lower", "ratio_ci_upper"]].to_numpy(float)
    assert shown == pytest.approx(10**interval, rel=1e-9)
    of_carriers = table[table.index.get_level_values("term") == "carrier"]
    assert of_carriers["ratio"].to_numpy(float) == pytest.approx(
        10 ** of_carriers["estimate"].to_numpy(float), rel=1e-9
    )


def test_predictions_of_a_logarithm_have_geometric_means(frame, tmp_path):
    formula = "log(amount) ~ hour + carrier"
    _, design, fitted, _ = fit_formula(frame, formula, tmp_path / "fitted")
    rows = predicted(design, fitted, to_predict(frame.head(5), tmp_path))
    rows = rows[["geometric_mean", "geometric_ci_lower", "geometric_ci_upper"]]
    assert rows.to_numpy() == pytest.approx(np.array(EXPECTED[formula]["predictions"]), rel=1e-9)


@pytest.mark.parametrize(("formula", "base"), [("log(amount) ~ hour", np.e), ("log10(amount) ~ hour", 10.0)])
def test_sentences_tell_the_ratio_of_geometric_means(frame, tmp_path, formula, base):
    _, design, fitted, _ = fit_formula(frame, formula, tmp_path)
    table = coefficients.table(estimates_of(design, fitted), 0.95)
    facts = sentences.ModelFacts(
        "log(amount)", None, None, 1.0, NO_WORDS, {}, (), logarithm=logarithm_of(formula, "gaussian", None)
    )
    (told,) = sentences.effect_sentences(table, facts)
    more = 100 * (base ** table["estimate"].iloc[1] - 1)
    assert told.sentences[0].startswith(f"amount (geometric mean) is {more:.0f} % higher (")
    assert told.sentences[0].endswith("for each unit more of hour.")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("log(delay) ~ hour", "`log(delay)` of the response has no value in 3 rows, which do not meet `(delay) > 0`"),
        ("sqrt(delay) ~ hour", "`sqrt(delay)` of the response has no value in 2 rows"),
        ("cbind(events, day - events) ~ hour", "`day - events` of the response has no value in 1 row,"),
    ],
)
def test_rows_without_a_value_of_the_response_are_counted_and_refused(frame, tmp_path, formula, said):
    rows = frame[frame["delay"] > 0].head(200).reset_index(drop=True)
    rows.loc[[3, 5], "delay"] = -1.5
    rows.loc[7, "delay"] = 0
    rows.loc[11, "events"] = 99
    # A missing response is a row without one, as always.
    rows["delay"] = rows["delay"].where(rows.index != 13)
    refused = message(fit_formula, rows, formula, tmp_path)
    assert said in refused and "data: {where: {valid: " in refused


def test_a_dot_refuses_a_text_column_with_thousands_of_levels(frame, tmp_path):
    rows = pd.concat([frame] * 3, ignore_index=True)
    rows = rows.assign(carrier=[f"unit {number}" for number in range(len(rows))])
    with pytest.raises(UserError, match=r"`\.` includes the text column `carrier` with [\d,]+ levels.*`\. - carrier`"):
        fit_formula(rows, "log(amount) ~ .", tmp_path)
