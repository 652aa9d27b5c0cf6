"""Absorbed factors, against regressions in which each of their levels is a column."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
import statsmodels.api as sm
import statsmodels.formula.api as smf

from pools import (
    design_of,
    estimates_of,
    fit_design,
    fit_files,
    fit_frame,
    ingest_frame,
    predicted,
    table_of,
    to_predict,
)
from tfglm.config import ModelConfig, SolverConfig
from tfglm.data.dictionary import merge
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.cutting import Cutting
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import EMPTY, SEPARATED
from tfglm.results.compare import ComparedModel
from tfglm.results.joint import joint_tests
from tfglm.results.nested import likelihood_ratio_tests
from tfglm.solvers.approximate_cholesky import ApproximateCholesky
from tfglm.solvers.fit import fit, objective_of
from tfglm.solvers.leave_out import corrected_variances
from tfglm.solvers.newton import solve
from tfglm.solvers.run import Run

GOLDEN = Path(__file__).parents[1] / "golden"
FAMILIES = {"gaussian": sm.families.Gaussian(), "binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
RESPONSES = {"gaussian": "delay", "binomial": "late", "poisson": "changes"}
COVARIATES = [("x", ""), ("z", ""), ("origin", "JFK"), ("origin", "LGA")]


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    random = np.random.default_rng(21)
    rows = 3000
    tails, routes = random.integers(0, 60, rows), random.integers(0, 25, rows)
    frame = pd.DataFrame(
        {
            "tail": [f"N{tail}" for tail in tails],
            "route": routes,
            "crew": random.integers(0, 12, rows),
            "origin": random.choice(["EWR", "JFK", "LGA"], rows),
            "x": random.normal(5, 2, rows) + tails / 60,
            "z": random.normal(size=rows) + routes / 25,
            "w": random.integers(1, 4, rows),
            "base": random.normal(size=rows) / 10,
        }
    )
    eta = np.sin(tails) / 2 + 0.03 * routes + 0.3 * frame.x - 0.3 * frame.z + (frame.origin == "JFK") * 0.4 - 1.5
    frame["delay"] = eta + random.normal(size=rows)
    frame["late"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["changes"] = random.poisson(np.exp(eta / 2))
    return frame


def with_dummies(frame: pd.DataFrame, family: str, formula: str, absorb: list[str], **fit):
    """The same regression by statsmodels with a column for each level."""
    weights = {key: fit.pop(key) for key in ("freq_weights", "var_weights", "offset") if key in fit}
    formula = " + ".join([f"{RESPONSES[family]} ~ {formula}", *(f"C({name})" for name in absorb)])
    return smf.glm(formula, frame, family=FAMILIES[family], **weights).fit(tol=1e-14, maxiter=100, **fit)


def names_of(model) -> list[str]:
    return ["x", "z", "origin[T.JFK]", "origin[T.LGA]"]


def close(table: pd.DataFrame, model, scale: float = 1.0) -> None:
    """Estimates and standard errors to the tolerances of the contract."""
    names = names_of(model)
    error = model.bse[names].to_numpy() * scale
    ours = table.loc[COVARIATES]
    assert np.max(np.abs(ours.estimate.to_numpy() - model.params[names].to_numpy()) / error) < 1e-6
    assert ours.std_error.to_numpy() == pytest.approx(error, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("absorb", [["tail"], ["tail", "route"], ["route", "tail", "crew"]])
@pytest.mark.parametrize("family", FAMILIES)
def test_coefficients_are_those_of_a_column_for_each_level(flights, tmp_path, family, absorb):
    design, fitted = fit_frame(flights, f"{RESPONSES[family]} ~ x + z + origin", family, tmp_path, absorb=absorb)
    model = with_dummies(flights, family, "x + z + origin", absorb)
    close(table_of(design, fitted), model)
    summary = fitted.summary
    assert summary["converged"] and summary["certificate"]["within_standard_errors"] < 1e-9
    assert summary["df_residual"] == model.df_resid
    assert summary["log_likelihood"] == pytest.approx(model.llf, rel=1e-10)
    assert summary["deviance"] == pytest.approx(model.deviance, rel=1e-9)
    assert summary["null_deviance"] == pytest.approx(model.null_deviance, rel=1e-9)
    assert summary["coefficients"] == 4
    assert summary["formula"] == f"{RESPONSES[family]} ~ x + z + origin | {' + '.join(absorb)}"
    names = names_of(model)[2:]
    wald = model.wald_test(np.eye(len(model.params))[model.params.index.get_indexer(names)], scalar=True)
    joint = joint_tests(estimates_of(design, fitted)).set_index("term").loc["origin"]
    assert joint.df == 2
    assert joint["F" if family == "gaussian" else "chi_squared"] == pytest.approx(
        float(wald.statistic) / (2 if family == "gaussian" else 1), rel=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_robust_errors_are_those_of_a_column_for_each_level(flights, tmp_path, family):
    formula, absorb = f"{RESPONSES[family]} ~ x + z + origin", ["tail", "route"]
    model = with_dummies(flights, family, "x + z + origin", absorb, cov_type="HC0")
    rows, parameters = len(flights), len(model.params)
    for kind, scale in (("HC0", 1.0), ("robust", np.sqrt(rows / (rows - parameters)))):
        design, fitted = fit_frame(flights, formula, family, tmp_path / kind, absorb=absorb, std_errors=kind)
        close(table_of(design, fitted), model, scale)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_clustered_errors_do_not_count_factors_nested_in_clusters(flights, tmp_path, family):
    formula, absorb = f"{RESPONSES[family]} ~ x + z + origin", ["tail", "route"]
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": pd.factorize(flights["tail"])[0]}}
    model = with_dummies(flights, family, "x + z + origin", absorb, **clusters)
    design, fitted = fit_frame(flights, formula, family, tmp_path, absorb=absorb, std_errors="cluster(tail)")
    rows, tails, routes = len(flights), flights["tail"].nunique(), flights.route.nunique()
    # fixest counts 4 covariates, the routes but one, and one for all tails; statsmodels each tail but one too.
    counted, all_of_them = 4 + routes - 1 + 1, 4 + routes - 1 + tails
    close(table_of(design, fitted), model, np.sqrt((rows - all_of_them) / (rows - counted)))
    assert fitted.summary["std_errors"]["estimator"] == "CR1"
    assert [factor["nested_in_clusters"] for factor in fitted.summary["absorbed"]["factors"]] == [True, False]


def test_clusters_that_cut_across_the_factors(flights, tmp_path):
    design, fitted = fit_frame(
        flights, "delay ~ x + z + origin", "gaussian", tmp_path, absorb=["tail", "route"], std_errors="cluster(crew)"
    )
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": flights.crew}}
    close(table_of(design, fitted), with_dummies(flights, "gaussian", "x + z + origin", ["tail", "route"], **clusters))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_by_clusters_of_several_columns(flights, tmp_path, family):
    gate = np.random.default_rng(5).integers(0, 15, len(flights))
    frame, formula = flights.assign(gate=gate), f"{RESPONSES[family]} ~ x + z + origin"

    def by(*columns: str) -> pd.DataFrame:
        folder, errors = tmp_path / "_".join(columns), f"cluster({' + '.join(columns)})"
        return table_of(*fit_frame(frame, formula, family, folder, absorb=["tail", "route"], std_errors=errors))

    def dummies(*columns: str):
        groups = np.column_stack([pd.factorize(frame[column])[0] for column in columns])
        clusters = {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
        return with_dummies(frame, family, "x + z + origin", ["tail", "route"], **clusters)

    crossed = by("crew", "gate")
    close(crossed, dummies("crew", "gate"))
    # Tests are those of a fit with a column for each level.
    written = f"{formula} + C(route) + tail"
    whole = table_of(*fit_frame(frame, written, family, tmp_path / "whole", std_errors="cluster(crew + gate)"))
    for column in ("std_error", "df", "p_value", "ci_lower"):
        np.testing.assert_allclose(crossed.loc[COVARIATES, column], whole.loc[COVARIATES, column], rtol=1e-5)
    rows, tails, routes = len(frame), frame["tail"].nunique(), frame["route"].nunique()
    # Tails are nested in the clusters of one column, and count as one coefficient, as in fixest.
    scale = np.sqrt((rows - (4 + routes - 1 + tails)) / (rows - (4 + routes - 1 + 1)))
    close(by("gate", "tail"), dummies("gate", "tail"), scale)
    # The order of the columns matters to no number, and three columns are those of a fit with a column for each level.
    pd.testing.assert_frame_equal(by("gate", "crew"), crossed, rtol=1e-9)
    whole = table_of(*fit_frame(frame, written, family, tmp_path / "three", std_errors="cluster(crew + gate + w)"))
    three = by("crew", "gate", "w")
    for column in ("std_error", "df", "p_value"):
        np.testing.assert_allclose(three.loc[COVARIATES, column], whole.loc[COVARIATES, column], rtol=1e-5)


@pytest.mark.slow
def test_weights_offsets_and_frequencies(flights, tmp_path):
    absorb = ["tail", "route"]
    design, fitted = fit_frame(
        flights, "delay ~ x + z + origin", "gaussian", tmp_path / "1", absorb=absorb, weights="w", offset="base"
    )
    model = with_dummies(flights, "gaussian", "x + z + origin", absorb, var_weights=flights.w, offset=flights.base)
    close(table_of(design, fitted), model)
    assert fitted.summary["null_deviance"] == pytest.approx(model.null_deviance, rel=1e-9)
    design, fitted = fit_frame(
        flights,
        "changes ~ x + z + origin",
        "poisson",
        tmp_path / "2",
        absorb=absorb,
        frequency="w",
        std_errors="robust",
    )
    repeated = flights.loc[flights.index.repeat(flights.w)]
    model = with_dummies(repeated, "poisson", "x + z + origin", absorb, cov_type="HC0")
    close(table_of(design, fitted), model, np.sqrt(len(repeated) / (len(repeated) - len(model.params))))


@pytest.mark.slow
def test_products_curves_and_codings(flights, tmp_path):
    """Numbers are centred as if there were an intercept, for the absorbed factors have one in them."""
    formula = "x * z + poly(base, 2) + C(origin, contr.sum)"
    design, fitted = fit_frame(flights, f"delay ~ {formula}", "gaussian", tmp_path, absorb=["tail", "route"])
    plain, unabsorbed = fit_frame(flights, f"delay ~ {formula} + tail + C(route)", "gaussian", tmp_path / "2")
    table, other = table_of(design, fitted), table_of(plain, unabsorbed)
    shown = other[~other.index.get_level_values("term").isin(["Intercept", "tail", "C(route)"])]
    assert list(table.index) == list(shown.index)
    for column in ("estimate", "std_error"):
        assert table[column].to_numpy() == pytest.approx(shown[column].to_numpy(), rel=1e-7, nan_ok=True)


@pytest.mark.slow
def test_what_absorbed_factors_determine_is_aliased(flights, tmp_path):
    frame = flights.assign(owner=flights["tail"].str[1], age=flights["tail"].str[1:].astype(int) ** 2)
    design, fitted = fit_frame(frame, "delay ~ x + owner + age + z", "gaussian", tmp_path, absorb=["tail", "route"])
    table = table_of(design, fitted)
    owners = sorted(frame.owner.unique())
    assert set(table.index[table.status == "aliased"]) == {("age", ""), *(("owner", owner) for owner in owners[1:])}
    assert table.loc[("age", ""), "aliased_with"] == "levels of tail, route"
    model = smf.ols("delay ~ x + z + C(tail) + C(route)", frame).fit()
    assert table.loc[[("x", ""), ("z", "")], "estimate"].to_numpy() == pytest.approx(
        model.params[["x", "z"]], rel=1e-10
    )
    assert fitted.summary["df_residual"] == model.df_resid
    with pytest.raises(UserError, match="absorb: the absorbed factors determine each covariate of the formula"):
        fit_frame(frame, "delay ~ age", "gaussian", tmp_path / "2", absorb=["tail", "route"])


@pytest.mark.slow
def test_levels_that_no_row_connects_lower_the_degrees_of_freedom(flights, tmp_path):
    """Two halves of the fleet that fly routes of their own."""
    half = flights["tail"].str[1:].astype(int) % 2
    frame = flights.assign(route=flights.route + 100 * half)
    design, fitted = fit_frame(frame, "delay ~ x + z + origin", "gaussian", tmp_path, absorb=["tail", "route"])
    columns = pd.get_dummies(frame[["tail", "route"]].astype(str)).to_numpy(float)
    rank = np.linalg.matrix_rank(columns)
    assert fitted.summary["absorbed"]["coefficients"] == rank == frame["tail"].nunique() + frame.route.nunique() - 2
    assert fitted.summary["df_residual"] == len(frame) - 4 - rank
    assert any("2 groups that no training row connects" in warning for warning in fitted.summary["warnings"])
    # Without the first route of each half the columns have full rank.
    kept = pd.get_dummies(frame["tail"]).join(pd.get_dummies(frame["route"]).drop(columns=[0, 100]))
    dense = np.column_stack([frame[["x", "z"]], frame.origin == "JFK", frame.origin == "LGA", kept]).astype(float)
    assert np.linalg.matrix_rank(dense) == dense.shape[1] == 4 + rank
    expected = np.linalg.lstsq(dense, frame.delay, rcond=None)[0]
    assert table_of(design, fitted).loc[COVARIATES, "estimate"].to_numpy() == pytest.approx(expected[:4], rel=1e-8)
    in_largest = half == half.mode()[0]
    for factor, levels in zip(fitted.summary["absorbed"]["factors"], (frame["tail"], frame.route), strict=True):
        effects = pd.Series(expected[4:], kept.columns).reindex(levels[in_largest]).fillna(0.0)
        assert (factor["connected_sets"], factor["rows_of_largest_set"]) == (2, in_largest.sum())
        assert factor["variance_of_effects"] == pytest.approx(effects.var(ddof=0), rel=1e-7)


@pytest.mark.slow
def test_the_factors_of_a_matrix_do_not_depend_on_those_before(flights, tmp_path):
    """An objective is a value: what is factored with one made from it changes nothing."""
    file = ingest_frame(flights, tmp_path)
    design = design_of("changes ~ x + z", "poisson", merge([file]), [file], absorb=["tail", "route"])
    start = objective_of(Workload(design, [file], "train"), Run(LocalExecutor())).begin()
    blocks = start.point.information
    before = start.objective.factored(blocks).projection
    far = start.objective.at(start.point.coefficients + 0.1 * start.objective.free).information
    replace(start.objective, overlaps=True).factored(far)
    np.testing.assert_array_equal(start.objective.factored(blocks).projection, before, strict=True)


def reduced_system(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, ridge: float = 0.0):
    """The factor of the system in the levels `columns` once the levels `rows` are eliminated, and the system."""
    both = scipy.sparse.csr_array((weights, (rows, columns)))
    both.sum_duplicates()
    inverse, diagonal = 1 / (both.sum(axis=1) + ridge), both.sum(axis=0) + ridge
    entries = both.indptr.astype(np.int32), both.indices.astype(np.int32), both.data
    factor = ApproximateCholesky.of(entries, inverse, diagonal, 0 * diagonal, slice(0, len(diagonal)))
    return factor, np.diag(diagonal) - (both.T @ (both * inverse[:, None])).toarray()


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_approximate_factor_of_a_path_is_exact(ridge):
    """No level has more than two neighbours, so that nothing is drawn at random."""
    random = np.random.default_rng(4)
    levels = random.permutation(60)
    ends = np.stack([levels[:-1], levels[1:]], axis=1).ravel()
    factor, system = reduced_system(np.arange(len(ends)) // 2, ends, random.uniform(0.1, 5, len(ends)), ridge)
    right = system @ random.normal(size=(len(levels), 2))
    np.testing.assert_allclose(system @ factor.solve(right), right, atol=1e-11)


def test_the_approximate_factor_is_a_good_preconditioner():
    """Of the graph of fixest's difficult benchmark, in which levels only meet their neighbours, with unequal weights."""
    rows, random = 12_000, np.random.default_rng(4)
    factor, system = reduced_system(np.arange(rows) // 10, np.arange(rows) % 503, random.uniform(0.5, 2, rows))
    values = np.sort(scipy.linalg.eigvals(factor.solve(system)).real)
    assert abs(values[0]) < 1e-9 and values[1] > 0.1 and values[-1] < 10
    diagonal = np.sort(scipy.linalg.eigvals(system / np.diag(system)[:, None]).real)
    assert diagonal[-1] / diagonal[1] > 100 * values[-1] / values[1]


@pytest.mark.slow
def test_a_chain_of_levels_is_solved_too(tmp_path):
    """Each level shares rows with the next alone: as loosely connected as can be."""
    links, random = 250, np.random.default_rng(3)
    first = np.repeat(np.arange(links), 4)
    second = first + np.tile([0, 0, 1, 1], links)
    x = random.normal(size=4 * links) + first / 80
    frame = pd.DataFrame({"a": first, "b": second, "x": x, "y": 0.5 * x + random.normal(size=4 * links)})
    design, fitted = fit_frame(frame, "y ~ x", "gaussian", tmp_path, absorb=["a", "b"])
    # Without the last level of b the columns have full rank.
    columns = np.zeros((len(frame), 2 * links + 1))
    columns[np.arange(len(frame)), first] = columns[np.arange(len(frame)), links + second] = 1
    columns = columns[:, :-1]
    left = x - columns @ np.linalg.lstsq(columns, x, rcond=None)[0]
    estimate = left @ frame.y / (left @ left)
    table = table_of(design, fitted)
    # Levels of b at both ends of the chain have two rows each, so none is left out.
    assert table.loc[("x", ""), "estimate"] == pytest.approx(estimate, rel=1e-9)
    residual = frame.y - estimate * x
    residual = residual - columns @ np.linalg.lstsq(columns, residual, rcond=None)[0]
    error = np.sqrt(residual @ residual / (len(frame) - 1 - 2 * links) / (left @ left))
    assert table.loc[("x", ""), "std_error"] == pytest.approx(error, rel=1e-8)


@pytest.mark.slow
def test_singletons_and_separated_levels_are_left_out_and_counted(flights, tmp_path):
    few = pd.DataFrame(
        {
            # Once N900 is gone, route 901 has a single row.
            "tail": ["N900", "N1", "N901", "N901", "N901"],
            "route": [901, 901, 1, 2, 3],
            "late": [1, 0, 1, 1, 1],
        }
    )
    frame = pd.concat([flights, flights.head(5).reset_index(drop=True).assign(**few)], ignore_index=True)
    design, fitted = fit_frame(frame, "late ~ x + z + origin", "binomial", tmp_path, absorb=["tail", "route"])
    close(table_of(design, fitted), with_dummies(flights, "binomial", "x + z + origin", ["tail", "route"]))
    tail, route = fitted.summary["absorbed"]["factors"]
    assert (tail["singletons"], tail["separated"], route["singletons"]) == (1, 1, 1)
    absorbed = fitted.summary["absorbed"]
    assert (absorbed["rows_left_out"], absorbed["rows_of_singletons"]) == (5, 2)
    assert fitted.summary["rows_of_separated_levels"] == 3
    assert fitted.summary["df_residual"] == len(flights) - 4 - 60 - 24
    levels = design.categorical_by_name["tail"].levels
    of_tail = fitted.status[design.slices["tail"]]
    assert (of_tail[levels.index("N900")], of_tail[levels.index("N901")]) == (EMPTY, SEPARATED)


@pytest.mark.slow
def test_predictions_have_the_absorbed_coefficients_and_no_errors(flights, tmp_path):
    lonely = flights.head(1).assign(tail="N999")
    train = ingest_frame(pd.concat([flights, lonely]), tmp_path)
    design, fitted, _ = fit_files([train], "late ~ x + z + origin", "binomial", absorb=["tail", "route"])
    new = flights.head(40).assign(x=flights.x.head(40) + 1)
    new = pd.concat([new, new.head(1).assign(tail="N999"), new.head(1).assign(tail="N1000")], ignore_index=True)
    file = to_predict(new, tmp_path / "new", "new")
    rows = predicted(design, fitted, file)
    model = with_dummies(flights, "binomial", "x + z + origin", ["tail", "route"])
    assert rows.probability[:40].to_numpy() == pytest.approx(model.predict(new.head(40)).to_numpy(), rel=1e-9)
    assert rows.probability[40:].isna().all() and rows.std_error.isna().all()
    assert list(rows.remark[40:]) == ["level without an estimate", "unseen level"]


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["x + z + origin", "z + x:origin"])
def test_levels_of_the_formula_whose_rows_were_left_out_have_no_prediction(flights, tmp_path, formula):
    """The one row of N999 is the one of SFO too: what the fit holds at zero is no effect of SFO."""
    lonely = flights.head(1).assign(tail="N999", origin="SFO")
    design, fitted = fit_frame(
        pd.concat([flights, lonely]), f"delay ~ {formula}", "gaussian", tmp_path, absorb=["tail", "route"]
    )
    new = flights.head(4).assign(origin=["SFO", "EWR", "JFK", "SFO"])
    file = to_predict(new, tmp_path / "new", "new")
    means = predicted(design, fitted, file)["mean"].to_numpy()
    model = smf.ols(f"delay ~ {formula} + C(tail) + C(route)", flights).fit()
    assert np.isnan(means[[0, 3]]).all()
    assert means[1:3] == pytest.approx(model.predict(new[1:3]).to_numpy(), rel=1e-9)


