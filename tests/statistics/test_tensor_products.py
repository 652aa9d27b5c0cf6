"""Smooths of several numbers, `te(x, z)`: the same model in other words, and what is told of it. tests/statistics/test_smooths.py
compares their fits with mgcv."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.spatial
import tensorflow as tf

from pools import average_rows, estimates_of, fit_files, fit_frame, ingest_frame, margins, predicted, to_predict
from tfglm import export
from tfglm.data import training_rows
from tfglm.design import thin_plates, transforms
from tfglm.design.references import check_pairwise
from tfglm.design.transforms import derivative
from tfglm.errors import UserError
from tfglm.formula.parse import parse
from tfglm.formula.read import columns_of, has_curves, has_smooths
from tfglm.report.curves import effects_plot, surfaces_of
from tfglm.report.shapes import shapes_in_words
from tfglm.report.words import NO_WORDS, Words
from tfglm.results import effects, joint

GOLDEN = Path(__file__).parents[1] / "golden"
R = json.loads((GOLDEN / "smooths.json").read_text())
ROWS = pd.read_csv(GOLDEN / "smooths.csv")[["hour", "wind", "miles", "carrier", "trips", "gusts", "hits"]]
SHOWN = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [ingest_frame(ROWS, tmp_path_factory.mktemp("surfaces"))]


@pytest.fixture(scope="module")
def fit(files):
    return fit_files(files, "hits ~ te(hour, wind) + carrier", "poisson")


@pytest.fixture(scope="module")
def plates(files):
    return fit_files(files, "hits ~ s(hour, wind, k=15) + carrier", "poisson")


@pytest.fixture(scope="module")
def interaction(files):
    return fit_files(files, "hits ~ s(hour) + s(wind) + ti(hour, wind) + carrier", "poisson")


def lambdas(fitted) -> dict[str, float]:
    (smooth,) = fitted.summary["smooths"]
    return {margin["column"]: margin["log_lambda"] for margin in smooth["margins"]}


ON_A_LINE = {
    "constant": (np.zeros_like, 5, r"`s\(x, z, k=5\)`: s\(\) of two columns needs points that are not on one line"),
    "a line": (lambda x: 1e9 - 3 * x, 5, "needs points that are not on one line"),
    "few": (
        np.square,
        30,
        "k=30 coefficients, and the training rows have 20 distinct pairs of values; choose a k of at most 20",
    ),
}

OTHER_WORDS = {
    "other units": (
        "hits ~ te(hour, wind) + carrier",
        lambda frame: frame.assign(hour=frame["hour"] * 1e9, wind=frame["wind"] * 1e-9),
    ),
    "another origin": ("hits ~ te(hour, wind) + carrier", lambda frame: frame.assign(hour=frame["hour"] + 1024)),
    "in the other order": ("hits ~ carrier + te(wind, hour)", lambda frame: frame),
    "other rows first": ("hits ~ te(hour, wind) + carrier", lambda frame: frame.sample(frac=1, random_state=1)),
    "derived": ("hits ~ te(I(hour / 60 - 7), wind) + carrier", lambda frame: frame),
}


def in_a_larger_unit(frame):
    return frame.assign(hour=frame["hour"] * 1e9 + 1e10, wind=frame["wind"] * 1e9)


@pytest.mark.parametrize("change", [in_a_larger_unit, OTHER_WORDS["other rows first"][1]])
def test_isotropic_smooths_have_neither_units_nor_an_order_of_rows(change, plates, tmp_path):
    frame = change(ROWS)
    design, fitted = fit_frame(frame, "hits ~ carrier + s(hour, wind, k=15)", "poisson", tmp_path / "fit")
    rows = predicted(design, fitted, to_predict(frame.iloc[:SHOWN], tmp_path / "rows"))
    expected = predicted(plates[0], plates[1], to_predict(ROWS.loc[frame.index[:SHOWN]], tmp_path / "expected"))
    error = expected["linear_predictor_std_error"]
    assert np.all(np.abs(rows["linear_predictor"] - expected["linear_predictor"]) <= 1e-6 * error)
    np.testing.assert_allclose(rows["linear_predictor_std_error"], error, rtol=1e-6)


def test_scenarios_set_one_number_of_a_surface(plates, files, tmp_path):
    design, fitted, dictionary = plates
    averaged = average_rows(design, fitted, files, margins_at={"calm": {"wind": "2"}})
    of_calm = predicted(design, fitted, to_predict(ROWS.assign(wind=2.0), tmp_path))["mean"].mean()
    assert averaged.scenarios["calm"].averages[""][0].mean[0] == pytest.approx(of_calm, rel=1e-10)
    with pytest.raises(UserError, match=r"models\.m\.margins_at\.calm\.wind: 99 is outside the range"):
        average_rows(design, fitted, files, margins_at={"calm": {"wind": "99"}})
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert len(table) == 31**2 and set(table["column"]) == {"hour"} and set(table["column_2"]) == {"wind"}


def test_an_interaction_beside_curves_has_a_surface_and_follows_scenarios(interaction, files, tmp_path):
    design, fitted, dictionary = interaction
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert table["term"].drop_duplicates().tolist() == ["s(hour)", "s(wind)", "ti(hour, wind)"]
    assert [surface.term for surface in surfaces_of(table)] == ["ti(hour, wind)"]
    effects_plot(table, "m: effects", "effect", "rate_ratio", [tmp_path / "effects.svg"])
    assert "ti(hour, wind)" in (tmp_path / "effects.svg").read_text()
    averaged = average_rows(design, fitted, files, margins_at={"calm": {"wind": "2"}})
    of_calm = predicted(design, fitted, to_predict(ROWS.assign(wind=2.0), tmp_path))["mean"].mean()
    assert averaged.scenarios["calm"].averages[""][0].mean[0] == pytest.approx(of_calm, rel=1e-10)
    tests = joint.joint_tests(estimates_of(design, fitted), [], fitted.summary["smooths"]).set_index("term")
    assert 0 < tests.loc["ti(hour, wind)", "p_value"] < 1


def test_each_level_has_a_surface_of_its_own(files):
    design, fitted, dictionary = fit_files(files, "gusts ~ carrier + s(hour, wind, by=carrier, k=10)", "gaussian")
    table = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert table["at"].drop_duplicates().tolist() == [f"carrier {level}" for level in ("AA", "B6", "DL")]
    assert table.groupby("at")["effect"].agg(np.ptp).nunique() == 3 and len(surfaces_of(table)) == 3
    with pytest.raises(UserError, match=r"depends on both columns of `s\(hour, wind, k=10\)`; take it out"):
        check_pairwise(design, ["carrier"], {})


def test_frequencies_and_samples_of_points(tmp_path, monkeypatch):
    once = ROWS[["hour", "wind", "gusts", "trips"]]
    often = once.loc[once.index.repeat(once["trips"])]
    first, other = (
        fit_frame(frame, "gusts ~ s(hour, wind, k=9)", "gaussian", tmp_path / str(number), **keys)
        for number, (frame, keys) in enumerate([(once, {"frequency": "trips"}), (often, {})])
    )
    assert first[0].numeric[0].learnt == other[0].numeric[0].learnt
    assert first[1].summary["reml"] == pytest.approx(other[1].summary["reml"], rel=1e-9)
    whole = fit_frame(once, "gusts ~ s(hour, wind, k=9)", "gaussian", tmp_path / "whole")[1]
    monkeypatch.setattr(training_rows, "MOST_COUNTED", 100)
    monkeypatch.setattr(thin_plates, "MOST_CENTRES", 60)
    design, fitted = fit_frame(once, "gusts ~ s(hour, wind, k=9)", "gaussian", tmp_path / "sampled")
    assert "as there are more than 100 distinct pairs of its values" in design.remarks[0]
    assert len(design.numeric[0].learnt[0]["centres"]) == 60 and fitted.summary["converged"]
    assert fitted.summary["deviance"] == pytest.approx(whole.summary["deviance"], rel=0.02)


@pytest.mark.parametrize(("z", "k", "problem"), ON_A_LINE.values(), ids=ON_A_LINE)
def test_points_without_a_plane_are_refused(z, k, problem, tmp_path):
    x = np.arange(20.0)
    frame = pd.DataFrame({"x": x, "z": z(x), "y": x**2})
    with pytest.raises(UserError, match=problem):
        fit_frame(frame, f"y ~ s(x, z, k={k})", "gaussian", tmp_path)


@pytest.mark.parametrize("how", OTHER_WORDS)
def test_the_same_rows_in_other_words_have_the_same_surface(how, fit, tmp_path):
    formula, change = OTHER_WORDS[how]
    frame = change(ROWS)
    design, fitted = fit_frame(frame, formula, "poisson", tmp_path / "fit")
    order = frame.index[:SHOWN]
    rows = predicted(design, fitted, to_predict(frame.iloc[:SHOWN], tmp_path / "rows"))
    expected = predicted(fit[0], fit[1], to_predict(ROWS.loc[order], tmp_path / "expected"))
    error = expected["linear_predictor_std_error"]
    assert np.all(np.abs(rows["linear_predictor"] - expected["linear_predictor"]) <= 1e-6 * error)
    np.testing.assert_allclose(rows["linear_predictor_std_error"], error, rtol=1e-6)
    assert lambdas(fitted) == pytest.approx(lambdas(fit[1]), abs=1e-6)
    assert fitted.summary["reml"] == pytest.approx(fit[1].summary["reml"], rel=1e-9)
    ours, others = (
        joint.joint_tests(estimates_of(*each[:2]), [], each[1].summary["smooths"]) for each in ((design, fitted), fit)
    )
    surfaces = [table[table["term"].str.startswith("te")].iloc[0] for table in (ours, others)]
    assert surfaces[0]["chi_squared"] == pytest.approx(surfaces[1]["chi_squared"], rel=1e-6)
    intercepts = [estimates_of(*each[:2]).values[0] for each in ((design, fitted), fit)]
    assert intercepts[0] == pytest.approx(intercepts[1], abs=1e-7)


def test_a_frequency_counts_as_so_many_rows(tmp_path):
    once = ROWS[["hour", "wind", "gusts", "trips"]]
    often = once.loc[once.index.repeat(once["trips"])]
    fits = [
        fit_frame(frame, "gusts ~ te(hour, wind, k=4)", "gaussian", tmp_path / str(number), **keys)
        for number, (frame, keys) in enumerate([(once, {"frequency": "trips"}), (often, {})])
    ]
    first, other = (fitted.summary for _, fitted in fits)
    for key in ("reml", "deviance", "df_residual"):
        assert first[key] == pytest.approx(other[key], rel=1e-9)
    np.testing.assert_allclose(fits[0][0].terms[1].means, fits[1][0].terms[1].means, atol=1e-14)
    assert first["smooths"][0]["statistics"] == pytest.approx(other["smooths"][0]["statistics"], rel=1e-7)


def test_given_smoothing_parameters_are_those_of_the_fit(files):
    values = R["fits"]["surface"]["log_lambda"]
    given = ", ".join(repr(float(np.exp(value))) for value in values)
    _, fitted, _ = fit_files(files, f"gusts ~ te(hour, wind, sp=[{given}])", "gaussian")
    (smooth,) = fitted.summary["smooths"]
    assert [margin["lambda_is"] for margin in smooth["margins"]] == ["given", "given"]
    assert smooth["edf"] == pytest.approx(R["fits"]["surface"]["edf"], abs=1e-6)


def test_a_surface_goes_on_beyond_the_rows_as_in_mgcv(files, tmp_path):
    design, fitted, _ = fit_files(files, "gusts ~ te(hour, wind)", "gaussian")
    far = pd.DataFrame({"hour": R["far"]["hour"], "wind": R["far"]["wind"]}).astype(float)
    rows = predicted(design, fitted, to_predict(far.assign(gusts=0.0), tmp_path))
    np.testing.assert_allclose(rows["linear_predictor"], R["far"]["eta"], rtol=1e-7)
    assert rows["remark"].tolist() == ["outside the range of a spline"] * 4
    design, fitted, _ = fit_files(files, "gusts ~ s(hour, wind)", "gaussian")
    rows = predicted(design, fitted, to_predict(far.assign(gusts=0.0), tmp_path / "plates"))
    np.testing.assert_allclose(rows["linear_predictor"], R["far"]["plates"], rtol=1e-6)
    assert rows["remark"].tolist() == ["outside the range of a spline"] * 4
    check_step(design, fitted, "step_on_plates")


@pytest.mark.parametrize("options", ["", "k=7, bs=ps", "k=6, bs=[cr, cc], lower_bound=0, upper_bound=15.5", "k=[3, 8]"])
def test_columns_of_a_margin_are_constant_linear_and_orthogonal_at_the_points_of_the_penalty(options):
    for margin in parse(f"y ~ te(hour, wind{options and ', '}{options})", "f").terms[0].margins:
        values, rows = np.unique(ROWS[margin.column], return_counts=True)
        learnt, columns = transforms.learn(margin.calls, values, rows, "f")
        penalty, periodic = np.array(learnt[-1]["penalty"]), learnt[-1].get("periodic", False)
        assert len(penalty) == columns.shape[1] and penalty[-1] == 1 and np.all(np.diff(penalty) >= 0)
        assert np.count_nonzero(penalty == 0) == (1 if periodic else 2)
        assert np.all(columns[:, 0] == columns[0, 0])
        if not periodic:
            np.testing.assert_allclose(
                np.diff(columns[:, 1]) / np.diff(values), (columns[-1, 1] - columns[0, 1]) / np.ptp(values)
            )
        points, step = np.array([-1.0, 3.3, 11.1, 25.5]), 1e-6
        above, below = (np.stack(transforms.apply(np, learnt, points + way * step)) for way in (1, -1))
        np.testing.assert_allclose(np.stack(derivative(learnt, points)), (above - below) / (2 * step), atol=1e-6)


def check_step(design, fitted, name):
    """The difference between two points of a surface is that of mgcv."""
    points = {"hour": np.array([20.0, 12.0]), "wind": np.array([8.0, 3.0])}
    rows = effects.at_points(design, design.terms[1], points)
    step = effects.compared(estimates_of(design, fitted), rows[:1] - rows[1:], "std_error", 0.95)
    assert step["effect"][0] == pytest.approx(R[name]["effect"], rel=1e-6)
    assert step["std_error"][0] == pytest.approx(R[name]["std_error"], rel=1e-5)


def test_effects_are_differences_on_the_surface(files, fit):
    design, fitted, _ = fit_files(files, "gusts ~ te(hour, wind)", "gaussian")
    check_step(design, fitted, "step")
    table = effects.curves(estimates_of(*fit[:2]), fit[2], 0.95)
    assert len(table) == 31**2 and set(table["column"]) == {"hour"} and set(table["column_2"]) == {"wind"}
    at_reference = table[(table["value"] == table["reference"]) & (table["value_2"] == table["reference_2"])]
    assert at_reference["effect"].tolist() == [0.0] and at_reference["ci_lower"].tolist() == [0.0]


@pytest.mark.parametrize("which", ["fit", "plates", "interaction"])
def test_marginal_effects_are_slopes_and_adjusted_means_hold_the_surface(which, files, request, tmp_path):
    design, fitted, _ = request.getfixturevalue(which)
    table = margins(design, fitted, files, {}, 0.95).effects.set_index("term")
    step = 1e-5
    for column in ("hour", "wind"):
        means = []
        for way in (1, -1):
            moved = to_predict(ROWS.assign(**{column: ROWS[column] + way * step}), tmp_path / f"{column}{way}")
            means.append(predicted(design, fitted, moved)["mean"].mean())
        slope = (means[0] - means[1]) / (2 * step)
        assert table.loc[column, "estimate"] == pytest.approx(slope, rel=1e-5)
        assert 0 < table.loc[column, "std_error"] < 1
    grid = margins(design, fitted, files, {}, 0.95, balanced=True).means
    middle = ROWS[["hour", "wind"]].mean()
    rows = pd.DataFrame({"carrier": ["AA", "B6", "DL"], "hits": 0}).assign(**middle)
    expected = predicted(design, fitted, to_predict(rows, tmp_path / "middle"))["mean"]
    np.testing.assert_allclose(grid["mean"], expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["fit", "plates", "interaction"])
def test_the_saved_model_predicts_as_the_tables_do(which, request, tmp_path):
    design, fitted, _ = request.getfixturevalue(which)
    rows = ROWS.iloc[:SHOWN].assign(hour=np.linspace(-5, 30, SHOWN))
    exported = export.ExportedRegression(design, fitted, {})
    served = exported.predict(
        carrier=tf.constant(rows["carrier"].tolist()),
        hour=tf.constant(rows["hour"], tf.float64),
        wind=tf.constant(rows["wind"], tf.float64),
    )
    expected = predicted(design, fitted, to_predict(rows, tmp_path))["linear_predictor"]
    np.testing.assert_allclose(served["linear_predictor"].numpy(), expected, rtol=1e-11)


def test_the_description_of_an_export_has_the_means_that_coefficients_are_for(fit, tmp_path):
    design, fitted, _ = fit
    described = export.description(design, estimates_of(design, fitted), fitted.summary, {})
    row = ROWS.iloc[0]
    numbers = {
        each["name"]: np.array(
            [
                float(column[0])
                for column in transforms.apply(np, each["functions"], row[[each["column"]]].to_numpy(float))
            ]
        )
        for each in described["numbers"]
    }
    products = np.outer(*numbers.values()).ravel()[1:]
    eta, place = 0.0, 0
    for coefficient in described["coefficients"]:
        if coefficient["term"] == "te(hour, wind)":
            eta += coefficient["estimate"] * (products[place] - coefficient["mean"])
            place += 1
        elif coefficient["term"] == "Intercept" or coefficient["level"] == row["carrier"]:
            eta += coefficient["estimate"]
    expected = predicted(design, fitted, to_predict(ROWS.iloc[:1], tmp_path))["linear_predictor"].iloc[0]
    assert place == 24 and eta == pytest.approx(expected, rel=1e-11)


def test_the_picture_has_contour_lines_and_the_sentence_says_where(fit, tmp_path):
    table = effects.curves(estimates_of(*fit[:2]), fit[2], 0.95)
    words = Words({}, {"wind": "m/s"}, names={"hour": "hour of the day"})
    (sentence,) = shapes_in_words(table, "the rate of hits", False, words)
    assert sentence.startswith("hour of the day and wind: the rate of hits is most clearly raised at ")
    assert "m/s, and most clearly lowered at " in sentence and "compared with 12.05 and 4.049 m/s." in sentence
    flat = table.assign(ci_lower=-1.0, ci_upper=1.0)
    assert shapes_in_words(flat, "the rate", False, NO_WORDS) == ["hour and wind: no clear change of the rate."]
    effects_plot(table, "m: effects", "effect", "rate_ratio", [tmp_path / "effects.svg"])
    picture = (tmp_path / "effects.svg").read_text()
    assert 100 < picture.count(" against 12.05, 4.04933 (") < 12**2
    assert "dotted: no clear difference; blank: far from rows" in picture and "te(hour, wind)" in picture
    # As mgcv's exclude.too.far, but for points within a cell of the limit.
    points = table[["value", "value_2"]] / np.ptp(table[["value", "value_2"]], axis=0)
    rows = ROWS[["hour", "wind"]] / np.ptp(table[["value", "value_2"]].to_numpy(), axis=0)
    distance = scipy.spatial.distance.cdist(points, rows).min(axis=1)
    is_clear = np.abs(distance - effects.TOO_FAR) > 2**0.5 / 128
    assert ((distance > effects.TOO_FAR) == (table["is_far"] == 1))[is_clear].all() and is_clear.mean() > 0.9
    effects_plot(table.assign(is_far=0), "m: effects", "effect", "rate_ratio", [tmp_path / "whole.svg"])
    assert (tmp_path / "whole.svg").read_text().count(" against 12.05, 4.04933 (") == 12**2


def test_constant_surfaces_and_straight_ones_are_said_to_be_so(files):
    design, fitted, _ = fit_files(files, "gusts ~ te(hour, log1p(wind), miles, k=[5, 4, 3])", "gaussian")
    tests = joint.joint_tests(estimates_of(design, fitted), [], fitted.summary["smooths"])
    assert tests["note"].iloc[0].endswith("effective degrees of freedom, straight along wind")


def test_a_column_that_does_not_vary_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"`z in te\(x, z\)`: te\(\) needs a column that varies, and it has one value"):
        fit_frame(
            pd.DataFrame({"x": np.arange(20), "z": 1.0, "y": np.arange(20.0) ** 2}),
            "y ~ te(x, z)",
            "gaussian",
            tmp_path,
        )


def test_a_straight_relation_between_the_columns_leaves_what_rows_tell(tmp_path):
    random = np.random.default_rng(4)
    x = random.uniform(0, 10, 200).round(2)
    frame = pd.DataFrame({"x": x, "z": 2 * x + 1, "y": np.sin(x) + 0.1 * random.normal(size=200)})
    _, fitted = fit_frame(frame, "y ~ te(x, z)", "gaussian", tmp_path)
    assert fitted.summary["converged"] and fitted.summary["deviance"] < 4


def test_the_columns_and_curves_of_a_formula_are_found():
    formula = "late ~ te(hour, wind, k=[5, 6], bs=[cr, cc], lower_bound=0, upper_bound=24) + carrier"
    assert columns_of(formula) == ["late", "hour", "wind", "carrier"]
    assert has_curves(formula) and has_smooths(formula)
    assert not has_smooths("late ~ rate(x)")


def test_smoothing_parameters_settle_where_the_likelihood_is_flat(tmp_path):
    """Both lambdas of v and w are infinite, where the slope of V is a rounding error."""
    random = np.random.default_rng(38)
    frame = pd.DataFrame({name: random.uniform(size=500).round(4) for name in "xzvw"})
    eta = (np.sin(2 * np.pi * frame["x"]) + 0.3) * (0.5 + frame["z"])
    for _ in range(72):
        random.normal(size=40)
        frame["y"] = random.poisson(np.exp(eta.to_numpy()))
    _, fitted = fit_frame(frame, "y ~ te(x, z) + te(v, w)", "poisson", tmp_path)
    assert fitted.summary["converged"]
    assert [margin["lambda_is"] for margin in fitted.summary["smooths"][1]["margins"]] == ["infinite", "infinite"]
    # As gam(method = "REML") of mgcv finds them.
    assert [margin["log_lambda"] for margin in fitted.summary["smooths"][0]["margins"]] == pytest.approx(
        [0.9134, 7.4475], abs=5e-3
    )
