"""Robust errors and errors by cluster beside smooth terms: against matrices of rows, and mgcv's vcov(sandwich = TRUE) on the same
rows (tests/golden/smooth_errors.R)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats

from oracles import MatricesOfRows
from pools import CR1, estimates_of, fit_files, ingest_frame, predicted, table_of, to_predict
from tfglm import checkpoint
from tfglm.engine.evaluated import rows_of_design
from tfglm.engine.workload import Workload
from tfglm.inference.reference import Fewest
from tfglm.results import accuracy, coefficients, predict, smooth_tests
from tfglm.results.joint import joint_tests

GOLDEN = Path(__file__).parents[1] / "golden"
R = json.loads((GOLDEN / "smooth_errors.json").read_text())
ROWS = pd.read_csv(GOLDEN / "smooths.csv").assign(day=lambda rows: rows.index // 12, number=lambda rows: rows.index)
SHOWN = 40

pytestmark = pytest.mark.slow

FITS = {
    "gaussian": ("delay ~ s(hour) + s(wind, k=6) + carrier", "gaussian", {}),
    "weights": ("delay ~ s(hour)", "gaussian", {"weights": "trips"}),
    "poisson": ("bumps ~ s(hour, bs=ps, k=20) + carrier", "poisson", {}),
    "trials": ("events ~ s(hour)", "binomial", {"trials": "seats"}),
    "gamma": ("cost ~ s(hour)", "gamma", {}),
    "negative_binomial": ("waits ~ s(hour)", "negative_binomial", {"theta": 2.5}),
    "random": ("delay ~ s(hour) + s(plane, bs=re)", "gaussian", {}),
    "surface": ("gusts ~ te(hour, wind)", "gaussian", {}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [ingest_frame(ROWS, tmp_path_factory.mktemp("smooths"))]


@pytest.fixture(scope="module")
def first_rows(tmp_path_factory):
    return to_predict(ROWS.iloc[:SHOWN], tmp_path_factory.mktemp("first"))


def errors(design, fitted, rows) -> np.ndarray:
    """Standard errors of the linear predictors of rows."""
    return predicted(design, fitted, rows)["linear_predictor_std_error"].to_numpy()


@pytest.mark.parametrize("name", FITS)
def test_errors_are_those_of_mgcv(name, files, first_rows):
    formula, family, settings = FITS[name]
    design, fitted, _ = fit_files(files, formula, family, std_errors="robust", **settings)
    np.testing.assert_allclose(errors(design, fitted, first_rows), R[name]["robust"], rtol=1e-5)
    without_bias = replace(fitted, covariance=replace(fitted.covariance, penalty=None))
    np.testing.assert_allclose(errors(design, without_bias, first_rows), R[name]["frequentist"], rtol=1e-5)
    few = {"std_errors": "cluster(day)", "limits": CR1}
    design, fitted, _ = fit_files(files, formula, family, **settings, **few)
    # Beside effects of planes, CR1 hides what single clusters determine; here only the numbers count.
    rows = matrix_of(design, files, fitted)[0][:SHOWN]
    actual = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance_of(fitted), rows))
    np.testing.assert_allclose(actual, R[name]["by_day"], rtol=1e-5)


# Against matrices of rows -------------------------------------------------------------------------------------------------

CASES = {
    "gaussian": "delay ~ s(hour) + carrier + s(plane, bs=re)",
    "poisson": "bumps ~ s(hour, k=6) + s(hour, by=wind, k=5)",
    "binomial": "late ~ carrier + s(hour, by=carrier, k=5)",
    "gamma": "cost ~ te(hour, wind, k=[4, 4])",
}
RESPONSES = {"gaussian": "delay", "poisson": "bumps", "binomial": "late", "gamma": "cost"}


def free_of(fitted) -> np.ndarray:
    return fitted.covariance.bread.free


def covariance_of(fitted) -> np.ndarray:
    """The covariance of the free coefficients, on the scale of the fit."""
    return fitted.covariance.of(scipy.sparse.eye_array(len(fitted.coefficients), format="csr")[free_of(fitted)])


def matrix_of(design, files, fitted) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the design matrix and their linear predictors, in the order of the file."""
    workload = Workload(design, files, "train")
    ((file, shard, signature, call),) = workload.shards_alone()
    rows = workload.passes(signature).rows(rows_of_design, workload.state(fitted.coefficients), call)
    matrix = predict.design_rows(design, rows, np.ones(len(rows["eta"]), bool)).toarray()
    order = np.argsort(predict.decoded(file, shard, "number").to_numpy())
    return matrix[order][:, free_of(fitted)], rows["eta"][order]