@pytest.mark.slow
def test_the_number_of_calls_moves_no_estimate(flights, tmp_path):
    """More rows in a call, or fewer: the pairs of levels come in another order, and sums differ by rounding alone."""
    frame = pd.concat([flights] * 12, ignore_index=True)
    file = ingest_frame(frame, tmp_path)
    design = design_of("late ~ x + z + origin", "binomial", merge([file]), [file], absorb=["tail", "route"])
    found = []
    for rows in (2**20, 2**12):
        cutting = Cutting(rows_per_call=rows, rows_per_sum=1e-3)
        workload = Workload(design, [file], "train", cutting=cutting)
        found.append(fit(workload, Run(LocalExecutor())))
    whole, cut = (table_of(design, each) for each in found)
    difference = np.abs(whole.loc[COVARIATES, "estimate"] - cut.loc[COVARIATES, "estimate"])
    assert np.max(difference / whole.loc[COVARIATES, "std_error"]) < 1e-9


def test_few_rows_a_level_are_warned_of(tmp_path):
    random = np.random.default_rng(5)
    pairs = 400
    x = random.normal(size=2 * pairs)
    late = (random.uniform(size=2 * pairs) < 1 / (1 + np.exp(-x))).astype(int)
    frame = pd.DataFrame({"pair": np.repeat(np.arange(pairs), 2), "x": x, "late": late})
    design, fitted = fit_frame(frame, "late ~ x", "binomial", tmp_path, absorb=["pair"])
    warning = next(warning for warning in fitted.summary["warnings"] if "incidental parameters" in warning)
    assert "absorb a coarser factor" in warning
    _, by_probit = fit_frame(frame, "late ~ x", "binomial", tmp_path / "probit", absorb=["pair"], link="probit")
    assert any("coefficients of a probit regression" in warning for warning in by_probit.summary["warnings"])
    # With two rows each the unconditional estimate is twice the conditional one (Andersen 1970).
    discordant = frame.groupby("pair").late.transform("sum") == 1
    first, second = (frame[discordant].groupby("pair").nth(place) for place in (0, 1))
    difference, sign = (second.x.to_numpy() - first.x.to_numpy()), second.late.to_numpy()
    conditional = sm.Logit(sign, difference[:, None]).fit(disp=0, tol=1e-12)
    assert table_of(design, fitted).loc[("x", ""), "estimate"] == pytest.approx(2 * conditional.params[0], rel=1e-6)


