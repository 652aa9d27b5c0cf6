"""Fits whose first steps say little of how far to go, and what is said of fits that have not converged."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pools import fit_frame, table_of
from tfglm.config import SolverConfig
from tfglm.errors import UserError

SPAN = 24
"""Of the offset, on the logarithmic scale."""


def counts(seed: int, exposures: str) -> pd.DataFrame:
    """Counts that do not depend on an offset that spans so much: between groups, or between a few rows and all others."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": random.normal(size=400), "g": random.choice(list("abcdef"), 400)})
    of_group = frame["g"].map(dict(zip("abcdef", np.linspace(-SPAN / 2, SPAN / 2, 6), strict=True)))
    of_row = np.where(random.random(400) < 0.02, SPAN / 2, -SPAN / 2)
    frame["exposure"] = of_row if exposures == "rows" else of_group + 0.1 * random.normal(size=400)
    frame["count"] = random.poisson(np.exp(0.5 * frame["x"] + 1))
    frame["times"] = random.integers(1, 4, 400)
    return frame


FAMILIES = {"poisson": sm.families.Poisson(), "negative_binomial": sm.families.NegativeBinomial(alpha=0.5)}


@pytest.mark.parametrize("exposures", ["groups", "rows"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(2, 5))
def test_a_fit_whose_offset_spans_much_converges(tmp_path, family, exposures, seed):
    # With seed 2 and 3 the last group, of hardly any weight at first, is the one with the most rows, and seemed to be aliased.
    frame = counts(seed, exposures)
    settings = {"theta": 2.0} if family == "negative_binomial" else {}
    design, fitted = fit_frame(
        frame, "count ~ x + g", family, tmp_path, offset="exposure", frequency="times", **settings
    )
    assert fitted.summary["converged"] and fitted.summary["coefficients_aliased"] == 0
    matrix = sm.add_constant(pd.get_dummies(frame[["x", "g"]], drop_first=True).astype(float))
    model = sm.GLM(
        frame["count"], matrix, FAMILIES[family], offset=frame["exposure"], freq_weights=frame["times"].to_numpy()
    )
    exact = model.fit(maxiter=300, tol=1e-14)
    table = table_of(design, fitted).drop(("g", "a"))
    off = np.abs(table["estimate"].to_numpy() - exact.params.to_numpy())
    assert np.all(off <= 1e-6 * exact.bse.to_numpy())
    assert table["std_error"].to_numpy() == pytest.approx(exact.bse.to_numpy(), rel=1e-5)
    assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)


def test_so_does_one_with_absorbed_factors(tmp_path):
    frame = counts(1, "groups")
    frame["h"] = np.random.default_rng(1).choice(list("uvwxyz"), len(frame))
    design, fitted = fit_frame(frame, "count ~ x", "poisson", tmp_path, offset="exposure", absorb=["g", "h"])
    matrix = sm.add_constant(pd.get_dummies(frame[["x", "g", "h"]], drop_first=True).astype(float))
    exact = sm.GLM(frame["count"], matrix, sm.families.Poisson(), offset=frame["exposure"]).fit(maxiter=300, tol=1e-14)
    of_x = table_of(design, fitted).loc[("x", "")]
    assert fitted.summary["converged"] and abs(of_x["estimate"] - exact.params["x"]) <= 1e-6 * exact.bse["x"]
    assert of_x["std_error"] == pytest.approx(exact.bse["x"], rel=1e-5)


@pytest.mark.parametrize(
    ("family", "link", "offset", "message"),
    [
        ("poisson", "log", 800.0, "so large for some rows that with link log their mean in the model with the"),
        (
            "gamma",
            "inverse",
            -5.0,
            "with link inverse the linear predictor has to be above 0, and the offset moves it below 0",
        ),
    ],
)
def test_an_offset_with_which_no_intercept_has_finite_means_is_refused(tmp_path, family, link, offset, message):
    frame = pd.concat([counts(1, "groups")] * 5, ignore_index=True).assign(exposure=0.0)
    frame["count"] += 1
    frame.loc[7, "exposure"] = offset
    with pytest.raises(UserError, match=message) as error:
        fit_frame(frame, "count ~ x", family, tmp_path, offset="exposure", link=link, frequency="times")
    assert str(error.value).startswith("models.m.offset: ")


LIMITED = SolverConfig(max_iterations=1)


@pytest.mark.parametrize("settings", [{}, {"l2": 0.01}, {"l1": 0.01}, {"path": {"select": "aic", "number": 5}}])
def test_a_fit_that_has_not_converged_says_so_and_what_to_do(tmp_path, settings):
    frame = counts(0, "rows").drop(columns="exposure")
    _, fitted = fit_frame(frame, "count ~ x + g", "poisson", tmp_path, solver=LIMITED, **settings)
    assert not fitted.summary["converged"]
    text = " ".join(fitted.summary["warnings"])
    assert re.match(r"the fit has not converged after \d iterations?: .* Raise `max_iterations`", text)
    _, enough = fit_frame(frame, "count ~ x + g", "poisson", tmp_path / "enough", **settings)
    assert enough.summary["converged"] and "not converged" not in " ".join(enough.summary["warnings"])


def test_points_of_a_path_that_have_not_converged_are_counted(tmp_path):
    frame = counts(0, "rows").drop(columns="exposure")
    path = {"select": "aic", "number": 12}
    _, fitted = fit_frame(frame, "count ~ x + g", "poisson", tmp_path, solver=SolverConfig(max_iterations=2), path=path)
    assert " of the 12 penalties of the path have not converged: raise `max_iterations`" in " ".join(
        fitted.summary["warnings"]
    )


@pytest.mark.parametrize("formula", ["cost ~ 0 + poly(x, 3)", "cost ~ 0 + poly(x, 3) + g"])
@pytest.mark.parametrize("l1_ratio", [0, 0.5, 1])
def test_a_path_far_from_the_responses_converges(tmp_path, formula, l1_ratio):
    """Without an intercept the expected information of a gamma regression is far from the observed one at strong penalties."""
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"x": random.normal(5, 2, 400), "g": random.choice(list("abc"), 400)})
    frame["cost"] = np.exp(0.2 * frame["x"] + 1) * random.gamma(2, 0.5, 400)
    path = {"l1_ratio": l1_ratio, "number": 20, "select": "aic"}
    _, fitted = fit_frame(frame, formula, "gamma", tmp_path, link="log", path=path)
    assert fitted.summary["converged"] and "not converged" not in " ".join(fitted.summary["warnings"])
    for point in fitted.summary["path"]:
        assert point["largest_kkt_violation"] <= 1e-6 * point["penalty"]
