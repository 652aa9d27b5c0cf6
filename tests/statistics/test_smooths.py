"""Smooth terms and random effects against mgcv's gam(method = "REML") on the same rows (tests/golden/smooths.R), and what is
refused."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

from configs import message
from pools import estimates_of, fit_files, fit_frame, ingest_frame, margins, predicted, table_of, to_predict
from tfglm import export
from tfglm.design import thin_plates, transforms
from tfglm.design.kinds import check_not_smooth
from tfglm.design.transforms import derivative
from tfglm.distribute.local import LocalExecutor
from tfglm.errors import UserError
from tfglm.families.family import LikelihoodSums
from tfglm.families.gaussian import Gaussian
from tfglm.families.negative_binomial import NegativeBinomial
from tfglm.formula.parse import parse
from tfglm.inference.fitted import Fitted
from tfglm.report.words import NO_WORDS, plain
from tfglm.results import effects, joint, unseen
from tfglm.solvers.information import Blocks
from tfglm.solvers.reml import Parameters, Penalties, WorkingModel, first_phi, rises_along

GOLDEN = Path(__file__).parents[1] / "golden"
R, GAPS = (json.loads((GOLDEN / f"{name}.json").read_text()) for name in ("smooths", "gaps"))
ROWS = pd.read_csv(GOLDEN / "smooths.csv")
SHOWN = 40
FITS = {
    "gaussian": ("delay ~ s(hour) + s(wind, k=6) + carrier", "gaussian", {}),
    "weights": ("delay ~ s(hour)", "gaussian", {"weights": "trips"}),
    "p_splines": ("bumps ~ s(hour, bs=ps, k=20) + carrier", "poisson", {}),
    "offset": ("bumps ~ s(hour, bs='cr')", "poisson", {"offset": "log(miles)"}),
    "binomial": ("late ~ s(hour, k=12) + carrier", "binomial", {}),
    "trials": ("events ~ s(hour)", "binomial", {"trials": "seats"}),
    "probit": ("late ~ s(hour)", "binomial", {"link": "probit"}),
    "gamma": ("cost ~ s(hour)", "gamma", {}),
    "negative_binomial": ("waits ~ s(hour)", "negative_binomial", {"theta": 2.5}),
    "by": ("delay ~ carrier + s(hour, by=carrier, k=8)", "gaussian", {}),
    "random": ("delay ~ s(hour) + s(plane, bs=re)", "gaussian", {}),
    "random_binomial": ("events ~ s(hour) + s(plane, bs=re)", "binomial", {"trials": "seats"}),
    "logarithm": ("delay ~ s(log1p(wind), k=5)", "gaussian", {}),
    "periodic": ("late ~ s(hour, k=8, bs=cc, lower_bound=0, upper_bound=24) + carrier", "binomial", {}),
    "straight": ("flat ~ s(hour)", "gaussian", {}),
    "two_random": ("late ~ s(hour) + s(plane, bs=re) + s(carrier, bs=re)", "binomial", {}),
    "slopes": ("climb ~ hour + (hour || plane)", "gaussian", {}),
    "weak": (
        "cost ~ s(wind, k=6, bs=cc, lower_bound=0, upper_bound=20) + s(plane, bs=re) + s(carrier, bs=re)",
        *("gamma", {}),
    ),
    "given": (
        f"delay ~ s(hour, sp={math.exp(R['fits']['given']['log_lambda'][0])}) + s(wind, k=6) + carrier",
        "gaussian",
        {},
    ),
    "surface": ("gusts ~ te(hour, wind)", "gaussian", {}),
    "surface_beside": ("gusts ~ te(hour, wind, k=[6, 5]) + s(miles) + carrier", "gaussian", {}),
    "surface_binomial": ("fails ~ te(hour, wind)", "binomial", {}),
    "surface_poisson": ("hits ~ te(hour, wind, bs=[ps, cr], k=[7, 4])", "poisson", {"offset": "log(miles)"}),
    "surface_periodic": (
        "hits ~ te(hour, wind, bs=[cc, cr], k=[6, 5], lower_bound=0, upper_bound=24)",
        *("poisson", {}),
    ),
    "surface_flat": ("late ~ te(wind, miles, k=4)", "binomial", {}),
    "thin_plates": ("delay ~ s(hour, bs=tp) + s(wind, k=6, bs=tp) + carrier", "gaussian", {}),
    "thin_plates_binomial": ("late ~ s(hour, bs=tp, k=15) + carrier", "binomial", {}),
    "thin_plates_by": ("bumps ~ carrier + s(hour, by=carrier, bs=tp, k=8)", "poisson", {}),
    "isotropic": ("gusts ~ s(hour, wind)", "gaussian", {}),
    "isotropic_binomial": ("fails ~ s(hour, wind, k=12) + s(miles) + carrier", "binomial", {}),
    "isotropic_by": ("gusts ~ carrier + s(hour, wind, by=carrier, k=10)", "gaussian", {}),
    "varying": ("gain ~ s(hour) + s(hour, by=wind, k=8) + carrier", "gaussian", {}),
    "varying_twice": ("gain ~ s(hour) + s(hour, by=wind) + s(hour, by=wet)", "gaussian", {}),
    "varying_binomial": ("slips ~ s(hour, by=wind) + carrier", "binomial", {}),
    "varying_poisson": ("shots ~ s(hour, by=wind, bs=ps, k=9)", "poisson", {"offset": "log(miles)"}),
    "varying_periodic": ("gain ~ s(hour, by=wind, bs=cc, k=8, lower_bound=0, upper_bound=24)", "gaussian", {}),
    "varying_plates": ("gain ~ s(hour, by=wind, bs=tp, k=8) + s(plane, bs=re)", "gaussian", {}),
    "varying_isotropic": ("gusts ~ s(hour, wind, by=miles, k=12)", "gaussian", {}),
    "varying_surface": ("gusts ~ te(hour, wind, by=miles)", "gaussian", {}),
    "varying_straight": ("flat ~ s(hour, by=miles)", "gaussian", {}),
    "interaction": ("gusts ~ s(hour) + s(wind) + ti(hour, wind)", "gaussian", {}),
    "interaction_poisson": (
        "hits ~ s(hour) + s(wind) + ti(hour, wind, bs=[ps, cr], k=[7, 4]) + carrier",
        *("poisson", {}),
    ),
    "interaction_periodic": (
        "fails ~ s(wind) + ti(hour, wind, bs=[cc, cr], k=[6, 5], lower_bound=0, upper_bound=24)",
        *("binomial", {}),
    ),
    "surface_of_three": ("gusts ~ te(hour, log1p(wind), miles, k=[5, 4, 3])", "gaussian", {}),
}
INFINITE = 15.0
"""log lambda of mgcv that is as good as infinite."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [ingest_frame(ROWS.assign(constant=2, far=ROWS["wet"] + 1e6), tmp_path_factory.mktemp("smooths"))]


