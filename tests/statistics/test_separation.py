"""Rows that terms separate together, against linear programs and fits without these rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import tensorflow as tf
from scipy.optimize import linprog

import tfglm
from oracles import assert_agrees, flagged, logistic_regression, model_matrix, treatment_contrasts
from pools import design_of, estimates_of, fit_files, fit_frame, ingest_frame, margins, table_of, write_fit
from tfglm import checkpoint, export
from tfglm.config import SolverConfig
from tfglm.data.dictionary import merge
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.results import joint, predict
from tfglm.results.coefficients import contrasts
from tfglm.results.estimates import absent_estimates
from tfglm.solvers import rectifier
from tfglm.solvers.fit import objective_of
from tfglm.solvers.run import Run

FORMULA = "late ~ carrier + C(month) + both"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """All rows of carrier b in month 2 are late, while every carrier and every month has both."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"carrier": random.choice(["a", "b"], 400), "month": random.integers(1, 3, 400)})
    frame["both"] = ((frame["carrier"] == "b") & (frame["month"] == 2)).astype(int)
    frame["late"] = np.where(frame["both"] == 1, 1, random.integers(0, 2, 400))
    frame["day"] = random.integers(0, 60, 400)
    frame["w"] = random.integers(1, 4, 400)
    return frame


