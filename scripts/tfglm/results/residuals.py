"""Fitted values and residuals of single rows."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tfglm.data.shards import IngestedFile, Shard
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.families import FAMILIES
from tfglm.results.predict import Scored, decoded, remarks, score
from tfglm.solvers.fitted import Fitted


def residuals(
    design: Design, fitted: Fitted, file: IngestedFile, split: str, identity: Sequence[str]
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

    Yields
    ------
    An empty table, then one for each shard. Columns: `file`; those of `identity`; `response`, of trials the share of events;
    `weight`, the prior weight times the trials; `fitted`; `residual`, the response less that; `pearson_residual`, divided by the
    root of variance / weight; `deviance_residual`, the root of what the row adds to the deviance, with the sign of the residual;
    `unseen` and `remark` as predictions have them. None is divided by the dispersion, as in R and statsmodels.
    """
    nothing = {name: np.zeros(0) for name in ("eta", "response", "weight", "frequency")}
    nothing |= {"flag": np.zeros(0, np.int32), "outside": np.zeros(0, bool)}
    yield table(design, Scored(file, Shard("", split, 0), nothing), identity)
    for scored in score(Workload(design, [file], split), fitted):
        yield table(design, scored, identity)


def table(design: Design, scored: Scored, identity: Sequence[str]) -> pa.Table:
    """The rows of a shard."""
    file, shard, rows = scored
    family, known = FAMILIES[design.family], rows["flag"] >= 0
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
    columns = {"file": pa.array([file.manifest.source] * len(known), pa.string())}
    columns |= {name: decoded(file, shard, name) for name in identity}
    columns |= {name: pa.array(value, from_pandas=True) for name, value in values.items()}
    return pa.table(columns | remarks(design, scored))