GIVEN = {"formula": "late ~ x + z", "family": "binomial", "absorb": ["tail", "route"]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"formula": "late ~ x + C(tail)"}, "absorb: `tail` is in the formula too"),
        ({"formula": "late ~ x + tail:z"}, "absorb: `tail` is in the formula too"),
        ({"absorb": ["late"]}, "absorb: `late` is the response"),
        ({"absorb": ["tail[late]"]}, "absorb: `late` is the response"),
        ({"absorb": ["tail[[x, ]"]}, "`tail\\[\\[x, \\]` cannot be absorbed; name a column g"),
    ],
)
def test_what_absorbed_factors_cannot_do_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate(GIVEN | settings)


@pytest.mark.slow
def test_rows_that_slopes_separate_are_those_of_the_formula(tmp_path):
    rows = pd.read_csv(GOLDEN / "slopes.csv").query("g < 9").groupby("g").head(9).reset_index(drop=True)
    files = [ingest_frame(rows.assign(late=(rows.y > 0.4).astype(int)).astype({"g": str}), tmp_path)]
    fits = [
        fit_files(files, f"late ~ x + z{dense}", "binomial", **keys)[:2]
        for dense, keys in (("", {"absorb": ["g[year]"]}), (" + g + g:year", {}))
    ]
    ours, theirs = (table_of(*fit).loc[["x", "z"], ["estimate", "std_error"]].to_numpy() for fit in fits)
    assert ours == pytest.approx(theirs, rel=1e-7)
    counts = [
        [fit.summary[key] for key in ("df_residual", "rows_of_separated_levels", "rows_separated_across_terms")]
        for _, fit in fits
    ]
    assert counts[0] == counts[1] and counts[0][2] > 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"absorb": ["g[w]"], "std_errors": "HC3"}, "no leverages beside absorbed slopes, as `g\\[\\[w\\]\\]`"),
        ({"absorb": ["year[age]"]}, "`year\\[\\[age\\]\\]`: age is constant within each level of year"),
        ({"absorb": ["g[f]"]}, "`g\\[\\[f\\]\\]`: `f` is text, which has no slope; name a number"),
    ],
)
def test_slopes_that_there_are_not_are_refused(sloped, keys, message):
    with pytest.raises(UserError, match=message):
        fit_files(sloped, "y ~ x + z", "gaussian", **keys)


