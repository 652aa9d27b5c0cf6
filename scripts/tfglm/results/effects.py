"""What a number does to the linear predictor where a function of it stands in the formula, as a curve."""

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm.data.dictionary import Column, Dictionary
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Numeric
from tfglm.results.reference import reference_of
from tfglm.solvers.fitted import Fitted

POINTS = 101


def curves(
    design: Design, fitted: Fitted, dictionary: Dictionary, df_residual: float, confidence: float
) -> pd.DataFrame:
    """The difference that each value of a number makes to the linear predictor, against the value nearest the mean.

    Parameters
    ----------
    design, fitted
        The model.
    dictionary
        Tells the values of each number in the training rows.
    df_residual
        Of the fit.
    confidence
        Of the intervals.

    Returns
    -------
    A row for each value of each number; a term that is a product of several factors has no curve of its own. Columns: term,
    column, value, reference, effect, std_error (posterior_sd of a penalised fit), ci_lower, ci_upper.
    """
    tables = []
    for term in design.terms:
        if term.categorical or len(term.numeric) != 1:
            continue
        factor = next(factor for factor in design.numeric if factor.name == term.numeric[0])
        column = dictionary.columns[factor.column]
        values = grid(column)
        reference = values[np.argmin(np.abs(values - column.mean))]
        rows = differences(design, factor, term.name, values, reference)
        effect = rows @ fitted.coefficients
        error = margin = np.full(len(values), np.nan)
        if np.isfinite(fitted.dispersion):
            error = np.sqrt(np.maximum(fitted.variances(rows).chosen, 0.0))
            distribution = reference_of(design, fitted, rows, df_residual)
            error = np.where(distribution.unseen, np.nan, error)
            # At the value that others are compared with nothing is estimated.
            margin = np.where(error == 0, 0.0, distribution.quantile(confidence) * error)
        columns = {"term": term.name, "column": factor.column, "value": values, "reference": reference}
        columns |= {"effect": effect, "posterior_sd" if design.penalised else "std_error": error}
        columns |= {"ci_lower": effect - margin, "ci_upper": effect + margin}
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def grid(column: Column) -> np.ndarray:
    """Values between the least and the largest of the training rows: those that occur, if they are few."""
    if column.levels is not None and len(column.levels) <= POINTS:
        return np.array(column.levels, float)
    return np.linspace(*column.limits, POINTS)


def differences(
    design: Design, factor: Numeric, term: str, values: np.ndarray, reference: float
) -> scipy.sparse.csr_array:
    """Rows of the design matrix at these values less that at the reference, on the scale of the fit, [values, p]."""
    numbers = np.stack(transforms.apply(np, factor.learnt, np.append(values, reference)), axis=1)
    rows = np.zeros((len(values), design.size))
    where = design.slices[term]
    rows[:, where] = (numbers[:-1] - numbers[-1]) / np.array(factor.scale)
    return scipy.sparse.csr_array(rows)
