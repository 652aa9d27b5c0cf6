"""How good an answer is: its log-likelihood and AUC on the rows it was fitted to, whatever program it is from.

A program writes `coefficients.csv`: term, level (empty for numbers and the Intercept), estimate, and std_error where it has them.
Levels that it leaves out are its reference levels.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

INFINITE = 40.0
"""What an infinite coefficient adds to the linear predictor: exp(-40) is below the rounding of a likelihood."""


def linear_predictor(table: pl.DataFrame, work: dict, coefficients: pl.DataFrame) -> np.ndarray:
    """eta of each row, float64 [rows]."""
    estimates = coefficients.with_columns(pl.col("estimate").clip(-INFINITE, INFINITE))
    of_term = {term: part for (term,), part in estimates.partition_by("term", as_dict=True).items()}
    eta = np.full(len(table), of_term["Intercept"]["estimate"][0])
    for name in work["numbers"]:
        eta += table[name].to_numpy() * of_term[name]["estimate"][0]
    for name in work["factors"]:
        # A factor that is absorbed without coefficients leaves the likelihood unknown.
        part = of_term[name]
        eta += table[name].replace_strict(part["level"], part["estimate"], default=0.0).to_numpy()
    return eta


def log_likelihood(family: str, y: np.ndarray, eta: np.ndarray) -> float:
    """Maximised over the variance for a linear regression."""
    if family == "gaussian":
        return float(-0.5 * len(y) * (np.log(2 * np.pi * np.mean((y - eta) ** 2)) + 1))
    return float(np.sum(y * eta - np.logaddexp(0.0, eta)))


def judge(table_path: Path, work_path: Path, coefficients_path: Path) -> dict:
    """What to report of the coefficients; no likelihood and no AUC if they are not all there."""
    work = json.loads(work_path.read_text())
    texts = dict.fromkeys(work["factors"], pl.String)
    coefficients = pl.read_csv(
        coefficients_path,
        schema_overrides={"term": pl.String, "level": pl.String, "estimate": pl.Float64},
        infer_schema_length=None,
    )
    answer = {"coefficients": len(coefficients), "has_std_errors": "std_error" in coefficients.columns}
    if not {"Intercept", *work["factors"], *work["numbers"]} <= set(coefficients["term"]):
        return answer
    table = pl.read_csv(table_path, schema_overrides=texts)
    y, eta = table[work["response"]].to_numpy().astype(float), linear_predictor(table, work, coefficients)
    answer["log_likelihood"] = log_likelihood(work["family"], y, eta)
    if work["family"] == "binomial":
        answer["auc"] = float(roc_auc_score(y, eta))
    return answer


def without_intercept(coefficients: pl.DataFrame) -> pl.DataFrame:
    """The coefficients but for the intercept, which depends on the reference levels; levels of numbers are empty texts."""
    levels = coefficients.filter(pl.col("level").is_not_null() & (pl.col("level") != ""))
    numbers = coefficients.filter(
        (pl.col("level").is_null() | (pl.col("level") == "")) & (pl.col("term") != "Intercept")
    ).with_columns(level=pl.lit(""))
    return pl.concat([numbers, levels], how="diagonal_relaxed")


def largest_difference(coefficients_path: Path, exact_path: Path) -> float | None:
    """The largest difference of a coefficient from the exact one, in standard errors of that; None where no term is in both.

    Both are taken against the reference level of the exact table. Coefficients that the exact table calls infinite or not
    identified have no standard error and take no part.
    """
    types = {"term": pl.String, "level": pl.String, "estimate": pl.Float64, "std_error": pl.Float64}
    exact = without_intercept(pl.read_csv(exact_path, schema_overrides=types, infer_schema_length=None))
    other = without_intercept(pl.read_csv(coefficients_path, schema_overrides=types, infer_schema_length=None))
    references = exact.filter(pl.col("estimate") == 0, pl.col("std_error").is_null())
    # A level that the other program has no row for is its reference, with the coefficient 0.
    at_reference = references.select("term", "level").join(other, on=["term", "level"], how="left")
    shift = at_reference.select("term", shift=pl.col("estimate").fill_null(0.0))
    both = exact.filter(pl.col("std_error") > 0, pl.col("term").is_in(other["term"].unique().implode()))
    both = both.join(other, on=["term", "level"], how="left", suffix="_other").join(shift, on="term", how="left")
    off = pl.col("estimate_other").fill_null(0.0) - pl.col("shift").fill_null(0.0) - pl.col("estimate")
    return both.select((off / pl.col("std_error")).abs().max()).item()