def test_without_being_asked_for_there_are_no_averages():
    assert not ModelConfig.model_validate(GIVEN).marginal_effects
    assert ModelConfig.model_validate(GIVEN | {"margins_at": {"far": {"x": 1}}}).marginal_effects


@pytest.mark.slow
def test_rows_that_absorbed_factors_separate_together_leave_the_likelihood(flights, tmp_path):
    """Each tail and each route has late flights and others, but N801 on route 802 is always late."""
    tails, routes = np.repeat(["N801", "N802", "N801"], [10, 10, 20]), np.repeat([801, 802], [10, 30])
    late = np.where(np.arange(40) < 20, np.arange(40) % 2, 1)
    extra = flights.head(40).assign(tail=tails, route=routes, late=late)
    file = ingest_frame(pd.concat([flights, extra]), tmp_path)
    design, fitted, _ = fit_files([file], "late ~ x + z + origin", "binomial", absorb=["tail", "route"])
    rest = pd.concat([flights, extra.head(20)])
    # Each new route is that of one new tail: without its column the reference has full rank.
    of_full_rank = rest.assign(route=rest["route"].where(rest["route"] < 800, 0))
    close(table_of(design, fitted), with_dummies(of_full_rank, "binomial", "x + z + origin", ["tail", "route"]))
    summary = fitted.summary
    assert summary["converged"] and summary["rows_separated_across_terms"] == 20
    assert summary["rows_of_separated_levels"] == 0
    # The new tails and routes are two components of their own.
    assert summary["df_residual"] == len(rest) - 4 - (62 + 27 - 3)
    assert summary["warnings"][0].startswith("`tail`, `route` separate 20 rows by their response")
    new = to_predict(extra, tmp_path / "new", "new")
    known = predicted(design, fitted, new).probability.notna()
    assert known[:20].all() and not known[20:].any()


