"""The table of coefficients: from the scale and the constraints of the fit to those that the reader asked for.

A fit holds one level of each categorical term, and what is aliased, at zero. Whatever it holds, the model is the same; a
table needs the estimates under other constraints. Let the columns of N span the null space of the design matrix (for each
categorical term: intercept up by 1, its levels down by 1; and one direction for each alias) and C pick the coefficients
that are to be zero. Then L = I - N (C N)^-1 C takes any solution to the one wanted, and L V L' is its covariance.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import scipy.sparse
import scipy.stats

from tfglm.errors import UserError
from tfglm.model.design import Design
from tfglm.model.families import FAMILIES
from tfglm.model.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted

NEGLIGIBLE = 1e-8
"""Entries of a null vector (largest entry 1) below this are rounding error."""


def table(
    design: Design, fitted: Fitted, reference: Mapping[str, str], confidence: float, df_residual: int
) -> pd.DataFrame:
    """One row for each coefficient, on the scale of the data.

    Columns: term, level, reference, estimate, std_error, z (t for a family with unknown dispersion), p_value, ci_lower,
    ci_upper, odds_ratio (binomial), rows, events (binomial), status. `reference` chooses levels; the default is the
    first that has a finite estimate. Raises UserError if a reference asked for has none.
    """
    references = choose_references(design, fitted, reference)
    zero, reached = constraints(design, fitted, references)
    transform = to_data_scale(design) @ reached
    with np.errstate(invalid="ignore"):
        estimate = transform @ np.where(fitted.status == SEPARATED, 0.0, fitted.coefficients)
        std_error = np.sqrt(variances(transform, fitted))
    family = FAMILIES[design.family]
    distribution = scipy.stats.norm if family.dispersion_known else scipy.stats.t(df_residual)
    statistic_name = "z" if family.dispersion_known else "t"
    is_reference = np.isin(np.arange(design.size), references)
    separated = fitted.status == SEPARATED
    aliased = (fitted.status == EMPTY) | (np.isin(np.arange(design.size), zero) & ~is_reference)
    estimate[is_reference] = 0.0
    estimate[separated] = np.where(fitted.responses[separated] > 0, np.inf, -np.inf)
    estimate[aliased] = np.nan
    std_error[is_reference | separated | aliased] = np.nan
    margin = distribution.ppf(0.5 + confidence / 2) * std_error
    statistic = estimate / std_error
    terms = [(term, level) for term, level in design.coefficients()]
    reference_level = {
        term.name: term.levels[position - design.slices[term.name].start]
        for term, position in zip(design.categorical, references, strict=True)
    }
    columns = {
        "term": [term.name for term, _ in terms],
        "level": [level for _, level in terms],
        "reference": [reference_level.get(term.name, "") for term, _ in terms],
        "estimate": estimate,
        "std_error": std_error,
        statistic_name: statistic,
        "p_value": 2 * distribution.sf(np.abs(statistic)),
        "ci_lower": estimate - margin,
        "ci_upper": estimate + margin,
    }
    if design.family == "binomial":
        columns["odds_ratio"] = np.exp(estimate)
    columns["rows"] = fitted.rows.astype(np.int64)
    if design.family == "binomial":
        columns["events"] = fitted.responses.astype(np.int64)
    columns["status"] = np.select([separated, aliased], ["separated", "aliased"], "")
    return pd.DataFrame(columns)


def choose_references(design: Design, fitted: Fitted, asked: Mapping[str, str]) -> np.ndarray:
    """Position in the coefficient vector of the reference level of each categorical term."""
    chosen = []
    for term in design.categorical:
        start = design.slices[term.name].start
        finite = np.isin(fitted.status[design.slices[term.name]], (FREE, REFERENCE, ALIASED))
        if term.name in asked:
            level = term.levels.index(asked[term.name])
            if not finite[level]:
                raise UserError(
                    f"models.{design.model}.reference.{term.name}: `{asked[term.name]}` cannot be the reference level: "
                    f"its training responses are all alike, so every difference from it is infinite\n"
                    f"  choose another level, or leave the key out"
                )
        else:
            level = int(np.argmax(finite))
        chosen.append(start + level)
    return np.array(chosen, int)


def constraints(design: Design, fitted: Fitted, references: np.ndarray) -> tuple[np.ndarray, scipy.sparse.csr_array]:
    """Which coefficients are zero in the table (the references, then the aliased ones), and L of this module's text.

    As in R, of several columns that depend on each other the last one in formula order is the aliased one.
    """
    null = []
    for term in design.categorical:
        direction = np.zeros(design.size)
        direction[0] = 1.0
        of_term = design.slices[term.name]
        direction[of_term] = np.where(np.isin(fitted.status[of_term], (SEPARATED, EMPTY)), 0.0, -1.0)
        null.append(direction)
    for direction in fitted.null_vectors:
        # Take the reparametrisations out, so that the references stay at zero along this direction too.
        null.append(direction + sum(direction[position] * null[k] for k, position in enumerate(references)))
    aliased, remaining = [], list(null[len(references) :])
    for position in range(design.size - 1, -1, -1):
        largest = max(range(len(remaining)), key=lambda k: abs(remaining[k][position]), default=None)
        if largest is None:
            break
        if abs(remaining[largest][position]) > NEGLIGIBLE:
            pivot = remaining.pop(largest)
            remaining = [one - pivot * (one[position] / pivot[position]) for one in remaining]
            aliased.append(position)
    zero = np.concatenate([references, np.array(aliased, int)])
    identity = scipy.sparse.eye_array(design.size, format="csr")
    if not len(zero):
        return zero, identity
    directions = np.array(null).T
    solved = directions @ np.linalg.inv(directions[zero])
    solved[np.abs(solved) < NEGLIGIBLE] = 0.0
    picks = scipy.sparse.csr_array((np.ones(len(zero)), (np.arange(len(zero)), zero)), shape=(len(zero), design.size))
    return zero, (identity - scipy.sparse.csr_array(solved) @ picks).tocsr()


def to_data_scale(design: Design) -> scipy.sparse.csr_array:
    """The matrix that undoes the centring and scaling of numeric terms: slopes by 1 / scale, the intercept by the centres."""
    matrix = scipy.sparse.eye_array(design.size, format="lil")
    for term in design.numeric[1:]:
        position = design.slices[term.name].start
        matrix[position, position] = 1.0 / term.scale
        matrix[0, position] = -term.center / term.scale
    return matrix.tocsr()


def variances(transform: scipy.sparse.csr_array, fitted: Fitted) -> np.ndarray:
    """The diagonal of T V T' for the covariance V in blocks, without ever making V.

    V = dispersion * (blockdiag(0, D^-1) + U S^-1 U') with U = [I; -loadings'].
    """
    dense = transform[:, fitted.dense].toarray()
    eliminated = transform[:, fitted.eliminated]
    reduced = dense - eliminated @ fitted.loadings.T
    from_schur = np.einsum("ij,ij->i", reduced @ fitted.schur_inverse, reduced)
    from_diagonal = eliminated.power(2) @ (1.0 / fitted.diagonal) if len(fitted.diagonal) else 0.0
    return fitted.dispersion * (from_schur + from_diagonal)