def penalty_of(design, fitted) -> np.ndarray:
    """The diagonal of the penalty by fit.json, [p]."""
    penalty = np.zeros(design.size)
    for smooth, entry in zip(design.smooths, fitted.summary["smooths"], strict=True):
        lambdas = [each["log_lambda"] for each in entry.get("margins", [entry])]
        penalty[smooth.places] += np.exp(lambdas) @ smooth.penalties
    return penalty


class Matrices:
    """The matrices of a fit: columns x, working weights, residuals, and the penalty by fit.json."""

    def __init__(self, family, design, files, fitted):
        self.x, eta = matrix_of(design, files, fitted)
        y = ROWS[RESPONSES[family]].to_numpy(float)
        mean = {"gaussian": eta, "binomial": 1 / (1 + np.exp(-eta))}.get(family, np.exp(eta))
        weight = {"gaussian": np.ones(len(y)), "poisson": mean, "binomial": mean * (1 - mean)}
        self.weight = weight.get(family, np.ones(len(y)))
        slope = {"gaussian": np.ones(len(y)), "binomial": mean * (1 - mean)}.get(family, mean)
        self.residual = (y - mean) / slope
        self.penalty = penalty_of(design, fitted)[free_of(fitted)]
        self.bread = np.linalg.inv(self.x.T @ (self.weight[:, None] * self.x) + np.diag(self.penalty))
        self.scores = self.x * (self.weight * self.residual)[:, None]
        self.edf = np.trace(self.bread @ self.x.T @ (self.weight[:, None] * self.x))
        self.bias = fitted.covariance.dispersion * self.bread @ np.diag(self.penalty) @ self.bread

    def sandwich(self, scores: np.ndarray) -> np.ndarray:
        return self.bread @ scores.T @ scores @ self.bread


def assert_alike(actual: np.ndarray, exact: np.ndarray) -> None:
    scale = np.sqrt(np.diag(exact))
    assert np.abs((actual - exact) / np.outer(scale, scale)).max() < 1e-6


@pytest.mark.parametrize(("family", "kind"), [*zip(CASES, ("HC3", "HC1", "HC2", "HC3"), strict=True)])
def test_robust_errors_are_those_of_matrices_of_rows(family, kind, files):
    design, fitted, _ = fit_files(files, CASES[family], family, std_errors=kind)
    exact, rows = Matrices(family, design, files, fitted), len(ROWS)
    leverage = exact.weight * np.einsum("ij,jk,ik->i", exact.x, exact.bread, exact.x)
    factor = {"HC1": rows / (rows - exact.edf), "HC2": 1 / (1 - leverage), "HC3": 1 / (1 - leverage) ** 2}[kind]
    scores = exact.scores * np.sqrt(np.broadcast_to(factor, rows))[:, None]
    assert_alike(covariance_of(fitted), exact.sandwich(scores) + exact.bias)
    estimated = estimates_of(design, fitted)
    variances = fitted.covariance.variances(estimated.transform[estimated.kept])
    np.testing.assert_allclose(variances.chosen, np.diag(fitted.covariance.of(estimated.transform[estimated.kept])))
    assert fitted.summary["std_errors"] == {"kind": kind}


@pytest.mark.parametrize("family", CASES)
def test_errors_by_cluster_are_those_of_matrices_of_rows(family, files, tmp_path):
    design, fitted, _ = fit_files(files, CASES[family], family, std_errors="cluster(day)")
    matrices, day = Matrices(family, design, files, fitted), ROWS["day"].to_numpy()
    exact = MatricesOfRows(
        matrices.x, matrices.weight, matrices.residual, day, float(fitted.covariance.rho), matrices.penalty
    )
    assert_alike(covariance_of(fitted), exact.covariance + matrices.bias)
    assert fitted.covariance.raw_scores is None  # no bootstrap is for penalties
    # Half of the identity's columns with their degrees of freedom, and a test of the smooth term.
    transform = scipy.sparse.eye_array(design.size, format="csr")[free_of(fitted)[:4]]
    on_free = fitted.covariance.bread.on_free(transform)
    df, share = fitted.covariance.model.satterthwaite(on_free)
    np.testing.assert_allclose(df, [exact.satterthwaite(each) for each in on_free], rtol=1e-5)
    np.testing.assert_allclose(share, 1.0, rtol=1e-6)
    # The checkpoint keeps the penalty.
    if family == "gaussian":
        checkpoint.save(fitted, design, tmp_path / "checkpoint")
        again = replace(checkpoint.load(design, tmp_path / "checkpoint"), summary=fitted.summary)
        pd.testing.assert_frame_equal(table_of(design, again), table_of(design, fitted))