@pytest.fixture(scope="module")
def first_rows(tmp_path_factory):
    return to_predict(ROWS.iloc[:SHOWN], tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def fits(files):
    """Each fit of FITS, when it is first asked for."""
    known: dict = {}

    def fit(name):
        if name not in known:
            formula, family, settings = FITS[name]
            known[name] = fit_files(files, formula, family, std_errors="unconditional", **settings)[:2]
        return known[name]

    return fit


def as_given(fitted: Fitted) -> Fitted:
    """The fit with the errors that take smoothing parameters for known."""
    return replace(fitted, covariance=replace(fitted.covariance, smoothing_root=fitted.covariance.smoothing_root[:0]))


@pytest.mark.parametrize("name", FITS)
def test_the_fit_is_that_of_mgcv(name, fits, first_rows):
    design, fitted = fits(name)
    theirs, summary = R["fits"][name], fitted.summary
    assert summary["converged"] and summary["std_errors"]["kind"] == "unconditional"
    rows, error = predicted(design, as_given(fitted), first_rows), np.array(theirs["std_error"])
    assert np.all(np.abs(rows["linear_predictor"] - theirs["eta"]) <= 1e-6 * error)
    np.testing.assert_allclose(rows["linear_predictor_std_error"], error, rtol=1e-5)
    log_lambda, edf = (np.atleast_1d(theirs[key]) for key in ("log_lambda", "edf"))
    smooths = summary["smooths"]
    lambdas = [each for smooth in smooths for each in smooth.get("margins", [smooth])]
    finite = [each["lambda_is"] in ("finite", "given") for each in lambdas]
    assert finite == (log_lambda < INFINITE).tolist()
    np.testing.assert_allclose(
        [each["log_lambda"] for each in lambdas if each["lambda_is"] != "infinite"],
        log_lambda[finite],
        rtol=0,
        atol=1e-6,
    )
    np.testing.assert_allclose([smooth["edf"] for smooth in smooths], edf, rtol=0, atol=1e-5)
    assert summary["df_residual"] == pytest.approx(theirs["df_residual"], abs=1e-5)
    assert fitted.covariance.dispersion == pytest.approx(theirs["scale"], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "formula"),
    [("s", "waits ~ s(hour) + carrier"), ("random", "waits ~ s(hour) + s(plane, bs=re) + s(carrier, bs=re)")],
)
def test_theta_beside_smooth_terms_is_that_of_mgcv(name, formula, files, first_rows):
    design, fitted, _ = fit_files(files, formula, "negative_binomial")
    theirs, summary = R["theta"][name], fitted.summary
    assert summary["converged"] and abs(summary["theta"] - theirs["theta"]) <= 1e-5 * summary["theta_std_error"]
    rows, error = predicted(design, fitted, first_rows), np.array(theirs["std_error"])
    assert np.all(np.abs(rows["linear_predictor"] - theirs["eta"]) <= 1e-6 * error)
    np.testing.assert_allclose(rows["linear_predictor_std_error"], error, rtol=1e-5)
    np.testing.assert_allclose([smooth["edf"] for smooth in summary["smooths"]], theirs["edf"], rtol=0, atol=1e-5)


class Counting(LocalExecutor):
    """Counts the passes."""

    passes = 0

    def sum(self, *arguments):
        self.passes += 1
        return super().sum(*arguments)


@pytest.mark.parametrize(
    ("formula", "family", "most"),
    [
        ("late ~ s(hour, k=12) + carrier", "binomial", 10),
        ("bumps ~ s(hour, bs=ps, k=20) + carrier", "poisson", 10),
        ("waits ~ s(hour) + carrier", "negative_binomial", 26),
    ],
)
def test_smoothing_parameters_and_theta_need_few_passes(formula, family, most, files):
    executor = Counting()
    fit_files(files, formula, family, executor=executor)
    assert executor.passes <= most


def test_a_search_that_does_not_settle_begins_again(tmp_path):
    """Forty rows that a curve nearly separates. V falls from a straight line to the curve of mgcv's gam, whose edf this is."""
    random = np.random.default_rng(10)
    x, z = random.uniform(size=40).round(3), random.normal(size=40).round(2)
    late = (random.uniform(size=40) < 1 / (1 + np.exp(3 - 4 * np.sin(2 * np.pi * x)))).astype(int)
    rows = pd.DataFrame({"x": x, "z": z, "late": late})
    summary = fit_frame(rows, "late ~ s(x, bs=ps, k=15) + z", "binomial", tmp_path)[1].summary
    assert summary["converged"] and summary["smooths"][0]["lambda_is"] == "finite"
    assert summary["smooths"][0]["edf"] == pytest.approx(2.059043, abs=1e-5)


