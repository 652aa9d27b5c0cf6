"""The independent implementation that our numbers are compared with, and how closely (docs/statistics.md: Tolerances)."""

import re

import formulaic
import numpy as np
import pandas as pd
import statsmodels.api as sm


def logistic_regression(y: pd.Series, matrix: pd.DataFrame, clusters: pd.Series | None = None):
    """statsmodels' logistic regression of `y` on the columns of `matrix`, with errors robust to `clusters`."""
    model = sm.GLM(y.to_numpy(float), matrix.to_numpy(), sm.families.Binomial())
    # From zero: its own start takes as long as all steps.
    return model.fit(method="newton", maxiter=30, max_start_irls=0, **_by(clusters))


def linear_regression(y: pd.Series, matrix: pd.DataFrame, clusters: pd.Series | None = None):
    """statsmodels' ordinary least squares."""
    return sm.OLS(y.to_numpy(float), matrix.to_numpy()).fit(method="qr", **_by(clusters))


def _by(clusters: pd.Series | None) -> dict:
    numbers = {} if clusters is None else {"groups": pd.factorize(clusters)[0]}
    return {"cov_type": "cluster", "cov_kwds": numbers} if numbers else {}


def treatment_contrasts(frame: pd.DataFrame, categorical: dict[str, str], numeric: list[str]) -> pd.DataFrame:
    """Intercept, indicators of all levels but the first in sorted order, numbers; columns are named (term, level).

    `categorical` maps the name of a term to its column.
    """
    columns = {("Intercept", ""): np.ones(len(frame))}
    for term, column in categorical.items():
        for level in sorted(frame[column].unique())[1:]:
            columns[term, str(level)] = (frame[column] == level).to_numpy(float)
    return pd.DataFrame(columns | {(name, ""): frame[name].to_numpy(float) for name in numeric})


def model_matrix(frame: pd.DataFrame, formula: str) -> pd.DataFrame:
    """formulaic's design matrix of the right-hand side, columns named (term, level) as in our tables."""
    matrix = pd.DataFrame(formulaic.model_matrix(formula.split("~")[1], frame))
    return matrix.set_axis(pd.MultiIndex.from_tuples([coefficient_name(name) for name in matrix.columns]), axis=1)


def coefficient_name(name: str) -> tuple[str, str]:
    """`carrier[T.AA]:poly(x, 2)[1]` as (`carrier:poly(x, 2)`, `AA:1`)."""
    pieces = [re.fullmatch(r"(.*?)(?:\[(?:T\.)?([^\[\]]*)\])?", piece) for piece in name.split(":")]
    levels = [piece[2] for piece in pieces if piece[2] is not None]
    return ":".join(re.sub(r"C\((\w+),.*\)", r"C(\1)", piece[1]) for piece in pieces), ":".join(levels)


def assert_agrees(table: pd.DataFrame, exact, names: list[tuple[str, str]], errors: np.ndarray | None = None) -> None:
    """Estimates to 1e-6 * max(|b|, SE) and standard errors to 1e-5, for just the coefficients `names` of our table. `errors`
    are those expected, NaN for none, where they are not those of `exact`."""
    estimate, error = np.asarray(exact.params), np.asarray(exact.bse)
    ours = table.loc[names]
    assert np.all(np.abs(ours["estimate"] - estimate) <= 1e-6 * np.maximum(np.abs(estimate), error))
    np.testing.assert_allclose(ours["std_error"], error if errors is None else errors, rtol=1e-5)


def cr2_errors(
    matrix: np.ndarray, weights: np.ndarray, residuals: np.ndarray, clusters: np.ndarray, rho: float
) -> np.ndarray:
    """CR2 standard errors from the rows: Pustejovsky & Tipton, Journal of Business & Economic Statistics 36 (2018), with the
    working model of a random intercept, of `rho` times the variance of a row.

    `matrix` [rows, coefficients] with an intercept; `weights` are the working weights and `residuals` those of the response,
    [rows]. NaN for a coefficient that a single cluster determines.
    """
    scaled, constant = matrix * np.sqrt(weights)[:, None], np.sqrt(weights)
    errors = residuals / np.sqrt(weights)
    bread = np.linalg.inv(scaled.T @ scaled)
    rows_of = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
    # X'Phi X, with Phi = I + rho z z' in each cluster.
    common = np.array([scaled[rows].T @ constant[rows] for rows in rows_of])
    among = bread @ (scaled.T @ scaled + rho * common.T @ common) @ bread
    adjusted, alone = [], np.zeros(matrix.shape[1], bool)
    for rows in rows_of:
        x, z = scaled[rows], constant[rows]
        orthogonal, triangular = np.linalg.qr(x)
        left, sizes, _ = np.linalg.svd(triangular)
        basis = orthogonal @ left[:, sizes > 1e-12 * sizes.max()]
        x, z, e = basis.T @ x, basis.T @ z, basis.T @ errors[rows]  # the intercept has z in the range of x
        phi, hat = np.eye(len(z)) + rho * np.outer(z, z), x @ bread @ x.T
        psi = phi - hat @ phi - phi @ hat + x @ among @ x.T
        values, vectors = np.linalg.eigh(phi)
        root = vectors * np.sqrt(values) @ vectors.T
        values, vectors = np.linalg.eigh(root @ psi @ root)
        good = values > 1e-8
        alone |= (np.abs(vectors[:, ~good].T @ np.linalg.solve(root, x @ bread)) > 0.1 * np.sqrt(np.diag(bread))).any(0)
        half = root @ (vectors[:, good] / values[good] ** 0.25)
        adjusted.append(x.T @ (half @ (half.T @ e)))
    covariance = bread @ np.array(adjusted).T @ np.array(adjusted) @ bread
    return np.where(alone, np.nan, np.sqrt(np.diag(covariance)))


def flagged(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The coefficients with a status."""
    return table.loc[table["status"] != "", "status"].to_dict()
