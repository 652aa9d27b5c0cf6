"""Fitted values, residuals and leverages of single rows."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tfglm.data.shards import IngestedFile, Shard
from tfglm.design.design import Design
from tfglm.engine.evaluated import rows_of_design
from tfglm.engine.leverage import ALONE
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import Fitted
from tfglm.results.predict import Scored, decoded, design_rows, nothing, remarks, score


def residuals(
    design: Design, fitted: Fitted, file: IngestedFile, split: str, identity: Sequence[str], leverage: bool = False
) -> Iterator[pa.Table]:
    """Yield the rows of the split `train` or `evaluate` of a file with a response, with their fitted values and residuals:
    an empty table, then one for each shard, in the order of the shards, which differs from that of the file.

    Columns: `file`; the columns of `identity`; `response` (with trials, the share of events); `weight`, the prior weight
    times the trials; `fitted`; `residual`, the response minus `fitted`; `pearson_residual`, divided by the root of variance
    / weight; `deviance_residual`, the root of the row's contribution to the deviance, with the sign of the residual; with
    `leverage` of training rows also `leverage` and `standardised_pearson_residual` (`influence`); `unseen` and `remark` as
    in predictions. Only the standardised residual is divided by the dispersion, as in R and statsmodels.
    """
    workload, influential = Workload(design, [file], split), leverage and split == "train"
    empty = {name: np.zeros(0) for name in ("response", "weight", "frequency")} | nothing(design, file).rows
    yield table(design, Scored(file, Shard("", split, 0), empty), identity, fitted if influential else None)
    if not influential:
        for scored in score(workload, fitted):
            yield table(design, scored, identity)
        return
    both = zip(score(workload, fitted), score(workload, fitted, rows_of_design), strict=True)
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
    """Return the influence of rows on the fit (Pregibon, Annals of Statistics 9, 1981) from their working weights w and
    Pearson residuals r at the estimates, [rows]. If a row represents several rows, w is that of each.

    `leverage` is h = w x' I^-1 x with the row x of the design matrix, the diagonal of the hat matrix; its sum is the number
    of coefficients. In a ridge regression I + penalty replaces I, and the sum is the effective number of coefficients.
    `standardised_pearson_residual` is r / (phi (1 - h))^1/2 with the dispersion phi; not for a ridge, whose residuals do not
    have this variance.
    """
    known = scored.rows["flag"] >= 0
    leverage = np.full(len(known), np.nan)
    leverage[known] = working[known] * fitted.covariance.bread.squares(design_rows(design, scored.rows, known))
    dispersion = np.nan if design.penalty.given else fitted.covariance.dispersion
    if design.inference.std_errors == "quasi":
        dispersion *= fitted.covariance.correction
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = pearson / np.sqrt(dispersion * (1 - leverage))
    return {"leverage": leverage, "standardised_pearson_residual": np.where(leverage < 1 - ALONE, standardised, np.nan)}
