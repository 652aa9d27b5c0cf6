"""The table of coefficients: from the scale and the constraints of the fit to those that the reader asked for.

A fit holds some coefficients at zero, the model is the same whichever they are (design.parametrisation). In a table they are
those of the reference levels, and of columns that depend on each other, the last ones in formula order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy.sparse
import scipy.special

from tfglm.design.design import Design
from tfglm.design.parametrisation import at_reference, hold, holding_zero, references_first, to_data_scale
from tfglm.errors import UserError, nearest
from tfglm.families import FAMILIES
from tfglm.results.aliases import aliased_with
from tfglm.results.reference import (
    FEWEST,
    Fewest,
    Reference,
    rare_events,
    reference_of,
    statistic,
)
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted


@dataclass(frozen=True)
class Estimates:
    """Coefficients as a table has them, all [p]: `transform` @ those of the fit, on the scale of the data.

    `reference` ones are 0; `separated` ones are infinite; `aliased` ones are NaN, and `aliased_with` says by place what each is
    made of. The others are `kept`. Tests by cluster need `fewest`.
    """

    design: Design
    fitted: Fitted
    levels: dict[str, str]
    transform: scipy.sparse.csr_array
    values: np.ndarray
    reference: np.ndarray
    separated: np.ndarray
    aliased: np.ndarray
    aliased_with: Mapping[int, str]
    df_residual: float
    fewest: Fewest = FEWEST

    @property
    def kept(self) -> np.ndarray:
        return ~(self.reference | self.separated | self.aliased)

    @property
    def statistic(self) -> str:
        return statistic(self.design)


def estimates(design: Design, fitted: Fitted, reference: Mapping[str, str], df_residual: float) -> Estimates:
    """The coefficients under the constraints of a table.

    Parameters
    ----------
    design, fitted
        The model.
    reference
        Reference levels by term. The default is the one that the formula names, else the first that has a finite estimate.
    df_residual
        Of the fit.

    Raises
    ------
    UserError
        If a reference level asked for has no finite estimate.
    """
    scale = to_data_scale(design)
    references = choose_references(design, fitted, reference)
    held, basis = hold((scale @ fitted.null_vectors.T).T, references_first(design, references))
    transform = (holding_zero(held, basis) @ scale).tocsr()
    separated = fitted.status == SEPARATED
    is_held = np.isin(np.arange(design.size), held)
    is_reference = is_held & (at_reference(design, references) > 0)
    aliased = (fitted.status == EMPTY) | (is_held & ~is_reference)
    # Sums of large numbers that cancel, such as an intercept far from the data, keep their digits in extended precision.
    exact = np.where(separated, 0.0, fitted.coefficients).astype(np.longdouble)
    values = (transform.astype(np.longdouble) @ exact).astype(float)
    values[is_reference] = 0.0
    values[separated] = np.where(fitted.responses[separated] > 0, np.inf, -np.inf)
    values[aliased] = np.nan
    levels = {name: design.categorical_by_name[name].levels[level] for name, level in references.items()}
    made_of = aliased_with(design, aliased, held, basis)
    return Estimates(design, fitted, levels, transform, values, is_reference, separated, aliased, made_of, df_residual)


def aliased_by_default(design: Design, fitted: Fitted) -> list[dict]:
    """What fit.json says of aliased coefficients: those of the table whose reference levels are the first that can be."""
    plain = replace(design, categorical=tuple(replace(factor, reference=None) for factor in design.categorical))
    names = list(design.coefficients())
    made_of = estimates(plain, fitted, {}, np.nan).aliased_with
    return [
        {"term": names[place][0], "level": names[place][1], "aliased_with": text} for place, text in made_of.items()
    ]


def table(estimated: Estimates, confidence: float) -> pd.DataFrame:
    """The table of coefficients, on the scale of the data.

    Parameters
    ----------
    estimated
        The coefficients.
    confidence
        Of the intervals.

    Returns
    -------
    A row for each coefficient. Columns: term, level, reference, estimate, std_error, classical_std_error (if others were asked
    for), z (t for a family with unknown dispersion, or errors by cluster), df (by cluster), p_value, neg_log10_p, ci_lower,
    ci_upper, the ratio of the family (odds_ratio, rate_ratio), rows, events (binomial), status; aliased_with, if something is
    aliased; note (by cluster: why there is no error or no test). Of a penalised fit: posterior_sd instead of errors and tests, or
    neither if the penalty sets coefficients to zero.
    """
    design, fitted = estimated.design, estimated.fitted
    penalised = design.penalised
    variances = fitted.variances(estimated.transform)
    errors, classical = (np.where(estimated.kept, np.sqrt(np.maximum(variance, 0.0)), np.nan) for variance in variances)
    terms = list(design.coefficients())
    grouping = {term.name: term.categorical for term in design.terms}
    columns = {
        "term": [term for term, _ in terms],
        "level": [level for _, level in terms],
        "reference": [
            "" if penalised else ":".join(estimated.levels[name] for name in grouping[term]) for term, _ in terms
        ],
        "estimate": estimated.values,
        "std_error": np.full(design.size, np.nan) if penalised else errors,
    }
    if penalised:
        if np.isfinite(fitted.dispersion):  # not of a lasso
            columns["posterior_sd"] = classical
    else:
        if design.std_errors != "classical":
            columns["classical_std_error"] = classical
        reference = reference_of(design, fitted, estimated.transform, estimated.df_residual, fewest=estimated.fewest)
        if reference.by_cluster:
            reference = replace(reference, rare=rare_events(design, fitted))
        columns["std_error"] = errors = np.where(reference.unseen, np.nan, errors)
        columns |= tests(estimated.statistic, reference, estimated.values, errors, confidence)
    family = FAMILIES[design.family]
    if family.ratio:
        with np.errstate(over="ignore"):  # beyond the largest float64 it is infinite
            columns[family.ratio] = np.exp(estimated.values)
    columns["rows"] = fitted.rows.astype(np.int64)
    if family.counts_events:
        events = fitted.responses
        columns["events"] = events.astype(np.int64) if np.all(events == np.round(events)) else events
    zero = (estimated.values == 0) & estimated.kept & penalised
    columns["status"] = np.select([estimated.separated, estimated.aliased, zero], ["separated", "aliased", "zero"], "")
    if estimated.aliased_with:
        columns["aliased_with"] = [estimated.aliased_with.get(place, "") for place in range(design.size)]
    if not penalised and reference.by_cluster:
        columns["note"] = np.where(estimated.kept, reference.notes(), "")
    return pd.DataFrame(columns)


def tests(
    statistic: str, reference: Reference, values: np.ndarray, errors: np.ndarray, confidence: float
) -> dict[str, np.ndarray]:
    """Statistic, degrees of freedom (by cluster), p-value and confidence limits of estimates with these standard errors."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = values / errors
    margin = reference.quantile(confidence) * errors
    shown = {"df": np.where(np.isfinite(errors), reference.df, np.nan)} if reference.by_cluster else {}
    return {
        statistic: ratio,
        **shown,
        "p_value": reference.p_value(np.abs(ratio)),
        "neg_log10_p": reference.neg_log10_p(np.abs(ratio)),
        "ci_lower": values - margin,
        "ci_upper": values + margin,
    }


