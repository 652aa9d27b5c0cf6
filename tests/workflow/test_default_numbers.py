"""What the default config makes of the real data, beside statsmodels, scikit-learn and plain counts."""

import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from default_run import COVARIATES, MODELS, NUMERIC
from oracles import assert_agrees, cr2_errors, flagged, linear_regression, logistic_regression, treatment_contrasts
from runs import REPOSITORY, read_json, read_table


def test_every_row_is_accounted_for(finished, expected, flights):
    rows = read_json(finished, "data", "rows.json")
    arrived = flights.dropna(subset=["arr_delay"])
    assert rows["read"] == len(flights)
    assert rows["dropped"] == {"where: arrived": len(flights) - len(arrived), "in no split": 0}
    used = {"train": (arrived["day"] <= 24).sum(), "evaluate": (arrived["day"] > 24).sum(), "predict": 0}
    assert rows["splits"] == {split: {"rows": count, "dropped": {}, "used": count} for split, count in used.items()}
    assert sum(used.values()) + sum(rows["dropped"].values()) == rows["read"]
    page = (finished / "results" / "flights" / "data" / "rows.html").read_text()
    assert all(f"<td>{count:,}</td>" in page for count in (rows["read"], used["train"], used["evaluate"]))


FLAGGED = {"late_arrival": {("dest", "LEX"): "separated"}, "arrival_delay": {}}
UNSEEN = {"late_arrival": [], "arrival_delay": [("dest", "LEX")]}
"""Coefficients without a standard error by cluster."""


