"""Profile intervals of Firth's penalised likelihood, as R's logistf has them, against a search for the maximum in NumPy."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats

from oracles import least_penalised, model_matrix
from pools import fit_frame

ROWS = pd.DataFrame(json.loads((Path(__file__).parents[1] / "golden" / "firth.json").read_text())["rows"])
FORMULA = "late ~ carrier + hour + both"


def fallen(x: np.ndarray, y: np.ndarray, family: str, t: np.ndarray, value: float) -> float:
    """Twice what the greatest penalised log-likelihood falls where t'b is `value`: over the coordinates of that plane."""
    inside = np.linalg.qr(np.column_stack([t, np.eye(len(t))]))[0][:, 1 : len(t)]
    there = least_penalised(x, y, family, inside, t * value / (t @ t))
    return 2 * (there - least_penalised(x, y, family))


CASES = {
    "hour": ("binomial", {"hour": 1.0}),
    "both": ("binomial", {"both": 1.0}),
    "levels": ("binomial", {"carrier[B6]": 1.0, "carrier[UA]": -1.0}),
    "poisson": ("poisson", {"hour": 1.0}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("separated", [False, True])
def test_the_penalised_likelihood_falls_to_the_ends_by_half_the_quantile(tmp_path, name, separated):
    family, weights = CASES[name]
    response = {"binomial": "late", "poisson": "flights"}[family]
    # All rows of a carrier have no event, which separates them: the interval has ends all the same.
    rows = ROWS.assign(**{response: np.where((ROWS["carrier"] == "B6") & separated, 0, ROWS[response])})
    formula = FORMULA.replace("late", response)
    _, fitted = fit_frame(rows, formula, family, tmp_path, firth=True, profile={name: weights})
    (ours,) = fitted.summary["profile"]
    matrix, y = model_matrix(rows, formula), rows[response].to_numpy(float)
    x = matrix.to_numpy(float)
    named = {(f"{term}[{level}]" if level else term): place for place, (term, level) in enumerate(matrix.columns)}
    t = np.zeros(x.shape[1])
    for coefficient, weight in weights.items():
        t[named[coefficient]] = weight
    assert ours["note"] == "" and ours["ci_lower"] < ours["estimate"] < ours["ci_upper"]
    for end in ("ci_lower", "ci_upper"):
        assert fallen(x, y, family, t, ours[end]) == pytest.approx(scipy.stats.chi2.ppf(0.95, 1), abs=2e-5)
    if separated and name == "levels":
        # Far from symmetric, as Wald's interval is.
        assert ours["estimate"] - ours["ci_lower"] > 1.5 * (ours["ci_upper"] - ours["estimate"])


def test_the_prior_is_that_of_the_whole_model_and_the_coverage_the_one_asked_for(tmp_path):
    settings = {"firth": True, "profile": {"hour": {"hour": 1.0}}, "profile_confidence": 0.8}
    _, fitted = fit_frame(ROWS, "late ~ hour", "binomial", tmp_path, **settings)
    (ours,) = fitted.summary["profile"]
    x, y = np.column_stack([np.ones(len(ROWS)), ROWS["hour"]]), ROWS["late"].to_numpy(float)
    assert fallen(x, y, "binomial", np.array([0.0, 1.0]), ours["ci_upper"]) == pytest.approx(
        scipy.stats.chi2.ppf(0.8, 1), abs=2e-5
    )


@pytest.mark.slow
def test_intervals_of_few_events_hold_the_truth_where_walds_do_too(tmp_path):
    # Of 60 rows with some 8 events; the large simulation is benchmarks/likelihoods.py.
    random, held = np.random.default_rng(7), np.zeros(2)
    for number in range(40):
        frame = pd.DataFrame({"x": random.normal(size=60).round(3)})
        frame["late"] = (random.random(60) < 1 / (1 + np.exp(2 - frame["x"]))).astype(int)
        _, fitted = fit_frame(
            frame, "late ~ x", "binomial", tmp_path / str(number), firth=True, profile={"x": {"x": 1.0}}
        )
        (ours,) = fitted.summary["profile"]
        held += [ours[f"{kind}_lower"] <= 1 <= ours[f"{kind}_upper"] for kind in ("ci", "wald")]
    assert held[0] >= 35  # of 40: less than 1 in 100 of samples of an interval of 95 % has fewer
