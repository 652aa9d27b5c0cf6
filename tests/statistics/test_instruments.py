"""Two-stage least squares, against R (tests/golden/instruments.R) and against matrices of rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import tfglm
from tfglm.call.fitted import FittedModel
from tfglm.errors import UserError

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = json.loads((GOLDEN / "instruments.json").read_text())
ERRORS = {"HC1": "HC1", "g": "cluster(g)", "g + f1": "cluster(g + f1)"}

HANSEN = {"HC1": 0.24510375636583998, "cluster(g)": 0.28657539556126854}
"""By linearmodels: IVGMM(y, [1, x], d, [z1, z2], weight_type="robust" or "clustered").fit(iter_limit=2).j_stat"""


@pytest.fixture(scope="module")
def panel() -> pd.DataFrame:
    return pd.read_csv(GOLDEN / "instruments.csv")


def fitted(panel: pd.DataFrame, formula: str = "y ~ x | d ~ z1 + z2", **keys) -> FittedModel:
    return tfglm.fit(formula, panel, family="gaussian", **keys)


def numbers_of(model: FittedModel) -> dict[str, float]:
    """Estimates, errors and statistics, by the names that R's have."""
    found, table = model.fit["instruments"], model.coefficients.reset_index("level")
    over = found["overidentification"] or {"test": "none", "statistic": np.nan}
    return {
        **{f"b {term}": value for term, value in table["estimate"].items()},
        **{f"se {term}": value for term, value in table["std_error"].items()},
        "first": found["first_stages"][0]["instruments"]["F"],
        "hausman": found["wu_hausman"]["F"],
        over["test"]: over["statistic"],
        "sigma": model.fit["sigma"],
    }


@pytest.mark.parametrize("case", CASES)
def test_estimates_errors_and_tests_are_those_of_r(panel, case):
    errors = ERRORS.get(case.partition(" by ")[2], "classical")
    weights = {"weights": "w"} if "weighted" in case else {"frequency": "n"} if "counted" in case else {}
    formula = "y ~ x | f1 + f2 | d ~ z1 + z2" if "absorbed" in case else "y ~ x | d ~ z1 + z2"
    found = numbers_of(fitted(panel, formula, std_errors=errors, **weights))
    assert {name: found[name] for name in CASES[case]} == pytest.approx(CASES[case], rel=1e-8)


@pytest.mark.parametrize("errors", HANSEN)
def test_effective_f_and_hansens_j_are_those_of_their_formulas(panel, errors):
    found = fitted(panel, std_errors=errors, tests="all").fit["instruments"]
    assert found["overidentification"]["statistic"] == pytest.approx(HANSEN[errors], rel=1e-10)
    exogenous, instruments = np.column_stack([np.ones(len(panel)), panel["x"]]), panel[["z1", "z2"]].to_numpy()
    left, d = (m - exogenous @ np.linalg.lstsq(exogenous, m)[0] for m in (instruments, panel["d"].to_numpy()))
    orthonormal = np.linalg.qr(left)[0]
    slopes, rows = orthonormal.T @ d, len(panel)
    scores = orthonormal * (d - orthonormal @ slopes)[:, None]
    factor = rows / (rows - 4)
    if errors != "HC1":
        scores = pd.DataFrame(scores).groupby(panel["g"]).sum().to_numpy()
        factor = len(scores) / (len(scores) - 1) * (rows - 1) / (rows - 4)
    stage = found["first_stages"][0]
    assert stage["effective_F"] == pytest.approx(slopes @ slopes / (factor * np.sum(scores**2)), rel=1e-10)
    # Montiel Olea and Pflueger's table has 23.11 for one effective instrument, and less for more.
    single = fitted(panel, "y ~ x | d ~ z1", std_errors=errors, tests="all").fit["instruments"]["first_stages"][0]
    assert single["effective_F_critical"] == pytest.approx(23.11, abs=0.01)
    assert 12 < stage["effective_F_critical"] < 23


def cross_products(panel: pd.DataFrame, scores: np.ndarray, errors: str) -> np.ndarray:
    scores = scores if errors == "HC1" else pd.DataFrame(scores).groupby(panel["g"]).sum().to_numpy()
    return scores.T @ scores


def less_exogenous(panel: pd.DataFrame, names: list[str]) -> np.ndarray:
    exogenous, columns = np.column_stack([np.ones(len(panel)), panel["x"]]), panel[names].to_numpy(float)
    return columns - exogenous @ np.linalg.lstsq(exogenous, columns)[0]


def factor_of(panel: pd.DataFrame, errors: str, coefficients: int) -> float:
    rows, clusters = len(panel), panel["g"].nunique()
    return (rows if errors == "HC1" else clusters / (clusters - 1) * (rows - 1)) / (rows - coefficients)