@pytest.mark.parametrize(
    ("family", "edf", "theta", "coefficients"),
    [
        ("poisson", 8.5778193, np.nan, [-0.1254181375, 0.2078034055]),
        ("negative_binomial", 7.95965441, 2.909745751, [-0.1045479788, 0.2483432545]),
    ],
)
def test_turns_that_overshoot_become_shorter(family, edf, theta, coefficients, tmp_path):
    """The Poisson fit alternated between two lambdas of s(z). The numbers are those of mgcv with poisson() and nb(), and
    gam(claims ~ s(z, bs = "ps", k = 12) + s(u, bs = "tp", k = 6) + s(log(x + 1), bs = "cr", k = 5) + h, method = "REML").
    """
    rows = pd.read_csv(GOLDEN / "overshooting.csv")
    design, fitted = fit_frame(
        rows, "claims ~ s(z, bs=ps, k=12) + s(u, bs=tp, k=6) + s(log(x + 1), k=5) + h", family, tmp_path
    )
    summary = fitted.summary
    assert summary["converged"] and summary["smooths"][1]["lambda_is"] == "infinite"
    assert sum(smooth["edf"] for smooth in summary["smooths"]) + 3 == pytest.approx(edf, abs=1e-4)
    table = table_of(design, fitted)
    np.testing.assert_allclose(table.loc[("h", ["q", "r"]), "estimate"], coefficients, rtol=1e-5)
    if family == "negative_binomial":
        assert abs(summary["theta"] - theta) <= 1e-5 * summary["theta_std_error"]


BETWEEN = pd.DataFrame(GAPS["between"])
IN_GAPS = {
    "p_splines": ("y ~ s(x, bs=ps, k=20)", "gaussian"),
    "p_splines_poisson": ("hits ~ s(x, bs=ps, k=18) + f", "poisson"),
    "p_splines_by": ("late ~ f + s(x, by=f, bs=ps, k=12)", "binomial"),
    "p_splines_varying": ("y ~ s(x, by=w, bs=ps, k=15)", "gaussian"),
    "surface": ("y ~ te(x, z, bs=[ps, ps], k=[8, 6])", "gaussian"),
    "surface_poisson": ("hits ~ te(x, z, bs=[cr, ps], k=[5, 7])", "poisson"),
    "periodic": ("y ~ s(x, bs=cc, k=12, lower_bound=0, upper_bound=8)", "gaussian"),
    "thin_plates": ("y ~ s(x, bs=tp, k=12) + s(z, bs=ps, k=8)", "gaussian"),
    "slopes": ("y ~ f + f:x + s(x, k=8)", "gaussian"),
    "slopes_alone": ("late ~ f:x + s(x, bs=ps, k=12)", "binomial"),
}


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """The training rows of IN_GAPS, and the rows between them to predict."""
    rows, folder = pd.read_csv(GOLDEN / "gaps.csv"), tmp_path_factory.mktemp("gaps")
    responses = {"y": 0.0, "late": 0, "hits": 0}
    between = to_predict(BETWEEN.assign(**responses), folder, "between")
    return [ingest_frame(rows, folder)], between


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", IN_GAPS)
def test_curves_where_no_row_is_have_the_errors_of_mgcv(name, gaps):
    """Coefficients that no row sees keep the variance of their penalty. Of a curve beside slopes of a factor, these are the
    differences from the reference level, and the curve keeps its straight line."""
    (files, between), theirs = gaps, GAPS["fits"][name]
    design, fitted, _ = fit_files(files, *IN_GAPS[name], std_errors="unconditional")
    rows, error = predicted(design, as_given(fitted), between), np.array(theirs["std_error"])
    assert np.all(np.abs(rows["linear_predictor"] - theirs["eta"]) <= 1e-5 * error)
    np.testing.assert_allclose(rows["linear_predictor_std_error"], error, rtol=1e-5)
    if not design.distribution.dispersion_known:
        free = predicted(design, fitted, between)["linear_predictor_std_error"]
        np.testing.assert_allclose(free, theirs["unconditional"], rtol=1e-4)
    smooths = fitted.summary["smooths"]
    np.testing.assert_allclose([smooth["edf"] for smooth in smooths], np.atleast_1d(theirs["edf"]), atol=1e-5)
    fitted = as_given(fitted)
    terms = joint.joint_tests(estimates_of(design, fitted), [], smooths)
    of_smooths = terms[terms["term"].str.match(r"(?:s|te)\(")]
    np.testing.assert_allclose(of_smooths["df"], np.atleast_1d(theirs["rank"]), atol=1e-5)
    # psum.chisq of mgcv is exact to 2e-5.
    np.testing.assert_allclose(of_smooths["p_value"], np.atleast_1d(theirs["p_value"]), rtol=1e-3, atol=2e-5)
    table = table_of(design, fitted)
    estimated = table[table["std_error"].notna() & ~table.index.get_level_values(0).str.match(r"(?:s|te)\(")]
    error = np.atleast_1d(theirs["error"])
    assert np.all(np.abs(estimated["estimate"] - theirs["estimate"]) <= 1e-5 * error)
    np.testing.assert_allclose(estimated["std_error"], error, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        *(
            (name, {})
            for name in ("p_splines", "p_splines_poisson", "periodic", "thin_plates", "slopes", "slopes_alone")
        ),
        ("slopes", {"f": "b"}),
    ],
)
def test_a_curve_has_the_errors_of_mgcv_where_no_row_is(name, reference, gaps):
    design, fitted, dictionary = fit_files(gaps[0], *IN_GAPS[name])
    curve = effects.curves(estimates_of(design, fitted, reference), dictionary, 0.95)
    curve, theirs = curve[curve["column"] == "x"], GAPS["fits"][name]["curves"][len(reference)]
    error = np.array(theirs["std_error"])
    assert np.all(np.abs(curve["effect"] - theirs["effect"]) <= 1e-5 * error)
    np.testing.assert_allclose(curve["std_error"], error, rtol=1e-5, atol=1e-12)
    level = "b" if reference else "a"
    assert curve["at"].unique().tolist() == ([f"f {level}"] if "slopes" in name else [""])