@pytest.mark.slow
def test_models_that_absorb_the_same_have_likelihood_ratio_tests(flights, tmp_path):
    file = ingest_frame(flights, tmp_path)
    models = {}
    for name, formula, absorb in (
        ("small", "z", ["tail", "route"]),
        ("large", "x + z + origin", ["route", "tail"]),
        ("other", "x + z + origin", ["tail"]),
    ):
        design, fitted, _ = fit_files([file], f"late ~ {formula}", "binomial", absorb=absorb)
        models[name] = ComparedModel(fitted.summary | {"model": name}, {}, None, design)
    table = likelihood_ratio_tests(list(models.values())).set_index(["model", "within"])
    found = table.loc["small", "large"]
    less, more = (with_dummies(flights, "binomial", formula, ["tail", "route"]) for formula in ("z", "x + z + origin"))
    assert (found.df, found.chi_squared) == (3, pytest.approx(2 * (more.llf - less.llf), rel=1e-8))
    assert "absorb different factors" in table.loc["large", "other"].problem


BY_PYFIXEST = json.loads((GOLDEN / "absorbed.json").read_text())


@pytest.mark.parametrize("case", BY_PYFIXEST)
def test_degrees_of_freedom_are_those_of_pyfixest(tmp_path, case):
    expected = BY_PYFIXEST[case]
    family, errors = expected["family"], expected["errors"]
    std_errors = {"iid": "classical", "HC1": "HC1"}.get(errors, f"cluster({errors})")
    frame = pd.read_csv(GOLDEN / "absorbed.csv")
    formula = f"{RESPONSES[family]} ~ x + z"
    design, fitted = fit_frame(frame, formula, family, tmp_path, absorb=expected["absorb"], std_errors=std_errors)
    table, theirs = table_of(design, fitted), np.array(expected["std_error"])
    if "nested in another" in case:
        # It counts 9 of the 10 owners, which the 30 tails determine.
        rows, counted = fitted.summary["rows_in_likelihood"], 2 + 30
        assert fitted.summary["df_residual"] == rows - counted and expected["counted"] == counted + 9
        theirs *= np.sqrt((rows - expected["counted"]) / (rows - counted))
    assert table.std_error.to_numpy() == pytest.approx(theirs, rel=1e-6)
    assert np.max(np.abs(table.estimate - expected["estimate"]) / table.std_error) < 1e-6


