"""The table of coefficients, and linear combinations of them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm.design.codings import table_names
from tfglm.design.references import check_contrasts
from tfglm.design.terms import DesignTerm
from tfglm.errors import UserError
from tfglm.formula.names import coefficient_name
from tfglm.formula.terms import THRESHOLD, Covariate
from tfglm.inference.reference import Reference
from tfglm.results.estimates import NOT_IDENTIFIED, Estimates
from tfglm.results.statuses import NOT_CONVERGED


def table(estimated: Estimates, confidence: float, converged: bool = True) -> pd.DataFrame:
    """Return the table of coefficients, on the scale of the data. If an exact fit has not `converged`, the status says so.

    A row for each coefficient except those that a coding leaves out. Columns: class (multinomial), term, level, reference
    ('' for a coded factor), estimate, std_error, classical_std_error (if other errors were requested), z (t for a family
    with unknown dispersion, with clustered errors or random effects), df (with the last two), p_value, neg_log10_p,
    ci_lower, ci_upper, the ratio of the family (odds_ratio, rate_ratio), rows, events (binomial; multinomial: of the class),
    status; aliased_with, if a coefficient is aliased; note (with clusters: why there is no error or no test). A penalised
    fit has posterior_sd instead of errors and tests, or neither if the penalty sets coefficients to zero. Coefficients of
    smooth terms and random effects have no tests.
    """
    design, fitted = estimated.design, estimated.fitted
    penalised = design.penalty.given
    variances = fitted.covariance.variances(estimated.transform)
    errors, classical = (
        np.where(estimated.kept, np.sqrt(np.maximum(variance, 0.0)), np.nan) for variance in variances[:2]
    )
    terms = table_names(design)
    grouping = {
        term.name: () if any(design.categorical_by_name[name].coding for name in term.categorical) else term.categorical
        for term in design.terms
    }
    compared = set(design.unpenalised_terms) - {smooth.term for smooth in design.smooths}
    by_name = {term.name: term for term in design.terms} | {THRESHOLD: DesignTerm(Covariate(THRESHOLD))}
    of_class = {"class": [by_name[term].equation for term, _ in terms]} if design.compares_classes else {}
    columns = {
        **of_class,
        "term": [by_name[term].base for term, _ in terms],
        "level": [level for _, level in terms],
        "reference": [
            ":".join(estimated.levels[name] for name in grouping[term]) if term in compared else "" for term, _ in terms
        ],
        "estimate": estimated.values,
        "std_error": np.full(design.size, np.nan) if penalised else errors,
    }
    if penalised:
        if fitted.covariance.is_known:  # not of a lasso
            columns["posterior_sd"] = classical
    else:
        if design.inference.std_errors != "classical":
            columns["classical_std_error"] = classical
        reference = estimated.distribution(estimated.transform, scipy.sparse.eye_array(design.size, format="csr"))
        columns["std_error"] = errors = np.where(reference.unseen, np.nan, errors)
        tested = tests(estimated.statistic, reference, estimated.values, errors, confidence)
        for name in (estimated.statistic, "p_value", "neg_log10_p"):
            # A single coefficient has the prior of its penalty, with which no test keeps its level.
            tested[name][design.in_smooths] = np.nan
        columns |= tested
    family = design.distribution
    # In a penalised fit a coefficient compares no two classes.
    if family.ratio and not (penalised and design.compares_classes):
        with np.errstate(over="ignore"):  # beyond the largest float64 it is infinite
            columns[family.ratio] = np.exp(estimated.values)
    columns["rows"] = fitted.rows.astype(np.int64)
    if family.counts_events or design.compares_classes:
        events = fitted.responses
        columns["events"] = events.astype(np.int64) if np.all(events == np.round(events)) else events
    zero = (estimated.values == 0) & estimated.kept & penalised
    columns["status"] = np.select(
        [
            *(estimated.separated, estimated.unidentified, estimated.aliased, estimated.at_bound, zero),
            estimated.kept & (not converged),
        ],
        ["separated", NOT_IDENTIFIED, "aliased", "at bound", "zero", NOT_CONVERGED],
        "",
    )
    if estimated.aliased_with:
        columns["aliased_with"] = [estimated.aliased_with.get(place, "") for place in range(design.size)]
    if not penalised and reference.by_cluster:
        columns["note"] = np.where(estimated.kept, reference.notes(), "")
    return pd.DataFrame(columns)[~estimated.left_out].reset_index(drop=True)


def tests(
    statistic: str, reference: Reference, values: np.ndarray, errors: np.ndarray, confidence: float
) -> dict[str, np.ndarray]:
    """Statistic, degrees of freedom (if they vary), p-value and confidence limits of estimates with these standard errors."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = values / errors
    lower, upper = reference.interval(values, errors, confidence)
    shown = {"df": np.where(np.isfinite(errors), reference.df, np.nan)} if reference.varies else {}
    return {
        statistic: ratio,
        **shown,
        "p_value": reference.p_value(values, errors),
        "neg_log10_p": reference.neg_log10_p(values, errors),
        "ci_lower": lower,
        "ci_upper": upper,
    }