INSEPARABLE = {
    "s(hour, k=8) + s(clock, k=8)": "s(hour, k=8)",
    "s(hour, k=8) + s(clock, bs=ps, k=12)": "",
    "s(clock, k=6) + te(hour, wind, k=[6, 4])": "",
    "carrier + s(hour, by=carrier, k=5) + s(clock, by=carrier, k=5)": "carrier + s(hour, by=carrier, k=5)",
    "s(hour, k=7, bs=cc, lower_bound=0, upper_bound=24) + s(clock, k=7, bs=cc, lower_bound=3, upper_bound=51)": (
        "s(hour, k=7, bs=cc, lower_bound=0, upper_bound=24)"
    ),
    "s(plane, bs=re) + s(tail, bs=re)": "s(plane, bs=re)",
}


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """Rows with the same number in two units, and the same groups with two names."""
    rows = ROWS.assign(clock=2 * ROWS["hour"] + 3, tail="X" + ROWS["plane"].str[::-1])
    return [ingest_frame(rows, tmp_path_factory.mktemp("alike"))]


@pytest.mark.parametrize("errors", ["classical", "robust"])
@pytest.mark.parametrize("terms", INSEPARABLE)
def test_terms_that_cannot_be_told_apart_are_named_and_have_no_test(terms, errors, alike):
    design, fitted, _ = fit_files(alike, f"delay ~ {terms}", "gaussian", std_errors=errors)
    summary, names = fitted.summary, [term.name for term in design.terms if term.name.startswith(("s(", "te("))]
    for smooth in summary["smooths"]:
        (other,) = smooth["inseparable_from"]
        assert {smooth["term"], other} == set(names)
    assert (
        sum("cannot be told apart" in text and all(name in text for name in names) for text in summary["warnings"]) == 1
    )
    tests = joint.joint_tests(estimates_of(design, fitted), [], summary["smooths"])
    tests = tests[tests["term"].str.startswith(("s(", "te("))]
    assert tests["p_value"].isna().all() and tests["note"].str.contains("cannot be told apart from").all()
    if alone := INSEPARABLE[terms]:
        of_one = fit_files(alike, f"delay ~ {alone}", "gaussian", std_errors=errors)[1].summary
        for key in ("deviance", "effective_coefficients"):
            assert summary[key] == pytest.approx(of_one[key], rel=1e-6)


@pytest.mark.parametrize(
    "terms", ["s(hour) + s(log1p(hour))", "s(hour) + s(plane, bs=re)", "s(plane, bs=re) + s(carrier, bs=re)"]
)
def test_terms_that_rows_or_penalties_tell_apart_have_tests(terms, alike):
    summary = fit_files(alike, f"delay ~ {terms}", "gaussian")[1].summary
    assert not any("inseparable_from" in smooth for smooth in summary["smooths"])


def test_a_lower_minimum_behind_a_barrier_is_found(tmp_path):
    """V rises by 0.03 from a straight line before it falls by 1.08. The numbers are those of mgcv's
    gam(y ~ s(x, by = v, k = 12, bs = "tp") + f + offset(log(e)), binomial, method = "REML"), on as many rows as `fr` says."""
    rows, weights = pd.read_csv(GOLDEN / "local_minimum.csv"), {"frequency": "fr", "offset": "log(e)"}
    formulas = [f"y ~ s(x, by=v, k=12, bs=tp{sp}) + f" for sp in ("", ", sp=1e9")]
    curve, straight = (
        fit_frame(rows, formula, "binomial", tmp_path / str(number), **weights)[1].summary
        for number, formula in enumerate(formulas)
    )
    (smooth,) = curve["smooths"]
    assert smooth["lambda_is"] == "finite" and smooth["log_lambda"] == pytest.approx(4.225197373, abs=1e-6)
    assert smooth["edf"] == pytest.approx(4.707707514, abs=1e-6)
    assert straight["reml"] - curve["reml"] == pytest.approx(1.077176884, abs=1e-6)


def test_v_along_a_log_lambda_is_that_of_the_model():
    """By one eigendecomposition as by a factorisation at each point, for two penalties of the same coefficients."""
    random = np.random.default_rng(11)
    x, y = random.normal(size=(200, 9)), random.normal(size=200)
    nothing = np.zeros(0)
    blocks = Blocks(np.arange(9), nothing.astype(int), x.T @ x, np.zeros((9, 0)), nothing)
    weights = np.stack([np.append(0, row) for row in random.gamma(1, 1, (2, 8))])
    limits = [np.full(2, value) for value in (-20.0, 20.0, 0.0)]
    shared, normal = np.append(False, np.full(8, True)), Gaussian().dispersed
    sums = LikelihoodSums(loss=0.0, saturated=0.0, base=0.0, rows=200.0, weight_sum=200.0)
    for dispersed, outside in product((None, lambda log_phi: normal(log_phi, sums)), (np.zeros(9, bool), ~shared)):
        penalties = Penalties((), weights, np.zeros(2), shared, *limits, outside)
        model = WorkingModel("m", penalties, blocks, x.T @ y, 0.5 * y @ y, random.normal(size=9) / 50, dispersed, 1)
        here = Parameters(np.array([1.0, 18.0]), 0.0)
        points = np.array([[1.0, place] for place in (-10.0, 0.0, 5.0, 18.0, 20.0)])
        rises = rises_along(model, here, model.penalised(here.log_lambda), 1, points)
        each = [Parameters(point, 0.0) for point in (here.log_lambda, *points)]
        if dispersed:
            each = [replace(at, log_phi=first_phi(model, at)) for at in each]
        before, *after = map(model.value, each)
        np.testing.assert_allclose(rises, np.array(after) - before, rtol=1e-6, atol=1e-6)


