"""Scenarios on the first page."""

import numpy as np
import pandas as pd

from tfglm.report.scenarios import scenarios_of
from tfglm.report.words import Words
from tfglm.results.geometric import RATIOS, RETRANSFORMED

WANTED = {"early": {"hour": "8"}, "late": {"hour": "18", "carrier": "UA"}}
WORDS = Words({"carrier": {"UA": "United"}, "size": {"1": "small"}}, {}, {"hour": "hour of departure"})


def table(**more) -> pd.DataFrame:
    names = ["at", "against", "term", "level", "reference", "estimate", "std_error", "ci_lower", "ci_upper"]
    names += ["p_value", "status"]
    rows = [
        ("early", "", "", "", "", 0.25, 0.02, 0.21, 0.29, np.nan, ""),
        ("late", "", "", "", "", 0.35, 0.02, 0.31, 0.39, np.nan, ""),
        ("late", "early", "", "", "", 0.1, 0.02, 0.06, 0.14, 0.00001, ""),
        ("early", "", "carrier", "UA", "AA", 0.05, 0.02, 0.01, 0.09, 0.012, ""),
        ("late", "early", "hour", "", "", np.nan, np.nan, np.nan, np.nan, np.nan, "separated"),
    ]
    return pd.DataFrame(rows, columns=names).assign(**more)


def test_means_differences_and_effects_are_told_in_the_words_of_the_user():
    told = scenarios_of(table(), WANTED, 1000, "late", True, WORDS)
    assert told.described == ["early: hour of departure = 8", "late: hour of departure = 18, carrier = United"]
    assert [(row.level, row.mean, row.rows) for row in told.means.rows] == [
        ("early", "25.0 %", "1,000"),
        ("late", "35.0 %", "1,000"),
    ]
    assert told.differences is not None and told.effects is not None
    assert told.differences.iloc[0].tolist() == ["late less early", "10.0", "6.0", "14.0", "< 0.0001"]
    assert told.effects.iloc[0].tolist() == ["carrier: United vs AA", "early", "5.0", "1.0", "9.0", "0.0120", ""]
    assert told.effects.iloc[1].tolist() == ["hour of departure, +1", "late less early", "", "", "", "", "separated"]


def test_classes_have_their_share_and_one_scenario_has_no_difference():
    rows = table(**{"class": "1"}).iloc[:1]
    told = scenarios_of(rows, {"early": {"hour": "8"}}, 1000, "size", False, WORDS)
    assert told.differences is None and told.effects is None and told.means.classes == ["small"]


def test_means_of_a_logarithm_are_geometric_and_their_differences_ratios():
    rows = table().iloc[[0, 1, 2, 3]]
    is_mean = rows["against"].eq("") & rows["term"].eq("")
    powers = {name: np.exp(rows[name]) for name in ("estimate", "ci_lower", "ci_upper")}
    for names, shown in ((RETRANSFORMED, is_mean), (RATIOS, ~is_mean)):
        rows = rows.assign(
            **{name: power.where(shown) for name, power in zip(names.values(), powers.values(), strict=True)}
        )
    told = scenarios_of(rows, WANTED, 1000, "log_price", False, WORDS)
    assert told.means.measure == "geometric mean" and told.means.rows[0].mean == f"{np.exp(0.25):.3f}"
    assert told.differences is not None and told.effects is not None
    assert told.differences.columns[:2].tolist() == ["where", "ratio of geometric means"]
    assert told.differences.iloc[0].tolist() == ["late vs early", "1.105", "1.062", "1.150", "< 0.0001"]
    assert told.effects.iloc[0].tolist()[:3] == ["carrier: United vs AA", "early", "1.051"]