@pytest.mark.parametrize("errors", HANSEN)
def test_rank_statistics_are_those_of_kleibergen_and_paap(panel, errors):
    """By the formulas of Stata's ranktest, whose LM form has the endogenous columns for residuals."""
    product = panel["z2"] * panel["w"]
    panel = panel.assign(e=panel["z1"] - product + panel["d"] * panel["x"] / 9, z3=product)
    z, y = less_exogenous(panel, ["z1", "z2", "z3"]), less_exogenous(panel, ["d", "e"])
    of_z, of_y = (np.linalg.inv(np.linalg.cholesky(each.T @ each)) for each in (z, y))
    theta = of_z @ z.T @ y @ of_y.T
    u, _, v = np.linalg.svd(theta)
    combined, statistics = np.kron(v[1:], u[:, 1:].T), []
    for residuals in (y - z @ np.linalg.lstsq(z, y)[0], y):
        scores = np.hstack([column[:, None] * (z @ of_z.T) for column in (residuals @ of_y.T).T])
        along = combined @ theta.T.ravel()
        inner = combined @ cross_products(panel, scores, errors) @ combined.T
        statistics.append(along @ np.linalg.solve(inner, along))
    found = fitted(panel, "y ~ x | d + e ~ z1 + z2 + z3", std_errors=errors, tests="all").fit["instruments"]
    assert found["kleibergen_paap"] == pytest.approx(statistics[0] / 3 / factor_of(panel, errors, 5), rel=1e-8)
    assert found["underidentification"]["statistic"] == pytest.approx(statistics[1], rel=1e-8)
    assert found["underidentification"]["df"] == 2
    single = fitted(panel, std_errors=errors, tests="all").fit["instruments"]
    assert single["kleibergen_paap"] == pytest.approx(single["first_stages"][0]["instruments"]["F"], rel=1e-12)


@pytest.mark.parametrize("errors", ["classical", *HANSEN])
def test_the_set_of_anderson_and_rubin_is_where_their_test_accepts(panel, errors):
    z1, z2 = np.random.default_rng(5).normal(size=(2, len(panel)))
    cases = [({}, 1), ({"z1": z1, "z2": z2}, 2), ({"y": panel["y"] + 2 * panel["z2"]}, 0)]
    for changed, intervals in cases:
        rows = panel.assign(**changed)
        rows["d"] *= 1e-3
        z, y, d = (less_exogenous(rows, names) for names in (["z1", "z2"], ["y"], ["d"]))
        z = np.linalg.qr(z)[0]

        def statistic(b: float, rows=rows, z=z, y=y, d=d) -> float:
            left = (y - d * b)[:, 0]
            along = z.T @ left
            scores = z * (left - z @ along)[:, None]
            if errors == "classical":
                inner = np.sum((left - z @ along) ** 2) / (len(rows) - 4) * np.eye(2)
            else:
                inner = factor_of(rows, errors, 4) * cross_products(rows, scores, errors)
            return float(along @ np.linalg.solve(inner, along)) / 2

        tested = fitted(rows, std_errors=errors, tests="all").fit["instruments"]["anderson_rubin"]
        assert tested["F"] == pytest.approx(statistic(0.0), rel=1e-8)
        ends = [end for interval in tested["set"] for end in interval if end is not None]
        assert len(tested["set"]) == intervals
        critical = statistic(ends[0]) if ends else 8.0
        assert [statistic(end) for end in ends] == pytest.approx([critical] * len(ends), rel=1e-7)
        if errors != "cluster(g)" and ends:  # there the degrees of freedom are those at the estimate
            assert critical == pytest.approx(scipy.stats.f.ppf(0.95, 2, len(rows) - 4), rel=1e-7)
        for b in np.linspace(-3e4, 3e4, 41):
            inside = any((low is None or low <= b) and (high is None or b <= high) for low, high in tested["set"])
            assert inside == (statistic(b) <= critical)


def test_first_stages_are_regressions_on_the_scale_of_the_data(panel):
    model = fitted(panel, "y ~ x + c | w:x + d ~ z1 + z2 + poly(f1, 2)", std_errors="HC1")
    plain = fitted(panel, "d ~ x + c + z1 + z2 + poly(f1, 2)", std_errors="HC1").coefficients
    stage = model.table("instruments").query("endogenous == 'd'").set_index("term")
    for number in ("x", "z1", "z2", "poly(f1, 2)"):
        for name in ("estimate", "std_error"):
            assert stage[name][[number]].tolist() == pytest.approx(plain.loc[[number], name].tolist())
    assert {*stage.loc["c", "level"], *stage.loc["c", "reference"]} == {"a", "b", "c"}
    # The smallest eigenvalue is below the first-stage F of each of two endogenous columns.
    found = model.fit["instruments"]
    assert 0 < found["cragg_donald"] < min(each["instruments"]["F"] for each in found["first_stages"])


