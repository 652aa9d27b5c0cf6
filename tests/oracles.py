"""The independent implementation that our numbers are compared with, and how closely (STATISTICS: tolerances)."""

import re

import formulaic
import numpy as np
import pandas as pd
import statsmodels.api as sm


def logistic_regression(y: pd.Series, matrix: pd.DataFrame, clusters: pd.Series | None = None):
    """statsmodels' logistic regression of `y` on the columns of `matrix`, with errors robust to `clusters`."""
    model = sm.GLM(y.to_numpy(float), matrix.to_numpy(), sm.families.Binomial())
    return model.fit(method="newton", maxiter=30, **_by(clusters))


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


def assert_agrees(table: pd.DataFrame, exact, names: list[tuple[str, str]]) -> None:
    """Estimates to 1e-6 * max(|b|, SE) and standard errors to 1e-5, for just the coefficients `names` of our table."""
    estimate, error = np.asarray(exact.params), np.asarray(exact.bse)
    ours = table.loc[names]
    assert np.all(np.abs(ours["estimate"] - estimate) <= 1e-6 * np.maximum(np.abs(estimate), error))
    np.testing.assert_allclose(ours["std_error"], error, rtol=1e-5)


def flagged(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The coefficients with a status."""
    return table.loc[table["status"] != "", "status"].to_dict()