def contrasts(estimated: Estimates, wanted: Mapping[str, Mapping[str, float]], confidence: float) -> pd.DataFrame:
    """Linear combinations of coefficients: by the name of a contrast, the weights by `term` or `term[level]`.

    A row for each contrast. Columns: contrast, estimate, std_error, z or t, df (by cluster), p_value, neg_log10_p, ci_lower,
    ci_upper, note (by cluster: why there is no error or no test). Of a penalised fit: posterior_sd instead of errors and
    tests, or neither of a lasso. Raises UserError for a coefficient that is not there or has no finite estimate.
    """
    check_contrasts(estimated.design, wanted)
    table = combinations(estimated, combined(estimated, wanted, "contrasts"), confidence)
    table.insert(0, "contrast", list(wanted))
    return table


def combinations(estimated: Estimates, combination: np.ndarray, confidence: float) -> pd.DataFrame:
    """The columns of `contrasts` from the estimate on, of combinations [combinations, p] of the coefficients of the table."""
    values = combination @ np.where(np.isfinite(estimated.values), estimated.values, 0.0)
    weights = scipy.sparse.csr_array(combination)
    rows = (weights @ estimated.transform).tocsr()
    errors = np.sqrt(estimated.fitted.covariance.variances(rows).chosen) if len(combination) else np.zeros(0)
    shown = {"estimate": values}
    if estimated.design.penalty.given:
        return pd.DataFrame(shown | ({"posterior_sd": errors} if estimated.fitted.covariance.is_known else {}))
    reference = estimated.distribution(rows, weights)
    errors = np.where(reference.unseen, np.nan, errors)
    shown |= {"std_error": errors, **tests(estimated.statistic, reference, values, errors, confidence)}
    return pd.DataFrame(shown | ({"note": reference.notes()} if reference.by_cluster else {}))


def combined(estimated: Estimates, wanted: Mapping[str, Mapping[str, float]], section: str) -> np.ndarray:
    """The weights of linear combinations of the coefficients of a table, by name, [combinations, p]. Raises UserError, which
    names the section of the config, for a coefficient without a finite estimate."""
    places = {coefficient_name(*names): place for place, names in enumerate(table_names(estimated.design))}
    where = f"models.{estimated.design.model}.{section}"
    combination = np.zeros((len(wanted), estimated.design.size))
    for row, (name, weights) in enumerate(wanted.items()):
        for coefficient, weight in weights.items():
            place = places[coefficient]
            if not (estimated.kept | estimated.reference | estimated.at_bound)[place]:
                what = "separated" if estimated.separated[place] else "aliased"
                what = NOT_IDENTIFIED if estimated.unidentified[place] else what
                raise UserError(f"{where}.{name}: `{coefficient}` is {what}, so it has no estimate to combine")
            if estimated.left_out[place]:
                raise UserError(f"{where}.{name}: `{coefficient}` is left out by its coding; write it by the others")
            combination[row, place] = weight
    return combination


def covariance_table(estimated: Estimates) -> pd.DataFrame:
    """The covariance matrix of the coefficients that have a standard error, named like contrasts."""
    names = [coefficient_name(*names) for names in table_names(estimated.design)]
    places = np.flatnonzero(estimated.kept)
    kept = [names[place] for place in places]
    return pd.DataFrame(estimated.fitted.covariance.of(estimated.transform[places]), index=kept, columns=kept)
