"""Penalty factors, terms without a penalty and cross-validation against glmnet and loops of fits of their own."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import tfglm
from pools import design_of, estimates_of, fit_files, ingest_frame, table_of
from tfglm.config import ModelConfig, PathConfig
from tfglm.data.dictionary import merge
from tfglm.data.folds import assign_folds, folds_of_rows
from tfglm.data.shards import BLOCK_ROWS
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.report.penalties import path_plot
from tfglm.results import coefficients
from tfglm.solvers.objective import CONVERGED_BELOW
from tfglm.solvers.path import rows_of_fold

GOLDEN = Path(__file__).parents[1] / "golden"
RESPONSES = {"gaussian": "delay", "binomial": "late", "poisson": "late"}
FORMULA = "{} ~ carrier + C(origin) + hour + wind"
FACTORS = {"unpenalised": ["C(origin)"], "penalty_factors": {"hour": 0.5, "wind": 2}}
EACH = {"carrier": 1.0, "C(origin)": 0.0, "hour": 0.5, "wind": 2.0, "Intercept": 0.0}


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "penalties.json").read_text())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = pd.read_csv(GOLDEN / "clustered.csv")
    return frame.assign(origin=frame["day"] % 3)


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory) -> list:
    return [ingest_frame(frame, tmp_path_factory.mktemp("penalties"))]


def standardised(table: pd.DataFrame, frame: pd.DataFrame) -> pd.Series:
    """Coefficients of numbers by their standard deviations."""
    scale = {name: frame[name].std(ddof=0) for name in ("hour", "wind")}
    return table["estimate"] * [scale.get(term, 1.0) for term, _ in table.index]


@pytest.mark.parametrize(
    "case", ["gaussian 1", "gaussian 0.6", "binomial 1", "binomial 0.6", "poisson 1", "poisson 0.6"]
)
def test_a_path_with_penalty_factors_is_that_of_glmnet(case, golden, files, frame):
    family, l1_ratio = case.split()
    expected = golden["fits"][case]
    path = {"penalties": golden["penalties"], "l1_ratio": float(l1_ratio), "select": "aic"}
    design, fitted, _ = fit_files(files, FORMULA.format(RESPONSES[family]), family, path=path, **FACTORS)
    assert fitted.summary["converged"]
    names = list(design.coefficients())
    origin = [place for place, (term, _) in enumerate(names) if term == "C(origin)"]
    for point, b, intercept, beta in zip(
        fitted.summary["path"],
        fitted.path.coefficients,
        expected["intercept"],
        np.array(expected["beta"]).T,
        strict=True,
    ):
        assert point["largest_kkt_violation"] <= 1.001 * CONVERGED_BELOW * point["penalty"]
        ours = np.r_[b[0] + b[origin[0]], b[1:5], b[origin[1:]] - b[origin[0]], b[8:]]
        theirs = np.r_[intercept, beta]
        # Of as many positive as negative levels a lasso has a range of solutions, which differ by a constant.
        for each in (ours, theirs):
            each[0] += each[1:5].mean()
            each[1:5] -= each[1:5].mean()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6, err_msg=str(point["penalty"]))


@pytest.mark.parametrize("family", RESPONSES)
def test_numbers_are_standardised_with_the_weights_as_by_glmnet(family, golden, frame, tmp_path):
    weighted = frame.assign(weight=((frame["day"] + frame["hour"].round() ** 2) % 4).astype(int))
    path = {"penalties": golden["penalties"], "l1_ratio": 1, "select": "aic"}
    formula = f"{RESPONSES[family]} ~ hour + wind"
    _, fitted, _ = fit_files([ingest_frame(weighted, tmp_path)], formula, family, path=path, weights="weight")
    expected = golden["weighted"][family]
    # A path keeps the coefficients of standardised numbers.
    numbers, weight = frame[["hour", "wind"]].to_numpy(), weighted["weight"]
    center = np.average(numbers, axis=0, weights=weight)
    scale = np.sqrt(np.average((numbers - center) ** 2, axis=0, weights=weight))
    intercept, beta = np.array(expected["intercept"]), np.array(expected["beta"])
    theirs = np.vstack([intercept + center @ beta, scale[:, None] * beta])
    np.testing.assert_allclose(np.array(fitted.path.coefficients).T, theirs, rtol=0, atol=2e-6)


PENALISED = {
    "ridge": ("late ~ x + I(z^2) + g", "binomial", {"l2": 0.1}),
    "lasso": ("y ~ x + z + g", "gaussian", {"l1": 0.05}),
    "elastic net": ("count ~ x * g + z", "poisson", {"l1": 0.02, "l2": 0.05, "unpenalised": ["z"]}),
    "trials": ("late ~ x + z", "binomial", {"l2": 0.1, "trials": "m"}),
    "classes": ("g ~ x + z", "multinomial", {"l1": 0.01, "l2": 0.02}),
    "path": ("late ~ x + z", "binomial", {"path": {"l1_ratio": 0.5, "number": 3, "smallest": 0.1, "select": "aic"}}),
    "folds": ("y ~ x + z", "gaussian", {"path": {"number": 3, "by": "day", "folds": 3, "select": "cross_validation"}}),
}
OTHER_ROWS = {
    "repeated": lambda rows: rows.loc[rows.index.repeat(rows["f"])].assign(f=1),
    "split by weight": lambda rows: pd.concat([rows.assign(w=rows["w"] * share) for share in (0.25, 0.75)]),
    "without weight": lambda rows: pd.concat([rows, rows.assign(w=0.0, x=1e3, z=-50.0), rows.assign(f=0, x=-1e4)]),
    "frequency as weight": lambda rows: rows.assign(w=rows["w"] * rows["f"], f=1)[rows["f"] > 0],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", PENALISED)
def test_penalties_weigh_rows_as_often_as_frequency_and_weights_say(case, tmp_path):
    draw, rows = np.random.default_rng(3), 160
    frame = pd.DataFrame(
        {"x": draw.normal(3, 2, rows), "z": draw.gamma(2, 1, rows), "g": draw.choice(list("abc"), rows)}
    )
    frame = frame.assign(
        f=draw.integers(0, 5, rows), w=draw.choice([0.0, 0.5, 2.0], rows), day=draw.integers(0, 9, rows)
    )
    # The weights go with the numbers, so that they move means and standard deviations.
    frame["f"] = np.where(frame["x"] > 4, 9, frame["f"])
    effect = 0.5 * frame["x"] - 0.4 * frame["z"] - 1
    frame["late"] = (draw.uniform(size=rows) < 1 / (1 + np.exp(-effect))).astype(int)
    frame = frame.assign(y=effect + draw.normal(size=rows), count=draw.poisson(np.exp(effect / 2)), m=1)
    formula, family, keys = PENALISED[case]
    ends = {}
    for name, other in {"": lambda rows: rows, **OTHER_ROWS}.items():
        files = [ingest_frame(other(frame).reset_index(drop=True), tmp_path / name.replace(" ", "_"))]
        design, fitted, _ = fit_files(files, formula, family, weights="w", frequency="f", **keys)
        assert fitted.summary["converged"]
        ends[name] = table_of(design, fitted)["estimate"], fitted.summary
    estimates, summary = ends.pop("")
    assert estimates.abs().max() > 0.01
    for name, (other, of_other) in ends.items():
        np.testing.assert_allclose(other, estimates, rtol=1e-6, atol=1e-9, err_msg=name)
        assert of_other["deviance"] == pytest.approx(summary["deviance"], rel=1e-7), name
        for point, of_point in zip(summary.get("path", ()), of_other.get("path", ()), strict=True):
            assert of_point["penalty"] == pytest.approx(point["penalty"], rel=1e-9), name
            if case == "folds":
                assert of_point["deviance_cross_validated"] == pytest.approx(
                    point["deviance_cross_validated"], rel=1e-7
                ), name


def test_a_weighted_ridge_has_the_least_documented_objective(frame, tmp_path):
    weighted = frame.assign(w=frame["day"] % 3, f=1 + (frame["hour"] > 1) * 3)
    files = [ingest_frame(weighted, tmp_path)]
    table = table_of(*fit_files(files, "late ~ hour + wind", "binomial", l2=0.1, weights="w", frequency="f")[:2])
    weight = (weighted["w"] * weighted["f"]).to_numpy(float)
    numbers = frame[["hour", "wind"]].to_numpy()
    center = np.average(numbers, axis=0, weights=weight)
    scale = np.sqrt(np.average((numbers - center) ** 2, axis=0, weights=weight))

    def objective(b: np.ndarray) -> float:
        eta = b[0] + (numbers - center) / scale @ b[1:]
        return np.average(np.logaddexp(0, eta) - frame["late"] * eta, weights=weight) + 0.05 * np.sum(b[1:] ** 2)

    b = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    exact = [b[0] - center / scale @ b[1:], *(b[1:] / scale)]
    np.testing.assert_allclose(table["estimate"], exact, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.05), (0.02, 0.0)])
def test_a_fit_with_penalty_factors_has_the_least_objective_and_tables_say_what_is_compared(l1, l2, files, frame):
    design, fitted, _ = fit_files(files, FORMULA.format("late"), "binomial", l1=l1, l2=l2, **FACTORS)
    table = table_of(design, fitted)
    b = standardised(table, frame)
    factors = np.array([EACH[term] for term, _ in table.index])
    eta = table.loc[("Intercept", ""), "estimate"] + frame["hour"] * table.loc[("hour", ""), "estimate"]
    eta += frame["wind"] * table.loc[("wind", ""), "estimate"]
    eta += table.loc["carrier"]["estimate"].reindex(frame["carrier"]).to_numpy()
    eta += table.loc["C(origin)"]["estimate"].reindex(frame["origin"].astype(str)).to_numpy()
    residual = 1 / (1 + np.exp(-eta)) - frame["late"]
    columns = [np.ones(len(frame))] + [frame["carrier"] == level for level in ("AA", "B6", "DL", "UA")]
    columns += [frame["origin"] == level for level in range(3)]
    columns += [(frame[name] - frame[name].mean()) / frame[name].std(ddof=0) for name in ("hour", "wind")]
    slope = np.array([np.mean(residual * column) for column in columns]) + l2 * factors * b
    broken = np.where(b == 0, np.maximum(np.abs(slope) - l1 * factors, 0), np.abs(slope + l1 * factors * np.sign(b)))
    assert broken.max() <= max(1e-6 * l1, 1e-12)
    assert table.loc["C(origin)"]["reference"].tolist() == ["0"] * 3 and (table.loc["carrier"]["reference"] == "").all()
    assert table.loc[("C(origin)", "0"), "estimate"] == 0 and table["std_error"].isna().all()
    if l2:
        # The posterior with a flat prior for what is not penalised: that of the Hessian.
        x = np.stack(columns, 1).astype(float)[:, [0, 1, 2, 3, 4, 6, 7, 8, 9]]
        weight = (1 / (1 + np.exp(-eta)) * (1 - 1 / (1 + np.exp(-eta)))).to_numpy()
        hessian = (x * weight[:, None]).T @ x + np.diag(l2 * len(frame) * factors[[0, 1, 2, 3, 4, 6, 7, 8, 9]])
        deviation = np.sqrt(np.diag(np.linalg.inv(hessian)))
        ours = table["posterior_sd"].to_numpy()[[0, 1, 2, 3, 4, 6, 7, 8, 9]]
        ours[7:] *= [frame["hour"].std(ddof=0), frame["wind"].std(ddof=0)]
        assert ours[1:] == pytest.approx(deviation[1:], rel=1e-6)
        other = table_of(design, fitted, {"C(origin)": "2"}).loc["C(origin)"]
        assert other.loc["0", "estimate"] == pytest.approx(-table.loc[("C(origin)", "2"), "estimate"], rel=1e-9)
        contrast = {"2 - 1": {"C(origin)[2]": 1, "C(origin)[1]": -1}}
        assert coefficients.contrasts(estimates_of(design, fitted), contrast, 0.95)["posterior_sd"][0] > 0


def test_a_separated_level_of_an_unpenalised_term_is_infinite_and_of_another_not(frame, tmp_path):
    separated = frame.assign(late=np.where((frame["origin"] == 1) | (frame["carrier"] == "DL"), 1, frame["late"]))
    settings = {"family": "binomial", "l2": 0.01, "unpenalised": ["C(origin)"]}
    table = table_of(*fit_files([ingest_frame(separated, tmp_path)], FORMULA.format("late"), **settings)[:2])
    assert table.loc[("C(origin)", "1"), "status"] == "separated" and np.isposinf(
        table.loc[("C(origin)", "1"), "estimate"]
    )
    assert np.isfinite(table.loc[("carrier", "DL"), "estimate"])
    rest = ingest_frame(separated[separated["origin"] != 1], tmp_path / "rest")
    settings["l2"] = 0.01
    without = table_of(*fit_files([rest], FORMULA.format("late"), **settings)[:2])
    assert list(without.index) == [name for name in table.index if name != ("C(origin)", "1")]


def test_a_redundant_column_among_unpenalised_ones_is_aliased(frame, tmp_path):
    files = [ingest_frame(frame.assign(km=frame["hour"] * 1.5), tmp_path)]
    formula = "late ~ carrier + hour + km + wind"
    for l1, l2 in ((0.0, 0.02), (0.01, 0.0)):
        design, fitted, _ = fit_files(files, formula, "binomial", l1=l1, l2=l2, unpenalised=["hour + km"])
        table = table_of(design, fitted)
        assert table["status"].loc[[("hour", ""), ("km", "")]].tolist() == ["", "aliased"]


@pytest.mark.slow
def test_a_path_without_an_intercept_begins_with_what_is_not_penalised(frame, tmp_path):
    random = np.random.default_rng(3)
    mean = np.exp(4 + np.sin(frame["hour"] / 4) + 0.3 * frame["wind"] + 0.2 * (frame["origin"] == 1))
    files = [ingest_frame(frame.assign(fuel=(mean * random.gamma(3, 1 / 3, len(frame))).round(3)), tmp_path)]
    curve = "bs(hour, df=5)"
    formula = f"fuel ~ 0 + {curve} + C(origin) + ns(hour, df=4) + wind"
    settings = {"family": "gamma", "link": "log", "unpenalised": [curve]}
    path = {"penalties": [0.5, 0.01], "l1_ratio": 0, "select": "cross_validation", "folds": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        design, fitted, _ = fit_files(files, formula, path=path, **settings)
    (chosen,) = [point["penalty"] for point in fitted.summary["path"] if point["chosen"]]
    by_newton = fit_files(files, formula, l2=chosen, **settings)[:2]
    assert fitted.summary["converged"] and by_newton[1].summary["converged"]
    expected = table_of(*by_newton)["estimate"]
    assert table_of(design, fitted)["estimate"].to_numpy() == pytest.approx(expected.to_numpy(), abs=2e-6)
    # Of a link that not all linear predictors go with there may be nothing to begin with.
    trend = {"family": "gamma", "link": "inverse", "unpenalised": ["scale(wind)"]}
    with pytest.raises(
        UserError, match=r"models\.m\.unpenalised: without an intercept a path begins with these terms alone"
    ):
        fit_files(files, "fuel ~ 0 + scale(wind) + C(origin)", path={"select": "aic"}, **trend)


def test_a_step_that_cannot_be_told_names_the_model_and_what_to_do(files, monkeypatch):
    monkeypatch.setattr("tfglm.solvers.quadratic.MOST_CHANGES", 1)
    with pytest.raises(
        UserError, match=r"models\.m: a step of the elastic net was not solved, because .*; leave out a term"
    ):
        fit_files(files, FORMULA.format("late"), "binomial", l1=0.01)


REFUSED = {
    "unpenalised: no such term": ({"unpenalised": ["month"]}, "models.m.unpenalised: the formula has no term `month`"),
    "given twice": (
        {"unpenalised": ["hour"], "penalty_factors": {"hour + wind": 2}},
        "models.m.penalty_factors: the penalty of `hour` is given twice",
    ),
    "nothing left": ({"unpenalised": ["carrier", "hour", "wind"]}, "no term is left that penalties act on"),
    "no formula": ({"penalty_factors": {"log(": 2}}, "models.m.penalty_factors: not a formula"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_terms_that_are_not_there_are_refused(case, files):
    keys, expected = REFUSED[case]
    with pytest.raises(UserError) as error:
        design_of("late ~ carrier + hour + wind", "binomial", merge(files), files, l2=0.1, **keys)
    assert expected in str(error.value)


def test_a_term_is_unpenalised_or_has_a_factor():
    keys = {"penalty_factors": {"hour": 2}, "unpenalised": ["hour"], "l2": 0.1}
    with pytest.raises(ValueError, match="is in `unpenalised` too"):
        ModelConfig(formula="late ~ hour", family="binomial", **keys)


# Cross-validation -----------------------------------------------------------------------------------------------------


def fit_of(files, case: str, golden: dict, rule: str = "min", **keys):
    family, l1_ratio = case.split()
    path = {
        "penalties": golden["penalties"],
        "l1_ratio": float(l1_ratio),
        "select": "cross_validation",
        "rule": rule,
        **keys,
    }
    return fit_files(files, FORMULA.format(RESPONSES[family]), family, path=path, **FACTORS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["gaussian 1", "gaussian 0.6", "binomial 1", "binomial 0.6", "poisson 1", "poisson 0.6"]
)
def test_a_cross_validation_by_group_is_that_of_glmnet(case, golden, files, frame):
    expected = golden["fits"][case]
    design, fitted, _ = fit_of(files, case, golden, by="day", folds=5)
    assert Design.from_json(design.as_json) == design
    steps = pd.DataFrame(fitted.summary["path"])
    assert steps["deviance_cross_validated"].to_numpy() == pytest.approx(expected["cvm"], rel=1e-7)
    assert steps["cross_validation_std_error"].to_numpy() == pytest.approx(expected["cvsd"], rel=1e-5)
    folds = pd.read_csv(GOLDEN / "folds.csv").set_index("day")["fold"]
    sizes = frame["day"].map(folds).value_counts().sort_index()
    told = fitted.summary["cross_validation"]
    assert told == {"folds": 5, "by": "day", "rule": "min", "rows": sizes.tolist(), "not_converged": 0}
    mean = np.average(steps[[f"deviance_fold_{fold}" for fold in range(1, 6)]], axis=1, weights=sizes)
    assert mean == pytest.approx(steps["deviance_cross_validated"].to_numpy(), rel=1e-12)
    assert steps["penalty"][steps["chosen"]].tolist() == [pytest.approx(expected["min"])]
    one_se = fit_of(files, case, golden, rule="one_se", by="day", folds=5)[1].summary["path"]
    assert [step["penalty"] for step in one_se if step["chosen"]] == [pytest.approx(expected["one_se"])]


@pytest.mark.slow
def test_folds_of_rows_are_the_same_for_any_workers_and_terms(files, golden, frame):
    first = fit_of(files, "binomial 1", golden, folds=7)[1].summary
    assert sum(first["cross_validation"]["rows"]) == len(frame)
    assert min(first["cross_validation"]["rows"]) > 30 and first["cross_validation"]["by"] is None
    assert fit_of(files, "binomial 1", golden, folds=7)[1].summary["path"] == first["path"]
    path = {"penalties": [0.01], "select": "cross_validation", "folds": 7}
    for executor in (LocalExecutor(), LocalExecutor(2)):
        other = fit_files(files, "late ~ wind", "binomial", path=path, executor=executor)[1].summary
        assert other["cross_validation"]["rows"] == first["cross_validation"]["rows"]
    workload = Workload(fit_files(files, "late ~ wind", "binomial", path=path)[0], files, "train")
    for fold in range(7):
        held, rest = (
            rows_of_fold(workload, fold, is_held).sum(LocalExecutor(), "counts", workload.design.by_term(np.zeros(2)))
            for is_held in (True, False)
        )
        assert held["rows"] == first["cross_validation"]["rows"][fold] and held["rows"] + rest["rows"] == len(frame)


def test_folds_of_many_rows_are_of_equal_size_and_unrelated():
    many = folds_of_rows(np.random.default_rng(1).integers(0, 2**64, 40, np.uint64), 40 * BLOCK_ROWS, 10)
    assert abs(np.bincount(many, minlength=10) / len(many) - 0.1).max() < 0.003
    folds = folds_of_rows(np.array([5, 2**63 + 1, 5], np.uint64), 3 * BLOCK_ROWS, 10)
    assert (folds[:BLOCK_ROWS] == folds[2 * BLOCK_ROWS :]).all()
    assert abs(np.mean(folds[:BLOCK_ROWS] == folds[BLOCK_ROWS : 2 * BLOCK_ROWS]) - 0.1) < 0.01
    assert abs(np.mean(folds[1:] == folds[:-1]) - 0.1) < 0.01
    values = assign_folds([str(value) for value in range(103)], 10)
    assert sorted(np.bincount(values)) == [10] * 7 + [11] * 3
    assert assign_folds([str(value) for value in range(103)][::-1], 10)[::-1].tolist() == values.tolist()


@pytest.mark.slow
def test_levels_separated_without_a_fold_and_the_table_and_picture_of_a_path(frame, tmp_path):
    """All events of one level are in one group: without its fold it is separated there."""
    late = np.where((frame["origin"] == 1) & (frame["day"] != 4), 0, frame["late"])
    files = [ingest_frame(frame.assign(late=late), tmp_path)]
    path = {"number": 8, "smallest": 0.05, "select": "cross_validation", "by": "day", "folds": 5}
    design, fitted, _ = fit_files(files, FORMULA.format("late"), "binomial", path=path, unpenalised=["C(origin)"])
    validated = fitted.summary["cross_validation"]
    folds = pd.read_csv(GOLDEN / "folds.csv").set_index("day")["fold"]
    in_separated = ((frame["origin"] == 1) & (frame["day"].map(folds) == folds[4])).sum()
    assert validated["not_converged"] == 0 and sum(validated["rows"]) == len(frame) - in_separated
    alone = frame.assign(day_of=np.where(frame["day"] == 4, "fourth", "other"))
    alone_files = [ingest_frame(alone, tmp_path / "alone")]
    told = fit_files(alone_files, "late ~ day_of + hour", "binomial", path=path, unpenalised=["day_of"])[1].summary
    assert sum(told["cross_validation"]["rows"]) == len(frame) - (frame["day"] == 4).sum()
    table = pd.DataFrame(fitted.summary["path"])
    assert np.isfinite(table[["deviance_cross_validated", "deviance_fold_5"]].to_numpy()).all()
    terms = [term for term, _ in design.coefficients()]
    path_plot(table.dropna(axis=1, how="all"), fitted.path.coefficients, terms, "m", [tmp_path / "path.svg"])
    assert "folds held out" in (tmp_path / "path.svg").read_text()


def test_folds_that_cannot_be_are_refused(files, frame, tmp_path):
    path = {"select": "cross_validation", "by": "origin"}
    with pytest.raises(UserError, match=r"models.m.path.by: `origin` has 3 values in the training rows, and 10 folds"):
        design_of("late ~ hour", "binomial", merge(files), files, path=path)
    with pytest.raises(UserError, match=r"models.m.path.by: no column `date`"):
        design_of("late ~ hour", "binomial", merge(files), files, path=path | {"by": "date"})
    rare = ingest_frame(frame.assign(late=(np.arange(len(frame)) == 7).astype(int)), tmp_path)
    with pytest.raises(UserError, match="are all alike; use fewer folds"):
        fit_files([rare], "late ~ hour", "binomial", path={"select": "cross_validation", "penalties": [0.1]})
    with pytest.raises(ValueError, match="by: is of a cross-validation; add `select: cross_validation`"):
        PathConfig(by="day")
    with pytest.raises(ValueError, match=r"path.by: `late` is the response"):
        ModelConfig(formula="late ~ hour", family="binomial", path=PathConfig(select="cross_validation", by="late"))


def test_a_term_with_its_reference_level_is_named_as_the_formula_has_it(files):
    formula = "late ~ i(origin, ref=2) + i(origin, hour, ref=2) + hour + wind"
    keys = {"unpenalised": ["i(origin, ref=2)"], "penalty_factors": {"i(origin, hour, ref=2)": 2}}
    design = design_of(formula, "binomial", merge(files), files, l2=0.1, **keys)
    assert dict(design.penalty.factors) == {"C(origin)": 0, "C(origin):hour": 2}


def test_coefficients_between_bounds_have_the_least_loss_and_their_marks(frame):
    """The gradient of the loss at the minimum of SciPy is the multiplier; errors are those of a fit that knows the active set."""
    rows = frame.assign(origin="o" + frame["origin"].astype(str), weight=1 + frame["day"] % 3, far=frame["wind"] / 1e6)
    bounds = {"hour": [None, -0.01], "far": ["-inf", 2e5], "origin[o1]": [0.05, "inf"], "origin[o2]": [-0.3, 0.3]}
    model = tfglm.fit("late ~ hour + far + origin", rows, "binomial", bounds=bounds, weights="weight")
    table = model.coefficients.reset_index()
    names = [("Intercept", ""), ("hour", ""), ("far", ""), ("origin", "o1"), ("origin", "o2")]
    ours = table.set_index(["term", "level"]).loc[names]
    x = np.column_stack(
        [np.ones(len(rows)), rows["hour"], rows["wind"], rows["origin"] == "o1", rows["origin"] == "o2"]
    )
    y, weight = rows["late"].to_numpy(float), rows["weight"].to_numpy(float)

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        eta = x @ b
        return float(weight @ (np.logaddexp(0, eta) - y * eta)), x.T @ (weight * (1 / (1 + np.exp(-eta)) - y))

    limits = [(None, None), (None, -0.01), (None, 0.2), (0.05, None), (-0.3, 0.3)]
    best = minimize(loss, np.zeros(5), jac=True, bounds=limits, options={"ftol": 1e-16, "gtol": 1e-10})
    unit = np.array([1, 1, 1e6, 1, 1])
    on_bound = (ours["status"] == "at bound").to_numpy()
    assert on_bound.any()
    assert not on_bound.all()
    assert np.allclose(ours["estimate"], best.x * unit, rtol=1e-6, atol=1e-8)
    multipliers = [each["multiplier"] for each in model.fit["bounds"]]
    assert np.allclose(multipliers, np.where(on_bound, loss(ours["estimate"] / unit)[1] / unit, 0)[1:], rtol=1e-6)
    mean = 1 / (1 + np.exp(-x @ best.x))
    free = x[:, ~on_bound]
    information = free.T @ ((weight * mean * (1 - mean))[:, None] * free)
    assert np.allclose(ours["std_error"][~on_bound], np.sqrt(np.diag(np.linalg.inv(information))) * unit[~on_bound])
    assert ours["std_error"][on_bound].isna().all()
    assert "on a bound: `hour`" in model.fit["warnings"][-1]
    linear = tfglm.fit(
        "late ~ hour", rows, bounds={"hour": [None, -0.5]}, margins_at={"a": {"hour": 8}, "b": {"hour": 9}}
    )
    difference = linear.table("margins_at").set_index(["at", "against", "term"]).loc[("b", "a", "")]
    assert (difference["status"], difference["estimate"]) == ("at bound", pytest.approx(-0.5))
    assert np.isnan(difference["std_error"])


def test_bounds_hold_with_a_penalty_and_where_a_level_is_separated(frame):
    rows = frame.assign(late=np.where(frame["carrier"] == "UA", 0, frame["late"]))
    kept = tfglm.fit("late ~ hour + carrier", rows, "binomial", bounds={"carrier": [-0.5, 0.5]})
    assert kept.coefficients.loc[("carrier", "UA"), ["estimate", "status"]].tolist() == [-0.5, "at bound"]
    ridge = tfglm.fit("late ~ hour + carrier", rows, "binomial", bounds={"carrier": [-0.1, 0.1]}, l2=0.1)
    assert ridge.coefficients.loc["carrier", "estimate"].abs().max() == 0.1
    assert ridge.fit["converged"]
    for bounds, message in {
        "carrier": ([None, 0], "the terms separate rows by their response"),
        "hour:wind": (
            [0, None],
            "no term or coefficient `hour:wind`; did you mean `hour`?\n  there are: Intercept, hour, carrier, carrier[AA]",
        ),
        "Intercept": ([0, None], "`Intercept` can have no bound, because it depends on where they are zero: hour"),
        "hour": ([2, 1], "2 is not below 1, or both are infinite"),
        "carrier[AA]": ([0.1, 1], "`carrier[AA]` is the reference level, whose coefficient is 0"),
    }.items():
        with pytest.raises(UserError, match=re.escape(message[1])):
            tfglm.fit("late ~ hour + carrier", rows, "binomial", bounds={bounds: message[0]})