def choose_references(design: Design, fitted: Fitted, asked: Mapping[str, str]) -> dict[str, int]:
    """The reference level of each categorical factor, by its number."""
    chosen = {}
    for factor in design.categorical:
        finite = np.zeros(len(factor.levels), bool)
        parts = [part for part in design.parts if factor.name in part.grouping]
        # A factor's own part, if it has one, decides.
        for part in sorted(parts, key=lambda part: len(part.grouping))[:1]:
            numbers = design.levels(part.grouping)[:, part.grouping.index(factor.name)]
            finite[numbers[np.isin(fitted.status[part.where], (FREE, REFERENCE, ALIASED))]] = True
        wanted = asked.get(factor.name, factor.reference)
        if wanted is None:
            chosen[factor.name] = int(np.argmax(finite))
            continue
        chosen[factor.name] = factor.levels.index(wanted)
        if not finite[chosen[factor.name]]:
            raise UserError(
                f"models.{design.model}.reference.{factor.name}: `{wanted}` cannot be the reference level: "
                f"its training responses are all alike, so every difference from it is infinite\n"
                f"  choose another level, or leave the key out"
            )
    return chosen


def contrasts(estimated: Estimates, wanted: Mapping[str, Mapping[str, float]], confidence: float) -> pd.DataFrame:
    """Linear combinations of coefficients.

    Parameters
    ----------
    estimated
        The coefficients.
    wanted
        By the name of a contrast: weights by `term` or `term[level]`.
    confidence
        Of the intervals.

    Returns
    -------
    A row for each contrast. Columns: contrast, estimate, std_error, z or t, df (by cluster), p_value, neg_log10_p, ci_lower,
    ci_upper, note (by cluster: why there is no error or no test). Of a penalised fit: posterior_sd instead of errors and tests,
    or neither of a lasso.

    Raises
    ------
    UserError
        For a coefficient that is not there or has no finite estimate.
    """
    names = [f"{term}[{level}]" if level else term for term, level in estimated.design.coefficients()]
    places = {name: place for place, name in enumerate(names)}
    where = f"models.{estimated.design.model}.contrasts"
    combination = np.zeros((len(wanted), estimated.design.size))
    for row, (name, weights) in enumerate(wanted.items()):
        for coefficient, weight in weights.items():
            if coefficient not in places:
                raise UserError(f"{where}.{name}: no coefficient `{coefficient}`{nearest(coefficient, places)}")
            place = places[coefficient]
            if estimated.separated[place] or estimated.aliased[place]:
                what = "separated" if estimated.separated[place] else "aliased"
                raise UserError(f"{where}.{name}: `{coefficient}` is {what}, so it has no estimate to combine")
            combination[row, place] = weight
    values = combination @ np.where(np.isfinite(estimated.values), estimated.values, 0.0)
    rows = (scipy.sparse.csr_array(combination) @ estimated.transform).tocsr()
    errors = np.sqrt(estimated.fitted.variances(rows).chosen) if len(wanted) else np.zeros(0)
    shown = {"contrast": list(wanted), "estimate": values}
    if estimated.design.penalised:
        return pd.DataFrame(shown | ({"posterior_sd": errors} if np.isfinite(estimated.fitted.dispersion) else {}))
    reference = reference_of(estimated.design, estimated.fitted, rows, estimated.df_residual, fewest=estimated.fewest)
    errors = np.where(reference.unseen, np.nan, errors)
    shown |= {"std_error": errors, **tests(estimated.statistic, reference, values, errors, confidence)}
    return pd.DataFrame(shown | ({"note": reference.notes()} if reference.by_cluster else {}))


def covariance_table(estimated: Estimates) -> pd.DataFrame:
    """The covariance matrix of the coefficients that have a standard error, named like contrasts."""
    names = [f"{term}[{level}]" if level else term for term, level in estimated.design.coefficients()]
    places = np.flatnonzero(estimated.kept)
    kept = [names[place] for place in places]
    return pd.DataFrame(estimated.fitted.covariance(estimated.transform[places]), index=kept, columns=kept)
