"""Absorbed factors with a link that is not canonical, or with an estimated shape, against a column for each of their levels."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
import statsmodels.formula.api as smf

from pools import average_rows, estimates_of, fit_files, fit_frame, ingest_frame, margins, table_of
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import SEPARATED
from tfglm.results.joint import joint_tests
from tfglm.results.marginal_tables import Averaged, marginal_tables
from tfglm.results.metrics import evaluate
from tfglm.results.predict import score
from tfglm.results.scenario_table import scenario_table
from tfglm.solvers.run import Limits

COVARIATES = [("x", ""), ("origin", "JFK"), ("origin", "LGA")]
NAMES = ["x", "origin[T.JFK]", "origin[T.LGA]"]
TERMS, ABSORB = "x + origin", ["tail", "route"]
LINKS = sm.families.links
ALPHA = 1 / 1.5
FAMILIES = {
    "gamma": ("amount", {}, sm.families.Gamma(LINKS.Log())),
    "gamma inverse": ("amount", {"link": "inverse"}, sm.families.Gamma()),
    "inverse_gaussian": ("amount", {"link": "1/mu^2"}, sm.families.InverseGaussian()),
    "tweedie": ("claims", {"power": 1.5}, sm.families.Tweedie(LINKS.Log(), 1.5)),
    "binomial": ("late", {"link": "probit"}, sm.families.Binomial(LINKS.Probit())),
    "negative_binomial": ("bumped", {"theta": 1.5}, sm.families.NegativeBinomial(alpha=ALPHA)),
}


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    random, rows = np.random.default_rng(38), 900
    tails, routes = random.integers(0, 20, rows), random.integers(0, 12, rows)
    frame = pd.DataFrame(
        {
            "tail": [f"N{tail}" for tail in tails],
            "route": routes,
            "crew": random.integers(0, 10, rows),
            "origin": random.choice(["EWR", "JFK", "LGA"], rows),
            "x": random.normal(size=rows).round(3) + tails / 20,
            "w": random.integers(1, 4, rows),
            "base": random.normal(size=rows).round(3) / 10,
        }
    )
    eta = np.sin(tails) / 2 + 0.03 * routes + 0.2 * frame["x"] + (frame["origin"] == "JFK") * 0.3
    mean = np.exp(eta)
    frame["bumped"] = random.negative_binomial(1.5, 1.5 / (1.5 + mean))
    frame["claims"] = [random.gamma(1, mu, count).sum() for mu, count in zip(mean, random.poisson(mean), strict=True)]
    frame["late"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return frame.assign(amount=random.gamma(8, (2 + mean / 9) / 8))


def with_dummies(frame: pd.DataFrame, response: str, family: sm.families.Family, **keys):
    """The same regression by statsmodels with a column for each level."""
    formula = f"{response} ~ {TERMS} + C(tail) + C(route)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would rather choose another link
        return smf.glm(formula, frame, family=family, **keys).fit(tol=1e-14, maxiter=200)


def sandwich(model, groups: np.ndarray, power: int = 0) -> np.ndarray:
    """Errors of NAMES by clusters of rows."""
    places = model.params.index.get_indexer(NAMES)
    return np.sqrt(np.diag(covariance(model, groups, power)))[places]


def covariance(model, groups: np.ndarray, power: int = 0) -> np.ndarray:
    """The covariance by clusters of rows with the expected information, as in R's sandwich; statsmodels has the observed. The
    squared scores are divided by a power of 1 - leverage."""
    family, mean, columns = model.family, model.fittedvalues.to_numpy(), model.model.exog
    slope, variance = 1 / family.link.deriv(mean), family.variance(mean)
    inverse = np.linalg.inv(columns.T @ (columns * (slope**2 / variance)[:, None]))
    leverage = np.einsum("ij,jk,ik->i", columns, inverse, columns) * slope**2 / variance
    scores = columns * ((model.model.endog - mean) * slope / variance / (1 - leverage) ** (power / 2))[:, None]
    sums = np.array([scores[groups == group].sum(axis=0) for group in np.unique(groups)])
    return inverse @ sums.T @ sums @ inverse


def close(table: pd.DataFrame, model, error: np.ndarray | None = None) -> None:
    """Estimates to 1e-7 standard errors, and standard errors."""
    error, ours = model.bse[NAMES].to_numpy() if error is None else error, table.loc[COVARIATES]
    assert np.max(np.abs(ours["estimate"].to_numpy() - model.params[NAMES].to_numpy()) / error) < 1e-7
    assert ours["std_error"].to_numpy() == pytest.approx(error, rel=1e-7)


def written_out(frame: pd.DataFrame, response: str, family: str, tmp_path, **settings):
    formula = f"{response} ~ {TERMS} + tail + C(route)"
    return fit_frame(frame, formula, family, tmp_path / "written", **settings)


@pytest.mark.slow
def test_estimates_and_errors_are_those_of_a_column_for_each_level(flights, tmp_path):
    file, rows = ingest_frame(flights, tmp_path), len(flights)
    for name, (response, settings, theirs) in FAMILIES.items():
        family, formula = name.partition(" ")[0], f"{response} ~ {TERMS}"

        def ours(errors: str, family=family, formula=formula, settings=settings):
            return fit_files([file], formula, family, absorb=ABSORB, std_errors=errors, **settings)[:2]

        model = with_dummies(flights, response, theirs)
        design, fitted = ours("classical")
        close(table_of(design, fitted), model)
        summary = fitted.summary
        assert summary["converged"] and summary["certificate"]["within_standard_errors"] < 1e-8
        assert summary["df_residual"] == model.df_resid
        assert summary["deviance"] == pytest.approx(model.deviance, rel=1e-9)
        of_rows, crews = sandwich(model, np.arange(rows)), flights["crew"].to_numpy()
        close(table_of(*ours("HC1")), model, of_rows * np.sqrt(rows / model.df_resid))
        for power in (1, 2):
            close(table_of(*ours(f"HC{power + 1}")), model, sandwich(model, np.arange(rows), power))
        factor = np.sqrt(10 / 9 * (rows - 1) / model.df_resid)
        close(table_of(*ours("cluster(crew)")), model, sandwich(model, crews) * factor)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma", "binomial", "negative_binomial"])
def test_errors_of_averages_include_those_of_absorbed_effects(flights, tmp_path, name):
    """The delta method over a column for each level: the slope of x, the mean at each origin, and the mean where x is 1."""
    response, settings, theirs = FAMILIES[name]
    model = with_dummies(flights, response, theirs)
    mean, place, step = model.family.link.inverse, model.params.index.get_loc("x"), 1e-6
    exog = pd.DataFrame(model.model.exog, columns=model.params.index)
    at_origin = [exog.assign(**dict(zip(NAMES[1:], at, strict=True))) for at in ([0, 0], [1, 0], [0, 1])]
    rows = [each.to_numpy() for each in (*at_origin, exog.assign(x=1.0))]

    def averages(b: np.ndarray) -> np.ndarray:
        slope = (b[place] / model.family.link.deriv(mean(exog.to_numpy() @ b))).mean()
        return np.array([slope, *(mean(each @ b).mean() for each in rows)])

    b, moved = model.params.to_numpy(), step * np.eye(len(model.params))
    derivative = np.array([averages(b + each) - averages(b - each) for each in moved]).T / (2 * step)
    file, crews, count = ingest_frame(flights, tmp_path), flights["crew"].to_numpy(), len(flights)
    known = {
        "classical": model.cov_params().to_numpy(),
        "HC3": covariance(model, np.arange(count), 2),
        "cluster(crew)": covariance(model, crews) * 10 / 9 * (count - 1) / model.df_resid,
    }
    for errors, matrix in known.items():
        keys = {"absorb": ABSORB, "std_errors": errors, **settings}
        design, fitted, _ = fit_files([file], f"{response} ~ {TERMS}", name, **keys)
        averaged = average_rows(design, fitted, [file], margins_at={"one": {"x": 1.0}})
        averaged.write(tmp_path / "averages.npz", tmp_path / "table.csv")
        averaged = Averaged.read(tmp_path / "averages.npz", tmp_path / "table.csv")
        found = marginal_tables(design, fitted, averaged, {}, 0.95)
        scenario = scenario_table(design, fitted, averaged, {}, 0.95).head(1)
        tables = found.effects.query("term == 'x'"), found.means.rename(columns={"mean": "estimate"}), scenario
        ours = pd.concat(tables)[["estimate", "std_error"]].to_numpy().T
        assert ours[0] == pytest.approx(averages(b), rel=1e-8)
        assert ours[1] == pytest.approx(np.sqrt(np.diag(derivative @ matrix @ derivative.T)), rel=1e-6)
        # Differences of means have the covariance of these.
        apart = derivative[2] - derivative[1]
        (error,) = found.effects.query("level == 'JFK'")["std_error"]
        assert error == pytest.approx(np.sqrt(apart @ matrix @ apart), rel=1e-6)


@pytest.mark.slow
def test_effective_clusters_of_averages_are_those_of_a_column_for_each_level(flights, tmp_path):
    file = ingest_frame(flights, tmp_path)
    formula, keys = f"late ~ {TERMS}", {"std_errors": "cluster(crew)", "limits": Limits(largest_cr2=0)}
    ours = fit_files([file], formula, "binomial", absorb=ABSORB, **keys)
    theirs = fit_files([file], f"{formula} + tail + C(route)", "binomial", **keys)
    found, known = (margins(design, fitted, [file], {}, 0.95) for design, fitted, _ in (ours, theirs))
    for name in ("effects", "means"):
        table = getattr(known, name).query("term in ('x', 'origin')")
        assert getattr(found, name)["df"].tolist() == pytest.approx(table["df"].tolist(), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("response", "family"), [("bumped", "negative_binomial"), ("claims", "tweedie")])
def test_an_estimated_shape_is_that_of_a_column_for_each_level(flights, tmp_path, response, family):
    settings = {"frequency": "w", "offset": "base"} if family == "negative_binomial" else {}
    file = ingest_frame(flights, tmp_path)
    design, fitted, _ = fit_files([file], f"{response} ~ {TERMS}", family, absorb=ABSORB, **settings)
    plain, other = written_out(flights, response, family, tmp_path, **settings)
    for column in ("estimate", "std_error", "p_value", "ci_lower"):
        mine, theirs = (table_of(*each).loc[COVARIATES, column] for each in ((design, fitted), (plain, other)))
        assert mine.to_numpy() == pytest.approx(theirs.to_numpy(), rel=1e-8)
    shape = ("theta", "theta_std_error") if family == "negative_binomial" else ("power", "power_std_error")
    fit = ("log_likelihood", "aic", "bic", "deviance", "null_deviance", "df_residual", "pearson_dispersion")
    for key in (*shape, *fit):
        assert fitted.summary[key] == pytest.approx(other.summary[key], rel=1e-8), key
    tests = [joint_tests(estimates_of(*each)).set_index("term") for each in ((design, fitted), (plain, other))]
    statistic = "chi_squared" if family == "negative_binomial" else "F"
    assert tests[0].loc["origin", statistic] == pytest.approx(tests[1].loc["origin", statistic], rel=1e-8)
    metrics = [
        evaluate(each, score(Workload(each, [file], "train"), found), 0.5)
        for each, found in ((design, fitted), (plain, other))
    ]
    assert metrics[0].keys() == metrics[1].keys()
    for key, value in {key: value for key, value in metrics[0].items() if isinstance(value, float)}.items():
        assert value == pytest.approx(metrics[1][key], rel=1e-8), key
    if family == "negative_binomial":
        repeated = flights.loc[flights.index.repeat(flights["w"])]
        theta, error = (fitted.summary[key] for key in shape)
        known = with_dummies(repeated, response, sm.families.NegativeBinomial(alpha=1 / theta), offset=repeated["base"])
        close(table_of(design, fitted), known)
        # Given the means, the likelihood is highest at theta, and its curvature gives the error.
        values = theta + np.array([-1e-3, 0.0, 1e-3]) * error
        below, at, above = (
            scipy.stats.nbinom.logpmf(repeated[response], each, each / (each + known.fittedvalues)).sum()
            for each in values
        )
        assert abs(above - below) / 2e-3 < 1e-5
        assert (2 * at - above - below) / 1e-6 == pytest.approx(1, rel=1e-4)


@pytest.mark.slow
def test_levels_without_events_leave_the_likelihood_and_theta(flights, tmp_path):
    """N900 has no events, nor has route 900; N801 has some on route 801 and none on route 802, where N802 has some."""
    few = flights.head(50).assign(
        tail=np.repeat(["N801", "N802", "N801", "N900", "N1"], [10, 10, 20, 5, 5]),
        route=np.repeat([801, 802, 1, 900], [10, 30, 5, 5]),
        bumped=np.r_[np.arange(20) % 3, np.zeros(30)].astype(int),
    )
    rest = pd.concat([flights, few.head(20)])
    file = ingest_frame(pd.concat([flights, few]), tmp_path)
    design, fitted, _ = fit_files([file], f"bumped ~ {TERMS}", "negative_binomial", absorb=ABSORB)
    summary, tails = fitted.summary, design.categorical_by_name["tail"].levels
    assert fitted.status[design.slices["tail"]][tails.index("N900")] == SEPARATED
    assert (summary["rows_of_separated_levels"], summary["rows_separated_across_terms"]) == (10, 20)
    plain, other = written_out(rest, "bumped", "negative_binomial", tmp_path)
    for key in ("theta", "theta_std_error", "df_residual", "log_likelihood"):
        assert summary[key] == pytest.approx(other.summary[key], rel=1e-8)
    ours, theirs = table_of(design, fitted).loc[COVARIATES], table_of(plain, other).loc[COVARIATES]
    assert ours["std_error"].to_numpy() == pytest.approx(theirs["std_error"].to_numpy(), rel=1e-8)


@pytest.mark.slow
def test_a_resumed_fit_does_not_take_sums_of_another_theta(flights, tmp_path):
    class Recalling(LocalExecutor):
        def __init__(self):
            super().__init__(1)
            self.answers = {}

        def remember(self, question, make):
            if question not in self.answers:
                self.answers[question] = make()
            return self.answers[question]

    file, recalling = ingest_frame(flights, tmp_path), Recalling()
    fits = [
        fit_files([file], f"bumped ~ {TERMS}", "negative_binomial", absorb=ABSORB, executor=executor)[1]
        for executor in (LocalExecutor(), recalling, recalling)
    ]
    for other in fits[1:]:
        assert np.array_equal(other.coefficients, fits[0].coefficients)
        assert other.summary["theta"] == fits[0].summary["theta"]


def test_theta_with_few_rows_a_level_is_warned_of_or_refused(flights, tmp_path):
    random, levels = np.random.default_rng(3), np.repeat(np.arange(120), 5)
    few = pd.DataFrame(
        {"level": levels, "x": random.normal(size=600), "bumped": random.negative_binomial(1.5, 0.4, 600)}
    )
    for errors, remedy in (("classical", "use `std_errors: robust`"), ("HC1", "theta is too large (incidental")):
        _, fitted = fit_frame(
            few, "bumped ~ x", "negative_binomial", tmp_path / errors, absorb=["level"], std_errors=errors
        )
        (warning,) = fitted.summary["warnings"]
        assert warning.startswith("`level` has 119 levels, and 5 rows for each of them") and remedy in warning
    frame = flights.assign(bumped=np.random.default_rng(2).binomial(3, 0.5, len(flights)))
    with pytest.raises(UserError, match="so theta has no finite estimate\n  use family: poisson, or give theta"):
        fit_frame(frame, f"bumped ~ {TERMS}", "negative_binomial", tmp_path, absorb=ABSORB)


@pytest.mark.slow
def test_exposures_that_differ_by_many_orders_of_magnitude(flights, tmp_path):
    """At the means of the Poisson regression most rows have no weight beside the others. With theta given they have."""
    frame = flights.assign(base=np.random.default_rng(9).normal(size=len(flights)).round(3) * 8)
    settings = {"offset": "base"}
    design, fitted = fit_frame(frame, f"bumped ~ {TERMS}", "negative_binomial", tmp_path, absorb=ABSORB, **settings)
    assert fitted.summary["converged"]
    plain, other = written_out(
        frame, "bumped", "negative_binomial", tmp_path, theta=fitted.summary["theta"], **settings
    )
    ours, theirs = table_of(design, fitted).loc[COVARIATES], table_of(plain, other).loc[COVARIATES]
    assert np.max(np.abs(ours["estimate"] - theirs["estimate"]) / theirs["std_error"]) < 1e-7
    assert ours["std_error"].to_numpy() == pytest.approx(theirs["std_error"].to_numpy(), rel=1e-7)
    assert fitted.summary["deviance"] == pytest.approx(other.summary["deviance"], rel=1e-9)