@pytest.mark.parametrize("model", MODELS)
def test_the_default_models_agree_with_statsmodels_on_the_same_rows(finished, flights, model):
    train = used = flights[flights["arr_delay"].notna() & (flights["day"] <= 24)]
    table, fit = read_table(finished, model), read_json(finished, "models", model, "fit.json")
    assert flagged(table) == FLAGGED[model]
    assert fit["rows"] == len(train)
    if model == "late_arrival":
        # The one flight to LEX was on time, so its coefficient is not finite, and the rest is the fit without it.
        assert table.loc[("dest", "LEX"), "estimate"] == -np.inf
        assert table.loc[("dest", "LEX"), ["rows", "events"]].tolist() == [1, 0]
        train = train[train["dest"] != "LEX"]
        matrix = treatment_contrasts(train, COVARIATES, NUMERIC)
        exact = logistic_regression(train["late"], matrix, train["month"] * 100 + train["day"])
        assert fit["deviance"] == pytest.approx(exact.deviance, rel=1e-10)
        assert fit["null_deviance"] == pytest.approx(exact.null_deviance, rel=1e-10)
        assert [fit["aic"], fit["bic"]] == pytest.approx([exact.aic, exact.bic_llf], rel=1e-10)
        np.testing.assert_allclose(table["odds_ratio"], np.exp(table["estimate"]), rtol=1e-12)
    else:
        matrix = treatment_contrasts(train, COVARIATES, NUMERIC)
        exact = linear_regression(train["arr_delay"], matrix, train["month"] * 100 + train["day"])
        assert fit["deviance"] == pytest.approx(exact.ssr, rel=1e-10)
        assert fit["null_deviance"] == pytest.approx(exact.centered_tss, rel=1e-10)
        assert fit["aic"] == pytest.approx(exact.aic + 2, rel=1e-10)  # as in R, the variance is a parameter
    assert fit["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert fit["df_residual"] == exact.df_resid
    assert fit["converged"] and fit["certificate"]["lambda_squared"] <= 1e-12
    mean = np.asarray(exact.fittedvalues)
    weights = mean * (1 - mean) if model == "late_arrival" else np.ones(len(train))
    rho = fit["std_errors"]["rho"]
    residuals = np.asarray(train["late" if model == "late_arrival" else "arr_delay"] - mean)
    date = train["month"] * 100 + train["day"]
    errors = cr2_errors(matrix.to_numpy(), weights, residuals, date.to_numpy(), rho)
    # Nothing is known of the error of the one flight to LEX.
    assert [name for name, error in zip(matrix.columns, errors, strict=True) if np.isnan(error)] == UNSEEN[model]
    assert_agrees(table, exact, list(matrix.columns), errors)
    # CR1 is not far off, but for what a level of n days lacks in it: the variance of a mean of n is n / (n - 1) times as large.
    by_level = {term: date.groupby(train[column].astype(str)).nunique() for term, column in COVARIATES.items()}
    days = np.array([by_level[term][level] if term in by_level else len(date) for term, level in matrix.columns])
    known = ~np.isnan(errors)
    of_few = np.sqrt(days[known] / (days[known] - 1))
    np.testing.assert_allclose(errors[known], exact.bse[known] * of_few, rtol=0.03)
    classical = np.sqrt(np.diag(exact.normalized_cov_params) * (exact.scale if model == "arrival_delay" else 1.0))
    np.testing.assert_allclose(table.loc[list(matrix.columns), "classical_std_error"], classical, rtol=1e-5)
    errors = fit["std_errors"]
    assert {errors[name] for name in ("kind", "column", "clusters", "estimator")} == {"cluster", "date", 288, "CR2"}
    # Flights of one day share their weather.
    assert table.loc[("C(month)", "7"), "std_error"] > 8 * table.loc[("C(month)", "7"), "classical_std_error"]
    others = table.drop(index=list(matrix.columns))
    assert {term for term, _ in others.index} == set(COVARIATES)
    assert (others.loc[others["status"] == "", "estimate"] == 0.0).all()
    for term, column in COVARIATES.items():
        counts = used[column].value_counts()
        assert [table.loc[(term, str(level)), "rows"] for level in counts.index] == counts.tolist()


def test_the_readme_shows_lines_of_this_table(finished):
    table = read_table(finished, "late_arrival").rename(columns={"classical_std_error": "classical"})
    excerpt = (REPOSITORY / "README.md").read_text().partition("```\nterm ")[2].partition("```")[0]
    header, *lines = excerpt.splitlines()
    numbers = header.split()[2:-1]  # but the term, the level, the reference level and the status
    assert len(lines) == 4
    for line in lines:
        term, level, _, *shown = line.split()
        row = table.loc[(term, level)]
        if row["status"]:
            assert shown.pop() == row["status"]
        values = row[numbers].dropna().astype(float)
        printed = [
            f"{value:.1e}" if "e" in text else f"{value:.{len(text.partition('.')[2])}f}"
            for text, value in zip(shown, values, strict=True)
        ]
        assert printed == shown


def test_the_tutorial_and_the_pictures_of_the_documentation_are_of_this_run(finished):
    line = [sys.executable, "docs/site/renew.py", "--check", "--results", str(finished / "results" / "flights")]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_metrics_are_those_of_scikit_learn_on_the_rows_kept_back(finished, flights):
    from sklearn import metrics

    rows = flights[flights["arr_delay"].notna() & (flights["day"] > 24)]
    predictions = {}
    for model in MODELS:
        estimate = read_table(finished, model)["estimate"]
        eta = np.full(len(rows), estimate["Intercept", ""])
        for term, column in COVARIATES.items():
            eta += rows[column].astype(str).map(estimate[term]).to_numpy()
        predictions[model] = eta + sum(rows[name].to_numpy() * estimate[name, ""] for name in NUMERIC)
    late, report = rows["late"].to_numpy(), read_json(finished, "models", "late_arrival", "metrics.json")
    probability = 1 / (1 + np.exp(-predictions["late_arrival"]))
    predicted = probability >= 0.5
    rank = np.round(predictions["late_arrival"], 10)  # rows of equal covariates are ties
    assert (report["rows"], report["events"]) == (len(rows), late.sum())
    assert report["rows_with_unseen_level"] == report["rows_with_separated_level"] == 0
    assert [report["auc"], report["average_precision"], report["log_loss"], report["brier"]] == pytest.approx(
        [
            metrics.roc_auc_score(late, rank),
            metrics.average_precision_score(late, rank),
            metrics.log_loss(late, probability),
            metrics.brier_score_loss(late, probability),
        ],
        rel=1e-9,
    )
    assert [report["accuracy"], report["precision"], report["recall"]] == pytest.approx(
        [
            metrics.accuracy_score(late, predicted),
            metrics.precision_score(late, predicted),
            metrics.recall_score(late, predicted),
        ]
    )
    delay, report = rows["arr_delay"].to_numpy(), read_json(finished, "models", "arrival_delay", "metrics.json")
    assert [report["rmse"], report["mae"], report["r_squared"]] == pytest.approx(
        [
            metrics.root_mean_squared_error(delay, predictions["arrival_delay"]),
            metrics.mean_absolute_error(delay, predictions["arrival_delay"]),
            metrics.r2_score(delay, predictions["arrival_delay"]),
        ],
        rel=1e-9,
    )


def test_the_checkpoint_has_variables_named_after_the_terms(finished):
    checkpoint = finished / "results" / "flights" / "models" / "late_arrival" / "checkpoint"
    shapes = dict(tf.train.list_variables(str(checkpoint)))
    assert shapes["coefficients/carrier"] == [16]
    assert shapes["coefficients/C(month)"] == [12]
    assert shapes["coefficients/dep_hour"] == [1]
    assert shapes["covariance/cr2/bread/diagonal"] == [102]  # the destinations but LEX and the one held at zero
    assert shapes["covariance/cr2/bread/schur_inverse"] == [36, 36]
    assert shapes["covariance/cr2/bread/loadings"] == [36, 102]


def test_the_quarto_document_runs_on_the_results(finished, flights, monkeypatch):
    text = (REPOSITORY / "config" / "examples" / "late_arrival.qmd").read_text()
    cells = re.findall(r"^```\{python\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(finished)
    names: dict = {}
    for cell in cells:
        exec(cell, names)  # as Jupyter does
    table = read_table(finished, "late_arrival").loc["carrier"]
    carriers = names["carriers"].set_index("carrier")
    assert carriers["odds_ratio"].to_dict() == table["odds_ratio"].round(2).to_dict()
    assert (carriers.loc["HA", "low"], carriers.loc["HA", "high"]) == tuple(
        np.exp(table.loc["HA", ["ci_lower", "ci_upper"]].astype(float)).round(2)
    )
    assert len(cells) == 4 and names["by_hour"].is_monotonic_increasing
