"""Families and links beside those of linear, logistic and Poisson regression, together with what else a model can have."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from sklearn import metrics as sklearn_metrics

from pools import estimates_of, fit_files, fit_frame, ingest_frame, margins, predicted, table_of, to_predict
from tfglm.config import DesignConfig, NetworkConfig, SolverConfig
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.results import coefficients, metrics, predict
from tfglm.solvers.run import Limits

ONLINE = {"epochs": 3, "batch_size": 64, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(5)
    rows = 900
    table = pd.DataFrame(
        {
            "carrier": random.choice(list("ABCD"), rows, p=[0.4, 0.3, 0.2, 0.1]),
            "hour": random.integers(5, 24, rows),
            "repeats": random.integers(1, 4, rows),
        }
    )
    eta = table["carrier"].map({"A": 0.0, "B": 0.5, "C": -0.4, "D": 0.2}) + 0.06 * (table["hour"] - 14)
    table["late"] = (random.random(rows) < 1 - np.exp(-np.exp(eta - 0.8))).astype(int)
    table["cost"] = np.round(random.gamma(3, np.exp(1 + 0.5 * eta) / 3) + 1e-3, 4)
    table["wait"] = np.round(random.wald(np.exp(0.5 * eta), 5.0) + 1e-3, 4)
    table["bumps"] = random.negative_binomial(2, 2 / (2 + np.exp(0.4 + 0.5 * eta)))
    calls = random.poisson(np.exp(0.2 + 0.5 * eta))
    table["fees"] = np.where(calls > 0, np.round(random.gamma(np.maximum(1.5 * calls, 1)), 4), 0.0)
    table["delay"] = np.round(np.exp(0.5 + 0.5 * eta) + 0.7 * random.normal(size=rows), 4)
    return table


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    split = {"train": "hour <> 9", "evaluate": "hour = 9"}
    return [ingest_frame(frame, tmp_path_factory.mktemp("together"), split=split)]


KINDS = {
    "probit": ("late", "binomial", {"link": "probit"}),
    "cloglog": ("late", "binomial", {"link": "cloglog"}),
    "gamma": ("cost", "gamma", {}),
    "gamma inverse": ("cost", "gamma", {"link": "inverse"}),
    "inverse gaussian": ("wait", "inverse_gaussian", {}),
    "negative binomial": ("bumps", "negative_binomial", {"theta": 1.5}),
    "tweedie": ("fees", "tweedie", {"power": 1.6}),
    "gaussian log": ("delay", "gaussian", {"link": "log"}),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def fit_kind(kind: str, files, terms: str = "carrier + hour", **settings):
    response, family, link = KINDS[kind]
    return fit_files(files, f"{response} ~ {terms}", family, **link, **settings)[:2]


@each_kind
def test_a_ridge_is_at_its_minimum(kind, files, frame):
    design, fitted = fit_kind(kind, files, l2=0.05)
    rows, family = frame[frame["hour"] != 9], design.distribution
    y, hour = rows[KINDS[kind][0]].to_numpy(float), rows["hour"].to_numpy(float)
    indicators = np.stack([rows["carrier"] == name for name in "ABCD"], 1).astype(float)
    x = np.column_stack([np.ones(len(rows)), indicators, (hour - hour.mean()) / hour.std()])

    def objective(b: np.ndarray) -> float:
        return float(family.loss(x @ b, y).mean() + 0.025 * np.sum(b[1:] ** 2))

    assert fitted.summary["converged"]
    least = scipy.optimize.minimize(objective, fitted.coefficients, method="Nelder-Mead", options={"xatol": 1e-6}).fun
    assert objective(fitted.coefficients) <= least + 1e-9 * abs(least)
    ends = [objective(fitted.coefficients + 1e-3 * step) for step in np.vstack([np.eye(6), -np.eye(6)])]
    assert min(ends) > objective(fitted.coefficients)
    assert "posterior_sd" in table_of(design, fitted)


@each_kind
def test_a_lasso_and_a_path_meet_their_conditions(kind, files):
    _, fitted = fit_kind(kind, files, l1=0.02)
    assert fitted.summary["converged"] and fitted.summary["coefficients_not_zero"] > 1
    path = {"number": 4, "smallest": 0.05, "select": "held_out"}
    _, fitted = fit_kind(kind, files, path=path)
    assert fitted.summary["converged"] and len(fitted.summary["path"]) == 4
    assert all(point["deviance_held_out"] > 0 for point in fitted.summary["path"])
    has_likelihood = [point["aic"] is not None for point in fitted.summary["path"]]
    assert all(has_likelihood) if kind != "tweedie" else not any(has_likelihood)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gamma inverse"])
def test_an_online_solver_goes_first_and_newton_ends_where_it_would_alone(kind, files):
    design, exact = fit_kind(kind, files)
    solver = SolverConfig(solver="adam", online=ONLINE)
    _, learnt = fit_kind(kind, files, solver=solver)
    assert learnt.summary["gap"]["log_likelihood"] >= 0
    assert learnt.summary["deviance"] < learnt.summary["null_deviance"]
    _, finished = fit_kind(kind, files, solver=SolverConfig(solver=["adam", "newton"], online=ONLINE))
    errors = table_of(design, exact)["std_error"]
    off = table_of(design, exact)["estimate"] - table_of(design, finished)["estimate"]
    assert finished.summary["converged"] and np.nanmax(np.abs(off) / errors) < 1e-8


@each_kind
def test_first_steps_on_a_sample_end_in_the_same_estimates(kind, files):
    design, exact = fit_kind(kind, files)
    early = Limits(sample_share=0.15, sample_rows=1, sample_rows_per_coefficient=1)
    _, sampled = fit_kind(kind, files, limits=early)
    errors = table_of(design, exact)["std_error"]
    off = table_of(design, exact)["estimate"] - table_of(design, sampled)["estimate"]
    assert np.nanmax(np.abs(off) / errors) < 1e-8


def test_first_steps_on_a_sample_that_leave_other_rows_without_a_mean_are_not_gone(tmp_path):
    """In the first rows the linear predictor falls so steeply with x that it is below 0 at x = -8, which only a later row has."""
    random = np.random.default_rng(1)
    x = np.round(random.normal(size=2_000), 3)
    slope = np.where(np.arange(2_000) < 300, 0.1, 0.04)
    y = np.round(random.wald(1 / np.sqrt((0.5 + slope * x).clip(0.05)), 2.0), 4) + 1e-3
    x[1_500] = -8
    file = ingest_frame(pd.DataFrame({"x": x, "y": y}), tmp_path)
    settings = {"family": "inverse_gaussian", "link": "1/mu^2"}
    design, exact, _ = fit_files([file], "y ~ x", **settings)
    early = Limits(sample_share=0.05, sample_rows=1, sample_rows_per_coefficient=1)
    _, sampled, _ = fit_files([file], "y ~ x", limits=early, **settings)
    errors = table_of(design, exact)["std_error"]
    off = table_of(design, exact)["estimate"] - table_of(design, sampled)["estimate"]
    assert sampled.summary["converged"] and np.max(np.abs(off) / errors) < 1e-8


@pytest.mark.slow
@each_kind
def test_a_frequency_is_as_good_as_repeated_rows(kind, frame, tmp_path):
    response, family, link = KINDS[kind]
    repeated = frame.loc[frame.index.repeat(frame["repeats"])]
    formula = f"{response} ~ carrier + hour"
    design, once = fit_frame(frame, formula, family, tmp_path / "a", frequency="repeats", **link)
    again, often = fit_frame(repeated, formula, family, tmp_path / "b", **link)
    for key in ("log_likelihood", "deviance", "null_deviance", "aic"):
        both = once.summary[key], often.summary[key]
        assert (
            both == (None, None)
            if kind == "tweedie" and key in ("log_likelihood", "aic")
            else both[0] == pytest.approx(both[1], rel=1e-9)
        )
    ours, theirs = table_of(design, once), table_of(again, often)
    np.testing.assert_allclose(ours["estimate"], theirs["estimate"], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "cloglog"])
def test_levels_whose_responses_are_alike_are_separated(kind, frame, tmp_path):
    changed = frame.copy()
    changed.loc[changed["carrier"] == "D", "late"] = 0
    changed.loc[changed["carrier"] == "C", "late"] = 1
    formula, link = "late ~ carrier + hour", KINDS[kind][2]
    design, fitted = fit_frame(changed, formula, "binomial", tmp_path / "a", **link)
    table = table_of(design, fitted)
    assert table.loc[("carrier", "C"), "estimate"] == np.inf and table.loc[("carrier", "D"), "estimate"] == -np.inf
    assert (table.loc[[("carrier", "C"), ("carrier", "D")], "status"] == "separated").all()
    less, without = fit_frame(changed[changed["carrier"].isin(["A", "B"])], formula, "binomial", tmp_path / "b", **link)
    for key in [("Intercept", ""), ("carrier", "B"), ("hour", "")]:
        assert table.loc[key, "estimate"] == pytest.approx(table_of(less, without).loc[key, "estimate"], rel=1e-9)
    assert fitted.summary["likelihood_ratio_tests"][0]["chi_squared"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "cloglog", "negative binomial", "tweedie"])
def test_terms_that_separate_rows_together_leave_the_others_as_they_are(kind, frame, tmp_path):
    response, family, link = KINDS[kind]
    changed = frame.assign(far=np.where(np.arange(len(frame)) % 9 == 0, np.round(frame["cost"], 1) + 1, 0.0))
    changed.loc[changed["far"] > 0, response] = 0
    formula = f"{response} ~ carrier + hour + far"
    design, fitted = fit_frame(changed, formula, family, tmp_path / "a", **link)
    rest = changed[changed["far"] == 0].drop(columns="far")
    less, without = fit_frame(rest, f"{response} ~ carrier + hour", family, tmp_path / "b", **link)
    ours, theirs = table_of(design, fitted), table_of(less, without)
    assert ours.loc[("far", ""), "estimate"] == -np.inf and ours.loc[("far", ""), "status"] == "separated"
    for key in theirs.index:
        assert ours.loc[key, "estimate"] == pytest.approx(theirs.loc[key, "estimate"], rel=1e-7, abs=1e-9)
    # Firth's penalty is not for these.
    assert fitted.summary["warnings"][0].endswith("For finite estimates use a penalty, `l2`")


@each_kind
def test_marginal_effects_are_differences_and_derivatives_of_means(kind, files, frame):
    design, fitted = fit_kind(kind, files)
    estimated = estimates_of(design, fitted)
    made = margins(design, fitted, files, {}, 0.95)
    rows, table = frame[frame["hour"] != 9], table_of(design, fitted)
    covariance = coefficients.covariance_table(estimated).to_numpy()
    names = [("Intercept", ""), ("carrier", "B"), ("carrier", "C"), ("carrier", "D"), ("hour", "")]

    def mean_of(b: np.ndarray, hour: float = 0.0, level: str | None = None) -> float:
        carrier = rows["carrier"] if level is None else pd.Series(level, rows.index)
        eta = b[0] + carrier.map(dict(zip("ABCD", [0.0, *b[1:4]], strict=True))) + b[4] * (rows["hour"] + hour)
        return float(design.distribution.mean(eta.to_numpy(float)).mean())

    b, h = table.loc[names, "estimate"].to_numpy(float), 1e-5

    def delta(function) -> tuple[float, float]:
        slope = np.array([(function(b + h * row) - function(b - h * row)) / (2 * h) for row in np.eye(5)])
        return function(b), float(np.sqrt(slope @ covariance @ slope))

    of_level = made.effects.set_index(["term", "level"]).loc[("carrier", "B")]
    of_number = made.effects.set_index(["term", "level"]).loc[("hour", "")]
    for row, (value, error) in (
        (of_level, delta(lambda b: mean_of(b, level="B") - mean_of(b, level="A"))),
        (of_number, delta(lambda b: (mean_of(b, 1e-4) - mean_of(b, -1e-4)) / 2e-4)),
    ):
        assert row["estimate"] == pytest.approx(value, rel=1e-5)
        assert row["std_error"] == pytest.approx(error, rel=1e-3)


@each_kind
def test_metrics_of_rows_kept_back_are_those_of_scikit_learn(kind, files, frame):
    design, fitted = fit_kind(kind, files)
    scored = list(predict.score(Workload(design, files, "evaluate"), fitted))
    ours = metrics.evaluate(design, iter(scored), 0.5)
    y = np.concatenate([piece.rows["response"] for piece in scored])
    mean = design.distribution.mean(np.concatenate([piece.rows["eta"] for piece in scored]))
    if design.likelihood.family == "binomial":
        assert ours["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(y, mean), abs=1e-9)
        assert ours["log_loss"] == pytest.approx(sklearn_metrics.log_loss(y, mean), rel=1e-9)
        assert ours["brier"] == pytest.approx(sklearn_metrics.brier_score_loss(y, mean), rel=1e-9)
        return
    assert ours["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), rel=1e-9)
    power = {"gamma": 2, "inverse_gaussian": 3, "tweedie": 1.6}.get(design.likelihood.family)
    if power:
        expected = sklearn_metrics.mean_tweedie_deviance(y, mean, power=power)
        assert ours["mean_deviance"] == pytest.approx(expected, rel=1e-9)
        assert ours["d_squared"] == pytest.approx(sklearn_metrics.d2_tweedie_score(y, mean, power=power), rel=1e-9)


@pytest.mark.slow
def test_a_linear_predictor_out_of_the_range_of_the_link_has_no_prediction(tmp_path):
    random = np.random.default_rng(1)
    x = random.uniform(0, 1, 300)
    train = pd.DataFrame({"x": x, "y": random.gamma(50, 1 / (0.5 + 2 * x) / 50) + 1e-6})
    design, fitted = fit_frame(train, "y ~ x", "gamma", tmp_path, link="inverse")
    far = pd.DataFrame({"x": [0.5, -3.0], "y": [1.0, 1.0]})
    file = to_predict(far, tmp_path, "far")
    table = predicted(design, fitted, file).set_index("row")
    assert table.loc[1, "ci_lower"] < table.loc[1, "mean"] < table.loc[1, "ci_upper"]
    assert table.loc[2, "remark"] == "out of the range of the link" and np.isnan(table.loc[2, "mean"])
    kept_back = ingest_frame(far, tmp_path, "back", split={"train": "FALSE", "evaluate": "TRUE"})
    scored = predict.score(Workload(design, [kept_back], "evaluate"), fitted)
    measured = metrics.evaluate(design, scored, 0.5)
    assert measured["rows"] == 1 and measured["rows_out_of_range_of_link"] == 1


@pytest.mark.slow
def test_theta_is_estimated_together_with_all_else(frame, files, tmp_path):
    response = {"family": "negative_binomial", "formula": "bumps ~ carrier + hour"}
    design, fitted, _ = fit_files(files, response["formula"], response["family"], std_errors="robust")
    theta, error = fitted.summary["theta"], fitted.summary["theta_std_error"]
    assert 0 < error < theta
    _, again, _ = fit_files(files, response["formula"], response["family"], theta=theta, std_errors="robust")
    np.testing.assert_array_equal(again.coefficients, fitted.coefficients)
    assert again.summary["theta_std_error"] is None and fitted.summary["aic"] == again.summary["aic"] + 2
    tests = [
        fit_files(files, response["formula"], response["family"], tests="likelihood_ratio", **given)[1].summary
        for given in ({}, {"theta": theta})
    ]
    for ours, given in zip(*(each["likelihood_ratio_tests"] for each in tests), strict=True):
        assert ours["aic"] < given["aic"] + 2  # with a theta of its own the smaller model fits better
    for shift in (-0.01, 0.01):
        _, other, _ = fit_files(files, response["formula"], response["family"], theta=theta * (1 + shift))
        assert other.summary["log_likelihood"] < fitted.summary["log_likelihood"]
    # A level whose counts are all 0 leaves the likelihood, and so tells nothing of theta.
    changed = frame.assign(bumps=frame["bumps"].where(frame["carrier"] != "D", 0))
    design, separated = fit_frame(changed, response["formula"], response["family"], tmp_path / "a")
    _, less = fit_frame(changed[changed["carrier"] != "D"], response["formula"], response["family"], tmp_path / "b")
    assert table_of(design, separated).loc[("carrier", "D"), "estimate"] == -np.inf
    assert separated.summary["theta"] == pytest.approx(less.summary["theta"], rel=1e-9)
    regular = frame.assign(bumps=np.round(3 + 0.01 * frame["hour"]))
    regular.loc[0, "bumps"] = 4
    with pytest.raises(UserError, match=r"models\.m\.theta: the response `bumps` varies no more .* than a Poisson"):
        fit_frame(regular, response["formula"], response["family"], tmp_path / "c")


@pytest.mark.slow
def test_a_power_is_estimated_together_with_all_else(frame, files, tmp_path):
    _, fitted, _ = fit_files(files, "fees ~ carrier + hour", "tweedie", std_errors="robust")
    summary = fitted.summary
    assert 1 < summary["power"] < 2 and 0 < summary["power_std_error"] < 0.2
    _, again, _ = fit_files(files, "fees ~ carrier + hour", "tweedie", power=summary["power"], std_errors="robust")
    np.testing.assert_array_equal(again.coefficients, fitted.coefficients)
    assert again.summary["aic"] is None and again.summary["power_std_error"] is None
    with pytest.raises(UserError, match=r"models\.m\.power: the likelihood of the response `cost` has no maximum"):
        fit_frame(frame, "cost ~ carrier + hour", "tweedie", tmp_path)


def test_a_perfect_fit_has_no_standard_errors(tmp_path):
    table = pd.DataFrame({"g": list("aabbcc"), "y": [1.0, 1.0, 2.5, 2.5, 7.0, 7.0]})
    _, fitted = fit_frame(table, "y ~ g", "gamma", tmp_path)
    assert fitted.summary["perfect_fit"] and fitted.summary["log_likelihood"] is None


@pytest.mark.slow
def test_what_cannot_be_fitted_is_refused_by_name(frame, files, tmp_path):
    for response, family, link, said in (
        ("delay", "gamma", {}, "family gamma needs a response above 0, but `delay` runs from"),
        ("late", "inverse_gaussian", {}, "family inverse_gaussian needs a response above 0"),
    ):
        with pytest.raises(UserError, match=said):
            fit_files(files, f"{response} ~ hour", family, **link)
    with pytest.raises(
        UserError, match="with link inverse every linear predictor has to be above 0, and without an interc"
    ):
        fit_files(files, "cost ~ 0 + hour", "gamma", link="inverse")
    below = frame.assign(change=frame["delay"] - 3)
    with pytest.raises(UserError, match=r"the mean of the response `change` is -.*, and with link log"):
        fit_frame(below, "change ~ hour", "gaussian", tmp_path / "a", link="log")
    some = frame.assign(change=frame["delay"].where(frame["carrier"] != "D", -frame["cost"]))
    with pytest.raises(
        UserError, match=r"the mean of the response `change` is 0 or less where carrier is D, and with link log"
    ):
        fit_frame(some, "change ~ carrier + hour", "gaussian", tmp_path / "d", link="log")
    with pytest.raises(UserError, match="family gaussian with link log needs a mean above 0"):
        fit_frame(below.assign(change=-frame["cost"]), "change ~ hour", "gaussian", tmp_path / "b", link="log")
    with pytest.raises(UserError, match=r"m\.offset: with link inverse the linear predictor has to be above 0"):
        fit_frame(below.assign(below=-50), "cost ~ hour", "gamma", tmp_path / "c", link="inverse", offset="below")


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        (
            DesignConfig,
            {"family": "gamma", "link": "probit"},
            "family gamma has no link `probit`; use `log` or `inverse`",
        ),
        (
            DesignConfig,
            {"family": "gamma", "theta": 2},
            "theta: only family negative_binomial or truncated_negative_binomial or beta has it, not gamma",
        ),
        (DesignConfig, {"family": "negative_binomial", "theta": 0}, "theta"),
        (DesignConfig, {"family": "tweedie", "power": 2.5}, "power"),
        (
            DesignConfig,
            {"family": "tweedie", "theta": 2},
            "theta: only family negative_binomial or truncated_negative_binomial or beta has it, not tweedie",
        ),
        (DesignConfig, {"family": "gamma", "trials": "n"}, "only family binomial has trials"),
        (NetworkConfig, {"family": "gamma"}, "networks have gaussian, binomial, poisson, multinomial, and no gamma"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(section, keys, said):
    with pytest.raises(ValueError, match=said):
        section.model_validate({"formula": "y ~ x", **keys})


def test_an_exported_model_has_the_mean_of_each_link():
    from tfglm.export import MEANS
    from tfglm.families import LINKS, family_of

    refused = ("multinomial", "ordinal", "truncated_poisson", "truncated_negative_binomial")
    for name, links in LINKS.items():
        for link in links if name not in refused else ():
            family = family_of(name, link)
            eta = np.array([0.3, 1.7]) if family.positive_predictor else np.array([-2.0, 0.3, 1.7])
            np.testing.assert_allclose(MEANS[link](eta), family.mean(eta), rtol=1e-14)