def test_random_effects_of_single_clusters_are_rows_of_these(files):
    formula = "delay ~ s(hour) + carrier + s(plane, bs=re)"
    plane = ROWS["plane"].factorize(sort=True)[0]
    for limits in (None, CR1):
        design, fitted, _ = fit_files(files, formula, "gaussian", std_errors="cluster(plane)", limits=limits)
        exact, free = Matrices("gaussian", design, files, fitted), free_of(fitted)
        # A row for each plane, with the response 0, the information of its prior, and the effect as its residual.
        own = np.flatnonzero(np.isin(free, design.smooths[1].places))
        names = free[own] - design.smooths[1].places[0]
        x, penalty = np.vstack([exact.x, np.eye(len(free))[own]]), exact.penalty.copy()
        penalty[own] = 0.0
        weight = np.append(exact.weight, exact.penalty[own])
        residual = np.append(exact.residual, -fitted.coefficients[free[own]])
        cluster = np.append(plane, names)
        bias = fitted.covariance.dispersion * exact.bread @ np.diag(penalty) @ exact.bread
        if limits:
            scores = np.stack([(weight * residual)[cluster == each] @ x[cluster == each] for each in range(25)])
            factor = 25 / 24 * (len(ROWS) - 1) / (len(ROWS) - exact.edf)
            assert_alike(covariance_of(fitted)[:12, :12], (factor * exact.sandwich(scores) + bias)[:12, :12])
        else:
            assert fitted.covariance.rho < 1e-6  # the effects are what rows of a plane share
            rows = MatricesOfRows(x, weight, residual, cluster, 0.0, penalty)
            assert_alike(covariance_of(fitted)[:12, :12], (rows.covariance + bias)[:12, :12])
        assert not fitted.summary["warnings"]
        table = coefficients.table(estimates_of(design, fitted), 0.95)
        of_planes = table[table["term"] == "s(plane, bs=re)"]
        assert of_planes["std_error"].isna().all() and (of_planes["note"] != "").all()
        assert table.loc[table["term"] == "carrier", "std_error"].notna().sum() == 2


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_errors_by_clusters_of_two_columns_are_those_of_matrices_of_rows(family, files):
    design, fitted, _ = fit_files(files, CASES[family], family, std_errors="cluster(day + seats)")
    exact, rows = Matrices(family, design, files, fitted), len(ROWS)
    meat = exact.bias.copy()
    for columns, sign in ((["day"], 1), (["seats"], 1), (["day", "seats"], -1)):
        numbers = ROWS.groupby(columns).ngroup().to_numpy()
        scores = np.stack([exact.scores[numbers == number].sum(0) for number in range(numbers.max() + 1)])
        factor = len(scores) / (len(scores) - 1) * (rows - 1) / (rows - exact.edf)
        meat += sign * factor * exact.sandwich(scores)
    assert_alike(covariance_of(fitted), meat)
    told = fitted.summary["std_errors"]
    of_classical = scipy.linalg.eigh(meat, fitted.covariance.dispersion * exact.bread, eigvals_only=True)[0]
    assert told["estimator"] == "CGM" and told["smallest_share"] == pytest.approx(of_classical, rel=1e-5)