SLOPES = json.loads((GOLDEN / "slopes.json").read_text())


@pytest.fixture(scope="module")
def sloped(tmp_path_factory) -> list:
    frame = pd.read_csv(GOLDEN / "slopes.csv").astype({"g": str, "f": str})
    return [ingest_frame(frame, tmp_path_factory.mktemp("sloped"))]


@pytest.mark.parametrize("case", SLOPES)
def test_absorbed_slopes_are_those_of_a_column_for_each_level(sloped, case):
    """The errors of R's glm are those of its last iteration but one."""
    response, absorb, *key = re.fullmatch(r"(\w+) \| (.*?\])(?: \+ year)?(?: (\w+) (\S+))?", case).groups()
    absorb = [*absorb.split(" + "), *(["year"] if "+ year" in case else [])]
    family, keys = "poisson" if response == "changes" else "gaussian", {key[0]: key[1]} if key[0] else {}
    design, fitted, _ = fit_files(sloped, f"{response} ~ x + z", family, absorb=absorb, **keys)
    table, golden = table_of(design, fitted).loc[["x", "z"]], SLOPES[case]
    assert table.estimate.to_numpy() == pytest.approx(golden["estimate"], rel=1e-8)
    assert table.std_error.to_numpy() == pytest.approx(golden["std_error"], rel=1e-6 if response == "changes" else 1e-8)
    assert fitted.summary["df_residual"] == golden["df"]
    warned = "1 of 25 levels of `g` have no slope of `age`: it is constant in the rows of each"
    assert any(warned in each for each in fitted.summary["warnings"]) == ("[[age]]" not in case)


