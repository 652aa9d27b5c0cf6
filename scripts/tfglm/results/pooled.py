"""Fits of imputed data, pooled by Rubin's rules (Rubin, Multiple Imputation for Nonresponse in Surveys, 1987).

With m imputations, the estimate is the mean of theirs. Its variance is U + (1 + 1/m) B, with the mean U of their variances and
the variance B between them. Degrees of freedom are those of Barnard and Rubin (Biometrika 86, 1999), as in R's mice::pool.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tfglm.errors import UserError
from tfglm.inference.reference import Reference
from tfglm.results.coefficients import tests
from tfglm.results.compare import ComparedModel

ALIKE = ("formula", "family", "link", "rows", "std_errors")
"""What fit.json has to say alike of all imputations."""


def pooled(models: Sequence[ComparedModel], confidence: float) -> pd.DataFrame:
    """The pooled table of coefficients of fits of imputed data, by term and level. Raises UserError as `tfglm.pool` does."""
    check(models)
    fits, tables = [model.fit for model in models], [model.table for model in models if model.table is not None]
    first, times = tables[0], len(tables)
    estimates, errors = (np.array([table[name] for table in tables], float) for name in ("estimate", "std_error"))
    of_fits = [fit["df_residual"] for fit in fits]
    complete = np.mean([table["df"] for table in tables] if "df" in first else of_fits, axis=0)
    statuses = np.array([table["status"].fillna("") for table in tables])
    status = np.array(["; ".join(filter(None, dict.fromkeys(each))) for each in statuses.T])
    values, within = np.where(status == "", estimates.mean(axis=0), np.nan), (errors**2).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (1 + 1 / times) * estimates.var(axis=0, ddof=1)
        share, relative = between / (within + between), between / within
        df = 1 / (share**2 / (times - 1) + (complete + 3) / ((complete + 1) * complete * (1 - share)))
    error = np.sqrt(within + between)
    columns = {name: first[name] for name in ("class", "term", "level", "reference") if name in first}
    columns |= {"estimate": values, "std_error": error, **tests("t", Reference(df), values, error, confidence)}
    columns |= {name: np.exp(values) for name in first if name.endswith("_ratio")}
    missing = (relative + 2 / (df + 3)) / (relative + 1)
    return pd.DataFrame(columns | {"fmi": missing, "rows": first["rows"], "status": status}).set_index(
        ["term", "level"]
    )


def check(models: Sequence[ComparedModel]) -> None:
    """Raise UserError unless the models are the same regression of imputed rows, with standard errors."""
    if len(models) < 2:
        raise UserError("pool: give the fits of two or more imputations")
    first, names = models[0], ["term", "level", "reference"]
    for number, model in enumerate(models, 1):
        fit, design, table = model.fit, model.design, model.table
        if (
            design is None
            or table is None
            or "std_error" not in table
            or fit["std_errors"]["kind"] == "none"
            or design.smooths
        ):
            why = "it is a network, penalised, smooth, or has not converged"
            raise UserError(f"pool: fit {number} has no errors of coefficients alone: {why}")
        assert first.design and first.table is not None
        for key in ALIKE:
            one, other = (str(each[key]["kind"] if key == "std_errors" else each[key]) for each in (first.fit, fit))
            if one != other:
                raise UserError(
                    f"pool: the fits differ in {key}: {one} and {other}; imputations have the same model and rows"
                )
        if not first.table[names].equals(table[names]):
            raise UserError(
                'pool: the fits differ in levels or reference levels; write these into the formula, as in C(x, Treatment("a"))'
            )
        for own, theirs in zip(first.design.numeric, design.numeric, strict=True):
            if own.learnt != theirs.learnt:
                raise UserError(
                    f"pool: `{own.name}` is computed from the rows, and so differs between imputations; fix its points"
                )