def test_units_order_of_rows_and_dummies_change_nothing(panel):
    model = fitted(panel, "y ~ x | f1 | d ~ z1 + z2", std_errors="cluster(g)")
    other = panel.assign(d=panel["d"] * 1e6 + 1e8, z1=1e-5 * panel["z1"], y=panel["y"] + 1e7)[::-1]
    moved = fitted(other, "y ~ x | f1 | d ~ z1 + z2", std_errors="cluster(g)")
    dummies = fitted(panel, "y ~ x + C(f1) | d ~ z1 + z2", std_errors="cluster(g)")
    scaled = numbers_of(moved)
    scaled |= {name: 1e6 * scaled[name] for name in ("b d", "se d")}
    assert scaled == pytest.approx(numbers_of(model), rel=1e-6)
    shown = ("b x", "b d", "se x", "se d", "first", "hausman", "Hansen J")
    ours, theirs = (({name: each[name] for name in shown}) for each in (numbers_of(model), numbers_of(dummies)))
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_results_have_the_terms_of_the_formula_alone(panel):
    panel = panel.assign(z1=panel["z1"].mask(panel.index < 5))
    model = fitted(panel, "y ~ x | f1 | d ~ z1 + C(f2)")
    assert model.coefficients.index.unique("term").tolist() == ["x", "d"] == model.terms.index.tolist()
    assert (model.fit["rows"], model.fit["coefficients"], model.fit["aic"]) == (395, 2, None)
    assert model.fit["formula"] == "y ~ x + d | f1 | d ~ z1 + C(f2)"
    assert "adj.r.squared" in model.glance() and "p.value" not in model.glance()
    # Residuals have the mean 0 within absorbed levels, with the endogenous column and not its fitted values.
    rows = panel.dropna()
    residuals = rows["y"].to_numpy() - model.predict(rows[["x", "d", "f1"]])["mean"].to_numpy()
    assert np.abs(pd.Series(residuals).groupby(rows["f1"].to_numpy()).mean()).max() < 1e-9


def test_with_classical_errors_the_effective_f_is_the_first_stage_f(panel):
    """The levels of the instrument are eliminated from the information matrix, so its columns are in another order."""
    (stage,) = fitted(panel, "y ~ x | d ~ C(f2) + z1").fit["instruments"]["first_stages"]
    assert stage["effective_F"] == pytest.approx(stage["instruments"]["F"], rel=1e-10)


def test_weak_instruments_have_a_warning(panel):
    random = panel.assign(z=np.random.default_rng(1).normal(size=len(panel)))
    (warning,) = fitted(random, "y ~ x | d ~ z").fit["warnings"]
    assert "the instruments of `d` may be weak: their effective F is" in warning
    assert fitted(panel).fit["warnings"] == []


@pytest.mark.parametrize("std_errors", ["classical", "robust"])
def test_an_exact_fit_has_estimates_alone(panel, std_errors):
    model = fitted(panel.assign(y=1 + 2 * panel["x"] - panel["d"]), std_errors=std_errors)
    assert model.coefficients["estimate"].tolist() == pytest.approx([1, 2, -1])
    assert (
        model.fit["perfect_fit"] and model.table("instruments").empty and model.coefficients["std_error"].isna().all()
    )


REFUSED = {
    "y ~ x | d ~ zx": "the instrument `zx` is determined by `x`, so nothing of it is left",
    "y ~ x | d ~ one + z1": "the instrument `one` is determined by the intercept",
    "y ~ x | f1 | d ~ z1 + zf": "the instrument `zf` is determined by the absorbed factors f1",
    "y ~ x | f1 | d ~ z1 + f1": "`f1` is absorbed, which leaves nothing of it",
    "y ~ x | d + zx ~ z1 + z2": "the endogenous term `zx` is determined by `x`",
    "y ~ x | d + w ~ z1": r"1 instrument \(z1\) for 2 endogenous coefficients \(d, w\)",
    "y ~ x | d + w ~ z1 + copy": "the instrument `copy` is determined by `z1`",
    "y ~ x | d ~ x + z1": "`x` is a term of the formula, so it is no instrument",
    "y ~ x | d ~ s(z1)": "two-stage least squares has no smooth terms or random effects",
    "y ~ x | d ~ orthogonal": "do not identify the coefficients of d",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_instruments_that_identify_nothing_are_refused(panel, formula):
    columns = panel[["x", "d"]].assign(one=1.0).to_numpy()
    rest = panel["z1"] - columns @ np.linalg.lstsq(columns, panel["z1"])[0]
    more = {"zx": 3 * panel["x"] + 1, "one": 1.0, "zf": panel["f1"] ** 2.0, "copy": 2 * panel["z1"], "orthogonal": rest}
    with pytest.raises(UserError, match=REFUSED[formula]):
        fitted(panel.assign(**more), formula)


def test_an_endogenous_term_is_one_of_the_formula(panel):
    with pytest.raises(UserError, match="the formula lacks the endogenous `d`; add it"):
        fitted(panel, "y ~ x", instruments="d ~ z1")
    model = fitted(panel, "y ~ x + d", instruments="d ~ z1 + z2")
    assert numbers_of(model) == numbers_of(fitted(panel))