@pytest.mark.parametrize("kind", ["HC1", "cluster(day)"])
def test_a_smooth_is_tested_by_its_first_directions(kind, files):
    design, fitted, _ = fit_files(files, "delay ~ s(hour, k=6) + s(wind, k=5)", "gaussian", std_errors=kind)
    estimates = replace(estimates_of(design, fitted), fewest=Fewest(df=2, df_joint=2))
    table = joint_tests(estimates, (), fitted.summary["smooths"]).set_index("term")
    exact, free = Matrices("gaussian", design, files, fitted), free_of(fitted).tolist()
    whole = exact.x.T @ exact.x
    for smooth, entry in zip(design.smooths, fitted.summary["smooths"], strict=True):
        places = [free.index(place) for place in smooth.places]
        root = scipy.linalg.sqrtm(whole[np.ix_(places, places)]).real
        directions = np.linalg.eigh(root @ exact.bread[np.ix_(places, places)] @ root)[1][:, ::-1]
        halved = np.eye(len(free)) - 0.5 * exact.bread @ whole
        rank = np.trace((2 * exact.bread @ whole @ halved)[np.ix_(places, places)])
        assert entry["rank"] == pytest.approx(rank, rel=1e-5)
        count, share = int(np.ceil(rank - 1e-6)), rank - int(rank)
        rows = (directions[:, :count].T @ root) @ np.eye(len(free))[places]
        covariance = rows @ covariance_of(fitted) @ rows.T
        values, vectors = np.linalg.eigh(covariance)
        along = (vectors.T @ rows @ fitted.coefficients[free]) / np.sqrt(values)
        # Wood (2013): the two smallest of its eigenvalues share 1 + nu, with both signs of an eigenvector.
        beside = np.sqrt(0.5 * share * (1 - share))
        middle = np.array([[share, beside], [beside, 1.0]])
        signs = [along[:2] * np.array([1.0, sign])[:count] for sign in (1, -1)]
        both = [each @ middle[-count:, -count:] @ each for each in signs]  # of a straight line there is one direction
        statistic = np.sum(along[2:] ** 2) + np.mean(both)
        row = table.loc[smooth.term]
        assert row["chi_squared"] == pytest.approx(statistic, rel=1e-4)
        assert row["df"] == pytest.approx(rank, rel=1e-5)
        if kind == "HC1":
            assert row["F"] == pytest.approx(statistic / rank, rel=1e-4)
            continue
        oracle = MatricesOfRows(
            exact.x, exact.weight, exact.residual, ROWS["day"].to_numpy(), fitted.covariance.rho, exact.penalty
        )
        eta = oracle.hotelling(rows)
        assert row["df_denominator"] == pytest.approx(eta - rank + 1, rel=1e-5)
        assert row["F"] == pytest.approx((eta - rank + 1) / eta * statistic / rank, rel=1e-4)
        near = scipy.stats.f.sf(row["F"], rank, eta - rank + 1)
        assert row["p_value"] == pytest.approx(near, rel=0.3, abs=1e-12)
    assert table["p_value"].notna().all()


@pytest.mark.parametrize("formula", [FITS["surface"][0], "gusts ~ carrier + s(hour, by=carrier, k=5)"])
def test_with_the_covariance_of_the_posterior_it_is_the_test_of_wood(formula, files):
    design, fitted, _ = fit_files(files, formula, "gaussian")
    penalised = replace(fitted.covariance, penalty=penalty_of(design, fitted)[free_of(fitted)])
    estimates = estimates_of(design, replace(fitted, covariance=penalised))
    for entry in fitted.summary["smooths"]:
        actual = smooth_tests.robust(estimates, entry)
        np.testing.assert_allclose(sorted(actual.values), sorted(entry["statistics"]), rtol=1e-6)
        assert actual.rank == pytest.approx(entry["rank"], rel=1e-9)


def test_what_robust_errors_have_not_is_said(files):
    formula = "delay ~ s(hour) + s(plane, bs=re) + s(wind, k=6, bs=cc, lower_bound=0, upper_bound=20)"
    design, fitted, _ = fit_files(files, formula, "gaussian", std_errors="cluster(day)")
    smooths = fitted.summary["smooths"]
    assert "std_dev" in smooths[1] and not {"std_dev_lower", "statistic"} & smooths[1].keys()
    table = joint_tests(estimates_of(design, fitted), (), smooths).set_index("term")
    for term in (smooths[1]["term"], smooths[2]["term"]):
        assert np.isnan(table.loc[term, "p_value"]) and table.loc[term, "note"].endswith("no test with these errors")
    assert "the bias that the prior of the penalty expects" in accuracy.errors(fitted.summary)
    assert any("`s(plane, bs=re)` have rows in several clusters" in each for each in fitted.summary["warnings"])


def test_estimates_are_those_of_classical_errors(files):
    formula, family, _ = FITS["poisson"]
    fits = [fit_files(files, formula, family, std_errors=kind)[1] for kind in ("classical", "cluster(day)")]
    np.testing.assert_array_equal(fits[0].coefficients, fits[1].coefficients)
    lambdas = [[each["log_lambda"] for each in fitted.summary["smooths"]] for fitted in fits]
    assert lambdas[0] == lambdas[1]
