"""The independent implementation that our numbers are compared with, and how closely (docs/statistics.md: Tolerances)."""

import re

import formulaic
import numpy as np
import pandas as pd
import scipy.optimize
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


def power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """Of a symmetric matrix; the pseudo-inverse for negative ones."""
    values, vectors = np.linalg.eigh(matrix)
    good = values > 1e-8
    return (vectors * np.where(good, np.where(good, values, 1.0) ** exponent, 0.0)) @ vectors.T


class MatricesOfRows:
    """CR2 as Pustejovsky & Tipton (2018) write it, with matrices of rows x rows: a working model of a random intercept, for
    weighted least squares whose weights are the inverse variances. Of a `penalty` [p] there are further rows, with a known
    variance, whose part of the covariance is `bias`."""

    def __init__(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        residual: np.ndarray,
        cluster: np.ndarray,
        rho: float,
        penalty: np.ndarray | None = None,
    ):
        root, (rows_of_data, size) = np.sqrt(weight), x.shape
        x = np.vstack([x * root[:, None], np.diag(np.sqrt(np.zeros(size) if penalty is None else penalty))])
        residual = np.append(residual * root, np.zeros(size))
        self.phi = np.eye(len(x))
        self.phi[:rows_of_data, :rows_of_data] += rho * np.outer(root, root) * (cluster[:, None] == cluster)
        self.bread = np.linalg.inv(x.T @ x)
        self.bias = self.bread @ x[rows_of_data:].T @ x[rows_of_data:] @ self.bread
        self.rest = np.eye(len(x)) - x @ self.bread @ x.T
        variance = self.rest @ self.phi @ self.rest
        self.covariance, self.of_clusters = np.zeros(self.bread.shape), []
        for number in np.unique(cluster):
            rows = np.flatnonzero(cluster == number)
            phi_root = power(self.phi[np.ix_(rows, rows)], 0.5)
            adjusted = phi_root @ power(phi_root @ variance[np.ix_(rows, rows)] @ phi_root, -0.5) @ phi_root
            half = self.bread @ x[rows].T @ adjusted
            self.covariance += np.outer(half @ residual[rows], half @ residual[rows])
            self.of_clusters.append((rows, half))
        self.true = self.bread @ x.T @ self.phi @ x @ self.bread

    def among(self, contrasts: np.ndarray) -> np.ndarray:
        """cov(p_gs'e, p_ht'e), [clusters, clusters, contrasts, contrasts], where V_st = sum_g (p_gs'e) (p_gt'e)."""
        p = np.stack([contrasts @ half @ self.rest[rows] for rows, half in self.of_clusters])
        return np.einsum("gsn,nm,htm->ghst", p, self.phi, p, optimize=True)

    def satterthwaite(self, contrast: np.ndarray) -> float:
        among = self.among(contrast[None])[:, :, 0, 0]
        return (np.trace(among) + contrast @ self.bias @ contrast) ** 2 / np.sum(among**2)

    def hotelling(self, contrasts: np.ndarray) -> float:
        values, vectors = np.linalg.eigh(contrasts @ self.true @ contrasts.T)
        among = self.among((vectors / np.sqrt(values)).T @ contrasts)
        variances = np.einsum("ghss,ghtt->", among, among) + np.einsum("ghst,ghts->", among, among)
        return len(contrasts) * (len(contrasts) + 1) / variances


def penalised(x: np.ndarray, y: np.ndarray, b: np.ndarray, family: str = "binomial") -> float:
    """Minus Firth's penalised log-likelihood."""
    eta = x @ b
    mean = np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))
    loss, weight = (mean, mean) if family == "poisson" else (np.logaddexp(0, eta), mean * (1 - mean))
    return np.sum(loss - y * eta) - 0.5 * np.linalg.slogdet(x.T @ (weight[:, None] * x))[1]


def least_penalised(
    x: np.ndarray,
    y: np.ndarray,
    family: str = "binomial",
    inside: np.ndarray | None = None,
    at: np.ndarray | float = 0.0,
) -> float:
    """The least of it over all coefficients, or over those that are `at` plus a combination of the columns of `inside`."""
    inside = np.eye(x.shape[1]) if inside is None else inside
    start = np.zeros(inside.shape[1])
    return scipy.optimize.minimize(lambda c: penalised(x, y, at + inside @ c, family), start, tol=1e-12).fun