def separated_by_program(matrix: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Which rows a direction v with sides * (matrix @ v) >= 0 moves, if it moves as many as it can: the sum of t <= 1 is largest
    where sides * (matrix @ v) >= t."""
    ends = sides != 0
    towards = sides[ends, None] * matrix[ends]
    rows, size = towards.shape
    fixed = np.hstack([matrix[~ends], np.zeros((np.count_nonzero(~ends), rows))])
    found = linprog(
        np.r_[np.zeros(size), -np.ones(rows)],
        A_ub=np.hstack([-towards, np.eye(rows)]),
        b_ub=np.zeros(rows),
        A_eq=fixed,
        b_eq=np.zeros(len(fixed)),
        bounds=[(None, None)] * size + [(0, 1)] * rows,
    )
    result = np.zeros(len(sides), bool)
    result[np.flatnonzero(ends)] = found.x[size:] > 0.5
    return result


def limit_by_program(matrix: np.ndarray, sides: np.ndarray, place: int) -> float:
    """Where the directions that separate rows lead a coefficient: 0 if nowhere, NaN if to both ends."""
    ends, ways = sides != 0, []
    for sign in (1.0, -1.0):
        wanted = np.zeros(matrix.shape[1])
        wanted[place] = -sign
        found = linprog(
            wanted,
            A_ub=-sides[ends, None] * matrix[ends],
            b_ub=np.zeros(ends.sum()),
            A_eq=matrix[~ends],
            b_eq=np.zeros((~ends).sum()),
            bounds=(-1, 1),
        )
        ways.append(-found.fun > 1e-7)
    return {(False, False): 0.0, (True, False): np.inf, (False, True): -np.inf}.get(tuple(ways), np.nan)


def drawn(seed: int, family: str) -> pd.DataFrame:
    """Few rows, many of whose covariates are rare."""
    random = np.random.default_rng(seed)
    rows = int(random.integers(30, 90))
    frame = pd.DataFrame({"a": random.choice(list("abc"), rows), "x": random.integers(-3, 4, rows).astype(float)})
    for name in ("d", "e", "f"):
        frame[name] = (random.random(rows) < 0.12) * random.choice([1.0, 2.5], rows)
    eta = random.normal(0, 1) + 2 * random.normal() * frame["x"] + random.normal() * (frame["a"] == "a")
    events = random.random(rows) < 1 / (1 + np.exp(-eta))
    return frame.assign(y=events.astype(int) if family == "binomial" else random.poisson(np.exp(np.clip(eta, -9, 2))))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_rows_and_coefficients_are_those_of_linear_programs(family, tmp_path):
    seen: dict[str, int] = {}
    for seed in range(24):
        frame = drawn(seed, family)
        try:
            design, fitted = fit_frame(frame, "y ~ a + x + d + e + f", family, tmp_path / str(seed))
        except UserError:
            continue  # all rows are separated
        table, summary = table_of(design, fitted), fitted.summary
        # A level all of whose rows are separated is no reference level.
        reference = table.loc["a", "reference"].iloc[0]
        matrix = treatment_contrasts(frame.replace({"a": {reference: "_"}}), {"a": "a"}, list("xdef"))
        if summary["rows_of_separated_levels"] or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            continue
        y = frame["y"].to_numpy(float)
        sides = (y == 1) * float(family == "binomial") - (y == 0)
        separated = separated_by_program(matrix.to_numpy(), sides)
        assert summary["rows_separated_across_terms"] == separated.sum()
        for place, name in enumerate(matrix.columns):
            limit = limit_by_program(matrix.to_numpy(), sides, place)
            status = "not identified" if np.isnan(limit) else "separated" if limit else ""
            assert table.loc[name, "status"] == status
            assert status == "" or table.loc[name, "estimate"] == pytest.approx(limit, nan_ok=True)
            seen[status] = seen.get(status, 0) + 1
        # What is left is the fit without these rows, in which unidentified columns are redundant.
        kept = [name for name in matrix.columns if table.loc[name, "status"] == ""]
        rest = matrix[~separated]
        independent = list(kept)
        for name in rest.columns:
            if name not in kept and np.linalg.matrix_rank(rest[[*independent, name]]) > len(independent):
                independent.append(name)
        of_family = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
        exact = sm.GLM(y[~separated], rest[independent].to_numpy(), of_family).fit(method="newton", maxiter=60)
        estimate, error = exact.params[: len(kept)], exact.bse[: len(kept)]
        ours = table.loc[kept]
        assert np.all(np.abs(ours["estimate"] - estimate) <= 1e-6 * np.maximum(np.abs(estimate), error))
        np.testing.assert_allclose(ours["std_error"], error, rtol=1e-5)
    assert seen["separated"] >= 4 and seen[""] >= 30


def test_separation_is_seen_in_a_few_steps(frame, tmp_path, monkeypatch):
    passes: list[str] = []
    counted = Workload.sum
    monkeypatch.setattr(
        Workload,
        "sum",
        lambda self, executor, name, *rest: (passes.append(name), counted(self, executor, name, *rest))[1],
    )
    _, fitted = fit_frame(frame, FORMULA, "binomial", tmp_path)
    assert fitted.summary["rows_separated_across_terms"] == frame["both"].sum()
    # With a search that goes on until lambda^2 is 1e-12 there were 74.
    assert len(passes) <= 24, len(passes)


@pytest.mark.slow
def test_a_direction_is_found_whatever_the_scale(tmp_path):
    # Margins of 0.01 beside numbers of 10,000; and nothing is separated once two rows overlap by as much.
    random = np.random.default_rng(1)
    x = np.concatenate([random.uniform(-1e4, -0.01, 200), random.uniform(0, 1e4, 200)])
    frame = pd.DataFrame({"x": np.concatenate([x, [-0.01, 0.0]]), "g": [*"ab" * 200, *"aa"]})
    frame["late"] = (frame["x"] >= 0).astype(int)
    overlapping = frame.assign(x=np.concatenate([x, [0.0, -0.01]]))
    for number, (rows, expected) in enumerate([(frame, 402), (overlapping, 0)]):
        file = ingest_frame(rows, tmp_path / str(number))
        design = design_of("late ~ x + g", "binomial", merge([file]), [file])
        workload, executor = Workload(design, [file], "train"), LocalExecutor()
        direction = rectifier.separating_direction(objective_of(workload, Run(executor)).begin().objective)
        if expected:
            rest = workload.along(2 * direction[None])
            counts = rest.sum(executor, "counts", design.by_term(np.zeros(design.size)))
            assert counts["rows"] == 402 - expected
        else:
            assert direction is None


def test_rows_that_terms_separate_are_named_and_the_rest_is_the_fit_without_them(frame, tmp_path):
    told: list[str] = []
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], FORMULA, "binomial", tell=told.append)
    table, summary = table_of(design, fitted), fitted.summary
    rows = int(frame["both"].sum())
    assert flagged(table) == {("both", ""): "separated"} and table.loc[("both", ""), "estimate"] == np.inf
    assert table.loc[("both", ""), ["std_error", "p_value", "ci_lower"]].isna().all()
    rest = frame[frame["both"] == 0]
    matrix = treatment_contrasts(rest, {"carrier": "carrier", "C(month)": "month"}, [])
    exact = logistic_regression(rest["late"], matrix)
    assert_agrees(table, exact, list(matrix.columns))
    assert summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert summary["converged"] and summary["certificate"]["lambda_squared"] <= 1e-12
    assert (summary["rows_separated_across_terms"], summary["rows_of_separated_levels"]) == (rows, 0)
    assert (summary["coefficients"], summary["coefficients_separated"], summary["coefficients_aliased"]) == (3, 1, 0)
    assert f"separated by terms together, so left out of the likelihood: {rows} rows, by both" in told
    assert any(f"separate {rows} rows by their response" in warning for warning in summary["warnings"])
    assert absent_estimates(design, fitted)["separated_across_terms"] == [
        {"term": "both", "level": "", "estimate": "infinite"}
    ]
    # Its likelihood ratio has all rows: those that are separated have likelihood 1.
    tests = joint.joint_tests(estimates_of(design, fitted), summary["likelihood_ratio_tests"]).set_index("term")
    whole = treatment_contrasts(frame, {"carrier": "carrier", "C(month)": "month"}, [])
    less = logistic_regression(frame["late"], whole)
    assert tests.loc["both", "chi_squared"] == pytest.approx(2 * (exact.llf - less.llf), rel=1e-8)
    assert tests.loc["both", "df"] == 1


@pytest.mark.slow
def test_what_is_made_of_such_a_fit(frame, tmp_path):
    file = ingest_frame(frame, tmp_path, split={"train": "day < 50", "predict": "day >= 50"})
    design, fitted, _ = fit_files([file], FORMULA, "binomial")
    design.write(tmp_path / "design.json")
    write_fit(fitted, design, tmp_path)
    fitted = replace(checkpoint.load(design, tmp_path / "checkpoint"), summary=fitted.summary)
    assert flagged(table_of(design, fitted)) == {("both", ""): "separated"}
    later = frame[frame["day"] >= 50]
    infinite = (later["both"] == 1).to_numpy()
    predicted = pd.concat(each.to_pandas() for each in predict.predictions(design, fitted, file, {}, ["both"], 0.95))
    assert (predicted["remark"] == "separated level").tolist() == infinite.tolist()
    assert (predicted["probability"].isna() == (predicted["both"] == 1)).all()
    given = {name: tf.constant(later[name].astype(float).to_numpy()) for name in ("month", "both")}
    given["carrier"] = tf.constant(later["carrier"].tolist())
    exported = export.ExportedRegression(design, fitted, {})
    assert np.isnan(exported.predict(**given)["probability"].numpy()).tolist() == infinite.tolist()
    with pytest.raises(UserError, match="`both` is separated, so it has no estimate to combine"):
        contrasts(estimates_of(design, fitted), {"c": {"both": 1.0}}, 0.95)
    # Means over rows of which the fit tells nothing are not told; those of rows that it tells of are.
    of_rows = margins(design, fitted, [file], {}, 0.95)
    means = of_rows.means.set_index(["term", "level"])
    assert means.loc[("carrier", "a"), "status"] == "" and 0 < means.loc[("carrier", "a"), "mean"] < 1
    slope = of_rows.effects.set_index("term").loc["both"]
    assert slope["status"] == "not identified" and np.isnan(slope["estimate"])


SETTINGS = {
    "frequency": {"frequency": "w"},
    "robust": {"std_errors": "robust"},
    "by cluster": {"std_errors": "cluster(day)"},
    "offset": {"offset": "o"},
    "probit": {"link": "probit"},
    "cloglog": {"link": "cloglog"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_it_goes_together_with(name, frame, tmp_path):
    # Just the fit without the separated rows, with the same settings.
    rows, rest = frame.assign(o=0.1 * frame["day"]), frame[frame["both"] == 0].assign(o=0.1 * frame["day"])
    table = table_of(*fit_frame(rows, FORMULA, "binomial", tmp_path / "all", **SETTINGS[name]))
    less = table_of(*fit_frame(rest, "late ~ carrier + C(month)", "binomial", tmp_path / "rest", **SETTINGS[name]))
    assert flagged(table) == {("both", ""): "separated"}
    for column in ("estimate", "std_error", "p_value"):
        np.testing.assert_allclose(table.loc[less.index, column], less[column], rtol=1e-7)


@pytest.mark.slow
def test_a_number_that_separates_some_rows_is_infinite(tmp_path):
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"x": random.integers(-3, 4, 300) * 1e5})
    frame["late"] = np.where(frame["x"] == 0, frame.index % 2, frame["x"] > 0).astype(int)
    design, fitted = fit_frame(frame, "late ~ x", "binomial", tmp_path / "both sides")
    table, middle = table_of(design, fitted), frame.loc[frame["x"] == 0, "late"]
    assert table.loc[("x", ""), "estimate"] == np.inf
    odds = np.log(middle.mean() / (1 - middle.mean()))
    assert table.loc[("Intercept", ""), "estimate"] == pytest.approx(odds, abs=1e-10)
    # Counts that are 0 wherever a number is not.
    frame["x"] = np.maximum(frame["x"], 0.0)
    frame["late"] = np.where(frame["x"] > 0, 0, random.poisson(2, 300))
    table = table_of(*fit_frame(frame, "late ~ x", "poisson", tmp_path / "counts"))
    mean = frame.loc[frame["x"] == 0, "late"].mean()
    assert table["estimate"].tolist() == [pytest.approx(np.log(mean), abs=1e-10), -np.inf]
    # Where only rows at 7 overlap, the intercept runs off the other way.
    frame["x"] = random.integers(5, 10, 300)
    frame["late"] = np.where(frame["x"] == 7, frame.index % 2, frame["x"] > 7).astype(int)
    table = table_of(*fit_frame(frame, "late ~ x", "binomial", tmp_path / "elsewhere"))
    assert table["estimate"].tolist() == [-np.inf, np.inf] and set(table["status"]) == {"separated"}


def test_an_online_solver_alone_names_the_terms(frame, tmp_path):
    solver = SolverConfig.model_validate({"solver": ["adagrad", "newton"], "online": {"epochs": 3}})
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], FORMULA, "binomial", solver=solver)
    assert flagged(table_of(design, fitted)) == {("both", ""): "separated"} and fitted.summary["online"]["epochs"] >= 1


def test_a_matrix_with_unidentified_columns_has_no_estimate_of_them(tmp_path):
    # Of d and e each row with one has the other too, but for one that is early: both ends are open to each.
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"late": random.integers(0, 2, 200), "d": 0.0, "e": 0.0})
    frame.loc[:5, ["d", "e", "late"]] = [1.0, 1.0, 1]
    frame.loc[6:7, ["d", "late"]] = [1.0, 1]
    design, fitted = fit_frame(frame, "late ~ d + e", "binomial", tmp_path)
    table = table_of(design, fitted)
    assert table.loc[("d", ""), "estimate"] == np.inf
    assert flagged(table) == {("d", ""): "separated", ("e", ""): "not identified"}
    assert np.isnan(table.loc[("e", ""), "estimate"])
    rest = frame[8:]
    exact = logistic_regression(rest["late"], model_matrix(rest, "late ~ 1"))
    assert_agrees(table, exact, [("Intercept", "")])
    across = absent_estimates(design, fitted)["separated_across_terms"]
    assert {each["estimate"] for each in across} == {"infinite", "not identified"}


PATH = {"number": 4, "smallest": 0.1, "select": "aic"}


@pytest.mark.parametrize("penalty", [{"l2": 0.01}, {"l1": 0.01}, {"l1": 0.01, "l2": 0.01}, {"path": PATH}])
def test_unpenalised_terms_that_separate_rows_are_refused(frame, tmp_path, penalty):
    rows = int(frame["both"].sum())
    with pytest.raises(UserError, match=f"m: `both` separates {rows} rows by their response .the other") as refused:
        fit_frame(frame, FORMULA, "binomial", tmp_path / "refused", unpenalised=["both"], **penalty)
    assert "or penalise it (`unpenalised`, `penalty_factors`)" in str(refused.value)


@pytest.mark.slow
def test_unpenalised_terms_that_separate_the_rows_without_a_fold_are_refused(frame, tmp_path):
    rows = frame.assign(late=frame["late"] * (frame.index != np.flatnonzero(frame["both"])[0]))
    settings = {"path": PATH | {"select": "cross_validation", "folds": 3}, "unpenalised": ["both"]}
    with pytest.raises(UserError, match=r"m.path.folds: without fold \d: `both` separates \d+ rows"):
        fit_frame(rows, FORMULA, "binomial", tmp_path / "refused", **settings)


def test_penalised_terms_that_separate_rows_are_finite(frame, tmp_path):
    # Penalised, it is drawn to 0.
    table = table_of(*fit_frame(frame, FORMULA, "binomial", tmp_path, l2=0.01, unpenalised=["C(month)"]))
    assert 0 < table.loc[("both", ""), "estimate"] < np.inf


@pytest.mark.parametrize("family", ["truncated_poisson", "truncated_negative_binomial"])
def test_counts_of_one_alone_at_a_level_lead_to_minus_infinity(family, frame):
    rows = frame.assign(count=np.where(frame["carrier"] == "b", 1, frame["day"] + 1))
    model = tfglm.fit("count ~ carrier", rows, family, marginal_effects=True)
    assert model.coefficients.loc[("carrier", "b"), ["estimate", "status"]].tolist() == [-np.inf, "separated"]
    assert model.table("adjusted_means")["mean"].tolist() == [
        pytest.approx(rows.loc[rows["carrier"] == "a", "count"].mean()),
        1.0,
    ]
