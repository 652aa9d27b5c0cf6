"""Fitted values, residuals and leverages of single rows."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tfglm.data.shards import IngestedFile, Shard
from tfglm.design.design import Design
from tfglm.engine.leverage import ALONE
from tfglm.engine.workload import Workload
from tfglm.results.predict import Scored, decoded, design_rows, nothing, remarks, score
from tfglm.solvers.fitted import Fitted


def residuals(
    design: Design, fitted: Fitted, file: IngestedFile, split: str, identity: Sequence[str], leverage: bool = False
) -> Iterator[pa.Table]:
    """The rows of a split of a file with a response, as a regression fits them.

    Parameters
    ----------
    design, fitted
        The model.
    file
        The file, ingested.
    split
        `train` or `evaluate`. Its rows are in the order of the shards, which is none of the file's.
    identity
        Columns that tell which row is which; they are copied as they are in the data.
    leverage
        Whether training rows have a leverage.

    Yields
    ------
    An empty table, then one for each shard. Columns: `file`; those of `identity`; `response`, of trials the share of events;
    `weight`, the prior weight times the trials; `fitted`; `residual`, the response less that; `pearson_residual`, divided by the
    root of variance / weight; `deviance_residual`, the root of what the row adds to the deviance, with the sign of the residual;
    on request `leverage` and `standardised_pearson_residual` (`influence`); `unseen` and `remark` as predictions have them. None
    but the standardised one is divided by the dispersion, as in R and statsmodels.
    """
    workload, influential = Workload(design, [file], split), leverage and split == "train"
    empty = {name: np.zeros(0) for name in ("response", "weight", "frequency")} | nothing(design, file).rows
    yield table(design, Scored(file, Shard("", split, 0), empty), identity, fitted if influential else None)
    if not influential:
        for scored in score(workload, fitted):
            yield table(design, scored, identity)
        return
    both = zip(score(workload, fitted), score(workload, fitted, "rows_of_design"), strict=True)
    for (_, shard, rows), of_design in both:
        yield table(design, Scored(file, shard, of_design.rows | rows), identity, fitted)


def table(design: Design, scored: Scored, identity: Sequence[str], influence_on: Fitted | None = None) -> pa.Table:
    """The rows of a shard, with their influence on a fit, if one is given."""
    file, shard, rows = scored
    family, known = design.distribution, rows["flag"] >= 0
    weight = np.divide(rows["weight"], rows["frequency"], out=np.zeros(len(known)), where=rows["frequency"] > 0)
    y, eta = np.where(known, rows["response"], np.nan), np.where(known, rows["eta"], np.nan)
    mean = family.mean(eta)
    residual = y - mean
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson = residual * np.sqrt(weight / family.variance(mean))
        # Rounding may leave less than the least loss.
        deviance = 2 * weight * np.maximum(family.loss(eta, y) - family.saturated(y), 0.0)
    values = {
        "response": y,
        "weight": np.where(known, weight, np.nan),
        "fitted": mean,
        "residual": residual,
        "pearson_residual": pearson,
        "deviance_residual": np.sign(residual) * np.sqrt(deviance),
    }
    if influence_on:
        values |= influence(design, influence_on, scored, weight * family.information(eta, mean), pearson)
    columns = {"file": pa.array([file.manifest.source] * len(known), pa.string())}
    columns |= {name: decoded(file, shard, name) for name in identity}
    columns |= {name: pa.array(value, from_pandas=True) for name, value in values.items()}
    return pa.table(columns | remarks(design, scored))


def influence(
    design: Design, fitted: Fitted, scored: Scored, working: np.ndarray, pearson: np.ndarray
) -> dict[str, np.ndarray]:
    """The influence of rows on the fit (Pregibon, Annals of Statistics 9, 1981).

    Parameters
    ----------
    design, fitted
        The model.
    scored
        The rows, with what `Passes.rows_of_design` says of them.
    working
        Working weight w, at the estimates, of each of the rows that a row stands for, [rows].
    pearson
        Pearson residual r, [rows].

    Returns
    -------
    `leverage`, h = w x' I^-1 x with the row x of the design matrix: the diagonal of the hat matrix, which adds up to the number
    of coefficients. Of a ridge I + penalty takes the place of I, and it adds up to the effective number.
    `standardised_pearson_residual`, r / (phi (1 - h))^1/2 with the dispersion phi; not of a ridge, where that is no unit.
    """
    known = scored.rows["flag"] >= 0
    leverage = np.full(len(known), np.nan)
    leverage[known] = working[known] * fitted.unscaled_variances(design_rows(design, scored.rows, known))
    dispersion = np.nan if design.penalised else fitted.dispersion
    if design.std_errors == "quasi":
        dispersion *= fitted.correction
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = pearson / np.sqrt(dispersion * (1 - leverage))
    return {
        "leverage": leverage,
        "standardised_pearson_residual": np.where(leverage < 1 - ALONE, standardised, np.nan),
    }