def test_derivatives_by_theta_are_those_of_differences():
    eta, y, step = np.linspace(-2, 3, 30), np.arange(30.0), 1e-4

    def derivatives(log_theta: float) -> np.ndarray:
        family = NegativeBinomial(np.exp(log_theta))
        score = (family.loss(eta + step, y) - family.loss(eta - step, y)) / (2 * step)
        return np.stack([score, family.observed(eta, y)])

    expected = (derivatives(0.7 + step) - derivatives(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(NegativeBinomial(np.exp(0.7)).slopes_by_shape(eta, y), expected, rtol=1e-5, atol=1e-5)


def test_theta_without_a_finite_estimate_is_refused_beside_smooth_terms(files):
    with pytest.raises(UserError, match="theta: the response `trips` varies no more around its mean than a Poisson"):
        fit_files(files, "trips ~ s(hour)", "negative_binomial")


@pytest.mark.parametrize("name", FITS)
def test_errors_with_estimated_smoothing_parameters_are_those_of_mgcv(name, fits, first_rows):
    design, fitted = fits(name)
    theirs, rows = R["fits"][name], predicted(design, fitted, first_rows)["linear_predictor_std_error"]
    np.testing.assert_allclose(rows, theirs["unconditional"], rtol=5e-4)
    assert np.all(rows >= predicted(design, as_given(fitted), first_rows)["linear_predictor_std_error"] * (1 - 1e-9))
    # The correction that gam adds is small.
    assert np.all(rows >= 0.75 * np.array(theirs["unconditional_of_gam"]))
    corrected = fitted.summary["effective_coefficients_corrected"]
    assert corrected == pytest.approx(theirs["edf_corrected"], rel=5e-4)
    assert fitted.summary["aic_corrected"] == pytest.approx(theirs["aic"], abs=4.0)
    assert fitted.summary["aic_corrected"] - fitted.summary["aic"] == pytest.approx(
        2 * (corrected - fitted.summary["effective_coefficients"])
    )


@pytest.mark.parametrize("name", FITS)
def test_tests_of_terms_are_those_of_mgcv(name, fits):
    design, fitted = fits(name)[0], as_given(fits(name)[1])
    theirs, smooths = R["fits"][name], fitted.summary["smooths"]
    terms = joint.joint_tests(estimates_of(design, fitted), [], smooths).set_index("term")
    p_values, ranks = (iter(np.atleast_1d(theirs[key])) for key in ("p_value", "rank"))
    for smooth in smooths:
        term = terms.loc[f"{smooth['term']}[{smooth['level']}]" if smooth["level"] else smooth["term"]]
        p = next(p_values)
        assert term["df"] == pytest.approx(next(ranks), abs=1e-5)
        # psum.chisq of mgcv is exact to 2e-5.
        assert term["p_value"] == pytest.approx(p, rel=1e-3, abs=2e-5)
        assert 10 ** -term["neg_log10_p"] == pytest.approx(term["p_value"], rel=1e-6)
        assert "effective degrees of freedom" in term["note"] or smooth.get("lambda_is") == "infinite"
    table = table_of(design, fitted)
    is_smooth = table.index.get_level_values(0).str.match(r"(?:s|te)\(")
    parametric = table[~is_smooth & table["p_value"].notna()]
    p_values = parametric["p_value"]
    if design.random_parts:
        # mgcv has the residual degrees of freedom, lmerTest those of tests/statistics/test_population.py.
        df = np.inf if design.distribution.dispersion_known else fitted.summary["df_residual"]
        p_values = 2 * scipy.stats.t.sf(np.abs(parametric["t"]), df)
    np.testing.assert_allclose(p_values, np.atleast_1d(theirs["parametric"]), rtol=1e-4)
    assert table["p_value"][is_smooth].isna().all()


def test_the_restricted_likelihood_differs_from_that_of_mgcv_by_a_constant_of_the_basis(fits):
    def difference(name: str) -> float:
        return fits(name)[1].summary["reml"] - R["fits"][name]["reml"]

    for name in ("gamma", "offset", "probit", "random"):
        assert difference(name) == pytest.approx(difference("straight"), abs=1e-6)
    # With trials the columns are standardised by other weights.
    assert difference("random_binomial") == pytest.approx(difference("trials"), abs=1e-6)
    assert difference("surface_binomial") == pytest.approx(difference("surface"), abs=1e-6)


def test_splines_go_on_straight_beyond_the_rows_as_in_mgcv(files, tmp_path):
    rows = to_predict(pd.DataFrame({"hour": R["beyond"]}).assign(delay=0.0), tmp_path)
    for basis, expected in R["splines"].items():
        design, fitted, _ = fit_files(files, f"delay ~ s(hour, bs={basis})", "gaussian")
        np.testing.assert_allclose(predicted(design, fitted, rows)["linear_predictor"], expected, rtol=1e-6)


SPLINES = ["s(hour)", "s(hour, bs=tp)", "s(hour, bs=ps, k=12)", "s(hour, k=7, bs=cc, lower_bound=0, upper_bound=24)"]


@pytest.mark.parametrize("term", SPLINES)
def test_columns_of_a_smooth_are_uncorrelated_and_have_the_slopes_of_their_curves(term):
    calls = parse(f"y ~ {term}", "f").terms[0].margins[0].calls
    values, rows = np.unique(ROWS["hour"], return_counts=True)
    learnt, columns = transforms.learn(calls, values, rows, "f")
    share = rows / rows.sum()
    np.testing.assert_allclose(share @ columns, 0, atol=1e-12)
    np.testing.assert_allclose(columns.T @ (share[:, None] * columns), np.eye(columns.shape[1]), atol=1e-11)
    points, step = np.array([-1.0, 3.3, 11.1, 25.5]), 1e-6
    above, below = (np.stack(transforms.apply(np, learnt, points + way * step)) for way in (1, -1))
    np.testing.assert_allclose(np.stack(derivative(learnt, points)), (above - below) / (2 * step), atol=1e-6)


def test_thin_plates_have_no_units_and_few_centres(monkeypatch):
    monkeypatch.setattr(thin_plates, "MOST_CENTRES", 40)
    values, rows = np.unique(ROWS["hour"], return_counts=True)
    assert len(thin_plates.centres_of(values[:, None])) == 40
    calls = parse("y ~ s(hour, bs=tp, k=6)", "f").terms[0].margins[0].calls
    fits = [
        transforms.learn(calls, values * unit + origin, rows, "f") for unit, origin in ((1, 0), (1e9, 5e9), (1e-6, 0))
    ]
    for unit, (learnt, columns) in zip((1e9, 1e-6), fits[1:], strict=True):
        np.testing.assert_allclose(columns @ columns.T, fits[0][1] @ fits[0][1].T, atol=1e-9)
        np.testing.assert_allclose(np.array(learnt[0]["penalty"]) * unit**3, fits[0][0][0]["penalty"], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binomial", "periodic", "thin_plates_binomial", "varying_twice", "varying_isotropic"])
def test_the_saved_model_predicts_as_the_tables_do(name, fits, first_rows):
    design, fitted = fits(name)
    exported, rows = export.ExportedRegression(design, fitted, {}), ROWS.iloc[:SHOWN]
    texts = {"carrier": tf.constant(rows["carrier"].tolist())} if "carrier" in design.columns else {}
    numbers = {
        name: tf.constant(rows[name], tf.float64) for name in design.number_columns if name != design.roles.response
    }
    served = exported.predict(**texts, **numbers)
    expected = predicted(design, fitted, first_rows)["linear_predictor"]
    np.testing.assert_allclose(served["linear_predictor"].numpy(), expected, rtol=1e-11)


@pytest.mark.parametrize("name", ["random", "random_binomial", "slopes"])
def test_a_new_level_has_the_mean_of_all_and_the_variance_of_its_effect(name, fits, tmp_path):
    """Half of the rows are of a new plane."""
    known = np.arange(SHOWN) % 2 == 0
    rows = ROWS.iloc[:SHOWN].assign(plane=np.where(known, ROWS["plane"].iloc[:SHOWN], "N99"))
    file = to_predict(rows, tmp_path)
    (design, fitted), theirs = fits(name), R["new"][name]
    fitted, smooths = as_given(fitted), fitted.summary["smooths"]
    table = predicted(design, fitted, file, smooths)
    random = [smooth for smooth in smooths if smooth["is_random"]]
    sizes = [rows["hour"] ** 2 if "hour" in smooth["term"] else 1.0 for smooth in random]
    of_effect = sum(smooth["std_dev"] ** 2 * size for smooth, size in zip(random, sizes, strict=True))
    eta, error = (
        np.where(known, R["fits"][name]["eta"], theirs["eta"]),
        np.where(known, R["fits"][name]["std_error"], np.sqrt(np.array(theirs["variance"]) + of_effect)),
    )
    np.testing.assert_allclose(table["linear_predictor"], eta, rtol=0, atol=1e-6)
    np.testing.assert_allclose(table["linear_predictor_std_error"], error, rtol=1e-5)
    named = ", ".join(smooth["term"] for smooth in random)
    assert table["unseen"].fillna("").tolist() == ["" if each else named for each in known]


@pytest.mark.parametrize("name", ["random", "random_binomial", "slopes"])
def test_the_standard_deviation_of_random_effects_is_that_of_mgcv(name, fits):
    (_, planes), theirs = fits(name)[1].summary["smooths"], R[name]
    for ours, key in (("std_dev", "std_dev"), ("std_dev_lower", "lower"), ("std_dev_upper", "upper")):
        assert planes[ours] == pytest.approx(theirs[key], rel=1e-3)


def test_classical_errors_have_the_same_intervals_of_standard_deviations(files):
    formula, family, settings = FITS["random_binomial"]
    _, plane = fit_files(files, formula, family, **settings)[1].summary["smooths"]
    for key in ("std_dev_lower", "std_dev_upper"):
        theirs = R["random_binomial"]["lower" if key.endswith("lower") else "upper"]
        assert plane[key] == pytest.approx(theirs, rel=1e-2)


REFUSED = {
    "delay ~ s(trips)": "k=10 coefficients, and the training rows have 4 distinct values; choose a k of at most 4",
    "delay ~ s(hour, k=2)": "k of s() must be a whole number from 3",
    "delay ~ s(hour, bs=gp)": "bs of s() is cr, ps, cc or tp for a number, and re for a factor, received gp",
    "delay ~ s(trips, bs=tp)": "k=10 coefficients, and the training rows have 4 distinct values; choose a k of at most 4",
    "delay ~ s(hour, bs=cc)": "s() with bs=cc takes lower_bound and upper_bound",
    "delay ~ s(hour, lower_bound=0)": "s() takes lower_bound with bs=cc alone",
    "delay ~ s(carrier)": "`carrier` is text, and s() takes numbers",
    "delay ~ s(hour) + hour": "are both of `hour`, and a smooth contains the straight line; keep one",
    "delay ~ s(hour) + s(hour, by=carrier) + carrier": "are both of `hour`",
    "delay ~ s(hour):wind": "a smooth is no factor of a product",
    "delay ~ s(hour, by=carrier)": "their means differ by the term `carrier`; add it to the formula",
    "delay ~ s(hour, by=trips) + trips": "`trips` and `s(hour):trips` are both of `trips`, and a smooth contains the straight",
    "delay ~ s(hour, by=trips) + s(trips, k=4)": "are both of `trips`",
    "delay ~ s(hour, by=trips) + s(wind, by=trips)": "are both of `trips`",
    "delay ~ s(hour, by=trips) + hour:trips": "are both of `hour` times `trips`",
    "delay ~ s(hour, by=hour)": "by is another column: a factor, or a number that multiplies the curve, as in s(hour, by=g)",
    "delay ~ s(hour, by=log(wind))": "curve, as in s(hour, by=g); define others under data.derive",
    "delay ~ s(hour, by=constant)": "`constant` has the value 2 in all training rows; leave by out",
    "delay ~ s(hour, by=far)": "`far` is not centred, and its mean, 1e+06, is more than 1,000 standard deviations from 0; ",
    "delay ~ s(hour, by=delay)": "`delay` is the response and cannot be on the right-hand side too",
    "delay ~ s(hour, sp=0)": "sp of s() is the smoothing parameter, a number above 0, received 0",
    "delay ~ s(hour, wind, miles)": "s() takes one column or two, and k, bs and by, as in s(hour, k=20, bs=cr); for a "
    "smooth of more write te(hour, wind, miles)",
    "delay ~ s(hour, wind, bs=cr)": "s() of two columns has bs=tp alone; for other bases write te(hour, wind)",
    "delay ~ s(hour, wind, k=3)": "k of s() of two columns must be a whole number from 4",
    "delay ~ s(hour, wind, k=300)": "k of s() must be a whole number from 3 to 200 with bs=tp, received 300",
    "delay ~ s(log1p(hour), wind)": "s() of two columns takes the names of two, as in s(x, z)",
    "delay ~ s(hour, hour)": "s() of two columns takes the names of two, as in s(x, z)",
    "delay ~ s(hour, carrier)": "`carrier` is text, and s() takes numbers",
    "delay ~ s(hour, delay)": "`delay` is the response and cannot be on the right-hand side too",
    "delay ~ s(hour, winds)": "no column `winds`; did you mean `wind`?",
    "delay ~ s(hour, wind) + wind": "are both of `wind`, and a smooth contains the straight line; keep one",
    "delay ~ s(hour, wind) + te(wind, miles)": "are both of `wind`",
    "delay ~ te(hour, trips)": "`trips in te(hour, trips)`: te() has k=5 coefficients, and the training rows have 4 distinct",
    "delay ~ te(hour, carrier)": "`carrier` is text, and te() takes numbers",
    "delay ~ te(hour, hour)": "te() takes different columns, and `hour` is there twice; take one out",
    "delay ~ te(hour)": "te() takes two columns or more, by, and k, bs, sp, lower_bound, upper_bound",
    "delay ~ te(hour, wind, by=carrier) + carrier": "by of te() is a number that multiplies the surface, and `carrier` is a",
    "delay ~ te(hour, wind, k=[5, 6, 7])": "k is a list of 3 for 2 columns",
    "delay ~ te(hour, wind, lower_bound=0)": "te() takes lower_bound with bs=cc alone",
    "delay ~ te(hour, wind, bs=tp)": "bs of te() is cr, ps or cc, received tp",
    "delay ~ te(hour, wind, k=40)": "has 1,599 coefficients, of 1,000 at most: k of all columns are multiplied",
    "delay ~ te(hour, wind) + s(wind)": "are both of `wind`, and a smooth contains the straight line; keep one",
    "delay ~ te(hour, wind) * carrier": "`te(hour, wind):carrier`: a smooth is no factor of a product",
    "delay ~ 0 + te(hour, wind)": "`te(hour, wind)` needs the intercept; take the 0 or - 1 out of the formula",
    "delay ~ t2(hour, wind)": "for a smooth of several columns write te(hour, wind)",
    "delay ~ s(log(hour), bs=re)": "s() with bs=re takes the name of one column, as in s(hour, bs=re)",
    "delay ~ (1 | carrier:plane)": "`(1 | carrier:plane)`: random effects are written (1 | g)",
    "delay ~ (1 | )": "random effects are written (1 | g)",
    "delay ~ (0 + carrier | plane)": "the levels of a factor come first and have random slopes of a number",
    "delay ~ (log(hour) || plane)": "random effects are (1 | g)",
    "delay ~ carrier + s(carrier, bs=re)": "have fixed and random effects",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_a_smooth_that_cannot_be_is_refused(formula, files):
    assert message(fit_files, files, formula, "gaussian").count(REFUSED[formula]) == 1


NAMED = {
    "reference": ["s(plane, bs=re)"],
    "pairwise": ["s(plane, bs=re)"],
    "contrasts.a": ["s(plane, bs=re)[N01]"],
    "profile.b": ["s(hour, k=8):carrier[AA:1]"],
}


@pytest.mark.parametrize("key", NAMED)
def test_single_coefficients_of_smooths_are_refused_where_they_would_be_tested(key):
    formula = parse("delay ~ carrier + s(hour, by=carrier, k=8) + s(plane, bs=re)", "models.m.formula")
    check_not_smooth("models.m", formula, {key: ["carrier", "carrier[AA]"]})
    with pytest.raises(UserError, match=f"models.m.{key}: .* is of a smooth term or random effects"):
        check_not_smooth("models.m", formula, {key: NAMED[key]})


def test_a_curve_beside_random_slopes_is_that_of_the_mean_slope(files):
    design, fitted, dictionary = fit_files(files, "climb ~ bs(hour, df=4) + (0 + hour | plane)", "gaussian")
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert table["at"].unique().tolist() == [""] and len(table["term"].unique()) == 1


def test_pages_name_random_effects_by_their_column():
    assert plain("s(plane, bs=re)") == "plane" and plain("s(hour)") == "s(hour)"
    assert NO_WORDS.level("s(plane, bs=re)", "N01") == "N01"


def test_random_effects_without_variance_are_said_to_have_none(tmp_path):
    rows = pd.DataFrame({"g": np.repeat(list("abcde"), 20), "y": np.tile(np.random.default_rng(2).normal(size=20), 5)})
    design, fitted = fit_frame(rows, "y ~ s(g, bs=re)", "gaussian", tmp_path)
    (smooth,) = fitted.summary["smooths"]
    assert smooth["lambda_is"] == "infinite" and smooth["edf"] < 1e-4
    terms = joint.joint_tests(estimates_of(design, fitted), [], fitted.summary["smooths"])
    assert terms["note"].tolist() == ["random effects: their variance is estimated as 0"]


def test_random_effects_of_single_rows_are_refused_beside_an_unknown_variance(tmp_path):
    rows = pd.DataFrame({"g": [f"g{number}" for number in range(30)], "y": np.arange(30.0) ** 2, "x": np.arange(30)})
    with pytest.raises(UserError, match="each level has one row"):
        fit_frame(rows, "y ~ x + s(g, bs=re)", "gaussian", tmp_path)


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
@pytest.mark.parametrize("within", [0.0, 1e-6])
def test_random_effects_of_levels_with_one_response_are_refused(family, within, tmp_path):
    """The error of x depends on the variance between levels alone, which has no finite ratio to that of a row."""
    random, level = np.random.default_rng(12), np.repeat(np.arange(20), 10)
    x, y = random.normal(size=(2, 20))
    rows = pd.DataFrame({"g": [f"g{number}" for number in level], "x": x[level], "y": np.exp(x + y)[level]})
    rows["y"] *= 1 + within * random.normal(size=200)
    with pytest.raises(
        UserError, match=r"`s\(g, bs=re\)` explains the response up to almost nothing.*\n.*one row of each"
    ):
        fit_frame(rows, "y ~ x + (1 | g)", family, tmp_path)


@pytest.mark.parametrize("within", [3e-3, 1e-4])
def test_random_effects_of_levels_with_almost_one_response_have_the_errors_of_their_means(within, tmp_path):
    random, level = np.random.default_rng(12), np.repeat(np.arange(20), 10)
    x, y = random.normal(size=(2, 20))
    rows = pd.DataFrame({"g": [f"g{number}" for number in level], "x": x[level]})
    rows["y"] = (x + y)[level] + within * random.normal(size=200)
    found = table_of(*fit_frame(rows, "y ~ x + (1 | g)", "gaussian", tmp_path)).loc[("x", "")]
    means = rows.groupby("g").mean()
    exact = scipy.stats.linregress(means["x"], means["y"])
    assert found["estimate"] == pytest.approx(exact.slope, rel=1e-6)
    assert found["std_error"] == pytest.approx(exact.stderr, rel=1e-4)
    assert found["p_value"] == pytest.approx(exact.pvalue, rel=1e-3)


@pytest.mark.parametrize(
    ("formula", "term", "weights"),
    [
        ("y ~ (0 + zero | g)", r"s\(g, zero, bs=re\)", {}),
        ("y ~ x + (0 + seen | g)", r"s\(g, seen, bs=re\)", {"weights": "weight"}),
        ("y ~ s(x, by=seen)", r"s\(x\):seen", {"frequency": "weight"}),
    ],
)
def test_terms_that_no_row_has_are_refused(formula, term, weights, tmp_path):
    x = np.arange(60)
    rows = pd.DataFrame(
        {"x": x, "y": x**0.5, "g": np.where(x % 3, "a", "b"), "zero": 0.0, "seen": x % 2, "weight": 1 - x % 2}
    )
    with pytest.raises(
        UserError, match=f"m.formula: `{term}`: the number that multiplies it is 0 in all training rows"
    ):
        fit_frame(rows, formula, "gaussian", tmp_path, **weights)


@pytest.mark.parametrize("formula", ["late ~ s(x) + z", "late ~ s(z)"])
def test_terms_that_separate_the_rows_are_refused(formula, tmp_path):
    random = np.random.default_rng(3)
    rows = pd.DataFrame({"x": random.normal(size=200).round(2), "z": random.normal(size=200).round(2)})
    with pytest.raises(UserError, match=r"separates 200 rows by their response.*\n.*write ns\(\) for s\(\)"):
        fit_frame(rows.assign(late=(rows["z"] > 0).astype(int)), formula, "binomial", tmp_path)


def test_a_curve_that_separates_the_rows_is_refused(tmp_path):
    x = np.random.default_rng(4).uniform(size=80).round(3)
    rows = pd.DataFrame({"x": x, "late": (np.sin(4 * np.pi * x) > 0).astype(int)})
    with pytest.raises(UserError, match=r"`s\(x, k=12\)` can separate rows .* rises without limit.*\n.*smaller k"):
        fit_frame(rows, "late ~ s(x, k=12)", "binomial", tmp_path)


def restricted(log_ratios: np.ndarray, y: np.ndarray, effects: list[np.ndarray]) -> float:
    """Minus the restricted log-likelihood of normal random effects and an intercept, with the variance of a row at its estimate.
    `log_ratios` are those of the variances of the effects to that of a row."""
    n = len(y)
    covariance = np.eye(n)
    for log_ratio, columns in zip(log_ratios, effects, strict=True):
        covariance = covariance + np.exp(log_ratio) * columns @ columns.T
    inverse, ones = np.linalg.inv(covariance), np.ones(n)
    weight = ones @ inverse @ ones
    residual = y - (ones @ inverse @ y) / weight
    variance = residual @ inverse @ residual / (n - 1)
    return 0.5 * (np.linalg.slogdet(covariance)[1] + np.log(weight) + (n - 1) * np.log(variance))


def test_more_random_effects_than_rows_have_the_variances_of_the_restricted_likelihood(tmp_path):
    random, n = np.random.default_rng(5), 60
    groups = {"a": random.integers(0, 40, n), "b": random.integers(0, 35, n)}
    y = random.normal(size=40)[groups["a"]] + random.normal(size=35)[groups["b"]] + 0.5 * random.normal(size=n)
    rows = pd.DataFrame(
        {name: [f"{name}{number}" for number in numbers] for name, numbers in groups.items()} | {"y": y}
    )
    design, fitted = fit_frame(rows, "y ~ s(a, bs=re) + s(b, bs=re)", "gaussian", tmp_path)
    assert fitted.summary["converged"] and design.size > n
    columns = [pd.get_dummies(rows[name]).to_numpy(float) for name in groups]
    least = scipy.optimize.minimize(restricted, np.zeros(2), (y, columns), method="Nelder-Mead", tol=1e-12)
    ratios = [-smooth["log_lambda"] for smooth in fitted.summary["smooths"]]
    np.testing.assert_allclose(ratios, least.x, atol=1e-5)


def test_each_level_has_a_curve_of_its_own(files):
    design, fitted, dictionary = fit_files(files, *FITS["by"][:2])
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert table["at"].drop_duplicates().tolist() == [f"carrier {level}" for level in ("AA", "B6", "DL")]
    curve = table[table["at"] == "carrier B6"]
    assert (curve["std_error"][curve["value"] != curve["reference"]] > 0).all()
    # The largest difference is about that between the ends of sin(hour / 4).
    assert 1.5 < np.ptp(curve["effect"]) < 3


def test_random_effects_have_no_average_effects_and_stand_for_no_other_level(files):
    design, fitted, _ = fit_files(files, *FITS["random"][:2])
    table = margins(design, fitted, files, {}, 0.95).effects
    plane = table[table["term"].str.contains("plane")].iloc[0]
    assert plane["status"] == "left out: its levels have random effects" and np.isnan(plane["estimate"])
    assert unseen.substitutes(design, fitted, "reference", {}) == {}
