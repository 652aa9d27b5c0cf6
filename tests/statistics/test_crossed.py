"""Crossed random effects without a dense matrix, against the fit with one, which test_smooths.py compares with mgcv and lme4."""

import numpy as np
import pandas as pd
import pytest

import tfglm
from tfglm.design import checks
from tfglm.errors import UserError
from tfglm.results import accuracy
from tfglm.solvers import crossed

FORMULA = "stars ~ (1 | film) + age + (1 | viewer) + (1 | hour)"


def rows(of_hour: float = 0.3) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 6000
    user, film, hour = rng.integers(0, 400, n), np.minimum(rng.geometric(0.01, n) - 1, 299), rng.integers(0, 12, n)
    age = rng.gamma(2, 5, n).round(1)
    stars = 3.5 + 0.02 * age + 0.5 * rng.normal(size=400)[user] + 0.4 * rng.normal(size=300)[film]
    stars += of_hour * rng.normal(size=12)[hour] + 0.9 * rng.normal(size=n)
    texts = {
        name: [f"{name} {level}" for level in codes]
        for name, codes in (("viewer", user), ("film", film), ("hour", hour))
    }
    return pd.DataFrame({"stars": stars.round(2), "age": age} | texts)


@pytest.fixture
def only_sparse(monkeypatch):
    monkeypatch.setattr(checks, "LARGEST_INFORMATION", 1e5)


@pytest.fixture(scope="module")
def dense():
    return tfglm.fit(FORMULA, rows())


def estimates(fit) -> pd.DataFrame:
    return fit.coefficients.reset_index().set_index(["term", "level"]).sort_index()


def test_the_sparse_fit_is_the_dense_one_up_to_the_error_that_it_reports(dense, only_sparse, monkeypatch):
    fit = tfglm.fit(FORMULA, rows())
    simulation = fit.fit["simulation"]
    expected = {each["term"]: each for each in dense.fit["smooths"]}
    for each, error in zip(fit.fit["smooths"], simulation["log_std_dev"], strict=True):
        assert abs(np.log(each["std_dev"] / expected[each["term"]]["std_dev"])) < 4 * error < 1e-3
        assert each["std_dev_upper"] == pytest.approx(expected[each["term"]]["std_dev_upper"], rel=0.02)
    assert abs(fit.fit["reml"] - dense.fit["reml"]) < 4 * simulation["reml"] < 1
    sparse, exact = estimates(fit), estimates(dense)
    assert list(sparse.index) == list(exact.index)
    far = np.abs(sparse["estimate"] - exact["estimate"]) / exact["std_error"]
    assert far.max() < 4 * simulation["standard_errors"] < 0.02
    # The errors of fixed effects are exact at their variances, and those of random effects are near.
    fixed = ["Intercept", "age"]
    np.testing.assert_allclose(sparse["std_error"][fixed], exact["std_error"][fixed], rtol=2e-3)
    np.testing.assert_allclose(sparse["std_error"], exact["std_error"], rtol=0.1)
    monkeypatch.setattr(crossed, "THREADS", 1)
    assert tfglm.fit(FORMULA, rows()).coefficients.equals(fit.coefficients)


def test_effects_without_variance(only_sparse):
    data = rows()
    data["hour"] = [f"hour {level}" for level in np.random.default_rng(1).integers(0, 12, len(data))]
    fit = tfglm.fit(FORMULA, data)
    hour = next(each for each in fit.fit["smooths"] if "hour" in each["term"])
    assert (hour["lambda_is"], "std_dev" in hour) == ("infinite", False)
    assert np.abs(estimates(fit)["estimate"]["s(hour, bs=re)"]).max() < 1e-4
    without = tfglm.fit("stars ~ age + (1 | viewer) + (1 | film)", data)
    for one, other in zip(fit.fit["smooths"], without.fit["smooths"][::-1], strict=False):
        assert one["std_dev"] == pytest.approx(other["std_dev"], rel=1e-5)
    assert "30 random probes" in accuracy.convergence(fit.fit)


@pytest.mark.parametrize(
    ("formula", "settings", "message"),
    [
        (FORMULA, {"family": "poisson"}, "only be fitted by linear"),
        (FORMULA.replace("~", "~ 0 +"), {}, "without an intercept"),
        (FORMULA, {"std_errors": "robust"}, "errors of the kind `robust`"),
        (FORMULA.replace("age", "s(age)"), {}, "cannot be fitted beside `s\\(age\\)`"),
        (f"{FORMULA} + (0 + age | viewer)", {}, "cannot be fitted beside"),
    ],
)
def test_what_they_cannot_have_is_refused(formula, settings, message, only_sparse):
    with pytest.raises(UserError, match=message):
        tfglm.fit(formula, rows().assign(stars=lambda table: table["stars"].abs().round()), **settings)