def careers(seed: int) -> pd.DataFrame:
    """Three years of workers who change firms; some firms are connected by a single worker."""
    random = np.random.default_rng(seed)
    worker, year = np.repeat(np.arange(120), 3), np.tile(np.arange(3), 120)
    start, move = random.integers(0, 16, 120), np.cumsum(random.uniform(size=(120, 3)) < 0.25, axis=1)
    firm = (start[:, None] + 3 * move).ravel() % 22
    frame = pd.DataFrame({"worker": worker, "firm": firm, "year": year, "x": random.normal(size=360)})
    frame["y"] = np.sin(worker) + np.cos(firm) / 2 + 0.1 * year + 0.3 * frame.x + random.normal(size=360)
    return frame.sample(330, random_state=seed)


def sets_of(frame: pd.DataFrame) -> np.ndarray:
    """The connected set of the firm of each row."""
    (_, worker), (_, firm) = (np.unique(frame[name], return_inverse=True) for name in ("worker", "firm"))
    size = worker.max() + firm.max() + 2
    graph = scipy.sparse.csr_array((np.ones(len(frame)), (worker, worker.max() + 1 + firm)), shape=(size, size))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1][worker]


def can_lose_any_worker(frame: pd.DataFrame) -> pd.DataFrame:
    """The largest set that stays connected without any one worker, whose workers have two rows or more."""
    before = 0
    while before != len(frame):
        before, sets = len(frame), sets_of(frame)
        pairs = frame.assign(set=sets).drop_duplicates(["worker", "firm"])
        frame = frame[sets == pairs.set.value_counts().idxmax()]
        rest = {worker: frame[frame.worker != worker] for worker in frame.worker.unique()}
        cuts = [w for w, left in rest.items() if sets_of(left).max() > 0 or left.firm.nunique() < frame.firm.nunique()]
        single = frame.groupby("worker").worker.transform("size") == 1
        frame = frame[~frame.worker.isin(cuts) & ~single]
    return frame


