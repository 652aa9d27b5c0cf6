"""Likelihood ratios and profiles of negative binomial regressions whose theta is estimated, against statsmodels, which maximises
the likelihood over coefficients and theta together."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

from oracles import model_matrix
from pools import estimates_of, fit_frame
from tfglm.results.joint import joint_tests

FORMULA = "count ~ carrier + hour"


def drawn(rows: int, random: np.random.Generator) -> pd.DataFrame:
    """Overdispersed counts, on which the carrier has no effect."""
    frame = pd.DataFrame({"carrier": random.choice(list("abc"), rows), "hour": random.normal(size=rows).round(3)})
    mean = np.exp(0.6 + 0.2 * frame["hour"])
    return frame.assign(count=random.negative_binomial(1.5, 1.5 / (1.5 + mean)))


ROWS = drawn(150, np.random.default_rng(12))


def log_likelihood(matrix: pd.DataFrame, offset: np.ndarray | None = None, rows: pd.DataFrame = ROWS) -> float:
    """The maximum over coefficients and theta."""
    model = sm.NegativeBinomial(rows["count"], matrix.to_numpy(), offset=offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it has not converged where it comes no closer
        return model.fit(method="bfgs", maxiter=500, gtol=1e-9, disp=0).llf


def test_a_term_is_tested_against_a_fit_with_a_theta_of_its_own(tmp_path):
    design, fitted = fit_frame(ROWS, FORMULA, "negative_binomial", tmp_path, tests="likelihood_ratio")
    table = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).set_index("term")
    whole = log_likelihood(model_matrix(ROWS, FORMULA))
    assert fitted.summary["log_likelihood"] == pytest.approx(whole, rel=1e-10)
    for term, others, df in (("carrier", "count ~ hour", 2), ("hour", "count ~ carrier", 1)):
        less = log_likelihood(model_matrix(ROWS, others))
        test = table.loc[term]
        assert test["chi_squared"] == pytest.approx(2 * (whole - less), abs=1e-7)
        assert (test["df"], test["note"]) == (df, "likelihood ratio")
        assert test["p_value"] == pytest.approx(scipy.stats.chi2.sf(2 * (whole - less), df), rel=1e-6)
        assert test["aic_without"] == pytest.approx(-2 * less + 2 * (5 - df), rel=1e-9)


@pytest.mark.slow
def test_a_separated_level_is_tested_so_too(tmp_path):
    rows = ROWS.assign(count=np.where(ROWS["carrier"] == "c", 0, ROWS["count"]))
    _, fitted = fit_frame(rows, FORMULA, "negative_binomial", tmp_path)
    (test,) = fitted.summary["likelihood_ratio_tests"]
    rest = rows[rows["carrier"] != "c"]
    # The rows of the level have a likelihood of 1 in the whole model.
    whole = log_likelihood(model_matrix(rest, FORMULA), rows=rest)
    less = log_likelihood(model_matrix(rows, "count ~ hour"), rows=rows)
    assert test["chi_squared"] == pytest.approx(2 * (whole - less), abs=1e-7) and test["df"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("of", ["hour", "levels"])
def test_a_profile_has_a_theta_of_its_own_at_each_value(tmp_path, of):
    weights = {"hour": {"hour": 1.0}, "levels": {"carrier[b]": 1.0, "carrier[c]": -1.0}}[of]
    _, fitted = fit_frame(ROWS, FORMULA, "negative_binomial", tmp_path, profile={of: weights})
    (ours,) = fitted.summary["profile"]
    matrix = model_matrix(ROWS, FORMULA)
    whole, held = log_likelihood(matrix), matrix.drop(columns=[("hour", "")])
    column = matrix[("hour", "")]
    if of == "levels":
        # b = c + value.
        held, column = matrix.drop(columns=[("carrier", "b")]), matrix[("carrier", "b")]
        held[("carrier", "c")] += column
    assert ours["note"] == ""
    for end in ("ci_lower", "ci_upper"):
        at_end = log_likelihood(held, ours[end] * column.to_numpy())
        assert 2 * (whole - at_end) == pytest.approx(scipy.stats.chi2.ppf(0.95, 1), abs=1e-5)
