"""Residuals of training rows for pictures: randomised quantile residuals, their means in bins, and the most influential rows."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import ndtri

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.inference.fitted import Fitted
from tfglm.results.residuals import residuals

MOST_ROWS, MOST_WITH_LEVERAGE = 2**17, 20_000
"""About the most rows that are read, and the most of a model whose leverages are computed."""

BINS, SHOWN = 25, 10
"""Bins of a picture, and influential rows in a table."""

SEED = 1
"""Of the random part of quantile residuals."""


class Diagnosed(NamedTuple):
    """A row each: `residual` with its `kind` in words, `fitted`, the columns of `numbers`, and the leverage if it is known."""

    rows: pd.DataFrame
    kind: str
    numbers: list[str]


def diagnosed(design: Design, fitted: Fitted, files: Sequence[IngestedFile], identity: Sequence[str]) -> Diagnosed:
    """Return the residuals of the training rows of a regression; of more than about MOST_ROWS, of whole shards until there
    are enough. `identity` are the columns that identify rows in the table of influential ones."""
    numbers = list(dict.fromkeys(column for factor in design.numeric if not factor.shape for column in factor.columns))
    leverage = (
        design.rows["train"] <= MOST_WITH_LEVERAGE
        and not (design.absorbed or design.penalty.given or design.instruments)
        and fitted.covariance.is_known
    )
    columns = list(dict.fromkeys([*numbers, *identity]))
    tables: list[pa.Table] = []
    for table in chain.from_iterable(residuals(design, fitted, file, "train", columns, leverage) for file in files):
        tables.append(table)
        if sum(each.num_rows for each in tables) >= MOST_ROWS:
            break
    rows = pa.concat_tables(tables).to_pandas()
    rows = rows[rows["fitted"].notna() & (rows["weight"] > 0)].reset_index(drop=True)
    dispersion = fitted.covariance.dispersion if not design.distribution.dispersion_known else 1.0
    values, kind = quantile_residuals(design, rows, dispersion)
    if leverage and "leverage" in rows:
        size = rows["leverage"].sum()
        h = rows["leverage"]
        rows["cook"] = rows["standardised_pearson_residual"] ** 2 * h / (1 - h) / max(size, 1)
    return Diagnosed(rows.assign(quantile_residual=values), kind, numbers)


def quantile_residuals(design: Design, rows: pd.DataFrame, dispersion: float) -> tuple[np.ndarray, str]:
    """Return residuals that are standard normal if the model is right (Dunn and Smyth, J. Comput. Graph. Statist. 5, 1996):
    the normal quantile of the distribution function at the response, with a random number between its two values at a step.
    For a family without a known distribution function, or prior weights of counts, deviance residuals."""
    y, mean, weight = (rows[name].to_numpy(float) for name in ("response", "fitted", "weight"))
    random = np.random.default_rng(SEED).random(len(y))
    law = design.distribution.law(y, mean, weight, dispersion)
    if law is None:
        return rows["deviance_residual"].to_numpy(float) / np.sqrt(dispersion), "deviance residuals"
    at, over = law.distribution.cdf(law.value), law.distribution.sf(law.value)
    if not law.steps:
        return normal_quantile(at, over), "quantile residuals"
    below, above = law.distribution.cdf(law.value - 1), law.distribution.sf(law.value - 1)
    return (
        normal_quantile(below + random * (at - below), over + (1 - random) * (above - over)),
        "randomised quantile residuals",
    )


def normal_quantile(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The normal quantile of probabilities, from the tail that is smaller: `upper` is 1 - `lower` without its rounding error."""
    tiny = np.finfo(float).tiny
    return np.where(lower < 0.5, ndtri(np.maximum(lower, tiny)), -ndtri(np.maximum(upper, tiny)))


def binned(x: np.ndarray, residual: np.ndarray) -> pd.DataFrame:
    """Mean residuals in bins of about as many rows, by x: columns `x`, `mean`, `lower`, `upper` (95 %) and `rows`."""
    known = np.isfinite(x) & np.isfinite(residual)
    x, residual = x[known], residual[known]
    place, counts = in_bins(x, None, BINS)
    means = [np.bincount(place, each) / counts for each in (x, residual, residual**2)]
    spread = np.sqrt(np.maximum(means[2] - means[1] ** 2, 0.0) / np.maximum(counts - 1, 1))
    margin = np.where(counts > 1, 1.96 * spread, np.nan)
    return pd.DataFrame(
        {"x": means[0], "mean": means[1], "lower": means[1] - margin, "upper": means[1] + margin, "rows": counts}
    )


def in_bins(x: np.ndarray, weight: np.ndarray | None, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins of x of about the same weight, or rows: the number of each row's bin, and the rows of each. Without weights, up to so
    many values have bins of their own."""
    values, place = np.unique(x, return_inverse=True)
    if len(values) > bins or weight is not None:
        weights = np.bincount(place, weight)
        before = (np.cumsum(weights) - weights) / weights.sum()
        of_value = np.minimum(before * bins + 1e-9, bins - 1).astype(int)  # rounding moves no value to another bin
        place = np.unique(of_value, return_inverse=True)[1][place]
    return place, np.bincount(place)


def influential(diagnosed: Diagnosed, identity: Iterable[str]) -> pd.DataFrame | None:
    """The rows with the largest Cook's distance (Cook, Technometrics 19, 1977); None if leverages are not known."""
    rows = diagnosed.rows
    if "cook" not in rows or rows["cook"].isna().all():
        return None
    names = [*dict.fromkeys([*identity, *diagnosed.numbers[:4]]), "response", "fitted", "leverage"]
    shown = rows.nlargest(SHOWN, "cook")[[*names, "standardised_pearson_residual", "cook"]]
    return shown.rename(columns={"standardised_pearson_residual": "standardised residual", "cook": "Cook's distance"})