@pytest.mark.slow
def test_variances_without_sampling_errors_are_those_of_dense_matrices(tmp_path):
    frame = careers(2)
    file = ingest_frame(frame, tmp_path)
    design = design_of("y ~ x", "gaussian", merge([file]), [file], absorb=["firm", "worker", "year"])
    fitted = fit_design(design, [file], solver=SolverConfig(leave_out=True)).summary["absorbed"]["leave_out"]

    frame = can_lose_any_worker(frame)
    others = np.column_stack([frame.x, frame.year == 1, frame.year == 2])
    levels = pd.get_dummies(frame[["worker", "firm"]].astype(str)).to_numpy(float)
    slopes = np.linalg.lstsq(np.column_stack([others, levels]), frame.y, rcond=None)[0][:3]
    of_match = frame.assign(rest=frame.y - others @ slopes).groupby(["worker", "firm"]).rest
    match, n = of_match.mean().reset_index(), of_match.size().to_numpy()
    rows = np.sqrt(n)[:, None] * pd.get_dummies(match[["worker", "firm"]].astype(str)).to_numpy(float)
    inverse = np.linalg.pinv(rows.T @ rows)
    effects = inverse @ rows.T @ (np.sqrt(n) * match.rest)
    moves = match.groupby("worker").firm.transform("size") > 1
    left = 1 - np.einsum("ij,jk,ik->i", rows, inverse, rows)
    residual = np.sqrt(n) * match.rest - rows @ effects
    variance = np.sqrt(n) * (match.rest - np.average(match.rest, weights=n)) * residual / np.where(moves, left, 1)
    variance = np.where(moves, variance, of_match.var().to_numpy())
    is_worker, moments = np.arange(rows.shape[1]) < match.worker.nunique(), np.diag(n) - np.outer(n, n) / n.sum()
    plain = rows / np.sqrt(n)[:, None]
    for k, (one, two) in enumerate(((is_worker, is_worker), (~is_worker, ~is_worker), (is_worker, ~is_worker))):
        form = (plain * one).T @ moments @ (plain * two) / (n.sum() - 1)
        form = (form + form.T) / 2
        moved = rows @ inverse
        b = np.einsum("ij,jk,ik->i", moved, form, moved)
        assert fitted["plug_in"][k] == pytest.approx(effects @ form @ effects, rel=1e-8)
        assert fitted["corrected"][k] == pytest.approx(effects @ form @ effects - b @ variance, rel=1e-8)
    assert fitted["factors"] == ["worker", "firm"] and fitted["rows"] == len(frame) < 330
    assert fitted["matches"] == len(n) and fitted["draws"] == 0

    # Draws come near, for the whole regression as it was.
    solution = solve(objective_of(Workload(design, [file], "train"), Run(LocalExecutor())).begin())
    drawn = corrected_variances(solution, most_exact=0)
    correction = np.subtract(fitted["plug_in"], fitted["corrected"])
    assert np.subtract(drawn["plug_in"], drawn["corrected"]) == pytest.approx(correction, rel=0.3)


def test_a_panel_that_single_workers_connect_has_no_such_variances(tmp_path):
    frame = pd.DataFrame({"worker": np.repeat(np.arange(8), 4), "x": np.sin(np.arange(32.0))})
    frame["firm"] = frame.worker + np.tile([0, 0, 1, 1], 8)
    frame["y"] = frame.x + frame.worker + np.cos(np.arange(32) ** 2)
    file = ingest_frame(frame, tmp_path)
    design = design_of("y ~ x", "gaussian", merge([file]), [file], absorb=["worker", "firm"])
    fitted = fit_design(design, [file], solver=SolverConfig(leave_out=True))
    assert fitted.summary["absorbed"]["leave_out"] == {"factors": ["firm", "worker"], "rows": 0}


@pytest.mark.parametrize(
    "keys", [{"absorb": ["b[z]", "c"]}, {"absorb": ["b"]}, {"weights": "w"}, {"family": "poisson"}]
)
def test_variances_without_sampling_errors_need_a_linear_regression_with_two_factors(keys):
    with pytest.raises(ValueError, match="leave_out: this needs family gaussian, two factors in `absorb`"):
        ModelConfig(formula="y ~ x", **{"family": "gaussian", "absorb": ["b", "c"], "leave_out": True} | keys)
